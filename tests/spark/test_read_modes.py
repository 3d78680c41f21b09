"""Reading damaged, torn, missing and remote files in Spark: what each mode gives, and what recover adds."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from helpers.arrow_columns import file, stream
from helpers.liar import FOREVER, Liar
from helpers.web import Web
from pyspark.sql import types as st

import arrowipc
from arrowipc.errors import ArrowIpcError, FormatError, UnsupportedError, UsageError
from arrowipc.read.files import find_files
from arrowipc.spark import ArrowIpcDataSource, register
from arrowipc.spark.options import ReadOptions, storage_options
from arrowipc.spark.types import arrow_schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

#: What a look at both ends of a remote file brings at most: the first bytes, the last 128 KiB, a header of a batch.
ENDS = (1 << 17) + 1024
ROWS = 10
GOES_ON = ["PERMISSIVE", "DROPMALFORMED"]
MODES = ["FAILFAST", *GOES_ON]


def numbers(number: int) -> pa.RecordBatch:
    start = number * ROWS
    ids = list(range(start, start + ROWS))
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "tag": [f"tag {row}" for row in ids]})


def good(count: int = 5, first: int = 0) -> bytes:
    return file(*[numbers(first + number) for number in range(count)])


def damaged(data: bytes, number: int) -> bytes:
    """A file in which the text of batch `number` is no UTF-8 any more."""
    at = data.index(b"tag %d" % (number * ROWS))
    return data[:at] + b"\xff" + data[at + 1 :]


def ids(*batches: int) -> list[int]:
    return [row for number in batches for row in range(number * ROWS, (number + 1) * ROWS)]


def source_of(path: Any, **options: str) -> ArrowIpcDataSource:
    """The data source as Spark makes it: the names of options arrive in lower case."""
    return ArrowIpcDataSource({"path": str(path), **{name.lower(): text for name, text in options.items()}})


def read(path: Any, schema: st.StructType | None = None, **options: str) -> pa.Table:
    """What the data source gives Spark, checked as Spark checks it, without Spark's processes."""
    source = source_of(path, **options)
    schema = schema or source.schema()
    reader = pickle.loads(pickle.dumps(source.reader(schema)))
    wanted = arrow_schema_of(schema)
    batches = []
    for partition in reader.partitions():
        for batch in reader.read(pickle.loads(pickle.dumps(partition))):
            assert batch.schema.equals(wanted)
            batches.append(batch)
    return pa.Table.from_batches(batches, wanted)


def split(table: pa.Table, column: str = "_corrupt_record") -> tuple[list[int], list[str]]:
    """The ids of the rows that are data, and the texts of those that are not."""
    rows = table.to_pylist()
    texts = [row[column] for row in rows if row[column] is not None]
    for row in rows:
        others = [value for name, value in row.items() if name != column]
        assert all(value is None for value in others) == (row[column] is not None)
    return sorted(row["id"] for row in rows if row["id"] is not None), texts


# Record batches of a file.


@pytest.mark.parametrize("number", [0, 2, 4])
@pytest.mark.parametrize("per_partition", ["1", "100"])
def test_a_damaged_batch_is_one_record(tmp_path: Path, number: int, per_partition: str) -> None:
    (tmp_path / "x.arrow").write_bytes(damaged(good(), number))
    options = {"batchesPerPartition": per_partition}
    others = [other for other in range(5) if other != number]
    found, texts = split(read(tmp_path, mode="permissive", **options))
    assert found == ids(*others)
    assert len(texts) == 1
    assert str(tmp_path / "x.arrow") in texts[0]
    assert f"record batch {number}" in texts[0]
    assert "UTF-8" in texts[0]
    table = read(tmp_path, mode="DropMalformed", **options)
    assert table.column_names == ["id", "tag"]
    assert table["id"].to_pylist() == ids(*others)
    for mode in ({}, {"mode": "FAILFAST"}):
        with pytest.raises(FormatError, match=f"x.arrow.*record batch {number}"):
            read(tmp_path, **mode, **options)


