"""What values of extension types mean in Python: one table, from the name of a type to a function over stored values.

A field whose storage or parameters are not what its type asks for keeps its stored values, as Arrow asks for types
that a reader does not know; a value that is broken is a FormatError. ``arrow.opaque`` and ``geoarrow.wkb`` are not
in the table: Python has nothing better for them than the stored values.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from arrowipc import datatypes as at
from arrowipc.arguments import described
from arrowipc.errors import ArrowIpcError, FormatError, LimitError, UnsupportedError, UsageError
from arrowipc.metadata.tensor_parameters import FIXED_SHAPE, VARIABLE_SHAPE, TensorColumn, tensor_parameters

if TYPE_CHECKING:
    from arrowipc.arguments import Extensions

__all__ = ["MEANINGS", "Names", "converter_of", "meanings_of", "variant_value"]


class Charge(Protocol):
    """Counts Python objects that a value is made of; raises LimitError when they are too many."""

    def __call__(self, values: int, lists: int = 0, dicts: int = 0, /) -> None: ...


#: Makes a Python value of a stored one; it is never called with None.
Convert = Callable[[Any, Charge], Any]
#: Makes the Convert of a field; None if the field's storage is not that of its extension type.
Meaning = Callable[[at.Field], Convert | None]


class FineTimes:
    """An internal form of the argument ``extensions``: it says what times of no whole microseconds become.

    ``make`` gets the type and the stored number. Without it such times are an error, because Python's classes cannot
    hold them. `extensions` is the argument for extension types.
    """

    def __init__(self, make: Callable[[at.DataType, int], Any], extensions: Extensions = False) -> None:
        self.make = make
        self.extensions = extensions


#: Such times stay the stored numbers, which ``from_pylist`` takes.
STORED_TIMES: Any = FineTimes(lambda type_, number: number)


def meanings_of(extensions: Any) -> Mapping[str, Meaning]:
    """Return the conversions that the argument ``extensions`` of to_pylist asks for, by name of the type."""
    if extensions is None:
        return PLAIN
    if isinstance(extensions, bool):
        return MEANINGS if extensions else {}
    if isinstance(extensions, Mapping) and all(map(callable, extensions.values())):
        return {**MEANINGS, **{name: _own(convert) for name, convert in extensions.items()}}
    raise UsageError(
        f"extensions: expected True, False or a mapping from names of extension types to functions of a value, "
        f"found {described(extensions)}"
    )


def converter_of(field: at.Field, extensions: Extensions) -> Convert | None:
    """Return the function that converts the stored values of a field; None: they stay as they are."""
    meanings, name = meanings_of(extensions), field.extension_name or ""
    return meanings[name](field) if name in meanings else None


def _own(convert: Callable[[Any], Any]) -> Meaning:
    return lambda field: lambda value, charge: convert(value)


def _plain(storage: at.DataType, make: Callable[[Any], Any]) -> Meaning:
    return lambda field: (lambda value, charge: make(value)) if field.type == storage else None


def _json(field: at.Field) -> Convert | None:
    def parsed(text: str, charge: Charge) -> Any:
        lists, dicts = text.count("["), text.count("{")
        charge(1 + text.count(",") + text.count(":") + lists + dicts, lists, dicts)
        try:
            return json.loads(text)
        except RecursionError:
            raise LimitError("arrow.json: the text is nested too deeply") from None
        except ValueError as error:
            raise FormatError(f"arrow.json: {error}") from None

    return parsed if isinstance(field.type, at.TEXT) else None


def _moment(field: at.Field) -> Convert | None:
    parts = _parts(field.type)
    instant, offset = parts.get("timestamp"), parts.get("offset_minutes")

    def moved(value: dict[str, Any], charge: Charge) -> Any:
        found, minutes = value["timestamp"], value["offset_minutes"] or 0
        if not isinstance(found, datetime):
            return value if found is not None else None  # a number: it is beyond the years of datetime
        if not -1440 < minutes < 1440:
            raise FormatError(f"arrow.timestamp_with_offset: expected less than 1440 minutes, found {minutes}")
        try:
            return found.astimezone(timezone(timedelta(minutes=minutes)))
        except OverflowError:  # within a day of the years 1 and 9999
            return value

    fits = isinstance(instant, at.Timestamp) and instant.timezone is not None and offset == at.Int(16, True)
    return moved if fits and tuple(parts) == ("timestamp", "offset_minutes") else None


def _variant(field: at.Field) -> Convert | None:
    parts = _parts(field.type)
    names = Names(b"\x01\0\0")

    def decoded(value: dict[str, Any], charge: Charge) -> Any:
        nonlocal names
        if value["value"] is None:
            return None
        if value["metadata"] is None:
            raise FormatError("arrow.parquet.variant: its metadata is null")
        if names.metadata != value["metadata"]:  # neighbours often share it
            names = Names(value["metadata"])
        return variant_value(names, value["value"], charge)

    binary = (at.Binary, at.LargeBinary, at.BinaryView)
    fits = parts.keys() == {"metadata", "value"} and all(isinstance(part, binary) for part in parts.values())
    return decoded if fits else None


def _parts(kind: at.DataType) -> dict[str, at.DataType]:
    """Return the types of a struct's fields by name, without encodings; empty if it is no struct, or names repeat."""
    found: dict[str, at.DataType] = {}
    for field in kind.fields if isinstance(kind, at.Struct) else ():
        part = field.type
        while isinstance(part, (at.Dictionary, at.RunEndEncoded)):
            part = part.value_type if isinstance(part, at.Dictionary) else part.values.type
        found[field.name] = part
    return found if isinstance(kind, at.Struct) and len(found) == len(kind.fields) else {}


