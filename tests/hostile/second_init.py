"""Tries to make, fill and change objects a second time, and uses what shares memory with them afterwards.

`main` runs in a process that may die: it says before each attempt what it is.
"""

import contextlib
import copy
import io
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

from helpers import drive
from helpers.arrays import ipc_bytes
from helpers.arrow_columns import everything
from helpers.calls import INTERNAL, OBJECTS, fitting, is_needed, parameters

import arrowipc as ipc
from arrowipc.multifile.rows import Samples
from arrowipc.reader import BatchReader

#: What hands over the objects: they hold each other, and `batch` is what must stay as it is.
World = dict[str, Any]


def world() -> World:
    """The objects of the registry, and those that share memory with one batch of every type."""
    file = ipc.open_file(ipc_bytes(everything(), "file"))
    table = file.read_all()
    (batch,) = table.batches
    target = bytearray()
    writer = ipc.new_stream(target, batch.schema)
    writer.write(batch)
    found = {name: make() for name, make in OBJECTS.items()} | {
        "batch": batch,
        "table": table,
        "file": file,
        "file decoder": file.decoder,
        "writer": writer,
        "sink": writer.sink,
        "body": list(ipc.MessageReader(bytes(target)))[-1],
        "schema": batch.schema,
        "plan": batch.schema._plan,
    }
    kinds = {}
    for array in walk(batch.columns):
        for each in (array, array.field, array.type):
            kinds.setdefault(type(each).__name__, each)
    return found | kinds


def walk(arrays: list[Any]) -> Iterator[Any]:
    for array in arrays:
        yield array
        yield from walk([*array.children, *filter(None, [array.dictionary])])


OTHERS = ((), None, [], 0, -1, "x", b"x", {}, object())
#: Arguments with which an object could be made again, where the registry has none that fit each other.
AGAIN: dict[str, tuple[Any, ...]] = {
    "SparseCOOTensor": ([5], [[1, 1]], (3, 3)),
    "SparseCSCMatrix": ([5], [0, 1], [1], (2, 1)),
    "SparseCSFTensor": ([5], [[0, 1]], [[0], [1]], (2, 2)),
    "SparseCSRMatrix": ([5], [0, 1], [1], (1, 2)),
}


def tried(action: Callable[[], object]) -> None:
    """Whatever it says is fine, but the process must not die of it."""
    with contextlib.suppress(Exception):
        action()


def state(thing: Any) -> tuple[str, bytes] | None:
    """What must stay as it is of an object that others share: these are the ones that can be pickled."""
    try:
        return repr(thing), pickle.dumps(thing)
    except Exception:
        return None


def initialize(thing: Any, _: World) -> None:
    before, kind = state(thing), type(thing)
    fit = [fitting("__init__", each.name, kind.__name__) for each in parameters(kind) if is_needed(each)]
    for given in (*OTHERS, thing):
        tried(lambda given=given: thing.__init__(given))
        tried(lambda given=given: thing.__init__(given, given))
    for names in (thing.__init__, getattr(kind, "__match_args__", ())):
        tried(lambda names=names: thing.__init__(**dict.fromkeys(names, None)))
    for every in ((), fit, AGAIN.get(kind.__name__, ())):
        tried(lambda every=every: thing.__init__(*every))
    assert before is None or state(thing) == before, f"{kind.__name__} changed"


def restore(thing: Any, _: World) -> None:
    for name in ("__setstate__", "__setstate_cython__", "__reduce_cython__"):
        for given in (*OTHERS, ({}, {}), (None, {"fields": (), "schema": None})):
            tried(lambda name=name, given=given: getattr(thing, name)(given))


def change_class(thing: Any, known: World) -> None:
    for kind in {type(each) for each in known.values()} | {ipc.types.Bool, ipc.types.Date, ipc.types.List}:
        tried(lambda kind=kind: setattr(thing, "__class__", kind))
        tried(lambda kind=kind: object.__setattr__(thing, "__class__", kind))


