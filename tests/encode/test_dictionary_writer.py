"""Dictionaries on their way out: whoever reads what goes out before a batch finds the values of the batch."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import forge
from helpers.arrays import batch_of_columns, pyarrow_bytes, read_by_pyarrow
from helpers.forge import INT8, UTF8, encoding, field, i8, i32, stream
from helpers.processes import rounds
from helpers.randoms import LONG, plans
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import FormatError, UsageError, types
from arrowipc.events import BatchRead, DictionaryRead

WORDS = pa.dictionary(pa.int8(), pa.string())
SHARED = ipc.types.schema(
    [(name, types.Dictionary(types.Int(8, True), types.Utf8(), False, 0)) for name in ("c0", "c1")]
)
STREAMS = [{}, {"deltas": True}, {"unify": True}, {"deltas": True, "unify": True}]
INDICES = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
FILES = [{"file": True, **options} for options in STREAMS]


def column(indices: Sequence[int | None], values: Iterable[Any], kind: pa.DictionaryType = WORDS) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, kind.index_type), pa.array(values, kind.value_type))


def words(indices: Sequence[int | None], values: Iterable[str | None]) -> ipc.RecordBatch:
    """One column of words; each batch comes from a reader of its own."""
    return batch_of_columns(column(indices, values))


Made = list[tuple[int, bool, bool, int]]


class Out:
    """A writer into memory; what its bytes say goes out before each batch, and the batch as a reader finds it."""

    def __init__(
        self, root: ipc.Schema, *, file: bool = False, deltas: bool | None = None, unify: bool = False
    ) -> None:
        self.sink = bytearray()
        opener = ipc.new_file if file else ipc.new_stream
        self.writer = opener(self.sink, root, dictionary_deltas=deltas, unify_dictionaries=unify)
        self.file = file
        self.decoder = ipc.StreamDecoder(validate="none")
        self.fed = 8 if file else 0
        self.lengths: dict[int, int] = {}
        self.events()

    def events(self) -> list[Any]:
        """What a reader finds in the bytes that are new."""
        self.decoder.feed(bytes(self.sink[self.fed :]))
        self.fed = len(self.sink)
        return list(self.decoder)

    def decide(self, one: ipc.RecordBatch) -> tuple[Made, ipc.RecordBatch]:
        """Write a batch; return (id, is_delta, replaces, values that are new) of each dictionary, and the batch."""
        self.writer.write_batch(one)
        *dictionaries, read = self.events()
        return self.made(dictionaries), read.batch

    def made(self, dictionaries: list[Any]) -> Made:
        out = []
        for one in dictionaries:
            before = self.lengths.get(one.id)
            known = before if one.is_delta and before is not None else 0
            out.append((one.id, one.is_delta, before is not None and not one.is_delta, one.length - known))
            self.lengths[one.id] = one.length
        return out

    def close(self) -> Made:
        """The same of what goes out at the end."""
        self.writer.close()
        last = self.events()
        if not self.file:
            assert [type(one).__name__ for one in last] == ["EndOfStream"]
        return self.made([one for one in last if isinstance(one, DictionaryRead)])


def writer(like: ipc.RecordBatch, **options: bool) -> Out:
    return Out(like.schema, **options)


def whole(values: Sequence[Any], id: int = 0, is_delta: bool = False, replaces: bool = False) -> tuple[Any, ...]:
    return (id, is_delta, replaces, len(values))


again, delta = partial(whole, replaces=True), partial(whole, is_delta=True)


def sent(out: Out, *batches: ipc.RecordBatch) -> list[list[tuple[Any, ...]]]:
    return [out.decide(one)[0] for one in batches]


def indices(found: ipc.RecordBatch, i: int = 0) -> list[int | None]:
    return pa.array(found.column(i)).indices.to_pylist()


def below(kind: Any) -> dict[int, set[int]]:
    """Every dictionary type in a type, by id: which ids its values refer to."""
    found: dict[int, set[int]] = {}
    if isinstance(kind, types.Dictionary):
        inner = below(kind.value_type)
        found = {kind.dictionary_id: set(inner), **inner}
    elif isinstance(kind, types.List):
        found = below(kind.value_field.type)
    elif isinstance(kind, types.Struct):
        for one in kind.fields:
            found |= below(one.type)
    return found


def rows(one: ipc.RecordBatch) -> list[str]:
    return [repr(one.column(i).to_pylist()) for i in range(one.num_columns)]


def check(batches: Sequence[ipc.RecordBatch], root: ipc.Schema | None = None, **options: bool) -> None:
    """The law; a batch that is refused (in files) leaves everything as it was."""
    out = Out(root or batches[0].schema, **options)
    expected = []
    for one in batches:
        try:
            out.writer.write_batch(one)
        except UsageError:
            assert options.get("file")
            assert not options.get("unify")
            assert expected, "nothing is there that the first batch could contradict"
            continue
        before = len(out.sink)
        out.writer.write_batch(one)
        assert [each.kind for each in ipc.MessageReader(bytes(out.sink[before:]))] == ["RecordBatch"]
        expected += [rows(one)] * 2
    out.writer.close()
    if out.file:
        with ipc.open_file(out.sink) as reader:
            assert [rows(one) for one in reader] == expected
    inner: dict[int, set[int]] = {}
    for field_ in out.writer.schema:
        inner |= below(field_.type)
    seen: set[int] = set()
    found = []
    for event in out.events():
        if isinstance(event, DictionaryRead):
            assert event.id in seen or not event.is_delta
            assert not (out.file and event.id in seen and not event.is_delta), "a file cannot replace a dictionary"
            assert event.length == 0 or inner[event.id] <= seen, "outer before inner"
            seen.add(event.id)
        elif isinstance(event, BatchRead):
            assert out.file or seen == set(inner), "every id has a dictionary before the first batch"
            found.append(event.batch)
    assert not expected or seen == set(inner)
    if not out.file:
        assert [rows(one) for one in found] == expected


# -- the law -------------------------------------------------------------------------------------------------


def evolved(values: list[Any], fresh: Callable[[], Any], chance: random.Random) -> list[Any]:
    """The next version of a dictionary: the same, longer, shorter, other or empty."""
    turn = chance.choice(["same", "longer", "longer", "shorter", "other", "empty"])
    if turn == "longer":
        return values + [fresh() for _ in range(chance.randint(0, 3))]
    if turn == "shorter":
        return values[: chance.randint(0, len(values))]
    return values if turn == "same" else [fresh() for _ in range(chance.randint(0, 4) if turn == "other" else 0)]


def some_batches(kind: pa.DataType, pool: list[Any], chance: random.Random) -> list[Any]:
    """Batches with versions of a dictionary."""
    parts, values = [], chance.choices(pool, k=chance.randint(0, 4))
    coded, most = pa.dictionary(chance.choice(INDICES), kind), chance.choice([5, 5, 5, 200])
    for _ in range(chance.randint(1, 6)):
        values = evolved(values, lambda: chance.choice(pool), chance)
        rows = [
            chance.choice([None, chance.randrange(len(values))]) if values else None
            for _ in range(chance.randint(0, most))
        ]
        parts.append(column(rows, values, coded))
    return parts


@pytest.mark.parametrize("options", [*STREAMS, *FILES], ids=str)
@given(plans)
def test_the_reader_finds_the_values_of_every_batch(options: dict[str, bool], plan: Any) -> None:
    """Each batch comes from a reader of its own, and then all from one reader."""
    (kind, pool), seed = plan
    chance = random.Random(seed)
    parts = some_batches(kind, pool, chance)
    check([batch_of_columns(one) for one in parts], **options)
    batches = [pa.record_batch([one], names=["c"]) for one in parts]
    found = list(ipc.open_stream(pyarrow_bytes(batches, emit_dictionary_deltas=chance.random() < 0.5)))
    check([one.slice(chance.randint(0, 2)) for one in found], **options)


def lists(rows: Sequence[int | None], outer: Sequence[Any], inner: Sequence[Any]) -> pa.Array:
    """A dictionary of lists of words that have a dictionary of their own; `outer` holds inner indices."""
    ends = [sum(len(one or ()) for one in outer[:i]) for i in range(len(outer) + 1)]
    items = column([at for one in outer for at in one or ()], inner)
    mask = pa.array([one is None for one in outer], pa.bool_())
    values = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, mask=mask if len(outer) else None)
    return pa.DictionaryArray.from_arrays(pa.array(rows, pa.int8()), values)


def pairs(rows: Sequence[int | None], outer: Sequence[tuple[int, int]], a: Sequence[Any], b: Sequence[Any]) -> pa.Array:
    """A dictionary of structs with two encoded fields."""
    left, right = column([one[0] for one in outer], a), column([one[1] for one in outer], b)
    values = pa.StructArray.from_arrays([left, right], names=["a", "b"])
    return pa.DictionaryArray.from_arrays(pa.array(rows, pa.int16()), values)


def nested_parts(chance: random.Random) -> list[list[pa.Array]]:
    """Columns of batches, whose dictionaries have dictionaries inside, at least one."""
    word = lambda: chance.choice(["a", "b", None, "c", LONG])  # noqa: E731
    inner: list[Any] = [word()]
    outer: list[Any] = []
    both: list[Any] = []
    parts = []
    for _ in range(chance.randint(1, 5)):
        inner = evolved(inner, word, chance)
        at = lambda: chance.choice([None, chance.randrange(len(inner))] if inner else [None])  # noqa: E731, B023
        cut = [one for one in outer if not any(i is not None and i >= len(inner) for i in one or ())]
        outer = evolved(cut, lambda: chance.choice([None, [], [at()], [at(), at()]]), chance)  # noqa: B023
        cut = [one for one in both if not any(i is not None and i >= len(inner) for i in one)]
        both = evolved(cut, lambda: (at(), at()), chance)  # noqa: B023
        rows = [chance.choice([None, chance.randrange(len(outer))] if outer else [None]) for _ in range(3)]
        more = [chance.choice([None, chance.randrange(len(both))] if both else [None]) for _ in range(3)]
        shuffled = chance.sample(range(len(inner)), len(inner))
        b = [inner[i] for i in shuffled]
        both_b = [(x, None if y is None else shuffled.index(y)) for x, y in both]
        parts.append([lists(rows, outer, inner), pairs(more, both_b, inner, b)])
    return parts


@pytest.mark.parametrize("options", [*STREAMS, *FILES], ids=str)
@given(st.integers(0, 2**32))
def test_the_law_holds_for_nested_dictionaries(options: dict[str, bool], seed: int) -> None:
    """099: inner before outer, and the outer refers to the inner as the reader holds it."""
    check([batch_of_columns(*columns) for columns in nested_parts(random.Random(seed))], **options)


def flat_parts(chance: random.Random) -> list[list[pa.Array]]:
    """Columns of batches, with two dictionaries that begin empty or not, and grow, shrink and change."""
    word = lambda: chance.choice(["a", "b", None, "c", LONG])  # noqa: E731
    versions: list[list[Any]] = [[word() for _ in range(chance.choice([0, 0, 2]))] for _ in range(2)]
    parts = []
    for _ in range(chance.randint(1, 5)):
        count = chance.choice([0, 1, 3])
        columns = []
        for values in versions:
            rows = [chance.choice([None, chance.randrange(len(values))] if values else [None]) for _ in range(count)]
            columns.append(column(rows, values))
        parts.append(columns)
        versions = [evolved(values, word, chance) for values in versions]
    return parts


def written(path: Path, kind: str, append: bool, like: Any, batches: Iterable[Any], **options: Any) -> list[list[str]]:
    """What a writer took of some batches; one that is refused, or a writer that is, changes nothing."""
    taken = []
    before = path.read_bytes() if path.exists() else None
    try:
        with (ipc.new_file if kind == "file" else ipc.new_stream)(path, like, append=append, **options) as out:
            for one in batches:
                with suppress(UsageError):
                    out.write(one)
                    taken.append(rows(one))
    except UsageError:
        assert not taken
        assert (path.read_bytes() if path.exists() else None) == before
    return taken


@pytest.mark.campaign
@pytest.mark.parametrize("shape", ["flat", "shared", "nested"])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_whatever_is_there_is_continued_so_that_all_readers_find_every_batch(tmp_path, kind, shape) -> None:
    """Random histories: who wrote first and how, and who appended how; each state is read by pyarrow and by us."""
    how = [
        {"dictionary_deltas": deltas, "unify_dictionaries": unify}
        for deltas in (None, False, True)
        for unify in (False, True)
    ]
    seen: Counter[str] = Counter()
    for seed in range(rounds(60, 3000)):
        chance, path = random.Random(f"{kind} {shape} {seed}"), tmp_path / f"{seed}"
        parts = nested_parts(chance) if shape == "nested" else flat_parts(chance)
        batches = [batch_of_columns(*columns) for columns in parts]
        like = SHARED if shape == "shared" else batches[0].schema
        first = chance.choice(["pyarrow", "ours", "nothing"])
        expected: list[list[str]] = []
        if first == "pyarrow" and shape != "shared":
            names, cut = [f"c{i}" for i in range(len(parts[0]))], chance.randint(0, 1)
            tables = [pa.record_batch(columns, names=names) for columns in parts[:cut]]
            path.write_bytes(pyarrow_bytes(tables, kind, pa.record_batch(parts[0], names=names).schema))
            expected += [rows(one) for one in batches[:cut]]
            del batches[:cut]
        elif first == "ours":
            cut = chance.randint(0, 2)
            options = {"checksum": chance.random() < 0.3, "durable": False, **chance.choice(how)}
            expected += written(path, kind, False, like, batches[:cut], **options)
            del batches[:cut]
        while batches:
            cut = chance.randint(0, 2)
            data = path.read_bytes() if path.exists() else b""
            torn = data[: len(data) - chance.randint(0, 8)] if kind == "stream" else data  # without its end marker
            if data:
                path.write_bytes(torn)
            added = written(path, kind, True, like, batches[:cut], durable=False, **chance.choice(how))
            if data and path.read_bytes() == torn:
                path.write_bytes(data)
            expected += added
            seen["taken"] += len(added)
            del batches[:cut]
            if not path.exists():
                continue
            with ipc.open(path, validate="strict", verify=None) as reader:
                assert [rows(one) for one in reader] == expected, seed
            seen["read"] += 1
            report = ipc.validate(path)
            assert report.ok, (seed, report)
            if shape != "nested":  # with checksums, others see a last batch without rows
                found = read_by_pyarrow(path.read_bytes(), kind)[1]
                texts = [[repr(one.to_pylist()) for one in batch.columns] for batch in found]
                assert texts in (expected, [*expected, ["[]", "[]"]]), seed
    print(seen)
    assert seen["taken"] > rounds(60, 3000) / 2, seen


# -- the rules, one by one -----------------------------------------------------------------------------------


def test_100_equal_values_need_nothing_wherever_they_lie():
    out = writer(words([0], ["a", "b"]), file=True)
    assert sent(out, words([0], ["a", "b"]), words([1], ["a", "b"]), words([0], ["a"])) == [
        [whole(["a", "b"])],
        [],
        [],
    ]
    assert sent(out, words([1], ["a", "b"])) == [[]]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64(), pa.list_(pa.float64())], ids=str)
@pytest.mark.parametrize("options", [{"deltas": True}, {"deltas": True, "unify": True}], ids=str)
def test_100_nan_equals_nan_and_minus_zero_is_no_zero(kind, options):
    nested = pa.types.is_list(kind)
    coded = pa.dictionary(pa.int8(), kind)

    def floats(*values):
        return batch_of_columns(column([0], [[v] for v in values] if nested else values, coded))

    out = writer(floats(1.0), **options)
    assert sent(out, floats(math.nan, 0.0), floats(-math.nan, 0.0)) == [[whole([math.nan, 0.0])], []]
    made, found = out.decide(floats(math.nan, -0.0))
    assert made == [delta([-0.0]) if "unify" in options else again([math.nan, -0.0])]
    assert "-0.0" in repr(pa.array(found.column(0)).dictionary.to_pylist())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [whole(["a"]), again(["a", "b"]), again(["a", "b", "c"])]),
        ({"deltas": True}, [whole(["a"]), delta(["b"]), delta(["c"])]),
        ({"unify": True}, [whole(["a"]), again(["a", "b"]), again(["a", "b", "c"])]),
        ({"unify": True, "deltas": True}, [whole(["a"]), delta(["b"]), delta(["c"])]),
        ({"file": True, "deltas": True}, [whole(["a"]), delta(["b"]), delta(["c"])]),
        ({"file": True, "deltas": True, "unify": True}, [whole(["a"]), delta(["b"]), delta(["c"])]),
    ],
    ids=str,
)
def test_a_dictionary_that_grows(options, expected):
    steps = [
        words([0], ["a"]),
        words([1], ["a", "b"]),
        words([2, 0], ["a", "b", "c"]),
        words([1], ["a", "b"]),
    ]
    out = writer(steps[0], **options)
    assert sent(out, *steps) == [[one] for one in expected] + [[]]
    assert out.close() == []


@pytest.mark.parametrize(
    ("options", "other", "helps"),
    [
        ({}, ["a", "b"], r"(?s)'c0'.*dictionary_deltas=True.*unify_dictionaries=True"),
        ({}, ["b"], r"'c0'.*unify_dictionaries=True"),
        ({"deltas": True}, ["b", "a"], r"'c0'.*unify_dictionaries=True"),
    ],
    ids=str,
)
def test_a_file_refuses_what_it_cannot_hold_and_says_what_helps(options, other, helps):
    out = writer(words([0], ["a"]), file=True, **options)
    assert sent(out, words([0], ["a"])) == [[whole(["a"])]]
    with pytest.raises(UsageError, match=helps):
        out.decide(words([0], other))
    assert sent(out, words([0, None], ["a"])) == [[]]


@pytest.mark.parametrize("options", [{}, {"deltas": True}], ids=str)
def test_097_a_stream_replaces_other_values(options):
    steps = [words([0], ["a", "b"]), words([0], ["b", "a"]), words([0], ["a"]), words([0], ["a"])]
    assert sent(writer(steps[0], **options), *steps) == [
        [whole(["a", "b"])],
        [again(["b", "a"])],
        [again(["a"])],
        [],
    ]


# -- dictionaries that have not arrived, and empty ones ------------------------------------------------------

CODED = forge.schema(field("c0", UTF8, dictionary=encoding(0, INT8)))


def no_dictionary() -> ipc.RecordBatch:
    rows = forge.batch(2, [(2, 2)], [b"\0", i8(99, -1)])
    (found,) = ipc.open_stream(stream(CODED, rows))
    assert found.column(0).dictionary is None
    return found


@pytest.mark.parametrize("options", STREAMS, ids=str)
def test_093_a_stream_has_a_dictionary_before_its_first_batch(options):
    absent, real = no_dictionary(), words([0], ["a"])
    out = writer(absent, **options)
    first = delta(["a"]) if "deltas" in options else again(["a"])
    assert sent(out, absent, absent, real, absent, no_dictionary()) == [[whole([])], [], [first], [], []]
    check([absent, real, no_dictionary()], **options)


@pytest.mark.parametrize("options", FILES, ids=str)
@pytest.mark.parametrize("empty", [no_dictionary, lambda: words([None], [])], ids=["absent", "empty"])
def test_098_a_file_holds_an_empty_dictionary_back(options, empty):
    out = writer(empty(), **options)
    assert sent(out, empty(), empty()) == [[], []]
    late = "unify" in options and "deltas" not in options
    assert sent(out, words([0], ["a"]), empty()) == [[] if late else [whole(["a"])], []]
    assert out.close() == ([whole(["a"])] if late else [])
    out = writer(empty(), **options)
    assert sent(out, empty()) == [[]]
    assert out.close() == [whole([])]
    assert out.close() == []


@pytest.mark.parametrize("options", [{"deltas": True}, {"deltas": True, "unify": True}], ids=str)
@pytest.mark.parametrize("file", [False, True])
def test_096_deltas_of_a_reader_are_passed_on(options, file):
    known = [f"word {k}" for k in range(15)]
    theirs = [pa.record_batch({"c0": column([3 * i], known[: 3 * i + 3])}) for i in range(5)]
    parts = list(ipc.open_stream(pyarrow_bytes(theirs, emit_dictionary_deltas=True)))
    out = writer(parts[0], file=file, **options)
    news = [known[3 * i : 3 * i + 3] for i in range(5)]
    assert sent(out, *parts) == [[whole(news[0])], *([delta(one)] for one in news[1:])]
    # Older batches have the beginnings of what is written.
    assert sent(out, *parts) == [[]] * 5
    assert [indices(out.decide(one)[1]) for one in parts] == [indices(one) for one in parts]


# -- nested dictionaries -------------------------------------------------------------------------------------


def nested(rows: Sequence[int | None], outer: Sequence[Any], inner: Sequence[Any]) -> ipc.RecordBatch:
    return batch_of_columns(lists(rows, outer, inner))


def ids_of(out: Out, one: ipc.RecordBatch) -> list[tuple[Any, ...]]:
    return [made[:3] for made in out.decide(one)[0]]


def outer_and_inner(out: Out) -> tuple[int, int]:
    kind = out.writer.schema.field(0).type
    return kind.dictionary_id, kind.value_type.value_field.type.dictionary_id


def test_099_inner_before_outer_and_deltas_of_both():
    first = nested([0, 1], [[0], [0, 1]], ["a", "b"])
    out = writer(first, deltas=True)
    outer, inner = outer_and_inner(out)
    assert ids_of(out, first) == [(inner, False, False), (outer, False, False)]
    assert ids_of(out, nested([2], [[0], [0, 1], [2]], ["a", "b", "c"])) == [
        (inner, True, False),
        (outer, True, False),
    ]
    # The inner one alone grows: earlier values of the outer one stay what they are.
    assert ids_of(out, nested([1], [[0], [0, 1], [2]], ["a", "b", "c", "d"])) == [(inner, True, False)]
    assert ids_of(out, nested([1], [[0], [0, 1], [2], [0, 0]], ["a", "b", "c"])) == [(outer, True, False)]


def test_099_a_replaced_inner_dictionary_takes_the_outer_one_with_it():
    first = nested([0], [[0], [1]], ["a", "b"])
    for options in ({}, {"deltas": True}):
        out = writer(first, **options)
        outer, inner = outer_and_inner(out)
        out.decide(first)
        # The outer one decodes to the same values; its indices refer to what is gone.
        made, _ = out.decide(nested([0], [[1], [0]], ["b", "a"]))
        assert made == [again(["b", "a"], inner), again([["a"], ["b"]], outer)]


def test_099_an_outer_dictionary_that_a_batch_lacks_goes_empty_when_its_inner_one_is_replaced():
    word = field("item", UTF8, dictionary=encoding(1, INT8))
    root = forge.schema(
        field("o", forge.LIST, word, dictionary=encoding(0, INT8)),
        field("w", UTF8, dictionary=encoding(1, INT8)),
    )

    def text(*values):
        ends = [sum(map(len, values[:i])) for i in range(len(values) + 1)]
        return forge.batch(len(values), [(len(values), 0)], [b"", i32(*ends), "".join(values).encode()])

    one_list = forge.batch(1, [(1, 0), (2, 0)], [b"", i32(0, 2), b"", i8(0, 1)])
    rows = forge.batch(1, [(1, 0), (1, 0)], [b"", i8(0), b"", i8(1)])
    absent = forge.batch(1, [(1, 1), (1, 0)], [b"\0", i8(0), b"", i8(0)])
    (first,) = ipc.open_stream(stream(root, forge.dictionary(1, text("a", "b")), forge.dictionary(0, one_list), rows))
    (second,) = ipc.open_stream(stream(root, forge.dictionary(1, text("z")), absent))
    out = writer(first)
    assert sent(out, first, second) == [
        [whole(["a", "b"], 1), whole([["a", "b"]], 0)],
        [again(["z"], 1), again([], 0)],
    ]
    check([first, second, first])
    check([first, second, first], unify=True)


# -- shared ids ----------------------------------------------------------------------------------------------


def test_092_columns_that_share_an_id_are_written_once():
    out = Out(SHARED, deltas=True)
    steps = [
        batch_of_columns(column([0], ["a"]), column([1], ["a", "b"])),
        batch_of_columns(column([0], ["a", "b", "c"]), column([0], ["a"])),
        batch_of_columns(column([0], ["a", "b", "c"]), column([0], ["a", "b", "c"])),
    ]
    assert sent(out, *steps) == [[whole(["a", "b"])], [delta(["c"])], []]
    check(steps, SHARED, deltas=True)


def test_092_two_dictionaries_for_one_id_are_refused_and_both_columns_named():
    out = Out(SHARED)
    with pytest.raises(UsageError, match=r"'c0' and 'c1'.*dictionary 0.*unify_dictionaries=True"):
        out.decide(batch_of_columns(column([0], ["a"]), column([1], ["b", "a"])))
    assert sent(out, batch_of_columns(column([0], ["a"]), column([None], []))) == [[whole(["a"])]]


@pytest.mark.parametrize("options", [*STREAMS[2:], *FILES[2:]], ids=str)
def test_092_unifying_merges_the_dictionaries_of_one_id(options):
    steps = [
        batch_of_columns(column([0, 1], ["a", "b"]), column([1, 0], ["b", "c"])),
        batch_of_columns(column([0, None], ["c"]), column([1, 0], ["d", "a"])),
    ]
    check(steps, SHARED, **options)
    out = Out(SHARED, unify=True)
    _, found = out.decide(steps[0])
    assert (indices(found), indices(found, 1)) == ([0, 1], [2, 1])


def test_092_a_batch_may_share_what_the_writer_does_not():
    together = forge.schema(*[field(name, UTF8, dictionary=encoding(7, INT8)) for name in ("c0", "c1")])
    values = forge.dictionary(7, forge.batch(2, [(2, 0)], [b"", i32(0, 1, 2), b"ab"]))
    (shared,) = ipc.open_stream(stream(together, values, forge.batch(1, [(1, 0)] * 2, [b"", i8(0), b"", i8(1)])))
    apart = batch_of_columns(column([0], ["a"]), column([0], ["b"]))
    for options in (*STREAMS, *FILES):
        check([apart, shared, apart], apart.schema, **options)
        check([shared, apart, shared], apart.schema, **options)
    out = writer(apart, deltas=True)
    assert sent(out, apart, shared) == [
        [whole(["a"]), whole(["b"], 1)],
        [delta(["b"]), again(["a", "b"], 1)],
    ]


# -- unifying ------------------------------------------------------------------------------------------------


def test_unified_dictionaries_keep_the_order_of_first_occurrence():
    steps = [words([1, 0, None], ["b", "a", "b"]), words([0, 1, 2, None], ["c", None, "a"])]
    out = writer(steps[0], unify=True, file=True)
    assert sent(out, steps[0]) == [[]]
    assert sent(out, steps[1]) == [[]]
    assert out.close() == [whole(["b", "a", "c", None])]
    with ipc.open_file(out.sink) as reader:
        assert indices(reader[1]) == [2, 3, 1, None]
        assert reader[1].column(0).to_pylist() == steps[1].column(0).to_pylist()


def test_null_slots_of_renumbered_indices_are_zero():
    second = batch_of_columns(column([1, None, 0], ["a", "b"]), pa.array([1.5, 2.5, None]))
    out = writer(second, unify=True)
    out.decide(batch_of_columns(column([0], ["z"]), pa.array([0.5])))
    _, found = out.decide(second)
    assert list(found.column(0).buffers()[1].cast("b"))[:3] == [2, 0, 1]
    assert found.column(1).to_pylist() == [1.5, 2.5, None]
    assert found.custom_metadata == second.custom_metadata


def in_every_nest(coded: pa.Array) -> ipc.RecordBatch:
    """Four rows per column, in which `coded`, of four rows, is the column or lies below it."""
    numbers = pa.array([1, 2, 3, 4])
    return batch_of_columns(
        coded,
        pa.StructArray.from_arrays([coded], names=["s"]),
        pa.ListArray.from_arrays(pa.array([0, 1, 1, 3, 4], pa.int32()), coded),
        pa.FixedSizeListArray.from_arrays(pa.concat_arrays([coded, coded]), 2),
        pa.ListViewArray.from_arrays(pa.array([2, 0, 1, 3], pa.int32()), pa.array([2, 1, 0, 1], pa.int32()), coded),
        pa.UnionArray.from_sparse(pa.array([0, 0, 1, 0], pa.int8()), [coded, numbers]),
        pa.UnionArray.from_dense(
            pa.array([0, 1, 0, 0], pa.int8()), pa.array([1, 0, 2, 3], pa.int32()), [coded, numbers]
        ),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), coded),
    )


@pytest.mark.parametrize("cut", [(0, 4), (1, 2), (3, 1), (2, 0)])
def test_slices_are_renumbered_where_they_lie(cut):
    piece = in_every_nest(column([1, None, 0, 1], ["a", "b"])).slice(*cut)
    out = writer(piece, unify=True)
    out.decide(in_every_nest(column([0] * 4, ["z", "b"])))
    made, found = out.decide(piece)
    assert made == [again(["z", "b", "a"], id) for id in range(8)]
    for i in range(8):
        assert found.column(i).to_pylist() == piece.column(i).to_pylist()
        pa.array(found.column(i)).validate(full=True)


@pytest.mark.parametrize(("kind", "most"), [("int8", 128), ("uint8", 256)])
def test_103_an_index_that_does_not_fit_its_type_changes_nothing(kind, most):
    coded = pa.dictionary(getattr(pa, kind)(), pa.int32())

    def numbers(start, count, rows):
        return batch_of_columns(column(rows, range(start, start + count), coded))

    for options in (*STREAMS[2:], *FILES[2:]):
        out = writer(numbers(0, 1, [0]), **options)
        out.decide(numbers(0, most - 1, [0]))
        with pytest.raises(UsageError, match=rf"'c0'.*{most + 1}.*{kind}.*{most - 1}"):
            out.decide(numbers(1000, 2, [1]))
        made, found = out.decide(numbers(2000, 2, [0]))
        if options.get("deltas"):
            assert made == [delta([2000, 2001])]
        if options.get("file") and not options.get("deltas"):
            assert out.close() == [whole(range(most + 1))]
            found = ipc.open_file(out.sink)[-1]
        assert found.column(0).to_pylist() == [2000]
        assert indices(found) == [most - 1]


def broken(index: int, count: int) -> ipc.RecordBatch:
    text = forge.batch(count, [(count, 0)], [b"", i32(*range(count + 1)), b"abcdefgh"[:count]])
    rows = forge.batch(2, [(2, 0)], [b"", i8(0, index)])
    (found,) = ipc.open_stream(stream(CODED, forge.dictionary(0, text), rows), validate="none")
    return found


@pytest.mark.parametrize("index", [-1, 2, 3, 127, -128])
@pytest.mark.parametrize("before", [["z"], ["a", "b", "c", "d"]], ids=["renumbered", "as they are"])
def test_102_unifying_refuses_an_index_outside_its_dictionary(index, before):
    out = writer(words([0], before), unify=True, deltas=True)
    out.decide(words([0], before))
    with pytest.raises(FormatError, match=rf"'c0'.*index {index} \(row 1\).*dictionary of 2"):
        out.decide(broken(index, 2))
    made, _ = out.decide(words([0], ["q"]))
    assert made == [delta(["q"])]


def test_a_broken_dictionary_changes_nothing():
    text = forge.batch(2, [(2, 0)], [b"", i32(0, 9, 1), b"a"])
    rows = forge.batch(1, [(1, 0)], [b"", i8(0)])
    (bad,) = ipc.open_stream(stream(CODED, forge.dictionary(0, text), rows), validate="none")
    for options in STREAMS:
        out = writer(bad, **options)
        out.decide(words([0], ["x"]))
        with pytest.raises(FormatError, match="offset"):
            out.decide(bad)
        assert sent(out, words([0], ["x"])) == [[]]


def test_what_a_refused_batch_has_numbered_is_numbered_again():
    text = forge.batch(2, [(2, 0)], [b"", i32(0, 1, 2), b"ab"])
    parts = [forge.batch(2, [(2, 0)], [b"", i8(1, index)]) for index in (9, 0)]
    bad, good = ipc.open_stream(stream(CODED, forge.dictionary(0, text), *parts), validate="none")
    out = writer(bad, unify=True, deltas=True)
    assert sent(out, words([0], ["x"])) == [[whole(["x"])]]
    with pytest.raises(FormatError, match="index 9"):
        out.decide(bad)
    assert sent(out, words([0], ["q"])) == [[delta(["q"])]]
    # The dictionary is the object that the refused batch had.
    made, found = out.decide(good)
    assert (made, found.column(0).to_pylist(), indices(found)) == ([delta(["a", "b"])], ["b", "a"], [3, 2])


def test_a_failure_in_a_later_column_takes_the_earlier_ones_back():
    def two(first, second):
        return batch_of_columns(column([0], first), column([0], second))

    out = writer(two(["a"], ["x"]), file=True, deltas=True)
    assert sent(out, two(["a"], ["x"])) == [[whole(["a"]), whole(["x"], 1)]]
    with pytest.raises(UsageError, match="'c1'"):
        out.decide(two(["a", "b"], ["y"]))
    assert sent(out, two(["a", "c"], ["x"])) == [[delta(["c"])]]
