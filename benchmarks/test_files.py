"""What do files of many batches cost to open, to read, to write and to close?

Files of two columns and ten rows a batch, in the page cache; not mapped, pyarrow reads with ``pa.OSFile``. Batches are
written to memory that has been written to before; closing writes a footer with a block per batch.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Run, Runs, question, size, sizes
from measuring.writes import warm

import arrowipc

ROWS = 10
MAPS = {"mapped": pa.memory_map, "not mapped": pa.OSFile}


def file_of(folder: Path, count: int) -> str:
    path = folder / "batches.arrow"
    path.write_bytes(data.file([data.plain_batch(2, ROWS)] * count))
    return str(path)


def theirs(path: str, use: Callable[[Any], Any], how: str = "mapped") -> int:
    with MAPS[how](path) as source, pa.ipc.open_file(source) as reader:
        return int(use(reader))


def ours(path: str, use: Callable[[Any], Any], how: str = "mapped", validate: Any = "none") -> int:
    with arrowipc.open_file(path, memory_map=how == "mapped", validate=validate) as reader:
        return int(use(reader))


READERS = "pyarrow, arrowipc, arrowipc full, polars"


@question("open a file of many batches and read one", READERS, unit="call")
@pytest.mark.parametrize("how", MAPS)
@pytest.mark.parametrize("number", [size(100, 3), size(100_000, 5)])
def test_one_batch(folder: Path, number: int, how: str) -> Runs:
    path, turn = file_of(folder, number), itertools.count()

    def each(read: Callable[..., int], **options: Any) -> Run:
        following = itertools.cycle(np.random.default_rng(5).integers(0, number, 1000).tolist()).__next__
        return lambda: read(path, lambda reader: reader.get_batch(following()).num_rows, how, **options)

    def by_polars() -> int:
        return peers.polars.scan_ipc(path).slice(next(turn) % number * ROWS, ROWS).collect().height

    found = {"pyarrow": each(theirs), "arrowipc": each(ours), "arrowipc full": each(ours, validate="full")}
    return found | ({"polars": by_polars} if how == "mapped" else {})


@question("read all of a file of many batches", READERS, unit="batch", per="count", curve=True)
@pytest.mark.parametrize("count", sizes(2, 100, 1_000, 10_000, 100_000))
def test_all(folder: Path, count: int) -> Runs:
    path = file_of(folder, count)

    def of_theirs(reader: Any) -> int:
        return peers.rows_of(map(reader.get_batch, range(reader.num_record_batches)))

    return {
        "pyarrow": lambda: theirs(path, of_theirs),
        "arrowipc": lambda: ours(path, peers.rows_of),
        "arrowipc full": lambda: ours(path, peers.rows_of, validate="full"),
        "polars": lambda: peers.polars.read_ipc(path).height,
    }


@question("write files of many batches: {part}", "pyarrow, arrowipc", unit="batch", per="count", timed=True, curve=True)
@pytest.mark.parametrize("count", sizes(2, 1_000, 10_000, 100_000))
@pytest.mark.parametrize("part", ["the batches", "closing"])
def test_write(part: str, count: int) -> Runs:
    batch = data.plain_batch(2, ROWS)
    (own,) = arrowipc.open_stream(data.stream([batch]))
    target = warm(len(data.file([batch] * count)) * 5 // 4)
    buffer = pa.py_buffer(target)

    def timed(open_writer: Callable[[], Any], batch: Any) -> float:
        writer = open_writer()
        start = perf_counter()
        for _ in range(count):
            writer.write_batch(batch)
        written = perf_counter()
        writer.close()
        return perf_counter() - written if part == "closing" else written - start

    sink = bytearray()
    timed(lambda: arrowipc.new_file(sink, own.schema), own)
    assert pa.ipc.open_file(pa.py_buffer(sink)).num_record_batches == count
    return {
        "pyarrow": lambda: timed(lambda: pa.ipc.new_file(pa.FixedSizeBufferWriter(buffer), batch.schema), batch),
        "arrowipc": lambda: timed(lambda: arrowipc.new_file(target, own.schema), own),
    }
