"""Every block of README and docs/ runs where nothing is installed but the wheel and what the page says to install."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from helpers import pages
from project import clean_page

pytestmark = [pytest.mark.slow, pytest.mark.nosanitize]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
#: Packages that a page must say to install.
IMPORTED = r"^(?:import|from) (polars|pyarrow|duckdb|torch|scipy|httpx|aiohttp|obstore|numpy)\b"
#: Spark's own processes have another current directory: the blocks' paths become absolute.
SPARK_PATHS = re.compile(r'((?:load|save|makedirs)\(|(?:count_rows|describe)\(spark, )"')


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that `make test` built."""
    found = sorted((pages.ROOT / "dist").glob(f"arrowipc-*-cp{sys.version_info[0]}{sys.version_info[1]}-*.whl"))
    if not found:
        pytest.skip("there is no wheel in dist/: make test builds one")
    look = [*PIP, "download", "-q", "--no-deps", "-d", str(tmp_path_factory.mktemp("download")), "click"]
    if subprocess.run(look, capture_output=True).returncode:
        pytest.skip("there is no package index")
    return found[-1]


@pytest.fixture(scope="module")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions of this environment: what pages print is that of these."""
    path = tmp_path_factory.mktemp("clean") / "constraints.txt"
    known = {each.name: each.version for each in importlib.metadata.distributions()}
    path.write_text("".join(f"{name}=={version}\n" for name, version in known.items() if name != "arrowipc"))
    return path


def of_wheel(word: str, wheel: Path) -> str:
    """What pip is told: the checkout and its name are the wheel."""
    match = re.fullmatch(r"(?:\.|arrowipc)(\[[\w,]+\])?", word)
    return f"arrowipc{match[1] or ''} @ {wheel.as_uri()}" if match else word


def steps(page: Path, wheel: Path, constraints: Path, folder: Path) -> list[list[object]]:
    """What the page does, in order: installing, commands and code."""
    found: list[list[object]] = [["install", ["--no-deps", str(wheel)]]]
    both = [*pages.blocks(page, "python"), *pages.blocks(page, "console")]
    for block in sorted(both, key=lambda block: block.line):
        where = f"{pages.name_of(page)}:{block.line}"
        if block.language == "python" and block.skip is None:
            code = SPARK_PATHS.sub(rf'\1"{folder}/', block.code) if "spark" in block.words else block.code
            found.append(["python", code, block.output, where])
        for line in re.findall(r"^\$ ([^\n#]*)", block.code, re.MULTILINE) if block.language == "console" else ():
            if line.startswith("pip install"):
                words = [of_wheel(word, wheel) for word in shlex.split(line)[2:]]
                found.append(["install", ["-c", str(constraints), *words]])
            elif block.skip is None and not line.startswith("export "):
                found.append(["command", line])
    return found


def test_pages_say_what_to_install_before_it_is_used() -> None:
    """The pages that import a package name it in a line that installs it."""
    for page in pages.PAGES:
        told = " ".join(
            line
            for block in pages.blocks(page, "console")
            for line in re.findall(r"^\$ pip install ([^\n#]*)", block.code, re.MULTILINE)
        )
        for block in pages.blocks(page, "python"):
            if block.skip is None:
                for name in re.findall(
                    r"^(?:import|from) (polars|pyarrow|duckdb|torch|scipy|httpx)\b", block.code, re.M
                ):
                    assert name in told, f"{pages.name_of(page)}:{block.line} needs {name}"


PAGES = [
    page
    for page in pages.PAGES
    if any(block.skip is None for name in ("python", "console") for block in pages.blocks(page, name))
]


@pytest.mark.parametrize("page", PAGES, ids=pages.name_of)
def test_the_page_runs_with_what_it_says_to_install(page: Path, wheel: Path, constraints: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    folder = tmp_path / "work"
    folder.mkdir()
    told = "".join(block.code for block in pages.blocks(page, "console"))
    if re.search(r"^\$ pip install \.$", told, re.MULTILINE):  # the reader is in a checkout, which is not built
        unbuilt = shutil.ignore_patterns("*.so", "*.jar", "__pycache__")
        shutil.copytree(pages.ROOT / "arrowipc", folder / "arrowipc", ignore=unbuilt)
    pages.lay_files(folder)
    plan = tmp_path / "steps.json"
    plan.write_text(json.dumps(steps(page, wheel, constraints, folder)))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "VIRTUAL"))}
    kept |= dict(re.findall(r"^\$ export (\w+)=(\S+)", told, re.MULTILINE))
    kept["PIP"] = shlex.join(PIP)
    kept["PYSPARK_PYTHON"] = str(environment / "bin/python")
    if "JAVA_HOME" not in kept:
        home = subprocess.run([sys.executable, "-m", "arrowipc.spark.java"], capture_output=True, text=True).stdout
        kept["JAVA_HOME"] = home.strip()
    command = [environment / "bin/python", clean_page.__file__, plan]
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
