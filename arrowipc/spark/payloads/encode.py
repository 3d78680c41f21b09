"""Encodes the rows of a data frame as a binary column whose every cell is an Arrow IPC stream."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
from pyspark.sql import types as st

import arrowipc
from arrowipc import RecordBatch, types as at
from arrowipc.errors import LimitError, UsageError
from arrowipc.payloads.group_runs import runs_of
from arrowipc.schemas import Field, Schema
from arrowipc.spark.payloads.decode import map_in_arrow, quoted
from arrowipc.spark.payloads.options import EncodeKeywords, EncodeOptions, names_of
from arrowipc.spark.read.convert import WithSchema
from arrowipc.spark.shipping import check_frame
from arrowipc.spark.types import arrow_schema_of, changed, find_name
from arrowipc.types import as_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Most bytes of rows held for one payload with rows_per_payload; a cell of Spark has at most 2 GiB.
MOST_PAYLOAD_BYTES = 1 << 30
# About the bytes that a payload has besides its values, and those for each of its columns.
PAYLOAD_OVERHEAD = 300
COLUMN_OVERHEAD = 150


def encode_payloads(df: "DataFrame", **options: Unpack[EncodeKeywords]) -> "DataFrame":
    """Turn rows into a binary column of Arrow IPC streams, the inverse of :func:`decode_payloads`.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Any rows; streaming data frames work too. Timestamps are encoded in UTC, whatever the session's time zone.
    **options
        Those of :class:`EncodeOptions`.

    Returns
    -------
    pyspark.sql.DataFrame
        The key columns, if any, and the payloads.

    Raises
    ------
    UsageError
        For missing columns, missing or wrong sizes, or types that no payload can hold.

    Notes
    -----
    `group_by` moves the rows of a group into one partition and sorts it there, so a group has one payload,
    whatever the number of partitions. Structured Streaming cannot sort: there only the rows that arrive in Python
    together (at most ``spark.sql.execution.arrow.maxRecordsPerBatch``) are sorted, per micro-batch
    and partition, and a group may have several payloads. The order of rows in a group is not kept.

    Examples
    --------
    >>> encode_payloads(flights, rows_per_payload=1000)                                  # doctest: +SKIP
    >>> encode_payloads(flights, group_by=["origin", "day"], compression="zstd")         # doctest: +SKIP
    """
    checked = EncodeOptions.of_call(encode_payloads, options)
    keys = checked.keys
    payload_schema(df, group_by=keys, keep_keys=checked.keep_keys, dictionary_columns=checked.dictionary_columns)
    source, sort = df, False
    if keys:
        fields = [df.schema.fields[find_name(name, df.schema.names, "the data frame")] for name in keys]
        source = df.repartition(*(quoted(field.name) for field in fields))
        sort = df.isStreaming
        if sort and any(isinstance(field.dataType, _NESTED) for field in fields):
            raise UsageError("group_by: the rows of a streaming data frame cannot be grouped by nested columns")
        if not sort:
            source = source.sortWithinPartitions(*(quoted(field.name) for field in fields))

    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _encoded(_sorted(batches, keys) if sort else batches, checked)

    return map_in_arrow(source, encode, _output(df.schema, keys, checked.column))


def encode_payload_batches(
    batches: Iterable[pa.RecordBatch], **options: Unpack[EncodeKeywords]
) -> Iterator[pa.RecordBatch]:
    """Encode an iterator of batches of one schema, for use in a ``mapInArrow`` function of your own.

    `group_by` makes one payload of consecutive rows with equal keys, so sort first if all equal keys must be together.
    Otherwise parameters, results and errors are those of :func:`encode_payloads`; a LimitError is raised
    if `rows_per_payload` rows take more than 1 GiB.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batches = [pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": [3]})]
    >>> [batch.num_rows for batch in encode_payload_batches(batches, rows_per_payload=3)]
    [1]
    """
    return _encoded(batches, EncodeOptions.of_call(encode_payload_batches, options))


def payload_schema(
    df: "DataFrame",
    *,
    group_by: str | Sequence[str] | None = None,
    keep_keys: bool = False,
    dictionary_columns: str | Sequence[str] = (),
) -> Schema:
    """The Arrow schema of the payloads that :func:`encode_payloads` makes of a data frame, with the same arguments.

    ``decode_payloads(schema=)`` needs it for payloads without one. A UsageError names a column whose type no payload
    can hold.

    >>> bare = encode_payloads(df, rows_per_payload=100, with_schema=False)              # doctest: +SKIP
    >>> decode_payloads(bare, "payload", schema=payload_schema(df))                      # doctest: +SKIP
    """
    check_frame(df)
    large = df.sparkSession.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
    schema = arrow_schema_of(df.schema, variants=False)
    if large:
        schema = pa.schema(Schema([_large(field) for field in as_schema(schema)]))
    split = _Split(schema, names_of(group_by), keep_keys, dictionary_columns)
    return as_schema(split.payload_schema)


_NESTED = (st.ArrayType, st.MapType, st.StructType)


def _output(source: st.StructType, keys: Sequence[str], column: str) -> st.StructType:
    fields = [source.fields[find_name(name, source.names, "the data frame")] for name in keys]
    _check_name(column, [field.name for field in fields])
    return st.StructType([*fields, st.StructField(column, st.BinaryType(), False)])


def _check_name(column: str, keys: list[str]) -> None:
    if column.lower() in map(str.lower, keys):
        raise UsageError(f"column: there is a key column {column!r} already; choose another name")


def _sorted(batches: Iterable[pa.RecordBatch], keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Sort each batch by its keys."""
    for batch in batches:
        names = [batch.schema.names[find_name(key, batch.schema.names, "the batch")] for key in keys]
        yield batch.sort_by([(name, "ascending") for name in names])


def _encoded(batches: Iterable[pa.RecordBatch], options: EncodeOptions) -> Iterator[pa.RecordBatch]:
    encoder: PayloadEncoder | None = None
    for batch in batches:
        if encoder is None:
            encoder = PayloadEncoder(batch.schema, options)
        yield from encoder.add(batch)
    if encoder is not None:
        yield from encoder.flush()


class _Split:
    """The columns of payloads, the key columns, and the schemas of rows and payloads."""

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], keep_keys: bool, dictionary_columns: str | Sequence[str]
    ) -> None:
        names = schema.names
        self.keys = [find_name(name, names, "the data frame") for name in keys]
        self.columns = [i for i in range(len(names)) if keep_keys or i not in self.keys]
        if not self.columns:
            raise UsageError("all columns are keys, so the payloads would be empty; pass keep_keys=True")
        self.rows = pa.schema(Schema([in_utc(field) for field in as_schema(schema)]))
        wanted = {find_name(name, names, "the data frame") for name in names_of(dictionary_columns)}
        for index in sorted(wanted):
            if index not in self.columns:
                raise UsageError(f"dictionary_columns: column {names[index]!r} is a key and not in the payloads")
            if schema.field(index).type.num_fields or pa.types.is_null(schema.field(index).type):
                raise UsageError(
                    f"dictionary_columns: column {names[index]!r} has the type {schema.field(index).type}, "
                    "whose values cannot make up a dictionary"
                )
        self.dictionaries = [position for position, index in enumerate(self.columns) if index in wanted]
        self.payload_schema = pa.schema([self.rows.field(index) for index in self.columns])
        for position in self.dictionaries:
            field = self.payload_schema.field(position)
            self.payload_schema = self.payload_schema.set(
                position, field.with_type(pa.dictionary(pa.int32(), field.type))
            )


