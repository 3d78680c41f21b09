"""The FlatBuffers numbers: those of ``format/*.fbs``, equal to flatc's, and fit to read what pyarrow wrote."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from helpers.fbs import FORMAT, LAYOUT, NUMBERS, ROOT, Choice, Record

PXD = ROOT / "arrowipc" / "inline" / "fbs_layout.pxd"

# The committed file.


def test_pxd_has_the_numbers_of_the_schemas() -> None:
    lines = re.findall(r"^    (\w+) = (-?\d+)$", PXD.read_text(), re.MULTILINE)
    assert len(lines) == len(NUMBERS)
    assert {name: int(value) for name, value in lines} == NUMBERS


# Against flatc.


@pytest.fixture(scope="module")
def flatc_modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The text of each Python file that flatc makes of our schemas, by the name of its declaration."""
    flatc = shutil.which("flatc")
    if flatc is None:
        pytest.skip("flatc is not installed (Debian: flatbuffers-compiler)")
    target = tmp_path_factory.mktemp("flatc")
    schemas = sorted(map(str, FORMAT.glob("*.fbs")))
    done = subprocess.run([flatc, "--python", "-o", str(target), *schemas], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    paths = (target / "org" / "apache" / "arrow" / "flatbuf").glob("[!_]*.py")
    return {path.stem: path.read_text() for path in paths}


def squash(name: str) -> str:
    """A name without the case and underscores that code generators change."""
    return name.replace("_", "").lower()


def accessors(text: str) -> list[tuple[str, str]]:
    """Name and body of each method of a flatc class that reads a member."""
    methods = re.findall(r"^    def (\w+)\(self[^)]*\)[^:\n]*:(.*?)(?=^    def |^def |\Z)", text, re.M | re.S)
    return [(name, body) for name, body in methods if name != "Init"]


def test_flatc_knows_the_same_declarations(flatc_modules: dict[str, str]) -> None:
    assert flatc_modules.keys() == LAYOUT.declarations.keys()


def test_flatc_gives_the_same_enum_values(flatc_modules: dict[str, str]) -> None:
    for name, found in LAYOUT.declarations.items():
        if isinstance(found, Choice):
            values = re.findall(r"^    (\w+) = (-?\d+)$", flatc_modules[name], re.MULTILINE)
            assert {member: int(value) for member, value in values} == found.values, name


def test_flatc_gives_the_same_slots_and_defaults(flatc_modules: dict[str, str]) -> None:
    for name, found in LAYOUT.declarations.items():
        if not isinstance(found, Record) or found.kind != "table":
            continue
        theirs: dict[int, tuple[str, int]] = {}
        for accessor, body in accessors(flatc_modules[name]):
            slot = re.search(r"_tab\.Offset\((\d+)\)", body)
            default = re.findall(r"return (\w+)$", body, re.MULTILINE)
            assert slot, f"{name}.{accessor}: flatc writes accessors in a form this test cannot read"
            number = int(default[-1]) if default and default[-1].isdigit() else int(default[-1:] == ["True"])
            # A vector has further accessors (its length, ...) after the first one.
            theirs.setdefault(int(slot[1]), (squash(accessor), number))
        ours = {
            NUMBERS[f"{name}_{slot_name}"]: (
                squash(slot_name),
                NUMBERS.get(f"{name}_{slot_name}_DEFAULT", 0),
            )
            for slot_name, _ in LAYOUT.slots(found)
        }
        assert ours == theirs, name


def test_flatc_gives_the_same_structs(flatc_modules: dict[str, str]) -> None:
    structs = [each for each in LAYOUT.declarations.values() if getattr(each, "kind", "") == "struct"]
    assert {struct.name for struct in structs} == {"Buffer", "FieldNode", "Block"}
    for struct in structs:
        text = flatc_modules[struct.name]
        size = re.search(r"def SizeOf\(cls\)[^:]*:\s+return (\d+)", text)
        assert size
        assert int(size[1]) == NUMBERS[f"{struct.name}_SIZE"]
        theirs = {squash(accessor): int(re.findall(r"py_type\((\d+)\)", body)[0]) for accessor, body in accessors(text)}
        ours = {squash(each.name): NUMBERS[f"{struct.name}_{each.name}"] for each in struct.members}
        assert ours == theirs, struct.name
