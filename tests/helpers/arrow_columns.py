"""A column of every Arrow type that Spark can hold in some form, with the Spark type and values expected."""

import datetime as dt
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from helpers.arrays import CASES, pyarrow_bytes


class Column(NamedTuple):
    """A column of three rows, the second of which is null if the type allows it."""

    array: pa.Array
    spark: str  # Spark's name of the expected type
    values: list[Any]  # the values of the converted column in pyarrow


def _runs(values: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), values)


def _sparse() -> pa.Array:
    # Slot 1 of the first member holds a value that no row selects and that Spark could not hold.
    members = [pa.array([1000, 1, 3000], pa.timestamp("ns")), pa.array(["x", "b", "y"], pa.string_view())]
    return pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), members, ["at", "what"], [0, 1])


def _dense() -> pa.Array:
    members = [pa.array([1, 2], pa.uint8()), pa.array(["a"]).dictionary_encode()]
    codes, offsets = pa.array([5, 7, 5], pa.int8()), pa.array([0, 0, 1], pa.int32())
    return pa.UnionArray.from_dense(codes, offsets, members, ["x", "x"], [5, 7])


def _of(kind: pa.DataType, spark: str, first: Any, last: Any, *shown: Any) -> Column:
    """A column of two values with a null between them; `shown` are the converted values if they differ."""
    a, b = shown or (first, last)
    return Column(pa.array([first, None, last], kind), spark, [a, None, b])


NANOSECONDS = pa.array([1_000, None, -1_000], pa.timestamp("ns"))
EPOCH = dt.datetime(1970, 1, 1)
SECOND, MILLISECOND, TICK = dt.timedelta(seconds=1), dt.timedelta(milliseconds=1), dt.timedelta(microseconds=1)
MOMENTS = [EPOCH + TICK, None, EPOCH - TICK]
INSTANTS = [moment and moment.replace(tzinfo=dt.UTC) for moment in MOMENTS]
DAYS = dt.date(1970, 1, 2), dt.date(1969, 12, 31)
CENTS = Decimal("1.25"), Decimal("-1.25")
SMALL = pa.array([Decimal("0.00123"), None, Decimal("0.00001")], pa.decimal128(5, 5))
WORDS = pa.array(["a", None, "long enough to leave the view"])
BYTES = pa.array([b"a", None, b"long enough to leave the view"])
CHOICES = pa.array(["red", None, "green"]).dictionary_encode()
PAIRS = pa.array([[("k", 1)], None, [("m", None), ("n", 3)]], pa.map_(pa.large_string(), pa.uint32()))
RECORDS = pa.array(
    [{"a": 1, "b": "x"}, None, {"a": 3, "b": None}], pa.struct({"a": pa.uint8(), "b": pa.large_string()})
)

TEXTS = pa.string(), pa.large_string(), pa.string_view()
BINARIES = pa.binary(), pa.large_binary(), pa.binary_view()

