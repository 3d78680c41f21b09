"""The core in the JVM gives the schema, the values and the errors of the Python data source, for every type."""

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import golden, java
from helpers.arrow_columns import COLUMNS, WAYS, held
from helpers.spark import put
from pyspark.sql import types as st
from spark.verdicts import verdict

pytestmark = pytest.mark.spark


def saved(folder: Path, arrays: dict[str, pa.Array]) -> dict[str, Path]:
    """Each column in a file of its own, by turns of either format and with each codec; two batches, the second cut."""
    found = {}
    for number, (name, array) in enumerate(arrays.items()):
        batch = pa.record_batch({"x": array})
        write, codec = WAYS[number % len(WAYS)]
        found[name] = folder / f"{name}.arrow"
        found[name].write_bytes(write(batch, batch.slice(1), compression=codec))
    return found


def compare(core: java.Core, files: dict[str, Path], schema: Any = None, **options: str) -> int:
    """How many files both sides read: with the same rows. All others both refuse, with errors of the same class."""
    given = {"schema": schema.json()} if schema is not None else {}
    answers = core.read(files.values(), values="true", **given, **options)
    wrong, same = [], 0
    for (name, path), answer in zip(files.items(), answers, strict=True):
        rows, error = verdict(path, schema=schema, options=options)
        differ = answer.ok and [row for row in json.loads(answer.text) if row] != rows  # there, some have no columns
        if differ or answer.error != error.partition("Error")[0]:
            wrong.append(f"{name}: {answer.text}, expected {error or rows}")
        same += answer.ok
    assert not wrong, "\n".join(wrong)
    return same


def test_every_type_alone_and_in_what_holds_it(core, tmp_path):
    arrays = {f"{name} in {how}": each[0] for name in COLUMNS for how, each in held(COLUMNS[name]).items()}
    compare(core, saved(tmp_path, arrays))


def union(child: pa.Array, dense: bool) -> pa.Array:
    codes, other = pa.array(([1, 0] * len(child))[: len(child)], pa.int8()), pa.array([7, *range(len(child) - 1)])
    if not dense:
        return pa.UnionArray.from_sparse(codes, [other, child], ["p", "q"])
    return pa.UnionArray.from_dense(codes, pa.array(range(len(child)), pa.int32()), [other, child], ["p", "q"])


