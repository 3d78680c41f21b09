"""Schemas, batches and dictionaries that several files of the checklist use."""

from helpers import forge
from helpers.drive import Reading
from helpers.forge import Span, Table, batch, dictionary, encoding, field, i8, i32, schema

LONG = b"longer than twelve bytes"


def of(kind: Table, *children: Table) -> Table:
    """A schema of one column `x`."""
    return schema(field("x", kind, *children))


def flat(count: int, *buffers: Span, nulls: int = 0, **slots) -> Table:
    """A batch of one column with nothing below it: its validity, and its other buffers."""
    return batch(count, [(count, nulls)], buffers, **slots)


ONE, ROWS = of(forge.INT32), flat(3, b"", i32(1, 2, 3))


def encoded(
    name: str = "d", kind: Table = forge.UTF8, *children: Table, id=7, index: Table | None = forge.INT8
) -> Table:
    """A field that is dictionary-encoded."""
    return field(name, kind, *children, dictionary=encoding(id, index))


CODED = schema(encoded())


def words(*values: str, id: int = 7) -> Table:
    """A dictionary."""
    return dictionary(id, forge.texts(*values))


def delta(*values: str, id: int = 7) -> Table:
    return dictionary(id, forge.texts(*values), isDelta=True)


def coded(*indices: int, nulls: bytes = b"") -> Table:
    """A batch of one encoded column."""
    count = len(indices) - sum(bin(byte).count("1") for byte in nulls) if nulls else 0
    return flat(len(indices), nulls, i8(*indices), nulls=count)


def firsts(reading: Reading) -> list:
    """The values of the first column, batch by batch."""
    return [columns[0] for columns in reading.values()]
