"""Folders of small files for tests of data sets."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from helpers.arrays import pyarrow_bytes

import arrowipc as ipc


def put(path: Path, data: Any, kind: str = "file") -> Path:
    """Write what pyarrow makes a table of, by pyarrow."""
    table = pa.table(data)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pyarrow_bytes(table.to_batches(), kind, table.schema))
    return path


def rows(start: int, count: int = 10) -> dict[str, list[Any]]:
    """Columns x and t of the rows from `start` on."""
    numbers = range(start, start + count)
    return {"x": list(numbers), "t": [f"row {number}" for number in numbers]}


def write(path: Path, starts: list[int], **options: Any) -> None:
    """Write a batch of ten rows for each start: a file, or a stream if the name ends with ".arrows"."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ipc.write(map(rows, starts), path, **options)
