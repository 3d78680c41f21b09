"""Makes Arrow C structs from bytes: hostile in all that a consumer can check, valid in all that it cannot.

The bytes are used like dice. A consumer cannot know how large a buffer is, so each one is as large as
the lengths and offsets say; everything else may be false.
"""

import ctypes
import errno
from typing import Any

from cdata.producer import Producer, StreamOf
from helpers.cdata import CArray

FLAT = b"n b c C s S i I l L e f g z Z vz u U vu d:5,2 d:18,2,64 d:76,2,256 d:9,-3,32 w:0 w:5"
TIMES = b"tdD tdm tts ttm ttu ttn tss: tsu:UTC tDs tDn tiM tiD tin"
NESTED = b"+s +l +L +vl +vL +w:2 +w:0 +m +r +us:0,1 +ud:3,7"
FORMATS = [each for line in (FLAT, TIMES, NESTED) for each in line.split()]
#: Formats that do not exist.
SENSELESS = (b"", b"+", b"w:-1", b"d:5", b"\xff", b"t", b"+us:0,0", b"w:" + b"9" * 30)
WIDTHS = {
    **dict.fromkeys((b"c", b"C"), 1),
    **dict.fromkeys((b"s", b"S", b"e"), 2),
    **dict.fromkeys((b"i", b"I", b"f", b"tdD", b"tts", b"ttm", b"tiM"), 4),
    b"tin": 16,
}
#: The largest offset, also of a view; the buffers to which offsets and views refer have more bytes.
REACH = 1 << 12
LIES = (-1, -2, 1, 2, 3, 2**31, 2**62, 2**63 - 1, -(2**63))
#: What the calls of a stream return: numbers of errno, and others.
CODES = (errno.ENOMEM, errno.EINVAL, errno.ENOSYS, errno.EIO, -1, 1 << 30)


