"""Pickles of batches, arrays, messages: exactly their rows, in buffers that protocol 5 passes out of band.

A pickle contains the arguments of :meth:`RecordBatch.from_buffers`, which validates them like a message: nothing in a
pickle is trusted. If a dictionary is longer than the slice that uses it, only the values in use are pickled.
"""

from __future__ import annotations

from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any

from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.columns.truncate import compact
from arrowipc.datatypes import BinaryView, Dictionary, Utf8View
from arrowipc.decode.framing import message_of
from arrowipc.schemas import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from arrowipc.decode.framing import Message

    Reduced = tuple[Callable[..., Any], tuple[Any, ...]]

VIEWS = (Utf8View, BinaryView)


def reduce_batch(batch: RecordBatch, protocol: int) -> Reduced:
    """Return the result of `RecordBatch.__reduce_ex__`: nodes and buffers in pre-order, compacted to begin at row 0."""
    nodes: list[tuple[int, int]] = []
    variadic: list[int] = []
    buffers: list[Any] = []
    dictionaries: list[Array | None] = []
    # Dictionary id -> for each field with it: position in `dictionaries`, position of the indices in `buffers`, array.
    encoded: dict[object, list[tuple[int, int, Array]]] = {}
    schema = batch.schema  # made before the columns, so that their fields are the schema's own objects
    waiting = compact(batch).columns[::-1]
    while waiting:
        array = waiting.pop()
        kind, found = array.type, array.buffers()
        if isinstance(kind, VIEWS):
            variadic.append(len(found) - 2)
        if isinstance(kind, Dictionary):
            fields = encoded.setdefault(object() if kind.dictionary_id is None else kind.dictionary_id, [])
            fields.append((len(dictionaries), len(buffers) + 1, array))
            dictionaries.append(None)
        nodes.append((len(array), array.null_count))
        buffers += [each if each is None else _stored(each, protocol) for each in found]
        waiting += array.children[::-1]
    for fields in encoded.values():
        _, at, array = fields[0]
        values = array.dictionary
        if len(fields) == 1 and values is not None and len(values) > len(array):
            values, indices = _in_use(array, values, array.buffers()[1])
            buffers[at] = _stored(indices, protocol)
        for place, _, _ in fields:
            dictionaries[place] = values
    metadata = batch.custom_metadata.pairs
    return _batch, (schema, batch.num_rows, nodes, buffers, variadic, dictionaries, metadata)


def reduce_array(array: Array, protocol: int) -> Reduced:
    """Return the result of `Array.__reduce_ex__`: the one column of a batch."""
    field = array.field
    return _column, (RecordBatch.from_pydict({field.name: array}, Schema([field])),)


def reduce_message(message: Message, protocol: int) -> Reduced:
    """Return the result of `Message.__reduce_ex__`."""
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


def _in_use(array: Array, values: Array, indices: Any) -> tuple[Array, Any]:
    """Return the dictionary values that an array uses, and its indices into them; without NumPy, all values."""
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
