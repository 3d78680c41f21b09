"""What the Arrow C data interface says about a field: format string, flags and encoded metadata.

The cold half of :mod:`arrowipc._capsule`, which puts these values into structs.
"""

from __future__ import annotations

import sys

from arrowipc import _datatypes as types
from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.schema import Schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias

    #: format, name, encoded metadata (empty: none), flags, number of children, whether it has a dictionary,
    #: index of the next node that is not below this one.
    Node: TypeAlias = tuple[bytes, bytes, bytes, int, int, bool, int]

FLAG_DICTIONARY_ORDERED = 1
FLAG_NULLABLE = 2
FLAG_MAP_KEYS_SORTED = 4

#: Structs of one export. A schema of 16 MiB holds fewer; types that share children could ask for 2**64.
MAX_STRUCTS = 1 << 22

INT32_MAX = 2**31 - 1

_INTEGERS = {8: "c", 16: "s", 32: "i", 64: "l"}
_FLOATS = {"half": "e", "single": "f", "double": "g"}
_INTERVALS = {"year_month": "tiM", "day_time": "tiD", "month_day_nano": "tin"}


def _integer(t: Any) -> str:
    letter = _INTEGERS[t.bit_width]
    return letter if t.signed else letter.upper()


def _decimal(t: Any) -> str:
    return f"d:{t.precision},{t.scale}" + ("" if t.bit_width == 128 else f",{t.bit_width}")


# A table, so that it can be read beside the interface's own. Units are written by their first letter.
_FORMATS: dict[type, Callable[[Any], str]] = {
    types.Null: lambda t: "n",
    types.Bool: lambda t: "b",
    types.Int: _integer,
    types.FloatingPoint: lambda t: _FLOATS[t.precision],
    types.Decimal: _decimal,
    types.Binary: lambda t: "z",
    types.LargeBinary: lambda t: "Z",
    types.BinaryView: lambda t: "vz",
    types.Utf8: lambda t: "u",
    types.LargeUtf8: lambda t: "U",
    types.Utf8View: lambda t: "vu",
    types.FixedSizeBinary: lambda t: f"w:{t.byte_width}",
    types.Date: lambda t: "tdD" if t.unit == "day" else "tdm",
    types.Time: lambda t: f"tt{t.unit[0]}",
    types.Timestamp: lambda t: f"ts{t.unit[0]}:{t.timezone or ''}",
    types.Duration: lambda t: f"tD{t.unit[0]}",
    types.Interval: lambda t: _INTERVALS[t.unit],
    types.List: lambda t: "+l",
    types.LargeList: lambda t: "+L",
    types.ListView: lambda t: "+vl",
    types.LargeListView: lambda t: "+vL",
    types.FixedSizeList: lambda t: f"+w:{t.list_size}",
    types.Struct: lambda t: "+s",
    types.Map: lambda t: "+m",
    types.Union: lambda t: f"+u{t.mode[0]}:{','.join(map(str, t.type_codes))}",
    types.RunEndEncoded: lambda t: "+r",
    types.Dictionary: lambda t: _integer(t.index_type),
}


def nodes_of(described: Schema | types.Field | types.DataType) -> list[Node]:
    """List what each ArrowSchema of an export holds, in pre-order, a dictionary after the children.

    Raises
    ------
    UnsupportedError
        If a name or a timezone contains a NUL character, or there are too many fields.
    UsageError
        If a schema describes data kept in big-endian byte order, or `described` is something else.
    """
    nodes: list[Node] = []
    if isinstance(described, Schema):
        if described.endianness != "little":
            raise UsageError(
                "the data was kept in big-endian byte order (ensure_native_endian=False), and the Arrow C "
                "data interface has native byte order only: read it with ensure_native_endian=True"
            )
        metadata = encoded_metadata(described.metadata)
        nodes.append((b"+s", b"", metadata, 0, len(described.fields), False, 0))
        for field in described.fields:
            _add_field(nodes, field, field.name)
        nodes[0] = (*nodes[0][:6], len(nodes))
    elif isinstance(described, types.Field):
        _add_field(nodes, described, described.name)
    elif isinstance(described, types.DataType):
        _add_type(nodes, described, b"", b"", FLAG_NULLABLE, "")
    else:
        raise UsageError(f"expected a Schema, Field or DataType to export, found {type(described).__name__}")
    return nodes


def _add_field(nodes: list[Node], field: types.Field, path: str) -> None:
    name = _c_string(field.name, "the name", path)
    flags = FLAG_NULLABLE if field.nullable else 0
    _add_type(nodes, field.type, name, encoded_metadata(field.metadata), flags, path)


def _add_type(
    nodes: list[Node], kind: types.DataType, name: bytes, metadata: bytes, flags: int, path: str
) -> None:
    if len(nodes) >= MAX_STRUCTS:
        raise UnsupportedError(f"a schema of more than {MAX_STRUCTS:,} fields is too large to export")
    if isinstance(kind, types.Map) and kind.keys_sorted:
        flags |= FLAG_MAP_KEYS_SORTED
    if isinstance(kind, types.Dictionary) and kind.ordered:
        flags |= FLAG_DICTIONARY_ORDERED
    format = _c_string(_FORMATS[type(kind)](kind), "the type", path)
    encoded = isinstance(kind, types.Dictionary)
    at = len(nodes)
    nodes.append((format, name, metadata, flags, len(kind.children), encoded, 0))
    for child in kind.children:
        _add_field(nodes, child, f"{path}.{child.name}")
    if isinstance(kind, types.Dictionary):
        _add_type(nodes, kind.value_type, b"", b"", FLAG_NULLABLE, path)
    nodes[at] = (format, name, metadata, flags, len(kind.children), encoded, len(nodes))


def _c_string(text: str, what: str, path: str) -> bytes:
    """Return UTF-8 that holds no NUL: C strings end there."""
    if "\0" in text:
        raise UnsupportedError(
            f"column {path!r}: {what} {text!r} contains a NUL character, which IPC allows and the Arrow C "
            "data interface cannot carry; leave the column out, or rename it before it is handed over"
        )
    return text.encode()


def encoded_metadata(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encode pairs as int32 counts and sizes in native byte order; order, duplicates and NULs stay."""
    texts = [text for pair in pairs for text in pair]
    if not texts:
        return b""
    parts = [(len(texts) // 2).to_bytes(4, sys.byteorder)]
    for text in texts:
        if len(text) > INT32_MAX:
            raise UnsupportedError(
                f"metadata of {len(text):,} bytes: the Arrow C data interface holds 2**31 - 1 per string"
            )
        parts += (len(text).to_bytes(4, sys.byteorder), text)
    return b"".join(parts)
