"""Rows of files and indexed streams, counted through their batches, are those of the table in them (issue 24)."""

import gc
import io
import json
import random
import weakref
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import optional
from helpers.arrays import pyarrow_bytes

import arrowipc as ipc
from arrowipc import FormatError, LimitError, Limits, UsageError
from arrowipc.values.row_reader import RowReader

pl = optional("polars")

COLUMNS = {
    "id": pa.array(range(60)),
    "t": pa.array([None if i % 7 == 0 else f"text {i}" * (i % 3) for i in range(60)]),
    "s": pa.array([{"a": i, "b": str(i)} for i in range(60)]),
    "d": pa.array([f"v{i % 5}" for i in range(60)]).dictionary_encode(),
    "v": pa.array([f"a longer text {i}" for i in range(60)], pa.string_view()),
    "l": pa.array([[f"{i}-{k}" for k in range(i % 4)] for i in range(60)]),
}
TABLE = pa.table(COLUMNS)


def written(table: pa.Table = TABLE, rows: int = 7, kind: str = "file", **options: Any) -> bytes:
    return pyarrow_bytes(table.to_batches(max_chunksize=rows), kind, table.schema, **options)


FILE = written()


def sources(data: bytes, tmp_path: Any) -> list[Any]:
    path = tmp_path / "rows.arrow"
    path.write_bytes(data)
    return [data, path, io.BytesIO(data), ipc.RemoteSource(f"file://{path}")]


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_rows_of_every_source_are_those_of_the_table(compression, tmp_path):
    dice = random.Random(1)
    rows = TABLE.to_pylist()
    for kind in ("file", "stream"):
        for source in sources(written(compression=compression, kind=kind), tmp_path):
            limits = Limits(row_cache_bytes=dice.choice((0, 1000, 1 << 20)))
            reader = (ipc.open_file if kind == "file" else partial(ipc.open, index=True))(source, limits=limits)
            assert reader.batch_lengths().tolist() == [7] * 8 + [4]
            assert reader.count_rows() == 60
            for count in (0, 1, 5, 200):
                chosen = [dice.randrange(-60, 60) for _ in range(count)]
                assert reader.take(chosen).to_pylist() == [rows[i] for i in chosen]
                assert reader.take(np.sort(np.array(chosen, np.int32)), columns=["s.b", "l"]).to_pylist() == [
                    {"s": {"b": rows[i]["s"]["b"]}, "l": rows[i]["l"]} for i in sorted(chosen)
                ]
            assert [reader.row(i) for i in range(-60, 60)] == rows * 2
            assert reader.row(8, columns=[3, 0]) == {"d": "v3", "id": 8}
            for start, stop in ((0, 60), (5, 9), (14, 21), (59, 60), (30, 30)):
                assert reader.slice(start, stop - start).to_pylist() == rows[start:stop]
                assert reader.slice(start, stop - start, columns="t").to_pydict() == {
                    "t": [row["t"] for row in rows[start:stop]]
                }
            assert reader.slice(58, 10).num_rows == 2
            assert reader.slice(99).num_rows == 0


def test_rows_that_are_not_there_are_named():
    reader = ipc.open_file(FILE)
    for ask in (lambda: reader.take([3, 60]), lambda: reader.take([0, 99, -61]), lambda: reader.row(60)):
        with pytest.raises(IndexError, match=r"60 rows") as raised:
            ask()
        assert isinstance(raised.value, ipc.ArrowIpcError)
    with pytest.raises(IndexError, match=r"index 99 \(item 1 of 3\)"):
        reader.take([0, 99, -61])
    with pytest.raises(UsageError, match="negative"):
        reader.slice(-1)
    with pytest.raises(ipc.NotFoundError, match="no column 'z'"):
        reader.take([0], columns=["z"])
    for wrong in (["x"], [1.5], [[1]]):
        with pytest.raises(UsageError, match="expected integers"):
            reader.take(wrong)


def test_a_file_without_batches_has_no_rows():
    reader = ipc.open_file(written(TABLE[:0]))
    assert reader.take([]).schema == reader.schema
    assert (reader.count_rows(), reader.slice().num_rows) == (0, 0)
    for ask in (lambda: reader.take([0]), lambda: reader.row(0)):
        with pytest.raises(IndexError, match="0 rows"):
            ask()


def test_columns_are_counted_among_those_that_the_reader_reads():
    reader = ipc.open_file(FILE, columns=["s", "id", "d"])
    assert reader.take([3], columns=[1]).to_pydict() == {"id": [3]}
    assert reader.take([3], columns=["s.b", 2]).to_pydict() == {"s": [{"b": "3"}], "d": ["v3"]}
    with pytest.raises(ipc.NotFoundError):
        reader.take([3], columns=["t"])


def test_unread_columns_are_not_decompressed():
    """The text is broken in the file: only who reads it is told."""
    dice = random.Random(4)
    texts = [dice.randbytes(40).hex() for _ in range(100)]
    data = bytearray(written(pa.table({"x": range(100), "t": texts}), 100, compression="zstd"))
    at = data.rindex(b"\x28\xb5\x2f\xfd")  # how a frame begins
    data[at : at + 4] = bytes(4)
    reader = ipc.open_file(data)
    with pytest.raises(FormatError):
        reader.take([5])
    assert reader.take([5, -1], columns="x").to_pydict() == {"x": [5, 99]}


