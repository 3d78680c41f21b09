"""The log of Spark's streaming sink: only files count that it lists, whatever is in it."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import arrowipc
from arrowipc.errors import FormatError, LimitError, UnsupportedError
from arrowipc.sources import spark_log
from arrowipc.sources.files import find_files
from arrowipc.sources.spark_log import LOG, local_log, log_files

NAMES = ("a.arrow", "b.arrow", "k=x%20y/c d.arrow", "k=2/e.arrow", "stray.arrow")


def line(path: str, action: str = "add", **more: Any) -> str:
    entry = {"path": path, "size": 5, "isDir": False, "modificationTime": 1, "blockReplication": 1, "blockSize": 1}
    return json.dumps({**entry, "action": action, **more})


def uri(folder: Path, name: str) -> str:
    """A path as Hadoop's ``Path.toUri`` spells it."""
    return f"file://{folder}/{name}".replace("%", "%25").replace(" ", "%20")


def log(folder: Path, name: str, *lines: str) -> None:
    (folder / LOG).mkdir(exist_ok=True)
    (folder / LOG / name).write_text("\n".join(["v1", *lines]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "ou t"
    for number, name in enumerate(NAMES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        with arrowipc.new_file(root / name) as writer:
            writer.write(pa.record_batch({"x": [number]}))
    return root


def found(path: Any, **options: Any) -> list[str]:
    return sorted(file.path.rsplit("ou t/", 1)[-1] for file in find_files([str(path)], **options))


def test_only_listed_files_count(folder: Path) -> None:
    assert found(folder) == sorted(NAMES)
    log(folder, "0", line(uri(folder, NAMES[0])), line(uri(folder, NAMES[2])))
    log(folder, "1")
    log(folder, "2", line(uri(folder, NAMES[3])))
    wanted = sorted([NAMES[0], NAMES[2], NAMES[3]])
    assert local_log(str(folder)) == {*wanted}
    for path in (folder, f"file://{folder}", f"local://{folder}", f"{folder}/../*", f"{folder}/**/*.arrow"):
        assert found(path) == wanted, path
    # Folders of keys go by the log above them, and a file that is named by itself counts.
    assert found(folder / "k=2") == [NAMES[3]]
    assert found(folder / "stray.arrow") == ["stray.arrow"]
    assert sorted(arrowipc.open_dataset(folder).read_all().to_pydict()["x"]) == [0, 2, 3]
    (folder.parent / "link").symlink_to(folder)
    assert len(found(folder.parent / "link")) == 3


def test_compact_files_stand_for_all_before_them(folder: Path) -> None:
    for number in range(9):
        log(folder, str(number), line(uri(folder, NAMES[0])))
    log(folder, "9.compact", line(uri(folder, NAMES[1])))
    (folder / LOG / ".10.crc").write_text("no log")
    assert found(folder) == [NAMES[1]]
    log(folder, "10", line(uri(folder, NAMES[3])), line(uri(folder, NAMES[1]), "delete"))
    assert found(folder) == [NAMES[3]]
    for number in range(9):
        (folder / LOG / str(number)).unlink()
    assert found(folder) == [NAMES[3]]


def test_a_log_without_entries_has_no_files(folder: Path) -> None:
    (folder / LOG).mkdir()
    assert find_files([str(folder)], may_be_empty=True) == []
    assert local_log(str(folder.parent)) is None


def test_a_pipe_in_the_log_is_no_file_of_it(folder: Path) -> None:
    (folder / LOG).mkdir()
    os.mkfifo(folder / LOG / "0")
    writer = os.open(folder / LOG / "0", os.O_RDWR)
    with pytest.raises(FormatError, match="expected v1 in the first line, found ''"):
        local_log(str(folder))
    os.close(writer)


def test_files_of_the_log_that_are_missing() -> None:
    assert log_files(["2", "0", "1", ".3.tmp", "x", "01"], "") == ["0", "1", "2"]
    assert log_files(["9.compact", "8", "10", "3"], "") == ["9.compact", "10"]
    for names, missing in (["0", "2"], 1), (["1"], 0), (["9.compact", "12", "11"], 10), (["0", "9" * 18], 1):
        with pytest.raises(FormatError, match=f"here: .* has no file {missing},"):
            log_files(names, "here")


def test_listed_files_that_are_gone(folder: Path) -> None:
    log(folder, "0", line(uri(folder, NAMES[0])), line(uri(folder, "gone.arrow")), line(uri(folder, "gone.txt")))
    with pytest.raises(FileNotFoundError, match=r"gone\.arrow"):
        found(folder, name_filter="*.arrow")
    assert found(folder, ignore_missing=True) == [NAMES[0]]


BAD = {
    "empty": "",
    "another version": "v0\n",
    "no version": '{"path": "x"}',
    "no JSON": "v1\n{",
    "deep": "v1\n" + "[" * 100_000,
    "large number": 'v1\n{"path":"/x","size":' + "9" * 5000 + "}",
    "no object": "v1\n[]",
    "no path": "v1\n{}",
    "a folder": "v1\n" + line("FOLDER/a.arrow", isDir=True),
    "negative": "v1\n" + line("FOLDER/a.arrow", size=-1),
    "no number": "v1\n" + line("FOLDER/a.arrow", size=True),
    "action": "v1\n" + line("FOLDER/a.arrow", "move"),
    "elsewhere": "v1\n" + line("file:///etc/passwd"),
    "up": "v1\n" + line("FOLDER/../x.arrow"),
    "up, escaped": "v1\n" + line("FOLDER/%2E%2e/x.arrow"),
    "slash, escaped": "v1\n" + line("FOLDER/..%2Fx.arrow"),
    "itself": "v1\n" + line("FOLDER/"),
    "twice": "v1\n" + line("FOLDER//a.arrow"),
    "relative": "v1\n" + line("a.arrow"),
    "null": "v1\n" + line("FOLDER/a%00.arrow"),
    "prefix": "v1\n" + line("FOLDERx/a.arrow"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_log_is_named(folder: Path, name: str) -> None:
    log(folder, "0")
    log(folder, "1")
    (folder / LOG / "1").write_text(BAD[name].replace("FOLDER", uri(folder, "")[:-1]))
    with pytest.raises(FormatError, match=f"{LOG}/1"):
        find_files([str(folder)])


def test_later_versions_and_limits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log(folder, "0", line(uri(folder, NAMES[0])))
    monkeypatch.setattr(spark_log, "LARGEST", 100)
    with pytest.raises(LimitError, match="100 bytes"):
        find_files([str(folder)])
    (folder / LOG / "0").write_text("v2\n")
    with pytest.raises(UnsupportedError, match="version v2"):
        find_files([str(folder)])
    (folder / LOG / "0").write_bytes(b"v1\n\xff")
    with pytest.raises(FormatError, match="UTF-8"):
        find_files([str(folder)])


@pytest.mark.parametrize("scheme", ["memory://", "s3a://bucket"])
def test_logs_of_remote_folders(scheme: str) -> None:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    root = "/bucket/out" if scheme.endswith("bucket") else "/out"
    lines = [line(f"{scheme}/out/a.arrow"), line(f"{scheme}/out/k=1/b.arrow")]
    for name in ("a.arrow", "k=1/b.arrow", "stray.arrow"):
        system.pipe_file(f"{root}/{name}", b"x")
    system.pipe_file(f"{root}/{LOG}/0", "\n".join(["v1", *lines]).encode())
    try:
        for path, names in ("", ["a.arrow", "k=1/b.arrow"]), ("/k=1", ["k=1/b.arrow"]), ("/*.arrow", ["a.arrow"]):
            assert [file.path.partition("out/")[2] for file in find_files([f"memory:/{root}{path}"])] == names
        system.pipe_file(f"{root}/{LOG}/1", b"v1\n" + line("memory://elsewhere/x").encode())
        with pytest.raises(FormatError, match=f"{LOG}/1"):
            find_files([f"memory:/{root}"])
    finally:
        system.rm(root, recursive=True)


def test_a_folder_that_was_moved_says_so(folder: Path) -> None:
    log(folder, "0", line(uri(folder, NAMES[0])))
    shutil.move(folder, folder.parent / "moved")
    with pytest.raises(FormatError, match="if the folder was moved"):
        find_files([str(folder.parent / "moved")])
