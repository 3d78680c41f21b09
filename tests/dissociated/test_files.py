"""Files served as dissociated streams, and streams fetched into files."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.ipc
import pytest
from helpers import arrow_columns

import arrowipc as ipc
from arrowipc import dissociated


def serve(paths):
    return dissociated.Server({path.name: path for path in paths})


def fetch(uri, name, target) -> int:
    begin = ipc.new_stream if str(target).endswith(".arrows") else ipc.new_file
    with dissociated.connect(uri, name, timeout=20) as reader, begin(target, unify_dictionaries=True) as writer:
        writer.write(reader)
    return sum(len(batch) for batch in ipc.open(target))


@pytest.fixture
def paths(tmp_path):
    """A file of every type, a stream whose dictionaries are replaced, and a file without rows."""
    everything = tmp_path / "everything.arrow"
    everything.write_bytes(arrow_columns.file(arrow_columns.everything()))
    replaced = tmp_path / "replaced.arrows"
    batches = [pa.record_batch({"d": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["c", None])]
    replaced.write_bytes(arrow_columns.stream(*batches))
    empty = tmp_path / "empty.arrow"
    empty.write_bytes(arrow_columns.file(pa.record_batch({"x": pa.array([], pa.int16())})))
    return [everything, replaced, empty]


@pytest.mark.parametrize("transport", ["tcp", "unix"])
@pytest.mark.parametrize("ending", ["arrow", "arrows"])
def test_fetched_files_hold_what_was_served(paths, tmp_path, transport, ending):
    with dissociated.Server({path.name: path for path in paths}, transport) as server:
        for path in paths:
            target = tmp_path / f"fetched.{ending}"
            rows = fetch(server.uri, path.name, target)
            with ipc.open(path) as expected, ipc.open(target) as found:
                assert found.read_all().equals(expected.read_all())
            assert rows == sum(len(batch) for batch in ipc.open(path))
            opened = pa.ipc.open_file if ending == "arrow" else pa.ipc.open_stream
            opened(target).read_all().validate(full=True)
        assert not server.errors


def test_files_are_opened_anew_for_each_request(tmp_path):
    path, target = tmp_path / "x.arrow", tmp_path / "fetched"
    path.write_bytes(arrow_columns.file(pa.record_batch({"x": [1]})))
    with serve([path]) as server:
        assert fetch(server.uri, "x.arrow", target) == 1
        path.write_bytes(arrow_columns.file(pa.record_batch({"y": ["a", "b", "c"]})))
        assert fetch(server.uri, b"x.arrow", target) == 3
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        for _ in range(5):
            fetch(server.uri, "x.arrow", target)
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before


def test_what_goes_wrong_leaves_the_old_file(tmp_path):
    target = tmp_path / "target.arrow"
    target.write_bytes(b"as it was")

    def batches():
        yield pa.record_batch({"x": [1]})
        raise OSError("the source broke")

    with dissociated.Server({"x": batches}, "tcp") as server:
        with pytest.raises(ipc.TruncatedError):
            fetch(server.uri, "x", target)
        with pytest.raises(ipc.FormatError):
            fetch(server.uri, "no such stream", target)
    assert target.read_bytes() == b"as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["target.arrow"]


def test_files_that_cannot_be_served_are_refused_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        serve([tmp_path / "nowhere.arrow"])
    (tmp_path / "text.arrow").write_text("hello there, this is text")
    with pytest.raises(ipc.FormatError):
        serve([tmp_path / "text.arrow"])
