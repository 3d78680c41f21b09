"""Minimum, maximum and null count of columns; see ``columns/column_statistics.pyx``."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from arrowipc._core import Columns
from arrowipc.columns.record_batch import RecordBatch

_Bound: TypeAlias = bool | int | float | str | bytes | None
Found: TypeAlias = tuple[str, int | None, _Bound, _Bound, bool, bool, bool | None]

LONGEST: int

_Kind = TypeVar("_Kind")

class Collector:
    def __init__(self, columns: Iterable[str] | None = None) -> None: ...
    @property
    def columns(self) -> frozenset[str] | None: ...
    def collect(self, columns: Columns, start: int, count: int) -> list[Found]: ...

def next_text(start: str) -> str | None: ...
def next_bytes(start: bytes) -> bytes | None: ...
def value_hashes(column: RecordBatch) -> tuple[bytes, bytes]: ...
def collect_listed(
    numbers: Iterable[int],
    paths: Mapping[int, str],
    kind: type[_Kind],
    batch_ends: list[int],
    columns: list[int | None],
    entry_ends: list[int],
    names: list[int],
    places: list[int],
    codes: bytes,
    offsets: list[int],
    values: list[list[Any]],
) -> list[dict[str, _Kind] | None]: ...
