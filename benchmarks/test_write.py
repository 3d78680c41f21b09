"""How fast are batches and tables written into memory as streams?

Opening the writer (which writes the schema) and closing it count too. Memory grows (``pa.BufferOutputStream`` and
``bytearray``), or is warm: of a given size, and written to before. Batches are the library's own objects. memcpy:
messages that are there already are appended, or the bytes of all of them copied. Slices begin and end within the bytes
of bitmaps, and their texts do not begin at 0. polars writes no batches.

A pyarrow table of many small batches is handed over in one call. All but pyarrow take it through
``__arrow_c_stream__``, and so does "pyarrow through C". taken and copied: its batches are taken and let go of, and
messages that are there already are copied: what is left where writing costs nothing.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from measuring import data, peers, writes
from measuring.race import Runs, question, size
from measuring.writes import Input, proven, to_buffer, to_bytearray, to_bytes_io, warm

import arrowipc
from arrowipc.cdata.import_table import batches_from

SHAPES = [*data.SHAPES, "everyday"]
WRITERS = "pyarrow, arrowipc, nanoarrow, arro3"
#: Bytes of what is large.
WHOLE = 128_000_000


def appended(messages: Iterable[bytes], sink: bytearray) -> None:
    for message in messages:
        sink += message
    sink += data.END_OF_STREAM


@question("write our own batches of 10 columns x 100 rows", WRITERS + ", memcpy", unit="batch", per="count")
@pytest.mark.parametrize("count", [size(2_000, 2), size(200, 3), size(20, 4)])
@pytest.mark.parametrize("shape", SHAPES)
def test_growing(shape: str, count: int) -> Runs:
    given = Input([data.shaped(shape, size(100, 3))] * count)
    messages = data.messages(bytes(to_bytearray(writes.by_arrowipc, given.arrowipc)))
    found: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: to_buffer(writes.by_pyarrow, given.pyarrow),
        "arrowipc": lambda: to_bytearray(writes.by_arrowipc, given.arrowipc),
        "nanoarrow": lambda: to_bytes_io(writes.by_nanoarrow, given.nanoarrow),
        "arro3": lambda: to_bytes_io(writes.by_arro3, given.arro3),
        "memcpy": lambda: to_bytearray(partial(appended, messages)),
    }
    return {name: proven(write, given.table) for name, write in found.items()}


@question("write our own batches to `io.BytesIO`", WRITERS, unit="batch")
@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_io(shape: str) -> Runs:
    count = size(1_000, 3)
    given = Input([data.shaped(shape, size(100, 3))] * count)
    ways = {name: getattr(writes, f"by_{name}") for name in WRITERS.split(", ")}
    return {
        name: proven(partial(to_bytes_io, way, getattr(given, name)), given.table) for name, way in ways.items()
    }, count


@question("write our own batches and slices to warm memory", "pyarrow, arrowipc", unit="batch")
@pytest.mark.parametrize("how", ["whole", "slices"])
@pytest.mark.parametrize("shape", SHAPES)
def test_warm(shape: str, how: str) -> Runs:
    count = size(1_000, 3)
    if how == "whole":
        given = Input([data.shaped(shape, size(100, 3))] * count)
    else:  # of a large batch, at odd rows, in an order without pattern
        rows, length = size(100_000, 40), size(100, 5)
        starts = np.random.default_rng(3).integers(0, (rows - length) // 2, count) * 2 + 1
        given = Input([data.shaped(shape, rows)]).sliced([(int(start), length) for start in starts])
    return writes.presized(given, warm(writes.bound(given))), count


@question("write 128 MB to memory", "memcpy, pyarrow, arrowipc", unit="run", baseline="memcpy")
@pytest.mark.parametrize("batches", ["many batches", "one batch"])
@pytest.mark.parametrize("shape", SHAPES)
def test_large(shape: str, batches: str) -> Runs:
    batch = data.shaped(shape, size(100_000, 40))
    many = [batch] * size(WHOLE // batch.nbytes, 2)
    given = Input(pa.Table.from_batches(many).combine_chunks().to_batches() if batches == "one batch" else many)
    source = np.frombuffer(to_buffer(writes.by_pyarrow, given.pyarrow), np.uint8)
    target = warm(writes.bound(given))
    room = np.frombuffer(target, np.uint8)[: source.size]
    return {
        "memcpy": proven(lambda: np.copyto(room, source) or target, given.table),
        **writes.presized(given, target),
    }


def by_pyarrow(sink: Any, table: pa.Table) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def through_c(sink: Any, table: Any) -> None:
    with pa.RecordBatchReader.from_stream(table) as reader, pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def by_arrowipc(sink: Any, table: Any) -> None:
    with arrowipc.new_stream(sink) as writer:
        writer.write(table)


def by_nanoarrow(sink: Any, table: Any) -> None:
    with peers.nanoarrow_ipc.StreamWriter.from_writable(sink) as writer:
        writer.write_stream(table)


TABLE_WRITERS = "pyarrow, arrowipc, pyarrow through C, taken and copied, nanoarrow, arro3"


@question("write a pyarrow table of many small batches", TABLE_WRITERS, unit="batch")
@pytest.mark.parametrize("memory", ["growing", "warm"])
@pytest.mark.parametrize("shape", SHAPES)
def test_table(shape: str, memory: str) -> Runs:
    count = size(1_000, 3)
    batch = data.shaped(shape, size(100, 3))
    # Batches in memory of their own, as when they come from somewhere.
    table = pa.ipc.open_stream(data.stream([batch] * count)).read_all()
    whole = to_buffer(by_pyarrow, table)
    messages, target = data.messages(whole), warm(whole.size * 5 // 4)
    buffer = pa.py_buffer(target)

    def taken_and_copied(sink: bytearray) -> None:
        for _ in batches_from(table):
            pass
        appended(messages, sink)

    growing: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: to_buffer(by_pyarrow, table),
        "arrowipc": lambda: to_bytearray(by_arrowipc, table),
        "pyarrow through C": lambda: to_buffer(through_c, table),
        "taken and copied": lambda: to_bytearray(taken_and_copied),
        "nanoarrow": lambda: to_bytes_io(by_nanoarrow, table),
        "arro3": lambda: to_bytes_io(lambda sink: peers.arro3_io.write_ipc_stream(table, sink, compression=None)),
    }
    presized: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: by_pyarrow(pa.FixedSizeBufferWriter(buffer), table) or buffer,
        "arrowipc": lambda: by_arrowipc(target, table) or buffer,
        "pyarrow through C": lambda: through_c(pa.FixedSizeBufferWriter(buffer), table) or buffer,
    }
    found = growing if memory == "growing" else presized
    return {name: proven(write, table) for name, write in found.items()}, count
