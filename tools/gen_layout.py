"""Derives the numbers of the FlatBuffers layout, ``inline/fbs_layout.pxd``, from ``format/*.fbs``.

``python tools/gen_layout.py`` rewrites the file, ``--check`` compares it and exits 1 on a difference.

The parser reads the part of the FlatBuffers schema language that the format needs: tables, structs, enums,
unions, includes, integer defaults and ``(required)``. Everything else (``id``, ``deprecated``,
``force_align``, ``bit_flags``, union aliases, ...) is refused rather than skipped: it could move a slot.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
FORMAT = ROOT / "format"
PXD = ROOT / "arrowipc" / "inline" / "fbs_layout.pxd"

INTEGERS = {
    "bool": (1, 0, 1),
    "byte": (1, -(2**7), 2**7 - 1),
    "ubyte": (1, 0, 2**8 - 1),
    "short": (2, -(2**15), 2**15 - 1),
    "ushort": (2, 0, 2**16 - 1),
    "int": (4, -(2**31), 2**31 - 1),
    "uint": (4, 0, 2**32 - 1),
    "long": (8, -(2**63), 2**63 - 1),
    "ulong": (8, 0, 2**64 - 1),
}
"""Scalar type -> (bytes, smallest value, largest value)."""

TOKEN = re.compile(
    r"""(?P<space>\s+)
      | ///(?P<doc>[^\n]*)
      | (?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<path>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>[+-]?\d+\b)
      | "(?P<string>[^"\n]*)"
      | (?P<mark>[{}\[\]():;,=])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class SchemaError(ValueError):
    """A schema that the generator does not accept; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a schema, with the ``///`` comment right before it."""

    kind: str
    text: str
    where: str
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a table or struct, as written."""

    name: str
    type: str
    is_vector: bool
    default: str | None
    where: str


@dataclass(frozen=True, slots=True)
class Record:
    """A table or a struct; the order of its members is the order of the declaration."""

    kind: str
    name: str
    members: tuple[Member, ...]
    doc: str
    file: str
    where: str


@dataclass(frozen=True, slots=True)
class Choice:
    """An enum or a union (base ``ubyte``, ``NONE = 0`` included): names and their values."""

    kind: str
    name: str
    base: str
    values: dict[str, int]
    doc: str
    file: str
    where: str


Declaration = Record | Choice


@dataclass(frozen=True, slots=True)
class Block:
    """The constants of one declaration, and what to say above them."""

    title: str
    doc: str
    constants: tuple[tuple[str, int], ...]


def tokenize(text: str, file: str) -> Iterator[Token]:
    """Yield the tokens of one schema file, then one of kind ``end``."""
    position, doc = 0, ""
    while position < len(text):
        where = f"{file}:{text.count(chr(10), 0, position) + 1}"
        match = TOKEN.match(text, position)
        if match is None:
            raise SchemaError(f"{where}: cannot read {text[position : position + 20]!r}")
        position, kind = match.end(), str(match.lastgroup)
        if kind == "doc":
            doc = f"{doc} {match['doc'].strip()}".strip()
        elif kind not in ("space", "comment"):
            yield Token(kind, match[kind], where, doc)
            doc = ""
    yield Token("end", "the end of the file", f"{file}:{text.count(chr(10)) + 1}")


class Parser:
    """Reads one schema file into declarations; knows nothing of other files but the names it includes."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.namespace = ""
        self.includes: list[str] = []
        self.declarations: list[Declaration] = []
        self.roots: list[Token] = []
        self._tokens = tokenize(text, file)
        self._token = next(self._tokens)
        while self._token.kind != "end":
            self._statement()

    def _fail(self, expected: str) -> NoReturn:
        raise SchemaError(f"{self._token.where}: expected {expected}, found {self._token.text!r}")

    def _take(self, *kinds: str) -> Token:
        token = self._token
        if token.kind not in kinds:
            self._fail(f"a {' or '.join(kinds)}")
        self._token = next(self._tokens)
        return token

    def _accept(self, mark: str) -> bool:
        if self._token.kind != "mark" or self._token.text != mark:
            return False
        self._token = next(self._tokens)
        return True

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            self._fail(repr(mark))

    def _local(self) -> Token:
        """A name of this schema: without dots, or qualified with its own namespace."""
        token = self._take("name", "path")
        prefix = f"{self.namespace}."
        return Token(token.kind, token.text.removeprefix(prefix), token.where, token.doc)

    def _statement(self) -> None:
        keyword = self._take("name")
        match keyword.text:
            case "include":
                self.includes.append(self._take("string").text)
                self._expect(";")
            case "namespace":
                self.namespace = self._take("name", "path").text
                self._expect(";")
            case "root_type":
                self.roots.append(self._local())
                self._expect(";")
            case "table" | "struct":
                self.declarations.append(self._record(keyword))
            case "enum" | "union":
                self.declarations.append(self._choice(keyword))
            case _:
                raise SchemaError(f"{keyword.where}: a statement {keyword.text!r} is not supported")

    def _record(self, keyword: Token) -> Record:
        name = self._take("name")
        members = []
        self._expect("{")
        while not self._accept("}"):
            members.append(self._member())
        return Record(keyword.text, name.text, tuple(members), keyword.doc, self.file, name.where)

    def _member(self) -> Member:
        name = self._take("name")
        self._expect(":")
        is_vector = self._accept("[")
        type_ = self._local()
        if is_vector:
            self._expect("]")
        default = None
        if self._accept("="):
            default = self._take("number", "name").text
        if self._accept("("):
            if self._token.text != "required":
                self._fail("the attribute 'required' (no other is supported)")
            self._take("name")
            self._expect(")")
        self._expect(";")
        return Member(name.text, type_.text, is_vector, default, name.where)

    def _choice(self, keyword: Token) -> Choice:
        name = self._take("name")
        values: dict[str, int] = {}
        if keyword.text == "union":
            base, values["NONE"] = "ubyte", 0
        else:
            self._expect(":")
            base = self._take("name").text
        if base not in INTEGERS:
            raise SchemaError(f"{name.where}: enum {name.text} is based on {base!r}, not on an integer type")
        _, low, high = INTEGERS[base]
        self._expect("{")
        while not self._accept("}"):
            member = self._take("name")
            value = max(values.values(), default=-1) + 1
            if self._accept("="):
                value = int(self._take("number").text)
            where = f"{member.where}: {name.text}.{member.text} = {value}"
            if member.text in values:
                raise SchemaError(f"{where}: the name occurs twice")
            if value in values.values() or not low <= value <= high:
                raise SchemaError(f"{where}: the value is taken, or does not fit in {base}")
            values[member.text] = value
            if not self._accept(","):
                self._expect("}")
                break
        if not values:
            raise SchemaError(f"{name.where}: enum {name.text} has no members")
        return Choice(keyword.text, name.text, base, values, keyword.doc, self.file, name.where)


