"""Import from producers that keep to the layout of the Arrow C interfaces and not to what they promise."""

import ctypes
import errno
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cdata.producer import GetNext, Producer, StreamOf, packed
from helpers.cdata import CArray, CSchema, CStream, peek
from helpers.memory import nothing_imported

import arrowipc as ipc
from arrowipc import types
from arrowipc.cdata.import_array import array_from, batch_from, schema_from


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    with nothing_imported():
        yield


#: What other producers write; tests/public/test_types.py reads what we write.
OTHERS = {b"d:5,2,128": types.Decimal(5, 2), b"+us:": types.Union("sparse", [])}


@pytest.mark.parametrize("format", OTHERS)
def test_format_strings(format: bytes) -> None:
    p = Producer()
    found = schema_from(p.capsule(p.schema(b"+s", p.schema(format, name=None))))
    assert found.fields == (types.Field("", OTHERS[format]),)
    assert p.released[CSchema] == 0, "the capsule's to release"


UNKNOWN = [b"", b"x", b"nn", b"+x", b"+", b"t", b"ts", b"tsx:", b"tss", b"d", b"w", b"+w", b"+l:", b"\xff", b"v"]
#: Formats that contradict themselves, or their children.
WRONG = [
    *(b"d:", b"d:5", b"d:x,2", b"d:5,2,99", b"d:99,2", b"d:1,2,3,4"),
    *(b"w:", b"w:-1", b"w: 4", b"w:1_0", b"w:4294967296", b"w:" + b"9" * 5000),
    *(b"+us:0", b"+us:a", b"+l", b"+r", b"+m", b"+w:2"),
]


@pytest.mark.parametrize("format", UNKNOWN + WRONG)
def test_formats_that_nobody_knows_or_that_are_wrong_are_named(format: bytes) -> None:
    p = Producer()
    inner = p.schema(b"+s", p.schema(format, name=b"bad"), name=b"outer")
    unknown = ipc.UnsupportedError, r"column 'outer\.bad': the format string"
    error, words = unknown if format in UNKNOWN else (ipc.FormatError, r"column 'outer\.bad', format string")
    with pytest.raises(error, match=words):
        schema_from(p.capsule(p.schema(b"+s", inner)))
    assert p.released[CSchema] == 0, "the capsule's to release"


def _unsound(p: Producer) -> dict[str, tuple[Any, str]]:
    """What is wrong -> the schema, and words that the error has."""

    def leaf(**changes: Any) -> Any:
        return p.schema(b"i", name=b"x", **changes)

    def described(*words: int) -> Any:
        """A leaf whose metadata are these words."""
        p.kept.append(memory := ctypes.create_string_buffer(packed(*words, width=4) + bytes(64)))
        return leaf(metadata=ctypes.addressof(memory))

    null_child = p.schema(b"+s", leaf(), name=b"x")
    null_child.children[0] = ctypes.POINTER(CSchema)()
    no_children = p.schema(b"+s", leaf(), name=b"x")
    no_children.children = ctypes.POINTER(ctypes.POINTER(CSchema))()
    words, no_format = p.schema(b"u"), leaf()
    no_format.format = None
    runs = p.schema(b"+r", p.schema(b"u"), leaf(), name=b"x")
    return {
        "negative n_children": (p.schema(b"+l", name=b"x", n_children=-1), "'x': .*n_children is -1"),
        "more children than anybody has": (p.schema(b"+s", name=b"x", n_children=2**60), "'x': .* 262,144 fields"),
        "children NULL": (no_children, "'x': .*n_children is 1 and children is NULL"),
        "a child NULL": (null_child, "'x.': a pointer to its ArrowSchema is NULL"),
        "a child released": (leaf(release=None), "has been released"),
        "format NULL": (no_format, "'x': .*format is NULL"),
        "a leaf with children": (p.schema(b"i", leaf(), name=b"x"), "'x', .* 'i': expected 0 children"),
        "a name that is not UTF-8": (p.schema(b"i", name=b"\xff"), r"b'\\xff', which is not UTF-8"),
        "metadata with a negative count": (described(-1), "'x': the metadata claims -1 pairs"),
        "metadata with a negative size": (described(1, -5), "'x': the metadata has a string of -5 bytes"),
        "metadata of 2 GiB": (described(1, 2**31 - 1), "'x': the metadata has a string of 2147483647 bytes"),
        "metadata with too many pairs": (described(2**31 - 1), "'x': the metadata claims 2147483647 pairs"),
        "indices that are text": (p.schema(b"u", name=b"x", dictionary=words), "'x', .* must be integers"),
        "indices with children": (p.schema(b"i", leaf(), name=b"x", dictionary=words), "'x', .* expected 0 children"),
        "a dictionary of dictionaries": (leaf(dictionary=p.schema(b"i", dictionary=words)), "'x': .*no counterpart"),
        "run ends of the wrong type": (runs, "'x', .* run_ends must be .*, found string"),
        "a map of numbers": (p.schema(b"+m", leaf(), name=b"x"), "'x', .* entries must be a struct"),
        "repeated type codes": (p.schema(b"+us:1,1", leaf(), leaf(), name=b"x"), "'x', .* that are all different"),
    }


