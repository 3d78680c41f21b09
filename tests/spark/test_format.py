"""Arrow files as a file format of Spark: what the twins in Parquet (``helpers.twins``) cannot say."""

import base64
import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers.arrays import pyarrow_bytes, stored
from helpers.spark import load, put
from helpers.twins import TYPES
from pyspark.sql import DataFrame, SparkSession

import arrowipc as ipc
from arrowipc.sources.files import find_files

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def base(spark: SparkSession) -> DataFrame:
    """A hundred rows of most types of Spark's, with nulls; none that Python cannot hold."""
    return spark.range(0, 100, 1, 2).selectExpr("id", *(text for text in TYPES if "YEAR" not in text))


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def one_file(folder: Path) -> Path:
    """The only data file of a folder."""
    (found,) = [path for path in folder.iterdir() if path.name.startswith("part-")]
    return found


#: Further types, and instants, in which the time zone of a session could be.
MORE = (
    *("TIME'23:59:59.999999' clock", "NULL nothing", "CAST('a' AS CHAR(3)) fixed", "'x' COLLATE UTF8_LCASE folded"),
    *("timestamp_micros(id) instant", "array(timestamp_micros(id)) times", "map(1, timestamp_micros(id)) timed"),
    "IF(id = 1, NULL, array(named_struct('at', timestamp_micros(id), 'what', NULL))) records",
)


@pytest.mark.parametrize(("form", "compression"), [("stream", "LZ4"), ("file", "zstd")])
def test_every_type_comes_back_and_is_the_same_in_any_session(
    spark: SparkSession, base: DataFrame, conf: Any, tmp_path: Path, compression: str, form: str
) -> None:
    """pyarrow reads it, too, and what a session may set for Arrow changes nothing."""
    conf("spark.sql.timeType.enabled", "true")
    every = base.coalesce(1).selectExpr("*", *MORE)
    options = {"compression": compression, "format": form, "batchRows": "30"}
    every.write.format("arrowipc").options(**options).save(str(tmp_path / "utc"))
    found, path = load(spark, tmp_path / "utc"), one_file(tmp_path / "utc")
    assert path.suffix == {"file": ".arrow", "stream": ".arrows"}[form]
    assert found.select(base.columns).schema.simpleString() == base.schema.simpleString()
    assert rows(found) == rows(every)
    utc = (pa.ipc.open_file if form == "file" else pa.ipc.open_stream)(path.read_bytes()).read_all()
    utc.validate(full=True)
    for name, kind in {"d38": pa.decimal128(38, 18), "n": pa.timestamp("us")}.items():
        assert utc.schema.field(name).type == kind
    assert {utc.schema.field(name).type for name in ("t", "instant")} == {pa.timestamp("us", "UTC")}
    assert [len(batch) for batch in utc.to_batches()] == [30, 30, 30, 10]
    with (ipc.open_file if form == "file" else ipc.open_stream)(str(path)) as opened:
        assert sum(len(batch) for batch in opened) == 100
    conf("spark.sql.session.timeZone", "Asia/Tokyo")
    conf("spark.sql.execution.arrow.useLargeVarTypes", "true")
    every.write.format("arrowipc").option("compression", "none").save(str(tmp_path / "tokyo"))
    assert utc == pa.ipc.open_file(one_file(tmp_path / "tokyo")).read_all()


