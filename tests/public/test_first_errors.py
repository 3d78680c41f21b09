"""What people do wrong first: the error says what was found and what to do next."""

import gzip
import io
import mmap
import os
import pickle
import re
from collections.abc import Callable
from contextlib import closing
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from helpers import pages
from helpers.arrays import ipc_bytes, stored
from helpers.processes import printed, run_python

import arrowipc as ipc

OPENERS = (ipc.open, ipc.open_file, ipc.open_stream)
TABLE = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


STRANGERS = {
    "Parquet": (b"PAR1" + bytes(50) + b"PAR1", "this is a Parquet file: read it with a Parquet library"),
    "CSV": (b'"id","name"\n1,"a"\n', "this is text (CSV?), not Arrow IPC: it begins with '\"id"),
    "JSON": (b'{"id": 1}\n', "this is JSON, not Arrow IPC"),
    "gzip": (gzip.compress(b"ARROW1"), "gzip.open(path)"),
    "zip": (b"PK\x03\x04" + bytes(50), "zipfile.ZipFile(path).open(name)"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(50), "zstandard.open(path)"),
    "LZ4": (b"\x04\x22\x4d\x18" + bytes(50), "lz4.frame.open(path)"),
    "error page": (b"<!DOCTYPE html>\n<title>404</title>", "as a server sends for an error"),
    "Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    "NumPy": (b"\x93NUMPY\x01\0" + bytes(50), "numpy.load()"),
    **{f"pickle {i}": (pickle.dumps({"x": "y" * 999}, protocol=i), "pickle.load()") for i in range(2, 6)},
    "pickle of bytes": (pickle.dumps(b"ARROW1" * 99, protocol=5), "pandas.read_pickle()"),
    "SQLite": (b"SQLite format 3\0" + bytes(50), "sqlite3"),
    "empty": (b"", "empty"),
}


@pytest.mark.parametrize("kind", STRANGERS)
@pytest.mark.parametrize("opener", OPENERS, ids=lambda opener: opener.__name__)
def test_other_kinds_of_files_are_recognised(kind, opener, tmp_path):
    data, words = STRANGERS[kind]
    path = tmp_path / "x.arrow"
    path.write_bytes(data)
    for source in (str(path), data, io.BytesIO(data)):
        with pytest.raises(ipc.FormatError) as caught:
            opener(source)
        assert words in str(caught.value)


@pytest.mark.parametrize("opener", [ipc.open, ipc.open_file], ids=lambda opener: opener.__name__)
def test_a_file_inside_larger_memory_says_how_its_part_is_read(opener):
    data = ipc_bytes(TABLE, "file")
    with closing(SharedMemory(create=True, size=4096)) as segment:
        segment.buf[: len(data)] = data
        segment.unlink()
        with pytest.raises(ipc.FormatError, match=r"shared memory segment.*memory\[:size\].*footer_offset=size"):
            opener(segment.buf)
        assert opener(bytes(segment.buf[: len(data)])).read_all().num_rows == 3
        assert ipc.open_file(bytes(segment.buf), footer_offset=len(data)).read_all().num_rows == 3
    # Zeros behind a stream are its end marker.
    assert ipc.open(ipc_bytes(TABLE) + bytes(100)).read_all().num_rows == 3


#: What reads all of a source, and returns it.
READERS = {
    "open": lambda source: ipc.open(source).read_all(),
    "open_stream": lambda source: ipc.open_stream(source).read_all(),
    "read": ipc.read,
    "recover": lambda source: ipc.recover(source).read_all(),
    "validate": lambda source: ipc.validate(source).ok,
    "read_tensors": lambda source: list(ipc.read_tensors(source)),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_memory_is_read_whatever_its_elements_are_and_refused_where_it_cannot_be_lent(reader):
    data = ipc.Tensor.from_numpy(np.arange(64)).serialize() if reader is READERS["read_tensors"] else ipc_bytes(TABLE)
    flat = np.frombuffer(data, np.uint8)
    kinds = (flat.view("<i2"), flat.view(">f8"), flat.view([("a", "i4"), ("b", ">i4")]), flat.reshape(2, -1, 2))
    for each in (*kinds, flat.view(f"V{len(data)}").reshape(())):
        assert reader(each) == reader(data)
    closed = mmap.mmap(-1, 4096)
    closed.close()
    for each in (flat[::2], memoryview(data)[::2], flat.reshape(2, -1).T, ipc.array([1, None]), closed):
        with pytest.raises(ipc.UsageError, match=f"cannot read the memory of this {type(each).__name__}: "):
            reader(each)


def test_tar_archives_are_recognised_where_their_mark_is_at_hand():
    archive = b"x.arrow".ljust(257, b"\0") + b"ustar\0" + bytes(250)
    with pytest.raises(ipc.FormatError, match=r"tarfile\.open\(path\)\.extractfile"):
        ipc.open(archive)


def test_cells_of_another_kind_are_recognised():
    with pytest.raises(ipc.FormatError, match=r"cell 1: .*this is JSON, not Arrow IPC"):
        ipc.decode_payloads([None, b'{"id": 1}'])


def test_old_streams_are_no_strangers():
    sink = ipc_bytes(TABLE, legacy=True)
    assert ipc.open(sink).read_all().num_rows == 3
    with pytest.raises(ipc.FormatError, match=r"before 0\.15 begin like this: open_stream\(\)"):
        ipc.open_file(sink)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Return a folder with the files that the documentation's pages name, as the current directory."""
    monkeypatch.chdir(tmp_path)
    pages.lay_files(tmp_path)
    return tmp_path


ROWS = ipc.record_batch({"id": [1, 2]})
#: The error, what it says, and what somebody did.
MISTAKES: list[tuple[type[Exception], str, Callable[[], object]]] = [
    (ipc.FormatError, "open_file(), or with open()", lambda: ipc.open_stream("prices.arrow")),
    (ipc.FormatError, "arrowipc.recover()", lambda: ipc.open("torn.arrow")),
    (ipc.TruncatedError, "arrowipc.recover() reads up to here", lambda: list(ipc.open(ipc_bytes([TABLE] * 2)[:-20]))),
    (IsADirectoryError, "open_dataset(path) reads its files", lambda: ipc.open(".")),
    (FileNotFoundError, "open_dataset(path) takes patterns", lambda: ipc.read("nowhere/*.arrow")),
    (ipc.UsageError, "open_dataset() takes several paths", lambda: ipc.read(["a.arrow"])),
    (ipc.UsageError, "open(path, 'rb')", lambda: ipc.open(io.StringIO("x"))),
    (
        ipc.UsageError,
        "read inside its with block",
        lambda: (reader := ipc.open_file("prices.arrow")).close() or reader[0],
    ),
    (KeyError, "no column 'prize'", lambda: ipc.new_file("y.arrow", ROWS.schema, statistics=["prize"])),
    (KeyError, "2 columns are called 'id'", lambda: ROWS.select(["id", "id"]).filter([("id", ">", 1)])),
    (ipc.UsageError, "frame must be a DataFrame", lambda: ipc.Schema.from_pandas(ROWS[0])),
    (ipc.UsageError, "values of string are not all int64: ", lambda: ipc.array(["a"]).to_numpy(dtype=int)),
    (ipc.UsageError, "row 0: expected bytes, found Array", lambda: ipc.array([ipc.array([1, None])], "binary")),
    (ipc.UsageError, "expected a name, then 'ascending'", lambda: ROWS.sort_by([[]])),
    (ipc.UsageError, "expected a name, then 'ascending'", lambda: ROWS.sort_by([np.array(["id", "up"])])),
    (ipc.UsageError, "watch must be a function or None, found", lambda: ipc.validate(b"", watch="x")),
    (ipc.UsageError, "watch must be a function or None, found", lambda: ipc.recover(b"", watch="x")),
    (FileNotFoundError, "No such file or directory; its path exists as far as /", lambda: ipc.open("price/x.arrow")),
    (
        FileNotFoundError,
        "price/x.arrow: no such file or folder; its path exists as far as /",
        lambda: ipc.open_dataset(["prices.arrow", "price/x.arrow"]),
    ),
    (FileNotFoundError, "price*.parquet: no such file", lambda: ipc.RowDataset("price*.parquet")),
    (
        FileNotFoundError,
        "the folder has no file (names that begin with _ or . are ignored)",
        lambda: (Path("empty").mkdir(), Path("empty/_SUCCESS").touch(), ipc.open_dataset("empty")),
    ),
    (FileNotFoundError, "memory://nowhere/x.arrow: no such file", lambda: ipc.open_dataset("memory://nowhere/x.arrow")),
    (AttributeError, "keyword arguments of new_stream", lambda: ipc.IpcWriteOptions),
]


@pytest.mark.parametrize(("kind", "words", "act"), MISTAKES)
def test_mistakes_are_answered_with_advice(kind, words, act, folder):
    with pytest.raises(kind, match=re.escape(words)) as caught:
        act()
    assert isinstance(caught.value, (ipc.ArrowIpcError, OSError, AttributeError))
    if isinstance(caught.value, FileNotFoundError):
        assert caught.value.errno == 2
        assert caught.value.filename
    assert not Path("y.arrow").exists()


def said(code: str) -> str:
    """Run code that fails, and return the last line of its traceback."""
    done = run_python(code)
    assert done.returncode == 1, done
    return str(done.stderr.strip().splitlines()[-1])


ZSTD = "zstandard backports.zstd"
WITHOUT = [
    ("lz4", "import arrowipc; arrowipc.open('lz4.arrow')[0]", "pip install lz4"),
    ("lz4", "import arrowipc; arrowipc.new_file('y.arrow', compression='lz4')", "pip install lz4"),
    (ZSTD, "import arrowipc; arrowipc.open('zstd.arrow')[0]", "pip install zstandard"),
    (ZSTD, "import arrowipc; arrowipc.new_file('y.arrow', compression='zstd')", "pip install zstandard"),
    ("fsspec", "import arrowipc; arrowipc.open('s3://bucket/x.arrow')", "pip install fsspec"),
    ("pyspark", "from arrowipc.spark import register", "pip install pyspark"),
    ("pyarrow", "from arrowipc.spark import decode_payloads", "pip install pyarrow"),
]


def without(packages: str) -> str:
    """Code after which some packages are as if they were not installed."""
    return "import sys; " + "".join(f"sys.modules[{name!r}] = None; " for name in packages.split())


@pytest.mark.parametrize(("packages", "code", "words"), WITHOUT)
def test_packages_that_are_missing_are_named(packages, code, words, folder):
    for codec in ("lz4", "zstd"):
        stored(Path(f"{codec}.arrow"), pa.table({"x": [7] * 1000}), compression=codec)
    assert words in said(without(packages) + code)
    assert not Path("y.arrow").exists()


def test_messages_name_packages_that_an_index_has():
    """No index has arrowipc itself yet, so that nobody can install its extras from one."""
    root = Path(__file__).resolve().parents[2]
    sources = [path for folder in ("arrowipc", "examples", "jvm/src", "docs") for path in (root / folder).rglob("*.*")]
    texts = [path for path in sources if path.suffix in (".py", ".pyx", ".scala", ".md", ".txt")]
    assert len(texts) > 200
    assert [path for path in texts if "arrowipc[" in path.read_text()] == []


@pytest.mark.parametrize("package", ZSTD.split())
def test_one_package_with_libzstd_is_enough(package, folder):
    """The C functions of any of them compress and decompress."""
    if package == "zstandard":
        pytest.importorskip("backports.zstd")
    code = """import arrowipc
with arrowipc.new_file("y.arrow", compression="zstd") as writer: writer.write({"x": [7] * 1000})
assert len(set(arrowipc.open("y.arrow")[0]["x"])) == 1"""
    printed(run_python(without(package) + "\n" + code))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file and become somebody who may not read it")
def test_a_file_that_may_not_be_read_is_named(folder):
    folder.chmod(0o755)
    Path("prices.arrow").chmod(0)
    code = "import os, arrowipc, arrowipc.opening; os.setuid(65534); arrowipc.open('prices.arrow')"
    assert said(code) == "PermissionError: [Errno 13] Permission denied: 'prices.arrow'"
