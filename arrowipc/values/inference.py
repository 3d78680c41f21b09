"""The type of a column without a schema: from its Python values, its NumPy dtype, or its own type.

The types are those that pyarrow infers. Values that have no type in common are an error, never a guess.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

from arrowipc import types
from arrowipc.arguments import items_of
from arrowipc.datatypes import EXTENSION_METADATA, EXTENSION_NAME, Field
from arrowipc.errors import UsageError
from arrowipc.intervals import DayTime, MonthDayNano
from arrowipc.schemas import Schema
from arrowipc.values.converters import classes_of, digits_of, elements_of, members_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from arrowipc.arguments import MetadataLike
    from arrowipc.types import DataType

#: Levels of lists and dicts that are searched: one that contains itself would never end.
MOST_LEVELS = 64

_UUID = types.binary(16)
#: Python type -> the Arrow type of a column of its values; a subclass counts as its first known base.
_PLAIN: dict[Any, DataType] = {
    bool: types.bool_(),
    int: types.int64(),
    float: types.float64(),
    str: types.utf8(),
    bytes: types.binary(),
    bytearray: types.binary(),
    memoryview: types.binary(),
    datetime.date: types.date32(),
    datetime.time: types.time64("us"),
    datetime.timedelta: types.duration("us"),
    DayTime: types.interval_day_time(),
    MonthDayNano: types.month_day_nano_interval(),
    "uuid.UUID": _UUID,
}
#: Name of a class in a module that may not be loaded -> the Python type that it counts as.
_COUNTS_AS: dict[str, Any] = {
    "builtins.MonthDayNano": MonthDayNano,  # pyarrow's
    "numpy.bool": bool,
    "numpy.bool_": bool,
    "numpy.datetime64": datetime.datetime,
    "numpy.floating": float,
    "numpy.integer": int,
    "numpy.ndarray": list,
    "numpy.timedelta64": datetime.timedelta,
    "uuid.UUID": "uuid.UUID",
}
_LOOKED_AT = (datetime.datetime, Decimal, list, tuple, dict)
#: Metadata keys of a field's extension type.
_EXTENSION = (EXTENSION_NAME, EXTENSION_METADATA)


def infer_schema(names: Sequence[str], columns: Sequence[Any], metadata: MetadataLike = None) -> Schema:
    """Return the schema of some columns, all nullable; a `UsageError` names one whose values have no type in common.

    A column is a sequence of Python values, a NumPy array, or an :class:`arrowipc.Array`.

    >>> from arrowipc.values.inference import infer_schema
    >>> infer_schema(["id", "tags"], [[1, None], [["a"], []]])
    id: int64
    tags: list<item: string>
      child 0, item: string
    """
    fields = []
    for name, values in zip(items_of("names", names), items_of("columns", columns), strict=True):
        try:
            fields.append(field_of(name, infer_type(values), values))
        except UsageError as error:
            raise UsageError(f"column {name!r}: {error}") from None
    return Schema(fields, metadata)


def infer_type(values: Any) -> DataType:
    """Return the type that a column of these values has.

    Integers become int64 (uint64 if one is too large), integers with floats float64, dicts a struct of all their keys,
    aware datetimes timestamps in the zone of the first one; a column of only None has the type null.
    Values without a common type, or without any Arrow type, are a `UsageError`.
    """
    found = getattr(values, "type", None)
    if isinstance(found, types.DataType):
        return found
    if hasattr(values, "dtype") and hasattr(values, "ndim"):
        return _type_of_array(values)
    return _type_of_values(values if type(values) is list else items_of("values", values), 0)


def field_of(name: str, kind: DataType, values: Any = None) -> Field:
    """Make a field for values; it has the extension type of an Array, or that of UUIDs."""
    if kind is _UUID:
        return Field(name, kind, metadata=((EXTENSION_NAME, b"arrow.uuid"), (EXTENSION_METADATA, b"")))
    given = getattr(values, "field", None)
    pairs = given.metadata.pairs if isinstance(given, Field) else ()
    return Field(name, kind, metadata=[pair for pair in pairs if pair[0] in _EXTENSION])


def _type_of_array(array: Any) -> DataType:
    """Return the type for the elements of a NumPy array; dimensions after the first become lists of fixed size."""
    kind = array.dtype.kind
    if kind in "OSU":
        return _type_of_values(array.tolist(), 0)
    if kind == "T":
        return types.utf8()
    if kind == "b":
        found: DataType = types.bool_()
    elif array.dtype.str[1:] == "M8[D]":
        found = types.date32()
    else:
        from arrowipc.values.dtypes import type_of

        found = type_of(array.dtype)
        if array.dtype.names and isinstance(found, types.FixedSizeBinary):
            raise UsageError("a structured array is rows of several columns: RecordBatch.from_records(array) takes it")
    for size in reversed(array.shape[1:]):
        found = types.list_(found, size)
    return found


def _type_of_values(values: list[Any], level: int) -> DataType:
    if level > MOST_LEVELS:
        raise UsageError(f"values are nested more than {MOST_LEVELS} levels deep: say which type they have")
    kinds, large = classes_of(values)
    known = {_known(kind) for kind in kinds}
    if not known:
        return types.null()
    if all(map(_has_dtype, kinds)):
        return _type_of_scalars([value.dtype for value in values if value is not None])
    if known == {int}:
        others = [value for value in values if value is not None] if kinds != {int} else []
        return types.uint64() if large or max(others, default=0) >= 1 << 63 else types.int64()
    if known == {int, float}:
        return types.float64()
    found = {_PLAIN[each] for each in known if each in _PLAIN}
    if len(found) == 1 and known <= _PLAIN.keys():
        return found.pop()
    if known == {datetime.datetime}:
        return _type_of_datetimes([value for value in values if value is not None])
    if known == {Decimal}:
        return _type_of_decimals(*digits_of(values))
    if known <= {list, tuple}:
        values = [_sample(value) for value in values] if kinds != known else values
        return types.list_(field_of("item", _type_of_values(elements_of(values), level + 1)))
    if known == {dict}:
        parts = members_of(values)
        if not all(isinstance(key, str) for key in parts):
            raise UsageError("the keys of a struct are text: say types.map_(...) for other keys")
        return types.struct([field_of(key, _type_of_values(part, level + 1)) for key, part in parts.items()])
    names = " and ".join(sorted(kind.__qualname__ for kind in kinds))
    raise UsageError(f"mixed {names}: say which type they have")


def _known(kind: type) -> Any:
    """Return the first known class among a class and its bases; NumPy's scalars and arrays count as Python's."""
    for each in kind.__mro__:
        if each in _PLAIN or each in _LOOKED_AT:
            return each
        if (name := f"{each.__module__}.{each.__name__}") in _COUNTS_AS:
            return _COUNTS_AS[name]
    if kind.__name__ == "NAType":
        raise UsageError("pandas.NA is no value: array(values, from_pandas=True) takes it as null")
    raise UsageError(f"values like {kind.__qualname__} have no Arrow type of their own: say which they have")


def _has_dtype(kind: type) -> bool:
    """Whether values of a class are NumPy scalars, whose dtype determines their type."""
    return kind.__module__ == "numpy" and kind.__name__ not in ("bytes_", "ndarray", "str_")


def _type_of_scalars(dtypes: list[Any]) -> DataType:
    import numpy as np

    try:
        return _type_of_array(np.empty(0, np.result_type(*set(dtypes))))
    except (OverflowError, TypeError):  # dtypes without a common one, such as times and numbers
        names = " and ".join(sorted(map(str, set(dtypes))))
        raise UsageError(f"mixed {names}: say which type they have") from None


def _type_of_datetimes(values: list[datetime.datetime]) -> DataType:
    aware = {getattr(value, "tzinfo", None) is not None for value in values}
    if len(aware) > 1:
        raise UsageError("some datetimes have a time zone and some have none")
    return types.timestamp("us", _zone_name(values[0].tzinfo) if aware.pop() else None)


def _zone_name(zone: Any) -> str:
    """Return Arrow's name of a Python time zone: its name, or else its offset; UTC if it has neither."""
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # set by zoneinfo, by pytz
    if isinstance(name, str):
        return name
    offset = zone.utcoffset(None) if isinstance(zone, datetime.timezone) else datetime.timedelta()
    minutes, rest = divmod(offset, datetime.timedelta(minutes=1))
    if rest or not minutes:
        return "UTC"
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _sample(value: Any) -> Any:
    """Return a list that has the element type of a NumPy array in a list; other values as they are."""
    if not hasattr(value, "dtype"):
        return value
    import numpy as np

    if not value.ndim:
        raise UsageError("an array of no dimension is no list")
    return value.tolist() if value.dtype.kind in "OSUT" else np.zeros([1] * value.ndim, value.dtype)


def _type_of_decimals(whole: int, scale: int) -> DataType:
    """The type for these numbers of digits before and after the point."""
    precision = max(whole + scale, 1)
    if precision > 76:
        raise UsageError(f"decimals of {precision} digits: Arrow has at most 76")
    return types.decimal128(precision, scale) if precision <= 38 else types.decimal256(precision, scale)
