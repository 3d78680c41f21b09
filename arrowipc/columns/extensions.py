"""What values of extension types mean in Python: one table, from the name of a type to a function over stored values.

A field whose storage or parameters are not what its type asks for keeps its stored values, as Arrow says of types
that a reader does not know; a value that is broken is a FormatError. ``arrow.opaque`` and ``geoarrow.wkb`` are not
in the table: Python has nothing better for them than what is stored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Protocol
from uuid import UUID

from arrowipc import datatypes as at
from arrowipc.arguments import described
from arrowipc.columns.variant import Names, variant_value
from arrowipc.errors import FormatError, LimitError, UsageError
from arrowipc.metadata.tensor_parameters import FIXED_SHAPE, VARIABLE_SHAPE, TensorColumn, tensor_parameters

__all__ = ["MEANINGS", "converter_of", "own_converters"]


class Charge(Protocol):
    """Counts Python objects that a value is made of; raises LimitError when they are too many."""

    def __call__(self, values: int, lists: int = 0, dicts: int = 0, /) -> None: ...


#: Makes a Python value of a stored one, which is never None.
Convert = Callable[[Any, Charge], Any]


def own_converters(extensions: object) -> dict[str, Callable[[Any], Any]] | None:
    """Take the argument ``extensions`` of to_pylist and its kin; None: values stay as they are stored."""
    if extensions is None or extensions is False:
        return None
    if extensions is True:
        return {}
    if isinstance(extensions, Mapping) and all(map(callable, extensions.values())):
        return dict(extensions)
    raise UsageError(
        f"extensions: expected True, False or a mapping from names of extension types to functions of a value, "
        f"found {described(extensions)}"
    )


def converter_of(field: at.Field, own: Mapping[str, Callable[[Any], Any]]) -> Convert | None:
    """Return what makes Python values of those that a field stores; None: they stay as they are."""
    name = field.extension_name or ""
    if name in own:
        convert = own[name]
        return lambda value, charge: convert(value)
    return MEANINGS[name](field) if name in MEANINGS else None


def _uuid(field: at.Field) -> Convert | None:
    return (lambda value, charge: UUID(bytes=value)) if field.type == at.FixedSizeBinary(16) else None


def _bool8(field: at.Field) -> Convert | None:
    return (lambda value, charge: bool(value)) if field.type == at.Int(8, True) else None


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
            return value if found is not None else None  # nanoseconds are numbers, as everywhere
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
    """Return the types of a struct's fields, decoded, by name; nothing if it is none, or names repeat."""
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


#: Name of an extension type -> what makes a converter for a field; None where its storage is not the type's.
MEANINGS: dict[str, Callable[[at.Field], Convert | None]] = {
    "arrow.bool8": _bool8,
    FIXED_SHAPE: _tensor,
    "arrow.json": _json,
    "arrow.parquet.variant": _variant,
    "arrow.timestamp_with_offset": _moment,
    "arrow.uuid": _uuid,
    VARIABLE_SHAPE: _tensor,
}
