"""Reading Arrow IPC files and streams in Spark: planned in partitions of whole record batches, then converted."""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from arrowipc.errors import ArrowIpcError, FormatError, UnsupportedError, UsageError
from arrowipc.read.files import FoundFile, is_url, naming
from arrowipc.read.remote import RemoteSource
from arrowipc.spark.options import ReadOptions
from arrowipc.spark.shipping import Shipped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from arrowipc.spark.read.convert import BatchConverter

__all__ = ["ArrowIpcReader", "infer_schema"]

log: logging.Logger = logging.getLogger("arrowipc.spark")

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

    ``size`` and ``version`` identify a remote file, so that all tasks read the one that was planned. ``torn``
    says that the file has no readable footer, ``lost`` why nothing of it can be read.
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


class ArrowIpcReader(Shipped, DataSourceReader):
    """Plans the partitions of a read on the driver, and reads them on the executors."""

    def __init__(self, schema: "StructType", options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
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
        files = self._options.files()
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
        """Slices of one file, each with its size in bytes."""
        path, size = file.path, file.size
        try:
            source = self._options.source(path, size)
            if self._options.is_stream(source):
                return [(Slice(path, size=size), size or 0)]
            with naming(path), self._options.open(source) as reader:
                sizes = [metadata + body for _, metadata, body in reader.blocks]
                # Which remote batches are needed is asked on the executors: here it would cost requests.
                wanted = range(len(sizes)) if is_url(path) else self._wanted(reader, range(len(sizes)))
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
        version = tuple(source.version.items()) if isinstance(source, RemoteSource) else ()
        blocks = [(number, sizes[number]) for number in wanted]
        pieces = cut(path, blocks, target, self._options.batches_per_partition, size)
        return [(replace(piece, version=version), weight) for piece, weight in pieces]

    def _wanted(self, reader: Any, numbers: range) -> Iterable[int]:
        """The batches of a file, among those with these numbers, that the query needs: all of them."""
        return numbers

    # -- on the executors --

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read one partition as batches that have exactly the schema."""
        # Where the plan has no partition, Spark makes one of its own, without slices.
        for piece in getattr(partition, "slices", ()):
            with naming(piece.path):
                yield from self._read(piece)

    def _read(self, piece: Slice) -> Iterator["pa.RecordBatch"]:
        if piece.lost is not None:
            yield self._rows(1, (), piece.lost)
            return
        try:
            reader, convert, complete = self._open(piece)
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
                        yield from self._convert(piece.path, convert, complete, found)

    def _open(self, piece: Slice) -> tuple[Any, "BatchConverter", Callable[[Any], Any]]:
        """Open a slice: its reader, what converts its batches, and what adds the column for errors."""
        from arrowipc.spark.read.convert import BatchConverter

        options = self._options
        source = options.source(piece.path, piece.size, dict(piece.version))
        torn = piece.torn or (piece.stop is None and options.recover)
        opener = options.open_damaged if torn else options.open
        reader = opener(source, options.columns)
        try:
            target, complete = self._target([field.name for field in reader.schema], piece.path)
            chosen = None if options.columns is not None else _selection(reader, target, piece.path)
            if chosen is not None:
                reader.close()
                reader = opener(source, chosen)
            return reader, BatchConverter(reader.schema, target, options.types, piece.path), complete
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
        return target, lambda batch: self._rows(batch.num_rows, batch.columns)

    def _batches(self, reader: Any, piece: Slice) -> Iterator[Any]:
        """The batches of a slice; in place of one that is damaged, its FormatError."""
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

    def _convert(
        self, path: str, convert: "BatchConverter", complete: Callable[[Any], Any], batch: Any
    ) -> Iterator["pa.RecordBatch"]:
        """Convert a batch; unless errors end the query, all of it before the first row goes out."""
        parts = map(complete, convert.split(convert.hand_over(batch), self._options.rows_per_batch))
        if self._options.mode == "failfast":
            return parts
        try:
            return iter(list(parts))
        except UnsupportedError as error:
            return self._malformed(path, error)

    # -- what is damaged --

    def _malformed(self, path: str, error: ArrowIpcError) -> Iterator["pa.RecordBatch"]:
        """What replaces a batch, or the rest of a stream, that cannot be read: a row of nulls, or nothing."""
        if path not in str(error):
            error = type(error)(f"{path}: {error}")
        if self._options.mode == "permissive":
            yield self._rows(1, (), str(error))
        else:
            self._pass_over(error)

    def _pass_over(self, error: ArrowIpcError) -> None:
        if not self._options.tolerates_damage:
            raise error
        log.warning("left out: %s", error)

    def _rows(self, count: int, columns: Iterable[Any], error: str | None = None) -> "pa.RecordBatch":
        """Rows of the whole schema: the column for errors, and these columns or else nulls in the others."""
        import pyarrow as pa

        from arrowipc.spark.types import arrow_schema_of

        schema, left = arrow_schema_of(self._schema), iter(columns)
        arrays = []
        for field in schema:
            if field.name != self._options.corrupt_column:
                array = next(left, None)
            else:
                array = None if error is None else pa.array([error] * count, field.type)
            arrays.append(pa.nulls(count, field.type) if array is None else array)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def infer_schema(options: ReadOptions) -> "StructType":
    """Spark's schema of the first file, or where damage is tolerated of the first that can be read."""
    from pyspark.sql.types import StringType, StructType

    from arrowipc.spark.types import to_spark_schema

    path, found = _first_schema(options)
    with naming(path):
        schema = to_spark_schema(found, options.types)
    if options.columns is not None:
        order = [column if column in schema.names else column.split(".")[0] for column in options.columns]
        schema = StructType([schema[name] for name in dict.fromkeys(order) if name in schema.names])
    if options.mode == "permissive":
        if options.corrupt_column in schema.names:
            raise UsageError(
                f"{path} has a column {options.corrupt_column!r} of its own, and mode PERMISSIVE adds one "
                "for the texts of errors; name another one with the option columnNameOfCorruptRecord"
            )
        schema = StructType([*schema.fields]).add(options.corrupt_column, StringType())
    return schema


def _first_schema(options: ReadOptions) -> tuple[str, Any]:
    """The first file that has an Arrow schema, and that schema."""
    first: Exception | None = None
    for file in options.files():
        try:
            source = options.source(file.path, file.size)
            with naming(file.path), _opened(options, source) as reader:
                return file.path, reader.schema
        except FormatError as error:
            if not options.tolerates_damage:
                raise
            first = first or error
        except FileNotFoundError as error:
            if not options.ignore_missing:
                raise
            first = first or error
    assert first is not None  # find_files found something
    raise first


def _opened(options: ReadOptions, source: Any) -> Any:
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
    """The batches of a stream, then the error that ends it; of a recovery, what its report says was lost."""
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


def cut(
    path: str, blocks: Iterable[tuple[int, int]], target: int, most: int | None, file_size: int | None = None
) -> Iterator[tuple[Slice, int]]:
    """Group consecutive batches, (number, bytes) each, into slices of about ``target`` bytes or ``most`` batches."""
    first = stop = weight = 0
    for number, size in blocks:
        full = stop - first == most if most else weight + size > target
        if full or number > stop:
            if stop > first:
                yield Slice(path, first, stop, file_size), weight
            first, weight = number, 0
        stop, weight = number + 1, weight + size
    if stop > first:
        yield Slice(path, first, stop, file_size), weight


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
