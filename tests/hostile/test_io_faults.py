"""Sources and sinks that fail: an OSError with errno and path, old files as they were, and a way to go on."""

import errno
import io
import os
import random
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dissociated.peers import beside, raw_pair
from helpers import arrays, drive
from helpers.arrays import ipc_bytes
from helpers.processes import alarms, environment, run_function, shared_library

import arrowipc as ipc

ROWS = 2000


PARTS = [arrays.mixed_batch(number * ROWS, ROWS) for number in range(4)]
STREAM, FILE = ipc_bytes(PARTS), ipc_bytes(PARTS, "file")


# -- sources that have nothing now ---------------------------------------------------------------------------


class Drip(io.RawIOBase):
    """Has so many bytes, more after each `pour`, and says in one of two ways that there is nothing now."""

    def __init__(self, data: bytes, count: int, raises: bool) -> None:
        self.waiting, self.rest, self.raises = bytearray(data[:count]), bytearray(data[count:]), raises

    def pour(self, count: int) -> None:
        self.waiting += self.rest[:count]
        del self.rest[:count]

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int | None:
        if not self.waiting and self.rest:
            if self.raises:
                raise BlockingIOError(errno.EAGAIN, "nothing now")
            return None
        count = min(len(target), len(self.waiting))
        target[:count] = self.waiting[:count]
        del self.waiting[:count]
        return count


@pytest.mark.parametrize("raises", [False, True], ids=["None", "BlockingIOError"])
def test_a_reader_goes_on_where_a_source_had_nothing(raises: bool) -> None:
    chance = random.Random(3)
    for size in (1 << 20, 1000, 13):
        source = Drip(STREAM, 0, raises)
        with pytest.raises(BlockingIOError, match="nothing now" if raises else "StreamDecoder"):
            ipc.open_stream(source)
        source.pour(2000)  # the schema, and a part of a batch
        reader, found, refused = ipc.open_stream(source), list[ipc.RecordBatch](), 0
        while True:
            try:
                found.append(reader.read_next_batch())
            except BlockingIOError:
                refused += 1
                source.pour(chance.randint(1, size))
            except StopIteration:
                break
        assert refused
        assert found == PARTS


# -- signals -------------------------------------------------------------------------------------------------


def test_signals_while_a_pipe_is_read_change_nothing() -> None:
    hits: list[int] = []
    reading, writing = os.pipe()

    def feed() -> None:
        with open(writing, "wb", buffering=0) as sink:
            for start in range(0, len(STREAM), 4000):
                sink.write(STREAM[start : start + 4000])
                time.sleep(0.001)

    with open(reading, "rb", buffering=0) as source, beside(feed), alarms(lambda *_: hits.append(1), 0.001, 0.001):
        assert list(ipc.open_stream(source)) == PARTS
    assert hits


