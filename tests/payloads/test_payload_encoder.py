"""Payload columns on their way out: each cell is what a stream writer makes of the same rows."""

import array
import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columns.broken import forged
from helpers import arrays, forge, randoms
from helpers.arrays import ipc_bytes, read_batch
from helpers.processes import rounds
from hypothesis import given, settings, strategies as st

import arrowipc as ipc
from arrowipc import FormatError, UsageError, types

CODECS = st.sampled_from([None, "lz4", "zstd"])
OPTIONS = st.fixed_dictionaries(
    {"alignment": st.sampled_from([8, 64]), "compression": CODECS, "legacy": st.booleans()},
    optional={"metadata_version": st.just("V4")},
)
ours = ipc.RecordBatch.from_arrow
NUMBERS = ipc.RecordBatch.from_pydict({"n": list(range(10)), "t": [f"text {i}" if i % 3 else None for i in range(10)]})


def cells(column: ipc.Array) -> list[bytes]:
    """The cells as pyarrow sees them, which validates the column on the way."""
    taken = pa.array(column)
    taken.validate(full=True)
    assert taken.null_count == 0
    return taken.to_pylist()


def rows_in(payloads: ipc.Array) -> list[int]:
    """How many rows each cell has."""
    return [ipc.open_stream(cell).read_all().num_rows for cell in cells(payloads)]


def ranges(offsets: list[int]) -> Iterator[tuple[int, int]]:
    return ((start, stop - start) for start, stop in itertools.pairwise(offsets))


def check_rows(found: list[bytes], batch: ipc.RecordBatch, offsets: list[int]) -> None:
    """Each cell holds exactly its rows, for us and for pyarrow."""
    assert len(found) == len(offsets) - 1
    for cell, (start, count) in zip(found, ranges(offsets), strict=True):
        (again,) = ipc.open_stream(cell, validate="strict")
        assert again.equals(batch.slice(start, count), nan_equal=True, check_metadata=True)
        (theirs,) = pa.ipc.open_stream(cell)
        theirs.validate(full=True)
        assert ours(theirs).equals(again, nan_equal=True)


@settings(max_examples=rounds(60, 150))
@given(randoms.batches(most_batches=1), st.lists(st.integers(0, 12), min_size=1, max_size=6), OPTIONS)
def test_a_cell_has_the_bytes_of_a_stream_of_its_rows(parts, cuts, options):
    if not parts:
        return
    if "metadata_version" in options:
        options = {**options, "compression": None}
    for batch in (read_batch(parts[0]), ours(parts[0])):
        offsets = sorted(min(cut, batch.num_rows) for cut in cuts)
        found = cells(ipc.encode_payloads(batch, offsets, trim_dictionaries=False, **options))
        assert found == [ipc_bytes(batch.slice(*rows), **options) for rows in ranges(offsets)]
        check_rows(cells(ipc.encode_payloads(batch, offsets, **options)), batch, offsets)


