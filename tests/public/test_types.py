"""Types, fields and schemas: what they accept, how they print and compare, what pyarrow reads of them."""

import copy
import pickle
from typing import Any

import pytest
from helpers.fbs import LAYOUT

import arrowipc
from arrowipc import Schema, UsageError, types as T
from arrowipc.cdata.import_array import schema_from

pa = pytest.importorskip("pyarrow")


def read_back(schema: Schema) -> Any:
    return pa.ipc.read_schema(pa.py_buffer(schema.serialize()))


# Every type, parameterised widely; pyarrow has two of the three interval units only in its C++ part.

LEAVES: list[T.DataType] = [
    *[getattr(T, f"{sign}int{width}")() for sign in ("", "u") for width in (8, 16, 32, 64)],
    *[make() for make in (T.null, T.bool_, T.float16, T.float32, T.float64, T.date32, T.date64)],
    *[make() for make in (T.utf8, T.large_utf8, T.utf8_view, T.binary, T.large_binary, T.binary_view)],
    *[T.binary(width) for width in (0, 7, 2**27)],
    T.decimal32(9, 2),
    T.decimal64(18, -3),
    T.decimal128(38, 40),
    T.decimal128(1),
    T.decimal256(76, -(2**31)),
    *[T.time32(unit) for unit in ("s", "ms")],
    *[T.time64(unit) for unit in ("us", "ns")],
    *[make(unit) for make in (T.timestamp, T.duration) for unit in ("s", "ms", "us", "ns")],
    *[T.timestamp(*each) for each in (("us", "UTC"), ("ns", "America/New_York"), ("s", "+07:30"))],
    T.month_day_nano_interval(),
]
FLAGGED = T.field("x y", T.int16(), nullable=False, metadata={"k": "v"})
NESTED: list[T.DataType] = [
    T.list_(T.int8()),
    T.list_(FLAGGED),
    T.list_(T.int8(), 0),
    T.list_(FLAGGED, 3),
    T.large_list(FLAGGED),
    T.list_view(FLAGGED),
    T.large_list_view(FLAGGED),
    T.struct([]),
    T.struct([("a", T.int8()), FLAGGED, ("a", T.utf8())]),
    T.struct({"a": T.list_(T.struct({"b": T.null()}))}),
    T.map_(T.utf8(), T.int32()),
    T.map_(T.utf8(), FLAGGED, keys_sorted=True),
    T.map_(FLAGGED, T.utf8()),
    T.sparse_union([]),
    T.sparse_union([("a", T.int8()), FLAGGED]),
    T.dense_union([("a", T.int8()), FLAGGED], [127, 0]),
    T.run_end_encoded(T.int16(), T.utf8()),
    T.run_end_encoded(T.int64(), T.list_(T.int8())),
    *[T.dictionary(index, T.utf8()) for index in LEAVES if isinstance(index, T.Int)],
    T.dictionary(T.int8(), T.list_(FLAGGED), ordered=True),
    T.dictionary(T.int32(), T.struct({"inner": T.dictionary(T.uint8(), T.utf8())})),
]
OTHER_INTERVALS = [T.interval_year_month(), T.interval_day_time()]


@pytest.mark.parametrize("type_", LEAVES + NESTED + OTHER_INTERVALS, ids=str)
def test_every_type_is_written_as_pyarrow_does_prints_hashes_and_pickles(type_: T.DataType) -> None:
    # What pyarrow takes over the C data interface has to be what it reads of the message.
    expected = pa.schema(T.schema([("f", type_)])).field(0).type
    if not isinstance(type_, T.Map):
        assert str(type_) == str(expected)
        assert repr(type_) == f"DataType({expected})"
    for nullable in (True, False) if type_ != T.null() else (True,):
        schema = T.schema([T.field("f", type_, nullable)])
        assert read_back(schema).equals(pa.schema(schema), check_metadata=True)
        read = arrowipc.read_schema(schema.serialize())
        assert read.equals(schema, check_metadata=True)
        assert read.serialize() == schema.serialize()
        assert schema_from(schema.__arrow_c_schema__()).equals(schema, check_metadata=True)
    again = pickle.loads(pickle.dumps(type_))
    assert again.equals(type_, check_metadata=True)
    assert (again, hash(again), str(again)) == (type_, hash(type_), str(type_))


