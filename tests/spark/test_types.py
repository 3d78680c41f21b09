"""Every Arrow type becomes the Spark type that is promised, value for value, nested and sliced too."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import forge, memory, nests
from helpers.arrow_columns import COLUMNS, OLD_SPARK, everything, expected, stream
from helpers.variants import extension_streams
from pyspark.sql import types as st

import arrowipc
from arrowipc import types as at
from arrowipc.errors import LimitError, UnsupportedError, UsageError
from arrowipc.spark import TypeOptions, to_spark_batch, to_spark_schema
from arrowipc.spark.read import convert
from arrowipc.spark.types import arrow_schema_of, as_schema

pytestmark = pytest.mark.spark


def ours(batch: pa.RecordBatch) -> arrowipc.RecordBatch:
    """Return the batch as our reader delivers it."""
    with arrowipc.open_stream(stream(batch)) as reader:
        return reader.read_next_batch()


def one(array: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"x": array})


@pytest.mark.parametrize("name", COLUMNS)
def test_one_column(name: str) -> None:
    column = COLUMNS[name]
    for batch in (one(column.array), ours(one(column.array))):
        assert to_spark_schema(batch.schema).simpleString() == f"struct<x:{column.spark}>"
        converted = to_spark_batch(batch)
        converted.validate(full=True)
        assert converted["x"].to_pylist() == column.values


@pytest.mark.skipif(OLD_SPARK, reason="PySpark 4.0 names the zone by another word")
def test_what_spark_compares_schemas_with() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_spark_schema(everything().schema)
    assert to_arrow_schema(schema, timezone="UTC").equals(to_spark_batch(everything()).schema)
    assert to_arrow_schema(schema, timezone="UTC").equals(arrow_schema_of(schema))


@pytest.mark.parametrize(("offset", "length"), [(0, 0), (0, 2), (1, 2), (1, 1), (2, 1)])
def test_slices(offset: int, length: int) -> None:
    converted = to_spark_batch(everything().slice(offset, length))
    converted.validate(full=True)
    assert converted.to_pylist() == expected()[offset : offset + length]


def _in_list(array: pa.Array, kind: str) -> pa.Array:
    offsets = pa.array([0, 1, 1, 3], pa.int64() if kind.startswith("large") else pa.int32())
    if kind == "fixed_list":
        return pa.FixedSizeListArray.from_arrays(array, 1)
    return (pa.LargeListArray if kind == "large_list" else pa.ListArray).from_arrays(offsets, array)


@pytest.mark.parametrize("kind", ["list", "large_list", "fixed_list"])
@pytest.mark.parametrize("name", COLUMNS)
def test_inside_a_list(name: str, kind: str) -> None:
    column = COLUMNS[name]
    nested = _in_list(column.array, kind)
    a, b, c = column.values
    rows: list[Any] = [[a], [b], [c]] if kind == "fixed_list" else [[a], [], [b, c]]
    assert to_spark_schema(one(nested).schema).simpleString() == f"struct<x:array<{column.spark}>>"
    assert to_spark_batch(one(nested))["x"].to_pylist() == rows
    assert to_spark_batch(one(nested).slice(1))["x"].to_pylist() == rows[1:]


@pytest.mark.parametrize("name", COLUMNS)
def test_inside_a_struct_and_a_map(name: str) -> None:
    column = COLUMNS[name]
    struct = pa.StructArray.from_arrays([column.array], ["f"], mask=pa.array([False, False, True]))
    converted = to_spark_batch(one(struct))
    converted.validate(full=True)
    assert converted["x"].to_pylist() == [{"f": column.values[0]}, {"f": column.values[1]}, None]
    assert to_spark_batch(one(struct.slice(1)))["x"].to_pylist() == [{"f": column.values[1]}, None]
    keys = pa.array([1, 2, 3], pa.uint8())
    mapping = pa.MapArray.from_arrays(pa.array([0, 1, 3], pa.int32()), keys, column.array)
    a, b, c = column.values
    converted = to_spark_batch(one(mapping))
    converted.validate(full=True)
    assert converted["x"].to_pylist() == [[(1, a)], [(2, b), (3, c)]]
    assert to_spark_batch(one(mapping.slice(1)))["x"].to_pylist() == [[(2, b), (3, c)]]


@pytest.mark.parametrize("name", [name for name in COLUMNS if not name.startswith(("null", "dictionary", "run_end"))])
def test_inside_a_dictionary_and_runs(name: str) -> None:
    column = COLUMNS[name]
    a, b, c = column.values
    words = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 2, 1], pa.uint8()), column.array)
    assert to_spark_batch(one(words))["x"].to_pylist() == [c, a, None, c, b]
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int64()), column.array)
    assert to_spark_batch(one(runs))["x"].to_pylist() == [a, a, b, c, c]
    assert to_spark_batch(one(runs).slice(1, 3))["x"].to_pylist() == [a, b, c]


def _intervals() -> arrowipc.RecordBatch:
    """Return a batch of the two intervals that pyarrow has no class for, on their own and in a list."""
    months, days = (forge.Table("Interval", unit=unit) for unit in (0, 1))
    schema = forge.schema(
        forge.field("months", months),
        forge.field("days", days),
        forge.field("lists", forge.LIST, forge.field("item", months)),
    )
    batch = forge.batch(
        2,
        [(2, 1), (2, 1), (2, 0), (3, 0)],
        [
            *(forge.bits(1, 0), forge.i32(14, 0)),
            *(forge.bits(0, 1), forge.i32(0, 0, 3, -5)),
            *(b"", forge.i32(0, 1, 3), b"", forge.i32(1, 2, -3)),
        ],
    )
    with arrowipc.open_stream(forge.stream(schema, batch)) as reader:
        return reader.read_next_batch()


def test_intervals_that_pyarrow_cannot_name() -> None:
    batch = _intervals()
    schema = to_spark_schema(batch.schema)
    assert schema.simpleString() == "struct<months:int,days:struct<days:int,milliseconds:int>,lists:array<int>>"
    converted = to_spark_batch(batch)
    converted.validate(full=True)
    assert converted.to_pydict() == {
        "months": [14, None],
        "days": [None, {"days": 3, "milliseconds": -5}],
        "lists": [[1], [2, -3]],
    }


def test_golden_files(arrow_data: Path) -> None:
    """Another implementation's files convert, or are refused in our words; plain values stay the same."""
    options = {"nanoseconds": "truncate", "unsupported": "string"}
    same = (
        "bool",
        "int",
        "uint8",
        "uint16",
        "uint32",
        "string",
        "large_string",
        "string_view",
        "binary",
        "date32",
    )
    converted = refused = 0
    for path in sorted((arrow_data / "arrow-ipc-stream" / "integration").rglob("*.stream")):
        with arrowipc.open(path) as reader:
            try:
                schema = to_spark_schema(reader.schema, options)
                for batch in reader:
                    found = to_spark_batch(batch, schema, options)
                    assert found.num_rows == batch.num_rows
                    for index, field in enumerate(batch.schema):
                        if str(field.type).startswith(same):
                            assert found.column(index).to_pylist() == batch.columns[index].to_pylist(), path
                converted += 1
            except (UnsupportedError, UsageError):
                refused += 1
    assert converted > 4 * refused


