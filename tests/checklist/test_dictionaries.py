"""Format checklist 90-104: dictionary ids, order, deltas, replacements, nesting and indices."""

import pytest
from checklist.parts import CODED, coded, delta, encoded, firsts, flat, words
from helpers import drive, forge
from helpers.drive import read_file, read_stream, refuse_at_every_level, refuse_file, refuse_stream, refuse_values
from helpers.forge import Table, batch, bits, dictionary, file, i8, i32, int_, schema, stream

import arrowipc as ipc
from arrowipc import FormatError, LimitError
from arrowipc.events import DictionaryRead

INNER = encoded("item", id=1)
NESTED = schema(encoded("l", forge.LIST, INNER, id=2))
PAIRS = schema(encoded("s", forge.STRUCT, encoded("x", id=1), encoded("y", id=1), id=2))


def lists(*values: tuple[int, ...], delta: bool | None = None) -> Table:
    """Dictionary 2: lists given as tuples of inner indices."""
    ends = [sum(len(t) for t in values[:i]) for i in range(len(values) + 1)]
    items = [i for t in values for i in t]
    data = batch(len(values), [(len(values), 0), (len(items), 0)], [b"", i32(*ends), b"", i8(*items)])
    return dictionary(2, data, isDelta=delta)


def pairs(x: list[int], y: list[int], delta: bool | None = None) -> Table:
    """Dictionary 2: structs of two inner indices."""
    return dictionary(2, batch(len(x), [(len(x), 0)] * 3, [b"", b"", i8(*x), b"", i8(*y)]), isDelta=delta)


#: Messages, and the values of the column in each batch; tests/laws/test_dictionaries.py has what pyarrow writes, too.
READ = {
    "090 the index type is int32 where it is absent": (
        [schema(encoded(index=None)), words("a", "b"), flat(2, b"", i32(1, 0))],
        [["b", "a"]],
    ),
    "093 nulls before the dictionary": ([CODED, coded(0, 0, nulls=b"\0"), words("a"), coded(0)], [[None, None], ["a"]]),
    "093 empty columns before the dictionary": ([CODED, coded(), words("a"), coded(0)], [[], ["a"]]),
    "094 no dictionaries and no batches": ([CODED], []),
    "096 deltas append": (
        [CODED, words("a", "b"), coded(1), delta("c"), coded(2), delta("d", "e"), coded(4, 0)],
        [["b"], ["c"], ["e", "a"]],
    ),
    "098 empty dictionaries and deltas": (
        [CODED, words(), coded(), delta("a"), coded(0), delta(), coded(0, 0)],
        [[], ["a"], ["a", "a"]],
    ),
    "038 099 inner before outer": (
        [NESTED, words("a", "b", id=1), lists((1, 0), (0,)), coded(1, 0)],
        [[["a"], ["b", "a"]]],
    ),
    "099 outer before inner": (
        [NESTED, lists((1, 0), (0,)), words("a", "b", id=1), coded(1, 0)],
        [[["a"], ["b", "a"]]],
    ),
    "099 an inner delta leaves the outer valid": (
        [NESTED, words("a", id=1), lists((0,)), coded(0), delta("b", id=1), coded(0)],
        [[["a"]], [["a"]]],
    ),
    "099 an outer delta uses the new inner words": (
        [NESTED, words("a", id=1), lists((0,)), coded(0), delta("b", id=1), lists((1, 0), delta=True), coded(1, 0)],
        [[["a"]], [["b", "a"], ["a"]]],
    ),
    "038 099 structs of dictionaries": (
        [PAIRS, words("a", "b", id=1), pairs([0, 1], [1, 1]), coded(0, 1), pairs([1], [0], delta=True), coded(2)],
        [[{"x": "a", "y": "b"}, {"x": "b", "y": "b"}], [{"x": "b", "y": "a"}]],
    ),
    "102 null slots hold any index": ([CODED, words("a"), coded(0, 99, -1, nulls=bits(1, 0, 0))], [["a", None, None]]),
    **{
        f"103 unsigned indices of {width} bits reach their top": (
            [
                schema(encoded(index=int_(width, False))),
                words(*(f"{i:03}" for i in range(top + 1))),
                flat(2, b"", stored + bytes(len(stored))),
            ],
            [[f"{top:03}", "000"]],
        )
        for width, top, stored in ((8, 255, i8(-1)), (16, 300, forge.i16(300)))
    },
}


@pytest.mark.parametrize("name", READ)
def test_is_read(name):
    parts, expected = READ[name]
    data = stream(*parts)
    for level in drive.LEVELS:
        assert firsts(read_stream(data, validate=level)) == expected
    for rows in read_stream(data).batches:
        drive.export_to_pyarrow(rows)
    assert firsts(read_file(file(*parts))) == expected