# -- connections that are cut --------------------------------------------------------------------------------


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def test_a_connection_that_is_reset_is_an_error_of_the_connection() -> None:
    for sent in (2000, len(STREAM) // 2):
        here, there = raw_pair("tcp")
        with here, here.makefile("rb", buffering=0) as source:
            there.sendall(STREAM[:sent])
            reader = ipc.open_stream(source)
            threading.Timer(0.05, reset, [there]).start()
            found: list[ipc.RecordBatch] = []
            with pytest.raises(ConnectionResetError) as caught:
                found.extend(reader)
            assert caught.value.errno == errno.ECONNRESET
            assert found == PARTS[: len(found)]
            # The reader stands where it stood: what comes next is the end, inside a message.
            with pytest.raises(ipc.TruncatedError):
                reader.read_next_batch()
            with pytest.raises(ipc.UsageError, match="cannot continue"):
                reader.read_next_batch()


# -- sources that do not do what they promise ----------------------------------------------------------------


class Strange:
    """A file object one of whose methods answers what `answer` makes of the real answer."""

    def __init__(self, data: bytes, name: str, answer: Callable[[Any], Any], *, readinto: bool = False) -> None:
        self.inner, self.calls = io.BytesIO(data), 0
        for method in ("read", "seek", "tell", "seekable", "readinto")[: 5 if readinto else 4]:
            setattr(self, method, self.wrapped(method, answer if method == name else lambda found: found))

    def wrapped(self, method: str, answer: Callable[[Any], Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls += 1
            found = answer(getattr(self.inner, method)(*arguments))
            assert self.calls < 10_000, "it asks for ever"
            return found

        return call

    def __repr__(self) -> str:
        return "<the strange one>"


WAYS: list[Callable[[Any], Any]] = [
    lambda source: list(ipc.open_stream(source)),
    lambda source: list(ipc.open_file(source)),
    lambda source: list(ipc.open(source)),
    ipc.read_message,
    ipc.read_tensor,
    lambda source: ipc.recover(source).read_all(),
    lambda source: ipc.read_schema(source),
]
BAD_READS: dict[str, Callable[[bytes], Any]] = {
    "one more byte": lambda data: data + b"x",
    "as much again": lambda data: data + bytes(max(len(data), 1)),
    "a number": len,
    "a list": list,
    "words of many bytes": lambda data: memoryview(bytes(8 * len(data) + 8)).cast("q"),
    "text": lambda data: data.decode("latin-1"),
}
BAD_COUNTS: dict[str, Callable[[int], Any]] = {
    "one more": lambda count: count + 1 if count else 2**20,
    "far more": lambda count: 2**70,
    "fewer than none": lambda count: -1,
    "by far": lambda count: -(2**70),
    "text": str,
    "a fraction": float,
    "nan": lambda count: float("nan"),
    "true": lambda count: True,
    "a type": lambda count: int,
    "bytes": bytes,
}
BAD_PLACES: dict[str, Callable[[int], Any]] = {
    "text": str,
    "negative": lambda place: -1 - place,
    "huge": lambda place: 2**70,
    "a fraction": lambda place: place + 0.5,
    "true": lambda place: True,
    "false": lambda place: False,
}


def refused(way: Callable[[Any], Any], source: Strange) -> bool:
    """Whether a way to read refuses a source in words that name it; other errors are failures."""
    try:
        way(source)
    except ipc.UsageError as error:
        text = str(error)
        assert "<the strange one>" in text or "binary mode" in text, text
        return True
    except ipc.ArrowIpcError:
        pass  # this way reads something else, and said so before
    return False


@pytest.mark.parametrize(
    ("method", "answer"), [*(("read", each) for each in BAD_READS), *(("readinto", each) for each in BAD_COUNTS)]
)
def test_a_read_or_readinto_that_returns_what_cannot_be_is_refused_by_name(method: str, answer: str) -> None:
    wrong = (BAD_READS if method == "read" else BAD_COUNTS)[answer]
    for data in (STREAM, FILE):
        found = [refused(way, Strange(data, method, wrong, readinto=method == "readinto")) for way in WAYS]
        assert sum(found) >= 6


@pytest.mark.parametrize("method", ["seek", "tell"])
@pytest.mark.parametrize("name", BAD_PLACES)
def test_a_seek_or_tell_that_returns_what_cannot_be_is_refused_by_name(name: str, method: str) -> None:
    assert refused(WAYS[2], Strange(FILE, method, BAD_PLACES[name]))
    assert refused(WAYS[1], Strange(FILE, method, BAD_PLACES[name])) == (method == "seek")


def test_a_file_object_of_few_methods_is_enough() -> None:
    class Few:
        def __init__(self, data: bytes) -> None:
            self.inner = io.BytesIO(data)

        def read(self, size: int) -> bytearray:
            return bytearray(self.inner.read(size))

    class Silent(Few):
        """Its `seek` returns nothing, as those of old."""

        def seek(self, *where: int) -> None:
            self.inner.seek(*where)

        def tell(self) -> int:
            return self.inner.tell()

        def seekable(self) -> bool:
            return True

    assert len(list(ipc.open_stream(Few(STREAM)))) == len(list(ipc.open(Few(STREAM)))) == len(PARTS)
    assert len(list(ipc.open_file(Silent(FILE)))) == len(list(ipc.open(Silent(FILE)))) == len(PARTS)
    assert len(list(ipc.open(drive.ShortReads(FILE, repeat(5))))) == len(PARTS)  # its first bytes come in several reads


class Alarm(Exception):
    pass


class LateAlarm(TimeoutError):
    """What many handlers raise; without errno, unlike errors of the system."""


def raising(error: type[Exception]) -> Any:
    raise error


#: What becomes of a read -> the method, its answer instead of the real one, the error, and why the reader cannot go on.
LOST: dict[str, tuple[str, Callable[[Any], Any], type[Exception], str]] = {
    "more bytes": ("read", lambda data: data + b"x", ipc.UsageError, "an error ended it while it was reading"),
    "one more": ("readinto", lambda count: count + 1, ipc.UsageError, "an error ended it while it was reading"),
    "a handler raises": ("readinto", lambda _: raising(Alarm), Alarm, ".*bytes may be lost"),
    "a handler gives up": ("readinto", lambda _: raising(LateAlarm), LateAlarm, ".*bytes may be lost"),
}


@pytest.mark.parametrize("make", [ipc.open_stream, ipc.MessageReader])
@pytest.mark.parametrize("what", LOST)
def test_a_reader_does_not_go_on_behind_a_read_that_took_bytes_along(what: str, make: Callable[[Any], Any]) -> None:
    """They were read and nobody has counted them: the next message would be another one."""
    method, wrong, error, words = LOST[what]
    bad = False
    reader = make(Strange(STREAM, method, lambda found: wrong(found) if bad else found, readinto=method == "readinto"))
    next(reader)
    bad = True
    with pytest.raises(error):
        next(reader)
    bad = False
    with pytest.raises(ipc.UsageError, match=f"cannot continue: {words}"):
        next(reader)


# -- sources that fail once ----------------------------------------------------------------------------------


class FailsOnce(io.BytesIO):
    """The n-th read fails."""

    def __init__(self, data: bytes, fails: int) -> None:
        super().__init__(data)
        self.left = fails

    def readinto(self, target: Any) -> int:
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO), "the disk")
        return super().readinto(target)


def test_a_read_that_failed_can_be_repeated() -> None:
    for opener, data in ((ipc.open_stream, STREAM), (ipc.open_file, FILE)):
        said, failed = set[Any](), 0
        for fails in range(1, 30):
            source = FailsOnce(data, fails)
            try:
                reader = opener(source)
            except OSError as error:
                said.add((error.errno, error.filename))
                continue
            for number, expected in enumerate(PARTS):
                read = reader.read_next_batch if opener is ipc.open_stream else partial(reader.get_batch, number)
                try:
                    found = read()
                except OSError as error:
                    said.add((error.errno, error.filename))
                    found, failed = read(), failed + 1
                assert found == expected, (opener.__name__, fails)
        assert failed > 3
        assert said == {(errno.EIO, "the disk")}


# -- files that change under a reader ------------------------------------------------------------------------


def read_what_changes(path: str, how: str, way: str) -> None:
    opener: Callable[..., Any] = ipc.open_file if path.endswith("arrow") else ipc.open_stream
    size = os.path.getsize(path)
    with opener(path, memory_map=way == "mapped") as reader:
        first = next(iter(reader))
        if how == "replaced":
            ipc.new_file(path, first.schema, durable=False).close()
        else:
            os.truncate(path, {"cut": size - 5000, "emptied": 0, "longer": 2 * size}[how])
        try:
            left = reader if opener is ipc.open_stream else [reader[i] for i in range(4)]
            print("read", sum(each.num_rows for each in left), first["x"][1999])
        except ipc.FormatError as error:
            print("refused", first["x"][1999], error)


CHANGES = {
    # Pages that are gone cannot be read; that the kernel ends the process cannot be avoided.
    ("cut", "mapped"): signal.SIGBUS,
    ("replaced", "mapped"): "read",
    ("cut", "read"): "refused",
    ("emptied", "read"): "refused",
    ("replaced", "read"): "read",
    ("longer", "read"): "read",
}


@pytest.mark.nosanitize  # AddressSanitizer answers SIGBUS in its own way
@pytest.mark.parametrize(("how", "way"), CHANGES)
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_a_file_that_is_cut_short_is_an_error_unless_it_is_mapped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, how: str, way: str
) -> None:
    path = tmp_path / ("x.arrow" if kind == "file" else "x.arrows")
    path.write_bytes(FILE if kind == "file" else STREAM)
    expected = CHANGES[how, way]
    if isinstance(expected, signal.Signals):
        assert run_function(read_what_changes, path, how, way).returncode == -expected
        return
    read_what_changes(str(path), how, way)
    shown = capsys.readouterr().out
    if kind == "stream" and how == "emptied":
        expected = "read"  # the end of a stream is where its source ends between two messages
    assert shown.startswith(expected), shown
    assert "1999" in shown
    if expected == "refused" and kind == "file":
        assert "ends at byte" in shown


