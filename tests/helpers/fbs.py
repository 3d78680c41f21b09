"""An oracle from ``format/*.fbs``: declarations, the constants that follow, and a reader of flatbuffers as dicts."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FORMAT = ROOT / "format"

WIDTHS = {"bool": 1, "byte": 1, "ubyte": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8}
"""Scalar type -> bytes."""

STATEMENT = re.compile(
    r'\s*(?:(?:include "\w+\.fbs"|namespace [\w.]+|root_type \w+);'
    r"|(?P<kind>table|struct|enum|union) (?P<name>\w+)(?: : (?P<base>\w+))? \{(?P<body>[^{}]*)\})\s*"
)
MEMBER = re.compile(
    r"\s*(?P<name>\w+): (?:\[(?:\w+\.)*(?P<items>\w+)\]|(?:\w+\.)*(?P<type>\w+))"
    r"(?: = (?P<default>-?\w+))?(?: \(required\))?;\s*"
)
VALUE = re.compile(r"\s*(?P<name>\w+) = (?P<value>\d+)(?:,|(?=\s*\Z))\s*")


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a table or struct."""

    name: str
    type: str
    is_vector: bool
    default: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """A table or a struct; its members are in the order of the declaration."""

    kind: str
    name: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """An enum or a union (base ``ubyte``, ``NONE = 0`` included): names and their values."""

    kind: str
    name: str
    base: str
    values: dict[str, int]


def matches(pattern: re.Pattern[str], text: str, what: str) -> Iterator[re.Match[str]]:
    """Yield consecutive matches that cover all of a text."""
    position = 0
    while position < len(text):
        found = pattern.match(text, position)
        if found is None:
            raise ValueError(f"{what}: cannot read {text[position : position + 40].strip()!r}")
        yield found
        position = found.end()


def declarations_of(text: str, file: str) -> Iterator[Record | Choice]:
    """Yield the declarations of one schema file."""
    for found in matches(STATEMENT, re.sub(r"//[^\n]*", "", text), file):
        kind, name, base, body = found["kind"], found["name"], found["base"], (found["body"] or "").strip()
        if kind is None:
            continue
        if (base is not None) != (kind == "enum"):
            raise ValueError(f"{file}: {kind} {name} with the base {base}")
        if kind in ("enum", "union"):
            values = {each["name"]: int(each["value"]) for each in matches(VALUE, body, f"{file}: {name}")}
            yield Choice(kind, name, base or "ubyte", {"NONE": 0, **values} if kind == "union" else values)
        else:
            members = matches(MEMBER, body, f"{file}: {name}")
            read = (Member(m["name"], m["items"] or m["type"], m["items"] is not None, m["default"]) for m in members)
            yield Record(kind, name, tuple(read))


class Layout:
    """The declarations of all schema files of a folder, by name."""

    def __init__(self, folder: Path = FORMAT) -> None:
        self.declarations: dict[str, Record | Choice] = {}
        for path in sorted(folder.glob("*.fbs")):
            for each in declarations_of(path.read_text(encoding="utf-8"), path.name):
                if self.declarations.setdefault(each.name, each) is not each:
                    raise ValueError(f"{path.name}: {each.name} is declared twice")

    def choice(self, type_: str) -> Choice | None:
        """The declaration of an enum or union; None for other types."""
        found = self.declarations.get(type_)
        return found if isinstance(found, Choice) else None

    def is_union(self, type_: str) -> bool:
        """Whether a type is a union, which takes two slots: its tag, then its value."""
        found = self.choice(type_)
        return found is not None and found.kind == "union"

    def width(self, type_: str) -> int | None:
        """Bytes of an integer or enum; None for other types."""
        found = self.choice(type_)
        return WIDTHS.get(type_ if found is None or found.kind == "union" else found.base)

    def slots(self, table: Record) -> Iterator[tuple[str, Member]]:
        """Yield what each vtable slot of a table contains, in order: its name and its member."""
        for member in table.members:
            if self.is_union(member.type):
                yield f"{member.name}_type", member
            yield member.name, member

    def default(self, member: Member) -> int:
        """The value that an absent field has."""
        text = member.default
        if text is None:
            return 0
        found = self.choice(member.type)
        if found is not None:
            return found.values[text]
        return ("false", "true").index(text) if member.type == "bool" else int(text)

    def constants(self) -> dict[str, int]:
        """The constants that ``inline/fbs_layout.pxd`` must define."""
        numbers: dict[str, int] = {}
        for name, declaration in self.declarations.items():
            if isinstance(declaration, Choice):
                numbers |= {f"{name}_{member}": value for member, value in declaration.values.items()}
                numbers[f"{name}_MAX"] = max(declaration.values.values())
            elif declaration.kind == "table":
                for slot, (field, member) in enumerate(self.slots(declaration)):
                    # A vtable begins with two uint16 (its size, the table's size); each slot has two bytes.
                    numbers[f"{name}_{field}"] = 4 + 2 * slot
                    if default := self.default(member):
                        numbers[f"{name}_{field}_DEFAULT"] = default
            else:
                numbers |= self.struct(declaration)
        return numbers

    def struct(self, struct: Record) -> dict[str, int]:
        """Offsets and size of a struct, whose members are aligned to their own widths."""
        numbers: dict[str, int] = {}
        end, alignment = 0, 1
        for member in struct.members:
            width = self.width(member.type)
            assert width is not None, f"{struct.name}.{member.name} is neither an integer nor an enum"
            offset = end + -end % width
            numbers[f"{struct.name}_{member.name}"] = offset
            end, alignment = offset + width, max(alignment, width)
        numbers[f"{struct.name}_SIZE"] = end + -end % alignment
        return numbers


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

    `words` are the places and widths of the integers and offsets that were read, `vtables` the places of vtables.
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
        """The value at a position: a scalar, an enum member's name, a string, a struct or a table."""
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
