"""How much memory do converting, reading some columns, and decoding payloads take beyond what is handed out?

Measured in a process of its own each, for 1 GB in batches of 7 MB in files that are read, not mapped: the most
memory that the process had, less what it had before it opened the file. All compress and decompress with as many
threads as they like. What is handed out (the batch of numbers that a loop holds, the batch that payloads became) is
in the figures. Rows of larger batches, 65 MB, have no goal: a batch is in memory as a whole, and so are the frames
that it is compressed to, because their sizes stand in front of them.

* convert: a file to a file that is compressed with LZ4. pyarrow: ``open_file(OSFile(path))``, ``write_batch``;
  arrowipc: ``copy(open_file(path, memory_map=False), new_file(...))``.
* project: 2 of 10 columns of the file. pyarrow: ``included_fields``; arrowipc: ``columns=``.
* payloads: a file of a binary column whose cells are streams of 1,000 rows; each batch of cells to batches of at
  most 4 MB. pyarrow: ``open_stream`` of each cell and ``concat_tables``, as many as are 4 MB;
  arrowipc: ``decode_payloads(column, start=..., max_bytes=...)``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import data
from benchmarks.children import peak
from benchmarks.harness import Fact, Scale

TITLE = "peak memory of converting, projecting, and decoding payloads"

CONVERT = {
    "pyarrow": """
import pyarrow as pa, pyarrow.ipc
before = begin()
options = pa.ipc.IpcWriteOptions(compression="lz4")
with pa.OSFile(path) as source, pa.ipc.open_file(source) as reader, pa.OSFile(target, "wb") as sink:
    with pa.ipc.new_file(sink, reader.schema, options=options) as writer:
        for i in range(reader.num_record_batches):
            writer.write_batch(reader.get_batch(i))
""",
    "arrowipc": """
import arrowipc
before = begin()
with arrowipc.open_file(path, memory_map=False) as reader:
    with arrowipc.new_file(target, reader.schema, compression="lz4") as writer:
        arrowipc.copy(reader, writer)
""",
}

PROJECT = {
    "pyarrow": """
import pyarrow as pa, pyarrow.ipc
before = begin()
options = pa.ipc.IpcReadOptions(included_fields=[1, 7])
with pa.OSFile(path) as source, pa.ipc.open_file(source, options=options) as reader:
    found = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
assert found == rows
""",
    "arrowipc": """
import arrowipc
before = begin()
with arrowipc.open_file(path, memory_map=False, columns=[1, 7]) as reader:
    found = sum(batch.num_rows for batch in reader)
assert found == rows
""",
}

PAYLOADS = {
    "pyarrow": """
import pyarrow as pa, pyarrow.ipc
def decoded(cells):
    waiting, size = [], 0
    for cell in cells:
        table = pa.ipc.open_stream(cell.as_buffer()).read_all()
        if size + table.nbytes > most and waiting:
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
assert found == rows
""",
    "arrowipc": """
import arrowipc
before = begin()
with arrowipc.open_file(path, memory_map=False) as reader:
    found = 0
    for batch in reader:
        cells, at = batch.column(0), 0
        while at < len(cells):
            decoded = arrowipc.decode_payloads(cells, start=at, max_bytes=most)
            at = decoded.next
            found += decoded.batch.num_rows
assert found == rows
""",
}


def cases(scale: Scale) -> Iterator[Fact]:
    """The three with batches of 7 MB, the first two with larger ones too."""
    for rows in (100_000, 1_000_000) if scale.thorough else (scale.size(100_000, 50),):
        batch = data.mixed_batch(rows)
        shape, goal = named(scale, batch), {"at_most": 32 * 2**20} if rows <= 100_000 else {}
        with tempfile.TemporaryDirectory() as folder:
            path, count = written(scale, folder, batch)
            target = str(Path(folder, "target.arrow"))
            yield fact("convert", f"convert {shape} to LZ4", CONVERT, goal, path=path, target=target)
            yield fact("project", f"2 of 10 columns of {shape}", PROJECT, goal, path=path, rows=count * rows)
    rows = scale.size(1_000, 5)
    payload = data.stream([data.mixed_batch(rows)])
    batch = pa.record_batch({"payload": pa.array([payload] * scale.size(100, 3), pa.binary())})
    with tempfile.TemporaryDirectory() as folder:
        path, count = written(scale, folder, batch)
        given = {"path": path, "rows": count * len(batch) * rows, "most": 4_000_000}
        yield fact("payloads", f"decode {named(scale, batch)} of payloads", PAYLOADS, {"at_most": 32 * 2**20}, **given)


def fact(row: str, name: str, children: dict[str, str], goal: dict[str, Any], **given: Any) -> Fact:
    """Return what was found of both; what has a goal is the case of its row."""
    found = {contender: peak(code, **given) for contender, code in children.items()}
    return Fact(name, found, row=f"peak {row}" if goal else "", named=bool(goal), **goal)


def repeats(scale: Scale, batch: pa.RecordBatch) -> int:
    """Return how often a batch is written."""
    return (1_000_000_000 if scale.thorough else 200_000_000) // batch.nbytes if scale.name != "tiny" else 3


def named(scale: Scale, batch: pa.RecordBatch) -> str:
    """Return the words for a file of a batch."""
    return f"{repeats(scale, batch)} batches of {batch.nbytes / 1e6:.2g} MB"


def written(scale: Scale, folder: str, batch: pa.RecordBatch) -> tuple[str, int]:
    """Write a file; return its path and how many batches it has."""
    path, count = str(Path(folder, "batches.arrow")), repeats(scale, batch)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        for _ in range(count):
            writer.write_batch(batch)
    return path, count
