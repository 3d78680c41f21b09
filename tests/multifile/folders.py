"""Folders of small files for tests of data sets."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import arrowipc as ipc


def put(path: Path, data: Any, kind: str = "file") -> Path:
    """Write what pyarrow makes a table of, by pyarrow."""
    table = data if isinstance(data, pa.Table) else pa.table(data)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


def rows(start: int, count: int = 10) -> dict[str, list[Any]]:
    """Columns x and t of the rows from `start` on."""
    numbers = range(start, start + count)
    return {"x": list(numbers), "t": [f"row {number}" for number in numbers]}


def write(path: Path, starts: list[int], kind: str = "file", **options: Any) -> Path:
    """Write a batch of ten rows for each start."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (ipc.new_file if kind == "file" else ipc.new_stream)(path, **options) as writer:
        for start in starts:
            writer.write(rows(start))
    return path


def mixed(folder: Path) -> Path:
    """Write ten batches of ten rows: files, streams, one with the old framing, a compressed one."""
    write(folder / "a.arrow", [0, 10, 20])
    write(folder / "b.arrows", [30, 40], "stream")
    with pa.ipc.new_stream(
        str(folder / "c.arrows"), pa.table(rows(0)).schema, options=pa.ipc.IpcWriteOptions(use_legacy_format=True)
    ) as writer:
        writer.write_table(pa.table(rows(50)))
    write(folder / "deep/er/d.arrow", [60, 70, 80, 90], compression="lz4")
    return folder
