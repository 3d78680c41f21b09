"""The laws of payload columns: as decoding each payload alone and putting the rows one behind the other."""

import contextlib
import io
import random
from functools import cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from helpers import randoms
from helpers.arrays import CASES, ipc_bytes, pyarrow_bytes, read, read_by_pyarrow
from helpers.drive import LEVELS
from helpers.histories import INDICES
from helpers.mutate import overwritten
from helpers.processes import rounds
from hypothesis import given, strategies as st

import arrowipc as ipc

SEED = 20261204
CODECS = [None, "lz4", "zstd"]
# Of a float16, the Python value is no number that pa.array takes; the others are all leaf types.
LEAVES = [kind for kind in randoms.LEAVES if kind != pa.float16()]


def rows_of(batch: ipc.RecordBatch) -> list[list[Any]]:
    return [list(row.values()) for row in batch.to_pylist()]


def alone(*payloads: bytes | None, **options: Any) -> list[list[Any]]:
    """The rows of payloads, each of which is read by the readers; nulls have none."""
    parts = [read(payload, **options) for payload in payloads if payload is not None]
    return [row for part in parts for batch in part for row in rows_of(batch)]


def encoded(words: pa.Array, indices: list[int | None], width: Any = None, ordered: bool = False) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, width or pa.int32()), words, ordered=ordered)


def dictionaries_of(batch: Any) -> list[Any]:
    return [column.dictionary and column.dictionary.to_pylist() for column in batch.columns]


def payload(_compression: str | None = None, **columns: Any) -> bytes:
    return pyarrow_bytes([pa.record_batch(columns)], compression=_compression)


def same_both_ways(streams: list[bytes], **options: Any) -> Any:
    """Decode in the loop, and again with each payload as a file, which readers read: the same batches."""
    ours = ipc.decode_payloads(streams, **options)
    files = [pyarrow_bytes(batches, "file", schema) for schema, batches in map(read_by_pyarrow, streams)]
    theirs = ipc.decode_payloads(files, **options)
    assert theirs.num_alone == len(files)
    assert ours.batch.schema == theirs.batch.schema
    assert rows_of(ours.batch) == rows_of(theirs.batch)
    assert dictionaries_of(ours.batch) == dictionaries_of(theirs.batch)
    assert ours.counts.to_pylist() == theirs.counts.to_pylist()
    return ours


# -- all kinds of payloads -----------------------------------------------------------------------------------


@st.composite
def columns(draw: Any, *, file: bool = True) -> list[bytes | None]:
    """Cells whose payloads share a schema: streams, files, nulls; some compressed, some in old framing."""
    parts = draw(randoms.batches(most_batches=4))
    if not parts:
        return [None] * draw(st.integers(0, 3))
    cells: list[bytes | None] = []
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["null", "stream", "stream", "stream", "file" if file else "stream", "old"]))
        low = draw(st.integers(0, len(parts)))
        chosen = parts[low : draw(st.integers(low, len(parts)))]
        options = {
            "compression": draw(st.sampled_from([None, None, "lz4", "zstd"])),
            "use_legacy_format": kind == "old",
        }
        cells.append(None if kind == "null" else pyarrow_bytes(chosen, kind, parts[0].schema, **options))
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


# -- dictionaries --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("width", INDICES, ids=str)
def test_indices_of_every_width_become_those_of_every_width(width, nulls):
    dice = random.Random(SEED)
    cells = []
    for i in range(6):
        words = pa.array([f"word {(3 * i + k) % 10}" for k in range(5)])
        cells.append(payload(x=encoded(words, dice.choices([*range(5), *[None] * nulls], k=20), width)))
    cells.append(cells[-1])
    rows = alone(*cells)
    for out in INDICES:
        schema = pa.schema([pa.field("x", pa.dictionary(out, pa.string()))])
        decoded = ipc.decode_payloads(cells, schema=schema, validate="none")
        assert rows_of(decoded.batch) == rows
        assert decoded.num_alone <= 1
        pa.record_batch(decoded.batch).validate(full=True)


@pytest.mark.parametrize("width", INDICES[:4], ids=str)
def test_negative_indices_are_outside_of_every_dictionary(width):
    words = pa.array([f"{i}" for i in range(200)])
    good = payload(x=encoded(words, [5, 6], width))
    negative = pa.DictionaryArray.from_arrays(pa.array([5, -100], width), words, safe=False)
    unsigned = pa.schema([("x", pa.dictionary(pa.uint8(), pa.string()))])
    cells = [good, good, payload(x=negative), good]
    for options in ({}, {"dictionaries": "decode"}, {"schema": unsigned}):
        decoded = ipc.decode_payloads(cells, validate="none", on_error="skip", **options)
        assert decoded.counts.to_pylist() == [2, 2, 0, 2]