def _tensor(field: at.Field) -> Convert | None:
    try:
        parameters = tensor_parameters(field)
    except FormatError:
        return None
    assert parameters is not None

    def nested(value: Any, charge: Charge) -> Any:
        flat = value if parameters.shape is not None else value["data"]
        shape = parameters.shape if parameters.shape is not None else value["shape"]
        if flat is None or shape is None or None in shape or min(shape, default=0) < 0 or math.prod(shape) != len(flat):
            raise FormatError(f"{field.extension_name}: the shape {shape} does not fit {described(flat)}")
        return _rows(flat, shape, parameters, charge)

    return nested


def _rows(flat: list[Any], shape: tuple[int, ...], parameters: TensorColumn, charge: Charge) -> Any:
    """Return row-major values as nested lists, as ``numpy.ndarray.tolist`` does."""
    axes = [(size, math.prod(shape[i + 1 :])) for i, size in enumerate(shape)]
    axes = [axes[i] for i in parameters.permutation or range(len(axes))]
    lists, inner = 0, 1
    for size, _ in axes:
        lists += inner
        inner *= size
    charge(lists, lists)

    def part(depth: int, at: int) -> Any:
        if depth == len(axes):
            return flat[at]
        size, stride = axes[depth]
        if depth == len(axes) - 1:
            return flat[at : at + size * stride : stride] if size else []
        return [part(depth + 1, at + i * stride) for i in range(size)]

    return part(0, 0)


#: Extension types whose values are converted unless the caller asks for others, by name. `columns/elements` looks for
#: them where values have 1 or 16 bytes.
PLAIN: dict[str, Meaning] = {
    "arrow.bool8": _plain(at.Int(8, True), bool),
    "arrow.uuid": _plain(at.FixedSizeBinary(16), lambda value: UUID(bytes=value)),
}
#: All extension types whose values can be converted.
MEANINGS: dict[str, Meaning] = {
    **PLAIN,
    FIXED_SHAPE: _tensor,
    "arrow.json": _json,
    "arrow.parquet.variant": _variant,
    "arrow.timestamp_with_offset": _moment,
    VARIABLE_SHAPE: _tensor,
}


# -- Variants ------------------------------------------------------------------------------------------------

# Parquet's binary encoding, read with suspicion. A Variant is two byte strings: metadata, which holds the names of
# fields, and a value, which is nested by offsets. Offsets may lead anywhere, so the bytes that values take are
# counted: no byte may be read twice.

# The deepest nesting: far more than people need, and far from the end of Python's stack.
_DEEPEST = 128
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=UTC)


def variant_value(names: Names, value: bytes, charge: Callable[[int, int, int], None]) -> Any:
    """Return a Variant as Python values; each of its types becomes what the Arrow type of that name becomes."""
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
        self._unread = len(metadata)  # names that overlap would take more bytes
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
    """Reads one value, and counts how many of its bytes are unread."""

    def __init__(self, names: Names, data: bytes) -> None:
        self._names = names
        self._data = data
        self._unread = len(data)
        self.values = self.lists = self.dicts = 0

    def read(self, at: int, end: int, depth: int) -> Any:
        """Read the value at byte `at`, which must not go beyond byte `end`."""
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
        """Read an object, whose fields have ids of `ids` bytes, or an array, for which `ids` is 0."""
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


def _since(epoch: Any, ticks: int = 1) -> Callable[[bytes], Any]:
    """Return a function from days or microseconds since an epoch to a date; beyond its years, it returns the number."""
    unit = timedelta(microseconds=1) if isinstance(epoch, datetime) else timedelta(1)

    def moment(data: bytes) -> Any:
        number, rest = divmod(_integer(data), ticks)
        if rest:
            raise _broken(f"{_integer(data)} ns are no whole microseconds, which a datetime holds", UnsupportedError)
        try:
            return epoch + number * unit
        except OverflowError:
            return number

    return moment


def _time(data: bytes) -> Any:
    number = _integer(data)
    return (_EPOCH + timedelta(microseconds=number)).time() if 0 <= number < 86_400_000_000 else number


#: Type -> number of bytes, and the function that makes a value of them.
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
    18: (8, _since(_EPOCH_UTC, 1000)),
    19: (8, _since(_EPOCH, 1000)),
    20: (16, lambda data: UUID(bytes=data)),
}
