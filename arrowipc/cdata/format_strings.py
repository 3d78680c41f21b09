"""The terms of the Arrow C data interface for fields and types: format strings, flags and encoded metadata.

:mod:`arrowipc.cdata.export` puts these values into structs, :mod:`arrowipc.cdata.import_array` reads them there.
This module is the part of both that is not needed for every batch.
"""

from __future__ import annotations

import sys

from arrowipc import datatypes as types
from arrowipc.errors import FormatError, UnsupportedError, UsageError, named_column
from arrowipc.schemas import Schema
from arrowipc.type_numbers import TIME_BITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias

    Pairs: TypeAlias = tuple[tuple[bytes, bytes], ...]
    #: format, name, encoded metadata (empty: none), flags, number of children, whether it has a dictionary,
    #: index of the next node that is not below this one.
    Node: TypeAlias = tuple[bytes, bytes, bytes, int, int, bool, int]

FLAG_DICTIONARY_ORDERED = 1
FLAG_NULLABLE = 2
FLAG_MAP_KEYS_SORTED = 4

#: The most structs of one export. A schema of 16 MiB holds fewer; types that share children could ask for 2**64.
MAX_STRUCTS = 1 << 22

INT32_MAX = 2**31 - 1

_EXTENSION = (types.EXTENSION_NAME, types.EXTENSION_METADATA)

_INTEGERS = {8: "c", 16: "s", 32: "i", 64: "l"}
_FLOATS = {"half": "e", "single": "f", "double": "g"}
_INTERVALS = {"year_month": "tiM", "day_time": "tiD", "month_day_nano": "tin"}

# Lists with one child and no parameters.
_LISTS: dict[type[Any], str] = {
    types.List: "+l",
    types.LargeList: "+L",
    types.ListView: "+vl",
    types.LargeListView: "+vL",
}


def _integer(t: types.Int) -> str:
    letter = _INTEGERS[t.bit_width]
    return letter if t.signed else letter.upper()


# Type -> its format string, or a function that makes it. Units are written by their first letter.
_FORMATS: dict[type, str | Callable[[Any], str]] = {
    types.Null: "n",
    types.Bool: "b",
    types.Binary: "z",
    types.LargeBinary: "Z",
    types.BinaryView: "vz",
    types.Utf8: "u",
    types.LargeUtf8: "U",
    types.Utf8View: "vu",
    **_LISTS,
    types.Struct: "+s",
    types.Map: "+m",
    types.RunEndEncoded: "+r",
    types.Int: _integer,
    types.FloatingPoint: lambda t: _FLOATS[t.precision],
    types.Decimal: lambda t: f"d:{t.precision},{t.scale}" + ("" if t.bit_width == 128 else f",{t.bit_width}"),
    types.FixedSizeBinary: lambda t: f"w:{t.byte_width}",
    types.Date: lambda t: "tdD" if t.unit == "day" else "tdm",
    types.Time: lambda t: f"tt{t.unit[0]}",
    types.Timestamp: lambda t: f"ts{t.unit[0]}:{t.timezone or ''}",
    types.Duration: lambda t: f"tD{t.unit[0]}",
    types.Interval: lambda t: _INTERVALS[t.unit],
    types.FixedSizeList: lambda t: f"+w:{t.list_size}",
    types.Union: lambda t: f"+u{t.mode[0]}:{','.join(map(str, t.type_codes))}",
    types.Dictionary: lambda t: _integer(t.index_type),
}


def _format_of(kind: types.DataType) -> str:
    found = _FORMATS[type(kind)]
    return found if isinstance(found, str) else found(kind)


# Format string -> type, for the types without parameters and children.
_PLAIN = {_format_of(kind): kind for kind in types.PLAIN_TYPES if not isinstance(kind, types.Timestamp)}

# Format string up to its parameters -> number of children (-1: any number), and a function that makes the type of
# the parameters, the children and the flags of the struct.
_PARAMETRIC: dict[str, tuple[int, Callable[[str, list[types.Field], int], types.DataType]]] = {
    **{
        text: (1, lambda text, children, flags, kind=kind: kind(children[0]))  # type: ignore[misc]
        for kind, text in _LISTS.items()
    },
    **{
        f"ts{unit[0]}": (0, lambda text, children, flags, unit=unit: types.Timestamp(unit, text))  # type: ignore[misc]
        for unit in TIME_BITS
    },
    "d": (0, lambda text, children, flags: _read_decimal(text)),
    "w": (0, lambda text, children, flags: types.FixedSizeBinary(_number(text))),
    "+w": (1, lambda text, children, flags: types.FixedSizeList(children[0], _number(text))),
    "+us": (-1, lambda text, children, flags: types.Union("sparse", children, _numbers(text))),
    "+ud": (-1, lambda text, children, flags: types.Union("dense", children, _numbers(text))),
    "+s": (-1, lambda text, children, flags: types.Struct(children)),
    "+m": (1, lambda text, children, flags: _read_map(children[0], bool(flags & FLAG_MAP_KEYS_SORTED))),
    "+r": (2, lambda text, children, flags: types.RunEndEncoded(children[0], children[1])),
}
# The format strings that have a colon and parameters behind it.
_WITH_COLON = {"d", "w", "+w", "+us", "+ud", *(f"ts{unit[0]}" for unit in TIME_BITS)}


