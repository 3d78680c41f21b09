"""The tables of what each library reads and writes are what they do, in the versions that docs/support.md names."""

import re
import warnings
from importlib.metadata import version
from pathlib import Path

import pytest
from helpers import pages, support

PAGE = pages.ROOT / "docs/support.md"


def rows(page: Path) -> list[list[str]]:
    """The cells of a page's table; a row of one cell opens a group."""
    text = page.read_text().split(support.BEGIN)[1].split(support.END)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def cells(library: str) -> dict[str, str]:
    """What the page says of one library, by question."""
    names, _, *table = rows(PAGE)
    at, group, found = names.index(library), "", {}
    for row in table:
        if row[0].startswith("**"):
            group = row[0].strip("*")
        else:
            found[f"{group}/{row[0]}"] = row[at]
    return found


def test_the_readme_shows_rows_of_the_table():
    names, _, *table = rows(pages.ROOT / "README.md")
    assert [row[0].replace(": ", "/", 1) for row in table] == list(support.FRONT)
    for i, library in enumerate(names[1:], 1):
        whole = cells(library)
        assert {row[0]: row[i] for row in table} == {row[0]: whole[row[0].replace(": ", "/", 1)] for row in table}


QUICK = ("arrowipc", "pyarrow")


@pytest.mark.nosanitize  # peers bring their own allocators, and panic
@pytest.mark.parametrize(
    "library",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in support.LIBRARIES],
)
def test_the_table_is_true(library):
    tried = PAGE.read_text().split("Tried with ")[1].split(support.END)[0]
    others = []
    for name in support.LIBRARIES[library]:
        pytest.importorskip(name.replace("-", "."))
        stated = re.search(rf"\b{name} ([\w.]*\w)", tried)
        assert stated, name
        if stated[1] != version(name):
            others.append(f"the table is about {name} {stated[1]}, here is {version(name)}")
    found = {what: support.VERDICTS[each] for what, each in support.all_verdicts(library).items()}
    stated_cells = cells(library)
    if not others:
        assert stated_cells == found
        return
    # Another version may read more: that is told, and fails nobody's run.
    assert stated_cells.keys() == found.keys()
    changed = [f"{what}: {stated_cells[what]} -> {found[what]}" for what in found if stated_cells[what] != found[what]]
    if changed:
        words = f"another version: {'; '.join(others)}: make support. Changed: {', '.join(changed)}"
        warnings.warn(words, stacklevel=1)
