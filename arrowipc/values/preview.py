"""One value of an array as a short text, at a cost that depends on the text and not on the data.

A row may hold a list of a billion nulls, or a string of a gigabyte. So lists, strings and encoded values are
read here from their offsets and children, a few elements deep, and never turned into Python objects whole.
"""

from __future__ import annotations

import datetime
import math
import sys
from bisect import bisect_right
from contextlib import suppress
from struct import pack

from arrowipc import datatypes as at
from arrowipc.columns.array import Array
from arrowipc.columns.extensions import PLAIN, FineTimes
from arrowipc.errors import printable
from arrowipc.intervals import DayTime, MonthDayNano

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Shown in place of anything left out.
CUT = "..."

#: Times with a fraction of a microsecond stay numbers, so that all their digits are shown.
_SHOWN = FineTimes(lambda kind, number: number, extensions=None)

#: Levels of nesting that are shown.
DEPTH = 4

#: Most characters of one item, if there are several.
ITEM_WIDTH = 40

#: Types with more nodes than this print their kind and number of children only.
TYPE_NODES = 200

#: Types whose values are read as Python values, most frequent first.
FIXED = (at.Int, at.FloatingPoint, at.Bool, at.Timestamp, at.Date, at.Decimal, at.Time, at.Duration, at.Interval)
_NESTED = (*at.LISTS, at.Map, at.Struct)
VIEWS = (at.Utf8View, at.BinaryView)
WIDE = (at.LargeList, at.LargeListView, at.LargeUtf8, at.LargeBinary)

# Bytes that one character of UTF-8 takes at most.
UTF8_MAX = 4


class _Missing(str):
    """The word for a null; text that happens to say the same is an ordinary str."""

    __slots__ = ()


#: What :func:`value_text` returns for a null, to be recognized with ``is``.
NULL = _Missing("null")


def value_text(array: Any, i: int, width: int, quotes: bool = True) -> str:
    """Spell value `i` of `array` in at most `width` characters; a number or a time, which is never cut, may have more.

    Text stands in double quotes; without `quotes`, only where it is part of something else. Null is `NULL`.
    It never raises: a value that cannot be read shows as the name of its error, in angle brackets.
    """
    try:
        return _text(array, i, width, DEPTH, quotes)
    except Exception as error:  # a repr must not fail, least of all while somebody looks for an error
        return f"<{type(error).__name__}>"


def values_text(array: Any, width: int, most: int) -> str:
    """Spell the first `most` values of `array`, as many as fit into `width` characters, in brackets."""
    count, kind = min(len(array), most), array.type
    with suppress(Exception):  # what cannot be read shows value by value
        if type(kind) in FIXED or (type(kind) in (at.Utf8, at.LargeUtf8) and _is_short(array, count)):
            known = array.slice(0, count).to_pylist(extensions=_SHOWN)
            return _sequence(lambda k, left: scalar_text(known[k], kind, left), count, len(array), width)
    return _sequence(lambda k, left: value_text(array, k, left), count, len(array), width)


def _is_short(array: Any, count: int) -> bool:
    """Whether the first `count` texts are so short that all of them may be read."""
    offsets, width = array.buffers()[1], 8 if isinstance(array.type, WIDE) else 4
    size = _load(offsets, array.offset + count, width) - _load(offsets, array.offset, width)
    return size <= count * ITEM_WIDTH * UTF8_MAX


def type_text(type_: at.DataType, width: int) -> str:
    """Spell a type in at most `width` characters, also one with a million children."""
    if (type_.children or isinstance(type_, at.Dictionary)) and _exceeds(type_, TYPE_NODES):
        name = type(type_).__name__.lower()
        return shorten(f"{name}<{len(type_.children):,} children>", width)
    return shorten(str(type_), width)


def shorten(text: str, width: int) -> str:
    """`text`, cut at its end if it is longer than `width` characters."""
    return text if len(text) <= width else text[: max(width - len(CUT), 0)] + CUT


def size_text(size: int) -> str:
    """Spell a number of bytes in at most eight characters."""
    if size < 1000:
        return f"{size} B"
    scaled = float(size)
    for unit in ("kB", "MB", "GB", "TB"):
        scaled /= 1000
        if scaled < 999.5:
            return f"{scaled:.3g} {unit}"
    return f"{scaled:,.0f} TB"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _exceeds(type_: at.DataType, most: int) -> bool:
    """Whether a type has more than `most` nodes; stops soon after it has counted that many."""
    waiting, seen = [type_], 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, at.Dictionary):
            one = one.value_type
        seen += 1 + len(one.children)
        if seen > most:
            return True
        waiting += [child.type for child in one.children]
    return False


