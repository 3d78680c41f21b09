"""How long does Spark take to decode a column of payloads in ``mapInArrow``, and how long without decoding?

Each cell is a stream of ten rows of a timestamp, a 32-bit number, a text, a double and a bool. The column is
in Spark's cache before anything is measured; two tasks at a time send it to Python workers, which send rows
back to a sink that drops them.

* pyarrow: each cell opened as a stream, the tables joined, at most 10,000 rows to a batch.
* pyarrow known: each cell's messages read one by one, the batch with the schema known beforehand.
* arrowipc: ``decode_payload_batches``, with all checks.
* no decode: the same number of equal rows, made once and sent again and again: the ceiling for any decoder.
* drain: the cells arrive in the worker and nothing is sent back.

The ceilings of ``decode_payloads`` and of the column function ``from_arrow``, whose arrays Spark makes rows of, are
told for 1, 10, 100 and 1,000 rows per payload, with none, one and ten kept columns, half of them texts.

The steps of these jobs are told by the workers while they run, per payload, both workers' seconds added up
(so that two at a time make half of it on the wall):

* JVM to worker: waiting until the next batch of cells is there, and making it a pyarrow batch;
* decode: from the batch of cells to batches of rows;
* worker to JVM: from handing a batch of rows to Spark until Spark asks for the next one, which is when it is
  sent.

The JVM works beside the worker: while a slow decoder decodes, cells arrive and rows leave, so that these two
steps look short. What is left of a job's time is Spark's own: planning, starting tasks, the sink. The
processor time is that of the decode step alone. Without Spark or Java nothing is measured.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import data
from benchmarks.harness import Case, Fact, Run, Scale

TITLE = "payloads decoded in Spark"

#: What the worker tells the seconds of.
STEPS = ("JVM to worker", "decode", "worker to JVM", "decode, processor time")

ROWS = 10
OUTPUT_ROWS = 10_000
DISTINCT = 1_000
DDL = "at timestamp, number int, word string, value double, flag boolean"

Batches = Iterable[Any]
Decode = Callable[[Batches], Iterator[Any]]


def missing() -> str | None:
    """Return why nothing can be measured, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    from arrowipc.spark.java import NO_JAVA, find_java

    return NO_JAVA if find_java() is None else None


