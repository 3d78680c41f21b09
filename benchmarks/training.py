"""How fast do rows come out of Arrow files at random, one by one, in batches, and in a DataLoader?

500,000 rows of a number, a float, a text and a list of eight numbers, 1,000 to a batch where nothing else is said, in
one *stream* on the disk, as Hugging Face caches them, in the page cache. Other rows each time. Measured in one process
by turns, the data opened before:

* datasets: ``Dataset.from_file(path)``, indexed by a number or a list; with a DataLoader as its documentation has it,
  and with ``with_format("torch")``; "in batches" is the way that it recommends for speed: a BatchSampler and
  ``batch_size=None``.
* pyarrow: ``take`` and ``slice`` of the table that ``open_stream(memory_map(path)).read_all()`` gives.
* polars: rows of the frame that ``read_ipc_stream`` gives, which is in memory, and in one piece.
* arrowipc: ``RowDataset(path)`` for one row and for loaders, ``open(path, index=True)`` for the rest. In a DataLoader
  with ``format="numpy"``, and torch's ``default_convert`` in the loop; "tensors" has it as ``collate_fn``, so that
  workers send tensors, which go through a file of shared memory each; "python" is the default of both.

Beside: LZ4, and cold caches (the file is dropped from the page cache, opened, and read, all of which counts). What a
worker has for itself is ``Private_*`` of its smaps_rollup after an epoch, less what a worker has that reads nothing.
A folder of 10,000 files is opened, its rows counted, and its first batch read.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.children import printed
from benchmarks.harness import Case, Curve, Fact, Run, Scale

TITLE = "random rows, and training data"

ROWS = 500_000
#: Rows of an epoch; datasets takes a second or more for so many.
EPOCH = 100_000
BATCH = 256


def missing() -> str | None:
    """Say what is not installed."""
    lacking = [name for name in ("datasets", "torch") if peers.optional(name) is None]
    return f"needs {' and '.join(lacking)}" if lacking else None


def cases(scale: Scale) -> Iterator[Case | Fact]:
    """Single rows, some rows, numbers of batches, codecs and caches; loaders; a folder."""
    with tempfile.TemporaryDirectory() as folder:
        rows = scale.size(ROWS, 600)
        path = write(Path(folder, "rows.arrow"), rows, scale.size(500, 6))
        yield Case("one row as a dict", "row", 1, singles(path, rows), at_most=4e-6, baseline="datasets")
        for count, goals in ((32, (0.7e-6, 0.4e-6)), (1024, (0.6e-6, 0.6e-6))):
            for how, most in zip((lists, batches), goals, strict=True):
                name = f"{count} rows as {'lists' if how is lists else 'a batch'}"
                yield Case(name, "row", count, how(path, rows, count), at_most=most, baseline="pyarrow")
        yield from curves(Path(folder), scale)
        yield from beside(Path(folder), scale)
        yield from loaders(Path(folder), scale)
        if scale.name != "quick":
            yield from memory(path, scale)
    yield from folders(scale)


def write(path: Path, rows: int, number: int, **options: Any) -> str:
    """Lay down a stream of so many rows, in so many batches."""
    chance = np.random.default_rng(3)
    words = np.array(data.WORDS, dtype=object)[chance.integers(0, len(data.WORDS), rows)]
    lists_ = pa.FixedSizeListArray.from_arrays(pa.array(chance.integers(0, 50_000, rows * 8)), 8)
    table = pa.table(
        {
            "id": pa.array(np.arange(rows, dtype=np.int64)),
            "x": pa.array(chance.random(rows)),
            "text": pa.array([f"{word} {i}" for i, word in enumerate(words)], pa.string()),
            "tokens": lists_.cast(pa.list_(pa.int64())),
        }
    )
    length = -(-rows // number)
    with pa.ipc.new_stream(str(path), table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=length)
    return str(path)


def chosen(rows: int, count: int) -> Callable[[], list[int]]:
    """Return what gives other rows each time, the same ones to every contender."""
    chance = np.random.default_rng(5)
    ways = [chance.integers(0, rows, count).tolist() for _ in range(50)]
    turn = iter(range(1 << 60))
    return lambda: ways[next(turn) % 50]


def by_datasets(path: str) -> Any:
    import datasets

    return datasets.Dataset.from_file(path)


def by_pyarrow(path: str) -> Any:
    with pa.memory_map(path) as source:
        return pa.ipc.open_stream(source).read_all()


def asked(read: Callable[[list[int]], Any], rows: int, count: int) -> Run:
    """Return a run that reads other rows each time."""
    following = chosen(rows, count)
    return lambda: read(following())


def singles(path: str, rows: int) -> dict[str, Run]:
    theirs, table, ours = by_datasets(path), by_pyarrow(path), arrowipc.RowDataset(path)
    reader = arrowipc.open(path, index=True)
    found = {
        "datasets": lambda at: theirs[at[0]],
        "pyarrow": lambda at: table.slice(at[0], 1).to_pylist()[0],
        "arrowipc": lambda at: ours[at[0]],
        "arrowipc reader": lambda at: reader.row(at[0]),
    }
    if peers.polars is not None:
        frame = peers.polars.read_ipc_stream(path)
        found["polars"] = lambda at: frame.row(at[0], named=True)
    return {name: asked(read, rows, 1) for name, read in found.items()}


def lists(path: str, rows: int, count: int, seen: bool = False) -> dict[str, Run]:
    """Return those who make a dict of lists; `seen`: ours has taken every row once, which pyarrow's table has."""
    theirs, table, reader = by_datasets(path), by_pyarrow(path), arrowipc.open(path, index=True)
    for start in range(0, rows if seen else 0, 4096):
        reader.take(range(start, min(start + 4096, rows)))
    found = {
        "pyarrow": lambda at: table.take(at).to_pydict(),
        "datasets": lambda at: theirs[at],
        "arrowipc": lambda at: reader.take(at).to_pydict(),
    }
    if peers.polars is not None:
        frame = peers.polars.read_ipc_stream(path)
        found["polars"] = lambda at: frame[at].to_dict(as_series=False)
    return {name: asked(read, rows, count) for name, read in found.items()}