def test_a_closed_reader_has_no_rows_and_those_taken_stay():
    reader = ipc.open_file(FILE)
    taken, part = reader.take([1, 50]), reader.slice(0, 3, columns=["t"])
    reader.close()
    for ask in (lambda: reader.take([1]), lambda: reader.row(1), reader.slice, reader.count_rows, reader.batch_lengths):
        with pytest.raises(UsageError, match="closed"):
            ask()
    assert taken["id"].to_pylist() == [1, 50]
    assert part.num_rows == 3


def test_a_reader_that_is_dropped_is_gone_at_once():
    gc.disable()
    try:
        reader = ipc.open_file(FILE)
        reader.row(5), reader.take([1, 9], columns=["id"])
        gone = weakref.ref(reader)
        del reader
        assert gone() is None
    finally:
        gc.enable()


def test_batches_are_decoded_once_and_only_when_needed(monkeypatch):
    reader = ipc.open_file(written(compression="lz4"), limits=Limits(row_cache_bytes=0))
    seen: list[int] = []
    get_batch = type(reader).get_batch
    monkeypatch.setattr(type(reader), "get_batch", lambda self, i: (seen.append(i), get_batch(self, i))[1])
    reader.take([50, 1, 20, 2, 49, 51])
    assert seen == [0, 2, 7]
    reader.take([51])
    assert seen == [0, 2, 7], "the one that was used last stays"
    reader.take(range(60))
    assert sorted(seen[3:]) == [*range(7), 8]
    keeps = ipc.open_file(written(compression="lz4"))
    seen.clear()
    for _ in range(3):
        keeps.take([50, 1, 20])
    assert seen == [0, 2, 7]


def test_the_bytes_that_are_kept_are_bounded():
    """Of 100 batches of 80 KB as many stay as fit; those that are asked for again and again stay longest."""
    table = pa.table({"x": np.arange(1_000_000)})
    stored = ipc.open_file(written(table, 10_000, compression="lz4"))
    loads: list[int] = []
    rows = RowReader(
        stored.batch_lengths(), lambda i: (loads.append(i), stored.get_batch(i))[1], cache_bytes=20 * 81_000
    )
    for i in range(100):
        assert rows.row(i * 10_000) == {"x": i * 10_000}
        assert rows.row(5) == {"x": 5}
    assert loads == list(range(100))
    loads.clear()
    for i in range(99, 84, -1):
        rows.row(i * 10_000)
    assert loads == []
    mapped = ipc.open_file(written(table, 10_000))
    plain = RowReader(mapped.batch_lengths(), lambda i: (loads.append(i), mapped.get_batch(i))[1], cache_bytes=100_000)
    plain.take(range(0, 1_000_000, 10_000)), plain.take(range(0, 1_000_000, 10_000))
    assert len(loads) == 100, "what lies in the caller's memory is not counted"


def test_a_length_that_lies_is_found_when_the_batch_is_decoded():
    batches = list(ipc.open_file(FILE))
    rows = RowReader([7, 8, *[7] * 6, 4], batches.__getitem__)
    assert rows.row(3)["id"] == 3
    for ask in (lambda: rows.row(7), lambda: rows.take([0, 9]), lambda: rows.slice(5, 5)):
        with pytest.raises(FormatError, match="batch 1: expected the 8 rows"):
            ask()
    with pytest.raises(LimitError, match="batch 1"):
        RowReader([2**62, 2**62], batches.__getitem__)
    with pytest.raises(LimitError, match="batch 0"):
        RowReader([-1], batches.__getitem__)


@pytest.mark.parametrize(
    "lie", [None, [3, 6, 9, 12], [3, 6, 9], [9, 6, 3, 10], ["a"], {"a": 1}, [3, 6, 9, True], 10**30]
)
def test_what_polars_says_of_lengths_is_used_and_not_believed(lie):
    frame = pl.DataFrame({"a": range(10), "t": [f"a text that is long {i}" for i in range(10)]})
    sink = io.BytesIO()
    frame.lazy().sink_ipc(sink, record_batch_size=3, _record_batch_statistics=True)
    reader = ipc.open_file(sink.getvalue())
    assert reader.metadata["__POLARS_IPC_METADATA"] == b'{"record_batch_cum_len":[3,6,9,10]}'
    stated = {} if lie is None else {"__POLARS_IPC_METADATA": json.dumps({"record_batch_cum_len": lie})}
    # Our writers state nothing that they did not count.
    with pa.ipc.new_file(sink := io.BytesIO(), pa.schema(reader.schema), metadata=stated) as writer:
        for batch in reader:
            writer.write_batch(pa.record_batch(batch))
    data = sink.getvalue()
    for in_memory in (True, False):
        found = ipc.open_file(data if in_memory else io.BytesIO(data))
        if lie == [3, 6, 9, 12] and not in_memory:
            assert found.count_rows() == 12
            with pytest.raises(FormatError, match="batch 3: expected the 3 rows"):
                found.row(-1)
            assert found.take([8, 0])["a"].to_pylist() == [8, 0]
        else:
            assert found.count_rows() == 10
            assert found.row(-1) == {"a": 9, "t": "a text that is long 9"}
