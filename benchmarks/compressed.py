"""How fast are compressed streams read, with large and with small buffers, by one thread and by two?

Measured, per batch: opening the stream, reading each batch, and touching what was decompressed: one byte of
every page of every buffer for large batches (their sum must be the same for all), one byte per batch for
small ones, where touching all would cost as much as reading. All contenders decompress a whole batch when
they read it. Bytes per second count the decompressed bytes.

* pyarrow: ``IpcReadOptions(use_threads=...)``, with its pool of threads set to two for the cases with two.
* arrowipc: ``open_stream(data, validate="none", use_threads=...)``.
* nanoarrow and arro3 use one thread, so they take part in the cases with one; of their large batches nothing
  is touched afterwards, which favours them by a few microseconds.
* polars uses as many threads as the machine has cores and cannot be told otherwise in a running process, so
  it takes part in the cases with two; one DataFrame, text converted to views.
* codec alone: ``pa.Codec.decompress`` of the same buffers, and nothing else: the floor. It is of those buffers that
  writers store as they are, too, and of no dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.harness import Case, Run, Scale
from benchmarks.machine import cores

TITLE = "read compressed streams"

PAGE = 4096


def cases(scale: Scale) -> Iterator[Case]:
    """Both codecs, large and small buffers, one thread and two; by one thread, what fits into caches."""
    large, middle, small = scale.size(1_000_000, 500), scale.size(10_000, 50), scale.size(100, 10)
    shapes = [(large, 1, 1), (small, scale.size(200, 2), 1)]
    shapes += [(rows, count, 2) for rows, count, _ in shapes if cores() > 1]
    for codec in ("lz4", "zstd"):
        for rows, count, threads in [*shapes, (middle, scale.size(20, 2), 1)]:
            batch = numbers(rows)
            source = data.stream([batch] * count, compression=codec)
            touch = one_byte if rows == small else pages
            found = contenders(source, threads, touch)
            if threads == 1:
                found["codec alone"] = alone(batch, count, codec, found["pyarrow"]())
            yield Case(
                f"{codec}, {count} x {rows} rows x 8 columns, {threads} thread{'s' * (threads > 1)}",
                "batch",
                count,
                found,
                goal=1.5 if rows == small else 1,
                touched=count * batch.get_total_buffer_size(),
                threads=threads,
                row=f"read{' small' * (rows == small)} {codec}",
                named=threads == 1 and rows != middle,
            )
    yield from shapes_read(scale)


def shapes_read(scale: Scale) -> Iterator[Case]:
    """Large buffers of every shape, both codecs, one thread and two."""
    for shape in data.SHAPES:
        batch = data.shaped(shape, scale.size(200_000, 50))
        for codec in ("lz4", "zstd"):
            source = data.stream([batch], compression=codec)
            for threads in (1, 2) if cores() > 1 else (1,):
                found = contenders(source, threads, pages)
                found["codec alone"] = alone(batch, 1, codec, found["pyarrow"](), threads)
                yield Case(
                    f"{shape}, {codec}, {batch.num_rows} rows x 10 columns, {threads} thread{'s' * (threads > 1)}",
                    "batch",
                    1,
                    found,
                    goal=1.05,
                    touched=batch.get_total_buffer_size(),
                    threads=threads,
                    row=f"read {codec} shapes",
                    named=threads == 1 and shape == "mixed",
                )


def numbers(rows: int) -> pa.RecordBatch:
    """Return eight columns that compress as real ones do: to about a third."""
    random = np.random.default_rng(11)
    steps = np.cumsum(random.integers(0, 1000, rows)) + 1_700_000_000_000
    columns = {
        "at": pa.array(steps.astype("datetime64[ms]")),
        "key": pa.array(random.integers(0, 5_000, rows)),
        "price": pa.array(random.integers(0, 100_000, rows) / 100),
        "level": pa.array(random.integers(0, 10, rows, dtype=np.int32)),
        "name": pa.array(np.array(data.WORDS, dtype=object)[random.integers(0, len(data.WORDS), rows)], pa.string()),
        "ratio": pa.array(random.integers(0, 1000, rows).astype(np.float32)),
        "day": pa.array(np.sort(random.integers(0, 20_000, rows, dtype=np.int32))),
        "count": pa.array(random.poisson(3, rows)),
    }
    return pa.record_batch(columns)


def pages(batch: Any) -> int:
    """Touch every page of every buffer; pyarrow's arrays and ours answer alike."""
    total = 0
    waiting = list(batch.columns)
    while waiting:
        column = waiting.pop()
        for buffer in column.buffers():
            if buffer is not None:
                total += int(np.frombuffer(buffer, np.uint8)[::PAGE].sum(dtype=np.int64))
        if isinstance(column, arrowipc.Array):
            waiting += column.children  # pyarrow lists their buffers with those of the column
    return total


def one_byte(batch: Any) -> int:
    """Touch one byte of the first column."""
    return memoryview(batch.column(0).buffers()[1]).cast("B")[0]


def summed(batches: Iterable[Any], touch: Callable[[Any], int]) -> int:
    """Touch all batches."""
    return sum(touch(batch) for batch in batches)


def buffers(batch: pa.RecordBatch) -> list[pa.Buffer]:
    """Return all that is compressed of a batch."""
    return [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None]


def alone(batch: pa.RecordBatch, count: int, name: str, expected: int, threads: int = 1) -> Run:
    """Return a run that only decompresses, and then says what all others find."""
    codec = pa.Codec(name)
    pairs = [(codec.compress(buffer), buffer.size) for buffer in buffers(batch)]
    pool = ThreadPoolExecutor(threads)

    def run() -> int:
        if threads > 1:
            # The largest first: none begins when the others have nothing left to do.
            wait([pool.submit(codec.decompress, *pair) for pair in sorted(pairs, key=lambda pair: -pair[1])])
            return expected
        for _ in range(count):
            for compressed, size in pairs:
                codec.decompress(compressed, size)
        return expected

    return run


def contenders(source: bytes, threads: int, touch: Callable[[Any], int]) -> dict[str, Run]:
    """Return those who can use this number of threads."""
    options = pa.ipc.IpcReadOptions(use_threads=threads > 1)
    pa.set_cpu_count(2)
    expected = summed(pa.ipc.open_stream(source), touch)
    rows = peers.rows_by_pyarrow(source)

    def reads(run: Callable[[bytes], int]) -> Run:
        # These are not asked for the bytes, but that they read every row is checked. Not all can read all shapes.
        return lambda: expected if run(source) == rows else None

    found: dict[str, Run] = {
        "pyarrow": lambda: summed(pa.ipc.open_stream(source, options=options), touch),
        "arrowipc": lambda: summed(arrowipc.open_stream(source, validate="none", use_threads=threads > 1), touch),
        "arrowipc full": lambda: summed(arrowipc.open_stream(source, use_threads=threads > 1), touch),
    }
    if threads == 1:
        if peers.nanoarrow is not None:
            found["nanoarrow"] = reads(peers.rows_by_nanoarrow)
        if peers.arro3_io is not None:
            found["arro3"] = reads(peers.rows_by_arro3)
    elif peers.polars is not None:
        found["polars"] = reads(peers.rows_by_polars)
    return found
