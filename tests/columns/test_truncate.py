"""Truncating: the same rows, in exactly the bytes that they need, in place wherever the format allows it."""

import math
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from columns.broken import BROKEN, LIST_VIEWS, LISTS, LONG, RUNS, UNIONS, forged, lists, runs, texts, union, views
from helpers import forge
from helpers.arrays import address, batch_of, batch_of_columns, read_batch
from helpers.arrow_columns import ARRAYS
from helpers.cdata import CArray, release, take
from helpers.forge import Table, batch, bits, field, i8, i32, i64, view
from helpers.randoms import array_of, types as random_types
from hypothesis import given, strategies as st

from arrowipc import FormatError, UsageError, types
from arrowipc.columns.truncate import Truncator, compact


def spans(length: int) -> Iterator[tuple[int, int]]:
    """Every slice of so many rows."""
    for start in range(length + 1):
        for count in range(length - start + 1):
            yield start, count


def ints(buffer: memoryview, width: int) -> list[int]:
    return buffer.cast({1: "b", 2: "h", 4: "i", 8: "q"}[width]).tolist()


# -- exactness: what a trimmed column must look like, by its type --------------------------------------------


def check_bitmap(bitmap: memoryview, length: int) -> int:
    """It has the bytes of `length` bits and zeros behind them; returns how many are set."""
    assert len(bitmap) == (length + 7) // 8
    number = int.from_bytes(bitmap, "little")
    assert number >> length == 0, "bits behind the last element"
    return number.bit_count()


def check_offsets(offsets: memoryview, width: int, length: int, end: int) -> None:
    found = ints(offsets, width)
    assert len(found) == length + 1
    assert found[0] == 0
    assert found[-1] == end


def check_union(kind: Any, buffers: list[Any], lengths: list[int], n: int) -> None:
    codes = ints(buffers[0], 1)
    assert len(codes) == n
    if kind.mode == "sparse":
        assert lengths == [n] * len(lengths)
        return
    offsets = ints(buffers[1], 4)
    assert len(offsets) == n
    for code, length in zip(kind.type_codes, lengths, strict=True):
        used = [offset for c, offset in zip(codes, offsets, strict=True) if c == code]
        assert (min(used, default=0), max(used, default=-1) + 1) == (0, length)