def answer(thing: Any, name: str) -> Any:
    """What an attribute says; a ValueError where it has no value."""
    try:
        found = getattr(thing, name)
        return found() if callable(found) else found
    except ValueError:
        return ValueError


#: Of pyarrow's buffers, its packages, and methods with arguments, for which there are tests of their own.
NOT_ASKED = {"equals", "field", "get_all_field_indices", "get_field_index", "has_variadic_buffers", "num_buffers"}
NOT_ASKED |= {"to_pandas_dtype", "item_field", "key_field"}  # of maps pyarrow renames the children


@pytest.mark.parametrize("type_", LEAVES + NESTED, ids=str)
def test_types_answer_as_those_of_pyarrow_do(type_: T.DataType) -> None:
    theirs = pa.schema(T.schema([("f", type_)])).field(0).type
    for name in {name for name in dir(theirs) if name[0] != "_"} - NOT_ASKED:
        found, expected = [
            list(each) if isinstance(each := answer(kind, name), tuple) else each for kind in (type_, theirs)
        ]
        assert found == expected, name
    for name in [name for name in dir(pa.types) if name.startswith("is_") and not name.endswith(("_value", "unicode"))]:
        expected = getattr(pa.types, name)(theirs)
        if name not in ("is_interval", "is_primitive"):  # there one of the three, and what has a fixed width
            assert getattr(T, name)(type_) is expected, name
        assert getattr(pa.types, name)(type_) is expected, name
    for i, child in enumerate(type_.children):
        assert type_.field(i) == child
    with pytest.raises(IndexError):
        type_.field(len(type_.children))


def test_types_are_asked_for_their_parts() -> None:
    kind = T.struct([("a", T.int8()), ("b", T.utf8()), ("b", T.utf8())])
    assert [each.name for each in kind] == kind.names == ["a", "b", "b"]
    assert (kind["a"].type, kind.get_field_index("a"), kind.get_field_index("b")) == (T.int8(), 0, -1)
    assert kind.get_all_field_indices("b") == [1, 2]
    assert T.timestamp("us", "UTC").to_pandas_dtype() == pa.timestamp("us", "UTC").to_pandas_dtype()
    assert T.is_integer("int8")
    assert T.is_interval(T.interval_day_time())


def test_the_cases_cover_every_tag_of_the_format() -> None:
    tags = {T.Struct: "Struct_"}
    made = {tags.get(type(each), type(each).__name__) for each in LEAVES + NESTED + OTHER_INTERVALS}
    assert made - {"Dictionary"} == LAYOUT.declarations["Type"].values.keys() - {"NONE"}


