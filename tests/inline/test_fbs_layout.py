"""The FlatBuffers numbers: those of ``format/*.fbs``, equal to flatc's, and fit to read what pyarrow wrote."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.fbs import FORMAT, NUMBERS, ROOT

PXD = ROOT / "arrowipc" / "inline" / "fbs_layout.pxd"


def test_the_numbers_of_the_pxd_are_those_of_the_schemas() -> None:
    lines = re.findall(r"^    (\w+) = (-?\d+)$", PXD.read_text(), re.MULTILINE)
    assert len(lines) == len(dict(lines)) > 160
    assert {(name, int(value)) for name, value in lines} <= NUMBERS.items()


def squash(name: str) -> str:
    """A name without the case and underscores that code generators change."""
    return name.replace("_", "").lower()


def numbers_of(name: str, text: str) -> dict[str, int]:
    """What the Python file that flatc makes of a declaration says: values, size, slots or offsets, defaults."""
    found = {f"{name}_{each}": int(value) for each, value in re.findall(r"^    (\w+) = (-?\d+)$", text, re.M)}
    if size := re.search(r"def SizeOf\(cls\)[^:]*:\s+return (\d+)", text):
        found[f"{name}_SIZE"] = int(size[1])
    places: set[int] = set()
    methods = re.findall(r"^    def (\w+)\(self[^)]*\)[^:\n]*:(.*?)(?=^    def |^def |\Z)", text, re.M | re.S)
    for accessor, body in methods:
        place = re.search(r"_tab\.Offset\((\d+)\)|py_type\((\d+)\)", body)
        if accessor == "Init" or place is None or int(place[1] or place[2]) in places:
            continue  # a vector has further accessors (its length, ...) after the first one
        found[f"{name}_{accessor}"] = int(place[1] or place[2])
        places.add(int(place[1] or place[2]))
        default = re.findall(r"return (\w+)$", body, re.MULTILINE)[-1:]
        if default == ["True"] or (default and default[0].isdigit() and default != ["0"]):
            found[f"{name}_{accessor}_DEFAULT"] = int(default[0].replace("True", "1"))
    return found


def test_flatc_gives_the_same_numbers(tmp_path: Path) -> None:
    flatc = shutil.which("flatc") or pytest.skip("flatc is not installed (Debian: flatbuffers-compiler)")
    subprocess.run([flatc, "--python", "-o", tmp_path, *sorted(FORMAT.glob("*.fbs"))], check=True)
    theirs: dict[str, int] = {}
    for path in tmp_path.glob("org/apache/arrow/flatbuf/[!_]*.py"):
        theirs |= numbers_of(path.stem, path.read_text())
    ours = {squash(name): value for name, value in NUMBERS.items() if not name.endswith("_MAX")}
    assert {squash(name): value for name, value in theirs.items()} == ours
