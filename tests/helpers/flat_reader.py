"""A flatbuffer as dicts, by format/*.fbs and the flatbuffers package: an oracle for our reader and writer."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from helpers.flat_schemas import Layout

LAYOUT = Layout()
NUMBERS = LAYOUT.constants()

SCALARS = {
    "bool": "BoolFlags",
    "byte": "Int8Flags",
    "ubyte": "Uint8Flags",
    "short": "Int16Flags",
    "int": "Int32Flags",
    "long": "Int64Flags",
}


class FlatReader:
    """Turns a flatbuffer into dicts, by the numbers of the layout.

    `words` are the places and widths of the integers and offsets that were read, `vtables` where vtables lie.
    """

    def __init__(self, data: Any) -> None:
        self.encode = pytest.importorskip("flatbuffers.encode")
        self.numbers = pytest.importorskip("flatbuffers.number_types")
        self.new_table = pytest.importorskip("flatbuffers.table").Table
        self.data = bytearray(data)
        self.words: set[tuple[int, int]] = set()
        self.vtables: set[int] = set()

    def root(self, name: str) -> dict[str, Any]:
        """The root table, read as the declared table ``name``."""
        return self.table(name, self.encode.Get(self.numbers.UOffsetTFlags.packer_type, self.data, 0))

    def table(self, name: str, position: int) -> dict[str, Any]:
        """Every field of a table; an absent one has its default, or None."""
        table = self.new_table(self.data, position)
        self.words.add((position, 4))
        self.vtables.add(position - struct.unpack_from("<i", self.data, position)[0])
        values: dict[str, Any] = {}
        for slot_name, member in LAYOUT.slots(LAYOUT.declarations[name]):
            key = f"{name}_{slot_name}"
            offset = table.Offset(NUMBERS[key])
            at = position + offset
            if LAYOUT.is_union(member.type) and slot_name != member.name:
                tag = self.scalar("ubyte", at) if offset else 0
                values[slot_name] = self.named(member.type, tag)
            elif not offset:
                is_number = LAYOUT.width(member.type) is not None and not member.is_vector
                default = NUMBERS.get(f"{key}_DEFAULT", 0)
                values[slot_name] = self.named(member.type, default) if is_number else None
            elif member.is_vector:
                values[slot_name] = self.vector(member.type, table.Vector(offset), table.VectorLen(offset))
            elif LAYOUT.is_union(member.type):
                values[slot_name] = self.table(values[f"{member.name}_type"], table.Indirect(at))
            else:
                values[slot_name] = self.value(member.type, at)
        return values

    def vector(self, type_: str, start: int, length: int) -> list[Any]:
        """The items of a vector."""
        self.words.add((start - 4, 4))
        width = LAYOUT.width(type_) or NUMBERS.get(f"{type_}_SIZE", 4)
        return [self.value(type_, start + width * index) for index in range(length)]

    def value(self, type_: str, at: int) -> Any:
        """What lies at a position: a scalar, an enum member's name, a string, a struct or a table."""
        if LAYOUT.width(type_) is not None:
            found = LAYOUT.choice(type_)
            return self.named(type_, self.scalar(found.base if found else type_, at))
        table = self.new_table(self.data, at)
        if type_ == "string" or LAYOUT.declarations[type_].kind == "table":
            self.words |= {(at, 4), (table.Indirect(at), 4)}
        if type_ == "string":
            text = table.String(at)
            assert self.data[table.Indirect(at) + 4 + len(text)] == 0, "no NUL behind a string"
            return text.decode("utf-8", "surrogateescape")
        if LAYOUT.declarations[type_].kind == "table":
            return self.table(type_, table.Indirect(at))
        members = LAYOUT.declarations[type_].members
        return {each.name: self.value(each.type, at + NUMBERS[f"{type_}_{each.name}"]) for each in members}

    def scalar(self, type_: str, at: int) -> int:
        """An integer of a base type."""
        flags = getattr(self.numbers, SCALARS[type_])
        self.words.add((at, flags.bytewidth))
        value = self.new_table(self.data, 0).Get(flags, at)
        return bool(value) if type_ == "bool" else int(value)

    def named(self, type_: str, value: int) -> Any:
        """The member's name for an enum or union, the value itself for an integer."""
        found = LAYOUT.choice(type_)
        if found is None:
            return bool(value) if type_ == "bool" else value
        return next(name for name, number in found.values.items() if number == value)
