"""Format checklist 118-122: columns that are not asked for, and sources that are not bytes."""

import io
import itertools
import random
import socket
from contextlib import suppress

import pyarrow as pa
import pytest
from checklist.parts import LONG, ONE, flat, of
from helpers import drive, forge, golden
from helpers.arrays import pyarrow_bytes
from helpers.drive import read_file, read_stream
from helpers.forge import Table, batch, bits, dictionary, encoding, field, file, i8, i32, message, schema, stream, view
from helpers.memory import Guarded

import arrowipc as ipc
from arrowipc import FormatError, UsageError

EVERYTHING = schema(
    field("n", forge.NULL),
    field("v", forge.UTF8_VIEW),
    field("lv", forge.LIST_VIEW, field("item", forge.UTF8_VIEW)),
    field("u", Table("Union", mode=1, typeIds=[3, 9]), field("a", forge.INT8), field("b", forge.UTF8)),
    field("r", forge.REE, field("run_ends", forge.INT32, nullable=False), field("values", forge.UTF8_VIEW)),
    field("d", forge.UTF8, dictionary=encoding(0, forge.INT8)),
    field("s", forge.STRUCT, field("x", forge.INT32), field("l", forge.LIST, field("item", forge.NULL))),
    field("f", Table("FixedSizeList", listSize=2), field("item", forge.INT16)),
    field("i", forge.INT32),
)
#: Length and nulls of each array, in pre-order.
NODES = [(2, 2), (2, 0), (2, 0), (1, 0), (2, 0), (1, 0), (1, 0), (2, 0), (1, 0), (1, 0), (2, 1), (2, 0), (2, 0)]
NODES += [(2, 0), (1, 1), (2, 0), (4, 0), (2, 0)]


def everything(version: int) -> tuple[Table, Table]:
    """A dictionary and a batch of all layouts; V4 unions and run-end encoded columns have one buffer more."""
    buffers = [b"", view(LONG, 1) + view(b"x"), b"", LONG, b"", i32(0, 0), i32(1, 0), b"", view(LONG), LONG]
    buffers += [b""] * (version == forge.V4) + [i8(9, 3), i32(0, 0), b"", i8(5), b"", i32(0, 1), b"z"]
    buffers += [b""] * (version == forge.V4) + [b"", i32(2), b"", view(LONG), LONG, bits(1, 0), i8(1, 0)]
    buffers += [b"", b"", i32(7, 8), b"", i32(0, 1, 1), b"", b"", forge.i16(1, 2, 3, 4), b"", i32(-1, -2)]
    words = dictionary(0, forge.texts("p", "q"))
    return words, batch(2, NODES, buffers, variadic=[2, 1, 1])


TEXT = LONG.decode()
COLUMNS = {
    "n": [None, None],
    "v": [TEXT, "x"],
    "lv": [[TEXT], []],
    "u": ["z", 5],
    "r": [TEXT, TEXT],
    "d": ["q", None],
    "s": [{"x": 7, "l": [None]}, {"x": 8, "l": []}],
    "f": [[1, 2], [3, 4]],
    "i": [-1, -2],
}


@pytest.mark.parametrize("version", [forge.V4, 4])
@pytest.mark.parametrize(
    "names",
    [*zip(COLUMNS, strict=True), *itertools.pairwise(COLUMNS), tuple(COLUMNS), ("i", "n"), ()],
    ids=" ".join,
)
def test_061_079_118_columns_have_their_parts_in_pre_order_also_if_they_are_skipped(names, version):
    parts = (EVERYTHING, *everything(version))
    expected = [[COLUMNS[name] for name in names]]
    for columns in (list(names), [list(COLUMNS).index(name) for name in names]):
        reading = read_stream(stream(*parts, version=version), columns=columns)
        assert reading.schema.names == list(names)
        assert (reading.values(), reading.rows()) == (expected, [2])
        assert read_file(file(*parts, version=version), columns=columns).values() == expected


def test_118_nested_columns_by_dotted_path():
    parts = (EVERYTHING, *everything(4))
    assert read_stream(stream(*parts), columns=["s.x", "i"]).values() == [[[{"x": 7}, {"x": 8}], [-1, -2]]]
    assert read_stream(stream(*parts), columns=["s.l"]).values() == [[[{"l": [None]}, {"l": []}]]]


@pytest.mark.parametrize("column", ["nobody", 9, -10, "s.nobody", "i.x", None, 1.5])
def test_118_columns_that_do_not_exist(column):
    parts = (EVERYTHING, *everything(4))
    words = f"columns: (no column '{column}'|index {column} is out of range|expected names.* found .*{column}$)"
    drive.refuse_stream(stream(*parts), UsageError, words, columns=[column])
    drive.refuse_file(file(*parts), UsageError, words, columns=[column])


def test_118_damage_in_a_skipped_column_is_not_looked_at():
    root = schema(field("a", forge.UTF8), field("b", forge.INT32))
    rows = batch(1, [(1, 0)] * 2, [b"", i32(0, 1), b"\xff", b"", i32(3)])
    assert read_stream(stream(root, rows), columns=["b"]).values() == [[[3]]]
    drive.refuse_stream(stream(root, rows), FormatError, "UTF-8", columns=["a"])


