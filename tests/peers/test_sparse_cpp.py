"""Arrow C++ reads our sparse tensor messages and we read its own: as a program, pyarrow has none."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import arrowipc as ipc

pytestmark = [pytest.mark.slow, pytest.mark.nosanitize, pytest.mark.filterwarnings("ignore::FutureWarning")]

LAYOUTS = (ipc.SparseCOOTensor, ipc.SparseCSRMatrix, ipc.SparseCSCMatrix, ipc.SparseCSFTensor)
SOURCE = Path(__file__).parents[1] / "helpers" / "cpp" / "sparse_peer.cpp"
# Unsigned 64-bit indices are refused by Arrow C++.
INDEX_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
CASES = [
    *((layout, shape) for layout in LAYOUTS for shape in ((4, 5), (1, 7), (3, 0))),
    *((layout, shape) for layout in (LAYOUTS[0], LAYOUTS[3]) for shape in ((3, 4, 2), (2, 3, 4, 5))),
    (ipc.SparseCOOTensor, (6,)),
]

Peer = Callable[..., bytes]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Peer:
    """A function that gives the program bytes and returns its answer."""
    compiler = shutil.which("g++")
    library = next((Path(pa.__file__).parent).glob("libarrow.so.*"), None)
    if compiler is None or library is None:
        pytest.skip("needs g++ and the C++ library inside pyarrow")
    program = tmp_path_factory.mktemp("peer") / "sparse_peer"
    paths = ["-I", pa.get_include(), str(SOURCE), str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run([compiler, "-std=c++20", "-w", *paths, "-o", str(program)], check=True, timeout=300)

    def ask(data: bytes, *arguments: str) -> bytes:
        answer = subprocess.run([program, *arguments], input=data, capture_output=True, timeout=60)
        assert answer.returncode == 0, answer.stderr.decode()
        return answer.stdout

    return ask


def dense_of(shape: tuple[int, ...]) -> np.ndarray:
    generator = np.random.default_rng(len(shape))
    return generator.integers(1, 9, shape) * (generator.random(shape) < 0.4) * 1.5


@pytest.mark.parametrize("index_type", INDEX_TYPES)
@pytest.mark.parametrize(("layout", "shape"), CASES)
def test_arrow_cpp_reads_ours_and_we_read_its_own(peer, layout, shape, index_type):
    """Ours of compressed fibres as coordinates: C++ takes the lengths of their buffers for numbers of entries."""
    dense = dense_of(shape)
    tensor = layout.from_dense(dense, index_type=index_type)
    written = tensor.to_coo() if layout is ipc.SparseCSFTensor else tensor
    found = pa.ipc.read_tensor(pa.BufferReader(peer(written.serialize(), "dense"))).to_numpy()
    assert np.array_equal(found, dense)
    assert ipc.read_sparse_tensor(written.serialize(), validate="strict") == written
    sink = pa.BufferOutputStream()
    pa.ipc.write_tensor(pa.Tensor.from_numpy(dense), sink)
    theirs = ipc.read_sparse_tensor(peer(sink.getvalue().to_pybytes(), layout.layout, index_type), validate="strict")
    assert type(theirs) is layout
    assert np.array_equal(theirs.to_dense(), dense)
    assert theirs == tensor
