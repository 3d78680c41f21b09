"""Random Arrow data, made with pyarrow: a recursive strategy over all types, and arrays of a given type."""

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

UNITS = ["s", "ms", "us", "ns"]
FIXED = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.date64(), pa.month_day_nano_interval()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "UTC", "Europe/Paris")),
    *(pa.duration(unit) for unit in UNITS),
    *(pa.decimal32(7, 2), pa.decimal64(15, -2), pa.decimal128(30, 4), pa.decimal256(70, 9)),
    *(pa.binary(0), pa.binary(1), pa.binary(5)),
]
TEXT = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
LEAVES = [pa.null(), *FIXED, *TEXT]
names = st.sampled_from(["", "a", "b", "item", "é", "a.b", "long name " * 3])


def any_text(**size: int) -> st.SearchStrategy[str]:
    """Any text; `st.text` makes a table of all characters first, which takes two seconds."""
    code = st.integers(0, 127) | st.integers(0, 0x10F7FF).map(lambda n: n + 0x800 * (n >= 0xD800))
    return st.lists(code.map(chr), **size).map("".join)


def _fields(below: st.SearchStrategy[pa.DataType], smallest: int, largest: int) -> st.SearchStrategy[list[pa.Field]]:
    return st.lists(st.builds(pa.field, names, below, st.just(True)), min_size=smallest, max_size=largest)


def _nest(below: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    keys = st.sampled_from([pa.int32(), pa.string(), pa.large_string(), pa.bool_()])
    words = st.sampled_from([pa.int32(), pa.float64(), *TEXT])
    return st.one_of(
        st.builds(
            lambda t, make: make(t), below, st.sampled_from([pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
        ),
        st.builds(pa.list_, below, st.integers(0, 3)),
        st.builds(pa.struct, _fields(below, 0, 3)),
        st.builds(pa.map_, keys, below),
        st.builds(
            lambda f, mode: pa.union(f, mode, [3 * i + 1 for i in range(len(f))]),
            _fields(below, 1, 3),
            st.sampled_from(["sparse", "dense"]),
        ),
        st.builds(
            pa.run_end_encoded, st.sampled_from([pa.int16(), pa.int32(), pa.int64()]), st.sampled_from([*FIXED, *TEXT])
        ),
        st.builds(pa.dictionary, st.sampled_from([pa.int8(), pa.uint16(), pa.int64()]), words),
    )


types = st.sampled_from(LEAVES) | st.recursive(st.sampled_from(LEAVES), _nest, max_leaves=6)


def array_of(kind: pa.DataType, length: int, chance: random.Random) -> pa.Array:
    """An array of `length` rows, a fifth of them null if the type has a validity bitmap."""
    if pa.types.is_dictionary(kind):
        letters = array_of(kind.value_type, 5, chance)
        return pa.DictionaryArray.from_arrays(
            pa.array(_some(lambda: chance.randrange(5), length, chance), kind.index_type), letters
        )
    if pa.types.is_run_end_encoded(kind):
        ends = [*sorted(chance.sample(range(1, length), chance.randint(0, length - 1))), length] if length else []
        return pa.RunEndEncodedArray.from_arrays(
            pa.array(ends, kind.run_end_type), array_of(kind.value_type, len(ends), chance), kind
        )
    if pa.types.is_union(kind):
        return _union(kind, length, chance)
    if pa.types.is_struct(kind):
        children = [array_of(kind.field(i).type, length, chance) for i in range(kind.num_fields)]
        mask = pa.array([chance.random() < 0.2 for _ in range(length)], pa.bool_())
        return (
            pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
            if children
            else pa.array([{}] * length, kind)
        )
    if pa.types.is_nested(kind):
        return _lists(kind, length, chance)
    if pa.types.is_null(kind):
        return pa.nulls(length)
    return pa.array(_some(lambda: _value(kind, chance), length, chance), kind)


def _some(value: Any, length: int, chance: random.Random) -> list[Any]:
    return [None if chance.random() < 0.2 else value() for _ in range(length)]


def _union(kind: pa.UnionType, length: int, chance: random.Random) -> pa.Array:
    picks = [chance.randrange(kind.num_fields) for _ in range(length)]
    codes = pa.array([kind.type_codes[i] for i in picks], pa.int8())
    labels, ids = [f.name for f in kind], kind.type_codes
    if kind.mode == "sparse":
        children = [array_of(f.type, length, chance) for f in kind]
        return pa.UnionArray.from_sparse(codes, children, labels, ids)
    offsets = pa.array([picks[:row].count(i) for row, i in enumerate(picks)], pa.int32())
    children = [array_of(f.type, picks.count(i), chance) for i, f in enumerate(kind)]
    return pa.UnionArray.from_dense(codes, offsets, children, labels, ids)


def _lists(kind: pa.DataType, length: int, chance: random.Random) -> pa.Array:
    nulls = pa.array([chance.random() < 0.2 for _ in range(length)], pa.bool_())
    if pa.types.is_fixed_size_list(kind):
        below = array_of(kind.value_type, length * kind.list_size, chance)
        if not kind.list_size:
            return pa.Array.from_buffers(kind, length, [None], children=[below])
        return pa.FixedSizeListArray.from_arrays(below, type=kind, mask=nulls)
    sizes = [chance.randint(0, 3) for _ in range(length)]
    ends = [sum(sizes[:i]) for i in range(length + 1)]
    if pa.types.is_map(kind):
        keys = pa.array([_value(kind.key_type, chance) for _ in range(ends[-1])], kind.key_type)
        return pa.MapArray.from_arrays(
            pa.array(ends, pa.int32()), keys, array_of(kind.item_type, ends[-1], chance), kind
        )
    large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    width, below = pa.int64() if large else pa.int32(), array_of(kind.value_type, ends[-1], chance)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        make = pa.LargeListViewArray if large else pa.ListViewArray
        return make.from_arrays(pa.array(ends[:-1], width), pa.array(sizes, width), below, type=kind, mask=nulls)
    return (pa.LargeListArray if large else pa.ListArray).from_arrays(
        pa.array(ends, width), below, type=kind, mask=nulls
    )


def _value(kind: pa.DataType, chance: random.Random) -> Any:
    if pa.types.is_boolean(kind):
        return chance.random() < 0.5
    if pa.types.is_floating(kind):
        return chance.choice([0.0, -1.5, 1e4, float("inf"), chance.randint(-99, 99) / 4])
    if pa.types.is_fixed_size_binary(kind):
        return chance.randbytes(kind.byte_width)
    if kind in TEXT:
        text = "".join(chance.choice("abcé€𝄞") for _ in range(chance.choice([0, 1, 5, 12, 13, 40])))
        return text if kind in TEXT[:3] else text.encode() + b"\xff"
    if pa.types.is_date64(kind):
        return dt.date.fromordinal(chance.randint(1, 10**6))
    if pa.types.is_interval(kind):
        return pa.MonthDayNano([chance.randint(-99, 99), chance.randint(-99, 99), chance.randint(-(10**12), 10**12)])
    if pa.types.is_time(kind):
        return chance.randrange(0, 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit], 1000)
    if pa.types.is_decimal(kind):
        digits = tuple(chance.randint(0, 9) for _ in range(chance.randint(1, kind.precision)))
        return Decimal((chance.randint(0, 1), digits, -kind.scale))
    bits = kind.bit_width
    low = 0 if pa.types.is_unsigned_integer(kind) else -(1 << bits - 1)
    number = chance.choice([0, 1, low, low + (1 << bits) - 1, low + chance.getrandbits(bits)])
    # Nanoseconds that are whole microseconds: to_pylist accepts no others.
    return max(number // 1000 * 1000, low + 808) if getattr(kind, "unit", "") == "ns" else number


@st.composite
def batches(draw: Any, most_columns: int = 4, most_rows: int = 12, most_batches: int = 3) -> list[pa.RecordBatch]:
    """Some batches of one schema; dictionaries are the same in all of them, so that a file can hold them."""
    kinds = draw(st.lists(types, max_size=most_columns))
    chance = random.Random(draw(st.integers(0, 2**32)))
    root = pa.schema(
        [pa.field(f"c{i}", kind) for i, kind in enumerate(kinds)], metadata=draw(st.sampled_from([None, {"k": "v"}]))
    )
    rows = draw(st.integers(0, most_rows))
    whole = pa.RecordBatch.from_arrays([array_of(kind, rows, chance) for kind in kinds], schema=root)
    if not kinds:
        return [whole] * draw(st.integers(0, most_batches))
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=most_batches - 1)))
    return [whole.slice(start, end - start) for start, end in zip([0, *cuts], [*cuts, rows], strict=True)]


