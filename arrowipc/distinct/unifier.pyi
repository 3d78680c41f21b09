"""One dictionary out of many; see ``distinct/unifier.pyx``."""

from typing import Any, final

from arrowipc.errors import UsageError

class IndicesFull(UsageError): ...

@final
class Indices: ...

@final
class TransposeMap: ...

@final
class Unifier: ...

def unify(pieces: tuple[Any, ...], ordinals: set[int]) -> tuple[tuple[Any, ...], dict[int, Any]]: ...
