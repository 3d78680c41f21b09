"""Arguments of any kind: a value, an error of ours, or a TypeError that names the argument, from every public call."""

import ast
import asyncio
import copy
import enum
import functools
import inspect
import io
import random
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import calls, optional
from helpers.calls import callables, fitting, is_needed, parameters
from helpers.processes import rounds

import arrowipc as ipc
import arrowipc.options
from arrowipc import types

pd = optional("pandas")
pl = optional("polars")

SEED = 20_261_125


class Mischief(Exception):
    """What hostile objects raise: it may pass through as it is."""


def raising(name: str) -> Callable[..., Any]:
    def method(*_: Any) -> Any:
        raise Mischief(name)

    return method


class Unasked:
    """An object without attributes, but for those of the language and of other libraries."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__arrow_c_array__", "__arrow_c_stream__", "__array__"):
            return object.__getattribute__(self, name)
        raise AttributeError(name)


#: One of which every question raises.
ASKED = ("len", "iter", "getitem", "index", "fspath", "bool", "eq", "hash", "repr")
Raises = type("Raises", (Unasked,), {f"__{name}__": raising(name) for name in ASKED})


class Lies:
    """An object that answers with the wrong kind of thing."""

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[Any]:
        return iter([None])

    def __getitem__(self, key: Any) -> Any:
        return self

    def __index__(self) -> int:
        return 2**70

    def __fspath__(self) -> Any:
        return 5

    def read(self, size: int = -1) -> Any:
        return "text"

    def write(self, data: Any) -> Any:
        return "many"


class Shade(enum.Enum):
    DARK = 1


def copies_of(*values: Any) -> list[Callable[[], Any]]:
    """Makers of values: of each a copy, because a call may change what it is given."""
    return [partial(copy.deepcopy, value) for value in values]


#: Makers of hostile arguments.
HOSTILE: list[Callable[[], Any]] = [
    *copies_of(None, True, False, -1, 0, 1, 2**31, 2**63, -(2**63) - 1, 10**30),
    *copies_of(0.5, float("nan"), float("inf"), 1j, "", "x", "\0", "\ud800", "a.b"),
    *copies_of((), (1, "x"), ("x",), (None,), frozenset({"x"}), ..., Shade.DARK, int),
    *[list, dict, set, bytearray, object, Lies, Raises, calls.closed],
    *copies_of([None], [[]], [5, "x"], ["x", "x"], {1: 2}, {"x": 1}, {None: [1]}),
    *copies_of(b"abc", range(2**40, 2**40 + 2), slice("a"), slice(None, None, 0)),
    *copies_of(np.array(5), np.array([1.5, np.nan]), np.array(["a"], object)),
    *copies_of(np.zeros((2, 2)), np.int8(-1), np.str_("x"), Path("nowhere/at all")),
    *[partial(make, {"x": [1]}) for make in (pd.DataFrame, pl.DataFrame, pa.table)],
    *copies_of(pa.array([None]), pa.schema([("x", pa.int8())]), types.int8()),
    lambda: pd.Series([None, "a"]),
    lambda: pl.Series(["a"]),
    lambda: memoryview(b"abcdefgh"),
    lambda: iter([1]),
    lambda: (each for each in ["x"]),
    lambda: io.BytesIO(b"abc"),
    lambda: io.StringIO("abc"),
    *[calls.OBJECTS[name] for name in ("RecordBatch", "Schema", "Table", "Array")],
]


def called(path: str, make: Callable[[], Any], member: str, values: dict[str, Any]) -> tuple[str, BaseException | None]:
    """Call with some arguments, and with those that fit for the rest; return how it was called, and the error."""
    owner, given = make(), {**values}
    function = getattr(owner, member)
    for each in filter(is_needed, parameters(function)):
        if each.name not in given:
            given[each.name] = fitting(member, each.name, type(owner).__name__)
    alone = [each.name for each in parameters(function) if each.kind is each.POSITIONAL_ONLY]
    positional = [given.pop(name) for name in alone if name in given]
    try:
        text = f"{path}({', '.join([*map(look, positional), *[f'{k}={look(v)}' for k, v in given.items()]])})"
        result = function(*positional, **given)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        if hasattr(type(result), "__next__"):
            for _, _ in zip(range(5), result, strict=False):
                pass
    except BaseException as error:
        return text, error
    return text, None


def hostile_values(function: Any, dice: random.Random) -> dict[str, Any]:
    """A hostile value for one parameter, or for two."""
    taken = parameters(function)
    values = {}
    for at in sorted(dice.sample(range(len(taken)), min(len(taken), dice.choice((1, 1, 1, 2))))):
        value, each = dice.choice(HOSTILE)(), taken[at]
        some = dice.choice(("compression", "alignment", "nonsense")) if each.kind is each.VAR_KEYWORD else each.name
        values[some] = value
    return values


def look(value: Any) -> str:
    try:
        return repr(value)[:60]
    except Mischief:
        return "Raises()"


#: The words in which the language says which argument it means, or that a key is none.
LANGUAGE = (
    "__fspath__",
    "argument",
    "bytes-like object is required",
    "missing",
    "needs a copy",
    "positional",
    "slice step cannot be",
    "unhashable",
)


def is_fine(error: BaseException | None, names: list[str]) -> bool:
    """Whether a call may end like this; `names` are those of its parameters."""
    if error is None or isinstance(error, (ipc.ArrowIpcError, Mischief, MemoryError, OSError)):
        return True
    text = str(error)
    frames = traceback.extract_tb(error.__traceback__)
    if any(f"/{peer}/" in frames[-1].filename for peer in ("numpy", "pandas", "polars", "pyarrow")):
        return True  # the object refused by itself
    if "truth value" in text or isinstance(error, UnicodeEncodeError) or "embedded null" in text:
        return True  # an array as a flag; a name that no file can have
    if type(error) in (TypeError, ValueError):
        return any(word in text for word in LANGUAGE) or (
            type(error) is TypeError and (len(names) == 1 or any(name in text for name in names))
        )
    return type(error) in (IndexError, KeyError, StopIteration)


@pytest.mark.campaign
def test_any_argument_gives_a_value_or_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dice = random.Random(SEED)
    tried = callables()
    findings: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(rounds(300, 100_000)):
            path = dice.choice(list(tried))
            make, member = tried[path]
            function = getattr(make(), member)
            text, error = called(path, make, member, hostile_values(function, dice))
            if not is_fine(error, [each.name for each in parameters(function)]):
                findings.setdefault(path, f"{text}: {type(error).__name__}: {error}")
    print(f"seed {SEED}: {len(findings)} findings")
    assert not findings, "\n".join(findings.values())


@functools.cache
def annotations_of(module: str) -> dict[tuple[str, str], str]:
    """What the stub of a compiled module says: (function, parameter) -> annotation."""
    path = Path(ipc.__file__).parent / f"{module.removeprefix('arrowipc.').replace('.', '/')}.pyi"
    tree = ast.parse(path.read_text() if path.exists() else "")
    bodies = {"": tree.body} | {f"{each.name}.": each.body for each in tree.body if isinstance(each, ast.ClassDef)}
    return {
        (prefix + each.name, taken.arg): ast.unparse(taken.annotation)
        for prefix, body in bodies.items()
        for each in body
        if isinstance(each, ast.FunctionDef)
        for taken in [*each.args.posonlyargs, *each.args.args, *each.args.kwonlyargs]
        if taken.annotation is not None
    }


def kind_of(function: Any, parameter: inspect.Parameter) -> type | None:
    """`bool` or `int` for a parameter of nothing else but None."""
    words = str(parameter.annotation)
    if parameter.annotation is parameter.empty:
        named = getattr(function, "__qualname__", "") + ".__init__" * isinstance(function, type)
        module = getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__
        words = annotations_of(module).get((named, parameter.name), type(parameter.default).__name__)
    parts = {each.removeprefix("<class '").removesuffix("'>") for each in words.split(" | ")} - {"None"}
    kinds = {bool: {"bool"}, int: {"int", "SupportsIndex"}}
    return next((kind for kind, names in kinds.items() if parts and parts <= names), None)


def test_flags_are_booleans_and_counts_integers_in_every_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ "no" and 2 are no flags, 2.5 and "2" no counts; NumPy's booleans are booleans."""
    monkeypatch.chdir(tmp_path)
    taken, tried = [], 0
    kinds: dict[Any, tuple[Any, ...]] = {bool: ("no", 2, b"", np.bool_(True)), int: ("2", 2.5)}
    for path, (make, member) in callables().items():
        function = getattr(make(), member)
        values = isinstance(function, type) and issubclass(function, tuple)  # results, which nobody is asked to make
        if "that is closed" in path or values or path == "TensorColumn":
            continue
        more = {"group_by": "x"} if path == "encode_payloads" else {}  # or one of two others
        for parameter in parameters(function):
            for value in kinds.get(kind_of(function, parameter), ()):
                tried += 1
                text, error = called(path, make, member, {**more, parameter.name: value})
                if not isinstance(error, (ipc.ArrowIpcError, TypeError, BufferError, type(None))):
                    raise error
                says_so = "must be True or False" in str(error) or "verify must be" in str(error)
                if says_so if isinstance(value, np.bool_) else error is None:
                    taken.append(f"{text}: {error or 'it is taken'}")
    assert tried > 400
    assert taken == []


@pytest.mark.parametrize("options", [ipc.options.DecodeOptions, ipc.options.ReadOptions, ipc.options.WriteOptions])
def test_every_flag_of_the_options_is_checked(options: Any) -> None:
    assert {name for name, kind in options.types.items() if "bool" in kind} - {"statistics"} == set(options.flags)
    for name, others in options.flags.items():
        for value in ("no", 2, 0, *(() if others else (None,))):
            with pytest.raises(ipc.UsageError, match=f"{name} must be True or False"):
                options({name: value})
        for value in (True, False, np.bool_(False), *others):
            assert getattr(options({name: value}), name) in (True, False, None)
