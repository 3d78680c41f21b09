"""Decodes the cells of one payload column after the other, with everything that stands beside their rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

import arrowipc
from arrowipc import types as at
from arrowipc.errors import ArrowIpcError, LimitError, UnsupportedError, UsageError
from arrowipc.schema import Field, Schema
from arrowipc.spark.read.convert import BatchConverter
from arrowipc.spark.types import TypeOptions, arrow_schema_of, find_name, schema_to_read

if TYPE_CHECKING:
    from arrowipc import DecodedPayloads

__all__ = ["PayloadDecoder", "binary_column"]

MOST_PLANS = 64
# Cells per call of the kernel after one in which payloads failed: what lies behind may be decoded in vain.
SMALL_WINDOW = 32


def binary_column(batch: pa.RecordBatch, name: str) -> Any:
    """The column of a batch that holds payloads."""
    column = batch.column(find_name(name, batch.schema.names, "the batch"))
    type_ = column.type
    if not (pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_)):
        raise UsageError(f"column {name!r} has the type {type_}, expected binary")
    return column


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How payloads of like schemas are read.

    Parameters
    ----------
    schema : Schema
        What the kernel decodes into, or of which it decodes ``columns``.
    bare : bool
        Whether that is also the schema of payloads that bring none.
    dictionaries : str
        As the kernel takes it. Plain values are what Spark holds; where they take too much room, their
        dictionary does until the batch is cut.
    converter : BatchConverter
        From the kernel's batches to Spark's.
    """

    schema: Schema
    columns: list[str] | None
    bare: bool
    dictionaries: str
    converter: BatchConverter

    def like(self, other: "Plan") -> bool:
        """Whether the other plan reads the same payloads in the same way."""
        return self is other or (
            (self.bare, self.dictionaries, self.schema) == (other.bare, other.dictionaries, other.schema)
        )


