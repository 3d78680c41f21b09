"""Which files paths mean: hidden names, patterns for names, and where the folders begin that may be keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from arrowipc.errors import UsageError
from arrowipc.read.files import find_files, is_hidden, passes

NAMES = ("dt=1/a.arrow", "dt=2/x=3/b.arrow", "_k=1/c.arrow", "_s/d.arrow", ".h/e.arrow", "dt=1/f._COPYING_")


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
        (
            "",
            ["/_k=1/c.arrow", "/dt=1/a.arrow", "/dt=2/x=3/b.arrow"],
            ["_k=1/c.arrow", "dt=1/a.arrow", "dt=2/x=3/b.arrow"],
        ),
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


def test_a_folder_that_looks_like_a_pattern_is_one(tmp_path: Path) -> None:
    (tmp_path / "a[1]" / "k=1").mkdir(parents=True)
    (tmp_path / "a[1]" / "k=1" / "x.arrow").write_bytes(b"x")
    assert [file.below for file in find_files([str(tmp_path / "a[1]")], behind_matches=True)] == ["k=1/x.arrow"]


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("a", False),
        ("_a", True),
        (".a", True),
        ("_a=1", False),
        (".a=1", True),
        ("x/_b/c", True),
        ("a._COPYING_", True),
    ],
)
def test_hidden_names(name: str, hidden: bool) -> None:
    assert is_hidden(name) is hidden


def test_patterns_for_names(tree: Path) -> None:
    assert passes("/x/a.arrow", "{a,b}.arrow")
    assert not passes("/a.arrow/c", "{a,b}.arrow")
    assert [passes(name, "[^a]*") for name in ("a", "b", "A")] == [False, True, True]
    assert [Path(file.path).name for file in find_files([str(tree)], "{a,b}.*")] == ["a.arrow", "b.arrow"]
    with pytest.raises(UsageError, match="matches 'x"):
        find_files([str(tree / "dt=1" / "a.arrow")], "x*")
