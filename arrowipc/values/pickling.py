"""Pickles of batches, arrays, messages: exactly their rows, in buffers that protocol 5 passes out of band.

A pickle holds what :meth:`RecordBatch.from_buffers` takes, which proves it as it proves a message: nothing that a
pickle of ours holds is believed. Of dictionaries that are longer than a slice, the values in use go along.
"""

from __future__ import annotations

from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any

from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.columns.truncate import compact
from arrowipc.datatypes import BinaryView, Dictionary, Utf8View
from arrowipc.read.framing import message_of
from arrowipc.schemas import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from arrowipc.read.framing import Message

    Reduced = tuple[Callable[..., Any], tuple[Any, ...]]


def reduce_batch(batch: RecordBatch, protocol: int) -> Reduced:
    """What `RecordBatch.__reduce_ex__` returns."""
    parts = _Parts(compact(batch), protocol)
    return _batch, (
        batch.schema,
        batch.num_rows,
        parts.nodes,
        parts.buffers,
        parts.variadic,
        parts.dictionaries,
        batch.custom_metadata.pairs,
    )


def reduce_array(array: Array, protocol: int) -> Reduced:
    """What `Array.__reduce_ex__` returns: the one column of a batch."""
    field = array.field
    return _column, (RecordBatch.from_pydict({field.name: array}, Schema([field])),)


def reduce_message(message: Message, protocol: int) -> Reduced:
    """What `Message.__reduce_ex__` returns."""
    return message_of, (bytes(message.metadata), _stored(message.body, protocol))


def _batch(schema: Schema, length: int, *parts: Any) -> RecordBatch:
    nodes, buffers, variadic, dictionaries, metadata = parts
    return RecordBatch.from_buffers(
        schema,
        length,
        nodes,
        buffers,
        variadic=variadic,
        dictionaries=dictionaries,
        custom_metadata=metadata,
        validate="full",
    )


def _column(batch: RecordBatch) -> Array:
    return batch.column(0)


def _stored(buffer: Any, protocol: int) -> PickleBuffer | bytes:
    return PickleBuffer(buffer) if protocol >= 5 else bytes(buffer)


class _Parts:
    """A batch taken apart, field by field in pre-order."""

    def __init__(self, batch: RecordBatch, protocol: int) -> None:
        self.nodes: list[tuple[int, int]] = []
        self.buffers: list[Any] = []
        self.variadic: list[int] = []
        self.dictionaries: list[Array | None] = []
        # Dictionary id -> the fields that have it: where their dictionary goes, and their indices.
        self._encoded: dict[object, list[tuple[int, int, Array]]] = {}
        for column in batch.columns:
            self._add(column)
        for fields in self._encoded.values():
            self._add_values(fields)
        self.buffers = [each if each is None else _stored(each, protocol) for each in self.buffers]

    def _add(self, array: Array) -> None:
        """Take a field and all below it; its elements begin at 0."""
        found = array.buffers()
        kind = array.type
        if isinstance(kind, Utf8View | BinaryView):
            self.variadic.append(len(found) - 2)
        if isinstance(kind, Dictionary):
            fields = self._encoded.setdefault(object() if kind.id is None else kind.id, [])
            fields.append((len(self.dictionaries), len(self.buffers) + 1, array))
            self.dictionaries.append(None)
        self.nodes.append((len(array), array.null_count))
        self.buffers += found
        for child in array.children:
            self._add(child)

    def _add_values(self, fields: list[tuple[int, int, Array]]) -> None:
        """Take the dictionary that fields share; one that is longer than its only field is cut to what is in use."""
        values = fields[0][2].dictionary
        if len(fields) == 1 and values is not None and len(values) > len(fields[0][2]):
            _, at, array = fields[0]
            values, self.buffers[at] = _in_use(array, values, self.buffers[at])
        for place, _, _ in fields:
            self.dictionaries[place] = values


def _in_use(array: Array, values: Array, indices: Any) -> tuple[Array, Any]:
    """The values that an encoded array uses, and indices of these; without NumPy all values."""
    try:
        import numpy as np
    except ModuleNotFoundError:
        return values, indices
    kind: Any = array.type
    dtype = np.dtype(f"{'i' if kind.index_type.signed else 'u'}{kind.index_type.bit_width // 8}")
    valid = np.array(array.is_valid(), bool)
    used, places = np.unique(np.frombuffer(indices, dtype, len(array))[valid], return_inverse=True)
    moved = np.zeros(len(array), dtype)
    moved[valid] = places
    return values.take(used), moved.data.cast("B")
