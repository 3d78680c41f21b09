"""Random types of Arrow that Spark reads, what it reads them as, values that both have, and conditions on them."""

import datetime as dt
import random
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, functions as F
from pyspark.sql.pandas.types import from_arrow_schema

LONG = "longer than the twelve bytes of a view, and than the 64 that bounds have in statistics"
WORDS = ("", "a", "ab", "b", "é€𝄞", "%_", "a\0b", "\uffff", "\U0010ffff" * 20, LONG, LONG + "a", LONG + "c")
FLOATS = (0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"))
BYTES = (*(word.encode() for word in WORDS), b"\0", b"\xff\xff", b"\xff" * 70)

#: Types of Arrow, and the type that Parquet gets in their place: what Spark reads them as.
LEAVES: dict[pa.DataType, pa.DataType] = {
    **{each: each for each in (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())},
    **{pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)},
    **{pa.float16(): pa.float32(), pa.date32(): pa.date32(), pa.date64(): pa.date32()},
    **{each: pa.string() for each in (pa.string(), pa.large_string(), pa.string_view())},
    **{each: pa.binary() for each in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3))},
    **{pa.timestamp(unit): pa.timestamp("us") for unit in ("s", "ms", "us", "ns")},
    **{pa.timestamp(unit, zone): pa.timestamp("us", "UTC") for unit, zone in (("s", "UTC"), ("ms", "Asia/Tokyo"))},
    **{pa.timestamp(unit, zone): pa.timestamp("us", "UTC") for unit, zone in (("us", "+05:30"), ("ns", "UTC"))},
    **{pa.decimal128(*each): pa.decimal128(*each) for each in ((4, 2), (9, 0), (18, 6), (19, 3), (38, 10))},
    **{pa.decimal256(30, 5): pa.decimal128(30, 5), pa.decimal32(7, 2): pa.decimal128(7, 2)},
    pa.decimal64(15, 4): pa.decimal128(15, 4),
}


def random_type(dice: random.Random, depth: int = 2) -> pa.DataType:
    how = dice.random() if depth else 1
    if how > 0.4:
        return dice.choice([*LEAVES])
    below = random_type(dice, depth - 1)
    if how < 0.12:
        return pa.struct([("f", below), ("g", random_type(dice, depth - 1))][: dice.randint(1, 2)])
    if how < 0.28:
        return dice.choice((pa.list_, pa.large_list, pa.list_view, lambda each: pa.list_(each, 2)))(below)
    return pa.map_(dice.choice((pa.string(), pa.int32(), pa.date32())), below)


def as_spark(kind: pa.DataType) -> pa.DataType:
    """What Spark reads a type as."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, as_spark(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(as_spark(kind.key_type), as_spark(kind.item_type))
    if pa.types.is_nested(kind):
        return pa.list_(as_spark(kind.value_type))
    return LEAVES[kind]


def value(kind: pa.DataType, dice: random.Random, nulls: float = 0.2) -> Any:
    """A value that both types of a column hold."""
    if dice.random() < nulls:
        return None
    if pa.types.is_struct(kind):
        return {field.name: value(field.type, dice) for field in kind}
    if pa.types.is_map(kind):
        keys = {value(kind.key_type, dice, 0) for _ in range(dice.randint(0, 3))}
        return [(key, value(kind.item_type, dice)) for key in sorted(keys)]
    if pa.types.is_nested(kind):
        count = kind.list_size if pa.types.is_fixed_size_list(kind) else dice.randint(0, 3)
        return [value(kind.value_type, dice) for _ in range(count)]
    return leaf(kind, dice)


def leaf(kind: pa.DataType, dice: random.Random) -> Any:
    if pa.types.is_boolean(kind):
        return dice.random() < 0.5
    if pa.types.is_floating(kind):
        return dice.choice([*FLOATS, dice.randint(-99, 99) / 4])
    if pa.types.is_integer(kind):
        low = 0 if pa.types.is_unsigned_integer(kind) else -(1 << kind.bit_width - 1)
        return dice.choice([0, 1, 2, 3, low, low + (1 << kind.bit_width) - 1, low + dice.getrandbits(kind.bit_width)])
    if pa.types.is_decimal(kind):
        digits = dice.choice([1, 2, kind.precision])
        return Decimal((dice.randint(0, 1), tuple(dice.randint(0, 9) for _ in range(digits)), -kind.scale))
    if pa.types.is_date(kind):
        return dt.date.fromordinal(dice.choice([1, 577_736, 719_163, 719_164, 738_000, 3_652_059]))
    if pa.types.is_timestamp(kind):
        step = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}[kind.unit]
        moment = dt.timedelta(microseconds=dice.choice([0, -1, dice.randint(-(10**15), 10**15)]) * step % 10**16)
        return dt.datetime(1700, 1, 1, tzinfo=dt.UTC if kind.tz else None) + moment
    if pa.types.is_fixed_size_binary(kind):
        return dice.choice(BYTES)[:3].ljust(3, b"\xff")
    return dice.choice(WORDS if LEAVES[kind] == pa.string() else BYTES)


def random_filter(types: dict[str, pa.DataType], dice: random.Random, depth: int = 2) -> Column:
    if depth and dice.random() < 0.5:
        parts = [random_filter(types, dice, depth - 1) for _ in range(2)]
        found = reduce(dice.choice((lambda a, b: a & b, lambda a, b: a | b)), parts)
        return ~found if dice.random() < 0.2 else found
    name = dice.choice([*types])
    column, kind = F.col(name), types[name]
    while pa.types.is_struct(kind) and dice.random() < 0.7:
        field = kind.field(dice.randrange(kind.num_fields))
        column, kind = column.getField(field.name), field.type
    if pa.types.is_nested(kind) or dice.random() < 0.15:
        return column.isNull() if dice.random() < 0.5 else column.isNotNull()
    return comparison(column, kind, dice)


def comparison(column: Column, kind: pa.DataType, dice: random.Random) -> Column:
    how = dice.randrange(9)
    literal, other = (as_literal(leaf(kind, dice), kind) for _ in range(2))
    if how == 8 and LEAVES[kind] == pa.string():
        return dice.choice((column.startswith, column.endswith, column.contains))(dice.choice(WORDS))
    return [
        column == literal,
        column != literal,
        column < literal,
        column <= literal,
        column > literal,
        column.eqNullSafe(literal),
        column.isin(literal, other),
        column.between(literal, other),
        column >= literal,
    ][how]


def as_literal(found: Any, kind: pa.DataType) -> Column:
    type_ = from_arrow_schema(pa.schema([("x", LEAVES[kind])]), prefer_timestamp_ntz=True)["x"].dataType
    if isinstance(found, dt.date):  # Py4J has no moments of years before 1000, and no numbers beyond 64 bits
        found = found.isoformat()
    return F.lit(Decimal(found) if pa.types.is_uint64(kind) else found).cast(type_)
