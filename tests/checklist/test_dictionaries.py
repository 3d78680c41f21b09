"""Format checklist 90-104: dictionary ids, order, deltas, replacements, nesting and indices."""

from __future__ import annotations

import pytest
from helpers import drive
from helpers.drive import read_file, read_stream, refuse_file, refuse_stream
from helpers.forge import (
    INT8,
    INT16,
    INT32,
    INT64,
    LIST,
    STRUCT,
    UTF8,
    UTF8_VIEW,
    Table,
    batch,
    bits,
    dictionary,
    encoding,
    field,
    file,
    i8,
    i16,
    i32,
    i64,
    int_,
    message,
    schema,
    stream,
    view,
)

import arrowipc as ipc
from arrowipc import FormatError, LimitError, types
from arrowipc.events import DictionaryRead

CODED = schema(field("d", UTF8, dictionary=encoding(7, INT8)))
EVERY = ("none", "full", "strict")


def text(*values: str) -> Table:
    """A batch of one utf8 column without nulls."""
    ends = [sum(len(v) for v in values[:i]) for i in range(len(values) + 1)]
    return batch(len(values), [(len(values), 0)], [b"", i32(*ends), "".join(values).encode()])


def words(*values: str, id: int = 7, delta: bool | None = None) -> Table:
    return dictionary(id, text(*values), isDelta=delta)


def coded(*indices: int, nulls: bytes = b"") -> Table:
    count = len(indices) - sum(bin(byte).count("1") for byte in nulls) if nulls else 0
    return batch(len(indices), [(len(indices), count)], [nulls, i8(*indices)])


def flat(data: bytes, **options) -> list:
    return [columns[0] for columns in read_stream(data, **options).values()]


def test_090_absent_index_type_is_int32():
    root = schema(field("d", UTF8, dictionary=encoding(7, None)))
    data = stream(root, words("a", "b"), batch(2, [(2, 0)], [b"", i32(1, 0)]))
    assert flat(data, validate="strict") == [["b", "a"]]
    assert read_stream(data).schema.field(0).type == types.Dictionary(types.Int(32, True), types.Utf8())


def test_090_index_type_is_an_integer_type():
    for bits_ in (0, 24, 128):
        refuse_stream(
            stream(schema(field("d", UTF8, dictionary=encoding(7, int_(bits_))))),
            FormatError,
            "width|index",
            str(bits_),
        )


@pytest.mark.parametrize("id", [-1, -(2**63), 0, 2**63 - 1, None])
def test_091_any_id(id):
    root = schema(field("d", UTF8, dictionary=encoding(id, INT8)), field("other", UTF8, dictionary=encoding(99, INT8)))
    rows = batch(1, [(1, 0)] * 2, [b"", i8(1), b"", i8(0)])
    data = stream(root, dictionary(id, text("a", "b")), words("z", id=99), rows)
    assert read_stream(data).values() == [[["b"], ["z"]]]


def test_092_two_fields_share_one_dictionary():
    root = schema(field("a", UTF8, dictionary=encoding(7, INT8)), field("b", UTF8, dictionary=encoding(7, INT64)))
    rows = batch(2, [(2, 0)] * 2, [b"", i8(0, 1), b"", i64(1, 1)])
    assert read_stream(stream(root, words("x", "y"), rows)).values() == [[["x", "y"], ["y", "y"]]]


@pytest.mark.parametrize("other", [INT32, UTF8_VIEW, Table("LargeUtf8"), Table("Binary")])
def test_092_one_id_with_two_value_types(other):
    root = schema(field("a", UTF8, dictionary=encoding(7, INT8)), field("b", other, dictionary=encoding(7, INT8)))
    refuse_stream(stream(root), FormatError, "dictionary", "7")


def test_093_nulls_before_the_dictionary():
    data = stream(CODED, coded(0, 0, nulls=b"\0"), words("a"), coded(0))
    assert flat(data) == [[None, None], ["a"]]
    drive.export_to_pyarrow(read_stream(data).batches[0])


@pytest.mark.parametrize("level", EVERY)
def test_093_empty_columns_before_the_dictionary(level):
    assert flat(stream(CODED, coded(), words("a"), coded(0)), validate=level) == [[], ["a"]]


