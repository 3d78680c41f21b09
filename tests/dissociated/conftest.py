"""What the tests of this folder share."""

from collections.abc import Iterator

import pytest
from dissociated import peers

from arrowipc.dissociated.memory.arena import Arena


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """A test leaves no descriptor and no thread behind."""
    with peers.nothing_left():
        yield


@pytest.fixture
def arena() -> Iterator[Arena]:
    """An arena that tells of small bodies, too."""
    made = Arena(64 << 20, 4 << 20, 0)
    yield made
    made.close()
