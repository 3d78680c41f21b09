"""Appending: batches put together hold all their rows, snapshots never change, and the cost is linear."""

import pickle
import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from columns.broken import BROKEN, forged
from helpers import forge, randoms
from helpers.arrays import ipc_bytes, pyarrow_bytes, seen_by_pyarrow
from helpers.forge import Table, batch, bits, dictionary, encoding, field, i8, i16, i32, schema, split, stream
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import ArrowIpcError, UnsupportedError, UsageError, types
from arrowipc.columns.extensions import STORED_TIMES
from arrowipc.columns.record_batch import concat_batches

MOST = 2**31 - 1


def read(parts: list[pa.RecordBatch]) -> list[Any]:
    """The batches as ours."""
    return list(ipc.open_stream(pyarrow_bytes(parts)))


def one_column(*columns: pa.Array) -> list[pa.RecordBatch]:
    return [pa.record_batch([column], names=["x"]) for column in columns]


def rows(batches: Sequence[Any]) -> list[Any]:
    """The rows of our batches, after pyarrow has checked every byte of them."""
    found = []
    for part in batches:
        pa.record_batch(part).validate(full=True)
        found += zip(*(column.to_pylist(extensions=STORED_TIMES) for column in part.columns), strict=True)
    return found


@st.composite
def pieces(draw: Any, kinds: st.SearchStrategy[pa.DataType] = randoms.types, most: int = 5) -> list[Any]:
    """Our batches of one or two columns, each a slice of what a stream held."""
    chosen = draw(st.lists(kinds, min_size=1, max_size=2))
    chance = random.Random(draw(st.integers(0, 2**32)))
    parts = []
    for _ in range(draw(st.integers(1, most))):
        length = chance.choice([0, 1, 3, 20, 80])
        columns = [randoms.array_of(kind, length, chance) for kind in chosen]
        parts.append(pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))]))
    cut = []
    for part in read(parts):
        start = chance.choice([0, 0, chance.randint(0, part.num_rows)])
        rest = part.num_rows - start
        cut.append(part.slice(start, chance.choice([rest, chance.randint(0, rest)])))
    return cut


# -- the law -------------------------------------------------------------------------------------------------


@given(pieces())
def test_the_rows_of_concatenated_batches_are_the_rows_of_the_batches(parts: list[Any]) -> None:
    expected = rows(parts)
    whole = concat_batches(parts)
    assert rows([whole]) == expected
    assert whole.num_rows == sum(part.num_rows for part in parts)
    assert rows([concat_batches([whole, *parts, whole])]) == expected * 3


def grown(parts: Sequence[Any]) -> list[ipc.Array]:
    """What the first columns are together after each part: dictionaries of a stream in which they grow by deltas."""
    with ipc.new_stream(sink := bytearray(), dictionary_deltas=True) as writer:
        for i in range(len(parts)):
            values = pa.record_batch(concat_batches(parts[: i + 1])).column(0)
            rows_ = pa.array([len(values) - 1 if len(values) else None], pa.int32())
            writer.write(pa.record_batch([pa.DictionaryArray.from_arrays(rows_, values)], names=["x"]))
    return [one["x"].dictionary for one in ipc.open_stream(sink)]


@given(pieces(randoms.types.filter(lambda kind: "dictionary" not in str(kind)), most=8))
def test_dictionaries_that_grow_keep_their_earlier_values(parts: list[Any]) -> None:
    expected: list[Any] = []
    for part, found in zip(parts, grown(parts), strict=True):
        expected += part[0].to_pylist(extensions=STORED_TIMES)
        seen_by_pyarrow(found)
        assert found.to_pylist(extensions=STORED_TIMES) == expected


@pytest.mark.parametrize("start", [0, 1, 7, 8, 13, 56, 63, 64, 65])
@pytest.mark.parametrize("length", [1, 7, 8, 57, 64, 65, 200])
def test_bits_at_every_offset(start: int, length: int) -> None:
    chance = random.Random(start * 1000 + length)
    source = pa.array([chance.choice([True, False, None]) for _ in range(300)], pa.bool_())
    (part,) = read(one_column(source))
    cut = [part.slice(*span) for span in ((start, length), (start + 1, length), (0, start), (7, 200))]
    assert rows([concat_batches(cut)]) == rows(cut)