VIEWS = pa.array(["a", None, "long enough to leave the view", "b"], pa.string_view())
#: What holds other columns, as rows of a column that it holds.
HOLDERS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "sparse union": lambda child: union(child, False),
    "dense union": lambda child: union(child, True),
    "runs": lambda child: pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(child) + 1), pa.int32()), child),
    "dictionary": lambda child: pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 1], pa.int8()), child),
    "list": lambda child: pa.ListArray.from_arrays([0, 1, None, len(child)], child),
    "list view": lambda child: pa.ListViewArray.from_arrays([1, 0, 0], [len(child) - 1, 0, 2], child),
    "fixed list": lambda child: pa.FixedSizeListArray.from_arrays(child.slice(0, len(child) // 2 * 2), 2),
    "struct": lambda child: pa.StructArray.from_arrays(
        [child], ["f"], mask=pa.array(row == 1 for row in range(len(child)))
    ),
    "map": lambda child: pa.MapArray.from_arrays([0, 1, 1, len(child)], pa.array(range(len(child))), child),
}


def test_everything_that_holds_columns_in_everything(core, tmp_path):
    inner = {"views": VIEWS, **{name: hold(VIEWS) for name, hold in HOLDERS.items()}}
    pairs = itertools.product(HOLDERS.items(), inner.items())
    # The format has no dictionaries whose values are indices of another one.
    nested = {f"{one} of {two}": hold(held) for (one, hold), (two, held) in pairs if {one, two} != {"dictionary"}}
    compare(core, saved(tmp_path, nested))


ODD = {
    "ns": pa.array([1, None, 1_999], pa.timestamp("ns")),
    "ns_before_1970": pa.array([-1, None, 0], pa.timestamp("ns", "UTC")),
    "time_ns": pa.array([1, None, 1_999], pa.time64("ns")),
    "whole_time_ns": pa.array([1_000, None, 0], pa.time64("ns")),
    "duration_ns": pa.array([-1, None, 1], pa.duration("ns")),
    "a_day": pa.array([86_400], pa.time32("s")),
    "before_midnight": pa.array([-1], pa.time64("us")),
    "far": pa.array([2**62], pa.timestamp("s")),
    "far_back": pa.array([-(2**62)], pa.duration("ms")),
    "date64_within_a_day": pa.array([-1, None, 86_400_001], pa.int64()).view(pa.date64()),
    "too_many_digits": pa.array([12_345], pa.int64()).cast(pa.decimal128(19)).cast(pa.decimal128(38, 2)),
    "decimal76": pa.array([None, "1.5", "-0.000000001"]).cast(pa.decimal256(76, 30)),
    "ns_in_a_list": pa.array([[1000], None, [1]], pa.list_(pa.timestamp("ns"))),
    "ns_in_a_dictionary": pa.array([1, 1], pa.timestamp("ns")).dictionary_encode(),
}


@pytest.mark.parametrize("nanoseconds", ["error", "truncate", "long"])
@pytest.mark.parametrize("unsupported", ["error", "string"])
def test_values_that_spark_cannot_hold(core, tmp_path, nanoseconds, unsupported):
    compare(core, saved(tmp_path, ODD), nanoseconds=nanoseconds, unsupported=unsupported)


NUMBERS = {
    **{name: COLUMNS[name].array for name in ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64")},
    **{name: COLUMNS[name].array for name in ("half", "float", "double", "decimal128", "decimal256", "date32")},
    "small": pa.array([1, None, -2], pa.int64()),
    "whole": pa.array(["1.00", None, "-300.00"]).cast(pa.decimal128(9, 2)),
    "many": pa.array([2**24 + 1, 2**53 + 1], pa.int64()),
    "null": pa.nulls(2),
    "text": pa.array(["a"]),
}


def edges() -> dict[str, pa.Array]:
    """The least and the greatest number of each type, those one beyond, and days as far as types of time reach."""
    ends = [way << bits for bits in (7, 15, 31, 63) for way in (1, -1)]
    numbers = [each + more for each in ends for more in (-1, 0)] + [sign * each for each in FLOATS for sign in (1, -1)]
    days = [sign * each for each in DAYS for sign in (1, -1)]
    found = {}
    for kind in KINDS:
        for value in numbers if kind.bit_width < 128 else map(Decimal, numbers):
            with suppress(OverflowError, pa.ArrowInvalid):  # this type does not reach so far
                found[f"{value} as {kind}"] = pa.array([value], kind)
    for day in days:
        found[f"day {day} in ms"] = pa.array([day * 86_400_000], pa.int64()).view(pa.date64())
        if abs(day) < 2**31:
            found[f"day {day}"] = pa.array([day], pa.int32()).view(pa.date32())
    return found


FLOATS = [2**24, 2**24 + 1, 2**53, 2**53 + 1]
DAYS = [2**31 - 1, 2**31, 2**31 + 1, 106_751_991, 106_751_992, (2**63 - 1) // 86_400_000]
KINDS = [*(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)), pa.decimal128(38, 0)]


def test_numbers_and_days_at_the_edges_of_types(core, tmp_path):
    """As what they are and as what a schema asks for: no number becomes another one."""
    files = saved(tmp_path, {**NUMBERS, **edges()})
    compare(core, files)
    for wanted in WANTED:
        compare(core, files, st.StructType().add("x", wanted))


WANTED: list[st.DataType] = [
    *(st.ByteType(), st.ShortType(), st.IntegerType(), st.LongType(), st.FloatType(), st.DoubleType()),
    *(st.DecimalType(9, 2), st.DecimalType(38, 10), st.TimestampNTZType()),
]


def test_golden_files(core, arrow_data):
    """Files of other implementations; only Python reads those of big-endian machines."""
    paths = {str(path): path for case in golden.cases() for path in (golden.load(case).stream, golden.load(case).file)}
    big = [paths.pop(name) for name in [*paths] if "bigendian" in name]
    assert {answer.error for answer in core.read(big)} == {"Unsupported"}
    assert compare(core, paths, nanoseconds="truncate", unsupported="string") > 60


# What the schema of several files allows is read from each; the rest is refused by the name of the column.


def sparse(*names: str) -> pa.Array:
    members = [pa.array([number, None, 7]) for number in range(len(names))]
    return pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), members, list(names))


