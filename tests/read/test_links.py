"""Links in directories are followed, no directory is visited twice, and broken ones are named."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers.arrow_columns import file

from arrowipc.errors import UsageError
from arrowipc.read.files import find_files

pytestmark = pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links")

NOBODY = 65534


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
def tree(tmp_path: Path) -> Path:
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


def test_links_are_followed_and_every_directory_is_visited_once(tree: Path, tmp_path: Path) -> None:
    assert found(tree) == SEEN
    assert found(tree, name_filter="*[bd].arrow") == ["m/deep/d.arrow", "z/b.arrow"]
    (tmp_path / "link").symlink_to(tree)
    assert found(tmp_path / "link") == SEEN
    # A link that comes later takes no file away from the name under which it was known.
    (tree / "aaa").symlink_to("z")
    assert found(tree) == SEEN


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
def test_patterns_follow_links_and_come_to_an_end(tree: Path, pattern: str, names: list[str]) -> None:
    if names:
        assert sorted(os.path.relpath(each.path, tree) for each in find_files([f"{tree}/{pattern}"])) == names
    else:
        with pytest.raises(UsageError, match="no such file"):
            find_files([f"{tree}/{pattern}"])


BROKEN: list[tuple[str, Callable[[Path], Any]]] = [
    ("dangling.arrow", lambda path: path.symlink_to("nothing")),
    ("loop.arrow", lambda path: path.symlink_to(path.name)),
    ("folder", lambda path: path.symlink_to("a.arrow/none")),
]


@pytest.mark.parametrize(("name", "make"), BROKEN, ids=[name for name, _ in BROKEN])
def test_links_that_lead_nowhere_are_named(tmp_path: Path, name: str, make: Any) -> None:
    root = tmp_path / "root"
    put(root / "a.arrow", 1)
    make(root / name)
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
            os.seteuid(NOBODY)  # the superuser may read everything
        try:
            with pytest.raises(PermissionError, match="locked"):
                find_files([folder])
        finally:
            if user == 0:
                os.seteuid(user)
            os.chmod(Path(folder, "locked"), 0o700)