#: Errors that are no FormatError.
CLASSES: dict[str, type[ipc.ArrowIpcError]] = {
    "more children than anybody has": ipc.LimitError,
    "a child released": ipc.UsageError,
    "a dictionary of dictionaries": ipc.UnsupportedError,
}


@pytest.mark.parametrize("case", _unsound(Producer()))
def test_unsound_schemas(case: str) -> None:
    p = Producer()
    schema, words = _unsound(p)[case]
    error = CLASSES.get(case, ipc.FormatError)
    with pytest.raises(error, match=words):
        schema_from(p.capsule(p.schema(b"+s", schema)))
    with pytest.raises(error, match=words):
        array_from(p.pair(schema, p.array(0, [None, b""])))
    assert p.released[CArray] == 1


def test_depth_is_bounded() -> None:
    """64 levels are read, 65 are not, and neither are 2**64 fields that share their children."""

    def nested(levels: int) -> Any:
        schema = p.schema(b"i", name=b"x")
        for _ in range(levels - 1):
            schema = p.schema(b"+l", schema, name=b"x")
        return p.capsule(p.schema(b"+s", schema))

    p = Producer()
    assert schema_from(nested(64)).names == ["x"]
    for levels in (65, 66, 5000):
        with pytest.raises(ipc.LimitError, match=r"column 'x'.*64 levels"):
            schema_from(nested(levels))
    twice = p.schema(b"i", name=b"x")
    for _ in range(40):
        twice = p.schema(b"+s", twice, twice, name=b"x")
    with pytest.raises(ipc.LimitError, match="262,144 fields"):
        schema_from(p.capsule(twice))


def numbers(p: Producer, length: int = 2, **changes: Any) -> Any:
    """Integers from 0."""
    return p.array(length, changes.pop("data", [None, packed(*range(10))]), **changes)


NOWHERE: Any = ctypes.POINTER(ctypes.c_void_p)()


#: What is wrong -> format, the array, and words that the error has.
BAD: dict[str, tuple[bytes, Callable[[Producer], Any], str]] = {
    "length": (b"l", lambda p: numbers(p, -1), "length -1"),
    "offset": (b"l", lambda p: numbers(p, offset=-1), "offset -1"),
    "their sum": (b"l", lambda p: numbers(p, 2**62, offset=2**62), "must not"),
    "one offset more": (b"z", lambda p: p.array(2, [None, b"", b""], offset=2**63 - 3), "must not"),
    "bytes": (b"l", lambda p: numbers(p, 2, offset=2**61), "more than memory"),
    "null_count -2": (b"l", lambda p: numbers(p, null_count=-2), "null_count is -2"),
    "null_count 3": (b"l", lambda p: numbers(p, null_count=3), "null_count is 3"),
    "no validity": (b"l", lambda p: numbers(p, null_count=1), r"buffers\[0\] is NULL.*buffer 0 \(validity\)"),
    "n_buffers 1": (b"l", lambda p: numbers(p, n_buffers=1), "n_buffers is 1: expected 2"),
    "n_buffers 3": (b"l", lambda p: numbers(p, n_buffers=3), "n_buffers is 3: expected 2"),
    "n_buffers -1": (b"l", lambda p: numbers(p, n_buffers=-1), "n_buffers is -1"),
    "n_buffers of null": (b"n", lambda p: p.array(2, [None, None]), "n_buffers is 2"),
    "n_buffers of views": (b"vu", lambda p: p.array(0, [None, b""]), "n_buffers is 2: expected 3 or more"),
    "n_children": (b"l", lambda p: numbers(p, n_children=1), "n_children is 1: expected 0"),
    "negative n_children": (b"+l", lambda p: p.array(0, [None, b""], n_children=-1), "n_children is -1"),
    "buffers NULL": (b"l", lambda p: numbers(p, buffers=NOWHERE), "buffers is NULL"),
    "values NULL": (b"l", lambda p: numbers(p, data=[None, None]), r"buffers\[1\] is NULL: .*column.*\(values\)"),
    "bits NULL": (b"b", lambda p: numbers(p, data=[None, None]), r"\(values\)"),
    "offsets NULL": (b"z", lambda p: p.array(2, [None, None, b"abc"]), r"\(offsets\)"),
    "data NULL": (b"z", lambda p: p.array(1, [None, packed(0, 2, width=4), None]), r"\(data\).*need 2"),
    "negative offset": (b"z", lambda p: p.array(1, [None, packed(-1, 2, width=4), b""]), "offset 0 is -1"),
    "falling offsets": (
        b"U",
        lambda p: p.array(1, [None, packed(0, 5, 2), b"abc"], offset=1),
        "offset 2 is 2, expected at least 5",
    ),
    "views NULL": (b"vz", lambda p: p.array(1, [None, None, b""]), r"\(views\)"),
    "sizes NULL": (b"vz", lambda p: p.array(1, [None, bytes(16), b"abc", None]), r"buffers\[3\], the sizes"),
    "negative size": (b"vz", lambda p: p.array(1, [None, bytes(16), b"abc", packed(-1)]), "data buffer 0 is -1"),
    "view data NULL": (b"vz", lambda p: p.array(1, [None, bytes(16), None, packed(3)]), r"\(data 0\)"),
    "a dictionary": (b"l", lambda p: numbers(p, dictionary=numbers(p)), "dictionary is given"),
}