def test_094_missing_dictionary():
    for level in ("full", "strict"):
        refuse_stream(stream(CODED, coded(0)), FormatError, "dictionary|index", "7|0", validate=level)
    drive.survives(stream(CODED, coded(0)), validate="none")


def test_094_no_dictionaries_and_no_batches():
    assert flat(stream(CODED)) == []
    with ipc.open_stream(stream(CODED)) as reader:
        assert reader.read_all().num_rows == 0


@pytest.mark.parametrize("level", EVERY)
def test_095_delta_without_base(level):
    refuse_stream(stream(CODED, words("a", delta=True), coded(0)), FormatError, "delta", "7", validate=level)
    refuse_file(file(CODED, words("a", delta=True), coded(0)), FormatError, "delta", "7", validate=level)


@pytest.mark.parametrize("level", EVERY)
def test_095_dictionary_that_no_field_uses(level):
    refuse_stream(stream(CODED, words("a", id=8)), FormatError, "dictionary", "8", validate=level)


def test_096_deltas_append_and_earlier_batches_keep_theirs():
    data = stream(
        CODED,
        words("a", "b"),
        coded(1),
        words("c", delta=True),
        coded(2),
        words("d", "e", delta=True),
        coded(4, 0),
    )
    reading = read_stream(data)
    assert reading.values() == [[["b"]], [["c"]], [["e", "a"]]]
    assert [b.column(0).dictionary.to_pylist() for b in reading.batches] == [
        ["a", "b"],
        ["a", "b", "c"],
        ["a", "b", "c", "d", "e"],
    ]


def test_096_many_deltas():
    parts = [part for i in range(1, 300) for part in (words(f"w{i}", delta=True), batch(1, [(1, 0)], [b"", i16(i)]))]
    root = schema(field("d", UTF8, dictionary=encoding(7, INT16)))
    assert flat(stream(root, words("w0"), *parts)) == [[f"w{i}"] for i in range(1, 300)]


def test_096_delta_of_every_layout():
    import pyarrow as pa

    for values in (
        [1, None, 3],
        ["a", None, "longer than twelve bytes"],
        [True, None, False],
        [[1], None, [2, 3]],
        [{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}],
        [b"ab", None, b"cd"],
    ):
        kinds = [pa.array(values).type]
        if isinstance(values[0], str):
            kinds += [pa.large_string(), pa.string_view()]
        for kind in kinds:
            base, delta = pa.array(values, kind), pa.array(values[::-1], kind)
            whole = pa.concat_arrays([base, delta])
            column_ = pa.DictionaryArray.from_arrays(pa.array([5, 0, None, 3], pa.int8()), whole)
            first = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), base)
            root = pa.schema([pa.field("d", column_.type)])
            sink = pa.BufferOutputStream()
            options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
            with pa.ipc.new_stream(sink, root, options=options) as writer:
                writer.write_batch(pa.record_batch([first], schema=root))
                writer.write_batch(pa.record_batch([column_], schema=root))
            data = sink.getvalue().to_pybytes()
            assert flat(data) == [first.to_pylist(), column_.to_pylist()]
            assert pa.record_batch(read_stream(data).batches[1]).column(0).equals(column_)


def test_097_replacements():
    data = stream(
        CODED,
        words("unused"),
        words("a", "b", "c"),
        coded(2),
        words("x"),
        coded(0),
        words("x"),
        coded(0),
        words("p", "q"),
        coded(1),
    )
    reading = read_stream(data)
    assert reading.values() == [[["c"]], [["x"]], [["x"]], [["q"]]]
    assert [len(b.column(0).dictionary) for b in reading.batches] == [3, 1, 1, 2]
    refuse_stream(stream(CODED, words("a", "b"), coded(1), words("x"), coded(1)), FormatError, "index", "1")


def test_097_delta_after_a_replacement():
    data = stream(CODED, words("a", "b"), coded(1), words("x"), words("y", delta=True), coded(0, 1))
    assert flat(data) == [["b"], ["x", "y"]]


