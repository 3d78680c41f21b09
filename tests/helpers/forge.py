"""Forges Arrow IPC input byte by byte, valid and broken, from the tables that a test states.

A test describes FlatBuffers tables as values (`Table`, or the short names `field`, `schema`, `batch`,
`dictionary`), and `stream` or `file` turns them into bytes. A slot that is not given is absent from the
vtable; one that is given is written even when it equals the default. `patch` overwrites any word of a
finished message, found by its path.
"""

import contextlib
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import flatbuffers

from helpers import fbs

V1, V2, V3, V4, V5 = range(5)
MAGIC = b"ARROW1"
CONTINUATION = b"\xff\xff\xff\xff"
EOS = CONTINUATION + bytes(4)
LEGACY_EOS = bytes(4)

SCALARS = {"q": "Int64", "i": "Int32", "h": "Int16", "b": "Int8", "B": "Uint8", "?": "Bool"}
_CODES = {"bool": "?", "byte": "b", "ubyte": "B", "short": "h", "int": "i", "long": "q"}
_RECORDS = [each for each in fbs.LAYOUT.declarations.values() if isinstance(each, fbs.Record)]


def _code(member: fbs.Member) -> str:
    """The type of a member, scalars and enums as codes of `struct`."""
    found = fbs.LAYOUT.choice(member.type)
    what = found.base if found is not None and found.kind == "enum" else member.type
    what = _CODES.get(what, what)
    return f"[{what}]" if member.is_vector else what


def _struct(record: fbs.Record) -> tuple[str, dict[str, tuple[int, str]]]:
    """A struct as a format of `struct`, and the place and code of each member."""
    members = {each.name: (fbs.NUMBERS[f"{record.name}_{each.name}"], _code(each)) for each in record.members}
    layout, end = "<", 0
    for offset, code in members.values():
        layout += f"{offset - end}x{code}" if offset > end else code
        end = offset + struct.calcsize(code)
    return layout, members


TABLES = {each.name: [(m.name, _code(m)) for m in each.members] for each in _RECORDS if each.kind == "table"}
STRUCTS = {each.name: _struct(each) for each in _RECORDS if each.kind == "struct"}
UNIONS = {
    each.name: list(each.values)
    for each in fbs.LAYOUT.declarations.values()
    if isinstance(each, fbs.Choice) and each.kind == "union"
}


def slots_of(kind: str) -> list[tuple[str, str]]:
    """The physical slots of a table: (name, type) in vtable order."""
    slots = []
    for name, what in TABLES.get(kind, ()):
        if what in UNIONS:
            slots.append((name + "_type", "B"))
        slots.append((name, what))
    return slots


class Table:
    """A FlatBuffers table to be written; the same object used twice is written once and shared."""

    def __init__(self, kind: str, /, body: bytes = b"", **slots: Any) -> None:
        self.kind, self.body, self.slots = kind, body, {k: v for k, v in slots.items() if v is not None}
        names = dict(slots_of(kind))
        for name, value in list(self.slots.items()):
            if names[name] in UNIONS and name + "_type" not in self.slots:
                self.slots[name + "_type"] = UNIONS[names[name]].index(value.kind)

    def but(self, **slots: Any) -> "Table":
        """The same table with some slots changed (None: absent)."""
        return Table(self.kind, self.body, **{**self.slots, **slots})


def _children(table: Table) -> list[Table]:
    below = []
    for value in table.slots.values():
        below += [v for v in (value if isinstance(value, list | tuple) else [value]) if isinstance(v, Table)]
    return below


def flatbuffer(root: Table) -> bytes:
    """The bytes of a FlatBuffers buffer; no recursion, so that a test may nest as deeply as it likes."""
    builder, written, stack = flatbuffers.Builder(256), {}, [root]
    builder.ForceDefaults(True)
    while stack:
        if id(stack[-1]) in written:
            stack.pop()
            continue
        todo = [child for child in _children(stack[-1]) if id(child) not in written]
        if todo:
            stack += todo
        else:
            table = stack.pop()
            written[id(table)] = _write_table(builder, table, written)
    builder.Finish(written[id(root)])
    return bytes(builder.Output())


