"""The table of packages in docs/architecture.md is true: imports point down, and no folder is too full."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "arrowipc"
ROWS = re.findall(
    r"^\| (`?)(\w+)\1 \| (.*) \|$",
    (ROOT / "docs/architecture.md").read_text().split("**One library.**")[0],
    re.MULTILINE,
)
#: Names of the packages, from the lowest to the highest.
PACKAGES = [name for _, name, _ in ROWS if name != "package"]
#: Modules directly in the package -> their row of the table.
AT_THE_TOP = {
    module: name
    for _, name, what in ROWS
    if name in ("base", "public")
    for module in re.findall(r"\w+", what[1:].partition("`")[0])
}
#: The only imports that point to a higher package, or back inside one: a method that users expect on an object is in
#: the package of the object, and its implementation is in a package that needs the object. The method imports it.
UPWARD_TABLE = {
    # A stream that is asked for any batch.
    "reader": "stream_readers",
    # Arrays and batches: PyCapsule methods, constructors, other libraries, pickles, text, NumPy, serialize().
    "columns.array": "cdata.export cdata.import_array columns.record_batch columns.take columns.truncate tensors.dense "
    "decode.from_buffers values.from_python values.pickling values.to_numpy",
    "columns.column": "columns.array columns.record_batch columns.take derived.casts derived.computed "
    "derived.dictionary_encode values.from_python values.libraries values.repr values.to_pandas",
    "columns.record_batch": "cdata.export cdata.import_array columns.take distinct.unifier filters.row_filters "
    "derived.computed decode.from_buffers values.from_python values.pickling values.repr encode.batch_writer",
    "columns.tabular": "columns.array columns.record_batch tensors.dense derived.computed decode.from_buffers "
    "values.from_python values.libraries values.repr values.to_numpy values.to_pandas",
    # Arrays of another type than a schema asks for.
    "values.from_python": "derived.casts",
    # Types and schemas: the PyCapsule method, comparison with those of others and names, children by name, text,
    # to_arrow(), serialize(), empty_table().
    "datatypes": "cdata.export cdata.import_array schemas types values.libraries",
    "schemas": "cdata.import_array metadata.schema_tables tables types values.repr",
    # Messages: pickles and text.
    "decode.framing": "values.pickling values.repr",
    # Tensors: text, pickles and messages.
    "tensors.dense": "tensors.dense_io",
    "tensors.sparse_tensor": "tensors.sparse_io",
}
UPWARD = {module: set(names.split()) for module, names in UPWARD_TABLE.items()}
#: Most files in a folder, a module's .pyx, .pxd and .pyi counted apart.
FULL = 25


def sources() -> list[Path]:
    return sorted(path for ending in ("py", "pyx", "pxd") for path in PACKAGE.rglob(f"*.{ending}"))


def module_of(path: Path) -> str:
    """Its name without the package's, "" for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES: dict[str, list[Path]] = {}
for _path in sources():
    MODULES.setdefault(module_of(_path), []).append(_path)


def package_of(module: str) -> str:
    first = module.partition(".")[0]
    if first == "__main__":
        return "cli"
    return first if first in PACKAGES else AT_THE_TOP[first or "__init__"]


STATEMENT = re.compile(
    r"^([ ]*)(?:from (arrowipc[\w.]*) c?import (\([^)]*\)|.*)|c?import (arrowipc[\w.]+))", re.MULTILINE
)


def run_time_part(text: str) -> str:
    """A module without what only type checkers see."""
    return re.sub(r"^( *)if TYPE_CHECKING:\n(?:\1 +.*\n|\n)*", "", text, flags=re.MULTILINE)


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """Modules of ours that a file imports or cimports, but for type checkers, each with a name that it takes."""
    text = run_time_part(path.read_text())
    text = re.sub(r"^ *>>> .*$", "", text, flags=re.MULTILINE)
    for _, package, names, alone in STATEMENT.findall(text):
        base = (package or alone).removeprefix("arrowipc").removeprefix(".")
        for name in re.findall(r"(\w+)(?: as \w+)?", names) or [""]:
            below = f"{base}.{name}".strip(".")
            yield (below, "") if below in MODULES else (base, name)