@pytest.mark.parametrize("sizes", [[100_000, 1, 1, 1], [1, 1, 1, 100_000], [1] * 5_000 + [9] * 5_000])
def test_cells_of_very_different_sizes_come_back(sizes):
    rows = sum(sizes)
    batch = ours(pa.record_batch({"n": np.arange(rows), "t": pa.array(np.arange(rows)).cast(pa.string())}))
    offsets = np.cumsum([0, *sizes])
    column = ipc.encode_payloads(batch, offsets, large=len(sizes) < 10)
    for i in {0, 1, 2, len(sizes) // 2, len(sizes) - 1}:
        assert column[i] == ipc_bytes(batch.slice(int(offsets[i]), sizes[i]))
    assert rows_in(column) == sizes


# -- what a cell is made of ----------------------------------------------------------------------------------


def test_without_schema_a_cell_is_the_message_with_its_dictionaries():
    for options in ({}, {"alignment": 64}, {"compression": "lz4"}):
        found = cells(ipc.encode_payloads(NUMBERS, rows_per_payload=3, with_schema=False, **options))
        assert found == [NUMBERS.slice(i, 3).serialize(**options) for i in (0, 3, 6, 9)]
    (first, *_) = found
    assert ipc.read_record_batch(first, NUMBERS.schema) == NUMBERS.slice(0, 3)
    words = read_batch(pa.record_batch({"w": pa.array(["a", "b", "a"]).dictionary_encode()}))
    for i, cell in enumerate(cells(ipc.encode_payloads(words, rows_per_payload=1, with_schema=False))):
        schema = ipc.read_schema(ipc_bytes(words))
        dictionary, rows = list(ipc.MessageReader(schema.serialize() + cell))[1:]
        assert ipc.read_record_batch(rows, schema, dictionaries=[dictionary]) == words.slice(i, 1)


@pytest.mark.parametrize("legacy", [False, True])
def test_schema_and_end_are_there_as_asked_for(legacy):
    end = bytes(4) if legacy else b"\xff\xff\xff\xff" + bytes(4)

    def made(**options: Any) -> list[bytes]:
        return cells(ipc.encode_payloads(NUMBERS, [2, 5], legacy=legacy, **options))

    whole = ipc_bytes(NUMBERS.slice(2, 3), legacy=legacy)
    assert whole.endswith(end)
    assert made() == made(with_end=True) == [whole]
    assert made(with_end=False) == [whole[: -len(end)]]
    (bare,) = made(with_schema=False)
    assert whole.endswith(bare + end)
    assert made(with_schema=False, with_end=True) == [bare + end]


def test_custom_metadata_of_the_batch_is_in_each_cell():
    with ipc.new_stream(sink := bytearray()) as writer:
        writer.write_batch(NUMBERS, custom_metadata={"k": "value", "other": ""})
    (batch,) = ipc.open_stream(sink)
    found = cells(ipc.encode_payloads(batch, rows_per_payload=4))
    assert found == [ipc_bytes(batch.slice(i, 4)) for i in (0, 4, 8)]
    (again,) = ipc.open_stream(found[1])
    assert again.custom_metadata.pairs == ((b"k", b"value"), (b"other", b""))


def test_a_schema_of_ones_own_is_declared():
    schema = ipc.Schema([types.field("n", types.int64(), metadata={"unit": "m"}), NUMBERS.schema[1]], {"a": "b"})
    (cell,) = cells(ipc.encode_payloads(NUMBERS, [0, 10], schema=schema))
    found = ipc.read_schema(cell)
    assert found.metadata.pairs == ((b"a", b"b"),)
    assert found[0].metadata.pairs == ((b"unit", b"m"),)
    with pytest.raises(UsageError, match="column 0 is named 'n' in the batch and 'm'"):
        ipc.encode_payloads(NUMBERS, [0, 10], schema=[types.field("m", types.int64()), NUMBERS.schema[1]])


def test_nulls_that_the_schema_forbids_are_refused():
    schema = [NUMBERS.schema[0], types.field("t", types.utf8(), nullable=False)]
    assert len(ipc.encode_payloads(NUMBERS, [1, 2, 3, 3], schema=schema)) == 3
    with pytest.raises(UsageError, match="column 't' has 1 null and the writer's schema says that it has none"):
        ipc.encode_payloads(NUMBERS, [1, 3, 5], schema=schema)


# -- what goes in --------------------------------------------------------------------------------------------


def test_no_columns_no_rows_and_no_payloads():
    nothing = ours(pa.record_batch({}))
    for batch in (nothing, ipc.RecordBatch(), NUMBERS.slice(0, 0)):
        assert cells(ipc.encode_payloads(batch, rows_per_payload=5)) == []
        assert cells(ipc.encode_payloads(batch, [0])) == []
        check_rows(cells(ipc.encode_payloads(batch, [0, 0, 0])), batch, [0, 0, 0])
    counted = read_batch(pa.record_batch({"n": [1, 2, 3]}))
    assert rows_in(ipc.encode_payloads(counted, group_by="n").payloads) == [1, 1, 1]


def test_a_dict_of_columns():
    (cell,) = cells(ipc.encode_payloads({"n": [1]}, [0, 1]))
    assert ipc.open_stream(cell).read_all().to_pydict() == {"n": [1]}
    with pytest.raises(UsageError, match="nothing says what the columns are"):
        ipc.encode_payloads([], [0])
    assert cells(ipc.encode_payloads(ipc.Table(NUMBERS.schema, []), rows_per_payload=1)) == []
    with pytest.raises(UsageError, match="found int 5"):
        ipc.encode_payloads(5, [0])


EXPECTED = [2, 2, 5, 10]


@pytest.mark.parametrize(
    "offsets",
    [
        EXPECTED,
        tuple(EXPECTED),
        pytest.param(iter(EXPECTED), marks=pytest.mark.thread_unsafe(reason="is read once")),
        *(np.array(EXPECTED, kind) for kind in ("i1", "u1", "<i2", ">i4", "<i8", ">u8", "<u4")),
        np.array([2, 0, 2, 0, 5, 0, 10, 0])[::2],
        array.array("l", EXPECTED),
        bytearray(EXPECTED),
        [np.int8(i) for i in EXPECTED],
        *(pa.array(EXPECTED, kind) for kind in (pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64())),
        pa.array([7, *EXPECTED, 7])[1:5],
        arrays.read_array(pa.array([7, *EXPECTED, 7])).slice(1, 4),
    ],
    ids=lambda each: f"{type(each).__name__} {getattr(each, 'dtype', '') or getattr(each, 'type', '')}",
)
def test_offsets_come_in_many_kinds(offsets):
    check_rows(cells(ipc.encode_payloads(NUMBERS, offsets)), NUMBERS, EXPECTED)


INTEGERS = "expected integers in one dimension, without nulls, found"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"offsets": []}, "one entry more than there are payloads, found none"),
        ({"offsets": np.array([], np.int64)}, "found none"),
        ({"offsets": [0, 11]}, "entry 1 is 11, outside the batch of 10 rows"),
        ({"offsets": [-1, 5]}, "entry 0 is -1, outside"),
        ({"offsets": [0, 5, 4]}, "entry 2 is 4, lower than 5 before it"),
        ({"offsets": [0, 2**80]}, f"{INTEGERS} object in 1"),
        ({"offsets": np.array([2**64 - 1], np.uint64)}, "18446744073709551615 is more than there can be rows"),
        ({"offsets": [0, 1.5]}, f"{INTEGERS} float64 in 1"),
        ({"offsets": [0, None]}, f"{INTEGERS} object in 1"),
        ({"offsets": np.array([0.0, 1.0])}, f"{INTEGERS} float64 in 1"),
        ({"offsets": 5}, f"{INTEGERS} int64 in 0"),
        ({"offsets": pa.array([0, None])}, f"{INTEGERS} float64 in 1"),
        ({"offsets": pa.array([0.5])}, f"{INTEGERS} float64 in 1"),
        *[({"rows_per_payload": n}, "rows_per_payload must be an integer from 1") for n in (0, -1, 2.0, True, 2**63)],
        *[
            (ways, "expected one of offsets, rows_per_payload and group_by")
            for ways in ({}, {"offsets": [0], "rows_per_payload": 1}, {"rows_per_payload": 1, "group_by": "n"})
        ],
        ({"group_by": "m"}, r"no columns are named 'm'; the batch has \['n', 't'\]"),
        ({"group_by": ["n", "n"]}, "'n' is named twice"),
        ({"group_by": []}, "expected the name of a column"),
        ({"group_by": [0]}, "expected names of columns, found int 0"),
    ],
)
def test_ways_of_cutting_that_do_not_fit_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        ipc.encode_payloads(NUMBERS, **options)


