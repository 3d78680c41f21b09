"""Every Arrow type becomes the Spark type that is promised, value for value, nested and sliced too."""

import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from columns.variants import extension_streams
from helpers import memory
from helpers.arrow_columns import COLUMNS, OLD_SPARK, held, stream
from laws import nested_payloads
from pyspark.sql import types as st

import arrowipc
from arrowipc import types as at
from arrowipc.errors import LimitError, UnsupportedError, UsageError
from arrowipc.spark import TypeOptions, to_spark_batch, to_spark_schema
from arrowipc.spark.read import convert
from arrowipc.spark.types import arrow_schema_of
from arrowipc.types import as_schema

pytestmark = pytest.mark.spark


def ours(data: bytes) -> arrowipc.RecordBatch:
    """The first batch of a stream as our reader delivers it."""
    with arrowipc.open_stream(data) as reader:
        return reader.read_next_batch()


def one(array: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"x": array})


def converter_for(batch: Any) -> convert.BatchConverter:
    return convert.BatchConverter(as_schema(batch.schema), to_spark_schema(batch.schema), TypeOptions())


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_alone_and_in_what_holds_it(name: str) -> None:
    for array, spark, rows in held(COLUMNS[name]).values():
        batch = one(array)
        assert to_spark_schema(batch.schema).simpleString() == f"struct<x:{spark}>"
        for offset, length in ((0, len(rows)), (0, 0), (0, 2), (1, 2), (1, 1), (len(rows) - 1, 1)):
            converted = to_spark_batch(batch.slice(offset, length))
            converted.validate(full=True)
            assert converted["x"].to_pylist() == rows[offset : offset + length]
    assert to_spark_batch(ours(stream(one(COLUMNS[name].array))))["x"].to_pylist() == COLUMNS[name].values


# Extension types.

SPARK_OF = {
    "arrow.uuid": "string",
    "arrow.bool8": "boolean",
    "arrow.json": "string",
    "arrow.parquet.variant": "variant",
    "arrow.timestamp_with_offset": "timestamp",
    "arrow.fixed_shape_tensor": "array<tinyint>",
}


def texts_of_uuids(value: Any) -> Any:
    """Values with texts for UUIDs, which are bytes in Python; all others Spark has in the same form."""
    if isinstance(value, list):
        return [*map(texts_of_uuids, value)]
    return str(value) if isinstance(value, uuid.UUID) else value


@pytest.mark.parametrize("batch", [*map(ours, extension_streams())], ids=lambda batch: batch.schema[0].extension_name)
def test_extension_types_become_what_they_mean_if_asked(batch: arrowipc.RecordBatch) -> None:
    name = batch.schema[0].extension_name
    spark_schema = to_spark_schema(batch.schema, {"extensions": True})
    assert spark_schema.simpleString() == f"struct<x:{SPARK_OF[name]},y:array<{SPARK_OF[name]}>>"
    means = name in ("arrow.uuid", "arrow.bool8", "arrow.timestamp_with_offset")
    for part in (batch, batch[1:], batch[:0], batch[[2, 1]]):
        found = to_spark_batch(part, options={"extensions": "true"})
        found.validate(full=True)
        assert found.schema == arrow_schema_of(spark_schema)
        expected = part.to_pydict(extensions=means)
        assert found.to_pydict() == {key: texts_of_uuids(values) for key, values in expected.items()}
        # Where the schema asks for what is stored, that comes, and without the option nothing else does.
        stored = to_spark_schema(part.schema)
        assert to_spark_batch(part, stored, {"extensions": True}).equals(to_spark_batch(part))
    if name == "arrow.uuid":
        assert {type(each) for each in to_spark_batch(batch).to_pydict()["x"]} == {bytes, type(None)}


def test_extension_types_are_found_in_dictionaries_and_other_types() -> None:
    meta = {"ARROW:extension:name": "arrow.uuid"}
    u = at.Field("u", at.binary(16), metadata=meta)
    kinds = [
        at.Field("d", at.dictionary(at.int8(), at.binary(16)), metadata=meta),
        at.Field("s", at.struct([u])),
        at.Field("m", at.map_(at.Field("key", at.binary(16), False, meta), u)),
        at.Field("r", at.run_end_encoded(at.int32(), u)),
        at.Field("u", at.dense_union([u, at.Field("n", at.int64())])),
    ]
    a, text = bytes(15) + b"\1", "00000000-0000-0000-0000-000000000001"
    values = {"d": [a, None], "s": [{"u": a}, None], "m": [[(a, a)], None], "r": [a, None], "u": [(0, a), (1, 7)]}
    batch = arrowipc.RecordBatch.from_pydict(values, arrowipc.Schema(kinds))
    assert to_spark_batch(batch, options={"extensions": True}).to_pydict() == {
        "d": [text, None],
        "s": [{"u": text}, None],
        "m": [[(text, text)], None],
        "r": [text, None],
        "u": [{"u": text, "n": None}, {"u": None, "n": 7}],
    }


