"""Every test of this folder gives back what it was lent."""

from collections.abc import Iterator

import pytest
from helpers.memory import counts, more_than


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    before = counts()
    yield
    assert not more_than(before)
