"""Following streams that grow."""

import contextlib
import os
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import arrays
from helpers.arrays import batch_of, column_of
from helpers.processes import together
from public.test_append import extend

import arrowipc as ipc
from arrowipc import FormatError, TruncatedError, UsageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.arrows"


def values(reader: Any) -> list[Any]:
    """What is there; a part of a message is not."""
    found: list[Any] = []
    with contextlib.suppress(TruncatedError):
        for batch in reader:
            found += batch["x"]
    return found


@pytest.mark.parametrize("inotify", [True, False])
def test_followers_get_batches_as_they_are_written(path, inotify, monkeypatch):
    if not inotify:
        monkeypatch.setattr("ctypes.CDLL", lambda _: object())

    def follow() -> list[int]:
        with ipc.open_stream(path, follow=True, timeout=60) as reader:
            assert (reader.following.events is not None) == inotify
            return values(reader)

    def write() -> None:
        with ipc.new_stream(path, append=True, durable=False) as writer:
            for value in range(20):
                writer.write(batch_of(value))
                time.sleep(0.001)

    assert together(follow, follow, follow, write) == [*[list(range(20))] * 3, None]


def test_a_file_that_was_replaced_or_cut_short_is_read_from_its_beginning(path):
    extend(path, batch_of(1, 2, 3), batch_of(4, 5, 6))
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
        extend(path, {"x": [1.5]})
        for _ in range(2):  # its rows are not given the next time either
            with pytest.raises(
                FormatError, match=r"took the place of '.*x.arrows': its schema has x: double in column"
            ):
                values(reader)
            assert reader.schema == ipc.schema({"x": "int64"})
        with ipc.new_stream(path) as writer:  # takes the place of the file
            writer.write(batch_of(2))
        assert values(reader) == [2]


def test_a_file_that_was_written_anew_in_its_place_is_read_from_its_beginning(path):
    """Also if it is not shorter, so that its size says nothing."""
    path.write_bytes(arrays.ipc_bytes([batch_of(1), batch_of(2)], "stream")[:-8])
    with ipc.open_stream(path, follow=True, timeout=0) as reader:
        assert values(reader) == [1, 2]
        for new in ([3, 4, 5], [6, 7, 8]):
            path.write_bytes(arrays.ipc_bytes([batch_of(each) for each in new], "stream")[:-8])
            assert values(reader) == new
        path.write_bytes(arrays.ipc_bytes([batch_of(each) for each in (6, 7, 8, 9)], "stream")[:-8])
        assert values(reader) == [9], "the same, continued"


def test_of_several_threads_that_wait_one_may(path):
    extend(path, batch_of(1))
    path.write_bytes(path.read_bytes()[:-8])
    with ipc.open_stream(path, follow=True, timeout=0.2) as reader:
        next(reader)
        found = together(*[partial(next, reader)] * 4)
    assert {type(each) for each in found} <= {StopIteration, UsageError}


def test_a_message_that_was_not_decoded_comes_before_the_next_file(path):
    """Another thread may have fed it, and this one finds the next file meanwhile."""
    with ipc.new_stream(path, append=True, durable=False) as writer:
        writer.write(batch_of(1))
        with ipc.open_stream(path, follow=True, timeout=0) as reader:
            assert reader.poll()
            path.rename(path.with_name("old"))
            writer.close()
            extend(path, batch_of(2))
            assert reader.poll()
            assert values(reader) == [1, 2]


def test_a_message_that_the_decoder_did_not_take_comes_again(path):
    extend(path, batch_of(1))
    with ipc.open_stream(path, follow=True, timeout=0) as reader:
        decoder = reader.decoder
        with pytest.raises(UsageError, match="another thread is using this reader"):
            decoder.apart(reader.poll)
        reader.decoder = SimpleNamespace(bytes_needed=4, schema=reader.schema, feed=lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            reader.poll()
        reader.decoder = decoder
        assert values(reader) == [1]


def test_a_reader_that_is_closed_while_another_thread_waits_says_so(path):
    extend(path, batch_of(1))
    reader = ipc.open_stream(path, follow=True, timeout=0)
    reader.close()
    with pytest.raises(UsageError, match="closed"):
        reader.seconds_left(0)  # as the thread that waits asks next


def test_what_is_followed_is_read_as_any_stream(path):
    with ipc.new_stream(path, append=True, durable=False) as writer:
        writer.write({"x": [1], "y": ["a"]})
        with ipc.open_stream(path, follow=True, timeout=0, columns=["x"]) as reader:
            assert reader.read_all().to_pydict() == {"x": [1]}
            writer.write({"x": [2], "y": ["b"]})
            with ipc.new_stream(copied := bytearray()) as copy:
                ipc.copy(reader, copy)
            assert column_of(copied) == [2]
            with pytest.raises(UsageError, match="only in order"):
                reader.get_batch(0)


@pytest.mark.parametrize("legacy", [False, True])
def test_streams_with_checksums_go_on(path, legacy, monkeypatch):
    """The message that closes them is cut off with the end marker, and a follower takes both together."""
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())  # no inotify, whose end takes the system 5 ms
    extend(path, batch_of(1), checksum=True, legacy=legacy)
    whole = path.read_bytes()
    end = 4 if legacy else 8
    for size in range(len(whole) - 200, len(whole), 3):
        path.write_bytes(whole[:size])
        with ipc.open_stream(path, follow=True, timeout=0, verify=True) as reader:
            found = values(reader)
            extend(path, batch_of(2))
            assert (found + values(reader), reader.at_end) == ([*found, 2], True)
        assert column_of(path) == [*found, 2]
    path.write_bytes(whole[:-end])
    with ipc.open_stream(path, follow=True, timeout=0, verify=True) as reader:
        assert values(reader) == [1]
        path.write_bytes(whole)
        assert values(reader) == []
        assert reader.at_end
    assert ipc.validate(path).ok
    damaged = bytearray(whole)
    damaged[-300] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(FormatError, match="append to"):
        extend(path, batch_of(2))
    extend(other := path.with_name("other"), batch_of(1))
    with pytest.raises(UsageError, match="has no checksums"):
        extend(other, batch_of(2), checksum=True)


def test_what_cannot_be_followed_is_refused(path):
    os.mkfifo(fifo := path.with_name("fifo"))
    for source, options, error, words in (
        (path, {"follow": True, "timeout": 0}, FileNotFoundError, "x.arrows"),
        (path, {"timeout": 1}, UsageError, "nobody waits without follow=True"),
        (b"", {"follow": True}, UsageError, "expected the path of a file, found"),
        (path, {"follow": True, "timeout": -1}, UsageError, "expected seconds"),
        (fifo, {"follow": True}, UsageError, "not a regular file"),
    ):
        with pytest.raises(error, match=words):
            ipc.open_stream(source, **options)


def test_a_reader_that_another_thread_closes_waits_no_longer(path, monkeypatch):
    monkeypatch.setattr("arrowipc.sources.followed.LOOK_BESIDE_INOTIFY", 0.1)
    extend(path, batch_of(1))
    path.write_bytes(path.read_bytes()[:-8])
    reader = ipc.open_stream(path, follow=True)
    thread = threading.Timer(0.05, reader.close)
    thread.start()
    with pytest.raises(UsageError, match="closed"):
        values(reader)
    thread.join()