@pytest.mark.parametrize("case", BAD)
def test_unsound_arrays(case: str) -> None:
    format, make, words = BAD[case]
    p = Producer()
    child = (p.schema(b"l"),) if format == b"+l" else ()
    with pytest.raises(ipc.FormatError, match=words) as caught:
        array_from(p.pair(p.schema(format, *child), make(p)))
    assert "column ''" not in str(caught.value)
    bad = make(p)
    columns = [(p.schema(format, *child, name=b"bad"), bad), (p.schema(b"l", name=b"ok"), numbers(p))]
    with pytest.raises(ipc.FormatError, match="column 'bad'"):
        batch_from(p.batch(columns, max(bad.length, 0)))
    assert p.released == {CSchema: 0, CArray: 2, CStream: 0}


def test_the_struct_of_a_batch_must_be_sound_too() -> None:
    p = Producer()
    for changes, words in (
        ({"length": -1}, "struct of the batch.*length -1"),
        ({"length": 2**62, "offset": 2**62}, "struct of the batch.*must not"),
        ({"offset": -1}, "struct of the batch.*offset -1"),
        ({"null_count": 9}, "struct of the batch.*null_count is 9"),
        ({"null_count": 1}, "struct of the batch.*no validity bitmap"),
        ({"n_buffers": 0}, "struct of the batch.*n_buffers is 0"),
        ({"n_children": 0}, "struct of the batch.*n_children is 0: expected 1"),
        ({"buffers": NOWHERE}, "struct of the batch.*buffers is NULL"),
        ({"children": ctypes.POINTER(ctypes.POINTER(CArray))()}, "struct of the batch.*children is NULL"),
        ({"dictionary": ctypes.pointer(numbers(p))}, "struct of the batch.*dictionary is given"),
        ({"offset": 1}, "column 'x': has 2 rows, the batch needs 3"),
        ({"length": 3}, "column 'x': has 2 rows, the batch needs 3"),
    ):
        before = p.released[CArray]
        pair = p.batch([(p.schema(b"l", name=b"x"), numbers(p))], 2)
        for name, value in changes.items():
            setattr(peek(pair[1], CArray), name, value)
        with pytest.raises(ipc.FormatError, match=words):
            batch_from(pair)
        assert p.released[CArray] == before + 1


def under(format: bytes, length: int, buffers: list[bytes | None], **changes: Any) -> Any:
    """A type with one child of two integers, and an array of it."""
    return lambda p: (
        p.schema(format, p.schema(b"l", name=b"item"), name=b"outer"),
        p.array(length, buffers, numbers(p), **changes),
    )


def runs(ends: list[int], values: int, bits: bytes | None = None, null_ends: int = 0, **changes: Any) -> Any:
    def make(p: Producer) -> tuple[Any, Any]:
        schema = p.schema(b"+r", p.schema(b"i", name=b"run_ends"), p.schema(b"l", name=b"v"), name=b"outer")
        of_ends = p.array(len(ends), [bits, packed(*ends, width=4)], null_count=null_ends)
        return schema, p.array(2, [], of_ends, numbers(p, values), **changes)

    return make