def _text(array: Any, i: int, width: int, depth: int, quotes: bool = True) -> str:
    kind = array.type
    if not 0 <= i < len(array):
        raise IndexError(f"element {i} of {len(array)}")  # offsets may be unvalidated
    found = type(kind)  # a comparison with several classes by isinstance takes five times as long here
    if found in FIXED:
        return scalar_text(array.slice(i, 1).to_pylist(extensions=_SHOWN)[0], kind)
    if found is at.Union:
        return _text(*_member(array, i), width, depth, quotes)
    if found is at.RunEndEncoded:
        return _text(array.children[1], bisect_right(array.children[0], array.offset + i), width, depth, quotes)
    if found is at.Null or array.slice(i, 1).null_count:
        return NULL
    if found is at.Dictionary:
        return _entry_text(array, i, width, depth, quotes)
    if found in _NESTED:
        return _nested_text(array, i, width, depth)
    if found in at.TEXT:
        head, size = _head(array, i, width * UTF8_MAX)
        text = head.decode("utf-8", "replace")
        return quoted(text, width, cut=size > len(head)) if quotes else shorten(printable(text), width)
    if found in at.BYTES and array.field.extension_name not in PLAIN:
        head, size = _head(array, i, width)
        return shorten(repr(head), width) if size == len(head) else repr(head)[: width - 4] + "'" + CUT
    return scalar_text(array.slice(i, 1).to_pylist(extensions=_SHOWN)[0], kind)


def quoted(text: str, width: int, cut: bool = False) -> str:
    """`text` in double quotes with control characters escaped, in at most `width` characters."""
    room = max(width - 2, 0)
    shown = printable(text[: room + 1]).replace('"', '\\"')
    if not cut and len(text) <= room and len(shown) <= room:
        return f'"{shown}"'
    return f'"{shown[: max(room - len(CUT), 0)]}"{CUT}'


def scalar_text(value: object, kind: at.DataType, width: int = ITEM_WIDTH) -> str:
    """Spell a value of a fixed-width type; a text in at most `width` characters."""
    if value is None:
        return NULL
    if isinstance(kind, at.Int):
        return str(value)
    if isinstance(value, str):
        return quoted(value, width)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, MonthDayNano):
        return f"{value.months}mo {value.days}d {value.nanoseconds}ns"
    if isinstance(value, DayTime):
        return f"{value.days}d {value.milliseconds}ms"
    if isinstance(value, int) and isinstance(kind, (at.Duration, at.Time, at.Timestamp)):
        if kind.unit == "ns" and not isinstance(kind, at.Duration):
            return _fine_text(value, kind)
        return f"{value}{kind.unit}"
    if isinstance(value, float) and isinstance(kind, at.FloatingPoint) and kind.bit_width < 64:
        return _narrow_text(value, *(("e", 3) if kind.bit_width == 16 else ("f", 6)))
    return str(value)


def _narrow_text(value: float, code: str, digits: int) -> str:
    """A short decimal number that is `value` as a narrow float; `digits` are those that each normal one keeps."""
    shown = value
    while math.isfinite(value) and pack(code, shown := float(f"{value:.{digits}g}")) != pack(code, value):
        digits += 1
    return str(shown)


