"""Format checklist 42-60: magic, footer, blocks, and dictionaries of files."""

import pytest
from checklist.parts import CODED, ONE, ROWS, coded, delta, firsts, flat, words
from helpers import drive, forge
from helpers.drive import read_file, read_stream, refuse_file
from helpers.forge import Table, field, file, flatbuffer, i8, i32, message, schema, stream

import arrowipc as ipc
from arrowipc import FormatError

MORE = flat(2, b"", i32(8, 9))
LAST = flat(1, b"", i32(-1))
WORDS, DELTA = words("a", "b"), delta("c")


BARE = flatbuffer(ONE)
DELTAS = (CODED, delta("d"), WORDS, DELTA, coded(2, 3))
BOTH_BATCHES = [[1, 2, 3], [8, 9]]

#: Number of the case, a file, and the values of the first column of each of its batches.
READ = [
    *[
        ("043", file(ONE, ROWS, MORE, magic=forge.MAGIC.ljust(start, b"\0")), BOTH_BATCHES)
        for start in (8, 16, 64, 4096)
    ],
    ("043", file(ONE, ROWS, first=BARE + bytes(-len(BARE) % 8)), [[1, 2, 3]]),
    *[("044", file(ONE, ROWS, MORE, eos=eos), BOTH_BATCHES) for eos in (b"", bytes(8))],
    *[
        ("046", file(ONE, ROWS, version=messages, footer_version=footer), [[1, 2, 3]])
        for messages, footer in ((forge.V4, forge.V5), (forge.V5, forge.V4), (forge.V4, forge.V4))
    ],
    ("049", file(CODED, flat(2, b"\0", i8(0, 0), nulls=2)), [[None, None]]),
    *[("051", file(ONE, ROWS, MORE, prefix=prefix), BOTH_BATCHES) for prefix in ("modern", "legacy")],
    ("054", file(CODED, coded(1, 0), WORDS), [["b", "a"]]),
    ("054", file(CODED, coded(1, 2), WORDS, coded(0), DELTA), [["b", "c"], ["a"]]),
    ("055", file(*DELTAS, dictionary_blocks=lambda true: [true[1], true[2], true[0]]), [["c", "d"]]),
    ("055", file(*DELTAS, dictionary_blocks=lambda true: [true[1], true[0], true[2]]), [["d", "c"]]),
]


@drive.rows_of(READ)
def test_is_read(row):
    assert firsts(read_file(row[1])) == row[2]


def with_blocks(*parts: Table, blocks=None, dictionaries=None) -> bytes:
    """A file whose footer lists what these make of its blocks."""
    return file(*parts, blocks=blocks or (lambda true: true), dictionary_blocks=dictionaries or (lambda true: true))


SCHEMA_BLOCK = (8, message(CODED).meta_length, 0)
WORDS_BLOCK = (8 + SCHEMA_BLOCK[1], message(WORDS).meta_length, message(WORDS).body_length)
ENCODED = (CODED, WORDS, coded(0))

