"""Reading Arrow IPC files and streams in Spark: what each task reads is planned, then read and converted."""

import errno
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from arrowipc.dataset.partitioning import keys_of
from arrowipc.errors import ArrowIpcError, FormatError, UnsupportedError
from arrowipc.read.files import FoundFile, is_url, naming
from arrowipc.read.remote import RemoteSource
from arrowipc.reader import RecordBatchFileReader
from arrowipc.schema import Schema
from arrowipc.spark.options import ReadOptions
from arrowipc.spark.read.planning import Layout, Slice, plan
from arrowipc.spark.read.windows import Window, windows
from arrowipc.spark.shipping import Shipped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from arrowipc.spark.read.columns import FileColumns
    from arrowipc.spark.read.convert import BatchConverter

__all__ = ["ArrowIpcReader"]

log: logging.Logger = logging.getLogger("arrowipc.spark")

#: Bodies of more bytes are not read at once.
LARGE = 64 << 20


class ArrowIpcReader(Shipped, DataSourceReader):
    """Plans the partitions of a read on the driver, and reads them on the executors."""

    def __init__(self, schema: "StructType", options: ReadOptions) -> None:
        from arrowipc.spark.read.columns import check_added

        self._schema = schema
        self._options = options
        self._last: tuple[Schema, list[str], BatchConverter] | None = None
        self._last_columns: tuple[Any, FileColumns] | None = None
        check_added(schema, options)

    # -- on the driver --

    def partitions(self) -> list[InputPartition]:
        """Cut the files into partitions; only footers are read, and heads of messages, never bodies."""
        files = self._wanted_files(self._options.files())
        return plan(files, self._options, self._look, share=self._share(files), prunes=self._prunes)

    @property
    def _prunes(self) -> bool:
        """Whether `_wanted` leaves batches out."""
        return False

    def _wanted_files(self, files: list[FoundFile]) -> list[FoundFile]:
        """Those of the files that the query needs: all of them."""
        return files

    def _look(self, file: FoundFile) -> Layout | None:
        """Where the batches of a file lie that the query needs; None: one task reads all of it."""
        path = file.path
        try:
            source = self._options.source(path, file.size)
            if is_url(path) and self._options.is_stream(source):
                return None  # an index of its messages would cost requests
            with naming(path), self._options.open(source, index=True) as reader:
                blocks = [(at, metadata + body) for at, metadata, body in reader.blocks]
                # Which remote batches are needed is asked on the executors: here it would cost requests.
                if not is_url(path) and self._prunes:
                    blocks = [blocks[number] for number in self._wanted(reader, file, range(len(blocks)))]
        except FormatError:
            if self._options.tolerates_damage:
                return None  # the task says what is wrong, and reads what can be read
            raise
        return Layout(blocks, tuple(source.version.items()) if isinstance(source, RemoteSource) else ())

    def _share(self, files: list[FoundFile]) -> float:
        """The part of the bytes that the chosen columns have, by the first batch of the largest file."""
        largest = max(files, key=lambda file: file.size or 0, default=None)
        if largest is None or is_url(largest.path):
            return 1.0
        options = replace(self._options, validate="none")  # no byte of the body is touched
        try:
            source = options.source(largest.path, largest.size)
            with options.open(source) as reader:
                schema = reader.schema
                wanted = {name.lower() for name in self._schema.names}
                columns = options.columns or [name for name in schema.names if name.lower() in wanted]
                if options.columns is None and len(columns) == len(schema.names):
                    return 1.0
                whole = next(iter(reader)).nbytes
            with options.open(source, columns) as reader:
                return float(next(iter(reader)).nbytes / whole) or 1.0
        except (ArrowIpcError, OSError, StopIteration, ZeroDivisionError):
            return 1.0  # what is wrong with the file is said by those who read it

    def _wanted(self, reader: Any, file: FoundFile | Slice, numbers: Sequence[int]) -> Iterable[int]:
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
        try:
            source = self._source(piece)
            reader, convert, columns, reopen = self._open(piece, source)
        except FileNotFoundError:
            if not self._options.ignore_missing:
                raise
        except FormatError as error:
            yield from self._malformed(self._columns(piece), None, error)
        else:
            window = Window(source)
            with closing(reader):
                for number, row, found in self._batches(reader, piece, reopen if window.maps else None):
                    if isinstance(found, FormatError):
                        yield from self._malformed(columns, number, found)
                        continue
                    for part in self._convert(convert, columns, number, row, found):
                        yield part
                        window.passed(part)

    def _source(self, piece: Slice) -> Any:
        """What the readers of a slice take."""
        source = self._options.source(piece.path, piece.size, dict(piece.version))
        if piece.ranges is not None and not is_url(piece.path) and len(source) != piece.size:
            sizes = f"{piece.size} bytes then, {len(source)} now"
            raise OSError(errno.ESTALE, f"the file changed after it was planned ({sizes}): read it again", piece.path)
        return source

    def _columns(self, piece: Slice, names: Sequence[str] = ()) -> "FileColumns":
        """What a file with columns of these names has to give; of many files that are alike it is planned once."""
        from arrowipc.spark.read.columns import FileColumns

        keys = keys_of(piece.path, piece.below)
        last = self._last_columns
        if last is not None and last[0] == (names, [*keys]):
            return last[1].of_file(piece.path, keys)
        made = FileColumns(self._schema, self._options, piece.path, keys, names)
        self._last_columns = (names, [*keys]), made
        return made

    def _open(
        self, piece: Slice, source: Any
    ) -> tuple[Any, "BatchConverter", "FileColumns", Callable[[ReadOptions], Any]]:
        """Open a slice: its reader, what converts its batches, completes their columns, and opens it otherwise."""
        from arrowipc.spark.read.columns import chosen_columns

        options, part = self._options, piece.ranges is not None
        opener = options.opener(source, part)
        reader = opener()
        try:
            columns = self._columns(piece, reader.schema.names)
            chosen = chosen_columns(reader.schema, columns.target, options.columns, piece.path)
            if chosen is not None:
                reader.close()
                reader = opener(chosen)
            convert = self._converter(reader.schema, columns.target, piece.path)
            return reader, convert, columns, lambda changed: changed.opener(source, part)(chosen)
        except BaseException:
            reader.close()
            raise

    def _converter(self, schema: Schema, target: "StructType", path: str) -> "BatchConverter":
        """What converts the batches of a file; of many files it is planned once, where their schemas are equal."""
        from arrowipc.spark.read.convert import BatchConverter

        if self._last is None or self._last[1] != target.names or not self._last[0].equals(schema, check_metadata=True):
            convert = BatchConverter(schema, target, self._options.types, path, missing_is_null=True)
            self._last = schema, target.names, convert
        return self._last[2]

    def _batches(
        self, reader: Any, piece: Slice, reopen: Callable[[ReadOptions], Any] | None = None
    ) -> Iterator[tuple[int, int, Any]]:
        """The batches of a slice, large ones window by window, with their numbers and that of their first row.

        In place of one that is damaged its FormatError.
        """
        if not isinstance(reader, RecordBatchFileReader):
            for number, batch in enumerate(_in_order(reader)):
                yield number, 0, batch
            return
        blocks = reader.blocks
        numbers = list(self._wanted(reader, piece, piece.numbers(blocks)))
        reader._expect(numbers)
        unchecked = None
        for number in numbers:
            size = blocks[number][2]
            if size > LARGE and reopen is not None and self._options.mode == "failfast":
                # To check all of it at once would bring all of it into memory.
                unchecked = unchecked or reopen(replace(self._options, validate="none"))
                level: Any = self._options.validate
                row = 0
                for window in windows(unchecked.get_batch(number), size, level):
                    yield number, row, window
                    row += window.num_rows
                continue
            found: Any
            try:
                found = reader.get_batch(number)
            except FormatError as error:
                found = error
            yield number, 0, found

    def _convert(
        self, convert: "BatchConverter", columns: "FileColumns", number: int, row: int, batch: Any
    ) -> Iterator["pa.RecordBatch"]:
        """Convert a batch; unless errors end the query, all of it before the first row goes out."""
        convert.label = f"{columns.path}: record batch {number}"

        def completed() -> Iterator["pa.RecordBatch"]:
            first = row
            for part in convert.split(convert.hand_over(batch), self._options.rows_per_batch):
                yield columns.complete(part, number, first)
                first += part.num_rows

        if self._options.mode == "failfast":
            return completed()
        try:
            return iter(list(completed()))
        except UnsupportedError as error:
            return self._malformed(columns, number, error)

    # -- what is damaged --

    def _malformed(
        self, columns: "FileColumns", number: int | None, error: ArrowIpcError
    ) -> Iterator["pa.RecordBatch"]:
        """What replaces a batch, or the rest of a stream, that cannot be read: a row of nulls, or nothing."""
        if columns.path not in str(error):
            error = type(error)(f"{columns.path}: {error}")
        if self._options.mode == "permissive":
            yield columns.malformed(number, str(error))
        else:
            self._pass_over(error)

    def _pass_over(self, error: ArrowIpcError) -> None:
        if not self._options.tolerates_damage:
            raise error
        log.warning("left out: %s", str(error))  # handlers may keep what they are given


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
