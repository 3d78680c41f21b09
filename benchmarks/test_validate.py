"""How fast are batches read and fully validated: small ones, large ones, and all of a mapped file?

Validated is that values are safe to use: offsets, UTF-8, null counts; by pyarrow with ``batch.validate(full=True)``.
arro3 always validates, and copies the bytes; polars checks UTF-8; nanoarrow has no full validation in Python. A mapped
file becomes a pyarrow table: where pyarrow does not validate, it touches few pages. `datasets` streams a file in
batches of as many rows as are asked for: here those that were written; it validates each, and cuts none.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Runs, question, size

import arrowipc

READERS = "pyarrow, arrowipc, polars, arro3"


def validated(batch: Any) -> Any:
    batch.validate(full=True)
    return batch


def readers(shape: str, rows: int, count: int) -> Runs:
    source = data.stream([data.shaped(shape, rows)] * count)
    return {
        "pyarrow": lambda: peers.rows_of(map(validated, pa.ipc.open_stream(source))),
        "arrowipc": lambda: peers.rows_by_arrowipc(source),
        **peers.others(source, without=("nanoarrow",)),
    }


@question("read batches of 10 columns x 100 rows, validated", READERS, unit="batch", per="count")
@pytest.mark.parametrize("count", [size(20, 2), size(2_000, 3), size(20_000, 4)])
@pytest.mark.parametrize("shape", [*data.SHAPES, *data.EVERYDAY])
def test_small_batches(shape: str, count: int) -> Runs:
    return readers(shape, size(100, 3), count)


@question("read large batches of 10 columns, validated", READERS, unit="batch")
@pytest.mark.parametrize("rows", [size(100_000, 50), size(2_000_000, 60)])
@pytest.mark.parametrize("shape", [*data.SHAPES, *data.EVERYDAY])
def test_large_batches(shape: str, rows: int) -> Runs:
    return readers(shape, rows, 1)


def by_pyarrow(path: Path, validate: bool = False) -> int:
    """Map, read all, close."""
    with pa.memory_map(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
        return int((validated(table) if validate else table).num_rows)


def by_arrowipc(path: Path, **options: Any) -> int:
    """Map, read all, close."""
    with arrowipc.open_file(path, **options) as reader:
        return int(pa.table(reader).num_rows)


@question(
    "a mapped file as a validated pyarrow table, pyarrow's own {own}",
    "pyarrow, arrowipc, arrowipc unvalidated",
    unit="table",
)
@pytest.mark.parametrize("own", ["not validated", "validated"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [*data.SHAPES, "everyday"])
def test_mapped_table(folder: Path, shape: str, threads: int, own: str) -> Runs:
    path = Path(folder, "file.arrow")
    with path.open("wb", buffering=0) as file:  # pages as large as one write makes them
        file.write(data.file([data.shaped(shape, size(200_000, 50))]))
    return {
        "pyarrow": partial(by_pyarrow, path, validate=own == "validated"),
        "arrowipc": partial(by_arrowipc, path, use_threads=threads > 1),
        "arrowipc unvalidated": partial(by_arrowipc, path, validate="none"),
    }


@question(
    "batches of 1,000 rows of a file, validated, as `datasets` streams it",
    "datasets, arrowipc",
    unit="batch",
    per="count",
    baseline="datasets",
)
@pytest.mark.parametrize("count", [size(200, 2)])
@pytest.mark.parametrize("shape", ["int64", "mixed", "text", "everyday"])  # it does not know maps
def test_datasets(folder: Path, shape: str, count: int) -> Runs:
    datasets, rows = pytest.importorskip("datasets"), size(1_000, 3)
    path = Path(folder, "file.arrow")
    path.write_bytes(data.stream([data.shaped(shape, rows)] * count))
    theirs = datasets.load_dataset("arrow", data_files=str(path), split="train", streaming=True).with_format("arrow")
    return {
        "datasets": lambda: sum(each.num_rows for each in theirs.iter(batch_size=rows)),
        "arrowipc": lambda: sum(pa.record_batch(each).num_rows for each in arrowipc.open(path)),
    }