# -- from schemas to nodes -----------------------------------------------------------------------------------


def nodes_of(described: Schema | types.Field | types.DataType) -> list[Node]:
    """List what each ArrowSchema of an export holds, in pre-order, a dictionary after the children."""
    nodes: list[Node] = []
    if isinstance(described, Schema):
        if described.endianness != "little":
            raise UsageError(
                "the data was kept in big-endian byte order (ensure_native_endian=False), and the Arrow C "
                "data interface has native byte order only: read it with ensure_native_endian=True"
            )
        metadata = encoded_metadata(described.metadata.pairs)
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
    own: Pairs = field.metadata.pairs
    below: Pairs = ()
    extension = field.extension_name if isinstance(field.type, types.Dictionary) else None
    if extension is not None and extension.startswith("arrow.") and extension != "arrow.opaque":
        # Canonical types, except arrow.opaque, do not allow dictionaries as storage: the dictionary's values get it.
        below = tuple([pair for pair in own if pair[0] in _EXTENSION])
        own = tuple([pair for pair in own if pair[0] not in _EXTENSION])
    _add_type(nodes, field.type, name, encoded_metadata(own), flags, path, encoded_metadata(below))


def _add_type(
    nodes: list[Node],
    kind: types.DataType,
    name: bytes,
    metadata: bytes,
    flags: int,
    path: str,
    below: bytes = b"",
) -> None:
    """Append the nodes of a type; `below` is the metadata of a dictionary's values."""
    if len(nodes) >= MAX_STRUCTS:
        raise UnsupportedError(f"a schema of more than {MAX_STRUCTS:,} fields is too large to export")
    if isinstance(kind, types.Map) and kind.keys_sorted:
        flags |= FLAG_MAP_KEYS_SORTED
    if isinstance(kind, types.Dictionary) and kind.ordered:
        flags |= FLAG_DICTIONARY_ORDERED
    format = _c_string(_format_of(kind), "the type", path)
    encoded = isinstance(kind, types.Dictionary)
    at = len(nodes)
    nodes.append((format, name, metadata, flags, len(kind.children), encoded, 0))
    for child in kind.children:
        _add_field(nodes, child, f"{path}.{child.name}")
    if isinstance(kind, types.Dictionary):
        _add_type(nodes, kind.value_type, b"", below, FLAG_NULLABLE, path)
    nodes[at] = (format, name, metadata, flags, len(kind.children), encoded, len(nodes))


