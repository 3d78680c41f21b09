"""How fast are the batches of a stream in memory iterated over, when only the structure is checked?

Each batch is asked for its number of rows, and no value is touched. arrowipc is ``validate="none"``, which checks what
pyarrow checks and more; "full" is the default. arro3 copies the bytes and always validates; polars makes one DataFrame.
metadata touched: one byte of each cache line of the metadata. decoder alone: a `StreamDecoder` without the reader that
`open_stream` makes. Our readers keep the plans of the schemas that were read last, so small streams come with one
schema, with two in turn, and with 64, which are more than are kept.
"""

from itertools import cycle

import numpy as np
import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Run, Runs, question, size

import arrowipc

#: Bytes of a cache line.
LINE = 64
READERS = "pyarrow, arrowipc, arrowipc full, nanoarrow, polars, arro3, metadata touched"


def readers(batch: pa.RecordBatch, count: int) -> Runs:
    source = data.stream([batch] * count)
    return {
        "pyarrow": lambda: peers.rows_by_pyarrow(source),
        "arrowipc": lambda: peers.rows_by_arrowipc(source, validate="none"),
        "arrowipc full": lambda: peers.rows_by_arrowipc(source),
        **peers.others(source),
        "metadata touched": touching(source),
    }


def touching(source: bytes) -> Run:
    """Return a run that reads a byte of each cache line of the metadata and does nothing else."""
    content = np.frombuffer(source, np.uint8)
    pieces = [np.frombuffer(each.metadata, np.uint8) for each in arrowipc.MessageReader(source)]
    starts = [piece.ctypes.data - content.ctypes.data for piece in pieces]
    spans = zip(starts, pieces, strict=True)
    lines = np.concatenate([np.arange(start, start + len(piece), LINE) for start, piece in spans])
    rows = peers.rows_by_arrowipc(source)

    def run() -> int:
        content[lines].sum()
        return rows

    return run


@question("iterate batches of 10 columns x 100 rows", READERS, unit="batch", per="count")
@pytest.mark.parametrize("count", [size(20, 2), size(2_000, 3), size(20_000, 4)])
@pytest.mark.parametrize("shape", [*data.SHAPES, "everyday"])
def test_ten_columns(shape: str, count: int) -> Runs:
    return readers(data.shaped(shape, size(100, 3)), count)


@question("iterate batches of 1000 columns x 100 rows", READERS, unit="batch")
@pytest.mark.parametrize("shape", data.SHAPES)
def test_thousand_columns(shape: str) -> Runs:
    count = size(50, 2)
    return readers(data.shaped(shape, size(100, 3), size(1000, 12)), count), count


@question("read 5 of 1000 columns", "pyarrow, arrowipc, arrowipc by name, arrowipc full, polars", unit="batch")
@pytest.mark.parametrize("shape", data.SHAPES)
def test_five_columns(shape: str) -> Runs:
    columns, count = size(1000, 20), size(50, 2)
    wanted = [i * columns // 5 + (2 * i + 1) % 10 % (columns // 5) for i in range(5)]
    source = data.stream([data.shaped(shape, size(100, 3), columns)] * count)
    options = pa.ipc.IpcReadOptions(included_fields=wanted)
    names = [f"c{i}" for i in wanted]
    return {
        "pyarrow": lambda: peers.rows_by_pyarrow(source, options),
        "arrowipc": lambda: peers.rows_by_arrowipc(source, columns=wanted, validate="none"),
        "arrowipc by name": lambda: peers.rows_by_arrowipc(source, columns=names, validate="none"),
        "arrowipc full": lambda: peers.rows_by_arrowipc(source, columns=wanted),
        "polars": lambda: peers.rows_by_polars(source, columns=wanted),
    }, count


def renamed(count: int) -> list[bytes]:
    """Return streams whose schemas differ in the name of the last column."""
    batch = data.mixed_batch(10)
    return [data.stream([batch.rename_columns([*batch.schema.names[:-1], f"last {i}"])]) for i in range(count)]


def decoded(source: bytes) -> int:
    decoder = arrowipc.StreamDecoder(None, "none")
    decoder.feed(source)
    return decoder.next_batch().num_rows


SMALL = {
    "pyarrow": lambda s: pa.ipc.open_stream(s).read_next_batch().num_rows,
    "arrowipc": lambda s: arrowipc.open_stream(s, validate="none").read_next_batch().num_rows,
    "arrowipc full": lambda s: arrowipc.open_stream(s).read_next_batch().num_rows,
    "decoder alone": decoded,
    "nanoarrow": peers.rows_by_nanoarrow,
    "polars": peers.rows_by_polars,
    "arro3": peers.rows_by_arro3,
}


@question("one small stream per call, 10 rows", SMALL, unit="stream")
@pytest.mark.parametrize("schemas", [*data.SHAPES, "2 in turn", "64 in turn"])
def test_small_stream(schemas: str) -> Runs:
    number = schemas.partition(" in turn")[0]
    sources = renamed(int(number)) if number.isdigit() else [data.stream([data.shaped(schemas, 10)])]
    turns = {name: cycle(sources).__next__ for name in SMALL}
    return {name: lambda read=read, following=turns[name]: read(following()) for name, read in SMALL.items()}
