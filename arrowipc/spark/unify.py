"""Merging of Spark schemas: those of files with ``mergeSchema``, and of the payloads of a sample.

A merged column has a type that holds the values of all columns without loss, and into which `BatchConverter` can
convert each of them.
"""

from collections.abc import Iterable

from pyspark.sql import types as st

from arrowipc.errors import LimitError, UsageError
from arrowipc.limits import Limits

#: Decimal digits of integer types, narrowest first; and the most digits of integers that floating-point types hold.
DIGITS: dict[type[st.DataType], int] = {st.ByteType: 3, st.ShortType: 5, st.IntegerType: 10, st.LongType: 20}
EXACT: dict[type[st.DataType], int] = {st.FloatType: 5, st.DoubleType: 10}


def merge_fields(structs: Iterable[st.StructType], prefix: str = "") -> st.StructType:
    """Return all fields of some schemas or structs, in order of appearance; the case of names does not matter."""
    merged: dict[str, st.StructField] = {}
    for struct in structs:
        if len({name.lower() for name in struct.names}) < len(struct):
            raise UsageError(f"names that differ in case only do not merge: {', '.join(map(repr, struct.names))[:200]}")
        for field in struct.fields:
            known = merged.setdefault(field.name.lower(), field)
            if known.dataType != field.dataType:
                type_ = _merged(known.dataType, field.dataType, prefix + field.name)
                merged[field.name.lower()] = st.StructField(known.name, type_)
        if len(merged) > (most := Limits().dataset_columns):
            raise LimitError(f"there are more than {most:,} columns together: give a schema of those that are wanted")
    return st.StructType([*merged.values()])


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
    """Return the type that holds the values of both, if `one` is the narrower kind; else None."""
    digits = DIGITS.get(type(one), 0)
    match one, other:
        case (st.NullType(), _) | (st.FloatType(), st.DoubleType()):
            return other
        case st.DecimalType(), st.DecimalType():
            scale = max(one.scale, other.scale)
            precision = max(one.precision - one.scale, other.precision - other.scale) + scale
            return st.DecimalType(precision, scale) if precision <= 38 else None
        case st.IntegralType(), st.DecimalType():
            return _wider(st.DecimalType(digits, 0), other)
        case st.IntegralType(), (st.IntegralType() | st.FractionalType()):
            return other if digits <= (DIGITS | EXACT).get(type(other), 0) else None
    return None
