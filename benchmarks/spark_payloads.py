"""How long does Spark take to decode a column of payloads in ``mapInArrow``, and how long without decoding?

Each cell is a stream of ten rows of a timestamp, a 32-bit number, a text, a double and a bool. The column is
in Spark's cache before anything is measured; two tasks at a time send it to Python workers, which send rows
back to a sink that drops them.

* pyarrow: each cell opened as a stream, the tables joined, at most 10,000 rows to a batch.
* pyarrow known: each cell's messages read one by one, the batch with the schema known beforehand.
* arrowipc: ``decode_payload_batches``, with all checks.
* no decode: the same number of equal rows, made once and sent again and again: the ceiling for any decoder.
* drain: the cells arrive in the worker and nothing is sent back.

The processor time is what the worker's function used until it had its batches, without what Spark does around
it. Without Spark or Java nothing is measured.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import data
from benchmarks.harness import Case, Run, Scale

TITLE = "payloads decoded in Spark"

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


def cases(scale: Scale) -> Iterator[Case]:
    """End to end beside pyarrow and beside no decoding at all; then the processor time of decoding."""
    why = missing()
    if why is not None:
        print(f"{TITLE}: not measured: {why}", file=sys.stderr)
        return
    from arrowipc.spark.session import start_session

    count = 400_000 if scale.thorough else scale.size(100_000, 50)
    with (
        tempfile.TemporaryDirectory() as folder,
        start_session("local[2]", Path(folder, "spark.log")) as spark,
    ):
        job = Job(spark, count)
        name = f"{count} streams of {job.size // count} bytes"
        runs: dict[str, Run] = {each: job.wall(decode) for each, decode in job.decoders.items()}
        decoders = {each: runs[each] for each in ("pyarrow", "pyarrow known", "arrowipc")}
        yield Case(f"{name} to rows", "payload", count, decoders, goal=3.5, touched=job.size, threads=2)
        parts = {each: runs[each] for each in ("no decode", "arrowipc", "drain")}
        yield Case(f"{name}, the ceiling", "payload", count, parts, goal=0.8, baseline="no decode", threads=2)
        used = {each: job.processor(decode) for each, decode in job.decoders.items()}
        yield Case(f"{name}, processor time in the decoder", "payload", count, used, timed=True)
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

    def __init__(self, spark: Any, count: int) -> None:
        from pyspark import cloudpickle
        from pyspark.sql.types import StructType

        # The workers cannot import the benchmarks: what they run is sent to them whole.
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        self.context = spark.sparkContext
        self.count = count
        wanted = StructType.fromDDL(DDL)
        schema, payloads = different_payloads(min(count, DISTINCT))
        rows = rows_of(payloads)
        self.decoders: dict[str, Decode] = {
            "pyarrow": by_pyarrow,
            "pyarrow known": lambda batches: by_known_schema(batches, schema),
            "arrowipc": lambda batches: by_arrowipc(batches, wanted),
            "no decode": lambda batches: without_decoding(batches, rows),
            "drain": drain,
        }
        column = pa.record_batch({"payload": pa.array(payloads, pa.binary())})

        def make(batches: Batches) -> Iterator[Any]:
            for batch in batches:
                yield column.take(pa.array(batch["id"].to_numpy() % column.num_rows))

        self.cells = spark.range(0, count, 1, 2).mapInArrow(make, "payload binary").cache()
        self.size = sum(map(len, payloads)) * count // len(payloads)
        assert self.cells.count() == count

    def wall(self, decode: Decode) -> Run:
        """Return a run of the whole job, which returns the number of cells."""
        return lambda: self.run(decode)[0]

    def processor(self, decode: Decode) -> Run:
        """Return a run that returns the seconds which the workers spent in the decoder."""
        return lambda: self.run(decode)[1]

    def run(self, decode: Decode) -> tuple[int, float]:
        """Decode all cells and drop the rows; returns cells and processor seconds."""
        cells, rows, seconds = (self.context.accumulator(zero) for zero in (0, 0, 0.0))

        def timed(batches: Batches) -> Iterator[Any]:
            waited = [0.0]

            def counted() -> Iterator[Any]:
                # What taking a batch from Spark costs is not the decoder's.
                start = time.process_time()
                for batch in batches:
                    waited[0] += time.process_time() - start
                    cells.add(batch.num_rows)
                    yield batch
                    start = time.process_time()

            found = decode(counted())
            while True:
                start, waited[0] = time.process_time(), 0.0
                batch = next(found, None)
                seconds.add(time.process_time() - start - waited[0])
                if batch is None:
                    return
                rows.add(batch.num_rows)
                yield batch

        self.cells.mapInArrow(timed, DDL).write.format("noop").mode("overwrite").save()
        assert cells.value == self.count, f"{cells.value} cells"
        assert rows.value == (0 if decode is drain else ROWS * self.count), f"{rows.value} rows"
        return cells.value, seconds.value


def different_payloads(count: int) -> tuple[Any, list[bytes]]:
    """Return the schema of rows, and streams of ten of them each."""
    random = np.random.default_rng(1)
    batches = []
    for number in range(count):
        at = 1_700_000_000_000_000 + 1_000_000 * (ROWS * number + np.arange(ROWS))
        columns = {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "number": pa.array(random.integers(0, 1 << 30, ROWS), pa.int32()),
            "word": pa.array([f"word {each}" for each in random.integers(0, 1000, ROWS)]),
            "value": pa.array(random.random(ROWS)),
            "flag": pa.array(random.random(ROWS) < 0.5),
        }
        batches.append(pa.record_batch(columns))
    return batches[0].schema, [data.stream([batch]) for batch in batches]


def by_pyarrow(batches: Batches) -> Iterator[Any]:
    """Open each cell as a stream."""
    for batch in batches:
        tables = [pa.ipc.open_stream(cell.as_buffer()).read_all() for cell in batch.column(0)]
        yield from pa.concat_tables(tables).combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)


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
    tables *= -(-OUTPUT_ROWS // (ROWS * len(tables)))
    return pa.concat_tables(tables).combine_chunks().to_batches()[0]


def without_decoding(batches: Batches, rows: Any) -> Iterator[Any]:
    """Send as many rows as the cells hold, which are there already."""
    for batch in batches:
        left = ROWS * batch.num_rows
        while left:
            some = rows.slice(0, min(left, OUTPUT_ROWS))
            left -= some.num_rows
            yield some


def drain(batches: Batches) -> Iterator[Any]:
    """Take the cells and send nothing back."""
    for _ in batches:
        pass
    yield from ()
