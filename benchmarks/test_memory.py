"""How much memory does it take to read, write and convert 1 GB, and to decode payloads?

Measured in a process of its own each: the most memory that the process had, less what it had before it opened the file,
or when the input was complete. Files are read, not mapped, but for the scan: the pages of a mapped file that were read
count as memory of the process until somebody lets go of them. Batches have 7 MB (or 65), and each is dropped when the
next one comes. polars reads a stream into one frame, so it takes part in writing and scanning only; what it makes of
the text counts as input.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from measuring import data
from measuring.children import peak
from measuring.race import Run, Runs, question, size

IMPORTS = {"pyarrow": "pyarrow as pa, pyarrow.ipc", "nanoarrow": "nanoarrow, nanoarrow.ipc", "arro3": "arro3.io"}


def measured(name: str, code: str, table: str = "", **given: Any) -> Run:
    """Return a run of a child that imports a library, makes a table, and measures what the code takes beyond that."""
    begin = "" if "begin()" in code else "before = begin()\n"
    return partial(peak, f"import {IMPORTS.get(name, name.split()[0])}\n{table}{begin}{code}", **given)


READ = {
    "pyarrow": """
with pa.OSFile(path) as source, pa.ipc.open_stream(source) as reader:
    found = sum(batch.num_rows for batch in reader)
""",
    "arrowipc": """
with arrowipc.open_stream(path, memory_map=False) as reader:
    found = sum(batch.num_rows for batch in reader)
""",
    "nanoarrow": """
with open(path, "rb") as file:
    with nanoarrow.c_array_stream(nanoarrow.ipc.InputStream.from_readable(file)) as stream:
        found = sum(array.length for array in stream)
""",
    "arro3": """
with open(path, "rb") as file:
    found = sum(batch.num_rows for batch in arro3.io.read_ipc_stream(file))
""",
}
SUM = "sum(batch.num_rows for batch in source if sum(float(each.to_numpy().sum()) for each in batch.columns))"
SCAN = {
    "pyarrow": f"""
file = pa.ipc.open_file(pa.memory_map(path))
source = map(file.get_batch, range(file.num_record_batches))
found = {SUM}
""",
    "arrowipc": f"source = arrowipc.open(path)\nfound = {SUM}\n",
    "arrowipc data set": f"source = arrowipc.open_dataset(path)\nfound = {SUM}\n",
    "arrowipc rows": f"""
rows_of = arrowipc.RowDataset(path, format="arrow")
source = (rows_of[start:start + 10_000] for start in range(0, len(rows_of), 10_000))
found = {SUM}
""",
    "polars": """
scan = polars.scan_ipc(path)
found = scan.select(polars.all().sum(), polars.len().alias("rows")).collect(engine="streaming")["rows"].item()
""",
}
CONVERT = {
    "pyarrow": """
options = pa.ipc.IpcWriteOptions(compression="lz4")
with pa.OSFile(path) as source, pa.ipc.open_file(source) as reader, pa.OSFile(path + "2", "wb") as sink:
    with pa.ipc.new_file(sink, reader.schema, options=options) as writer:
        for i in range(reader.num_record_batches):
            writer.write_batch(reader.get_batch(i))
found = rows
""",
    "arrowipc": """
with arrowipc.open_file(path, memory_map=False) as reader:
    with arrowipc.new_file(path + "2", reader.schema, compression="lz4") as writer:
        arrowipc.copy(reader, writer)
found = rows
""",
}
PAYLOADS = {
    "pyarrow": """
def decoded(cells):
    waiting, size = [], 0
    for cell in cells:
        table = pa.ipc.open_stream(cell.as_buffer()).read_all()
        if size + table.nbytes > 4_000_000 and waiting:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, size = [], 0
        waiting.append(table)
        size += table.nbytes
    yield pa.concat_tables(waiting).combine_chunks()
before = begin()
with pa.OSFile(path) as source, pa.ipc.open_file(source) as reader:
    found = 0
    for i in range(reader.num_record_batches):
        for table in decoded(reader.get_batch(i).column(0)):
            found += table.num_rows
""",
    "arrowipc": """
with arrowipc.open_file(path, memory_map=False) as reader:
    found = 0
    for batch in reader:
        cells, at = batch.column(0), 0
        while at < len(cells):
            decoded = arrowipc.decode_payloads(cells, start=at, max_bytes=4_000_000)
            at = decoded.next
            found += decoded.batch.num_rows
""",
}
WRITE = {
    "pyarrow": """
options = pa.ipc.IpcWriteOptions(compression=codec)
before = begin()
with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
    writer.write_table(table, max_chunksize=piece and piece // 100)
""",
    "arrowipc": """
with arrowipc.new_file(path, durable=False, compression=codec) as writer:
    writer.write_table(table, max_chunk_bytes=piece) if piece else writer.write_table(table)
""",
    "polars": """
frame = polars.from_arrow(table)
before = begin()
frame.write_ipc(path, compression=codec or "uncompressed")
""",
}


def over_a_file(folder: Path, code: dict[str, str], batch: pa.RecordBatch, rows: int, **written: Any) -> Runs:
    """Return children that read a file of 1 GB of equal batches, of so many rows in the end each."""
    path, count = str(folder / "batches.arrow"), size(1_000_000_000 // batch.nbytes, 3)
    data.write(path, [batch] * count, **{"new_writer": pa.ipc.new_file, **written})
    given = {"path": path, "rows": count * rows}
    return {name: measured(name, each + "assert found == rows, found", **given) for name, each in code.items()}


@question("peak memory of reading 1 GB", READ, unit="bytes")
@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_read(folder: Path, codec: Any) -> Runs:
    batch = data.mixed_batch(size(100_000, 50))
    return over_a_file(folder, READ, batch, batch.num_rows, new_writer=pa.ipc.new_stream, compression=codec)


@question("peak memory of scanning 1 GB, mapped", SCAN, unit="bytes")
def test_scan(folder: Path) -> Runs:
    batch = data.plain_batch(10, size(100_000, 50))
    return over_a_file(folder, SCAN, batch, batch.num_rows)


@question("peak memory of converting 1 GB to LZ4, not mapped", CONVERT, unit="bytes")
@pytest.mark.parametrize("rows", [size(100_000, 50), size(1_000_000, 60)])
def test_convert(folder: Path, rows: int) -> Runs:
    return over_a_file(folder, CONVERT, data.mixed_batch(rows), rows)


@question("peak memory of decoding 1 GB of payloads, 4 MB at once", PAYLOADS, unit="bytes")
def test_payloads(folder: Path) -> Runs:
    rows, cells = size(1_000, 5), size(100, 3)
    payload = data.stream([data.mixed_batch(rows)])
    batch = pa.record_batch({"payload": pa.array([payload] * cells, pa.binary())})
    return over_a_file(folder, PAYLOADS, batch, rows * cells)


@question("peak memory of writing 1 GB, beyond the data", WRITE, unit="bytes")
@pytest.mark.parametrize("piece", [None, 64 << 20], ids=["one piece", "pieces of 64 MiB"])
@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_write(folder: Path, codec: Any, piece: int | None) -> Runs:
    given = {"rows": size(10_000_000, 1_000), "path": str(folder / "table.arrow"), "codec": codec, "piece": piece}
    able = [name for name in WRITE if name != "polars" or piece is None]
    return {name: measured(name, WRITE[name], data.TABLE, **given) for name in able}
