"""Payload columns: what decode_payloads gives is what pyarrow reads from each payload, row for row."""

import datetime as dt
import os
import pickle
from collections.abc import Callable, Iterator
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers.arrow_columns import file, stream
from helpers.spark import collected, payload_frame
from hypothesis import given, settings, strategies as st_
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, types as st

import arrowipc
from arrowipc import spark as spark_names
from arrowipc.errors import ArrowIpcError, UsageError
from arrowipc.spark import (
    collect,
    count_rows,
    create,
    decode_payload_batches,
    decode_payloads,
    describe,
    encode_payload_batches,
    encode_payloads,
    payload_schema,
    register,
    session,
    to_spark_schema,
)

pytestmark = pytest.mark.spark


def small(number: int, rows: int = 3) -> pa.RecordBatch:
    """Return a batch with dictionaries of its own."""
    return pa.record_batch(
        {
            "id": pa.array(range(number * 100, number * 100 + rows), pa.int64()),
            "word": pa.array([f"w{number}-{row % 2}" for row in range(rows)], pa.string()).dictionary_encode(),
            "size": pa.array([row or None for row in range(rows)], pa.uint16()),
        }
    )


SCHEMA = to_spark_schema(small(0).schema)


def table(*payloads: bytes | None, type_: pa.DataType | None = None) -> pa.RecordBatch:
    names = pa.array([f"host{row}" for row in range(len(payloads))], pa.string())
    return pa.record_batch({"host": names, "payload": pa.array(payloads, type_ or pa.binary())})


def rows(*batches: pa.RecordBatch) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def decode(*batches: pa.RecordBatch, schema: Any = SCHEMA, **options: Any) -> list[pa.RecordBatch]:
    return list(decode_payload_batches(batches, "payload", schema, **options))


def flat(*batches: pa.RecordBatch, **options: Any) -> list[dict[str, Any]]:
    return rows(*decode(*batches, **options))


# The generator.


def test_dictionaries_that_cannot_be_joined() -> None:
    narrow = pa.dictionary(pa.int8(), pa.string())
    words = [pa.array([f"{number}-{word}" for word in range(100)]) for number in range(3)]
    batches = [pa.record_batch({"x": array.dictionary_encode().cast(narrow)}) for array in words]
    schema = to_spark_schema(batches[0].schema)
    assert flat(table(*map(stream, batches)), schema=schema) == rows(*batches)
    own = flat(table(stream(*batches[:2]), stream(batches[2])), schema=schema, keep=["host"])
    assert [row["host"] for row in own] == ["host0"] * 200 + ["host1"] * 100
    assert [row["x"] for row in own] == [row["x"] for row in rows(*batches)]
    lists = [
        pa.record_batch({"x": pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([[number]]))})
        for number in range(3)
    ]
    assert flat(table(*map(stream, lists)), schema=to_spark_schema(lists[0].schema)) == rows(*lists)


BROKEN = [
    *(b"", b"garbage", stream(pa.record_batch({"other": [1]}))),
    *(stream(small(1))[:-80], stream(small(1), small(3))[:-80]),  # in its only batch, and in its second one
]


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_payloads(broken: bytes) -> None:
    column = table(stream(small(0)), broken, stream(small(2)))
    with pytest.raises(ArrowIpcError) as caught:
        decode(table(stream(small(9))), column)
    assert "column 'payload', row 2" in str(caught.value)
    assert 'on_error="skip"' in str(caught.value)
    found = decode(column, on_error="skip", keep="host")
    assert [row["host"] for row in rows(*found)] == ["host0"] * 3 + ["host2"] * 3


def test_columns_are_chosen_as_in_the_core() -> None:
    column = table(stream(small(0)))
    for columns in ("size", ["size"], 2, [-1]):
        assert flat(column, columns=columns, schema=small(0).schema) == [{"size": each} for each in (None, 1, 2)]


def test_payloads_are_compared_with_their_checksums() -> None:
    written = encode_payload_batches([pa.record_batch({"x": [7]})], rows_per_payload=1, checksum=True)
    (cell,) = [row["payload"] for row in rows(*written)]
    at = cell.index((7).to_bytes(8, "little"))
    changed = cell[:at] + b"\x08" + cell[at + 1 :]
    schema = to_spark_schema(pa.schema({"x": pa.int64()}))
    assert flat(table(changed), schema=schema) == [{"x": 8}]
    assert flat(table(cell, changed), schema=schema, verify=True, on_error="skip") == [{"x": 7}]
    with pytest.raises(ArrowIpcError, match="checksum"):
        flat(table(cell, changed), schema=schema, verify=True)
    with pytest.raises(ArrowIpcError, match="checksum"):
        flat(table(stream(small(0))), verify=True)
    assert len(flat(table(stream(small(0))), verify=None)) == 3