@pytest.mark.parametrize("case", golden.cases(), ids=golden.name_of)
def test_118_projection_of_every_golden(case):
    data = golden.load(case)
    for source, read in ((data.stream, drive.from_bytes), (data.file, drive.from_file)):
        whole = read(source)
        names, full = whole.schema.names, whole.values()
        chance = random.Random(case.name)
        picks = [[i] for i in range(len(names))] + [[], list(range(len(names)))[::-1]]
        picks += [sorted(chance.sample(range(len(names)), chance.randint(0, len(names)))) for _ in range(3)]
        for pick in picks[:12]:
            expected = [[columns[i] for i in pick] for columns in full]
            assert repr(read(source, columns=pick).values()) == repr(expected)


CODED = schema(field("d", forge.UTF8, dictionary=encoding(0, forge.INT8)), field("i", forge.INT32))
ROWS = batch(1, [(1, 0)] * 2, [b"", i8(0), b"", i32(5)])


def test_119_dictionaries_of_skipped_columns_are_not_needed():
    broken = dictionary(0, flat(1, b"", i32(0, 99), b"a"))
    delta = dictionary(0, forge.texts("b"), isDelta=True)
    for parts in ((ROWS,), (broken, ROWS), (broken, delta, ROWS)):
        assert read_stream(stream(CODED, *parts), columns=["i"]).values() == [[[5]]]
        assert read_file(file(CODED, *parts), columns=["i"]).values() == [[[5]]]


def test_119_inner_dictionaries_of_selected_columns_are_loaded():
    inner = field("item", forge.UTF8, dictionary=encoding(1, forge.INT8))
    root = schema(field("i", forge.INT32), field("l", forge.LIST, inner, dictionary=encoding(2, forge.INT8)))
    words = dictionary(1, forge.texts("a", "b"))
    lists = dictionary(2, batch(1, [(1, 0), (2, 0)], [b"", i32(0, 2), b"", i8(1, 0)]))
    rows = batch(1, [(1, 0)] * 2, [b"", i32(5), b"", i8(0)])
    assert read_stream(stream(root, words, lists, rows), columns=["l"]).values() == [[[["b", "a"]]]]
    assert read_stream(stream(root, words, lists, rows), columns=["i"]).values() == [[[5]]]


MANY = 100_000


class WideFile(io.BytesIO):
    """A file of one batch with 20 columns of 400 kB, which counts the bytes that are read."""

    def __init__(self) -> None:
        batch = pa.record_batch({f"c{i}": pa.array([i] * MANY, pa.int32()) for i in range(20)})
        super().__init__(pyarrow_bytes(batch, "file"))
        self.count = 0

    def readinto(self, target) -> int:
        count = super().readinto(target)
        self.count += count
        return count


def test_120_only_the_needed_ranges_are_read():
    source = WideFile()
    with ipc.open_file(source, columns=["c7"]) as reader:
        (rows,) = reader
        assert rows.column(0).to_pylist() == [7] * MANY
    assert 4 * MANY < source.count < 4 * MANY + 600_000


def test_121_counting_rows_reads_no_body():
    source = WideFile()
    with ipc.open_file(source) as reader:
        assert reader.count_rows() == MANY
    assert 0 < source.count < 200_000


THREE = flat(3, b"", i32(1, 2, 3))


def test_122_a_batch_is_given_before_the_next_one_arrives():
    parts = [message(ONE), message(THREE), message(THREE)]
    left, right = socket.socketpair()
    with left, right, right.makefile("rb", buffering=0) as source:
        left.sendall(parts[0] + parts[1])
        reader = ipc.open_stream(source)
        assert reader.read_next_batch().num_rows == 3
        left.sendall(parts[2])
        assert reader.read_next_batch().num_rows == 3
        left.shutdown(socket.SHUT_WR)
        with pytest.raises(StopIteration):
            reader.read_next_batch()


def test_122_closed_readers_and_sources():
    data = stream(ONE, THREE)
    reader = ipc.open_stream(data)
    reader.close()
    with pytest.raises(UsageError):
        reader.read_next_batch()
    reader.close()
    source = io.BytesIO(data)
    source.close()
    with pytest.raises(UsageError, match="file object is closed"):
        ipc.open_stream(source)


@pytest.mark.parametrize("opener", [ipc.open_stream, ipc.open_file, ipc.open])
def test_122_sources_that_are_none(opener):
    for source in (None, 7, object(), ["a"]):
        with pytest.raises(UsageError, match="expected a path, a URL, a bytes-like object"):
            opener(source)


def use_all(opener, data: bytes) -> None:
    """Read in front of a page that nobody may read."""
    guarded = Guarded(len(data))
    guarded.view[:] = data
    with opener(guarded.view.toreadonly()) as reader:
        for rows in reader:
            drive.use(rows)


@pytest.mark.parametrize("case", golden.cases(), ids=golden.name_of)
def test_122_nothing_behind_the_input_is_read(case):
    data = golden.load(case)
    use_all(ipc.open_stream, data.stream.read_bytes())
    use_all(ipc.open_file, data.file.read_bytes())


def test_122_nothing_behind_a_torn_input_is_read():
    parts = (EVERYTHING, *everything(4))
    whole = stream(*parts)
    for end in range(0, len(whole), 3):
        with suppress(ipc.ArrowIpcError):
            use_all(ipc.open_stream, whole[:end] or b"\0")


def test_122_nothing_behind_a_body_without_padding_is_read():
    root = of(forge.UTF8)
    text = flat(1, b"", i32(0, 3), b"abc")
    bare = message(text, body=i32(0, 3) + b"abc")
    use_all(ipc.open_stream, stream(root, bare, eos=b""))
    use_all(ipc.open_stream, stream(ONE, message(THREE, body=i32(1, 2, 3)), eos=b""))
