"""Laws of validation: "full" accepts exactly what the format allows, and a refusal names the place."""

import itertools
import random
import re
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from helpers import forge
from helpers.forge import Table, batch, bits, dictionary, encoding, field, i8, i16, i32, i64, int_, schema, stream, view
from helpers.processes import rounds
from helpers.randoms import any_text
from hypothesis import example, given, strategies as st

import arrowipc as ipc
from arrowipc import FormatError

ITEM = field("item", forge.INT16)
LARGE_LIST_VIEW = Table("LargeListView")
LENGTHS = st.integers(0, 70)  # past the longest vector, with every remainder


def verdict(data: bytes, validate: str = "full", **options: Any) -> str | None:
    """None when the stream reads, else what its refusal says."""
    try:
        with ipc.open_stream(data, validate=validate, **options) as reader:
            list(reader)
    except FormatError as error:
        return str(error)
    return None


def holds(good: bool, data: bytes, where: str = "", **options: Any) -> None:
    said = verdict(data, **options)
    assert (said is None) == good, said
    if not good:
        assert re.search(where, said or ""), f"{where!r} not in {said!r}"


def mutated(values: Sequence[int], changes: Sequence[tuple[int, int]]) -> list[int]:
    """`values` with some places overwritten; a place beyond the end is reduced into it."""
    out = list(values)
    for place, value in changes:
        if out:
            out[place % len(out)] = value
    return out