# -- sinks that fail -----------------------------------------------------------------------------------------


#: Batches that are written: more than a megabyte.
COUNT = 40


def fill(writer: Any, count: int = COUNT) -> None:
    with writer:
        for _ in range(count):
            writer.write_batch(PARTS[0])


SCHEMA = PARTS[0].schema
#: What is tried against a full or failing disk: each writes to a path, where something may be.
KINDS: dict[str, Callable[[str], Any]] = {
    "file": lambda path: fill(ipc.new_file(path, SCHEMA)),
    "compressed": lambda path: fill(ipc.new_stream(path, SCHEMA, compression="lz4"), 10 * COUNT),
    "append": lambda path: fill(ipc.new_file(path, append=True)),
    "recover": lambda path: ipc.recover(ipc_bytes(PARTS[:1] * COUNT, "file"), into=path, resync=True),
    "tensor": lambda path: ipc.write_tensor(np.zeros(200_000), path),
}


def tell(kind: str, path: str) -> None:
    """Say which error it was, whether it names the path and nothing lies beside it, and how many batches are there."""
    try:
        KINDS[kind](path)
        print("done")
    except OSError as error:
        os.environ.pop("FAULT", None)
        with ipc.open_file(path, memory_map=False) as reader:
            beside = os.listdir(os.path.dirname(path)) == [os.path.basename(path)]
            print(errno.errorcode[error.errno or 0], error.filename == path, beside, reader.num_record_batches)


