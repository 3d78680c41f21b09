"""Appending: a file or stream goes on behind its batches as if it had been written at once, or stays as it was."""

import errno
import fcntl
import io
import os
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import arrays, forge
from helpers.arrays import batch_of, column_of, ipc_bytes, mixed_batch, read

import arrowipc as ipc
from arrowipc import FormatError, TruncatedError, UnsupportedError, UsageError
from arrowipc.encode import atomic_file


def append(path: Path, *batches: Any, kind: str = "file", **options: Any) -> None:
    with (ipc.new_file if kind == "file" else ipc.new_stream)(path, append=True, **options) as writer:
        for batch in batches:
            writer.write(batch)


def words(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"w": pa.array(values).dictionary_encode()})


def kept_by(error: OSError) -> Path:
    """The file that an error says is kept, because another one was at its place."""
    assert error.errno == errno.ESTALE
    return Path(re.search("kept as '(.*?)'", str(error))[1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.arrow"


# -- going on ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize(
    "options",
    [{}, {"compression": "zstd"}, {"alignment": 64}, {"metadata_version": "V4"}, {"legacy": True}, {"checksum": True}],
)
def test_rounds_of_appending_are_equal_to_writing_at_once(path, options, kind):
    batches = [mixed_batch(i, 5) for i in range(0, 35, 5)]
    if kind == "stream":  # whose dictionaries may grow
        batches = [arrays.read_batch(words(*"abc"[: 1 + i % 3])) for i in range(6)]
        options = {**options, "dictionary_deltas": True}
    append(path, batches[0], kind=kind, **options)
    later = {name: value for name, value in options.items() if name != "metadata_version"}  # which stays
    for part in (batches[1:3], [], batches[3:]):
        append(path, *part, kind=kind, **later)
    assert path.read_bytes() == ipc_bytes(batches, kind, **options)
    assert os.listdir(path.parent) == [path.name]
    table = (pa.ipc.open_file if kind == "file" else pa.ipc.open_stream)(path.read_bytes()).read_all()
    table.validate(full=True)
    assert table.to_pylist() == [row for batch in batches for row in batch.to_pylist()]


def test_what_is_appended_may_be_stored_in_other_ways(path):
    append(path, mixed_batch(0, 5))
    ways = [{"compression": "lz4"}, {"alignment": 64}, {"legacy": True}, {"compression": {"t": "zstd", "*": None}}]
    for i, options in enumerate(ways):
        append(path, mixed_batch(5 * i + 5, 5), **options)
    found = read(path, validate="strict")
    assert all(batch.equals(mixed_batch(5 * i, 5)) for i, batch in enumerate(found))
    assert len(found) == 5
    for i, (offset, head, body) in enumerate(ipc.open_file(path).blocks):
        assert (offset + head) % (64 if i == 2 else 8) == body % 8 == 0
    pa.ipc.open_file(path.read_bytes()).read_all().validate(full=True)


def test_metadata_is_kept_or_replaced(path):
    append(path, batch_of(1), metadata={"k": "1"})
    append(path, batch_of(2))
    assert ipc.open_file(path).metadata.pairs == ((b"k", b"1"),)
    append(path, batch_of(3), metadata={"k": "2"})
    assert ipc.open_file(path).metadata.pairs == ((b"k", b"2"),)
    with ipc.new_file(path, append=True) as writer:
        assert writer.metadata.pairs == ((b"k", b"2"),)
        writer.metadata = {}
    assert ipc.open_file(path).metadata.pairs == ()
    assert ipc.open_file(path).read_all().to_pydict() == {"x": [1, 2, 3]}


# -- what cannot be continued --------------------------------------------------------------------------------


NUMBERS = forge.schema(forge.field("x", forge.INT64))
SEVEN = forge.batch(1, [(1, 0)], [b"", forge.i64(7)])
BIG_ENDIAN = forge.schema(forge.field("x", forge.INT64), endianness=1)
ONE = batch_of(1)
INT32 = batch_of(1, kind=pa.int32())
FILE, V4_FILE, STREAM = ipc_bytes(ONE, "file"), ipc_bytes(ONE, "file", metadata_version="V4"), ipc_bytes(ONE)
ROWS = ipc_bytes([mixed_batch(0, 5), mixed_batch(5, 5)], "file")
ENCODED = ipc_bytes(words("a", "b"), "file")
#: A message of more bytes than there are, with a whole one behind it.
CLAIM = forge.message(SEVEN)[:-8].replace(forge.i64(8), forge.i64(1 << 20), 1) + forge.message(SEVEN)
V4_STAYS = "has metadata_version='V4' and cannot change it: leave metadata_version out"
OTHER_TYPE = "column 'x' is int32 in the batch and int64 in the writer's schema"

#: What is there, what is appended with which options, and the error.
REFUSED_FILES: list[tuple[bytes, Any, dict[str, Any], type[Exception], str]] = [
    (FILE, INT32, {}, UsageError, OTHER_TYPE),
    (FILE, ONE, {"schema": INT32.schema}, UsageError, OTHER_TYPE),
    (FILE, ONE, {"schema": mixed_batch(0, 5).schema}, UsageError, "6 columns, the writer's schema 1"),
    (V4_FILE, ONE, {"metadata_version": "V5"}, UsageError, V4_STAYS),
    (ENCODED, words("c"), {}, UsageError, "a file cannot replace a dictionary"),
    (ENCODED, words("a"), {"unify_dictionaries": True}, UsageError, "written already"),
    (b"", ONE, {}, FormatError, "append to '.*x.arrow': not an Arrow IPC file"),
    (b"hello world, this is text\n", ONE, {}, FormatError, "append to '.*': this is text .*, not Arrow IPC"),
    (ROWS[: len(ROWS) // 2], ONE, {}, FormatError, "cut short"),
    (ROWS[:-1], ONE, {}, FormatError, "cut short"),
    (ROWS + b"\n", ONE, {}, FormatError, "something was appended"),
    (ROWS[8:], ONE, {}, FormatError, "this is an Arrow IPC stream"),
    (forge.file(BIG_ENDIAN, SEVEN), ONE, {}, UnsupportedError, "the file is big-endian"),
    # Its footer is whole, and readers that follow it never look there.
    (forge.file(NUMBERS, SEVEN, first=forge.EOS), ONE, {}, FormatError, "expected the Schema message at byte 8"),
    # The footer disagrees with the messages.
    *[
        (forge.file(NUMBERS, SEVEN, SEVEN, blocks=blocks), ONE, {}, FormatError, "append to '.*x.arrow': ")
        for blocks in (
            lambda found: [found[0], found[0]],
            lambda found: [(found[0][0], found[0][1], found[0][2] + 8), *found[1:]],
            lambda found: [(found[0][0], found[0][1] + 8, found[0][2]), *found[1:]],
            lambda found: [(found[0][0] + 8, *found[0][1:]), *found[1:]],
            lambda found: [(1 << 40, *found[0][1:]), *found[1:]],
            lambda found: [(-8, *found[0][1:]), *found[1:]],
            lambda found: found[::-1],
        )
    ],
]
REFUSED_STREAMS: list[tuple[bytes, Any, dict[str, Any], type[Exception], str]] = [
    (b"hello world, this is text\n", ONE, {}, FormatError, "append to '.*x.arrow': .*this is text"),
    (b"ab", ONE, {}, FormatError, "no message begins at its first byte"),
    (STREAM + STREAM, ONE, {}, FormatError, "other bytes follow the end of the stream at byte"),
    (STREAM[:-8] + b"hello world", ONE, {}, FormatError, "append to '.*'"),
    (STREAM[:-8] + CLAIM, ONE, {}, FormatError, "claims more bytes than there are, and whole ones follow"),
    (STREAM, ONE, {"schema": INT32.schema}, UsageError, "column 'x' is int32 in the batch and int64"),
    (STREAM, ONE, {"metadata_version": "V4"}, UsageError, "has metadata_version='V5' and cannot change it"),
    (STREAM, ONE, {"legacy": True}, UsageError, "has legacy=False and cannot change it"),
    (forge.message(BIG_ENDIAN), ONE, {}, UnsupportedError, "big-endian"),
]


@pytest.mark.parametrize(
    ("kind", "data", "batch", "options", "error", "message"),
    [(kind, *row) for kind, rows in (("file", REFUSED_FILES), ("stream", REFUSED_STREAMS)) for row in rows],
)
def test_what_cannot_go_on_is_refused_and_stays(path, kind, data, batch, options, error, message):
    path.write_bytes(data)
    with pytest.raises(error, match=message):
        append(path, batch, kind=kind, **options)
    assert path.read_bytes() == data
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("first", [b"", forge.message(NUMBERS)[8:]])
@pytest.mark.parametrize("eos", [b"", forge.EOS])
def test_files_without_batches_and_framed_schema_go_on(path, first, eos):
    path.write_bytes(forge.file(NUMBERS, first=first, eos=eos))
    append(path, batch_of(1, 2))
    assert ipc.open_file(path).read_all().to_pydict() == {"x": [1, 2]}
    report = ipc.validate(path, level="strict")
    assert report.ok, str(report)


def test_what_is_no_path_of_a_file_is_refused(path):
    os.mkfifo(path)
    with pytest.raises(UsageError, match="not a regular file"):
        append(path, batch_of(1))
    with pytest.raises(IsADirectoryError):
        append(path.parent, batch_of(1))
    for begin in (ipc.new_file, ipc.new_stream):
        for sink, found in ((bytearray(), "bytearray"), ("memory://x", "a URL"), (io.StringIO(), "StringIO")):
            with pytest.raises(UsageError, match=f"append: expected the path of a file.*found {found}"):
                begin(sink, append=True)


def test_a_dangling_link_becomes_a_file(path):
    path.symlink_to("there")
    append(path, batch_of(1))
    append(path, batch_of(2))
    assert path.is_symlink()
    assert ipc.open_file(path.parent / "there").read_all().to_pydict() == {"x": [1, 2]}


# -- meanwhile -----------------------------------------------------------------------------------------------


#: What somebody else may do to a file meanwhile.
CHANGES: dict[str, Callable[[Path], object]] = {
    "replaced by us": lambda path: append(path, batch_of(9)),
    "renamed over": lambda path: path.with_name("other").replace(path),
    "written in place": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"2"),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "removed": Path.unlink,
    "a link elsewhere": lambda path: (path.unlink(), path.symlink_to("other")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_somebody_changed_meanwhile_is_not_overwritten(path, change):
    append(path, batch_of(0))
    path.with_name("other").write_bytes(path.read_bytes())
    os.utime(path, (1, 1))  # else a change in the same instant, of the same size, could have the same time
    writer = ipc.new_file(path, append=True)
    writer.write(batch_of(1))
    CHANGES[change](path)
    found = path.read_bytes() if path.exists() else None
    with pytest.raises(OSError, match="it stays as it is") as error:
        writer.close()
    assert (path.read_bytes() if path.exists() else None) == found
    assert column_of(kept_by(error.value)) == [0, 1]
    append(path.with_name("new"), batch_of(5))  # and the folder is not locked


def test_reading_a_file_and_linking_to_it_is_no_change(path):
    append(path, batch_of(0))
    writer = ipc.new_file(path, append=True)
    os.link(path, path.with_name("backup"))
    assert column_of(path) == [0]
    path.chmod(0o600)
    writer.write(batch_of(1))
    writer.close()
    assert column_of(path) == [0, 1]


def test_who_locks_the_folder_delays_an_appender_and_takes_no_rows(path, monkeypatch):
    append(path, batch_of(0))
    folder = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    writer = ipc.new_file(path, append=True)
    writer.write(batch_of(1))
    timer = threading.Timer(0.05, fcntl.flock, (folder, fcntl.LOCK_UN))
    timer.start()
    writer.close()
    timer.join()
    assert column_of(path) == [0, 1]
    monkeypatch.setattr(atomic_file, "LONGEST_TURN", 0.02)
    fcntl.flock(folder, fcntl.LOCK_EX)
    writer = ipc.new_file(path, append=True)
    writer.write(batch_of(2))
    with pytest.raises(OSError, match="locked the folder") as error:
        writer.close()
    os.close(folder)
    assert (column_of(path), column_of(kept_by(error.value))) == ([0, 1], [0, 1, 2])


def test_dictionary_ids_of_another_writer_stay(path):
    text = forge.texts("a", "b")
    coded = forge.field("w", forge.UTF8, dictionary=forge.encoding(41))
    rows = forge.batch(3, [(3, 0)], [b"", forge.i32(0, 1, 0)])
    path.write_bytes(forge.file(forge.schema(coded), forge.dictionary(41, text), rows))
    append(path, words("a", "b", "c"), dictionary_deltas=True)
    assert pa.ipc.open_file(path).read_all()["w"].to_pylist() == ["a", "b", "a", "a", "b", "c"]
    assert ipc.open_file(path).schema.field("w").type.dictionary_id == 41


@pytest.mark.parametrize("options", [{}, {"dictionary_deltas": True}])
def test_a_dictionary_inside_one_that_is_missing_cannot_go_on(path, options):
    inner = forge.field("item", forge.UTF8, dictionary=forge.encoding(1))
    outer = forge.field("w", forge.LIST, inner, dictionary=forge.encoding(0))
    text = forge.texts("a", "b")
    rows = forge.batch(1, [(1, 1)], [b"\0", forge.i32(0)])
    path.write_bytes(forge.file(forge.schema(outer), forge.dictionary(1, text), rows))
    with pytest.raises(UnsupportedError, match="a dictionary inside another one, which is missing"):
        append(path, **options)
    with ipc.open(path) as reader, ipc.new_file(path.with_name("copy"), reader.schema) as writer:
        ipc.copy(reader, writer)
    append(path.with_name("copy"), **options)
    assert column_of(path.with_name("copy"), "w") == [None]


# -- streams ------------------------------------------------------------------------------------------------


extend = partial(append, kind="stream", durable=False)


def dictionaries(path: Path) -> list[tuple[bool, int]]:
    """Whether each dictionary message of a stream is a delta, and how many values there are then."""
    decoder = ipc.StreamDecoder()
    decoder.feed(path.read_bytes())
    return [(each.is_delta, each.length) for each in decoder if hasattr(each, "is_delta")]


def test_dictionaries_of_a_stream_go_on(path):
    extend(path, words("a", "b"))
    extend(path, words("a", "b", "a"))
    assert dictionaries(path) == [(False, 2)]
    extend(path, words("a", "b", "c"), dictionary_deltas=True)
    extend(path, words("d"))
    extend(path, words("d", "e"), dictionary_deltas=True)
    assert dictionaries(path) == [(False, 2), (True, 3), (False, 1), (True, 2)]
    extend(path, words("e", "f"), unify_dictionaries=True, dictionary_deltas=True)
    assert dictionaries(path)[4:] == [(True, 3)]
    assert column_of(path, "w") == [*"abab", "a", "a", "b", "c", "d", "d", "e", "e", "f"]


def test_a_dictionary_of_a_stream_whose_batch_was_not_finished_goes_on(path):
    """It was whole, so a follower may have read it."""
    extend(path, words("a", "b"), words("a", "b", "c"), dictionary_deltas=True)
    path.write_bytes(path.read_bytes()[:-10])
    with ipc.open_stream(path, follow=True, timeout=0) as reader:
        assert reader.read_next_batch().num_rows == 2
        with pytest.raises(TruncatedError, match="nothing completed its last message for 0 s"):
            reader.read_next_batch()
        extend(path, words("a", "b", "c", "d"), dictionary_deltas=True)
        assert [batch["w"].to_pylist() for batch in reader] == [["a", "b", "c", "d"]]
    assert dictionaries(path) == [(False, 2), (True, 3), (True, 4)]


@pytest.mark.parametrize("begin", [ipc.new_file, ipc.new_stream])
def test_a_dictionary_with_a_value_twice_is_not_merged(path, begin):
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "a", "b"]))
    with begin(path, append=True) as writer:
        writer.write(pa.record_batch({"w": twice}))
    with pytest.raises(UsageError, match=r"dictionary 0 has a value twice.*leave unify_dictionaries out"):
        begin(path, append=True, unify_dictionaries=True, dictionary_deltas=True)


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
