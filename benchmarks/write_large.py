"""How fast is much data written: to memory, beside a bare copy of the same bytes, and to a file?

128 MB of numbers, times, flags and texts (three of ten columns with nulls), in batches of 100,000 rows and as
one batch. Measured, per run: opening a writer, writing the batches, closing the writer.

To memory that is there and has been written to:

* memcpy: ``numpy.copyto(target, source)`` of a stream of the same data, all bytes at once.
* pyarrow: ``pa.FixedSizeBufferWriter``; arrowipc: a ``memoryview``.
* In pieces: pyarrow ``write_table(table, max_chunksize=rows)``, arrowipc ``write_table(batch,
  max_chunk_bytes=2**18)``, whose rows are looked for.

To a file that was not there before, on the file system of the temporary directory, and only until the system
has the data (no fsync), except where it says durable; removing the file again is not measured:

* pyarrow: ``pa.OSFile(path, "wb")``, ``new_file``, ``write_batch``.
* arrowipc: ``new_file(path, durable=False)``, ``write_batch``; arrowipc durable: ``new_file(path)``, which
  waits for the disk; pyarrow fsync: as pyarrow, and ``os.fsync`` before closing.
* polars: ``write_ipc(path)``, text as views.
* nanoarrow and arro3 write no files at a path; arro3 takes a file object: ``write_ipc(batches, file)``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.harness import Case, Run, Scale
from benchmarks.writes import Input, bound, by_pyarrow, presized, proven, to_buffer, warm

TITLE = "write 128 MB to memory and to a file"

ROWS = 100_000
BATCHES = 21
PIECE = 1 << 18


def cases(scale: Scale) -> Iterator[Case]:
    """To memory, and to a file."""
    rows, count = scale.size(ROWS, 40), scale.size(BATCHES, 2)
    batch = data.mixed_batch(rows)
    many = Input([batch] * count)
    one = Input(pa.Table.from_batches([batch] * count).combine_chunks().to_batches())
    for given in (many, one):
        n = len(given.pyarrow)
        name = f"{n} batch{'es' * (n > 1)} of {len(given.table) // n} rows x 10 columns"
        yield Case(
            f"{name}, to warm memory",
            "run",
            1,
            copied(given),
            goal=0.9,
            touched=given.table.nbytes,
            baseline="memcpy",
            row="write memory",
            named=given is many,
        )
    yield Case(
        f"1 batch of {rows * count} rows x 10 columns in pieces of 256 KiB, to warm memory",
        "run",
        1,
        cut(one),
        goal=1,
        touched=one.table.nbytes,
    )
    with tempfile.TemporaryDirectory() as folder:
        name = f"{count} batches of {rows} rows x 10 columns"
        writers = {name: fresh(Path(folder), write, many) for name, write in FILES.items()}
        cached = {name: writers[name] for name in ("pyarrow", "arrowipc", "polars", "arro3") if name in writers}
        touched = many.table.nbytes
        row: dict[str, Any] = {"row": "write file", "named": True}
        yield Case(f"{name}, to a file", "run", 1, cached, goal=1, touched=touched, timed=True, **row)
        lasting = {"pyarrow": writers["pyarrow fsync"], "arrowipc": writers["arrowipc durable"]}
        yield Case(f"{name}, to a file on the disk", "run", 1, lasting, touched=touched, timed=True)


def copied(given: Input) -> dict[str, Run]:
    """Return a copy of a whole stream, and those who write it, all into the same memory."""
    source = np.frombuffer(to_buffer(lambda sink: by_pyarrow(sink, given.pyarrow)), np.uint8)
    target = warm(bound(given))
    room = np.frombuffer(target, np.uint8)[: source.size]

    def copy() -> memoryview:
        np.copyto(room, source)
        return target

    return {"memcpy": proven(copy, given.table), **presized(given, target)}


def cut(given: Input) -> dict[str, Run]:
    """Return those who write one batch in pieces: pyarrow of as many rows as fit, we of as many bytes."""
    target = warm(bound(given) + bound(given) // 8)
    buffer = pa.py_buffer(target)
    rows = max(1, len(given.table) * PIECE // given.table.nbytes)

    def pyarrows() -> pa.Buffer:
        with pa.ipc.new_stream(pa.FixedSizeBufferWriter(buffer), given.table.schema) as writer:
            writer.write_table(given.table, max_chunksize=rows)
        return buffer

    def arrowipcs() -> pa.Buffer:
        with arrowipc.new_stream(target, given.arrowipc[0].schema) as writer:
            writer.write_table(given.arrowipc[0], max_chunk_bytes=PIECE)
        return buffer

    return {"pyarrow": proven(pyarrows, given.table), "arrowipc": proven(arrowipcs, given.table)}


# -- files ---------------------------------------------------------------------------------------------------


def file_by_pyarrow(path: str, given: Input, sync: bool = False) -> None:
    with pa.OSFile(path, "wb") as sink:
        with pa.ipc.new_file(sink, given.table.schema) as writer:
            for batch in given.pyarrow:
                writer.write_batch(batch)
        if sync:
            os.fsync(sink.fileno())


def file_by_arrowipc(path: str, given: Input, durable: bool = False) -> None:
    with arrowipc.new_file(path, given.arrowipc[0].schema, durable=durable) as writer:
        for batch in given.arrowipc:
            writer.write_batch(batch)


def file_by_arro3(path: str, given: Input) -> None:
    reader = peers.optional("arro3.core").RecordBatchReader.from_batches(given.arro3[0].schema, given.arro3)
    with open(path, "wb") as sink:
        peers.arro3_io.write_ipc(reader, sink, compression=None)


def frames() -> Callable[[str, Input], None]:
    """Return what writes with polars; the frame is made when it is used first."""
    made: list[Any] = []

    def write(path: str, given: Input) -> None:
        if not made:
            made.append(peers.polars.from_arrow(given.table, rechunk=False))
        made[0].write_ipc(path)

    return write


FILES: dict[str, Callable[[str, Input], None]] = {
    "pyarrow": file_by_pyarrow,
    "pyarrow fsync": lambda path, given: file_by_pyarrow(path, given, sync=True),
    "arrowipc": file_by_arrowipc,
    "arrowipc durable": lambda path, given: file_by_arrowipc(path, given, durable=True),
}
if peers.polars is not None:
    FILES["polars"] = frames()
if peers.arro3_io is not None:
    FILES["arro3"] = file_by_arro3


def fresh(folder: Path, write: Callable[[str, Input], None], given: Input) -> Run:
    """Return a run that returns the seconds of writing a file that was not there before."""
    path = str(folder / "data.arrow")
    write(path, given)
    proven(lambda: path, given.table, lambda path: pa.ipc.open_file(pa.memory_map(path)))()
    os.unlink(path)

    def run() -> float:
        start = perf_counter()
        write(path, given)
        seconds = perf_counter() - start
        os.unlink(path)
        return seconds

    return run
