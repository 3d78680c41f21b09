"""How fast are tensors read and written, beside pyarrow and NumPy's own format?

They have 128 columns of float64 and go to memory that has been written to before; "strided" ones have strides that the
format cannot express, or gaps: where pyarrow refuses them it is given ``np.ascontiguousarray(array)``, in the measured
time.
"""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from measuring.race import Runs, question, size
from measuring.writes import warm

import arrowipc

SIZES = (1 << 10, 1 << 16, 1 << 20, 1 << 26, 1 << 30)[: size(5, 2)]


def saved(values: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


@question("read a tensor, zero-copy", "pyarrow, arrowipc, numpy", unit="tensor")
@pytest.mark.parametrize("bytes_", SIZES)
def test_read(bytes_: int) -> Runs:
    values = np.arange(bytes_ / 8).reshape(-1, 128)
    source, file = arrowipc.Tensor(values).serialize(), saved(values)
    return {
        "pyarrow": lambda: pa.ipc.read_tensor(source).to_numpy()[0, -1],
        "arrowipc": lambda: arrowipc.read_tensor(source).to_numpy()[0, -1],
        "numpy": lambda: np.load(io.BytesIO(file))[0, -1],
    }


def by_pyarrow(values: Any, sink: Any) -> None:
    contiguous = np.ascontiguousarray(values) if min(values.strides, default=0) < 0 else values
    pa.ipc.write_tensor(pa.Tensor.from_numpy(contiguous), sink)


def writers(values: Any) -> Runs:
    """Return those who write a tensor to memory that is there."""
    target = memoryview(warm(values.nbytes + 4096))
    room = np.frombuffer(target, np.uint8)[: values.nbytes].view(values.dtype).reshape(values.shape)
    file = io.BytesIO(bytes(values.nbytes + 4096))
    runs: dict[str, Callable[[], Any]] = {
        "pyarrow": lambda: by_pyarrow(values, pa.FixedSizeBufferWriter(pa.py_buffer(target))),
        "arrowipc": lambda: arrowipc.write_tensor(values, target),
        "numpy": lambda: (file.seek(0), np.save(file, values)),
        "np.copyto": lambda: np.copyto(room, values),
    }
    for name in ("pyarrow", "arrowipc"):
        runs[name]()
        assert np.array_equal(pa.ipc.read_tensor(pa.py_buffer(target)).to_numpy(), values)
    return {name: lambda run=run: (run(), None)[1] for name, run in runs.items()}


WRITERS = "pyarrow, arrowipc, numpy, np.copyto"


@question("write a tensor to memory", WRITERS, unit="tensor")
@pytest.mark.parametrize("bytes_", SIZES)
def test_write(bytes_: int) -> Runs:
    return writers(np.arange(bytes_ / 8).reshape(-1, 128))


SIDE = size(4096, 64)
VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "transposed, part of a wider array": lambda rng, square: rng.random((SIDE, SIDE + 4))[:, :SIDE].T,
    "transposed, backwards": lambda rng, square: square.T[::-1],
    "transposed, backwards, float32": lambda rng, square: square.astype(np.float32).T[::-1],
    "every second column": lambda rng, square: np.repeat(square, 2, axis=1)[:, ::2],
    "channels first": lambda rng, square: rng.random((SIDE // 4, SIDE // 4, 4)).transpose(2, 0, 1)[::-1],
}


@question("write a strided tensor", WRITERS, unit="tensor")
@pytest.mark.parametrize("view", VIEWS)
def test_strided(view: str) -> Runs:
    rng = np.random.default_rng(5)
    return writers(VIEWS[view](rng, rng.random((SIDE, SIDE))))