INTERVAL = pa.array([(1, 2, 3), None, (0, 0, 1)], pa.month_day_nano_interval())
ARRAYS: dict[str, pa.Array] = {
    **{name: column.array for name, column in COLUMNS.items()},
    "union_ab": sparse("a", "b"),
    "union_bc": sparse("B", "c"),
    "struct_of_interval": pa.array([{"days": 1, "c": "x"}, None], pa.struct({"days": pa.int64(), "c": pa.string()})),
    "struct_without_fields": pa.array([{}, None], pa.struct({})),
    "list_of_interval": pa.ListArray.from_arrays([0, 3], INTERVAL),
}


@pytest.mark.parametrize("nanoseconds", ["truncate", "long"])
def test_what_two_files_have_together_is_read_from_each(core: java.Core, tmp_path: Path, nanoseconds: str) -> None:
    # The second time those columns only of which the option makes numbers, and what numbers may become.
    arrays = ARRAYS if nanoseconds == "truncate" else {k: v for k, v in ARRAYS.items() if v.type.num_fields == 0}
    paths = {name: put(tmp_path / f"{name}.arrow", pa.record_batch({"x": array})) for name, array in arrays.items()}
    # Of each two, one is read, by turns the first and the second.
    pairs = [pair[:: (-1) ** at] for at, pair in enumerate(itertools.combinations(paths, 2))]
    lines = [f"{paths[one]}\twith={paths[other]}" for one, other in pairs]
    merged = 0
    for pair, answer in zip(pairs, core.read(lines, nanoseconds=nanoseconds), strict=True):
        refused = answer.error == "Usage" and "no type holds the values of both" in answer.text
        assert answer.ok or (refused and "column 'x" in answer.text), (pair, answer.text)
        merged += answer.ok
    assert merged > 2 * len(paths)


VALUES: list[tuple[pa.Array, pa.Array, list[Any]]] = [
    (pa.array([-5, None], pa.int8()), pa.array([1], pa.int64()), [-5, None]),
    (pa.array([-5, None], pa.int32()), pa.array([1.5]), ["c014000000000000", None]),
    (pa.array([-5, None], pa.int32()), pa.array(["0.25"]).cast(pa.decimal128(4, 2)), ["-5.00", None]),
    (pa.array([2**63], pa.uint64()), pa.array([1], pa.int8()), ["9223372036854775808"]),
    (pa.nulls(2), pa.array([{"a": 1}]), [None, None]),
    (pa.array([{"a": 1}]), pa.array([{"A": 1 << 40, "b": "x"}]), [[1, None]]),
    (sparse("a", "b"), sparse("B", "c"), [[0, None, None], [None, None, None], [7, None, None]]),
    (INTERVAL, pa.array([{"days": 1 << 40, "c": "x"}]), [[1, 2, 3, None], None, [0, 0, 1, None]]),
]


@pytest.mark.parametrize(("one", "other", "expected"), VALUES)
def test_values_keep_their_worth(
    core: java.Core, tmp_path: Path, one: pa.Array, other: pa.Array, expected: list[Any]
) -> None:
    paths = [put(tmp_path / f"{n}.arrow", pa.record_batch({"x": array})) for n, array in enumerate((one, other))]
    (answer,) = core.read(paths[:1], values="true", **{"with": str(paths[1])})
    assert answer.ok, answer.text
    assert list(itertools.chain(*json.loads(answer.text))) == expected