def test_batches_are_cut_by_bytes(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(0, 25_000, 1, 1).write.format("arrowipc").option("batchBytes", "8k").save(str(tmp_path / "out"))
    with ipc.open_file(one_file(tmp_path / "out")) as reader:
        assert 8 * 1024 // 2 < max(body for _, _, body in reader.blocks) <= 8 * 1024 + 64
        assert sum(batch.num_rows for batch in reader) == 25_000


class Trap:
    """Its pickle makes a directory when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def stated(kind: Any) -> str:
    return json.dumps({"type": "struct", "fields": [{"name": "a", "type": kind, "nullable": True, "metadata": {}}]})


def test_no_code_that_a_file_names_runs(spark: SparkSession, tmp_path: Path) -> None:
    trap = base64.b64encode(pickle.dumps(Trap(tmp_path / "trapped"))).decode()
    python = {"type": "udt", "pyClass": "json.None", "serializedClass": trap, "sqlType": "long"}
    spoken = {"type": "udt", "class": "java.util.Random", "sqlType": "long", "pyClass": None}
    nested = {"type": "array", "containsNull": True, "elementType": python}
    texts = [stated(spoken), stated(python), stated(nested), "{", "[" * 5000, '{"type":"struct","fields":7}']
    for number, text in enumerate(texts):
        schema = pa.schema([("a", pa.int64())], {"arrowipc:spark_schema": text})
        put(tmp_path / f"{number}.arrow", pa.record_batch([[5]], schema=schema))
        found = load(spark, tmp_path / f"{number}.arrow")
        assert found.schema.simpleString() == "struct<a:bigint>"
        assert found.collect() == [(5,)]
    assert not (tmp_path / "trapped").exists()


def test_a_time_of_day_is_a_bigint_where_the_session_refuses_time(
    spark: SparkSession, conf: Any, tmp_path: Path
) -> None:
    kinds = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    put(tmp_path / "t.arrow", pa.record_batch({str(kind): pa.array([1, None], kind) for kind in kinds}))
    conf("spark.sql.timeType.enabled", "false")
    found = load(spark, tmp_path / "t.arrow")
    assert {field.dataType.simpleString() for field in found.schema} == {"bigint"}
    assert found.collect() == [(10**9, 10**6, 1000, 1), (None,) * 4]
    assert found.where("`time32[ms]` = 1000000").count() == 1


#: The name of a column with texts, an expression for it, and one for a text that is not UTF-8 in it.
INVALID = [
    ("t", "cast(X'ff61' AS string)", "t"),
    ("a.element", "array('good', cast(X'c3a9e9' AS string))", "a[1]"),
    ("k.entries.key", "map('k', 1, cast(X'fe' AS string), 2)", "map_keys(k)[1]"),
    ("m.entries.value", "map('k', cast(X'eda080' AS string))", "m['k']"),
    ("s.x.element.y", "named_struct('x', array(named_struct('y', cast(X'f4908080' AS string))))", "s.x[0].y"),
]


def test_texts_that_are_not_utf8(spark: SparkSession, tmp_path: Path) -> None:
    names, looks = [name.partition(".")[0] for name, *_ in INVALID], [f"hex({text})" for *_, text in INVALID]
    columns = [f"if(id in (4, 5), {each[1]}, null) {name}" for name, each in zip(names, INVALID, strict=True)]
    frame = spark.range(0, 7, 1, 1).selectExpr("id", *columns)
    options = {"batchRows": "3", "statistics": "true"}
    for name, (column, *_) in zip(names, INVALID, strict=True):
        asked = options | ({"invalid_text": "error"} if name == "t" else {})  # which is the default
        said = f"(?s)part-00000-.*: column '{column}' holds a text in row 4 that is not UTF-8.*invalid_text=replace"
        with pytest.raises(Exception, match=said):
            frame.select("id", name).write.format("arrowipc").options(**asked).save(str(tmp_path / name))
    there = [*frame.where("id = 4").selectExpr(*looks).first()]
    good = [bytes.fromhex(each).decode(errors="ignore").encode().hex().upper() for each in there]
    for how, expected in (("binary", there), ("replace", good)):
        out = tmp_path / how
        frame.write.format("arrowipc").options(**options, invalid_text=how).save(str(out))
        assert load(spark, out).schema.simpleString() == frame.schema.simpleString()
        found = load(spark, out).where("t is not null and s.x[0].y is not null").selectExpr("id", *looks).collect()
        assert [(row.id, [each.replace("EFBFBD", "") for each in row[1:]]) for row in found] == [
            (number, expected) for number in (4, 5)
        ]
        with pa.ipc.open_file(one_file(out)) as reader:
            reader.read_all().validate(full=True)


def test_texts_and_binary_are_read_as_each_other(spark: SparkSession, tmp_path: Path) -> None:
    kinds = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
    values = pa.array([b"ab", None, b"cd"], pa.binary(2))
    columns = {str(kind): values.cast(pa.binary()).cast(kind) for kind in kinds}
    columns |= {"fixed": values, "words": columns["string"].dictionary_encode()}
    stored(tmp_path / "x.arrow", columns, statistics=True)
    for kind, literal, value in (("binary", "X'6364'", b"cd"), ("string", "'cd'", "cd")):
        frame = spark.read.format("arrowipc").schema(", ".join(f"{name} {kind}" for name in columns))
        found = frame.load(str(tmp_path / "x.arrow")).where(" and ".join(f"{name} = {literal}" for name in columns))
        assert found.collect() == [(value,) * len(columns)]
        copied = frame.load(str(tmp_path / "x.arrow")).selectExpr("inline(collect_list(struct(*)))")
        assert copied.collect()[2] == (value,) * len(columns)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("make_interval(1)", "INTERVAL"),
        ("parse_json('1')", "VARIANT"),
        ("st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')", "GEOMETRY"),
    ],
)
def test_what_arrow_cannot_hold_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, expression: str, kind: str
) -> None:
    with pytest.raises(Exception, match=f"column `some` of the type .*{kind}"):
        spark.range(1).selectExpr(f"array({expression}) some").write.format("arrowipc").save(str(tmp_path / "out"))


@pytest.mark.slow
def test_the_log_of_sparks_streaming_sink_is_understood(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1, 4).write.format("arrowipc").save(str(tmp_path / "in"))
    out = tmp_path / "o ut"
    frame = spark.readStream.format("arrowipc").schema("id long").load(str(tmp_path / "in"))
    sink = frame.selectExpr("id", "concat('a b%', id) AS k").writeStream.format("json").partitionBy("k")
    query = sink.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True).start(str(out))
    assert query.awaitTermination(120)
    (out / "k=1").mkdir()
    (out / "k=1/stray.json").write_text("{}")
    names = {Path(each.path).parent.name for each in find_files([str(out)])}
    assert names == {f"k=a b%25{number}" for number in (1, 2, 3)}


def test_torn_files_and_streams(spark: SparkSession, tmp_path: Path) -> None:
    for form, kept in (("file", 0), ("stream", 4000)):
        out = tmp_path / form
        spark.range(0, 10_000, 1, 1).write.format("arrowipc").options(format=form, batchRows="1000").save(str(out))
        path = one_file(out)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        for checksum in out.glob(".*.crc"):  # Hadoop's local file system would notice
            checksum.unlink()
        given = spark.read.schema("id long").format("arrowipc")
        with pytest.raises(Exception, match=rf"(?s){path.name}.*(cut short|no footer)"):
            given.load(str(out)).count()
        assert given.option("ignoreCorruptFiles", "true").load(str(out)).count() == kept
    with pytest.raises(Exception, match=r"file:.*: the file has no footer"):
        load(spark, tmp_path / "file")
    spark.range(5).write.format("arrowipc").mode("append").save(str(tmp_path / "file"))
    assert load(spark, tmp_path / "file", ignoreCorruptFiles="true").count() == 5
    merged = load(spark, tmp_path / "file", ignoreCorruptFiles="true", mergeSchema="true")
    assert merged.schema.simpleString() == "struct<id:bigint>"


def test_a_split_of_a_stream_is_read_up_to_its_end(spark: SparkSession, tmp_path: Path, conf: Any) -> None:
    """A task looks at no message behind its split, and the schema needs the first message alone."""
    spark.range(0, 10_000, 1, 1).write.format("arrowipc").options(format="stream", batchRows="1000").save(
        str(tmp_path / "s")
    )
    path = one_file(tmp_path / "s")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 3 // 4] + bytes([1]) * (len(whole) // 4))
    for checksum in path.parent.glob(".*.crc"):
        checksum.unlink()
    conf("spark.sql.files.maxPartitionBytes", str(len(whole) // 2))
    conf("spark.sql.files.openCostInBytes", "0")
    rows = load(spark, tmp_path / "s").rdd
    assert rows.getNumPartitions() == 2
    assert [row.id for row in spark.sparkContext.runJob(rows, list, [0])] == [*range(5000)]
    with pytest.raises(Exception, match=f"(?s){path.name}.*cut short"):
        spark.sparkContext.runJob(rows, list, [1])


def test_a_split_of_a_stream_begins_where_another_task_has_been(spark: SparkSession, tmp_path: Path, conf: Any) -> None:
    """Headers between the dictionaries and the split are not read again, unless the file is another one."""
    path = tmp_path / "words.arrows"

    def table(rows: int, batches: int) -> pa.Table:
        words = [pa.array([f"w{i // 4}"] * rows).dictionary_encode() for i in range(batches)]
        parts = [{"id": range(i * rows, (i + 1) * rows), "word": word} for i, word in enumerate(words)]
        return pa.Table.from_batches([pa.record_batch(part) for part in parts])

    def written(content: bytes, time: int = 10) -> None:
        path.write_bytes(content)
        os.utime(path, (time, time))

    def read(part: int | None = None) -> list[dict[str, Any]]:
        parts = load(spark, path).rdd
        assert parts.getNumPartitions() == 4
        return [row.asDict() for row in spark.sparkContext.runJob(parts, list, None if part is None else [part])]

    old, new = table(1000, 24), table(1500, 16)
    whole = pyarrow_bytes(old.to_batches())
    heads = [found.start() for found in re.finditer(rb"\xff{4}", whole)]
    conf("spark.sql.files.maxPartitionBytes", str(len(whole) // 4 + 1))
    conf("spark.sql.files.openCostInBytes", "0")
    written(whole)
    assert read() == read() == old.to_pylist()
    without = [whole[: head + 4] + b"\xff" * 4 + whole[head + 8 :] for head in heads]
    written(without[3])  # the second batch
    later = read(2)
    assert later
    assert later == old.slice(later[0]["id"], len(later)).to_pylist()
    for content, time in ((without[1], 10), (without[3], 11)):  # the first dictionary; the time of change
        written(content, time)
        with pytest.raises(Exception, match=rf"(?s){path.name}.*cut short"):
            read(2)
    written(pyarrow_bytes(new.to_batches()).ljust(len(whole), b"\0"))
    assert read() == new.to_pylist()


def test_a_file_that_changes_is_named(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(0, 100, 1, 1).write.format("arrowipc").save(str(tmp_path / "out"))
    frame, changed = load(spark, tmp_path / "out"), one_file(tmp_path / "out")
    stored(changed, {"id": [7]})
    with pytest.raises(Exception, match=rf"(?s){changed.name}: the file had \d+ bytes when it was listed and has"):
        frame.collect()


def test_what_cannot_be_read_is_named(spark: SparkSession, tmp_path: Path) -> None:
    stored(tmp_path / "x.arrow", [{"a": [1, 2], "b": ["x", "y"]}, {"a": [1 << 40, 2], "b": ["x", "y"]}])
    given = spark.read.format("arrowipc")
    with pytest.raises(Exception, match=r"(?s)x\.arrow: record batch 1: column 'a' holds a value that int cannot"):
        given.schema("a int").load(str(tmp_path)).collect()
    with pytest.raises(Exception, match=r"(?s)x\.arrow: column 'b' .* is read as string, and the schema asks for int"):
        given.schema("b int").load(str(tmp_path)).collect()


@pytest.mark.parametrize(
    ("use", "option", "value", "text"),
    [
        ("read", "columns", "a", "option columns: Spark's file format does not have it; select the columns"),
        ("read", "VALIDATE", "some", "option validate: expected one of full, none, found 'some'"),
        ("read", "mergeSchema", "maybe", "option mergeSchema: expected true or false"),
        ("write", "compression", "snappy", "option compression: expected one of none, uncompressed, lz4, zstd"),
        ("write", "batchRows", "0", "option batchRows: expected a whole number from 1, found '0'"),
        ("write", "batchBytes", "x", "option batchBytes: expected bytes, such as 4194304 or 4m, found 'x'"),
    ],
)
def test_options(
    spark: SparkSession, counted: Path, tmp_path: Path, use: str, option: str, value: str, text: str
) -> None:
    given = spark.range(1).write.format("arrowipc").option(option, value)
    with pytest.raises(Exception, match=text):
        load(spark, counted, **{option: value}) if use == "read" else given.save(str(tmp_path / "out"))


@pytest.fixture(scope="module")
def counted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders of a file each, of ten batches with statistics: 0 to 99, and from 100; unknown options do no harm."""
    root = tmp_path_factory.mktemp("alone") / "counted"  # nothing of other tests is in the folder above it
    for part in range(2):
        frame = spark.range(part * 100, part * 100 + 100, 1, 1).selectExpr("if(id % 10 = 9, null, id) id")
        names = "concat('n', lpad(id, 3, '0')) name"
        frame = frame.selectExpr("id", names, "1.5D real", "id / 2 half", "named_struct('a', id, 'b', 'x') s")
        options = {"batchRows": "10", "statistics": "true", "unknown": "x"}
        frame.write.format("arrowipc").options(**options).save(f"{root}/part={part}")
    return root


def read_rows(frame: DataFrame) -> int:
    """Run a plan; the rows that its scan handed on."""
    plan = frame._jdf.queryExecution().executedPlan()
    plan.executeCollect()
    scan = plan.collectLeaves().head()
    return int(scan.metrics().apply("numOutputRows").value())


@pytest.mark.parametrize(
    ("condition", "batches"),
    [
        ("id < 20", 2),
        ("id in (5, 195)", 2),
        ("id = 5 or name = 'n055'", 2),
        ("not (id >= 10)", 1),
        ("name like 'n01%'", 1),
        ("half = 3.5", 1),
        ("id is null", 20),
        ("real > 2", 0),
        ("id <=> null and part = 0", 10),
        ("id + 1 = 6", 20),
    ],
)
def test_batches_that_hold_no_row_are_skipped(spark: SparkSession, counted: Path, condition: str, batches: int) -> None:
    """And no other: see test_pruning_leaves_out_no_row_that_passes."""
    assert read_rows(load(spark, counted).where(condition)) == 10 * batches


def test_statistics_are_those_that_python_computes(spark: SparkSession, base: DataFrame, tmp_path: Path) -> None:
    more = (
        "repeat(s, 20) long",
        "concat('é', repeat('ü', 40), s) accents",
        "cast(repeat(s, 30) as binary) bytes",
        "unhex(repeat('ff', 70)) top",
        "repeat(decode(unhex('F48FBFBF'), 'utf-8'), 30) last",
        "if(id = 5, double('nan'), -double(id)) nan",
        "if(id % 2 = 0, float('inf'), float('-inf')) ends",
        "-double(0) * id zero",
        "named_struct('in', named_struct('d', dt), 'z', if(id = 3, null, id * 10000000000000)) ns",
        "cast(id * 1e18 as decimal(38, 0)) big",
        "if(id >= 0, null, id) none",
    )
    frame = base.selectExpr("*", *more).coalesce(1)
    frame.write.format("arrowipc").options(statistics="true", batchRows="30").save(str(tmp_path / "out"))
    with ipc.open_file(one_file(tmp_path / "out")) as reader:
        for number, found in enumerate(ipc.file_statistics(reader)):
            assert repr(found) == repr(ipc.compute_statistics(reader.get_batch(number)))


@pytest.mark.parametrize("change", ["renamed", "more rows"])
def test_statistics_that_a_tool_copied_are_not_believed(spark: SparkSession, tmp_path: Path, change: str) -> None:
    stored(tmp_path / "x.arrow", {"x": [1, 2], "y": [100, 200]}, statistics=True)
    with pa.ipc.open_file(tmp_path / "x.arrow") as reader:
        batch, metadata = reader.get_batch_with_custom_metadata(0)
    if change == "renamed":
        batch = batch.rename_columns(["y", "x"])
    else:
        batch = pa.record_batch({"x": [1, 2, 200], "y": [100, 200, 5]})
    with pa.ipc.new_file(tmp_path / "x.arrow", batch.schema) as writer:
        writer.write_batch(batch, custom_metadata=metadata)
    assert load(spark, tmp_path).where("x = 200").count() == 1


@pytest.mark.parametrize("below", ["", "/part=1", "/*/*.arrow", "/part={0,1}"])
def test_far_files_are_read_as_near_ones(spark: SparkSession, counted: Path, below: str) -> None:
    """By one of Hadoop's file systems that is not the local one."""
    spark.conf.set("fs.viewfs.mounttable.far.link./tables", counted.parent.as_uri())
    far = f"viewfs://far/tables/{counted.name}"
    near = load(spark, f"{counted}{below}").selectExpr("*", "_metadata.file_size")
    assert rows(load(spark, far + below).selectExpr("*", "_metadata.file_size")) == rows(near)
    assert read_rows(load(spark, far + below).where("id = 105")) == 10


def test_of_far_files_only_ranges_of_the_chosen_columns_are_read(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("fs.viewfs.mounttable.wide.link./tables", tmp_path.as_uri())
    starts = range(0, 40_000, 10_000)
    parts = [{f"c{number}": [*range(start, start + 10_000)] for number in range(20)} for start in starts]
    stored(tmp_path / "x.arrow", parts, statistics=True)

    def counted_bytes(frame: DataFrame) -> tuple[Any, int]:
        systems = spark._jvm.org.apache.hadoop.fs.FileSystem
        before = sum(each.getBytesRead() for each in systems.getAllStatistics())
        found = frame.collect()
        return found[0][0], sum(each.getBytesRead() for each in systems.getAllStatistics()) - before

    frame = load(spark, "viewfs://wide/tables/x.arrow")
    total, size = counted_bytes(frame.selectExpr("sum(c7)"))
    assert total == sum(range(40_000))
    assert 320_000 <= size < 400_000 < (tmp_path / "x.arrow").stat().st_size / 15
    total, size = counted_bytes(frame.where("c3 < 10000").selectExpr("sum(c3)"))
    assert total == sum(range(10_000))
    assert 80_000 <= size < 160_000
    assert counted_bytes(frame.selectExpr("count(*)"))[1] < 40_000
