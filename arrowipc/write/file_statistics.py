"""Writes the statistics of all batches into the footer of a file; `read.file_statistics` describes the form."""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING, Any

from arrowipc import types as at
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.columns.statistics import (
    KEYS,
    MOST_VALUES,
    STATISTICS_KEY,
    entry_document,
    plain_type,
    schema_paths,
    stored_type,
)
from arrowipc.schema import Schema
from arrowipc.write.batch_writer import BatchWriter, BytearraySink, EncodeOptions

if TYPE_CHECKING:
    from arrowipc.columns.column_statistics import Found

__all__ = ["FileStatistics"]

ROWS, NULLS, LOW, LOW_NEAR, HIGH, HIGH_NEAR, NAN = range(len(KEYS))
#: More text than this would crowd the footer; readers refuse an entry of more than twice as many bytes, unpacked.
MOST_BYTES = 8 << 20


class FileStatistics:
    """Collects the statistics of the batches of one file."""

    def __init__(self) -> None:
        self._types: list[at.DataType] = []
        self._values: list[list[Any]] = []
        self._places: dict[str, tuple[int, int | None]] = {}
        self._columns, self._keys, self._offsets = array("i"), array("i"), array("i")
        self._batch_ends, self._entry_ends = array("i", [0]), array("i", [0])
        self._codes = bytearray()
        self._lost = False

    def begin(self, schema: Schema) -> None:
        """Number the columns as Arrow's statistics schema does: in depth-first order, from 0."""
        self._count, self._flag = self._child(at.int64()), self._child(at.bool_())
        for path, (number, type_) in schema_paths(schema).items():
            plain = plain_type(type_)
            self._places[path] = number, None if plain is None else self._child(plain)

    def _child(self, type_: at.DataType) -> int | None:
        """The child of the union that has values of a type; None: it is full."""
        if type_ not in self._types:
            if len(self._types) > 127:
                return None
            self._types.append(type_)
            self._values.append([])
        return self._types.index(type_)

    def add(self, rows: int | None, found: list[Found]) -> None:
        """Note one batch; `rows` is None where nothing is known of it."""
        try:
            if not self._lost:
                self._add(rows, found)
            self._lost |= len(self._keys) > MOST_VALUES
        except MemoryError:
            self._lost = True  # the batch is written all the same

    def _add(self, rows: int | None, found: list[Found]) -> None:
        if rows is not None:
            self._put(ROWS, self._count, rows)
            self._end(-1)
            for path, nulls, low, high, low_exact, high_exact, nan in found:
                number, child = self._places.get(path, (-1, None))
                if number >= 0:
                    self._put(NULLS, self._count, nulls)
                    self._put(LOW if low_exact else LOW_NEAR, child, low)
                    self._put(HIGH if high_exact else HIGH_NEAR, child, high)
                    self._put(NAN, self._flag, nan)
                    self._end(number)
        self._batch_ends.append(len(self._columns))

    def _put(self, key: int, child: int | None, value: Any) -> None:
        if value is not None and child is not None:
            self._keys.append(key)
            self._codes.append(child)
            self._offsets.append(len(self._values[child]))
            self._values[child].append(value)

    def _end(self, column: int) -> None:
        self._columns.append(column)
        self._entry_ends.append(len(self._keys))

    def entry(self, last_block: bytes) -> tuple[tuple[bytes, bytes], ...]:
        """The entry for the metadata of the footer; nothing if it would be very large."""
        if self._lost:
            return ()
        from binascii import b2a_base64
        from zlib import compress

        batch, sink = self._batch(last_block), bytearray()
        writer = BatchWriter(BytearraySink(sink), EncodeOptions())
        writer.write_batch(batch)
        writer.close()
        text = b2a_base64(compress(sink, 1), newline=False)
        return ((STATISTICS_KEY, text),) if len(text) <= MOST_BYTES and len(sink) <= 2 * MOST_BYTES else ()

    def _batch(self, last_block: bytes) -> RecordBatch:
        union = at.dense_union([at.field(str(type_), type_) for type_ in self._types])
        item = at.struct(
            [
                at.field("column", at.int32()),
                at.field("statistics", at.map_(at.dictionary(at.int32(), at.utf8()), union), nullable=False),
            ]
        )
        columns = {number: path for path, (number, _) in self._places.items()}
        document = entry_document(last_block, columns)
        schema = Schema([at.field("statistics", at.list_(item))], {STATISTICS_KEY: document})
        batches, entries, values = len(self._batch_ends) - 1, len(self._columns), len(self._keys)
        numbers = [None if number < 0 else number for number in self._columns]
        nodes = [(batches, 0), (entries, 0), (entries, numbers.count(None)), (entries, 0), (values, 0), (values, 0)]
        buffers: list[Any] = [None, self._batch_ends, None, *_buffers(at.int32(), numbers), None, self._entry_ends]
        buffers += [None, None, self._keys, self._codes, self._offsets]
        nodes.append((values, 0))
        for type_, items in zip(self._types, self._values, strict=True):
            nodes.append((len(items), 0))
            buffers += _buffers(type_, items)
        keys = Array.from_pylist(list(KEYS), at.utf8())
        return RecordBatch.from_buffers(schema, batches, nodes, buffers, dictionaries=[keys], validate="full")


def _buffers(type_: at.DataType, values: list[Any]) -> list[Any]:
    """Validity and buffers of a column of stored values."""
    if isinstance(type_, at.Decimal):
        width = type_.bit_width // 8
        return [None, b"".join([value.to_bytes(width, sys.byteorder, signed=True) for value in values])]
    return Array.from_pylist(values, stored_type(type_)).buffers()