def _write_table(b: flatbuffers.Builder, table: Table, written: dict[int, int]) -> int:
    slots = slots_of(table.kind)
    offsets = {
        name: _write_offset(b, what, table.slots[name], written)
        for name, what in slots
        if name in table.slots and what not in SCALARS and what not in STRUCTS
    }
    b.StartObject(len(slots))
    for number, (name, what) in enumerate(slots):
        if name in offsets:
            b.PrependUOffsetTRelativeSlot(number, offsets[name], 0)
        elif name in table.slots and what in STRUCTS:
            b.PrependStructSlot(number, _prepend_struct(b, what, table.slots[name]), 0)
        elif name in table.slots:
            getattr(b, f"Prepend{SCALARS[what]}Slot")(number, table.slots[name], 0)
    return b.EndObject()


def _prepend_struct(b: flatbuffers.Builder, what: str, members: tuple[int, ...]) -> int:
    packed = struct.pack(STRUCTS[what][0], *members)
    b.Prep(8, len(packed))
    for byte in reversed(packed):
        b.PrependByte(byte)
    return b.Offset()


def _write_offset(b: flatbuffers.Builder, what: str, value: Any, written: dict[int, int]) -> int:
    if isinstance(value, Table):
        return written[id(value)]
    if isinstance(value, str | bytes):
        return b.CreateString(value)
    element = what.strip("[]")
    if element in STRUCTS:
        layout = STRUCTS[element][0]
        b.StartVector(struct.calcsize(layout), len(value), 8)
        packed = b"".join(struct.pack(layout, *item) for item in value)
        b.head -= len(packed)  # StartVector made the room; byte by byte takes a second per 100,000
        b.Bytes[b.head : b.head + len(packed)] = packed
    elif element in SCALARS:
        width = struct.calcsize(element)
        b.StartVector(width, len(value), width)
        for item in reversed(value):
            getattr(b, "Prepend" + SCALARS[element])(item)
    else:
        b.StartVector(4, len(value), 4)
        for item in reversed(value):
            b.PrependUOffsetTRelative(written[id(item)])
    return b.EndVector()


# The tables of a test, by their short names.


def int_(bits: int | None = 32, signed: bool | None = True) -> Table:
    return Table("Int", bitWidth=bits, is_signed=signed)


INT8, INT16, INT32, INT64 = (int_(bits) for bits in (8, 16, 32, 64))
DOUBLE = Table("FloatingPoint", precision=2)
UTF8, BINARY, UTF8_VIEW, BOOL, NULL = (Table(kind) for kind in ("Utf8", "Binary", "Utf8View", "Bool", "Null"))
LIST, LIST_VIEW, STRUCT, REE, MAP = (Table(kind) for kind in ("List", "ListView", "Struct_", "RunEndEncoded", "Map"))
LARGE_UTF8, LARGE_LIST = Table("LargeUtf8"), Table("LargeList")

Pairs = Iterable[tuple[Any, Any]] | None


def _key_values(pairs: Pairs) -> list[Table] | None:
    return None if pairs is None else [Table("KeyValue", key=key, value=value) for key, value in pairs]


def field(
    name: str | bytes | None, type: Table | None, *children: Table, metadata: Pairs = None, **slots: Any
) -> Table:
    """A Field; `slots` are raw slots: nullable, dictionary, type_type, children=None for an absent vector."""
    given = {"nullable": True, "children": list(children), **slots}
    return Table("Field", name=name, type=type, custom_metadata=_key_values(metadata), **given)


def encoding(id: int | None = 0, index: Table | None = INT32, **slots: Any) -> Table:
    """A DictionaryEncoding; `index=None` leaves the index type out."""
    return Table("DictionaryEncoding", id=id, indexType=index, **slots)


def schema(*fields: Table, metadata: Pairs = None, **slots: Any) -> Table:
    return Table("Schema", custom_metadata=_key_values(metadata), **{"fields": list(fields), **slots})


Span = bytes | tuple[int, int]


def lay_out(buffers: Sequence[Span], alignment: int = 8) -> tuple[list[tuple[int, int]], bytes]:
    """Place bytes one after another at aligned offsets; an (offset, length) pair is taken literally."""
    spans, body = [], bytearray()
    for buffer in buffers:
        if isinstance(buffer, tuple):
            spans.append(buffer)
            continue
        spans.append((len(body), len(buffer)))
        body += buffer + bytes(-len(buffer) % alignment)
    return spans, bytes(body)