def _c_string(text: str, what: str, path: str) -> bytes:
    """Return the text as UTF-8; refuse a NUL, which would end the C string."""
    if "\0" in text:
        raise UnsupportedError(
            f"{named_column(path)}: {what} {text!r} contains a NUL character, which IPC allows and the Arrow C "
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


# -- from nodes to schemas -----------------------------------------------------------------------------------


def schema_of(nodes: list[Node]) -> Schema:
    """Make the schema that the nodes of a struct describe; the opposite of :func:`nodes_of`."""
    format, _, metadata, _, n_children, encoded, _ = nodes[0]
    if format != b"+s" or encoded:
        raise UsageError(
            f"expected a schema, or a batch with one: a struct (format string '+s'), found "
            f"{'a dictionary of ' if encoded else ''}{_spelled(format)!r}, which describes a single column"
        )
    return Schema(_fields(nodes, 0, n_children, ""), decoded_metadata(metadata))


def field_of(nodes: list[Node]) -> types.Field:
    """Make the field that the nodes describe."""
    return _read_field(nodes, 0, "")


def _fields(nodes: list[Node], parent: int, count: int, path: str) -> list[types.Field]:
    found = []
    at = parent + 1
    for _ in range(count):
        found.append(_read_field(nodes, at, path))
        at = nodes[at][6]
    return found


def _read_field(nodes: list[Node], at: int, parent: str) -> types.Field:
    name_bytes, metadata, flags = nodes[at][1:4]
    try:
        name = name_bytes.decode()
    except UnicodeDecodeError:
        raise FormatError(f"a column below {parent!r} has the name {name_bytes!r}, which is not UTF-8") from None
    path = f"{parent}.{name}" if parent else name
    kind = _read_type(nodes, at, path)
    pairs = decoded_metadata(metadata)
    if nodes[at][5]:
        pairs = _with_extension(pairs, decoded_metadata(nodes[at + 1][2]), path)
    return types.Field(name, kind, bool(flags & FLAG_NULLABLE), pairs)


def _with_extension(pairs: Pairs, below: Pairs, path: str) -> Pairs:
    """Add the extension type of a dictionary's values to those of the field, the one place for it in IPC."""
    mine, theirs = ({types.EXTENSION_METADATA: b""} | dict(each) for each in (pairs, below))
    name = types.EXTENSION_NAME
    if name not in theirs or all(mine.get(key) == theirs[key] for key in _EXTENSION):
        return pairs
    if name in mine:
        raise UnsupportedError(
            f"{named_column(path)} has the extension type {_spelled(mine[name])!r}, and the values of its "
            f"dictionary {_spelled(theirs[name])!r}: an IPC field holds one; hand over the storage of one"
        )
    return (*pairs, *[pair for pair in below if pair[0] in _EXTENSION])


def _read_type(nodes: list[Node], at: int, path: str) -> types.DataType:
    format, _, _, flags, n_children, encoded, _ = nodes[at]
    text = _spelled(format)
    try:
        if encoded:
            return _read_dictionary(nodes, at, path)
        if text in _PLAIN:
            _check_count(n_children, 0)
            return _PLAIN[text]
        head, colon, rest = text.partition(":")
        if head in ("_pli128", "_plu128"):
            raise UnsupportedError(f"{named_column(path)} has {types.WIDE_INTEGERS}")
        if head not in _PARAMETRIC or bool(colon) != (head in _WITH_COLON):
            raise UnsupportedError(
                f"{named_column(path)}: the format string {text!r} stands for no type that arrowipc knows"
            )
        expected, make = _PARAMETRIC[head]
        _check_count(n_children, expected)
        return make(rest, _fields(nodes, at, n_children, path), flags)
    except (FormatError, UnsupportedError):
        raise
    except (UsageError, ValueError) as error:
        # The type refuses parameters, children or flags, which the producer has chosen.
        raise FormatError(f"{named_column(path)}, format string {text!r}: {error}") from None


def refuse_addresses(source: Any) -> None:
    """Refuse a frame or series of polars with Python objects: it would hand over their addresses as values."""
    frame = source.to_frame() if hasattr(source, "to_frame") else source
    for name, kind in frame.schema.items():
        if str(kind) == "Object":
            raise UnsupportedError(f"column {name!r} has Python objects (pl.Object), for which Arrow has no type")


def _read_dictionary(nodes: list[Node], at: int, path: str) -> types.DataType:
    format, _, _, flags, n_children, _, _ = nodes[at]
    index = _PLAIN.get(_spelled(format))
    if not isinstance(index, types.Int):
        raise UsageError("the indices of a dictionary must be integers")
    _check_count(n_children, 0)
    values = _read_type(nodes, at + 1, path)
    return types.Dictionary(index, values, bool(flags & FLAG_DICTIONARY_ORDERED))


def _read_decimal(text: str) -> types.Decimal:
    numbers = _numbers(text)
    if len(numbers) not in (2, 3):
        raise UsageError("expected precision, scale and, unless it is 128, the bit width")
    return types.Decimal(*numbers)


def _read_map(entries: types.Field, keys_sorted: bool) -> types.Map:
    kind = entries.type
    if isinstance(kind, types.Struct) and len(kind.fields) == 2:
        # Keys and entries are never nullable by the format, but not every producer sets these two flags.
        if kind.fields[0].nullable:
            kind = types.Struct([kind.fields[0].__replace__(nullable=False), kind.fields[1]])
        entries = entries.__replace__(type=kind, nullable=False)
    return types.Map(entries, keys_sorted)


def _numbers(text: str) -> list[int]:
    return [_number(part) for part in text.split(",")] if text else []


def _number(text: str) -> int:
    # int() would also accept spaces, underscores and the digits of other scripts.
    if not text.removeprefix("-").isdecimal() or not text.isascii():
        raise UsageError(f"expected an integer, found {text!r}")
    return int(text)


def _check_count(found: int, expected: int) -> None:
    if found != expected >= 0:
        raise UsageError(f"expected {expected} children, found {found}")


def _spelled(format: bytes) -> str:
    return format.decode("utf-8", "backslashreplace")


def decoded_metadata(encoded: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Split what :func:`encoded_metadata` makes; the caller has checked its sizes while copying."""
    texts = []
    at = 4
    while at < len(encoded):
        size = int.from_bytes(encoded[at : at + 4], sys.byteorder)
        texts.append(encoded[at + 4 : at + 4 + size])
        at += 4 + size
    return tuple(zip(texts[::2], texts[1::2], strict=True))
