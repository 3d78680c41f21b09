"""What the tests share: forged input, golden expectations, drivers of every reader, random data."""

import importlib
import sys
from typing import Any


class Missing:
    """Stands for a library that is not installed: a test that touches it is skipped, and says why."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        asking = sys._getframe(1).f_globals.get("__name__", "")
        if attribute.startswith("_") or asking.startswith("pytest_run_parallel"):  # it looks at names of all tests
            raise AttributeError(attribute)
        import pytest  # programs that use these helpers run without pytest

        return pytest.importorskip(self.name, exc_type=ImportError)


def optional(name: str) -> Any:
    """Import a library that few tests of a file need; the other tests run without it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return Missing(name)