def test_validity_is_absent_until_the_first_null() -> None:
    parts = read(one_column(pa.array(range(100)), pa.array([3]), pa.array([1, None, 3]), pa.array(range(70))))
    found = grown(parts)
    assert [one.buffers()[0] is None for one in found] == [True, True, False, False]
    assert found[-1].null_count == 1
    assert found[-1].to_pylist() == [*range(100), 3, 1, None, 3, *range(70)]


def test_only_referenced_elements_of_children_are_taken() -> None:
    lists = pa.array([[1, 2, 3], [4], None, [5, 6]])
    (part,) = read(one_column(lists))
    whole = pa.record_batch(concat_batches([part.slice(1, 2), part.slice(3, 1)])).column(0)
    assert whole.to_pylist() == [[4], None, [5, 6]]
    assert whole.values.to_pylist() == [4, 5, 6]
    (part,) = read(one_column(pa.StructArray.from_arrays([lists], ["l"])))
    whole = pa.record_batch(concat_batches([part.slice(1, 1), part.slice(0, 1)])).column(0)
    assert len(whole.field(0)) == 2
    assert whole.field(0).values.to_pylist() == [4, 1, 2, 3]


# -- dictionaries --------------------------------------------------------------------------------------------


def letters(*words: str, of: str | None = None) -> pa.Array:
    indices = pa.array([words.index(c) for c in of or words], pa.int8())
    return pa.DictionaryArray.from_arrays(indices, pa.array(words))


@pytest.mark.parametrize(
    ("columns", "known"),
    [
        ([letters("a", "b", of="bab"), letters("c", "a", of="ac"), letters("b", "a")], "abc"),
        ([letters("a", "b", of="bab"), letters("a", "b")], "ab"),
        ([letters("a", "b"), letters("c", "d")] * 10, "abcd"),
        ([letters("a"), letters("a", "b"), letters("a", "b", "c")], "abc"),
    ],
    ids=["different", "equal", "taking turns", "growing"],
)
def test_dictionaries_follow_each_other_once_each(columns: list[pa.Array], known: str) -> None:
    one_stream = read(one_column(*columns))  # in which each dictionary replaces the one before it
    for parts in (one_stream, [read(one_column(column))[0] for column in columns]):
        found = pa.record_batch(concat_batches(parts)).column(0)
        assert found.to_pylist() == [word for column in columns for word in column.to_pylist()]
        assert found.dictionary.to_pylist() == list(known)


def sharing(ids: tuple[int, int]) -> ipc.RecordBatch:
    """Lists of encoded structs of two encoded texts, which have one dictionary or one each."""
    texts = [batch(3, [(3, 0)], [b"", i32(0, 1, 2, 3), text]) for text in (b"abc", b"cba")]
    structs = batch(3, [(3, 0)] * 3, [b"", b"", i32(0, 1, 2), b"", i32(2, 1, 0)])
    lists = batch(3, [(3, 0)] * 2, [b"", i32(0, 1, 2, 3), b"", i32(0, 1, 2)])
    members = [field(name, forge.UTF8, dictionary=encoding(id)) for name, id in zip("ab", ids, strict=True)]
    item = field("item", forge.STRUCT, *members, dictionary=encoding(2))
    parts = [dictionary(id, texts[id]) for id in sorted({*ids})]
    root = schema(field("x", forge.LIST, item, dictionary=encoding(3)))
    rows = batch(3, [(3, 0)], [b"", i32(0, 1, 2)])
    (found,) = ipc.open_stream(stream(root, *parts, dictionary(2, structs), dictionary(3, lists), rows))
    return found


def test_dictionaries_of_the_same_bytes_that_share_theirs_differently_are_not_one() -> None:
    parts = [sharing((0, 0)), sharing((0, 1))]
    assert parts[0].to_pylist() != parts[1].to_pylist()
    for one, other in (parts, parts[::-1]):
        assert concat_batches([one, other]).to_pylist() == one.to_pylist() + other.to_pylist()


def test_null_slots_may_hold_any_index() -> None:
    buffers = [pa.py_buffer(bits(1, 0, 1)), pa.py_buffer(i8(0, 127, 1))]
    wild = pa.DictionaryArray.from_buffers(pa.dictionary("int8", "string"), 3, buffers, pa.array(["c", "d"]))
    column = pa.record_batch(concat_batches(read(one_column(letters("a", "b"), wild)))).column(0)
    column.validate(full=True)
    assert column.to_pylist() == ["a", "b", "c", None, "d"]


