"""The cells of payload columns; for compiled modules, which also hand these generators to each other."""

from collections.abc import Iterator, Sequence
from typing import Any, final

@final
class Cells: ...

def cells_of_stream(column: Any, start: int) -> Iterator[Cells]: ...
def cells_of_objects(column: Sequence[Any], start: int) -> Iterator[Cells]: ...
