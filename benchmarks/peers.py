"""Reads whole streams with each library in the way that its documentation recommends.

A name that is None could not be imported; benchmarks leave that contender out.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import arrowipc


def optional(name: str) -> Any:
    """Return a module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


nanoarrow = optional("nanoarrow")
nanoarrow_ipc = optional("nanoarrow.ipc")
polars = optional("polars")
arro3_io = optional("arro3.io")

SERIAL = pa.ipc.IpcReadOptions(use_threads=False)


def rows_by_arrowipc(data: bytes, **options: Any) -> int:
    """Iterate over the batches; options are those of `arrowipc.open_stream`."""
    rows = 0
    for batch in arrowipc.open_stream(data, **options):
        rows += batch.num_rows
    return rows


def rows_by_pyarrow(data: bytes, options: Any = None) -> int:
    """Iterate over the batches; `options` is a pyarrow.ipc.IpcReadOptions."""
    rows = 0
    for batch in pa.ipc.open_stream(data, options=options):
        rows += batch.num_rows
    return rows


def rows_by_nanoarrow(data: bytes) -> int:
    """Iterate over the batches as C arrays: the lightest objects that nanoarrow has."""
    rows = 0
    with nanoarrow.c_array_stream(nanoarrow_ipc.InputStream.from_readable(data)) as stream:
        for array in stream:
            rows += array.length
    return rows


def rows_by_arro3(data: bytes) -> int:
    """Iterate over the batches; arro3 takes a file object."""
    rows = 0
    for batch in arro3_io.read_ipc_stream(io.BytesIO(data)):
        rows += batch.num_rows
    return rows


def rows_by_polars(data: bytes, **options: Any) -> int:
    """Read everything into one DataFrame: polars has no iteration over the batches of a stream."""
    return int(polars.read_ipc_stream(data, **options).height)


def others(data: bytes, *, without: tuple[str, ...] = ()) -> dict[str, Callable[[], int]]:
    """Return the contenders besides pyarrow and arrowipc that read all of a stream."""
    found: dict[str, Callable[[], int]] = {}
    if nanoarrow is not None and nanoarrow_ipc is not None:
        found["nanoarrow"] = lambda: rows_by_nanoarrow(data)
    if polars is not None:
        found["polars"] = lambda: rows_by_polars(data)
    if arro3_io is not None:
        found["arro3"] = lambda: rows_by_arro3(data)
    return {name: run for name, run in found.items() if name not in without}
