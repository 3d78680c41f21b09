"""Columns by name: one table of names per schema, and nothing that grows with the square of its columns."""

import enum
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.arrays import ipc_bytes

import arrowipc as ipc
from arrowipc import UsageError, types
from arrowipc.derived.dictionary_encode import dictionary_encode


def test_names_that_repeat_or_hold_dots_mean_what_they_meant() -> None:
    i8, pair = types.int8(), types.struct([types.field("x", types.int8()), types.field("x", types.int8())])
    inner = types.struct([types.field("b", i8), types.field("b.c", i8)])
    nested, pairs = types.struct([types.field("a", inner), types.field("a.b", i8)]), types.map_(types.string(), i8)
    root = ipc.schema(
        [("a", i8), ("a", i8), ("s", pair), ("t", nested), ("t.a", i8), ("m", pairs), (".", i8), ("a", i8)]
    )

    def chosen(*names: str) -> str:
        with ipc.open_stream(ipc_bytes([], schema=root), columns=names) as reader:
            return "\n".join(map(str, reader.schema))

    for name, places in (("a", [0, 1, 7]), ("a.x", [0, 1, 7]), ("s.x", [0, 1]), ("s.x.y", [0, 1])):
        first = {"a.x": "a", "s.x": "x", "s.x.y": "x"}.get(name, name)
        with pytest.raises(ipc.NotFoundError, match=re.escape(f"columns: {first!r} names the columns {places};")):
            chosen(name)
    for name in ("b", "s.y", "t.a.x", "m.key", "m.entries", "t.a.b.c.d"):
        with pytest.raises(ipc.NotFoundError, match=re.escape(f"columns: no column {name!r}; the schema has 'a', 'a'")):
            chosen(name)
    assert chosen("t.a") == "t.a: int8"  # the column comes before the part of one
    assert chosen("t.a.b") == "t: struct<a.b: int8>"
    assert chosen("t.a.b.c") == "t: struct<a: struct<b.c: int8>>"
    assert chosen(".", "t.a") == ".: int8\nt.a: int8"
    with pytest.raises(UsageError, match="is asked for twice, or together with a part of it"):
        chosen("t", "t.a.b")


FEW, MANY = 1_500, 12_000


def refused(call: Callable[[], Any]) -> None:
    with pytest.raises(UsageError):
        call()


def with_absent(batch: ipc.RecordBatch) -> None:
    """A payload has the first column and as many others as the output, all of which are absent from it."""
    other = {"c0": [1], **{f"x{i}": [1] for i in range(len(batch.schema))}}
    payload = ipc_bytes(ipc.RecordBatch.from_pydict(other))
    ipc.decode_payloads([payload], schema=batch.schema)


def in_pairs(batch: ipc.RecordBatch) -> None:
    """One row of a struct as pairs, the last field first."""
    root = ipc.Schema([types.field("s", types.struct(list(batch.schema)))])
    ipc.RecordBatch.from_pydict({"s": [[(name, 1) for name in reversed(batch.schema.names)]]}, root)


def projected(fields: list[types.Field], names: list[str]) -> None:
    """16,000 of 16,000 names took 8.8 s."""
    data = ipc_bytes([], schema=ipc.Schema(fields))
    ipc.open_stream(data, columns=names[::-1], limits=ipc.Limits(metadata_bytes=2**30)).close()


def dotted(batch: ipc.RecordBatch) -> None:
    whole = types.field("s", types.struct(list(batch.schema)))
    projected([whole], [f"s.{name}" for name in batch.schema.names])


