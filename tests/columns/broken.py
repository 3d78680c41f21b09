"""Batches whose structure is sound and whose contents are broken, which only ``validate="none"`` lets through."""

from typing import Any

from helpers import forge
from helpers.forge import Table, batch, field, i8, i32, i64, schema, stream, view

import arrowipc as ipc

DENSE = Table("Union", mode=1, typeIds=[3, 5])
LONG = b"a text of more than twelve bytes"
LISTS = [field("x", forge.LIST, field("i", forge.INT8))]
LIST_VIEWS = [field("x", forge.LIST_VIEW, field("i", forge.INT8))]
LARGE_LIST_VIEWS = [field("x", Table("LargeListView"), field("i", forge.INT8))]
UNIONS = [field("x", DENSE, field("i", forge.INT8), field("j", forge.NULL))]
RUNS = [field("x", forge.REE, field("e", forge.INT64), field("v", forge.INT8))]


def forged(fields: list[Table], rows: Table, **options: Any) -> Any:
    """The batch, read without validation."""
    (found,) = ipc.open_stream(stream(schema(*fields), rows), validate="none", **options)
    return found


def union(codes: bytes, offsets: bytes) -> Table:
    return batch(len(codes), [(len(codes), 0), (2, 0), (3, 3)], [codes, offsets, b"", i8(1, 2)])


def runs(rows: int, *ends: int) -> Table:
    n = len(ends)
    return batch(rows, [(rows, 0), (n, 0), (n, 0)], [b"", i64(*ends), b"", i8(*range(n))])


def texts(kind: Table, offsets: bytes) -> tuple[list[Table], Table]:
    return [field("x", kind)], batch(2, [(2, 0)], [b"", offsets, b"abcdef"])


def lists(fields: list[Table], *places: bytes) -> tuple[list[Table], Table]:
    """One list of two elements."""
    return fields, batch(1, [(1, 0), (2, 0)], [b"", *places, b"", i8(1, 2)])


def views(cell: bytes, *data: bytes) -> tuple[list[Table], Table]:
    return [field("x", forge.UTF8_VIEW)], batch(1, [(1, 0)], [b"", cell, *data], variadic=[len(data)])


TEXT = b"a" * 20
#: Name -> fields and rows of a batch.
BROKEN = {
    "offsets that decrease": texts(forge.UTF8, i32(5, 3, 1)),
    "offsets past the data": texts(forge.BINARY, i32(0, 3, 7)),
    "negative offsets": texts(forge.UTF8, i32(-4, 0, 3)),
    "large offsets": texts(forge.LARGE_UTF8, i64(0, 1, 2**63 - 1)),
    "negative large offsets": texts(forge.LARGE_UTF8, i64(-(2**63), 0, 2)),
    "lists past the child": lists(LISTS, i32(0, 3)),
    "lists of nothing past the child": (
        [field("x", forge.LIST, field("n", forge.NULL))],
        batch(1, [(1, 0), (2, 2)], [b"", i32(0, 3)]),
    ),
    "list views past the child": lists(LIST_VIEWS, i32(1), i32(2)),
    "negative list views": lists(LIST_VIEWS, i32(1), i32(-1)),
    "list views before the child": lists(LIST_VIEWS, i32(-1), i32(2)),
    "endless list views": lists(LARGE_LIST_VIEWS, i64(1), i64(2**63 - 1)),
    "views past the buffer": views(view(TEXT, 0, 1), TEXT),
    "views of no buffer": views(view(TEXT, 1), TEXT),
    "views without buffers": views(view(LONG)),
    "views of a negative buffer": views(view(TEXT, -1), TEXT),
    "views at a negative offset": views(view(TEXT, 0, -1), TEXT),
    "views of a negative length": views(view(TEXT, length=-20), TEXT),
    "unknown type codes": (UNIONS, union(i8(3, 4), i32(0, 0))),
    "negative type codes": (UNIONS, union(i8(3, -3), i32(0, 0))),
    "union offsets past the child": (UNIONS, union(i8(3, 3), i32(0, 2))),
    "union offsets past the child without buffers": (UNIONS, union(i8(3, 5), i32(0, 3))),
    "negative union offsets": (UNIONS, union(i8(3, 5), i32(0, -1))),
    "run ends too short": (RUNS, runs(3, 1, 2)),
    "run ends that fall": (RUNS, runs(3, 2, 1, 3)),
    "run ends that stand": (RUNS, runs(3, 1, 1, 3)),
    "no runs": (RUNS, runs(3)),
}
