"""Reading Arrow IPC files and streams in Spark: what each task reads is planned, then read and converted."""

import errno
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from arrowipc.errors import ArrowIpcError, FormatError, UnsupportedError, UsageError
from arrowipc.read.files import FoundFile, is_url, naming
from arrowipc.read.remote import RemoteSource
from arrowipc.reader import RecordBatchFileReader
from arrowipc.schema import Schema
from arrowipc.spark.options import ReadOptions
from arrowipc.spark.read.planning import Layout, Slice, plan
from arrowipc.spark.read.windows import Window, windows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from arrowipc.spark.read.convert import BatchConverter

__all__ = ["ArrowIpcReader", "infer_schema"]

log: logging.Logger = logging.getLogger("arrowipc.spark")

#: Bodies of more bytes are not read at once.
LARGE = 64 << 20


class ArrowIpcReader(DataSourceReader):
    """Plans the partitions of a read on the driver, and reads them on the executors."""

    def __init__(self, schema: "StructType", options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._last: tuple[Schema, list[str], BatchConverter] | None = None
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
                    blocks = [blocks[number] for number in self._wanted(reader, range(len(blocks)))]
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

    def _wanted(self, reader: Any, numbers: Sequence[int]) -> Iterable[int]:
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
            reader, convert, complete, reopen = self._open(piece, source)
        except FileNotFoundError:
            if not self._options.ignore_missing:
                raise
        except FormatError as error:
            yield from self._malformed(piece.path, error)
        else:
            window = Window(source)
            with closing(reader):
                for found in self._batches(reader, piece, reopen if window.maps else None):
                    if isinstance(found, FormatError):
                        yield from self._malformed(piece.path, found)
                        continue
                    for part in self._convert(piece.path, convert, complete, found):
                        yield part
                        window.passed(part)

    def _source(self, piece: Slice) -> Any:
        """What the readers of a slice take."""
        source = self._options.source(piece.path, piece.size, dict(piece.version))
        if piece.ranges is not None and not is_url(piece.path) and len(source) != piece.size:
            sizes = f"{piece.size} bytes then, {len(source)} now"
            raise OSError(errno.ESTALE, f"the file changed after it was planned ({sizes}): read it again", piece.path)
        return source

    def _open(
        self, piece: Slice, source: Any
    ) -> tuple[Any, "BatchConverter", Callable[[Any], Any], Callable[[ReadOptions], Any]]:
        """Open a slice: its reader, what converts its batches, adds the column for errors, and opens it otherwise."""
        options, part = self._options, piece.ranges is not None
        columns: Any = options.columns
        opener = options.opener(source, part)
        reader = opener(columns)
        try:
            target, complete = self._target([field.name for field in reader.schema], piece.path)
            chosen = None if options.columns is not None else _selection(reader, target, piece.path)
            if chosen is not None:
                reader.close()
                reader, columns = opener(chosen), chosen
            convert = self._converter(reader.schema, target, piece.path)
            return reader, convert, complete, lambda changed: changed.opener(source, part)(columns)
        except BaseException:
            reader.close()
            raise

    def _converter(self, schema: Schema, target: "StructType", path: str) -> "BatchConverter":
        """What converts the batches of a file; of many files it is planned once, where their schemas are equal."""
        from arrowipc.spark.read.convert import BatchConverter

        if self._last is None or self._last[1] != target.names or not self._last[0].equals(schema, check_metadata=True):
            self._last = schema, target.names, BatchConverter(schema, target, self._options.types)
        self._last[2].label = path
        return self._last[2]

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

    def _batches(self, reader: Any, piece: Slice, reopen: Callable[[ReadOptions], Any] | None = None) -> Iterator[Any]:
        """The batches of a slice, large ones window by window; in place of one that is damaged, its FormatError."""
        if not isinstance(reader, RecordBatchFileReader):
            yield from _in_order(reader)
            return
        blocks = reader.blocks
        numbers = list(self._wanted(reader, piece.numbers(blocks)))
        reader._expect(numbers)
        unchecked = None
        for number in numbers:
            size = blocks[number][2]
            if size > LARGE and reopen is not None and self._options.mode == "failfast":
                # To check all of it at once would bring all of it into memory.
                unchecked = unchecked or reopen(replace(self._options, validate="none"))
                level: Any = self._options.validate
                yield from windows(unchecked.get_batch(number), size, level)
                continue
            found: Any
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

    if options.describe:
        from arrowipc.spark.read.describe import COLUMNS

        path, schema = "", StructType([*COLUMNS.fields])
    else:
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