def test_extension_types_become_their_storage() -> None:
    import uuid

    ids = pa.array([uuid.UUID(int=1).bytes, None], pa.uuid())
    assert to_spark_batch(ours(one(ids)))["x"].to_pylist() == [uuid.UUID(int=1).bytes, None]


def extension_batches() -> list[arrowipc.RecordBatch]:
    return [arrowipc.open_stream(data).read_next_batch() for data in extension_streams()]


SPARK_OF = {
    "arrow.uuid": "string",
    "arrow.bool8": "boolean",
    "arrow.json": "string",
    "arrow.parquet.variant": "variant",
    "arrow.timestamp_with_offset": "timestamp",
    "arrow.fixed_shape_tensor": "array<tinyint>",
}


def as_spark_has_it(name: str, value: Any) -> Any:
    """What a value of Python is in Spark's Arrow data; those that Spark has in the stored form stay that."""
    if isinstance(value, list):
        return [as_spark_has_it(name, each) for each in value]
    return str(value) if name == "arrow.uuid" and value is not None else value


@pytest.mark.parametrize("batch", extension_batches(), ids=lambda batch: batch.schema[0].extension_name)
def test_extension_types_become_what_they_mean_if_asked(batch: arrowipc.RecordBatch) -> None:
    name = batch.schema[0].extension_name
    spark_schema = to_spark_schema(batch.schema, {"extensions": True})
    assert spark_schema.simpleString() == f"struct<x:{SPARK_OF[name]},y:array<{SPARK_OF[name]}>>"
    plain = name not in ("arrow.uuid", "arrow.bool8", "arrow.timestamp_with_offset")
    for part in (batch, batch[1:], batch[:0], batch[[2, 1]]):
        found = to_spark_batch(part, options={"extensions": "true"})
        found.validate(full=True)
        assert found.schema == arrow_schema_of(spark_schema)
        expected = part.to_pydict(extensions=not plain)
        assert found.to_pydict() == {key: as_spark_has_it(name, values) for key, values in expected.items()}
        # Where the schema asks for what is stored, that comes, and without the option nothing else does.
        stored = to_spark_schema(part.schema)
        assert to_spark_batch(part, stored, {"extensions": True}).equals(to_spark_batch(part))


