"""What arrives in other libraries is what docs/taken.md says, with the versions that it names."""

import warnings

import pytest

taken = pytest.importorskip("helpers.taken", exc_type=ModuleNotFoundError)  # some library is missing

pytestmark = pytest.mark.nosanitize  # peers bring their own allocators, and panic


@pytest.mark.slow
def test_what_arrives_is_what_the_page_says():
    page = taken.PAGE.read_text()
    found = taken.tables()
    wrong = [line for lines in found.values() for line in lines if f"{line}\n" not in page]
    if found["versions"][0] in page:
        assert not wrong, "make support"
    elif wrong:  # another version may take more: that is told, and fails nobody's run
        warnings.warn(f"other versions: make support. Changed: {wrong}", stacklevel=1)


def test_nothing_of_ours_is_refused_without_a_way_out():
    rows = [line.strip("|").split("|") for line in taken.PAGE.read_text().splitlines() if line.startswith("| `")]
    assert len(rows) == len(taken.THEIRS)
    for name, verdict, helps in rows:
        assert not verdict.strip().startswith("refused") or helps.strip(), name
