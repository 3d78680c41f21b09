"""How fast does a column of small payloads become one batch?

Measured, per payload: from an array of binary cells, each an Arrow IPC stream of ten rows, to one batch that
holds all rows in one piece per column, proven to be safe. All use one thread, polars as many as it likes.

* pyarrow: ``open_stream(cell.as_buffer())`` for each cell, and ``concat_batches`` of all the batches; where
  schemas or dictionaries differ, ``concat_tables`` and ``combine_chunks``. It proves nothing about the
  values.
* pyarrow known: the cells hold bare RecordBatch messages; ``read_record_batch`` with the schema at hand, then
  ``concat_batches``. This is the baseline of the cases with a known schema.
* arrowipc: ``decode_payloads(column, use_threads=False)``, fully validated, which is the default.
* arrowipc none: ``validate="none"``, which does what pyarrow does.
  It counts where there are 20 payloads of each shape, beside pyarrow, which does not look at values.
* one payload: ``decode_payloads`` of the first cell alone, with the same result made of it: what a call takes
  that finds its schema and makes its batch, however many payloads follow. Where there are few.
* polars: ``read_ipc_stream`` for each cell and ``concat``, "diagonal" where schemas differ.

Memory is measured in a process of its own each, as in ``write_memory``: the most that was needed above the
column of payloads, the finished batch included.

The cases differ in what payloads of one column have in common: everything, all but their metadata (pandas
puts the range of its index there), or little; and in what a payload holds. Dictionaries come out as one, or
as plain values. The codecs themselves take 0.3 us (LZ4) and 1.6 us (ZSTD) for the 15 buffers of a payload,
most of which are too small to be worth it; writers compress them all the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.children import peak
from benchmarks.harness import FLAT, Case, Curve, Fact, Run, Scale

TITLE = "a column of payloads to one batch"

#: Of so few payloads the first is a part that shows.
FEW = 200


def cases(scale: Scale) -> Iterator[Case | Fact]:
    """One schema, more and more payloads; known schemas, schemas that differ; what is slower; memory."""
    count = scale.size(20_000 if scale.thorough else 4_000, 4)
    few = scale.size(2_000 if scale.thorough else 500, 4)
    mixed, plain = data.mixed_batch(10), data.plain_batch(10, 10)
    goal: dict[str, Any] = {"goal": 25, "row": "decode"}
    for n in (20, 200, 2_000, 20_000):
        cells = scale.size(n, n // 5_000 + 1)
        curve = Curve("cost per payload", cells, FLAT)
        yield streams("10 mixed columns x 10 rows", [mixed], cells, named=n == 20_000, curve=curve, **goal)
    yield streams("10 int64 columns x 10 rows", [plain], count, **goal)
    for shape in data.SHAPES:
        some: dict[str, Any] = {"goal": 30, "row": "decode small", "named": shape == "mixed"}
        batch = data.shaped(shape, 10)
        yield streams(f"10 columns ({shape}) x 10 rows", [batch], 20, polars=shape in data.SHAPES[:3], **some)
    yield known("10 mixed columns x 10 rows, schema known", mixed, scale.size(20_000, 4), named=True)
    yield known("10 int64 columns x 10 rows, schema known", plain, count)
    yield streams("metadata differs from payload to payload", ranges(mixed, few), few)
    swapped = mixed.select(mixed.schema.names[::-1])
    yield streams("two orders of the columns in turn", [mixed, swapped], few, alike=False)
    encoded = mixed.set_column(9, "city", mixed.column(9).dictionary_encode())
    unlike: dict[str, Any] = {"polars": False, "alike": False}
    yield streams("one column dictionary-encoded, the same each time", [encoded], count, goal=25, polars=False)
    others = [encoded.set_column(9, "city", cities(i)) for i in range(scale.size(500, 4))]
    yield streams("one column dictionary-encoded, others each time", others, few, **unlike)
    plain_values: dict[str, object] = {"dictionaries": "decode"}
    yield streams("dictionary-encoded, to plain values", others, few, ours=plain_values, **unlike)
    yield streams("compressed with LZ4", [mixed], few, written={"compression": "lz4"})
    yield streams("compressed with ZSTD", [mixed], few, written={"compression": "zstd"})
    yield streams("1000 rows", [data.mixed_batch(scale.size(1000, 3))], scale.size(200, 3))
    yield beside(scale)
    yield memory(scale)


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
    return int(arrowipc.decode_payloads(column, use_threads=False, **options).batch.num_rows)


def rows_by_pyarrow(column: pa.Array, alike: bool = True) -> int:
    """Open each cell as a stream; tables are joined where schemas or dictionaries are not alike."""
    if alike:
        return int(pa.concat_batches([batch for cell in column for batch in opened(cell)]).num_rows)
    tables = [opened(cell).read_all() for cell in column]
    return int(pa.concat_tables(tables, promote_options="default").combine_chunks().num_rows)


def opened(cell: pa.BinaryScalar) -> pa.RecordBatchReader:
    """Open a stream; several threads take longer for small compressed buffers."""
    return pa.ipc.open_stream(cell.as_buffer(), options=peers.SERIAL)


def rows_by_known_schema(column: pa.Array, schema: pa.Schema) -> int:
    """Read the message of each cell."""
    batches = [pa.ipc.read_record_batch(pa.ipc.read_message(cell.as_buffer()), schema) for cell in column]
    return int(pa.concat_batches(batches).num_rows)


def rows_by_polars(column: pa.Array, alike: bool = True) -> int:
    """Read each cell as a data frame."""
    polars = peers.polars
    assert polars is not None
    frames = [polars.read_ipc_stream(cell.as_py()) for cell in column]
    return int(polars.concat(frames, how="vertical" if alike else "diagonal", rechunk=True).height)


def streams(
    name: str,
    batches: list[pa.RecordBatch],
    count: int,
    *,
    alike: bool = True,
    polars: bool = True,
    ours: dict[str, object] | None = None,
    written: dict[str, object] | None = None,
    **options: Any,
) -> Case:
    """Return the case of cells that hold a stream each, written and decoded with such options."""
    chosen = ours or {}
    column = column_of([data.stream([batch], **(written or {})) for batch in batches], count)
    runs: dict[str, Run] = {
        "pyarrow": lambda: rows_by_pyarrow(column, alike),
        "arrowipc": lambda: rows_by_arrowipc(column, **chosen),
        "arrowipc none": lambda: rows_by_arrowipc(column, validate="none", **chosen),
    }
    if count <= FEW:
        first, rows = column.slice(0, 1), rows_by_arrowipc(column, **chosen)
        runs["one payload"] = lambda: rows * bool(rows_by_arrowipc(first, **chosen))
    if peers.polars is not None and polars:
        runs["polars"] = lambda: rows_by_polars(column, alike)
    return Case(f"{name}, {count} streams", "payload", count, runs, touched=column.nbytes, **options)


def known(name: str, batch: pa.RecordBatch, count: int, named: bool = False) -> Case:
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
        row="decode known",
        named=named,
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


# -- memory --------------------------------------------------------------------------------------------------

INPUT = """
import pyarrow as pa, pyarrow.ipc
(batch,) = pa.ipc.open_stream(pa.OSFile(path))
column = batch[0]
"""

CHILDREN = {
    "pyarrow": """
before = begin()
made = pa.concat_batches([batch for cell in column for batch in pa.ipc.open_stream(cell.as_buffer())])
""",
    "arrowipc": """
import arrowipc
arrowipc.decode_payloads(column.slice(0, 1))
before = begin()
made = arrowipc.decode_payloads(column, use_threads=False)
""",
}


def memory(scale: Scale) -> Fact:
    """Return what the batch of many payloads takes above them."""
    count = scale.size(40_000, 40)
    column = column_of([data.stream([data.mixed_batch(10)])], count)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "payloads.arrows"))
        Path(path).write_bytes(data.stream([pa.record_batch([column], ["payload"])]))
        found = {name: peak(INPUT + code, path=path) for name, code in CHILDREN.items()}
    return Fact(f"10 mixed columns x 10 rows, {count} streams: peak memory above the input", found, goal=1)
