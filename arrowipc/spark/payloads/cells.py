"""Decodes the cells of a payload column, and adds the kept columns and the reasons of failures."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import ArrayType, StructField, StructType

import arrowipc
from arrowipc import types as at
from arrowipc.errors import ArrowIpcError, LimitError, UnsupportedError, UsageError
from arrowipc.schemas import Field, Schema
from arrowipc.spark.payloads.options import DecodeOptions
from arrowipc.spark.read.convert import BatchConverter, rows_without_columns, value_sizes
from arrowipc.spark.types import arrow_schema_of, arrow_type_of, find_name, schema_to_read

if TYPE_CHECKING:
    from typing import TypeAlias

    from arrowipc import DecodedPayloads

Dictionaries: "TypeAlias" = Literal["unify", "decode"]

MOST_SETUPS = 64
# Cells per call of the kernel after a call in which payloads failed: if the setup changes, cells after the failure
# are decoded again.
SMALL_WINDOW = 32
#: Advice in errors; the functions in the JVM use the same text.
HELP = 'on_error="null" gives null for such payloads, and decode_payloads(on_error="skip") leaves them out'


class Wanted(NamedTuple):
    """The column of payloads, the columns wanted from them, and the schema of bare messages."""

    column: str
    target: StructType
    given: Schema | None


def payload_cells(batch: pa.RecordBatch, name: str, prefix: int) -> Any:
    """Return the payload column of a batch, without `prefix` bytes at the start of each cell."""
    column = batch.column(find_name(name, batch.schema.names, "the batch"))
    type_ = column.type
    if not (pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_)):
        raise UsageError(f"column {name!r} has the type {type_}, expected binary")
    return without_prefix(column, prefix)


def without_prefix(cells: Any, prefix: int) -> Any:
    """Return cells without `prefix` bytes at their start; shorter ones become empty."""
    # pyarrow's binary_slice fails for shorter cells.
    return pc.binary_replace_slice(cells.cast(pa.large_binary()), 0, prefix, b"") if prefix else cells


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """How to read payloads of one schema, or of several schemas whose differences do not matter.

    The kernel decodes `columns` (None: all) into `schema`, and also bare messages if `bare`. `dictionaries` is
    "decode", because Spark has no dictionaries; or "unify" if values repeat so often that they must stay encoded
    until the converter splits the batch.
    """

    schema: Schema
    columns: list[str] | None
    bare: bool
    dictionaries: Dictionaries
    converter: BatchConverter

    def same_as(self, other: "Setup") -> bool:
        """Whether the other setup reads payloads in the same way."""
        return self is other or (
            (self.bare, self.dictionaries, self.schema) == (other.bare, other.dictionaries, other.schema)
        )


class PayloadDecoder:
    """Decodes the payload columns of the batches of one Spark task.

    The kernel is called with the last `Setup`. A payload that fails with it is tried again with the setup of
    its own schema, and counts as broken only if it fails with that, too. So the result for a payload does not
    depend on the payloads before it.
    """

    def __init__(self, wanted: Wanted, options: DecodeOptions) -> None:
        self._options = options
        self._column = wanted.column
        self._target = wanted.target if options.on_error != "null" else nullable(wanted.target)
        self._rows_before = 0
        self._setups: dict[tuple[Schema, str], Setup] = {}
        self._base = None if wanted.given is None else self._base_setup(wanted.given)
        self._setup = self._base

    def decode(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the payloads of one batch, in batches for Spark."""
        cells = payload_cells(batch, self._column, self._options.prefix)
        yield from self._decode(cells, _OtherColumns(batch, self._target, self._options))

    def decode_lists(self, cells: Any) -> Iterator[pa.Array]:
        """Yield the rows of each payload as a list of structs; null if a payload is null or was left out."""
        cells = without_prefix(cells, self._options.prefix)
        yield from self._decode(cells, _Lists(cells, self._target))

    def _decode(self, cells: Any, others: "_OtherColumns | _Lists") -> Iterator[Any]:
        count = len(cells)
        at, window = 0, count
        tried: dict[int, list[Setup]] = defaultdict(list)
        while at < count:
            if self._setup is None:
                at = yield from self._find_setup(cells, at, others)
            else:
                some = cells if count - at <= window else cells.slice(0, at + window)
                decoded = self._call(self._setup, some, at)
                stop, switch = self._check(decoded, cells, others, tried)
                yield from self._convert(self._setup.converter, decoded, stop, others)
                window = SMALL_WINDOW if decoded.num_failed else min(4 * window, count)
                self._setup = switch or self._setup
                at = stop
            yield from others.finish(at)
        self._rows_before += count

    def _call(self, setup: Setup, cells: Any, start: int) -> "DecodedPayloads":
        return arrowipc.decode_payloads(
            cells,
            setup.schema,
            columns=setup.columns,
            on_error="skip" if self._options.on_error == "raise" else self._options.on_error,
            validate=self._options.validate,
            verify=self._options.verify,
            max_rows=self._options.rows_per_batch,
            max_bytes=self._options.bytes_per_batch,
            dictionaries=setup.dictionaries,
            start=start,
            bare=setup.bare,
        )

    # -- setups --

    def _base_setup(self, given: Schema) -> Setup:
        names = [field.name for field in given]
        columns = [names[find_name(name, names, "the schema")] for name in self._target.names]
        return self._make_setup(given, columns, True, "decode")

    def _make_setup(self, schema: Schema, columns: list[str] | None, bare: bool, dictionaries: Dictionaries) -> Setup:
        # Decode no cells, to get the schema of the batches.
        empty = arrowipc.decode_payloads([], schema, columns=columns, dictionaries=dictionaries)
        converter = BatchConverter(empty.schema, self._target, self._options, "the payload")
        try:
            converter.hand_over(empty.batch)
        except pa.ArrowException as error:
            raise UnsupportedError(f"the payload: pyarrow does not take its schema: {error}") from error
        return Setup(schema, columns, bare, dictionaries, converter)

    def _setup_of(self, payload: memoryview, dictionaries: Dictionaries = "decode") -> Setup:
        """Return the setup for a payload's own schema, or that for bare messages."""
        try:
            with arrowipc.open(payload, validate=self._options.validate) as reader:
                schema = reader.schema
        except ArrowIpcError as error:
            if self._base is not None:
                return self._base
            if _is_bare(payload):
                raise UsageError(
                    "the payload is a bare RecordBatch message, which only its Arrow schema can read: "
                    "pass that as schema="
                ) from error
            raise
        setup = self._setups.get((schema, dictionaries))
        if setup is None:
            wanted = schema_to_read(schema, self._target, "the payload")
            if dictionaries == "unify":
                wanted = Schema([_with_wide_indices(field) for field in wanted])
            setup = self._make_setup(wanted, None, False, dictionaries)
            if len(self._setups) == MOST_SETUPS:
                self._setups.clear()
            self._setups[schema, dictionaries] = setup
        return setup

    def _find_setup(self, cells: Any, at: int, others: "_OtherColumns | _Lists") -> Any:
        """Take the setup of the first payload that has one; yield rows for those before, return where to continue."""
        refused: dict[int, str] = {}
        while at < len(cells) and self._setup is None:
            if cells[at].is_valid:
                try:
                    self._setup = self._setup_of(_cell(cells, at))
                    break
                except ArrowIpcError as error:
                    refused[at] = self._refuse(at, error)
            at += 1
        yield from self._nulls(refused, others)
        return at

    def _check(
        self, decoded: "DecodedPayloads", cells: Any, others: "_OtherColumns | _Lists", tried: dict[int, list[Setup]]
    ) -> tuple[int, Setup | None]:
        """Return the end of the cells whose rows are valid, and the setup for the next cell if it has to change."""
        for cell, error in decoded.failures:
            other = self._other_setup(_cell(cells, cell), error, tried[cell])
            if isinstance(other, Setup):
                return cell, other
            others.reasons[cell] = self._refuse(cell, other)
        if decoded.num_failed > len(decoded.failures):
            # A call reports only the first failures; the next call begins behind them.
            return decoded.failures[-1][0] + 1, None
        return decoded.next, None

    def _other_setup(self, payload: memoryview, error: ArrowIpcError, tried: list[Setup]) -> Setup | ArrowIpcError:
        """Return a setup that was not `tried` yet for a payload that failed, or the payload's error."""
        assert self._setup is not None
        tried.append(self._setup)
        kinds: list[Dictionaries] = (
            ["decode", "unify"] if isinstance(error, LimitError | UnsupportedError) else ["decode"]
        )
        for kind in kinds:
            try:
                setup = self._setup_of(payload, kind)
            except ArrowIpcError as own:
                return own
            if not any(setup.same_as(each) for each in tried):
                return setup
        return error

    # -- payloads that cannot be read --

    def _refuse(self, row: int, error: ArrowIpcError) -> str:
        """Raise the error of a payload, or return it as text if `on_error` allows that."""
        reason = str(error).removeprefix(f"cell {row}: ")
        if self._options.on_error == "raise":
            context = TaskContext.get()
            partition = "" if context is None else f" of partition {context.partitionId()}"
            where = f"column {self._column!r}, row {self._rows_before + row}{partition}"
            raise type(error)(f"{where}: {reason}; {HELP}") from error
        return reason

    def _nulls(self, refused: Mapping[int, str], others: "_OtherColumns | _Lists") -> Iterator[pa.RecordBatch]:
        """Yield a row of nulls for each of some cells, if `on_error` is "null"; note the reasons."""
        others.reasons.update(refused)
        if not refused or self._options.on_error != "null":
            return
        schema = arrow_schema_of(self._target)
        arrays = [pa.nulls(len(refused), field.type) for field in schema]
        rows = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else rows_without_columns(len(refused))
        start = min(refused)
        yield from others.around(rows, start, np.bincount([cell - start for cell in refused]))

    # -- from the kernel's batches to Spark's --

    def _convert(
        self, converter: BatchConverter, decoded: "DecodedPayloads", stop: int, others: "_OtherColumns | _Lists"
    ) -> Iterator[pa.RecordBatch]:
        """Convert the rows of the cells before `stop`."""
        counts = decoded.counts.to_numpy()[: stop - decoded.start]
        ends = np.cumsum(counts)
        rows = int(ends[-1]) if len(ends) else 0
        others.expect(decoded.start, counts)
        if not rows:
            return
        batch = converter.hand_over(decoded.batch).slice(0, rows)

        def convert(first: int, last: int) -> Iterator[pa.RecordBatch]:
            """Yield the rows of some cells; if that fails, try each half of them, down to the cell that fails."""
            row, end = (int(ends[first - 1]) if first else 0), int(ends[last - 1])
            if row == end:
                return
            try:
                for piece in self._pieces(converter, batch.slice(row, end - row)):
                    cell, some = 0, counts
                    if piece.num_rows < rows:
                        cell, some = _cells_of(ends, row, row + piece.num_rows)
                    yield from others.around(piece, decoded.start + cell, some)
                    row += piece.num_rows
            except _ConversionError as failure:
                # Nothing was yielded yet, so the halves can start again.
                if last - first > 1:
                    middle = (first + last) // 2
                    yield from convert(first, middle)
                    yield from convert(middle, last)
                else:
                    cell = decoded.start + first
                    yield from self._nulls({cell: self._refuse(cell, failure.args[0])}, others)

        yield from convert(0, len(ends))

    def _pieces(self, converter: BatchConverter, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the converted batch, in pieces if it is large; errors are only raised before the first piece."""
        try:
            pieces = converter.split(batch, self._options.rows_per_batch, self._options.bytes_per_batch)
            first = next(pieces)
            if first.num_rows < batch.num_rows:
                # To find errors first, convert a payload that is larger than a batch twice, instead of holding it.
                for _ in pieces:
                    pass
                pieces = converter.split(batch, self._options.rows_per_batch, self._options.bytes_per_batch)
                first = next(pieces)
        except ArrowIpcError as error:
            raise _ConversionError(error) from error
        yield first
        yield from pieces


class _ConversionError(Exception):
    """Spark cannot hold some values of some payloads; the argument is the original error."""


def _cells_of(ends: Any, first: int, last: int) -> tuple[int, Any]:
    """Return the cell of row `first`, and for it and later cells how many rows from `first` to `last` each has."""
    cell, stop = np.searchsorted(ends, (first, last - 1), "right")
    return int(cell), np.diff(np.minimum(ends[cell : stop + 1], last), prepend=first)


class _OtherColumns:
    """The columns around the decoded ones: kept columns before them, reasons of failures after them."""

    def __init__(self, batch: pa.RecordBatch, target: StructType, options: DecodeOptions) -> None:
        names, keep, error_column = batch.schema.names, options.keep, options.error_column
        indices = [find_name(name, names, "the batch") for name in keep]
        fields = [batch.schema.field(index).with_name(name) for index, name in zip(indices, keep, strict=True)]
        self.reasons: dict[int, str] = {}
        self._most = options.bytes_per_batch
        self._has_reasons = error_column is not None
        self._kept = None
        if keep:
            columns = [batch.column(index) for index in indices]
            self._kept = arrowipc.RecordBatch.from_arrow(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))
            self._sizes = np.sum([value_sizes(column) for column in columns], axis=0)
        reasons = [pa.field(error_column, pa.string())] if error_column is not None else []
        self._schema = pa.schema([*fields, *arrow_schema_of(target), *reasons])

    def around(self, rows: pa.RecordBatch, start: int, counts: Any) -> Iterator[pa.RecordBatch]:
        """Yield rows (`counts` for each cell from `start` on) with these columns added, in pieces if they are large."""
        if self._kept is not None:
            sizes = self._sizes[start : start + len(counts)]
            if counts @ sizes > self._most:
                total, ends = np.cumsum(np.repeat(sizes, counts)), np.cumsum(counts)
                cuts = np.searchsorted(total, np.arange(self._most, total[-1], self._most), "right")
                for begin, end in pairwise(sorted({0, *cuts.tolist(), rows.num_rows})):
                    cell, some = _cells_of(ends, begin, end)
                    yield self._one(rows.slice(begin, end - begin), start + cell, some)
                return
        yield self._one(rows, start, counts)

    def expect(self, start: int, counts: Any) -> None:
        """Do nothing: `around` gets the counts with the rows."""

    def finish(self, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield nothing: no rows are held back."""
        return iter(())

    def _one(self, rows: pa.RecordBatch, start: int, counts: Any) -> pa.RecordBatch:
        if self._kept is None and not self._has_reasons:
            return rows
        arrays = rows.columns
        if self._kept is not None:
            kept = arrowipc.repeat(self._kept.slice(start, len(counts)), counts)
            arrays = pa.record_batch(kept).columns + arrays
        if self._has_reasons and self.reasons:
            cells = np.repeat(np.arange(start, start + len(counts)), counts)
            arrays.append(pa.array(map(self.reasons.get, cells.tolist()), pa.string()))
        elif self._has_reasons:
            arrays.append(pa.nulls(rows.num_rows, pa.string()))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _Lists:
    """The decoded rows as one list per cell."""

    def __init__(self, cells: Any, target: StructType) -> None:
        self.reasons: dict[int, str] = {}
        self._cells = cells
        self._type = arrow_type_of(ArrayType(target, False), "")
        self._schema = arrow_schema_of(target)
        self._begin = 0
        self._rows: list[pa.RecordBatch] = []
        self._counts = np.zeros(len(cells), np.int64)

    def expect(self, start: int, counts: Any) -> None:
        """Set the number of rows of some cells; cells that fail have none."""
        self._counts[start : start + len(counts)] = counts

    def around(self, rows: pa.RecordBatch, start: int, counts: Any) -> Iterator[pa.RecordBatch]:
        """Keep rows until their cells are finished."""
        self._rows.append(rows)
        return iter(())

    def finish(self, stop: int) -> Iterator[pa.Array]:
        """Yield the lists of the cells before `stop` that were not yielded yet."""
        begin, self._begin = self._begin, stop
        if begin == stop:
            return
        rows, self._rows = self._rows or [pa.RecordBatch.from_pylist([], self._schema)], []
        columns = list(zip(*(batch.columns for batch in rows), strict=True))
        joined = [pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces) for pieces in columns]
        structs = pa.StructArray.from_arrays(joined, fields=list(self._schema))
        cells, counts, mask = self._cells.slice(begin, stop - begin), self._counts[begin:stop], None
        failed = [cell - begin for cell in self.reasons if begin <= cell < stop]
        if failed or cells.null_count:
            counts[failed] = 0
            missing = cells.is_null().to_numpy(zero_copy_only=False)
            missing[failed] = True
            mask = pa.array(missing)
        offsets = np.zeros(stop - begin + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        yield pa.ListArray.from_arrays(pa.array(offsets), structs, type=self._type, mask=mask)


def nullable(schema: StructType) -> StructType:
    """Return the schema with all columns nullable."""
    return StructType([StructField(field.name, field.dataType) for field in schema.fields])


def _with_wide_indices(field: Field) -> Field:
    """Return the field with indices that are wide enough for the values of many dictionaries."""
    if not isinstance(field.type, at.Dictionary):
        return field
    type_ = at.Dictionary(at.Int(32, True), field.type.value_type, field.type.ordered)
    return Field(field.name, type_, field.nullable)


def _cell(cells: Any, row: int) -> memoryview:
    return memoryview(cells[row].as_buffer())


def _is_bare(payload: memoryview) -> bool:
    """Whether a payload begins with a RecordBatch message."""
    try:
        return bool(arrowipc.read_message(payload).kind == "RecordBatch")
    except ArrowIpcError:
        return False
