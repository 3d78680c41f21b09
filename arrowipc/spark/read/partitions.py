"""Reading Arrow IPC files and streams in Spark: partitions cut at record batches, batches made fit."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSourceReader, InputPartition

from arrowipc.errors import ArrowIpcError, FormatError, UnsupportedError, UsageError
from arrowipc.schema import Schema
from arrowipc.spark.options import ReadOptions
from arrowipc.spark.read.files import FoundFile, find_files, is_url

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from arrowipc.read.remote import RemoteSource
    from arrowipc.spark.read.convert import BatchConverter

__all__ = ["ArrowIpcReader", "Pruner", "infer_schema", "naming"]

log = logging.getLogger("arrowipc.spark")

MIB = 1 << 20
# A partition should keep a core busy for much longer than the 50 ms that a task costs, and a read of a few
# gigabytes should still fill the cores of a small cluster.
SMALLEST_PARTITION = 4 * MIB
LARGEST_PARTITION = 128 * MIB
PARTITIONS_AIMED_AT = 32
# What opening one more file costs, in bytes that could be read meanwhile.
OPEN_COST = MIB // 4
# Footers of remote files that are read at the same time: their cost is waiting.
PLANNING_THREADS = 16


@dataclass(frozen=True)
class Slice:
    """Record batches ``first`` to ``stop`` (exclusive) of one file; ``stop`` None means all of a stream.

    ``size`` and ``version`` are those of a remote file, which all tasks read as it was planned. ``torn`` says
    that the file has no footer to read it by, and ``lost`` why nothing of it can be read.
    """

    path: str
    first: int = 0
    stop: int | None = None
    size: int | None = None
    torn: bool = False
    lost: str | None = None
    version: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SlicePartition(InputPartition):
    """What one Spark task reads."""

    slices: tuple[Slice, ...]


class Pruner(Protocol):
    """Decides from what a batch says of itself whether the query needs it."""

    def keeps(self, custom_metadata: tuple[tuple[bytes, bytes], ...], schema: Schema) -> bool:
        """Whether rows of a batch with this custom metadata may be wanted; the schema is that of the file."""


class ArrowIpcReader(DataSourceReader):
    """Plans the partitions of a read on the driver, and reads them on the executors.

    Attributes
    ----------
    pruner : Pruner, optional
        Asked before the body of a batch of a file is read.
    """

    pruner: Pruner | None = None

    def __init__(self, schema: "StructType", options: Mapping[str, str]) -> None:
        self._schema = schema
        self._raw = dict(options)
        self._options = ReadOptions.of(options)
        self._check_corrupt_rows()

    def _check_corrupt_rows(self) -> None:
        """Refuse a schema into which the rows that stand for damage would not fit, before any data moves."""
        from pyspark.sql.types import StringType

        if self._options.mode != "permissive":
            return
        name = self._options.corrupt_column
        for field in self._schema.fields:
            if field.name == name and not isinstance(field.dataType, StringType):
                raise UsageError(
                    f"column {name!r} takes the texts of errors, and the schema has it as "
                    f"{field.dataType.simpleString()}: make it a string, or name another column with the "
                    "option columnNameOfCorruptRecord"
                )
            if not field.nullable:
                raise UsageError(
                    f"column {field.name!r} is NOT NULL in the schema, and mode PERMISSIVE gives a row of "
                    "nulls for what is damaged; make it nullable, or choose FAILFAST or DROPMALFORMED"
                )

    # -- on the driver --

    def partitions(self) -> list[InputPartition]:
        """Cut the files into partitions; only footers are read, never bodies."""
        files = find_files(self._raw)
        target = self._options.partition_bytes or min(
            LARGEST_PARTITION,
            max(SMALLEST_PARTITION, sum(file.size or 0 for file in files) // PARTITIONS_AIMED_AT),
        )

        def plan(file: FoundFile) -> list[tuple[Slice, int]]:
            return self._plan(file, target)

        if len(files) > 1 and any(is_url(file.path) for file in files):
            with ThreadPoolExecutor(PLANNING_THREADS) as pool:
                plans = list(pool.map(plan, files))
        else:
            plans = [plan(file) for file in files]
        slices = [piece for pieces in plans for piece in pieces]
        if self._options.batches_per_partition:
            return [SlicePartition((piece,)) for piece, _ in slices]
        return [SlicePartition(tuple(pieces)) for pieces in pack(slices, target)]

    def _plan(self, file: FoundFile, target: int) -> list[tuple[Slice, int]]:
        """Slices of one file, each with its weight in bytes."""
        path, size = file.path, file.size
        try:
            source = self._options.source(path, size)
            if self._options.is_stream(source):
                return [(Slice(path, size=size), size or 0)]
            with naming(path), self._options.open(source) as reader:
                blocks = [metadata + body for _, metadata, body in reader.blocks]
        except FileNotFoundError:
            if self._options.ignore_missing:
                return []
            raise
        except FormatError as error:
            if self._options.recover:
                return [(Slice(path, size=size, torn=True), size or 0)]
            if self._options.mode == "permissive":
                return [(Slice(path, lost=str(error)), 0)]
            self._pass_over(error)
            return []
        version = () if isinstance(source, str) else tuple(source.version.items())
        pieces = cut(path, blocks, target, self._options.batches_per_partition, size)
        return [(replace(piece, version=version), weight) for piece, weight in pieces]

    # -- on the executors --

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read one partition as batches that have exactly the schema."""
        for piece in getattr(
            partition, "slices", ()
        ):  # Spark makes a bare InputPartition where there is none
            with naming(piece.path):
                yield from self._read(piece)

    def _read(self, piece: Slice) -> Iterator["pa.RecordBatch"]:
        if piece.lost is not None:
            yield self._corrupt_row(piece.lost)
            return
        try:
            reader, convert, place = self._open(piece)
        except FileNotFoundError:
            if not self._options.ignore_missing:
                raise
        except FormatError as error:
            yield from self._malformed(piece.path, error)
        else:
            with closing(reader):
                for found in self._batches(reader, piece):
                    if isinstance(found, FormatError):
                        yield from self._malformed(piece.path, found)
                    else:
                        yield from self._convert(piece.path, convert, place, found)

    def _open(self, piece: Slice) -> tuple[Any, "BatchConverter", Callable[[Any], Any]]:
        """Open a slice: its reader, what converts its batches, and what gives them the column for errors."""
        from arrowipc.spark.read.convert import BatchConverter
        from arrowipc.spark.types import TypeOptions

        options = self._options
        source = options.source(piece.path, piece.size, dict(piece.version))
        torn = piece.torn or (piece.stop is None and options.recover)
        opener = options.open_damaged if torn else options.open
        reader = opener(source, options.columns)
        try:
            target, place = self._target([field.name for field in reader.schema], piece.path)
            chosen = None if options.columns is not None else _selection(reader, target, piece.path)
            if chosen is not None:
                reader.close()
                reader = opener(source, chosen)
            return reader, BatchConverter(reader.schema, target, TypeOptions.of(self._raw), piece.path), place
        except BaseException:
            reader.close()
            raise

    def _target(self, names: list[str], path: str) -> tuple["StructType", Callable[[Any], Any]]:
        """The columns that a file must have, and what adds the one for errors, empty, to its batches."""
        from pyspark.sql.types import StructType

        name = self._options.corrupt_column
        if name in self._schema.names and name in names and self._options.mode == "permissive":
            raise UsageError(
                f"{path} has a column {name!r} of its own, which the texts of errors would replace; name "
                "another one with the option columnNameOfCorruptRecord"
            )
        if name not in self._schema.names or name in names:
            return self._schema, lambda batch: batch
        target = StructType([field for field in self._schema.fields if field.name != name])
        return target, self._with_empty_column

    def _batches(self, reader: Any, piece: Slice) -> Iterator[Any]:
        """The batches of a slice, and an error in the place of each that is damaged."""
        if piece.stop is None:
            yield from _in_order(reader)
            return
        numbers = list(self._wanted(reader, range(piece.first, piece.stop)))
        reader._expect(numbers)
        for number in numbers:
            try:
                found = reader.get_batch(number)
            except FormatError as error:
                found = error
            yield found

    def _wanted(self, reader: Any, numbers: range) -> Iterable[int]:
        """The batches that the pruner does not rule out; a damaged one is kept, and told when it is read."""
        if self.pruner is None:
            return numbers
        reader._expect(numbers)
        kept = []
        for number in numbers:
            try:
                metadata = reader.get_batch_metadata(number)
            except FormatError:
                kept.append(number)
                continue
            if self.pruner.keeps(metadata, reader.schema):
                kept.append(number)
        return kept

    def _convert(
        self, path: str, convert: "BatchConverter", place: Callable[[Any], Any], batch: Any
    ) -> Iterator["pa.RecordBatch"]:
        """Convert a batch; where malformed ones pass, all of it before the first row goes out."""
        parts = map(place, convert.split(convert.hand_over(batch), self._options.rows_per_batch))
        if self._options.mode == "failfast":
            return parts
        try:
            return iter(list(parts))
        except UnsupportedError as error:
            return self._malformed(path, error)

    # -- what is damaged --

    def _malformed(self, path: str, error: ArrowIpcError) -> Iterator["pa.RecordBatch"]:
        """What comes in the place of a batch, or of what is left of a stream, that cannot be read."""
        if path not in str(error):
            error = type(error)(f"{path}: {error}")
        if self._options.mode == "permissive":
            yield self._corrupt_row(str(error))
        else:
            self._pass_over(error)

    def _pass_over(self, error: ArrowIpcError) -> None:
        if not self._options.goes_on:
            raise error
        log.warning("left out: %s", error)

    def _corrupt_row(self, text: str) -> "pa.RecordBatch":
        import pyarrow as pa

        from arrowipc.spark.types import arrow_schema_of

        schema = arrow_schema_of(self._schema)
        return pa.RecordBatch.from_arrays(
            [
                pa.array([text], field.type)
                if field.name == self._options.corrupt_column
                else pa.nulls(1, field.type)
                for field in schema
            ],
            schema=schema,
        )

    def _with_empty_column(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        import pyarrow as pa

        from arrowipc.spark.types import arrow_schema_of

        schema, columns = arrow_schema_of(self._schema), iter(batch.columns)
        return pa.RecordBatch.from_arrays(
            [
                pa.nulls(batch.num_rows, field.type)
                if field.name == self._options.corrupt_column
                else next(columns)
                for field in schema
            ],
            schema=schema,
        )


def infer_schema(options: Mapping[str, str]) -> "StructType":
    """Spark's schema of the first file, or where damage is passed over of the first that can be read."""
    from pyspark.sql.types import StringType, StructType

    from arrowipc.spark.types import to_spark_schema

    chosen = ReadOptions.of(options)
    path, found = _first_schema(chosen, find_files(options))
    with naming(path):
        schema = to_spark_schema(found, options)
    if chosen.columns is not None:
        order = [column if column in schema.names else column.split(".")[0] for column in chosen.columns]
        schema = StructType([schema[name] for name in dict.fromkeys(order) if name in schema.names])
    if chosen.mode == "permissive":
        if chosen.corrupt_column in schema.names:
            raise UsageError(
                f"{path} has a column {chosen.corrupt_column!r} of its own, and mode PERMISSIVE adds one "
                "for the texts of errors; name another one with the option columnNameOfCorruptRecord"
            )
        schema = StructType([*schema.fields]).add(chosen.corrupt_column, StringType())
    return schema


def _first_schema(options: ReadOptions, files: list[FoundFile]) -> tuple[str, Any]:
    """The Arrow schema of the first file that has one, and that file."""
    first: Exception | None = None
    for file in files:
        source = options.source(file.path, file.size)
        try:
            with naming(file.path), _opened(options, source) as reader:
                return file.path, reader.schema
        except FormatError as error:
            if not options.goes_on:
                raise
            first = first or error
        except FileNotFoundError as error:
            if not options.ignore_missing:
                raise
            first = first or error
    assert first is not None  # find_files found something
    raise first


def _opened(options: ReadOptions, source: "str | RemoteSource") -> Any:
    try:
        return options.open(source, options.columns)
    except FormatError:
        if not options.recover:
            raise
    return options.open_damaged(source, options.columns)


def _selection(reader: Any, target: "StructType", path: str) -> list[int | str] | None:
    """The columns to read from a file, None for all of them."""
    from arrowipc.spark.types import find_name

    names = [field.name for field in reader.schema]
    wanted: list[int | str] = [find_name(name, names, path) for name in target.names]
    return None if len(wanted) == len(names) else wanted


def _in_order(reader: Any) -> Iterator[Any]:
    """The batches of a stream, and the error that ends it; of a recovery too, where that is a report."""
    batches = iter(reader)
    while True:
        try:
            batch = next(batches, None)
        except FormatError as error:
            yield error
            return
        if batch is None:
            break
        yield batch
    report = getattr(reader, "report", None)
    if report is not None and not report.complete:
        yield FormatError(f"damaged: {report}")


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Name the file in any arrowipc error that passes."""
    try:
        yield
    except ArrowIpcError as error:
        if path in str(error):
            raise
        raise type(error)(f"{path}: {error}") from error


def cut(
    path: str, blocks: list[int], target: int, most: int | None, file_size: int | None = None
) -> Iterator[tuple[Slice, int]]:
    """Group consecutive blocks (sizes in bytes) into slices of about ``target`` bytes or ``most`` blocks."""
    first = weight = 0
    for index, size in enumerate(blocks):
        full = index - first == most if most else weight + size > target
        if index > first and full:
            yield Slice(path, first, index, file_size), weight
            first, weight = index, 0
        weight += size
    if blocks:
        yield Slice(path, first, len(blocks), file_size), weight


def pack(slices: list[tuple[Slice, int]], target: int) -> Iterator[list[Slice]]:
    """Put consecutive small slices together, up to ``target`` bytes."""
    together: list[Slice] = []
    weight = 0
    for piece, size in slices:
        if together and weight + size + OPEN_COST > target:
            yield together
            together, weight = [], 0
        together.append(piece)
        weight += size + OPEN_COST
    if together:
        yield together