WAYS: dict[str, Callable[[ipc.RecordBatch], Any]] = {
    "columns of a reader": lambda batch: projected(list(batch.schema), batch.schema.names),
    "dotted columns of a reader": dotted,
    "fields": lambda batch: [batch.schema.field(name) for name in batch.schema.names],
    "indices": lambda batch: [batch.schema.get_field_index(name) for name in batch.schema.names],
    "columns": lambda batch: [batch[name] for name in batch.schema.names],
    "codecs": lambda batch: ipc_bytes(batch, compression=dict.fromkeys(batch.schema.names, "lz4")),
    "unknown codecs": lambda batch: refused(
        lambda: ipc_bytes(batch, compression={f"{name}?": "lz4" for name in batch.schema.names})
    ),
    "statistics": lambda batch: ipc_bytes(batch, statistics=batch.schema.names),
    "values": lambda batch: ipc.RecordBatch.from_pydict({k: [1] for k in batch.schema.names}, batch.schema),
    "repeated values": lambda batch: refused(
        lambda: ipc.RecordBatch.from_pydict({}, ipc.Schema([*batch.schema, *batch.schema]))
    ),
    "absent fields": with_absent,
    "pairs": in_pairs,
    "dictionaries": lambda batch: refused(lambda: dictionary_encode(batch, ["?", *batch.schema.names])),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_look_up_by_name_grows_with_the_square(way: str) -> None:
    def seconds(count: int) -> float:
        batch = ipc.RecordBatch.from_pydict({f"c{i}": [1] for i in range(count)})
        start = time.process_time()
        WAYS[way](batch)
        return time.process_time() - start

    seconds(10)
    few = min(seconds(FEW) for _ in range(3))
    # 8 times as many names: 64 times as long, if each were compared with each.
    assert any(seconds(MANY) < 32 * few + 0.1 for _ in range(2))


class Name(enum.StrEnum):
    A = "a"
    C = "c"


class Old(str, enum.Enum):  # noqa: UP042
    """What people wrote before StrEnum: its `str()` is not its value."""

    A = "a"
    C = "c"


#: What takes names; `a` and `c` are columns of integers, `g` is one of text.
TAKES_NAMES: dict[str, Callable[[Any, Any], Any]] = {
    "open": lambda a, c: ipc.open(FILE, columns=[c, a]).read_all().to_pydict(),
    "open one": lambda a, c: ipc.open(FILE, columns=[c]).read_all().append_column(a, [1, 2]).to_pydict(),
    "stream": lambda a, c: ipc.open_stream(STREAM, columns=(c, a)).read_all().to_pydict(),
    "select": lambda a, c: ROWS.select([c, a]).to_pydict(),
    "table": lambda a, c: ipc.Table.from_batches([ROWS]).select([c, a]).to_pydict(),
    "brackets": lambda a, c: {"c": ROWS[c].to_pylist(), "a": ROWS[a].to_pylist()},
    "several in brackets": lambda a, c: ROWS[[c, a]].to_pydict(),
    "of a table": lambda a, c: ipc.Table.from_batches([ROWS])[[c, a]].to_pydict(),
    "drop": lambda a, c: ROWS.drop(a).drop("g").append_column(a, [1, 2]).to_pydict(),
    "rename": lambda a, c: ROWS.select(["a", "c"]).rename({"a": c, "c": a}).rename([c, a]).to_pydict() | VALUES,
    "from_pydict": lambda a, c: ipc.RecordBatch.from_pydict({c: [3, 4], a: [1, 2]}).to_pydict(),
    "with a schema": lambda a, c: ipc.RecordBatch.from_pydict({c: [3, 4], a: [1, 2]}, schema_of(c, a)).to_pydict(),
    "from_pylist": lambda a, c: ipc.RecordBatch.from_pylist([{c: 3, a: 1}, {c: 4, a: 2}]).to_pydict(),
    "structs": lambda a, c: ipc.Array.from_pylist([{c: [3, 4], a: [1, 2]}]).to_pylist()[0],
    "fields": lambda a, c: {name: VALUES[name] for name in schema_of(c, a).names},
    "a field": lambda a, c: {schema_of(c, a)[name].name: VALUES[name] for name in (c, a)},
    "payloads": lambda a, c: ipc.decode_payloads([STREAM], columns=[c, a]).batch.to_pydict(),
    "parent_index": lambda a, c: ipc.decode_payloads([STREAM] * 2, parent_index=Old.C, columns=[a]).batch[c] and VALUES,
    "encode_payloads": lambda a, c: ipc.encode_payloads(ROWS.select([c, a]), group_by=[a]) and VALUES,
    "statistics": lambda a, c: {each: VALUES[each] for each in ipc.compute_statistics(ROWS, columns=[c, a])},
    "dictionary_encode": lambda a, c: dictionary_encode(ROWS.select([c, a]), [c]).to_pydict(),
    "writer": lambda a, c: ipc.open(ipc_bytes({c: [3, 4], a: [1, 2]}, "file")).read_all().to_pydict(),
}
VALUES = {"c": [3, 4], "a": [1, 2]}
ROWS = ipc.RecordBatch.from_pydict({"a": [1, 2], "c": [3, 4], "g": ["x", "y"]})


def schema_of(*names: Any) -> ipc.Schema:
    return ipc.Schema([types.field(name, types.int64()) for name in names])


FILE = ipc_bytes(ROWS, "file")
STREAM = ipc_bytes(ROWS)


@pytest.mark.parametrize("kind", [Name, Old, np.str_], ids=["StrEnum", "str and Enum", "numpy"])
@pytest.mark.parametrize("call", TAKES_NAMES)
def test_names_may_be_of_a_class_that_is_text(call: str, kind: type[Any]) -> None:
    """Compiled functions refused them: "Expected str, got numpy.str_"."""
    found = TAKES_NAMES[call](kind("a"), kind("c"))
    assert found == VALUES
    assert {type(name) for name in found} == {str}
