"""What does a query of 1 % of a file cost, where statistics say which batches it needs?

Measured: rows of 500 batches (time, id, number, text), of which a filter matches five batches that lie together, read
and counted: mapped from the disk (in the page cache), the same with LZ4, and over HTTP from a server that answers after
20 ms. The baseline reads all batches, ours those that ``file_statistics`` and ``Pruner`` leave; opening the file is
part of it. Both count the rows that match.

* full read: ``open_file(source)`` and every batch, validated.
* arrowipc: the footer's statistics first.
* polars: ``scan_ipc(path).filter(...)``, in the columns that it needs, with all threads; of local files.

The bytes that the server sends are counted, too. Nothing is faster than the few requests that are left: over HTTP the
share depends on how long all bytes take.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import arrowipc
from arrowipc.columns.pruning import Pruner
from benchmarks.harness import Case, Fact, Run, Scale
from benchmarks.late_server import Server

TITLE = "read 1 % of the batches, by statistics"

#: Seconds before an answer.
LATENCY = 0.02
#: The goal is at most 3 % of the full read.
GOAL = 33.0


def cases(scale: Scale) -> Iterator[Case | Fact]:
    """Files that are mapped, without and with compression, then over HTTP."""
    count, rows = scale.size(500, 100), scale.size(1 << 16 if scale.thorough else 1 << 13, 16)
    with tempfile.TemporaryDirectory() as folder:
        for codec in (None, "lz4"):
            path = str(Path(folder, f"{codec}.arrow"))
            write(path, count, rows, codec)
            name = f"1 % of {count} batches of {rows} rows, {codec or 'not compressed'}, mapped"
            yield Case(name, "query", 1, local(path, count, rows), GOAL, baseline="full read")
        path = str(Path(folder, "lz4.arrow"))
        with Server(folder, LATENCY) as server:
            remote = contenders(f"{server.url}/lz4.arrow", count, rows)
            name = f"the same over HTTP, {LATENCY * 1000:.0f} ms per request"
            yield Case(name, "query", 1, remote, GOAL, baseline="full read", threads=4)
            sent = {who: [float(server.sent(run))] for who, run in remote.items()}
            yield Fact("bytes sent", sent, goal=GOAL, baseline="full read")


def write(path: str, count: int, rows: int, codec: Any) -> None:
    """Write batches whose times and ids rise."""
    random = np.random.default_rng(3)
    words = pa.array([f"word number {i}" for i in range(1000)])
    with arrowipc.new_file(path, statistics=True, compression=codec, durable=False) as writer:
        for number in range(count):
            ids = np.arange(number * rows, (number + 1) * rows)
            batch = {
                "t": pa.array(ids * 1000, pa.timestamp("us")),
                "id": ids,
                "x": random.random(rows),
                "word": words.take(pa.array(random.integers(0, 1000, rows))),
            }
            writer.write(pa.record_batch(batch))


def bounds(count: int, rows: int) -> tuple[int, int]:
    """Return the ids that the filter lets pass: all but one of a hundredth of the batches."""
    first = count // 2 * rows
    return first + 1, first + count // 100 * rows


def contenders(source: str, count: int, rows: int) -> dict[str, Run]:
    """Return those that read a path or a URL."""
    low, high = bounds(count, rows)

    def matching(batch: arrowipc.RecordBatch) -> int:
        ids = batch["id"].to_numpy()
        return int(np.count_nonzero((ids >= low) & (ids < high)))

    def full() -> int:
        with arrowipc.open_file(source) as reader:
            return sum(map(matching, reader))

    def pruned() -> int:
        with arrowipc.open_file(source) as reader:
            pruner = Pruner([("id", ">=", low), ("id", "<", high)], reader.schema)
            found = arrowipc.file_statistics(reader, pruner.columns)
            return sum(matching(reader.get_batch(i)) for i, known in enumerate(found) if pruner.keeps(known))

    def data_set() -> int:
        dataset = arrowipc.open_dataset(source).filter([("id", ">=", low), ("id", "<", high)])
        return sum(map(matching, dataset))

    return {"full read": full, "arrowipc": data_set, "reader and Pruner": pruned}


def local(path: str, count: int, rows: int) -> dict[str, Run]:
    """Return those that read a local file."""
    low, high = bounds(count, rows)
    test = pl.col("id").is_between(low, high, closed="left")
    return {
        **contenders(path, count, rows),
        "scan_polars": lambda: arrowipc.scan_polars(path).filter(test).select(pl.len()).collect().item(),
        "polars": lambda: pl.scan_ipc(path).filter(test).select(pl.len()).collect().item(),
    }