def test_098_empty_dictionaries_and_deltas():
    parts = (CODED, words(), coded(), words("a", delta=True), coded(0), words(delta=True), coded(0, 0))
    assert flat(stream(*parts)) == [[], ["a"], ["a", "a"]]
    assert [c[0] for c in read_file(file(*parts)).values()] == [[], ["a"], ["a", "a"]]


INNER = field("item", UTF8, dictionary=encoding(1, INT8))
NESTED = schema(field("l", LIST, INNER, dictionary=encoding(2, INT8)))


def lists(*ends_and_indices: tuple[int, ...], delta: bool | None = None) -> Table:
    """Dictionary 2: lists given as tuples of inner indices."""
    ends = [sum(len(t) for t in ends_and_indices[:i]) for i in range(len(ends_and_indices) + 1)]
    items = [i for t in ends_and_indices for i in t]
    data = batch(len(ends) - 1, [(len(ends) - 1, 0), (len(items), 0)], [b"", i32(*ends), b"", i8(*items)])
    return dictionary(2, data, isDelta=delta)


def test_099_inner_and_outer_in_any_order():
    inner, outer = words("a", "b", id=1), lists((1, 0), (0,))
    for first, second in ((inner, outer), (outer, inner)):
        assert flat(stream(NESTED, first, second, coded(1, 0))) == [[["a"], ["b", "a"]]]
        assert [c[0] for c in read_file(file(NESTED, first, second, coded(1, 0))).values()] == [[["a"], ["b", "a"]]]


def test_099_inner_delta_leaves_the_outer_valid():
    data = stream(NESTED, words("a", id=1), lists((0,)), coded(0), words("b", id=1, delta=True), coded(0))
    assert flat(data) == [[["a"]], [["a"]]]


def test_099_outer_delta_uses_the_new_inner_words():
    data = stream(
        NESTED,
        words("a", id=1),
        lists((0,)),
        coded(0),
        words("b", id=1, delta=True),
        lists((1, 0), delta=True),
        coded(1, 0),
    )
    assert flat(data) == [[["a"]], [["b", "a"], ["a"]]]


def test_099_struct_of_dictionaries_inside_a_dictionary():
    pair = [field("x", UTF8, dictionary=encoding(1, INT8)), field("y", UTF8, dictionary=encoding(1, INT8))]
    root = schema(field("s", STRUCT, *pair, dictionary=encoding(2, INT8)))
    outer = dictionary(2, batch(2, [(2, 0)] * 3, [b"", b"", i8(0, 1), b"", i8(1, 1)]))
    more = dictionary(2, batch(1, [(1, 0)] * 3, [b"", b"", i8(1), b"", i8(0)]), isDelta=True)
    data = stream(root, words("a", "b", id=1), outer, coded(0, 1), more, coded(2))
    assert flat(data) == [[{"x": "a", "y": "b"}, {"x": "b", "y": "b"}], [{"x": "b", "y": "a"}]]


def test_101_dictionaries_may_hold_nulls_and_duplicates():
    holes = dictionary(7, batch(3, [(3, 1)], [bits(1, 0, 1), i32(0, 1, 1, 2), b"aa"]))
    data = stream(CODED, holes, coded(0, 1, 2))
    assert flat(data) == [["a", None, "a"]]
    assert read_stream(data).batches[0].column(0).null_count == 0


@pytest.mark.parametrize("index", [2, 100, 127, -1, -128])
def test_102_index_out_of_range(index):
    data = stream(CODED, words("a", "b"), coded(0, index))
    for level in ("full", "strict"):
        refuse_stream(data, FormatError, "index|indices", str(index), validate=level)
    drive.survives(data, validate="none")
    refuse_file(file(CODED, words("a", "b"), coded(0, index)), FormatError, "index|indices")


def test_102_null_slots_may_hold_any_index():
    assert flat(stream(CODED, words("a"), coded(0, 99, -1, nulls=bits(1, 0, 0))), validate="strict") == [
        ["a", None, None]
    ]


def test_102_index_must_suit_the_dictionary_of_its_batch():
    refuse_stream(stream(CODED, words("a"), coded(1), words("b", delta=True), coded(1)), FormatError, "index", "1")


