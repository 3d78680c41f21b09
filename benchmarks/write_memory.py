"""How much memory does it take to write 1 GB to a file?

Measured in a process of its own each: the most memory that the process had until the end (its peak resident
set), less what it had when the input was complete. The input is a table of pyarrow in one chunk, all of it
touched: eight numbers and a text per row. Nobody waits for the disk.

* pyarrow: ``new_file(pa.OSFile(path, "wb"), schema)`` and ``write_table(table)``; in pieces:
  ``write_table(table, max_chunksize=...)`` with the rows that take 64 MiB.
* arrowipc: ``new_file(path, durable=False)`` and ``write(table)``; in pieces:
  ``write_table(table, max_chunk_bytes=64 * 2**20)``.
* polars: ``write_ipc(path)`` of a frame made of the table; what that makes of the text counts as input.

The memory that compressed buffers wait in depends on how large the pieces are; one piece of 1 GB needs room
for all that it compresses to.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import peers
from benchmarks.children import peak
from benchmarks.harness import Fact, Scale

TITLE = "peak memory of writing 1 GB"

#: A row has 8 * 8 bytes of numbers, 4 of an offset and 32 of text.
ROW_BYTES = 100
PIECE = 64 * 2**20

#: What the child does before it writes; `rows` and `path` are set.
INPUT = """
import numpy as np, pyarrow as pa, pyarrow.ipc
random = np.random.default_rng(1)
columns = {f"c{i}": pa.array(random.integers(0, 1 << 20, rows)) for i in range(8)}
offsets = pa.py_buffer(np.arange(0, 32 * (rows + 1), 32, dtype=np.int32))
text = pa.py_buffer(random.integers(97, 101, 32 * rows, dtype=np.uint8))
columns["text"] = pa.StringArray.from_buffers(rows, offsets, text)
table = pa.table(columns)
del columns, offsets, text
"""

BY_PYARROW = """
options = pa.ipc.IpcWriteOptions(compression={codec!r})
before = begin()
with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
    writer.write_table(table, {pyarrow})
"""

BY_ARROWIPC = """
import arrowipc
before = begin()
with arrowipc.new_file(path, durable=False, compression={codec!r}) as writer:
    writer.write_table(table, {arrowipc})
"""

BY_POLARS = """
import polars
frame = polars.from_arrow(table)
before = begin()
frame.write_ipc(path, compression={codec!r} or "uncompressed")
"""

CHILDREN = {"pyarrow": BY_PYARROW, "arrowipc": BY_ARROWIPC, "polars": BY_POLARS}


def cases(scale: Scale) -> Iterator[Fact]:
    """Without compression; with both codecs, in one piece and in several."""
    size = 1_000_000_000 if scale.thorough else scale.size(200_000_000, 100_000)
    rows = size // ROW_BYTES
    name = f"write a table of {size / 1e6:g} MB"
    yield Fact(name, peaks(rows), at_most=64 * 2**20, row="write peak", named=True)
    for codec in ("lz4", "zstd") if scale.name != "tiny" else ("lz4",):
        if scale.thorough:
            yield Fact(f"{name}, {codec}", peaks(rows, codec))
        yield Fact(f"{name}, {codec}, in pieces of 64 MiB", peaks(rows, codec, PIECE), at_most=2 * PIECE)


def peaks(rows: int, codec: str | None = None, piece: int | None = None) -> dict[str, list[float]]:
    """Return the bytes that each takes above its input."""
    how = {
        "codec": codec,
        "pyarrow": "" if piece is None else f"max_chunksize={piece // ROW_BYTES}",
        "arrowipc": "" if piece is None else f"max_chunk_bytes={piece}",
    }
    names = [name for name in CHILDREN if name != "polars" or (peers.polars is not None and piece is None)]
    with tempfile.TemporaryDirectory() as folder:
        given = {"rows": rows, "path": str(Path(folder, "table.arrow"))}
        return {name: peak(INPUT + CHILDREN[name].format(**how), **given) for name in names}
