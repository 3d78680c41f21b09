"""What do dictionaries cost a writer: shared by all batches, growing, or different in each batch?

Measured, per batch: opening a writer to growing memory (``BufferOutputStream``, ``bytearray``), writing the
batches, closing the writer. The batches are the library's own, of one dictionary-encoded column of texts:

* shared: all batches have the same dictionary, which is written once.
* growing: the dictionary of each batch has 100 words more than the one before; only these are written.
  pyarrow: ``IpcWriteOptions(emit_dictionary_deltas=True)``; arrowipc: ``dictionary_deltas=True``.
* replaced: the batches take turns with two dictionaries, which go out again and again.
* unified: the batches of a pyarrow table have different dictionaries, and a file may have but one. pyarrow:
  ``IpcWriteOptions(unify_dictionaries=True)`` and ``write_table``; arrowipc: ``unify_dictionaries=True`` and
  ``write``.

arro3 writes what is shared and what is replaced; nanoarrow writes no dictionaries; polars has none to itself.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.harness import FLAT, Case, Curve, Run, Scale
from benchmarks.writes import by_arro3, by_arrowipc, by_pyarrow, proven, to_buffer, to_bytearray, to_bytes_io

TITLE = "write dictionaries"

DELTAS = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)


def cases(scale: Scale) -> Iterator[Case]:
    """Shared, replaced and unified dictionaries; the growth curve of deltas."""
    count, rows = scale.size(1_000, 4), scale.size(100, 5)
    for words in (10, scale.size(10_000, 20)):
        first, second = encoded(rows, words, "word"), encoded(rows, words, "other")
        yield case(f"{count} batches of {rows} rows, shared, {words} words", data.stream([first] * count), goal=3)
        if words == 10:
            turns = data.stream([first, second] * (count // 2))
            yield case(f"{count} batches of {rows} rows, replaced, {words} words", turns)
    yield from grown(scale)
    tables = scale.size(100, 3)
    yield unified(tables, rows, scale.size(1_000, 10))


def encoded(rows: int, words: int, name: str, first: int = 0) -> pa.RecordBatch:
    """Return a batch of one dictionary-encoded column that uses all of the words, if it has the rows."""
    indices = pa.array(np.arange(rows, dtype=np.int32) % words)
    return pa.record_batch(
        [pa.DictionaryArray.from_arrays(indices, [f"{name} {first + i}" for i in range(words)])], ["word"]
    )


def case(name: str, source: bytes, goal: float | None = None) -> Case:
    """Return the case of writing the batches of a stream."""
    theirs, ours = list(pa.ipc.open_stream(source)), list(arrowipc.open_stream(source))
    found: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: to_buffer(lambda sink: by_pyarrow(sink, theirs)),
        "arrowipc": lambda: to_bytearray(lambda sink: by_arrowipc(sink, ours)),
    }
    if peers.arro3_io is not None:
        batches = list(peers.arro3_io.read_ipc_stream(io.BytesIO(source)))
        found["arro3"] = lambda: to_bytes_io(lambda sink: by_arro3(sink, batches))
    table = pa.Table.from_batches(theirs)
    return Case(name, "batch", len(ours), proofs(found, table), goal=goal)


def proofs(found: dict[str, Callable[[], Any]], table: pa.Table) -> dict[str, Run]:
    """Return runs that are read back once; what is compared are the words, whatever dictionary they have."""
    plain = table.cast(pa.schema([("word", pa.string())]))
    return {name: proven(write, plain) for name, write in found.items()}


def grown(scale: Scale) -> Iterator[Case]:
    """Batches whose dictionaries grow, in streams of more and more of them."""
    words = scale.size(100, 3)
    for n in (200, 400, 800, 1600, 3200) if scale.thorough else (200, 400, 800):
        deltas = scale.size(n, n // 100)
        source = data.delta_stream(deltas, words)
        ours = list(arrowipc.open_stream(source))
        contenders: dict[str, Callable[[], Any]] = {
            "arrowipc": lambda ours=ours: to_bytearray(lambda sink: by_arrowipc(sink, ours, dictionary_deltas=True))
        }
        theirs = list(pa.ipc.open_stream(source))
        contenders["pyarrow"] = lambda theirs=theirs: to_buffer(lambda sink: by_pyarrow(sink, theirs, DELTAS))
        yield Case(
            f"{deltas} batches, {words} words more each",
            "batch",
            deltas,
            proofs(contenders, pa.Table.from_batches(theirs)),
            goal=1,
            curve=Curve("cost per delta", deltas, FLAT),
        )


def unified(count: int, rows: int, words: int) -> Case:
    """Return the case of a table of batches with dictionaries of their own, half of each new."""
    batches = [encoded(rows, words, "word", i * words // 2) for i in range(count)]
    table = pa.Table.from_batches(batches)
    options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)

    def by_pyarrow_file(sink: Any) -> None:
        with pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_table(table)

    def by_arrowipc_file(sink: Any) -> None:
        with arrowipc.new_file(sink, unify_dictionaries=True) as writer:
            writer.write(table)

    plain = table.cast(pa.schema([("word", pa.string())]))
    return Case(
        f"table of {count} batches of {rows} rows, {words} words each, unified to a file",
        "batch",
        count,
        {
            "pyarrow": proven(lambda: to_buffer(by_pyarrow_file), plain, pa.ipc.open_file),
            "arrowipc": proven(lambda: to_bytearray(by_arrowipc_file), plain, pa.ipc.open_file),
        },
        goal=1,
    )
