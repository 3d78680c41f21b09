"""How fast do the rows of a batch become payloads: a binary column whose cells are streams of a few rows?

Measured, per payload: from one batch in memory to the finished column.

* pyarrow: for each payload ``new_stream(sink, schema)`` and ``write_batch`` of the slice, all into one
  ``BufferOutputStream``; the column is made of its buffer and of the places where payloads end, without
  copying. For bare messages ``serialize()`` of the slice instead of a stream. A sink for each payload, and
  ``pa.array`` of them all, would take a third more.
* arrowipc: ``encode_payloads(batch, rows_per_payload=...)``, with ``with_schema=False`` for bare messages.
* nanoarrow, arro3: a stream writer per slice, to a ``BytesIO``, and nothing behind it: they have no column to
  put the bytes into. Their slices are made beforehand.

"by key": runs of equal keys are the payloads; pyarrow is told where they begin.

Dictionaries are written whole by pyarrow; arrowipc writes what the payload uses, and the whole one where the
case says so. Memory is measured in a process of its own each, as in ``write_memory``: the most that was
needed above the input, the finished column included.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.children import peak
from benchmarks.harness import FLAT, Case, Curve, Fact, Run, Scale
from benchmarks.write_memory import INPUT
from benchmarks.writes import by_arro3, by_nanoarrow

TITLE = "payload column written"

#: Rows of a payload.
ROWS = 10


def cases(scale: Scale) -> Iterator[Case | Fact]:
    """More and more streams; bare messages, few rows and many; dictionaries, codecs, groups; memory."""
    most = scale.size(20_000, 6)
    mixed = data.mixed_batch(most * ROWS)
    row: dict[str, Any] = {"goal": 8, "row": "encode"}
    for n in (20, 200, 2_000, 20_000):
        times = scale.size(n, n // 5_000 + 2)
        named = n == 20_000
        name = f"10 mixed columns x {ROWS} rows, {times} payloads"
        curve = Curve("cost per payload", times, FLAT)
        others = n == (20_000 if scale.thorough else 2_000)
        yield case(name, mixed.slice(0, times * ROWS), others=others, named=named, curve=curve, **row)
    count = most if scale.thorough else scale.size(4_000, 6)
    mixed, plain = mixed.slice(0, count * ROWS), data.plain_batch(10, count * ROWS)
    yield case(f"10 int64 columns x {ROWS} rows, {count} payloads", plain, **row)
    yield case(f"10 mixed columns x {ROWS} rows, {count} bare messages", mixed, bare=True)
    yield case(f"10 mixed columns x 1 row, {count} payloads", mixed.slice(0, count), 1)
    yield case(f"10 mixed columns x 1000 rows, {count // 100 + 1} payloads", mixed, 1000)
    yield grouped(scale, mixed)
    for words in (scale.size(20, 3), scale.size(1_000, 40)):
        times = scale.size(2_000, 6)
        coded = encoded(times * ROWS, words)
        name = f"dictionary of {words} words x {ROWS} rows, {times} payloads"
        yield case(f"{name}, trimmed", coded)
        yield case(f"{name}, whole", coded, ours={"trim_dictionaries": False})
    few = mixed.slice(0, count * ROWS // 4)
    for codec in ("lz4", "zstd"):
        yield case(f"10 mixed columns x {ROWS} rows, {codec}", few, ours={"compression": codec})
    yield memory(scale)


def encoded(rows: int, words: int) -> pa.RecordBatch:
    """Return a batch of one dictionary-encoded column of texts."""
    indices = pa.array(np.random.default_rng(5).integers(0, words, rows, dtype=np.int32))
    column = pa.DictionaryArray.from_arrays(indices, [f"word {i}" for i in range(words)])
    return pa.record_batch([column], ["word"])


# -- the contenders ------------------------------------------------------------------------------------------


def by_pyarrow(batch: pa.RecordBatch, offsets: list[int], bare: bool, codec: str | None = None) -> pa.BinaryArray:
    """Write a stream, or only the message, per slice."""
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    sink = pa.BufferOutputStream()
    ends = [0]
    for start, stop in pairwise(offsets):
        rows = batch.slice(start, stop - start)
        if bare:
            sink.write(rows.serialize())
        else:
            with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
                writer.write_batch(rows)
        ends.append(sink.tell())
    places = pa.py_buffer(np.array(ends, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, places, sink.getvalue()])


def by_others(batch: pa.RecordBatch, offsets: list[int]) -> dict[str, Run]:
    """Return those of the others that can write streams of slices."""
    found: dict[str, Run] = {}
    if peers.nanoarrow is not None:
        slices = [peers.nanoarrow.c_array(batch.slice(a, b - a)) for a, b in pairwise(offsets)]
        found["nanoarrow"] = lambda: each(lambda sink, rows: by_nanoarrow(sink, [rows]), slices)
    if peers.arro3_io is not None:
        (whole,) = peers.arro3_io.read_ipc_stream(io.BytesIO(data.stream([batch])))
        parts = [whole.slice(a, b - a) for a, b in pairwise(offsets)]
        found["arro3"] = lambda: each(lambda sink, rows: by_arro3(sink, [rows]), parts)
    return found


def each(write: Callable[[Any, Any], None], slices: list[Any]) -> int:
    """Write a stream per slice."""
    for rows in slices:
        write(io.BytesIO(), rows)
    return len(slices)


def proven(make: Callable[[], Any], batch: pa.RecordBatch, offsets: list[int], bare: bool) -> Run:
    """Return a run that makes the column; a few cells of the first one are read back by pyarrow."""
    seen = False

    def run() -> int:
        nonlocal seen
        made = make()
        if not seen:
            column = pa.array(made)
            for i in {0, len(column) // 2, len(column) - 1}:
                cell = column[i].as_buffer()
                rows = pa.ipc.read_record_batch(cell, batch.schema) if bare else pa.ipc.open_stream(cell).read_all()
                expected = batch.slice(offsets[i], offsets[i + 1] - offsets[i])
                if rows.to_pylist() != expected.to_pylist():
                    raise ValueError(f"payload {i} has other rows than those that were written")
            seen = True
        return len(made)

    return run


def case(
    name: str,
    batch: pa.RecordBatch,
    rows: int = ROWS,
    *,
    bare: bool = False,
    others: bool = False,
    ours: dict[str, Any] | None = None,
    **options: Any,
) -> Case:
    """Return the case of payloads of so many rows; `ours` are options of `encode_payloads`."""
    chosen = ours or {}
    offsets = [*range(0, batch.num_rows, rows), batch.num_rows]
    (given,) = arrowipc.open_stream(data.stream([batch]))
    makers: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: by_pyarrow(batch, offsets, bare, chosen.get("compression")),
        "arrowipc": lambda: arrowipc.encode_payloads(
            given, rows_per_payload=rows, with_schema=not bare, use_threads=False, **chosen
        ),
    }
    runs = {who: proven(make, batch, offsets, bare) for who, make in makers.items()}
    if others:
        runs |= by_others(batch, offsets)
    return Case(name, "payload", len(offsets) - 1, runs, touched=batch.nbytes, **options)


def grouped(scale: Scale, batch: pa.RecordBatch) -> Case:
    """Return the case of payloads by key; the keys are not in them."""
    chance = np.random.default_rng(11)
    sizes = chance.integers(1, 2 * ROWS, batch.num_rows)
    keys = np.repeat(np.arange(len(sizes)), sizes)[: batch.num_rows]
    offsets = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), batch.num_rows]
    (ours,) = arrowipc.open_stream(data.stream([batch.append_column("key", pa.array(keys))]))
    makers: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: by_pyarrow(batch, offsets, False),
        "arrowipc": lambda: arrowipc.encode_payloads(ours, group_by="key", use_threads=False).payloads,
    }
    runs = {who: proven(make, batch, offsets, False) for who, make in makers.items()}
    count = len(offsets) - 1
    return Case(f"10 mixed columns, {count} payloads of 1 to {2 * ROWS - 1} rows by key", "payload", count, runs)


# -- memory --------------------------------------------------------------------------------------------------

BY_PYARROW = """
(batch,) = table.to_batches()
before = begin()
sink, ends = pa.BufferOutputStream(), np.zeros(rows // 10 + 1, np.int64)
for number, start in enumerate(range(0, rows, 10), 1):
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch.slice(start, 10))
    ends[number] = sink.tell()
column = pa.Array.from_buffers(pa.large_binary(), rows // 10, [None, pa.py_buffer(ends), sink.getvalue()])
"""

BY_ARROWIPC = """
import arrowipc
(batch,) = table.to_batches()
arrowipc.encode_payloads(batch.slice(0, 1), [0, 1])
before = begin()
column = arrowipc.encode_payloads(batch, rows_per_payload=10, large=True)
"""


def memory(scale: Scale) -> Fact:
    """Return what payloads of 10 rows take above their input."""
    rows = scale.size(400_000, 1_000)
    makers = {"pyarrow": BY_PYARROW, "arrowipc": BY_ARROWIPC}
    found = {name: peak(INPUT + code, rows=rows) for name, code in makers.items()}
    return Fact(f"9 columns x 10 rows, {rows // 10} payloads: peak memory above the input", found, goal=1)
