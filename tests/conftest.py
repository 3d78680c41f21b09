"""What pytest needs before any test: the hypothesis profile and where the golden data is."""

from __future__ import annotations

import gc
import os
import warnings
from pathlib import Path

import pytest
from helpers import golden
from hypothesis import HealthCheck, settings

# Deterministic, so that a red run is red again; `HYPOTHESIS_PROFILE=search` looks for new examples.
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    max_examples=int(os.environ.get("ARROWIPC_EXAMPLES", "60")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)
settings.register_profile("search", settings.get_profile("fixed"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


#: Folders of tests that take longest. They come first, so that no process is alone with one of them at the end.
LONG = ("spark", "dissociated", "hostile", "laws")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by folder; the order within a file stays."""
    items.sort(key=lambda item: LONG.index(item.path.parent.name) if item.path.parent.name in LONG else len(LONG))


def pytest_collection_finish() -> None:
    """Let the collector pass over the twenty thousand tests and the libraries, which it would walk each time."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """And over what a file of tests imported and left: tests that collect take a tenth of their time so."""
    if nextitem is not None and nextitem.path != item.path:
        with warnings.catch_warnings():
            # Files that a test left open: the collector may find them at any time, and this is no test.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        gc.freeze()


def pytest_unconfigure() -> None:
    """Give them back to it: libraries complain at exit of what was never collected."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def arrow_data() -> Path:
    """The folder arrow-testing/data, or the part of it in the repository."""
    root = golden.data_root()
    assert (root / "arrow-ipc-stream/integration").is_dir(), f"{root} is not arrow-testing/data"
    return root
