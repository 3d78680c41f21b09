"""Batches whose structure is sound and whose contents are broken, which only ``validate="none"`` lets through."""

from __future__ import annotations

from typing import Any

from helpers import forge
from helpers.forge import Table, batch, field, i8, i32, i64, schema, stream, view

import arrowipc as ipc

DENSE, LARGE_LIST_VIEW = Table("Union", mode=1, typeIds=[3, 5]), Table("LargeListView")
LONG = b"a text of more than twelve bytes"
LISTS = [field("x", forge.LIST, field("i", forge.INT8))]
LIST_VIEWS = [field("x", forge.LIST_VIEW, field("i", forge.INT8))]
LARGE_LIST_VIEWS = [field("x", LARGE_LIST_VIEW, field("i", forge.INT8))]
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


#: Name -> fields and rows of a batch.
BROKEN = {
    "offsets that decrease": ([field("x", forge.UTF8)], batch(2, [(2, 0)], [b"", i32(5, 3, 1), b"abcdef"])),
    "offsets past the data": ([field("x", forge.BINARY)], batch(2, [(2, 0)], [b"", i32(0, 3, 7), b"abcdef"])),
    "negative offsets": ([field("x", forge.UTF8)], batch(2, [(2, 0)], [b"", i32(-4, 0, 3), b"abcdef"])),
    "large offsets": (
        [field("x", forge.LARGE_UTF8)],
        batch(2, [(2, 0)], [b"", i64(0, 1, 2**63 - 1), b"abcdef"]),
    ),
    "negative large offsets": (
        [field("x", forge.LARGE_UTF8)],
        batch(2, [(2, 0)], [b"", i64(-(2**63), 0, 2), b"abcdef"]),
    ),
    "lists past the child": (LISTS, batch(1, [(1, 0), (2, 0)], [b"", i32(0, 3), b"", i8(1, 2)])),
    "lists of nothing past the child": (
        [field("x", forge.LIST, field("n", forge.NULL))],
        batch(1, [(1, 0), (2, 2)], [b"", i32(0, 3)]),
    ),
    "list views past the child": (
        LIST_VIEWS,
        batch(1, [(1, 0), (2, 0)], [b"", i32(1), i32(2), b"", i8(1, 2)]),
    ),
    "negative list views": (LIST_VIEWS, batch(1, [(1, 0), (2, 0)], [b"", i32(1), i32(-1), b"", i8(1, 2)])),
    "list views before the child": (
        LIST_VIEWS,
        batch(1, [(1, 0), (2, 0)], [b"", i32(-1), i32(2), b"", i8(1, 2)]),
    ),
    "endless list views": (
        LARGE_LIST_VIEWS,
        batch(1, [(1, 0), (2, 0)], [b"", i64(1), i64(2**63 - 1), b"", i8(1, 2)]),
    ),
    "views past the buffer": (
        [field("x", forge.UTF8_VIEW)],
        batch(1, [(1, 0)], [b"", view(b"a" * 20, 0, 1), b"a" * 20], variadic=[1]),
    ),
    "views of no buffer": (
        [field("x", forge.UTF8_VIEW)],
        batch(1, [(1, 0)], [b"", view(b"a" * 20, 1), b"a" * 20], variadic=[1]),
    ),
    "views without buffers": ([field("x", forge.UTF8_VIEW)], batch(1, [(1, 0)], [b"", view(LONG)], variadic=[0])),
    "views of a negative buffer": (
        [field("x", forge.UTF8_VIEW)],
        batch(1, [(1, 0)], [b"", view(b"a" * 20, -1), b"a" * 20], variadic=[1]),
    ),
    "views at a negative offset": (
        [field("x", forge.UTF8_VIEW)],
        batch(1, [(1, 0)], [b"", view(b"a" * 20, 0, -1), b"a" * 20], variadic=[1]),
    ),
    "views of a negative length": (
        [field("x", forge.UTF8_VIEW)],
        batch(1, [(1, 0)], [b"", view(b"a" * 20, length=-20), b"a" * 20], variadic=[1]),
    ),
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
