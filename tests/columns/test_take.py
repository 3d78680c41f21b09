"""Rows and columns in hand: what is taken, cut, chosen, renamed and added is what Python's lists say (issue 23)."""

import gc
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from helpers import drive, forge, randoms
from helpers.arrays import CASES, ipc_bytes, pyarrow_bytes, read_array, read_batch
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import UsageError, types
from arrowipc.types import dictionary, field, int8, int64, list_, utf8

WORDS = ipc.RecordBatch.from_pydict({"x": [1, 2, 3, None], "y": ["a", "b", None, "d"]})
DEEP = ipc.RecordBatch.from_pydict(
    {"x": [1, 2], "s": [{"p": 1.5, "q": {"r": "a", "t": None}}, None], "l": [[{"u": 1, "v": b"b"}], []]}
)


INTERVALS = {
    types.interval_year_month(): [1, None, -5],
    types.interval_day_time(): [(1, -2), None, (3, 4)],
    types.month_day_nano_interval(): [(1, -2, 3), None, (0, 0, 2**60)],
}


@pytest.mark.parametrize("kind", INTERVALS, ids=str)
def test_intervals_which_pyarrow_cannot_make_are_taken_too(kind):
    array = ipc.Array.from_pylist(INTERVALS[kind], kind)
    values = array.to_pylist()
    assert array.take(range(3)) == array
    assert array[1:].take([1, 0, -1, 1]).to_pylist() == [values[2], None, values[2], values[2]]
    assert array.take([2, None, -1]).to_pylist() == [values[2], None, values[2]]


def test_every_layout_is_among_those_that_are_taken():
    """A type that is added to the format has to be added to the cases."""

    def kinds(kind: type) -> set[type]:
        below = {each for child in kind.__subclasses__() for each in kinds(child)}
        return below or {kind}

    public = {each for each in kinds(types.DataType) if each.__module__ == "arrowipc.datatypes"}
    taken = [read_array(array).type for array in CASES.values()]
    assert {*map(type, taken), types.Interval} == public
    assert {kind.mode for kind in taken if isinstance(kind, types.Union)} == {"sparse", "dense"}


@given(randoms.batches(), st.randoms(use_true_random=False))
def test_rows_of_batches_and_tables_are_those_of_lists(parts, dice):
    """To take all is the thing itself, and to take twice is to take what the second time chooses of the first."""
    batches = drive.from_bytes(pyarrow_bytes(parts)).batches
    table = ipc.Table.from_batches(batches) if batches else None
    for found in [*batches, *(batch[1:] for batch in batches), *([table, table[1:]] if table else [])]:
        rows, n = found.to_pylist(), found.num_rows
        assert found.take(np.arange(n)).equals(found, check_metadata=True, nan_equal=True)
        chosen = [dice.randrange(-n, n) for _ in range(min(2 * n, 50))]
        taken = found.take(chosen)
        assert str(taken.to_pylist()) == str([rows[row] for row in chosen])
        assert taken.schema.equals(found.schema, check_metadata=True)
        second = [dice.randrange(len(chosen)) for _ in chosen]
        twice = taken.take(second)
        assert twice.equals(found.take([chosen[row] for row in second]), nan_equal=True)
        for each in (found, twice):
            drive.export_to_pyarrow(each.combine() if isinstance(each, ipc.Table) else each)
        start, stop = sorted(dice.randrange(-n - 1, n + 2) for _ in range(2))
        step = dice.choice((1, 1, 2, -1, -3))
        assert str(found[start:stop:step].to_pylist()) == str(rows[start:stop:step])
        assert str([[column[i] for i in range(n)] for column in found.columns]) == str([*map(list, found.columns)])
        assert str(list(found.iter_rows(named=True))) == str(rows)
        assert found.head(2).num_rows + found.tail(-2).num_rows == n


@pytest.mark.parametrize("where", [WORDS, WORDS["x"], ipc.Table.from_batches([WORDS, WORDS])])
def test_what_is_no_index_is_refused(where):
    for wrong in ([99], [-99], np.array([4, 8])):
        with pytest.raises(IndexError, match="is not one of the"):
            where.take(wrong)
    no_integers = ([True], [None, "0"], [None, 1.5], [1.0], [[1]], [np.arange(2)], pa.array([None, 1.5]))
    for wrong in (*no_integers, np.array([2**63], np.uint64)):
        with pytest.raises(UsageError, match=r"expected (an integer|integers in one)|more than there can be rows"):
            where.take(wrong)
    for wrong in ([0], [None, 0]):
        with pytest.raises(IndexError):
            where[:0].take(wrong)
    assert where.take([None, 1]).to_pylist()[1:] == where.take([1]).to_pylist() != where.take([None]).to_pylist()


