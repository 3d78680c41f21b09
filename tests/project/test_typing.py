"""What editors and type checkers see of the package: every public name with its type, and mistakes found (issue 23)."""

import ast
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import pages, processes

import arrowipc as ipc

PACKAGE = Path(ipc.__file__).parent
#: What type checkers say of correct programs: pyarrow has no types, and makes its functions when it is imported.
OTHERS = re.compile(r'import-untyped|"pyarrow.compute"')
#: torch's types know data sets only of torch's own class, and not what `default_convert` returns.
TORCH = {"docs_guides_training.py", "train_on_rows.py"}

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
    if "site-packages" not in str(PACKAGE):
        child["MYPYPATH"] = str(PACKAGE.parent)
    return processes.run_module(*arguments, cwd=cwd, env=child, timeout=300)


def lay_programs(folder: Path) -> list[str]:
    """Each page's blocks as one program with the page's line numbers, the examples, and the mistakes; their names."""
    programs = {"mistakes.py": MISTAKES}
    for page in pages.PAGES:
        code = "from pyspark.sql import SparkSession; spark = SparkSession.builder.getOrCreate()\n"
        found = [block for block in pages.blocks(page, "python") if block.skip is None]
        for block in found:
            code += "\n" * (block.line - 1 - code.count("\n")) + block.code
        if found:
            programs[re.sub(r"\W", "_", pages.name_of(page).removesuffix(".md")) + ".py"] = code
    programs |= {example.name: example.read_text() for example in (pages.ROOT / "examples").glob("*.py")}
    programs = {name: code for name, code in programs.items() if name not in TORCH}
    for name, code in programs.items():
        (folder / name).write_text(code)
    extra = {"extraPaths": [str(PACKAGE.parent)], "reportMissingModuleSource": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(extra))
    return sorted(programs)


# A page is many programs: a name may have another type in the next block.
MYPY = ("mypy", "--strict", "--allow-redefinition", "--no-incremental")


@pytest.fixture(scope="module", params=[MYPY, ("pyright", "--pythonpath")], ids=" ".join)
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int, str]]:
    """What a type checker says of all programs: of which, in which line, and its words."""
    tool, *options = request.param
    pytest.importorskip(tool)
    folder = tmp_path_factory.mktemp("programs")
    names = lay_programs(folder)
    if tool == "pyright":
        options.append(sys.executable)
    done = python(tool, *options, *names, cwd=folder)
    assert done.returncode == 1, done.stdout + done.stderr
    found: list[tuple[str, int, str]] = []
    for line in done.stdout.splitlines():
        if place := re.match(r"\s*(?:\S*/)?(\w+\.py):(\d+)\b.* error: ", line):
            found.append((place[1], int(place[2]), line))
        elif found:  # more words about it
            found[-1] = (*found[-1][:2], found[-1][2] + line)
    return found


@pytest.mark.nosanitize  # only reads sources
@pytest.mark.slow
def test_pages_and_examples_pass_type_checkers_as_printed(errors):
    assert not [error for error in errors if error[0] != "mistakes.py" and not OTHERS.search(error[2])]


@pytest.mark.nosanitize
@pytest.mark.slow
def test_each_mistake_is_named_in_its_line_and_nothing_else_is(errors):
    planted = {n: line.partition("  # ")[2] for n, line in enumerate(MISTAKES.splitlines(), 1) if "  # " in line}
    found: dict[int, str] = {}
    for name, number, words in errors:
        if name == "mistakes.py":
            found[number] = found.get(number, "") + words
    assert [*found] == [*planted]
    for number, word in planted.items():
        assert word in found[number], number


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
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            assert node.module == "arrowipc.types"  # whose factories are names of the package, too
        elif isinstance(node, ast.ImportFrom):
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
