"""How fast do rows come out of Arrow files at random, one by one, in batches, and in a DataLoader?

500,000 rows of a number, a float, a text and a list of eight numbers, 1,000 to a batch where nothing else is said, in
one stream in the page cache, as Hugging Face caches them; opened before, other rows each time. "in batches" is the way
that datasets recommends for speed. arrowipc has ``format="numpy"`` in a DataLoader and torch's ``default_convert`` in
the loop, or has it as ``collate_fn``, so that workers send tensors; "python" is the default of both.
"""

import itertools
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from measuring import data, peers
from measuring.race import Runs, question, size, sizes

import arrowipc

datasets = pytest.importorskip("datasets")
torch_data = pytest.importorskip("torch.utils.data")

ROWS, BATCHES = size(500_000, 600), size(500, 6)
#: Rows of an epoch, which datasets takes a second or more for, and of a batch of it.
EPOCH, BATCH = size(50_000, 300), 256
READERS = "pyarrow, datasets, arrowipc, polars"


def stream_of(folder: Path, rows: int, number: int, **options: Any) -> str:
    """Write a stream of so many rows, in so many batches; return its path."""
    path = folder / "rows.arrows"
    path.write_bytes(data.stream(data.training_rows(rows).to_batches(-(-rows // number)), **options))
    return str(path)


def by_pyarrow(path: str) -> Any:
    with pa.memory_map(path) as source:
        return pa.ipc.open_stream(source).read_all()


def asked(readers: dict[str, Callable[[list[int]], Any]], count: int) -> Runs:
    """Return runs that read other rows each time, the same ones for every contender."""
    chance = np.random.default_rng(5)
    rows = [chance.integers(0, ROWS, count).tolist() for _ in range(50)]
    turns = {name: itertools.cycle(rows) for name in readers}
    return {name: lambda turn=turns[name], read=read: read(next(turn)) for name, read in readers.items()}


def takers(path: str, form: str, seen: bool = False) -> dict[str, Callable[[list[int]], Any]]:
    """Return those who make a dict of lists, or a batch; `seen`: ours has taken every row once, as pyarrow's table."""
    theirs, table, reader = datasets.Dataset.from_file(path), by_pyarrow(path), arrowipc.open(path, index=True)
    for start in range(0, ROWS if seen else 0, 4096):
        reader.take(range(start, min(start + 4096, ROWS)))
    frame, arrow = peers.polars.read_ipc_stream(path), theirs.with_format("arrow")
    if form == "lists":
        return {
            "pyarrow": lambda at: table.take(at).to_pydict(),
            "datasets": theirs.__getitem__,
            "arrowipc": lambda at: reader.take(at).to_pydict(),
            "polars": lambda at: frame[at].to_dict(as_series=False),
        }
    return {
        "pyarrow": lambda at: table.take(at).num_rows,
        "datasets": lambda at: arrow[at].num_rows,
        "arrowipc": lambda at: reader.take(at).num_rows,
        "polars": lambda at: frame[at].height,
    }


@question("one random row as a dict", READERS + ", reader", unit="row", baseline="datasets")
def test_one_row(folder: Path) -> Runs:
    path = stream_of(folder, ROWS, BATCHES)
    theirs, table, ours = datasets.Dataset.from_file(path), by_pyarrow(path), arrowipc.RowDataset(path)
    reader, frame = arrowipc.open(path, index=True), peers.polars.read_ipc_stream(path)
    found = {
        "datasets": lambda at: theirs[at[0]],
        "pyarrow": lambda at: table.slice(at[0], 1).to_pylist()[0],
        "arrowipc": lambda at: ours[at[0]],
        "reader": lambda at: reader.row(at[0]),
        "polars": lambda at: frame.row(at[0], named=True),
    }
    rows = [read([ROWS // 2]) for read in found.values()]
    assert all(row == rows[0] for row in rows)
    return asked(found, 1)


@question("random rows as {form}", READERS, unit="row", per="count")
@pytest.mark.parametrize("count", [32, 1024])
@pytest.mark.parametrize("form", ["lists", "a batch", "a batch of LZ4"])
def test_rows(folder: Path, form: str, count: int) -> Runs:
    """pyarrow, datasets and polars have LZ4 decompressed beforehand."""
    path = stream_of(folder, ROWS, BATCHES, compression="lz4" if "LZ4" in form else None)
    return asked(takers(path, form), count)


@question("random rows of more and more batches", READERS, unit="row", per="count", curve=True, x="number")
@pytest.mark.parametrize("number", sizes(10, 10, 100, 1000, 10_000, 100_000))
@pytest.mark.parametrize("count", [1, 32, 1024])
def test_more_batches(folder: Path, count: int, number: int) -> Runs:
    return asked(takers(stream_of(folder, ROWS, number), "lists", seen=True), count)


def itself(value: Any) -> Any:
    return value


def epoch(rows: Any, workers: int, whole: bool = False, after: Any = itself, **options: Any) -> float:
    """Return the seconds of one epoch; `after` is what the loop itself does with a batch."""
    if whole:
        sampler = torch_data.BatchSampler(torch_data.RandomSampler(rows), BATCH, False)
        options |= {"sampler": sampler, "batch_size": None}
    else:
        options |= {"shuffle": True, "batch_size": BATCH}
    loader = torch_data.DataLoader(rows, num_workers=workers, persistent_workers=workers > 0, **options)
    for _ in range(2 if workers else 1):  # with workers the second one counts, when they have started
        start = time.perf_counter()
        found = sum([len(after(batch)["id"]) for batch in loader])
        taken = time.perf_counter() - start
    assert found == EPOCH
    return taken


LOADERS = "datasets, datasets torch, datasets in batches, arrowipc, arrowipc python"


@question("a shuffled epoch in a DataLoader{form}", LOADERS, unit="row", baseline="datasets", per=EPOCH, timed=True)
@pytest.mark.parametrize(("form", "workers"), [("", 0), ("", 2), (" whose workers make tensors", 2)])
def test_loaders(folder: Path, form: str, workers: int) -> Runs:
    path = stream_of(folder, EPOCH, -(-EPOCH // 1000))
    theirs, arrays = datasets.Dataset.from_file(path), arrowipc.RowDataset(path, format="numpy")
    plain, convert = partial(epoch, theirs, workers), torch_data.default_convert
    if form:
        return {"datasets": plain, "arrowipc": partial(epoch, arrays, workers, collate_fn=convert)}
    return {
        "datasets": plain,
        "datasets torch": partial(epoch, theirs.with_format("torch"), workers),
        "datasets in batches": partial(epoch, theirs.with_format("torch"), workers, whole=True),
        "arrowipc python": partial(epoch, arrowipc.RowDataset(path), workers),
        "arrowipc": partial(epoch, arrays, workers, collate_fn=itself, after=convert),
    }


@question("a folder of many files: count, first batch", "polars, pyarrow, arrowipc", unit="call", baseline="polars")
def test_folder(folder: Path) -> Runs:
    polars = peers.polars
    for i in range(size(10_000, 20)):
        Path(folder, f"part-{i:05}.arrow").write_bytes(data.file([data.plain_batch(4, 10)]))

    def by_arrowipc() -> tuple[int, int]:
        found = arrowipc.open_dataset(folder)
        return found.count_rows(), next(iter(found)).num_rows

    def by_dataset() -> tuple[int, int]:
        found = pads.dataset(folder, format="arrow")
        return found.count_rows(), next(found.to_batches()).num_rows

    def by_polars() -> tuple[int, int]:
        found = polars.scan_ipc(f"{folder}/*.arrow")
        return int(found.select(polars.len()).collect().item()), found.head(10).collect().height

    return {"polars": by_polars, "pyarrow": by_dataset, "arrowipc": by_arrowipc}