def test_what_a_damaged_column_does_to_others_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(damaged(good(), 1))
    found, texts = split(read(tmp_path, mode="permissive", columns="id"))
    assert (found, texts) == (ids(*range(5)), [])
    found = read(tmp_path, st.StructType([st.StructField("tag", st.StringType())]), mode="dropmalformed")
    assert found.num_rows == 4 * ROWS


def test_the_rest_of_a_stream_is_one_record(tmp_path: Path) -> None:
    data = damaged(stream(*[numbers(number) for number in range(5)]), 2)
    (tmp_path / "x.arrows").write_bytes(data)
    found, texts = split(read(tmp_path, mode="permissive"))
    assert found == ids(0, 1)
    assert len(texts) == 1
    assert "x.arrows" in texts[0]
    assert "message 4 (RecordBatch)" in texts[0]
    assert read(tmp_path, mode="dropmalformed")["id"].to_pylist() == ids(0, 1)
    with pytest.raises(FormatError, match=r"x\.arrows"):
        read(tmp_path)


# Whole files.


@pytest.mark.parametrize("garbage", [b"hello, world", b"", good()[:-400], b"ARROW1\0\0" + b"\xff" * 500])
def test_an_unreadable_file_is_one_record(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "1.arrow").write_bytes(garbage)
    (tmp_path / "2.arrow").write_bytes(good(2))
    found, texts = split(read(tmp_path, mode="permissive"))
    assert found == ids(0, 1)
    assert len(texts) == 1
    assert "1.arrow" in texts[0]
    assert read(tmp_path, mode="dropmalformed")["id"].to_pylist() == ids(0, 1)
    with pytest.raises(FormatError, match=r"1\.arrow"):
        read(tmp_path)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_readable_is_an_error_in_every_mode(tmp_path: Path, mode: str) -> None:
    (tmp_path / "1.arrow").write_bytes(b"hello")
    (tmp_path / "2.arrow").write_bytes(b"world")
    with pytest.raises(FormatError, match=r"1\.arrow"):
        read(tmp_path, mode=mode)
    schema = st.StructType().add("id", st.LongType())
    if mode != "FAILFAST":
        assert read(tmp_path, schema, mode=mode).num_rows == (2 if mode == "PERMISSIVE" else 0)


@pytest.mark.parametrize("mode", MODES)
def test_mistakes_are_errors_in_every_mode(tmp_path: Path, mode: str) -> None:
    (tmp_path / "1.arrow").write_bytes(good(1))
    (tmp_path / "2.arrow").write_bytes(file(pa.record_batch({"id": [1]})))
    needed = st.StructType().add("tag", st.StringType(), nullable=mode == "PERMISSIVE")
    if mode != "PERMISSIVE":
        with pytest.raises(UsageError, match=r"2\.arrow.*'tag'"):
            read(tmp_path, needed, mode=mode)
    with pytest.raises(UsageError, match="'tag'"):
        read(tmp_path / "1.arrow", st.StructType().add("tag", st.IntegerType()), mode=mode)
    with pytest.raises(ArrowIpcError, match="nix"):
        read(tmp_path / "1.arrow", columns="nix", mode=mode)


def test_values_that_spark_cannot_hold_are_malformed(tmp_path: Path) -> None:
    whole = pa.record_batch({"at": pa.array([1_000], pa.timestamp("ns")), "id": [1]})
    odd = pa.record_batch({"at": pa.array([2_000] * 5 + [2_001], pa.timestamp("ns")), "id": [2] * 6})
    (tmp_path / "x.arrow").write_bytes(file(whole, odd, whole))
    with pytest.raises(UnsupportedError, match="nanoseconds"):
        read(tmp_path)
    with pytest.raises(UnsupportedError, match="nanoseconds"):
        read(tmp_path, recover="true")  # nothing is damaged
    found, texts = split(read(tmp_path, mode="permissive", rowsPerBatch="2"))
    assert found == [1, 1]  # no row of the batch went out before the last was seen
    assert len(texts) == 1
    assert 'nanoseconds="truncate"' in texts[0]
    assert read(tmp_path, mode="dropmalformed", rowsPerBatch="2").num_rows == 2
    assert read(tmp_path, mode="permissive", nanoseconds="truncate").num_rows == 8


