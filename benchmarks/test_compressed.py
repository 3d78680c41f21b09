"""How fast are compressed streams read and written, with large and with small buffers, by one thread and by two?

Reading touches one byte of every page of every buffer (of small batches one byte each), whose sum must be the same for
pyarrow and us; of the others that all rows came. Writing goes to memory that has been written to before, at level 1 but
for arro3 and polars, which choose. nanoarrow and arro3 use one thread, polars as many as there are, so it takes part in
the cases with two. codec alone: ``pa.Codec`` over the same buffers, and nothing else: the floor.
"""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from measuring import data, peers, writes
from measuring.race import Run, Runs, question, size
from measuring.writes import Input

import arrowipc

PAGE, LEVEL = 4096, 1
#: Rows and batches of the streams of numbers.
LARGE, MIDDLE, SMALL = (size(1_000_000, 500), 1), (size(10_000, 50), size(20, 2)), (size(100, 10), size(200, 2))
CASES = [*itertools.product(data.SHAPES, [1, 2]), ("numbers", 1), ("numbers", 2)]


def numbers(rows: int) -> pa.RecordBatch:
    """Return eight columns that compress as real ones do: to about a third."""
    random = np.random.default_rng(11)
    steps = np.cumsum(random.integers(0, 1000, rows)) + 1_700_000_000_000
    words = np.array(data.WORDS, dtype=object)[random.integers(0, len(data.WORDS), rows)]
    columns = {
        "at": pa.array(steps.astype("datetime64[ms]")),
        "key": pa.array(random.integers(0, 5_000, rows)),
        "price": pa.array(random.integers(0, 100_000, rows) / 100),
        "level": pa.array(random.integers(0, 10, rows, dtype=np.int32)),
        "name": pa.array(words, pa.string()),
        "ratio": pa.array(random.integers(0, 1000, rows).astype(np.float32)),
        "day": pa.array(np.sort(random.integers(0, 20_000, rows, dtype=np.int32))),
        "count": pa.array(random.poisson(3, rows)),
    }
    return pa.record_batch(columns)


def large(shape: str) -> pa.RecordBatch:
    return numbers(LARGE[0]) if shape == "numbers" else data.shaped(shape, size(200_000, 50))


def pages(batch: Any) -> int:
    """Touch every page of every buffer; pyarrow's arrays and ours answer alike."""
    total, waiting = 0, list(batch.columns)
    while waiting:
        column = waiting.pop()
        for buffer in column.buffers():
            if buffer is not None:
                total += int(np.frombuffer(buffer, np.uint8)[::PAGE].sum(dtype=np.int64))
        if isinstance(column, arrowipc.Array):
            waiting += column.children  # pyarrow lists their buffers with those of the column
    return total


def one_byte(batch: Any) -> int:
    return memoryview(batch.column(0).buffers()[1]).cast("B")[0]


def alone(batches: list[pa.RecordBatch], threads: int, answer: Any, prepare: Callable, work: Callable) -> Run:
    """Return a run of nothing but the codec, whose answer is what all others find."""
    buffers = [buffer for batch in batches for column in batch.columns for buffer in column.buffers() if buffer]
    given = [prepare(buffer) for buffer in sorted(buffers, key=lambda buffer: -buffer.size)]
    pool = ThreadPoolExecutor(threads)

    def run() -> Any:
        list(pool.map(work, given) if threads > 1 else map(work, given))
        return answer

    return run


def readers(batch: pa.RecordBatch, count: int, codec: str, threads: int, touch: Callable[[Any], int]) -> Runs:
    source = data.stream([batch] * count, compression=codec)
    options = pa.ipc.IpcReadOptions(use_threads=threads > 1)
    pa.set_cpu_count(2)
    answer, rows = sum(map(touch, pa.ipc.open_stream(source))), count * batch.num_rows

    def ours(validate: Any) -> Run:
        return lambda: sum(map(touch, arrowipc.open_stream(source, validate=validate, use_threads=threads > 1)))

    one = pa.Codec(codec)
    found: Runs = {
        "pyarrow": lambda: sum(map(touch, pa.ipc.open_stream(source, options=options))),
        "arrowipc": ours("none"),
        "arrowipc full": ours("full"),
        "codec alone": alone(
            [batch] * count, threads, answer, lambda b: (one.compress(b), b.size), lambda p: one.decompress(*p)
        ),
    }
    others = peers.others(source, without=("polars",) if threads == 1 else ("nanoarrow", "arro3"))
    return found | {name: lambda run=run: answer if run() == rows else None for name, run in others.items()}


READERS = "pyarrow, arrowipc, arrowipc full, codec alone, nanoarrow, arro3, polars"


@question("read {codec} bodies of large buffers", READERS, unit="batch")
@pytest.mark.parametrize(("shape", "threads"), CASES)
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_read_large(codec: str, shape: str, threads: int) -> Runs:
    return readers(large(shape), 1, codec, threads, pages)


@question("read {codec} bodies of small buffers", READERS, unit="batch", per="count")
@pytest.mark.parametrize(("rows", "count", "threads"), [(*SMALL, 1), (*SMALL, 2), (*MIDDLE, 1)])
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_read_small(codec: str, rows: int, count: int, threads: int) -> Runs:
    return readers(numbers(rows), count, codec, threads, one_byte)


def writers(given: Input, codec: str, threads: int) -> Runs:
    pa.set_cpu_count(2)
    one, parallel = pa.Codec(codec, LEVEL), threads > 1
    theirs = pa.ipc.IpcWriteOptions(compression=one, use_threads=parallel)
    ours = {"compression": codec, "compression_level": LEVEL, "use_threads": parallel}
    found = writes.presized(given, writes.warm(writes.bound(given)), options=theirs, **ours)
    found["codec alone"] = alone(given.pyarrow, threads, None, lambda buffer: buffer, one.compress)
    if threads == 1:
        found["arro3"] = writes.proven(lambda: writes.to_bytes_io(writes.by_arro3, given.arro3, codec), given.table)
    if parallel and len(given.pyarrow) == 1:
        frame = peers.polars.from_arrow(given.table)
        expected = frame.to_arrow(compat_level=peers.polars.CompatLevel.oldest())
        found["polars"] = writes.proven(lambda: writes.to_bytes_io(frame.write_ipc_stream, compression=codec), expected)
    return found


WRITERS = "pyarrow, arrowipc, codec alone, arro3, polars"


@question("write {codec} bodies of large buffers", WRITERS, unit="batch")
@pytest.mark.parametrize(("shape", "threads"), CASES)
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_write_large(codec: str, shape: str, threads: int) -> Runs:
    return writers(Input([large(shape)]), codec, threads)


@question("write {codec} bodies of small buffers", WRITERS, unit="batch", per="count")
@pytest.mark.parametrize(("rows", "count", "threads"), [(*SMALL, 1), (*SMALL, 2), (*MIDDLE, 1)])
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_write_small(codec: str, rows: int, count: int, threads: int) -> Runs:
    return writers(Input([numbers(rows)] * count), codec, threads)


@question("bytes of a compressed stream", "pyarrow, arrowipc", unit="bytes")
@pytest.mark.parametrize("shape", [*data.SHAPES, "numbers"])
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_bytes(codec: str, shape: str) -> Runs:
    given, ours = Input([large(shape)]), {"compression": codec, "compression_level": LEVEL}
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec(codec, LEVEL))
    return {
        "pyarrow": lambda: writes.to_buffer(writes.by_pyarrow, given.pyarrow, options).size,
        "arrowipc": lambda: len(writes.to_bytearray(writes.by_arrowipc, given.arrowipc, **ours)),
    }