def test_deepest_type_is_written_and_one_more_is_refused() -> None:
    type_: T.DataType = T.int8()
    for _ in range(63):
        type_ = T.list_(type_)
    assert str(read_back(T.schema([("a", type_)])).field("a").type) == str(type_)
    for deepest in (type_, T.dictionary(T.int8(), type_)):
        schema = T.schema([("a", deepest)])
        assert arrowipc.read_schema(schema.serialize()) == schema
    assert hash(type_) == hash(pickle.loads(pickle.dumps(type_)))
    for wrap in (T.list_, lambda t: T.struct({"a": t}), lambda t: T.run_end_encoded("int32", t)):
        with pytest.raises(UsageError, match="at most 64 levels deep, found 65"):
            wrap(type_)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: T.Int(24, True), "bit_width must be 8 or 16 or 32 or 64, found int 24"),  # 30
        (lambda: T.FloatingPoint("quad"), "'half' or 'single' or 'double', found str 'quad'"),  # 26
        (lambda: T.decimal32(10), "32 bits: precision must be an integer from 1 to 9, found int 10"),  # 31
        (lambda: T.Decimal(5, 2, 96), "bit_width must be 32 or 64 or 128 or 256, found int 96"),
        (lambda: T.decimal128(5.0), "found float 5.0"),
        (lambda: T.Time("s", 64), "Time in s: bit_width must be 32, found int 64"),  # 32
        (lambda: T.Date("s"), "unit must be 'day' or 'ms'"),
        (lambda: T.timestamp("us", 5), "timezone must be a str, found int 5"),
        (lambda: T.binary(-2), "byte_width must be an integer from 0"),  # 33
        (lambda: T.list_(T.int8(), -2), "list_size must be an integer from 0"),
        (lambda: T.List(T.int8()), r"List: value_field must be a Field, found Int DataType\(int8\)"),
        (lambda: T.Map(T.field("e", T.struct({"k": "int8", "v": "int8"}))), "entries must be a struct"),  # 34
        (lambda: T.Map(T.field("e", T.struct({"k": "int8"}), False)), "struct of two fields"),
        (lambda: T.Map(T.field("e", T.struct({"k": "int8", "v": "int8"}), False)), "key must not be nullable"),
        (lambda: T.dense_union([("a", T.int8())], [128]), "type code of child 0 must be an integer from 0"),  # 36
        (lambda: T.dense_union({"a": T.int8(), "b": T.int8()}, [1, 1]), r"all different, found \(1, 1\)"),
        (lambda: T.dense_union({"a": T.int8()}, [1, 2]), "expected 1 type codes, one per child, found 2"),
        (lambda: T.Union("odd", []), "mode must be 'sparse' or 'dense'"),
        (lambda: T.run_end_encoded(T.int8(), T.utf8()), "must be int16, int32 or int64, found int8"),
        (lambda: T.dictionary(T.float32(), T.utf8()), "index_type must be an integer type, found float"),
        (lambda: T.Dictionary(T.int8(), "string"), "value_type must be a DataType, found str 'string'"),
        (lambda: T.dictionary(T.int8(), T.dictionary(T.int8(), T.utf8())), "cannot be a dictionary itself"),  # 38
        (lambda: T.field("a", int), r"expected a DataType or its name, found type .*: types.int64\(...\) makes it"),
        (
            lambda: T.field("a", T.int8),
            r"expected a DataType or its name, found function .*: types.int8\(...\) makes it",
        ),
        (lambda: T.Field("a", T.field("b", "int8")), "type must be a DataType or its name, found Field"),
        (lambda: T.Field("a", "int9"), "no type is named 'int9'"),
        (lambda: T.is_list(5), "expected a DataType or its name, found int 5"),
        # A name with parameters, or one of another library, leads to the factory.
        (lambda: T.field("x", "list<int64>"), r"types.list_\(...\) makes it"),
        (lambda: T.field("x", "timestamp[us, tz=UTC]"), r"types.timestamp\(...\) makes it"),
        (lambda: T.field("x", "decimal(9, 2)"), r"types.decimal128\(...\) makes it"),
        (lambda: T.field("x", "datetime"), r"types.timestamp\(...\) makes it"),
        (lambda: T.field("x", "Int64"), r"types.int64\(...\) makes it"),
        (lambda: T.field("x", "text"), r"types.string\(...\) makes it"),
        (lambda: T.field("x", "texts"), "types with parameters need their factory"),
        (lambda: T.field(b"a", T.int8()), "name must be a str, found bytes b'a'"),  # 19
        (lambda: T.field("\ud800", T.int8()), "text that UTF-8 can hold"),
        (lambda: T.field("a", T.int8(), metadata={"a": 1}), "must be str or bytes, found int 1"),
        (
            lambda: T.schema(
                {"a": T.Dictionary(T.int8(), T.utf8(), False, 3), "b": T.Dictionary(T.int8(), T.int64(), False, 3)}
            ).serialize(),
            "dictionary id 3 stands for two types, string and int64",
        ),
        (lambda: T.schema(["a"]), r"expected a Field or a \(name, type\) pair, found str 'a'"),
    ],
)
def test_refused_with_expected_and_found(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_copy_with_changes() -> None:
    field = T.field("a", T.int8(), False, {"k": "v"})
    assert field.__replace__(name="b") == T.field("b", T.int8(), False)
    assert T.decimal128(5, 2).__replace__(scale=3) == T.decimal128(5, 3)
    with pytest.raises(UsageError):
        T.decimal128(5, 2).__replace__(precision=0)
    schema = T.schema([field], {"k": "v"})
    assert copy.deepcopy(schema).equals(schema, check_metadata=True)
    assert pickle.loads(pickle.dumps(schema)).equals(schema, check_metadata=True)


def test_equality_of_types() -> None:
    everything = LEAVES + NESTED + OTHER_INTERVALS
    assert len(set(everything)) == len(everything)
    assert T.int8() == "int8" == T.int8()
    assert T.timestamp("us").equals("timestamp[us]")
    assert T.int8() not in ("int16", "no type", "")
    assert T.timestamp("us", "") == T.timestamp("us")  # 37
    assert T.timestamp("us", "UTC") != T.timestamp("us")
    one, two = T.Dictionary(T.int8(), T.utf8(), dictionary_id=1), T.Dictionary(T.int8(), T.utf8(), dictionary_id=2)
    assert one == two
    assert hash(one) == hash(two)


def test_names_without_meaning_do_not_count() -> None:  # 35
    entries = T.struct([T.field("k", T.utf8(), False), T.field("v", T.int8())])
    named = T.Map(T.field("kv", entries, False))
    assert named == T.map_(T.utf8(), T.int8())
    assert hash(named) == hash(T.map_(T.utf8(), T.int8()))
    assert not named.equals(T.map_(T.utf8(), T.int8()), check_metadata=True)
    assert (named.key_field.name, named.item_field.name) == ("k", "v")
    assert named != T.map_(T.utf8(), T.field("v", T.int8(), False))
    assert T.list_(T.field("element", T.int8())) == T.list_(T.int8())
    assert T.list_(T.field("item", T.int8(), False)) != T.list_(T.int8())
    assert T.struct({"a": T.int8()}) != T.struct({"b": T.int8()})
    assert T.dense_union({"a": T.int8()}) != T.dense_union({"b": T.int8()})


def test_equality_of_fields_and_metadata() -> None:
    plain, marked = T.field("a", T.int8()), T.field("a", T.int8(), metadata={"k": "v"})
    for one, other in ((plain, marked), (T.list_(plain), T.list_(marked))):
        assert one == other
        assert hash(one) == hash(other)
        assert not one.equals(other, check_metadata=True)
    assert plain != T.field("a", T.int8(), nullable=False)
    assert plain != T.field("b", T.int8())


def test_a_schema_of_another_library_keeps_its_metadata_and_can_be_written() -> None:
    words, numbers = pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64())
    theirs = pa.schema([("d", words), ("e", words), ("f", numbers)], metadata={"k": "v"})
    for made in (
        T.schema(theirs),
        T.schema(T.schema(theirs)),
        T.schema(list(theirs), {"k": "v"}),
        T.schema([T.field(field.name, field.type) for field in theirs], {"k": "v"}),
        T.schema({field.name: field.type for field in theirs}, {"k": "v"}),
    ):
        assert pa.schema(made).equals(theirs, check_metadata=True)
        source = bytearray()
        with arrowipc.new_stream(source, made) as writer:
            writer.write({"d": ["a"], "e": ["b"], "f": [1]})
        assert arrowipc.open_stream(source).read_all().to_pylist() == [{"d": "a", "e": "b", "f": 1}]
    assert T.schema(theirs, {"other": "one"}).metadata == {b"other": b"one"}