class Dice:
    """Numbers drawn from bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def below(self, limit: int) -> int:
        self.at += 1
        return self.data[self.at - 1] % limit if self.at <= len(self.data) else 0

    def one_in(self, count: int) -> bool:
        """True once in `count` times, and never when the bytes are used up."""
        return self.below(count) == count - 1

    def pick(self, items: Any) -> Any:
        return items[self.below(len(items))]

    def numbers(self, count: int, width: int, rising: bool) -> bytes:
        """Numbers from 0 to REACH, in order if `rising`; a few are out of order or -1."""
        out, last = bytearray(), 0
        for _ in range(count):
            last = last + self.below(5) if rising else self.below(12)
            value = self.pick((-1, REACH, 0, last + 1)) if self.one_in(60) else last
            out += min(value, REACH, (1 << 8 * width - 1) - 1).to_bytes(width, "little", signed=True)
        return bytes(out)


class Hostile:
    """A producer that follows the dice."""

    def __init__(self, data: bytes) -> None:
        self.dice, self.producer, self.left = Dice(data), Producer(), 40

    def batch(self) -> tuple[Any, Any]:
        """The capsules of a struct."""
        return self.producer.pair(*self._struct())

    def stream(self) -> StreamOf:
        """A stream of structs, most of which its schema describes, of errors, and of items after the end."""
        start, text = self.dice.at, self.dice.pick((b"no luck", None, b"", b"\xff\0"))
        schema, first = self._struct()
        items = [first]
        for _ in range(self.dice.below(6)):
            kind, here = self.dice.below(8), self.dice.at
            if kind == 0:
                items.append(None)
            elif kind == 1:
                items.append(self.dice.pick(CODES))
            else:
                self.left = 40
                if kind > 2:
                    self.dice.at = start + 1  # make one like the first
                made = self._struct()[1]
                # Structs of another schema must have another number of columns: if all counts are right,
                # nobody can see that buffers are too small for the types of the schema.
                if kind > 2 or made.n_children != schema.n_children:
                    items.append(made)
                self.dice.at = max(self.dice.at, here)
        described = self.dice.pick((None, errno.EINVAL)) if self.dice.one_in(30) else schema
        return StreamOf(described, items, text)

    def _struct(self) -> tuple[Any, Any]:
        length, offset = self.dice.below(9), self.dice.below(3)
        columns = [self.column(length + offset, 1) for _ in range(self.dice.below(4))]
        schema = self._schema(b"+s", [each[0] for each in columns], None)
        return schema, self._array(b"+s", length, offset, [each[1] for each in columns], None)

    def single(self) -> tuple[Any, Any]:
        """The capsules of one array."""
        return self.producer.pair(*self.column(self.dice.below(9), 0))

    def column(self, length: int, depth: int) -> tuple[Any, Any]:
        """A schema and an array that claims at least `length` elements, mostly."""
        self.left -= 1
        form = self._format(depth)
        length = max(length + self.dice.pick((0, 0, 0, 0, 1, 5)), 0)
        offset = self.dice.pick((0, 0, 0, 1, 3))
        below = [self.column(each, depth + 1) for each in self._lengths(form, length + offset)]
        words = None
        if form in (b"c", b"s", b"i", b"l", b"C", b"I") and self.dice.one_in(4) and self.left > 0:
            words = self.column(self.dice.below(6), depth + 1)
        schema = self._schema(form, [each[0] for each in below], words and words[0])
        return schema, self._array(form, length, offset, [each[1] for each in below], words and words[1])

    def _format(self, depth: int) -> bytes:
        form = self.dice.pick(FORMATS)
        if form[:1] == b"+" and (depth > 5 or self.left <= 0):
            form = b"i"
        return form

    def _lengths(self, form: bytes, total: int) -> list[int]:
        """The lengths that the children must have."""
        match form[:2]:
            case b"+s":
                return [total] * self.dice.below(4)
            case b"+w":
                return [total * int(form[3:])]
            case b"+r":
                return [total, total]
            case b"+u":
                return [total, total]
            case b"+l" | b"+L" | b"+v" | b"+m":
                return [min(5 * (total + 1), 60)]
        return []

    def _schema(self, form: bytes, below: list[Any], words: Any) -> Any:
        changes: dict[str, Any] = {"flags": self.dice.pick((2, 2, 2, 0, 1, 4, 7, -1))}
        if self.dice.one_in(40):
            changes["n_children"] = len(below) + self.dice.pick((-1, -2, 2**40, -(2**63)))
        if self.dice.one_in(60):
            changes[self.dice.pick(("children", "release"))] = None
        if self.dice.one_in(30):
            form = self.dice.pick((form + b"!", *SENSELESS))
        name = self.dice.pick((b"x", b"", None, b"a", b"\xff", "é".encode()))
        return self.producer.schema(form, *below, name=name, dictionary=words, **changes)

    def _array(self, form: bytes, length: int, offset: int, below: list[Any], words: Any) -> Any:
        changes: dict[str, Any] = {"offset": offset, "null_count": self.dice.pick((-1, -1, 0, 0, length, 1))}
        if self.dice.one_in(25):
            changes["null_count"] = self.dice.pick(LIES)
        if self.dice.one_in(40):
            changes[self.dice.pick(("length", "offset"))] = -self.dice.pick((1, 2, 2**31, 2**62, 2**63))
        buffers = self._buffers(form, length + offset)
        if self.dice.one_in(40):
            changes["n_buffers"] = self.dice.pick((0, -1, len(buffers) - 1, -(2**63)))
        if self.dice.one_in(40):
            changes["n_children"] = self.dice.pick((-1, len(below) - 1, -(2**63)))
        if self.dice.one_in(60):
            changes[self.dice.pick(("buffers", "children", "release", "dictionary"))] = None
        if buffers and self.dice.one_in(20):
            buffers[self.dice.below(len(buffers))] = None
        if "length" in changes:
            length = changes.pop("length")
        if "dictionary" in changes:
            words = changes.pop("dictionary")
        made = self.producer.array(length, buffers, *below, dictionary=words, **changes)
        if below and self.dice.one_in(60) and made.children:
            made.children[self.dice.below(len(below))] = ctypes.POINTER(CArray)()
        return made

    def _buffers(self, form: bytes, total: int) -> list[bytes | None]:
        """The buffers, as many and as large as the format requires."""
        dice, kind = self.dice, form[:2]
        bits = bytes(dice.below(256) for _ in range(total // 8 + 1)) if dice.one_in(2) else None
        if form == b"n" or kind == b"+r":
            return []
        if kind == b"+u":
            known = [int(each) for each in form[4:].split(b",")]
            codes = bytes(9 if dice.one_in(30) else dice.pick(known) for _ in range(total))
            return [codes] if form[:3] == b"+us" else [codes, dice.numbers(total, 4, True)]
        if form in (b"+s",) or kind == b"+w":
            return [bits]
        if kind == b"+v":
            width = 4 if form == b"+vl" else 8
            return [bits, dice.numbers(total, width, False), dice.numbers(total, width, False)]
        if form in (b"z", b"u", b"+l", b"+m", b"Z", b"U", b"+L"):
            starts = dice.numbers(total + 1, 4 if form in (b"z", b"u", b"+l", b"+m") else 8, True)
            return [bits, starts] if kind[:1] == b"+" else [bits, starts, self._text()]
        if form in (b"vz", b"vu"):
            views = b"".join(self._view() for _ in range(total))
            return [bits, views, self._text(), REACH.to_bytes(8, "little")]
        if form == b"b":
            return [bits, bytes(total // 8 + 1)]
        return [bits, dice.numbers(total * self._width(form), 1, False)]

    def _text(self) -> bytes:
        """Bytes for every offset to refer to, UTF-8 or not."""
        return self.dice.pick((b"abcd", "aé".encode() + b"b", b"a\xffbc")) * (REACH // 4 + 1)

    def _view(self) -> bytes:
        size = self.dice.pick((0, 5, 12, 13, 40, REACH, -1 if self.dice.one_in(9) else 3))
        if size <= 12:
            return size.to_bytes(4, "little", signed=True) + b"abcdabcdabcd"
        buffer, start = self.dice.pick((0, 0, 0, 0, 1, -1)), self.dice.pick((0, 1, 4, REACH - 13, REACH, -1))
        return (
            size.to_bytes(4, "little")
            + b"abcd"
            + b"".join(each.to_bytes(4, "little", signed=True) for each in (buffer, start))
        )

    @staticmethod
    def _width(form: bytes) -> int:
        if form[:2] == b"w:":
            return int(form[2:])
        if form[:2] == b"d:":
            parts = form[2:].split(b",")
            return int(parts[2]) // 8 if len(parts) == 3 else 16
        return WIDTHS.get(form, 8)
