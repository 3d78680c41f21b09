"""Every example in a docstring runs and shows what it says, in compiled modules too."""

import doctest
import importlib
import inspect
import pkgutil
import types

import pytest

import arrowipc
from arrowipc import aio, events

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> list[str]:
    """Return the names of all modules; `__main__` would start the program."""
    found = pkgutil.walk_packages(arrowipc.__path__, "arrowipc.")
    compiled = sorted(arrowipc._Finder.names)
    return ["arrowipc", *compiled] + [each.name for each in found if not each.name.endswith("__main__")]


#: Attributes that compiled classes keep in C, which have no docstrings of their own: the class's says what they are.
IN_C = types.GetSetDescriptorType
#: Their docstrings list these as attributes.
LISTED = (arrowipc.ChunkedArray, arrowipc.RowStream, arrowipc.Table)
#: What a reader has for the rest of the package.
INTERNAL = {"decoder", "limits", "source"}


def without_docstring(kind: type) -> set[str]:
    """The public members of a class and of its bases here that no help is there for."""
    found = set()
    for base in kind.__mro__:
        for name, value in vars(base).items() if base.__module__.startswith("arrowipc") else ():
            if name[0] == "_" or not hasattr(kind, name) or inspect.getattr_static(kind, name) is not value:
                continue  # nothing of this name, or another class's
            if hasattr(value, "__get__") and not isinstance(value, IN_C):
                described = inspect.getdoc(getattr(kind, name))
                found |= {name} if not described or described.startswith("Alias for field") else set()
    return found - INTERNAL


@pytest.mark.parametrize(
    "kind",
    [
        *[each for name in arrowipc.__all__ if isinstance(each := getattr(arrowipc, name), type)],
        *[getattr(events, name) for name in events.__all__],
        *[each for name in aio.__all__ if isinstance(each := getattr(aio, name), type)],
    ],
)
def test_public_members_have_docstrings(kind: type) -> None:
    assert without_docstring(kind) <= ({"batches", "schema", "chunks", "epoch", "field"} if kind in LISTED else set())


@pytest.mark.parametrize("name", modules())
def test_examples(name: str) -> None:
    if name.endswith("torch_stream"):
        pytest.importorskip("torch")
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert failed == 0, "the differences stand above"
