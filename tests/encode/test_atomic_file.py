"""A path holds the old complete file or the new one, whatever happens, and nothing is left beside it."""

import errno
import gc
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.arrays import batch_of, column_of
from helpers.memory import descriptors, interrupted
from helpers.processes import environment, printed, run_function

import arrowipc as ipc
from arrowipc import UsageError, existing
from arrowipc.encode import atomic_file, targets


def write(path: object, *values: int, **options: object) -> None:
    with ipc.new_file(path, **options) as writer:
        writer.write(batch_of(*values))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder's only file, with [0] in it."""
    write(tmp_path / "x.arrow", 0)
    return tmp_path / "x.arrow"


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("durable", "append"), [(True, False), (False, True)])
def test_an_interrupt_anywhere_leaves_a_complete_file_and_nothing_open(tmp_path, durable, append):
    """A signal can raise before every instruction: before each one of those that open and name files, it does."""
    gc.collect()  # what tests before this one left in cycles is closed now
    # In memory, where there is such a folder: nobody waits for a disk a thousand times.
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    batch, before, count = batch_of(1), descriptors(), 0
    with tempfile.TemporaryDirectory(dir=place) as folder:
        path = Path(folder, "x.arrow")
        write(path, 0, durable=False)

        def replace() -> None:
            with ipc.new_file(path, durable=durable, append=append) as writer:
                writer.write(batch)

        for count in interrupted(replace, atomic_file, existing, targets):
            assert descriptors() <= before, count  # threads of tests before this one may end meanwhile
            assert os.listdir(folder) == ["x.arrow"], count
            if (found := column_of(path)) != [0]:
                assert found == ([0, 1] if append else [1])
                write(path, 0, durable=False)
    assert count > 400


# -- what becomes of a file ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [Path, Path.as_uri])
@pytest.mark.parametrize("durable", [False, True])
def test_the_old_file_is_there_until_the_new_one_is_complete(old, durable, name):
    writer = ipc.new_file(name(old), durable=durable)
    writer.write(batch_of(1))
    assert column_of(old) == [0]
    (hidden,) = {*os.listdir(old.parent)} - {old.name}
    assert re.fullmatch(rf"\.x\.arrow\.{os.getpid()}\.[0-9a-f]+\.tmp", hidden)
    writer.close()
    assert column_of(old) == [1]
    assert os.listdir(old.parent) == [old.name]
    writer.close()


#: Arguments that no writer takes, or none that writes `batch_of(1)`.
REFUSED: list[dict[str, object]] = [
    {"compression": "nope"},
    {"compression": {"no": "lz4"}},
    {"compression": "lz4", "metadata_version": "V4"},
    {"compression_level": 1},
    {"compression": "zstd", "compression_level": 99},
    {"compression": "zstd", "min_space_savings": 2},
    {"alignment": 5},
    {"metadata_version": "V9"},
    {"coalesce_rows": -1},
    {"coalesce_rows": "many"},
    {"statistics": ["nope"]},
    {"statistics": 5},
    {"checksum": True, "metadata_version": "V4"},
    {"options": 5},
    {"metadata": 7},
    {"schema": 5},
    {"schema": "x"},
    {"nope": True},
]


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("begin", [ipc.new_file, ipc.new_stream])
@pytest.mark.parametrize("there", [False, True])
def test_a_writer_that_could_not_begin_or_was_left_leaves_the_folder_as_it_was(tmp_path, begin, append, there):
    path = tmp_path / "x"
    if there:
        with begin(path, durable=False) as writer:
            writer.write(batch_of(0))
    (tmp_path / "link").symlink_to(path)
    before = [os.lstat(each) for each in sorted(tmp_path.iterdir())]
    content, opened = there and path.read_bytes(), descriptors()

    def is_untouched() -> bool:
        for each, found in zip(sorted(tmp_path.iterdir()), before, strict=True):
            now = os.lstat(each)
            assert all(getattr(now, name) == getattr(found, name) for name in ("st_ino", "st_size", "st_mtime_ns"))
        return content == (there and path.read_bytes()) and descriptors() <= opened  # threads of earlier tests end

    for arguments in REFUSED:
        for name in (path, tmp_path / "link"):
            with pytest.raises((UsageError, TypeError, ValueError, ipc.ArrowIpcError)):
                begin(name, **{"schema": batch_of(1).schema, "append": append, **arguments})
            assert is_untouched(), arguments
    if not (append and there):
        with pytest.raises(UsageError, match="nothing was written and no schema was given"):
            begin(path, append=append).close()
        assert is_untouched()
    with pytest.raises(ZeroDivisionError), begin(path, append=append) as writer:  # noqa: PT012
        if begin is ipc.new_file or not append:  # else it goes to the stream at once
            writer.write(batch_of(1))
        raise ZeroDivisionError
    assert is_untouched()


