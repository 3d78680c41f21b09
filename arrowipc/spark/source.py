"""The Spark data source ``arrowipc``: reads Arrow IPC files and streams, split at record batches."""

import difflib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import arrowipc
from arrowipc.errors import ArrowIpcError, UsageError
from arrowipc.spark.files import find_files, is_file_format

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["ArrowIpcDataSource", "ArrowIpcReader", "register"]

MIB = 1 << 20
# A partition should keep a core busy for much longer than the 50 ms that a task costs, and a read of a few
# gigabytes should still fill the cores of a small cluster.
SMALLEST_PARTITION = 4 * MIB
LARGEST_PARTITION = 128 * MIB
PARTITIONS_AIMED_AT = 32
# What opening one more file costs, in bytes that could be read meanwhile.
OPEN_COST = MIB // 4
DEFAULT_ROWS_PER_BATCH = 32_768

_OPTIONS = {
    "path",
    "paths",
    "pathglobfilter",
    "format",
    "columns",
    "batchesperpartition",
    "partitionbytes",
    "rowsperbatch",
    "validate",
    "nanoseconds",
    "unsupported",
}


def register(spark: "SparkSession") -> None:
    """Make ``spark.read.format("arrowipc")`` known to a session.

    Spark finds the data source by itself where the module ``pyspark_arrowipc`` is on the path of the driver's
    Python; this is for sessions where another package's broken ``pyspark_*`` module stops that search.
    """
    spark.dataSource.register(ArrowIpcDataSource)


class ArrowIpcDataSource(DataSource):
    """Reads Arrow IPC files (``.arrow``, Feather 2) and streams (``.arrows``, Hugging Face caches).

    Options (names in any case)
    ---------------------------
    path, paths
        Files, directories, patterns (``*``, ``**``, ``{a,b}``), or a JSON list; ``load(...)`` sets them.
    pathGlobFilter
        Pattern for the names of files in directories, such as ``*.arrow``.
    format
        ``auto`` (default; looks at each file), ``file`` or ``stream``.
    columns
        Names, separated by commas or as a JSON list; ``a.b`` reads field b of struct a. The rest is not read.
    batchesPerPartition
        Record batches of a file per Spark partition; the default goes by bytes.
    partitionBytes
        Bytes per partition, default between 4 and 128 MiB. A stream is never split.
    rowsPerBatch
        Rows handed to Spark at once, default 32,768.
    validate
        ``full`` (default), ``none`` or ``strict``, as in :func:`arrowipc.open`.
    nanoseconds, unsupported
        See :class:`arrowipc.spark.TypeOptions`.

    The schema is that of the first file; the columns of the others are found by name. A schema given with
    ``.schema(...)`` selects columns, and fields within structs, without reading the rest.
    """

    @classmethod
    def name(cls) -> str:
        """Name for ``spark.read.format``."""
        return "arrowipc"

    def schema(self) -> "StructType":
        """Spark schema of the first file, cut down to the option ``columns``."""
        from pyspark.sql.types import StructType

        from arrowipc.spark.types import to_spark_schema

        options = ReadOptions.of(self.options)
        path = find_files(self.options)[0]
        with naming(path), options.open(path, options.columns) as reader:
            schema = to_spark_schema(reader.schema, self.options)
        if options.columns is None:
            return schema
        order = [column if column in schema.names else column.split(".")[0] for column in options.columns]
        return StructType([schema[name] for name in dict.fromkeys(order) if name in schema.names])

    def reader(self, schema: "StructType") -> "ArrowIpcReader":
        """Build the reader of one query."""
        return ArrowIpcReader(schema, self.options)


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read, checked."""

    format: str
    columns: list[str] | None
    batches_per_partition: int | None
    partition_bytes: int | None
    rows_per_batch: int
    validate: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "ReadOptions":
        """Check Spark's options, which come as texts under lower-case names."""
        for name in options:
            close = difflib.get_close_matches(name.lower(), _OPTIONS, 1, 0.8)
            if name.lower() not in _OPTIONS and close:
                raise UsageError(f"arrowipc has no option {name!r}; did you mean {close[0]!r}?")
        return cls(
            format=_choice(options, "format", ("auto", "file", "stream")),
            columns=_columns(options.get("columns")),
            batches_per_partition=_count(options, "batchesPerPartition"),
            partition_bytes=_count(options, "partitionBytes"),
            rows_per_batch=_count(options, "rowsPerBatch") or DEFAULT_ROWS_PER_BATCH,
            validate=_choice(options, "validate", ("full", "none", "strict")),
        )

    def open(self, path: str, columns: Iterable[int | str] | None = None) -> Any:
        """Open a file of either format; a reader of arrowipc."""
        opener = {"auto": arrowipc.open, "file": arrowipc.open_file, "stream": arrowipc.open_stream}[
            self.format
        ]
        return opener(path, columns=None if columns is None else list(columns), validate=self.validate)

    def is_stream(self, path: str) -> bool:
        """Whether the file is to be read as a stream."""
        return self.format == "stream" or (self.format == "auto" and not is_file_format(path))


