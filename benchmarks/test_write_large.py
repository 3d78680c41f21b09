"""How fast is much data written: to memory, beside a bare copy of the same bytes, and to a file?

128 MB in batches of 100,000 rows and as one batch, opening and closing the writer included. Memory has been written to
before. A file was not there before, and counts until the system has the data, or the disk ("durable"); removing it
does not.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Run, Runs, question, size
from measuring.writes import Input, bound, by_pyarrow, presized, proven, to_buffer, warm

import arrowipc

#: Bytes that are written.
WHOLE = 128_000_000
SHAPES = [*data.SHAPES, "everyday"]


def input_of(shape: str, one: bool) -> Input:
    """Return batches of `WHOLE` bytes, or as many rows in one."""
    rows = size(100_000, 40)
    batch = data.shaped(shape, rows)
    batches = [batch] * size(WHOLE // batch.nbytes, 2)
    return Input(pa.Table.from_batches(batches).combine_chunks().to_batches() if one else batches)


@question("write 128 MB to memory", "memcpy, pyarrow, arrowipc", unit="run", baseline="memcpy")
@pytest.mark.parametrize("batches", ["many batches", "one batch"])
@pytest.mark.parametrize("shape", SHAPES)
def test_memory(shape: str, batches: str) -> Runs:
    given = input_of(shape, batches == "one batch")
    source = np.frombuffer(to_buffer(by_pyarrow, given.pyarrow), np.uint8)
    target = warm(bound(given))
    room = np.frombuffer(target, np.uint8)[: source.size]

    def copy() -> memoryview:
        np.copyto(room, source)
        return target

    return {"memcpy": proven(copy, given.table), **presized(given, target)}


def file_by_pyarrow(path: str, given: Input, durable: bool) -> None:
    with pa.OSFile(path, "wb") as sink:
        with pa.ipc.new_file(sink, given.table.schema) as writer:
            for batch in given.pyarrow:
                writer.write_batch(batch)
        if durable:
            os.fsync(sink.fileno())


def file_by_arrowipc(path: str, given: Input, durable: bool) -> None:
    with arrowipc.new_file(path, given.arrowipc[0].schema, durable=durable) as writer:
        for batch in given.arrowipc:
            writer.write_batch(batch)


def file_by_arro3(path: str, given: Input, durable: bool) -> None:
    reader = peers.arro3_core.RecordBatchReader.from_batches(given.arro3[0].schema, given.arro3)
    with open(path, "wb") as sink:
        peers.arro3_io.write_ipc(reader, sink, compression=None)


def fresh(folder: str, write: Callable[..., None], given: Input, durable: bool) -> Run:
    """Return a run that returns the seconds of writing a file that was not there before."""
    path = str(Path(folder, "data.arrow"))
    seen = False

    def run() -> float:
        nonlocal seen
        start = perf_counter()
        write(path, given, durable)
        seconds = perf_counter() - start
        if not seen:
            proven(lambda: path, given.table, lambda path: pa.ipc.open_file(pa.memory_map(path)))()
            seen = True
        os.unlink(path)
        return seconds

    return run


@question("write 128 MB to a file", "pyarrow, arrowipc, polars, arro3", unit="run", timed=True)
@pytest.mark.parametrize("durable", [False, True], ids=["page cache", "durable"])
@pytest.mark.parametrize("shape", SHAPES)
def test_file(folder: Path, shape: str, durable: bool) -> Runs:
    given = input_of(shape, False)
    writers: dict[str, Callable[..., None]] = {"pyarrow": file_by_pyarrow, "arrowipc": file_by_arrowipc}
    if not durable:
        writers["arro3"] = file_by_arro3
        if shape != data.SHAPES[3]:  # polars has no maps
            frame = peers.polars.from_arrow(given.table, rechunk=False)
            writers["polars"] = lambda path, given, durable: frame.write_ipc(path)
    return {name: fresh(folder, write, given, durable) for name, write in writers.items()}
