"""Dictionaries on their way out, beside their law (`laws/test_dictionaries.py`): what is refused and what is left then,
and which messages nested dictionaries need.

Dictionaries before a batch are (id, whether it is a delta, how many values come).
"""

import io
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from helpers import forge
from helpers.arrays import batch_of_columns, column_of, ipc_bytes
from helpers.forge import INT8, UTF8, encoding, field, i8, i32, stream
from helpers.histories import FILES, SHARED, STREAMS, Out, lists

import arrowipc as ipc
from arrowipc import FormatError, UsageError

WORDS = pa.dictionary(pa.int8(), pa.string())
CODED = forge.schema(field("c0", UTF8, dictionary=encoding(0, INT8)))


def column(indices: Sequence[int | None], values: Iterable[Any], kind: pa.DictionaryType = WORDS) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, kind.index_type), pa.array(values, kind.value_type))


def words(indices: Sequence[int | None], values: Iterable[str | None]) -> ipc.RecordBatch:
    """One column of words; each batch comes from a reader of its own."""
    return batch_of_columns(column(indices, values))


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64(), pa.list_(pa.float64())], ids=str)
@pytest.mark.parametrize("unify", [False, True])
def test_100_nan_equals_nan_and_minus_zero_is_no_zero(kind, unify):
    def floats(*values):
        made = [[v] for v in values] if pa.types.is_list(kind) else values
        return batch_of_columns(column([0], made, pa.dictionary(pa.int8(), kind)))

    out = Out(floats(1.0).schema, deltas=True, unify=unify)
    assert out.write(floats(math.nan, 0.0)) == [(0, False, 2)]
    assert out.write(floats(-math.nan, 0.0)) == []
    assert out.write(floats(math.nan, -0.0)) == [(0, True, 1) if unify else (0, False, 2)]
    assert "-0.0" in repr(out.found.column(0).dictionary.to_pylist())


# -- nested and shared dictionaries --------------------------------------------------------------------------


def test_099_inner_before_outer_and_deltas_of_both():
    def nested(index, outer, *inner):
        return batch_of_columns(pa.DictionaryArray.from_arrays(pa.array([index]), lists(outer, pa.array(inner))))

    first = nested(0, [[0], [0, 1]], "a", "b")
    out = Out(first.schema, deltas=True)
    kind = out.writer.schema.field(0).type
    outer, inner = kind.dictionary_id, kind.value_type.value_field.type.dictionary_id
    assert out.write(first) == [(inner, False, 2), (outer, False, 2)]
    assert out.write(nested(2, [[0], [0, 1], [2]], "a", "b", "c")) == [(inner, True, 1), (outer, True, 1)]
    # The inner one alone grows: earlier values of the outer one stay what they are.
    assert out.write(nested(1, [[0], [0, 1], [2]], "a", "b", "c", "d")) == [(inner, True, 1)]
    assert out.write(nested(1, [[0], [0, 1], [2], [0, 0]], "a", "b", "c")) == [(outer, True, 1)]
    # The outer one decodes to the same values; its indices refer to what is gone.
    for options in ({}, {"deltas": True}):
        out = Out(first.schema, **options)
        out.write(nested(0, [[0], [1]], "a", "b"))
        assert out.write(nested(0, [[1], [0]], "b", "a")) == [(inner, False, 2), (outer, False, 2)]


