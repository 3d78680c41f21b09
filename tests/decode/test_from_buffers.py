"""Batches put together of buffers: what was taken apart is the same again, and what does not fit is refused."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from helpers import drive
from helpers.arrays import CASES, ipc_bytes, parts_of, read_array, read_batch
from helpers.drive import LEVELS
from helpers.forge import i32

import arrowipc as ipc
from arrowipc import FormatError, LimitError, Limits, UsageError, types as T

WORDS = ipc.Array.from_pylist(["a", "b", "c"], T.utf8())


def made(kind: T.DataType, length, nodes, buffers, **more):
    return ipc.RecordBatch.from_buffers(ipc.Schema([T.field("x", kind)]), length, nodes, buffers, **more)


def taken_apart_and_put_together(batch, **more):
    return ipc.RecordBatch.from_buffers(**parts_of(batch), **more)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CASES)
def test_every_type_is_the_same_again(name, level):
    batch = read_batch(pa.record_batch({"x": CASES[name], "y": CASES[name]}))
    again = taken_apart_and_put_together(batch, validate=level)
    assert again.equals(batch, check_metadata=True, nan_equal=True)
    assert [b and b.tobytes() for b in again[0].buffers()] == [b and b.tobytes() for b in batch[0].buffers()]
    drive.use(again)


def test_null_counts_may_be_left_to_be_counted():
    batch = made(T.int8(), 3, [(3, -1)], [bytes([0b101]), bytes([1, 2, 3])])
    assert batch["x"].null_count == 1
    assert batch.to_pydict() == {"x": [1, None, 3]}
    assert made(T.int8(), 3, [(3, -1)], [None, bytes([1, 2, 3])])["x"].null_count == 0


def test_nothing_is_copied_but_numbers_at_odd_addresses():
    values = np.arange(5, dtype="<i4")
    batch = made(T.int32(), 4, [(4, 0)], [None, values[1:]])
    values[1] = 77
    assert batch.to_pydict() == {"x": [77, 2, 3, 4]}
    odd = memoryview(values).cast("B")[1:17]
    batch = made(T.int32(), 4, [(4, 0)], [None, odd], validate="full")
    assert batch["x"].to_numpy().tobytes() == odd
    drive.export_to_pyarrow(batch)


def test_a_schema_in_big_endian_says_how_its_buffers_lie():
    schema = ipc.Schema([T.field("x", T.int32())], endianness="big")
    batch = ipc.RecordBatch.from_buffers(schema, 2, [(2, 0)], [None, np.array([1, 2], ">i4")])
    assert batch.to_pydict() == {"x": [1, 2]}


def test_a_schema_that_was_projected_asks_for_its_own_fields():
    batch = ipc.RecordBatch.from_pydict({"x": [1, 2], "y": ["a", "b"], "z": ["c", None]})
    for names in (["x"], ["z", "y"], ["y"]):
        (part,) = ipc.open_stream(ipc_bytes(batch), columns=names)
        assert taken_apart_and_put_together(part, validate="full") == part
        assert ipc.read_record_batch(part.serialize(), part.schema) == part


def encoded(values, indices=(2, 0, 2), kind=None, **more):
    kind = kind or T.dictionary(T.int32(), T.utf8())
    count = len(indices)
    return made(kind, count, [(count, 0)], [None, i32(*indices)], dictionaries=[values], **more)


def test_any_array_of_the_type_is_a_dictionary():
    rows = read_array(pa.array([["z", "a", "b"], ["c"]], pa.list_(pa.string_view())))
    inner = rows.children[0].slice(1)
    found = encoded(inner, kind=T.dictionary(T.int32(), T.string_view()), validate="full")
    assert found.to_pydict() == {"x": ["c", "a", "c"]}
    assert found["x"].dictionary.to_pylist() == ["a", "b", "c"]
    batch = ipc.RecordBatch.from_pydict({"n": [1, 2, 3, 4], "w": ["z", "a", None, "c"]})
    found = encoded(batch["w"].slice(1), (2, 1, 0), validate="strict")
    assert found.to_pydict() == {"x": ["c", None, "a"]}
    assert found["x"].dictionary.null_count == 1
    drive.use(found)


def test_dictionaries_inside_of_dictionaries_come_with_their_array():
    inner = T.struct([T.field("a", T.dictionary(T.int8(), T.utf8())), T.field("b", T.dictionary(T.int8(), T.utf8()))])
    rows = [{"a": "p", "b": "q"}, {"a": "r", "b": "p"}, {"a": "p", "b": "p"}]
    values = ipc.Array.from_pylist(rows, inner)
    kind = ipc.Schema([T.field("x", T.dictionary(T.int32(), inner))])
    found = ipc.RecordBatch.from_buffers(kind, 2, [(2, 0)], [None, i32(2, 1)], dictionaries=[values], validate="full")
    assert found.to_pydict() == {"x": [rows[2], rows[1]]}
    (again,) = ipc.open_stream(ipc_bytes(found))
    assert again.to_pydict() == found.to_pydict()


def test_fields_of_one_dictionary_id_share_the_array():
    shared = T.Dictionary(T.int8(), T.utf8(), dictionary_id=5)
    schema = ipc.Schema([T.field("x", shared), T.field("y", shared)])
    parts = (schema, 1, [(1, 0), (1, 0)], [None, b"\0", None, b"\2"])
    found = ipc.RecordBatch.from_buffers(*parts, dictionaries=[WORDS, WORDS])
    assert found.to_pydict() == {"x": ["a"], "y": ["c"]}
    assert taken_apart_and_put_together(found) == found
    other = ipc.Array.from_pylist(["a", "b", "c"], T.utf8())
    with pytest.raises(UsageError, match=r"'y': it shares dictionary 5 with another field, and has other values"):
        ipc.RecordBatch.from_buffers(*parts, dictionaries=[WORDS, other])
    # Inside of a dictionary as well: the schema gives one id to two that differ.
    pair = [T.field(name, T.dictionary(T.int8(), T.utf8())) for name in "xy"]
    values = ipc.Array.from_pylist([{"x": "p", "y": "q"}], T.struct(pair))
    kind = T.dictionary(T.int32(), T.struct([T.field("x", shared), T.field("y", shared)]))
    with pytest.raises(UsageError, match="it shares dictionary 5"):
        encoded(values, (0,), kind)


def test_dictionaries_that_have_not_arrived_are_needed_for_values_only():
    bits = bytes([0])
    schema = ipc.Schema([T.field("x", T.dictionary(T.int8(), T.utf8()))])
    found = ipc.RecordBatch.from_buffers(schema, 1, [(1, 1)], [bits, b"\7"], dictionaries=[None], validate="full")
    assert found.to_pydict() == {"x": [None]}
    with pytest.raises(FormatError, match="its dictionary 0 has not arrived"):
        encoded(None, (0,), validate="full")
    with pytest.raises(FormatError, match="has not arrived"):
        encoded(None, (0,)).to_pydict()
    parent = ipc.Array.from_buffers(ipc.struct([ipc.field("s", found["x"].type)]), 1, [None], children=[found["x"]])
    assert parent.to_pylist() == [{"s": None}]


@pytest.mark.parametrize("index", [3, -1])
def test_indices_are_proven_when_they_are_asked_to_be(index):
    unproven = encoded(WORDS, (0, index))
    for use in (lambda: encoded(WORDS, (0, index), validate="full"), unproven.to_pydict):
        with pytest.raises(FormatError, match=f"'x': index {index}"):
            use()


def test_dictionaries_are_proven_as_well():
    broken = made(T.utf8(), 1, [(1, 0)], [None, i32(0, 1), b"\xff"])["x"]
    values = encoded(broken, (0,))["x"]
    kind = T.struct([T.field("d", T.dictionary(T.int32(), T.utf8()))])
    outer = made(kind, 1, [(1, 0), (1, 0)], [None, None, i32(0)], dictionaries=[broken])["x"]
    for wrong, of in ((values.dictionary, T.utf8()), (outer, kind)):
        encoded(wrong, (0,), T.dictionary(T.int32(), of))
        with pytest.raises(FormatError, match="value 0 is not UTF-8"):
            encoded(wrong, (0,), T.dictionary(T.int32(), of), validate="full")


def test_what_is_no_dictionary_of_the_type_is_refused():
    for wrong in (ipc.Array.from_pylist([1], T.int8()), ["a"], 7, ipc.Array.from_pylist(["a"], T.string_view())):
        with pytest.raises(UsageError, match=r"'x': its dictionary must be an array of string, found"):
            encoded(wrong)


def test_limits_hold_for_what_somebody_else_describes():
    with pytest.raises(LimitError, match="rows_per_batch"):
        made(T.int8(), 3, [(3, 0)], [None, bytes(3)], limits=Limits(rows_per_batch=2))
    with pytest.raises(LimitError, match=r"dictionary 0 takes all dictionaries past"):
        encoded(WORDS, limits=Limits(dictionary_bytes=10))
    with pytest.raises(LimitError, match=r"depth"):
        made(T.list_(T.list_(T.int8())), 0, [(0, 0)] * 3, [None] * 5, limits=Limits(depth=2))
    claimed = made(T.null(), 1 << 24, [(1 << 24, 0)], [])["x"]
    with pytest.raises(LimitError, match=r"claims 16,777,216 values in 0 bytes"):
        encoded(claimed, kind=T.dictionary(T.int32(), T.null()))
    # Without limits there may be more rows than readers take.
    assert len(made(T.null(), 1 << 40, [(1 << 40, 0)], [])) == 1 << 40


VIEW = (1).to_bytes(4, "little") + b"v" + bytes(11)
VIEWS = {"kind": T.string_view(), "buffers": [None, VIEW]}
WORD = {"kind": T.dictionary(T.int8(), T.utf8()), "buffers": [None, b"\0"]}
#: Words of the error, and arguments that differ from those of a batch of one int8.
WRONG = {
    "are integers of 64 bits": [
        *[{"length": length} for length in (1 << 64, 1.5)],
        *[{"nodes": nodes} for nodes in ([(1, 1 << 63)], [(1, "0")], [(1,)], [1])],
        {**VIEWS, "variadic": ["0"]},
    ],
    "expected 1 nodes, . buffers, . variadic counts and . dictionaries, found": [
        *[{"nodes": nodes} for nodes in ([], [(1, 0)] * 2)],
        *[{"buffers": buffers} for buffers in ([b"1"], [None, b"1", b""])],
        {"variadic": [0]},
        {"variadic": [1], "buffers": [None, b"1", b""]},
        {"dictionaries": [WORDS]},
        VIEWS,
        *[{**VIEWS, "variadic": variadic} for variadic in ([1], [0, 0], [-1])],
        {**VIEWS, "variadic": [0], "buffers": [None, VIEW, b""]},
        WORD,
        {**WORD, "dictionaries": [WORDS] * 2},
    ],
    "validate must be": [{"validate": "some"}],
}


@pytest.mark.parametrize(("words", "wrong"), [(words, wrong) for words, rows in WRONG.items() for wrong in rows])
def test_what_a_caller_got_wrong_is_a_usage_error(words, wrong):
    with pytest.raises(UsageError, match=words):
        made(**{"kind": T.int8(), "length": 1, "nodes": [(1, 0)], "buffers": [None, b"1"], **wrong})


@pytest.mark.parametrize(
    ("kind", "length", "nodes", "buffers", "more", "words"),
    [
        (T.int8(), -1, [(-1, 0)], [None, b"1"], {}, "RecordBatch.length is -1"),
        (T.int8(), 1, [(-1, 0)], [None, b"1"], {}, "'x': FieldNode.length is -1"),
        (T.int8(), 1, [(1, 2)], [None, b"1"], {}, r"'x': null_count is 2: expected 0..1"),
        (T.int8(), 1, [(1, -2)], [None, b"1"], {}, r"'x': null_count is -2"),
        (T.int8(), 2, [(1, 0)], [None, b"1"], {}, "'x': has 1 rows, the batch has 2"),
        (T.int8(), 2, [(2, 0)], [None, b"1"], {}, r"'x': buffer 1 \(values\): holds 1 bytes"),
        (T.int8(), 9, [(9, 1)], [b"1", b"123456789"], {}, r"'x': buffer 0 \(validity\): holds 1 bytes"),
        (T.int8(), 1, [(1, 1)], [None, b"1"], {}, r"'x': buffer 0 \(validity\): holds 0 bytes"),
        (T.int64(), (1 << 62), [((1 << 62), 0)], [None, b"1"], {}, r"holds 1 bytes"),
        (T.list_(T.int8()), 1, [(1, 0), (0, 0)], [None, i32(0), None, b""], {}, r"\(offsets\): holds 4 bytes"),
        (T.list_(T.int8(), 2), 1, [(1, 0), (1, 0)], [None, None, b"1"], {}, "has 1 elements, its parent needs 2"),
        (T.binary(), 1, [(1, 0)], [None, i32(0, 9), b"12"], {"validate": "full"}, "offset 1 is 9"),
        (T.utf8(), 1, [(1, 0)], [None, i32(0, 1), b"\xff"], {"validate": "full"}, "is not UTF-8"),
        (T.int8(), 1, [(1, 1)], [b"\1", b"1"], {"validate": "strict"}, "null_count is 1, the validity bitmap has 0"),
    ],
)
def test_what_cannot_be_is_a_format_error(kind, length, nodes, buffers, more, words):
    with pytest.raises(FormatError, match=words):
        made(kind, length, nodes, buffers, **more)


class Liar(list):
    """An empty list that says it is as long as it ought to be."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


@pytest.mark.parametrize("part", ["nodes", "buffers"])
def test_what_lies_about_its_length_is_counted(part):
    given = {"nodes": [(1, 0)], "buffers": [None, b"1"]}
    given[part] = Liar(len(given[part]))
    with pytest.raises(UsageError, match="found"):
        made(T.int8(), 1, **given)


def test_negative_variadic_counts_are_refused_where_their_sum_fits():
    schema = ipc.Schema([T.field(name, T.string_view()) for name in "xy"])
    nodes, buffers = [(1, 0), (1, 0)], [None, VIEW, None, VIEW]
    for counts in itertools.permutations((-1, 1)):
        with pytest.raises(FormatError, match="variadicBufferCounts: an entry is -1"):
            ipc.RecordBatch.from_buffers(schema, 1, nodes, buffers, variadic=counts)