COLUMNS: dict[str, Column] = {
    "null": Column(pa.nulls(3), "void", [None] * 3),
    "bool": _of(pa.bool_(), "boolean", True, False),
    "int8": _of(pa.int8(), "tinyint", -128, 127),
    "int16": _of(pa.int16(), "smallint", -1, 1),
    "int32": _of(pa.int32(), "int", -1, 1),
    "int64": _of(pa.int64(), "bigint", -(2**63), 1),
    "uint8": _of(pa.uint8(), "smallint", 255, 0),
    "uint16": _of(pa.uint16(), "int", 65535, 0),
    "uint32": _of(pa.uint32(), "bigint", 2**32 - 1, 0),
    "uint64": _of(pa.uint64(), "decimal(20,0)", 2**64 - 1, 0, Decimal(2**64 - 1), Decimal(0)),
    "half": _of(pa.float16(), "float", np.float16(1.5), np.float16(-2), 1.5, -2.0),
    "float": _of(pa.float32(), "float", 1.5, -2.0),
    "double": _of(pa.float64(), "double", 1.5, -2.0),
    **{str(kind): Column(WORDS.cast(kind), "string", WORDS.to_pylist()) for kind in TEXTS},
    **{str(kind): Column(BYTES.cast(kind), "binary", BYTES.to_pylist()) for kind in BINARIES},
    "fixed_binary": _of(pa.binary(2), "binary", b"ab", b"cd"),
    "date32": _of(pa.date32(), "date", 1, -1, *DAYS),
    "date64": _of(pa.date64(), "date", 86_400_000, -86_400_000, *DAYS),
    "time_s": _of(pa.time32("s"), "time(6)", 1, 2, dt.time(0, 0, 1), dt.time(0, 0, 2)),
    "time_ms": _of(pa.time32("ms"), "time(6)", 1, 2, dt.time(0, 0, 0, 1000), dt.time(0, 0, 0, 2000)),
    "time_us": _of(pa.time64("us"), "time(6)", 1, 2, dt.time(0, 0, 0, 1), dt.time(0, 0, 0, 2)),
    "time_ns": _of(pa.time64("ns"), "time(6)", 1000, 2000, dt.time(0, 0, 0, 1), dt.time(0, 0, 0, 2)),
    "timestamp_s": _of(pa.timestamp("s"), "timestamp_ntz", 1, -1, EPOCH + SECOND, EPOCH - SECOND),
    "timestamp_ms_paris": _of(
        *(pa.timestamp("ms", "Europe/Paris"), "timestamp", 1, -1),
        *((EPOCH + by).replace(tzinfo=dt.UTC) for by in (MILLISECOND, -MILLISECOND)),
    ),
    "timestamp_us": Column(NANOSECONDS.cast(pa.timestamp("us")), "timestamp_ntz", MOMENTS),
    "timestamp_us_offset": Column(NANOSECONDS.cast(pa.timestamp("us", "+05:30")), "timestamp", INSTANTS),
    "timestamp_ns": Column(NANOSECONDS, "timestamp_ntz", MOMENTS),
    "timestamp_ns_utc": Column(NANOSECONDS.cast(pa.timestamp("ns", "UTC")), "timestamp", INSTANTS),
    "duration_s": _of(pa.duration("s"), "interval day to second", 1, 2, SECOND, 2 * SECOND),
    "duration_ns": _of(pa.duration("ns"), "interval day to second", 1000, -1000, TICK, -TICK),
    "month_day_nano": _of(
        *(pa.month_day_nano_interval(), "struct<months:int,days:int,nanoseconds:bigint>", (1, 2, 3), (4, 5, -6)),
        *({"months": 1, "days": 2, "nanoseconds": 3}, {"months": 4, "days": 5, "nanoseconds": -6}),
    ),
    "decimal128": _of(pa.decimal128(38, 2), "decimal(38,2)", *CENTS),
    "decimal256": _of(pa.decimal256(38, 2), "decimal(38,2)", *CENTS),
    "decimal_of_hundreds": _of(pa.decimal128(5, -2), "decimal(7,0)", Decimal("1200"), Decimal("-100")),
    "decimal_below_one": Column(SMALL.view(pa.decimal128(3, 5)), "decimal(5,5)", SMALL.to_pylist()),
    "dictionary": Column(CHOICES, "string", ["red", None, "green"]),
    "dictionary_of_ints": _of(pa.dictionary(pa.uint16(), pa.uint8()), "smallint", 100, 200),
    "dictionary_with_null_word": Column(
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(["a", None])),
        "string",
        ["a", None, "a"],
    ),
    "dictionary_of_views": Column(
        pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), pa.array(["a", "b"], pa.string_view())),
        "string",
        ["a", None, "b"],
    ),
    "run_end": Column(_runs(WORDS.cast(pa.string_view())), "string", WORDS.to_pylist()),
    "run_end_of_choices": Column(_runs(CHOICES), "string", ["red", None, "green"]),
    "list": _of(pa.list_(pa.uint8()), "array<smallint>", [1, None], []),
    "large_list": _of(pa.large_list(pa.uint16()), "array<int>", [1], [2, 3]),
    "fixed_list": _of(pa.list_(pa.uint8(), 2), "array<smallint>", [1, 2], [3, 4]),
    "list_view": _of(pa.list_view(pa.uint16()), "array<int>", [1], [2, 3]),
    "large_list_view": _of(pa.large_list_view(pa.int8()), "array<tinyint>", [1], [2, 3]),
    "overlapping_list_view": Column(
        pa.ListViewArray.from_arrays([1, 0, 0], [2, 0, 3], pa.array([1, 2, 3], pa.uint8())),
        "array<smallint>",
        [[2, 3], [], [1, 2, 3]],
    ),
    "list_of_dictionary": _of(pa.list_(pa.dictionary(pa.int8(), pa.string())), "array<string>", ["a"], ["b", None]),
    "struct": Column(RECORDS, "struct<a:smallint,b:string>", RECORDS.to_pylist()),
    "list_of_struct": _of(pa.list_(RECORDS.type), "array<struct<a:smallint,b:string>>", [{"a": 1, "b": "x"}, None], []),
    "map": Column(PAIRS, "map<string,bigint>", PAIRS.to_pylist()),
    "sparse_union": Column(
        _sparse(),
        "struct<at:timestamp_ntz,what:string>",
        [{"at": EPOCH + TICK, "what": None}, {"at": None, "what": "b"}, {"at": EPOCH + 3 * TICK, "what": None}],
    ),
    "dense_union": Column(
        _dense(),
        "struct<x_5:smallint,x_7:string>",
        [{"x_5": 1, "x_7": None}, {"x_5": None, "x_7": "a"}, {"x_5": 2, "x_7": None}],
    ),
}

