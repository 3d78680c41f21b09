"""Files served as dissociated streams, and streams fetched into files."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.ipc
import pytest
from helpers import arrow_columns

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.dissociated.files import fetch, serve_files


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
    with serve_files(paths, transport) as server:
        for path in paths:
            target = tmp_path / f"fetched.{ending}"
            done = fetch(server.uri, path.name, target, timeout=20)
            with ipc.open(path) as expected, ipc.open(target) as found:
                assert found.read_all().equals(expected.read_all())
            assert done.num_rows == sum(len(batch) for batch in ipc.open(path))
            opened = pa.ipc.open_file if ending == "arrow" else pa.ipc.open_stream
            opened(target).read_all().validate(full=True)
        assert not server.errors


def test_files_are_opened_anew_for_each_request(tmp_path):
    path, target = tmp_path / "x.arrow", tmp_path / "fetched"
    path.write_bytes(arrow_columns.file(pa.record_batch({"x": [1]})))
    with serve_files([path]) as server:
        assert fetch(server.uri, "x.arrow", target, timeout=20).num_rows == 1
        path.write_bytes(arrow_columns.file(pa.record_batch({"y": ["a", "b", "c"]})))
        assert fetch(server.uri, b"x.arrow", target, timeout=20).num_rows == 3
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        for _ in range(5):
            fetch(server.uri, "x.arrow", target, timeout=20)
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before


def test_options_reach_readers_and_writers(paths, tmp_path):
    seen = []
    with serve_files(paths, read_options={"columns": [0]}, compression="lz4") as server:
        fetch(
            server.uri,
            "everything.arrow",
            tmp_path / "f.arrow",
            format="stream",
            write_options={"compression": "zstd"},
            on_batch=lambda done: seen.append(done.num_rows),
            timeout=20,
        )
    with ipc.open_stream(tmp_path / "f.arrow") as reader:
        assert len(reader.schema.fields) == 1
        assert seen == [reader.read_all().num_rows]


def test_a_bytearray_can_be_the_target(paths):
    with serve_files(paths) as server:
        fetch(server.uri, "empty.arrow", sink := bytearray(), timeout=20)
    assert ipc.open_file(sink).read_all().num_rows == 0


def test_what_goes_wrong_leaves_the_old_file(tmp_path):
    target = tmp_path / "target.arrow"
    target.write_bytes(b"as it was")

    def batches():
        yield pa.record_batch({"x": [1]})
        raise OSError("the source broke")

    with dissociated.Server({"x": batches}, "tcp") as server:
        with pytest.raises(ipc.TruncatedError):
            fetch(server.uri, "x", target, timeout=20)
        with pytest.raises(ipc.FormatError):
            fetch(server.uri, "no such stream", target, timeout=20)
    assert target.read_bytes() == b"as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["target.arrow"]


def test_files_that_cannot_be_served_are_refused_at_once(paths, tmp_path):
    with pytest.raises(ipc.UsageError, match="no files"):
        serve_files([])
    with pytest.raises(FileNotFoundError):
        serve_files([tmp_path / "nowhere.arrow"])
    (tmp_path / "text.arrow").write_text("hello there, this is text")
    with pytest.raises(ipc.FormatError):
        serve_files([tmp_path / "text.arrow"])
    (tmp_path / "below").mkdir()
    other = tmp_path / "below" / "empty.arrow"
    other.write_bytes(paths[2].read_bytes())
    with pytest.raises(ipc.UsageError, match=r"two of the files are named 'empty\.arrow'"):
        serve_files([paths[2], other])
    with pytest.raises(ipc.UsageError, match="format"):
        fetch("arrowipc+tcp://127.0.0.1:1?want_data=18446741783881759408", "x", tmp_path / "t", format="csv")
