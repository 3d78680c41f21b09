"""Statistics of all batches of a file: from its footer, where one read tells all, else from each batch's metadata.

A writer that was asked for statistics puts one entry into the custom metadata of the footer: the key
``arrowipc:statistics``, and as its value Base64 of zlib's compression of an Arrow IPC stream. The stream has one
batch of one column, ``statistics``: for each batch of the file a list that follows Arrow's statistics schema::

    struct<column: int32, statistics: map<dictionary<int32, utf8>, dense_union<...>>>

Its first item has no column and the rows of the batch, ``ARROW:row_count:exact``; each other one is about a
column, by its number in depth-first order. A list without items says that nothing is known. Beside Arrow's keys,
``arrowipc:has_nan`` is what `ColumnStatistics.has_nan` says, and approximate bounds are bounds for sure. The
metadata of the stream's schema has JSON under ``arrowipc:statistics``: ``columns`` names the columns by dotted
path, ``last_block`` is the file's last batch as the footer stores it, in hexadecimal digits: if it is another
one, the entry came from another file and is not used. Nothing proves what statistics say: readers that believe
false ones skip batches.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from arrowipc import datatypes as at
from arrowipc.arguments import items_of
from arrowipc.columns.column_statistics import collect_listed
from arrowipc.columns.statistics import (
    KEYS,
    STATISTICS_KEY,
    VERSION,
    ColumnStatistics,
    batch_statistics,
    plain_type,
    stored_type,
)
from arrowipc.errors import ArrowIpcError, FormatError, UsageError
from arrowipc.read.decoders import StreamDecoder

if TYPE_CHECKING:
    from arrowipc.columns.array import Array, RecordBatch

__all__ = ["decode_entry", "file_statistics"]

#: A writer leaves out what would be larger.
MOST_BYTES = 32 << 20


def file_statistics(
    reader: Any, columns: Iterable[str] | None = None, batches: Iterable[int] | None = None
) -> list[dict[str, ColumnStatistics] | None]:
    """Read the statistics of the batches of a file, from its footer if they are there.

    Parameters
    ----------
    reader : RecordBatchFileReader, or one of an indexed stream
    columns : names, optional
        By dotted path; default: all.
    batches : iterable of int, optional
        Which batches; default: all.

    Returns
    -------
    list of (dict of str to ColumnStatistics, or None)
        One per batch, as `batch_statistics` returns it. Nothing guarantees that they are true.

    Raises
    ------
    UsageError
        It is no reader of a file.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> with ipc.new_file(sink := bytearray(), statistics=True) as writer:
    ...     for start in (0, 10):
    ...         writer.write({"id": [start, start + 9]})
    >>> with ipc.open_file(sink) as reader:
    ...     [(found["id"].min, found["id"].max) for found in ipc.file_statistics(reader)]
    [(0, 9), (10, 19)]
    """
    count = getattr(reader, "num_record_batches", None)
    if count is None:
        raise UsageError(f"file_statistics: expected a reader of a file, found {type(reader).__name__}")
    numbers = range(count) if batches is None else items_of("batches", batches)
    wanted = None if columns is None else set(items_of("columns", columns))
    # What is left of a torn file has batches only.
    pairs = reader.metadata.pairs if hasattr(reader, "metadata") else ()
    texts = [value for key, value in pairs if key == STATISTICS_KEY]
    if len(texts) == 1 and count:
        found = decode_entry(texts[0], count, struct.pack("<qi4xq", *reader.blocks[-1]), wanted, numbers)
        if found is not None:
            return found
    if hasattr(reader, "_expect"):
        reader._expect(numbers)
    return [_of_batch(reader, number, wanted) for number in numbers]


def _of_batch(reader: Any, number: int, wanted: set[str] | None) -> dict[str, ColumnStatistics] | None:
    try:
        found = batch_statistics(reader.get_batch_metadata(number))
    except FormatError:
        return None  # it is reported when it is read
    if found is None or wanted is None:
        return found
    return {path: each for path, each in found.items() if path in wanted}


def decode_entry(
    text: bytes, count: int, last_block: bytes, wanted: set[str] | None = None, numbers: Iterable[int] | None = None
) -> list[dict[str, ColumnStatistics] | None] | None:
    """The statistics of batches from a footer's entry; None: it is not of this form, or that of another file."""
    from binascii import a2b_base64
    from zlib import decompressobj, error

    try:
        opened = decompressobj()
        data = opened.decompress(a2b_base64(text, strict_mode=True), MOST_BYTES)
        if not opened.eof or opened.unused_data:
            return None
        decoder = StreamDecoder()
        decoder.feed(data, True)
        batch = decoder.next_batch()
        if batch is None or len(batch) != count or decoder.schema is None:
            return None
        document = json.loads(decoder.schema.metadata[STATISTICS_KEY])
        if document["v"] != VERSION or bytes.fromhex(document["last_block"]) != last_block:
            return None
        paths = {int(number): path for number, path in document["columns"].items() if type(path) is str}
        kept = {number: path for number, path in paths.items() if wanted is None or path in wanted}
        return collect_listed(range(count) if numbers is None else numbers, kept, ColumnStatistics, *_lists(batch))
    except (ArrowIpcError, ValueError, KeyError, TypeError, AttributeError, RecursionError, error):
        return None


def _lists(batch: RecordBatch) -> tuple[Any, ...]:
    """The columns of the statistics, flat, as `collect_listed` takes them; what they say of each other is proven."""
    outer = batch.column(0)
    (item,) = outer.children
    column, statistics = item.children
    (entries,) = statistics.children
    key, union = entries.children
    lists, numbers, maps, unions = outer.type, column.type, statistics.type, union.type
    nulls = sum([each.null_count for each in (outer, item, statistics, entries, key, *union.children)])
    if not (
        isinstance(lists, at.List)
        and isinstance(numbers, at.Int)
        and isinstance(maps, at.Map)
        and isinstance(unions, at.Union)
        and unions.mode == "dense"
        and isinstance(key.type, at.Dictionary)
        and key.type.index_type == at.Int(32, True)
        and key.dictionary is not None
        and nulls == 0
    ):
        raise ValueError("not of the statistics schema")
    names = key.dictionary.to_pylist()
    places = [KEYS.index(name) if name in KEYS else len(KEYS) for name in names]
    values: list[list[Any]] = [[] for _ in range(128)]
    for code, child in zip(unions.type_codes, union.children, strict=True):
        values[code] = _values(child)
    return (
        _integers(outer)[: len(outer) + 1],
        column.to_pylist(),
        _integers(statistics),
        _integers(key),
        places,
        bytes(union.buffers()[0] or b""),
        _integers(union),
        values,
    )


def _integers(array: Array) -> list[int]:
    """The second buffer: offsets or indices."""
    return memoryview(array.buffers()[1] or b"").cast("B").cast("i").tolist()


def _values(child: Array) -> list[Any]:
    """The values of a column as bounds are stored: integers for moments and decimals."""
    stored = stored_type(child.type)
    data = memoryview(child.buffers()[-1] or b"").cast("B")
    if isinstance(stored, at.Decimal):
        width = stored.bit_width // 8
        ends = range(width, len(child) * width + 1, width)
        return [int.from_bytes(data[end - width : end], sys.byteorder, signed=True) for end in ends]
    if stored is not child.type:
        return data.cast("i" if stored == at.Int(32, True) else "q").tolist()
    return child.to_pylist() if plain_type(stored) == stored else [None] * len(child)
