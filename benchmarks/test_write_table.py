"""How fast are tables of pyarrow written that consist of many small batches?

The whole table is handed over in one call. All but pyarrow take its table through ``__arrow_c_stream__``, and so does
"pyarrow through C". taken and copied: the batches are taken and let go of, and messages that are there already are
copied: what is left where writing costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Run, Runs, question, size
from measuring.writes import proven, to_buffer, to_bytearray, to_bytes_io, warm

import arrowipc
from arrowipc.cdata.import_table import batches_from

SHAPES = [*data.SHAPES, "everyday"]


def table_of(shape: str, rows: int, count: int) -> pa.Table:
    """Return a table whose batches lie in memory of their own, as when they come from somewhere."""
    batch = data.shaped(shape, rows)
    return pa.ipc.open_stream(data.stream([batch] * count)).read_all()


def by_pyarrow(sink: Any, table: pa.Table) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def through_c(sink: Any, table: Any) -> None:
    with (
        pa.RecordBatchReader.from_stream(table) as reader,
        pa.ipc.new_stream(sink, reader.schema) as writer,
    ):
        for batch in reader:
            writer.write_batch(batch)


def by_arrowipc(sink: Any, table: Any) -> None:
    with arrowipc.new_stream(sink) as writer:
        writer.write(table)


def by_nanoarrow(sink: Any, table: Any) -> None:
    with peers.nanoarrow_ipc.StreamWriter.from_writable(sink) as writer:
        writer.write_stream(table)


def growing(table: pa.Table) -> Runs:
    """Return those who write pyarrow's table into growing memory."""
    messages = [*data.messages(to_buffer(by_pyarrow, table)), data.END_OF_STREAM]

    def taken_and_copied(sink: bytearray) -> None:
        for _ in batches_from(table):
            pass
        for message in messages:
            sink += message

    found: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: to_buffer(by_pyarrow, table),
        "arrowipc": lambda: to_bytearray(by_arrowipc, table),
        "pyarrow through C": lambda: to_buffer(through_c, table),
        "taken and copied": lambda: to_bytearray(taken_and_copied),
        "nanoarrow": lambda: to_bytes_io(by_nanoarrow, table),
        "arro3": lambda: to_bytes_io(lambda sink: peers.arro3_io.write_ipc_stream(table, sink, compression=None)),
    }
    return {name: proven(write, table) for name, write in found.items()}


def presized(table: pa.Table) -> Runs:
    """Return those who write pyarrow's table into memory that is there."""
    target = warm(to_buffer(by_pyarrow, table).size * 5 // 4)
    buffer = pa.py_buffer(target)

    def writing(write: Callable[[Any, Any], None], sink: Callable[[], Any]) -> Run:
        def run() -> pa.Buffer:
            write(sink(), table)
            return buffer

        return proven(run, table)

    return {
        "pyarrow": writing(by_pyarrow, lambda: pa.FixedSizeBufferWriter(buffer)),
        "arrowipc": writing(by_arrowipc, lambda: target),
        "pyarrow through C": writing(through_c, lambda: pa.FixedSizeBufferWriter(buffer)),
    }


WRITERS = "pyarrow, arrowipc, pyarrow through C, taken and copied, nanoarrow, arro3"


@question("write a pyarrow table of many small batches", WRITERS, unit="batch")
@pytest.mark.parametrize("memory", ["growing", "warm"])
@pytest.mark.parametrize("shape", SHAPES)
def test_small_batches(shape: str, memory: str) -> Runs:
    count = size(1_000, 3)
    make = growing if memory == "growing" else presized
    return make(table_of(shape, size(100, 3), count)), count
