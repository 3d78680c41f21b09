"""What editors and type checkers see of the package: every public name with its type, and mistakes found (issue 23)."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import arrowipc as ipc

PACKAGE = Path(ipc.__file__).parent

#: What a user writes, and where each line is wrong: the attribute or argument that a checker has to name.
MISTAKES = """\
import arrowipc as ipc
from arrowipc.types import field, int64

schema = ipc.Schema([field("x", int64())])
with ipc.open("x.arrow", columns=["x"]) as reader:
    table: ipc.Table = reader.read_all()
    values: list[object] = table.to_pydict()["x"]
batch: ipc.RecordBatch = ipc.RecordBatch.from_pydict({"x": [1]}, schema)
ipc.read_tabel("x.arrow")  # read_tabel
ipc.open("x.arrow", colums=["x"])  # open
ipc.open_file("x.arrow", colums=["x"])  # colums
ipc.open_stream(b"", validate="ful")  # ful
batch.to_pydct()  # to_pydct
number: int = batch.schema  # Schema
ipc.new_file("y.arrow", compresion="zstd")  # compresion
batch.slice("1")  # SupportsIndex
ipc.types.int65()  # int65
ipc.open(5)  # open
ipc.open_stream(None)  # open_stream
with ipc.new_stream(bytearray()) as writer:
    writer.write(5)  # write
rows: int = ipc.open_stream("x.arrows").count_rows() + len(ipc.open("x.arrow")[0])
indexed: ipc.RecordBatchFileReader = ipc.open("x.arrows", index=True)
indexed = ipc.open("x.arrow")  # RecordBatchStreamReader
height: int = batch.to_polars().height + table.to_polars().heigth  # heigth
"""


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A tool of the environment that the tests run in, which is also where it looks for the package."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    child = {**os.environ, "PATH": path, "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=cwd, env=child, capture_output=True, text=True, timeout=300
    )


def wrong_lines() -> dict[int, str]:
    lines = enumerate(MISTAKES.splitlines(), 1)
    return {number: line.partition("  # ")[2] for number, line in lines if "  # " in line}


def check_found(printed: str, pattern: str) -> None:
    """Each planted mistake is named in an error on its line, and nothing else is."""
    errors: dict[int, str] = {}
    for line in printed.splitlines():
        if "program.py:" in line and pattern in line:
            number = int(line.split("program.py:")[1].split(":")[0])
            errors[number] = errors.get(number, "") + line
        elif errors:
            errors[max(errors)] += line
    assert list(errors) == list(wrong_lines()), printed
    for number, word in wrong_lines().items():
        assert word in errors[number], (number, word, errors[number])


@pytest.mark.nosanitize  # only reads sources
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [pytest.param("mypy", ["--strict", "--no-incremental"], marks=pytest.mark.slow), ("pyright", [])],
)
def test_mistakes_are_found_by(tool, arguments, tmp_path):
    (tmp_path / "program.py").write_text(MISTAKES)
    check_found(python(tool, *arguments, "program.py", cwd=tmp_path).stdout, "error:")


@pytest.mark.nosanitize
@pytest.mark.skipif(
    "site-packages" not in str(PACKAGE), reason="the checkout itself is installed (make dev): pyright wants a package"
)
def test_every_public_name_has_a_known_type(tmp_path):
    """What libraries without types (pyarrow, pyspark, older NumPy) leave open does not count."""
    done = python("pyright", "--ignoreexternal", "--verifytypes", "arrowipc", cwd=tmp_path)
    assert "Type completeness score: 100%" in done.stdout, done.stdout[-5000:]


def test_the_stub_of_the_package_names_what_the_package_gives():
    named = {}
    for node in ast.parse((PACKAGE / "__init__.pyi").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            assert all(alias.asname == alias.name for alias in node.names)
            named |= {alias.name: node.module for alias in node.names}
    modules = {name for name, home in named.items() if home == "arrowipc"}
    assert modules == {name for name in dir(ipc) if inspect.ismodule(getattr(ipc, name))}
    assert {name: home for name, home in named.items() if name not in modules} == ipc._HOMES


def test_dir_has_public_names_only():
    assert set(dir(ipc)) == {*ipc.__all__, *ipc._MODULES}
    assert all(importlib.util.find_spec(f"arrowipc.{name}") for name in ipc._MODULES)


@pytest.mark.parametrize("name", [name for name in ipc.__all__ if inspect.isfunction(getattr(ipc, name))])
def test_help_shows_types_without_quotes_and_says_what_parameters_mean(name):
    function = getattr(ipc, name)
    signature = inspect.signature(function)
    assert "'" not in str(signature.replace(parameters=[])), signature
    text = inspect.getdoc(function)
    for parameter in signature.parameters.values():
        assert str(parameter.annotation) == repr(parameter.annotation), parameter
        assert parameter.name in text, parameter.name
