"""Decodes a binary column whose every cell is a whole Arrow IPC stream or file."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

import arrowipc
from arrowipc.errors import ArrowIpcError, UnsupportedError, UsageError
from arrowipc.schema import Schema
from arrowipc.spark.convert import BatchConverter, find_name
from arrowipc.spark.types import TypeOptions, arrow_schema_of, to_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from arrowipc import RecordBatch

__all__ = ["decode_payload_batches", "decode_payloads"]

DEFAULT_ROWS_PER_BATCH = 10_000


def decode_payloads(
    df: "DataFrame",
    column: str,
    schema: Any = None,
    *,
    columns: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    on_error: Literal["raise", "skip"] = "raise",
    nanoseconds: str = "error",
    unsupported: str = "error",
    validate: str = "full",
    rows_per_batch: int = DEFAULT_ROWS_PER_BATCH,
) -> "DataFrame":
    """Turn a binary column of Arrow IPC payloads into the rows they hold.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        With a binary column; each cell is a whole stream or a whole file, or null (no rows).
    column : str
        Name of that column.
    schema : StructType, str or Arrow schema, optional
        Columns wanted from the payloads, found by name; a text is DDL (``"id bigint, tag string"``). By
        default the schema of the first payload, for which a small job runs at once.
    columns : sequence of str, optional
        Instead of a schema, the names of the columns wanted (``a.b`` for a field of a struct).
    keep : sequence of str
        Columns of `df` to repeat beside each row of their payload; they come first.
    on_error : {"raise", "skip"}
        Stop at a payload that cannot be read, or leave it out entirely.
    nanoseconds, unsupported : str
        See :class:`TypeOptions`.
    validate : {"full", "none", "strict"}
        As in :func:`arrowipc.open`.
    rows_per_batch : int
        Most rows handed to Spark at once.

    Returns
    -------
    pyspark.sql.DataFrame
        The kept columns and the payloads' columns, one row per row of a payload.

    Raises
    ------
    UsageError
        For a column that `df` does not have, a name that occurs twice, or no payload to take the schema from.
    ArrowIpcError
        On the executors, for a broken payload; the text gives its row and partition.

    Examples
    --------
    >>> decode_payloads(messages, "payload", keep=["topic"]).groupBy("topic").count()   # doctest: +SKIP
    """
    for name in (column, *keep):
        find_name(name, df.columns, "the data frame")
    options = TypeOptions.of({"nanoseconds": nanoseconds, "unsupported": unsupported})
    wanted = _wanted(df, column, schema, columns, options)
    source = df.select(column, *(name for name in keep if name != column))

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return decode_payload_batches(
            batches,
            column,
            wanted,
            columns=columns,
            keep=keep,
            on_error=on_error,
            options=options,
            validate=validate,
            rows_per_batch=rows_per_batch,
        )

    return source.mapInArrow(decode, _beside(source.schema, keep, wanted))


def decode_payload_batches(
    batches: Iterable[pa.RecordBatch],
    column: str,
    schema: StructType,
    *,
    columns: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    on_error: Literal["raise", "skip"] = "raise",
    options: TypeOptions | None = None,
    validate: str = "full",
    rows_per_batch: int = DEFAULT_ROWS_PER_BATCH,
) -> Iterator[pa.RecordBatch]:
    """Decode the payloads of an iterator of batches, for use in a ``mapInArrow`` function of your own.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        As ``mapInArrow`` hands them in.
    column : str
        The binary column.
    schema : pyspark.sql.types.StructType
        The columns wanted from the payloads.
    columns, keep, on_error, validate, rows_per_batch
        As in :func:`decode_payloads`.
    options : TypeOptions, optional
        What to do about values that Spark cannot hold.

    Yields
    ------
    pyarrow.RecordBatch
        The kept columns, then those of `schema`.

    Raises
    ------
    ArrowIpcError
        For a payload that cannot be read, unless ``on_error="skip"``.
    """
    if on_error not in ("raise", "skip"):
        raise UsageError(f"on_error: expected 'raise' or 'skip', found {on_error!r}")
    decoder = _Decoder(
        column, schema, columns, list(keep), on_error == "skip", options or TypeOptions(), validate
    )
    for batch in batches:
        yield from decoder.decode(batch, rows_per_batch)


def _wanted(
    df: "DataFrame", column: str, schema: Any, columns: Sequence[str] | None, options: TypeOptions
) -> StructType:
    """The Spark schema of the payloads' columns, as given or as found in the first payload."""
    if schema is not None and columns is not None:
        raise UsageError("give either schema= or columns=: a schema already says which columns are wanted")
    if isinstance(schema, StructType):
        return schema
    if isinstance(schema, str):
        return cast("StructType", StructType.fromDDL(schema))
    if schema is not None:
        return to_spark_schema(schema, options)
    first = df.select(column).where(df[column].isNotNull()).head()
    if first is None:
        raise UsageError(f"column {column!r} holds no payload to take the schema from; pass schema=")
    with arrowipc.open(bytes(first[0]), columns=None if columns is None else list(columns)) as reader:
        found = to_spark_schema(reader.schema, options)
    if columns is None:
        return found
    order = dict.fromkeys(name if name in found.names else name.split(".")[0] for name in columns)
    return StructType([found[name] for name in order if name in found.names])


def _beside(source: StructType, keep: Sequence[str], wanted: StructType) -> StructType:
    """The schema of the kept columns and the decoded ones."""
    kept = [source.fields[find_name(name, source.names, "the data frame")] for name in keep]
    taken = {field.name.lower() for field in kept}
    for field in wanted.fields:
        if field.name.lower() in taken:
            raise UsageError(
                f"the payloads have a column {field.name!r} and so does keep=; "
                "rename the column of the data frame"
            )
    return StructType([*kept, *wanted.fields])


@dataclass(slots=True)
class _Pending:
    """Payloads of one Arrow schema that wait to be joined: each with its row and its batches."""

    converter: BatchConverter
    payloads: list[tuple[int, list["RecordBatch"]]]
    rows: int = 0


class _CannotJoinError(Exception):
    """The payloads are fine, and too many to be joined into one batch."""


class _Decoder:
    """Decodes the payload column of one batch after the other.

    Handing a small batch over and converting it costs ten times what decoding it does, so the batches of
    payloads of equal schema are joined first, up to the size of an output batch.
    """

    def __init__(
        self,
        column: str,
        schema: StructType,
        columns: Sequence[str] | None,
        keep: list[str],
        skip: bool,
        options: TypeOptions,
        validate: str,
    ) -> None:
        self._column = column
        self._target = schema
        self._columns = None if columns is None else list(columns)
        self._keep = keep
        self._skip = skip
        self._options = options
        self._validate = validate
        self._names = arrow_schema_of(schema).names
        self._known: Schema | None = None
        self._converter: BatchConverter | None = None
        self._pending: _Pending | None = None
        self._rows_before = 0
        self._joinable = 1 << 30

    def decode(self, batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
        """Decode the payloads of one batch."""
        for row, payload in self._payloads(batch):
            try:
                converter, found = self._read(payload)
            except ArrowIpcError as error:
                self._refuse(row, error)
                continue
            pending = self._pending
            if pending is not None and (pending.converter is not converter or pending.rows >= most):
                yield from self._flush(batch, most)
                pending = None
            if pending is None:
                pending = self._pending = _Pending(converter, [])
            pending.payloads.append((row, found))
            pending.rows += sum(item.num_rows for item in found)
        yield from self._flush(batch, most)
        self._rows_before += batch.num_rows

    def _payloads(self, batch: pa.RecordBatch) -> Iterator[tuple[int, memoryview]]:
        """Rows and payloads of the column, nulls left out."""
        column = batch.column(find_name(self._column, batch.schema.names, "the batch"))
        if not pa.types.is_binary(column.type) and not pa.types.is_large_binary(column.type):
            raise UsageError(f"column {self._column!r} has the type {column.type}, expected binary")
        _, offset_buffer, data = column.buffers()
        width = np.int32 if pa.types.is_binary(column.type) else np.int64
        bounds = np.frombuffer(offset_buffer or bytes(8), width)[column.offset :].tolist()
        view = memoryview(data or b"")
        valid = column.is_valid().to_pylist() if column.null_count else None
        for row in range(len(column)):
            if valid is None or valid[row]:
                yield row, view[bounds[row] : bounds[row + 1]]

    def _read(self, payload: memoryview) -> tuple[BatchConverter, list["RecordBatch"]]:
        """Read one payload whole, so that a broken one leaves nothing behind."""
        with arrowipc.open(payload, columns=self._columns, validate=self._validate) as reader:
            converter = self._conversion(reader.schema)
            return converter, list(reader)

    def _conversion(self, schema: Schema) -> BatchConverter:
        """The converter for a payload's schema: the last one, as long as the schema stays the same."""
        if self._converter is None or (schema is not self._known and schema != self._known):
            self._converter = BatchConverter(schema, self._target, self._options, "the payload")
            self._known = schema
        return self._converter

    def _flush(self, batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
        pending, self._pending = self._pending, None
        if pending is None:
            return
        first, count = 0, len(pending.payloads)
        while first < count:
            some = pending.payloads[first : first + self._joinable]
            try:
                converted = self._convert(pending.converter, some, most)
            except _CannotJoinError:
                # Narrow dictionary indices or 32-bit offsets are full: fewer payloads at a time, from now on.
                self._joinable = len(some) // 2
                continue
            except ArrowIpcError:
                yield from self._one_by_one(batch, pending, some, most)
            else:
                yield from self._finish(batch, some, converted)
            first += len(some)

    def _convert(
        self, converter: BatchConverter, payloads: list[tuple[int, list["RecordBatch"]]], most: int
    ) -> list[pa.RecordBatch]:
        """Join the batches of some payloads and convert them."""
        batches = [batch for _, found in payloads for batch in found]
        if len(batches) > 1:
            try:
                batches = [arrowipc.concat_batches(batches)]
            except UnsupportedError as error:
                if len(payloads) > 1:
                    raise _CannotJoinError from error
        return [part for batch in batches for part in converter.split(converter.hand_over(batch), most)]

    def _one_by_one(
        self,
        batch: pa.RecordBatch,
        pending: _Pending,
        payloads: list[tuple[int, list["RecordBatch"]]],
        most: int,
    ) -> Iterator[pa.RecordBatch]:
        """Convert payload by payload after the joined ones failed, to find the one to blame."""
        for payload in payloads:
            try:
                converted = self._convert(pending.converter, [payload], most)
            except ArrowIpcError as error:
                self._refuse(payload[0], error)
            else:
                yield from self._finish(batch, [payload], converted)

    def _finish(
        self,
        batch: pa.RecordBatch,
        payloads: list[tuple[int, list["RecordBatch"]]],
        converted: list[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        """Put the kept columns beside the converted batches."""
        if not self._keep:
            yield from converted
            return
        lengths = [sum(item.num_rows for item in found) for _, found in payloads]
        parents = np.repeat([row for row, _ in payloads], lengths)
        kept = [batch.column(find_name(name, batch.schema.names, "the batch")) for name in self._keep]
        start = 0
        for item in converted:
            rows = pa.array(parents[start : start + item.num_rows])
            start += item.num_rows
            arrays = [column.take(rows) for column in kept] + item.columns
            yield pa.RecordBatch.from_arrays(arrays, names=[*self._keep, *self._names])

    def _refuse(self, row: int, error: ArrowIpcError) -> None:
        if self._skip:
            return
        where = f"column {self._column!r}, row {self._rows_before + row}{_partition()}"
        raise type(error)(f'{where}: {error}; on_error="skip" leaves such payloads out') from error


def _partition() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return "" if context is None else f" of partition {context.partitionId()}"
