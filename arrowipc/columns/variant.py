"""Values of ``arrow.parquet.variant`` in Python: Parquet's binary encoding of Variants, read with suspicion.

A Variant is two byte strings: metadata, which holds the names of fields, and a value, which is nested by offsets.
Offsets may lead anywhere, so what values take of their bytes is counted: none may be read twice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from arrowipc.errors import ArrowIpcError, FormatError, LimitError, UnsupportedError

__all__ = ["Names", "variant_value"]

# Far more than people nest, and far from the end of Python's stack.
_DEEPEST = 128
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=UTC)


def variant_value(names: Names, value: bytes, charge: Callable[[int, int, int], None]) -> Any:
    """Return a Variant as Python values, those of the Arrow types that its types are named after."""
    reader = _Reader(names, value)
    found = reader.read(0, len(value), 0)
    charge(reader.values, reader.lists, reader.dicts)
    return found


def _broken(problem: str, kind: type[ArrowIpcError] = FormatError) -> ArrowIpcError:
    return kind(f"arrow.parquet.variant: {problem}")


def _number(data: bytes, at: int, size: int) -> int:
    """Read an unsigned number, which must be inside the bytes."""
    if at + size > len(data):
        raise _broken(f"bytes {at}..{at + size} lie outside its {len(data)} bytes")
    return int.from_bytes(data[at : at + size], "little")


class Names:
    """The names of fields in the metadata of a Variant, each read when a field needs it."""

    def __init__(self, metadata: bytes) -> None:
        self.metadata = metadata
        header = _number(metadata, 0, 1)
        if header & 15 != 1:
            raise _broken(f"expected version 1, found {header & 15}", UnsupportedError)
        self._width = (header >> 6) + 1
        self._count = _number(metadata, 1, self._width)
        self._start = 1 + (self._count + 2) * self._width
        self._unread = len(metadata)  # names that overlap would be more
        self._known: dict[int, str] = {}

    def __getitem__(self, i: int) -> str:
        if i in self._known:
            return self._known[i]
        if i >= self._count:
            raise _broken(f"field {i} is not one of the {self._count} names")
        at = 1 + (i + 1) * self._width
        start, stop = (self._start + _number(self.metadata, at + k, self._width) for k in (0, self._width))
        self._unread -= stop - start
        if not start <= stop <= len(self.metadata) or self._unread < 0:
            raise _broken(
                f"the name of field {i}, bytes {start}..{stop} of its metadata, lies outside or overlaps others"
            )
        self._known[i] = _text(self.metadata[start:stop])
        return self._known[i]


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _broken(f"text is not UTF-8: {error}") from None


class _Reader:
    """One value, and how much of its bytes was read."""

    def __init__(self, names: Names, data: bytes) -> None:
        self._names = names
        self._data = data
        self._unread = len(data)
        self.values = self.lists = self.dicts = 0

    def read(self, at: int, end: int, depth: int) -> Any:
        """Read the value at a place; it must end before another one."""
        if at >= end:
            raise _broken(f"a value begins at byte {at}, after its end at {end}")
        if depth > _DEEPEST:
            raise _broken(f"nested deeper than {_DEEPEST} levels", LimitError)
        basic, header = self._data[at] & 3, self._data[at] >> 2
        self.values += 1
        if basic == 1:
            return _text(self._take(at, 1, header, end))
        if basic == 0:
            return self._primitive(header, at, end)
        return self._nested(header, (header >> 2 & 3) + 1 if basic == 2 else 0, at, end, depth)

    def _take(self, at: int, head: int, size: int, end: int) -> bytes:
        """Return the `size` bytes after the `head` bytes of a value at `at`, and count all of them as read."""
        self._unread -= head + size
        if head + size > end - at:
            raise _broken(f"a value takes bytes {at}..{at + head + size}, beyond its end at {end}")
        if self._unread < 0:
            raise _broken("its values overlap")
        return self._data[at + head : at + head + size]

    def _primitive(self, kind: int, at: int, end: int) -> Any:
        if kind in (15, 16):
            content = self._take(at, 5, _number(self._data, at + 1, 4), end)
            return content if kind == 15 else _text(content)
        if kind not in _PRIMITIVES:
            raise _broken(f"a value has the type {kind}, and there is none", UnsupportedError)
        size, make = _PRIMITIVES[kind]
        return make(self._take(at, 1, size, end))

    def _nested(self, header: int, ids: int, at: int, end: int, depth: int) -> Any:
        """Read an object, whose fields have ids of some bytes, or an array, which has none."""
        wide, width = header >> (4 if ids else 2) & 1, (header & 3) + 1
        size = 4 if wide else 1
        count = _number(self._data, at + 1, size)
        self._take(at, 1 + size, count * ids + (count + 1) * width, end)
        at += 1 + size
        fields = [_number(self._data, at + i * ids, ids) for i in range(count)] if ids else []
        at += count * ids
        places = [_number(self._data, at + i * width, width) for i in range(count + 1)]
        at += (count + 1) * width
        last = at + places.pop()
        if last > end:
            raise _broken(f"its values end at byte {last}, beyond {end}")
        if not ids:
            self.lists += 1
            return [self.read(at + place, last, depth + 1) for place in places]
        self.dicts += 1
        found = {self._names[i]: at + place for i, place in zip(fields, places, strict=True)}
        if len(found) < count:
            raise _broken("an object has a field twice")
        return {name: self.read(place, last, depth + 1) for name, place in found.items()}


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _decimal(data: bytes) -> Decimal:
    if data[0] > 38:
        raise _broken(f"a decimal has the scale {data[0]}, more than 38")
    return Decimal(f"{_integer(data[1:])}E-{data[0]}")


def _since(epoch: Any) -> Callable[[bytes], Any]:
    """Make what counts days or microseconds from an epoch; beyond the years of datetime, the stored number."""
    unit = timedelta(microseconds=1) if isinstance(epoch, datetime) else timedelta(1)

    def moment(data: bytes) -> Any:
        number = _integer(data)
        try:
            return epoch + number * unit
        except OverflowError:
            return number

    return moment


def _time(data: bytes) -> Any:
    number = _integer(data)
    return (_EPOCH + timedelta(microseconds=number)).time() if 0 <= number < 86_400_000_000 else number


#: Type -> bytes of the value, and what makes it. Nanoseconds stay numbers, as everywhere.
_PRIMITIVES: dict[int, tuple[int, Callable[[bytes], Any]]] = {
    0: (0, lambda _: None),
    1: (0, lambda _: True),
    2: (0, lambda _: False),
    **{3 + i: (1 << i, _integer) for i in range(4)},
    7: (8, lambda data: struct.unpack("<d", data)[0]),
    **{8 + i: (1 + (4 << i), _decimal) for i in range(3)},
    11: (4, _since(date(1970, 1, 1))),
    12: (8, _since(_EPOCH_UTC)),
    13: (8, _since(_EPOCH)),
    14: (4, lambda data: struct.unpack("<f", data)[0]),
    17: (8, _time),
    **dict.fromkeys((18, 19), (8, _integer)),
    20: (16, lambda data: UUID(bytes=data)),
}
