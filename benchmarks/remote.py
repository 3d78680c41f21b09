"""What does it cost to read a few columns of a file over HTTP, where each request takes 20 ms?

Measured: opening a file of 20 batches of 1,000 columns (306 MB), and reading five columns of all batches, or of two.
The server is another process, with connections that stay open. Each contender counts the rows of what it read.

* pyarrow: ``pa.ipc.open_file`` of a file that fsspec opened, ``IpcReadOptions(included_fields=[...])``.
* pyarrow, downloaded: the same of all bytes, which fsspec fetched with one request.
* arrowipc: ``open_file(url, columns=[...])``, then ``read_all`` or ``get_batches``.
* arrowipc, new connections: the same, with a file system that has no connection yet.
* ranges alone: the ranges that arrowipc asks for, in as many rounds as it does, since what to ask for next is in the
  answers; fsspec fetches those of a round side by side, and nothing is decoded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa

import arrowipc
from benchmarks import data
from benchmarks.harness import Case, Run, Scale
from benchmarks.late_server import Server

TITLE = "read 5 columns of a remote file"

#: Seconds before an answer.
LATENCY = 0.02
#: Bytes of the file.
SIZE = 306_000_000


def cases(scale: Scale) -> Iterator[Case]:
    """All batches, and two of them; the goal is in seconds."""
    columns, count = scale.size(1000, 50), 20 if scale.thorough else 5
    size = SIZE if scale.thorough else scale.size(SIZE // 8, 10_000)
    with tempfile.TemporaryDirectory() as folder, Server(folder, LATENCY) as server:
        for shape in data.SHAPES if scale.name != "quick" else data.SHAPES[:1]:
            rows = max(size // count // (data.shaped(shape, 100, columns).nbytes // 100), 1)
            batch = data.shaped(shape, rows, columns)
            path = Path(folder, "x.arrow")
            with pa.ipc.new_file(path, batch.schema) as writer:
                for _ in range(count):
                    writer.write_batch(batch)
            # Of each kind in a mix of ten.
            wanted = [i * columns // 5 + (2 * i + 1) % 10 for i in range(5)]
            mb = path.stat().st_size / 1e6
            for numbers, row, at_most in (
                (range(count), "remote columns", 0.3),
                ([count // 5, count // 2], "remote batches", 0.1),
            ):
                what = f"{len(numbers)} of {count} batches, 5 of {columns} columns, {shape}, {mb:.0f} MB"
                runs = contenders(f"{server.url}/x.arrow", wanted, numbers)
                named = shape == data.SHAPES[0]
                yield Case(what, "file", 1, runs, at_most=at_most, threads=2, row=row, named=named)


def contenders(url: str, columns: list[int], numbers: Any) -> dict[str, Run]:
    """Return what reads some columns of some batches, and counts their rows."""
    options = pa.ipc.IpcReadOptions(included_fields=columns)
    system = fsspec.filesystem("http")

    def of_pyarrow(source: Any) -> int:
        reader = pa.ipc.open_file(source, options=options)
        return sum(reader.get_batch(i).num_rows for i in numbers)

    def opened() -> int:
        with system.open(url) as file:
            return of_pyarrow(pa.PythonFile(file, "r"))

    def ours(**given: Any) -> int:
        with arrowipc.open_file(arrowipc.RemoteSource(url, given), columns=columns) as reader:
            if len(numbers) == reader.num_record_batches:
                return reader.read_all().num_rows
            return sum(batch.num_rows for batch in reader.get_batches(numbers))

    rows, rounds = recorded(url, columns, numbers)

    def ranges() -> int:
        for pieces in rounds:
            system.cat_ranges([url] * len(pieces), *map(list, zip(*pieces, strict=True)))
        return rows

    return {
        "pyarrow": opened,
        "pyarrow, downloaded": lambda: of_pyarrow(pa.BufferReader(system.cat_file(url))),
        "arrowipc": ours,
        "arrowipc, new connections": lambda: ours(skip_instance_cache=True),
        "ranges alone": ranges,
    }


def recorded(url: str, columns: list[int], numbers: Any) -> tuple[int, list[list[tuple[int, int]]]]:
    """Return the rows, and what arrowipc asks for in each round."""
    rounds: list[list[tuple[int, int]]] = []

    class Recorded(arrowipc.RemoteSource):
        def call(self, what: Any, *arguments: Any) -> Any:
            answer = super().call(what, *arguments)
            if what == "ends":
                rounds.append([(start, start + len(part)) for start, part in answer[1]])
            else:
                rounds.append(list(arguments[0]))
            return answer

    with arrowipc.open_file(Recorded(url), columns=columns) as reader:
        return sum(batch.num_rows for batch in reader.get_batches(numbers)), rounds