def test_values_that_spark_cannot_hold_are_blamed_on_their_row() -> None:
    batches = [pa.record_batch({"at": pa.array([value], pa.timestamp("ns"))}) for value in (1000, 1999, 3000)]
    column = table(*map(stream, batches), None)
    schema = to_spark_schema(batches[0].schema)
    with pytest.raises(ArrowIpcError, match=r"row 1: .*'at'.*1999"):
        decode(column, schema=schema)
    one, three = (dt.datetime(1970, 1, 1, 0, 0, 0, value) for value in (1, 3))
    assert flat(column, schema=schema, on_error="skip") == [{"at": one}, {"at": three}]
    for size in (1, 2):  # of a payload of several batches for Spark, none comes
        assert flat(table(stream(*batches[:2])), schema=schema, on_error="skip", rows_per_batch=size) == []
    found = flat(column, schema=schema, on_error="null", error_column="why")
    assert [row["at"] for row in found] == [one, None, three]
    assert [row["why"] and "1999" in row["why"] for row in found] == [None, True, None]


def test_arguments_that_are_wrong() -> None:
    for name, value, text in (
        ("on_error", "ignore", "on_error must be 'raise' or 'skip' or 'null', found str 'ignore'"),
        ("validate", "some", "validate"),
        ("nanoseconds", "few", "nanoseconds"),
        ("rows_per_batch", 0, "rows_per_batch must be an integer from 1"),
        ("schema", "id bigint", "on the driver only"),
        ("columns", [], "no column is wanted"),
        ("columns", [3], r"there is no column 3, the payloads have 3: \['id', 'word', 'size'\]"),
        ("columns", 1.5, "columns must be a sequence"),
        ("verify", "yes", "verify must be True or False"),
        ("error_column", "why", "error_column needs"),
    ):
        with pytest.raises(UsageError, match=text):
            decode(table(), **{name: value})


NO_FRAME = r"expected a data frame of Spark, found dict .*create\(spark, data\)"
NO_SESSION = "expected a SparkSession, found "
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: session(app_name="x"), TypeError, r"session\(\) .*'app_name': settings="),
    (lambda: create(None, {}, nanoseconds="long"), TypeError, r"create\(\) .*'nanoseconds': options="),
    (lambda: encode_payloads(None, by="x"), TypeError, r"encode_payloads\(\) .*'by': group_by="),
    (lambda: encode_payloads(None, rows_per_payloads=1), TypeError, "did you mean 'rows_per_payload'"),
    (lambda: decode(table(), xyz=1), TypeError, "'xyz': there are .*, column, .*on_error"),
    (lambda: decode_payloads({}, "x"), UsageError, NO_FRAME),
    (lambda: encode_payloads({}, rows_per_payload=1), UsageError, NO_FRAME),
    (lambda: payload_schema({}), UsageError, NO_FRAME),
    (lambda: collect({}), UsageError, NO_FRAME),
    (lambda: create({}, {}), UsageError, NO_SESSION),
    (lambda: register({}), UsageError, NO_SESSION),
    (lambda: describe("x", "y"), UsageError, NO_SESSION),
    (lambda: count_rows("x", "y"), UsageError, NO_SESSION),
    (lambda: session("local", "app"), UsageError, "settings must be a Mapping, found str 'app'"),
    (lambda: [*decode_payload_batches([table()], "nix", SCHEMA)], UsageError, "has no column 'nix'"),
    (lambda: [*decode_payload_batches([table()], "host", SCHEMA)], UsageError, "'host' .* string, expected binary"),
]


def test_calls_that_are_wrong() -> None:
    for call, error, words in WRONG:
        with pytest.raises(error, match=words):
            call()


