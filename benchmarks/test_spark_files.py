"""How long does Spark take over Arrow files, and how long over the same rows in Parquet?

Ten columns of everyday types; two tasks at a time; all files lie in the page cache, and each contender has run before.

* arrowipc: ``format("arrowipc")``, the file format in the JVM; the files are not compressed, and have statistics; lz4,
  zstd: the same for compressed files. parquet, snappy: uncompressed and Snappy files of Parquet.

Needs PySpark, Java and the jar.
"""

import itertools
import shutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from measuring import data
from measuring.race import Runs, question, size

import arrowipc
from arrowipc.spark import find_jar

pytestmark = pytest.mark.spark

BATCH = 65_536
KINDS: dict[str, str | None] = {"arrowipc": None, "lz4": "lz4", "zstd": "zstd", "parquet": "none", "snappy": "snappy"}
ARROW = ("arrowipc", "lz4", "zstd")


def numbered(number: int, rows: int) -> pa.RecordBatch:
    """A batch of the ten columns whose ids follow those of the batch before."""
    return data.mixed_batch(rows).set_column(0, "id", pa.array(np.arange(number * rows, (number + 1) * rows)))


#: Tables: what makes a batch of a number, how many batches and how many files.
TABLES: dict[str, tuple[Callable[[int], pa.RecordBatch], int, int]] = {
    "one large table": (lambda number: numbered(number, BATCH), size(76, 4), 4),
    "batches of 1,000 rows": (lambda number: numbered(number, 1_000), size(4_000, 8), 4),
    "2,000 columns": (lambda number: data.plain_batch(size(2_000, 20), BATCH // 8), 2, 2),
    "files of 100 rows": (lambda number: data.mixed_batch(100), size(10_000, 4), size(10_000, 4)),
}


def write(path: Path, kind: str, batches: list[pa.RecordBatch]) -> None:
    codec: Any = KINDS[kind]
    if kind not in ARROW:
        pq.write_table(pa.Table.from_batches(batches), path, compression=codec)
        return
    with arrowipc.new_file(path, compression=codec, statistics=[batches[0].schema.names[0]]) as writer:
        writer.write(batches)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """What gives the folder of a table, with a folder per kind in it."""
    find_jar() or pytest.skip("there is no jar: python -m arrowipc.spark.jar says why")
    base = tmp_path_factory.mktemp("tables")

    @cache
    def folder(table: str) -> Path:
        make, number, files = TABLES[table]
        for kind in KINDS:
            (base / table / kind).mkdir(parents=True)
            for i in range(files):
                part = range(i * number // files, (i + 1) * number // files)
                write(base / table / kind / f"part-{i:05}.{kind}", kind, [make(each) for each in part])
        return base / table

    yield folder
    shutil.rmtree(base)


def format_of(kind: str) -> str:
    return "arrowipc" if kind in ARROW else "parquet"


def filtered(frame: Any) -> Any:
    rows = BATCH * TABLES["one large table"][1]
    chosen = frame.where(f"id between {rows // 2} and {rows // 2 + rows // 100}")
    return tuple(chosen.selectExpr("sum(price)", "max(name)").first())


def of_columns(what: str, count: int, frame: Any) -> Any:
    names = frame.columns[:: len(frame.columns) // count][:count]
    return tuple(frame.selectExpr(*[f"{what}({name})" for name in names]).first())


QUERIES: dict[str, Callable[[Any], Any]] = {
    "all columns to a sink": lambda frame: frame.write.format("noop").mode("overwrite").save(),
    "sum of one column": lambda frame: frame.agg({"id": "sum"}).first()[0],
    "ten columns aggregated": partial(of_columns, "max", 10),
    "count": lambda frame: frame.count(),
    "a filter that a hundredth passes": filtered,
    "sums of groups": lambda frame: sorted(frame.groupBy("city").agg({"id": "sum"}).collect(), key=str),
    "sum of five columns": partial(of_columns, "sum", 5),
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
@pytest.mark.parametrize("layout", ["one folder", "a folder per city"])
def test_write(spark: Any, folders: Any, tmp_path: Path, layout: str) -> Runs:
    """The rows are held in memory."""
    keys = ["city"] if layout == "a folder per city" else []
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
