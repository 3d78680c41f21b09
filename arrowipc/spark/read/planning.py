"""Planning a read: which bytes of which files each task of Spark reads, counted before any of them is read."""

import json
import logging
import os
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from arrowipc.read.files import FoundFile, is_url
from arrowipc.spark.options import ReadOptions

__all__ = ["Layout", "Slice", "SlicePartition", "partition_count", "plan"]

log: logging.Logger = logging.getLogger("arrowipc.spark")

MIB = 1 << 20
# What a task costs, in bytes that could be read meanwhile.
SMALLEST_PARTITION = 4 * MIB
# Spark's own, which registered sessions may know better.
LARGEST_PARTITION = 128 * MIB
# What opening one more file costs, in bytes. Spark's own default, 4 MiB, is made for Parquet, whose footers and
# pages take longer; ten thousand small files would become hundreds of tasks.
OPEN_COST = MIB // 16
# Pieces of about so many to a partition are shared out evenly.
PIECES = 8
# Remote files that are looked at together: their cost is waiting.
PLANNING_THREADS = 16


class Slice(NamedTuple):
    """What a task reads of one file: the batches that begin in some ranges of bytes; None: all of them.

    ``size`` and ``version`` tell the file from another one of its name, so that all tasks read what was planned.
    """

    path: str
    ranges: tuple[tuple[int, int], ...] | None = None
    size: int | None = None
    version: tuple[tuple[str, str], ...] = ()
    #: Where in the path the folders begin that may be keys.
    base: int = 0

    @property
    def below(self) -> str:
        """The part of the path in which folders may be keys."""
        return self.path[self.base :]

    def numbers(self, blocks: Iterable[tuple[int, int, int]]) -> list[int]:
        """Which of the batches, by their positions in the file, belong to this slice."""
        if self.ranges is None:
            return [number for number, _ in enumerate(blocks)]
        starts, stops = zip((-1, -1), *self.ranges, strict=True)  # in front of all ranges lies an empty one
        return [number for number, (at, _, _) in enumerate(blocks) if at < stops[bisect_right(starts, at) - 1]]


class SlicePartition(InputPartition):
    """What one Spark task reads; compressed, as Spark keeps all partitions in the driver's memory."""

    def __init__(self, slices: Iterable[Slice]) -> None:
        self._packed = zlib.compress(json.dumps(list(slices)).encode(), 1)

    @property
    def slices(self) -> Iterator[Slice]:
        """The parts, in order."""
        for path, ranges, size, version, base in json.loads(zlib.decompress(self._packed)):
            yield Slice(path, ranges and tuple(map(tuple, ranges)), size, tuple(map(tuple, version)), base)


class Layout(NamedTuple):
    """What the driver found in a file: where its batches begin and how long they are, of those that are needed."""

    blocks: list[tuple[int, int]]
    version: tuple[tuple[str, str], ...] = ()


#: Looks at a file; None: it is read as a whole. ``FileNotFoundError`` where it is gone.
Look = Callable[[FoundFile], Layout | None]