def test_several_dictionaries_in_any_order_of_columns():
    a, b = encoded(pa.array(["x", "y"]), [0, 1]), encoded(pa.array([7, 8, 9]), [2, 0], ordered=True)
    shared = encoded(pa.array(["y", "z"]), [1, 0])
    cells = [payload(a=a, b=b, c=shared), payload(c=shared, b=b, a=a), payload(a=shared, b=b, c=a)] * 3
    decoded = same_both_ways(cells)
    assert decoded.num_alone == 0
    assert [field.type.ordered for field in decoded.batch.schema] == [False, True, False]
    assert dictionaries_of(decoded.batch) == [["x", "y", "z"], [7, 8, 9], ["y", "z", "x"]]
    assert rows_of(decoded.batch)[2:4] == [["x", 9, "z"], ["y", 7, "y"]]
    chosen = ipc.decode_payloads(cells, columns=["b"])
    assert rows_of(chosen.batch) == [row[1:2] for row in rows_of(decoded.batch)]
    assert chosen.num_alone == 0


def test_a_dictionary_that_has_not_arrived_serves_nulls_alone():
    full, some = (payload(x=encoded(pa.array(["a"]), indices)) for indices in ([None, None], [0, None]))
    without, broken = (
        b"".join(m.serialize() for m in ipc.MessageReader(cell) if m.kind != "DictionaryBatch") for cell in (full, some)
    )
    assert len(without) < len(full)
    for level in LEVELS:
        decoded = ipc.decode_payloads([some, without, full, broken, some], validate=level, on_error="skip")
        assert [row[0] for row in rows_of(decoded.batch)] == ["a", None, None, None, None, None, "a", None]
        assert decoded.failures[0][0] == 3


def test_bare_messages_bring_their_dictionaries():
    columns = [encoded(pa.array([f"{i}", "x"]), [0, 1]) for i in range(5)]
    schema = pa.schema([("x", columns[0].type)])
    streams = [payload("zstd", x=column) for column in columns]
    cells = [b"".join(bytes(m.serialize()) for m in list(ipc.MessageReader(s))[1:]) for s in streams]
    decoded = ipc.decode_payloads(cells, schema=schema)
    assert rows_of(decoded.batch) == alone(*streams)
    assert decoded.num_alone <= 1


# -- a failed payload leaves nothing -------------------------------------------------------------------------


def with_broken_batch(cell: bytes) -> bytes:
    """The payload with an index outside its dictionary, which comes before."""
    at = cell.rindex(b"\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00")
    return cell[:at] + b"\x09" + cell[at + 1 :]


@pytest.mark.parametrize("options", [{}, {"dictionaries": "decode"}], ids=["unify", "decode"])
@pytest.mark.parametrize("level", LEVELS)
def test_the_dictionary_of_a_payload_that_failed_is_taken_back(level, options):
    good, other = (payload(x=encoded(pa.array(words), [1, 0, 1])) for words in (["a", "b"], ["c", "d"]))
    bad = with_broken_batch(other)
    with pytest.raises(ipc.FormatError, match="cell 2"):
        ipc.decode_payloads([good, good, bad, bad, good, other, other, bad], validate=level, **options)
    rows = {good: ["b", "a", "b"], other: ["d", "c", "d"]}
    for cells in (
        [good, good, bad, bad, good, other, other, bad],
        [good, bad, other],  # the same dictionary right behind it is entered again
        [good, good, with_broken_batch(good)],  # an index outside a dictionary that needs no renumbering
        [bad, other, good],  # the first payload of a call
    ):
        for on_error, failed in (("skip", []), ("null", [None])):
            found = ipc.decode_payloads(cells, validate=level, on_error=on_error, **options)
            expected = [rows.get(cell, failed) for cell in cells]
            assert [row[0] for row in rows_of(found.batch)] == [value for cell in expected for value in cell]
            assert found.counts.to_pylist() == [len(cell) for cell in expected]
            assert found.num_failed == sum(cell not in rows for cell in cells)
            if not options:
                words = [word for cell in cells for word in sorted(rows.get(cell, ()))]
                assert dictionaries_of(found.batch) == [[*dict.fromkeys(words)]]


# -- plain values become encoded -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in LEAVES if kind != pa.null()], ids=str)
def test_plain_payloads_fill_an_encoded_column(kind):
    dice = random.Random(f"{SEED} {kind}")
    arrays = [randoms.array_of(kind, dice.randint(0, 9), dice) for _ in range(5)]
    cells = [payload(dice.choice(CODECS), x=array) for array in arrays for _ in range(2)]
    for out, level in zip((pa.int8(), pa.uint32(), pa.int64()), dice.sample(LEVELS, 3), strict=True):
        schema = pa.schema([("x", pa.dictionary(out, kind))])
        decoded = same_both_ways(cells, schema=schema, validate=level)
        assert decoded.num_alone <= 1
        assert rows_of(decoded.batch) == alone(*cells)
        assert None not in decoded.batch.column(0).dictionary.to_pylist()
        pa.record_batch(decoded.batch).validate(full=True)