def batches(path: str, rows: int, count: int) -> dict[str, Run]:
    """Return those who keep the rows as columns."""
    table, reader = by_pyarrow(path), arrowipc.open(path, index=True)
    theirs = by_datasets(path).with_format("arrow")
    found = {
        "pyarrow": lambda at: table.take(at).num_rows,
        "datasets": lambda at: theirs[at].num_rows,
        "arrowipc": lambda at: reader.take(at).num_rows,
    }
    if peers.polars is not None:
        frame = peers.polars.read_ipc_stream(path)
        found["polars"] = lambda at: frame[at].height
    return {name: asked(read, rows, count) for name, read in found.items()}


def curves(folder: Path, scale: Scale) -> Iterator[Case]:
    """As many rows in more and more batches, each seen before: 1.5 times as long from 10 to 100,000 is n**0.044."""
    rows = scale.size(ROWS, 600)
    for number in (10, 100, 1000, 10_000, 100_000) if scale.thorough else (10, 1000):
        path = write(folder / f"{number}.arrow", rows, min(number, rows))
        for count in (1, 32, 1024):
            curve = Curve(f"{count} rows as lists", number, at_most=0.044)
            found = lists(path, rows, count, seen=True)
            yield Case(f"{count} of {number} batches", "row", count, found, curve=curve)
        os.unlink(path)


def beside(folder: Path, scale: Scale) -> Iterator[Case]:
    """LZ4, which has no goal: whoever wants a row decompresses its batch; and caches that are cold."""
    rows, number = scale.size(ROWS, 600), scale.size(500, 6)
    path = write(folder / "lz4.arrow", rows, number, compression="lz4")
    for count in (1, 32, 1024):
        found = {"pyarrow": None, "arrowipc": arrowipc.open(path, index=True)}
        table = by_pyarrow(path)  # decompressed, all of it, before the first row
        runs = {
            "pyarrow": asked(lambda at, table=table: table.take(at).num_rows, rows, count),
            "arrowipc": asked(lambda at, reader=found["arrowipc"]: reader.take(at).num_rows, rows, count),
        }
        yield Case(f"{count} rows of LZ4, pyarrow has it decompressed", "row", count, runs)
    for count in (32, 1024):
        cold = {
            "pyarrow": lambda path, at: by_pyarrow(path).take(at).num_rows,
            "datasets": lambda path, at: len(by_datasets(path)[at]["id"]),
            "arrowipc": lambda path, at: arrowipc.open(path, index=True).take(at).num_rows,
        }
        runs = {}
        for name, read in cold.items():  # a file each: what one has mapped cannot be dropped
            path = write(folder / f"{name}.arrow", rows, number)
            runs[name] = partial(after_drop, path, partial(read, path), chosen(rows, count))
        yield Case(f"open and {count} rows, cold caches", "row", count, runs, timed=True)


def after_drop(path: str, read: Callable[[list[int]], Any], following: Callable[[], list[int]]) -> float:
    """Return the seconds of a read that finds nothing of a file in memory."""
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
    at = following()
    start = time.perf_counter()
    read(at)
    return time.perf_counter() - start


# -- loaders -------------------------------------------------------------------------------------------------