# -- what the types cannot hold ------------------------------------------------------------------------------


NULLS = field("n", forge.NULL)
FULL = {
    "list": ([field("x", forge.LIST, NULLS)], batch(1, [(1, 0), (MOST, MOST)], [b"", i32(0, MOST)])),
    "list view": ([field("x", forge.LIST_VIEW, NULLS)], batch(1, [(1, 0), (MOST, MOST)], [b"", i32(0), i32(MOST)])),
    "dense union": (
        [field("x", Table("Union", mode=1, typeIds=[0]), NULLS)],
        batch(2, [(2, 0), (MOST, MOST)], [i8(0, 0), i32(0, MOST - 1)]),
    ),
    "run ends": (
        [field("x", forge.REE, field("run_ends", forge.INT16), NULLS)],
        batch(20_000, [(20_000, 0), (1, 0), (1, 1)], [b"", i16(20_000)]),
    ),
}


def growing(fields: list[Table], *parts: Table) -> bytes:
    """A stream with a dictionary of a field's values: the first part, and the others as deltas."""
    (coded,) = fields
    coded = coded.but(dictionary=encoding(0, forge.INT32))
    deltas = [dictionary(0, part, isDelta=True) for part in parts[1:]]
    return stream(schema(coded), dictionary(0, parts[0]), *deltas, batch(1, [(1, 0)], [b"", i32(0)]))


@pytest.mark.parametrize("name", FULL)
def test_numbers_that_outgrow_their_type_are_refused(name: str) -> None:
    fields, rows_ = FULL[name]
    (part,) = ipc.open_stream(stream(schema(*fields), rows_))
    with pytest.raises(UnsupportedError, match=r"batch 1: column 'x': the (offsets|run ends) would reach [\d,]+, and"):
        concat_batches([part, part])
    with pytest.raises(UnsupportedError, match=r"column 'x': the (offsets|run ends) would reach [\d,]+, and"):
        list(ipc.open_stream(growing(fields, rows_, rows_)))


def structs(count: int) -> pa.Array:
    """Structs with a member that is dictionary-encoded."""
    words = pa.array([str(i % 7) for i in range(count)]).dictionary_encode()
    return pa.StructArray.from_arrays([pa.array(range(count)), words], ["number", "word"])


#: Index type -> how many values it counts.
COUNTED = {pa.int8(): 128, pa.uint8(): 256, pa.int16(): 2**15, pa.uint16(): 2**16}
#: Arrays of so many distinct values.
DISTINCT: dict[str, Callable[[int], pa.Array]] = {
    "texts": lambda count: pa.array([f"word {i}" for i in range(count)]),
    "texts and null": lambda count: pa.array([None, *(f"word {i}" for i in range(count - 1))]),
    "numbers": lambda count: pa.array(range(count), pa.int32()),
    "lists": lambda count: pa.array([[i, None] for i in range(count)]),
    "dictionaries": structs,
}
#: What makes one array of several.
JOINS: dict[str, Callable[[ipc.Table], Any]] = {
    "combine": lambda table: table.combine()["x"],
    "combine_chunks": lambda table: table.combine_chunks()["x"].chunk(0),
    "concat_batches": lambda table: concat_batches(table.batches)["x"],
    "record_batch": lambda table: ipc.record_batch(table)["x"],
    "take": lambda table: table.take(range(len(table)))["x"].chunk(0),
    "filter": lambda table: table.filter([True] * len(table))["x"].chunk(0),
    "column": lambda table: table["x"].combine(),
}
#: What needs no dictionary of all values.
APART: dict[str, Callable[[ipc.Table], Any]] = {
    "unique": lambda table: [*table["x"].unique().to_pylist(), None],
    "to_numpy": lambda table: sorted(set(table["x"].to_numpy()), key=str),
    "to_pandas": lambda table: table["x"].to_pandas().astype(object).replace(float("nan"), None).tolist(),
    "pickle": lambda table: pickle.loads(pickle.dumps(table["x"])).to_pylist(),
    "coalesce_rows": lambda table: ipc.open(ipc_bytes(table, coalesce_rows=10**6)).read_all()["x"].to_pylist(),
}