FOOTER = int.from_bytes(file(ONE, ROWS)[-10:-6], "little")
#: Number of the case, a file, and words of the FormatError at every level.
REFUSED = [
    ("042", file(ONE, ROWS, magic=b"XXXXXX\0\0"), "ARROW1", "offset 0|byte 0"),
    ("042", file(ONE, ROWS, tail=b"XXXXXX"), "ARROW1"),
    ("042", file(ONE, ROWS)[:-1], "ARROW1"),
    *[("045", file(ONE, ROWS, footer_length=length), "footer") for length in (0, -1, -(2**31), 1, 2**31 - 1, 100_000)],
    *[("045", file(ONE, ROWS, footer_length=FOOTER + off), "Footer") for off in (-8, -4, -1, 1, 4, 8)],
    *[("045", (forge.MAGIC + bytes(2) + i32(0) + forge.MAGIC)[:size], "empty|bytes|ARROW1") for size in range(18)],
    (
        "050",
        with_blocks(ONE, ROWS, MORE, LAST, blocks=lambda true: [true[0], (-8, *true[1][1:]), true[2]]),
        "block 1|batch 1|recordBatches.1",
        "-8",
    ),
    ("053", with_blocks(*ENCODED, blocks=lambda _: [SCHEMA_BLOCK]), "Schema|not listed"),
    ("053", with_blocks(*ENCODED, blocks=lambda _: [WORDS_BLOCK]), "DictionaryBatch|overlap"),
    ("053", with_blocks(*ENCODED, dictionaries=lambda true: [*true, SCHEMA_BLOCK]), "Schema|not listed"),
    ("055", with_blocks(CODED, WORDS, DELTA, coded(0), dictionaries=lambda true: true[::-1]), "delta", "7"),
    ("056", file(CODED, WORDS, coded(0), WORDS, coded(1)), "dictionary", "7"),
    *[("057", file(ONE, ROWS)[:cut], "recover|footer|ARROW1") for cut in (-1, -6, -10, -40)],
    ("059", file(ONE, ROWS, magic=b"ARROW0\0\0"), "expected the magic", "ARROW0"),
    ("059", b"FEA1" + bytes(100) + i32(8) + b"FEA1", "Feather V1"),
    *[("060", file(ONE, ROWS) + trailing, "ARROW1") for trailing in (b"\0", b"\n", bytes(8), bytes(1000))],
    ("060 a second magic", file(ONE, ROWS) + b"ARROW1", "footer size is"),
]


@drive.rows_of(REFUSED)
def test_is_refused(row):
    for level in drive.LEVELS:
        refuse_file(row[1], FormatError, *row[2:], validate=level)


def test_044_the_embedded_stream_reads_as_a_stream():
    data = file(CODED, WORDS, coded(1, 0), DELTA, coded(2, 2))
    assert read_stream(data[8:]).values() == read_file(data).values() == [[["b", "a"]], [["c", "c"]]]


def test_047_the_footer_schema_wins():
    data = file(ONE, ROWS, footer_schema=schema(field("other", forge.INT32)))
    assert read_file(data).schema.names == ["other"]
    assert firsts(read_file(data)) == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([2, 1, 0], [[-1], [8, 9], [1, 2, 3]]),
        ([0, 0, 1, 0], [[1, 2, 3], [1, 2, 3], [8, 9], [1, 2, 3]]),
        ([1], [[8, 9]]),
        ([], []),
    ],
)
def test_048_blocks_are_honoured_as_listed(order, expected):
    data = file(ONE, ROWS, MORE, LAST, blocks=lambda true: [true[i] for i in order])
    assert firsts(read_file(data)) == expected
    words = "overlap" if len(set(order)) < len(order) else "order" if order == [2, 1, 0] else "not listed"
    refuse_file(data, FormatError, words, validate="strict")


@pytest.mark.parametrize("times", [900, 3000])
def test_048_blocks_that_are_the_file_many_times_over_are_refused(times):
    """A small footer at once; a large one, whose pages opening leaves alone, when it is gone through."""
    data = file(ONE, ROWS, blocks=lambda true: true * times)
    for read in (ipc.RecordBatchFileReader.count_rows, ipc.RecordBatchFileReader.read_all):
        with pytest.raises(ipc.LimitError, match="twice"), ipc.open_file(data) as reader:  # noqa: PT012
            assert reader.get_batch(times - 1).num_rows == 3
            read(reader)


def test_048_overlapping_blocks_at_strict():
    inner = message(MORE)
    outer = message(ROWS, body=ROWS.body + bytes(-len(ROWS.body) % 8) + inner)
    blocks = lambda b: [*b, (b[0][0] + outer.meta_length + 16, inner.meta_length, inner.body_length)]  # noqa: E731
    data = file(ONE, outer, blocks=blocks)
    assert firsts(read_file(data)) == [[1, 2, 3], [8, 9]]
    refuse_file(data, FormatError, "block", "overlap", validate="strict")