def texts(format: bytes, length: int, buffers: list[bytes | None]) -> Any:
    """A type with one child of text that ends before it begins."""
    return lambda p: (
        p.schema(format, p.schema(b"u", name=b"item"), name=b"outer"),
        p.array(length, buffers, p.array(1, [None, packed(5, 2, width=4), b""])),
    )


def words_of(make: Callable[[Producer], Any] | None, format: bytes = b"u") -> Any:
    """A column of the index 7 into the dictionary that `make` makes."""
    return lambda p: (
        p.schema(b"c", dictionary=p.schema(format), name=b"outer"),
        p.array(1, [None, b"\7"], dictionary=make and make(p)),
    )


def without_child(p: Producer) -> tuple[Any, Any]:
    schema, array = under(b"+s", 1, [None])(p)
    array.children[0] = ctypes.POINTER(CArray)()
    return schema, array


THREE = packed(0, 3, width=4)
FALLING = "item'.*offset 1 is 2, expected at least 5"

#: What is wrong between an array and what is below it -> schema and array, and words that the error has.
NESTED: dict[str, tuple[Callable[[Producer], tuple[Any, Any]], str]] = {
    "list": (under(b"+l", 1, [None, THREE]), "'outer'.*offset 1 is 3, the child ends at 2"),
    "large list": (under(b"+L", 1, [None, packed(0, 3)]), "'outer'.*offset 1 is 3, the child ends at 2"),
    "list of nothing": (under(b"+l", 1, [None, None]), r"'outer'.*\(offsets\)"),
    "list view": (under(b"+vl", 1, [None, THREE, None]), r"'outer'.*\(sizes\)"),
    "struct": (under(b"+s", 3, [None]), "'outer.item': has 2 elements, its parent needs 3"),
    "sliced struct": (under(b"+s", 1, [None], offset=2), "'outer.item': has 2 elements, its parent needs 3"),
    "fixed list": (under(b"+w:2", 2, [None]), "'outer.item': has 2 elements, its parent needs 4"),
    "sliced fixed list": (under(b"+w:2", 1, [None], offset=1), "'outer.item': has 2 elements, its parent needs 4"),
    "sparse union": (under(b"+us:0", 2, [bytes(3)], offset=1), "'outer.item': has 2 elements, its parent needs 3"),
    "type codes": (under(b"+us:0", 2, [None]), r"'outer'.*\(type codes\)"),
    "union offsets": (under(b"+ud:0", 2, [bytes(2), None]), r"'outer'.*\(offsets\)"),
    "validity of a union": (under(b"+us:0", 2, [None, bytes(2)]), "n_buffers is 2: expected 1"),
    "fewer values than runs": (runs([1, 2, 3], 2), "'outer.v': has 2 elements, its parent needs 3"),
    "nulls in run ends": (runs([1, 2], 2, bits=b"\1", null_ends=1), "'outer.run_ends': claims 1 nulls"),
    "nulls of runs": (runs([1, 2], 2, null_count=1), "'outer': claims 1 nulls"),
    "a child NULL": (without_child, r"'outer'.*children\[0\] is NULL"),
    "text in a struct": (texts(b"+s", 1, [None]), FALLING),
    "text in a list": (texts(b"+l", 1, [None, packed(0, 1, width=4)]), FALLING),
    "no dictionary": (words_of(None), "'outer'.*dictionary is NULL"),
    "the dictionary's type": (words_of(numbers), "'outer'.*n_buffers is 2: expected 3"),
    "the dictionary's values": (words_of(lambda p: numbers(p, -1), b"l"), "'outer'.*length -1"),
}


@pytest.mark.parametrize("case", NESTED)
def test_unsound_children(case: str) -> None:
    make, words = NESTED[case]
    p = Producer()
    with pytest.raises(ipc.FormatError, match=words):
        array_from(p.pair(*make(p)))
    schema, array = make(p)
    with pytest.raises(ipc.FormatError, match=words):
        batch_from(p.batch([(schema, array)], array.length))
    assert p.released[CArray] == 2