def test_equality_of_schemas() -> None:
    field = T.field("a", T.int8())
    schema, marked = T.schema([field]), T.schema([field], {"k": "v"})
    assert schema == marked
    assert hash(schema) == hash(marked)
    assert not schema.equals(marked, check_metadata=True)
    assert schema != T.schema([field, field])
    assert schema != T.schema([field], endianness="big")
    assert schema != "schema"
    assert schema.equals(None) is False


def test_extension_types_are_described_and_never_run() -> None:  # 41
    plain = T.field("u", T.binary(16))
    assert (plain.extension_name, plain.extension_metadata) == (None, None)
    marks = {"ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": b"\xff"}
    field = T.field("u", T.binary(16), metadata=marks)
    assert (field.extension_name, field.extension_metadata) == ("arrow.uuid", b"\xff")
    odd = T.field("u", T.null(), metadata={"ARROW:extension:name": b"\xffx"})
    assert (odd.extension_name, odd.extension_metadata) == ("\\xffx", None)
    uuid = T.field("u", T.binary(16), metadata=marks | {"ARROW:extension:metadata": ""})
    assert read_back(T.schema([uuid])).field("u").type == pa.uuid()


def test_metadata_as_people_give_it() -> None:
    expected = ((b"a", b"1"), (b"b", b"\xff"))
    assert T.field("x", T.int8(), metadata={"a": "1", b"b": bytearray(b"\xff")}).metadata.pairs == expected
    assert T.schema([], [("a", b"1"), (b"b", memoryview(b"\xff"))]).metadata.pairs == expected
    assert T.schema([], None).metadata.pairs == T.schema([], {}).metadata.pairs == ()
    assert T.schema([], [("k", "1"), ("k", "2")]).metadata.pairs == ((b"k", b"1"), (b"k", b"2"))  # 18