def test_encoded_and_plain_payloads_mix_whichever_comes_first():
    plain = payload(x=["a", None, "c"])
    wordy = payload(x=encoded(pa.array(["c", "d"]), [1, None, 0]))
    for cells in ([plain, wordy] * 3, [wordy, plain] * 3):
        decoded = same_both_ways(cells)
        assert rows_of(decoded.batch) == alone(*cells)
        assert decoded.num_alone == 0


def test_an_output_whose_indices_are_full_says_so_or_stops():
    cells = [payload(x=[f"{i}.{k}" for k in range(50)]) for i in range(6)]
    schema = pa.schema([("x", pa.dictionary(pa.int8(), pa.string()))])
    with pytest.raises(ipc.UsageError, match=r"cell 2: .*more than 128 distinct values"):
        ipc.decode_payloads(cells, schema=schema)
    decoded = ipc.decode_payloads(cells, schema=schema, max_rows=10_000)
    assert decoded.next == 2
    assert len(decoded.batch.column(0).dictionary.to_pylist()) == 100


# -- compressed bodies ---------------------------------------------------------------------------------------


def raw_and_compressed(rows: int, compression: str) -> bytes:
    """One buffer that shrinks, one that does not and is stored raw."""
    noise = [random.Random(rows + k).getrandbits(62) for k in range(rows)]
    batch = pa.record_batch({"z": pa.array([0] * rows, pa.int64()), "r": pa.array(noise, pa.int64())})
    return ipc_bytes(batch, compression=compression)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_bodies_that_are_partly_raw_stay_in_the_loop(compression):
    cells = [raw_and_compressed(rows, compression) for rows in (0, 1, 7, 300, 4000)] * 2
    decoded = ipc.decode_payloads(cells)
    assert rows_of(decoded.batch) == alone(*cells)
    assert decoded.num_alone == 0
    assert decoded.counts.to_pylist() == [0, 1, 7, 300, 4000] * 2


@pytest.mark.parametrize("use_threads", [False, True])
def test_large_bodies_are_left_to_the_threads_of_readers(use_threads):
    cells = [payload("lz4", z=[0], r=[1]), payload("lz4", z=range(40_000), r=range(40_000))] * 2
    decoded = ipc.decode_payloads(cells, use_threads=use_threads)
    assert decoded.batch.num_rows == 80_002
    assert decoded.num_alone == 2 * use_threads
    assert decoded.batch.column(1).to_pylist()[1:40_001] == list(range(40_000))


@pytest.mark.parametrize(
    "limits",
    [
        {"decompressed_bytes": 2000},
        {"decompressed_ratio": 2, "decompressed_slack": 0},
        {"dictionary_bytes": 100},
        {"rows_per_batch": 99},
    ],
    ids=str,
)
def test_limits_refuse_in_the_loop_what_they_refuse_of_a_reader(limits):
    words = pa.array(["a" * 30, "b" * 30, "c" * 30, "d" * 30])
    cells = [
        payload(compression, x=encoded(words.slice(0, k), [0] * (50 * k)), n=pa.array([0] * (50 * k), pa.int64()))
        for compression in CODECS
        for k in (1, 2, 3, 4)
    ]
    bounds = ipc.Limits(**limits)
    fine = payload(x=encoded(words.slice(0, 1), [0]), n=[1])
    accepted = 0
    for cell in cells:
        decoded = ipc.decode_payloads([fine, cell], limits=bounds, on_error="skip")
        assert decoded.counts.to_pylist()[0] == 1
        try:
            alone(cell, limits=bounds)
        except ipc.ArrowIpcError:
            assert (decoded.num_failed, decoded.num_alone) == (1, 1)
        else:
            assert (decoded.num_failed, decoded.num_alone) == (0, 0)
            accepted += 1
    assert accepted < len(cells)


# -- broken payloads -----------------------------------------------------------------------------------------


PLAIN = ("int32", "string", "list", "string_view", "bool", "struct", "run_end_int32", "dense_union")
TEXTS = encoded(pa.array(["x", None, "a longer text"]), [0, 1, 2, None], pa.int8())
#: Columns with dictionaries of many types.
ENCODED = {
    "t": TEXTS,
    "v": encoded(pa.array(["y" * 20, "z"], pa.string_view()), [1, 0, None, 1]),
    "f": encoded(pa.array([1.5, float("nan")]), [1, 0, 1, 1], pa.uint16()),
    "b": encoded(pa.array([True, False]), [1, 0, None, 0]),
    "d": encoded(pa.array([1, 2, 3]), [2, 2, 0, 1], pa.int64()),
    "l": pa.ListArray.from_arrays(pa.array([0, 1, 1, 3, 4], pa.int32()), TEXTS),
    "p": ["plain", None, "text", ""],
}


