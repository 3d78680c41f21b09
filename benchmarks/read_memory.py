"""How much memory does it take to read 1 GB batch by batch?

Measured in a process of its own each: the most memory that the process had while it read the stream, less
what it had before it opened it. The stream is in a file that is read, not mapped: of a mapped file the pages
that were read count as memory of the process as long as nobody else needs it. Each batch is dropped when the
next one comes.

* pyarrow: ``pa.ipc.open_stream(pa.OSFile(path))``.
* arrowipc: ``open_stream(path, memory_map=False)``, fully validated.
* polars reads a stream into one frame, and so does not take part; nanoarrow and arro3 read files in Python's
  hands, ``open(path, "rb")``.

Memory that bodies no longer need waits for the next body in all of them; how much of it is in the figures
too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from benchmarks import data, peers
from benchmarks.children import peak
from benchmarks.harness import Fact, Scale

TITLE = "peak memory of reading 1 GB"

CHILDREN = {
    "pyarrow": """
import pyarrow as pa, pyarrow.ipc
before = begin()
with pa.OSFile(path) as source, pa.ipc.open_stream(source) as reader:
    rows = sum(batch.num_rows for batch in reader)
""",
    "arrowipc": """
import arrowipc
before = begin()
with arrowipc.open_stream(path, memory_map=False) as reader:
    rows = sum(batch.num_rows for batch in reader)
""",
    "nanoarrow": """
import nanoarrow, nanoarrow.ipc
before = begin()
with open(path, "rb") as file:
    source = nanoarrow.ipc.InputStream.from_readable(file)
    with nanoarrow.c_array_stream(source) as stream:
        rows = sum(array.length for array in stream)
""",
    "arro3": """
import arro3.io
before = begin()
with open(path, "rb") as file:
    rows = sum(batch.num_rows for batch in arro3.io.read_ipc_stream(file))
""",
}


def cases(scale: Scale) -> Iterator[Fact]:
    """Batches of 7 MB, as they are and compressed."""
    batch = data.mixed_batch(scale.size(100_000, 50))
    count = (1_000_000_000 if scale.thorough else 200_000_000) // batch.nbytes if scale.name != "tiny" else 3
    able = {"nanoarrow": peers.nanoarrow, "arro3": peers.arro3_io}
    names = [name for name in CHILDREN if able.get(name, True) is not None]
    for codec in (None, "lz4", "zstd"):
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "batches.arrows"))
            options = pa.ipc.IpcWriteOptions(compression=codec)
            with (
                pa.OSFile(path, "wb") as sink,
                pa.ipc.new_stream(sink, batch.schema, options=options) as writer,
            ):
                for _ in range(count):
                    writer.write_batch(batch)
            shape = f"{count} batches of {batch.nbytes / 1e6:.2g} MB"
            found = {
                name: peak(f"{CHILDREN[name]}assert rows == {count * batch.num_rows}", path=path) for name in names
            }
            yield Fact(f"read {shape}{f', {codec}' if codec else ''}", found, at_most=64 * 2**20)
        if scale.name == "tiny":
            return