def in_utc(field: Field) -> Field:
    """Return the field with UTC in place of the session's time zone: the instants are the same."""
    if isinstance(field.type, at.Timestamp) and field.type.timezone:
        return _plain(field, at.Timestamp(field.type.unit, "UTC"))
    return _plain(field, changed(field.type, in_utc))


def _large(field: Field) -> Field:
    """Return the field in the type in which Spark passes it to Python with useLargeVarTypes."""
    wide: at.DataType | None = {at.Utf8: at.LargeUtf8(), at.Binary: at.LargeBinary()}.get(type(field.type))
    return _plain(field, wide or changed(field.type, _large))


def _plain(field: Field, type_: at.DataType) -> Field:
    """Return the field with another type, and without metadata, which are Spark's own."""
    return Field(field.name, type_, field.nullable or isinstance(type_, at.Null))


@dataclass(slots=True)
class _Rows:
    """Some rows: the columns of payloads, the key columns, and about how many bytes a row takes."""

    rows: RecordBatch
    keys: RecordBatch | None
    row_bytes: float

    def __len__(self) -> int:
        return len(self.rows)

    def slice(self, start: int, stop: int) -> "_Rows":
        keys = None if self.keys is None else self.keys.slice(start, stop - start)
        return _Rows(self.rows.slice(start, stop - start), keys, self.row_bytes)