def test_what_is_legal_although_it_looks_odd() -> None:
    p = Producer()
    # An array of length 0 needs no bytes at all, wherever its offset points.
    for format, buffers in ((b"u", 3), (b"Z", 3), (b"l", 2), (b"b", 2), (b"vu", 3), (b"w:3", 2)):
        empty = p.array(0, [None] * buffers, offset=7, null_count=-1)
        assert array_from(p.pair(p.schema(format), empty), "strict").to_pylist() == []
    for format, buffers in ((b"+l", 2), (b"+vL", 3), (b"+s", 1), (b"+w:3", 1), (b"+us:0", 1), (b"+ud:0", 2)):
        empty = p.array(0, [None] * buffers, numbers(p), offset=7)
        assert array_from(p.pair(p.schema(format, p.schema(b"l")), empty), "strict").to_pylist() == []
    # Null arrays of old producers have a bitmap; a bitmap beside null_count 0 says nothing; -1 is counted.
    assert array_from(p.pair(p.schema(b"n"), p.array(2, [b"\0"]))).to_pylist() == [None, None]
    assert array_from(p.pair(p.schema(b"l"), numbers(p, data=[b"\0", packed(1, 2)]))).to_pylist() == [1, 2]
    unsure = numbers(p, data=[b"\2", packed(1, 2)], null_count=-1)
    assert array_from(p.pair(p.schema(b"l"), unsure)).to_pylist() == [None, 2]
    # Values behind the last run.
    assert array_from(p.pair(*runs([1, 2], 4)(p)), "strict").to_pylist() == [0, 1]


def test_contents_are_checked_when_they_are_read_or_validated() -> None:
    p = Producer()
    pair = words_of(lambda p: numbers(p, 2), b"l")
    with pytest.raises(ipc.FormatError, match=r"index 7 \(row 0\) lies outside the dictionary of 2"):
        array_from(p.pair(*pair(p)), "full")
    found = array_from(p.pair(*pair(p)))
    with pytest.raises(ipc.FormatError, match="index 7"):
        found.to_pylist()
    del found
    with pytest.raises(ipc.FormatError, match="not UTF-8"):
        array_from(p.pair(p.schema(b"u"), p.array(1, [None, packed(0, 1, width=4), b"\xff"])), "full")
    assert p.released[CArray] == 3


@pytest.mark.parametrize(("counted", "nulls"), [(1, 1), (-1, 1), (0, 0)])
def test_040_null_keys_of_maps_are_refused_also_where_nobody_counted_them(counted: int, nulls: int) -> None:
    p = Producer()
    keys = p.array(2, [b"\2", packed(1, 2)], null_count=counted)
    entries = p.array(2, [None], keys, numbers(p))
    fields = p.schema(b"l", name=b"key", flags=0), p.schema(b"l", name=b"value")
    schema = p.schema(b"+m", p.schema(b"+s", *fields, name=b"entries", flags=0), name=b"m")
    pair = p.pair(schema, p.array(1, [None, packed(0, 2, width=4)], entries))
    if nulls:
        with pytest.raises(ipc.FormatError, match=r"column 'm\.entries\.key': claims 1 nulls.* map"):
            array_from(pair, "full")
    else:
        assert array_from(pair, "full").to_pylist() == [[(1, 0), (2, 1)]]


def test_capsules_of_the_wrong_name_are_left_alone() -> None:
    p = Producer()
    schema, array = p.schema(b"l"), numbers(p)
    for pair in (
        (p.capsule(array), p.capsule(schema)),
        (p.capsule(schema), p.capsule(array, b"arrow_array_stream")),
        (p.capsule(schema), p.capsule(array, b"used_arrow_array")),
        (p.capsule(schema), None),
    ):
        with pytest.raises(ipc.UsageError, match="'arrow_array' PyCapsule"):
            array_from(pair)
    assert p.released == {CSchema: 0, CArray: 0, CStream: 0}
    with pytest.raises(ipc.UsageError, match="'arrow_schema' PyCapsule"):
        array_from((p.capsule(schema, b"arrow"), p.capsule(array)))
    assert p.released == {CSchema: 0, CArray: 1, CStream: 0}


def test_released_structs_are_refused() -> None:
    p = Producer()
    with pytest.raises(ipc.UsageError, match="the array has been released"):
        array_from(p.pair(p.schema(b"l"), numbers(p, release=None)))
    with pytest.raises(ipc.UsageError, match="the ArrowSchema has been released"):
        array_from(p.pair(p.schema(b"l", release=None), numbers(p)))
    with pytest.raises(ipc.UsageError, match="column 'x': the ArrowArray has been released"):
        batch_from(p.batch([(p.schema(b"l", name=b"x"), numbers(p, release=None))], 1))
    assert p.released[CArray] == 2