# -- binary and large binary ---------------------------------------------------------------------------------


def test_large_payloads_have_64_bit_offsets():
    small, large = (ipc.encode_payloads(NUMBERS, rows_per_payload=3, large=each) for each in (False, True))
    assert (small.type, large.type) == (types.binary(), types.large_binary())
    assert cells(small) == cells(large)


def test_more_payloads_than_int32_offsets_can_count_are_refused_before_any_is_made():
    batch = ours(pa.record_batch({"x": pa.nulls(2**31 // 64)}))
    with pytest.raises(UsageError, match=r"33,554,432 payloads take more than .*: pass large=True"):
        ipc.encode_payloads(batch, rows_per_payload=1)


@pytest.mark.slow
@pytest.mark.nosanitize
def test_payloads_that_outgrow_int32_are_refused_with_what_to_do():
    # One text that all rows share, so that nothing but the payloads is large: 32 of them are nearly 2 GiB.
    size = 2**26 - 4096
    view = size.to_bytes(4, "little") + bytes(12)
    views = pa.Array.from_buffers(pa.string_view(), 33, [None, pa.py_buffer(33 * view), pa.py_buffer(bytes(size))])
    batch = ours(pa.record_batch({"t": views}))
    column = ipc.encode_payloads(batch, list(range(33)))
    assert (len(column), memoryview(column.buffers()[2]).nbytes >> 20) == (32, 2**11 - 1)
    with pytest.raises(UsageError, match=r"with number 32 of 33, .*: pass large=True"):
        ipc.encode_payloads(batch, rows_per_payload=1)
    assert len(ipc.encode_payloads(batch, rows_per_payload=1, large=True)) == 33


# -- dictionaries --------------------------------------------------------------------------------------------


def coded(indices: list[Any], words: Any, kind: Any = None, **options: Any) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, kind or pa.int32()), words, **options)


def dictionary_of(cell: bytes) -> list[Any]:
    (batch,) = ipc.open_stream(cell)
    return batch.column(0).dictionary.to_pylist()


@pytest.mark.parametrize("kind", [*randoms.LEAVES], ids=str)
def test_a_payload_has_the_values_that_it_uses(kind):
    words = randoms.array_of(kind, 40, random.Random(3))
    picks = [7, 3, None, 7, 39, 0, 12, 3, 5]
    batch = read_batch(pa.record_batch({"w": coded(picks, words)}))
    offsets = [0, 3, 6, 6, 9]
    found = cells(ipc.encode_payloads(batch, offsets))
    check_rows(found, batch, offsets)
    for cell, (start, count) in zip(found, ranges(offsets), strict=True):
        used = dict.fromkeys(pick for pick in picks[start : start + count] if pick is not None)
        expected = pa.concat_arrays([words.slice(pick, 1) for pick in used] or [words.slice(0, 0)])
        (again,) = ipc.open_stream(cell)
        assert ours(pa.record_batch({"w": expected}))["w"].equals(again["w"].dictionary, nan_equal=True)


@pytest.mark.parametrize("shared", [False, True])
def test_an_ordered_dictionary_is_whole_so_that_all_payloads_together_have_its_order(shared):
    words = ["low", "mid", "high", "never"]
    kinds = [types.Dictionary(types.int8(), types.utf8(), ordered, 0) for ordered in (False, True)]
    schema = ipc.Schema([types.field("a", kinds[0]), types.field("b", kinds[1])] if shared else {"b": kinds[1]})
    ordered = ipc.array(coded([0, 2, 1], words, pa.int8(), ordered=True))
    columns = [ordered.cast(kinds[0]), ordered] if shared else [ordered]
    batch = ipc.RecordBatch.from_arrays(columns, schema=schema)
    words = batch["b"].dictionary.to_pylist()
    payloads = ipc.encode_payloads(batch, rows_per_payload=1)
    assert [dictionary_of(cell) for cell in cells(payloads)] == [words] * 3
    column = ipc.decode_payloads(payloads).batch["b"]
    assert (column.type, column.dictionary.to_pylist()) == (kinds[1], words)


def test_a_dictionary_is_whole_where_trimming_saves_little_or_nothing_is_to_be_trimmed():
    words = list("abcdef")
    batch = read_batch(pa.record_batch({"w": coded([5, 4, 3, 2, 1, 0], words)}))
    two, three, one = cells(ipc.encode_payloads(batch, [0, 2, 5, 6]))
    assert [dictionary_of(cell) for cell in (two, three, one)] == [["f", "e"], words, ["a"]]
    for cell in cells(ipc.encode_payloads(batch, [0, 2, 5, 6], trim_dictionaries=False)):
        assert dictionary_of(cell) == words


def test_columns_that_share_a_dictionary_share_what_is_left_of_it():
    shared = types.Dictionary(types.int16(), types.utf8(), dictionary_id=4)
    schema = ipc.Schema([types.field("a", shared), types.field("b", types.list_(shared))])
    values = {"a": ["x", "y", None, "z"], "b": [["p", "r", "s"], ["q", "x"], [], ["z", None]]}
    batch = ipc.RecordBatch.from_pydict(values, schema)
    for offsets in ([0, 2, 4], [0, 1, 2, 3, 4]):
        check_rows(found := cells(ipc.encode_payloads(batch, offsets)), batch, offsets)
    assert dictionary_of(found[1]) == ["y", "q", "x"]


def test_dictionaries_in_dictionaries_are_whole():
    inner = coded([0, 1, 2] * 10, ["a", "b", "c", *map(str, range(50))])
    lists = pa.ListArray.from_arrays(list(range(31)), inner)
    structs = pa.StructArray.from_arrays([inner], ["s"])
    for words in (lists, structs):
        batch = read_batch(pa.record_batch({"w": coded([1, 29, None, 4], words)}))
        found = cells(ipc.encode_payloads(batch, rows_per_payload=1))
        assert found == [ipc_bytes(batch.slice(i, 1)) for i in range(4)]


def test_long_views_of_a_dictionary_are_packed():
    words = pa.array([f"word {i}" * (i % 5) for i in range(500)], pa.string_view())
    batch = read_batch(pa.record_batch({"w": coded([3, 499, 4, 10, None], words)}))
    found = cells(ipc.encode_payloads(batch, [0, 3, 5]))
    check_rows(found, batch, [0, 3, 5])
    assert max(map(len, found)) < 1000


# -- groups --------------------------------------------------------------------------------------------------


def key(value: Any) -> Any:
    """What makes two values one key."""
    if isinstance(value, float):
        return "nan" if value != value else value
    if isinstance(value, dict):
        return tuple((name, key(below)) for name, below in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(key(below) for below in value)
    return type(value).__name__, value


def runs(*columns: list[Any]) -> list[int]:
    rows = [tuple(map(key, row)) for row in zip(*columns, strict=True)]
    return [i for i, row in enumerate(rows) if i == 0 or row != rows[i - 1]] + [len(rows)]


@given(randoms.types, st.integers(0, 2**32), st.integers(0, 30), st.integers(0, 5))
def test_runs_are_those_of_the_values(kind, seed, rows, offset):
    chance = random.Random(seed)
    few = randoms.array_of(kind, 4, chance)
    picked = [few.slice(chance.randrange(4), 1) for _ in range(rows + offset)]
    column = pa.concat_arrays(picked) if picked else few.slice(0, 0)
    batch = ours(pa.record_batch([column, pa.array([0] * len(column))], ["x", "n"])).slice(offset)
    ones = [batch["x"].slice(i, 1) for i in range(batch.num_rows)]
    # Nulls of two members of a union are the same value in Python, and two keys.
    same = [i > 0 and one.equals(ones[i - 1], nan_equal=True) for i, one in enumerate(ones)]
    members = list(itertools.accumulate(int("union" in str(kind) and not each) for each in same))
    starts = runs(batch["x"].to_pylist(), members)
    payloads, keys = ipc.encode_payloads(batch, group_by=["n", "x"])
    assert keys.schema.names == ["n", "x"]
    assert list(map(key, keys["x"].to_pylist())) == [key(batch["x"][i]) for i in starts[:-1]]
    assert rows_in(payloads) == [count for _, count in ranges(starts)]


def test_values_under_nulls_do_not_count():
    valid = forge.bits(1, 0, 0, 1, 1)
    buffers = [valid, forge.i8(1, 1, 2, 2, 2), valid, forge.i32(0, 1, 1, 2, 3, 4), b"aabb"]
    fields = [forge.field("x", forge.INT8), forge.field("t", forge.UTF8)]
    batch = forged(fields, forge.batch(5, [(5, 2), (5, 2)], buffers))
    for names in (["x"], ["t"], ["x", "t"]):
        assert rows_in(ipc.encode_payloads(batch, group_by=names).payloads) == [1, 2, 2]


def test_equal_values_of_different_indices_are_one_key():
    batch = read_batch(pa.record_batch({"w": coded([0, 1, 2, None, 3], pa.array(["a", "a", "b", None]))}))
    payloads, keys = ipc.encode_payloads(batch, group_by="w")
    assert keys.to_pydict() == {"w": ["a", "b", None]}
    assert len(payloads) == 3


def test_several_keys_and_keys_that_stay():
    data = {"a": [1, 1, 1, 2, 2], "v": [1, 2, 3, 4, 5], "b": ["x", "x", "y", "y", None]}
    batch = ours(pa.record_batch(data))
    payloads, keys = ipc.encode_payloads(batch, group_by=["b", "a"])
    assert keys.to_pydict() == {"b": ["x", "y", "y", None], "a": [1, 1, 2, 2]}
    found = [ipc.open_stream(cell).read_all().to_pydict()["v"] for cell in cells(payloads)]
    assert found == [[1, 2], [3], [4], [5]]
    kept = ipc.encode_payloads(batch, group_by=["b", "a"], keep_keys=True)
    assert cells(kept.payloads) == [ipc_bytes(batch.slice(*rows)) for rows in ranges([0, 2, 3, 4, 5])]
    schema = ipc.Schema(batch.schema.fields, {"made": "here"})
    declared = ipc.encode_payloads(batch, group_by="a", schema=schema)
    found = ipc.read_schema(cells(declared.payloads)[0])
    assert (found.names, found.metadata.pairs) == (["v", "b"], ((b"made", b"here"),))


def test_a_key_whose_name_two_columns_have_is_refused():
    twice = ours(pa.record_batch([pa.array([1]), pa.array([2])], ["x", "x"]))
    with pytest.raises(UsageError, match="2 columns are named 'x'"):
        ipc.encode_payloads(twice, group_by="x")


def test_a_broken_payload_is_named():
    rows = forge.batch(3, [(3, 0)], [b"", forge.i32(0, 1, 9, 3), b"abc"])
    batch = forged([forge.field("t", forge.UTF8)], rows)
    with pytest.raises(FormatError, match=r"payload 1 \(rows 1 to 2\): column 't'"):
        ipc.encode_payloads(batch, rows_per_payload=1)
    with pytest.raises(FormatError, match="column 't'"):
        ipc.encode_payloads(batch, group_by="t")


def test_a_broken_index_or_dictionary_is_named():
    root = forge.schema(forge.field("w", forge.UTF8, dictionary=forge.encoding(0)))
    words = forge.batch(5, [(5, 0)], [b"", forge.i32(0, 1, 2, 3, 99, 5), b"abcde"])
    rows = forge.batch(4, [(4, 0)], [b"", forge.i32(0, 3, 5, 2)])
    (batch,) = ipc.open_stream(forge.stream(root, forge.dictionary(0, words), rows), validate="none")
    with pytest.raises(FormatError, match=r"payload 1 \(rows 1 to 2\): dictionary 0: "):
        ipc.encode_payloads(batch, rows_per_payload=1)
    with pytest.raises(FormatError, match=r"payload 0 \(rows 2 to 3\): column 'w'"):
        ipc.encode_payloads(batch, [2, 3])
    assert dictionary_of(cells(ipc.encode_payloads(batch, [3, 4]))[0]) == ["c"]