@cache
def samples() -> dict[str, bytes]:
    """Payloads of every kind, in every kind of framing."""
    plain = pa.record_batch({name: CASES[name].slice(0, 3) for name in PLAIN})
    one, coded = pa.record_batch({"t": TEXTS[:3]}), pa.record_batch(ENCODED)
    numbers = pa.record_batch({"x": range(100), "s": [str(i % 9) * 5 for i in range(100)]})
    return {
        "plain": pyarrow_bytes([plain] * 2),
        "plain, legacy": pyarrow_bytes([plain], use_legacy_format=True),
        "plain, file": pyarrow_bytes([plain], kind="file"),
        "plain, lz4": pyarrow_bytes([plain], compression="lz4"),
        "encoded": pyarrow_bytes([coded]),
        "encoded, lz4": pyarrow_bytes([coded], compression="lz4"),
        "encoded, zstd": pyarrow_bytes([coded], compression="zstd"),
        "one column": pyarrow_bytes([one, one]),
        "numbers, zstd": pyarrow_bytes([numbers], compression="zstd"),
    }


@cache
def known(good: bytes) -> tuple[list[list[Any]], ipc.Schema]:
    """The rows of a payload, and its schema."""
    return alone(good), ipc.read_schema(good)


def use(batch: Any) -> None:
    """Whatever a batch says, showing and writing it ends in values or in an error of ours."""
    repr(batch)
    for column in batch.columns:
        with contextlib.suppress(ipc.ArrowIpcError):
            column.to_pylist()
    with contextlib.suppress(ipc.ArrowIpcError), ipc.new_stream(io.BytesIO(), batch.schema) as writer:
        writer.write(batch)


def check_beside(good: bytes, bad: bytes, level: str, **options: Any) -> None:
    """Whatever a payload is, its neighbours stay what they are, and it is what a reader says or left out."""
    rows, schema = known(good)
    decoded = ipc.decode_payloads([good, good, bad, good], validate=level, on_error="skip", **options)
    counts = decoded.counts.to_pylist()
    assert counts[0] == counts[1] == counts[3] == len(rows)
    if decoded.batch.num_rows > 10_000:
        return
    use(decoded.batch)
    try:
        found = rows_of(decoded.batch)
    except ipc.ArrowIpcError:
        assert level == "none"
        return
    assert repr(found[: len(rows)]) == repr(found[-len(rows) :]) == repr(rows)
    try:
        if not ipc.read_schema(bad).equals(schema):
            return  # columns of another name are left out, or null
        # Unvalidated, offsets that do not rise stand for any values of the batch.
        model = alone(bad, validate="full" if level == "none" else level)
    except ipc.ArrowIpcError:
        assert level == "none" or decoded.num_failed == 1
        return
    if not decoded.num_failed:
        assert repr(found[2 * len(rows) : -len(rows)]) == repr(model)


@pytest.mark.campaign
@pytest.mark.parametrize("name", samples())
@pytest.mark.parametrize("level", LEVELS)
def test_every_truncation_leaves_the_neighbours_alone(level, name):
    good = samples()[name]
    step = max(1, len(good) // rounds(20, 1000))
    for size in (*range(0, len(good), step), *range(len(good) - 16, len(good))):
        check_beside(good, good[:size], level)


@pytest.mark.campaign
@pytest.mark.parametrize("name", samples())
@pytest.mark.parametrize("level", LEVELS)
def test_mutations_give_values_or_errors_and_leave_the_neighbours_alone(level, name):
    dice, good = random.Random(f"{SEED} {name}"), samples()[name]
    for _ in range(rounds(20, 2000)):
        columns, dictionaries = dice.choice([None, known(good)[1].names]), dice.choice(["unify", "decode"])
        check_beside(good, overwritten(good, dice), level, dictionaries=dictionaries, columns=columns)


class Once:
    """A column that is gone when it has been read: chunk after chunk."""

    def __init__(self, chunks: list[list[bytes]]) -> None:
        self._column: Any = pa.chunked_array([pa.array(chunk, pa.binary()) for chunk in chunks])

    def __arrow_c_stream__(self, requested: object = None) -> object:
        column, self._column = self._column, None
        return column.__arrow_c_stream__(requested)


def test_a_dictionary_outlives_the_chunk_that_it_came_in():
    cells = [payload(x=encoded(pa.array([f"{i // 8}", "x"]), [0, 1])) for i in range(20)]
    rows = alone(*cells)
    for options in ({}, {"dictionaries": "decode"}):
        decoded = ipc.decode_payloads(Once([cells[at : at + 4] for at in range(0, 20, 4)]), **options)
        assert rows_of(decoded.batch) == rows
        assert decoded.num_alone == 0