def cases(scale: Scale) -> Iterator[Case | Fact]:
    """End to end beside pyarrow and beside no decoding at all; then the steps of these jobs."""
    from arrowipc.spark.local_session import start_session

    count = 400_000 if scale.thorough else scale.size(40_000, 50)
    with (
        tempfile.TemporaryDirectory() as folder,
        start_session("local[2]", Path(folder, "spark.log")) as spark,
    ):
        job = Job(spark, count)
        name = f"{count} streams of {job.size // count} bytes"
        decoders = {each: job.runner(each) for each in ("pyarrow", "pyarrow known", "arrowipc")}
        case = Case(f"{name} to rows", "payload", count, decoders, goal=3.5, touched=job.size, threads=2)
        yield replace(case, row="spark pyarrow", named=True)
        parts = {each: job.runner(each) for each in ("no decode", "arrowipc", "drain")}
        case = Case(f"{name}, the ceiling", "payload", count, parts, goal=0.8, baseline="no decode", threads=2)
        yield replace(case, row="spark", named=True)
        for step in STEPS:
            yield Fact(f"{name}: {step}", job.steps(step), "payload")
        job.cells.unpersist()
        for rows in (1, 10, 100, 1000):
            count = min(scale.size(1_000_000, 1_000) // rows, scale.size(40_000, 50))
            job = Job(spark, count, rows)
            for kept in (0, 1, 10):
                runs = job.by_data_frame([f"kept{number}" for number in range(kept)])
                for function, goal, others in (("decode_payloads", 0.9, ()), ("from_arrow", 0.75, ("pyarrow",))):
                    name = f"{count} streams of {rows} rows, {kept} columns kept: {function}"
                    columns = {"arrowipc": runs[function], **{each: runs[each] for each in ("no decode", *others)}}
                    yield Case(name, "payload", count, columns, goal=goal, baseline="no decode", threads=2)
            job.cells.unpersist()


class Job:
    """A column of payloads in Spark's cache, and what is done with it.

    Attributes
    ----------
    cells : pyspark.sql.DataFrame
    size : int
        Bytes of all cells.
    decoders : dict of str to callable
        What turns batches of cells into batches of rows.
    """

    def __init__(self, spark: Any, count: int, each: int = ROWS) -> None:
        from pyspark import cloudpickle
        from pyspark.sql.types import StructType

        # The workers cannot import the benchmarks: what they run is sent to them whole.
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        self.context = spark.sparkContext
        self.count, self.each = count, each
        wanted = StructType.fromDDL(DDL)
        schema, payloads = different_payloads(min(count, DISTINCT * ROWS // each), each)
        self.rows = rows = rows_of(payloads)
        self.decoders: dict[str, Decode] = {
            "pyarrow": by_pyarrow,
            "pyarrow known": lambda batches: by_known_schema(batches, schema),
            "arrowipc": lambda batches: by_arrowipc(batches, wanted),
            "no decode": lambda batches: without_decoding(batches, rows, each),
            "drain": drain,
        }
        column = pa.record_batch({"payload": pa.array(payloads, pa.binary())})

        def make(batches: Batches) -> Iterator[Any]:
            for batch in batches:
                yield column.take(pa.array(batch["id"].to_numpy() % column.num_rows))

        self.seconds: dict[str, list[dict[str, float]]] = {name: [] for name in self.decoders}
        self.cells = spark.range(0, count, 1, 2).mapInArrow(make, "payload binary").cache()
        self.size = sum(map(len, payloads)) * count // len(payloads)
        assert self.cells.count() == count

    def runner(self, name: str) -> Run:
        """Return a run of the whole job, which returns the number of cells and remembers the steps."""
        return lambda: self.run(name)

    def by_data_frame(self, keep: list[str]) -> dict[str, Run]:
        """Return runs over the payloads and columns to keep: by our functions, by pyarrow, and without decoding."""
        from pyspark.sql import functions as F

        from arrowipc.spark import decode_payloads, from_arrow

        key = F.monotonically_increasing_id() % 100
        kept = [(key if number % 2 else F.concat(F.lit("key "), key)).alias(name) for number, name in enumerate(keep)]
        cells = self.cells.select(*kept, "payload")
        output = ", ".join([*(f"{name} {kind}" for name, kind in cells.dtypes[:-1]), DDL])
        ready, each = self.rows, self.each
        for number, name in enumerate(keep):
            values = pa.array(np.arange(ready.num_rows) % 100)
            column = values if number % 2 else pa.array([f"key {value}" for value in values.to_pylist()])
            ready = ready.add_column(number, name, column)

        def run(make: Callable[[], Any]) -> int:
            make().write.format("noop").mode("overwrite").save()
            return self.count

        frames = {
            "no decode": lambda: cells.mapInArrow(lambda batches: without_decoding(batches, ready, each), output),
            "pyarrow": lambda: cells.mapInArrow(by_pyarrow, output),
            "decode_payloads": lambda: decode_payloads(cells, "payload", DDL, keep=keep),
            "from_arrow": lambda: cells.select(*keep, F.inline(from_arrow("payload", DDL))),
        }
        return {name: partial(run, make) for name, make in frames.items()}

    def steps(self, step: str) -> dict[str, list[float]]:
        """Return the seconds per payload of a step, of every run but the first, which warmed up."""
        return {
            name: [seconds[step] / self.count for seconds in runs[1:] or runs] for name, runs in self.seconds.items()
        }

    def run(self, name: str) -> int:
        """Decode all cells and drop the rows."""
        decode = self.decoders[name]
        cells, rows = self.context.accumulator(0), self.context.accumulator(0)
        seconds = {step: self.context.accumulator(0.0) for step in STEPS}

        def timed(batches: Batches) -> Iterator[Any]:
            watch = Watch()

            def counted() -> Iterator[Any]:
                watch.begin("JVM to worker")
                for batch in batches:
                    cells.add(batch.num_rows)
                    watch.begin("decode")
                    yield batch
                    watch.begin("JVM to worker")
                watch.begin("decode")

            watch.begin("decode")
            for batch in decode(counted()):
                rows.add(batch.num_rows)
                watch.begin("worker to JVM")
                yield batch
                watch.begin("decode")
            watch.begin("")
            for step, spent in watch.seconds.items():
                seconds[step].add(spent)

        self.cells.mapInArrow(timed, DDL).write.format("noop").mode("overwrite").save()
        assert cells.value == self.count, f"{cells.value} cells"
        assert rows.value == (0 if decode is drain else ROWS * self.count), f"{rows.value} rows"
        self.seconds[name].append({step: spent.value for step, spent in seconds.items()})
        return int(cells.value)


class Watch:
    """Adds up how long each step takes.

    Attributes
    ----------
    seconds : dict of str to float
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STEPS, 0.0)
        self._step = ""
        self._since = (0.0, 0.0)

    def begin(self, step: str) -> None:
        """End the step that lasts, and begin another one; "" for none."""
        wall, used = time.perf_counter(), time.process_time()
        if self._step:
            self.seconds[self._step] += wall - self._since[0]
        if self._step == "decode":
            self.seconds["decode, processor time"] += used - self._since[1]
        self._step, self._since = step, (wall, used)


def different_payloads(count: int, rows: int) -> tuple[Any, list[bytes]]:
    """Return the schema of rows, and streams of so many of them each."""
    random = np.random.default_rng(1)
    batches = []
    for number in range(count):
        at = 1_700_000_000_000_000 + 1_000_000 * (rows * number + np.arange(rows))
        columns = {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "number": pa.array(random.integers(0, 1 << 30, rows), pa.int32()),
            "word": pa.array([f"word {each}" for each in random.integers(0, 1000, rows)]),
            "value": pa.array(random.random(rows)),
            "flag": pa.array(random.random(rows) < 0.5),
        }
        batches.append(pa.record_batch(columns))
    return batches[0].schema, [data.stream([batch]) for batch in batches]


def by_pyarrow(batches: Batches) -> Iterator[Any]:
    """Open each cell of the last column as a stream, and repeat the columns before it."""
    for batch in batches:
        tables = [pa.ipc.open_stream(cell.as_buffer()).read_all() for cell in batch.columns[-1]]
        rows = pa.concat_tables(tables).combine_chunks()
        parents = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
        for number, name in enumerate(batch.schema.names[:-1]):
            rows = rows.add_column(number, name, batch.column(number).take(pa.array(parents)))
        yield from rows.to_batches(max_chunksize=OUTPUT_ROWS)


def by_known_schema(batches: Batches, schema: Any) -> Iterator[Any]:
    """Read the messages of each cell."""
    for batch in batches:
        found = []
        for cell in batch.column(0):
            reader = pa.ipc.MessageReader.open_stream(cell.as_buffer())
            reader.read_next_message()
            found.append(pa.ipc.read_record_batch(reader.read_next_message(), schema))
        yield from pa.Table.from_batches(found).combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)


def by_arrowipc(batches: Batches, schema: Any) -> Iterator[Any]:
    """Decode with our generator."""
    from arrowipc.spark import decode_payload_batches

    return decode_payload_batches(batches, "payload", schema)


def rows_of(payloads: list[bytes]) -> Any:
    """Return a batch as large as those sent to Spark, of the rows of the payloads."""
    tables = [pa.ipc.open_stream(each).read_all() for each in payloads]
    tables *= -(-OUTPUT_ROWS // (tables[0].num_rows * len(tables)))
    return pa.concat_tables(tables).combine_chunks().to_batches()[0].slice(0, OUTPUT_ROWS)


def without_decoding(batches: Batches, rows: Any, each: int) -> Iterator[Any]:
    """Send as many rows as the cells hold, which are there already."""
    for batch in batches:
        left = each * batch.num_rows
        while left:
            some = rows.slice(0, min(left, OUTPUT_ROWS))
            left -= some.num_rows
            yield some


def drain(batches: Batches) -> Iterator[Any]:
    """Take the cells and send nothing back."""
    for _ in batches:
        pass
    yield from ()
