"""What do dictionaries cost a reader and a writer: shared by all batches, growing, or different in each batch?

Deltas: a batch of 100 rows follows each delta of 100 words, and all batches are kept, so that the dictionary of every
batch stays what it was; polars and nanoarrow do not read them. "shared": one dictionary, written once; "replaced":
batches take turns with two.
"""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Runs, question, size, sizes
from measuring.writes import by_arro3, by_arrowipc, by_pyarrow, proven, to_buffer, to_bytearray, to_bytes_io

import arrowipc

WORDS = size(100, 3)
COUNTS = sizes(2, 200, 400, 800, 1_600, 3_200)
DELTAS = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
READERS = "pyarrow, arrowipc, arrowipc full, arro3, nanoarrow, polars"


@question("read dictionary deltas of 100 words", READERS, unit="delta", per="count", curve=True)
@pytest.mark.parametrize("count", COUNTS)
def test_read_deltas(count: int) -> Runs:
    source = data.delta_stream(count, WORDS)
    readers: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: pa.ipc.open_stream(source),
        "arrowipc": lambda: arrowipc.open_stream(source, validate="none"),
        "arrowipc full": lambda: arrowipc.open_stream(source),
        "arro3": lambda: peers.arro3_io.read_ipc_stream(io.BytesIO(source)),
    }
    kept = {name: lambda r=read: sum(b.num_rows for b in list(r())) for name, read in readers.items()}
    return {**kept, **peers.others(source, without=("arro3",))}


def encoded(rows: int, words: int, name: str) -> pa.RecordBatch:
    """Return a batch of one dictionary-encoded column that uses all of the words, if it has the rows."""
    indices, values = pa.array(np.arange(rows, dtype=np.int32) % words), [f"{name} {i}" for i in range(words)]
    return pa.record_batch([pa.DictionaryArray.from_arrays(indices, values)], ["word"])


def writers(source: bytes, theirs: Any = None, deltas: bool = False) -> Runs:
    """Return those who write the batches of a stream; what is read back once are the words, however encoded."""
    pyarrows, ours = list(pa.ipc.open_stream(source)), list(arrowipc.open_stream(source))
    found: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: to_buffer(by_pyarrow, pyarrows, theirs),
        "arrowipc": lambda: to_bytearray(by_arrowipc, ours, dictionary_deltas=deltas),
    }
    if not deltas:
        batches = list(peers.arro3_io.read_ipc_stream(io.BytesIO(source)))
        found["arro3"] = lambda: to_bytes_io(by_arro3, batches)
    plain = pa.Table.from_batches(pyarrows).cast(pa.schema([("word", pa.string())]))
    return {name: proven(write, plain) for name, write in found.items()}


@question("write batches with dictionaries", "pyarrow, arrowipc, arro3", unit="batch")
@pytest.mark.parametrize(
    ("how", "words"), [("shared", 10), ("shared", size(10_000, 20)), ("replaced", 10), ("replaced", size(1_000, 20))]
)
def test_write(how: str, words: int) -> Runs:
    count, rows = size(1_000, 4), size(100, 5)
    first = encoded(rows, words, "word")
    second = first if how == "shared" else encoded(rows, words, "other")
    return writers(data.stream([first, second] * (count // 2))), count


@question("write dictionary deltas of 100 words", "pyarrow, arrowipc", unit="batch", per="count", curve=True)
@pytest.mark.parametrize("count", COUNTS)
def test_write_deltas(count: int) -> Runs:
    return writers(data.delta_stream(count, WORDS), DELTAS, True)