def tell_all_of_a_limit(path: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    for kind in KINDS:
        tell(kind, path)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return arrays.stored(folder / "x", PARTS[1])


def untouched(old: Path) -> bool:
    return list(ipc.open_file(old.read_bytes())) == [PARTS[1]] and os.listdir(old.parent) == [old.name]


def test_a_limit_of_the_file_size_leaves_the_old_file(old: Path) -> None:
    shown = run_function(tell_all_of_a_limit, old)
    assert shown.stdout.splitlines() == ["EFBIG True True 1"] * len(KINDS), shown.stderr
    assert untouched(old)


#: Call, at which time, with which error. The second fsync is the folder's, behind the rename.
FAULTS = [
    ("write", 1, errno.EDQUOT),
    ("write", 3, errno.EDQUOT),
    ("write", 2, errno.EIO),
    ("write", 2, errno.ENOSPC),
    ("fsync", 1, errno.EIO),
    ("fsync", 1, errno.EDQUOT),
    ("fsync", 2, errno.EIO),
    ("close", 1, errno.EIO),
    ("close", 1, errno.EDQUOT),
    ("rename", 1, errno.EIO),
    ("rename", 1, errno.ENOSPC),
]


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux":
        pytest.skip("needs Linux")
    source = Path(__file__).parent / "c" / "failing_calls.c"
    return shared_library(source, "-ldl", folder=tmp_path_factory.mktemp("failing"))


def faults_of(kind: str) -> list[tuple[str, int, int]]:
    # Appending closes the old file, which was only read, before it closes the new one.
    faults = [fault for fault in FAULTS if kind != "append" or fault[0] != "close"]
    # Last, because it leaves the new file: renamed already, and perhaps not for ever.
    return sorted(faults, key=lambda fault: fault[:2] == ("fsync", 2))


def tell_of_faults(kind: str, path: str) -> None:
    for number, (call, after, code) in enumerate(faults_of(kind), 1):
        fault = {"FAULT": call, "FAULT_AFTER": after, "FAULT_ERRNO": code, "FAULT_ROUND": number}
        os.environ.update({name: str(value) for name, value in fault.items()})
        tell(kind, path)


@pytest.mark.nosanitize  # LD_PRELOAD
@pytest.mark.parametrize("kind", ["file", "append", "recover"])
def test_a_disk_that_fails_leaves_the_old_file(old: Path, failing: Path, kind: str) -> None:
    faults = faults_of(kind)
    preloaded = {**environment(), "LD_PRELOAD": str(failing), "FAULT_IN": str(old.parent)}
    shown = run_function(tell_of_faults, kind, old, env=preloaded)
    *failed, (renamed, _) = zip(shown.stdout.splitlines(), [fault[2] for fault in faults], strict=True)
    for line, errno_ in failed:
        assert line == f"{errno.errorcode[errno_]} True True 1", shown.stderr
    assert renamed == f"EIO True True {COUNT + (kind == 'append')}"
