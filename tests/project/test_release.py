"""What is published: the source archive, a build that cannot start, and what makes wheels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = re.compile(r"PKG-INFO|setup\.cfg|arrowipc\.egg-info/.*")


def tracked() -> list[str]:
    listing = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


# The source archive.


def test_the_source_archive_holds_what_git_tracks(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", "77")
    names = set(tracked())
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    command = [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", "made"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (archive,) = (tmp_path / "made").iterdir()
    with tarfile.open(archive) as opened:
        files = {member.name.partition("/")[2] for member in opened if member.isfile()}
    assert {name for name in files if not GENERATED.fullmatch(name)} == names


# A build that cannot start.


@pytest.mark.parametrize(
    ("compiler", "said"),
    [("no-such-compiler", "no-such-compiler cannot be run"), ("cc -nostdinc", "cc cannot compile")],
)
def test_a_missing_compiler_is_noticed_before_anything_is_translated(compiler: str, said: str, tmp_path: Path) -> None:
    pytest.importorskip("setuptools", "77")
    if compiler.startswith("cc") and shutil.which("cc") is None:
        pytest.skip("there is no compiler that could lack its headers")
    # Its build directory would be the checkout's; Cython is not even imported.
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "pyspark_arrowipc.py"):
        shutil.copy2(ROOT / name, tmp_path)
    (tmp_path / "arrowipc").mkdir()
    (tmp_path / "arrowipc/x.pyx").write_text("this is no Cython\n")
    command = [sys.executable, "setup.py", "-q", "build_ext"]
    environment = {**os.environ, "CC": compiler}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert said in done.stderr
    assert all(word in done.stderr for word in ("apt-get install gcc", "dnf", "apk", "xcode-select", "CC"))
    assert not (tmp_path / "build/c").exists()


def test_workflow_actions_are_pinned_by_hash() -> None:
    # A tag can be moved to other code; the comment says which version the hash is.
    workflows = "\n".join(path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml"))
    used = [each for each in re.findall(r"uses: (.*)", workflows) if not each.startswith("./")]
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []
