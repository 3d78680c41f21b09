"""The kernels one by one under pytest-benchmark, for daily use: did this change make that kernel slower?

Not part of the tests: ``python -m pytest benchmarks/test_kernels.py``, with ``--benchmark-autosave`` before a
change and ``--benchmark-compare`` after it. Figures are those of one contender, ours, in one process.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import arrowipc
from benchmarks import compressed, data, payload_decode, payload_encode, peers, writes

pytest.importorskip("pytest_benchmark")
pytestmark = pytest.mark.bench

SMALL = data.mixed_batch(100)
LARGE = data.mixed_batch(100_000)


@pytest.mark.parametrize("level", ["none", "full", "strict"])
def test_read_small_batches(benchmark: Any, level: str) -> None:
    source = data.stream([SMALL] * 1000)
    benchmark(peers.rows_by_arrowipc, source, validate=level)


def test_framing(benchmark: Any) -> None:
    source = data.stream([SMALL] * 1000)
    benchmark(lambda: sum(1 for _ in arrowipc.MessageReader(source)))


@pytest.mark.parametrize("columns", [10, 1000])
def test_read_new_schema(benchmark: Any, columns: int) -> None:
    fields = list(data.plain_batch(columns, 1).schema)

    def source() -> tuple[tuple[bytes], dict[str, Any]]:
        schema = pa.schema(fields, metadata={"n": str(next(counter))})
        return (schema.serialize().to_pybytes() + data.END_OF_STREAM,), {}

    counter = itertools.count()
    benchmark.pedantic(lambda source: arrowipc.open_stream(source).schema, setup=source, rounds=50)


@pytest.mark.parametrize("columns", [10, 1000])
def test_walk(benchmark: Any, columns: int) -> None:
    source = data.stream([data.plain_batch(columns, 100)] * 50)
    benchmark(peers.rows_by_arrowipc, source, validate="none")


def test_walk_of_a_projection(benchmark: Any) -> None:
    source = data.stream([data.plain_batch(1000, 100)] * 50)
    benchmark(peers.rows_by_arrowipc, source, columns=[0, 200, 400, 600, 800], validate="none")


@pytest.mark.parametrize("name", LARGE.schema.names)
def test_validate_large_column(benchmark: Any, name: str) -> None:
    source = data.stream([LARGE.select([name])])
    benchmark(peers.rows_by_arrowipc, source)


@pytest.mark.parametrize("type", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_validate_text(benchmark: Any, type: pa.DataType) -> None:
    texts = pa.record_batch({"text": LARGE["name"].cast(type)})
    benchmark(peers.rows_by_arrowipc, data.stream([texts]))


@pytest.mark.parametrize("source", ["bytes", "file object", "pushed"])
def test_driver(benchmark: Any, source: str) -> None:
    content = data.stream([SMALL] * 100)
    runs: dict[str, Callable[[], int]] = {
        "bytes": lambda: peers.rows_by_arrowipc(content),
        "file object": lambda: sum(batch.num_rows for batch in arrowipc.open_stream(io.BytesIO(content))),
        "pushed": lambda: pushed(content, 1000),
    }
    assert benchmark(runs[source]) == 100 * SMALL.num_rows


def pushed(content: bytes, chunk: int) -> int:
    """Decode a stream that arrives in chunks."""
    decoder = arrowipc.StreamDecoder()
    rows = 0
    for start in range(0, len(content), chunk):
        decoder.feed(content[start : start + chunk])
        while (batch := decoder.next_batch()) is not None:
            rows += batch.num_rows
    return rows


@pytest.mark.parametrize("schemas", [1, 2])
def test_open_small_stream(benchmark: Any, schemas: int) -> None:
    small = data.mixed_batch(10)
    renamed = [small.rename_columns([f"{name} {i}" for name in small.schema.names]) for i in range(schemas)]
    sources = [data.stream([batch]) for batch in renamed]

    def run() -> None:
        for source in sources:
            arrowipc.open_stream(source).read_next_batch()

    benchmark(run)


@pytest.mark.parametrize("rows", [100, 100_000])
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_decompress(benchmark: Any, codec: str, rows: int) -> None:
    source = data.stream([compressed.numbers(rows)] * (100_000 // rows), compression=codec)
    benchmark(peers.rows_by_arrowipc, source, validate="none", use_threads=False)


@pytest.mark.parametrize("deltas", [100, 800])
def test_deltas(benchmark: Any, deltas: int) -> None:
    source = data.delta_stream(deltas, 100)
    benchmark(lambda: list(arrowipc.open_stream(source)))


def test_open_file_and_get_batch(benchmark: Any, tmp_path: Path) -> None:
    path = tmp_path / "batches.arrow"
    path.write_bytes(data.file([data.plain_batch(2, 10)] * 10_000))

    def run() -> None:
        with arrowipc.open_file(path) as reader:
            reader.get_batch(5_000)

    benchmark(run)


@pytest.mark.parametrize("kind", ["batch", "schema"])
def test_export(benchmark: Any, kind: str) -> None:
    batch = next(iter(arrowipc.open_stream(data.stream([SMALL]))))
    benchmark(batch.__arrow_c_array__ if kind == "batch" else batch.schema.__arrow_c_schema__)


@pytest.mark.parametrize("kind", ["small", "1000 columns"])
def test_import(benchmark: Any, kind: str) -> None:
    batch = SMALL if kind == "small" else data.plain_batch(1000, 100)
    benchmark(arrowipc.RecordBatch.from_arrow, batch)


def test_import_of_a_stream(benchmark: Any) -> None:
    table = pa.ipc.open_stream(data.stream([SMALL] * 100)).read_all()
    benchmark(arrowipc.Table.from_arrow, table)


def test_export_of_a_stream(benchmark: Any) -> None:
    source = data.stream([SMALL] * 100)
    benchmark(lambda: pa.RecordBatchReader.from_stream(arrowipc.open_stream(source)).read_all())


def test_column_access(benchmark: Any) -> None:
    batch = next(iter(arrowipc.open_stream(data.stream([SMALL]))))
    benchmark(lambda: batch["price"].to_numpy())


@pytest.mark.parametrize("name", LARGE.schema.names)
def test_to_pylist(benchmark: Any, name: str) -> None:
    batch = next(iter(arrowipc.open_stream(data.stream([LARGE.slice(0, 10_000)]))))
    benchmark(batch[name].to_pylist)


def ours(*batches: pa.RecordBatch) -> list[arrowipc.RecordBatch]:
    """Return batches as our own objects."""
    return list(arrowipc.open_stream(data.stream(batches)))


@pytest.mark.parametrize("columns", ["mixed", "sliced", "1000"])
def test_write_small_batches(benchmark: Any, columns: str) -> None:
    (batch,) = ours(data.plain_batch(1000, 100) if columns == "1000" else data.mixed_batch(110))
    if columns == "sliced":
        batch = batch.slice(3, 100)
    target = writes.warm(20_000_000)

    def run() -> None:
        with arrowipc.new_stream(target, batch.schema) as writer:
            for _ in range(20):
                writer.write_batch(batch)

    benchmark(run)


@pytest.mark.parametrize("sink", ["bytearray", "memoryview", "BytesIO", "file"])
def test_write_sink(benchmark: Any, sink: str, tmp_path: Path) -> None:
    (batch,) = ours(LARGE)
    warm = writes.warm(10_000_000)
    sinks: dict[str, Callable[[], Any]] = {
        "bytearray": bytearray,
        "memoryview": lambda: warm,
        "BytesIO": io.BytesIO,
        "file": lambda: tmp_path / "out.arrows",
    }

    def run() -> None:
        with arrowipc.new_stream(sinks[sink](), batch.schema, durable=False) as writer:
            writer.write_batch(batch)

    benchmark(run)


@pytest.mark.parametrize("rows", [100, 100_000])
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_write_compressed(benchmark: Any, codec: str, rows: int) -> None:
    batches = ours(*[compressed.numbers(rows)] * (100_000 // rows))
    target = writes.warm(20_000_000)
    benchmark(lambda: writes.by_arrowipc(target, batches, compression=codec, use_threads=False))


def test_write_foreign_table(benchmark: Any) -> None:
    table = pa.ipc.open_stream(data.stream([SMALL] * 1000)).read_all()
    target = writes.warm(10_000_000)

    def run() -> None:
        with arrowipc.new_stream(target) as writer:
            writer.write(table)

    benchmark(run)


@pytest.mark.parametrize("columns", [10, 1000])
def test_open_writer_for_a_new_schema(benchmark: Any, columns: int) -> None:
    fields = list(data.plain_batch(columns, 1).schema)

    def schema() -> tuple[tuple[Any], dict[str, Any]]:
        source = pa.schema(fields, metadata={"n": str(next(counter))}).serialize().to_pybytes()
        return (arrowipc.open_stream(source + data.END_OF_STREAM).schema,), {}

    counter = itertools.count()
    benchmark.pedantic(lambda schema: arrowipc.new_stream(bytearray(), schema).close(), setup=schema, rounds=50)


def test_write_deltas(benchmark: Any) -> None:
    batches = list(arrowipc.open_stream(data.delta_stream(400, 100)))
    benchmark(lambda: writes.by_arrowipc(bytearray(), batches, dictionary_deltas=True))


@pytest.mark.parametrize("cells", ["streams", "messages", "LZ4", "dictionaries"])
def test_decode_payloads(benchmark: Any, cells: str) -> None:
    small = data.mixed_batch(10)
    encoded = small.set_column(9, "city", small.column(9).dictionary_encode())
    kinds: dict[str, Callable[[], bytes]] = {
        "streams": lambda: data.stream([small]),
        "messages": lambda: data.messages(data.stream([small]))[1],
        "LZ4": lambda: data.stream([small], compression="lz4"),
        "dictionaries": lambda: data.stream([encoded]),
    }
    column = payload_decode.column_of([kinds[cells]()], 2_000)
    schema = {"schema": small.schema} if cells == "messages" else {}
    benchmark(payload_decode.rows_by_arrowipc, column, **schema)


def test_repeat_beside_payloads(benchmark: Any) -> None:
    (batch,) = ours(LARGE.slice(0, 2_000))
    benchmark(arrowipc.repeat, batch, [10] * 2_000)


@pytest.mark.parametrize("cells", ["streams", "messages", "trimmed dictionaries"])
def test_encode_payloads(benchmark: Any, cells: str) -> None:
    rows = payload_encode.encoded(20_000, 1_000) if "dictionaries" in cells else LARGE.slice(0, 20_000)
    (batch,) = ours(rows)
    options = {"rows_per_payload": 10, "with_schema": cells != "messages"}
    benchmark(lambda: arrowipc.encode_payloads(batch, **options))


@pytest.mark.parametrize("view", ["as it lies", "transposed, backwards", "every second column"])
def test_write_tensor(benchmark: Any, view: str) -> None:
    square = np.arange(1024.0 * 1024).reshape(1024, 1024)
    views = {
        "as it lies": square,
        "transposed, backwards": square.T[::-1],
        "every second column": np.repeat(square, 2, axis=1)[:, ::2],
    }
    target = writes.warm(square.nbytes + 4096)
    benchmark(arrowipc.write_tensor, views[view], target)


def test_read_tensor(benchmark: Any) -> None:
    source = arrowipc.Tensor(np.arange(1024.0)).serialize()
    benchmark(lambda: arrowipc.read_tensor(source).to_numpy())