@pytest.mark.parametrize(("bits_", "pack", "top"), [(8, i8, 255), (16, i16, 300)])
def test_103_unsigned_indices_reach_their_top(bits_, pack, top):
    root = schema(field("d", UTF8, dictionary=encoding(7, int_(bits_, False))))
    many = [f"{i:03}" for i in range(top + 1)]
    stored = top - 2**bits_ if top >= 2 ** (bits_ - 1) else top
    assert flat(stream(root, words(*many), batch(2, [(2, 0)], [b"", pack(stored, 0)]))) == [[f"{top:03}", "000"]]


@pytest.mark.parametrize("level", EVERY)
def test_104_dictionary_without_data(level):
    refuse_stream(stream(CODED, dictionary(7, None)), FormatError, "dictionary|data", validate=level)


@pytest.mark.parametrize("level", EVERY)
def test_104_dictionary_length_equals_its_node(level):
    wrong = batch(3, [(2, 0)], [b"", i32(0, 1, 2), b"ab"])
    refuse_stream(stream(CODED, dictionary(7, wrong)), FormatError, "length|rows", validate=level)


@pytest.mark.parametrize("level", EVERY)
def test_104_dictionary_has_exactly_one_column(level):
    refuse_stream(
        stream(CODED, dictionary(7, batch(1, [(1, 0)] * 2, [b"", i32(0, 1), b"a", b"", i32(5)]))),
        FormatError,
        validate=level,
    )
    refuse_stream(stream(CODED, dictionary(7, batch(0, [], []))), FormatError, validate=level)


def test_104_broken_dictionary_values():
    broken = dictionary(7, batch(1, [(1, 0)], [b"", i32(0, 9), b"a"]))
    refuse_stream(stream(CODED, broken, coded(0)), FormatError, "offset")
    refuse_stream(
        stream(CODED, dictionary(7, batch(1, [(1, 0)], [b"", i32(0, 1), b"\xff"])), coded(0)),
        FormatError,
        "UTF-8",
    )


def test_104_ordered_flag_is_kept():
    root = schema(field("d", UTF8, dictionary=encoding(7, INT8, isOrdered=True)))
    assert read_stream(stream(root)).schema.field(0).type.ordered is True
    assert read_stream(stream(CODED)).schema.field(0).type.ordered is False


def test_104_views_in_a_dictionary():
    long = b"longer than twelve bytes"
    root = schema(field("d", UTF8_VIEW, dictionary=encoding(7, INT8)))
    base = dictionary(7, batch(1, [(1, 0)], [b"", view(long), long], variadic=[1]))
    delta = dictionary(
        7, batch(2, [(2, 0)], [b"", view(b"x") + view(long[1:], 0, 1), long], variadic=[1]), isDelta=True
    )
    data = stream(root, base, coded(0), delta, coded(2, 1))
    assert flat(data) == [[long.decode()], [long[1:].decode(), "x"]]


def test_dictionary_bytes_are_limited():
    large = words("x" * 5000)
    data = stream(CODED, large, *[words("y" * 5000, delta=True)] * 10, coded(10))
    assert flat(data) == [["y" * 5000]]
    refuse_stream(data, LimitError, "dictionary", limits=ipc.Limits(dictionary_bytes=20_000))


def test_dictionary_events():
    seen = drive.events(stream(CODED, words("a", "b"), coded(0), words("c", delta=True)))
    read = [e for e in seen if isinstance(e, DictionaryRead)]
    assert [(e.id, e.is_delta) for e in read] == [(7, False), (7, True)]
    assert read[0].length == 2


def test_dictionary_read_record_batch_without_a_reader():
    root = ipc.read_schema(stream(CODED))
    (rows,) = (m for m in ipc.MessageReader(stream(CODED, coded(0, nulls=b"\0"))) if m.kind == "RecordBatch")
    assert ipc.read_record_batch(rows, root).to_pydict() == {"d": [None]}
    plain = schema(field("x", INT32))
    whole = message(batch(1, [(1, 0)], [b"", i32(5)]))
    assert ipc.read_record_batch(whole, ipc.read_schema(stream(plain))).to_pydict() == {"x": [5]}
