"""One dictionary out of many; see ``distinct/unifier.pyx``."""

from typing import final

from arrowipc.errors import UsageError

class IndicesFull(UsageError): ...

@final
class Indices: ...

@final
class TransposeMap: ...

@final
class Unifier: ...