def test_an_error_in_flight_survives_the_release() -> None:
    p = Producer()
    with pytest.raises(ZeroDivisionError):
        len(array_from(p.pair(p.schema(b"l"), numbers(p)))) / 0
    gc.collect()
    assert p.released[CArray] == 1


def test_a_stream_gives_its_batches_and_stays_at_its_end() -> None:
    p = Producer()
    s = StreamOf(p.schema(b"+s", p.schema(b"l", name=b"x")), [])
    s.items = [p.array(2, [None], numbers(p)), p.array(0, [None], numbers(p))]
    stream = s.open()
    assert stream.schema.names == ["x"]
    assert [batch.to_pydict() for batch in stream] == [{"x": [0, 1]}, {"x": []}]
    assert list(stream) == list(stream) == []
    assert (s.asked, s.released[CStream], p.released) == (3, 1, {CSchema: 1, CArray: 2, CStream: 0})
    stream.close()
    with pytest.raises(ipc.UsageError, match="closed"):
        next(stream)


ERRORS = {
    errno.ENOMEM: MemoryError,
    errno.EINVAL: ipc.FormatError,
    errno.ENOSYS: ipc.UnsupportedError,
    errno.EIO: OSError,
    errno.ENOENT: FileNotFoundError,
    -5: OSError,
}


@pytest.mark.parametrize("code", ERRORS)
def test_errors_of_the_producer_reach_the_caller(code: int) -> None:
    """FORMAT-CHECKLIST 147."""
    p = Producer()
    failing = StreamOf(code, [])
    with pytest.raises(ERRORS[code], match="no luck"):
        failing.open()
    assert failing.released[CStream] == 1
    s = StreamOf(p.schema(b"+s"), [p.array(1, [None]), code, p.array(1, [None])])
    stream = s.open()
    assert next(stream).num_rows == 1
    for _ in range(2):
        with pytest.raises(ERRORS[code], match="the producer of the stream failed: no luck") as caught:
            next(stream)
    if isinstance(caught.value, OSError):
        assert caught.value.errno == code
    assert (s.released[CStream], s.asked) == (1, 2)


def test_errors_without_a_message_say_what_the_code_means() -> None:
    with pytest.raises(OSError, match=r"Input/output error|I/O"):
        StreamOf(errno.EIO, [], None).open()
    with pytest.raises(ipc.FormatError, match="\ufffd"):
        StreamOf(errno.EINVAL, [], b"\xff").open()


def test_streams_that_are_unsound() -> None:
    p = Producer()
    with pytest.raises(ipc.UsageError, match="has been released"):
        StreamOf(None, []).open()
    with pytest.raises(ipc.UnsupportedError, match="column 'bad'"):
        StreamOf(p.schema(b"+s", p.schema(b"?", name=b"bad")), []).open()
    empty = StreamOf(p.schema(b"+s"), [])
    empty.stream.get_next = GetNext(0)
    with pytest.raises(ipc.FormatError, match="callback"):
        empty.open()
    with pytest.raises(ipc.UsageError, match="taken out of its capsule"):
        empty.open()
    assert (p.released[CSchema], empty.released[CStream]) == (1, 1)


def test_a_refused_batch_does_not_end_the_stream() -> None:
    p = Producer()
    s = StreamOf(p.schema(b"+s", p.schema(b"u", name=b"x")), [])
    s.items = [p.array(1, [None], p.array(1, [None, None, None])), p.array(0, [None], p.array(0, [None] * 3))]
    with s.open() as stream:
        with pytest.raises(ipc.FormatError, match="column 'x'"):
            next(stream)
        assert next(stream).num_rows == 0
    assert (p.released[CArray], s.released[CStream]) == (2, 1)


def test_a_stream_is_not_for_two_threads_at_once() -> None:
    p = Producer()
    s = StreamOf(p.schema(b"+s"), [])
    entered, leave = threading.Event(), threading.Event()

    def slow(stream: Any, out: Any) -> int:
        entered.set()
        leave.wait(10)
        return s.give(None, out)

    s.kept.append(slow_call := GetNext(slow))
    s.stream.get_next = slow_call
    stream = s.open()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(stream))
    thread.start()
    assert entered.wait(10)
    for call in (stream.close, stream.__next__):
        with pytest.raises(ipc.UsageError, match="another thread"):
            call()
    leave.set()
    thread.join()
    assert found == list(stream) == []
