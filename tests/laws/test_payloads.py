"""The laws of payload columns: as decoding each payload alone and putting the rows one behind the other."""

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from helpers import randoms
from helpers.arrays import pyarrow_bytes
from helpers.drive import LEVELS
from hypothesis import given, strategies as st
from laws.payload_rows import alone, rows_of

import arrowipc as ipc


@st.composite
def columns(draw: Any, *, file: bool = True) -> list[bytes | None]:
    """Cells whose payloads share a schema: streams, files, nulls; some compressed, some in old framing."""
    parts = draw(randoms.batches(most_batches=4))
    if not parts:
        return [None] * draw(st.integers(0, 3))
    cells: list[bytes | None] = []
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["null", "stream", "stream", "stream", "file" if file else "stream", "old"]))
        if kind == "null":
            cells.append(None)
            continue
        low = draw(st.integers(0, len(parts)))
        chosen = parts[low : draw(st.integers(low, len(parts)))]
        options: dict[str, Any] = {"compression": draw(st.sampled_from([None, None, "lz4", "zstd"]))}
        if kind == "old":
            options["use_legacy_format"] = True
        cells.append(pyarrow_bytes(chosen, schema=parts[0].schema, kind=kind, **options))
    return cells


@pytest.mark.parametrize("level", LEVELS)
@given(cells=columns(), decode=st.booleans())
def test_a_column_of_payloads_is_each_payload_alone_one_behind_the_other(level, cells, decode):
    dictionaries = "decode" if decode else "unify"
    decoded = ipc.decode_payloads(cells, validate=level, dictionaries=dictionaries, parent_index="# of cell")
    rows = alone(*cells, validate=level)
    assert decoded.next == len(cells)
    assert decoded.num_null == cells.count(None)
    assert decoded.parent_index.to_pylist() == [i for i, n in enumerate(decoded.counts.to_pylist()) for _ in range(n)]
    assert [row[:-1] for row in rows_of(decoded.batch)] == rows
    assert decoded.counts.to_pylist() == [len(alone(cell, validate=level)) for cell in cells]
    if level != "none" and decoded.num_null < len(cells):
        theirs = pa.record_batch(decoded.batch)
        theirs.validate(full=True)
        assert theirs.num_rows == len(rows)


@given(cells=columns(), chance=st.randoms(use_true_random=False))
def test_every_way_to_hand_over_the_column_gives_the_same(cells, chance):
    rows = alone(*cells)
    arrays = [pa.array(cells, kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())]
    cuts = sorted(chance.choices(range(len(cells) + 1), k=chance.randrange(4)))
    parts = [pa.array(cells[start:stop], pa.binary()) for start, stop in pairwise([0, *cuts, len(cells)])]
    padded = pa.array([b"before", None, *cells, b"after"], pa.binary()).slice(2, len(cells))
    views = [None if cell is None else memoryview(bytearray(cell)) for cell in cells]
    for column in (*arrays, pa.chunked_array(parts), padded, views, tuple(cells), ipc.Array.from_arrow(arrays[2])):
        assert rows_of(ipc.decode_payloads(column).batch) == rows


@given(cells=columns(), most=st.integers(1, 30), by_bytes=st.booleans())
def test_resuming_at_any_limit_leaves_nothing_out_and_repeats_nothing(cells, most, by_bytes):
    limit = {"max_bytes": 40 * most} if by_bytes else {"max_rows": most}
    rows: list[list[Any]] = []
    at = 0
    while at < len(cells):
        decoded = ipc.decode_payloads(cells, start=at, **limit)
        counts = decoded.counts.to_pylist()
        assert decoded.start == at < decoded.next == at + len(counts)
        if not by_bytes:
            assert decoded.batch.num_rows <= most or sum(n > 0 for n in counts) == 1
        rows += rows_of(decoded.batch)
        at = decoded.next
    assert rows == alone(*cells)


def other_versions(batch: pa.RecordBatch, chance: random.Random) -> pa.RecordBatch:
    """The same rows under a schema that fits: reordered, with columns left out, with other metadata."""
    kept = chance.sample(range(batch.num_columns), chance.randint(1, batch.num_columns))
    fields = [batch.schema.field(i).with_metadata({"by": "somebody"}) for i in kept]
    return pa.RecordBatch.from_arrays([batch.column(i) for i in kept], schema=pa.schema(fields, metadata={"x": "y"}))


@given(parts=randoms.batches(most_batches=3), chance=st.randoms(use_true_random=False), decode=st.booleans())
def test_schemas_that_fit_are_mapped_by_name(parts, chance, decode):
    if not parts or not parts[0].num_columns:
        return
    whole = parts[0].schema
    others = [other_versions(part, chance) for part in parts for _ in range(2)]
    cells = [pyarrow_bytes([part]) for part in others]
    decoded = ipc.decode_payloads(cells, schema=whole, dictionaries="decode" if decode else "unify")
    rows = []
    for other, cell in zip(others, cells, strict=True):
        places = [other.schema.get_field_index(name) for name in whole.names]
        rows += [[None if at < 0 else row[at] for at in places] for row in alone(cell)]
    assert decoded.batch.schema.names == whole.names
    assert rows_of(decoded.batch) == rows


@given(cells=columns(file=False), data=st.data())
def test_null_stands_for_a_broken_payload_with_one_row(cells, data):
    marks = [data.draw(st.booleans()) for _ in cells]
    broken = [b"\xff\xff\xff\xff\x10" if mark else cell for mark, cell in zip(marks, cells, strict=True)]
    decoded = ipc.decode_payloads(broken, on_error="null")
    readable = [cell for cell in broken if cell is not None and len(cell) > 5]
    width = len(ipc.open_stream(readable[0]).schema.fields) if readable else 0
    rows: list[list[Any]] = []
    for cell, mark in zip(broken, marks, strict=True):
        rows += [[None] * width] if mark else alone(cell)
    assert rows_of(decoded.batch) == rows
    assert decoded.num_failed == sum(marks)
