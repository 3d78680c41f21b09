"""recover(resync=True): every batch whose bytes are whole comes back, wherever the damage lies."""

import contextlib
import random
import struct
from typing import Any

import pyarrow as pa
import pytest
from helpers import forge
from helpers.arrays import batch_of, ipc_bytes
from helpers.forge import batch, dictionary, encoding, field, i8, i32, message, schema, stream
from helpers.processes import rounds
from inspection.numbered import CODED, numbered, smash

import arrowipc as ipc
from arrowipc import recover
from arrowipc.inspection import resync as searching

EXAMPLES = rounds(200, 6000)
BATCHES = 6
ROWS = 7
#: Everything behind a message that a stream may end with.
END = forge.EOS
PARTS = [numbered(number, ROWS) for number in range(BATCHES)]
FILE, STREAM = ipc_bytes(PARTS, "file"), ipc_bytes(PARTS, "stream")
#: Where the messages of the stream begin: the schema, the batches, the end.
STARTS = [0, *[offset - 8 for offset, _, _ in ipc.open_file(FILE).blocks], len(STREAM) - 8]
#: A file whose writer never came to its footer.
TORN = FILE[: STARTS[-1] + 8]


def found(source: Any, **options: Any) -> tuple[list[int], ipc.Recovery]:
    """Which of PARTS come back; each must be equal to one of them."""
    with recover(source, resync=True, **options) as reader:
        numbers = []
        for each in reader:
            number = each["id"][0] // ROWS
            assert each.equals(PARTS[number])
            numbers.append(number)
        assert reader.report.num_batches == len(numbers)
        return numbers, reader.report


ALL = list(range(BATCHES))
WAYS = {
    "metadata": lambda data, at, end: smash(data, at + 8, at + 120),
    "prefix": lambda data, at, end: smash(data, at, at + 8),
    "size": lambda data, at, end: smash(data, at + 4, at + 8, struct.pack("<i", 1 << 20)),
    "all of it": lambda data, at, end: smash(data, at, end),
    "zeros": lambda data, at, end: smash(data, at, end, b"\0"),
    "ones": lambda data, at, end: smash(data, at, end, b"\xff"),
    "values": lambda data, at, end: data[: end - 200] + b"\xff" * 200 + data[end:],
    "cut off": lambda data, at, end: data[: at + 100] + data[end:],
    "gone": lambda data, at, end: data[: at + 9] + data[end - 3 :],
    "filled": lambda data, at, end: data[: at + 50] + b"filling" + data[at + 50 :],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["stream", "torn", "file"])
def test_all_others_come_back_and_the_range_is_told(kind: str, way: str) -> None:
    data, shift = {"stream": (STREAM, 0), "torn": (TORN, 8), "file": (FILE, 8)}[kind]
    for number in range(BATCHES):
        at, end = (STARTS[number + 1 + i] + shift for i in (0, 1))
        broken = WAYS[way](data, at, end)
        numbers, report = found(broken)
        assert numbers == [other for other in ALL if other != number], number
        assert not report.complete
        (damage,) = [each for each in report.skipped if each.offset != len(data)]
        assert damage.reason
        assert at <= damage.offset <= end
        assert damage.offset + damage.length <= end + len(broken) - len(data)
        assert damage.rows in (None, ROWS)
        assert report.lost_bytes == sum(each.length for each in report.skipped)


def test_a_footer_that_is_whole_counts_what_is_lost_though_bytes_came_in_between() -> None:
    at = STARTS[3] + 8
    for more in (1, 5, 8, 64):
        numbers, report = found(FILE[: at + 20] + b"x" * more + FILE[at + 20 :])
        assert numbers == [0, 1, 3, 4, 5]
        assert (report.lost_batches, report.format) == (1, "file")


def test_a_body_that_claims_what_follows_does_not_swallow_it() -> None:
    at = STARTS[2]
    head, whole = STREAM[:at], STREAM[at:]
    size = forge.read(whole, "bodyLength")
    for more in (8, 200, 1000):
        longer = forge.patch(whole, "bodyLength", size + more)
        numbers, report = found(head + longer)
        assert numbers == ALL
        assert (report.complete, report.lost_batches, report.lost_rows, report.lost_bytes) == (False, 0, 0, 0)
        assert [(each.offset, each.reason[:15]) for each in report.skipped] == [(at, "its body claims")]


