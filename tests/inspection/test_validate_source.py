"""validate() says what is wrong, where, and how much of the rest is good; and nothing of what is right."""

import io
import random
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import forge, golden
from helpers.arrays import FORMS, WAYS, ipc_bytes, pyarrow_bytes
from helpers.forge import batch, field, i32, i64, message, schema, stream
from helpers.mutate import overwritten
from helpers.processes import rounds
from inspection.numbered import BLOCKS, CODED, FILE, PARTS, STREAM, damaged

import arrowipc as ipc
from arrowipc import recover, validate
from arrowipc.events import EndOfStream
from arrowipc.inspection.message_layout import locate_messages, outline_of

ROWS = 5
ONE, ROW = schema(field("x", forge.INT64)), batch(1, [(1, 0)], [b"", i64(7)])


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("way", WAYS)
def test_what_we_write_is_valid(kind: str, way: str) -> None:
    for level in ("full", "strict"):
        report = validate(ipc_bytes(PARTS, kind, **WAYS[way]), level=level)
        assert report.ok, str(report)
        assert (report.format, report.level) == (kind, level)
        assert (report.num_batches, report.num_rows) == (4, 4 * ROWS)
        assert (report.bad_batches, report.bad_rows, report.bad_bytes) == (0, 0, 0)
        assert str(report).startswith(f"a valid {kind} ({level}): 4 batches, 20 rows, ")
        report.raise_if_invalid()


@pytest.mark.parametrize("case", golden.cases(), ids=golden.name_of)
def test_official_files_are_valid(case: Any) -> None:
    data = golden.load(case)
    for path in (data.stream, data.file):
        report = validate(path)
        assert report.ok, f"{path}: {report}"


@pytest.mark.parametrize("number", range(4))
def test_every_batch_is_looked_at_also_behind_the_first_bad_one(number: int) -> None:
    offset, head, body = BLOCKS[number]
    for data, shift in ((FILE, 0), (STREAM, 8)):
        report = validate(damaged(data, number, shift))
        assert not report.ok
        assert (report.num_batches, report.num_rows) == (3, 3 * ROWS)
        (found,) = report.damage
        assert (found.offset, found.length) == (offset - shift, head + body)
        with pytest.raises(ipc.FormatError, match=f"byte {offset - shift:,}"):
            report.raise_if_invalid()
        two = damaged(damaged(data, number, shift), (number + 2) % 4, shift)
        assert len(validate(two).damage) == 2
        assert validate(two).num_batches == 2


#: A batch, and one whose codec nobody knows.
GOOD = message(ROW, version=forge.V4)
UNKNOWN = message(ROW, version=forge.V4, metadata=[("ARROW:experimental_compression", "lz4_frame")])


def test_a_batch_that_cannot_be_decoded_here_is_one_of_many() -> None:
    whole = forge.file(ONE, GOOD, GOOD, UNKNOWN, GOOD, GOOD, version=forge.V4, footer_version=forge.V4)
    seen: list[int] = []
    report = validate(whole, watch=seen.append)
    assert (report.num_batches, report.bad_batches, report.bad_rows, report.bad_bytes) == (4, 1, 1, len(UNKNOWN))
    (found,) = report.damage
    assert (found.message, found.length) == (2, len(UNKNOWN))
    assert "cannot be decoded here: " in found.reason
    assert seen == [each * seen[0] for each in range(1, 5)]


def test_a_batch_of_a_stream_that_cannot_be_decoded_here_is_one_of_many_too() -> None:
    data = stream(ONE, GOOD, UNKNOWN, GOOD, GOOD, UNKNOWN, version=forge.V4)
    report = validate(data)
    counts = (report.num_batches, report.num_rows, report.bad_batches, report.bad_rows, report.bad_bytes)
    assert counts == (3, 3, 2, 2, 2 * len(UNKNOWN))
    assert report.num_bytes + 2 * len(UNKNOWN) == len(data)
    places = [(each.message, each.offset) for each in report.damage]
    assert places == [(3, data.index(UNKNOWN)), (6, data.rindex(UNKNOWN))]
    torn = validate(data[: data.rindex(UNKNOWN) + 8])
    assert (torn.num_batches, torn.bad_batches) == (3, None), "nothing says what the torn one is"