def test_extension_types_are_found_in_dictionaries_and_other_types() -> None:
    meta = {"ARROW:extension:name": "arrow.uuid"}
    u = at.Field("u", at.binary(16), metadata=meta)
    kinds = {
        "d": at.Field("d", at.dictionary(at.int8(), at.binary(16)), metadata=meta),
        "s": at.Field("s", at.struct([u])),
        "m": at.Field("m", at.map_(at.Field("key", at.binary(16), False, meta), u)),
        "r": at.Field("r", at.run_end_encoded(at.int32(), u)),
        "u": at.Field("u", at.dense_union([u, at.Field("n", at.int64())])),
    }
    a, text = bytes(15) + b"\1", "00000000-0000-0000-0000-000000000001"
    values = {"d": [a, None], "s": [{"u": a}, None], "m": [[(a, a)], None], "r": [a, None], "u": [(0, a), (1, 7)]}
    batch = arrowipc.RecordBatch.from_pydict(values, arrowipc.Schema(list(kinds.values())))
    found = to_spark_batch(batch, options={"extensions": True}).to_pydict()
    assert found == {
        "d": [text, None],
        "s": [{"u": text}, None],
        "m": [[(text, text)], None],
        "r": [text, None],
        "u": [{"u": text, "n": None}, {"u": None, "n": 7}],
    }
    with pytest.raises(UsageError, match="extensions: expected true or false, found 'maybe'"):
        to_spark_schema(batch.schema, {"extensions": "maybe"})


def test_instants_in_nanoseconds_go_by_their_own_option() -> None:
    kind = at.struct({"timestamp": at.timestamp("ns", "UTC"), "offset_minutes": at.int16()})
    field = at.Field("x", kind, metadata={"ARROW:extension:name": "arrow.timestamp_with_offset"})
    rows = {"x": [{"timestamp": 1_999, "offset_minutes": 60}, None]}
    batch = arrowipc.RecordBatch.from_pydict(rows, arrowipc.Schema([field]))
    with pytest.raises(UnsupportedError, match="nanoseconds="):
        to_spark_batch(batch, options={"extensions": True})
    found = to_spark_batch(batch, options={"extensions": True, "nanoseconds": "truncate"})["x"]
    assert found.cast(pa.int64()).to_pylist() == [1, None]
    long = {"extensions": True, "nanoseconds": "long"}
    assert to_spark_batch(batch, options=long)["x"].to_pylist() == [1_999, None]


# Values that Spark cannot hold.


