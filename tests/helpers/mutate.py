"""Mutants of Arrow bytes: they change words whose place and meaning are known, and leave all around them valid.

A walk of our own, which trusts nothing and raises nothing, finds the slots of an input; the tables are those
of `forge`. The same input and seed give the same mutants in every process.
"""

import random
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from helpers import forge

HELLO = b"arwipc\x01\x00"
FRAME = 24
#: Limits of one walk, as a mutant may share and nest its tables without any limit.
MOST_TABLES, MOST_ITEMS, MOST_SLOTS, DEEPEST = 4000, 200, 20_000, 80
#: Words at the start and at the end of a stretch of a body that are slots.
EDGE_WORDS = 12


class Slot(NamedTuple):
    """A word of the input: `kind` says what it means."""

    offset: int
    width: int
    kind: str


class Span(NamedTuple):
    """A message: where it starts, where its body starts, where it ends."""

    start: int
    body: int
    end: int


class Walk:
    """Finds the slots and messages of an input, as far as it is valid."""

    def __init__(self, data: bytes) -> None:
        self.data, self.slots, self.spans = data, dict[tuple[int, int], str](), list[Span]()
        self.tables = 0
        if data[:6] == forge.MAGIC:
            self._file()
        elif data[: len(HELLO)] == HELLO:
            self._frames(len(HELLO))
        elif not self._messages(0, len(data)):
            self._bare(0, len(data))

    def _add(self, offset: int, width: int, kind: str) -> bool:
        inside = 0 <= offset <= len(self.data) - width
        if inside and len(self.slots) < MOST_SLOTS:
            self.slots.setdefault((offset, width), kind)
        return inside

    def _word(self, offset: int, code: str, kind: str) -> int | None:
        width = struct.calcsize(code)
        return struct.unpack_from("<" + code, self.data, offset)[0] if self._add(offset, width, kind) else None

    def _file(self) -> None:
        size = len(self.data)
        for at in (0, size - 6):
            self._add(at, 4, "magic")
            self._add(at + 4, 2, "magic")
        foot = self._word(size - 10, "i", "footer length") or 0
        start = size - 10 - foot
        if 8 <= start < size - 10:
            self._root(start, size - 10, "Footer")
        self._messages(8, max(size - 10, 0))

    def _messages(self, at: int, end: int) -> int:
        """Follow the messages as far as they go; return how many there are."""
        while 0 <= at <= end - 8:
            start, modern = at, self.data[at : at + 4] == forge.CONTINUATION
            if modern:
                self._add(at, 4, "continuation")
                at += 4
            size = self._word(at, "i", "length") or 0
            at += 4
            if not 4 <= size <= end - at:
                break
            found = self._root(at, at + size, "Message")
            body, at = at + size, at + size + max(found.get("bodyLength", 0), 0)
            self._body(body, min(at, end), found)
            self.spans.append(Span(start, body, min(at, end)))
        return len(self.spans)

    def _frames(self, at: int) -> None:
        """Messages of a dissociated stream in our framing: a head of 24 bytes, then metadata or a body."""
        self._add(0, 8, "magic")
        while at <= len(self.data) - FRAME:
            tagged, length = self.data[at], self._word(at + 16, "Q", "length") or 0
            for offset, width in ((0, 1), (1, 1), (2, 2), (4, 4), (8, 8)):
                self._add(at + offset, width, "frame")
            start, body = at, at + FRAME
            at = end = min(body + length, len(self.data))
            if tagged:
                self._stretch(body, end, "body")
            else:
                self._add(body, 1, "frame")
                self._add(body + 1, 4, "number")
                self._bare(body + 5, end)
            self.spans.append(Span(start, body, end))

    def _bare(self, start: int, end: int) -> None:
        if end - start >= 8:
            self._root(start, end, "Message")

    def _body(self, start: int, end: int, found: dict[str, int]) -> None:
        for offset, length in self.buffers:
            place = start + offset
            if start <= place < end and length > 0:
                if "compression" in found:
                    self._add(place, 8, "claim")
                self._stretch(place, min(place + length, end), "body")
        if not self.buffers:
            self._stretch(start, end, "body")

    def _stretch(self, start: int, end: int, kind: str) -> None:
        for step in range(min(EDGE_WORDS, (end - start + 3) // 4)):
            for at in (start + 4 * step, end - 4 * (step + 1)):
                width = 8 if (at - start) % 8 == 0 and at + 8 <= end else 4
                for each in {width, 4, 1}:
                    if start <= at and at + each <= end:
                        self._add(at, each, kind)

    def _root(self, start: int, end: int, kind: str) -> dict[str, int]:
        self.start, self.end = start, end
        self.buffers: list[tuple[int, int]] = []
        found: dict[str, int] = {}
        self._follow(start, kind, "root", found, 0)
        return found

    def _follow(self, at: int, kind: str, what: str, found: dict[str, int], depth: int) -> None:
        distance = self._word(at, "I", what)
        if distance is not None and depth < DEEPEST:
            if kind == "string":
                self._word(at + distance, "I", "count")
            elif kind.startswith("["):
                self._vector(at + distance, kind.strip("[]"), found, depth)
            else:
                self._table(at + distance, kind, found, depth)

    def _table(self, at: int, kind: str, found: dict[str, int], depth: int) -> None:
        self.tables += 1
        back = self._word(at, "i", "soffset") if self.start <= at < self.end else None
        if back is None or self.tables > MOST_TABLES:
            return
        vtable = at - back
        size = self._word(vtable, "H", "vtable") if self.start <= vtable < self.end else None
        if size is None:
            return
        self._add(vtable + 2, 2, "vtable")
        tags: dict[str, int] = {}
        for number, (name, what) in enumerate(forge.slots_of(kind)):
            entry = self._word(vtable + 4 + 2 * number, "H", "vtable") if 6 + 2 * number <= size else 0
            if entry:
                found[name] = 0
                self._slot(at + entry, name, what, tags, found, depth)

    def _slot(self, at: int, name: str, what: str, tags: dict[str, int], found: dict[str, int], depth: int) -> None:
        if what in forge.UNIONS:
            members = forge.UNIONS[what]
            tag = tags.get(name, 0)
            self._follow(at, members[tag] if tag < len(members) else "NONE", "offset", found, depth + 1)
        elif what in forge.STRUCTS:
            self._struct(at, what)
        elif what in forge.SCALARS:
            union = name.endswith("_type") and what == "B"
            kind = "tag" if union else "enum" if what == "h" or what == "b" else "scalar"
            value = self._word(at, what, kind)
            found[name] = int(value or 0)
            tags[name.removesuffix("_type")] = int(value or 0)
        else:
            self._follow(at, what, "offset", found, depth + 1)

    def _vector(self, at: int, item: str, found: dict[str, int], depth: int) -> None:
        count = self._word(at, "I", "count")
        if count is None:
            return
        layout = forge.STRUCTS[item][0] if item in forge.STRUCTS else item if item in forge.SCALARS else "I"
        width = struct.calcsize(layout)
        for number in range(min(count, MOST_ITEMS, (self.end - at) // width)):
            place = at + 4 + number * width
            if item in forge.STRUCTS:
                self._struct(place, item)
            elif item in forge.SCALARS:
                self._add(place, width, "scalar")
            else:
                self._follow(place, item, "offset", found, depth + 1)

    def _struct(self, at: int, what: str) -> None:
        layout, members = forge.STRUCTS[what]
        for name, (offset, code) in members.items():
            self._add(at + offset, struct.calcsize(code), f"{what}.{name}")
        if what == "Buffer" and self.start <= at <= self.end - 16:
            self.buffers.append(struct.unpack_from(layout, self.data, at))


def slots(data: bytes) -> list[Slot]:
    """Every word of the input whose meaning is known, in the order of their places."""
    return sorted(Slot(*place, kind) for place, kind in Walk(data).slots.items())


def spans(data: bytes) -> list[Span]:
    """The messages (or frames) of the input."""
    return Walk(data).spans


#: Numbers at which sums, products and comparisons may fail; they are cut to the width of the slot.
EDGES = [0, 1, 2, 3, 4, 7, 8, 16, 24, 63, 64, 65, 127, 128, 255, 256, -1, -2, -8, -64]
EDGES += [(1 << bits) + step for bits in (15, 16, 31, 32, 61, 62, 63) for step in (-1, 0, 1)]
EDGES += [-(1 << bits) + step for bits in (15, 31, 61, 62, 63) for step in (-1, 0, 1)]
#: How often a kind is chosen. Words of bodies come often, as they are all that is wrong if the metadata is accepted.
OFTEN = {"body": 10, "claim": 2, "FieldNode.length": 2, "Buffer.offset": 2, "Buffer.length": 2, "scalar": 2}
STEPS = (1, -1, 2, -2, 4, -4, 8, -8, 16, 64, -64)


class Mutator:
    """Makes mutants of one input; they may get parts of `other`."""

    def __init__(self, data: bytes, chance: random.Random, other: bytes = b"") -> None:
        self.data, self.chance, self.other = data, chance, other
        walk = Walk(data)
        self.spans = walk.spans
        self.kinds: dict[str, list[tuple[int, int]]] = {}
        for place, kind in sorted(walk.slots.items()):
            self.kinds.setdefault(kind, []).append(place)
        self.names = [name for name in sorted(self.kinds) for _ in range(OFTEN.get(name, 1))]

    def mutant(self) -> bytes:
        """Make a mutant: mostly change words, now and then rearrange messages or add noise."""
        out = bytearray(self.data)
        for _ in range(self.chance.choice((1, 1, 1, 1, 2, 2, 3, 5)) if self.names else 0):
            self._change(out)
        roll = self.chance.random()
        if roll < 0.12 or not self.names:
            self._noise(out)
        elif roll < 0.25:
            return self._rearranged(bytes(out))
        return bytes(out)

    def _place(self) -> tuple[int, int]:
        return self.chance.choice(self.kinds[self.chance.choice(self.names)])

    def _change(self, out: bytearray) -> None:
        at, width = self._place()
        old = int.from_bytes(out[at : at + width], "little")
        match self.chance.randrange(8):
            case 0 | 1 | 2:
                new = self.chance.choice(EDGES)
            case 3 | 4:
                new = old + self.chance.choice(STEPS)
            case 5:
                new = self.chance.choice((-old, old << 1, old >> 1, ~old, old ^ 1 << self.chance.randrange(8 * width)))
            case 6:
                new = self.chance.choice((len(out), len(out) - at, at, self.chance.randrange(32)))
            case _:
                from_, other = self._place()
                new = int.from_bytes(out[from_ : from_ + min(other, width)], "little")
                if self.chance.random() < 0.5:
                    self._store(out, from_, other, old)
        self._store(out, at, width, new)

    @staticmethod
    def _store(out: bytearray, at: int, width: int, value: int) -> None:
        out[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")

    def _noise(self, out: bytearray) -> None:
        at, size = self.chance.randrange(len(out) + 1), self.chance.choice((1, 2, 4, 8, 16, 64))
        match self.chance.randrange(5):
            case 0:
                del out[at:]
            case 1:
                del out[at : at + size]
            case 2:
                out[at:at] = out[at : at + size]
            case 3:
                out[at : at + size] = self.chance.randbytes(len(out[at : at + size]))
            case _:
                end = self.chance.randrange(len(self.other) + 1)
                out[at:] = self.other[end:]

    def _rearranged(self, data: bytes) -> bytes:
        """Double, drop, swap or cut a message, give it another body, or insert one of the other input."""
        if len(self.spans) < 1:
            return data
        head, tail = data[: self.spans[0].start], data[self.spans[-1].end :]
        parts = [data[span.start : span.end] for span in self.spans]
        at, to = self.chance.randrange(len(parts)), self.chance.randrange(len(parts))
        match self.chance.randrange(6):
            case 0:
                parts.insert(to, parts[at])
            case 1:
                del parts[at]
            case 2:
                parts[at], parts[to] = parts[to], parts[at]
            case 3:
                parts[at] = parts[at][: self.chance.randrange(len(parts[at]) + 1)]
            case 4:
                mine, theirs = self.spans[at], self.spans[to]
                parts[at] = data[mine.start : mine.body] + data[theirs.body : theirs.end]
            case _:
                others = spans(self.other)
                if others:
                    span = self.chance.choice(others)
                    parts[at : at + self.chance.randrange(2)] = [self.other[span.start : span.end]]
        return head + b"".join(parts) + tail


def mutants(data: bytes, seed: int, count: int, other: bytes = b"") -> Iterator[bytes]:
    """Yield `count` mutants of `data`, the same for the same input and seed; `other` is an input to splice with."""
    chance = random.Random(seed << 64 | zlib.crc32(other) << 32 | zlib.crc32(data))
    mutator = Mutator(data, chance, other)
    for _ in range(count):
        yield mutator.mutant()


def mixed(inputs: list[bytes], seed: int, count: int) -> Iterator[bytes]:
    """Yield `count` mutants spread over all the inputs, each spliced with the next."""
    each, more = divmod(count, len(inputs))
    for number, data in enumerate(inputs):
        yield from mutants(data, seed, each + (number < more), inputs[(number + 1) % len(inputs)])


def overwritten(data: bytes, chance: random.Random, most: int = 3, cut: float = 0.1) -> bytes:
    """Overwrite some bytes or words at any place; with the probability `cut`, also cut the end off."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, most)):
        at, width = chance.randrange(len(changed)), chance.choice((1, 1, 4, 8))
        word = chance.choice((0, 1, -1, 2**31 - 1, chance.getrandbits(63)))
        changed[at : at + width] = (word % 256**width).to_bytes(width, "little")[: len(changed) - at]
    return bytes(changed[: chance.randrange(len(changed))] if chance.random() < cut else changed)