#: Streams, and what each reader says of them at each level.
REFUSED = {
    **{
        f"090 indices of {width} bits": (stream(schema(encoded(index=int_(width)))), "width|index", str(width))
        for width in (0, 24, 128)
    },
    **{
        f"092 text and {other.kind} with one id": (stream(schema(encoded("a"), encoded("b", other))), "dictionary", "7")
        for other in (forge.INT32, forge.UTF8_VIEW, Table("LargeUtf8"), Table("Binary"))
    },
    "095 a delta without base": (stream(CODED, delta("a"), coded(0)), "delta", "7"),
    "095 a dictionary that no field uses": (stream(CODED, words("a", id=8)), "dictionary", "8"),
    "104 no data": (stream(CODED, dictionary(7, None)), "dictionary|data"),
    "104 the length is not that of the node": (
        stream(CODED, dictionary(7, batch(3, [(2, 0)], [b"", i32(0, 1, 2), b"ab"]))),
        "length|rows",
    ),
    "104 two columns": (
        stream(CODED, dictionary(7, batch(1, [(1, 0)] * 2, [b"", i32(0, 1), b"a", b"", i32(5)]))),
        "dictionary",
    ),
    "104 no column": (stream(CODED, dictionary(7, batch(0, [], []))), "dictionary"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name):
    data, *said = REFUSED[name]
    refuse_at_every_level(data, FormatError, *said)


def test_095_a_file_with_a_delta_without_base():
    refuse_file(file(CODED, delta("a"), coded(0)), FormatError, "delta", "7")


@pytest.mark.parametrize("id", [-1, -(2**63), 0, 2**63 - 1, None])
def test_091_any_id(id):
    root = schema(encoded("d", id=id), encoded("other", id=99))
    rows = batch(1, [(1, 0)] * 2, [b"", i8(1), b"", i8(0)])
    data = stream(root, dictionary(id, forge.texts("a", "b")), words("z", id=99), rows)
    assert read_stream(data).values() == [[["b"], ["z"]]]


def test_092_two_fields_share_one_dictionary():
    root = schema(encoded("a"), encoded("b", index=forge.INT64))
    rows = batch(2, [(2, 0)] * 2, [b"", i8(0, 1), b"", forge.i64(1, 1)])
    assert read_stream(stream(root, words("x", "y"), rows)).values() == [[["x", "y"], ["y", "y"]]]


def test_094_missing_dictionary():
    refuse_values(stream(CODED, coded(0)), "dictionary|index", "7|0")


def test_096_earlier_batches_keep_their_dictionary():
    reading = read_stream(stream(*READ["096 deltas append"][0]))
    assert ["".join(rows.column(0).dictionary.to_pylist()) for rows in reading.batches] == ["ab", "abc", "abcde"]


def test_097_replacements():
    data = stream(
        *(CODED, words("unused"), words("a", "b", "c"), coded(2), words("x"), coded(0)),
        *(words("x"), coded(0), words("p", "q"), coded(1)),
    )
    reading = read_stream(data)
    assert reading.values() == [[["c"]], [["x"]], [["x"]], [["q"]]]
    assert [len(b.column(0).dictionary) for b in reading.batches] == [3, 1, 1, 2]
    refuse_stream(stream(CODED, words("a", "b"), coded(1), words("x"), coded(1)), FormatError, "index", "1")


@pytest.mark.parametrize("index", [2, -128])
def test_102_index_out_of_range(index):
    refuse_values(stream(CODED, words("a", "b"), coded(0, index)), "index|indices", str(index))
    refuse_file(file(CODED, words("a", "b"), coded(0, index)), FormatError, "index|indices")


def test_102_index_must_suit_the_dictionary_of_its_batch():
    refuse_stream(stream(CODED, words("a"), coded(1), delta("b"), coded(1)), FormatError, "index", "1")


def test_102_nested_indices_must_suit_the_inner_dictionary_as_it_stands():
    refuse_values(stream(NESTED, words("a", id=1), lists((1,)), coded(0)), "index", "1")
    parts = (NESTED, words("a", "b", id=1), lists((1,)), lists((0,), delta=True))
    assert firsts(read_stream(stream(*parts, coded(0, 1)))) == [[["b"], ["a"]]]
    refuse_values(stream(*parts, words("x", id=1), coded(1)), "index", "1")


def test_104_broken_dictionary_values():
    for end, said in ((9, "offset"), (1, "UTF-8")):
        broken = dictionary(7, flat(1, b"", i32(0, end), b"\xff"))
        refuse_values(stream(CODED, broken, coded(0)), said)


def test_dictionary_bytes_are_limited():
    large = words("x" * 5000)
    data = stream(CODED, large, *[delta("y" * 5000)] * 10, coded(10))
    assert firsts(read_stream(data)) == [["y" * 5000]]
    limits = ipc.Limits(dictionary_bytes=20_000)
    refuse_stream(data, LimitError, "dictionary", limits=limits)
    # Those that were replaced do not count.
    assert len(firsts(read_stream(stream(CODED, *[large, coded(0)] * 10), limits=limits))) == 10


def test_dictionary_events():
    seen = drive.events(stream(CODED, words("a", "b"), coded(0), delta("c")))
    read = [e for e in seen if isinstance(e, DictionaryRead)]
    assert [(e.id, e.is_delta) for e in read] == [(7, False), (7, True)]
    assert read[0].length == 2


def test_093_a_message_alone_needs_no_dictionary_for_nulls():
    rows = forge.message(coded(0, nulls=b"\0"))
    assert ipc.read_record_batch(rows, ipc.read_schema(stream(CODED))).to_pydict() == {"d": [None]}