@pytest.mark.parametrize("type_", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns"), pa.time64("ns")])
def test_nanoseconds(type_: pa.DataType) -> None:
    if OLD_SPARK and pa.types.is_time(type_):
        pytest.skip("nanoseconds of times are whole where Spark has no type for times")
    batch = one(pa.array([1_000, None, 1_999], pa.int64()).cast(type_))
    with pytest.raises(UnsupportedError) as caught:
        to_spark_batch(batch)
    for part in ("'x'", str(type_), "1999", 'nanoseconds="truncate"', 'nanoseconds="long"'):
        assert part in str(caught.value)
    truncated = to_spark_batch(batch, options={"nanoseconds": "truncate"})["x"]
    scale = 1000 if pa.types.is_time(type_) else 1
    assert truncated.cast(pa.int64()).to_pylist() == [scale, None, scale]
    counted = to_spark_batch(batch, options={"nanoseconds": "long"})
    assert counted["x"].type == pa.int64()
    assert counted["x"].to_pylist() == [1_000, None, 1_999]


def test_truncation_rounds_down_before_1970_too() -> None:
    batch = one(pa.array([-1], pa.timestamp("ns")))
    assert to_spark_batch(batch, options={"nanoseconds": "truncate"})["x"].cast(pa.int64()).to_pylist() == [-1]


def test_timestamps_beyond_microseconds() -> None:
    with pytest.raises(UnsupportedError, match=r"'x' \(timestamp\[s\]\).*bounds"):
        to_spark_batch(one(pa.array([2**60], pa.timestamp("s"))))


def test_long_decimals() -> None:
    batch = pa.record_batch({"id": [1], "amount": pa.array([Decimal("1.5")], pa.decimal256(50, 2))})
    with pytest.raises(UnsupportedError) as caught:
        to_spark_schema(batch.schema)
    for part in ("'amount'", "decimal256(50, 2)", "38", 'unsupported="string"', 'unsupported="drop"'):
        assert part in str(caught.value)
    assert to_spark_batch(batch, options={"unsupported": "string"}).to_pylist() == [{"id": 1, "amount": "1.50"}]
    assert to_spark_batch(batch, options={"unsupported": "drop"}).to_pylist() == [{"id": 1}]


def test_errors_name_the_nested_column() -> None:
    deep = pa.list_(pa.struct([pa.field("at", pa.decimal256(60, 0))]))
    with pytest.raises(UnsupportedError, match=r"'x\.element\.at'"):
        to_spark_schema(pa.schema({"x": deep}))


@pytest.mark.parametrize("options", [{"nanoseconds": "round"}, {"unsupported": "ignore"}])
def test_unknown_options(options: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="expected one of"):
        TypeOptions.of(options)


def test_repeated_names() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(UsageError, match="'x' twice"):
        to_spark_schema(twice.schema)
    inner = pa.struct([pa.field("y", pa.int8()), pa.field("y", pa.int8())])
    with pytest.raises(UsageError, match="column 'x' holds the name 'y' twice"):
        to_spark_schema(pa.schema({"x": inner}))


def _counts(type_: pa.DataType, *values: int) -> pa.Array:
    return pa.array(values, pa.int64() if type_.bit_width == 64 else pa.int32()).view(type_)


#: Values whose conversion looks at each of them.
CHECKED = {
    **{str(kind): _counts(kind, 1000, 2000) for kind in (pa.timestamp("ns"), pa.duration("ns"), pa.time64("ns"))},
    **{str(kind): _counts(kind, 1, 2) for kind in (pa.timestamp("s"), pa.time32("s"), pa.time64("us"), pa.date32())},
    "date64": _counts(pa.date64(), 86_400_000, 172_800_000),
    "decimal": pa.array([1, 2], pa.decimal128(5, 1)),
    "decimal256": pa.array([1, 2], pa.decimal256(60, 1)),
    "interval": pa.array([(1, 2, 3), (4, 5, 6)], pa.month_day_nano_interval()),
    "uint64": pa.array([1, 2], pa.uint64()),
    "text": pa.array(["a", "b"], pa.large_string()),
}


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("nested", [False, True])
def test_null_counts_that_are_wrong_give_values(name: str, nested: bool) -> None:
    array = CHECKED[name]
    for bitmap in (b"\xff", b"\x01", b"\x00"):
        for count in (0, 1, 2):
            buffers = [pa.py_buffer(bitmap * 64), *array.buffers()[1:]]
            wrong = pa.Array.from_buffers(array.type, 2, buffers, null_count=count)
            column = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), wrong) if nested else wrong
            for options in ({"unsupported": "string"}, {"unsupported": "string", "nanoseconds": "truncate"}):
                assert to_spark_batch(one(column), options=options).num_rows == 2


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("type_", "value"),
    [
        *((pa.date64(), sign * 2**31 * 86_400_000) for sign in (1, -2)),
        *((kind(unit), 2**62) for kind in (pa.timestamp, pa.duration) for unit in ("s", "ms")),
        *((pa.time64(unit), value) for unit in ("us", "ns") for value in (2**62, -(2**62))),
        (pa.time32("ms"), -(2**31)),
    ],
    ids=str,
)
def test_counts_that_spark_has_no_value_for_name_the_column(type_: pa.DataType, value: int, nested: bool) -> None:
    if OLD_SPARK and pa.types.is_time(type_):
        pytest.skip("times are whole numbers where Spark has no type for them")
    array = _counts(type_, 0, value)
    column = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), array) if nested else array
    with pytest.raises(UnsupportedError, match=r"column 'x.element'" if nested else "column 'x'"):
        to_spark_batch(one(column), options={"nanoseconds": "truncate"})
    assert to_spark_batch(one(column[:0])).num_rows == 0