def end_while_writing(path: str) -> None:
    """Several children, each of which ends in its own way while it has a writer."""
    for how in ("exit", "error", "cycle", "end"):
        if child := os.fork():
            os.waitpid(child, 0)
            assert (column_of(path), os.listdir(os.path.dirname(path))) == ([0], ["x.arrow"]), how
            continue
        writer = ipc.new_file(path)
        writer.write(batch_of(1, 2))
        sys.kept_alive = kept = [writer]
        if how == "exit":
            sys.exit(3)
        elif how == "error":
            raise RuntimeError
        elif how == "cycle":
            kept.append(kept)
            del sys.kept_alive
        return


def test_the_end_of_the_interpreter_leaves_the_old_file(old):
    shown = run_function(end_while_writing, old, env={**environment(), "PYTHONWARNINGS": "always::ResourceWarning"})
    assert (shown.returncode, shown.stderr.count("was never closed")) == (0, 4), shown.stderr


def fork_a_child_that_ends() -> None:
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def fork_while_writing(path: str) -> None:
    writer = ipc.new_file(path)
    writer.write(batch_of(1, 2))
    fork_a_child_that_ends()
    writer.close()
    with ipc.new_file(path + "2") as writer:
        writer.write(batch_of(1, 2))
        fork_a_child_that_ends()


def test_a_forked_child_that_ends_does_not_take_the_file_along(old):
    printed(run_function(fork_while_writing, old))
    assert column_of(old) == column_of(str(old) + "2") == [1, 2]
    assert sorted(os.listdir(old.parent)) == [old.name, old.name + "2"]


# -- failures of the disk ------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
def test_a_folder_that_disappears_is_an_error_with_the_path(tmp_path, durable):
    (tmp_path / "gone").mkdir()
    path = tmp_path / "gone/x.arrow"
    writer = ipc.new_file(path, durable=durable)
    writer.write(batch_of(1))
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(FileNotFoundError) as caught:
        writer.close()
    assert caught.value.filename == str(path)
    assert ".tmp" not in str(caught.value)
    writer.close()


def test_a_folder_that_took_the_name_meanwhile_stays(tmp_path):
    writer = ipc.new_file(tmp_path / "x")
    writer.write(batch_of(1))
    (tmp_path / "x").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        writer.close()
    assert caught.value.filename == str(tmp_path / "x")
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", errno.ENOENT),
        ("folder", errno.EISDIR),
        ("folder/", errno.EISDIR),
        ("new/", errno.EISDIR),
        ("missing/x", errno.ENOENT),
        ("file://HERE/missing/x", errno.ENOENT),
        ("file://HERE/folder", errno.EISDIR),
        ("file/x", errno.ENOTDIR),
        ("loop", errno.ELOOP),
        ("n" * 300, errno.ENAMETOOLONG),
    ],
)
def test_paths_that_cannot_be_are_refused_at_once_as_open_does(tmp_path, monkeypatch, path, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(os.listdir(tmp_path))
    path = path.replace("HERE", str(tmp_path))
    with pytest.raises(OSError) as caught:  # noqa: PT011 - compared below
        ipc.new_file(path)
    assert (caught.value.errno, caught.value.filename) == (code, path)
    assert sorted(os.listdir(tmp_path)) == before


# -- names, modes, links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_new_file_keeps_the_mode_of_the_old_one(old, mode):
    old.chmod(mode)
    write(old, 1)
    assert stat.S_IMODE(old.stat().st_mode) == mode


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_first_file_obeys_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        write(tmp_path / "x", 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o666 & ~mask


def test_a_link_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/x")
    for number in (1, 2):
        write(tmp_path / "link", number)
        assert (tmp_path / "link").is_symlink()
        assert column_of(tmp_path / "there/x") == [number]
    assert os.listdir(tmp_path / "there") == ["x"]


def test_a_relative_path_means_what_it_meant_at_the_beginning(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    writer = ipc.new_file("x")
    monkeypatch.chdir(tmp_path / "b")
    writer.write(batch_of(1))
    writer.close()
    assert os.listdir(tmp_path / "a") == ["x"]
    assert os.listdir(tmp_path / "b") == []


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127, "𝄞" * 63, ".hidden", "a b\n'\"%s{}", "x.tmp", "\udcff"])
def test_any_name_that_a_file_may_have(tmp_path, name):
    write(tmp_path / name, 1)
    assert column_of(tmp_path / name) == [1]
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("durable", [False, True])
def test_a_durable_file_and_its_name_are_brought_to_the_disk(tmp_path, monkeypatch, durable):
    path, calls = tmp_path / "x", []

    def spied(name: str, what: Callable[..., str]) -> None:
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *of: (calls.append((name, what(*of))), call(*of))[1])

    spied("fsync", lambda number: os.readlink(f"/proc/self/fd/{number}"))
    spied("replace", lambda _, target: str(target))
    write(path, 1, durable=durable)
    if not durable:
        assert calls == [("replace", str(path))]
        return
    assert calls[1:] == [("replace", str(path)), ("fsync", str(tmp_path))]
    assert re.fullmatch(rf"{tmp_path}/\.x\..*\.tmp", calls[0][1])


