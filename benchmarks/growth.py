"""How does the cost per unit grow with the size: columns, batches, dictionaries, levels of nesting, fields by name?

Measured, per unit: a stream in memory is opened and all its batches are read, or batches are written to memory
that has been written to before. The exponent k of cost per unit ~ n^k is fitted to points from few units to many;
the total cost grows with n^(1 + k). Fixed costs of opening are in the small points, and the caches of the machine
in the large ones: "pyarrow" shows how much of k is theirs.

* pyarrow: ``open_stream``, ``read_next_batch``; ``new_stream`` to a ``FixedSizeBufferWriter``, ``write_batch``.
* arrowipc: the same names, structure checked, to a ``memoryview``; "arrowipc full" validates what it reads.
* by name: all fields of a schema, the last one first: ``schema.field(name)``; and a stream of one batch whose
  columns are projected by their names (pyarrow: ``get_field_index`` and ``included_fields``). Each schema is one that
  nobody has seen: its metadata have another number in each run.
* copied: the same bytes, message by message, are copied to the same memory: what the caches of the machine do to k.
* The others open and write whole streams in other ways, and fewer kinds of columns, so they are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data
from benchmarks.harness import Case, Curve, Run, Scale
from benchmarks.writes import warm

TITLE = "growth of the cost per unit"

#: A thousand times the work may cost 1.4 times as much per unit.
FLAT = 0.05

ROWS = 10


def cases(scale: Scale) -> Iterator[Case]:
    """For each kind of unit: reading, writing, looking up."""
    for n in (10, 100, 1_000, 10_000):
        n = scale.size(n, n // 5_000 + 2)
        yield from streams("columns", "column", n, data.plain_batch(n, ROWS), 1, n)
    for n in (20, 200, 2_000, 20_000):
        n = scale.size(n, n // 10_000 + 2)
        yield from streams("batches", "batch", n, data.plain_batch(10, ROWS), n, n)
    for n in (1, 10, 100, 1_000, 10_000):
        n = scale.size(n, n // 5_000 + 2)
        yield from streams("dictionaries", "dictionary", n, encoded(n), 1, n)
    for n in (1, 4, 15, 60):
        n = scale.size(n, n // 30 + 2)
        yield from streams("levels of nesting", "level", n, nested(n), 1, n)
    for n in (10, 100, 1_000, 10_000, 60_000):
        n = scale.size(n, n // 30_000 + 2)
        yield by_name(n)
        yield projected(n)


def curve(name: str, n: int) -> dict[str, Any]:
    """Return what the points of a curve have in common; its row is named like it."""
    return {"curve": Curve(name, n, FLAT, row="growth")}


def encoded(n: int) -> pa.RecordBatch:
    """Return n columns with a dictionary each, of a word of its own."""
    indices = pa.array(np.zeros(ROWS, np.int32))
    columns = [pa.DictionaryArray.from_arrays(indices, pa.array([f"word {i}"])) for i in range(n)]
    return pa.record_batch(columns, [f"c{i}" for i in range(n)])


def nested(levels: int) -> pa.RecordBatch:
    """Return a column of lists and structs in turn, so many levels around int64."""
    array: pa.Array = pa.array(np.arange(ROWS))
    for level in range(levels):
        if level % 2:
            array = pa.StructArray.from_arrays([array], ["s"])
        else:
            array = pa.ListArray.from_arrays(pa.array(np.arange(ROWS + 1, dtype=np.int32)), array)
    return pa.record_batch([array], ["x"])


def streams(name: str, unit: str, n: int, batch: pa.RecordBatch, count: int, units: int) -> Iterator[Case]:
    """Return a point of reading `count` batches and one of writing them."""
    source = data.stream([batch] * count)
    given = list(arrowipc.open_stream(source))
    target = warm(len(source) * 2 + 4096)
    buffer = pa.py_buffer(target)

    def read(batches: Any) -> int:
        return sum(each.num_rows for each in batches)

    def write(writer: Any, batches: list[Any]) -> int:
        with writer:
            for each in batches:
                writer.write_batch(each)
        return len(batches)

    readers: dict[str, Run] = {
        "pyarrow": lambda: read(pa.ipc.open_stream(source)),
        "arrowipc": lambda: read(arrowipc.open_stream(source, validate="none")),
        "arrowipc full": lambda: read(arrowipc.open_stream(source)),
    }
    theirs = [batch] * count
    ours = [given[0]] * count
    writers: dict[str, Run] = {
        "pyarrow": lambda: write(pa.ipc.new_stream(pa.FixedSizeBufferWriter(buffer), batch.schema), theirs),
        "arrowipc": lambda: write(arrowipc.new_stream(target, ours[0].schema), ours),
    }
    if count > 1:
        message = bytes(batch.serialize())

        def copied() -> int:
            at = 0
            for _ in range(count):
                target[at : at + len(message)] = message
                at += len(message)
            return count

        writers["copied"] = copied
    yield Case(f"read {n} {name}", unit, units, readers, **curve(f"{name} read", n))
    yield Case(f"write {n} {name}", unit, units, writers, **curve(f"{name} written", n))


class Unseen:
    """A stream of one batch of `columns` columns, of another schema each time."""

    def __init__(self, columns: int) -> None:
        batch = data.plain_batch(columns, 1).replace_schema_metadata({"run": "00000000"})
        self.source = data.stream([batch])
        self.at = self.source.index(b"00000000")
        self.run = 0

    def next(self) -> bytearray:
        """Return its bytes; those of before stay as they are, because somebody may still read them."""
        self.run += 1
        given = bytearray(self.source)
        given[self.at : self.at + 8] = b"%08d" % self.run
        return given


def by_name(n: int) -> Case:
    """Return a point of looking up all fields of a schema."""
    source = Unseen(n)
    names = [f"c{i}" for i in range(n)][::-1]

    def lookups(schema: Callable[[], Any]) -> int:
        found = schema()
        return sum(len(found.field(name).name) for name in names)

    contenders: dict[str, Run] = {
        "pyarrow": lambda: lookups(lambda: pa.ipc.open_stream(source.next()).schema),
        "arrowipc": lambda: lookups(lambda: arrowipc.open_stream(source.next()).schema),
    }
    return Case(f"look up {n} fields by name", "field", n, contenders, **curve("fields by name", n))


def projected(n: int) -> Case:
    """Return a point of projecting all columns but one by their names."""
    source = Unseen(n)
    names = [f"c{i}" for i in range(1, n)][::-1]

    def by_pyarrow() -> int:
        given = source.next()
        schema = pa.ipc.open_stream(given).schema
        options = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in names])
        return sum(each.num_columns for each in pa.ipc.open_stream(given, options=options))

    contenders: dict[str, Run] = {
        "pyarrow": by_pyarrow,
        "arrowipc": lambda: sum(
            each.num_columns for each in arrowipc.open_stream(source.next(), columns=names, validate="none")
        ),
    }
    return Case(f"read {n - 1} of {n} columns by name", "column", n, contenders, **curve("columns by name", n))