# Schemas of the user's.


def _wanted(ddl: str) -> st.StructType:
    return st.StructType.fromDDL(ddl)


needs_session = pytest.mark.usefixtures("spark")  # only Spark's Java side can parse DDL


@needs_session
def test_columns_are_found_by_name() -> None:
    batch = pa.record_batch({"a": [1], "B": ["x"], "c": [2.0]})
    assert to_spark_batch(batch, _wanted("c double, b string")).to_pylist() == [{"c": 2.0, "b": "x"}]
    with pytest.raises(UsageError, match=r"no column 'd'; its columns are 'a', 'B', 'c'"):
        to_spark_batch(batch, _wanted("d int"))


@needs_session
def test_fields_of_structs_are_found_by_name() -> None:
    batch = one(COLUMNS["list_of_struct"].array)
    converted = to_spark_batch(batch, _wanted("x array<struct<b:string>>"))
    assert converted["x"].to_pylist() == [[{"b": "x"}, None], None, []]
    with pytest.raises(UsageError, match=r"struct column 'x\.element' has no column 'c'"):
        to_spark_batch(batch, _wanted("x array<struct<c:string>>"))


@needs_session
@pytest.mark.parametrize(
    ("array", "type_", "value"),
    [
        (pa.array([200], pa.uint8()), "bigint", 200),
        (pa.array([7], pa.int64()), "int", 7),
        (pa.array([7], pa.uint64()), "bigint", 7),
        (pa.array([7], pa.int32()), "double", 7.0),
        (pa.array([7], pa.int64()), "decimal(10,2)", Decimal("7.00")),
        (pa.array([1.5], pa.float32()), "double", 1.5),
        (pa.array([Decimal("1.50")]), "decimal(20,4)", Decimal("1.5000")),
        (pa.array([Decimal("1.50")]), "string", "1.50"),
        (pa.array([1_999], pa.timestamp("ns")), "bigint", 1_999),
    ],
)
def test_numbers_change_their_type_where_every_value_fits(array: pa.Array, type_: str, value: Any) -> None:
    assert to_spark_batch(one(array), _wanted(f"x {type_}"))["x"].to_pylist() == [value]


@needs_session
@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array([2**40]), "int"),
        (pa.array([2**64 - 1], pa.uint64()), "bigint"),
        (pa.array([2**60 + 1]), "double"),
        (pa.array([12345]), "decimal(4,0)"),
        (pa.array([Decimal("1.55")]), "decimal(3,1)"),
    ],
)
def test_numbers_that_do_not_fit(array: pa.Array, type_: str) -> None:
    with pytest.raises(UnsupportedError, match="column 'x'"):
        to_spark_batch(one(array), _wanted(f"x {type_}"))


@needs_session
@pytest.mark.parametrize(
    ("array", "type_"), [(pa.array(["1"]), "int"), (pa.array([0.1]), "float"), (pa.array([1]), "string")]
)
def test_other_changes_are_left_to_spark(array: pa.Array, type_: str) -> None:
    with pytest.raises(UsageError, match="cast in Spark"):
        to_spark_batch(one(array), _wanted(f"x {type_}"))


@needs_session
def test_types_that_arrow_data_cannot_become() -> None:
    with pytest.raises(UsageError, match="interval year to month"):
        to_spark_batch(one(pa.array([1])), _wanted("x interval year to month"))