def as_bytes(batch: pa.RecordBatch, **options: object) -> bytes:
    """A file of this batch, twice."""
    return ipc_bytes([batch, batch], "file", **options)


#: Every way to take rows, of what was read from a file of two batches with `n` rows each.
TAKEN = {
    "RecordBatch.take": lambda reader, rows, n: reader.get_batch(1).take(rows),
    "Array.take": lambda reader, rows, n: reader.get_batch(1)[0].take(rows),
    "of a slice": lambda reader, rows, n: reader.get_batch(1)[1:].take([row - 1 for row in rows if row]),
    "batch[::2]": lambda reader, rows, n: reader.get_batch(0)[::-2],
    "Table.take": lambda reader, rows, n: reader.read_all().take([*rows, *(n + row for row in rows)]),
    "reader.take": lambda reader, rows, n: reader.take([*rows, *(n + row for row in rows)]),
    "what was taken": lambda reader, rows, n: reader.get_batch(0).take(rows).take(range(len(rows))),
}


def alone(data: bytes, take: object) -> object:
    """What was taken of a file in memory that grows, which it cannot while somebody points at it, and is filled."""
    source = bytearray(data)
    taken = take(ipc.open_file(source))
    values = repr(taken.to_pylist())
    source.append(0)
    source[:] = bytes(len(source))
    assert repr(taken.to_pylist()) == values
    return taken


