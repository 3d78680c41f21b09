"""Are whole files as quick in polars, pandas and DuckDB as by their own reading or pyarrow's, and written as quickly?

polars reads the same file with ``scan_ipc``. "without pyarrow" makes the frame as where pyarrow is not installed. Files
are in the page cache; each that is written has a new name and is removed, without waiting for the disk. DuckDB takes
readers of pyarrow and of arrowipc; "duckdb" is its own reader of Arrow files, where its extension is installed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Runs, question, size, sizes

import arrowipc

duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
polars = peers.polars
ASKED: dict[str, Callable[[Any], Any]] = {
    "the last five rows": lambda frame: frame.tail(5),
    "ten rows of the middle": lambda frame: frame.slice(size(500_000, 20), 10),
    "the number of rows": lambda frame: frame.select(polars.len()),
}


def table_of(rows: int) -> pa.Table:
    chance = np.random.default_rng(7)
    words = np.array(data.WORDS, dtype=object)[chance.integers(0, len(data.WORDS), rows)]
    return pa.table({"id": np.arange(rows), "x": chance.random(rows), "text": pa.array(words, pa.string())})


def file_of(folder: Path, table: pa.Table, **options: Any) -> str:
    path = Path(folder, "table.arrow")
    path.write_bytes(data.file(table.to_batches(size(100_000, 10)), **options))
    return str(path)


@question("in polars {what} of a file", "polars, arrowipc, arrowipc unvalidated", unit="call", baseline="polars")
@pytest.mark.parametrize("rows", sizes(50, 1_000_000, 4_000_000))
@pytest.mark.parametrize("what", ASKED)
def test_polars(folder: Path, what: str, rows: int) -> Runs:
    path, ask = file_of(folder, table_of(rows)), ASKED[what]
    return {
        "polars": lambda: ask(polars.scan_ipc(path)).collect().to_dicts(),
        "arrowipc": lambda: ask(arrowipc.scan_polars(path)).collect().to_dicts(),
        "arrowipc unvalidated": lambda: ask(arrowipc.scan_polars(path, validate="none")).collect().to_dicts(),
    }


@question("a pandas frame of a file", "pyarrow, arrowipc, arrowipc without pyarrow", unit="call")
@pytest.mark.parametrize("codec", [None, "zstd"])
@pytest.mark.parametrize("columns", ["numbers", "all"])
def test_pandas(folder: Path, columns: str, codec: Any) -> Runs:
    table = table_of(size(1_000_000, 30))
    path = file_of(folder, table.select(["id", "x"]) if columns == "numbers" else table, compression=codec)

    def ours() -> int:
        with arrowipc.open(path) as reader:
            return len(reader.read_pandas())

    def theirs() -> int:
        with pa.memory_map(path) as file:
            return len(pa.ipc.open_file(file).read_pandas())

    def alone() -> int:
        with patch.dict(sys.modules, {"pyarrow": None}):
            return ours()

    return {"pyarrow": theirs, "arrowipc": ours, "arrowipc without pyarrow": alone}


@question("write a {what} to a new path", "pyarrow, arrowipc", unit="call")
@pytest.mark.parametrize("what", ["pyarrow table", "pandas frame"])
def test_write(folder: Path, what: str) -> Runs:
    table, number = table_of(size(1_000_000, 30)), itertools.count()
    given = table if what == "pyarrow table" else table.to_pandas()

    def written(write: Callable[[str], None]) -> int:
        path = Path(folder, f"{next(number)}.arrow")
        write(str(path))
        length = path.stat().st_size > size(20_000_000, 100)
        path.unlink()
        return length

    def theirs(path: str) -> None:
        whole = given if what == "pyarrow table" else pa.Table.from_pandas(given)
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, whole.schema) as writer:
            writer.write_table(whole)

    def ours(path: str) -> None:
        with arrowipc.new_file(path, durable=False) as writer:
            writer.write(given)

    return {"pyarrow": partial(written, theirs), "arrowipc": partial(written, ours)}


@question("two threads share a reader", "one thread, arrowipc", unit="call", baseline="one thread")
@pytest.mark.parametrize("how", ["mapped", "not mapped"])
def test_shared_reader(folder: Path, how: str) -> Runs:
    path = file_of(folder, table_of(size(4_000_000, 40)), compression="lz4")
    reader = arrowipc.open_file(path, memory_map=how == "mapped", use_threads=False)

    def read(numbers: range) -> None:
        for i in numbers:
            reader.get_batch(i)

    def by(threads: int) -> int:
        count = reader.num_record_batches
        started = [Thread(target=read, args=[range(k, count, threads)]) for k in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        return count

    return {"one thread": partial(by, 1), "arrowipc": partial(by, 2)}


@question("sum a column of a file in DuckDB", "pyarrow, arrowipc, arrowipc data set, duckdb", unit="call")
def test_duckdb(folder: Path) -> Runs:
    path, query = file_of(folder, table_of(size(1_000_000, 30))), "select sum(id) from reader"

    def by(make: Callable[[], Any]) -> Any:
        return duckdb.from_arrow(make()).query("reader", query).fetchall()

    def own() -> Any:
        with duckdb.connect() as connection:
            connection.execute("load nanoarrow")
            return connection.execute(f"select sum(id) from read_arrow('{path}')").fetchall()

    def theirs() -> Any:
        file = pa.ipc.open_file(pa.memory_map(path))
        return pa.RecordBatchReader.from_batches(file.schema, map(file.get_batch, range(file.num_record_batches)))

    def ours() -> Any:
        return pa.RecordBatchReader.from_stream(arrowipc.open(path, columns=["id"]))

    def whole() -> Any:
        return pa.RecordBatchReader.from_stream(arrowipc.open_dataset(path, columns="id"))

    found = {"pyarrow": theirs, "arrowipc": ours, "arrowipc data set": whole}
    return {**{name: partial(by, make) for name, make in found.items()}, "duckdb": own}
