"""Every example in a docstring runs and shows what it says, in compiled modules too."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import arrowipc

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> list[str]:
    """Return the names of all modules; `__main__` would start the program."""
    found = pkgutil.walk_packages(arrowipc.__path__, "arrowipc.")
    compiled = sorted(arrowipc._CompiledFinder.names)
    return ["arrowipc", *compiled] + [each.name for each in found if not each.name.endswith("__main__")]


@pytest.mark.parametrize("name", modules())
def test_examples(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert failed == 0, "the differences stand above"
