"""Minimum, maximum and null count of columns; see ``filters/column_statistics.pyx``."""

from collections.abc import Iterable
from typing import TypeAlias

from arrowipc._core import Columns

_Bound: TypeAlias = bool | int | float | str | bytes | None
Found: TypeAlias = tuple[str, int | None, _Bound, _Bound, bool, bool, bool | None]

class Collector:
    def __init__(self, columns: Iterable[str] | None = None) -> None: ...
    columns: frozenset[str] | None
    def collect(self, columns: Columns, start: int, count: int) -> list[Found]: ...
