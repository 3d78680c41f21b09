"""Statistics of all batches of a file: from its footer, where one read tells all, else from each batch's metadata.

A writer that was asked for statistics puts one entry into the custom metadata of the footer: the key
``arrowipc:statistics``, and as its value Base64 of zlib's compression of an Arrow IPC stream. The stream has one
batch of one column, ``statistics``: for each batch of the file a list that follows Arrow's statistics schema::

    struct<column: int32, statistics: map<dictionary<int32, utf8>, dense_union<...>>>

Its first item has no column and the rows of the batch, ``ARROW:row_count:exact``; each other one is about a
column, by its number in depth-first order. A list without items says that nothing is known. Beside Arrow's keys,
``arrowipc:has_nan`` is what `ColumnStatistics.has_nan` says, and approximate bounds are bounds for sure. The
metadata of the stream's schema has JSON under ``arrowipc:statistics``: ``columns`` names the columns by dotted
path, ``last_block`` is the file's last batch as the footer stores it, in hexadecimal digits: if either is not that of
the file, the entry came from another file and is not used. Nothing proves what statistics say: readers that believe
false ones skip batches.

An entry is metadata: it has at most ``Limits.metadata_bytes`` bytes, unpacked, as many lists as the file has batches,
and no more items than that for each column.
"""

from __future__ import annotations

import operator
import struct
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from arrowipc import datatypes as at
from arrowipc.columns.column_statistics import collect_listed
from arrowipc.columns.statistics import (
    KEYS,
    STATISTICS_KEY,
    ColumnStatistics,
    entry_document,
    mark_of,
    names_of,
    plain_type,
    schema_paths,
    statistics_in,
    stored_type,
)
from arrowipc.errors import ArrowIpcError, FormatError, UnsupportedError, UsageError
from arrowipc.limits import Limits
from arrowipc.read.stream_decoder import StreamDecoder

if TYPE_CHECKING:
    from arrowipc.columns.array import Array
    from arrowipc.columns.record_batch import RecordBatch

__all__ = ["decode_entry", "file_statistics"]

#: Arrow's statistics schema has 20 of them.
MOST_NAMES = 1 << 8
#: Bytes of the entry's schema at most, without what it says of the file: it has 128 types of bounds.
HEAD = 1 << 16


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
        Which batches; negative ones count from the end. Default: all.

    Returns
    -------
    list of (dict of str to ColumnStatistics, or None)
        One per batch, by dotted path. None: it has none, or those of another batch, which a tool copied: of other
        columns, of another number of rows, or of another file. Nothing guarantees that the others are true.

    Raises
    ------
    UsageError
        It is no reader of a file, or an argument is not of the form above.
    IndexError
        The file has fewer batches.

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
    if not hasattr(reader, "described"):
        raise UsageError(f"file_statistics: expected a reader of a file, found {type(reader).__name__}")
    count = reader.num_record_batches
    numbers = range(count) if batches is None else _numbers(reader, batches)
    wanted = None if columns is None else set(names_of(columns))
    try:
        schema = reader.decoder.stored_schema
    except UnsupportedError:
        return [None for _ in numbers]  # it has a column that we do not write: no writer of ours computed statistics
    texts = [value for key, value in reader.metadata.pairs if key == STATISTICS_KEY]
    if len(texts) == 1 and count:
        block = struct.pack("<qi4xq", *reader.decoder.block(count - 1))
        paths = {number: path for path, (number, _) in schema_paths(schema).items()}
        found = decode_entry(texts[0], count, block, paths, wanted, numbers, reader.limits)
        if found is not None:
            return found
    reader.expect(numbers)
    mark = mark_of(schema)
    return [_of_batch(reader, number, mark, wanted) for number in numbers]


def _numbers(reader: Any, batches: Iterable[int]) -> list[int]:
    try:
        given = [operator.index(number) for number in batches]
    except TypeError as error:
        raise UsageError(f"file_statistics(batches=): expected numbers of batches: {error}") from None
    return [reader.index_of(number) for number in given]


def _of_batch(reader: Any, number: int, mark: int, wanted: set[str] | None) -> dict[str, ColumnStatistics] | None:
    try:
        metadata, rows = reader.described(number)
        found = statistics_in(metadata, mark, rows)
    except FormatError:
        return None  # it is reported when it is read
    if found is None or wanted is None:
        return found
    return {path: each for path, each in found.items() if path in wanted}


def decode_entry(
    text: bytes,
    count: int,
    last_block: bytes,
    paths: dict[int, str],
    wanted: set[str] | None = None,
    numbers: Iterable[int] | None = None,
    limits: Limits | None = None,
) -> list[dict[str, ColumnStatistics] | None] | None:
    """The statistics of batches from a footer's entry; None: it is not of this form, or that of another file.

    `count`, `last_block` and `paths`, the columns by their numbers, are those of the file that the entry is in.
    """
    from binascii import a2b_base64
    from zlib import decompressobj, error

    limits = limits or Limits()
    most = max(limits.metadata_bytes, 1)
    try:
        opened = decompressobj()
        data = opened.decompress(a2b_base64(text, strict_mode=True), most)
        if not opened.eof or opened.unused_data:
            return None
        document = entry_document(last_block, paths)
        bounds = {"metadata_bytes": len(document) + HEAD, "decompressed_bytes": most, "dictionary_bytes": most}
        bounds = {name: min(bound, getattr(limits, name)) for name, bound in bounds.items()}
        decoder = StreamDecoder(limits=limits.__replace__(**bounds, overlap_bytes=0))
        decoder.feed(data, True)
        batch = decoder.next_batch()
        if batch is None or len(batch) != count or decoder.schema is None:
            return None
        if decoder.schema.metadata[STATISTICS_KEY] != document:
            return None
        kept = {number: path for number, path in paths.items() if wanted is None or path in wanted}
        lists = _lists(batch, count * (1 + len(paths)))
        return collect_listed(range(count) if numbers is None else numbers, kept, ColumnStatistics, *lists)
    except (ArrowIpcError, ValueError, KeyError, TypeError, AttributeError, RecursionError, error):
        return None


def _lists(batch: RecordBatch, most_items: int) -> tuple[Any, ...]:
    """The columns of the statistics, flat, as `collect_listed` takes them; what they say of each other is proven.

    No column may have more values than something refers to: some types have values without bytes.
    """
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
        and key.type == at.Dictionary(at.Int(32, True), at.Utf8())
        and key.dictionary is not None
        and nulls == 0
        and len(item) <= most_items
        and len(entries) <= len(item) * len(KEYS)
        and sum(map(len, union.children)) <= len(entries)
        and len(key.dictionary) <= MOST_NAMES
    ):
        raise ValueError("not of the statistics schema")
    names = key.dictionary.to_pylist()
    places = [KEYS.index(name) if name in KEYS else len(KEYS) for name in names]
    values: list[list[Any]] = [[] for _ in range(128)]
    for code, child in zip(unions.type_codes, union.children, strict=True):
        values[code] = _values(child)
    return (
        _integers(outer, len(outer) + 1),
        column.to_pylist(),
        _integers(statistics, len(statistics) + 1),
        _integers(key, len(key)),
        places,
        bytes(union.buffers()[0] or b""),
        _integers(union, len(union)),
        values,
    )


def _integers(array: Array, count: int) -> list[int]:
    """The second buffer: offsets or indices."""
    return memoryview(array.buffers()[1] or b"").cast("B")[: 4 * count].cast("i").tolist()


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
