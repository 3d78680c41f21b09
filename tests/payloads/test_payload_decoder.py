"""Payload columns: schemas that fit or do not, dictionaries, what is said about broken payloads, limits."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columns.broken import forged
from helpers import forge, memory, optional
from helpers.arrays import CASES, pyarrow_bytes

import arrowipc as ipc
from arrowipc.types import field, int64, list_, null, struct

pl = optional("polars")


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def payload(*batches: pa.RecordBatch, **columns: Any) -> bytes:
    return pyarrow_bytes(list(batches) or [batch(**columns)])


ONE = payload(x=[1, 2])
TWO = payload(batch(x=[3]), batch(x=[None, 5]))


def decode(*cells: Any, **options: Any) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = ipc.decode_payloads(list(cells), **options).batch.to_pydict()
    return values


def test_bare_messages_need_a_schema_and_may_follow_each_other():
    part = batch(x=[1, 2])
    bare = part.serialize().to_pybytes()
    cells = [bare, bare * 3, b"", ONE, bare + forge.EOS]
    assert decode(*cells, schema=part.schema) == {"x": [1, 2] * 6}
    with pytest.raises(ipc.FormatError, match=r"cell 0: message 1 \(RecordBatch\): a stream begins with a Schema"):
        decode(cells[0])


def test_numpy_polars_and_fixed_size():
    cells = [ONE, None, ONE]
    columns = [np.array(cells, object), pl.Series(cells, dtype=pl.Binary), pa.array(cells, pa.binary(len(ONE)))]
    assert [ipc.decode_payloads(column).batch.num_rows for column in columns] == [4, 4, 4]
    for empty in (pa.nulls(3), pa.chunked_array([], pa.binary())):
        assert ipc.decode_payloads(empty).batch.num_rows == 0


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([1, 2]), "found int64"),
        (pa.array(["text"]), "found utf8|found string"),
        (batch(x=[b""]), "found a table"),
        (np.array([b"a"]), "dtype=object"),
        (np.array([[b"a"]], dtype=object), "one dimension"),
        ([ONE, 3], "cell 1: expected bytes"),
        (b"bytes", "found bytes"),
        (pa.array([ONE]).dictionary_encode(), "found dictionary"),
    ],
)
def test_what_is_no_column_of_payloads_is_refused(column, said):
    with pytest.raises(ipc.UsageError, match=said):
        ipc.decode_payloads(column)


def test_a_column_that_is_broken_itself_is_refused_however_errors_are_treated():
    rows = forge.batch(2, [(2, 0)], [b"", forge.i32(0, 4, 1000), b"abcdefgh"])
    broken = forged([forge.field("p", forge.BINARY)], rows)["p"]
    with pytest.raises(ipc.FormatError, match="the column of payloads itself is broken"):
        ipc.decode_payloads(broken, on_error="skip")


def test_a_column_without_payloads_has_no_columns_unless_a_schema_is_given():
    for cells in ([], [None, None]):
        decoded = ipc.decode_payloads(cells)
        assert (decoded.batch.num_columns, decoded.batch.num_rows, decoded.next) == (0, 0, len(cells))
        assert decoded.batch.schema.names == []
        assert decode(*cells, schema=batch(x=[1]).schema) == decode(*cells, schema={"x": "int64"}) == {"x": []}
        assert decode(*cells, parent_index=True) == {"parent_index": []}


def test_fields_of_structs_are_found_by_name_at_any_depth():
    first = payload(s=[{"a": 1, "b": [{"c": "x", "d": 2.5}]}])
    second = payload(s=pa.array([{"b": [{"d": 1.5}, {"d": 0.5}], "a": 3}, None]))
    third = payload(s=pa.array([{"a": 4}]))
    assert decode(first, second, third)["s"] == [
        {"a": 1, "b": [{"c": "x", "d": 2.5}]},
        {"a": 3, "b": [{"c": None, "d": 1.5}, {"c": None, "d": 0.5}]},
        None,
        {"a": 4, "b": None},
    ]


#: Types of all kinds, some of whose children must not be null, and unions whose codes are in another order.
EVERY = {name: each.type for name, each in CASES.items()} | {
    "items": pa.list_(pa.struct([pa.field("x", pa.int8(), nullable=False)])),
    "fixed items": pa.list_(pa.field("i", pa.int16(), nullable=False), 3),
    "fields": pa.struct([pa.field("n", pa.int8(), nullable=False), pa.field("t", pa.string(), nullable=False)]),
    "sparse": pa.sparse_union([pa.field("a", pa.int8()), pa.field("b", pa.string())], [7, 5]),
    "dense": pa.dense_union([pa.field("a", pa.int8()), pa.field("b", pa.string())], [7, 0]),
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dictionaries", ["unify", "decode"])
def test_missing_columns_and_broken_payloads_are_nulls_of_any_type_that_strict_readers_take(name, dictionaries):
    schema = pa.schema([("x", pa.int64()), (name, EVERY[name])])
    cells = [b"?", ONE, None, TWO, b""]
    decoded = ipc.decode_payloads(cells, schema=schema, dictionaries=dictionaries, on_error="null")
    assert decoded.batch.to_pydict() == {"x": [None, 1, 2, 3, None, 5], name: [None] * 6}
    assert decoded.counts.to_pylist() == [1, 2, 0, 3, 0]
    pa.record_batch(decoded.batch).validate(full=True)
    again = ipc.decode_payloads([decoded.batch.schema.serialize() + decoded.batch.serialize()], validate="full")
    if dictionaries == "decode" or not pa.types.is_dictionary(EVERY[name]):
        assert again.batch.to_pydict() == decoded.batch.to_pydict()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([payload(x=[1]), payload(x=["1"])], "cell 1: message 1 .Schema.: column 'x': the payload has string"),
        ([payload(x=[1]), payload(x=[1], y=[2])], "column 'y': the payload has this field and the output has not"),
        ([payload(s=[{"a": 1}]), payload(s=[{"a": 1, "b": 2}])], "column 's.b': the payload has this field"),
        ([payload(x=[1]), payload(y=[2])], "column 'y'|none of the columns"),
        ([payload(t=pa.array([1], pa.timestamp("us", zone))) for zone in ("UTC", None)], "timestamp"),
        ([payload(x=pa.array(["a"]).dictionary_encode()), payload(x=[1])], "dictionary"),
        ([payload(x=pa.DictionaryArray.from_arrays([0], [[1]])), payload(x=[[1]])], "dictionary"),
    ],
)
def test_schemas_that_do_not_fit_say_which_column(cells, said):
    with pytest.raises(ipc.UsageError, match=said):
        decode(*cells)
    decoded = ipc.decode_payloads([*cells, cells[0]], on_error="skip")
    assert decoded.counts.to_pylist() == [1, 0, 1]
    assert [cell for cell, _ in decoded.failures] == [1]


def test_a_missing_column_that_must_not_be_null_does_not_fit():
    schema = ipc.Schema([field("x", int64()), field("y", int64(), nullable=False)])
    with pytest.raises(ipc.UsageError, match=r"cell 0: .*column 'y': the payload has no such field"):
        decode(ONE, schema=schema)


def test_nulls_where_the_output_has_none_are_refused():
    schema = ipc.Schema([field("x", int64(), nullable=False)])
    assert decode(ONE, schema=schema) == {"x": [1, 2]}
    with pytest.raises(ipc.FormatError, match=r"cell 1: .*column 'x': has 1 nulls and is declared not nullable"):
        decode(ONE, TWO, schema=schema)
    nothing = ipc.Schema([field("n", struct([field("a", null(), nullable=False)]))])
    with pytest.raises(ipc.FormatError, match=r"column 'n\.a': has 2 nulls"):
        decode(payload(n=[{"a": None}] * 2), schema=nothing)
    inner = ipc.Schema([field("s", struct([field("a", int64(), nullable=False)]))])
    part = pa.record_batch([pa.array([{"a": 1}, None, {"a": 3}])], ["s"])
    assert decode(payload(part), schema=inner) == {"s": [{"a": 1}, None, {"a": 3}]}
    with pytest.raises(ipc.FormatError, match="not nullable"):
        decode(payload(s=pa.array([{"a": 1}, {"a": None}])), schema=inner)


def test_columns_chosen_by_name_index_and_path():
    cells = [payload(a=[1], s=[{"b": 2, "c": 3}]), payload(s=[{"c": 5, "d": 0, "b": 4}], more=["x"], a=[9])]
    assert decode(*cells, columns=["s.c", "a"]) == {"s": [{"c": 3}, {"c": 5}], "a": [1, 9]}
    assert decode(*cells, columns=0) == {"a": [1, 9]}
    schema = ipc.decode_payloads(cells[:1]).batch.schema
    assert decode(*cells, columns=["s"], schema=schema) == {"s": [{"b": 2, "c": 3}, {"b": 4, "c": 5}]}
    with pytest.raises(ipc.UsageError, match=r"cell 0: .*columns: no column 'z'"):
        decode(*cells, columns=["z"])


def test_names_that_repeat_are_taken_in_turn():
    both = pa.record_batch([pa.array([1]), pa.array([2])], ["x", "x"])
    swapped = pa.schema([pa.field("x", pa.int64(), metadata={"a": "b"}), pa.field("x", pa.int64())])
    other = pa.RecordBatch.from_arrays([pa.array([3]), pa.array([4])], schema=swapped)
    decoded = ipc.decode_payloads([payload(both), payload(other)]).batch
    assert [column.to_pylist() for column in decoded.columns] == [[1, 3], [2, 4]]


def test_the_children_of_lists_and_maps_may_have_any_name():
    def named(item: str, key: str) -> pa.Schema:
        pairs = pa.map_(pa.field(key, pa.string(), nullable=False), pa.field(key + "v", pa.int8()))
        return pa.schema([("l", pa.list_(pa.field(item, pa.int8()))), ("m", pairs)])

    rows = {"l": [[1], None], "m": [[("a", 1)], []]}
    cells = [payload(pa.RecordBatch.from_pydict(rows, schema=named(*names))) for names in [("i", "k"), ("e", "q")]]
    assert decode(*cells) == {"l": rows["l"] * 2, "m": rows["m"] * 2}


def test_big_endian_metadata_v4_and_compressed_payloads_join_the_others():
    root = forge.schema(forge.field("x", forge.INT32))
    little = forge.stream(root, forge.batch(2, [(2, 0)], [b"", forge.i32(1, 2)]))
    old = forge.stream(root, forge.batch(1, [(1, 0)], [b"", forge.i32(7)]), version=forge.V4)
    big = forge.stream(root.but(endianness=1), forge.batch(2, [(2, 0)], [b"", b"\0\0\0\3\0\0\0\4"]))
    packed = pyarrow_bytes([batch(x=pa.array([5, 6], pa.int32()))], compression="zstd")
    assert decode(little, big, packed, old, little) == {"x": [1, 2, 3, 4, 5, 6, 7, 1, 2]}


def test_errors_name_cell_message_and_column():
    text = batch(x=[1], t=["abc"])
    broken = payload(text, text).replace(b"abc", b"a\xff\xfe")
    with pytest.raises(ipc.FormatError, match=r"^cell 1: message 2 \(RecordBatch\): column 't': value 0 is not UTF-8"):
        decode(payload(text), broken)
    assert decode(payload(text), broken, payload(text), on_error="skip") == {"x": [1, 1], "t": ["abc", "abc"]}


def test_the_schema_of_a_payload_that_failed_does_not_count():
    other = payload(y=["a"])[:-20]
    decoded = ipc.decode_payloads([other, None, ONE], on_error="null")
    assert decoded.batch.to_pydict() == {"x": [None, 1, 2]}
    assert decoded.counts.to_pylist() == [1, 0, 2]
    nothing = ipc.decode_payloads([other, b"", None], on_error="null", parent_index=True)
    assert nothing.batch.to_pydict() == {"parent_index": [0, 1]}


def test_null_rows_make_all_columns_nullable():
    schema = ipc.Schema([field("x", int64(), nullable=False)])
    decoded = ipc.decode_payloads([ONE], schema=schema, on_error="null")
    assert [one.nullable for one in decoded.batch.schema.fields] == [True]


@pytest.mark.parametrize(("width", "cells"), [(1 << 25, 1), (1 << 17, 200)])
def test_rows_of_nulls_count_as_what_payloads_become(width, cells):
    schema = ipc.Schema([field("x", list_(int64(), width))])
    with memory.at_most(200 << 20), pytest.raises(ipc.LimitError, match="a row of nulls in the place of a broken cell"):
        ipc.decode_payloads([b"?"] * cells, schema=schema, on_error="null")
    more = ipc.Limits(payload_slack=1 << 30)
    assert ipc.decode_payloads([b"?"], schema=schema, on_error="null", limits=more).num_failed == 1


def test_the_parent_index_counts_cells_of_the_whole_column():
    decoded = ipc.decode_payloads([ONE, None, TWO], start=1, parent_index=True)
    assert decoded.batch.to_pydict() == {"x": [3, None, 5], "parent_index": [2, 2, 2]}
    assert decoded.parent_index.to_pylist() == [2, 2, 2]
    assert ipc.decode_payloads([ONE]).parent_index is None
    with pytest.raises(ipc.UsageError, match="parent_index: the payloads have a column 'x' themselves"):
        ipc.decode_payloads([ONE], parent_index="x")
    views = payload(v=pa.array(["a" * 30, "b"], pa.string_view()))
    indexed = ipc.decode_payloads([views, views], parent_index=True).batch
    assert indexed.to_pydict() == {"v": ["a" * 30, "b"] * 2, "parent_index": [0, 0, 1, 1]}


def test_an_output_that_is_full_raises_or_stops_but_never_skips():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([20_000], pa.int16()), pa.array(["x"]))
    cells = [payload(r=runs)] * 3
    with pytest.raises(ipc.UnsupportedError, match=r"cell 1: .*run ends would reach 40,000.*max_rows="):
        ipc.decode_payloads(cells, on_error="skip")
    decoded = ipc.decode_payloads(cells, max_bytes=10**9)
    assert (decoded.next, decoded.batch.num_rows) == (1, 20_000)


def test_tiny_payloads_that_claim_many_rows_make_no_large_columns():
    most = 2**31 - 1
    bomb = forge.stream(forge.schema(forge.field("n", forge.NULL)), forge.batch(most, [(most, most)], []))
    assert ipc.decode_payloads([bomb]).batch.num_rows == most
    with memory.at_most(200 << 20):
        with pytest.raises(ipc.LimitError, match=r"cell 0: .*parent indices.*payload_slack"):
            ipc.decode_payloads([bomb], parent_index=True)
        assert ipc.decode_payloads([bomb] * 9, parent_index=True, on_error="skip").num_failed == 9
    few = forge.stream(forge.schema(forge.field("n", forge.NULL)), forge.batch(10**6, [(10**6, 10**6)], []))
    assert ipc.decode_payloads([few], parent_index=True).batch.num_rows == 10**6
    schema = ipc.Schema([field("n", null()), field("x", int64())])
    with pytest.raises(ipc.LimitError, match=r"cell 0: .*columns that the payload has not"):
        ipc.decode_payloads([bomb], schema=schema)
    with pytest.raises(ipc.LimitError, match=r"cell 1: .*Limits.rows_per_batch"):
        ipc.decode_payloads([bomb, bomb], on_error="skip")
    assert ipc.decode_payloads([bomb, bomb], max_rows=10).next == 1


def test_arguments_are_checked():
    wrong = {"validate": "some", "on_error": "ignore", "dictionaries": "keep", "parent_index": 3, "start": -1}
    for name, value in (*wrong.items(), ("max_rows", 0), ("max_bytes", "1"), ("max_rows", True)):
        with pytest.raises(ipc.UsageError, match=name):
            ipc.decode_payloads([ONE], **{name: value})


def test_going_on_with_the_schema_of_the_first_call_gives_equal_batches():
    words = [pa.array([word]).dictionary_encode() for word in "xy"]
    cells = [payload(a=[1], w=words[0]), payload(w=words[1])]
    for how in ("unify", "decode"):
        first = ipc.decode_payloads(cells, max_rows=1, parent_index=True, dictionaries=how)
        assert first.schema.names == ["a", "w"]
        then = ipc.decode_payloads(cells, first.schema, start=first.next, parent_index=True, dictionaries=how)
        assert then.batch.schema == first.batch.schema
        assert then.batch.to_pydict() == {"a": [None], "w": ["y"], "parent_index": [1]}


def test_other_columns_are_repeated_beside_the_rows_of_their_payloads():
    source = batch(topic=["a", "b", "c"], payload=[ONE, None, TWO], at=pa.array([1, 2, 3], pa.int16()))
    decoded = ipc.decode_payloads(source.column("payload"))
    beside = ipc.repeat(source.select(["topic", "at"]), decoded)
    assert beside.to_pydict() == {"topic": ["a", "a", "c", "c", "c"], "at": [1, 1, 3, 3, 3]}
    part = ipc.decode_payloads(source.column("payload"), start=1, parent_index=True)
    assert ipc.repeat(source.select(["topic"]), part).to_pydict() == {"topic": ["c"] * 3}


@pytest.mark.parametrize(
    ("counts", "said"), [([1], "one count for each of 2"), ([1, -1], "negative"), ([1.5, 2], "expected integers")]
)
def test_repeat_checks_its_counts(counts, said):
    with pytest.raises(ipc.UsageError, match=said):
        ipc.repeat(batch(x=[1, 2]), counts)


def test_repeat_counts_offsets_before_it_copies():
    long = batch(t=["x" * 1_000_000])
    with pytest.raises(ipc.UnsupportedError, match="offsets would reach"):
        ipc.repeat(long, [3_000])