if hasattr(pa, "decimal32"):  # pyarrow 19
    COLUMNS["decimal32"] = _of(pa.decimal32(5, 2), "decimal(5,2)", *CENTS)
    COLUMNS["decimal64"] = _of(pa.decimal64(15, 2), "decimal(15,2)", *CENTS)

#: Whether Spark lacks new features of 4.1: a type for times (they are nanoseconds since midnight), and streams of
#: Python sources and filters pushed to them.
OLD_SPARK = False
try:
    from pyspark.sql.types import TimeType as _  # noqa: F401
except ImportError:
    OLD_SPARK = True
    for _unit, _factor in {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1000}.items():
        COLUMNS[f"time_{_unit}"] = Column(COLUMNS[f"time_{_unit}"].array, "bigint", [_factor, None, 2 * _factor])


#: Arrays of every type: the cases of `helpers.arrays` and these columns.
ARRAYS: dict[str, pa.Array] = {**CASES, **{f"column {name}": column.array for name, column in COLUMNS.items()}}


def everything() -> pa.RecordBatch:
    """Return a batch of all columns."""
    return pa.record_batch({name: column.array for name, column in COLUMNS.items()})


def expected() -> list[dict[str, Any]]:
    """Return the rows of `everything` as pyarrow shows them after the conversion."""
    return [{name: column.values[row] for name, column in COLUMNS.items()} for row in range(3)]


def stream(*batches: pa.RecordBatch, **options: Any) -> bytes:
    """Return an IPC stream of the batches, written by pyarrow."""
    return pyarrow_bytes(list(batches), "stream", **options)


def file(*batches: pa.RecordBatch, **options: Any) -> bytes:
    """Return an IPC file of the batches, written by pyarrow."""
    return pyarrow_bytes(list(batches), "file", **options)


#: Each format with each codec.
WAYS = [(write, codec) for write in (file, stream) for codec in (None, "lz4", "zstd")]


def held(column: Column) -> dict[str, tuple[pa.Array, str, list[Any]]]:
    """A column, alone and inside others: each array with its type in Spark and its values."""
    array, spark, (a, b, c) = column.array, column.spark, column.values
    entries = pa.MapArray.from_arrays(pa.array([0, 1, 3], pa.int32()), pa.array([1, 2, 3], pa.uint8()), array)
    struct = pa.StructArray.from_arrays([array], ["f"], mask=pa.array([False, False, True]))
    found: dict[str, tuple[pa.Array, str, list[Any]]] = {"column": (array, spark, [a, b, c])}
    for name, kind, offsets in (("list", pa.ListArray, pa.int32()), ("large_list", pa.LargeListArray, pa.int64())):
        lists = kind.from_arrays(pa.array([0, 1, 1, 3], offsets), array)
        found[name] = lists, f"array<{spark}>", [[a], [], [b, c]]
    found["fixed_list"] = pa.FixedSizeListArray.from_arrays(array, 1), f"array<{spark}>", [[a], [b], [c]]
    found["struct"] = struct, f"struct<f:{spark}>", [{"f": a}, {"f": b}, None]
    found["map"] = entries, f"map<smallint,{spark}>", [[(1, a)], [(2, b), (3, c)]]
    if not isinstance(array, pa.NullArray | pa.DictionaryArray | pa.RunEndEncodedArray):
        words = pa.array([2, 0, None, 2, 1], pa.uint8())
        found["dictionary"] = pa.DictionaryArray.from_arrays(words, array), spark, [c, a, None, c, b]
        ends = pa.array([2, 3, 5], pa.int64())
        found["runs"] = pa.RunEndEncodedArray.from_arrays(ends, array), spark, [a, a, b, c, c]
    return found
