"""How fast does a column of small payloads become one batch?

Measured, per payload: from an array of binary cells, each an Arrow IPC stream of ten rows, to one batch that
holds all rows in one piece per column, proven to be safe.

* pyarrow: ``open_stream(cell.as_buffer())`` for each cell, ``concat_tables`` and ``combine_chunks``; it
  proves nothing about the values.
* pyarrow known: the cells hold bare RecordBatch messages; ``read_record_batch`` with the schema at hand, then
  the same. This is the baseline of the cases with a known schema.
* arrowipc: ``decode_payloads(column)``, fully validated, which is the default.
* arrowipc none: ``validate="none"``, which does what pyarrow does.
* polars: ``read_ipc_stream`` for each cell and ``concat``.

The cases differ in what payloads of one column have in common: everything, all but their metadata (pandas
puts the range of its index there), or little; and in what a payload holds. Dictionaries come out as one, or
as plain values. The codecs themselves take 0.3 us (LZ4) and 1.6 us (ZSTD) for the 15 buffers of a payload,
most of which are too small to be worth it; writers compress them all the same.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.harness import Case, Run, Scale

TITLE = "a column of payloads to one batch"


def cases(scale: Scale) -> Iterator[Case]:
    """One schema, known schemas, schemas that differ, and what leaves the fast way."""
    count = scale.size(20_000, 4)
    few = scale.size(2_000, 4)
    mixed, plain = data.mixed_batch(10), data.plain_batch(10, 10)
    yield streams("10 mixed columns x 10 rows", [mixed], count, goal=25)
    yield streams("10 int64 columns x 10 rows", [plain], count, goal=25)
    yield known("10 mixed columns x 10 rows, schema known", mixed, count)
    yield known("10 int64 columns x 10 rows, schema known", plain, count)
    yield streams("metadata differs from payload to payload", ranges(mixed, few), few)
    swapped = mixed.select(mixed.schema.names[::-1])
    yield streams("two orders of the columns in turn", [mixed, swapped], few)
    encoded = mixed.set_column(9, "city", mixed.column(9).dictionary_encode())
    yield streams(
        "one column dictionary-encoded, the same each time", [encoded], count, goal=25, polars=False
    )
    others = [encoded.set_column(9, "city", cities(i)) for i in range(scale.size(500, 4))]
    yield streams("one column dictionary-encoded, others each time", others, few, polars=False)
    plain_values = {"dictionaries": "decode"}
    yield streams("dictionary-encoded, to plain values", others, few, polars=False, ours=plain_values)
    yield streams("compressed with LZ4", [mixed], few, compression="lz4")
    yield streams("compressed with ZSTD", [mixed], few, compression="zstd")
    yield streams("1000 rows", [data.mixed_batch(scale.size(1000, 3))], scale.size(200, 3))
    yield beside(scale)


def ranges(batch: pa.RecordBatch, count: int) -> list[pa.RecordBatch]:
    """Return the batch with metadata as pandas writes it, `count` times."""
    text = '{"index_columns": [{"kind": "range", "name": null, "start": 0, "stop": %d, "step": 1}]}'
    return [batch.replace_schema_metadata({"pandas": text % (i + 1_000_000)}) for i in range(count)]


def cities(which: int) -> pa.DictionaryArray:
    """Return ten rows of a column with a dictionary of its own: ten of fifty values."""
    return pa.array([f"city {(7 * which + i) % 50}" for i in range(10)]).dictionary_encode()


def column_of(cells: list[bytes], count: int) -> pa.Array:
    """Return an array of so many cells."""
    return pa.array((cells * -(-count // len(cells)))[:count], pa.binary())


def rows_by_arrowipc(column: pa.Array, **options: object) -> int:
    """Decode all cells."""
    return int(arrowipc.decode_payloads(column, **options).batch.num_rows)


def rows_by_pyarrow(column: pa.Array) -> int:
    """Open each cell as a stream."""
    tables = [pa.ipc.open_stream(cell.as_buffer()).read_all() for cell in column]
    return int(pa.concat_tables(tables, promote_options="default").combine_chunks().num_rows)


def rows_by_known_schema(column: pa.Array, schema: pa.Schema) -> int:
    """Read the message of each cell."""
    batches = [pa.ipc.read_record_batch(pa.ipc.read_message(cell.as_buffer()), schema) for cell in column]
    return int(pa.Table.from_batches(batches).combine_chunks().num_rows)


def rows_by_polars(column: pa.Array) -> int:
    """Read each cell as a data frame."""
    polars = peers.polars
    assert polars is not None
    frames = [polars.read_ipc_stream(io.BytesIO(cell.as_buffer())) for cell in column]
    return int(polars.concat(frames, how="diagonal", rechunk=True).height)


def streams(
    name: str,
    batches: list[pa.RecordBatch],
    count: int,
    goal: float | None = None,
    polars: bool = True,
    ours: dict[str, object] | None = None,
    **options: object,
) -> Case:
    """Return the case of cells that hold a stream each, written with `options` and decoded with `ours`."""
    chosen = ours or {}
    column = column_of([data.stream([batch], **options) for batch in batches], count)
    runs: dict[str, Run] = {
        "pyarrow": lambda: rows_by_pyarrow(column),
        "arrowipc": lambda: rows_by_arrowipc(column, **chosen),
        "arrowipc none": lambda: rows_by_arrowipc(column, validate="none", **chosen),
    }
    if peers.polars is not None and polars:
        runs["polars"] = lambda: rows_by_polars(column)
    return Case(f"{name}, {count} streams", "payload", count, runs, goal=goal, touched=column.nbytes)


def known(name: str, batch: pa.RecordBatch, count: int) -> Case:
    """Return the case of cells that hold a message each."""
    column = column_of([data.messages(data.stream([batch]))[1]], count)
    runs: dict[str, Run] = {
        "pyarrow known": lambda: rows_by_known_schema(column, batch.schema),
        "arrowipc": lambda: rows_by_arrowipc(column, schema=batch.schema),
        "arrowipc none": lambda: rows_by_arrowipc(column, schema=batch.schema, validate="none"),
    }
    return Case(
        f"{name}, {count} messages",
        "payload",
        count,
        runs,
        goal=10,
        baseline="pyarrow known",
        touched=column.nbytes,
    )


def beside(scale: Scale) -> Case:
    """Return the case of other columns that are repeated beside the rows, by the kernel and by ``take``."""
    count = scale.size(20_000, 4)
    source = pa.record_batch({"key": np.arange(count), "topic": [f"topic {i % 7}" for i in range(count)]})
    ours = arrowipc.RecordBatch.from_arrow(source)
    counts = np.full(count, 10)
    index = np.repeat(np.arange(count), 10)
    runs: dict[str, Callable[[], int]] = {
        "pyarrow": lambda: source.take(pa.array(index)).num_rows,
        "arrowipc": lambda: arrowipc.repeat(ours, counts).num_rows,
    }
    return Case(f"a number and a text beside 10 rows each, {count} cells", "cell", count, runs, goal=1)