# Values and types that Spark cannot hold.


@pytest.mark.parametrize("type_", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns"), pa.time64("ns")])
def test_nanoseconds(type_: pa.DataType) -> None:
    is_time = pa.types.is_time(type_)
    if OLD_SPARK and is_time:
        pytest.skip("nanoseconds of times are whole where Spark has no type for times")
    low = 0 if is_time else -1  # before 1970 the microsecond before is meant, too
    array = pa.array([1_000, None, 1_999, low], pa.int64()).cast(type_)
    batches = [one(array)]
    if type_ == pa.timestamp("ns", "UTC"):
        kind = pa.struct({"timestamp": type_, "offset_minutes": pa.int16()})
        pairs = pa.StructArray.from_arrays(
            [array, pa.array([60] * 4, pa.int16())], fields=[*kind], mask=array.is_null()
        )
        field = pa.field("x", kind, metadata={"ARROW:extension:name": "arrow.timestamp_with_offset"})
        batches.append(pa.record_batch([pairs], schema=pa.schema([field])))
    for batch in batches:
        with pytest.raises(UnsupportedError) as caught:
            to_spark_batch(batch, options={"extensions": True})
        for part in ("'x'", str(type_).split(",")[0], "1999", 'nanoseconds="truncate"', 'nanoseconds="long"'):
            assert part in str(caught.value)
        for way, values in (("truncate", [1, None, 1, low]), ("long", [1_000, None, 1_999, low])):
            found = to_spark_batch(batch, options={"nanoseconds": way, "extensions": True})["x"].cast(pa.int64())
            scale = 1000 if is_time and way == "truncate" else 1
            assert found.to_pylist() == [each and each * scale for each in values]


DEEP = pa.list_(pa.struct([pa.field("at", pa.decimal256(60, 0))]))
TWICE = pa.struct([pa.field("y", pa.int8()), pa.field("y", pa.int8())])


@pytest.mark.parametrize(
    ("fields", "options", "words"),
    [
        ([("x", DEEP)], {}, r"column 'x\.element\.at' has the Arrow type decimal256"),
        ([("x", pa.int8()), ("x", pa.int8())], {}, "'x' twice"),
        ([("x", TWICE)], {}, "column 'x' holds the name 'y' twice"),
        ([], {"nanoseconds": "round"}, "option nanoseconds must be"),
        ([], {"unsupported": "ignore"}, "option unsupported must be"),
        ([], {"extensions": "maybe"}, "extensions: expected true or false, found 'maybe'"),
    ],
)
def test_schemas_and_options_that_are_refused(fields: Any, options: dict[str, str], words: str) -> None:
    with pytest.raises((UnsupportedError, UsageError), match=words):
        to_spark_schema(pa.schema(fields), options)


#: Columns of their own bytes and no others, and one whose values become texts.
PLAIN = {name: each.array for name, each in COLUMNS.items() if not each.array.type.num_fields and name != "null"}
PLAIN = {name: array for name, array in PLAIN.items() if not pa.types.is_dictionary(array.type)}
PLAIN["decimal of 60 digits"] = pa.array([1, None, 2], pa.decimal256(60, 1))


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("nested", [False, True])
def test_null_counts_that_are_wrong_give_values(name: str, nested: bool) -> None:
    array = PLAIN[name]
    for bitmap in (b"\xff", b"\x01", b"\x00"):
        for count in (0, 1, 3):
            buffers = [pa.py_buffer(bitmap * 64), *array.buffers()[1:]]
            wrong = pa.Array.from_buffers(array.type, 3, buffers, null_count=count)
            column = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), wrong) if nested else wrong
            for options in ({"unsupported": "string"}, {"unsupported": "string", "nanoseconds": "truncate"}):
                assert to_spark_batch(one(column), options=options).num_rows == 3


# Schemas of the user's.


def wanted(type_: Any, name: str = "x", nullable: bool = True) -> st.StructType:
    return st.StructType().add(name, type_, nullable)


def test_columns_and_fields_are_found_by_name() -> None:
    batch = pa.record_batch({"a": [1], "B": ["x"], "c": [2.0]})
    assert to_spark_batch(batch, wanted("double", "c").add("b", "string")).to_pylist() == [{"c": 2.0, "b": "x"}]
    with pytest.raises(UsageError, match=r"no column 'd'; its columns are 'a', 'B', 'c'"):
        to_spark_batch(batch, wanted("integer", "d"))
    structs = one(COLUMNS["list_of_struct"].array)
    converted = to_spark_batch(structs, wanted(st.ArrayType(wanted("string", "b"))))
    assert converted["x"].to_pylist() == [[{"b": "x"}, None], None, []]
    with pytest.raises(UsageError, match=r"struct column 'x\.element' has no column 'c'"):
        to_spark_batch(structs, wanted(st.ArrayType(wanted("string", "c"))))