def batch(
    length: int | None,
    nodes: list[tuple[int, int]] | None,
    buffers: Sequence[Span] | None,
    *,
    codec: int | None = None,
    variadic: list[int] | None = None,
    alignment: int = 8,
    **slots: Any,
) -> Table:
    """A RecordBatch with its body: nodes (length, null_count), buffers as bytes or as (offset, length)."""
    spans, body = (None, b"") if buffers is None else lay_out(buffers, alignment)
    if codec is not None:
        slots.setdefault("compression", Table("BodyCompression", codec=codec))
    given = {"nodes": nodes, "buffers": spans, "variadicBufferCounts": variadic, **slots}
    return Table("RecordBatch", body, length=length, **given)


def dictionary(id: int | None, data: Table | None, **slots: Any) -> Table:
    return Table("DictionaryBatch", b"" if data is None else data.body, id=id, data=data, **slots)


def texts(*values: str) -> Table:
    """The RecordBatch of one utf8 column without nulls, also as the data of a dictionary."""
    parts = [value.encode() for value in values]
    ends = [sum(map(len, parts[:i])) for i in range(len(parts) + 1)]
    return batch(len(parts), [(len(parts), 0)], [b"", i32(*ends), b"".join(parts)])


# Buffers.


def packed(code: str, *values: int) -> bytes:
    return struct.pack(f"<{len(values)}{code}", *values)


i8, i16, i32, i64 = (partial(packed, code) for code in "bhiq")