LONG = "a text that is longer than twelve bytes "
#: A type, and values of it that are hard to tell apart.
POOLS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["a", "b", "", None, "c", "dd", LONG, "e"]),
    (pa.large_string(), ["a", "b", "", None, LONG]),
    (pa.string_view(), ["a", LONG, None, LONG + "b", "exactly 12 b"]),
    (pa.binary_view(), [b"a", b"\0" * 20, None, b""]),
    (pa.binary(), [b"a", b"", b"\0", None, b"\0\0"]),
    (pa.binary(3), [b"abc", b"abd", None]),
    (pa.binary(0), [b"", None]),
    (pa.int8(), [1, 0, None, -1]),
    (pa.int64(), [1, 2**62, None, -1, 0]),
    (pa.float16(), [0.0, math.nan, -0.0, None, 1.5]),
    (pa.float32(), [0.0, math.nan, -0.0, None, 1.5]),
    (pa.float64(), [0.0, math.nan, -0.0, None, math.inf]),
    (pa.bool_(), [True, False, None]),
    (pa.null(), [None]),
    (pa.decimal128(9, 2), [None, 1, 2]),
    (pa.decimal256(70, 9), [None, 1, 2]),
    (pa.list_(pa.float64()), [[], None, [0.0], [-0.0], [math.nan], [None, 1.0]]),
    (pa.list_(pa.string()), [[], None, ["a"], ["a", "b"], [None], [LONG]]),
    (pa.list_view(pa.int32()), [[], None, [1, 2], [2]]),
    (pa.list_(pa.int16(), 2), [[1, 2], None, [1, None]]),
    (pa.struct([("x", pa.int8()), ("y", pa.string_view())]), [{"x": 1, "y": LONG}, None, {"x": None, "y": "a"}]),
    (pa.map_(pa.string(), pa.bool_()), [[("k", True)], None, [], [("k", None), ("l", False)]]),
]