@pytest.mark.parametrize(("name", "words"), [("a\0b", "zero byte|null byte"), ("a\ud800", "surrogates not allowed")])
@pytest.mark.parametrize(
    "call",
    [
        ipc.new_file,
        ipc.new_stream,
        lambda path: ipc.new_file(path, append=True),
        lambda path: ipc.new_stream(path, append=True),
        lambda path: ipc.new_file(f"file://{path}".replace("\0", "%00")),
        lambda path: ipc.recover(batch_of(1).schema.serialize(), into=path),
        lambda path: ipc.open_stream(path, follow=True, timeout=0),
        ipc.open,
    ],
)
def test_a_path_that_no_file_can_have_is_refused_with_a_sentence(tmp_path, name, words, call):
    with pytest.raises(UsageError, match=f"path.*({words})"):
        call(f"{tmp_path}/{name}")
    assert not os.listdir(tmp_path)


# -- URLs ----------------------------------------------------------------------------------------------------


def test_a_url_shows_complete_files_only():
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    url, path = "memory://arrowipc/x.arrow", "/arrowipc/x.arrow"
    for number in (0, 1):
        writer = ipc.new_file(url)
        writer.write(batch_of(number))
        assert not system.exists(path) if number == 0 else column_of(url) == [0]
        writer.close()
        assert column_of(url) == [number]
    with pytest.raises(ZeroDivisionError), ipc.new_stream(url) as writer:  # noqa: PT012
        writer.write(batch_of(2))
        raise ZeroDivisionError
    assert column_of(url) == [1]
    assert system.ls("/arrowipc", detail=False) == [path]
    # A transaction of somebody else has no part in it.
    with system.transaction:
        pass
    assert column_of(url) == [1]
    system.rm("/arrowipc", recursive=True)


@pytest.mark.parametrize("call", ["_open", "write", "close", "mv"])
def test_errors_of_a_file_system_are_oserrors_that_name_the_url(monkeypatch, call):
    fsspec = pytest.importorskip("fsspec")
    from fsspec.implementations import memory

    class LibraryError(Exception):
        pass

    def fail(*_: object, **__: object) -> None:
        raise errors.pop(0)

    gc.collect()  # files that tests before this one left are closed now
    url, errors = "memory://arrowipc/x.arrow", [LibraryError("of\nit"), OSError(errno.ENOSPC, "full")]
    monkeypatch.setattr(memory.MemoryFileSystem if call in ("_open", "mv") else memory.MemoryFile, call, fail)
    for words, code in (("LibraryError: of", None), ("full", errno.ENOSPC)):
        with pytest.raises(OSError, match=f"^{url}: .*{words}") as caught:
            write(url, 1)
        assert (caught.value.errno, caught.value.__cause__) == (code, None)
    assert not fsspec.filesystem("memory").exists("/arrowipc/x.arrow")


def test_an_error_of_giving_up_a_url_does_not_hide_the_one_before(monkeypatch):
    pytest.importorskip("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "rm", lambda *_: 1 / 0)
    with pytest.raises(LookupError), ipc.new_stream("memory://x.arrow"):
        raise LookupError