def overlapping(index: pa.DataType, values: pa.Array) -> tuple[ipc.Table, list[Any]]:
    """Two batches whose dictionaries have a third of the values in common, in another order; and all elements."""
    third = len(values) // 3
    halves = values[: len(values) - third], values.take(pa.array(range(len(values) - 1, third - 1, -1)))
    columns = [pa.DictionaryArray.from_arrays(pa.array([*range(len(half)), None], index), half) for half in halves]
    table = ipc.table(pa.Table.from_batches(one_column(*columns)))
    return table, [value for column in columns for value in column.to_pylist()]


@pytest.mark.parametrize(
    ("index", "kind"),
    [(index, kind) for index in COUNTED for kind in DISTINCT if COUNTED[index] < 300 or kind == "texts"],
)
def test_dictionaries_are_joined_where_indices_cannot_count_them_apart(index: pa.DataType, kind: str) -> None:
    most = COUNTED[index]
    table, expected = overlapping(index, DISTINCT[kind](most))
    for name, join in JOINS.items():
        joined = join(table)
        assert joined.to_pylist() == expected, name
        assert (joined.type, len(joined.dictionary)) == (table["x"].type, most), name
        pa.array(joined).validate(full=True)
    assert table.take([1, len(table) - 2])["x"].to_pylist() == [expected[1], expected[-2]]
    table, _ = overlapping(index, DISTINCT[kind](most + 1))
    for join in JOINS.values():
        with pytest.raises(UnsupportedError, match=rf"column 'x': the unified dictionary has {most + 1:,} .* cast\(\)"):
            join(table)


@pytest.mark.parametrize("name", APART)
def test_dictionaries_stay_apart_where_no_array_needs_one(name: str) -> None:
    table, expected = overlapping(pa.int8(), DISTINCT["texts"](129))
    assert set(APART[name](table)) == set(expected)
    wider = table["x"].cast(types.dictionary("int16", "string"))
    assert wider.combine().to_pylist() == expected


def test_the_same_word_has_one_index_in_what_was_joined() -> None:
    for join in JOINS.values():
        table, expected = overlapping(pa.int32(), pa.array([*"abcdef"]))
        joined = join(table)
        assert joined.to_pylist() == expected
        assert sorted(joined.dictionary.to_pylist()) == [*"abcdef"]
        assert ipc.table({"x": joined}).to_pandas()["x"].nunique() == 6  # its categories are distinct


def test_nothing_and_other_things_are_refused() -> None:
    (ints,) = read(one_column(pa.array([1])))
    with pytest.raises(UsageError, match="at least"):
        concat_batches([])
    with pytest.raises(UsageError, match=r"item 1: .*found str"):
        concat_batches([ints, "text"])
    assert concat_batches([ints]) is ints


