"""Which files paths mean: hidden names, patterns, folders that may be keys, and links: no folder is visited twice."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers.arrow_columns import file

from arrowipc.errors import UsageError
from arrowipc.sources.files import find_files, passes

SHOWN = ["_k=1/c.arrow", "dt=1/a.arrow", "dt=2/x=3/b.arrow"]
NAMES = (*SHOWN, "_s/d.arrow", ".h=1/e.arrow", "dt=1/f._COPYING_")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in NAMES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "plain", "behind"),
    [
        ("", [f"/{name}" for name in SHOWN], SHOWN),
        ("/dt=*", ["/dt=1/a.arrow", "/dt=2/x=3/b.arrow"], ["a.arrow", "x=3/b.arrow"]),
        ("/*/*.arrow", ["/_k=1/c.arrow", "/dt=1/a.arrow"], ["", ""]),
        ("/{dt=1,dt=2}", ["/dt=1/a.arrow", "/dt=2/x=3/b.arrow"], ["a.arrow", "x=3/b.arrow"]),
        ("/dt=2/**/*.arrow", ["/x=3/b.arrow"], ["x=3/b.arrow"]),
        ("/dt=1/a.arrow", None, [""]),
    ],
)
def test_folders_below_what_was_asked_for(tree: Path, pattern: str, plain: list[str] | None, behind: list[str]) -> None:
    asked = f"{tree}{pattern}"
    assert [file.below for file in find_files([asked])] == ([asked] if plain is None else plain)
    for path in (asked, f"local://{asked}"):
        assert [file.below for file in find_files([path], behind_matches=True)] == behind


def test_folders_below_urls() -> None:
    import fsspec

    system = fsspec.filesystem("memory")
    system.pipe_file("/below/dt=1/a.arrow", b"x")
    try:
        assert [file.below for file in find_files(["memory://below"], behind_matches=True)] == ["dt=1/a.arrow"]
        assert [file.below for file in find_files(["memory://below/dt=*"], behind_matches=True)] == ["a.arrow"]
    finally:
        system.rm("/below", recursive=True)


@pytest.mark.parametrize("pattern", ["**", "dt=2/**", "{*,dt=1/*}", "{dt=1,dt=1}", "{dt=2/**,**/b.arrow}"])
def test_a_pattern_gives_each_file_once_also_of_urls(tree: Path, pattern: str) -> None:
    """The pattern may match a folder and files in it, and several of its alternatives the same file."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    system.pipe({f"/once/{name}": b"x" for name in NAMES})
    try:
        remote = [file.path.removeprefix("memory:///once/") for file in find_files([f"memory://once/{pattern}"])]
        assert remote == [os.path.relpath(file.path, tree) for file in find_files([f"{tree}/{pattern}"])]
    finally:
        system.rm("/once", recursive=True)


def test_a_url_of_this_machine_may_be_a_pattern(tree: Path) -> None:
    for pattern in ("dt=?/*.arrow", "dt=[12]", "{_k,dt}=1/*"):
        wanted = find_files([f"{tree}/{pattern}"])
        assert find_files([f"file://{tree}/{pattern}"]) == find_files([f"file:{tree}/{pattern}"]) == wanted


def test_a_folder_that_looks_like_a_pattern_is_one(tmp_path: Path) -> None:
    (tmp_path / "a[1]" / "k=1").mkdir(parents=True)
    (tmp_path / "a[1]" / "k=1" / "x.arrow").write_bytes(b"x")
    assert [file.below for file in find_files([str(tmp_path / "a[1]")], behind_matches=True)] == ["k=1/x.arrow"]


def test_patterns_for_names(tree: Path) -> None:
    assert passes("/x/a.arrow", "{a,b}.arrow")
    assert not passes("/a.arrow/c", "{a,b}.arrow")
    assert [passes(name, "[^a]*") for name in ("a", "b", "A")] == [False, True, True]
    assert [Path(file.path).name for file in find_files([str(tree)], "{a,b}.*")] == ["a.arrow", "b.arrow"]
    with pytest.raises(UsageError, match="matches 'x"):
        find_files([str(tree / "dt=1" / "a.arrow")], "x*")


def put(path: Path, *values: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file(pa.record_batch({"id": pa.array(values, pa.int64())})))
    return path


