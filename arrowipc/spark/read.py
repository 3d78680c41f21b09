"""Reading Arrow IPC files and streams in Spark: partitions cut at record batches, batches made fit."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from arrowipc.errors import ArrowIpcError
from arrowipc.spark.files import find_files
from arrowipc.spark.options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["ArrowIpcReader", "naming"]

MIB = 1 << 20
# A partition should keep a core busy for much longer than the 50 ms that a task costs, and a read of a few
# gigabytes should still fill the cores of a small cluster.
SMALLEST_PARTITION = 4 * MIB
LARGEST_PARTITION = 128 * MIB
PARTITIONS_AIMED_AT = 32
# What opening one more file costs, in bytes that could be read meanwhile.
OPEN_COST = MIB // 4


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
