"""Which type a column has when nobody says: that of its Python values, of its NumPy dtype, or its own.

The types are those that pyarrow infers. Values that have no type in common are an error, never a guess.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

from arrowipc import types
from arrowipc.errors import UsageError
from arrowipc.schema import Schema
from arrowipc.values.converters import classes_of, digits_of, elements_of, members_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from arrowipc.types import DataType

__all__ = ["infer_schema", "infer_type"]

#: Levels of lists and dicts that are looked into: one that holds itself has no end.
MOST_LEVELS = 64

#: Python type -> the type of values that are all of it; one that inherits counts as the first it inherits.
_PLAIN = {
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
}
_LOOKED_AT = (datetime.datetime, Decimal, list, tuple, dict)


def infer_schema(mapping: Mapping[Any, Any]) -> Schema:
    """Return the schema of some columns given by name, all nullable.

    Parameters
    ----------
    mapping : mapping of str to column
        A column is a sequence of Python values, a NumPy array, or an :class:`arrowipc.Array`.

    Raises
    ------
    UsageError
        The values of a column have no type in common; the message names the column.

    Examples
    --------
    >>> from arrowipc.values.inference import infer_schema
    >>> infer_schema({"id": [1, None], "tags": [["a"], []]})
    id: int64
    tags: list<item: string>
    """
    fields = []
    for name, values in mapping.items():
        try:
            fields.append(types.field(name, infer_type(values)))
        except UsageError as error:
            raise UsageError(f"column {name!r}: {error}") from None
    return Schema(fields)


def infer_type(values: Any) -> DataType:
    """Return the type that a column of these values has.

    Integers become int64 (uint64 where one needs it), integers among floats float64, dicts a struct of all
    their keys, aware datetimes timestamps in UTC; nothing but None is of type null.

    Parameters
    ----------
    values : sequence, numpy.ndarray or Array

    Raises
    ------
    UsageError
        They have no type in common, or none at all.
    """
    found = getattr(values, "type", None)
    if isinstance(found, types.DataType):
        return found
    if hasattr(values, "dtype") and hasattr(values, "ndim"):
        return _type_of_array(values)
    return _type_of_values(values if type(values) is list else list(values), 0)


def _type_of_array(array: Any) -> DataType:
    """The type that holds the elements of a NumPy array; further dimensions are lists of fixed size."""
    kind = array.dtype.kind
    if kind in "OSUT":
        return _type_of_values(array.tolist(), 0)
    if kind == "b":
        found: DataType = types.bool_()
    elif array.dtype.str[1:] == "M8[D]":
        found = types.date32()
    else:
        from arrowipc.values.dtypes import type_of

        found = type_of(array.dtype)
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
        return types.list_(_type_of_values(elements_of(values), level + 1))
    if known == {dict}:
        parts = members_of(values)
        if not all(isinstance(key, str) for key in parts):
            raise UsageError("the keys of a struct are text: say types.map_(...) for other keys")
        return types.struct({key: _type_of_values(part, level + 1) for key, part in parts.items()})
    names = " and ".join(sorted(kind.__qualname__ for kind in kinds))
    raise UsageError(f"values of {names} have no type in common: say which type they have")


def _known(kind: type) -> type:
    """The first type in the order of inheritance that we know; NumPy's scalars count as Python's."""
    for each in kind.__mro__:
        if each in _PLAIN or each in _LOOKED_AT:
            return each
    if kind.__module__ == "numpy":
        import numpy as np

        for scalar, each in ((np.integer, int), (np.floating, float), (np.bool_, bool)):
            if issubclass(kind, scalar):
                return each
    raise UsageError(f"values like {kind.__qualname__} have no Arrow type of their own: say which they have")


def _type_of_datetimes(values: list[datetime.datetime]) -> DataType:
    aware = {value.tzinfo is not None for value in values}
    if len(aware) > 1:
        raise UsageError("some datetimes have a time zone and some have none")
    return types.timestamp("us", "UTC" if aware.pop() else None)


def _type_of_decimals(whole: int, scale: int) -> DataType:
    """The type with so many digits in front of and behind the point."""
    precision = max(whole + scale, 1)
    if precision > 76:
        raise UsageError(f"decimals of {precision} digits: Arrow has at most 76")
    return types.decimal128(precision, scale) if precision <= 38 else types.decimal256(precision, scale)
