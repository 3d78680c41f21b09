"""How fast is one small stream per call opened and its batch read, as for messages of a queue?

Measured, per stream: opening a stream of one batch of ten rows and taking that batch.

Our readers keep the plans of the schemas that were read last, and find them again by comparing bytes.
That is part of the design (payloads of one topic share a schema), but it must not hide what a schema costs,
so the cases differ:

* one schema: all streams have the same schema;
* two schemas in turn: a few, as in a stream that carries several topics;
* 64 schemas in turn: more than are kept, so that every schema is parsed anew.

pyarrow, polars, nanoarrow and arro3 parse the schema of every stream.

* pyarrow: ``pa.ipc.open_stream(data).read_next_batch()``.
* arrowipc: ``open_stream(data, validate="none").read_next_batch()``; arrowipc full: the default.
* decoder alone: a `StreamDecoder` that is fed the bytes, without the reader that `open_stream` makes: the floor.
* nanoarrow, arro3: iterating over the stream; polars: ``read_ipc_stream(data)``, a DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle

import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.harness import Case, Scale

TITLE = "one small stream per call"


def cases(scale: Scale) -> Iterator[Case]:
    """One schema for all streams, in every shape, then schemas that alternate."""
    for shape in data.SHAPES:
        source = data.stream([data.shaped(shape, 10)])
        yield case(f"10 columns ({shape}) x 10 rows, one schema", [source], named=shape == "mixed")
    yield case("10 everyday columns x 10 rows, 2 schemas in turn", renamed(2))
    yield case("10 everyday columns x 10 rows, 64 schemas in turn", renamed(scale.size(64, 3)))


def renamed(count: int) -> list[bytes]:
    """Return streams whose schemas differ in the name of the last column."""
    batch = data.mixed_batch(10)
    return [data.stream([batch.rename_columns([*batch.schema.names[:-1], f"last {i}"])]) for i in range(count)]


def each(sources: list[bytes], read: Callable[[bytes], int]) -> Callable[[], int]:
    """Return a run that reads the next of `sources`."""
    following = cycle(sources).__next__
    return lambda: read(following())


def decoded(source: bytes) -> int:
    """Return the rows of the first batch."""
    decoder = arrowipc.StreamDecoder(None, "none")
    decoder.feed(source)
    return decoder.next_batch().num_rows


def case(name: str, sources: list[bytes], named: bool = False) -> Case:
    """Return the case of streams that are read in turn."""
    contenders = {
        "pyarrow": lambda s: pa.ipc.open_stream(s).read_next_batch().num_rows,
        "arrowipc": lambda s: arrowipc.open_stream(s, validate="none").read_next_batch().num_rows,
        "arrowipc full": lambda s: arrowipc.open_stream(s).read_next_batch().num_rows,
        "decoder alone": decoded,
    }
    runs = {name: each(sources, read) for name, read in contenders.items()}
    if peers.nanoarrow is not None:
        runs["nanoarrow"] = each(sources, peers.rows_by_nanoarrow)
    if peers.polars is not None:
        runs["polars"] = each(sources, peers.rows_by_polars)
    if peers.arro3_io is not None:
        runs["arro3"] = each(sources, peers.rows_by_arro3)
    return Case(name, "stream", 1, runs, goal=10, row="small stream", named=named)
