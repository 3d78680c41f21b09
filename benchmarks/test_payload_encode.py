"""How fast do the rows of a batch become payloads: a binary column whose cells are streams of a few rows?

pyarrow writes all streams into one sink, and the column is made of its buffer and of the places where payloads end,
without copying: a sink for each payload, and ``pa.array``, would take a third more. nanoarrow and arro3 write a stream
per slice to a ``BytesIO``, and make no column. Dictionaries are written whole by pyarrow; arrowipc writes what the
payload uses, and the whole one where the case says so.
"""

import io
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Run, Runs, question, size, sizes
from measuring.writes import by_arro3, by_nanoarrow, checked

import arrowipc

#: Rows of a payload.
ROWS = 10
MOST = size(20_000, 6)
ENCODERS = "pyarrow, arrowipc, nanoarrow, arro3"


def by_pyarrow(batch: pa.RecordBatch, offsets: list[int]) -> Any:
    options = pa.ipc.IpcWriteOptions(use_threads=False)
    sink = pa.BufferOutputStream()
    ends = [0]
    for start, stop in pairwise(offsets):
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch.slice(start, stop - start))
        ends.append(sink.tell())
    places = pa.py_buffer(np.array(ends, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, places, sink.getvalue()])


def each(write: Callable[[Any, Any], None], slices: list[Any]) -> None:
    for rows in slices:
        write(io.BytesIO(), [rows])


def by_others(batch: pa.RecordBatch, offsets: list[int]) -> Runs:
    """Return those of the others that can write streams of slices."""
    spans = list(pairwise(offsets))
    slices = [peers.nanoarrow.c_array(batch.slice(a, b - a)) for a, b in spans]
    (whole,) = peers.arro3_io.read_ipc_stream(io.BytesIO(data.stream([batch])))
    parts = [whole.slice(a, b - a) for a, b in spans]
    return {"nanoarrow": partial(each, by_nanoarrow, slices), "arro3": partial(each, by_arro3, parts)}


def proven(make: Callable[[], Any], batch: pa.RecordBatch, offsets: list[int]) -> Run:
    """Return a run that makes the column; a few cells of the first one are read back by pyarrow."""

    def check(made: Any) -> None:
        column = pa.array(made)
        assert len(column) == len(offsets) - 1
        for i in {0, len(column) // 2, len(column) - 1}:
            rows = pa.ipc.open_stream(column[i].as_buffer()).read_all()
            if rows.to_pylist() != batch.slice(offsets[i], offsets[i + 1] - offsets[i]).to_pylist():
                raise ValueError(f"payload {i} has other rows than those that were written")

    return checked(make, check)


def encoders(batch: pa.RecordBatch, others: bool = False, **ours: Any) -> Runs:
    """Return those who make payloads; `ours` are options of `encode_payloads`."""
    offsets = [*range(0, batch.num_rows, ROWS), batch.num_rows]
    (given,) = arrowipc.open_stream(data.stream([batch]))
    options = {"rows_per_payload": ROWS, "use_threads": False, **ours}
    makers = {
        "pyarrow": partial(by_pyarrow, batch, offsets),
        "arrowipc": partial(arrowipc.encode_payloads, given, **options),
    }
    found = {name: proven(make, batch, offsets) for name, make in makers.items()}
    return found | (by_others(batch, offsets) if others else {})


@question("encode a payload column: 10 rows each", ENCODERS, unit="payload", per="count", curve=True)
@pytest.mark.parametrize("count", sizes(2, 20, 200, 2_000, 20_000))
def test_more_payloads(count: int) -> Runs:
    return encoders(data.mixed_batch(count * ROWS), others=True)


@question("encode payloads of four shapes", "pyarrow, arrowipc", unit="payload", per=MOST)
@pytest.mark.parametrize("shape", data.SHAPES)
def test_shapes(shape: str) -> Runs:
    return encoders(data.shaped(shape, MOST * ROWS))


@question("encode by key: payloads of 1 to 19 rows", "pyarrow, arrowipc", unit="payload")
def test_by_key() -> Runs:
    batch = data.mixed_batch(MOST * ROWS)
    lengths = np.random.default_rng(11).integers(1, 2 * ROWS, batch.num_rows)
    keys = np.repeat(np.arange(len(lengths)), lengths)[: batch.num_rows]
    offsets = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), batch.num_rows]
    (ours,) = arrowipc.open_stream(data.stream([batch.append_column("key", pa.array(keys))]))
    return {
        "pyarrow": proven(lambda: by_pyarrow(batch, offsets), batch, offsets),
        "arrowipc": proven(
            lambda: arrowipc.encode_payloads(ours, group_by="key", use_threads=False).payloads, batch, offsets
        ),
    }, len(offsets) - 1


@question("encode payloads with dictionaries", "pyarrow, arrowipc", unit="payload")
@pytest.mark.parametrize("how", ["trimmed", "whole"])
@pytest.mark.parametrize("words", [size(20, 3), size(1_000, 40)])
def test_dictionaries(words: int, how: str) -> Runs:
    count = size(2_000, 6)
    indices = pa.array(np.random.default_rng(5).integers(0, words, count * ROWS, dtype=np.int32))
    column = pa.DictionaryArray.from_arrays(indices, [f"word {i}" for i in range(words)])
    batch = pa.record_batch([column], ["word"])
    return encoders(batch, trim_dictionaries=how == "trimmed"), count
