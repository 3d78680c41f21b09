"""A flatbuffer as dicts, by format/*.fbs and the flatbuffers package: an oracle for our reader and writer."""

from __future__ import annotations

import importlib.util
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_module(path: Path) -> ModuleType:
    """Import one file by its path, so that no compiled module of the package is needed."""
    name = f"layout_test_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up here
    spec.loader.exec_module(module)
    return module


gen = load_module(ROOT / "tools" / "gen_layout.py")
LAYOUT = gen.Layout(ROOT / "format")
NUMBERS: dict[str, int] = LAYOUT.constants()

SCALARS = {
    "bool": "BoolFlags",
    "byte": "Int8Flags",
    "ubyte": "Uint8Flags",
    "short": "Int16Flags",
    "int": "Int32Flags",
    "long": "Int64Flags",
}


class FlatReader:
    """Turns a flatbuffer into dicts, by the numbers of the generated layout.

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
                values[slot_name] = next(k for k, v in self.choice(member.type).values.items() if v == tag)
            elif not offset:
                is_number = LAYOUT.integer(member.type) is not None and not member.is_vector
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
        bounds = LAYOUT.integer(type_)
        width = bounds[0] if bounds else NUMBERS.get(f"{type_}_SIZE", 4)
        return [self.value(type_, start + width * index) for index in range(length)]

    def value(self, type_: str, at: int) -> Any:
        """What lies at a position: a scalar, an enum member's name, a string, a struct or a table."""
        if LAYOUT.integer(type_) is not None:
            found = LAYOUT.declarations.get(type_)
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

    def choice(self, type_: str) -> Any:
        """The declaration of an enum or union."""
        found = LAYOUT.declarations[type_]
        assert isinstance(found, gen.Choice)
        return found

    def named(self, type_: str, value: int) -> Any:
        """The member's name for an enum type, the value itself otherwise."""
        if type_ not in LAYOUT.declarations:
            return bool(value) if type_ == "bool" else value
        return next(name for name, number in self.choice(type_).values.items() if number == value)