def test_099_an_outer_dictionary_that_a_batch_lacks_goes_empty_when_its_inner_one_is_replaced():
    word = field("item", UTF8, dictionary=encoding(1, INT8))
    outer = field("o", forge.LIST, word, dictionary=encoding(0, INT8))
    root = forge.schema(outer, field("w", UTF8, dictionary=encoding(1, INT8)))
    one_list = forge.batch(1, [(1, 0), (2, 0)], [b"", i32(0, 2), b"", i8(0, 1)])
    rows = forge.batch(1, [(1, 0), (1, 0)], [b"", i8(0), b"", i8(1)])
    absent = forge.batch(1, [(1, 1), (1, 0)], [b"\0", i8(0), b"", i8(0)])
    both = forge.dictionary(1, forge.texts("a", "b")), forge.dictionary(0, one_list)
    (first,) = ipc.open_stream(stream(root, *both, rows))
    (second,) = ipc.open_stream(stream(root, forge.dictionary(1, forge.texts("z")), absent))
    out = Out(first.schema)
    assert out.write(first) == [(1, False, 2), (0, False, 1)]
    assert out.write(second) == [(1, False, 1), (0, False, 0)]
    for unify in (False, True):
        data = ipc_bytes([first, second, first], unify_dictionaries=unify)
        assert [column_of(data, name) for name in "ow"] == [[["a", "b"], None, ["a", "b"]], ["b", "z", "b"]]


def test_092_a_batch_may_share_what_the_writer_does_not():
    together = forge.schema(*[field(name, UTF8, dictionary=encoding(7, INT8)) for name in ("c0", "c1")])
    values = forge.dictionary(7, forge.texts("a", "b"))
    (shared,) = ipc.open_stream(stream(together, values, forge.batch(1, [(1, 0)] * 2, [b"", i8(0), b"", i8(1)])))
    apart = batch_of_columns(column([0], ["a"]), column([0], ["b"]))
    for options in STREAMS:
        for batches in ([apart, shared, apart], [shared, apart, shared]):
            out = Out(apart.schema, **options)
            for batch in batches:
                out.write(batch)
            assert column_of(out.sink, "c0") == ["a"] * 3
            assert column_of(out.sink, "c1") == ["b"] * 3
    out = Out(apart.schema, deltas=True)
    assert out.write(apart) == [(0, False, 1), (1, False, 1)]
    assert out.write(shared) == [(0, True, 1), (1, False, 2)]


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "other", "helps"),
    [
        ({}, ["a", "b"], r"(?s)'c0'.*dictionary_deltas=True.*unify_dictionaries=True"),
        ({}, ["b"], r"'c0'.*unify_dictionaries=True"),
        ({"deltas": True}, ["b", "a"], r"'c0'.*unify_dictionaries=True"),
    ],
    ids=str,
)
def test_a_file_refuses_what_it_cannot_hold_and_says_what_helps(options, other, helps):
    out = Out(words([0], ["a"]).schema, file=True, **options)
    out.write(words([0], ["a"]))
    with pytest.raises(UsageError, match=helps):
        out.write(words([0], other))


def test_092_two_dictionaries_for_one_id_are_refused_and_both_columns_named():
    with pytest.raises(UsageError, match=r"'c0' and 'c1'.*dictionary 0.*unify_dictionaries=True"):
        Out(SHARED).write(batch_of_columns(column([0], ["a"]), column([1], ["b", "a"])))


@pytest.mark.parametrize(("kind", "most"), [("int8", 128), ("uint8", 256)])
def test_103_an_index_that_does_not_fit_its_type_changes_nothing(kind, most):
    coded = pa.dictionary(getattr(pa, kind)(), pa.int32())

    def numbers(start, count, rows):
        return batch_of_columns(column(rows, range(start, start + count), coded))

    for options in (*STREAMS[2:], *FILES[2:]):
        out = Out(numbers(0, 1, [0]).schema, **options)
        out.write(numbers(0, most - 1, [0]))
        with pytest.raises(UsageError, match=rf"'c0'.*{most + 1}.*{kind}.*{most - 1}"):
            out.write(numbers(1000, 2, [1]))
        made = out.write(numbers(2000, 2, [0]))
        if options.get("deltas"):
            assert made == [(0, True, 2)]
        found = out.found
        if options.get("file") and not options.get("deltas"):
            assert out.close() == [(0, False, most + 1)]
            found = ipc.open_file(out.sink)[-1]
        assert found.column(0).to_pylist() == [2000]
        assert pa.array(found.column(0)).indices.to_pylist() == [most - 1]


def levels(*values: str) -> ipc.RecordBatch:
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    return ipc.record_batch({"x": pa.array(values, pa.string()).dictionary_encode().cast(kind)})


