"""Data sets in polars and DuckDB: the same rows as by their own reading, of no more batches than are needed."""

import datetime as dt
import operator
import random
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from helpers import optional
from helpers.processes import rounds

import arrowipc as ipc
from arrowipc import UsageError
from arrowipc.filters.pruning import Pruner
from arrowipc.multifile.filters import from_polars

duckdb = optional("duckdb")
pl = optional("polars")

DAY = dt.datetime(2024, 1, 1)
ROWS, BATCHES, FILES = 20, 8, 3


def table_of(number: int, chance: random.Random) -> pa.Table:
    """Rows of one file: `id` and `t` rise through all files."""
    rows = ROWS * BATCHES
    ids = range(number * rows, (number + 1) * rows)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "t": pa.array([DAY + dt.timedelta(hours=i) for i in ids], pa.timestamp("ms")),
            "x": pa.array([None if i % 7 == 0 else chance.random() * 100 for i in ids], pa.float64()),
            "word": pa.array([f"word {i // 50:03}" for i in ids]),
            "code": pa.array([f"code {i // 100}" for i in ids]).dictionary_encode(),
            "none": pa.array([None if i < 200 else i for i in ids], pa.int32()),
            "place": pa.array([{"lat": i / 10, "name": "x"} for i in ids]),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scan")
    chance = random.Random(3)
    for number in range(FILES):
        with ipc.new_file(path / f"{number}.arrow", statistics=True, durable=False) as writer:
            writer.write_table(table_of(number, chance), ROWS)
    return path


class Counted:
    """A data set that counts the batches that it hands out, and notes what is asked of it."""

    def __init__(self, dataset: Any, log: list[Any]) -> None:
        self.dataset, self.log, self.schema = dataset, log, dataset.schema

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if name != "count_rows":
                self.log.append((name, *arguments))
            found = getattr(self.dataset, name)(*arguments, **options)
            return Counted(found, self.log) if isinstance(found, ipc.Dataset) else found

        return call

    def __iter__(self) -> Any:
        for batch in self.dataset:
            self.log.append(batch.num_rows)
            yield batch


def scanned(folder: Path) -> tuple[pl.LazyFrame, list[Any]]:
    log: list[Any] = []
    return ipc.scan_polars(Counted(ipc.open_dataset(folder), log)), log


same = partial(optional("polars.testing").assert_frame_equal, categorical_as_str=True)
col = partial(pl.col)  # pytest-run-parallel asks names of the module for attributes, which are columns to polars
PREDICATES = {
    "one batch": (col("id") == 45, 1),
    "a range": (col("id").is_between(30, 45), 2),
    "two ends": ((col("id") >= 30) & (col("id") < 40), 1),
    "literal first": (pl.lit(470) < col("id"), 1),
    "or": ((col("id") < 5) | (col("id") > 475), 2),
    "some": (col("id").is_in([3, 100, 9999]), 2),
    "not": (~(col("id") >= 20), 1),
    "moments": (col("t") >= DAY + dt.timedelta(hours=470), 1),
    "a day": (col("t") < dt.date(2024, 1, 2), 2),
    "text": (col("word") == "word 001", 3),
    "prefix": (col("word").str.starts_with("word 00") & (col("id") > 440), 2),
    "categories": (col("code") == "code 4", 4),
    "order of categories": (col("code") > "code 3", 24),
    "nulls": (col("none").is_null(), 10),
    "no nulls": (col("none").is_not_null() & (col("id") < 210), 1),
    "of a struct": (col("place").struct.field("lat") > 47.5, 1),
    "what is not known": (col("id").sqrt() < 2, 24),
    "known and not known": ((col("id") < 5) & (col("x").sqrt() < 8), 1),
    "known or not known": ((col("id") < 5) | (col("x").sqrt() < 2), 24),
    "nothing": (col("id") > 10**6, 0),
}


@pytest.mark.parametrize("name", PREDICATES)
def test_polars_reads_only_batches_that_rows_may_be_in(folder, name):
    predicate, batches = PREDICATES[name]
    frame, log = scanned(folder)
    found = frame.filter(predicate).collect()
    own = pl.scan_ipc(folder / "*.arrow").filter(predicate).collect()
    same(found, own)
    assert len([each for each in log if isinstance(each, int)]) == batches


def test_polars_reads_only_the_columns_that_it_needs(folder):
    frame, log = scanned(folder)
    assert frame.filter(pl.col("id") < 30).select("word").collect().height == 30
    assert ("select", ["id", "word"]) in log
    frame, log = scanned(folder)
    assert frame.select(pl.len()).collect().item() == ROWS * BATCHES * FILES
    assert not log
    assert frame.select(pl.len().alias("n"), "id").collect().shape == (ROWS * BATCHES * FILES, 2)
    assert ("select", ["id"]) in log


def test_polars_reads_only_as_many_rows_as_it_needs(folder):
    own = pl.scan_ipc(folder / "*.arrow")
    for query in (
        lambda frame: frame.head(25),
        lambda frame: frame.head(0),
        lambda frame: frame.head(25).filter(pl.col("id") > 22),
        lambda frame: frame.filter(pl.col("id") > 22).head(3),
        lambda frame: frame.select("id", "word").slice(23, 4),
        lambda frame: frame.slice(23, 24),
        lambda frame: frame.slice(-23, 4).select("word"),
        lambda frame: frame.slice(-500, 30),
        lambda frame: frame.slice(470),
        lambda frame: frame.slice(1000, 3),
        lambda frame: frame.tail(3).filter(pl.col("id") > 477),
        lambda frame: frame.tail(30).head(3),
        lambda frame: frame.last(),
        lambda frame: frame.select(pl.len()).filter(pl.col("len") > 1000),
        lambda frame: frame.select(pl.len()).head(0),
    ):
        frame, log = scanned(folder)
        same(query(frame).collect(), query(own).collect())
    frame, log = scanned(folder)
    assert frame.tail(3).collect()["id"].to_list() == [477, 478, 479]
    assert log == [("slice", 477, 3)]
    frame, log = scanned(folder)
    frame.head(25).collect()
    assert [each for each in log if isinstance(each, int)] == [20, 20]
    frame, log = scanned(folder)
    # The limit counts rows before the filter: none may be left out before them.
    assert frame.head(25).filter(pl.col("id") > 100).collect().height == 0


