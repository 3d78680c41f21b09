"""What the tests of this folder share: a transport that no server of the package has, and what may be left over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dissociated import memory_transport, peers

memory_transport.register()


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """A test leaves no descriptor and no thread behind."""
    with peers.nothing_left():
        yield