@pytest.mark.campaign
def test_every_batch_that_no_damage_touches_comes_back() -> None:
    """Spans of anything in place of other bytes, shorter or longer; the schema stays."""
    chance = random.Random(20261121)
    first, lost = STARTS[1], 0
    fillings = [
        lambda size: bytes(size),
        lambda size: b"\xff" * size,
        lambda size: chance.randbytes(size),
        lambda size: (END * size)[:size],
        lambda size: STREAM[chance.randrange(len(STREAM)) :][:size],
    ]
    for _ in range(EXAMPLES):
        start = chance.randrange(first, len(STREAM))
        stop = min(start + chance.choice([0, 1, 4, 8, 30, 200, 900]), len(STREAM))
        filling = chance.choice(fillings)(chance.choice([stop - start, 0, 3, 8, 64]))
        broken = STREAM[:start] + filling + STREAM[stop:]
        whole = [number for number in ALL if STARTS[number + 2] <= start or STARTS[number + 1] >= max(stop, start + 1)]
        with recover(broken, resync=True) as reader:
            numbers = [each["id"][0] // ROWS for each in reader if each in PARTS]
        # Once at least: a filling may hold messages of its own.
        assert set(whole) <= set(numbers), (start, stop, filling)
        lost += len(whole) < BATCHES
    print(f"{EXAMPLES} spans, {lost} of them inside a batch")
    assert lost > EXAMPLES // 2


# -- where sources begin, and what else is in them -----------------------------------------------------------


@pytest.mark.parametrize("front", [b"x", b"\0" * 13, b"garbage" * 100, b"\xff" * 31, b"ARROW1", END * 3])
@pytest.mark.parametrize("kind", ["file", "stream", "torn"])
def test_something_in_front_is_passed_over(front: bytes, kind: str) -> None:
    data = {"file": FILE, "stream": STREAM, "torn": TORN}[kind]
    numbers, report = found(front + data)
    assert numbers == ALL
    assert report.lost_bytes <= len(front) + 8


def test_streams_and_files_in_a_row() -> None:
    for pieces in ([STREAM] * 3, [FILE] * 3, [TORN, FILE], [STREAM[:-8], STREAM], [FILE, STREAM]):
        numbers, report = found(b"".join(pieces))
        assert numbers == ALL * len(pieces)
        assert report.lost_bytes == 0
    with_damage = smash(STREAM, STARTS[2], STARTS[3]) + b"between" + smash(FILE, STARTS[4] + 8, STARTS[5])
    assert found(with_damage)[0] == [0, 2, 3, 4, 5, 0, 1, 2, 4, 5]


def test_a_stream_of_another_schema_is_passed_over() -> None:
    other = stream(schema(field("x", forge.INT32)), batch(1, [(1, 0)], [b"", i32(1)]))
    numbers, report = found(STREAM + other + STREAM)
    assert numbers == ALL * 2
    (damage,) = report.skipped
    assert (damage.offset, damage.length) == (len(STREAM), len(other))
    assert "another schema" in damage.reason


def test_an_append_that_was_torn() -> None:
    """By a writer that goes on where the footer was, or behind it."""
    more = STREAM[STARTS[1] : STARTS[3]]
    cut = FILE[: len(TORN) - 8] + more  # the last batch ends inside the next one: that is no value of its own
    assert found(cut)[0] == [*ALL[:-1], 0, 1]
    for end in (len(TORN), len(TORN) + 8, len(TORN) + 40, len(FILE)):
        for kept in (len(more), len(more) - 1, STARTS[2] - STARTS[1] + 30, 11):
            numbers, _ = found(FILE[:end] + more[:kept])
            assert numbers[:BATCHES] == ALL
            assert numbers[BATCHES:] == [i for i in (0, 1) if STARTS[i + 2] - STARTS[1] <= kept]


@pytest.mark.parametrize("zeros", [4, 8, 16, 100, 4096, 10_000])
def test_zeros_between_messages_are_no_end(zeros: int) -> None:
    for data, at in ((STREAM, STARTS[3]), (TORN, STARTS[3] + 8), (FILE, STARTS[3] + 8)):
        numbers, report = found(data[:at] + bytes(zeros) + data[at:])
        assert numbers == ALL
        assert (report.skipped[0].offset, report.skipped[0].length) == (at, zeros)


def test_the_footer_has_the_schema_where_the_first_message_is_damaged() -> None:
    broken = smash(smash(FILE, 16, 100), STARTS[2] + 8, STARTS[2] + 12, b"\0")
    assert found(broken)[0] == [0, 2, 3, 4, 5]
    with pytest.raises(ipc.FormatError, match="no schema"):
        recover(broken[: len(TORN)], resync=True)


# -- dictionaries --------------------------------------------------------------------------------------------


def words(text: str, delta: bool = False) -> forge.Table:
    return dictionary(0, forge.texts(*text), isDelta=delta)


def rows(*indices: int) -> forge.Table:
    return batch(len(indices), [(len(indices), 0)], [b"", i8(*indices)])


#: What is sent, and what its batches mean.
SENT = [words("ab"), rows(0, 1), rows(1, 1), words("cd", delta=True), rows(0, 3)]
SENT += [words("xyz"), rows(0, 1, 2), rows(2), words("w", delta=True), rows(0, 3), words("k"), rows(0)]
MESSAGES = [message(CODED), *map(message, SENT)]
MEANT = {2: "ab", 3: "bb", 5: "ad", 7: "xyz", 8: "z", 10: "xw", 12: "k"}
#: For the message that is lost: the batches that are lost with it, or cannot be trusted then.
GONE = {1: {2, 3, 5}, 2: {2, 3, 5}, 3: {3, 5}, 4: {5}, 5: {5}, 6: {7, 8, 10}, 7: {7, 8, 10}, 8: {8, 10}}
GONE |= {9: {10}, 10: {10}, 11: {12}, 12: {12}}


def with_message(number: int, data: bytes) -> bytes:
    """The stream with something else in the place of a message."""
    return b"".join([*MESSAGES[:number], data, *MESSAGES[number + 1 :]]) + END


@pytest.mark.parametrize("how", ["smashed", "zeros", "cut", "gone", "flipped"])
def test_batches_whose_dictionary_may_be_stale_are_refused(how: str) -> None:
    whole = recover(b"".join(MESSAGES) + END, resync=True)
    assert [b["w"].to_pylist() for b in whole] == [list(t) for t in MEANT.values()]
    for number, lost in list(enumerate(MESSAGES))[1:]:
        kind = forge.read(lost, "header_type")
        broken = {
            "smashed": b"\xaa" * len(lost),
            "zeros": bytes(len(lost)),
            "cut": lost[:60],
            "gone": b"x",
            # A dictionary that says that it is a batch, and the reverse.
            "flipped": forge.patch(lost, "header_type", kind ^ 1),
        }[how]
        reader = recover(with_message(number, broken), resync=True)
        values = ["".join(each["w"].to_pylist()) for each in reader]
        # A gap may have held a dictionary, also that of a batch.
        assert values == [text for at, text in MEANT.items() if at not in GONE[number]], number
        if number not in MEANT:
            assert any("may have been lost" in each.reason for each in reader.report.skipped), number


def test_a_batch_with_damaged_values_leaves_the_dictionaries_alone() -> None:
    broken = message(rows(9))  # there is no such index
    for number in (2, 5, 7):
        values = ["".join(each["w"].to_pylist()) for each in recover(with_message(number, broken), resync=True)]
        assert values == [text for at, text in MEANT.items() if at != number]


def test_columns_without_dictionary_are_read_whatever_became_of_it() -> None:
    root = schema(field("w", forge.UTF8, dictionary=encoding(0, forge.INT8)), field("i", forge.INT32))
    rows_of = [batch(1, [(1, 0)] * 2, [b"", i8(0), b"", i32(i)]) for i in range(3)]
    parts = [message(root), message(words("a")), *map(message, rows_of)]
    data = b"".join([*parts[:3], b"?" * 40, *parts[3:]])
    assert [each.to_pydict() for each in recover(data, resync=True)] == [{"w": ["a"], "i": [0]}]
    reader = recover(data, resync=True, columns=["i"])
    assert reader.read_all().to_pydict() == {"i": [0, 1, 2]}


def test_a_footer_says_where_the_dictionaries_are() -> None:
    parts = [message(each) for each in (words("ab"), rows(0, 1), rows(1), words("c", True), rows(2, 0), rows(1))]
    whole = forge.file(CODED, *parts)
    assert recover(whole).read_all().to_pydict() == {"w": list("abbcab")}
    delta, first = whole.index(parts[3]), whole.index(parts[1])
    # The delta is lost: what comes before it is known, what comes behind it could be anything.
    broken = smash(whole, delta + 8, delta + 60)
    for damaged, values in ((broken, "abb"), (smash(broken, first, first + 60), "b")):
        reader = recover(damaged, resync=True)
        assert reader.read_all().to_pydict() == {"w": list(values)}
        assert reader.report.lost_batches == 4 - reader.report.num_batches


# -- values that look like messages --------------------------------------------------------------------------


def test_streams_in_the_values_of_a_damaged_batch_are_not_taken_for_its_neighbours() -> None:
    inner = stream(schema(field("x", forge.UTF8)), forge.texts("q"))
    parts = [batch_of(*cells, kind=pa.binary()) for cells in ([inner, inner], [inner * 3], [inner])]
    data = ipc_bytes(parts, "stream")
    second = forge.split(data)[2]
    at = data.index(second)
    for broken in (
        smash(data, at + 8, at + 60),
        smash(data, at, at + 8),
        data[: at + 100] + data[at + 107 :],
        forge.patch(second, "header.nodes[0].length", 9).join([data[:at], data[at + len(second) :]]),
    ):
        values = [each.to_pydict() for each in recover(broken, resync=True)]
        assert values == [parts[0].to_pydict(), parts[2].to_pydict()]


# -- hostile bytes -------------------------------------------------------------------------------------------


def overlapping(size: int) -> bytes:
    """Messages each of which claims all bytes behind it; only a count of their bits shows that it lies."""
    data = bytearray(message(schema(field("b", forge.BOOL))))
    one = message(batch(8, [(8, 1)], [(0, 8), (8, 8)]), body=b"", body_length=16)
    paths = ("bodyLength", "header.length", "header.nodes[0].length")
    paths += ("header.buffers[0].length", "header.buffers[1].offset", "header.buffers[1].length")
    places = [forge.locate(one, path)[0] for path in paths]
    count = (size - len(data)) // len(one)
    for left in range(count - 1, -1, -1):
        half = (left * len(one) + 16) // 16 * 8
        each = bytearray(one)
        values = (2 * half, 8 * half, 8 * half, half, half, half)
        for place, value in zip(places, values, strict=True):
            struct.pack_into("<q", each, place, value)
        data += each
    return bytes(data) + b"\x55" * 16 + b"something else"  # so that no end is one


def test_messages_that_overlap_do_not_cost_the_square_of_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are 6,000 and claim 3 GB together."""
    data, decoded = overlapping(1 << 20), []

    class Counting(ipc.StreamDecoder):
        def decode_next(self, message: ipc.Message) -> Any:
            decoded.append(message.body_length)
            return super().decode_next(message)

    monkeypatch.setattr(searching, "StreamDecoder", Counting)
    with contextlib.suppress(ipc.FormatError):
        list(recover(data, resync=True, validate="strict"))
    most = searching.PATIENCE * len(data) + searching.PATIENCE_MORE
    assert most / 2 < sum(decoded) < most + 2 * len(data)


@pytest.mark.parametrize(
    "unit",
    [b"\xff", END, bytes(8) + b"x" * 8, b"ARROW1\0\0", b"\xff\xff\xff\xff\x40\0\0\0", b"ARROW1"],
    ids=["ones", "ends", "zeros", "magics", "sizes", "tails"],
)
def test_markers_without_end_cost_as_much_as_there_are(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    data = STREAM[:-8] + unit * ((1 << 17) // len(unit))
    spans, find_place, find_message = [], searching.find_place, searching.find_message

    def place(pattern: Any, view: memoryview, start: int) -> int:
        end = find_place(pattern, view, start)
        spans.append(end - start + 1)
        return end

    def sought(source: Any, start: int, **how: Any) -> Any:
        seen = find_message(source, start, **how)
        spans.append(1 if how.get("there") else (seen[0] if seen else len(data)) - start + 1)
        return seen

    monkeypatch.setattr(searching, "find_place", place)
    monkeypatch.setattr(searching, "find_message", sought)
    assert found(data)[0] == ALL
    assert 0 < sum(spans) < 4 * len(data)  # bytes that were looked at, and looks


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_bytes_that_are_missing_in_a_batch_cost_no_other_one(compression: Any) -> None:
    """What follows is not where the metadata says: lengths of buffers are then values, and claim anything."""
    dice = random.Random(5)
    batches = [
        {name: [number] + [dice.randrange(1 << 20) for _ in range(999)] for name in "abcd"} for number in range(8)
    ]
    data = ipc_bytes(batches, compression=compression)
    messages = forge.split(data)
    for number in (6, 3):
        at = data.index(messages[1 + number]) + 1000
        data = data[:at] + data[at + 104 :]
    kept = [batch["a"][0] for batch in recover(data, resync=True)]
    assert kept == [0, 1, 2, 4, 5, 7]


# -- sources -------------------------------------------------------------------------------------------------


def test_levels_and_options() -> None:
    with pytest.raises(ipc.UsageError, match="resync"):
        recover(STREAM, resync=True, validate="none")
    with pytest.raises(ipc.UsageError, match="nix"):
        recover(STREAM, resync=True, columns=["nix"])
    numbers, _ = found(STREAM, validate="strict")
    assert numbers == ALL
    reader = recover(STREAM, resync=True, limits=ipc.Limits(rows_per_batch=ROWS - 1))
    assert list(reader) == []
    assert reader.report.lost_rows in (None, BATCHES * ROWS)
