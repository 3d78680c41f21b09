"""How fast does a column of small payloads become one batch that holds all rows, one piece per column?

Cells are streams of ten rows, or bare messages with the schema known. arrowipc validates, "none" does what pyarrow
does, which proves nothing about the values. one payload: the first cell alone: what a call takes however many follow.
All use one thread, polars as many as it likes. The cases differ in what payloads of one column have in common
(everything, all but their metadata, or little), and in what a payload holds.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Runs, question, size, sizes

import arrowipc

FEW = size(2_000, 4)
DECODERS = "pyarrow, arrowipc, arrowipc none, one payload, polars"


def column_of(cells: list[bytes], count: int) -> pa.Array:
    return pa.array((cells * -(-count // len(cells)))[:count], pa.binary())


def rows_by_arrowipc(column: pa.Array, **options: Any) -> int:
    return int(arrowipc.decode_payloads(column, use_threads=False, **options).batch.num_rows)


def rows_by_pyarrow(column: pa.Array, alike: bool = True) -> int:
    """Open each cell as a stream; tables are joined where schemas or dictionaries are not alike."""
    # Several threads take longer for small compressed buffers.
    streams = [pa.ipc.open_stream(cell.as_buffer(), options=peers.SERIAL) for cell in column]
    if alike:
        return int(pa.concat_batches([batch for stream in streams for batch in stream]).num_rows)
    tables = [stream.read_all() for stream in streams]
    return int(pa.concat_tables(tables, promote_options="default").combine_chunks().num_rows)


def rows_by_known_schema(column: pa.Array, schema: pa.Schema) -> int:
    batches = [pa.ipc.read_record_batch(pa.ipc.read_message(cell.as_buffer()), schema) for cell in column]
    return int(pa.concat_batches(batches).num_rows)


def rows_by_polars(column: pa.Array, alike: bool = True) -> int:
    frames = [peers.polars.read_ipc_stream(cell.as_py()) for cell in column]
    return int(peers.polars.concat(frames, how="vertical" if alike else "diagonal", rechunk=True).height)


def decoders(cells: list[bytes], count: int, alike: bool = True, **ours: Any) -> Runs:
    """Return those who decode so many cells; `ours` are options of `decode_payloads`."""
    column = column_of(cells, count)
    first, rows = column.slice(0, 1), rows_by_arrowipc(column, **ours)
    return {
        "pyarrow": partial(rows_by_pyarrow, column, alike),
        "arrowipc": partial(rows_by_arrowipc, column, **ours),
        "arrowipc none": partial(rows_by_arrowipc, column, validate="none", **ours),
        "one payload": lambda: rows * bool(rows_by_arrowipc(first, **ours)),
        "polars": partial(rows_by_polars, column, alike),
    }


@question("decode a payload column: streams of 10 rows x 10 columns", DECODERS, unit="payload", per="count", curve=True)
@pytest.mark.parametrize("count", sizes(2, 20, 200, 2_000, 20_000))
def test_more_payloads(count: int) -> Runs:
    return decoders([data.stream([data.mixed_batch(10)])], count)


@question("decode payloads of four shapes, 20 and 20,000 per call", DECODERS, unit="payload", per="count")
@pytest.mark.parametrize("count", [20, size(20_000, 30)])
@pytest.mark.parametrize("shape", data.SHAPES)
def test_shapes(shape: str, count: int) -> Runs:
    return decoders([data.stream([data.shaped(shape, 10)])], count)


@question("decode bare messages, schema known", "pyarrow, arrowipc, arrowipc none", unit="payload")
@pytest.mark.parametrize("shape", ["int64", "mixed", "text", "everyday"])
def test_known_schema(shape: str) -> Runs:
    count = size(20_000, 4)
    batch = data.shaped(shape, 10)
    column = column_of([data.messages(data.stream([batch]))[1]], count)
    return {
        "pyarrow": lambda: rows_by_known_schema(column, batch.schema),
        "arrowipc": lambda: rows_by_arrowipc(column, schema=batch.schema),
        "arrowipc none": lambda: rows_by_arrowipc(column, schema=batch.schema, validate="none"),
    }, count


def ranged(batch: pa.RecordBatch, which: int) -> pa.RecordBatch:
    """Return the batch with metadata as pandas writes it: the range of an index."""
    text = '{"index_columns": [{"kind": "range", "name": null, "start": 0, "stop": %d, "step": 1}]}'
    return batch.replace_schema_metadata({"pandas": text % (which + 1_000_000)})


def encoded(batch: pa.RecordBatch, which: int) -> pa.RecordBatch:
    """Return the batch with a column that has a dictionary of its own: ten of fifty values."""
    words = pa.array([f"city {(7 * which + i) % 50}" for i in range(10)])
    return batch.set_column(9, "city", words.dictionary_encode())


#: What makes the batch of a number, how many there are, and options of `decoders`.
UNLIKE: dict[str, tuple[Callable[[pa.RecordBatch, int], pa.RecordBatch], int, dict[str, Any]]] = {
    "other metadata each time": (ranged, FEW, {}),
    "two orders of the columns": (lambda b, i: b.select(b.schema.names[:: 1 - 2 * i]), 2, {"alike": False}),
    "the same dictionary": (encoded, 1, {}),
    "other dictionaries": (encoded, size(500, 4), {"alike": False}),
    "other dictionaries, to plain values": (encoded, size(500, 4), {"alike": False, "dictionaries": "decode"}),
}


@question("decode payloads that are not alike", DECODERS, unit="payload", per=FEW)
@pytest.mark.parametrize("kind", UNLIKE)
def test_unlike(kind: str) -> Runs:
    make, number, options = UNLIKE[kind]
    mixed = data.mixed_batch(10)
    return decoders([data.stream([make(mixed, i)]) for i in range(number)], FEW, **options)


@question("decode compressed payloads, and payloads of 1,000 rows", DECODERS, unit="payload")
@pytest.mark.parametrize("kind", ["lz4", "zstd", "1000 rows"])
def test_dearer_payloads(kind: str) -> Runs:
    if kind == "1000 rows":
        count, payload = size(200, 3), data.stream([data.mixed_batch(size(1000, 3))])
    else:
        count, payload = FEW, data.stream([data.mixed_batch(10)], compression=kind)
    return decoders([payload], count), count


@question("a number and a text repeated beside 10 rows each", "pyarrow, arrowipc", unit="cell")
def test_repeat() -> Runs:
    count = size(20_000, 4)
    source = pa.record_batch({"key": np.arange(count), "topic": [f"topic {i % 7}" for i in range(count)]})
    ours, counts = arrowipc.RecordBatch.from_arrow(source), np.full(count, 10)
    index = np.repeat(np.arange(count), 10)
    return {
        "pyarrow": lambda: source.take(pa.array(index)).num_rows,
        "arrowipc": lambda: arrowipc.repeat(ours, counts).num_rows,
    }, count
