"""One object, many threads, all that can be asked of it: the answers are those of one thread, also the first time."""

import contextlib
import doctest
import gc
import importlib
import io
import random
import sys
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import arrow_columns, scenarios
from helpers.calls import FILE, INTERNAL, OBJECTS, fitting, is_needed, parameters
from helpers.processes import FREE_THREADED, in_threads, rounds, run_python, together
from laws.test_threads import patiently, take_all
from project.test_docstrings import OPTIONS, modules

import arrowipc as ipc

THREADS = 4
#: Of each object, what is not asked: `from_` makes new ones; the rest change it, or show how often it was read.
LEFT_OUT = {
    "from_": "makes another object",
    "close": "ends it",
    "expect": "changes the order of reading",
    "stats": "counts what was read",
    "decoder": "an object of the inside",
    "source": "an object of the inside",
    **dict.fromkeys((*INTERNAL, "batch_bytes", "batch_head", "described", "stored", "system"), "of the inside"),
    "RemoteSource.version": "what is known of it so far",
    "skipped": "grows while files are read",
    "fragments": "objects that are filled while files are read",
    "copy_body_into": "writes into its argument",
    "serialize_to": "writes into its argument",
    **{f"to_{name}": "it is missing" for name in ("polars", "torch", "scipy", "pandas") if find_spec(name) is None},
    **({} if find_spec("sparse") else {"to_pydata_sparse": "it is missing"}),
}


#: Objects that threads share. The others are read or written by one thread at a time, or grow while they are read.
SHARED = {
    name: make
    for name, make in OBJECTS.items()
    if not name.startswith(
        ("MessageReader", "RecordBatchStreamReader", "Recovery", "RowDataset", "StreamDecoder", "Validation")
    )
    and not name.endswith(("Writer", "is closed"))
}


def asked(thing: Any) -> list[str]:
    kind = type(thing).__name__
    names = [name for name in dir(thing) if not name.startswith(("_", "from_"))]
    return [name for name in names if not {name, f"{kind}.{name}"} & LEFT_OUT.keys()]


def seen(value: Any) -> str:
    """An answer as text that does not say where it lies in memory."""
    if isinstance(value, ipc.Message):
        return repr(value.serialize())
    if isinstance(value, memoryview):
        return repr(value.tobytes())
    if isinstance(value, ipc.Dataset):
        value = value.read_all()
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
        needed = [each.name for each in parameters(found) if is_needed(each)] if callable(found) else []
        given = [fitting(name, each, type(thing).__name__) for each in needed]
        return seen(found(*given) if callable(found) else found)
    except (ipc.ArrowIpcError, TypeError, LookupError, AttributeError) as error:
        return repr(error)


def answers(thing: Any, names: list[str]) -> dict[str, str]:
    return {name: answer(thing, name) for name in names}


