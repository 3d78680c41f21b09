"""How fast are batches that are there as the library's own objects written into a stream in memory?

Measured, per batch: opening the writer (which writes the schema), writing batch after batch, closing the
writer. Each batch lies in memory of its own.

* pyarrow: ``new_stream(sink, schema)`` and ``write_batch``.
* arrowipc: the same two names.
* nanoarrow: ``StreamWriter.from_writable(BytesIO())`` and ``write_array``.
* arro3: ``write_ipc_stream(RecordBatchReader.from_batches(...), BytesIO())``, all in one call.
* polars writes no batches.

"to growing memory": ``pa.BufferOutputStream()`` and ``bytearray()``; "to BytesIO": that of Python for both; "to warm
memory": memory of a given size that has been written to before, ``pa.FixedSizeBufferWriter`` and a ``memoryview``.
"memcpy" appends messages that are there already to the same ``bytearray`` or ``BytesIO``.

The cases about columns measure the schema (opening and closing) and the batches (between) apart. A library
may remember what it made of a schema: it is measured with the same one again, and with a new one each time.

Slices begin and end within the bytes of bitmaps, and their texts do not begin at 0: what is written has to be
shifted, and offsets have to be counted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data
from benchmarks.harness import FLAT, Case, Curve, Run, Scale
from benchmarks.writes import Input, appending, bound, filing, growing, presized, to_bytearray, to_bytes_io, warm

TITLE = "write batches to memory"


def cases(scale: Scale) -> Iterator[Case]:
    """Small batches, few and many; slices; batches of more and more columns."""
    mixed = data.mixed_batch(scale.size(100, 3))
    for times in (2_000, 200, 20):
        given = Input([mixed] * scale.size(times, 2))
        name = f"10 mixed columns x 100 rows, {times} batches"
        row: dict[str, Any] = {"row": "write"}
        yield case(f"{name}, to growing memory", given, growing(given), 3, named=times == 2_000, **row)
        yield case(f"{name}, to warm memory", given, presized(given, warm(bound(given))), 3, **row)
    given = Input([data.mixed_batch(scale.size(10, 2))])
    yield case("10 mixed columns x 10 rows, a stream each, to growing memory", given, growing(given), 1)
    given = slices(scale)
    yield case(
        "slices of 10 mixed columns x 100 rows, to warm memory",
        given,
        presized(given, warm(bound(given))),
        3,
    )
    yield from shapes(scale)
    yield from columns(scale)


def shapes(scale: Scale) -> Iterator[Case]:
    """The same of all shapes, into growing memory and into Python's file object."""
    for shape in data.SHAPES:
        given = Input([data.shaped(shape, scale.size(100, 3))] * scale.size(1_000, 3))
        name, named = f"10 columns x 100 rows, {shape}, 1,000 batches", shape == "mixed"
        found = growing(given) | {"memcpy": appending(given, to_bytearray, "extend")}
        yield case(f"{name}, to growing memory", given, found, 3, row="write growing", named=named)
        found = filing(given) | {"memcpy": appending(given, to_bytes_io, "write")}
        yield case(f"{name}, to BytesIO", given, found, 6, row="write BytesIO", named=named)


def case(name: str, given: Input, contenders: dict[str, Run], goal: float, **options: Any) -> Case:
    """Return the case of writing these batches."""
    unit = "stream" if len(given.pyarrow) == 1 else "batch"
    return Case(name, unit, len(given.pyarrow), contenders, goal=goal, touched=given.table.nbytes, **options)


def slices(scale: Scale) -> Input:
    """Return slices of a large batch that begin at odd rows, in an order without pattern."""
    rows, times, length = scale.size(100_000, 40), scale.size(1_000, 3), scale.size(100, 5)
    starts = np.random.default_rng(3).integers(0, (rows - length) // 2, times) * 2 + 1
    return Input([data.mixed_batch(rows)]).sliced((int(start), length) for start in starts)


def columns(scale: Scale) -> Iterator[Case]:
    """What a column costs in batches of few columns and of many, and in the schema before them."""
    for n in (10, 100, 1_000, 10_000):
        n_columns = scale.size(n, n // 5 + 1)
        times = max(2, scale.size(100_000, 20) // n_columns)
        given = Input([data.plain_batch(n_columns, 10)] * times)
        yield Case(
            f"{n_columns} int64 columns x 10 rows, {times} batches, writer open",
            "column",
            n_columns * times,
            written_only(given),
            goal=3,
            timed=True,
            curve=Curve("cost per column of a batch", n_columns, FLAT),
        )
        for known in (True, False):
            which = "the same" if known else "a new"
            yield Case(
                f"{n_columns} int64 columns, writer opened and closed, {which} schema",
                "column",
                n_columns,
                {name: opened(one, given, known) for name, one in OPENED.items()},
                timed=True,
                curve=Curve(f"cost per column of {which} schema", n_columns, FLAT),
            )


def written_only(given: Input) -> dict[str, Run]:
    """Return runs that return the seconds of writing the batches, without opening and closing."""
    target = warm(bound(given))
    buffer = pa.py_buffer(target)

    def timed(writer: Any, batches: list[Any]) -> float:
        with writer:
            start = perf_counter()
            for batch in batches:
                writer.write_batch(batch)
            return perf_counter() - start

    schemas = given.pyarrow[0].schema, given.arrowipc[0].schema
    return {
        "pyarrow": lambda: timed(pa.ipc.new_stream(pa.FixedSizeBufferWriter(buffer), schemas[0]), given.pyarrow),
        "arrowipc": lambda: timed(arrowipc.new_stream(target, schemas[1]), given.arrowipc),
    }


# -- opening and closing ------------------------------------------------------------------------------------


def opened_by_pyarrow(schema: Any) -> None:
    pa.ipc.new_stream(pa.BufferOutputStream(), schema).close()


def opened_by_arrowipc(schema: Any) -> None:
    arrowipc.new_stream(bytearray(), schema).close()


def renamed_by_pyarrow(given: Input, n: int) -> Any:
    return given.pyarrow[0].schema.with_metadata({"n": str(n)})


def renamed_by_arrowipc(given: Input, n: int) -> Any:
    return arrowipc.Schema(given.arrowipc[0].schema.fields, {"n": str(n)})


OPENED = {
    "pyarrow": (opened_by_pyarrow, renamed_by_pyarrow),
    "arrowipc": (opened_by_arrowipc, renamed_by_arrowipc),
}


def opened(by: tuple[Callable[[Any], None], Callable[[Input, int], Any]], given: Input, known: bool) -> Run:
    """Return a run that returns the seconds of opening and closing writers, on average.

    With a `known` schema they all have the same, else each has one that was not there before.
    """
    open_and_close, renamed = by
    numbers = count()
    schema = renamed(given, 0)

    def run() -> float:
        times = 20 if known else 1
        schemas = [schema if known else renamed(given, next(numbers)) for _ in range(times)]
        start = perf_counter()
        for each in schemas:
            open_and_close(each)
        return (perf_counter() - start) / times

    return run
