"""How fast are dense tensors read and written, beside pyarrow and NumPy's own format?

Sizes from 1 KB to 1 GB of float64, one dimension of 128 columns. Measured, per tensor:

* Read from memory: pyarrow ``pa.ipc.read_tensor(bytes).to_numpy()``, arrowipc
  ``read_tensor(bytes).to_numpy()``, numpy ``np.load(io.BytesIO(bytes))``, which copies; both others point
  into the bytes.
* Write to memory that is there and has been written to: pyarrow ``Tensor.from_numpy`` and ``write_tensor``
  into a ``FixedSizeBufferWriter``, arrowipc ``write_tensor(array, memoryview)``, numpy ``np.save`` into a
  ``BytesIO``; and a bare ``np.copyto`` of the values.
* Gather: the array written has strides that the format cannot express, or gaps. Where pyarrow refuses the
  strides (negative ones) it is given ``np.ascontiguousarray(array)``, in the measured time.
* To a file, until the system has the data (no fsync), and from a file, all values summed up: np.save and
  np.load, and ``np.load(mmap_mode="r")``.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks.harness import Case, Run, Scale
from benchmarks.writes import warm

TITLE = "read and write dense tensors"

Array = np.ndarray[Any, Any]


def cases(scale: Scale) -> Iterator[Case]:
    """Read, write, gather; memory and files."""
    sizes = [1 << 10, 1 << 20] if scale.name == "tiny" else [1 << 10, 1 << 16, 1 << 20, 1 << 26]
    if scale.thorough:
        sizes.append(1 << 30)
    for size in sizes:
        values = np.arange(size / 8).reshape(-1, 128)
        label = words(size)
        named = size == 1 << 20
        runs = readers(values)
        yield Case(f"read {label} from memory", "tensor", 1, runs, goal=1, row="read tensor", named=named)
        yield Case(f"write {label} to warm memory", "tensor", 1, writers(values), goal=0.9, touched=size)
    side = scale.size(4096, 64)
    yield from gathers(side)
    with tempfile.TemporaryDirectory() as folder:
        values = np.arange(scale.size(1 << 27, 1 << 12) / 8).reshape(-1, 128)
        yield from files(Path(folder), values)


def words(size: int) -> str:
    """Return a size as people say it."""
    for unit, bits in (("GB", 30), ("MB", 20), ("KB", 10)):
        if size >= 1 << bits:
            return f"{size >> bits} {unit}"
    return f"{size} B"


def saved(values: Array) -> bytes:
    """Return an array in NumPy's format."""
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def readers(values: Array) -> dict[str, Run]:
    """Return those who read a tensor from bytes."""
    source = arrowipc.Tensor(values).serialize()
    file = saved(values)
    return {
        "pyarrow": lambda: pa.ipc.read_tensor(source).to_numpy()[0, -1],
        "arrowipc": lambda: arrowipc.read_tensor(source).to_numpy()[0, -1],
        "numpy": lambda: np.load(io.BytesIO(file))[0, -1],
    }


def by_pyarrow(values: Array, target: memoryview) -> int:
    """Write with pyarrow; returns the bytes of the values."""
    if min(values.strides, default=0) < 0:
        values = np.ascontiguousarray(values)
    pa.ipc.write_tensor(pa.Tensor.from_numpy(values), pa.FixedSizeBufferWriter(pa.py_buffer(target)))
    return values.nbytes


def writers(values: Array) -> dict[str, Run]:
    """Return those who write a tensor to memory that is there."""
    target = memoryview(warm(values.nbytes + 4096))
    room = np.frombuffer(target, np.uint8)[: values.nbytes].view(values.dtype).reshape(values.shape)
    file = io.BytesIO(bytes(values.nbytes + 4096))

    def ours() -> int:
        arrowipc.write_tensor(values, target)
        return values.nbytes

    def numpys() -> int:
        file.seek(0)
        np.save(file, values)
        return values.nbytes

    def copy() -> int:
        np.copyto(room, values)
        return values.nbytes

    return {
        "pyarrow": lambda: by_pyarrow(values, target),
        "arrowipc": ours,
        "numpy": numpys,
        "np.copyto": copy,
    }


def gathers(side: int) -> Iterator[Case]:
    """Arrays whose elements are not neighbours in any order that the format has."""
    rng = np.random.default_rng(5)
    square = rng.random((side, side))
    wide = rng.random((side, side + 4))
    views: dict[str, Callable[[], Array]] = {
        "transposed, part of a wider array": lambda: wide[:, :side].T,
        "transposed, backwards": lambda: square.T[::-1],
        "transposed, backwards, float32": lambda: square.astype(np.float32).T[::-1],
        "every second column": lambda: np.repeat(square, 2, axis=1)[:, ::2],
        "channels last to first": lambda: rng.random((side // 4, side // 4, 4)).transpose(2, 0, 1)[::-1],
    }
    for name, view in views.items():
        values = view()
        yield Case(
            f"write {' x '.join(map(str, values.shape))} {name}",
            "tensor",
            1,
            writers(values),
            goal=2 if "transposed" in name else 1,
            touched=2 * values.nbytes,
            row="gather tensor" if "transposed" in name else "",
            named=name == "transposed, part of a wider array",
        )


def files(folder: Path, values: Array) -> Iterator[Case]:
    """Write to files that were there, and read them."""
    ours, theirs, numpys = (str(folder / name) for name in ("ours", "theirs", "numpys.npy"))

    def by_arrowipc() -> int:
        arrowipc.write_tensor(values, ours, durable=False)
        return values.nbytes

    def their_file() -> int:
        with pa.OSFile(theirs, "wb") as file:
            pa.ipc.write_tensor(pa.Tensor.from_numpy(values), file)
        return values.nbytes

    def by_numpy() -> int:
        np.save(numpys, values)
        return values.nbytes

    def their_sum() -> float:
        with pa.memory_map(theirs) as file:
            return float(pa.ipc.read_tensor(file).to_numpy().sum())

    size = words(values.nbytes)
    runs: dict[str, Run] = {"pyarrow": their_file, "arrowipc": by_arrowipc, "numpy": by_numpy}
    for run in runs.values():
        run()
    yield Case(f"write {size} to a file", "tensor", 1, runs, goal=1, touched=values.nbytes)
    yield Case(
        f"read {size} from a file and sum it up",
        "tensor",
        1,
        {
            "pyarrow": their_sum,
            "arrowipc": lambda: float(arrowipc.read_tensor(ours).to_numpy().sum()),
            "numpy": lambda: float(np.load(numpys).sum()),
            "numpy mapped": lambda: float(np.load(numpys, mmap_mode="r").sum()),
        },
        goal=1,
        touched=values.nbytes,
    )