def test_rows_of_the_middle_are_validated_alone(tmp_path):
    words = pa.table({"word": [f"word {i}" for i in range(8)], "parts": [[f"part {i}"] * i for i in range(8)]})
    with ipc.new_file(path := tmp_path / "damaged.arrow", durable=False) as writer:
        writer.write_table(pa.concat_tables([words, words]), 8)
    path.write_bytes(path.read_bytes().replace(b"part 3", b"part \xff", 1))
    found = ipc.scan_polars(path).slice(5, 6).collect()
    assert found.rows() == [tuple(row.values()) for row in [*words.to_pylist()[5:], *words.to_pylist()[:3]]]
    dataset = ipc.open_dataset(path)
    with pytest.raises(ipc.FormatError, match=r"record batch 0 .*parts") as whole:
        dataset.slice(1, 3)
    with pytest.raises(ipc.FormatError, match=r"record batch 0 .*parts") as alone:
        dataset.slice(1, 3, alone=True)
    assert str(alone.value) == str(whole.value)
    with pytest.raises(ipc.FormatError, match="record batch 0"):
        ipc.open_dataset(path, validate="strict").slice(5, 6, alone=True)


@pytest.mark.campaign
def test_random_predicates_give_what_polars_finds_itself(folder):
    chance = random.Random(11)
    frame, own = ipc.scan_polars(folder), pl.read_ipc(str(folder / "*.arrow"))
    schema = ipc.open_dataset(folder).schema
    understood = 0
    count = rounds(20, 400)
    for _ in range(count):
        parts = []
        for _ in range(chance.randint(1, 3)):
            name = chance.choice(["id", "x", "none", "word", "t"])
            value = own[name][chance.randrange(len(own))]
            value = own[name].drop_nulls()[chance.randrange(200)] if value is None else value
            compare = chance.choice([operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne])
            part = compare(pl.col(name), value)
            parts.append(chance.choice([part, part, ~part, pl.col(name).is_null(), pl.col(name).is_in([value])]))
        predicate = reduce(chance.choice([operator.and_, operator.or_]), parts)
        understood += from_polars(predicate, schema) is not None
        same(frame.filter(predicate).collect(), own.filter(predicate))
    assert understood > count * 0.9


def test_literals_of_all_kinds_are_understood():
    values = {
        "b": [b"x"],
        "flag": [True],
        "day": [dt.date(2024, 1, 1)],
        "time": [dt.time(1)],
        "span": [dt.timedelta(1)],
        "zoned": [DAY.replace(tzinfo=dt.UTC)],
    }
    frame = pl.DataFrame(values).with_columns(f=pl.Series([1.5], dtype=pl.Float32))
    schema = ipc.RecordBatch.from_arrow(frame).schema
    for predicate, expected in (
        (col("b") == b"y", ("b", "==", b"y")),
        (col("flag"), ("flag", "==", True)),
        (col("day") > dt.date(2025, 1, 1), ("day", ">", dt.date(2025, 1, 1))),
        (col("time") > dt.time(2), ("time", ">", dt.time(2))),
        (col("span") < dt.timedelta(0), ("span", "<", dt.timedelta(0))),
        (col("zoned") < DAY.replace(tzinfo=dt.UTC), ("zoned", "<", DAY.replace(tzinfo=dt.UTC))),
        (col("f") < 0.5, ("f", "<", 0.5)),
        (~col("b").is_in([b"x"]), ("not", ("b", "in", [b"x"]))),
    ):
        assert from_polars(predicate, schema) == expected
        Pruner(expected, schema)
    for unknown in (
        col("b").map_elements(lambda value: True, return_dtype=pl.Boolean),
        pl.lit(True),
        col("f").eq_missing(1.0),
        col("f").abs() > 1,
        ~((col("f") > 1) & (col("f").abs() > 1)),
    ):
        assert from_polars(unknown, schema) is None


def test_paths_with_options(folder):
    frame = ipc.scan_polars(sorted(folder.iterdir())[:1], columns=["id", "x"])
    assert frame.collect().shape == (ROWS * BATCHES, 2)
    assert frame.collect_schema().names() == ["id", "x"]
    with pytest.raises(UsageError, match="is open already; columns have no effect"):
        ipc.scan_polars(ipc.open_dataset(folder), columns=["id"])


def test_duckdb_reads_a_data_set_of_what_is_needed(folder):
    needed = ipc.open_dataset(folder).select(["id", "x"]).prune([("id", ">=", 470)])
    assert sum(batch.num_rows for batch in needed) == ROWS
    own = pyarrow.dataset.dataset(folder, format="ipc")
    query = "select count(*), sum(id), round(sum(x), 6) from {} where id >= 470"
    found = duckdb.sql(query.format("needed")).fetchall()
    assert found == duckdb.from_arrow(own).query("own", query.format("own")).fetchall()
    assert found[0][:2] == (10, sum(range(470, 480)))
    stream = pa.RecordBatchReader.from_stream(needed)
    assert duckdb.from_arrow(stream).filter("id >= 470").count("*").fetchall() == [(10,)]
