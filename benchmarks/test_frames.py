"""Are whole files as quick in polars, pandas and DuckDB as by their own reading or pyarrow's, and written as quickly?

polars reads the same file with ``scan_ipc``. Files are in the page cache; each that is written has a new name and is
removed, without waiting for the disk. DuckDB takes readers of pyarrow and of arrowipc; "duckdb" is its own reader of
Arrow files, where its extension is installed.
"""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import processes
from measuring import children, data, peers
from measuring.race import Runs, question, size

import arrowipc

register_io_source = pytest.importorskip("polars.io.plugins").register_io_source
duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
polars = peers.polars
ASKED: dict[str, Callable[[Any], Any]] = {
    "the last five rows": lambda frame: frame.tail(5),
    "ten rows of the middle": lambda frame: frame.slice(size(500_000, 20), 10),
    "the number of rows": lambda frame: frame.select(polars.len()),
}
#: Rows of a batch.
ROWS = size(100_000, 10)
SHAPES = ("number, float, text", *data.SHAPES)


def table_of(rows: int, shape: str = SHAPES[0]) -> pa.Table:
    """Return a table of batches of `ROWS` rows, or of one that is smaller."""
    if shape in data.SHAPES:
        return pa.Table.from_batches([data.shaped(shape, min(rows, ROWS))] * -(-rows // ROWS))
    chance = np.random.default_rng(7)
    words = np.array(data.WORDS, dtype=object)[chance.integers(0, len(data.WORDS), rows)]
    return pa.table({"id": np.arange(rows), "x": chance.random(rows), "text": pa.array(words, pa.string())})


def file_of(folder: Path, table: pa.Table, **options: Any) -> str:
    path = Path(folder, "table.arrow")
    path.write_bytes(data.file(table.to_batches(ROWS), **options))
    return str(path)


@question("in polars {what} of a file", "polars, arrowipc, rows made before", unit="call", baseline="polars")
@pytest.mark.parametrize(
    ("rows", "shape"), [(size(4_000_000, 60), SHAPES[0]), *((size(1_000_000, 50), shape) for shape in SHAPES)]
)
@pytest.mark.parametrize("what", ASKED)
def test_polars(folder: Path, what: str, rows: int, shape: str) -> Runs:
    """Rows that were made before come from a source in Python, too."""
    path, ask = file_of(folder, table_of(rows, shape)), ASKED[what]
    answer = ask(polars.scan_ipc(path)).collect()
    ready = register_io_source(lambda *_: iter([answer]), schema=answer.schema)
    return {
        "polars": lambda: ask(polars.scan_ipc(path)).collect().to_dicts(),
        "arrowipc": lambda: ask(arrowipc.scan_polars(path)).collect().to_dicts(),
        "rows made before": lambda: ready.collect().to_dicts(),
    }


def pandas_file(folder: Path, shape: str, codec: str | None = None) -> str:
    table = table_of(size(10_000 if shape in data.SHAPES else 1_000_000, 30), shape)
    return file_of(folder, table.select(["id", "x"]) if shape == "numbers" else table, compression=codec)


@question("a pandas frame of a {codec} file", "pyarrow, arrowipc, arrowipc unvalidated", unit="call")
@pytest.mark.parametrize("codec", ["plain", "zstd"])
@pytest.mark.parametrize("shape", ["numbers", *SHAPES])
def test_pandas(folder: Path, shape: str, codec: str) -> Runs:
    path = pandas_file(folder, shape, None if codec == "plain" else codec)

    def ours(**options: Any) -> int:
        with arrowipc.open(path, **options) as reader:
            return len(reader.read_pandas())

    def theirs() -> int:
        with pa.memory_map(path) as file:
            return len(pa.ipc.open_file(file).read_pandas())

    return {"pyarrow": theirs, "arrowipc": ours, "arrowipc unvalidated": partial(ours, validate="none")}


@question("a pandas frame made without pyarrow, beside pyarrow's", "pyarrow, arrowipc", unit="call", timed=True)
@pytest.mark.parametrize("shape", ["numbers", *SHAPES])
def test_pandas_alone(folder: Path, shape: str) -> Runs:
    """In processes of their own, the second time: pandas asks once whether there is pyarrow."""
    theirs, ours = "pa.ipc.open_file(pa.memory_map(path)).read_pandas()", "arrowipc.open(path).read_pandas()"
    path = f"path = {pandas_file(folder, shape)!r}\nimport sys"
    without = f"{path}; sys.modules['pyarrow'] = None; import pandas, arrowipc\n{ours}"
    return {
        "pyarrow": children.seconds(theirs, f"{path}, pyarrow as pa, pyarrow.ipc\n{theirs}"),
        "arrowipc": children.seconds(ours, without),
    }


@question("write a {what} to a new path", "pyarrow, arrowipc", unit="call")
@pytest.mark.parametrize(
    ("what", "shape"),
    [("pyarrow table", shape) for shape in SHAPES] + [("pandas frame", shape) for shape in SHAPES[:-1]],
)
def test_write(folder: Path, what: str, shape: str) -> Runs:
    """pyarrow cannot write a frame of maps."""
    table, number = table_of(size(1_000_000, 30), shape), itertools.count()
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
@pytest.mark.parametrize("shape", SHAPES)
def test_shared_reader(folder: Path, shape: str, how: str) -> Runs:
    path = file_of(folder, table_of(size(2_000_000, 40), shape), compression="lz4")
    reader = arrowipc.open_file(path, memory_map=how == "mapped", use_threads=False)

    def read(numbers: range) -> None:
        for i in numbers:
            reader.get_batch(i)

    def by(threads: int) -> int:
        count = reader.num_record_batches
        processes.in_threads(read, [range(k, count, threads) for k in range(threads)])
        return count

    return {"one thread": partial(by, 1), "arrowipc": partial(by, 2)}


@question("sum a column of a file in DuckDB", "pyarrow, arrowipc, arrowipc data set, duckdb", unit="call")
def test_duckdb(folder: Path) -> Runs:
    path = file_of(folder, table_of(size(1_000_000, 30)))

    def by(reader: Any) -> Any:
        return duckdb.from_arrow(reader).query("reader", "select sum(id) from reader").fetchall()

    def own() -> Any:
        with duckdb.connect() as connection:
            connection.execute("load nanoarrow")
            return connection.execute(f"select sum(id) from read_arrow('{path}')").fetchall()

    def theirs() -> Any:
        file = pa.ipc.open_file(pa.memory_map(path))
        return pa.RecordBatchReader.from_batches(file.schema, map(file.get_batch, range(file.num_record_batches)))

    return {
        "pyarrow": lambda: by(theirs()),
        "arrowipc": lambda: by(pa.RecordBatchReader.from_stream(arrowipc.open(path, columns=["id"]))),
        "arrowipc data set": lambda: by(pa.RecordBatchReader.from_stream(arrowipc.open_dataset(path, columns="id"))),
        "duckdb": own,
    }