#: `describe` and `count_rows` take the options of `format("arrowipc")`, which are checked with them.
FUNCTIONS = [
    name
    for name in spark_names.__all__
    if not isinstance(getattr(spark_names, name), type) and name not in ("count_rows", "describe")
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_answers_a_keyword_that_it_lacks(name: str) -> None:
    function = getattr(spark_names, name)
    assert pickle.loads(pickle.dumps(function)) is function
    needed = [each for each in signature(function).parameters.values() if each.default is each.empty]
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'zzz': there are "):
        function(*([{}] * sum(each.kind is each.POSITIONAL_OR_KEYWORD for each in needed)), zzz=1)


# What a payload becomes does not depend on its neighbours.


LACKING = [
    pa.record_batch({"ID": pa.array([5], pa.int32()), "other": ["x"]}),
    pa.record_batch({"size": pa.array([7], pa.int8()), "more": [1], "id": [1], "word": ["plain"]}),
    pa.record_batch({"word": pa.array(["a", None])}),
    pa.record_batch({"word": pa.array([b"a", None]).cast(pa.large_string()), "id": pa.array([1, None], pa.uint8())}),
    small(0),
    small(1, 0),
    small(2).select(["size", "word"]),
]


def as_wanted(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with all columns wanted, found in any case."""
    names = {name.lower(): name for name in batch.schema.names}
    return [
        {name: row[names[name]] if name in names else None for name in ("id", "word", "size")}
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("turn", range(len(LACKING)))
def test_columns_that_payloads_lack_or_spell_otherwise(turn: int) -> None:
    batches = (LACKING[turn:] + LACKING[:turn]) * 3
    column = table(*map(stream, batches))
    wanted = [row for batch in batches for row in as_wanted(batch)]
    assert flat(column) == wanted
    assert flat(*(column.slice(row, 1) for row in range(column.num_rows))) == wanted
    assert flat(column, rows_per_batch=1) == wanted


def test_children_of_structs_are_found_as_columns_are() -> None:
    one = pa.record_batch({"s": [{"a": 1, "b": "x", "c": 1.5}]})
    two = pa.record_batch({"s": [{"B": "y"}]})
    three = pa.record_batch({"s": pa.array([{"b": "z", "a": 3}])})
    schema = st.StructType.fromJson(to_spark_schema(one.schema).jsonValue())
    schema["s"].dataType.fields.pop()
    for order in ([one, two, three], [two, three, one], [three, one, two]):
        found = [row["s"]["b"] for row in flat(table(*map(stream, order)), schema=schema)]
        assert found == [next(v for k, v in b.to_pylist()[0]["s"].items() if k.lower() == "b") for b in order]
    assert flat(table(stream(one)), schema=schema, columns=["s.a"]) == [{"s": {"a": 1}}]


def test_a_column_that_must_not_be_null_cannot_be_missing() -> None:
    schema = st.StructType().add("id", "long", False).add("size", "integer")
    column = table(stream(pa.record_batch({"size": pa.array([7], pa.uint16())})))
    with pytest.raises(UsageError, match="no column 'id', and the schema says"):
        decode(column, schema=schema)
    with pytest.raises(ArrowIpcError, match="row 1"):
        decode(table(stream(small(0)), stream(small(0).select(["size"]))), schema=schema)


def test_many_payloads_that_fail() -> None:
    cells = [b"?" if number % 3 else stream(small(number)) for number in range(200)]
    good = [small(number) for number in range(0, 200, 3)]
    assert flat(table(*cells), on_error="skip") == rows(*good)
    for size in (1, 7, 1000):
        found = flat(table(*cells), on_error="null", keep=["host"], error_column="why", rows_per_batch=size)
        assert [row["host"] for row in found] == [
            f"host{number}" for number in range(200) for _ in range(1 if number % 3 else 3)
        ]
        broken = [row for row in found if row["why"] is not None]
        assert len(broken) == 133
        assert all(row["id"] is row["word"] is row["size"] is None for row in broken)
        assert all("cell" not in row["why"] for row in broken)


def test_bare_messages_need_an_arrow_schema() -> None:
    ours = arrowipc.RecordBatch.from_arrow(small(0).select(["id", "size"]))
    message = bytes(ours.serialize())
    schema = small(0).select(["id", "size"]).schema
    column = table(message, stream(small(1)), message, None)
    expected_rows = rows(*(batch.select(["id", "size"]) for batch in (small(0), small(1), small(0))))
    assert flat(column, schema=schema) == expected_rows
    assert flat(column, schema=schema, columns=["size"]) == [{"size": row["size"]} for row in expected_rows]
    for first in (0, 1):
        with pytest.raises(UsageError, match="bare RecordBatch message"):
            decode(column.slice(first), schema=to_spark_schema(schema))


def test_payloads_larger_than_a_batch_come_in_pieces() -> None:
    big = pa.record_batch({"id": range(50_000), "word": ["w" * 50] * 50_000, "size": pa.nulls(50_000, pa.uint16())})
    column = table(stream(small(0)), stream(big), stream(small(1)))
    found = decode(column, keep=["host"], bytes_per_batch=1 << 18)
    assert [row["id"] for row in rows(*found)] == [*range(3), *range(50_000), *range(100, 103)]
    assert max(batch.nbytes for batch in found) < 1 << 19
    wide = table(stream(small(0, 1000)), stream(small(1, 10))).set_column(0, "host", pa.array(["h" * 10_000, "i"]))
    found = decode(wide, keep=["host"], bytes_per_batch=1 << 18)
    assert sum(batch.num_rows for batch in found) == 1010
    assert max(batch.nbytes for batch in found) < 1 << 19


def test_dictionaries_whose_values_are_too_many_for_one_batch() -> None:
    word = "x" * (1 << 20)
    batch = pa.record_batch({"word": pa.DictionaryArray.from_arrays(pa.array([0] * 2100, pa.int32()), [word])})
    schema = to_spark_schema(batch.schema)
    total = 0
    for part in decode_payload_batches([table(stream(batch), stream(batch.slice(2000)))], "payload", schema):
        assert part.nbytes < 1 << 27
        assert part.column(0)[0].as_py() == word
        total += part.num_rows
    assert total == 2200


# The laws.


@settings(max_examples=40, deadline=None)
@given(
    st_.lists(st_.tuples(st_.integers(0, 6), st_.sampled_from([None, "lz4", "zstd"])), max_size=8),
    st_.lists(st_.integers(0, 8), max_size=4),
    st_.integers(1, 20),
    st_.sampled_from([pa.binary(), pa.large_binary()]),
)
def test_equal_to_each_payload_alone_wherever_batches_end(
    payloads: list[tuple[int, str | None]], cuts: list[int], size: int, type_: pa.DataType
) -> None:
    """A stream of two batches, or a file of one, and some nulls behind it."""
    batches, cells = [], []
    for n, (count, codec) in enumerate(payloads):
        parts = (small(n), small(n + 10, count))[count % 2 :]
        batches += parts
        cells += [(stream if len(parts) == 2 else file)(*parts, compression=codec), *[None] * (count % 3)]
    column = table(*cells, type_=type_)
    bounds = sorted({0, len(cells), *(cut for cut in cuts if cut < len(cells))})
    found = decode(*(column.slice(begin, end - begin) for begin, end in pairwise(bounds)), rows_per_batch=size)
    assert rows(*found) == rows(*batches)
    assert all(batch.num_rows <= size for batch in found)


# In Spark.


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> DataFrame:
    payloads = [stream(small(number)) for number in range(50)]
    return payload_frame(spark, *payloads, None).repartition(2).cache()


def test_decode_payloads(messages: DataFrame, engine: Any) -> None:
    wanted = rows(*[small(number) for number in range(50)])
    assert collected(decode_payloads(messages, "payload", engine=engine)) == wanted
    assert collected(decode_payloads(messages, "payload", small(0).schema, engine=engine)) == wanted
    kept = decode_payloads(messages, "payload", keep=["host"], engine=engine)
    assert kept.columns == ["host", "id", "word", "size"]
    assert {(row["host"], row["id"] // 100) for row in kept.collect()} == {(f"host{n}", n) for n in range(50)}
    assert decode_payloads(messages, "payload", columns=["word", "id"], engine=engine).columns == ["word", "id"]
    frame = decode_payloads(messages, "payload", "size bigint, ID int", engine=engine)
    assert frame.dtypes == [("size", "bigint"), ("ID", "int")]
    assert frame.agg({"size": "sum"}).collect()[0][0] == 150
    assert decode_payloads(messages, "payload", engine=engine).where("word = 'w7-1'").count() == 1


def test_errors_in_spark(spark: SparkSession, messages: DataFrame, engine: Any) -> None:
    broken = payload_frame(spark, stream(small(0)), b"garbage", None, stream(small(1))[:-80])
    with pytest.raises(PySparkException, match=r"column 'payload', row 1 of partition 0"):
        decode_payloads(broken, "payload", engine=engine).collect()
    assert decode_payloads(broken, "payload", on_error="skip", engine=engine).count() == 3
    options: Any = {"on_error": "null", "error_column": "_corrupt_record", "engine": engine}
    found = decode_payloads(broken, "payload", SCHEMA, keep=["host"], **options)
    assert found.columns == ["host", "id", "word", "size", "_corrupt_record"]
    nulls = found.where("_corrupt_record IS NOT NULL").drop("_corrupt_record").collect()
    assert [tuple(row) for row in nulls] == [(host, None, None, None) for host in ("host1", "host3")]
    assert found.count() == 5
    with pytest.raises(UsageError, match="a column 'ID' already"):
        decode_payloads(broken, "payload", SCHEMA, on_error="null", error_column="ID", engine=engine)
    with pytest.raises(UsageError, match="no column 'nix'"):
        decode_payloads(messages, "nix", engine=engine)
    with pytest.raises(UsageError, match="no payload to take the schema from"):
        decode_payloads(messages.where("payload IS NULL"), "payload", engine=engine)
    with pytest.raises(UsageError, match="either schema= or columns="):
        decode_payloads(messages, "payload", "id int", columns=["id"], engine=engine)
    renamed = messages.withColumnRenamed("host", "ID")
    with pytest.raises(UsageError, match="have a column 'id' and so does keep="):
        decode_payloads(renamed, "payload", keep=["ID"], engine=engine)


def test_the_schema_is_that_of_the_first_payloads_together(spark: SparkSession, engine: Any) -> None:
    one = pa.record_batch({"id": [1], "s": [{"a": 1}]})
    two = pa.record_batch({"ID": [2], "s": [{"b": "x"}], "more": [1.5]})
    frame = payload_frame(spark, None, b"?", stream(one), stream(two))
    found = decode_payloads(frame, "payload", on_error="skip", engine=engine)
    assert found.schema.simpleString() == "struct<id:bigint,s:struct<a:bigint,b:string>,more:double>"
    assert [row.asDict(recursive=True) for row in found.orderBy("id").collect()] == [
        {"id": 1, "s": {"a": 1, "b": None}, "more": None},
        {"id": 2, "s": {"a": None, "b": "x"}, "more": 1.5},
    ]
    assert decode_payloads(frame, "payload", on_error="skip", sample=2, engine=engine).columns == ["id", "s"]
    other = payload_frame(spark, stream(one), stream(pa.record_batch({"id": ["text"]})))
    with pytest.raises(UsageError, match=r"column 'id' is bigint in one and string in another"):
        decode_payloads(other, "payload", engine=engine)
    with pytest.raises(UsageError, match="none of the first 1 payloads"):
        decode_payloads(payload_frame(spark, b"?"), "payload", on_error="skip", engine=engine)


def test_columns_with_dots_in_their_names(spark: SparkSession, engine: Any) -> None:
    frame = payload_frame(spark, stream(pa.record_batch({"x.y": [1]})))
    frame = frame.toDF("the.host", "the.payload")
    found = decode_payloads(frame, "the.payload", keep=["the.host"], engine=engine)
    assert found.columns == ["the.host", "x.y"]
    assert [tuple(row) for row in found.collect()] == [("host0", 1)]


@pytest.mark.slow
@pytest.mark.nosanitize
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux to measure a worker's peak")
def test_a_gigabyte_of_payloads_takes_a_worker_less_than_512_mib(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.functions import broadcast

    batch = pa.record_batch({"id": range(8192), "text": ["t" * 120] * 8192})
    assert len(stream(batch)) > 1 << 20
    schema = to_spark_schema(batch.schema)
    folder = str(tmp_path)

    def decode_and_measure(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # The worker may have done other work before: its peak begins anew.
        Path("/proc/self/clear_refs").write_text("5")
        yield from decode_payload_batches(batches, "payload", schema)
        peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
        Path(folder, str(os.getpid())).write_text(peak.split()[1])

    # The JVM repeats the payload 1,024 times.
    cells = spark.range(0, 1024, 1, 2).crossJoin(broadcast(payload_frame(spark, stream(batch)))).select("payload")
    cells.mapInArrow(decode_and_measure, schema).write.format("noop").mode("overwrite").save()
    peaks = [int(path.read_text()) for path in tmp_path.iterdir()]
    assert peaks
    assert max(peaks) < 512 << 10, f"{max(peaks) >> 10} MiB"