#: What makes one dictionary of many.
JOINED: dict[str, tuple[Callable[[list[ipc.RecordBatch]], Any], type[Exception]]] = {
    "concat": (ipc.concat_batches, ipc.UnsupportedError),
    "take": (lambda batches: ipc.Table.from_batches(batches).sort_by("x"), ipc.UnsupportedError),
    "file": (lambda batches: ipc.write(batches, io.BytesIO(), unify_dictionaries=True), UsageError),
    "payloads": (lambda batches: ipc.decode_payloads([ipc_bytes(each) for each in batches]), UsageError),
    "structs": (
        lambda batches: ipc.chunked_array([batch.to_struct_array() for batch in batches]).combine(),
        ipc.UnsupportedError,
    ),
}


@pytest.mark.parametrize("how", JOINED)
def test_ordered_dictionaries_become_one_only_if_it_has_the_order_of_each(how):
    join, error = JOINED[how]
    for alike in ([("a", "b"), ("b", "c"), ("a", "c"), ()], [("c",), ("b",)]):
        join([levels(*values) for values in alike])
    for others in ([("a", "b"), ("b", "a")], [("a", "c"), ("a", "b", "c")]):
        with pytest.raises(error, match=r"x': its dictionary is ordered, .* another order"):
            join([levels(*values) for values in others])


def test_dictionaries_of_other_orders_become_one_where_the_order_has_no_meaning():
    parts = [levels("a", "c"), levels("a", "b", "c")]
    assert ipc.concat_batches([part.cast({"x": WORDS}) for part in parts])["x"].dictionary.to_pylist() == [
        "a",
        "c",
        "b",
    ]
    assert ipc.Table.from_batches(parts)["x"].dictionary_decode().combine().to_pylist() == ["a", "c", "a", "b", "c"]


@pytest.mark.parametrize("index", [-1, 2, 3, 127, -128])
@pytest.mark.parametrize("before", [["z"], ["a", "b", "c", "d"]], ids=["renumbered", "as they are"])
def test_102_unifying_refuses_an_index_outside_its_dictionary(index, before):
    text = forge.texts("a", "b")
    parts = [forge.batch(2, [(2, 0)], [b"", i8(1, row)]) for row in (index, 0)]
    bad, good = ipc.open_stream(stream(CODED, forge.dictionary(0, text), *parts), validate="none")
    out = Out(bad.schema, unify=True, deltas=True)
    out.write(words([0], before))
    with pytest.raises(FormatError, match=rf"'c0'.*index {index} \(row 1\).*dictionary of 2"):
        out.write(bad)
    assert out.write(words([0], ["q"])) == [(0, True, 1)]
    # The dictionary is the object that the refused batch had: its values are numbered again.
    out.write(good)
    assert out.found.column(0).to_pylist() == ["b", "a"]


def test_a_broken_dictionary_changes_nothing():
    text = forge.batch(2, [(2, 0)], [b"", i32(0, 9, 1), b"a"])
    rows = forge.batch(1, [(1, 0)], [b"", i8(0)])
    (bad,) = ipc.open_stream(stream(CODED, forge.dictionary(0, text), rows), validate="none")
    for options in STREAMS:
        out = Out(bad.schema, **options)
        out.write(words([0], ["x"]))
        with pytest.raises(FormatError, match="offset"):
            out.write(bad)
        assert out.write(words([0], ["x"])) == []


def test_null_slots_of_renumbered_indices_are_zero():
    second = batch_of_columns(column([1, None, 0], ["a", "b"]), pa.array([1.5, 2.5, None]))
    out = Out(second.schema, unify=True)
    out.write(batch_of_columns(column([0], ["z"]), pa.array([0.5])))
    out.write(second)
    assert list(out.found.column(0).buffers()[1].cast("b"))[:3] == [2, 0, 1]
    assert out.found.column(1).to_pylist() == [1.5, 2.5, None]
    assert out.found.custom_metadata == second.custom_metadata