#: The type of a column "a", and another schema.
SCHEMAS = {
    "name": (pa.int64(), pa.schema([("b", pa.int64())])),
    "type": (pa.int64(), pa.schema([("a", pa.uint64())])),
    "unit": (pa.timestamp("s"), pa.schema([("a", pa.timestamp("us"))])),
    "zone": (pa.timestamp("s"), pa.schema([("a", pa.timestamp("s", "UTC"))])),
    "nullable": (pa.int64(), pa.schema([pa.field("a", pa.int64(), nullable=False)])),
    "more": (pa.int64(), pa.schema([("a", pa.int64()), ("b", pa.int64())])),
    "below": (pa.struct([("d", pa.int64())]), pa.schema([("a", pa.struct([("c", pa.int64())]))])),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_batches_of_schemas_read_one_by_one_go_together_if_these_are_equal(name: str) -> None:
    def of(schema: pa.Schema, metadata: str) -> Any:
        return read([pa.RecordBatch.from_pylist([], schema.with_metadata({"k": metadata}))])[0]

    first, another = pa.schema([("a", SCHEMAS[name][0])]), SCHEMAS[name][1]
    equal = [of(first, str(number)) for number in range(3)]
    other = of(another, "3")
    whole = of(first.append(pa.field("z", pa.int8())), "4")
    part = whole.select(["a"])
    assert concat_batches([*equal, part]).num_rows == ipc.Table.from_batches([*equal, part]).num_rows == 0
    assert not equal[0].equals(other)
    with pytest.raises(UsageError, match="batch 4 has another schema than batch 0"):
        concat_batches([*equal, part, other])
    with pytest.raises(UsageError, match="Table: batch 4 has"):
        ipc.Table.from_batches([*equal, part, other])
    for others in ([part, other], [part, whole], [part, whole.select(["z"])]):
        with pytest.raises(UsageError, match="batch 1 has another schema than batch 0"):
            concat_batches(others)


def test_offsets_in_foreign_byte_order_are_refused() -> None:
    def parts(kind: Table, *buffers: bytes) -> list[Any]:
        data = stream(schema(field("x", kind), endianness=1), batch(1, [(1, 0)], [b"", *buffers]))
        return list(ipc.open_stream(data, ensure_native_endian=False)) * 2

    assert concat_batches(parts(forge.INT16, b"\0\1")).num_rows == 2
    with pytest.raises(UnsupportedError, match="ensure_native_endian=True"):
        concat_batches(parts(forge.UTF8, b"\0\0\0\0\0\0\0\1", b"a"))


@pytest.mark.parametrize("name", BROKEN)
def test_broken_contents_are_refused_where_nobody_looked_before(name: str) -> None:
    fields, rows_ = BROKEN[name]
    part = forged(fields, rows_)
    with pytest.raises(ArrowIpcError, match="column 'x"):
        concat_batches([part, part])
    with pytest.raises(ArrowIpcError, match="column 'x"):
        list(ipc.open_stream(growing(fields, rows_, rows_), validate="none"))


# -- cost ----------------------------------------------------------------------------------------------------

WORDS = pa.array([f"word {i}" if i % 3 else f"a word of more than twelve bytes {i}" for i in range(10)])
SMALL = [
    pa.array(range(10)),
    pa.array([True, False, None] * 3 + [True]),
    WORDS,
    WORDS.cast(pa.string_view()),
    pa.array([[i] * (i % 4) for i in range(10)]),
    WORDS.cast(pa.large_string()),
    pa.RunEndEncodedArray.from_arrays([4, 10], [1, 2]),
]


def delta_stream(column: pa.Array, count: int) -> bytes:
    """Batches whose dictionary grows by the same values each time."""
    (part,) = read(one_column(column))
    values = [pa.record_batch(whole).column(0) for whole in (part, concat_batches([part, part]))]
    coded = [pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), each) for each in values]
    root, first, rows_, delta = split(ipc_bytes(one_column(*coded), dictionary_deltas=True))[:4]
    return b"".join([root, first, rows_, *[delta, rows_] * (count - 1)])


@pytest.mark.parametrize("column", SMALL, ids=lambda column: str(column.type))
def test_many_small_deltas_cost_what_they_hold(column: pa.Array) -> None:
    # Blocks double: with 1 + 2 + 4 + ... all that was ever moved stays below twice what there is.
    moved: dict[int, int] = {}
    at: dict[int, int] = {}
    last = None
    for one in ipc.open_stream(delta_stream(column, 3000)):
        last = pa.record_batch(one).column(0).dictionary
        for i, buffer in enumerate(last.buffers()[:4]):
            if buffer is not None and at.get(i) != buffer.address:
                moved[i] = moved.get(i, 0) + buffer.size
                at[i] = buffer.address
    assert last is not None
    last.validate(full=True)
    assert last.to_pylist() == column.to_pylist() * 3000
    assert len(last.buffers()) < 2 + 16
    for i, buffer in enumerate(last.buffers()[:4]):
        if buffer is not None:
            assert moved[i] <= 3 * buffer.size, i


def test_large_data_buffers_of_views_are_shared() -> None:
    texts = pa.array([f"{i:0100}" for i in range(5000)]).cast(pa.string_view())
    (part,) = read(one_column(texts))
    source = {buffer.address for buffer in pa.record_batch(part).column(0).buffers()[2:]}
    half = [part.slice(0, 4000), part.slice(100), part.slice(10, 20)]
    whole = pa.record_batch(concat_batches(half)).column(0)
    assert whole.to_pylist() == texts.to_pylist()[:4000] + texts.to_pylist()[100:] + texts.to_pylist()[10:30]
    assert {buffer.address for buffer in whole.buffers()[2:]} == source
    few = pa.record_batch(concat_batches([part.slice(7, 3), part.slice(9, 1)])).column(0)
    assert few.to_pylist() == texts.to_pylist()[7:10] + texts.to_pylist()[9:10]
    assert few.nbytes < 1000


def test_batches_without_columns() -> None:
    empty = ipc.RecordBatch()
    nothing = ipc.decode_payloads([b"no payload"], on_error="null").batch
    for part in (empty, nothing):
        whole = ipc.concat_batches([part, part])
        assert (whole.num_columns, whole.num_rows) == (0, 2 * part.num_rows)