def test_promises_of_no_nulls() -> None:
    wanted = st.StructType().add("x", st.LongType(), False)
    assert not to_spark_batch(one(pa.array([1])), wanted).schema.field("x").nullable
    with pytest.raises(UsageError, match="'x' holds 1 nulls"):
        to_spark_batch(one(pa.array([None], pa.int64())), wanted)
    nested = st.StructType().add("x", st.StructType().add("f", st.LongType(), False))
    hidden = pa.StructArray.from_arrays([pa.array([None, 1])], ["f"], mask=pa.array([True, False]))
    assert to_spark_batch(one(hidden), nested)["x"].to_pylist() == [None, {"f": 1}]
    with pytest.raises(UsageError, match=r"'x\.f' holds nulls"):
        to_spark_batch(one(pa.array([{"f": None}], pa.struct({"f": pa.int64()}))), nested)


# Batches that share or outgrow.


def test_dictionaries_are_converted_once_and_never_mistaken() -> None:
    def batch(*words: str) -> pa.RecordBatch:
        return one(pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(words, pa.large_string())))

    first = batch("a", "b")
    converter = convert.BatchConverter(
        arrowipc.read_schema(stream(first)), to_spark_schema(first.schema), TypeOptions()
    )
    assert [part["x"].to_pylist() for part in converter.split(first, 1)] == [["a"], ["b"], ["a"]]
    for number in range(100):
        words = [f"w{number}", f"v{number}"]
        assert converter.convert(batch(*words))["x"].to_pylist() == [*words, words[0]]


def test_decoded_columns_that_outgrow_32_bit_offsets_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "MAX_OFFSET", 25)
    batch = one(pa.array(["0123456789"] * 8).dictionary_encode())
    schema = to_spark_schema(batch.schema)
    source = arrowipc.read_schema(stream(batch))
    converter = convert.BatchConverter(source, schema, TypeOptions(), "t.arrow")
    parts = list(converter.split(converter.hand_over(batch), 100))
    assert [part.num_rows for part in parts] == [2, 2, 2, 2]
    monkeypatch.setattr(convert, "MAX_OFFSET", 5)
    with pytest.raises(UnsupportedError, match="2 GiB"):
        list(converter.split(converter.hand_over(batch), 100))


def test_batches_are_split_by_rows_and_bytes() -> None:
    batch = one(pa.array(range(1000)))
    converter = convert.BatchConverter(
        arrowipc.read_schema(stream(batch)), to_spark_schema(batch.schema), TypeOptions()
    )
    assert [part.num_rows for part in converter.split(batch, 400)] == [400, 400, 200]
    assert [part.num_rows for part in converter.split(batch, 400, 2000)] == [250] * 4
    [joined] = pa.Table.from_batches(converter.split(batch, 7)).combine_chunks().to_batches()
    assert joined["x"].to_pylist() == list(range(1000))


# -- dictionaries in dictionaries ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted({*nests.KINDS} - {"union", "sparse", "null"}))
def test_values_that_refer_to_dictionaries_become_plain(kind):
    batch = next(iter(arrowipc.open_stream(nests.payload(nests.Shape(kind, depth=3, fan=2, words=12), 0))))
    assert to_spark_batch(batch)["x"].to_pylist() == batch.column("x").to_pylist()


@pytest.mark.nosanitize  # measured memory
@pytest.mark.parametrize("shape", [("list", 6, 12, 300), ("view", 4, 100, 2000)])
def test_few_bytes_that_stand_for_many_values_are_refused(shape):
    batch = next(iter(arrowipc.open_stream(nests.payload(nests.Shape(*shape), 0))))
    memory.forget_peak()
    before = memory.resident()
    with pytest.raises(LimitError, match="share so many elements"):
        to_spark_batch(batch)
    assert memory.peak() - before < 512 << 20  # it was 1.3 and more than 5 GB
    splits = convert.BatchConverter(batch.schema, to_spark_schema(batch.schema), TypeOptions())
    with pytest.raises(LimitError):
        list(splits.split(splits.hand_over(batch), 10))


def test_a_column_that_is_too_long_is_unsupported():
    batch = one(pa.array(["x" * 600]).dictionary_encode().take(pa.array([0, 0])))
    converter = convert.BatchConverter(as_schema(batch.schema), to_spark_schema(batch.schema), TypeOptions())
    converter._limit.bytes = 1000  # in the place of 2 GiB
    with pytest.raises(UnsupportedError, match="the batch: column 'x'"):
        converter(batch)