def bits(*values: int) -> bytes:
    packed = bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        packed[index // 8] |= value << index % 8
    return bytes(packed)


def view(
    text: bytes, buffer: int = 0, offset: int = 0, *, prefix: bytes | None = None, length: int | None = None
) -> bytes:
    """The 16 bytes of one view; long text refers to `buffer` at `offset`."""
    size = len(text) if length is None else length
    if len(text) <= 12:
        return i32(size) + text.ljust(12, b"\0")
    return i32(size) + (text[:4] if prefix is None else prefix) + i32(buffer, offset)


# Framing.


class Message(bytes):
    """An encapsulated message, with the lengths that a footer's Block states."""

    header: Table
    meta_length: int
    body_length: int


def encapsulate(
    metadata: bytes,
    body: bytes = b"",
    *,
    prefix: str = "modern",
    pad: int | None = None,
    size: int | None = None,
) -> bytes:
    """Prefix, metadata, padding and body; `size` overrides the length that the prefix claims."""
    continuation = {"modern": CONTINUATION, "legacy": b"", "none": b""}[prefix]
    head = 0 if prefix == "none" else len(continuation) + 4
    metadata += bytes(-(head + len(metadata)) % 8 if pad is None else pad)
    claim = b"" if prefix == "none" else i32(len(metadata) if size is None else size)
    return continuation + claim + metadata + body


def message(
    header: Table | None,
    *,
    body: bytes | None = None,
    body_length: int | None = None,
    metadata: Pairs = None,
    version: int | None = V5,
    prefix: str = "modern",
    pad: int | None = None,
    size: int | None = None,
    **slots: Any,
) -> Message:
    """An encapsulated Message around `header`; each of its claims may be false."""
    if body is None:
        body = header.body if header is not None else b""
    declared = len(body) if body_length is None else body_length
    given = {"header": header, "version": version, "bodyLength": declared, **slots}
    root = Table("Message", custom_metadata=_key_values(metadata), **given)
    whole = Message(encapsulate(flatbuffer(root), body, prefix=prefix, pad=pad, size=size))
    whole.header, whole.body_length, whole.meta_length = header, declared, len(whole) - len(body)
    return whole


Part = Table | bytes


def stream(*parts: Part, eos: bytes = EOS, **framing: Any) -> bytes:
    """A stream: tables become messages with this `framing` (version=V4, prefix="legacy"), bytes stay."""
    return b"".join(message(p, **framing) if isinstance(p, Table) else p for p in parts) + eos


def split(data: bytes) -> list[bytes]:
    """The messages of a well-formed stream in the modern framing, without the end-of-stream marker."""
    parts, at = [], 0
    while at < len(data) and (size := struct.unpack_from("<i", data, at + 4)[0]):
        end = at + 8 + size
        with contextlib.suppress(LookupError):
            end += int(read(data[at:], "bodyLength"))
        parts.append(data[at:end])
        at = end
    return parts


Block = tuple[int, int, int]


def file(
    schema: Table,
    *parts: Part,
    blocks: Callable[[list[Block]], list[Block] | None] = list,
    dictionary_blocks: Callable[[list[Block]], list[Block] | None] = list,
    footer: Table | None = None,
    footer_schema: Table | None = None,
    metadata: Pairs = None,
    magic: bytes = MAGIC + bytes(2),
    first: Part | None = None,
    eos: bytes = EOS,
    footer_version: int = V5,
    footer_length: int | None = None,
    tail: bytes = MAGIC,
    **framing: Any,
) -> bytes:
    """A file. `blocks` and `dictionary_blocks` map the true footer entries to those that are written."""
    data, found = magic, {"DictionaryBatch": [], "RecordBatch": []}
    for part in (schema if first is None else first, *parts):
        whole = message(part, **framing) if isinstance(part, Table) else part
        if isinstance(whole, Message) and whole.header is not None and whole.header.kind in found:
            found[whole.header.kind].append((len(data), whole.meta_length, whole.body_length))
        data += whole
    root = footer or Table(
        "Footer",
        version=footer_version,
        schema=footer_schema or schema,
        dictionaries=dictionary_blocks(found["DictionaryBatch"]),
        recordBatches=blocks(found["RecordBatch"]),
        custom_metadata=_key_values(metadata),
    )
    foot = flatbuffer(root)
    return data + eos + foot + i32(len(foot) if footer_length is None else footer_length) + tail


# Finding and patching.


def locate(data: bytes, path: str, *, root: str = "Message", at: int | None = None) -> tuple[int, str]:
    """Position and struct code of the word that `path` names, e.g. `header.nodes[0].length`.

    A path that ends at a string, table or vector names its offset word in the parent; `.#` names the length
    word of the string or vector, `.vtable` the word of a table that leads to its vtable. An absent slot is a
    LookupError.
    """
    base = at if at is not None else (8 if data[:4] == CONTINUATION else 4) if root == "Message" else 0
    pos, code, what = base, "I", root
    target = base + struct.unpack_from("<I", data, base)[0]
    for step in re.findall(r"\w+|\[\d+\]|#", path):
        if step == "#":
            return target, "I"
        if step == "vtable":
            return target, "i"
        if step.startswith("["):
            what, item = what.strip("[]"), int(step[1:-1])
            layout = STRUCTS[what][0] if what in STRUCTS else what if what in SCALARS else "I"
            pos, code = target + 4 + item * struct.calcsize(layout), layout
        elif what in STRUCTS:
            offset, code = STRUCTS[what][1][step]
            return pos + offset, code
        else:
            pos, code, what = _slot(data, target, what, step)
        if code == "I":
            target = pos + struct.unpack_from("<I", data, pos)[0]
    return pos, code


def _slot(data: bytes, table: int, kind: str, name: str) -> tuple[int, str, str]:
    vtable = table - struct.unpack_from("<i", data, table)[0]
    slots = slots_of(kind)
    number = [slot for slot, _ in slots].index(name)
    what, size = slots[number][1], struct.unpack_from("<H", data, vtable)[0]
    entry = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0] if 6 + 2 * number <= size else 0
    if not entry:
        raise LookupError(f"{kind}.{name} is absent")
    if what in UNIONS:
        what = UNIONS[what][data[_slot(data, table, kind, name + "_type")[0]]]
    return table + entry, what if what in SCALARS else "I" if what not in STRUCTS else "struct", what


def read(data: bytes, path: str, **where: Any) -> int:
    """The word that `path` names."""
    pos, code = locate(data, path, **where)
    return struct.unpack_from("<" + code, data, pos)[0]


def patch(data: bytes, path: str, value: int, **where: Any) -> bytes:
    """A copy of `data` with the word that `path` names overwritten."""
    pos, code = locate(data, path, **where)
    changed = bytearray(data)
    struct.pack_into("<" + code, changed, pos, value)
    return bytes(changed)