class Layout:
    """The declarations of a set of schema files and the numbers that follow from them.

    Parameters
    ----------
    directory : Path
        Every ``*.fbs`` in it is read, included files first.

    Raises
    ------
    SchemaError
        For text outside the supported language, a name declared twice, or a type that is not declared.
    """

    def __init__(self, directory: Path) -> None:
        self.declarations: dict[str, Declaration] = {}
        self._read: set[str] = set()
        roots: list[Token] = []
        for path in sorted(directory.glob("*.fbs")):
            self._load(path, path.name, roots)
        for root in roots:
            self._check_table(root.text, f"{root.where}: root type")
        for declaration in self.declarations.values():
            self._check(declaration)

    def _load(self, path: Path, where: str, roots: list[Token]) -> None:
        if path.name in self._read:
            return
        self._read.add(path.name)
        if not path.is_file():
            raise SchemaError(f"{where}: no file {path.name} in {path.parent}")
        parser = Parser(path.read_text(encoding="utf-8"), path.name)
        for include in parser.includes:
            self._load(path.parent / include, f"{path.name}: include {include!r}", roots)
        for declaration in parser.declarations:
            earlier = self.declarations.setdefault(declaration.name, declaration)
            if earlier is not declaration:
                raise SchemaError(f"{declaration.where}: {earlier.name} is declared at {earlier.where} too")
        roots += parser.roots

    def _check_table(self, name: str, what: str) -> None:
        found = self.declarations.get(name)
        if not isinstance(found, Record) or found.kind != "table":
            raise SchemaError(f"{what} {name!r} is not a declared table")

    def _check(self, declaration: Declaration) -> None:
        if isinstance(declaration, Choice):
            if declaration.kind == "union":
                for name in list(declaration.values)[1:]:
                    self._check_table(name, f"{declaration.where}: union member")
            return
        for member in declaration.members:
            self._check_member(declaration, member)

    def _check_member(self, record: Record, member: Member) -> None:
        where = f"{member.where}: {record.name}.{member.name}"
        if member.type not in INTEGERS and member.type != "string" and member.type not in self.declarations:
            raise SchemaError(f"{where}: unknown type {member.type!r}")
        if member.is_vector and self.is_union(member.type):
            raise SchemaError(f"{where}: vectors of unions are not supported")
        plain = self.integer(member.type) is not None and not member.is_vector and member.default is None
        if record.kind == "struct" and not plain:
            raise SchemaError(f"{where}: a struct member must be an integer or an enum, without a default")
        self.default(member)

    def is_union(self, type_: str) -> bool:
        """Whether a type is a union, which takes two slots: its tag, then its value."""
        found = self.declarations.get(type_)
        return isinstance(found, Choice) and found.kind == "union"

    def integer(self, type_: str) -> tuple[int, int, int] | None:
        """Bytes and range of an integer or enum type; None for every other type."""
        found = self.declarations.get(type_)
        if isinstance(found, Choice) and found.kind == "enum":
            return INTEGERS[found.base]
        return INTEGERS.get(type_)

    def default(self, member: Member) -> int:
        """The value that an absent field has, 0 unless the schema says otherwise."""
        text = member.default
        if text is None:
            return 0
        found = self.declarations.get(member.type)
        value: int | None = None
        if isinstance(found, Choice):
            value = found.values.get(text)
        elif member.type == "bool":
            value = {"false": 0, "true": 1}.get(text)
        elif re.fullmatch(r"[+-]?\d+", text):
            value = int(text)
        bounds = self.integer(member.type)
        if bounds is None or member.is_vector or value is None or not bounds[1] <= value <= bounds[2]:
            raise SchemaError(f"{member.where}: {text!r} is no default for a field of type {member.type}")
        return value

    def slots(self, table: Record) -> Iterator[tuple[str, Member]]:
        """Yield what each vtable slot of a table holds, in order: its name and the member it comes from."""
        for member in table.members:
            if self.is_union(member.type):
                yield f"{member.name}_type", member
            yield member.name, member

    def _table(self, table: Record) -> Iterator[tuple[str, int]]:
        for slot, (name, member) in enumerate(self.slots(table)):
            # A vtable opens with two uint16 (its own size, the table's size); then two bytes for each slot.
            yield f"{table.name}_{name}", 4 + 2 * slot
            if default := self.default(member):
                yield f"{table.name}_{name}_DEFAULT", default

    def _struct(self, struct: Record) -> Iterator[tuple[str, int]]:
        end, alignment = 0, 1
        for member in struct.members:
            bounds = self.integer(member.type)
            assert bounds is not None
            width = bounds[0]
            offset = end + -end % width
            yield f"{struct.name}_{member.name}", offset
            end, alignment = offset + width, max(alignment, width)
        yield f"{struct.name}_SIZE", end + -end % alignment

    def _choice(self, choice: Choice) -> tuple[tuple[str, int], ...]:
        members = (*choice.values.items(), ("MAX", max(choice.values.values())))
        return tuple((f"{choice.name}_{name}", value) for name, value in members)

    def blocks(self) -> Iterator[Block]:
        """Yield the constants of each declaration that has any.

        Raises
        ------
        SchemaError
            When two constants have the same name, or one does not fit in the C int of an enum constant.
        """
        owner: dict[str, str] = {}
        for declaration in self.declarations.values():
            if isinstance(declaration, Choice):
                constants = self._choice(declaration)
            elif declaration.kind == "table":
                constants = tuple(self._table(declaration))
            else:
                constants = tuple(self._struct(declaration))
            title = f"{declaration.kind} {declaration.name} ({declaration.file})"
            for name, value in constants:
                if name in owner:
                    raise SchemaError(f"{declaration.where}: {name} of {title} clashes with {owner[name]}")
                if not -(2**31) <= value < 2**31:
                    raise SchemaError(f"{declaration.where}: {name} = {value} does not fit in a C int")
                owner[name] = title
            if constants:
                yield Block(title, declaration.doc, constants)

    def constants(self) -> dict[str, int]:
        """Every constant of ``inline/fbs_layout.pxd`` by name."""
        return {name: value for block in self.blocks() for name, value in block.constants}


