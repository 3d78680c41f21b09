"""Statistics of all batches of a file: in its footer, from which one read gets all, else in each batch's metadata.

Statistics are not verified: with false ones, readers skip batches. The entry of a footer is unpacked only up to
the size that the columns and batches of the file may need, and up to ``Limits.metadata_bytes``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import batch_number, items_of
from arrowipc.errors import FormatError, UnsupportedError, UsageError
from arrowipc.filters.statistics import (
    STATISTICS_KEY,
    VERSION,
    ColumnStatistics,
    document_of,
    listed,
    mark_of,
    names_of,
    paths_of,
    statistics_in,
)
from arrowipc.limits import Limits

if TYPE_CHECKING:
    from arrowipc.arguments import KeyValueMetadata
    from arrowipc.schemas import Schema

#: Most bytes of an entry's JSON for one batch and column, and for the file.
MOST_OF_ONE = 1 << 10
HEAD = 1 << 10
#: Keys under which polars reads the cumulated rows of all batches (and writes them on request), for slices and counts.
POLARS_KEY, POLARS_ENDS = b"__POLARS_IPC_METADATA", "record_batch_cum_len"
#: Most values in a footer; with more, they are only in the batches' own metadata.
MOST_VALUES = 1 << 20
#: Most bytes of the packed entry; unpacked, it may have twice as many.
MOST_BYTES = 8 << 20


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
        One per batch, by dotted path. None: the batch has no statistics, or a tool copied those of another batch: of
        other columns, of another number of rows, or of another file. Nothing guarantees that statistics are true.
        An IndexError if the file has fewer batches.

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
    numbers = range(count) if batches is None else [batch_number(i, count) for i in items_of("batches", batches)]
    wanted = None if columns is None else set(names_of(columns))
    try:
        schema = reader.decoder.stored_schema
    except UnsupportedError:
        return [None for _ in numbers]  # a type that arrowipc cannot write: the file has no statistics of it
    texts = [value for key, value in reader.metadata.pairs if key == STATISTICS_KEY]
    if len(texts) == 1 and count:
        block = struct.pack("<qi4xq", *reader.decoder.block(count - 1))
        found = decode_entry(texts[0], count, block, schema, wanted, numbers, reader.limits)
        if found is not None:
            return found
    reader.expect(numbers)
    mark = mark_of(schema)
    return [_of_batch(reader, number, mark, wanted) for number in numbers]


def _of_batch(reader: Any, number: int, mark: int, wanted: set[str] | None) -> dict[str, ColumnStatistics] | None:
    try:
        metadata, rows = reader.described(number)
        found = statistics_in(metadata, mark, rows)
    except FormatError:
        return None  # the error is raised when the batch is read
    if found is None or wanted is None:
        return found
    return {path: each for path, each in found.items() if path in wanted}


def decode_entry(
    text: bytes,
    count: int,
    last_block: bytes,
    schema: Schema,
    wanted: set[str] | None = None,
    numbers: Iterable[int] | None = None,
    limits: Limits | None = None,
) -> list[dict[str, ColumnStatistics] | None] | None:
    """Return the statistics of batches from a footer's entry; None if the entry is invalid or of another file.

    `count` (of batches), `last_block` and `schema` are those of the file that contains the entry.
    """
    from binascii import a2b_base64
    from zlib import decompressobj, error

    paths = paths_of(schema)
    most = HEAD + 6 * sum(map(len, paths)) + MOST_OF_ONE * count * (1 + len(paths))
    most = max(min(most, (limits or Limits()).metadata_bytes), 1)
    try:
        opened = decompressobj()
        data = opened.decompress(a2b_base64(text, strict_mode=True), most)
        if not opened.eof or opened.unused_data:
            return None
    except (ValueError, error):
        return None
    document = document_of(data, mark_of(schema))
    if document is None or document.get("last_block") != last_block.hex():
        return None
    rows, columns = document.get("rows"), document.get("columns")
    if not isinstance(rows, list) or len(rows) != count or not isinstance(columns, dict):
        return None
    if not all(each is None or (type(each) is int and each >= 0) for each in rows):
        return None
    chosen = list(range(count) if numbers is None else numbers)
    out: list[dict[str, ColumnStatistics] | None] = [None if rows[number] is None else {} for number in chosen]
    known = [each or 0 for each in rows]
    for path, column in columns.items():
        told = listed(column, known) if wanted is None or path in wanted else []
        for number, found in zip(chosen, out, strict=True) if told else ():
            each = told[number]
            # Leave out columns without statistics in this batch.
            if found is not None and (each.null_count, each.min, each.max, each.has_nan) != (None,) * 4:
                found[path] = each
    return out


def stated_lengths(metadata: KeyValueMetadata, count: int) -> list[int] | None:
    """The rows of each of `count` batches, as polars states them in a footer; None if they are missing or invalid."""
    try:
        ends = json.loads(metadata.get(POLARS_KEY, b""))[POLARS_ENDS]
        lengths = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        if len(lengths) == count and all(type(rows) is int and 0 <= rows < 1 << 63 for rows in lengths):
            return lengths
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    return None


# -- writing -------------------------------------------------------------------------------------------------


class FileStatistics:
    """Collects the statistics of the batches of one file."""

    def __init__(self) -> None:
        self._mark = self._values = 0
        self._rows: list[int | None] = []
        self._columns: dict[str, dict[str, Any]] = {}
        self._lost = False
        #: Rows up to the end of each batch; None: one is missing.
        self._ends: list[int] | None = []

    def begin(self, schema: Schema) -> None:
        """Set the columns of the file."""
        self._mark = mark_of(schema)

    def add(self, rows: int | None, entries: dict[str, dict[str, Any]], length: int | None = None) -> None:
        """Add the statistics of one batch; `rows` is None if only its `length` is known."""
        try:
            if self._ends is not None:
                self._ends.append((self._ends or [0])[-1] + ((rows or 0) if length is None else length))
            if not self._lost:
                self._add(rows, entries)
            self._lost |= self._values > MOST_VALUES
        except MemoryError:
            self._ends, self._lost = None, True  # the batch is written nevertheless

    def _add(self, rows: int | None, entries: dict[str, dict[str, Any]]) -> None:
        for path, entry in entries.items():
            column = self._columns.setdefault(path, {})
            for name, value in entry.items():
                if name == "kind":
                    column[name] = value
                else:
                    self._filled(column.setdefault(name, [])).append(value)
            self._values += len(entry)
        self._rows.append(rows)

    def _filled(self, values: list[Any]) -> list[Any]:
        """Extend a list with None to one entry for each batch so far; return it."""
        values += [None] * (len(self._rows) - len(values))
        return values

    def entry(self, last_block: bytes) -> tuple[tuple[bytes, bytes], ...]:
        """Return the entries for the footer's metadata, arrowipc's and polars', unless they are too large."""
        found = []
        if not self._lost:
            from binascii import b2a_base64
            from zlib import compress

            for column in self._columns.values():
                for name, values in column.items():
                    if name != "kind":
                        self._filled(values)
            document: dict[str, Any] = {"v": VERSION, "last_block": last_block.hex(), "names": self._mark}
            document |= {"rows": self._rows, "columns": self._columns}
            data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
            text = b2a_base64(compress(data, 1), newline=False)
            if len(text) <= MOST_BYTES and len(data) <= 2 * MOST_BYTES:
                found.append((STATISTICS_KEY, text))
        if self._ends is not None:
            # The cumulated rows of all batches in polars' form, so that polars need not read each batch's metadata.
            ends = json.dumps({POLARS_ENDS: self._ends}, separators=(",", ":")).encode()
            if len(ends) <= MOST_BYTES:
                found.append((POLARS_KEY, ends))
        return tuple(found)
