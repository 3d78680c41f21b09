"""The map of CONTRIBUTING.md is true: every file is on it, and imports only point upwards in it."""

import re
from pathlib import Path

import pytest

import arrowipc

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "arrowipc"
MAP = re.findall(
    r"^\| `((?:arrowipc/|pyspark_)[^`]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE
)
# Package faces: they only collect names of what is below, or load them when asked.
FACES = {
    f"arrowipc/{name}__init__.py"
    for name in ("", "cli/", "dissociated/", "dissociated/transports/", "spark/")
}


def module_of(path: str) -> str:
    return re.sub(r"\.(py|pyx|pxd)$", "", path).replace("/", ".")


RANK = {module_of(path): rank for rank, path in enumerate(MAP)}


def sources() -> list[Path]:
    return sorted(path for ending in ("py", "pyx", "pxd") for path in PACKAGE.rglob(f"*.{ending}"))


def imports_of(path: Path) -> set[str]:
    """Modules of ours that a file imports or cimports at its top level."""
    text = path.read_text()
    found = set(re.findall(r"^(?:from|import|cimport) (arrowipc[\w.]*)", text, re.MULTILINE))
    of_package = r"^from (arrowipc(?:\.spark|\.dissociated|\.cli)?) c?import \(?([\w, \n]+)"
    for package, names in re.findall(of_package, text, re.MULTILINE):
        found |= {f"{package}.{name.strip()}" for name in names.split(",")} & RANK.keys()
    return found & RANK.keys()


def test_every_module_is_on_the_map_and_every_row_exists():
    on_disk = {str(path.relative_to(ROOT)) for path in sources()} - FACES
    # A .pxd beside a .pyx is part of it.
    on_disk -= {
        str(path.with_suffix(".pxd").relative_to(ROOT)) for path in sources() if path.suffix == ".pyx"
    }
    assert on_disk == {path for path in MAP if path.startswith("arrowipc/")}


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_upwards(path):
    name = str(path.relative_to(ROOT))
    if name in FACES:
        pytest.skip("a package face collects names from everywhere")
    own = module_of(name)
    wrong = {other for other in imports_of(path) if other != own and RANK[other] > RANK[own]}
    assert not wrong, f"{name} imports what stands below it in the map: {sorted(wrong)}"


def test_only_the_spark_side_names_pyarrow_or_pyspark():
    foreign = re.compile(r"^\s*(?:import|from) (?:pyarrow|pyspark)\b", re.MULTILINE)
    at_the_top = re.compile(r"^(?:import|from) (?:pyarrow|pyspark)\b", re.MULTILINE)
    for path in sources():
        # Flight is gRPC, which Python has in pyarrow: who calls these functions has its objects already.
        rule = at_the_top if path == PACKAGE / "dissociated/flight.py" else foreign
        assert "spark" in path.parts or not rule.search(path.read_text()), path


def test_public_names_load_and_are_listed():
    for name in arrowipc.__all__:
        assert getattr(arrowipc, name) is not None
    assert set(arrowipc.__all__) <= set(dir(arrowipc))


def test_every_fault_code_has_words():
    from arrowipc._core import fault_words

    text = (PACKAGE / "_fault.pxd").read_text()
    codes = re.findall(r"^    (FAULT_\w+)", text, re.MULTILINE)
    assert fault_words() == set(range(1, len(codes)))


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_file_opens_with_what_it_owns_and_stays_small(path):
    text = path.read_text()
    assert text.startswith(('"""', "#", "r'''", 'r"""')), "no opening sentence"
    assert text.count("\n") <= (900 if path.suffix == ".py" else 1500)