class PayloadDecoder:
    """Decodes the payload columns of the batches of one Spark task.

    The kernel takes as many payloads as one `Plan` reads. A payload that it refuses gets a plan of its own
    schema; only what fails with that too is broken. So what a payload becomes does not depend on those
    before it.

    Parameters
    ----------
    target : StructType
        The columns wanted.
    given : Schema, optional
        The Arrow schema of bare messages.
    column, keep, on_error, error_column, options, validate, rows_per_batch, bytes_per_batch
        As in :func:`arrowipc.spark.decode_payload_batches`.
    """

    def __init__(
        self,
        target: StructType,
        given: Schema | None,
        *,
        column: str,
        keep: list[str],
        on_error: str,
        error_column: str | None,
        options: TypeOptions,
        validate: str,
        rows_per_batch: int,
        bytes_per_batch: int,
    ) -> None:
        self._column = column
        self._target = target if on_error != "null" else _nullable(target)
        self._keep = keep
        self._on_error = on_error
        self._error_column = error_column
        self._options = options
        self._validate = validate
        self._rows = rows_per_batch
        self._bytes = bytes_per_batch
        self._rows_before = 0
        self._plans: dict[tuple[Schema, str], Plan] = {}
        self._base = None if given is None else self._base_plan(given)
        self._plan = self._base

    def decode(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of the payloads of one batch, in batches fit for Spark."""
        cells = binary_column(batch, self._column)
        beside = _Beside(batch, self._keep, self._target, self._error_column, self._bytes)
        count = len(cells)
        at, window, tried = 0, count, _Tried()
        while at < count:
            if self._plan is None:
                at = yield from self._find_plan(cells, at, beside)
                continue
            some = cells if count - at <= window else cells.slice(0, at + window)
            decoded = self._call(self._plan, some, at)
            stop, switch = self._judge(decoded, cells, beside, tried)
            yield from self._convert(self._plan.converter, decoded, stop, beside)
            window = SMALL_WINDOW if decoded.num_failed else min(4 * window, count)
            self._plan = switch or self._plan
            at = stop
        self._rows_before += count

    def _call(self, plan: Plan, cells: Any, start: int) -> "DecodedPayloads":
        return arrowipc.decode_payloads(
            cells,
            plan.schema,
            columns=plan.columns,
            on_error="skip" if self._on_error == "raise" else self._on_error,
            validate=self._validate,
            max_rows=self._rows,
            max_bytes=self._bytes,
            dictionaries=plan.dictionaries,
            start=start,
            bare=plan.bare,
        )

    # -- plans --

    def _base_plan(self, given: Schema) -> Plan:
        names = [field.name for field in given]
        columns = [names[find_name(name, names, "the schema")] for name in self._target.names]
        return self._make_plan(given, columns, True, "decode")

    def _make_plan(self, schema: Schema, columns: list[str] | None, bare: bool, dictionaries: str) -> Plan:
        # The kernel's answer for no cells at all tells what it makes of the schema.
        empty = arrowipc.decode_payloads([], schema, columns=columns, dictionaries=dictionaries)
        converter = BatchConverter(empty.schema, self._target, self._options, "the payload")
        return Plan(schema, columns, bare, dictionaries, converter)

    def _plan_of(self, payload: memoryview, dictionaries: str = "decode") -> Plan:
        """The plan for a payload's own schema, or for that of bare messages."""
        try:
            with arrowipc.open(payload, validate=self._validate) as reader:
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
        plan = self._plans.get((schema, dictionaries))
        if plan is None:
            wanted = schema_to_read(schema, self._target, "the payload")
            if dictionaries == "unify":
                wanted = Schema([_with_wide_indices(field) for field in wanted])
            plan = self._make_plan(wanted, None, False, dictionaries)
            if len(self._plans) == MOST_PLANS:
                self._plans.clear()
            self._plans[schema, dictionaries] = plan
        return plan

    def _find_plan(self, cells: Any, at: int, beside: "_Beside") -> Any:
        """Take the plan of the first payload that has one; a generator that returns where to go on."""
        refused: dict[int, str] = {}
        while at < len(cells) and self._plan is None:
            if cells[at].is_valid:
                try:
                    self._plan = self._plan_of(_cell(cells, at))
                    break
                except ArrowIpcError as error:
                    refused[at] = self._refuse(at, error)
            at += 1
        yield from self._nulls(refused, beside)
        return at

    def _judge(
        self, decoded: "DecodedPayloads", cells: Any, beside: "_Beside", tried: "_Tried"
    ) -> tuple[int, Plan | None]:
        """Where what was decoded counts up to, and the plan to go on with if it is another one."""
        for cell, error in decoded.failures:
            other = self._other_plan(_cell(cells, cell), error, tried.at(cell))
            if isinstance(other, Plan):
                return cell, other
            beside.reasons[cell] = self._refuse(cell, other)
        if decoded.num_failed > len(decoded.failures):
            # The reasons of the others are not known yet.
            return decoded.failures[-1][0] + 1, None
        return decoded.next, None

    def _other_plan(self, payload: memoryview, error: ArrowIpcError, tried: list[Plan]) -> Plan | ArrowIpcError:
        """A plan with which the payload that failed has not been read yet, or what is wrong with it."""
        assert self._plan is not None
        tried.append(self._plan)
        kinds = ["decode", "unify"] if isinstance(error, LimitError | UnsupportedError) else ["decode"]
        for kind in kinds:
            try:
                plan = self._plan_of(payload, kind)
            except ArrowIpcError as own:
                return own
            if not any(plan.like(each) for each in tried):
                return plan
        return error

    # -- payloads that cannot be read --

    def _refuse(self, row: int, error: ArrowIpcError) -> str:
        """Raise, or return the reason as text."""
        reason = str(error).removeprefix(f"cell {row}: ")
        if self._on_error == "raise":
            where = f"column {self._column!r}, row {self._rows_before + row}{_partition()}"
            help_ = 'on_error="skip" leaves such payloads out'
            raise type(error)(f"{where}: {reason}; {help_}") from error
        return reason

    def _nulls(self, refused: Mapping[int, str], beside: "_Beside") -> Iterator[pa.RecordBatch]:
        """A row of nulls for each of some cells."""
        if not refused or self._on_error != "null":
            return
        beside.reasons.update(refused)
        schema = arrow_schema_of(self._target)
        arrays = [pa.nulls(len(refused), field.type) for field in schema]
        rows = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else _only_rows(len(refused))
        yield from beside.put(rows, np.fromiter(refused, np.int64, len(refused)))

    # -- from the kernel's batches to Spark's --

    def _convert(
        self, converter: BatchConverter, decoded: "DecodedPayloads", stop: int, beside: "_Beside"
    ) -> Iterator[pa.RecordBatch]:
        """Convert the rows of the cells before `stop`."""
        counts = decoded.counts.to_numpy()[: stop - decoded.start]
        ends = np.cumsum(counts)
        rows = int(ends[-1]) if len(ends) else 0
        if not rows:
            return
        batch = converter.hand_over(decoded.batch).slice(0, rows)
        parents = np.repeat(np.arange(decoded.start, stop), counts) if beside.needed else None
        yield from self._convert_cells(converter, batch, ends, decoded.start, (0, len(ends)), parents, beside)

    def _convert_cells(
        self,
        converter: BatchConverter,
        batch: pa.RecordBatch,
        ends: Any,
        start: int,
        cells: tuple[int, int],
        parents: Any,
        beside: "_Beside",
    ) -> Iterator[pa.RecordBatch]:
        """Convert the rows of some cells; where that fails, those of each half, down to the one to blame."""
        first, last = cells
        begin, end = (int(ends[first - 1]) if first else 0), int(ends[last - 1])
        if begin == end:
            return
        try:
            pieces = self._pieces(converter, batch.slice(begin, end - begin))
            row = begin
            for piece in pieces:
                rows = None if parents is None else parents[row : row + piece.num_rows]
                row += piece.num_rows
                yield from beside.put(piece, rows)
        except _ConversionError as failure:
            # Nothing was handed on yet, so the halves begin anew.
            if last - first > 1:
                middle = (first + last) // 2
                for half in ((first, middle), (middle, last)):
                    yield from self._convert_cells(converter, batch, ends, start, half, parents, beside)
            else:
                cell = start + first
                yield from self._nulls({cell: self._refuse(cell, failure.error)}, beside)

    def _pieces(self, converter: BatchConverter, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The converted batch, in as many pieces as its size wants; raises before the first or never."""
        try:
            pieces = converter.split(batch, self._rows, self._bytes)
            first = next(pieces)
            if first.num_rows < batch.num_rows:
                # A payload larger than a batch is converted twice rather than held whole.
                for _ in pieces:
                    pass
                pieces = converter.split(batch, self._rows, self._bytes)
                first = next(pieces)
        except ArrowIpcError as error:
            raise _ConversionError(error) from error
        yield first
        yield from pieces


class _ConversionError(Exception):
    """Some of the values of some payloads are nothing that Spark can hold."""

    def __init__(self, error: ArrowIpcError) -> None:
        super().__init__(str(error))
        self.error = error


class _Tried:
    """The plans with which the cell at hand was read in vain."""

    def __init__(self) -> None:
        self._cell = -1
        self._plans: list[Plan] = []

    def at(self, cell: int) -> list[Plan]:
        """Those of one cell, which has to be the last one asked for."""
        if cell != self._cell:
            self._cell, self._plans = cell, []
        return self._plans


class _Beside:
    """What stands beside the rows of a batch's payloads: kept columns, and the reasons of failures."""

    def __init__(
        self, batch: pa.RecordBatch, keep: list[str], target: StructType, error_column: str | None, most: int
    ) -> None:
        names = batch.schema.names
        indices = [find_name(name, names, "the batch") for name in keep]
        fields = [batch.schema.field(index).with_name(name) for index, name in zip(indices, keep, strict=True)]
        self.reasons: dict[int, str] = {}
        self.needed = bool(keep) or error_column is not None
        self._most = most
        self._has_reasons = error_column is not None
        self._kept = None
        if keep:
            columns = [batch.column(index) for index in indices]
            self._kept = arrowipc.RecordBatch.from_arrow(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))
            self._sizes = sum(map(_value_sizes, columns))
        reasons = [pa.field(error_column, pa.string())] if error_column is not None else []
        self._schema = pa.schema([*fields, *arrow_schema_of(target), *reasons])

    def put(self, rows: pa.RecordBatch, parents: Any) -> Iterator[pa.RecordBatch]:
        """Put it beside rows of the cells `parents`, in pieces if it makes them too large."""
        if not self.needed:
            yield rows
            return
        bounds = [0, rows.num_rows]
        if self._kept is not None:
            total = np.cumsum(self._sizes[parents])
            if total[-1] > self._most:
                cuts = np.searchsorted(total, np.arange(self._most, total[-1], self._most), "right")
                bounds = sorted({0, *cuts.tolist(), rows.num_rows})
        for begin, end in pairwise(bounds):
            yield self._one(rows.slice(begin, end - begin), parents[begin:end])

    def _one(self, rows: pa.RecordBatch, parents: Any) -> pa.RecordBatch:
        arrays = list(rows.columns)
        if self._kept is not None:
            arrays = pa.record_batch(arrowipc.repeat(self._kept, parent_index=parents)).columns + arrays
        if self._has_reasons:
            if self.reasons:
                reasons = pa.array(map(self.reasons.get, parents.tolist()), pa.string())
            else:
                reasons = pa.nulls(len(parents), pa.string())
            arrays.append(reasons)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _value_sizes(column: Any) -> Any:
    """About how many bytes each value of a column takes."""
    type_ = column.type
    if pa.types.is_binary(type_) or pa.types.is_string(type_) or pa.types.is_large_binary(type_):
        return pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64) + 4
    return np.full(len(column), column.nbytes // max(len(column), 1) + 1)


def _nullable(schema: StructType) -> StructType:
    result = StructType()
    for field in schema.fields:
        result.add(field.name, field.dataType, True)
    return result


def _only_rows(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


def _with_wide_indices(field: Field) -> Field:
    """The field with room for the words of any number of dictionaries."""
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


def _partition() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return "" if context is None else f" of partition {context.partitionId()}"
