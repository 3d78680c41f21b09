"""Reads whole streams with each library in the way that its documentation recommends; without one of them all skip."""

import io
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

import arrowipc

nanoarrow = pytest.importorskip("nanoarrow")
nanoarrow_ipc = pytest.importorskip("nanoarrow.ipc")
polars = pytest.importorskip("polars")
arro3_core = pytest.importorskip("arro3.core")
arro3_io = pytest.importorskip("arro3.io")

SERIAL = pa.ipc.IpcReadOptions(use_threads=False)


def rows_of(batches: Iterable[Any]) -> int:
    rows = 0
    for batch in batches:
        rows += batch.num_rows
    return rows


def rows_by_arrowipc(data: bytes, **options: Any) -> int:
    return rows_of(arrowipc.open_stream(data, **options))


def rows_by_pyarrow(data: bytes, options: Any = None) -> int:
    return rows_of(pa.ipc.open_stream(data, options=options))


def rows_by_nanoarrow(data: bytes) -> int:
    rows = 0
    with nanoarrow.c_array_stream(nanoarrow_ipc.InputStream.from_readable(data)) as stream:
        for array in stream:
            rows += array.length
    return rows


def rows_by_arro3(data: bytes) -> int:
    return rows_of(arro3_io.read_ipc_stream(io.BytesIO(data)))


def rows_by_polars(data: bytes, **options: Any) -> int:
    """Read everything into one DataFrame: polars has no iteration over the batches of a stream."""
    return int(polars.read_ipc_stream(data, **options).height)


def others(data: bytes, *, without: tuple[str, ...] = ()) -> dict[str, Callable[[], int]]:
    """Return the contenders besides pyarrow and arrowipc that read all of a stream."""
    readers = {"nanoarrow": rows_by_nanoarrow, "polars": rows_by_polars, "arro3": rows_by_arro3}
    return {name: lambda read=read: read(data) for name, read in readers.items() if name not in without}