def partition_count(weight: float, options: ReadOptions) -> int:
    """How many partitions so many bytes become: as many as there are cores, or a multiple of that.

    All tasks of a wave end at about the same time, as each has the same share.
    """
    if options.partition_bytes:
        return int(max(1, -(-weight // options.partition_bytes)))
    cores = options.min_partitions or _cores()
    waves = -(-weight // (cores * (options.max_partition_bytes or LARGEST_PARTITION)))
    return int(max(1, min(cores * max(1, waves), weight // SMALLEST_PARTITION)))


def _cores() -> int:
    """Cores of the driver's machine: all that a session that was never registered tells its planner."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def plan(
    files: list[FoundFile], options: ReadOptions, look: Look | None, *, share: float = 1.0, prunes: bool = False
) -> list[InputPartition]:
    """Cut files into partitions.

    Parameters
    ----------
    files : list of FoundFile
        In the order in which they are read.
    options : ReadOptions
        How large partitions are, and how many files the driver looks at.
    look : callable, optional
        Finds the batches of a file; without it, files stay whole.
    share : float
        The part of the bytes that is read.
    prunes : bool
        Whether what lies in a file decides if it is read.
    """
    cost = OPEN_COST if options.open_cost is None else options.open_cost
    total = sum(file.size or 0 for file in files) * share + cost * len(files)
    target = total / partition_count(total, options)
    every = options.batches_per_partition

    def looked_at(file: FoundFile) -> bool:
        if look is None:
            return False
        # A remote file that is whole in one task needs no look: each costs requests.
        size = file.size or 0
        return bool(every or (prunes and not is_url(file.path)) or size * share > target or size > LARGEST_PARTITION)

    large = [file for file in files if looked_at(file)]
    layouts: dict[str, Layout | None]
    gone: set[str]
    if look is None:
        layouts, gone = {}, set()
    elif len(large) > options.planning_threshold and not every:
        # The tasks look: what begins in their part of the file is theirs. A damaged file has no parts, and stays whole.
        step = max(1, int(target / share / PIECES))
        layouts = {
            file.path: Layout([(at, min(step, file.size - at)) for at in range(0, file.size, step)])
            for file in large
            if file.size and not is_url(file.path) and not options.tolerates_damage
        }
        gone = set()
    else:
        layouts, gone = _look_at(large, options, look)
    if gone:
        files = [file for file in files if file.path not in gone]
    pieces = _Pieces(files, layouts, share, cost)
    if every:
        found: Iterable[list[Slice]] = _by_number(pieces, every)
    else:
        weight = sum(size for _, _, size in pieces)
        found = _spread(pieces, weight, partition_count(weight, options))
    partitions: list[InputPartition] = [SlicePartition(slices) for slices in found]
    log.info("planned %d files, %d bytes of them, as %d partitions", len(files), total, len(partitions))
    return partitions


def _look_at(files: list[FoundFile], options: ReadOptions, look: Look) -> tuple[dict[str, Layout | None], set[str]]:
    """What is in some files, and which of them are gone."""

    def found(file: FoundFile) -> Layout | FileNotFoundError | None:
        try:
            return look(file)
        except FileNotFoundError as error:
            if not options.ignore_missing:
                raise
            return error

    if len(files) > 1 and any(is_url(file.path) for file in files):
        with ThreadPoolExecutor(PLANNING_THREADS) as pool:
            layouts = list(pool.map(found, files))
    else:
        layouts = [found(file) for file in files]
    known = dict(zip([file.path for file in files], layouts, strict=True))
    gone = {path for path, layout in known.items() if isinstance(layout, FileNotFoundError)}
    return {path: layout for path, layout in known.items() if not isinstance(layout, FileNotFoundError)}, gone


class _Pieces:
    """What can be given to tasks, in order: a file, its layout and the range of a block or None, and the bytes."""

    def __init__(self, files: list[FoundFile], layouts: dict[str, Layout | None], share: float, cost: int) -> None:
        self._files, self._layouts, self._share, self._cost = files, layouts, share, cost

    def __iter__(self) -> Iterator[tuple[FoundFile, tuple[int, int] | None, float]]:
        for file in self._files:
            layout = self._layouts.get(file.path)
            if layout is None:
                yield file, None, self._cost + (file.size or 0) * self._share
                continue
            # A footer may list blocks that overlap, and one several times: all that begin at a byte stay together.
            sizes: dict[int, int] = {}
            for at, size in sorted(layout.blocks):
                sizes[at] = sizes.get(at, 0) + size
            cost = self._cost
            for (at, size), end in zip(sizes.items(), [*list(sizes)[1:], None], strict=False):
                yield file, (at, at + size if end is None else min(at + size, end)), cost + size * self._share
                cost = 0

    def slice(self, file: FoundFile, ranges: list[tuple[int, int]]) -> Slice:
        """The slice that has these ranges of a file, or all of it where there are none."""
        layout = self._layouts.get(file.path)
        version = () if layout is None else layout.version
        return Slice(file.path, tuple(ranges) or None, file.size, version, len(file.path) - len(file.below))


def _spread(pieces: _Pieces, weight: float, count: int) -> Iterator[list[Slice]]:
    """Give each of `count` partitions the pieces that lie in its share of all bytes."""
    slices: list[Slice] = []
    ranges: list[tuple[int, int]] = []
    last: FoundFile | None = None
    reached, current = 0.0, 0
    for file, span, size in pieces:
        number = min(count - 1, int((reached + size / 2) * count / (weight or 1)))
        if last is not None and (number != current or file is not last):
            slices.append(pieces.slice(last, ranges))
            ranges = []
        if number != current and slices:
            yield slices
            slices = []
        if span is not None:
            if ranges and ranges[-1][1] == span[0]:
                span = ranges.pop()[0], span[1]
            ranges.append(span)
        last, current, reached = file, number, reached + size
    if last is not None:
        yield [*slices, pieces.slice(last, ranges)]


def _by_number(pieces: _Pieces, most: int) -> Iterator[list[Slice]]:
    """Give each partition at most so many batches, of one file."""
    ranges: list[tuple[int, int]] = []
    last: FoundFile | None = None
    for file, span, _ in pieces:
        if last is not None and (file is not last or len(ranges) == most):
            yield [pieces.slice(last, ranges)]
            ranges = []
        if span is not None:
            ranges.append(span)
        last = file
    if last is not None:
        yield [pieces.slice(last, ranges)]