def loaders(folder: Path, scale: Scale) -> Iterator[Case]:
    """A whole epoch in random order; with workers the second one, when they have started."""
    from torch.utils.data import default_convert

    count = EPOCH if scale.thorough else scale.size(EPOCH // 10, 300)
    path = write(folder / "epoch.arrow", count, -(-count // 1000))
    theirs, arrays = by_datasets(path), arrowipc.RowDataset(path, format="numpy")
    for workers, goal in ((0, 10), (2, 5)):
        ways = {
            "datasets": (theirs, {}),
            "datasets torch": (theirs.with_format("torch"), {}),
            "datasets in batches": (theirs.with_format("torch"), {"whole": True}),
            "arrowipc python": (arrowipc.RowDataset(path), {}),
            "arrowipc tensors": (arrays, {"collate_fn": default_convert}),
            "arrowipc": (arrays, {"collate_fn": itself, "after": default_convert}),
        }
        runs = {name: partial(epoch, rows, workers, count, **options) for name, (rows, options) in ways.items()}
        name = f"shuffled epoch, batches of {BATCH}, {workers} workers"
        yield Case(name, "row", count, runs, goal=goal, baseline="datasets", timed=True, threads=max(workers, 1))


def epoch(rows: Any, workers: int, count: int, whole: bool = False, after: Any = None, **options: Any) -> float:
    """Return the seconds of one epoch; `after` is what the loop itself does with a batch."""
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler

    if whole:
        options |= {"sampler": BatchSampler(RandomSampler(rows), BATCH, False), "batch_size": None}
    else:
        options |= {"shuffle": True, "batch_size": BATCH}
    loader = DataLoader(rows, num_workers=workers, persistent_workers=workers > 0, **options)
    for _ in range(2 if workers else 1):
        start = time.perf_counter()
        found = sum([len((batch if after is None else after(batch))["id"]) for batch in loader])
        taken = time.perf_counter() - start
    assert found == count
    return taken


class Watched:
    """A data set whose batches are the bytes that the process which reads it has for itself."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, numbers: list[int]) -> int:
        if not isinstance(self.rows, range):
            self.rows.__getitems__(numbers)
        with open("/proc/self/smaps_rollup") as file:
            return 1024 * sum([int(line.split()[1]) for line in file if line.startswith("Private")])


def itself(value: Any) -> Any:
    return value


def worker_bytes(kind: str, path: str, context: str) -> int:
    """Return what the larger of two workers has for itself after an epoch."""
    from torch.utils.data import DataLoader

    made = {
        "torch": lambda: range(20_000),
        "datasets": lambda: by_datasets(path),
        "arrowipc": lambda: arrowipc.RowDataset(path, format="numpy"),
    }
    options = {"num_workers": 2, "collate_fn": itself, "multiprocessing_context": context}
    loader = DataLoader(Watched(made[kind]()), batch_size=BATCH, shuffle=True, **options)
    return max(loader)


def memory(path: str, scale: Scale) -> Iterator[Fact]:
    """What a worker has beyond one that reads nothing."""
    for context in ("fork", "spawn") if scale.thorough else ("fork",):
        # The checkout comes last: its arrowipc need not be compiled.
        checkout = str(Path(__file__).resolve().parents[1])
        code = f"import sys\nsys.path.append({checkout!r})\nfrom benchmarks.training import worker_bytes\n"
        code += "print(worker_bytes({!r}, {!r}, {!r}))"
        alone = printed(code.format("torch", path, context))
        found = {name: [printed(code.format(name, path, context)) - alone] for name in ("datasets", "arrowipc")}
        yield Fact(f"private memory of a worker, {context}", found, at_most=30 << 20, baseline="datasets")


# -- folders -------------------------------------------------------------------------------------------------


def folders(scale: Scale) -> Iterator[Case]:
    """Many small files: opened, counted, the first batch read."""
    import pyarrow.dataset as pads

    number = 10_000 if scale.thorough else scale.size(1_000, 20)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(number):
            Path(folder, f"part-{i:05}.arrow").write_bytes(data.file([data.plain_batch(4, 10)]))

        def by_arrowipc() -> tuple[int, int]:
            found = arrowipc.open_dataset(folder)
            return found.count_rows(), next(iter(found)).num_rows

        def by_arrow() -> tuple[int, int]:
            found = pads.dataset(folder, format="arrow")
            return found.count_rows(), next(found.to_batches()).num_rows

        def by_polars() -> tuple[int, int]:
            polars = peers.polars
            found = polars.scan_ipc(f"{folder}/*.arrow")
            return int(found.select(polars.len()).collect().item()), found.head(10).collect().height

        runs: dict[str, Run] = {"pyarrow": by_arrow, "arrowipc": by_arrowipc}
        if peers.polars is not None:
            runs["polars"] = by_polars
        baseline = "polars" if peers.polars is not None else "pyarrow"
        yield Case(
            f"a folder of {number} files: count, first batch", "call", 1, runs, goal=1, baseline=baseline, threads=2
        )
