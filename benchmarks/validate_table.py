"""How fast does a mapped file become a pyarrow table when all of it is validated, against pyarrow without validation?

Measured, per table: opening the file, making the table, closing the file. The file is in the page cache, in pages as
large as one write makes them.

* pyarrow: ``pa.ipc.open_file(pa.memory_map(path)).read_all()``; nothing is validated, and most pages are never touched.
* arrowipc: ``pa.table(arrowipc.open_file(path))``, with one thread and with two.
* arrowipc unvalidated: the same with ``validate="none"``: the import of the batches alone.
* pyarrow validated: ``table.validate(full=True)`` as well.
* bytes touched: the import, and each byte that validation has to read (offsets, indices and text) looked at once: the
  floor.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data
from benchmarks.harness import Case, Scale
from benchmarks.machine import cores

TITLE = "a mapped file as a validated pyarrow table"


def cases(scale: Scale) -> Iterator[Case]:
    """Four shapes and the mixed batch of the other questions, by one thread and by two."""
    rows = scale.size(200_000, 50)
    batches = {shape: data.shaped(shape, rows) for shape in data.SHAPES}
    batches["everyday"] = data.mixed_batch(rows).drop_columns(["day", "code"])
    for shape, batch in batches.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "file.arrow")
            with path.open("wb", buffering=0) as file:
                file.write(data.file([batch]))
            for threads in (1, 2) if cores() > 1 else (1,):
                yield Case(
                    f"{shape}, {rows} rows x {batch.num_columns} columns, {threads} thread{'s' * (threads > 1)}",
                    "table",
                    1,
                    {
                        "pyarrow": partial(by_pyarrow, path),
                        "arrowipc": partial(by_arrowipc, path, use_threads=threads > 1),
                        "arrowipc unvalidated": partial(by_arrowipc, path, validate="none"),
                        "pyarrow validated": partial(by_pyarrow, path, validate=True),
                        "bytes touched": partial(touched, path),
                    },
                    goal=1.0 if threads > 1 else 0.8,
                    threads=threads,
                    row=f"validate table{' 2' * (threads > 1)}",
                    named=shape == "mixed",
                )


def by_pyarrow(path: Path, validate: bool = False) -> int:
    """Map, read all, close."""
    with pa.memory_map(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
        if validate:
            table.validate(full=True)
        return int(table.num_rows)


def by_arrowipc(path: Path, **options: Any) -> int:
    """Map, read all, close."""
    with arrowipc.open_file(path, **options) as reader:
        return int(pa.table(reader).num_rows)


def touched(path: Path) -> int:
    """Import the batches, and look once at what validation has to read."""
    with arrowipc.open_file(path, validate="none", use_threads=False) as reader:
        table = pa.table(reader)
        for batch in table.to_batches():
            for column in batch.columns:
                look(column)
        return int(table.num_rows)


def look(array: pa.Array) -> None:
    """Read the offsets, indices and text of an array and its children once."""
    if pa.types.is_primitive(array.type):
        return
    children: list[pa.Array] = []
    own = 2  # validity and offsets; of text, the text too
    if pa.types.is_dictionary(array.type):
        array = array.indices
    elif pa.types.is_struct(array.type):
        own, children = 1, [array.field(i) for i in range(array.type.num_fields)]
    elif pa.types.is_map(array.type):
        children = [array.keys, array.items]
    elif pa.types.is_list(array.type):
        children = [array.values]
    else:
        own = 3
    for buffer in array.buffers()[1:own]:
        np.frombuffer(buffer, np.int64, buffer.size // 8).max(initial=0)
    for child in children:
        look(child)
