"""How long does Spark take over Arrow files, and how long over the same rows in Parquet?

Ten columns of everyday types; two tasks at a time; all files lie in the page cache, and each contender has run before.

* arrowipc: ``format("arrowipc")``, the file format in the JVM; the files are not compressed, and have statistics; lz4,
  zstd: the same for compressed files. parquet, snappy: uncompressed and Snappy files of Parquet.

Needs PySpark, Java and the jar.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from measuring import data
from measuring.race import Runs, question, size
from measuring.sessions import spark_session

import arrowipc

pytestmark = pytest.mark.spark
spark = spark_session(jar=True)

BATCH = 65_536
KINDS: dict[str, str | None] = {"arrowipc": None, "lz4": "lz4", "zstd": "zstd", "parquet": "none", "snappy": "snappy"}
ARROW = ("arrowipc", "lz4", "zstd")


def numbered(number: int, rows: int) -> pa.RecordBatch:
    """A batch of the ten columns whose ids follow those of the batch before."""
    return data.mixed_batch(rows).set_column(0, "id", pa.array(np.arange(number * rows, (number + 1) * rows)))


def wide(number: int, columns: int) -> pa.RecordBatch:
    return pa.record_batch({f"c{i}": np.arange(BATCH // 8, dtype=np.int64) for i in range(columns)})


#: Tables: what makes a batch of a number, how many batches and how many files.
TABLES: dict[str, tuple[Callable[[int], pa.RecordBatch], int, int]] = {
    "one large table": (lambda number: numbered(number, BATCH), size(76, 4), 4),
    "batches of 1,000 rows": (lambda number: numbered(number, 1_000), size(4_000, 8), 4),
    "2,000 columns": (lambda number: wide(number, size(2_000, 20)), 2, 2),
    "files of 100 rows": (lambda number: data.mixed_batch(100), size(10_000, 4), size(10_000, 4)),
}


def write(path: Path, kind: str, batches: list[pa.RecordBatch]) -> None:
    codec: Any = KINDS[kind]
    if kind not in ARROW:
        pq.write_table(pa.Table.from_batches(batches), path, compression=codec)
        return
    with arrowipc.new_file(path, compression=codec, statistics=[batches[0].schema.names[0]]) as writer:
        for batch in batches:
            writer.write(batch)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """What gives the folder of a table, with a folder per kind in it."""
    made: dict[str, Path] = {}

    def folder(table: str) -> Path:
        if table not in made:
            make, number, files = TABLES[table]
            made[table] = tmp_path_factory.mktemp("table")
            for kind in KINDS:
                (made[table] / kind).mkdir()
                for i in range(files):
                    part = range(i * number // files, (i + 1) * number // files)
                    write(made[table] / kind / f"part-{i:05}.{kind}", kind, [make(each) for each in part])
        return made[table]

    yield folder
    for path in made.values():
        shutil.rmtree(path)


def format_of(kind: str) -> str:
    return "arrowipc" if kind in ARROW else "parquet"


def dropped(frame: Any) -> None:
    """Send all columns to a sink that drops them."""
    frame.write.format("noop").mode("overwrite").save()


def aggregated(frame: Any) -> Any:
    return tuple(frame.selectExpr(*[f"max({column})" for column in frame.columns]).first())


def filtered(frame: Any) -> Any:
    rows = BATCH * TABLES["one large table"][1]
    chosen = frame.where(f"id between {rows // 2} and {rows // 2 + rows // 100}")
    return tuple(chosen.selectExpr("sum(price)", "max(name)").first())


def grouped(frame: Any) -> Any:
    return sorted(frame.groupBy("city").agg({"id": "sum"}).collect(), key=str)


def five(frame: Any) -> Any:
    names = frame.columns[:: len(frame.columns) // 5][:5]
    return tuple(frame.selectExpr(*[f"sum({name})" for name in names]).first())


QUERIES: dict[str, Callable[[Any], Any]] = {
    "all columns to a sink": dropped,
    "sum of one column": lambda frame: frame.agg({"id": "sum"}).first()[0],
    "ten columns aggregated": aggregated,
    "count": lambda frame: frame.count(),
    "a filter that a hundredth passes": filtered,
    "sums of groups": grouped,
    "sum of five columns": five,
}
CASES = [
    *[("one large table", query) for query in list(QUERIES)[:6]],
    *[("batches of 1,000 rows", query) for query in ("all columns to a sink", "sums of groups")],
    *[("2,000 columns", "sum of five columns"), ("files of 100 rows", "count")],
]


@question("Spark: read Arrow files", KINDS, unit="query", baseline="snappy")
@pytest.mark.parametrize(("table", "query"), CASES)
def test_read(spark: Any, folders: Any, table: str, query: str) -> Runs:
    folder, ask = folders(table), QUERIES[query]

    def answer(kind: str) -> Any:
        return ask(spark.read.format(format_of(kind)).load(str(folder / kind)))

    return {kind: partial(answer, kind) for kind in KINDS}


@question("Spark: write Arrow files", KINDS, unit="query", baseline="snappy")
@pytest.mark.parametrize("keys", [(), ("city",)], ids=["one folder", "a folder per city"])
def test_write(spark: Any, folders: Any, tmp_path: Path, keys: tuple[str, ...]) -> Runs:
    """The rows are held in memory."""
    frame = spark.read.format("arrowipc").load(str(folders("one large table") / "arrowipc")).repartition(2).cache()
    rows, turn = frame.count(), itertools.count()

    def written(kind: str) -> None:
        path = tmp_path / str(next(turn))
        to = frame.write.partitionBy(*keys).format(format_of(kind))
        to.option("compression", KINDS[kind] or "none").save(str(path))
        if path.name in seen:
            assert spark.read.format(format_of(kind)).load(str(path)).count() == rows
        shutil.rmtree(path)

    seen = {str(number) for number in range(len(KINDS))}
    return {kind: partial(written, kind) for kind in KINDS}