def render_pxd(layout: Layout) -> str:
    """The text of ``inline/fbs_layout.pxd``."""
    lines = [
        "# The numbers of the FlatBuffers layout, generated by tools/gen_layout.py from format/*.fbs.",
        "#",
        "# Table_field: vtable byte offset (4 + 2 * slot); a union also has Table_field_type, its tag.",
        "# Table_field_DEFAULT: value of an absent field, where that is not 0.",
        "# Struct_member, Struct_SIZE: bytes. Enum_Member, Enum_MAX: values of enums and union tags.",
    ]
    for block in layout.blocks():
        lines += ["", *(f"# {comment}" for comment in (block.title, block.doc) if comment), "cdef enum:"]
        lines += [f"    {name} = {value}" for name, value in block.constants]
    return "\n".join(lines) + "\n"


def generate(directory: Path = FORMAT) -> dict[Path, str]:
    """The text of each generated file, by its path."""
    return {PXD: render_pxd(Layout(directory))}


def main(arguments: list[str] | None = None) -> int:
    """Write or compare the generated files; returns the exit status."""
    parser = argparse.ArgumentParser(description="Generate inline/fbs_layout.pxd.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file would change")
    check = parser.parse_args(arguments).check
    status = 0
    for path, text in generate().items():
        data = text.encode()
        if path.is_file() and path.read_bytes() == data:
            continue
        name = path.relative_to(ROOT)
        if check:
            print(f"{name} is not what format/*.fbs gives: run python tools/gen_layout.py", file=sys.stderr)
            status = 1
        else:
            path.write_bytes(data)
            print(f"wrote {name}")
    return status


if __name__ == "__main__":
    sys.exit(main())
