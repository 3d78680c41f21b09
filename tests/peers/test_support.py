"""README's table of what each library reads and writes is what they do, in the versions that it names."""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest
from helpers import pages, support


def cells(library: str) -> dict[str, str]:
    """What README says of one library, by question."""
    text = (pages.ROOT / "README.md").read_text().split(support.BEGIN)[1].split(support.END)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    at, group, found = rows[0].index(library), "", {}
    for row in rows[2:]:
        if row[0].startswith("**"):
            group = row[0].strip("*")
        else:
            found[f"{group}/{row[0]}"] = row[at]
    return found


@pytest.mark.nosanitize  # peers bring their own allocators, and panic
@pytest.mark.parametrize("library", support.LIBRARIES)
def test_the_table_is_true(library):
    tried = (pages.ROOT / "README.md").read_text().split("Tried with ")[1].split(support.END)[0]
    for name in support.LIBRARIES[library]:
        pytest.importorskip(name.replace("-", "."))
        stated = re.search(rf"\b{name} ([\w.]*\w)", tried)
        assert stated, name
        if stated[1] != version(name):
            pytest.skip(f"the table is about {name} {stated[1]}, here is {version(name)}: make support")
    found = support.all_verdicts(library)
    assert cells(library) == {what: support.VERDICTS[each] for what, each in found.items()}