class PayloadEncoder:
    """Cuts the rows of one Spark task into payloads: groups of rows that may span batches, all of one schema."""

    def __init__(self, schema: pa.Schema, options: EncodeOptions) -> None:
        self._options = options
        self._schema = schema
        self._split = _Split(schema, options.keys, options.keep_keys, options.dictionary_columns)
        names = [schema.names[index] for index in self._split.keys]
        _check_name(options.column, names)
        self._names = [*names, options.column]
        self._overhead = PAYLOAD_OVERHEAD + COLUMN_OVERHEAD * _count_fields(self._split.payload_schema)
        # The rows of the incomplete group, which the next batch may continue.
        self._pending: list[_Rows] = []
        self._pending_rows = 0
        self._pending_bytes = 0.0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add the rows of a batch, and yield the payloads that are complete."""
        if not batch.num_rows:
            return
        if not batch.schema.equals(self._schema):
            raise UsageError(f"the schema of the batches changes from {self._schema} to {batch.schema}")
        rows = self._take(batch)
        bounds, first_keys = [0, len(rows)], None
        if rows.keys is not None:
            bounds, first_keys = runs_of(rows.keys, range(rows.keys.num_columns))
        begin = 0
        if self._pending:
            if first_keys is None or self._continued_by(first_keys):
                yield from self._extend(rows.slice(0, bounds[1]))
                begin = 1
            if len(bounds) - begin > 1:
                yield from self.flush()
        if len(bounds) - begin > 1:
            yield from self._encode(rows, self._cut(bounds[begin:-1], rows))
            yield from self._extend(rows.slice(bounds[-2], bounds[-1]))

    def _take(self, batch: pa.RecordBatch) -> _Rows:
        split = self._split
        renamed = pa.record_batch(WithSchema(batch, split.rows)) if batch.schema != split.rows else batch
        payload = RecordBatch.from_arrow(renamed.select(split.columns))
        keys = RecordBatch.from_arrow(renamed.select(split.keys)) if split.keys else None
        return _Rows(payload, keys, batch.nbytes / batch.num_rows)

    def _continued_by(self, keys: RecordBatch) -> bool:
        """Whether the first of some keys is the key of the incomplete group."""
        before = self._pending[-1].keys
        assert before is not None
        both = arrowipc.concat_batches([before.slice(before.num_rows - 1), keys.slice(0, 1)])
        bounds, _ = runs_of(both, range(both.num_columns))
        return len(bounds) == 2

    def _limit(self, rows: _Rows) -> int:
        """Return the most rows of one payload."""
        options = self._options
        most: int = options.rows_per_payload or 1 << 62
        if options.group_by:
            most = min(most, max(1, int(options.bytes_per_payload / max(rows.row_bytes, 1.0))))
        return most

    def _cut(self, bounds: list[int], rows: _Rows) -> Any:
        """Return the offsets of the payloads of complete groups; groups above the limit are cut."""
        limit = self._limit(rows)
        offsets = np.array(bounds, np.int64)
        if len(offsets) > 1 and (np.diff(offsets) > limit).any():
            pieces = [np.arange(first, last, limit) for first, last in pairwise(bounds)]
            offsets = np.concatenate([*pieces, offsets[-1:]])
        return offsets

    def _extend(self, rows: _Rows) -> Iterator[pa.RecordBatch]:
        """Add rows to the incomplete group, and encode the payloads that are full."""
        limit = self._limit(rows)
        if self._pending_rows and self._pending_rows + len(rows) >= limit:
            missing = max(limit - self._pending_rows, 0)
            self._hold(rows.slice(0, missing))
            rows = rows.slice(missing, len(rows))
            yield from self.flush()
        whole = len(rows) // limit * limit
        if whole:
            yield from self._encode(rows, np.arange(0, whole + 1, limit))
        if whole < len(rows):
            self._hold(rows.slice(whole, len(rows)))
        if self._options.group_by and self._pending_bytes >= self._options.bytes_per_payload:
            yield from self.flush()

    def _hold(self, rows: _Rows) -> None:
        if not len(rows):
            return
        self._pending.append(rows)
        self._pending_rows += len(rows)
        self._pending_bytes += len(rows) * rows.row_bytes
        if not self._options.group_by and self._pending_bytes > MOST_PAYLOAD_BYTES:
            raise LimitError(
                f"{self._pending_rows:,} rows take more than {MOST_PAYLOAD_BYTES >> 30} GiB, and a payload "
                f"is to have {self._options.rows_per_payload:,}; lower rows_per_payload"
            )

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Encode the incomplete group as one payload."""
        held, self._pending = self._pending, []
        size, self._pending_bytes, self._pending_rows = self._pending_bytes, 0.0, 0
        if not held:
            return
        rows = held[0]
        if len(held) > 1:
            joined = arrowipc.concat_batches([each.rows for each in held])
            keys = None if rows.keys is None else rows.keys.slice(0, 1)
            rows = _Rows(joined, keys, size / joined.num_rows)
        yield from self._encode(rows, np.array([0, len(rows)]))

    def _encode(self, rows: _Rows, offsets: Any) -> Iterator[pa.RecordBatch]:
        """Encode the payloads between offsets, as many at a time as a batch may hold."""
        sizes = (offsets - offsets[0]) * rows.row_bytes + np.arange(len(offsets)) * self._overhead
        first, last = 0, len(offsets) - 1
        while first < last:
            stop = int(np.searchsorted(sizes, sizes[first] + self._options.bytes_per_batch, "right")) - 1
            stop = min(max(stop, first + 1), first + self._options.rows_per_batch, last)
            yield from self._encode_some(rows, offsets[first : stop + 1])
            first = stop

    def _encode_some(self, rows: _Rows, offsets: Any) -> Iterator[pa.RecordBatch]:
        source: Any = rows.rows
        arrays: list[Any] = []
        if rows.keys is not None:
            arrays += pa.record_batch(rows.keys.take(offsets[:-1])).columns
        if self._split.dictionaries:
            # Encode only these rows; each payload then gets the part of the dictionary that it uses.
            first, last = int(offsets[0]), int(offsets[-1])
            columns = pa.record_batch(source.slice(first, last - first)).columns
            for index in self._split.dictionaries:
                columns[index] = columns[index].dictionary_encode()
            source = pa.RecordBatch.from_arrays(columns, schema=self._split.payload_schema)
            offsets = offsets - first
        arrays.append(pa.array(arrowipc.encode_payloads(source, offsets, **self._options.codec)))
        yield from _parts(pa.RecordBatch.from_arrays(arrays, names=self._names), self._options.bytes_per_batch)


def _count_fields(schema: pa.Schema) -> int:
    def count(type_: pa.DataType) -> int:
        return 1 + sum(count(type_.field(index).type) for index in range(type_.num_fields))

    return sum(count(field.type) for field in schema)


def _parts(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Yield the batch in pieces with at most the given bytes of payloads, or with one payload."""
    cells = batch.column(batch.num_columns - 1)
    ends = np.frombuffer(cells.buffers()[1], np.int32, len(cells) + 1 + cells.offset)[cells.offset :]
    first = 0
    while first < len(cells):
        stop = int(np.searchsorted(ends, int(ends[first]) + most, "right")) - 1
        stop = min(max(stop, first + 1), len(cells))
        yield batch.slice(first, stop - first)
        first = stop
