"""Frames of pandas as lines of text, to compare those of two processes; run as a program, without pyarrow."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import arrowipc as ipc


def described(frame: Any) -> list[str]:
    """Everything that a user can see of a frame: values with their types, dtypes, index, names, attributes."""
    lines = [f"{frame.shape} {frame.attrs}"]
    labels = {"index": frame.index, "columns": frame.columns}
    columns = {f"column {i}": frame.iloc[:, i] for i in range(frame.shape[1])}
    for what, data in {**labels, **columns}.items():
        values = [f"{type(value).__name__} {value!r}" for value in data.tolist()]
        names = data.names if what in labels else []
        dtypes = [str(dtype) for dtype in (data.dtypes if hasattr(data, "levels") else [data.dtype])]
        lines.append(f"{what} {type(data).__name__} {names} {dtypes} {values}")
        if str(data.dtype) == "category":
            categories = data.array.categories
            lines.append(f"{type(categories).__name__} {categories.dtype} {categories.tolist()} {data.array.ordered}")
    return lines


def frames_of(path: Path) -> Iterator[list[str]]:
    """What becomes of a file: the table, each batch, and a column."""
    with ipc.open(path) as reader:
        table = reader.read_all()
    for data in [table, *table.batches]:
        yield described(data.to_pandas())
    for batch in table.batches[:1]:
        yield from [described(array.to_pandas().to_frame()) for array in batch.columns[:1]]


def main(folder: Path) -> None:
    found = {}
    for path in folder.iterdir():
        try:
            found[path.name] = list(frames_of(path))
        except Exception as error:
            found[path.name] = [[f"{type(error).__name__}: {error}"]]
    assert not any(name.startswith("pyarrow.") for name in sys.modules)
    print(json.dumps(found))


if __name__ == "__main__":
    sys.modules["pyarrow"] = None  # type: ignore[assignment]
    main(Path(sys.argv[1]))
