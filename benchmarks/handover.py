"""What does it cost to read with arrowipc and hand every batch over to another library?

Measured, per batch: opening the stream and draining it in the other library's hands.

* pyarrow: ``for batch in pa.ipc.open_stream(data)``: no handover at all.
* arrowipc: ``for batch in pa.RecordBatchReader.from_stream(arrowipc.open_stream(data, validate="none"))``:
  the Arrow C stream interface, the same checks as pyarrow's own reader. Importing alone takes pyarrow as long
  as reading.
* arrowipc full: the same, fully validated.
* arrowipc one by one: ``pa.record_batch(batch)`` for each batch: the Arrow C data interface.
* pyarrow via C stream: pyarrow's own reader handed to pyarrow in the same way: what the interface costs by
  itself.
* batches that are there: our batches, read beforehand, handed over in the same way.
* import alone: a stream in C (``minimal_stream.c``) that gives one of these batches again and again and owns
  nothing: the floor, which is pyarrow's import. Left out where there is no C compiler.

The goal holds for the worst of four shapes (`data.SHAPES`).

The second case ends in polars: ``pl.DataFrame(reader)`` against polars' own ``read_ipc_stream`` and against
reading with pyarrow (``pl.from_arrow(reader.read_all())``).
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.harness import Case, Scale

TITLE = "hand every batch over to pyarrow"


def cases(scale: Scale) -> Iterator[Case]:
    """Small batches of each shape; one data frame."""
    rows, count = scale.size(100, 3), scale.size(2_000, 2)
    for shape in data.SHAPES:
        source = data.stream([data.shaped(shape, rows)] * count)
        yield to_pyarrow(f"10 {shape} columns x {rows} rows, {count} batches", source, count, named=shape == "mixed")
    if peers.polars is not None:
        count = scale.size(100, 2)
        source = data.stream([data.mixed_batch(scale.size(10_000, 3))] * count)
        yield to_polars(f"into one polars DataFrame: {count} batches x 10 mixed columns", source, count)


def drained(reader: Any) -> int:
    """Take all batches of a reader through the C stream interface."""
    rows = 0
    for batch in pa.RecordBatchReader.from_stream(reader):
        rows += batch.num_rows
    return rows


def one_by_one(source: bytes) -> int:
    """Take each batch through the C data interface."""
    rows = 0
    for batch in arrowipc.open_stream(source, validate="none"):
        rows += pa.record_batch(batch).num_rows
    return rows


def to_pyarrow(name: str, source: bytes, count: int, named: bool = False) -> Case:
    """Return the case that ends in pyarrow batches."""
    there = arrowipc.Table.from_batches(list(arrowipc.open_stream(source, validate="none")))
    contenders = {
        "pyarrow": lambda: peers.rows_by_pyarrow(source),
        "arrowipc": lambda: drained(arrowipc.open_stream(source, validate="none")),
        "arrowipc full": lambda: drained(arrowipc.open_stream(source)),
        "arrowipc one by one": lambda: one_by_one(source),
        "pyarrow via C stream": lambda: drained(pa.ipc.open_stream(source)),
        "batches that are there": lambda: drained(there),
    }
    if (library := minimal_stream()) is not None:
        batch = next(iter(arrowipc.open_stream(source, validate="none")))
        contenders["import alone"] = lambda: imported(library, batch, count)
    return Case(name, "batch", count, contenders, goal=0.9, row="handover", named=named)


@cache
def minimal_stream() -> Any:
    """Compile and load ``minimal_stream.c``; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "minimal_stream.so")
        source = Path(__file__).with_name("minimal_stream.c")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", made, source], check=True)
        return ctypes.CDLL(str(made))


def imported(library: Any, batch: Any, count: int) -> int:
    """Let pyarrow import the same batch `count` times."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    schema, array = batch.__arrow_c_array__()  # their structs live until we are done
    stream = ctypes.create_string_buffer(5 * ctypes.sizeof(ctypes.c_void_p))
    structs = ctypes.c_void_p(pointer(schema, b"arrow_schema")), ctypes.c_void_p(pointer(array, b"arrow_array"))
    library.begin(stream, *structs, ctypes.c_int64(count))
    return sum(found.num_rows for found in pa.RecordBatchReader._import_from_c(ctypes.addressof(stream)))


def to_polars(name: str, source: bytes, count: int) -> Case:
    """Return the case that ends in a polars DataFrame."""
    polars = peers.polars
    return Case(
        name,
        "batch",
        count,
        {
            "pyarrow": lambda: polars.from_arrow(pa.ipc.open_stream(source).read_all()).height,
            "arrowipc": lambda: polars.DataFrame(arrowipc.open_stream(source, validate="none")).height,
            "arrowipc full": lambda: polars.DataFrame(arrowipc.open_stream(source)).height,
            "polars": lambda: peers.rows_by_polars(source),
        },
    )
