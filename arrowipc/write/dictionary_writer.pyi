"""The dictionaries of one writer; see ``write/dictionary_writer.pyx``."""

from typing import Any, final

class Emission:
    @property
    def id(self) -> int: ...
    @property
    def is_delta(self) -> bool: ...
    @property
    def replaces(self) -> bool: ...

@final
class Brought: ...

@final
class Written: ...

class WrittenDictionaries:
    def __init__(self, plan: Any, file: bool, deltas: bool | None, unify: bool) -> None: ...