@pytest.mark.parametrize("level", drive.LEVELS)
@pytest.mark.parametrize("empty", [list, lambda _: None], ids=["empty vector", "no vector"])
@pytest.mark.parametrize("root", [ONE, CODED])
def test_049_files_without_batches(root, empty, level):
    data = file(root, blocks=empty, dictionary_blocks=empty)
    assert firsts(read_file(data, validate=level)) == []
    with ipc.open_file(data) as reader:
        assert (reader.num_record_batches, reader.count_rows()) == (0, 0)
        assert reader.read_all().num_rows == 0


WRONG_BLOCKS = {
    "negative offset": lambda o, m, b: (-8, m, b),
    "offset beyond the file": lambda o, m, b: (1 << 40, m, b),
    "offset overflows": lambda o, m, b: (2**63 - 8, m, b),
    "offset in the footer": lambda o, m, b: (o + m + b + 16, m, b),
    "offset inside the magic": lambda o, m, b: (0, m, b),
    "offset +4": lambda o, m, b: (o + 4, m, b),
    "offset +1": lambda o, m, b: (o + 1, m, b),
    "negative metadata": lambda o, m, b: (o, -8, b),
    "no metadata": lambda o, m, b: (o, 0, b),
    "metadata beyond the file": lambda o, m, b: (o, 2**31 - 8, b),
    "metadata 8 too small": lambda o, m, b: (o, m - 8, b),
    "metadata 8 too large": lambda o, m, b: (o, m + 8, b),
    "metadata 4 too small": lambda o, m, b: (o, m - 4, b),
    "negative body": lambda o, m, b: (o, m, -8),
    "body overflows": lambda o, m, b: (o, m, 2**63 - 8),
    "body beyond the file": lambda o, m, b: (o, m, 1 << 40),
    "body 8 too small": lambda o, m, b: (o, m, b - 8),
    "body 8 too large": lambda o, m, b: (o, m, b + 8),
    "body empty": lambda o, m, b: (o, m, 0),
}


@pytest.mark.parametrize("level", drive.LEVELS)
@pytest.mark.parametrize("wrong", WRONG_BLOCKS)
def test_050_051_052_block_fields(wrong, level):
    data = file(ONE, ROWS, MORE, blocks=lambda true: [true[0], WRONG_BLOCKS[wrong](*true[1])])
    refuse_file(data, FormatError, "block|footer", validate=level)
    data = file(CODED, WORDS, coded(0), dictionary_blocks=lambda true: [WRONG_BLOCKS[wrong](*true[0])])
    refuse_file(data, FormatError, "block|footer", validate=level)


def test_054_dictionaries_load_for_any_batch_first():
    with ipc.open_file(file(CODED, coded(0), WORDS, coded(1))) as reader:
        assert reader[-1].to_pydict() == {"d": ["b"]}
        assert reader[0].to_pydict() == {"d": ["a"]}


def test_058_footer_metadata_is_ordered_pairs_of_bytes():
    pairs = ((b"k", b"1"), (b"b", b"\xff\0"), (b"k", b"2"))
    with ipc.open_file(file(ONE, ROWS, metadata=pairs)) as reader:
        assert reader.metadata.pairs == pairs
    with ipc.open_file(file(ONE, ROWS)) as reader:
        assert reader.metadata.pairs == ()


def test_file_opened_as_a_stream_and_the_reverse():
    data = stream(ONE, ROWS)
    with pytest.raises(FormatError, match="open_stream"):
        ipc.open_file(data, footer_offset=len(data))
    assert drive.read_file(data).values() == [[[1, 2, 3]]]  # of a stream the messages are indexed


def test_file_indices():
    with ipc.open_file(file(ONE, ROWS, MORE, LAST)) as reader:
        assert [batch.num_rows for batch in (reader[0], reader[-1], reader.get_batch(1))] == [3, 1, 2]
        assert reader.num_record_batches == 3
        for wrong in (3, -4, 1 << 70):
            with pytest.raises(IndexError, match=f"record batch {wrong} is out of range: there are 3"):
                reader[wrong]


def test_file_batch_metadata():
    pairs = ((b"a", b"b"),)
    with ipc.open_file(file(ONE, ROWS, message(MORE, metadata=pairs))) as reader:
        assert [reader.get_batch_with_custom_metadata(i).custom_metadata.pairs for i in range(2)] == [(), pairs]
