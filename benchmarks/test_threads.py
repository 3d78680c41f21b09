"""How much more do two threads do than one? Each reads, converts and writes for itself.

What one thread does takes as long whoever else is there if nothing is shared: then two threads need half of the time
of one per piece of work. That is so on a free-threaded CPython (docs/threads.md; ``make free-threaded`` makes one an
environment, in which ``pytest benchmarks/test_threads.py`` runs); with a GIL only where neither needs it for long.
Baseline: pyarrow in as many threads; for payloads, which it reads one by one, as its users do.
"""

import io
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import processes
from measuring import data
from measuring.race import Runs, question, size

import arrowipc

ROWS = size(200_000, 100)
#: Pieces of work of a thread: starting one takes as long as some pieces.
AGAIN = size(20, 1)


def batch(rows: int) -> pa.RecordBatch:
    numbers = np.arange(rows)
    return pa.record_batch({"x": numbers, "y": numbers * 0.5, "t": [f"text {i % 1009}" for i in range(rows)]})


def reads(stream: bytes) -> Runs:
    theirs = pa.ipc.IpcReadOptions(use_threads=False)

    def validated(batch: pa.RecordBatch) -> int:
        batch.validate(full=True)
        return batch.num_rows

    return {
        "pyarrow": lambda: [validated(each) for each in pa.ipc.open_stream(stream, options=theirs)],
        "arrowipc": lambda: [each.num_rows for each in arrowipc.open_stream(stream, use_threads=False)],
    }


def writes(given: pa.RecordBatch, **options: Any) -> Runs:
    ours = arrowipc.RecordBatch.from_arrow(given)

    def write_ours() -> None:
        with arrowipc.new_stream(io.BytesIO(), ours.schema, use_threads=False, **options) as writer:
            writer.write([ours] * 8)

    theirs = partial(data.write, batches=[given] * 8, use_threads=False, **options)
    return {"pyarrow": lambda: theirs(io.BytesIO()), "arrowipc": write_ours}


def decodes(given: pa.RecordBatch) -> Runs:
    cells = [data.stream([given.slice(i, 10)]) for i in range(0, given.num_rows, 10)]
    return {
        "pyarrow": lambda: pa.Table.from_batches([each for cell in cells for each in pa.ipc.open_stream(cell)]),
        "arrowipc": lambda: arrowipc.decode_payloads(cells, use_threads=False),
    }


def converts(given: pa.RecordBatch) -> Runs:
    return {"pyarrow": given.to_pylist, "arrowipc": arrowipc.RecordBatch.from_arrow(given).to_pylist}


WORK: dict[str, Callable[[], Runs]] = {
    "read small batches": lambda: reads(data.stream([batch(100)] * size(3000, 3))),
    "validate large batches": lambda: reads(data.stream([batch(ROWS)] * 8)),
    "decode payloads": lambda: decodes(batch(ROWS // 10)),
    "write": lambda: writes(batch(ROWS)),
    "write lz4": lambda: writes(batch(ROWS), compression="lz4"),
    "to_pylist": lambda: converts(batch(ROWS // 5)),
}


@question("in threads at once: {what}", "pyarrow, arrowipc", unit="piece of work")
@pytest.mark.parametrize("what", WORK)
@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads: int, what: str) -> tuple[Runs, int]:
    def run(work: Callable[[], Any]) -> int:
        return len(processes.in_threads(lambda _: [work() for _ in range(AGAIN)], range(threads)))

    return {peer: partial(run, work) for peer, work in WORK[what]().items()}, AGAIN * threads