def check_list_view(width: int, buffers: list[Any], length: int, n: int) -> None:
    offsets, sizes = ints(buffers[1], width), ints(buffers[2], width)
    assert len(offsets) == len(sizes) == n
    valid = [buffers[0] is None or buffers[0][i // 8] >> i % 8 & 1 for i in range(n)]
    used = [(o, o + s) for o, s, v in zip(offsets, sizes, valid, strict=True) if s and v]
    assert min((o for o, _ in used), default=0) == 0
    assert max((end for _, end in used), default=0) == length
    assert all(0 <= o <= o + s <= length for o, s in zip(offsets, sizes, strict=True))


def check_buffers(kind: Any, buffers: list[Any], lengths: list[int], n: int) -> None:
    """The buffers behind the validity, and the `lengths` of the children, for `n` elements."""
    name = type(kind).__name__
    wide = 8 if name.startswith("Large") else 4
    match name.removeprefix("Large"):
        case "Null":
            assert not buffers
        case "Union":
            check_union(kind, buffers, lengths, n)
        case "RunEndEncoded":
            assert lengths[0] == lengths[1]
            assert (lengths[0] == 0) == (n == 0)
        case "Bool":
            check_bitmap(buffers[1], n)
        case "Utf8View" | "BinaryView":
            assert len(buffers[1]) == 16 * n
        case "Utf8" | "Binary":
            check_offsets(buffers[1], wide, n, len(buffers[2]))
        case "List" | "Map":
            check_offsets(buffers[1], wide, n, lengths[0])
        case "ListView":
            check_list_view(wide, buffers, lengths[0], n)
        case "FixedSizeList":
            assert lengths == [n * kind.list_size]
        case "Struct":
            assert lengths == [n] * len(lengths)
        case _:
            assert len(buffers[1]) == n * (kind.index_type if name == "Dictionary" else kind).bit_width // 8


def check_exact(array: Any, node: Any) -> None:
    """One field and all below it; `node` is what the C data interface says of it."""
    kind, buffers, n = array.type, array.buffers(), node.length
    assert array.offset == node.offset == 0
    assert len(array) == n
    if not isinstance(kind, types.Union | types.RunEndEncoded | types.Null) and buffers[0] is not None:
        assert node.null_count == n - check_bitmap(buffers[0], n) > 0
    else:
        assert node.null_count == (n if isinstance(kind, types.Null) else 0)
    below = [node.children[i].contents for i in range(node.n_children)]
    check_buffers(kind, buffers, [child.length for child in below], n)
    for child, its_node in zip(array.children, below, strict=True):
        check_exact(child, its_node)
    if isinstance(kind, types.RunEndEncoded) and n:
        ends = ints(array.children[0].buffers()[1], array.children[0].type.bit_width // 8)
        assert [0, *ends] == sorted({0, *ends})
        assert ends[-1] == n


def check(part: Any, **options: Any) -> Any:
    """What must hold for every batch; returns it, compact."""
    found = compact(part, **options)
    assert found == part
    assert found.schema == part.schema
    assert found.custom_metadata == part.custom_metadata
    root = take(found.__arrow_c_array__()[1], CArray)
    for i, column in enumerate(found.columns):
        check_exact(column, root.children[i].contents)
    release(root)
    # What is compact already stays where it is.
    options["view_waste"] = max(options.get("view_waste", 2.0), 1.0)
    assert addresses(compact(found, **options)) == addresses(found)
    return found


def places(array: Any) -> list[tuple[int, int]]:
    """Where the buffers of an array and of all below it lie: (address, size)."""
    out = [(address(b), len(b)) for b in array.buffers() if b is not None and len(b)]
    for child in array.children:
        out += places(child)
    return out


def addresses(part: Any) -> list[tuple[int, int]]:
    return [place for column in part.columns for place in places(column)]


def copied(found: Any, source: Any) -> list[int]:
    """The sizes of buffers of one batch that are not bytes of the other."""
    whole = addresses(source)
    return [n for at, n in addresses(found) if not any(a <= at and at + n <= a + size for a, size in whole)]


def in_place(found: Any, source: Any) -> bool:
    return not copied(found, source)


def accepted(found: Any, expected: pa.RecordBatch) -> bool:
    """Whether pyarrow finds the rows that it expects, and no fault that it does not find in its own."""
    theirs = pa.record_batch(found)
    try:
        theirs.validate(full=True)
    except pa.ArrowInvalid:
        with pytest.raises(pa.ArrowInvalid, match="non-monotonic"):
            expected.validate(full=True)
    return theirs.equals(expected)


# -- the law -------------------------------------------------------------------------------------------------


# Nulls in list views are cut off; this union does not use all elements of its children.
CHANGED = {name for name in ARRAYS if "list_view" in name} | {"dense_union"}


@pytest.mark.parametrize("name", ARRAYS)
def test_every_slice_of_every_type_is_exact(name: str) -> None:
    """And what is whole already is not copied, unless it is in `CHANGED`."""
    source = pa.record_batch([ARRAYS[name]], names=["x"])
    ours = read_batch(source)
    assert name in CHANGED or in_place(compact(ours), ours)
    before = [bytes(b) for b in ours.column(0).buffers() if b is not None]
    for start, count in spans(ours.num_rows):
        found = check(ours.slice(start, count))
        assert accepted(found, source.slice(start, count)), (start, count)
    assert [bytes(b) for b in ours.column(0).buffers() if b is not None] == before


@given(random_types, st.integers(0, 2**32), st.sampled_from([0, 1, 3, 9, 20, 70]), st.data())
def test_slices_of_random_nested_types_are_exact(kind: Any, seed: int, rows: int, data: Any) -> None:
    source = pa.record_batch([array_of(kind, rows, random.Random(seed))], names=["x"])
    part = read_batch(source)
    for _ in range(data.draw(st.integers(0, 2))):
        start = data.draw(st.integers(0, source.num_rows))
        count = data.draw(st.integers(0, source.num_rows - start))
        part, source = part.slice(start, count), source.slice(start, count)
    waste = data.draw(st.sampled_from([2.0, 0.0]))
    found = check(part, view_waste=waste)
    pa.record_batch(found).validate(full=True)


@pytest.mark.parametrize(
    ("kind", "below", "buffers", "offsets"),
    [
        (forge.UTF8, [], 3, 4),
        (forge.LARGE_UTF8, [], 3, 8),
        (forge.LIST, [forge.INT8], 4, 4),
        (forge.LARGE_LIST, [forge.UTF8], 5, 8),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_no_elements_still_have_one_offset(kind: Table, below: list[Table], buffers: int, offsets: int) -> None:
    """Columnar format: offsets have length + 1 entries. Writers before 1.0 leave the zero out."""
    fields = [field("x", kind, *(field("item", one) for one in below))]
    found = compact(forged(fields, batch(0, [(0, 0)] * (1 + len(below)), [b""] * buffers)))
    assert bytes(found.column(0).buffers()[1]) == bytes(offsets)
    pa.record_batch(found).validate(full=True)


# -- in place ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, 1, 8, 9, 16])
def test_values_of_a_slice_are_not_copied(start: int) -> None:
    """Only offsets are, because they have to begin at 0."""
    rows = range(40)
    texts = [f"text {i}" for i in rows]
    columns = {
        "fixed": pa.array(rows),
        "texts": pa.array(texts),
        "views": pa.array([text * 3 for text in texts], pa.string_view()),
        "lists": pa.array([[i] * 2 for i in rows]),
        "structs": pa.array([{"a": i, "b": str(i)} for i in rows]),
        "pairs": pa.array([[i, i] for i in rows], pa.list_(pa.int16(), 2)),
        "words": pa.array(texts).dictionary_encode(),
    }
    ours = read_batch(pa.record_batch(columns))
    found = check(ours.slice(start, 20))
    for name in columns:
        offsets = [4 * 21] if name in ("texts", "lists", "structs") and start else []
        assert copied(found.select(name), ours.select(name)) == offsets, name


@pytest.mark.parametrize("start", [0, 3, 8, 16, 21])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 63, 64, 65, 100])
def test_bits_are_in_place_at_whole_bytes_with_clean_ends(start: int, length: int) -> None:
    """FORMAT-CHECKLIST 77, 78: what is behind the last bit is nobody's data and never leaves the process."""
    chance = random.Random(start * 1000 + length)
    values = [chance.choice([True, False, None]) for _ in range(200)]
    ours = batch_of_columns(pa.array(values, pa.bool_()))
    part = ours.slice(start, length)
    found = check(part)
    assert found.column(0).to_pylist() == values[start : start + length]
    for number, truth in ((0, [v is not None for v in values]), (1, [bool(v) for v in values])):
        whole, cut = ours.column(0).buffers()[number], found.column(0).buffers()[number]
        if cut is None:
            continue
        behind = bytes(whole)[(start + length - 1) // 8] >> ((start + length - 1) % 8 + 1)
        clean = start % 8 == 0 and (length % 8 == 0 or not behind)
        assert (address(cut) == address(whole) + start // 8) is clean
        if number == 0 or None not in values[start : start + length]:
            assert int.from_bytes(cut, "little") == sum(v << i for i, v in enumerate(truth[start:][:length]))


def test_null_counts_are_counted_and_bitmaps_without_nulls_go() -> None:
    for nulls, valid in ((1, bits(1, 1, 0, 1)), (0, bits(1, 1, 1, 1))):
        found = compact(forged([field("x", forge.INT8)], batch(4, [(4, 3)], [valid, i8(1, 2, 3, 4)]))).column(0)
        assert (found.null_count, found.buffers()[0] is None) == (nulls, not nulls)


def test_whole_runs_in_front_are_not_copied() -> None:
    """FORMAT-CHECKLIST 85."""
    ours = batch_of_columns(pa.RunEndEncodedArray.from_arrays(pa.array([4, 6, 20], pa.int16()), ["a", "b", "c"]))
    assert in_place(check(ours.slice(0, 6)), ours)


@pytest.mark.parametrize(("kind", "ints_of"), [(forge.LIST_VIEW, i32), (Table("LargeListView"), i64)], ids=["32", "64"])
@pytest.mark.parametrize(
    ("lists", "kept"),
    [
        ([(2, 1), (0, 2), (1, 3)], True),
        ([(2, 1), (4, 0), (0, 2)], False),  # an empty list behind what is kept
        ([(0, 2), (2, 0), (0, 1)], True),  # ... at its end
        ([(0, 2), (-1, 0), (0, 1)], False),
        ([(0, 2), (99, 0), (0, 1)], False),
        ([(1, 1), (2, 0), (1, 2)], False),  # the child's first element is not used
        ([(5, 0), (5, 0), (0, 0)], False),
        ([(0, 0), (0, 0), (0, 0)], True),
    ],
)
def test_list_views_point_inside(kind: Table, ints_of: Any, lists: list[Any], kept: bool) -> None:
    buffers = [b"", ints_of(*(o for o, _ in lists)), ints_of(*(s for _, s in lists)), b"", i8(1, 2, 3, 4, 5)]
    ours = forged([field("x", kind, field("item", forge.INT8))], batch(3, [(3, 0), (5, 0)], buffers))
    child = [1, 2, 3, 4, 5]
    found = compact(ours)
    pa.record_batch(found).validate(full=True)
    assert found.column(0).to_pylist() == [child[o : o + s] if s else [] for o, s in lists]
    assert in_place(found, ours) is kept
    width = len(ints_of(0))
    check_list_view(width, found.column(0).buffers(), len(found.column(0).children[0]), 3)


@pytest.mark.parametrize("null", [(0, 2), (1, 9), (-5, 3), (7, -1), (3, 2**31 - 1), (-(2**31), -(2**31))])
def test_null_list_views_may_hold_anything(null: tuple[int, int]) -> None:
    """FORMAT-CHECKLIST 82."""
    o, s = null
    rows = batch(3, [(3, 1), (5, 0)], [bits(1, 0, 1), i32(0, o, 3), i32(2, s, 1), b"", i8(1, 2, 3, 4, 5)])
    ours = forged([field("x", forge.LIST_VIEW, field("item", forge.INT8))], rows)
    for part in (ours, ours.slice(1), ours.slice(1, 1)):
        found = compact(part)
        pa.record_batch(found).validate(full=True)
        check_list_view(4, found.column(0).buffers(), len(found.column(0).children[0]), part.num_rows)
    assert compact(ours).column(0).to_pylist() == [[1, 2], None, [4]]
    assert ints(compact(ours).column(0).buffers()[2], 4) == ([2, 2, 1] if null == (0, 2) else [2, 0, 1])


# -- views ---------------------------------------------------------------------------------------------------


def data_of(part: Any) -> list[bytes]:
    return [bytes(b) for b in part.column(0).buffers()[2:]]


@pytest.mark.parametrize(("beyond", "packed"), [(0, False), (1, True)])
@pytest.mark.parametrize("waste", [2.0, 1.0, 5.5])
def test_views_are_packed_above_the_waste_and_not_at_it(beyond: int, packed: bool, waste: float) -> None:
    """FORMAT-CHECKLIST 81."""
    size = int(waste * 2 * len(LONG)) + 4096 + beyond
    data = (LONG.ljust(1000, b"\0") + LONG).ljust(size, b"\0")
    rows = batch(2, [(2, 0)], [b"", view(LONG) + view(LONG, 0, 1000), data], variadic=[1])
    ours = forged([field("x", forge.UTF8_VIEW)], rows)
    found = check(ours, view_waste=waste)
    assert found.column(0).to_pylist() == [LONG.decode()] * 2
    assert data_of(found) == ([LONG * 2] if packed else data_of(ours))
    assert in_place(found, ours) is not packed


def test_packed_views_are_split_over_buffers() -> None:
    words = [f"{i:04}".encode() * 5 for i in range(50)]
    source = pa.array([w.decode() if i % 7 else None for i, w in enumerate(words)], pa.string_view())
    ours = batch_of_columns(pa.concat_arrays([source, pa.array(["x" * 9000], pa.string_view())]))
    part = ours.slice(0, 50)
    expected = [w for i, w in enumerate(words) if i % 7]
    for most in (1, 19, 20, 21, 59, 60, 1000, 2**31 - 1):
        found = check(part, largest_buffer=most)
        each = max(most // 20, 1)
        assert data_of(found) == [b"".join(expected[i : i + each]) for i in range(0, len(expected), each)]
        assert accepted(found, pa.record_batch([source], names=["c0"]))


def test_null_views_are_zeroed_when_views_are_packed() -> None:
    wild = i32(99, 1, 55, -7)
    buffers = [bits(1, 0, 1), view(LONG) + wild + view(b"short"), LONG + bytes(9000)]
    rows = batch(3, [(3, 1)], buffers, variadic=[1])
    ours = forged([field("x", forge.UTF8_VIEW)], rows)
    for part, row in ((ours, 1), (ours.slice(1), 0)):
        found = check(part)
        assert bytes(found.column(0).buffers()[1])[16 * row : 16 * row + 16] == bytes(16)
        assert sum(map(len, data_of(found))) == (len(LONG) if row else 0)
    kept = compact(ours, view_waste=1e9)
    assert bytes(kept.column(0).buffers()[1])[16:32] == wild


@pytest.mark.parametrize("waste", [2.0, 0.0])
def test_views_that_share_bytes_do_not_multiply_them(waste: float) -> None:
    """A thousand views of one long value: copied one by one they would be a thousand times the buffer."""
    text = b"x" * 100_000
    rows = batch(1000, [(1000, 0)], [b"", view(text) * 1000, text], variadic=[1])
    ours = forged([field("x", forge.UTF8_VIEW)], rows)
    found = check(ours, view_waste=waste)
    assert in_place(found, ours)
    assert found.nbytes == 16_000 + 100_000
    once = check(ours.slice(0, 1), view_waste=waste)
    assert data_of(once) == [text]
    assert in_place(once, ours) is (waste > 0)


@pytest.mark.parametrize(
    ("name", "wrong"), [*[("view_waste", w) for w in (-1, math.nan)], *[("largest_buffer", w) for w in (0, -1, 2**31)]]
)
def test_bad_options_are_refused(name: str, wrong: float) -> None:
    with pytest.raises(UsageError, match=name):
        compact(batch_of(1), **{name: wrong})


def test_rows_that_are_not_there_and_other_columns_are_refused() -> None:
    ours = batch_of(1)
    truncator = Truncator.like(ours)
    for span in ((0, 2), (2, 0), (-1, 1), (0, -1), (1, 2**63 - 1)):
        with pytest.raises(UsageError, match="outside"):
            truncator.rows(ours, *span)
    with pytest.raises(UsageError, match="another reader"):
        truncator.rows(batch_of("text", kind=pa.string()), 0, 1)


# -- untrusted contents --------------------------------------------------------------------------------------


#: Whoever reads values passes over such runs; what is truncated is exact.
EMPTY_RUNS = {
    "a run end of 0": (RUNS, runs(3, 0, 3)),
    "a negative run end": (RUNS, runs(3, -(2**63), 3)),
    "run ends that reach the end twice": (RUNS, runs(5, 9, 1, 9)),
}


@pytest.mark.parametrize("name", BROKEN | EMPTY_RUNS)
def test_broken_contents_are_refused(name: str) -> None:
    """FORMAT-CHECKLIST 72, 80, 82 to 85."""
    part = forged(*(BROKEN | EMPTY_RUNS)[name])
    with pytest.raises(FormatError, match="column 'x"):
        compact(part)


@pytest.mark.parametrize("name", ["offsets past the data", "views of no buffer"])
def test_broken_contents_below_other_types_are_refused(name: str) -> None:
    (inner,), rows = BROKEN[name]
    nodes, spans_ = rows.slots["nodes"], rows.slots["buffers"]
    root = rows.but(nodes=[nodes[0], *nodes], buffers=[(0, 0), *spans_])
    with pytest.raises(FormatError, match=r"column 'x\.x'"):
        compact(forged([field("x", forge.STRUCT, inner)], root))


EDGES = {
    "offsets": (*texts(forge.UTF8, i32(2, 3, 6)), ["c", "def"]),
    "lists": (*lists(LISTS, i32(1, 2)), [[2]]),
    "list views": (*lists(LIST_VIEWS, i32(1), i32(1)), [[2]]),
    "views": (*views(view(b"a" * 20, 0, 5), b"a" * 25), ["a" * 20]),
    "unions": (UNIONS, union(i8(3, 5), i32(1, 2)), [2, None]),
    "run ends": (RUNS, runs(3, 1, 2, 2**63 - 1), [0, 1, 2]),
    "rows in front of broken runs": (RUNS, runs(2, 1, 2, 1), [0, 1]),
}


@pytest.mark.parametrize("name", EDGES)
def test_contents_just_inside_are_taken(name: str) -> None:
    fields, rows, values = EDGES[name]
    part = forged(fields, rows)
    for start, count in spans(len(values)):
        assert compact(part.slice(start, count)).column(0).to_pylist() == values[start : start + count]