def _choice(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = options.get(name.lower(), allowed[0]).lower()
    if value not in allowed:
        raise UsageError(f"option {name}: expected one of {', '.join(allowed)}, found {value!r}")
    return value


def _count(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name.lower())
    if value is None:
        return None
    if not value.strip().isdecimal() or int(value) < 1:
        raise UsageError(f"option {name}: expected a whole number from 1, found {value!r}")
    return int(value)


def _columns(value: str | None) -> list[str] | None:
    if value is None:
        return None
    names: Any = [name.strip() for name in value.split(",")]
    if value.lstrip().startswith("["):
        try:
            names = json.loads(value)
        except ValueError:
            names = None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise UsageError(
            f"option columns: expected names separated by commas or a JSON list of names, found {value!r}"
        )
    return names


@dataclass(frozen=True)
class Slice:
    """Record batches ``first`` to ``stop`` (exclusive) of one file; ``stop`` None means all of a stream."""

    path: str
    first: int = 0
    stop: int | None = None


@dataclass(frozen=True)
class SlicePartition(InputPartition):
    """What one Spark task reads."""

    slices: tuple[Slice, ...]


class ArrowIpcReader(DataSourceReader):
    """Plans the partitions of a read on the driver, and reads them on the executors."""

    def __init__(self, schema: "StructType", options: Mapping[str, str]) -> None:
        self._schema = schema
        self._raw = dict(options)
        self._options = ReadOptions.of(options)

    def partitions(self) -> list[InputPartition]:
        """Cut the files into partitions; only footers are read, never bodies."""
        files = find_files(self._raw)
        sizes = {path: os.path.getsize(path) for path in files}
        target = self._options.partition_bytes or min(
            LARGEST_PARTITION, max(SMALLEST_PARTITION, sum(sizes.values()) // PARTITIONS_AIMED_AT)
        )
        slices: list[tuple[Slice, int]] = []
        for path in files:
            if self._options.is_stream(path):
                slices.append((Slice(path), sizes[path]))
                continue
            with naming(path), self._options.open(path) as reader:
                blocks = [metadata + body for _, metadata, body in reader.blocks]
            slices += cut(path, blocks, target, self._options.batches_per_partition)
        if self._options.batches_per_partition:
            return [SlicePartition((piece,)) for piece, _ in slices]
        return [SlicePartition(tuple(pieces)) for pieces in pack(slices, target)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read one partition as batches that have exactly the schema."""
        for piece in getattr(
            partition, "slices", ()
        ):  # Spark makes a bare InputPartition where there is none
            with naming(piece.path):
                yield from self._read(piece)

    def _read(self, piece: Slice) -> Iterator["pa.RecordBatch"]:
        from arrowipc.spark.convert import BatchConverter
        from arrowipc.spark.types import TypeOptions

        with self._options.open(piece.path, self._selection(piece.path)) as reader:
            convert = BatchConverter(reader.schema, self._schema, TypeOptions.of(self._raw), piece.path)
            numbers = range(piece.first, piece.stop) if piece.stop is not None else None
            batches = reader if numbers is None else map(reader.get_batch, numbers)
            for batch in batches:
                yield from convert.split(convert.hand_over(batch), self._options.rows_per_batch)

    def _selection(self, path: str) -> list[int | str] | None:
        """The columns to read from a file, None for all of them."""
        if self._options.columns is not None:
            return list(self._options.columns)
        from arrowipc.spark.convert import find_name

        with self._options.open(path) as reader:
            names = [field.name for field in reader.schema]
        wanted: list[int | str] = [find_name(name, names, path) for name in self._schema.names]
        return None if len(wanted) == len(names) else wanted


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Name the file in any arrowipc error that passes."""
    try:
        yield
    except ArrowIpcError as error:
        if path in str(error):
            raise
        raise type(error)(f"{path}: {error}") from error


def cut(path: str, blocks: list[int], target: int, most: int | None) -> Iterator[tuple[Slice, int]]:
    """Group consecutive blocks (sizes in bytes) into slices of about ``target`` bytes or ``most`` blocks."""
    first = weight = 0
    for index, size in enumerate(blocks):
        full = index - first == most if most else weight + size > target
        if index > first and full:
            yield Slice(path, first, index), weight
            first, weight = index, 0
        weight += size
    if blocks:
        yield Slice(path, first, len(blocks)), weight


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
