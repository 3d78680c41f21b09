"""Streams that grow: appending in place, and following what is appended."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import arrays, forge
from helpers.arrays import batch_of

import arrowipc as ipc
from arrowipc import FormatError, TruncatedError, UnsupportedError, UsageError

END = b"\xff\xff\xff\xff" + bytes(4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.arrows"


def append(path: Path, *data: Any, schema: Any = None, **options: Any) -> None:
    with ipc.new_stream(path, schema, append=True, durable=False, **options) as writer:
        for each in data:
            writer.write(each)


def words(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"w": pa.array(values).dictionary_encode()})


def column(source: Any, name: str = "x") -> list[Any]:
    with ipc.open_stream(source) as reader:
        return reader.read_all()[name].to_pylist()


def values(reader: Any) -> list[Any]:
    return [value for batch in reader for value in batch["x"]]


# -- appending -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"compression": "zstd"}, {"alignment": 64}, {"metadata_version": "V4"}, {"legacy": True}, {"checksum": True}],
)
def test_rounds_of_appending_are_equal_to_writing_at_once(path, options):
    batches = [arrays.read_batch(words(*"abc"[: 1 + i % 3])) for i in range(6)]
    options = {**options, "dictionary_deltas": True}
    append(path, batches[0], **options)
    append(path, *batches[1:4], **options)
    append(path, **options)
    append(path, *batches[4:], **options)
    assert path.read_bytes() == arrays.ipc_bytes(batches, "stream", **options)
    assert os.listdir(path.parent) == [path.name]


def test_streams_of_pyarrow_go_on(path):
    with pa.ipc.new_stream(str(path), words("a").schema) as writer:
        writer.write_batch(words("a", "b"))
    append(path, words("a", "b", "c"), words("d"))
    assert pa.ipc.open_stream(path.read_bytes()).read_all()["w"].to_pylist() == ["a", "b", "a", "b", "c", "d"]


def dictionaries(path: Path) -> list[tuple[bool, int]]:
    """Whether each dictionary message of a stream is a delta, and how many values there are then."""
    decoder = ipc.StreamDecoder()
    decoder.feed(path.read_bytes())
    return [(each.is_delta, each.length) for each in decoder if hasattr(each, "is_delta")]


def test_dictionaries_go_on(path):
    append(path, words("a", "b"))
    append(path, words("a", "b", "a"))
    assert dictionaries(path) == [(False, 2)]
    append(path, words("a", "b", "c"), dictionary_deltas=True)
    append(path, words("d"))
    append(path, words("d", "e"), dictionary_deltas=True)
    assert dictionaries(path) == [(False, 2), (True, 3), (False, 1), (True, 2)]
    append(path, words("e", "f"), unify_dictionaries=True, dictionary_deltas=True)
    assert dictionaries(path)[4:] == [(True, 3)]
    assert column(path, "w") == [*"abab", "a", "a", "b", "c", "d", "d", "e", "e", "f"]


def test_a_dictionary_whose_batch_was_not_finished_goes_on(path):
    """It was whole, so a follower may have read it."""
    append(path, words("a", "b"), words("a", "b", "c"), dictionary_deltas=True)
    path.write_bytes(path.read_bytes()[:-10])
    with ipc.open_stream(path, follow=True, timeout=0) as reader:
        assert reader.read_next_batch().num_rows == 2
        with pytest.raises(TruncatedError, match="nothing completed its last message for 0 s"):
            reader.read_next_batch()
        append(path, words("a", "b", "c", "d"), dictionary_deltas=True)
        assert [batch["w"].to_pylist() for batch in reader] == [["a", "b", "c", "d"]]
    assert dictionaries(path) == [(False, 2), (True, 3), (True, 4)]


def test_a_dictionary_that_nobody_has_written_is_written(path):
    text = forge.field("w", forge.UTF8, dictionary=forge.encoding(41))
    path.write_bytes(forge.message(forge.schema(text)))
    append(path, words("a", "b"), dictionary_deltas=True)
    assert dictionaries(path) == [(False, 2)]
    assert column(path, "w") == ["a", "b"]


@pytest.mark.parametrize("begin", [ipc.new_file, ipc.new_stream])
def test_a_dictionary_with_a_value_twice_is_not_merged(path, begin):
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "a", "b"]))
    with begin(path, append=True) as writer:
        writer.write(pa.record_batch({"w": twice}))
    with pytest.raises(UsageError, match=r"dictionary 0 has a value twice.*leave unify_dictionaries out"):
        begin(path, append=True, unify_dictionaries=True, dictionary_deltas=True)


def test_what_cannot_go_on_is_refused_and_stays(path):
    append(path, batch_of(1))
    whole = path.read_bytes()
    claim = forge.message(forge.batch(1, [(1, 0)], [b"", forge.i64(7)]))
    claims = claim[:-8].replace((8).to_bytes(8, "little"), (1 << 20).to_bytes(8, "little"), 1)
    refusals: list[tuple[bytes, type[Exception], str, dict[str, Any]]] = [
        (b"hello world, this is text\n", FormatError, "append to '.*x.arrows': .*this is text", {}),
        (b"ab", FormatError, "no message begins at its first byte", {}),
        (whole + whole, FormatError, "other bytes follow the end of the stream at byte", {}),
        (whole[:-8] + b"hello world", FormatError, "append to '.*'", {}),
        (whole[:-8] + claims + claim, FormatError, "claims more bytes than there are, and whole ones follow", {}),
        (whole, UsageError, "column 'x' is int32 in the batch and int64", {"schema": ipc.schema({"x": "int32"})}),
        (whole, UsageError, "has metadata_version='V5' and cannot change it", {"metadata_version": "V4"}),
        (whole, UsageError, "has legacy=False and cannot change it", {"legacy": True}),
        (whole, ValueError, "compression", {"compression": "none such"}),
    ]
    for data, error, message, options in refusals:
        path.write_bytes(data)
        with pytest.raises(error, match=message):
            append(path, batch_of(2), **options)
        assert path.read_bytes() == data
    big = forge.message(forge.schema(forge.field("x", forge.int_(64)), endianness=1))
    path.write_bytes(big)
    with pytest.raises(UnsupportedError, match="big-endian"):
        append(path, batch_of(1))
    with pytest.raises(UsageError, match=r"append: expected the path of a file.*found bytearray"):
        ipc.new_stream(bytearray(), append=True)


def test_a_second_writer_is_refused_until_the_first_one_ends(path):
    with ipc.new_stream(path, append=True, durable=False) as writer:
        writer.write(batch_of(1))
        with pytest.raises(OSError, match="in use by another writer") as error:
            ipc.new_stream(path, append=True)
        assert (error.value.errno, error.value.filename) == (errno.EBUSY, str(path))
    append(path, batch_of(2))
    assert column(path) == [1, 2]


def test_a_block_that_is_left_by_an_exception_writes_no_end_marker(path):
    with pytest.raises(ZeroDivisionError), ipc.new_stream(path, append=True) as writer:  # noqa: PT012
        writer.write(batch_of(1))
        raise ZeroDivisionError
    assert path.read_bytes()[-8:] != END
    append(path, batch_of(2))
    assert column(path) == [1, 2]


def test_a_writer_stops_where_somebody_else_changed_its_stream(path):
    with ipc.new_stream(path, append=True) as writer:
        writer.write(batch_of(1))
        os.truncate(path, 0)
        with pytest.raises(OSError, match="somebody else wrote to the stream or cut it short") as error:
            writer.write(batch_of(2))
        assert error.value.errno == errno.ESTALE
        with pytest.raises(UsageError):
            writer.close()
        writer.abandon("")
    assert path.read_bytes() == b""


# -- following -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inotify", [True, False])
def test_followers_get_batches_as_they_are_written(path, inotify, monkeypatch):
    if not inotify:
        monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    found: list[list[int]] = []

    def follow() -> None:
        with ipc.open_stream(path, follow=True, timeout=60) as reader:
            assert (reader.following.events is not None) == inotify
            found.append(values(reader))

    threads = [threading.Thread(target=follow) for _ in range(3)]
    for thread in threads:
        thread.start()
    with ipc.new_stream(path, append=True, durable=False) as writer:
        for value in range(20):
            writer.write(batch_of(value))
            time.sleep(0.001)
    for thread in threads:
        thread.join(60)
    assert found == [list(range(20))] * 3


def test_a_file_that_was_replaced_or_cut_short_is_read_from_its_beginning(path):
    append(path, batch_of(1, 2, 3), batch_of(4, 5, 6))
    path.write_bytes(path.read_bytes()[:-8])
    with ipc.open_stream(path, follow=True, timeout=0) as reader:
        assert len(values(reader)) == 6
        path.write_bytes(arrays.ipc_bytes([batch_of(7)], "stream")[:-8])
        assert values(reader) == [7]
        with ipc.new_stream(path) as writer:  # takes the place of the file
            writer.write(batch_of(8))
        assert values(reader) == [8]
    with ipc.open_stream(path, follow=True, timeout=0) as reader:
        path.unlink()
        assert values(reader) == [8]  # which has an end, and another file could not be meant
        assert reader.at_end


def test_another_schema_after_rotation_is_an_error_that_says_what_differs(path):
    old = ipc.new_stream(path, append=True, durable=False)
    old.write(batch_of(1))
    with ipc.open_stream(path, follow=True, timeout=0) as reader:
        path.rename(path.with_name("old"))
        old.close()
        append(path, {"x": [1.5]})
        with pytest.raises(FormatError, match=r"took the place of '.*x.arrows': its schema has x: double in column 0"):
            values(reader)


def test_what_is_followed_is_read_as_any_stream(path):
    with ipc.new_stream(path, append=True, durable=False) as writer:
        writer.write({"x": [1], "y": ["a"]})
        with ipc.open_stream(path, follow=True, timeout=0, columns=["x"]) as reader:
            assert reader.read_all().to_pydict() == {"x": [1]}
            writer.write({"x": [2], "y": ["b"]})
            with ipc.new_stream(copied := bytearray()) as copy:
                ipc.copy(reader, copy)
            assert column(copied) == [2]
            with pytest.raises(UsageError, match="only in order"):
                reader.get_batch(0)


@pytest.mark.parametrize("legacy", [False, True])
def test_streams_with_checksums_go_on(path, legacy):
    """The message that closes them is cut off with the end marker, and a follower takes both together."""
    append(path, batch_of(1), checksum=True, legacy=legacy)
    whole = path.read_bytes()
    end = 4 if legacy else 8
    for size in range(len(whole) - 200, len(whole)):
        path.write_bytes(whole[:size])
        with ipc.open_stream(path, follow=True, timeout=0, verify=True) as reader:
            found = numbers(reader)
            append(path, batch_of(2))
            assert (found + numbers(reader), reader.at_end) == ([*found, 2], True)
        assert column(path) == [*found, 2]
    path.write_bytes(whole[:-end])
    with ipc.open_stream(path, follow=True, timeout=0, verify=True) as reader:
        assert numbers(reader) == [1]
        path.write_bytes(whole)
        assert numbers(reader) == []
        assert reader.at_end
    assert ipc.validate(path).ok
    damaged = bytearray(whole)
    damaged[-300] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(FormatError, match="append to"):
        append(path, batch_of(2))
    append(other := path.with_name("other"), batch_of(1))
    with pytest.raises(UsageError, match="has no checksums"):
        append(other, batch_of(2), checksum=True)


def numbers(reader: Any) -> list[Any]:
    """What is there; a part of a message is not."""
    found: list[Any] = []
    with contextlib.suppress(TruncatedError):
        for batch in reader:
            found += batch["x"]
    return found


def test_what_cannot_be_followed_is_refused(path):
    with pytest.raises(FileNotFoundError):
        ipc.open_stream(path, follow=True, timeout=0)
    with pytest.raises(UsageError, match="nobody waits without follow=True"):
        ipc.open_stream(path, timeout=1)
    with pytest.raises(UsageError, match="expected the path of a file, found"):
        ipc.open_stream(b"", follow=True)
    with pytest.raises(UsageError, match="expected seconds"):
        ipc.open_stream(path, follow=True, timeout=-1)
    os.mkfifo(path)
    with pytest.raises(UsageError, match="not a regular file"):
        ipc.open_stream(path, follow=True)


def test_a_reader_that_another_thread_closes_waits_no_longer(path):
    append(path, batch_of(1))
    path.write_bytes(path.read_bytes()[:-8])
    reader = ipc.open_stream(path, follow=True)
    thread = threading.Timer(0.05, reader.close)
    thread.start()
    with pytest.raises(UsageError, match="closed"):
        values(reader)
    thread.join()