def public(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


def change_attributes(thing: Any, _: World) -> None:
    found = getattr(thing, "__dict__", {})
    for name in {*public(type(thing)), *found}:
        for value in OTHERS:
            for change in (object.__setattr__, setattr, lambda _, *each: found.update([each])):
                tried(lambda change=change, name=name, value=value: change(thing, name, value))
        for remove in (object.__delattr__, delattr):
            tried(lambda remove=remove, name=name: remove(thing, name))
    tried(found.clear)


def copy_and_pickle(thing: Any, _: World) -> None:
    for action in (copy.copy, copy.deepcopy, *(lambda each, p=p: pickle.loads(pickle.dumps(each, p)) for p in (2, 5))):
        tried(lambda action=action: change_attributes(action(thing), {}))


ATTEMPTS = (initialize, restore, change_class, change_attributes, copy_and_pickle)
#: What a method of an object that nobody initialized may raise, if users see its class.
REFUSALS = (TypeError, LookupError, StopIteration, BufferError, OSError, ipc.ArrowIpcError)
SYNTAX = (
    "__eq__",
    "__getitem__",
    "__contains__",
    "__enter__",
    "__next__",
    "__iter__",
    "__repr__",
    "__str__",
    "__len__",
)


def use_blank(kind: type, known: World) -> None:
    """What ``__new__`` alone makes, in all its methods, and wherever such an object is taken."""
    blanks = []
    for given in ((), *((each,) for each in OTHERS)):
        with contextlib.suppress(Exception):
            blanks.append(kind.__new__(kind, *given))
    # Their slots are empty then, as Python says.
    refusals = (*REFUSALS, AttributeError) if issubclass(kind, (BatchReader, ipc.Dataset, Samples)) else REFUSALS
    for blank in blanks[:2]:
        for action in (list, hash, bool, copy.copy, copy.deepcopy, pickle.dumps, memoryview, bytes):
            tried(lambda action=action, blank=blank: action(blank))
        for name in [*public(kind), *SYNTAX]:
            is_public = getattr(ipc, kind.__name__, None) is kind and name not in INTERNAL and hasattr(kind, name)
            for given in ((), (blank,), (0,), ("x",), ([0],), (known["batch"],), (known["schema"],), (b"",)):
                with contextlib.suppress(*(refusals if is_public else (Exception,))):
                    getattr(blank, name)(*given)
        taken_by = (ipc.Schema, ipc.Field, ipc.Table, ipc.new_stream, ipc.open, ipc.concat_batches, ipc.encode_payloads)
        for action in (*taken_by, ipc.StreamDecoder, ipc.Tensor, ipc.validate, ipc.read_record_batch):
            for given in ((blank,), ([blank],), (known["batch"], blank), ("x", blank), (blank, [known["batch"]])):
                tried(lambda action=action, given=given: action(*given))
        tried(lambda blank=blank: ipc.open_stream(b"", limits=blank))
        tried(lambda blank=blank: ipc.new_stream(bytearray(), blank).write(known["batch"]))
        tried(lambda blank=blank: known["writer"].write(blank))
        tried(lambda blank=blank: known["writer"].write([blank]))
        tried(lambda blank=blank: known["batch"].equals(blank))


def seen(batch: Any) -> dict[str, Any]:
    """What must stay as it is of what is shared."""
    return {
        "schema": (str(batch.schema), str(ipc.Schema(list(batch.schema))), batch.num_rows),
        "types": [str(array.type) for array in batch.columns],
        "values": repr(batch.to_pylist()),
    }


def look(known: World) -> None:
    """Nothing has changed of what is shared; then everything else is used as well."""
    found = seen(known["batch"])
    drive.use(known["batch"])
    for name, thing in known.items():
        if name != "batch":
            tried(lambda thing=thing: repr(thing))
            for method in ("read_all", "to_pylist", "close", "serialize", "next_message", "read_next_batch", "finish"):
                tried(lambda thing=thing, method=method: getattr(thing, method)())
    assert found == seen(world()["batch"])


def classes(known: World) -> set[type]:
    """The classes of objects, and all compiled classes of the modules that were loaded, of which people see some."""
    found = {type(each) for each in known.values()}
    for name, module in list(sys.modules.items()):
        for kind in vars(module).values() if name.startswith("arrowipc") else ():
            if isinstance(kind, type) and kind.__module__.startswith("arrowipc.") and hasattr(kind, "__pyx_vtable__"):
                found.add(kind)
    return found


def main() -> None:
    with contextlib.redirect_stderr(io.StringIO()):  # what closes while it is being made again may say so there
        for attempt in ATTEMPTS:
            known = world()
            for name, thing in known.items():
                print(f"{attempt.__name__} of {name}", flush=True)
                attempt(thing, known)
            look(known)
        known = world()
        for kind in sorted(classes(known), key=str):
            print(f"use_blank of {kind}", flush=True)
            use_blank(kind, known)
        look(known)