def test_fields_by_index_and_name() -> None:
    schema = T.schema({"a": T.int8(), "b": T.utf8(), "": T.null()})
    assert schema.names == ["a", "b", ""]
    assert schema.types == [T.int8(), T.utf8(), T.null()]
    assert len(schema) == 3
    assert list(schema) == list(schema.fields)
    assert schema.field(1) is schema["b"] is schema[1] is schema.field(-2)
    assert schema[""].type == T.null()
    assert "b" in schema
    assert schema[0] in schema
    assert "c" not in schema
    assert T.field("a", T.int16()) not in schema
    with pytest.raises(KeyError, match="no field is named 'c'; the schema has 'a', 'b', ''"):
        schema.field("c")
    with pytest.raises(IndexError, match="field index 3 is out of range: the schema has 3 fields"):
        schema.field(3)


def test_a_name_that_occurs_twice() -> None:  # 39
    schema = T.schema([("a", T.int8()), ("b", T.int8()), ("a", T.utf8())])
    with pytest.raises(UsageError, match="2 fields are named 'a', at indices 0, 2: choose one"):
        schema.field("a")
    assert schema.get_field_index("a") == schema.get_field_index("missing") == -1
    assert schema.get_field_index("b") == 1
    assert schema.get_all_field_indices("a") == [0, 2]
    assert schema.get_all_field_indices("missing") == []


def test_names_of_types() -> None:
    for type_ in LEAVES:
        if not isinstance(type_, (T.Decimal, T.FixedSizeBinary)) and "tz=" not in str(type_):
            assert T.field("a", str(type_)).type == type_
    assert T.schema({"a": "utf8", "b": "float64"}).types == [T.string(), T.float64()]
    assert T.list_("int8") == T.list_(T.int8())
    kinds = "null bool boolean i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 int8 uint64 halffloat float16 float double float32 str"
    kinds += " string utf8 large_str large_string large_utf8 binary large_binary string_view binary_view date32 date64"
    times = [f"{kind}[{unit}]" for kind in ("timestamp", "duration") for unit in ("s", "ms", "us", "ns")]
    for name in [*kinds.split(), *times, "time32[s]", "time32[ms]", "time64[us]", "time64[ns]"]:
        assert T.as_type(name) == pa.type_for_alias(name)


def test_control_characters_of_names_are_escaped_in_text() -> None:
    field = T.field("a\x1b[2J\n", T.timestamp("s", "U\x00"))
    assert str(field) == "a\\x1b[2J\\n: timestamp[s, tz=U\\x00]"
    assert field.name == "a\x1b[2J\n"
    assert str(T.field("é", T.int8())) == "é: int8"