def changes(bits_: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    top = 1 << (bits_ - 1)
    extremes = st.one_of(st.integers(-3, 80), st.sampled_from([-top, top - 1, 1 - top, top // 2, -top // 2]))
    return st.lists(st.tuples(st.integers(0, 80), extremes), max_size=2)


def stream_of(kind: Table, rows: Table, *children: Table) -> bytes:
    """A stream of one column."""
    return stream(schema(field("x", kind, *children)), rows)


def with_offsets(kind: Table, offsets: bytes, n: int, size: int) -> bytes:
    """A stream of `n` values with these offsets; there are `size` bytes or elements."""
    if "List" in kind.kind:
        return stream_of(kind, batch(n, [(n, 0), (size, 0)], [b"", offsets, b"", bytes(2 * size)]), ITEM)
    return stream_of(kind, batch(n, [(n, 0)], [b"", offsets, bytes(size)]))


@pytest.mark.parametrize("kind", ["Binary", "Utf8", "List", "LargeBinary", "LargeUtf8", "LargeList"])
@given(n=LENGTHS, step=st.integers(0, 2), start=st.integers(0, 3), data=st.data())
def test_072_offsets_rise_inside_the_data(kind, n, step, start, data):
    pack, width = (i64, 64) if "Large" in kind else (i32, 32)
    offsets = mutated([start + step * i for i in range(n + 1)], data.draw(changes(width)))
    size = data.draw(st.sampled_from([start + step * n, start + step * n + 5]))
    bad = next((i for i, (a, b) in enumerate(itertools.pairwise([0, *offsets])) if not a <= b <= size), None)
    holds(bad is None, with_offsets(Table(kind), pack(*offsets), n, size), rf"offset {bad} is {offsets[bad or 0]}\b")


# Text.


def is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


# Every class of byte that RFC 3629 tells apart, at both of its edges.
EDGES = bytes.fromhex("00417f808f909fa0bfc0c1c2dfe0e1ecedeeeff0f1f3f4f5ff")
pieces = st.one_of(
    st.binary(max_size=4),
    st.lists(st.sampled_from(list(EDGES)), max_size=4).map(bytes),
    any_text(max_size=6).map(str.encode),
    st.sampled_from([b"", b"a" * 15, "é".encode(), "漢".encode(), "😀".encode(), b"\xc3", b"\xa9", b"\xed\xa0\x80"]),
)


def strings(kind: Table, values: Sequence[bytes | None], hidden: bytes = b"") -> bytes:
    """A stream of one text column; `hidden` lies under each null."""
    stored = [hidden if value is None else value for value in values]
    ends = [0]
    for value in stored:
        ends.append(ends[-1] + len(value))
    nulls = values.count(None)
    valid = bits(*[value is not None for value in values]) if nulls else b""
    offsets = (i32 if kind is forge.UTF8 else i64)(*ends)
    return stream_of(kind, batch(len(values), [(len(values), nulls)], [valid, offsets, b"".join(stored)]))


@pytest.mark.parametrize("kind", [forge.UTF8, forge.LARGE_UTF8], ids=["utf8", "large utf8"])
@given(values=st.lists(st.one_of(pieces, st.none()), max_size=20), hidden=st.sampled_from([b"", b"\xff", b"\xa9x"]))
@example(values=["é".encode()[:1], "é".encode()[1:]], hidden=b"")
@example(values=["é".encode()[:1], b"", "é".encode()[1:]], hidden=b"")
@example(values=["漢".encode(), b"", b""], hidden=b"")
@example(values=[b"a" * 1023, "é".encode(), b"b" * 1022, "漢".encode()[:2]], hidden=b"")
@example(values=[b"a" * 1023 + "é".encode() + b"b" * 1023 + "😀".encode() + b"c"], hidden=b"")
@example(values=[None, b"ok", None], hidden=b"\xff")
def test_072_text_is_utf8_string_by_string(kind, values, hidden):
    wrong = [i for i, value in enumerate(values) if value is not None and not is_text(value)]
    holds(not wrong, strings(kind, values, hidden), f"value {wrong[0]} is not UTF-8" if wrong else "")


@pytest.mark.parametrize("behind", [0, 200])  # with so much behind it, a sequence is looked at by vectors
@pytest.mark.campaign
@pytest.mark.parametrize("before", rounds([0, 131], [0, 1, 129, 130, 131, 1022, 1023]))
def test_072_every_short_sequence_of_edges(before, behind):
    """All pairs, and triples and quadruples behind a lead byte, at the borders of the blocks tested."""
    pad = "é" * (before // 2) + "a" * (before % 2)
    rest = b"b" * behind
    leads = [b for b in EDGES if b >= 0xE0]
    sequences = [bytes((a, b)) for a in EDGES for b in EDGES]
    sequences += [bytes((a, b, c)) for a in leads for b in EDGES for c in (0x41, 0x80, 0xBF, 0xC2)]
    sequences += [bytes((a, b, c, 0xBF)) for a in leads for b in (0x80, 0x8F, 0x90, 0xBF) for c in (0x41, 0x80)]
    for sequence in random.Random(before).sample(sequences, min(rounds(200, 2_000), len(sequences))):
        holds(is_text(sequence), strings(forge.UTF8, [pad.encode(), sequence, rest]), "value 1 is not UTF-8")


@pytest.mark.parametrize("words", ["Zürich 東京 😀 ", "é" * 9, "plain words only", "é" + 200 * "a", "é" + 200 * "1"])
def test_072_one_byte_that_differs_at_every_place_of_a_long_text(words):
    whole = (words * 40).encode()[:600].decode(errors="ignore").encode()
    others = (0x41, 0x80, 0xBF, 0xC0, 0xC3, 0xE0, 0xED, 0xF4, 0xFF)
    changes = list(itertools.product(range(0, len(whole), 5), others))
    for place, byte in random.Random(words).sample(changes, min(rounds(200, 2_000), len(changes))):
        text = whole[:place] + bytes([byte]) + whole[place + 1 :]
        holds(is_text(text), strings(forge.UTF8, [text]), "value 0 is not UTF-8")


@pytest.mark.parametrize("kind", [forge.UTF8, forge.LARGE_UTF8], ids=["utf8", "large utf8"])
def test_072_an_offset_into_a_character_at_every_place(kind):
    """Nine strings and the parts of a character: four offsets are looked at together, the rest one by one."""
    for place in range(9):
        for cut in range(4):
            values = ["é漢".encode()] * 9
            values[place : place + 1] = "😀".encode()[:cut], "😀".encode()[cut:]
            holds(cut == 0, strings(kind, values), f"value {place} is not UTF-8")


def test_large_batches_are_validated_by_several_threads_with_the_same_verdict(monkeypatch):
    """The first field that breaks a rule is named, whoever found which one first."""
    from arrowipc import codecs

    calls: list[int] = []
    run_shared = codecs.run_shared
    monkeypatch.setattr(codecs, "run_shared", lambda run, n: (calls.append(n), run_shared(run, n)))
    texts = [f"mark{i}".encode() + "größe ".encode() * 300_000 for i in range(4)]
    ends = [i32(0, len(text)) for text in texts]
    buffers = [each for i in range(4) for each in (b"", ends[i], texts[i])]
    data = stream(schema(*[field(f"s{i}", forge.UTF8) for i in range(4)]), batch(1, [(1, 0)] * 4, buffers))
    for broken in (0, 1, 6, 8, 15):
        spoilt = data
        for i in range(4):
            if broken >> i & 1:
                spoilt = spoilt.replace(f"mark{i}".encode(), b"mark\xff")
        said = {
            verdict(spoilt, level, use_threads=threads) for level in ("full", "strict") for threads in (True, False)
        }
        assert len(said) == 1
        first = next((i for i in range(4) if broken >> i & 1), None)
        assert (f"column 's{first}'" in (said.pop() or "")) == bool(broken)
    assert calls == [4] * 10


# Views.


def view_column(
    views: bytes, n: int, *buffers: bytes, kind: Table = forge.UTF8_VIEW, nulls: Sequence[int] = ()
) -> bytes:
    valid = bits(*[i not in nulls for i in range(n)]) if nulls else b""
    return stream_of(kind, batch(n, [(n, len(nulls))], [valid, views, *buffers], variadic=[len(buffers)]))


TEXTS = ["plain text, long enough for a buffer", "漢字仮名交じり文 and then some", "é" * 30]


@given(
    cuts=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 60)), max_size=12),
    spoil=st.booleans(),
)
@example(cuts=[(1, 1, 20)], spoil=False)
@example(cuts=[(1, 0, 19)], spoil=False)
def test_080_view_text_is_utf8_view_by_view(cuts, spoil):
    buffers = [text.encode() for text in TEXTS]
    if spoil:
        # A buffer may hold other things beside its texts.
        buffers = [text + b"\xff" for text in buffers]
    packed, wrong = b"", []
    for i, (b, start, size) in enumerate(cuts):
        start = min(start, len(buffers[b]))
        value = buffers[b][start : start + size]
        packed += view(value, b, start)
        if not is_text(value):
            wrong.append(i)
    said = f"value {wrong[0]} is not UTF-8" if wrong else ""
    holds(not wrong, view_column(packed, len(cuts), *buffers), said)
    holds(True, view_column(packed, len(cuts), *buffers, kind=Table("BinaryView")))
    holds(True, view_column(packed, len(cuts), *buffers, nulls=wrong))


def test_080_many_views_of_one_buffer_stay_linear():
    """80 GB of text by repetition, in a stream of 4 MiB: each buffer is looked at once."""
    text = "é".encode() * (2 << 20)
    views = view(text) * 20_000
    holds(True, view_column(views, 20_000, text))
    holds(False, view_column(views + view(text[1:21], 0, 1), 20_001, text), "value 20000")
    # A buffer that is not text as a whole is read view by view, and not for ever.
    holds(False, view_column(views, 20_000, text + b"\xff"), "views share more text")
    short = view(text[:40]) * 200_000
    holds(True, view_column(short, 200_000, text[:64] + b"\xff"))


@pytest.mark.parametrize("wide", [False, True], ids=["list view", "large list view"])
@given(n=LENGTHS, length=st.integers(0, 80), data=st.data())
def test_082_list_views_lie_in_the_child(wide, n, length, data):
    pack, width, kind = (i64, 64, LARGE_LIST_VIEW) if wide else (i32, 32, forge.LIST_VIEW)
    offsets = mutated([i % (length + 1) for i in range(n)], data.draw(changes(width)))
    sizes = mutated([length - i % (length + 1) for i in range(n)], data.draw(changes(width)))
    nulls = data.draw(st.sets(st.integers(0, n - 1))) if n else set()
    bad = [i for i in range(n) if offsets[i] < 0 or sizes[i] < 0 or offsets[i] + sizes[i] > length]
    valid = bits(*[i not in nulls for i in range(n)])
    buffers = [valid if nulls else b"", pack(*offsets), pack(*sizes), b"", bytes(2 * length)]
    rows = batch(n, [(n, len(nulls)), (length, 0)], buffers)
    # Null lists must lie in the child too (Columnar format, "ListView Layout").
    holds(not bad, stream_of(kind, rows, ITEM), f"list {bad[0]}:" if bad else "")


def test_082_an_offset_and_a_size_that_overflow_together_are_outside():
    most = 2**63 - 1
    rows = batch(1, [(1, 0), (0, 0)], [b"", i64(most), i64(most), b"", b""])
    holds(False, stream_of(LARGE_LIST_VIEW, rows, ITEM), "list 0:")


# Unions.

TYPE_CODES = [5, 0, 127]


def union(mode: int, codes: Sequence[int], offsets: Sequence[int], lengths: Sequence[int]) -> bytes:
    kind = Table("Union", mode=mode, typeIds=TYPE_CODES)
    children = [field(name, forge.INT16) for name in "abc"]
    placed = [i32(*offsets)] if mode else []
    below = [part for n in lengths for part in (b"", bytes(2 * n))]
    nodes = [(len(codes), 0), *((n, 0) for n in lengths)]
    return stream_of(kind, batch(len(codes), nodes, [i8(*codes), *placed, *below]), *children)


@given(codes=st.lists(st.sampled_from(TYPE_CODES), max_size=70), change=changes(8))
def test_084_sparse_codes_name_children(codes, change):
    codes = mutated(codes, [(place, (value + 128) % 256 - 128) for place, value in change])
    bad = [i for i, code in enumerate(codes) if code not in TYPE_CODES]
    said = f"type code {codes[bad[0]]} of value {bad[0]}" if bad else ""
    holds(not bad, union(0, codes, (), [len(codes)] * 3), said)


@given(
    rows=st.lists(st.tuples(st.sampled_from(TYPE_CODES), st.integers(0, 2)), max_size=40),
    change=changes(32),
    codes_too=st.booleans(),
)
@example(rows=[(5, 0)], change=[(0, 3)], codes_too=False)
@example(rows=[(127, 0), (5, 2)], change=[(0, 1)], codes_too=False)
def test_083_dense_offsets_lie_in_their_child(rows, change, codes_too):
    lengths = dict(zip(TYPE_CODES, (3, 70, 1), strict=True))
    codes = [code for code, _ in rows]
    offsets = mutated([min(at, lengths[code] - 1) for code, at in rows], change)
    if codes_too and codes:
        codes[-1] = 7
    bad = [i for i, (c, at) in enumerate(zip(codes, offsets, strict=True)) if not 0 <= at < lengths.get(c, 0)]
    holds(not bad, union(1, codes, offsets, list(lengths.values())), f"value {bad[0]} " if bad else "")


@pytest.mark.parametrize("width", [16, 32, 64])
@given(steps=st.lists(st.integers(1, 3), max_size=40), data=st.data())
def test_085_run_ends_rise_and_cover(width, steps, data):
    pack = {16: i16, 32: i32, 64: i64}[width]
    ends = [sum(steps[: i + 1]) for i in range(len(steps))]
    length = data.draw(st.integers(0, sum(steps) + 1))
    ends = mutated(ends, data.draw(changes(width)))
    rising = all(b > a for a, b in zip([0, *ends], ends, strict=False))
    good = rising and (ends[-1] if ends else 0) >= length
    rows = batch(length, [(length, 0), (len(ends), 0), (len(ends), 0)], [b"", pack(*ends), b"", bytes(2 * len(ends))])
    below = field("run_ends", int_(width), nullable=False), field("values", forge.INT16)
    holds(good, stream_of(forge.REE, rows, *below), "run end")


# Dictionary indices.


@pytest.mark.parametrize("code", "bhiqBHIQ")
@given(data=st.data())
def test_102_indices_of_valid_slots_lie_in_the_dictionary(code, data):
    width, signed = 8 * struct.calcsize(f"<{code}"), code.islower()
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    n, words = data.draw(LENGTHS), data.draw(st.sampled_from([0, 1, 5]))
    value = st.one_of(
        st.integers(0, max(0, words - 1)), st.sampled_from([low, high, high // 2 + 1, words, max(low, -1)])
    )
    plain = [i % words if words else 0 for i in range(n)]
    indices = mutated(plain, data.draw(st.lists(st.tuples(st.integers(0, 80), value), max_size=2)))
    wrong = {i for i in range(n) if not 0 <= indices[i] < words}
    some = data.draw(st.sets(st.integers(0, 70))) & set(range(n))
    nulls = data.draw(st.sampled_from([set(), set(range(n)), wrong, some, set(range(n)) - wrong]))
    bad = [i for i, index in enumerate(indices) if i not in nulls and not 0 <= index < words]
    valid = bits(*[i not in nulls for i in range(n)]) if nulls else b""
    rows = batch(n, [(n, len(nulls))], [valid, forge.packed(code, *indices)])
    column = schema(field("d", forge.INT64, dictionary=encoding(0, int_(width, signed))))
    values = dictionary(0, batch(words, [(words, 0)], [b"", bytes(8 * words)]))
    holds(not bad, stream(column, values, rows), rf"\(row {bad[0]}\)" if bad else "")
    if not bad:
        # The same rows before their dictionary has come: fine as long as all are null (case 93).
        holds(len(nulls) == n, stream(column, rows), "dictionary 0 has not arrived")


def test_102_indices_inside_a_dictionary():
    """They are summed up as a range when the dictionary arrives; null slots are not part of it."""
    inner = field("x", forge.INT64, dictionary=encoding(2, forge.INT16))
    column = schema(field("d", forge.STRUCT, inner, dictionary=encoding(1, forge.INT16)))
    letters = dictionary(2, batch(2, [(2, 0)], [b"", i64(7, 8)]))
    rows, n = batch(1, [(1, 0)], [b"", i16(0)]), 20
    for place in range(n):
        indices = i16(*[99 if i == place else 1 for i in range(n)])
        hidden = batch(n, [(n, 0), (n, 1)], [b"", bits(*[i != place for i in range(n)]), indices])
        holds(True, stream(column, letters, dictionary(1, hidden), rows))
        alone = batch(n, [(n, 0), (n, n - 1)], [b"", bits(*[i == place for i in range(n)]), indices])
        holds(False, stream(column, letters, dictionary(1, alone), rows), "index 99")


# Value domains.

STEPS = {32: (1, 9), 64: (10, 18), 128: (19, 38), 256: (39, 76)}


@pytest.mark.parametrize("width", STEPS)
def test_strict_decimals_fit_their_precision(width):
    def column(precision: int, *values: int, valid: bytes = b"") -> bytes:
        kind = Table("Decimal", precision=precision, scale=0, bitWidth=width)
        data = b"".join(value.to_bytes(width // 8, "little", signed=True) for value in values)
        return stream_of(kind, batch(len(values), [(len(values), 1 if valid else 0)], [valid, data]))

    for precision in (1, *STEPS[width]):
        most = 10**precision - 1
        holds(True, column(precision, 0, most, -most, -1, 1), validate="strict")
        for wrong in (most + 1, -most - 1, -(1 << width - 1), (1 << width - 1) - 1):
            holds(True, column(precision, 0, wrong))
            holds(False, column(precision, 0, wrong), "value 1 has more digits", validate="strict")
            holds(True, column(precision, 0, wrong, valid=bits(1, 0)), validate="strict")


@pytest.mark.parametrize(("unit", "width"), [(0, 32), (1, 32), (2, 64), (3, 64)])
def test_strict_times_lie_in_a_day(unit, width):
    kind, day = Table("Time", unit=unit, bitWidth=width), 86_400 * 1000**unit
    pack = i32 if width == 32 else i64

    def column(*values: int) -> bytes:
        return stream_of(kind, batch(len(values), [(len(values), 0)], [b"", pack(*values)]))

    holds(True, column(0, day - 1), validate="strict")
    for wrong in (day, -1, -(1 << width - 1)):
        holds(True, column(0, wrong))
        holds(False, column(0, wrong), "value 1 is", validate="strict")


@given(valid=st.lists(st.booleans(), min_size=1, max_size=70), claim=st.integers(0, 70))
def test_strict_null_count_is_exact(valid, claim):
    n, nulls = len(valid), valid.count(False)
    claim = min(claim, n)
    rows = batch(n, [(n, claim)], [bits(*valid), bytes(4 * n)])
    holds(True, stream_of(forge.INT32, rows))
    # Zero means that the bitmap is not looked at.
    holds(claim in (0, nulls), stream_of(forge.INT32, rows), "null_count", validate="strict")


def test_strict_nulls_of_required_fields():
    required = field("x", forge.INT32, nullable=False)
    data = stream(schema(required), batch(2, [(2, 1)], [bits(1, 0), i32(1, 2)]))
    holds(False, data, "not nullable", validate="strict")
    holds(True, data)
    # What a null struct or list covers is nobody's null.
    pairs = Table("FixedSizeList", listSize=2)
    for above, good in ((bits(1, 0), True), (bits(0, 1), False)):
        structs = batch(2, [(2, 1), (2, 1)], [above, bits(1, 0), i32(1, 2)])
        holds(good, stream_of(forge.STRUCT, structs, required), "not nullable", validate="strict")
        lists = batch(2, [(2, 1), (4, 2)], [above, bits(1, 1, 0, 0), i32(1, 2, 3, 4)])
        holds(good, stream_of(pairs, lists, required), "not nullable", validate="strict")


def test_none_proves_structure_only():
    for data in (
        with_offsets(forge.UTF8, i32(0, 9), 1, 2),
        strings(forge.UTF8, [b"\xff"]),
        view_column(view(b"", length=-1), 1),
        union(1, [9], [0], [1, 1, 1]),
    ):
        holds(True, data, validate="none")
        holds(False, data)
