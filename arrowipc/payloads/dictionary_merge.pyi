"""The dictionaries of many payloads; for compiled modules."""

from typing import final

from arrowipc.errors import UsageError

class IndicesFull(UsageError): ...

@final
class Made: ...
@final
class Merged: ...

@final
class Merger: ...
