"""Tables that are built where clients read them: columns to fill in, whose memory a server shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arrowipc.arguments import check_integer
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.datatypes import FixedSizeList
from arrowipc.dissociated.memory.receiving import rounded
from arrowipc.errors import UsageError, not_installed
from arrowipc.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from arrowipc.schema import Schema

__all__ = ["NewTable"]


class NewTable:
    """Columns of fixed width without nulls, as NumPy arrays in the memory of an arena; see `Arena.new_table`.

    ``new["x"]`` is the array of a column, zeros at first, and ``new["x"] = values`` fills it; a FixedSizeList has
    a dimension more.

    Parameters
    ----------
    schema : Schema
    num_rows : int
    room : callable
        ``room(nbytes)`` returns the memory twice: writable, and as the buffer that the table refers to.
    """

    def __init__(self, schema: Schema, num_rows: int, room: Callable[[int], tuple[memoryview, Any]]) -> None:
        try:
            import numpy as np
        except ModuleNotFoundError as error:
            raise not_installed(error) from None
        self.schema = schema
        self.num_rows: int = check_integer("num_rows", num_rows, 0, 1 << 40)
        self._nodes: list[tuple[int, int]] = []
        self._places: list[tuple[int, int] | None] = []  # of the buffers
        self._arrays: dict[str, Any] = {}
        size = 0
        places: list[tuple[str, list[int], Any, int]] = []  # of the columns
        for each in schema.fields:
            if any(each.name == name for name, *_ in places):
                raise UsageError(f"two columns are named {each.name!r}: nobody could fill in the second")
            shape, found = [self.num_rows], each.type
            self._add_node(shape[0])
            while isinstance(found, FixedSizeList):
                shape.append(found.list_size)
                found = found.value_field.type
                self._add_node(int(np.prod(shape, dtype=object)))
            try:
                dtype = Array.from_pylist([], found).to_numpy().dtype
            except UsageError:
                raise UsageError(
                    f"column {each.name!r}: expected a type of fixed width that NumPy has as it is stored, found "
                    f"{each.type}: make its batch in another way, and give it to the server"
                ) from None
            nbytes = self._nodes[-1][0] * dtype.itemsize
            places.append((each.name, shape, dtype, size))
            self._places.append((size, nbytes))
            size += rounded(nbytes)
        writable, self._body = room(size)
        for name, shape, dtype, start in places:
            self._arrays[name] = np.ndarray(shape, dtype, writable, start)

    def _add_node(self, length: int) -> None:
        self._nodes.append((length, 0))
        self._places.append(None)  # validity: no value is null

    def __getitem__(self, name: str) -> Any:
        try:
            return self._arrays[name]
        except KeyError:
            raise UsageError(f"no column {name!r}: there are {', '.join(map(repr, self._arrays))}") from None

    def __setitem__(self, name: str, values: Any) -> None:
        self[name][...] = values

    def finish(self) -> Table:
        """Return the table, whose memory must not change any more: the arrays become read-only."""
        for array in self._arrays.values():
            array.flags.writeable = False
        body = memoryview(self._body)
        buffers = [None if place is None else body[place[0] : sum(place)] for place in self._places]
        batch = RecordBatch.from_buffers(self.schema, self.num_rows, self._nodes, buffers)
        return Table(self.schema, [batch])