# The column for errors.


def test_the_column_for_errors(tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(damaged(good(2), 1))
    assert read(tmp_path, mode="permissive").column_names == ["id", "tag", "_corrupt_record"]
    named = read(tmp_path, mode="permissive", columnNameOfCorruptRecord="why", columns="tag,id")
    assert named.column_names == ["tag", "id", "why"]
    assert split(named, "why")[0] == ids(0)
    columns = [("_corrupt_record", st.StringType()), ("id", st.LongType()), ("tag", st.StringType())]
    schema = st.StructType([st.StructField(*column) for column in columns])
    for mode in MODES:
        (tmp_path / "x.arrow").write_bytes(damaged(good(2), 1) if mode != "FAILFAST" else good(1))
        found, texts = split(read(tmp_path, schema, mode=mode))
        assert found == ids(0)
        assert len(texts) == (mode == "PERMISSIVE")
    without = read(tmp_path, st.StructType().add("tag", st.StringType()), mode="permissive")
    assert without["tag"].null_count == 1
    alone = read(tmp_path, st.StructType().add("_corrupt_record", st.StringType()), mode="permissive")
    assert (alone.num_rows, alone["_corrupt_record"].null_count) == (2 * ROWS, 2 * ROWS)


def test_a_schema_that_cannot_hold_them_is_refused_before_data() -> None:
    for field, words in (
        (st.StructField("id", st.LongType(), nullable=False), "'id' is NOT NULL"),
        (st.StructField("_corrupt_record", st.LongType()), "make it a string"),
    ):
        schema = st.StructType([st.StructField("tag", st.StringType()), field])
        with pytest.raises(UsageError, match=words):
            source_of("/no/such", mode="permissive").reader(schema)
        source_of("/no/such", mode="dropmalformed").reader(schema)


def test_a_column_of_that_name_in_the_data(tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(file(pa.record_batch({"id": [1], "_corrupt_record": ["data"]})))
    assert read(tmp_path)["_corrupt_record"].to_pylist() == ["data"]
    assert read(tmp_path, mode="dropmalformed")["_corrupt_record"].to_pylist() == ["data"]
    with pytest.raises(UsageError, match="columnNameOfCorruptRecord"):
        read(tmp_path, mode="permissive")
    schema = st.StructType().add("_corrupt_record", st.StringType())
    with pytest.raises(UsageError, match="columnNameOfCorruptRecord"):
        read(tmp_path, schema, mode="permissive")
    assert read(tmp_path, mode="permissive", columnNameOfCorruptRecord="why").num_rows == 1


# Recovery.


@pytest.mark.parametrize("kind", ["arrow", "arrows"])
def test_recovered_files(tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    data = good() if kind == "arrow" else stream(*[numbers(number) for number in range(5)])
    at = data.index(b"tag 30")
    (tmp_path / f"1.{kind}").write_bytes(data[:at])
    (tmp_path / f"2.{kind}").write_bytes(good(1, first=9))
    caplog.set_level(logging.WARNING, "arrowipc.spark")
    for mode in ("FAILFAST", "DROPMALFORMED"):
        caplog.clear()
        assert sorted(read(tmp_path, mode=mode, recover="true")["id"].to_pylist()) == ids(0, 1, 2, 9)
        assert [record.message.count(f"1.{kind}") for record in caplog.records] == [1]
        assert "kept 3 batches" in caplog.text
    found, texts = split(read(tmp_path, mode="PERMISSIVE", recover="true"))
    assert found == ids(0, 1, 2, 9)
    assert len(texts) == 1
    assert f"1.{kind}" in texts[0]
    assert "kept 3 batches" in texts[0]
    assert sorted(read(tmp_path, recover="true", columns="id")["id"].to_pylist()) == ids(0, 1, 2, 9)
    if kind == "arrow":
        assert sorted(read(tmp_path, mode="dropmalformed")["id"].to_pylist()) == ids(9)


def test_a_torn_file_is_one_partition_and_others_are_cut(tmp_path: Path) -> None:
    (tmp_path / "1.arrow").write_bytes(good()[:-20])
    (tmp_path / "2.arrow").write_bytes(good())
    source = source_of(tmp_path, recover="true", batchesPerPartition="1")
    reader = source.reader(source.schema())
    assert len(reader.partitions()) == 1 + 5
    assert read(tmp_path, recover="true", batchesPerPartition="1").num_rows == 10 * ROWS


def test_recovery_of_damage_inside_and_of_garbage(tmp_path: Path) -> None:
    (tmp_path / "1.arrow").write_bytes(b"hello, world")
    (tmp_path / "2.arrow").write_bytes(damaged(good(), 3))
    assert read(tmp_path, recover="true")["id"].to_pylist() == ids(0, 1, 2, 4)
    found, texts = split(read(tmp_path, recover="true", mode="permissive"))
    assert found == ids(0, 1, 2, 4)
    assert len(texts) == 2


def test_whole_files_are_recovered_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "1.arrow").write_bytes(good())
    (tmp_path / "2.arrows").write_bytes(stream(numbers(7)))
    for mode in MODES:
        assert read(tmp_path, recover="true", mode=mode).num_rows == 6 * ROWS
    assert not caplog.records


# Missing files.


def test_missing_files(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / f"{name}.arrow").write_bytes(good(1, first=int(name)))
    for option, wanted in (({"ignoreMissingFiles": "true"}, ids(2)), ({}, None)):
        source = source_of(tmp_path, **option)
        reader = source.reader(source.schema())
        partitions = reader.partitions()
        (tmp_path / "1.arrow").unlink()
        rows = (row for part in partitions for batch in reader.read(part) for row in batch["id"].to_pylist())
        if wanted is None:
            with pytest.raises(FileNotFoundError, match=r"1\.arrow"):
                list(rows)
        else:
            assert list(rows) == wanted
        (tmp_path / "1.arrow").write_bytes(good(1))


def test_a_server_that_fails_is_not_a_missing_file(web: Web) -> None:
    web.files |= {"1.arrow": good(1), "2.arrow": good(1, first=2)}
    source = source_of("", paths=f'["{web.url("1.arrow")}", "{web.url("2.arrow")}"]', ignoreMissingFiles="true")
    reader = source.reader(source.schema())
    partitions = reader.partitions()
    web.fault = "broken"
    for call in (reader.partitions, lambda: list(reader.read(partitions[0]))):
        with pytest.raises(OSError, match="500") as caught:
            call()
        assert not isinstance(caught.value, FileNotFoundError)
    web.fault = ""
    del web.files["1.arrow"]
    (batch,) = reader.read(partitions[0])
    assert batch["id"].to_pylist() == ids(2)


# Pruning.


def marked(count: int) -> bytes:
    """A file whose batches have statistics of their ids."""
    sink = bytearray()
    with arrowipc.new_file(sink, numbers(0).schema, statistics=["id"]) as writer:
        for number in range(count):
            writer.write(numbers(number))
    return bytes(sink)


def pruned(source: ArrowIpcDataSource, *ids: int) -> Any:
    """The reader of a query of some ids, as executors get it."""
    datasource = pytest.importorskip("pyspark.sql.datasource")
    if not hasattr(datasource, "In"):
        pytest.skip("Spark pushes filters from 4.1 on")
    reader = source.reader(source.schema())
    assert [*reader.pushFilters([datasource.In(("id",), ids)])]  # Spark looks at the rows, too
    return pickle.loads(pickle.dumps(reader))


def test_what_a_query_cannot_need_is_not_read(tmp_path: Path) -> None:
    # The bodies of the batches that are not wanted are damaged, so that reading them would be seen.
    (tmp_path / "x.arrow").write_bytes(damaged(damaged(marked(6), 0), 3))
    for per_partition in ("2", "10"):
        reader = pruned(source_of(tmp_path, batchesPerPartition=per_partition, pushFilters="true"), ROWS, 5 * ROWS - 1)
        found = [row for part in reader.partitions() for batch in reader.read(part) for row in batch["id"].to_pylist()]
        assert found == ids(1, 4)


def test_filters_save_requests_for_bodies(web: Web) -> None:
    rows = 300_000
    sink = bytearray()
    with arrowipc.new_file(sink, pa.schema({"id": pa.int64()}), statistics=True) as writer:
        for number in range(4):
            writer.write({"id": list(range(number * rows, (number + 1) * rows))})
    web.files["x.arrow"] = bytes(sink)
    reader = pruned(source_of(web.url("x.arrow"), pushFilters="true"), 2 * rows + 5)
    partitions = reader.partitions()
    web.log.clear()
    found = [batch for part in partitions for batch in reader.read(part)]
    assert sum(batch.num_rows for batch in found) == rows
    assert found[0]["id"][0].as_py() == 2 * rows
    assert rows * 8 < web.sent() < rows * 8 + len(partitions) * ENDS


# Options.


def test_options_that_are_none() -> None:
    for name, words in (
        ("modes", "did you mean 'mode'"),
        ("recovery", "did you mean 'recover'"),
        ("columnNameOfCorruptRecords", "did you mean 'columnNameOfCorruptRecord'"),
        ("storag.anon", "did you mean 'storage.anon'"),
    ):
        with pytest.raises(UsageError, match=words):
            ReadOptions.of({name: "x"})
    for name in ("mode", "recover", "ignoreMissingFiles"):
        with pytest.raises(UsageError, match=name):
            ReadOptions.of({name.lower(): "maybe"})


def test_options_for_storage() -> None:
    options = {
        "storage.anon": "true",
        "Storage.key": "abc",
        "storage.secret": '"12345"',
        "storage.client_kwargs": '{"endpoint_url": "http://localhost"}',
        "path": "x",
    }
    assert storage_options(options) == {
        "anon": True,
        "key": "abc",
        "secret": "12345",
        "client_kwargs": {"endpoint_url": "http://localhost"},
    }


# Remote files.


@pytest.fixture
def web() -> Iterator[Web]:
    with Web({}) as server:
        yield server


def test_files_found_say_their_size(tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(good(1))
    assert [file[:3] for file in find_files([str(tmp_path)])] == [(str(tmp_path / "x.arrow"), len(good(1)), "/x.arrow")]


@pytest.fixture
def bucket() -> Iterator[str]:
    """A tree in fsspec's memory file system, with things that are not data."""
    import fsspec

    system = fsspec.filesystem("memory")
    for name in ("a.arrow", "year=1/b.arrow", "year=1/deep/c.arrow", "year=2/d.txt"):
        system.pipe(f"/bucket/{name}", good(1))
    for name in ("_SUCCESS", ".hidden.arrow", "_temporary/e.arrow", "year=1/.f.arrow"):
        system.pipe(f"/bucket/{name}", b"no data")
    yield "memory://bucket"
    system.rm("/bucket", recursive=True)


@pytest.mark.parametrize(
    ("below", "options", "names"),
    [
        ("", {}, ["a.arrow", "year=1/b.arrow", "year=1/deep/c.arrow", "year=2/d.txt"]),
        ("/", {"pathglobfilter": "*.arrow"}, ["a.arrow", "year=1/b.arrow", "year=1/deep/c.arrow"]),
        ("/a.arrow", {}, ["a.arrow"]),
        ("/*.arrow", {}, ["a.arrow"]),
        ("/year=*/*.arrow", {}, ["year=1/b.arrow"]),
        ("/year=[12]", {}, ["year=1/b.arrow", "year=1/deep/c.arrow", "year=2/d.txt"]),
        ("/{a.arrow,year=2/*}", {}, ["a.arrow", "year=2/d.txt"]),
        ("/**/*.arrow", {}, ["a.arrow", "year=1/b.arrow", "year=1/deep/c.arrow"]),
    ],
)
def test_remote_paths(bucket: str, below: str, options: dict[str, str], names: list[str]) -> None:
    found = ReadOptions.of({"path": bucket + below, **options}).files()
    assert [file.path.partition("/bucket/")[2] for file in found] == names
    assert all(file.size == len(good(1)) for file in found)
    assert all(arrowipc.open(file.path).num_record_batches == 1 for file in found)


def test_remote_paths_that_are_none(bucket: str, web: Web) -> None:
    for path in (f"{bucket}/nix.arrow", f"{bucket}/nix*", web.url("nix.arrow"), "memory://nix"):
        with pytest.raises(UsageError) as caught:
            ReadOptions.of({"path": path}).files()
        assert "no such file" in str(caught.value)
        assert path in str(caught.value)
    with pytest.raises(UsageError, match="nowhere://x"):
        ReadOptions.of({"path": "nowhere://x"}).files()
    with pytest.raises(UsageError, match="expected a local path or a URL"):
        ReadOptions.of({"path": "dbfs:/x"}).files()


def test_files_behind_http(web: Web) -> None:
    web.files |= {"data/a.arrow": good(1), "data/_b.arrow": b"", "data/sub/c.arrow": good(1, first=1)}
    (found,) = ReadOptions.of({"path": web.url("data/a.arrow")}).files()
    assert found.size == len(good(1))
    assert sorted(read(web.url("data/"))["id"].to_pylist()) == ids(0, 1)
    assert read(web.url("data/*.arrow"))["id"].to_pylist() == ids(0)


@pytest.mark.parametrize("mode", MODES)
def test_modes_of_remote_files(web: Web, mode: str) -> None:
    web.files["x.arrow"] = damaged(good(), 2)
    if mode == "FAILFAST":
        with pytest.raises(FormatError, match="record batch 2"):
            read(web.url("x.arrow"))
        return
    table = read(web.url("x.arrow"), mode=mode)
    assert [row for row in table["id"].to_pylist() if row is not None] == ids(0, 1, 3, 4)
    web.fault = "broken"  # a server that fails is no damage
    with pytest.raises(OSError, match="500"):
        read(web.url("x.arrow"), mode=mode)


def test_a_remote_batch_costs_what_its_columns_need(web: Web) -> None:
    rows = 400_000
    columns = {name: pa.array(range(rows), pa.int64()) for name in "abcdef"}
    web.files["x.arrow"] = data = file(*[pa.record_batch(columns)] * 3)
    source = source_of(web.url("x.arrow"), columns="e")
    schema = source.schema()
    assert web.sent() < ENDS
    web.log.clear()
    reader = source.reader(schema)
    (partition, *more) = reader.partitions()
    assert web.sent() < ENDS
    web.log.clear()
    batches = [batch for part in (partition, *more) for batch in reader.read(part)]
    assert sum(batch.num_rows for batch in batches) == 3 * rows
    assert "HEAD" not in {request.method for request in web.log}  # the size came with the listing
    assert web.sent() < 3 * 8 * rows + (1 + len(more)) * ENDS
    assert web.sent() < len(data) / 4


def test_a_server_that_stalls_is_no_missing_file() -> None:
    with Liar({}, [lambda ask: FOREVER]) as liar:
        url = f"http://127.0.0.1:{liar.port}/0/x.arrow"
        liar.files["arrow"] = (b"", b"")
        with pytest.raises(TimeoutError, match="no answer in time"):
            ReadOptions.of({"path": url, "storage.timeout": "0.5"}).files()


@pytest.mark.parametrize("kind", ["http", "memory"])
def test_tasks_refuse_another_version_than_the_one_planned(web: Web, kind: str) -> None:
    import fsspec

    def put(data: bytes) -> str:
        web.files["x.arrow"] = data
        fsspec.filesystem("memory").pipe("/planned/x.arrow", data)
        return web.url("x.arrow") if kind == "http" else "memory://planned/x.arrow"

    before, after = (
        file(*[pa.record_batch({"id": pa.array(range(start, start + ROWS), pa.int64())})] * 4) for start in (0, 100)
    )
    assert len(before) == len(after)
    source = source_of(put(before), batchesPerPartition="2")
    reader = source.reader(source.schema())
    first, second = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(first)) == 2 * ROWS
    put(after)
    for part in (first, second):
        with pytest.raises(OSError, match="replaced"):
            list(reader.read(part))


# In Spark itself.


@pytest.fixture
def registered(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def load(spark: SparkSession, path: Any, **options: Any) -> DataFrame:
    return spark.read.format("arrowipc").options(**options).load(str(path))


def test_modes_in_spark(registered: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.arrow").write_bytes(b"hello, world")
    (tmp_path / "2.arrow").write_bytes(damaged(good(), 3))
    (tmp_path / "3.arrow").write_bytes(good(2, first=6)[:-100])
    frame = load(registered, tmp_path, mode="PERMISSIVE", recover=True, batchesPerPartition=2)
    assert frame.columns == ["id", "tag", "_corrupt_record"]
    rows = frame.collect()
    assert sorted(row["id"] for row in rows if row["id"] is not None) == ids(0, 1, 2, 4, 6, 7)
    texts = sorted(row["_corrupt_record"] for row in rows if row["_corrupt_record"])
    assert [f"{number}.arrow" in text for number, text in enumerate(texts, 1)] == [True] * 3
    assert "record batch 3" in texts[1]
    assert load(registered, tmp_path, mode="DROPMALFORMED").count() == 4 * ROWS
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=r"1\.arrow"):
        load(registered, tmp_path).count()


def test_a_user_schema_in_spark(registered: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    (tmp_path / "x.arrow").write_bytes(damaged(good(), 0))
    reader = registered.read.format("arrowipc").option("mode", "PERMISSIVE")
    rows = reader.schema("why string, id int").option("columnNameOfCorruptRecord", "why").load(str(tmp_path))
    assert rows.filter("why is null").agg({"id": "sum"}).collect()[0][0] == sum(ids(0, 1, 2, 3, 4))
    with pytest.raises(PySparkException, match="NOT NULL"):
        reader.schema("id int not null").load(str(tmp_path)).collect()


def test_remote_columns_in_spark(registered: SparkSession, web: Web) -> None:
    rows = 400_000
    columns = {name: pa.array(range(rows), pa.int64()) for name in "abcdef"}
    web.files["data/x.arrow"] = file(*[pa.record_batch(columns)] * 3)
    web.token = "Bearer abc"
    options = {"storage.headers": json.dumps({"Authorization": web.token})}
    frame = load(registered, web.url("data/x.arrow"), columns="b,d", **options)
    assert frame.columns == ["b", "d"]
    assert frame.selectExpr("count(*)", "sum(b)", "max(d)").collect() == [
        (3 * rows, 3 * rows * (rows - 1) // 2, rows - 1)
    ]
    assert web.sent() < len(web.files["data/x.arrow"]) / 2
