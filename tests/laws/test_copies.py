"""What a copy costs: as much as its source, whatever became of the source's dictionaries."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import drive, forge, golden, randoms
from helpers.arrays import ipc_bytes, pyarrow_bytes
from helpers.processes import rounds
from helpers.terminal import run
from hypothesis import given, settings, strategies as st

import arrowipc as ipc
from arrowipc import UsageError
from arrowipc.columns.extensions import STORED_TIMES
from arrowipc.decode.framing import survey
from arrowipc.dissociated.served import messages_of
from arrowipc.inspection.message_layout import CODEC_NAMES

# -- streams, message by message -----------------------------------------------------------------------------


def views(count: int, text: bytes) -> Any:
    """One view column whose values all lie in the same bytes."""
    spelled = b"".join(forge.view(text, 0, 0) for _ in range(count))
    return forge.batch(count, [(count, 0)], [b"", spelled, text], variadic=[1])


def coded_lists(lists: Sequence[Sequence[int]]) -> Any:
    """One column of lists of indices."""
    flat = [index for one in lists for index in one]
    ends = [sum(map(len, lists[:i])) for i in range(len(lists) + 1)]
    nodes = [(len(lists), 0), (len(flat), 0)]
    return forge.batch(len(lists), nodes, [b"", forge.i32(*ends), b"", forge.i32(*flat)])


def words(values: Sequence[str], id: int = 0, delta: bool = False) -> Any:
    return forge.dictionary(id, forge.texts(*values), isDelta=delta)


ITEM = forge.field("item", forge.UTF8, dictionary=forge.encoding(2))
#: A column of a dictionary of lists of words of another one.
LISTS = forge.field("l", forge.LIST, ITEM, dictionary=forge.encoding(1))
ROOT = forge.schema(
    forge.field("a", forge.UTF8, dictionary=forge.encoding(0)),
    forge.field("b", forge.UTF8, dictionary=forge.encoding(0)),
    LISTS,
    forge.field("v", forge.Table("Utf8View"), dictionary=forge.encoding(3)),
    forge.field("x", forge.int_(64)),
    forge.field("y", forge.int_(64)),
)


def evolved(seed: int, steps: int, most: int) -> bytes:
    """A stream whose dictionaries grow, are replaced, and stay, as chance says; columns share a buffer."""
    chance = random.Random(seed)
    known: dict[int, int] = {}
    grows = chance.choice([0.2, 0.5, 0.9])
    parts = [ROOT]
    for step in range(steps):
        for id in (0, 2, 1, 3):
            dice, count = chance.random(), chance.randint(1, most)
            delta = id in known and dice < grows
            if id in known and not delta and dice < 0.95:
                continue
            if id == 2 and not delta:
                count = max(count, known.get(2, 0))  # the lists of id 1 may stay as they are
            new = [f"{step}.{k} " + "x" * chance.randint(0, 30) for k in range(count)]
            if id == 1:
                made = coded_lists([[chance.randrange(known[2])] * chance.randint(0, 3) for _ in range(count)])
            else:
                made = views(count, b"shared by all of them %d" % step) if id == 3 else forge.texts(*new)
            parts.append(forge.dictionary(id, made, isDelta=delta))
            known[id] = count + (known[id] if delta else 0)
        length = chance.randint(0, 3)
        body = b""
        spans: list[Any] = []
        for id in (0, 0, 1, 3):
            data = forge.i32(*(chance.randrange(known[id]) for _ in range(length)))
            spans += [(0, 0), (len(body), len(data))]
            body += data + bytes(-len(data) % 8)
        spans += [(0, 0), (len(body), 8 * length)] * 2  # x and y
        batch = forge.batch(length, [(length, 0)] * 6, spans)
        parts.append(forge.message(batch, body=body + bytes(8 * length)))
    return forge.stream(*parts)


def deltas(count: int, each: int = 20, kind: pa.DataType | None = None, **options: Any) -> bytes:
    """Batches of one row whose dictionary grows by `each` words, or lists of one, at a time, by deltas."""
    words: list[Any] = [f"word number {i} {k}" for i in range(count) for k in range(each)]
    values = pa.array([[word] for word in words] if kind == pa.list_(pa.string()) else words, kind)
    ends = range(each, len(words) + 1, each)
    rows = [pa.DictionaryArray.from_arrays(pa.array([end - 1], pa.int32()), values[:end]) for end in ends]
    return ipc_bytes([pa.record_batch({"d": row}) for row in rows], dictionary_deltas=True, **options)


#: Ways to write what a reader has.
WAYS: list[Callable[[Any, Any], Any]] = [
    ipc.copy,
    lambda reader, writer: writer.write(reader),
    lambda reader, writer: writer.write_table(reader.read_all()),
    lambda reader, writer: [writer.write_batch(batch) for batch in reader],
    lambda reader, writer: [writer.write_batch(batch) for batch in list(reader)],
]


def copied(data: Any, *, file: bool = False, reading: Any = None, how: Any = ipc.copy, **options: Any) -> bytes:
    opener = ipc.new_file if file else ipc.new_stream
    with ipc.open(data, **(reading or {})) as reader, opener(sink := bytearray(), **options) as writer:
        how(reader, writer)
    return bytes(sink)


def kinds(data: bytes) -> list[str]:
    """The messages of a stream: S, R, D, and + for a delta."""
    with ipc.open_stream(data) as reader:
        list(reader)
        return [*(message.kind[0] for message in ipc.MessageReader(data)), *"+" * reader.stats.num_dictionary_deltas]


# -- deltas --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", drive.LEVELS)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.string_view(), pa.list_(pa.string())])
def test_what_came_by_deltas_is_copied_with_deltas_however_that_is_done(tmp_path: Path, kind: Any, level: str) -> None:
    """The issue: 14.4 MB of deltas became 4.0 GB of whole dictionaries."""
    path = tmp_path / "x.arrows"
    for codec in (None, "lz4", "zstd"):
        data = deltas(11, 4, kind, compression=codec)
        assert kinds(data).count("+") == 10
        path.write_bytes(data)
        for source, mapped in ((data, True), (path, True), (path, False)):
            for how in WAYS:
                reading = {"validate": level, "memory_map": mapped}
                assert copied(source, reading=reading, how=how, compression=codec) == data


def test_a_server_sends_deltas_as_they_came() -> None:
    data = deltas(20)
    sent = list(messages_of(ipc.open_stream(data)))
    assert sum(message.body_length for message in sent) <= len(data)
    assert sum(message.kind == "DictionaryBatch" for message in sent) == 20


def test_dictionaries_go_as_they_came_unless_somebody_decides() -> None:
    data = deltas(10)
    whole = copied(data, dictionary_deltas=False)
    # Batches that no reader made have nothing that they came by.
    of_pyarrow = ipc_bytes(pa.ipc.open_stream(data).read_all())
    assert [kinds(each).count("+") for each in (data, whole, of_pyarrow)] == [9, 0, 0]
    assert copied(whole) == whole
    assert copied(whole, dictionary_deltas=True) == copied(data, unify_dictionaries=True) == data
    assert kinds(copied(whole, unify_dictionaries=True)).count("+") == 0


@pytest.mark.parametrize("unify", [False, True])
def test_several_sources_with_deltas_go_into_one_stream(unify: bool) -> None:
    """Unified, the values of the later ones are new by deltas too, apart from their first."""
    parts = [deltas(6), deltas(12), deltas(3), deltas(6, 30)]
    sink = bytearray()
    with ipc.new_stream(sink, unify_dictionaries=unify) as writer:
        for part in parts:
            ipc.copy(ipc.open_stream(part), writer)
    expected = [v for part in parts for v in ipc.open_stream(part).read_all().to_pydict()["d"]]
    assert ipc.open_stream(sink, validate="strict").read_all().to_pydict() == {"d": expected}
    assert pa.ipc.open_stream(bytes(sink)).read_all().to_pydict() == {"d": expected}
    assert len(sink) <= 2 * sum(map(len, parts))


@pytest.mark.parametrize("command", ["convert", "cat"])
def test_the_command_line_copies_deltas_as_they_came(command: str, tmp_path: Path) -> None:
    pytest.importorskip("click")
    data, source = deltas(50), tmp_path / "x.arrows"
    source.write_bytes(data)
    stream, file = tmp_path / "y.arrows", tmp_path / "y.arrow"
    for target in (stream, file):
        assert run(command, source, "-o", target).code == 0
    assert stream.read_bytes() == data
    assert file.stat().st_size <= 1.5 * len(data)
    assert ipc.open(file).read_all().to_pydict() == ipc.open(data).read_all().to_pydict()


def test_a_file_refuses_deltas_that_nobody_asked_for_and_says_what_helps() -> None:
    data = deltas(20)
    with pytest.raises(UsageError, match=r"has grown from 20 to 40 values.*dictionary_deltas=True"):
        copied(data, file=True)
    for options in ({"dictionary_deltas": True}, {"unify_dictionaries": True}):
        made = copied(data, file=True, **options)
        assert len(made) <= 1.5 * len(data)
        # A file holds all its dictionaries before the first batch: a stream of it gets them whole, once.
        for again in (copied(made), copied(made, file=True)):
            assert len(again) <= 1.1 * len(made)
            assert ipc.open(again).read_all().to_pydict() == ipc.open(data).read_all().to_pydict()


def test_what_is_left_in_a_reader_begins_with_a_whole_dictionary() -> None:
    data = deltas(20)
    sink = bytearray()
    with ipc.open_stream(data) as reader, ipc.new_stream(sink) as writer:
        expected = [reader.read_next_batch().to_pydict() for _ in range(10)]
        ipc.copy(reader, writer)
    assert kinds(bytes(sink)).count("+") == 9
    found = [batch.to_pydict() for batch in ipc.open_stream(sink, validate="strict")]
    assert [*expected, *found] == [batch.to_pydict() for batch in ipc.open_stream(data)]


# -- dictionaries below dictionaries -------------------------------------------------------------------------


def nested(lists: Sequence[Sequence[int]]) -> list[Any]:
    """How a stream of nested dictionaries begins: the words, the lists, and a batch of two rows."""
    return [forge.schema(LISTS), words(["a", "b"], 2), forge.dictionary(1, coded_lists(lists)), nested_rows(0, 1)]


def nested_rows(*indices: int) -> Any:
    return forge.batch(len(indices), [(len(indices), 0)], [b"", forge.i32(*indices)])


@pytest.mark.parametrize("grows", [False, True])
def test_an_inner_dictionary_that_is_replaced_brings_the_outer_one_where_anything_else_is_asked_for(
    grows: bool,
) -> None:
    """For readers that look inside only when the outer one arrives; the law below says that a plain copy does not."""
    parts = nested([[0], [0, 1]] * 500)
    for step in range(100):
        parts += [words([f"a{step}", f"b{step}"], 2)]
        if grows:
            parts += [forge.dictionary(1, coded_lists([[1]]), isDelta=True)]
        parts += [nested_rows(0, 999 + grows * (step + 1))]
    data = forge.stream(*parts)
    expected = [batch.to_pydict() for batch in ipc.open_stream(data)]
    for choice in (False, True):
        copy = copied(data, dictionary_deltas=choice)
        assert [batch.to_pydict() for batch in ipc.open_stream(copy, validate="strict")] == expected
        assert pa.ipc.open_stream(copy).read_all().to_pydict()["l"] == [v for one in expected for v in one["l"]]


# -- the law -------------------------------------------------------------------------------------------------

#: A file says its schema twice, and 24 bytes for each message; its magic and the padding around it.
FOOTER = 64


def codec_of(data: Any) -> Any:
    with ipc.open(data) as reader:
        first = next(reader.stored(), None)
        known = None if first is None else survey(first[0])
    return None if known is None else CODEC_NAMES.get(known[3])


def check_size(data: bytes, level: str = "full") -> None:
    """A copy is at most twice as large as its source, and reads alike; one of a stream has the same messages.

    But a dictionary that is the beginning of the last one is left out; what grows it then is sent as a whole.
    """
    compression = codec_of(data)
    expected = [batch.to_pylist(extensions=STORED_TIMES) for batch in ipc.open(data)]
    for file in (False, True):
        # In a file, a dictionary that changes has to become one of all values.
        options: dict[str, Any] = {"unify_dictionaries": True} if file else {}
        made = copied(data, file=file, reading={"validate": level}, compression=compression, **options)
        assert len(made) <= 2 * len(data) + file * FOOTER, f"{len(made) / len(data)} times {len(data)} bytes"
        if not file and data[:6] != b"ARROW1":
            came, went = (Counter(kinds(each)) for each in (data, made))
            assert came["R"] == went["R"]
            assert 0 <= came["+"] - went["+"] <= came["D"] - went["D"]
        assert [batch.to_pylist(extensions=STORED_TIMES) for batch in ipc.open(made)] == expected


def golden_data(_: random.Random) -> Iterator[bytes]:
    for case in golden.cases():
        files = golden.load(case)
        yield from (files.stream.read_bytes(), files.file.read_bytes())


def dictionaries_that_evolve(chance: random.Random) -> Iterator[bytes]:
    yield evolved(chance.getrandbits(32), chance.choice([1, 5, 40]), chance.choice([1, 5, 200]))


def deltas_of_views(chance: random.Random) -> Iterator[bytes]:
    """All deltas lie in the same growing buffers; values of one delta may share bytes."""
    parts: list[Any] = [forge.schema(forge.field("d", forge.Table("Utf8View"), dictionary=forge.encoding(0)))]
    count = chance.randint(1, 8)
    for step in range(chance.choice([3, 30, 100])):
        texts = [b"%d.%d " % (step, k) * chance.choice([1, 3, 4, 5, 40, 400]) for k in range(count)]
        if chance.random() < 0.3:
            texts = [texts[0]] * count
        # One text behind the other; equal ones share their bytes, and some bytes belong to nobody.
        data, at = bytes(chance.choice([0, 0, 7])), {}
        for text in texts:
            if text not in at:
                at[text] = len(data)
                data += text
        spelled = b"".join(forge.view(text, 0, at[text]) for text in texts)
        valid = forge.bits(*[chance.random() < 0.8 for _ in texts]) if chance.random() < 0.3 else b""
        nulls = sum(not valid[k // 8] >> k % 8 & 1 for k in range(count)) if valid else 0
        values = forge.batch(count, [(count, nulls)], [valid, spelled, data], variadic=[1])
        parts.append(forge.dictionary(0, values, isDelta=step > 0))
        parts.append(forge.batch(2, [(2, 0)], [b"", forge.i32(count * step, chance.randrange(count))]))
    yield forge.stream(*parts)


def columns_that_share(chance: random.Random) -> Iterator[bytes]:
    """Fields of one dictionary id; slices of one large dictionary; views of the same bytes; runs."""
    pool = pa.array([f"value {k} " + "y" * chance.randint(0, 40) for k in range(500)])
    indices = [pa.array([chance.randrange(500) for _ in range(50)], pa.int16()) for _ in range(6)]
    ends = pa.array([*sorted(chance.sample(range(1, 50), 5)), 50], pa.int32())
    columns = {f"c{k}": pa.DictionaryArray.from_arrays(one, pool) for k, one in enumerate(indices)}
    columns["v"] = pool.take(indices[0]).cast(pa.string_view())
    columns["r"] = pa.RunEndEncodedArray.from_arrays(ends, pa.array(range(6)))
    whole = pa.record_batch(columns)
    parts = [whole.slice(k, chance.randint(0, 10)) for k in range(0, 40, 5)]
    yield pyarrow_bytes(parts, emit_dictionary_deltas=chance.random() < 0.5)
    # ... and where the ids are one.
    many = chance.randint(2, 300)
    root = forge.schema(*(forge.field(f"f{k}", forge.UTF8, dictionary=forge.encoding(9)) for k in range(many)))
    rows = forge.batch(2, [(2, 0)] * many, [b"", forge.i32(0, 0)] * many)
    yield forge.stream(root, words(["a", "b"], 9), rows, words(["c"], 9, True), rows, rows)


#: What makes sources, and how many times.
SOURCES = {
    golden_data: (1, 1),
    dictionaries_that_evolve: (12, 3_000),
    deltas_of_views: (15, 500),
    columns_that_share: (10, 500),
}


@pytest.mark.campaign
@pytest.mark.parametrize("level", ["none", "full"])
@pytest.mark.parametrize("source", SOURCES, ids=lambda make: make.__name__)
def test_a_copy_is_at_most_twice_as_large(source: Callable[[random.Random], Iterator[bytes]], level: str) -> None:
    for seed in range(rounds(*SOURCES[source])):
        for data in source(random.Random(seed)):
            check_size(data, level)


@pytest.mark.campaign
@settings(max_examples=rounds(50, 5_000), deadline=None)
@given(randoms.batches(), st.booleans(), st.sampled_from([None, "lz4", "zstd"]), st.booleans())
def test_a_copy_of_any_types_is_at_most_twice_as_large(parts, file, compression, emits_deltas):
    options: dict[str, Any] = {} if file else {"emit_dictionary_deltas": emits_deltas}
    check_size(pyarrow_bytes(parts, kind=("stream", "file")[file], compression=compression, **options))