@pytest.mark.parametrize("name", CASES)
def test_nothing_of_a_source_is_alive_after_take(name):
    """Neither its body nor the bodies of dictionaries, whichever rows they are, in whatever way they are taken."""
    array = CASES[name]
    n, batch = len(array), pa.record_batch({"x": array})
    sources = [as_bytes(batch), as_bytes(batch, compression="lz4")]
    for rows in ([], [n - 1], list(range(n)), [0, n - 1, 0, n // 2]) if n else ([],):
        for way, take in TAKEN.items():
            for data in sources[: 1 + (way == "RecordBatch.take")]:
                alone(data, lambda reader, take=take, rows=rows: take(reader, rows, n))


def test_nothing_of_a_footer_is_alive_after_take():
    """A large footer is not copied when it is read, and the plan of the schema lies in it."""
    words = ipc.Array.from_pylist(["a", "b"], dictionary(int8(), utf8()))
    data = ipc_bytes([ipc.RecordBatch.from_pydict({"x": [1, 2], "d": words})] * 12_000, "file")
    for take in (lambda reader: reader.get_batch(7).take([1]), lambda reader: reader.take([15])):
        assert alone(data, take).to_pylist() == [{"x": 2, "d": "b"}]
        assert alone(data, lambda reader, take=take: take(reader).select(["d"])).to_pylist() == [{"d": "b"}]


def test_no_file_is_mapped_because_of_rows_that_were_taken(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.arrow").write_bytes(as_bytes(pa.record_batch({"d": CASES["dictionary"], "x": range(5)})))
    dataset = ipc.open_dataset(tmp_path)
    kept = [ipc.open(tmp_path / "a.arrow").take([3]), dataset.take([3, 17])]
    del dataset
    gc.collect()
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    assert [row["x"] for batch in kept for row in batch.to_pylist()] == [3, 3, 2]


def test_a_dictionary_is_copied_once_and_shared_by_all_that_is_taken():
    values = pa.array([f"word {i}" for i in range(1000)])
    batch = pa.record_batch({"d": pa.DictionaryArray.from_arrays(pa.array([1, 2, 999], pa.int16()), values)})
    file = ipc.open_file(as_bytes(batch))
    parts = [file.get_batch(0).take([1]), file.get_batch(1).take([2]), file.get_batch(0)["d"].take([0])]
    parts += [parts[0].take([0, 0]), file.take([4])]
    words = [np.frombuffer((part if isinstance(part, ipc.Array) else part["d"]).dictionary.buffers()[2], np.uint8)
             for part in parts]  # fmt: skip
    assert all(np.shares_memory(words[0], each) for each in words)
    assert not np.shares_memory(words[0], np.frombuffer(file.get_batch(0)["d"].dictionary.buffers()[2], np.uint8))


def test_a_dictionary_in_memory_of_its_own_is_not_copied():
    """Not even versions of one that grows by deltas: copies of all of them would be any number of times its size."""
    words = [f"word {i}" for i in range(50)]
    columns = [pa.DictionaryArray.from_arrays(pa.array([i - 1]), words[:i]) for i in range(1, 50)]
    data = ipc_bytes([pa.record_batch({"d": column}) for column in columns], dictionary_deltas=True)
    for batch in list(ipc.open_stream(io.BytesIO(data)))[2:]:
        texts = [each["d"].dictionary.buffers()[2] for each in (batch, batch.take([0]))]
        assert np.shares_memory(*[np.frombuffer(text, np.uint8) for text in texts])


def test_elements_and_texts_that_rows_share_are_copied_once():
    """Else 1,000 lists of the same 1,000 elements were a million."""
    many = pa.ListViewArray.from_arrays([0] * 1000, [1000] * 1000, pa.array(range(1000)))
    taken = ipc.RecordBatch.from_arrow(pa.record_batch({"l": many})).take(range(1000))
    assert taken.nbytes < 20_000
    assert taken["l"].to_pylist() == [list(range(1000))] * 1000
    text = b"a text of which all rows are" * 1000
    view = forge.view(text, 0, 0)
    kind = ipc.Schema([field("v", types.utf8_view())])
    batch = ipc.RecordBatch.from_buffers(kind, 1000, [(1000, 0)], [None, view * 1000, text], variadic=[1])
    for taken in (batch.take(range(1000)), ipc.Table.from_batches([batch, batch]).take(range(2000)).batches[0]):
        assert taken.nbytes < 100_000
        assert set(taken["v"].to_pylist()) == {text.decode()}


def test_offsets_that_do_not_fit_are_an_error_that_says_what_to_do():
    wide = ipc.RecordBatch.from_pydict({"t": ["a" * (1 << 20)]})
    with pytest.raises(ipc.UnsupportedError, match="offset"):
        wide.take(np.zeros(2048, np.int64))


def test_brackets_choose_rows_or_columns():
    assert WORDS["x"].to_pylist() == WORDS[0].to_pylist() == WORDS[np.int64(0)].to_pylist()
    assert WORDS[["y", "x"]].schema.names == ["y", "x"]
    assert WORDS[[2, -1]].to_pydict() == {"x": [3, None], "y": [None, "d"]}
    assert WORDS[np.array([0])].num_rows == 1
    assert WORDS[[]].num_rows == 0
    assert WORDS["x"][[0, -1]].to_pylist() == [1, None]
    table = ipc.Table.from_batches([WORDS, WORDS])
    assert [len(part) for part in table["x"].chunks] == [4, 4]
    assert WORDS[[True, False, None, True]].to_pydict() == {"x": [1, None], "y": ["a", "d"]}
    assert table[["y"]].to_pydict() == {"y": ["a", "b", None, "d"] * 2}
    assert table[[7, 0]].to_pydict() == {"x": [None, 1], "y": ["d", "a"]}
    assert table[3:5].to_pydict() == {"x": [None, 1], "y": ["d", "a"]}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("x", [{"x": 1}, {"x": 2}]),
        (["s.q.t", "x"], [{"s": {"q": {"t": None}}, "x": 1}, {"s": None, "x": 2}]),
        ([1], [{"s": {"p": 1.5, "q": {"r": "a", "t": None}}}, {"s": None}]),
        (["l.item.v"], [{"l": [{"v": b"b"}]}, {"l": []}]),
        ([], [{}, {}]),
    ],
)
def test_chosen_columns_are_cut_out_without_copying(columns, expected):
    assert DEEP.select(columns).to_pylist() == expected
    assert ipc.Table.from_batches([DEEP]).select(columns).to_pylist() == expected
    again = DEEP.select(["s", "x"]).select(["x", "s.p"])
    assert again.to_pylist() == [{"x": 1, "s": {"p": 1.5}}, {"x": 2, "s": None}]
    assert np.shares_memory(again["x"].to_numpy(), DEEP["x"].to_numpy())
    drive.export_to_pyarrow(again)


@pytest.mark.parametrize("name", CASES)
def test_every_type_is_chosen_renamed_dropped_and_added(name):
    batch = read_batch(pa.record_batch({"x": CASES[name], "y": CASES[name], "z": pa.array(range(len(CASES[name])))}))
    swapped = batch.select(["z", "x"])
    assert swapped["x"].equals(batch["x"], nan_equal=True)
    assert batch.drop(["y", -1]).schema == ipc.Schema([batch.schema.field("x")])
    other = batch.rename({"x": "a"})
    assert other.schema.names == ["a", "y", "z"]
    assert other["a"].equals(batch["x"], nan_equal=True)
    more = swapped.append_column(batch.schema.field("y"), batch["y"])
    assert more["y"].equals(batch["y"], nan_equal=True)
    assert more.slice(1).append_column("w", batch["x"][1:])["w"].equals(batch["x"][1:], nan_equal=True)
    for each in (swapped, other, more):
        drive.export_to_pyarrow(each)


def test_columns_that_are_not_there_are_named():
    for find in (lambda: WORDS.select("z"), lambda: WORDS.drop("z"), lambda: WORDS.rename({"z": "a"})):
        with pytest.raises((UsageError, KeyError), match="'z'"):
            find()
    with pytest.raises(UsageError, match="expected 2 names"):
        WORDS.rename(["a"])


def test_added_columns_must_fit():
    with pytest.raises(UsageError, match=r"'z': expected 4 values.*found 3"):
        WORDS.append_column("z", [1, 2, 3])
    with pytest.raises(UsageError, match="not nullable"):
        WORDS.append_column(field("z", int64(), nullable=False), [1, 2, 3, None])
    with pytest.raises(UsageError):
        WORDS.append_column(field("z", int8()), [1, 2, 3, 999])
    table = ipc.Table.from_batches([WORDS, WORDS[1:]])
    assert table.append_column("z", range(7)).select("z").to_pydict() == {"z": list(range(7))}
    assert ipc.Table(WORDS.schema).append_column(field("z", list_(int8())), []).schema.names == ["x", "y", "z"]
    assert ipc.Table(WORDS.schema).select("y").schema.names == ["y"]


def test_chunks_as_long_as_the_batches_are_added_as_they_are():
    table = ipc.Table.from_batches([WORDS, WORDS[1:]])
    chunks = ipc.ChunkedArray([[1, 2, 3, 4], [5, None, 7]])
    more = table.append_column("z", chunks)
    assert more["z"] == chunks
    assert more.schema.field("z").nullable
    assert np.shares_memory(more["z"].chunk(0).to_numpy(), chunks.chunk(0).to_numpy())
    with pytest.raises(UsageError, match="1 values are null"):
        table.append_column(field("z", int64(), nullable=False), chunks)
    others = ipc.ChunkedArray([[1, 2, 3], [4, 5, None, 7]])  # as many, but not as long
    assert table.append_column("z", others)["z"].to_pylist() == others.to_pylist()
    encoded = ipc.ChunkedArray([chunk.dictionary_encode() for chunk in chunks.chunks])  # each has its own dictionary
    assert table.append_column("z", encoded)["z"].dictionary_decode() == chunks
    for batch in more.batches:
        drive.export_to_pyarrow(batch)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", "f2", "f4", "f8"])
def test_numbers_without_nulls_are_buffers(dtype):
    values = np.arange(6).astype(dtype)
    array = ipc.Array.from_pylist(values)[1:5]
    assert np.array_equal(np.frombuffer(array, dtype), values[1:5])
    assert dtype == "f2" or memoryview(array).tolist() == values[1:5].tolist()  # Python lists no halves
    assert memoryview(array).readonly
    assert np.shares_memory(np.asarray(array), values)
    assert np.shares_memory(np.from_dlpack(array), values)
    assert array.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("values", [["a"], [1, None], [True], [[1]]])
def test_what_is_no_number_or_null_is_no_buffer(values):
    array = ipc.Array.from_pylist(values)
    with pytest.raises(BufferError, match="to_numpy"):
        memoryview(array)
    with pytest.raises(BufferError):
        array.__dlpack__()
    assert len(np.asarray(array)) == len(values)
