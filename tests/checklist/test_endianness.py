"""Format checklist 114-117: big-endian bodies are swapped by type, once, and framing never is."""

import struct
from itertools import accumulate, pairwise

import numpy as np
import pytest
from checklist.parts import flat
from helpers import drive, forge
from helpers.arrays import CASES, parts_of, read_array
from helpers.drive import column, read_file, read_stream, refuse_at_every_level, refuse_stream
from helpers.forge import batch, dictionary, encoding, field, file, i64, schema, stream

import arrowipc as ipc
from arrowipc import FormatError, types
from arrowipc.columns.extensions import STORED_TIMES
from arrowipc.inspection.message_layout import roles_of
from arrowipc.schemas import schema_message
from arrowipc.values.dtypes import dtype_of

BIG = 1


def be(code: str, *values) -> bytes:
    """Big-endian values of one struct code."""
    return struct.pack(f">{len(values)}{code}", *values)


def turned(data: bytes, *widths: int) -> bytes:
    """Elements of words of these widths, with the bytes of each word in the other order."""
    rows = np.frombuffer(data, np.uint8).reshape(-1, sum(widths))
    words = [rows[:, start:end][:, ::-1] for start, end in pairwise(accumulate(widths, initial=0))]
    return np.hstack(words).tobytes()


def turned_view(view: bytes) -> bytes:
    """The integers of a view turned, its inline text or its prefix as they are."""
    is_long = int.from_bytes(view[:4], "little") > 12
    return turned(view[:4], 4) + view[4:8] + (turned(view[8:], 4, 4) if is_long else view[8:])


#: Of all other types with values of fixed width, a value is one word.
WORDS_OF = {types.interval_day_time(): (4, 4), types.month_day_nano_interval(): (4, 4, 8)}


def big_buffers(array: ipc.Array) -> list[bytes]:
    """The buffers of an array and of all below it, as a big-endian machine stores them."""
    kind, found = array.type, [bytes(buffer or b"") for buffer in array.buffers()]
    roles = roles_of(kind)
    for number, role in enumerate(roles):
        data = found[number]
        if role in ("offsets", "sizes"):
            found[number] = turned(data, 8 if str(kind).startswith("large_") else 4)
        elif role == "views":
            found[number] = b"".join([turned_view(data[at : at + 16]) for at in range(0, len(data), 16)])
        elif roles == ("validity", "data") and not isinstance(kind, types.Bool | types.FixedSizeBinary):
            found[number] = turned(data, *WORDS_OF.get(kind, (dtype_of(kind).itemsize,))) if number else data
    return found + [each for child in array.children for each in big_buffers(child)]


def big(array: ipc.Array) -> bytes:
    """The stream of one column that a big-endian machine writes."""
    parts = parts_of(ipc.RecordBatch.from_pydict({"x": array}))
    root = bytes(schema_message(ipc.Schema(parts["schema"].fields, endianness="big")))
    return stream(root, batch(len(array), parts["nodes"], big_buffers(array), variadic=parts["variadic"]))


#: Arrays of every type without a dictionary.
ARRAYS = {
    **{name: read_array(array) for name, array in CASES.items() if "dictionary" not in name},
    "months": ipc.array([1, None, -2], types.interval_year_month()),
    "day_time": ipc.array([(1, -2), None, (3, -4)], types.interval_day_time()),
    "month_day_nano": ipc.array([(1, -2, 3), None, (-4, 5, -6)], types.month_day_nano_interval()),
    "time64[ns]": ipc.array([1, None, 2], types.time64("ns")),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_114_115_bodies_are_swapped_by_type(name):
    data = big(ARRAYS[name])
    assert repr(column(data, validate="strict")) == repr(ARRAYS[name].to_pylist(extensions=STORED_TIMES))
    writable = bytearray(data)
    (rows,) = ipc.open_stream(writable)
    assert rows.schema.endianness == "little"
    drive.use(rows)
    assert writable == data, "the input is not changed"
    (kept,) = drive.from_bytes(data, ensure_native_endian=False).batches
    with pytest.raises(ipc.ArrowIpcError, match="kept in big-endian as stored"):
        kept.column(0).to_pylist()


def test_116_compression_comes_before_swapping():
    import zstandard

    root = schema(field("x", forge.INT32), endianness=BIG)
    raw = be("i", *range(1000))
    rows = flat(1000, b"", i64(len(raw)) + zstandard.compress(raw), codec=1)
    assert column(stream(root, rows)) == list(range(1000))
    stored = flat(3, b"", i64(-1) + be("i", 1, 2, 3), codec=1)
    assert column(stream(root, stored)) == [1, 2, 3]


CODED = schema(field("d", forge.INT32, dictionary=encoding(0, forge.INT16)), endianness=BIG)
WORDS = dictionary(0, flat(2, b"", be("i", 5, 6)))
CODES = flat(2, b"", be("h", 1, 0))


def test_116_dictionaries_are_swapped_once():
    delta = dictionary(0, flat(1, b"", be("i", 7)), isDelta=True)
    data = (CODED, WORDS, CODES, CODES, delta, flat(1, b"", be("h", 2)), CODES)
    expected = [[[6, 5]], [[6, 5]], [[7]], [[6, 5]]]
    assert read_stream(stream(*data)).values() == read_file(file(*data)).values() == expected


def test_116_a_reader_that_keeps_the_order_does_not_change_it_for_the_next_one():
    """Plans of recent schemas are shared between readers, and so are those of their dictionaries."""
    data = stream(CODED, WORDS, CODES)
    assert drive.from_bytes(data).values() == [[[6, 5]]]
    assert drive.from_bytes(data, ensure_native_endian=False).schema.endianness == "big"
    assert drive.from_bytes(data).values() == [[[6, 5]]]


@pytest.mark.parametrize("value", [2, -1, 32767])
def test_117_unknown_endianness(value):
    refuse_at_every_level(stream(schema(field("x", forge.INT32), endianness=value)), FormatError, "endian", str(value))


def test_117_damage_is_found_after_swapping():
    root = schema(field("x", forge.UTF8), endianness=BIG)
    refuse_stream(stream(root, flat(2, b"", be("i", 0, 2, 1), b"ab")), FormatError, "offset")
    little = flat(2, b"", struct.pack("<3i", 0, 1, 2), b"ab")
    refuse_stream(stream(root, little), FormatError, "offset")
