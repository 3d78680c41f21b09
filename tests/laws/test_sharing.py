"""One object, many threads, all that can be asked of it: the answers are those of one thread, also the first time."""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import arrays, arrow_columns, scenarios
from helpers.processes import rounds, together

import arrowipc as ipc

THREADS = 4
BATCH = pa.record_batch(
    {
        "x": pa.array([1, None, 3, 4] * 50),
        "t": pa.array(["a", "größe", None, ""] * 50),
        "d": pa.array(["u", "v", "v", None] * 50).dictionary_encode(),
        "l": pa.array([[1, 2], None, [], [3]] * 50),
        "s": pa.array([{"p": 1.5, "q": "z"}, None, {"p": None, "q": ""}, {"p": 0.0, "q": None}] * 50),
        "m": pa.array([0, 1, None, 3] * 50, pa.timestamp("us", "Europe/Berlin")),
        "e": pa.array([None, Decimal("1.25"), Decimal(3), Decimal("-0.5")] * 50, pa.decimal128(9, 2)),
    }
)
#: What has to be said with a call; without an entry it is called with nothing, or is no method.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("filter",), ([True, False, False, True] * 50,)),
    **dict.fromkeys(("take",), ([3, 0, 3],)),
    **dict.fromkeys(("slice",), (1, 2)),
    **dict.fromkeys(("column", "drop", "drop_columns", "remove_column", "field", "position"), ("x",)),
    **dict.fromkeys(("get_field_index", "get_all_field_indices"), ("x",)),
    **dict.fromkeys(("chunk", "get_batch", "get_record_batch", "get_batch_with_custom_metadata", "row"), (1,)),
    **dict.fromkeys(("get_batch_metadata", "index_of"), (0,)),
    **dict.fromkeys(("rename", "rename_columns"), ({"x": "y"},)),
    "append_column": ("n", list(range(200))),
    "add_column": (0, "n", list(range(200))),
    "set_column": (0, "n", list(range(200))),
    "append": (ipc.field("n", "int8"),),
    "insert": (0, ipc.field("n", "int8")),
    "set": (0, ipc.field("n", "int8")),
    "remove": (0,),
    "select": (["t", "x"],),
    "with_metadata": ({"k": "v"},),
    "get_batches": ([1, 0],),
    "read_rows": (150, 250),
    "fill_null": ("?",),
    "cast": ("large_string",),
}
#: Of each object, what is not asked: `from_` makes new ones; the rest change it, or show how often it was read.
LEFT_OUT = {
    "from_": "makes another object",
    "close": "ends it",
    "expect": "changes the order of reading",
    "stats": "counts what was read",
    "decoder": "an object of the inside",
    "source": "an object of the inside",
    "batch_bytes": "of the inside",
    "batch_head": "of the inside",
    "described": "of the inside",
    "stored": "of the inside",
    "skipped": "grows while files are read",
    "fragments": "objects that are filled while files are read",
    "copy_body_into": "writes into its argument",
    "serialize_to": "writes into its argument",
    "to_polars": "where polars is missing",
    "to_torch": "where torch is missing",
    "to_scipy": "where SciPy is missing",
}
MISSING = {f"to_{name}" for name in ("polars", "torch", "scipy", "pandas") if find_spec(name) is None}


def stream() -> bytes:
    return arrow_columns.stream(BATCH, BATCH.slice(0, 100), BATCH)


def whole_file() -> bytes:
    return arrow_columns.file(BATCH, BATCH.slice(0, 100), BATCH, unify_dictionaries=True, compression="lz4")


def batch() -> ipc.RecordBatch:
    return arrays.read_batch(BATCH)


def table() -> ipc.Table:
    return ipc.open_stream(stream()).read_all().slice(0, 200)


def tensor() -> ipc.Tensor:
    return ipc.Tensor(np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1), ["a", "b", "c"])


def payloads() -> Any:
    cells = ipc.encode_payloads(batch(), rows_per_payload=50)
    return ipc.decode_payloads([bytes(cell) for cell in cells], parent_index=True)


MAKERS: dict[str, Callable[[], Any]] = {
    "batch": batch,
    "text": lambda: batch()["t"],
    "dictionary": lambda: batch()["d"].dictionary,
    "table": table,
    "chunks": lambda: table()["t"],
    "schema": lambda: batch().schema,
    "message": lambda: batch().to_message(),
    "tensor": tensor,
    "sparse": lambda: ipc.SparseCOOTensor.from_dense(np.eye(5)[:, ::-1]),
    "payloads": payloads,
    "file": lambda: ipc.open_file(whole_file()),
    "file object": lambda: ipc.open_file(io.BytesIO(whole_file())),
    "indexed stream": lambda: ipc.open(stream(), index=True),
}


def asked(thing: Any) -> list[str]:
    left = LEFT_OUT.keys() - {"to_polars", "to_torch", "to_scipy"} | MISSING
    return [name for name in dir(thing) if not name.startswith(("_", "from_")) and name not in left]


def seen(value: Any) -> str:
    """An answer as text that does not say where it lies in memory."""
    if isinstance(value, ipc.Message):
        return repr(value.serialize())
    if isinstance(value, memoryview):
        return repr(value.tobytes())
    if isinstance(value, ipc.RecordBatchStreamReader | ipc.ChunkedArray | ipc.Tensor | Iterator | list | tuple):
        value = value.to_pylist() if isinstance(value, ipc.ChunkedArray) else value
        value = value.to_numpy() if isinstance(value, ipc.Tensor) else value
        return repr([seen(each) for each in value])
    if isinstance(value, pa.ChunkedArray):
        return repr(value.to_pylist())
    if hasattr(value, "to_dense"):
        return repr(value.to_dense())
    return scenarios.plain(value)