pytestmark = pytest.mark.campaign


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """With a GIL, other threads run between any two steps of Python; without one they do so anyway."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # of torch, once
@pytest.mark.parametrize("kind", SHARED)
def test_all_that_can_be_asked_in_many_threads_at_once(kind: str) -> None:
    make = SHARED[kind]
    names = asked(make())
    expected = answers(make(), names)
    told = [name for name, text in expected.items() if "Error" not in text]
    assert len(told) * 3 >= len(names) * 2, expected  # some need pandas or polars
    chance = random.Random(kind)
    for _ in range(rounds(1, 50)):
        thing = make()  # nothing is known of it yet, so that they all make it at once
        orders = [chance.sample(names, len(names)) for _ in range(THREADS)]
        for found in in_threads(partial(answers, thing), orders):
            for name in names:
                assert found[name] == expected[name], name


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

    in_threads(work, range(THREADS))


#: Readers of a file; the last one keeps few batches.
OPENED = {
    "mapped": ipc.open_file,
    "read": partial(ipc.open_file, memory_map=False),
    "object": lambda path: ipc.open_file(io.BytesIO(path.read_bytes()), limits=ipc.Limits(row_cache_bytes=1 << 16)),
}


@pytest.mark.parametrize("how", OPENED)
def test_random_batches_rows_broken_ones_and_parts_of_columns_in_many_threads(how: str, tmp_path: Any) -> None:
    """Every thread gets its batches, its rows and its errors, of whatever columns, whoever else reads."""
    texts = [pa.array([f"größe {i} of batch {k}" for i in range(1000)]) for k in range(20)]
    batches = [pa.record_batch({"x": np.arange(1000) + 1000 * k, "t": texts[k]}) for k in range(20)]
    path = tmp_path / "x.arrow"
    broken = "größe 77 of batch 5".encode()
    path.write_bytes(arrow_columns.file(*batches).replace(broken, b"gr\xff" + broken[3:]))
    reader = OPENED[how](path)

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(rounds(60, 2000)):
            i, n = chance.randrange(20), chance.randrange(1000)
            rows = [chance.randrange(20_000) for _ in range(chance.randrange(1, 60))]
            assert reader.take(rows, columns=["x"])["x"].to_pylist() == rows
            sound = [row for row in rows if row // 1000 != 5]
            assert reader.take(sound)["x"].to_pylist() == sound
            for look in (lambda i=i, n=n: reader.row(1000 * i + n)["t"], lambda i=i, n=n: reader.get_batch(i)["t"][n]):
                if i == 5:
                    with pytest.raises(ipc.FormatError, match=r"record batch 5.*value 77 is not UTF-8"):
                        look()
                else:
                    assert look() == f"größe {n} of batch {i}"

    in_threads(work, range(THREADS))
    reader.close()


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


def test_any_batch_of_a_stream_while_others_read_on() -> None:
    """What looks a batch up moves the file object; who reads the next one is not served from there."""
    data = arrow_columns.stream(*[pa.record_batch({"x": [i] * 100}) for i in range(60)])
    for _ in range(rounds(50, 5000)):
        reader = ipc.open_stream(io.BytesIO(data))
        over: list[bool] = []

        def read(reader: Any = reader, over: list[bool] = over) -> list[int]:
            try:
                return [batch["x"][0] for batch in take_all(reader.read_next_batch)]
            finally:
                over.append(True)

        def look_up(reader: Any = reader, over: list[bool] = over) -> None:
            while not over:
                assert patiently(lambda: reader.get_batch(7))["x"][0] == 7
                assert patiently(reader.count_rows) == 6000

        first, nothing, second = together(read, look_up, read)
        assert nothing is None
        assert sorted([*first, *second]) == list(range(60))


def test_rows_of_a_reader_that_another_thread_closes() -> None:
    for _ in range(rounds(30, 2000)):
        reader = ipc.open_file(FILE)

        def use(reader: Any = reader) -> None:
            for call in (reader.count_rows, lambda: reader.take([1]), lambda: reader.row(2), reader.batch_lengths):
                try:
                    call()
                except ipc.UsageError as error:
                    if "closed" not in str(error):
                        raise

        assert together(use, use, reader.close) == [None] * 3


def test_converting_leaves_the_collector_as_others_set_it() -> None:
    """It is a setting of the whole process, that no thread may change for a moment where others run."""
    rows = ipc.RecordBatch.from_pydict({"x": list(range(2000))})
    over, states = [], []

    def convert() -> None:
        try:
            for _ in range(rounds(100, 2000)):
                rows.to_pylist()
        finally:
            over.append(True)

    def look() -> None:
        while len(over) < 2 or not states:
            states.append(gc.isenabled())

    assert together(convert, convert, look) == [None] * 3
    assert set(states) == {True}


def use_everything() -> None:
    """Run all examples of all docstrings and all scenarios of the tests: every public function, with all extras.

    A module that switches the GIL on is named in a warning.
    """
    for make in scenarios.SCENARIOS.values():
        make()()
    used = 0
    for name in modules():
        with contextlib.suppress(ImportError, ipc.UnsupportedError), contextlib.redirect_stdout(io.StringIO()):
            failed, tried = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
            used += tried - failed
    print(sys._is_gil_enabled(), used)


@pytest.mark.skipif(not FREE_THREADED, reason="this CPython has a GIL")
def test_the_gil_stays_off() -> None:
    """Neither the import nor any feature switches it on again."""
    done = run_python("import sys, arrowipc; print(sys._is_gil_enabled())", timeout=600)
    assert done.stdout.split() == ["False"], done.stderr
    done = run_python("from laws.test_sharing import use_everything; use_everything()", timeout=1800)
    named = [line for line in done.stderr.splitlines() if "GIL" in line]
    enabled, used = done.stdout.split()[-2:]
    assert enabled == "False", named
    assert int(used) > 300, done.stderr
