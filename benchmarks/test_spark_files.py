"""How much does Spark compute for Arrow files, and how much for the same rows in Parquet?

Ten columns of everyday types; two tasks at a time; all files lie in the page cache, and each contender has run before.
The figures are the processor time of all processes, as the time of a query varies by a quarter on two cores.

* arrowipc: ``format("arrowipc")``, the file format in the JVM; the files are not compressed, and have statistics.
* snappy: Parquet as Spark writes it.
* Spark's cache: the rows are in Spark's own memory already, so this is what no file format can be below.
* Streams are read in splits of 8 MiB. A stream has no index: a task begins where another task of the JVM has been,
  or reads the headers of all messages before its split.
* A fresh session is a process of its own: the seconds from the first call that names the files to the answer.

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
from measuring import children, data
from measuring.children import processor_time
from measuring.race import Runs, question, size

import arrowipc
from arrowipc.spark import find_jar

pytestmark = pytest.mark.spark

BATCH = 65_536
KINDS = ("arrowipc", "snappy")
PEERS = (*KINDS, "Spark's cache")


def numbered(number: int, rows: int) -> pa.RecordBatch:
    """A batch of the ten columns whose ids follow those of the batch before."""
    return data.mixed_batch(rows).set_column(0, "id", pa.array(np.arange(number * rows, (number + 1) * rows)))


def nested(rows: int) -> pa.RecordBatch:
    """A batch of an id and a struct of the ten columns."""
    columns = data.mixed_batch(rows)
    return pa.record_batch({"id": columns["id"], "all": columns.to_struct_array()})


#: Tables: what makes a batch of a number, how many batches and how many files.
TABLES: dict[str, tuple[Callable[[int], pa.RecordBatch], int, int]] = {
    "one large table": (lambda number: numbered(number, BATCH), size(76, 4), 4),
    "batches of 1,000 rows": (lambda number: numbered(number, 1_000), size(4_000, 8), 4),
    "a struct of ten": (lambda number: nested(BATCH), size(38, 4), 4),
    "2,000 columns": (lambda number: data.plain_batch(size(2_000, 20), BATCH // 8), 2, 2),
    "2,000 files of 100 rows": (lambda number: data.mixed_batch(100), size(2_000, 4), size(2_000, 4)),
    "100,000 rows": (lambda number: numbered(number, size(100_000, 100)), 1, 1),
    "streams of 1,000 batches": (lambda number: numbered(number, 1_000), size(4_000, 8), 4),
}


def write(path: Path, kind: str, batches: list[pa.RecordBatch]) -> None:
    if kind == "snappy":
        pq.write_table(pa.Table.from_batches(batches), path)
        return
    new = arrowipc.new_stream if kind == "stream" else arrowipc.new_file
    with new(path, statistics=[batches[0].schema.names[0]]) as writer:
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
                written = "stream" if kind == "arrowipc" and table.startswith("streams") else kind
                write(base / table / kind / f"part-{i:05}.{kind}", written, [make(each) for each in part])
        # Under another name: Spark would answer every query about these files from its cache.
        (base / table / "Spark's cache").symlink_to("arrowipc")
        return base / table

    yield folder
    shutil.rmtree(base)


def format_of(kind: str) -> str:
    return "parquet" if kind == "snappy" else "arrowipc"


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
    "sum of one field": lambda frame: frame.agg({"all.id": "sum"}).first()[0],
}
CASES = [
    *[("one large table", query) for query in list(QUERIES)[:6]],
    *[("batches of 1,000 rows", query) for query in ("all columns to a sink", "sum of one column", "sums of groups")],
    *[("a struct of ten", query) for query in ("all columns to a sink", "sum of one field")],
    *[("2,000 columns", "sum of five columns"), ("2,000 files of 100 rows", "count")],
    *[("streams of 1,000 batches", query) for query in ("sum of one column", "count")],
]


@question("Spark: {query} of {table}", PEERS, unit="query", baseline="snappy", timed=True)
@pytest.mark.parametrize(("table", "query"), CASES)
def test_read(spark: Any, folders: Any, table: str, query: str) -> Iterator[Runs]:
    folder, ask = folders(table), QUERIES[query]
    spark.conf.set("spark.sql.files.maxPartitionBytes", "8m" if table.startswith("streams") else "128m")

    def read(kind: str) -> Any:
        return spark.read.format(format_of(kind)).load(str(folder / kind))

    frames, answers = {"Spark's cache": read("Spark's cache").cache()}, []

    def run(kind: str) -> None:
        answers.append(ask(frames.get(kind) or read(kind)))
        assert answers[-1] == answers[0]

    yield {kind: partial(processor_time, partial(run, kind)) for kind in PEERS}
    frames["Spark's cache"].unpersist(blocking=True)


FRESH = """
from time import perf_counter
from arrowipc.spark import session
spark = session("local[2]", {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"} | settings)
spark.range(10).count()
start = perf_counter()
spark.read.format(format).load(path).selectExpr(*[f"max({name})" for name in names]).first()
print(perf_counter() - start)
"""


def fresh(kind: str, folder: Path, names: list[str], **settings: str) -> float:
    """Return the seconds of a query in a session that has counted ten numbers, whose classes every query needs."""
    given = {"format": format_of(kind), "path": str(folder / kind), "names": names, "settings": settings}
    return children.printed("\n".join(f"{name} = {value!r}" for name, value in given.items()) + FRESH)


@question("Spark: the first query of a session, 100,000 rows", KINDS, unit="query", baseline="snappy", timed=True)
def test_first_query(folders: Any) -> Runs:
    return {kind: partial(fresh, kind, folders("100,000 rows"), ["price", "city"]) for kind in KINDS}


@question("Spark: 10 GB with 1 GB of memory", KINDS, unit="query", baseline="snappy", timed=True, once=True)
def test_more_than_memory(folders: Any, tmp_path: Path) -> Runs:
    """The files of the large table, each of which has 24 names."""
    for kind, number in itertools.product(KINDS, range(size(24, 2))):
        (tmp_path / kind).mkdir(exist_ok=True)
        for path in (folders("one large table") / kind).iterdir():
            (tmp_path / kind / f"{number}-{path.name}").hardlink_to(path)
    names = data.mixed_batch(1).schema.names
    return {kind: partial(fresh, kind, tmp_path, names, **{"spark.driver.memory": "1g"}) for kind in KINDS}


LAYOUTS = ("one folder", "a folder per city", "200 tasks")
WRITERS = (*KINDS, "rows dropped")


@question("Spark: write {layout}", WRITERS, unit="query", baseline="snappy", timed=True)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_write(spark: Any, folders: Any, tmp_path: Path, layout: str) -> Iterator[Runs]:
    """The rows are held in memory. A sink that drops them gets them sorted, as Spark sorts them for folders."""
    keys = ["city"] if layout == "a folder per city" else []
    read = spark.read.format("arrowipc").load(str(folders("one large table") / "arrowipc"))
    frame = read.repartition(size(200, 4) if layout == "200 tasks" else 2).cache()
    rows, turn, seen = frame.count(), itertools.count(), set()

    def written(kind: str, path: Path) -> None:
        frame.write.partitionBy(*keys).format(format_of(kind)).save(str(path))

    def run(kind: str) -> float:
        if kind == "rows dropped":
            rows_in_order = frame.sortWithinPartitions(*keys) if keys else frame
            return processor_time(rows_in_order.write.format("noop").mode("overwrite").save)
        path = tmp_path / str(next(turn))
        taken = processor_time(partial(written, kind, path))
        assert kind in seen or spark.read.format(format_of(kind)).load(str(path)).count() == rows
        seen.add(kind)
        shutil.rmtree(path)
        return taken

    yield {kind: partial(run, kind) for kind in WRITERS}
    frame.unpersist(blocking=True)