def answer(thing: Any, name: str) -> str:
    """What it says, or how it refuses."""
    try:
        found = getattr(thing, name)
        if name == "equals":
            found = partial(found, thing)
        if name == "stretches":
            found = b"".join(found)  # those of a body that was put together are one
        return seen(found(*ARGUMENTS.get(name, ())) if callable(found) else found)
    except (ipc.ArrowIpcError, TypeError, LookupError, AttributeError) as error:
        return repr(error)


def answers(thing: Any, names: list[str]) -> dict[str, str]:
    return {name: answer(thing, name) for name in names}


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """With a GIL, other threads run between any two steps of Python; without one they do so anyway."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.usefixtures("frequent_switches")
def test_all_that_can_be_asked_in_many_threads_at_once(kind: str) -> None:
    make = MAKERS[kind]
    names = asked(make())
    expected = answers(make(), names)
    told = [name for name, text in expected.items() if "Error" not in text]
    assert len(told) * 4 >= len(names) * 3, expected
    chance = random.Random(kind)
    for _ in range(rounds(2, 50)):
        thing = make()  # nothing is known of it yet, so that they all make it at once
        orders = [chance.sample(names, len(names)) for _ in range(THREADS)]
        for found in together(*[partial(answers, thing, order) for order in orders]):
            assert not isinstance(found, BaseException), found
            for name in names:
                assert found[name] == expected[name], name


@pytest.mark.campaign
@pytest.mark.usefixtures("frequent_switches")
def test_many_threads_open_streams_of_the_same_and_of_other_schemas() -> None:
    """The memos of schemas, types and plans are asked and filled by all of them."""
    made = [pa.record_batch({f"c{i}": [i], "t": pa.array([i], pa.timestamp("us", "UTC"))}) for i in range(80)]
    streams = [arrow_columns.stream(one) for one in made]
    expected = [one.to_pylist() for one in made]

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(rounds(200, 5000)):
            i = chance.randrange(len(streams)) if chance.random() < 0.7 else 0
            reader = ipc.open_stream(streams[i])
            (one,) = reader
            assert one.to_pylist() == expected[i]
            assert ipc.RecordBatch.from_arrow(made[i]).schema == reader.schema
            if chance.random() < 0.02:
                ipc.release_unused()

    assert together(*[partial(work, seed) for seed in range(THREADS)]) == [None] * THREADS


@pytest.mark.campaign
@pytest.mark.usefixtures("frequent_switches")
def test_rows_of_one_reader_in_many_threads_that_keeps_few_batches() -> None:
    batches = [pa.record_batch({"x": np.arange(1000) + 1000 * i, "t": [f"row {i}"] * 1000}) for i in range(20)]
    limits = ipc.Limits(row_cache_bytes=1 << 16)
    reader = ipc.open_file(io.BytesIO(arrow_columns.file(*batches)), limits=limits)

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(rounds(30, 1000)):
            numbers = [chance.randrange(20_000) for _ in range(chance.randrange(1, 60))]
            assert reader.take(numbers)["x"].to_pylist() == numbers
            i = chance.randrange(20_000)
            assert reader.row(i) == {"x": i, "t": f"row {i // 1000}"}

    assert together(*[partial(work, seed) for seed in range(THREADS)]) == [None] * THREADS


@pytest.mark.campaign
@pytest.mark.usefixtures("frequent_switches")
def test_lists_and_dicts_that_others_change_while_they_are_read() -> None:
    """Any of their values may be found, or a refusal; nothing else."""
    values: list[Any] = [f"text {i}" for i in range(500)]
    rows: list[dict[str, Any]] = [{"a": i, "b": f"text {i}"} for i in range(100)]
    over: list[bool] = []

    def change() -> None:
        chance = random.Random(5)
        while not over:
            values[chance.randrange(400)] = f"text {chance.random()}"
            values.append(values.pop(chance.randrange(400)))
            rows[chance.randrange(100)] = {"a": chance.randrange(9), "b": str(chance.random())}
            rows[chance.randrange(100)]["b"] = str(chance.random())

    def read() -> None:
        try:
            for _ in range(rounds(100, 5000)):
                for make in (partial(ipc.array, values), partial(ipc.RecordBatch.from_pylist, rows)):
                    try:
                        assert len(make()) >= 100
                    except ipc.UsageError as error:  # only that it changed
                        if "changed" not in str(error):
                            raise
        finally:
            over.append(True)

    assert together(change, read, read) == [None] * 3


def test_the_gil_stays_off() -> None:
    """Neither the import nor any module switches it on again."""
    if not hasattr(sys, "_is_gil_enabled") or "free-threading" not in sys.version:
        pytest.skip("not a free-threaded CPython")
    for name in ("arrowipc.aio", "arrowipc.dissociated", *sorted(f"arrowipc.{each}" for each in _compiled())):
        __import__(name)
    assert not sys._is_gil_enabled()


def _compiled() -> list[str]:
    return ipc._COMPILED.split()  # type: ignore[attr-defined]
