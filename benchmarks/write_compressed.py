"""How fast are compressed streams written, with large and with small buffers, by one thread and by two?

Measured, per batch: opening a writer to memory that is there and has been written to, writing the batches,
closing the writer. All compress at level 1, the default of the Arrow libraries. Bytes per second count the
bytes before compression. How large the streams become is compared too.

* pyarrow: ``IpcWriteOptions(compression=Codec(name, 1), use_threads=...)``, its pool of threads set to two
  for the cases with two; ``FixedSizeBufferWriter``.
* arrowipc: ``new_stream(memoryview, compression=name, compression_level=1, use_threads=...)``.
* arro3 uses one thread, so it takes part in the cases with one; into ``BytesIO``, and its level is its own
  choice.
* polars uses as many threads as the machine has cores, so it takes part in the cases with two; into
  ``BytesIO``, one frame, text as views, its level is its own choice.
* nanoarrow does not compress.
* codec alone: ``pa.Codec(name, 1).compress`` of the same buffers, and nothing else: the floor.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import pyarrow as pa

from benchmarks import compressed, data, peers
from benchmarks.harness import Case, Fact, Run, Scale
from benchmarks.machine import cores
from benchmarks.writes import (
    Input,
    bound,
    by_arro3,
    by_arrowipc,
    by_pyarrow,
    presized,
    proven,
    to_buffer,
    to_bytearray,
    to_bytes_io,
    warm,
)

TITLE = "write compressed streams"

LEVEL = 1


def cases(scale: Scale) -> Iterator[Case | Fact]:
    """Both codecs, large, middling and small buffers, one thread and two; the bytes that are written."""
    # Columns of eight bytes take 16 MB.
    large = 2_000_000 if scale.thorough else scale.size(500_000, 500)
    middle, small = scale.size(10_000, 50), scale.size(100, 10)
    for rows, count in ((large, 1), (middle, scale.size(20, 2)), (small, scale.size(200, 2))):
        given = Input([compressed.numbers(rows)] * count)
        for codec in ("lz4", "zstd"):
            shape = f"{codec}, {count} x {rows} rows x 8 columns"
            for threads in (1, 2) if cores() > 1 and rows != middle else (1,):
                yield Case(
                    f"{shape}, {threads} thread{'s' * (threads > 1)}",
                    "batch",
                    count,
                    contenders(given, codec, threads),
                    goal=1,
                    touched=given.table.nbytes,
                    threads=threads,
                    row=f"compress {codec}",
                    named=threads == 1 and rows == large,
                )
            yield Fact(f"{shape}, bytes written", written_bytes(given, codec), goal=0.99)
    for shape in data.SHAPES:
        given = Input([data.shaped(shape, scale.size(200_000, 50))])
        for codec in ("lz4", "zstd"):
            for threads in (1, 2) if cores() > 1 else (1,):
                found = contenders(given, codec, threads)
                found["codec alone"] = alone(given, codec, threads)
                yield Case(
                    f"{shape}, {codec}, {given.table.num_rows} rows, {threads} thread{'s' * (threads > 1)}",
                    "batch",
                    1,
                    found,
                    goal=1.05,
                    touched=given.table.nbytes,
                    threads=threads,
                    row=f"compress {codec} shapes",
                    named=threads == 1 and shape == "mixed",
                )


def contenders(given: Input, codec: str, threads: int) -> dict[str, Run]:
    """Return those who can use this number of threads."""
    pa.set_cpu_count(2)
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec(codec, LEVEL), use_threads=threads > 1)
    found = presized(
        given,
        warm(bound(given)),
        options=options,
        compression=codec,
        compression_level=LEVEL,
        use_threads=threads > 1,
    )
    if threads == 1:
        found["codec alone"] = alone(given, codec)
    if threads == 1 and given.arro3:
        found["arro3"] = proven(lambda: to_bytes_io(lambda sink: by_arro3(sink, given.arro3, codec)), given.table)
    if threads > 1 and peers.polars is not None and len(given.pyarrow) == 1:
        frame = peers.polars.from_arrow(given.table)
        found["polars"] = proven(
            lambda: to_bytes_io(lambda sink: frame.write_ipc_stream(sink, compression=codec)), given.table
        )
    return found


def alone(given: Input, name: str, threads: int = 1) -> Run:
    """Return a run that only compresses."""
    codec = pa.Codec(name, LEVEL)
    found = [buffer for batch in given.pyarrow for buffer in compressed.buffers(batch)]

    pool = ThreadPoolExecutor(threads)

    def run() -> int:
        if threads > 1:
            wait([pool.submit(codec.compress, buffer) for buffer in sorted(found, key=lambda each: -each.size)])
            return given.table.num_rows
        for buffer in found:
            codec.compress(buffer)
        return given.table.num_rows

    return run


def written_bytes(given: Input, codec: str) -> dict[str, list[float]]:
    """Return how large the streams of those are who have the same level."""
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec(codec, LEVEL))
    ours = {"compression": codec, "compression_level": LEVEL}
    return {
        "pyarrow": [float(to_buffer(lambda sink: by_pyarrow(sink, given.pyarrow, options)).size)],
        "arrowipc": [float(len(to_bytearray(lambda sink: by_arrowipc(sink, given.arrowipc, **ours))))],
    }