@pytest.mark.parametrize(
    ("array", "type_", "outcome"),
    [
        # (Numbers of all types: test_jvm_core, where another implementation says the same.)
        (pa.array([7], pa.uint64()), "long", 7),
        (pa.array([7], pa.int64()), "decimal(10,2)", Decimal("7.00")),
        (pa.array([Decimal("1.50")]), "string", "1.50"),
        (pa.array([1_999], pa.timestamp("ns")), "long", 1_999),
        (pa.array([2**64 - 1], pa.uint64()), "long", UnsupportedError("column 'x'")),
        (pa.array([Decimal("1.55")]), "decimal(3,1)", UnsupportedError("column 'x'")),
        (pa.array(["1"]), "integer", UsageError("cast in Spark")),
        (pa.array([0.1]), "float", UsageError("cast in Spark")),
        (pa.array([1]), "string", UsageError("cast in Spark")),
        (pa.array([1]), st.YearMonthIntervalType(), UsageError("interval year to month")),
    ],
    ids=lambda each: str(getattr(each, "type", each)),
)
def test_types_that_a_schema_asks_for(array: pa.Array, type_: Any, outcome: Any) -> None:
    if isinstance(outcome, Exception):
        with pytest.raises(type(outcome), match=str(outcome)):
            to_spark_batch(one(array), wanted(type_))
    else:
        assert to_spark_batch(one(array), wanted(type_))["x"].to_pylist() == [outcome]


def test_promises_of_no_nulls() -> None:
    numbers, structs = wanted("long", nullable=False), wanted(wanted("long", "f", False))
    assert not to_spark_batch(one(pa.array([1])), numbers).schema.field("x").nullable
    with pytest.raises(UsageError, match="'x' holds 1 nulls"):
        to_spark_batch(one(pa.array([None], pa.int64())), numbers)
    hidden = pa.StructArray.from_arrays([pa.array([None, 1])], ["f"], mask=pa.array([True, False]))
    assert to_spark_batch(one(hidden), structs)["x"].to_pylist() == [None, {"f": 1}]
    # A file may say that a field has no nulls, and hold some.
    for nullable in (True, False):
        field = pa.field("f", pa.int64(), nullable)
        with pytest.raises(UsageError, match=r"'x\.f' holds nulls"):
            to_spark_batch(one(pa.StructArray.from_arrays([pa.array([None, 1])], fields=[field])), structs)
        lists = pa.ListArray.from_arrays([0, 2], pa.array([None, 1]), type=pa.list_(field))
        with pytest.raises(UsageError, match=r"'x\.element' holds 1 nulls"):
            to_spark_batch(one(lists), wanted(st.ArrayType(st.LongType(), False)))


# Batches that share or outgrow.


def test_dictionaries_are_converted_once_and_never_mistaken() -> None:
    def batch(*words: str) -> pa.RecordBatch:
        return one(pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(words, pa.large_string())))

    converter = converter_for(batch("a", "b"))
    assert [part["x"].to_pylist() for part in converter.split(batch("a", "b"), 1)] == [["a"], ["b"], ["a"]]
    for number in range(100):
        words = [f"w{number}", f"v{number}"]
        assert converter.convert(batch(*words))["x"].to_pylist() == [*words, words[0]]


def test_decoded_columns_that_outgrow_32_bit_offsets_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = one(pa.array(["0123456789"] * 8).dictionary_encode())
    monkeypatch.setattr(convert, "MAX_OFFSET", 25)
    converter = converter_for(batch)
    converter.label = "t.arrow"
    assert [part.num_rows for part in converter.split(converter.hand_over(batch), 100)] == [2, 2, 2, 2]
    monkeypatch.setattr(convert, "MAX_OFFSET", 5)
    with pytest.raises(UnsupportedError, match=r"t\.arrow: column 'x'.*2 GiB"):
        list(converter.split(converter.hand_over(batch), 100))
    with pytest.raises(UnsupportedError, match=r"t\.arrow: column 'x'"):
        converter(batch)


@pytest.mark.nosanitize  # measured memory
@pytest.mark.parametrize("shape", [("list", 6, 12, 300), ("view", 4, 100, 2000)])
def test_few_bytes_that_stand_for_many_values_are_refused(shape: tuple[Any, ...]) -> None:
    batch = ours(nested_payloads.payload(nested_payloads.Shape(*shape), 0))
    with memory.at_most(512 << 20), pytest.raises(LimitError, match="share so many elements"):
        to_spark_batch(batch)  # it was 1.3 and more than 5 GB
    converter = converter_for(batch)
    with pytest.raises(LimitError):
        list(converter.split(converter.hand_over(batch), 10))