def found(root: Path | str, **options: Any) -> list[str]:
    """Names of the files that a read finds, with every way in asked."""
    base = str(root).split("*")[0]
    names = [os.path.relpath(each.path, base) for each in find_files([str(root)], **options)]
    for scheme in ("file", "local") if "*" not in str(root) else ():
        assert names == [os.path.relpath(each.path, base) for each in find_files([f"{scheme}://{root}"], **options)]
    return names


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A directory with links to a file, to directories outside and inside, and in a circle."""
    root = tmp_path / "root"
    put(root / "a.arrow", 1)
    put(root / "z" / "b.arrow", 2)
    put(tmp_path / "outside" / "c.arrow", 3)
    put(tmp_path / "outside" / "deep" / "d.arrow", 4)
    put(tmp_path / "outside" / "_hidden.arrow", 5)
    put(tmp_path / "single.arrow", 6)
    (root / "file.arrow").symlink_to(tmp_path / "single.arrow")
    (root / "m").symlink_to(tmp_path / "outside")
    (root / "n").symlink_to(tmp_path / "outside")
    (root / "inner").symlink_to("z")
    (root / "self").symlink_to(".")
    (root / "self2").symlink_to(".")
    (tmp_path / "outside" / "back").symlink_to(root)
    return root


SEEN = ["a.arrow", "file.arrow", "m/c.arrow", "m/deep/d.arrow", "z/b.arrow"]


def test_links_are_followed_and_every_directory_is_visited_once(linked: Path, tmp_path: Path) -> None:
    assert found(linked) == SEEN
    assert found(linked, name_filter="*[bd].arrow") == ["m/deep/d.arrow", "z/b.arrow"]
    (tmp_path / "link").symlink_to(linked)
    assert found(tmp_path / "link") == SEEN
    # A link that comes later takes no file away from the name under which it was known.
    (linked / "aaa").symlink_to("z")
    assert found(linked) == SEEN


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("**/*.arrow", SEEN),
        ("**", SEEN),
        ("**/deep", ["m/deep/d.arrow"]),
        ("**/deep/**", ["m/deep/d.arrow"]),
        ("**/z/*.arrow", ["z/b.arrow"]),
        ("*", SEEN),
        ("*/*.arrow", ["m/c.arrow", "self/a.arrow", "self/file.arrow", "z/b.arrow"]),
        ("m/*.arrow", ["m/c.arrow"]),
        ("{m,z}/*.arrow", ["m/c.arrow", "z/b.arrow"]),
        ("**/none/*", []),
    ],
)
def test_patterns_follow_links_and_come_to_an_end(linked: Path, pattern: str, names: list[str]) -> None:
    if names:
        assert sorted(os.path.relpath(each.path, linked) for each in find_files([f"{linked}/{pattern}"])) == names
    else:
        with pytest.raises(UsageError, match="no such file"):
            find_files([f"{linked}/{pattern}"])


@pytest.mark.parametrize(
    ("name", "target"), [("dangling.arrow", "nothing"), ("loop.arrow", "loop.arrow"), ("folder", "a.arrow/none")]
)
def test_links_that_lead_nowhere_are_named(tmp_path: Path, name: str, target: str) -> None:
    root = tmp_path / "root"
    put(root / "a.arrow", 1)
    (root / name).symlink_to(target)
    words = f"{name}: a link to .*, whose target does not exist"
    for path in (root, f"{root}/*", f"{root}/**", root / name, tmp_path / "*"):
        with pytest.raises(UsageError, match=words):
            find_files([str(path)])
    assert found(root, ignore_missing=True) == ["a.arrow"]
    (root / name).rename(root / f"_{name}")
    assert found(root) == ["a.arrow"]


def test_a_directory_that_cannot_be_read_is_an_error() -> None:
    with tempfile.TemporaryDirectory() as folder:
        put(Path(folder, "a.arrow"), 1)
        put(Path(folder, "locked", "b.arrow"), 2)
        os.chmod(folder, 0o755)
        os.chmod(Path(folder, "locked"), 0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # nobody: the superuser may read everything
        try:
            with pytest.raises(PermissionError, match="locked"):
                find_files([folder])
        finally:
            if user == 0:
                os.seteuid(user)
            os.chmod(Path(folder, "locked"), 0o700)


@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_files_named_as_arrow_data_come_first(scheme, tmp_path):
    """Of a folder, at any depth; what a pattern matches or a path names counts always."""
    fsspec = pytest.importorskip("fsspec")
    root = f"{scheme}/first" if scheme else str(tmp_path)
    system = fsspec.filesystem("memory" if scheme else "file")
    names = "x/data-0.arrow y/b.ARROWS c.feather y/d.ipc state.json x/e _SUCCESS y/.data.arrow.crc none/e none/f.json"
    for name in names.split():
        system.makedirs(f"{root}/{os.path.dirname(name)}", exist_ok=True)
        system.pipe_file(f"{root}/{name}", b"")

    def found(path: str, **options: Any) -> list[str]:
        return [file.path[len(root) + 1 :] for file in find_files([f"{root}{path}"], **options)]

    assert found("", arrow_first=True) == ["c.feather", "x/data-0.arrow", "y/b.ARROWS", "y/d.ipc"]
    assert found("/none", arrow_first=True) == ["none/e", "none/f.json"]
    assert found("/x/*", arrow_first=True) == ["x/data-0.arrow", "x/e"]
    assert found("/state.json", arrow_first=True) == ["state.json"]
    assert "state.json" in found("")
