"""What does it cost to read a few columns of a file over HTTP, where each request takes 20 ms, or 1 % of its batches?

The server is another process, with connections that stay open. Columns: five of 1,000, of all 20 batches (306 MB) or of
two. Pruning: rows of 500 batches, of which a filter matches five that lie together, are counted: by a full read, by
``open_dataset(source).filter(...)``, which looks at the footer's statistics, by the same by hand, and by polars.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import processes
from measuring import data
from measuring.race import Run, Runs, question, size

import arrowipc
from arrowipc.filters.pruning import Pruner

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")
pl = pytest.importorskip("polars")

#: Serves a file, each answer after a while; prints its address, and the bytes sent so far for every line.
SERVER = """
import sys
from pathlib import Path
from helpers.web import Web

with Web({"x.arrow": Path(sys.argv[1]).read_bytes()}) as web:
    web.delay, web.versions = 0.02, False
    print(web.url("x.arrow"), flush=True)
    for _ in sys.stdin:
        print(web.sent(), flush=True)
"""


@contextlib.contextmanager
def served(path: Path) -> Iterator[tuple[str, Callable[[Run], int]]]:
    """Serve a file from another process; yields its address, and what returns the bytes that are sent for a run."""
    with processes.start("-c", SERVER, path) as server:

        def sent() -> int:
            print(file=server.stdin, flush=True)
            return int(server.stdout.readline())

        def sent_for(run: Run) -> int:
            before = sent()
            run()
            return sent() - before

        yield server.stdout.readline().strip(), sent_for


def readers(url: str, columns: list[int], numbers: Any) -> Runs:
    """Return what reads some columns of some batches, and counts their rows."""
    options, system = pa.ipc.IpcReadOptions(included_fields=columns), fsspec.filesystem("http")

    def of_pyarrow(source: Any) -> int:
        reader = pa.ipc.open_file(source, options=options)
        return sum(reader.get_batch(i).num_rows for i in numbers)

    def opened() -> int:
        with system.open(url) as file:
            return of_pyarrow(pa.PythonFile(file, "r"))

    def ours(**given: Any) -> int:
        with arrowipc.open_file(arrowipc.RemoteSource(url, given), columns=columns) as reader:
            if len(numbers) == reader.num_record_batches:
                return reader.read_all().num_rows
            return sum(batch.num_rows for batch in reader.get_batches(numbers))

    return {
        "pyarrow": opened,
        "pyarrow downloaded": lambda: of_pyarrow(pa.BufferReader(system.cat_file(url))),
        "arrowipc": ours,
        "arrowipc new connections": lambda: ours(skip_instance_cache=True),
    }


@question(
    "5 of 1000 columns of a file over HTTP, 20 ms a request: {which}",
    "pyarrow, pyarrow downloaded, arrowipc, arrowipc new connections",
    unit="file",
)
@pytest.mark.parametrize("which", ["all batches", "2 of 20 batches"])
@pytest.mark.parametrize("shape", data.SHAPES)
def test_columns(folder: Path, shape: str, which: str) -> Iterator[Runs]:
    columns, count, path = size(1000, 50), size(20, 5), folder / "x.arrow"
    rows = max(size(306_000_000, 10_000) // count // (data.shaped(shape, 100, columns).nbytes // 100), 1)
    numbers = range(count) if which == "all batches" else [count // 5, count // 2]
    wanted = [i * columns // 5 + (2 * i + 1) % 10 for i in range(5)]  # of each kind in a mix of ten
    path.write_bytes(data.file([data.shaped(shape, rows, columns)] * count))
    with served(path) as (url, _):
        yield readers(url, wanted, numbers)


def write(path: Path, codec: Any) -> tuple[int, int]:
    """Write batches whose times and ids rise; return the bounds of all ids but one of a hundredth of the batches."""
    count, rows = size(500, 100), size(1 << 16, 16)
    random, words = np.random.default_rng(3), pa.array([f"word number {i}" for i in range(1000)])
    with arrowipc.new_file(path, statistics=True, compression=codec, durable=False) as writer:
        for number in range(count):
            ids = np.arange(number * rows, (number + 1) * rows)
            text = words.take(pa.array(random.integers(0, 1000, rows)))
            times = pa.array(ids * 1000, pa.timestamp("us"))
            writer.write(pa.record_batch({"t": times, "id": ids, "x": random.random(rows), "word": text}))
    return count // 2 * rows + 1, count // 2 * rows + count // 100 * rows


def queries(source: str, low: int, high: int, local: bool) -> Runs:
    """Return those that count the rows of a path or a URL whose ids lie between two."""
    terms = [("id", ">=", low), ("id", "<", high)]

    def matching(batch: arrowipc.RecordBatch) -> int:
        ids = batch["id"].to_numpy()
        return int(np.count_nonzero((ids >= low) & (ids < high)))

    def full() -> int:
        with arrowipc.open_file(source) as reader:
            return sum(map(matching, reader))

    def pruned() -> int:
        with arrowipc.open_file(source) as reader:
            pruner = Pruner(terms, reader.schema)
            found = arrowipc.file_statistics(reader, pruner.columns)
            return sum(matching(reader.get_batch(i)) for i, known in enumerate(found) if pruner.keeps(known))

    def data_set() -> int:
        return sum(map(matching, arrowipc.open_dataset(source).filter(terms)))

    found: Runs = {"full read": full, "arrowipc": data_set, "reader and Pruner": pruned}
    if local:
        test = pl.col("id").is_between(low, high, closed="left")
        for name, scan in (("scan_polars", arrowipc.scan_polars), ("polars", pl.scan_ipc)):
            found[name] = lambda scan=scan: scan(source).filter(test).select(pl.len()).collect().item()
    return found


PRUNERS = "full read, arrowipc, reader and Pruner, scan_polars, polars"


@question("read 1 % of the batches, by statistics", PRUNERS, unit="query", baseline="full read")
@pytest.mark.parametrize("where", ["mapped", "mapped, lz4", "over HTTP"])
def test_pruning(folder: Path, where: str) -> Iterator[Runs]:
    path = folder / "x.arrow"
    low, high = write(path, None if where == "mapped" else "lz4")
    if where != "over HTTP":
        yield queries(str(path), low, high, True)
        return
    with served(path) as (url, _):
        yield queries(url, low, high, False)


@question("bytes sent for 1 % of the batches", PRUNERS, unit="bytes", baseline="full read")
def test_bytes_sent(folder: Path) -> Iterator[Runs]:
    low, high = write(folder / "x.arrow", "lz4")
    with served(folder / "x.arrow") as (url, sent_for):
        yield {name: partial(sent_for, run) for name, run in queries(url, low, high, False).items()}