#: What every module imports of ours; `arrowipc/__init__.py` names modules as text and imports none.
IMPORTS = {module: {pair for path in paths for pair in imports_of(path)} for module, paths in sorted(MODULES.items())}
#: The modules that every module imports, without those of UPWARD.
DOWNWARD = {
    module: {other for other, _ in pairs if other not in ("", module)} - UPWARD.get(module, set())
    for module, pairs in IMPORTS.items()
}


def test_every_module_has_a_package():
    assert {package_of(module) for module in MODULES} == set(PACKAGES)
    assert {module for module in MODULES if "." not in module and module not in PACKAGES} - {"__main__"} == (
        AT_THE_TOP.keys() - {"__init__"} | {""}
    )


def test_imports_point_down():
    wrong = [
        f"{module} ({package_of(module)}) imports {other} ({package_of(other)})"
        for module in sorted(MODULES.keys() - {""})
        for other in DOWNWARD[module]
        if PACKAGES.index(package_of(other)) > PACKAGES.index(package_of(module))
    ]
    assert not wrong, "from a higher package"


@pytest.mark.parametrize("module", UPWARD)
def test_imports_that_point_up_are_used_and_made_when_they_are_needed(module):
    (path,) = (path for path in sources() if module_of(path) == module and path.suffix != ".pxd")
    statements = STATEMENT.findall(path.read_text())
    at_the_top = {package.removeprefix("arrowipc.") for indent, package, *_ in statements if not indent}
    assert UPWARD[module] <= {other for other, _ in IMPORTS[module]}
    assert not UPWARD[module] & at_the_top


def test_no_modules_import_each_other_in_a_circle():
    left = DOWNWARD
    while free := {module for module, others in left.items() if not others & left.keys()}:
        left = {module: others for module, others in left.items() if module not in free}
    assert not left, f"circles among {sorted(left)}"


def test_no_private_name_crosses_a_module():
    crossing = {
        (module, other, name)
        for module, pairs in IMPORTS.items()
        for other, name in pairs
        if name.startswith("_") and not name.startswith("__")
    }
    assert not crossing


def test_no_folder_is_too_full():
    assert {
        str(folder): count
        for folder, count in Counter(path.parent for path in [*sources(), *PACKAGE.rglob("*.pyi")]).items()
        if count > FULL
    } == {}


def test_only_the_spark_side_names_pyarrow_or_pyspark():
    foreign = re.compile(r"^\s*(?:import|from) (?:pyarrow|pyspark)\b", re.MULTILINE)
    at_the_top = re.compile(r"^(?:import|from) (?:pyarrow|pyspark)\b", re.MULTILINE)
    for path in sources():
        # Flight is gRPC, which Python has in pyarrow: who calls these functions has its objects already. And pyarrow
        # compares the rows of `--where`.
        users = (PACKAGE / "dissociated/flight.py", PACKAGE / "multifile/filters.py")
        rule = at_the_top if path in users else foreign
        assert "spark" in path.parts or not rule.search(run_time_part(path.read_text())), path


def test_every_fault_code_has_words():
    codes, words = [
        re.findall(r"^    (FAULT_\w+)" + end, (PACKAGE / name).read_text(), re.MULTILINE)
        for name, end in (("inline/fault.pxd", ""), ("_core.pyx", r": \("))
    ]
    assert {"FAULT_NONE", *words} == set(codes)


def test_every_file_opens_with_what_it_owns_and_stays_small():
    texts = {path: path.read_text() for path in sources()}
    assert not [path for path, text in texts.items() if not text.startswith(('"""', "#", "r'''", 'r"""'))]
    assert not [path for path, text in texts.items() if text.count("\n") > (900 if path.suffix == ".py" else 1500)]


def test_lines_of_cython_are_as_short_as_others():
    longest = {
        (path.name, number): len(line)
        for path in sources()
        for number, line in enumerate(path.read_text().split("\n") if path.suffix != ".py" else (), 1)
        if len(line) > 120
    }
    assert not longest