def _fine_text(value: int, kind: at.Timestamp | at.Time) -> str:
    """A moment or a time of day in nanoseconds, with all digits."""
    if isinstance(kind, at.Time):
        coarse: list[at.DataType] = [at.Time("us", 64)]
    else:
        coarse = [at.Timestamp("us", zone) for zone in (kind.timezone, "UTC")]  # for a name that Python does not know
    for each in coarse:
        found = Array.from_pylist([value // 1000], each)[0]
        if not isinstance(found, int):
            text = found.isoformat(timespec="microseconds").replace("T", " ")
            end = text.index(".") + 7
            return f"{text[:end]}{value % 1000:03d}{text[end:]}"
    return f"{value}{kind.unit}"


def _sequence(item: Callable[[int, int], str], count: int, total: int, width: int) -> str:
    """Texts of items 0, 1, ... in brackets, as many of `count` as fit; CUT at the end if `total` is more than these."""
    pieces: list[str] = []
    used = 2
    for k in range(count):
        # Unless this is the last item, CUT must still fit behind it.
        room = width - used - (len(CUT) + 2 if k + 1 < total else 0)
        if room < 1:
            break
        # A cut item says little: let each have up to ITEM_WIDTH characters, and leave it out if it does not fit.
        piece = item(k, room if total == 1 else ITEM_WIDTH if k else min(room, ITEM_WIDTH))
        if len(piece) > room:
            break
        pieces.append(piece)
        used += len(piece) + 2
    if len(pieces) < total:
        pieces.append(CUT)
    return f"[{', '.join(pieces)}]"


def _entry_text(array: Any, i: int, width: int, depth: int, quotes: bool) -> str:
    index_type, values = array.type.index_type, array.dictionary
    index = _load(array.buffers()[1], array.offset + i, index_type.bit_width // 8, index_type.signed)
    if values is None:
        return f"<entry {index} of a dictionary that has not arrived>"
    return _text(values, index, width, depth, quotes)


def _nested_text(array: Any, i: int, width: int, depth: int) -> str:
    """A list in brackets; a map or a struct in braces."""
    kind = array.type
    left, right = "[]" if isinstance(kind, at.LISTS) else "{}"
    if depth == 0:
        return f"{left}{CUT}{right}"
    parts = array.children[0].children if isinstance(kind, at.Map) else array.children
    start, count = (i, len(parts)) if isinstance(kind, at.Struct) else _extent(array, i)

    def item(k: int, room: int) -> str:
        if isinstance(kind, at.LISTS):
            return _text(parts[0], start + k, room, depth - 1)
        if isinstance(kind, at.Struct):
            name, values, place = shorten(printable(kind.fields[k].name), max(room // 2, 1)), parts[k], i
        else:
            name, values, place = _text(parts[0], start + k, room // 2, depth - 1), parts[1], start + k
        return f"{name}: {_text(values, place, max(room - len(name) - 2, 1), depth - 1)}"

    return left + _sequence(item, count, count, width)[1:-1] + right


def _member(array: Any, i: int) -> tuple[Any, int]:
    """The child that holds value `i` of a union, and the value's index in this child."""
    buffers = array.buffers()
    dense = array.type.mode == "dense"
    code = _load(buffers[-2 if dense else -1], array.offset + i, 1)
    child = array.children[array.type.type_codes.index(code)]
    return child, _load(buffers[-1], array.offset + i, 4) if dense else i


def _extent(array: Any, i: int) -> tuple[int, int]:
    """The index in the child of the first element of list `i`, and the number of elements."""
    kind = array.type
    if isinstance(kind, at.FixedSizeList):
        return i * kind.list_size, kind.list_size
    buffers, width, place = array.buffers(), 8 if isinstance(kind, WIDE) else 4, array.offset + i
    start = _load(buffers[1], place, width)
    if isinstance(kind, (at.ListView, at.LargeListView)):
        return start, _load(buffers[2], place, width)
    return start, _load(buffers[1], place + 1, width) - start


def _head(array: Any, i: int, most: int) -> tuple[bytes, int]:
    """The first bytes, at most `most`, of binary or text value `i`, and the number of bytes that it has."""
    kind, buffers, place = array.type, array.buffers(), array.offset + i
    if isinstance(kind, at.FixedSizeBinary):
        size = kind.byte_width
        return bytes(buffers[1][place * size : place * size + min(size, most)]) if size else b"", size
    if isinstance(kind, VIEWS):
        view = buffers[1][place * 16 : place * 16 + 16]
        size = _load(view, 0, 4)
        if size <= 12:
            return bytes(view[4 : 4 + min(size, most)]), size
        start = _load(view, 3, 4)
        return bytes(buffers[2 + _load(view, 2, 4)][start : start + min(size, most)]), size
    width = 8 if isinstance(kind, WIDE) else 4
    start = _load(buffers[1], place, width)
    size = _load(buffers[1], place + 1, width) - start
    return bytes(buffers[2][start : start + min(size, most)]) if size else b"", size


def _load(buffer: memoryview, index: int, width: int, signed: bool = True) -> int:
    """Integer `index` of a buffer of integers of `width` bytes."""
    stored = buffer[index * width : (index + 1) * width]
    if len(stored) != width:
        raise IndexError(f"integer {index} of a buffer of {len(buffer)} bytes")
    return int.from_bytes(stored, sys.byteorder, signed=signed)