def test_what_where_which_column_and_how_many_rows() -> None:
    for data, message_number in ((FILE, 1), (STREAM, 3)):
        at = data.index(b"w5w7w8")
        report = validate(data[:at] + b"\xff" + data[at + 1 :])
        (found,) = report.damage
        assert (found.column, found.rows, found.message) == ("word", ROWS, message_number)
        assert "not UTF-8" in found.reason
        assert (report.bad_batches, report.bad_rows) == (1, ROWS)
        text = str(report)
        assert text.startswith("not a valid ")
        assert "valid: 3 batches, 15 rows" in text
        assert f"byte {found.offset:,}..{found.offset + found.length:,} (5 rows): " in text


def test_levels() -> None:
    lie = stream(ONE, batch(2, [(2, 1)], [b"\x03", i64(7, 8)]))  # null_count says 1, the bitmap 0
    assert validate(lie).ok
    (found,) = validate(lie, level="strict").damage
    assert found.column == "x"
    with pytest.raises(ipc.UsageError):
        validate(lie, level="none")


WORDS, NULL_WORD = forge.dictionary(0, forge.texts("a")), batch(1, [(1, 1)], [b"\0", forge.i8(0)])
#: What is said of a source, its format, and what it is.
WRONG: dict[str, tuple[str | None, bytes]] = {
    "a DictionaryBatch message that the footer does not list": (
        "file",
        forge.file(CODED, WORDS, NULL_WORD, dictionary_blocks=lambda _: []),
    ),
    "does not lie in bytes": ("file", forge.file(ONE, ROW, blocks=lambda b: [(1 << 40, *b[0][1:])])),
    "multiples of 8": ("file", forge.file(ONE, ROW, blocks=lambda b: [(b[0][0] + 1, *b[0][1:])])),
    "bytes of metadata": ("file", forge.file(ONE, ROW, ROW, blocks=lambda b: [(b[0][0], b[0][1] + 8, 8), b[1]])),
    "not that of the footer": ("file", forge.file(ONE, ROW, footer_schema=schema(field("y", forge.INT64)))),
    "the beginning of another file": ("file", FILE + FILE),
    "no message, end marker or footer": ("file", forge.file(ONE, ROW, magic=b"ARROW1\0\0something else..")),
    "does not end with the magic": ("file", FILE[:-3]),
    "footer size": ("file", FILE[:-10] + i32(1 << 20) + FILE[-6:]),
    "cut short": ("file", b"ARROW1\0\0"),
    "another stream": ("stream", STREAM + STREAM),
    "byte": ("stream", STREAM + b"garbage"),
    "zero bytes": ("stream", STREAM[:-8] + bytes(4096)),
    "message": ("stream", STREAM[:-20]),
    "another schema": ("stream", STREAM + stream(ONE, ROW)),
    "empty": (None, b""),
    "Parquet": (None, b"PAR1 and so on"),
    "text (CSV?), not Arrow IPC": (None, b"hello, world: text"),
    "no schema": (None, bytes(100)),
    "metadata size": (None, b"\xff" * 100),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_wrong_is_said(words: str) -> None:
    kind, data = WRONG[words]
    report = validate(data)
    assert (report.ok, report.format) == (False, kind)
    assert words in str(report)
    assert kind == "file" or (report.num_batches >= 3 if kind == "stream" else report.num_batches == 0)


#: Code of the remark, words of the damage at "strict", and which of three batches the footer lists.
LISTINGS = {
    "reversed": ("footer-order", "batch 1 .* lies before batch 0", [2, 1, 0]),
    "the last two": ("footer-order", "batch 2 .* lies before batch 1", [0, 2, 1]),
    "one twice": ("footer-repeats", "overlap", [0, 0, 1, 2]),
    "without the first": ("footer-omits", "RecordBatch message at byte .* is not listed", [1, 2]),
    "without one in between": ("footer-omits", "RecordBatch message at byte .* is not listed", [0, 2]),
    "without the last": ("footer-omits", "RecordBatch message at byte .* is not listed", [0, 1]),
    "none": ("footer-omits", "RecordBatch message at byte .* is not listed", []),
}


@pytest.mark.parametrize("name", LISTINGS)
def test_footers_that_list_batches_otherwise_are_remarks_and_refused_at_strict(name: str) -> None:
    """The specification advises against them, and readers of files and streams see other rows."""
    code, words, order = LISTINGS[name]
    data = forge.file(
        ONE, *[batch(1, [(1, 0)], [b"", i64(i)]) for i in range(3)], blocks=lambda b: [b[i] for i in order]
    )
    report = validate(data)
    assert (report.ok, report.num_batches, [each.code for each in report.remarks]) == (True, len(order), [code])
    assert report.remarks[0].words in str(report)
    strict = validate(data, level="strict")
    assert not strict.ok
    assert re.search(words, strict.damage[0].reason)
    for read in (ipc.open_file, lambda data, **options: ipc.open_file(io.BytesIO(data), **options)):
        assert read(data).count_rows() == len(order)
        with pytest.raises(ipc.FormatError, match=words):
            read(data, validate="strict")
    assert ipc.decode_payloads([data]).batch.num_rows == len(order)
    with pytest.raises(ipc.FormatError, match=words):
        ipc.decode_payloads([data], validate="strict")


#: What is wrong, and a column whose second value it is.
OUTSIDE = {
    "not a whole day": pa.array([86_400_000, 5], pa.date64()),
    "outside a day": pa.array([0, 86_400], pa.time32("s")),
    "more digits": pa.Array.from_buffers(
        pa.decimal128(2), 2, [None, pa.py_buffer(bytes([99, *[0] * 15, 100, *[0] * 15]))]
    ),
}
INSIDE_OF = {
    "column": lambda column: column,
    "list": lambda column: pa.ListArray.from_arrays([0, 2], column),
    "struct": lambda column: pa.StructArray.from_arrays([column], ["member"]),
    "dictionary": lambda column: pa.DictionaryArray.from_arrays([0, 1], column),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("where", INSIDE_OF)
@pytest.mark.parametrize("words", OUTSIDE)
def test_values_outside_the_ranges_of_their_types_are_a_remark_and_refused_at_strict(
    words: str, where: str, form: str
) -> None:
    """As pyarrow's full validation refuses them; reading does not, for official files have such values."""
    batch = pa.record_batch({"x": INSIDE_OF[where](OUTSIDE[words])})
    with pytest.raises(pa.ArrowInvalid):
        batch.validate(full=True)
    data = pyarrow_bytes([batch] * 3, form)
    report = validate(data)
    assert (report.ok, report.num_batches) == (True, 3)
    ((code, found, offset, times),) = report.remarks
    # A dictionary that all batches have is looked at once.
    assert (code, offset, times) == ("values", None, 1 if where == "dictionary" else 3)
    assert re.search(f"batch 0: column 'x.*{words}.*strict", found)
    assert found in str(report)
    assert ipc.open(data).count_rows() == 3 * len(batch)
    assert words in str(validate(data, level="strict").damage[0])


def test_bytes_that_no_block_lists_are_refused_at_strict() -> None:
    limits = ipc.Limits(metadata_bytes=1000)
    data = forge.file(ONE, ROW, magic=b"ARROW1".ljust(4096, b"\0"))
    assert ipc.open_file(data, validate="strict").count_rows() == 1
    assert ipc.open_file(data, limits=limits).count_rows() == 1
    with pytest.raises(ipc.FormatError, match="no block lists bytes 8"):
        ipc.open_file(data, validate="strict", limits=limits)


BARE = message(ONE)[8:]  # as polars writes it
BEGINNINGS = {
    "bare-schema": forge.file(ONE, ROW, ROW, first=BARE),
    "no-schema": forge.file(ONE, ROW, ROW, first=b""),
    "first-message": forge.file(ONE, ROW, ROW, magic=b"ARROW1".ljust(64, b"\0")),
}


@pytest.mark.parametrize("code", BEGINNINGS)
@pytest.mark.parametrize("level", ["full", "strict"])
def test_a_beginning_of_its_own_is_a_remark_where_the_footer_is_complete(code: str, level: Any) -> None:
    report = validate(BEGINNINGS[code], level=level)
    assert (report.ok, report.num_batches, [each.code for each in report.remarks]) == (True, 2, [code]), str(report)
    if not code.startswith("first"):
        empty = forge.file(ONE, first={"bare-schema": BARE, "no-schema": b""}.get(code))
        assert [each.code for each in validate(empty, level=level).remarks] == [code]


@pytest.mark.parametrize("code", BEGINNINGS)
def test_what_else_is_wrong_is_told_whatever_the_beginning(code: str) -> None:
    data = BEGINNINGS[code]
    offset, head, _ = ipc.open_file(data).blocks[0]
    report = validate(data[:offset] + bytes(head) + data[offset + head :])
    assert not report.ok
    assert report.remarks == ()
    torn = validate(data[:-9])
    assert not torn.ok
    assert torn.num_batches == (0 if code == "no-schema" else 2)


def closed_twice(data: bytes, times: int = 1) -> bytes:
    """A file whose writer was closed more than once, as pyarrow's can be."""
    end = ipc.open_file(data).decoder.messages_end - 8
    return data + data[end:] * times


def moved_by_one(data: bytes) -> bytes:
    """A file whose Schema message begins at byte 9, over its last byte, as Arrow C++ before 0.11 wrote it."""
    size = 4 + int.from_bytes(data[8:12], "little")
    return data[:8] + b"\0" + data[8 : 7 + size] + data[8 + size :]


OLD_FILE = ipc_bytes(PARTS, "file", legacy=True, metadata_version="V4")
ODD_FILES = {
    "older-footer": closed_twice(FILE),
    "older-footer, twice": closed_twice(FILE, 2),
    "first-message": moved_by_one(OLD_FILE),
}


@pytest.mark.parametrize("level", ["full", "strict"])
@pytest.mark.parametrize("name", ODD_FILES)
def test_bytes_that_no_reader_looks_at_are_a_remark_that_says_what_they_are(name: str, level: Any, tmp_path: Path):
    data = ODD_FILES[name]
    count = ipc.open_file(data).num_record_batches
    assert pa.ipc.open_file(data).num_record_batches == count
    report = validate(data, level=level)
    assert (report.ok, report.num_batches) == (True, count), str(report)
    assert [each.code for each in report.remarks] == [name.partition(",")[0]]
    sizes = [head + body for _, head, body in ipc.open_file(data).blocks]
    assert report.num_bytes == sum(sizes)
    broken = data.replace(b"w5w7w8", b"\xff5w7w8")
    if broken != data:
        report = validate(broken)
        assert (report.num_batches, report.bad_batches, len(report.damage)) == (3, 1, 1)
        assert report.num_bytes + report.bad_bytes == sum(sizes)
    path = tmp_path / "odd.arrow"
    path.write_bytes(data)
    with ipc.new_file(path, append=True) as writer:
        writer.write_batch(PARTS[0])
    for opener in (ipc.open_file, pa.ipc.open_file):
        assert opener(path).read_all().num_rows == (count + 1) * ROWS
    assert validate(path).ok
    torn = data[: -10 - int.from_bytes(data[-10:-6], "little")]
    assert recover(torn, resync=True).read_all().num_rows == recover(torn).read_all().num_rows == count * ROWS


def rows_of(read: Callable[[], Any]) -> int:
    """Rows up to the first error."""
    count = 0
    with suppress(ipc.ArrowIpcError):
        for each in read():
            count += each.num_rows
    return count


def most_lenient(data: bytes) -> int:
    """Rows of the reader that gives most; of a stream, none reads on behind its end."""
    readers = [ipc.open, ipc.open_file, ipc.open_stream, recover, partial(ipc.open, index=True)]
    counts = [rows_of(partial(read, data, validate=level)) for read in readers for level in ("none", "full")]
    decoder = ipc.StreamDecoder(validate="none")
    decoder.feed(data, True)
    with suppress(ipc.ArrowIpcError):
        if EndOfStream in [type(event) for event in decoder]:
            data = data[: decoder.bytes_consumed]
    return max(*counts, rows_of(partial(recover, data, resync=True)))


CODED_ROWS = pa.record_batch({"w": pa.array(["a", "b", "a"]).dictionary_encode()})
PIECES = [FILE, STREAM, *forge.split(STREAM), forge.EOS, bytes(4), b"garbage!", OLD_FILE, closed_twice(FILE)]
PIECES += [ipc_bytes([CODED_ROWS] * 2, kind, checksum=True) for kind in ("file", "stream")]


@pytest.mark.campaign
def test_no_more_rows_are_counted_than_the_most_lenient_reader_gives() -> None:
    """Of sources that were put together, cut and changed; and exactly these where nothing is wrong."""
    dice = random.Random(20261129)
    total = valid = 0
    for number in range(rounds(300, 20_000)):
        data = b"".join(dice.choices(PIECES, k=dice.choice([1, 1, 2, 3, 5])))
        if number % 3 == 1:
            data = overwritten(data, dice)
        elif number % 3 == 2:
            data = data[: dice.randrange(len(data) + 1)]
        report = validate(data)
        assert report.num_rows <= most_lenient(data), number
        total += report.num_rows
        if report.ok:
            valid += 1
            assert report.num_rows == ipc.open(data).read_all().num_rows == recover(data).read_all().num_rows, number
            assert report.num_rows == ipc.open(data, index=True).count_rows(), number
            outlines = [outline_of(each.message) for each in locate_messages(data)]
            assert report.num_rows == sum(each.num_rows for each in outlines if each and each.dictionary_id is None)
    assert total > 0 < valid


@pytest.mark.parametrize("behind", [STREAM, STREAM[: -len(forge.EOS)], forge.split(STREAM)[1], b"garbage!", bytes(64)])
def test_nothing_behind_the_end_of_a_stream_is_a_row(behind: bytes) -> None:
    head = forge.split(STREAM)[0]
    for whole, count in ((STREAM, 4), (head + forge.EOS, 0), (forge.EOS, 0), (STREAM[:-8] + bytes(4), 4)):
        report = validate(whole + behind)
        assert not report.ok
        assert (report.num_batches, report.num_rows) == (count, count * ROWS)
        assert rows_of(partial(ipc.open_stream, whole + behind)) == count * ROWS


def test_a_dictionary_that_is_missing_is_told_with_the_batches_that_need_it() -> None:
    coded = schema(field("w", forge.UTF8, dictionary=forge.encoding(0, forge.INT8)), field("x", forge.INT64))
    words = forge.dictionary(0, batch(1, [(1, 0)], [b"", i32(0, 99), b"a"]))  # a text that ends outside
    rows = batch(1, [(1, 0)] * 2, [b"", forge.i8(0), b"", i64(7)])
    report = validate(forge.file(coded, words, rows, rows))
    assert (report.num_batches, report.bad_batches) == (0, 2)
    assert "dictionary batch 0" in report.damage[0].reason
    assert len(report.damage) == 4  # the dictionary as the footer lists it, and where it stands


def test_sources(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    path.write_bytes(FILE)
    for source in (path, str(path), FILE, bytearray(FILE), io.BytesIO(FILE), STREAM[:-8]):  # which needs no end marker
        assert validate(source).ok
    assert validate(path, memory_map=False).ok
    with pytest.raises(FileNotFoundError):
        validate(tmp_path / "nix")
    with pytest.raises(ipc.UsageError):
        validate(7)
    limited = validate(path, limits=ipc.Limits(rows_per_batch=ROWS - 1))
    assert (limited.num_batches, limited.bad_batches) == (0, 4)
