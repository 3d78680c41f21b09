"""Frames of pandas as lines of text, to compare those of two processes; run as a program, without pyarrow."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import arrowipc as ipc


def described(frame: Any) -> list[str]:
    """Everything that a user can see of a frame: values with their types, dtypes, index, names, attributes."""
    lines = [f"{frame.shape} {frame.attrs}"]
    labels = {"index": frame.index, "columns": frame.columns}
    columns = {f"column {i}": frame.iloc[:, i] for i in range(frame.shape[1])}
    for what, data in {**labels, **columns}.items():
        levels = hasattr(data, "levels")
        values = _shown(data.tolist() if levels else _values(data.array))
        names = data.names if what in labels else []
        dtypes = [str(dtype) for dtype in (data.dtypes if levels else [data.dtype])]
        lines.append(f"{what} {type(data).__name__} {names} {dtypes} {values}")
        if str(data.dtype) == "category":
            categories = data.array.categories
            lines.append(f"{type(categories).__name__} {categories.dtype} {_values(categories)} {data.array.ordered}")
    return lines


def _shown(value: Any) -> str:
    """A value and its type. Moments are numbers: pandas cannot show those of all years."""
    if isinstance(value, list | np.ndarray):
        return f"{getattr(value, 'dtype', 'list')} [{', '.join(map(_shown, value))}]"
    shown = value.asm8.astype(np.int64) if hasattr(value, "asm8") else value
    return f"{type(value).__name__} {shown!r} {getattr(value, 'tzinfo', '')}"


def _values(data: Any) -> list[Any]:
    """Values; of moments their numbers, because pandas cannot make zoned ones of all years."""
    return data.asi8.tolist() if hasattr(data, "asi8") else data.tolist()


def frames_of(path: Path) -> list[list[str]]:
    """What becomes of a file: of the table, each batch, and a column; an error is one that we raise."""
    with ipc.open(path) as reader:
        table = reader.read_all()
    found = []
    for data in [table, *table.batches, *[column for batch in table.batches[:1] for column in batch.columns[:1]]]:
        try:
            frame = data.to_pandas()
        except ipc.ArrowIpcError as error:
            found.append([type(error).__name__])
        else:
            found.append(described(frame.to_frame() if isinstance(data, ipc.Array) else frame))
    return found


def columns_of_pandas() -> dict[str, list[Any]]:
    """The values of a batch that is made of columns of pandas."""
    import pandas as pd

    columns = {"a": pd.Series([1, 2]), "b": pd.Index(["x", None]), "c": pd.Categorical(["u", None])}
    return ipc.RecordBatch.from_pydict(columns).to_pydict()


if __name__ == "__main__":
    sys.modules["pyarrow"] = None  # type: ignore[assignment]
    frames = {path.name: frames_of(path) for path in Path(sys.argv[1]).iterdir()}
    print(json.dumps(frames | {"columns": columns_of_pandas()}))
    assert not any(name.startswith("pyarrow.") for name in sys.modules)
