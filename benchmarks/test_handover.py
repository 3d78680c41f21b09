"""What does it cost to read with arrowipc and hand every batch over to another library?

pyarrow reads without a handover; "pyarrow via C stream" hands its own reader to itself in the same way; "batches that
are there" were read beforehand; "one by one" is ``pa.record_batch(batch)``.
"""

from typing import Any

import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Runs, question, size

import arrowipc


def drained(reader: Any) -> int:
    """Take all batches of a reader through the C stream interface."""
    return peers.rows_of(pa.RecordBatchReader.from_stream(reader))


READERS = "pyarrow, arrowipc, arrowipc full, arrowipc one by one, pyarrow via C stream, batches that are there"


@question("hand every batch over to pyarrow", READERS, unit="batch")
@pytest.mark.parametrize("shape", data.SHAPES)
def test_to_pyarrow(shape: str) -> Runs:
    count = size(2_000, 2)
    source = data.stream([data.shaped(shape, size(100, 3))] * count)
    there = arrowipc.Table.from_batches(list(arrowipc.open_stream(source, validate="none")))
    return {
        "pyarrow": lambda: peers.rows_by_pyarrow(source),
        "arrowipc": lambda: drained(arrowipc.open_stream(source, validate="none")),
        "arrowipc full": lambda: drained(arrowipc.open_stream(source)),
        "arrowipc one by one": lambda: peers.rows_of(
            map(pa.record_batch, arrowipc.open_stream(source, validate="none"))
        ),
        "pyarrow via C stream": lambda: drained(pa.ipc.open_stream(source)),
        "batches that are there": lambda: drained(there),
    }, count
