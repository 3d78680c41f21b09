"""Reading Arrow IPC files and streams in Spark: planned in partitions of whole record batches, then converted."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from arrowipc.dataset.partitioning import keys_of
from arrowipc.errors import ArrowIpcError, FormatError, UnsupportedError
from arrowipc.read.files import FoundFile, is_url, naming
from arrowipc.read.remote import RemoteSource
from arrowipc.spark.options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from arrowipc.spark.read.columns import FileColumns
    from arrowipc.spark.read.convert import BatchConverter

__all__ = ["ArrowIpcReader"]

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
    #: Where in the path the folders begin that may be keys.
    base: int = 0

    @property
    def keys(self) -> dict[str, str | None]:
        """The keys of the folders, and their texts."""
        return keys_of(self.path, self.path[self.base :])


@dataclass(frozen=True)
class SlicePartition(InputPartition):
    """What one Spark task reads."""

    slices: tuple[Slice, ...]


class ArrowIpcReader(DataSourceReader):
    """Plans the partitions of a read on the driver, and reads them on the executors."""

    def __init__(self, schema: "StructType", options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        from arrowipc.spark.read.columns import check_added

        check_added(schema, options)

    # -- on the driver --

    def partitions(self) -> list[InputPartition]:
        """Cut the files into partitions; only footers are read, never bodies."""
        files = self._wanted_files(self._options.files())
        target = self._options.partition_bytes or min(
            LARGEST_PARTITION,
            max(SMALLEST_PARTITION, sum(file.size or 0 for file in files) // PARTITIONS_AIMED_AT),
        )

        def plan(file: FoundFile) -> list[tuple[Slice, int]]:
            base = len(file.path) - len(file.below)
            return [(replace(piece, base=base), size) for piece, size in self._plan(file, target)]

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
                wanted = (
                    range(len(sizes)) if is_url(path) else self._wanted(reader, path, range(len(sizes)), file.below)
                )
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

    def _wanted_files(self, files: list[FoundFile]) -> list[FoundFile]:
        """The files in which rows of the query may be: all of them."""
        return files

    def _wanted(self, reader: Any, path: str, numbers: Sequence[int], below: str) -> Iterable[int]:
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
            yield self._columns(piece).malformed(None, piece.lost)
            return
        try:
            reader, convert, columns = self._open(piece)
        except FileNotFoundError:
            if not self._options.ignore_missing:
                raise
        except FormatError as error:
            yield from self._malformed(self._columns(piece), piece.path, None, error)
        else:
            with closing(reader):
                for number, found in self._batches(reader, piece):
                    if isinstance(found, FormatError):
                        yield from self._malformed(columns, piece.path, number, found)
                    else:
                        yield from self._convert(piece.path, convert, columns, number, found)

    def _columns(self, piece: Slice, names: Sequence[str] = ()) -> "FileColumns":
        from arrowipc.spark.read.columns import FileColumns

        return FileColumns(self._schema, self._options, piece.path, piece.keys, names)

    def _open(self, piece: Slice) -> tuple[Any, "BatchConverter", "FileColumns"]:
        """Open a slice: its reader, what converts its batches, and what completes them."""
        from arrowipc.spark.read.columns import chosen_columns
        from arrowipc.spark.read.convert import BatchConverter

        options = self._options
        source = options.source(piece.path, piece.size, dict(piece.version))
        torn = piece.torn or (piece.stop is None and options.recover)
        opener = options.open_damaged if torn else options.open
        reader = opener(source)
        try:
            columns = self._columns(piece, reader.schema.names)
            chosen = chosen_columns(reader.schema, columns.target, options.columns, piece.path)
            if chosen is not None:
                reader.close()
                reader = opener(source, chosen)
            label = piece.path
            convert = BatchConverter(reader.schema, columns.target, options.types, label, missing_is_null=True)
            return reader, convert, columns
        except BaseException:
            reader.close()
            raise

    def _batches(self, reader: Any, piece: Slice) -> Iterator[tuple[int, Any]]:
        """The batches of a slice with their numbers; in place of one that is damaged, its FormatError."""
        if piece.stop is None:
            yield from enumerate(_in_order(reader))
            return
        numbers = list(self._wanted(reader, piece.path, range(piece.first, piece.stop), piece.path[piece.base :]))
        reader._expect(numbers)
        for number in numbers:
            try:
                found = reader.get_batch(number)
            except FormatError as error:
                found = error
            yield number, found

    def _convert(
        self, path: str, convert: "BatchConverter", columns: "FileColumns", number: int, batch: Any
    ) -> Iterator["pa.RecordBatch"]:
        """Convert a batch; unless errors end the query, all of it before the first row goes out."""
        convert.label = f"{path}: record batch {number}"

        def completed() -> Iterator["pa.RecordBatch"]:
            row = 0
            for part in convert.split(convert.hand_over(batch), self._options.rows_per_batch):
                yield columns.complete(part, number, row)
                row += part.num_rows

        if self._options.mode == "failfast":
            return completed()
        try:
            return iter(list(completed()))
        except UnsupportedError as error:
            return self._malformed(columns, path, number, error)

    # -- what is damaged --

    def _malformed(
        self, columns: "FileColumns", path: str, number: int | None, error: ArrowIpcError
    ) -> Iterator["pa.RecordBatch"]:
        """What replaces a batch, or the rest of a stream, that cannot be read: a row of nulls, or nothing."""
        if path not in str(error):
            error = type(error)(f"{path}: {error}")
        if self._options.mode == "permissive":
            yield columns.malformed(number, str(error))
        else:
            self._pass_over(error)

    def _pass_over(self, error: ArrowIpcError) -> None:
        if not self._options.tolerates_damage:
            raise error
        log.warning("left out: %s", error)


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
