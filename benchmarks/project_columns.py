"""How fast are five of a thousand columns read from a stream in memory?

Measured, per batch: opening the stream with a projection and iterating over its batches, structure checked.

* pyarrow: ``IpcReadOptions(included_fields=[...])``.
* arrowipc: ``open_stream(data, columns=[...], validate="none")``, columns by index and by name.
* polars: ``read_ipc_stream(data, columns=[...])``: one DataFrame.
* nanoarrow and arro3 read all columns or none from Python, so they are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from benchmarks import data, peers
from benchmarks.harness import Case, Run, Scale

TITLE = "read 5 of 1000 columns"


def cases(scale: Scale) -> Iterator[Case]:
    """Five columns spread over a thousand."""
    columns, count = scale.size(1000, 20), scale.size(50, 2)
    wanted = [i * columns // 5 for i in range(5)]
    names = [f"c{i}" for i in wanted]
    source = data.stream([data.plain_batch(columns, scale.size(100, 3))] * count)
    options = pa.ipc.IpcReadOptions(included_fields=wanted)
    contenders: dict[str, Run] = {
        "pyarrow": lambda: peers.rows_by_pyarrow(source, options),
        "arrowipc": lambda: peers.rows_by_arrowipc(source, columns=wanted, validate="none"),
        "arrowipc by name": lambda: peers.rows_by_arrowipc(source, columns=names, validate="none"),
        "arrowipc full": lambda: peers.rows_by_arrowipc(source, columns=wanted),
    }
    if peers.polars is not None:
        contenders["polars"] = lambda: peers.rows_by_polars(source, columns=wanted)
    name = f"5 of {columns} int64 columns x 100 rows, {count} batches"
    yield Case(name, "batch", count, contenders, goal=20, row="project", named=True)
