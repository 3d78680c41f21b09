"""Uses all objects of the registry, and again where the interpreter is nearly gone; prints what could not be imported.

This is a program: ``__del__`` of what its module holds is called at the very end.
"""

import sys
from collections.abc import Iterator
from typing import Any

from helpers import calls

import arrowipc as ipc

Call = tuple[Any, str, list[Any]]


def prepared() -> Iterator[Call]:
    """Objects, names of their methods, and arguments that fit."""
    for make in calls.OBJECTS.values():
        thing = make()
        for name in sorted(dir(thing)):
            known = name in ("__repr__", "__reduce_ex__") or name.startswith("__arrow_c_")
            if (name.startswith("_") and not known) or name in ("close", *calls.NOT_CALLED):
                continue
            needed = filter(calls.is_needed, calls.parameters(getattr(thing, name, None)))
            fitting = [calls.fitting(name, each.name, type(thing).__name__) for each in needed]
            yield thing, name, [2] if name == "__reduce_ex__" else fitting


FAILED: list[str] = []


def use(given: list[Call]) -> None:
    for thing, name, arguments in given:
        try:
            method = getattr(thing, name)
            if callable(method):
                method(*arguments)
        except ImportError as error:
            FAILED.append(f"{type(thing).__name__}.{name}: {error}")
        except Exception:
            pass


FIRST, SECOND = list(prepared()), list(prepared())
BATCH = calls.batch()
use(FIRST)
BATCH.filter([("x", "==", 1)])
assert not FAILED, FAILED
MODULES = sorted(name for name in sys.modules if name.startswith("arrowipc."))


class Last:
    def __del__(self) -> None:
        assert sys.meta_path is None
        use(SECOND)
        BATCH.filter([("x", "==", 1)])
        try:
            ipc.dissociated  # noqa: B018
            FAILED.append("a module that was not imported is there")
        except ImportError as error:
            print("says so:", error)
        print(*FAILED, *MODULES, sep="\n")


last = Last()
