"""One Spark schema for several: that of files with ``mergeSchema``, and of the payloads of a sample.

A column has the type that holds the values of all without loss; what `BatchConverter` can then make of each.
"""

from collections.abc import Iterable

from pyspark.sql import types as st

from arrowipc.errors import LimitError, UsageError
from arrowipc.limits import Limits

__all__ = ["merge_fields"]

#: Decimal digits of whole numbers, from the narrowest type.
DIGITS: dict[type[st.DataType], int] = {st.ByteType: 3, st.ShortType: 5, st.IntegerType: 10, st.LongType: 20}
#: Whole numbers of these are exact in the floating-point type.
EXACT: dict[type[st.DataType], int] = {st.FloatType: 5, st.DoubleType: 10}
MOST_DIGITS = 38


def merge_fields(structs: Iterable[st.StructType], prefix: str = "") -> st.StructType:
    """All fields of some schemas, or structs, in the order in which they appear, whatever the case of their names.

    Raises
    ------
    UsageError
        No type holds all values of a column.
    LimitError
        There are more columns than the limit ``dataset_columns``.
    """
    merged: dict[str, st.StructField] = {}
    for struct in structs:
        for field in struct.fields:
            known = merged.setdefault(field.name.lower(), field)
            if known is not field and known.dataType != field.dataType:
                type_ = _merged(known.dataType, field.dataType, prefix + field.name)
                merged[field.name.lower()] = st.StructField(known.name, type_)
        if len(merged) > (most := Limits().dataset_columns):
            raise LimitError(f"there are more than {most:,} columns together: give a schema of those that are wanted")
    return st.StructType(list(merged.values()))


def _merged(one: st.DataType, other: st.DataType, path: str) -> st.DataType:
    match one, other:
        case st.StructType(), st.StructType():
            return merge_fields([one, other], f"{path}.")
        case st.ArrayType(), st.ArrayType():
            return st.ArrayType(_merged(one.elementType, other.elementType, f"{path}.element"))
        case st.MapType(), st.MapType():
            key = _merged(one.keyType, other.keyType, f"{path}.key")
            return st.MapType(key, _merged(one.valueType, other.valueType, f"{path}.value"))
    found = one if one == other else _wider(one, other) or _wider(other, one)
    if found is None:
        raise UsageError(
            f"column {path!r} is {one.simpleString()} in one and {other.simpleString()} in another, and no type holds "
            "the values of both without loss; give a schema that says what is wanted"
        )
    return found


def _wider(one: st.DataType, other: st.DataType) -> st.DataType | None:
    """The type that holds the values of both, where `one` is the narrower kind; None: there is none."""
    digits, more = DIGITS.get(type(one)), DIGITS.get(type(other))
    match one, other:
        case st.NullType(), _:
            return other
        case st.FloatType(), st.DoubleType():
            return other
        case st.DecimalType(), st.DecimalType():
            scale = max(one.scale, other.scale)
            precision = max(one.precision - one.scale, other.precision - other.scale) + scale
            return st.DecimalType(precision, scale) if precision <= MOST_DIGITS else None
    if digits is None:
        return None
    if isinstance(other, st.DecimalType):
        return _wider(st.DecimalType(digits, 0), other)
    if more is not None:
        return other if more > digits else None
    return other if digits <= EXACT.get(type(other), 0) else None
