"""Whatever is public has an example, and every example runs and shows what it says, in compiled modules too."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from typing import Any

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


#: Methods that other modules call, and nobody else.
STORED = {"batch_bytes", "batch_head", "described", "expect", "index_of", "load_dictionaries", "stored"}
WRITERS = {"abandon", "begin", "check", "expect", "resume", "write_rows", "write_stored"}
MACHINERY = {
    "RemoteSource": {"asking_size", "call", "fetching", "reading", "sizing"},
    "StreamDecoder": {"decode", "decode_next", "fits", "go_on", "next_stored", "stretches_read"}
    | {"buffer_updated", "get_buffer", "interrupt", "next_message", "pump", "release"},
    "IndexedStreamReader": STORED,
    "RecordBatchFileReader": STORED,
    "RecordBatchStreamReader": {"stored"},
    "RecordBatchFileWriter": WRITERS,
    "RecordBatchStreamWriter": WRITERS,
}


#: Classes whose objects a function makes, and shows.
MAKERS = {
    "IndexedStreamReader": "open_file",
    "RecordBatchFileReader": "open_file",
    "RecordBatchFileWriter": "new_stream",
    "RecordBatchStreamReader": "open_stream",
    "RecordBatchStreamWriter": "new_stream",
}


def examples_of(value: Any) -> str:
    """Return the lines of code in a docstring."""
    return "\n".join(re.findall(r"^ *(?:>>>|\.\.\.) .*", value.__doc__ or "", re.MULTILINE))


def methods_of(kind: type) -> dict[str, Any]:
    """Return what the package itself adds to a class and can be called."""
    return {
        name: value
        for base in reversed(kind.__mro__)
        if base.__module__.startswith("arrowipc")
        for name, value in vars(base).items()
        if not name.startswith("_") and callable(getattr(value, "__func__", value)) and not isinstance(value, type)
    }


@pytest.mark.parametrize("name", sorted(set(arrowipc.__all__) - {"__version__"}))
def test_whatever_is_public_has_an_example(name: str) -> None:
    """Of its own, or, for methods and kinds of errors, in the docstring of its class, a base or what makes it."""
    value = getattr(arrowipc, name)
    places = [base for base in getattr(value, "__mro__", ()) if base.__module__.startswith("arrowipc")]
    places += [getattr(arrowipc, MAKERS[name])] if name in MAKERS else []
    shown = "\n".join(map(examples_of, places))
    assert examples_of(value) or name in MAKERS or re.search(rf"\.{name}\b", shown), f"{name} has no example"
    if isinstance(value, type):
        lacking = {
            method
            for method, function in methods_of(value).items()
            if not examples_of(function) and not re.search(rf"\.{method}\(", shown)
        }
        assert lacking == MACHINERY.get(name, set()) & methods_of(value).keys(), f"methods of {name} without an example"
