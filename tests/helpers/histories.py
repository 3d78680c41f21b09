"""Histories of dictionaries: batches of pyarrow, the values that readers must find, and what writers must send.

A history is a list of batches, each a list of columns, whose dictionaries stay, grow, shrink, change, are empty or
absent. All readers must find pyarrow's plain lists of the columns; `Known` is a model of writers in such lists.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

import arrowipc as ipc
from arrowipc import types
from arrowipc.events import BatchRead, DictionaryRead
from helpers import forge
from helpers.arrays import pyarrow_bytes
from helpers.randoms import LEAVES, LONG, POOLS, array_of

INDICES = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
WORD = (pa.string(), ["a", "b", None, "c", LONG])
#: One dictionary for both columns of the histories "shared".
SHARED = types.schema([(name, types.Dictionary(types.Int(8, True), types.Utf8(), False, 0)) for name in ("c0", "c1")])

#: Types whose random values Python can hold; times may be outside of its range.
MORE = [kind for kind in LEAVES if kind != pa.float16() and not pa.types.is_temporal(kind)]
#: Values without -0.0: pyarrow takes it for 0.0, and sends one for the other.
FIRST = [(kind, [value for value in pool if "-0.0" not in repr(value)]) for kind, pool in POOLS]
#: Types of dictionaries, with some of their values: one of each layout first.
KINDS = [*FIRST, *((kind, array_of(kind, 12, random.Random(7)).to_pylist()) for kind in MORE)]

Batch = list[pa.Array]


# -- histories -----------------------------------------------------------------------------------------------


def evolved(values: list[Any], fresh: Callable[[], Any], chance: random.Random) -> list[Any]:
    """The next version of a dictionary: the same values, more, fewer, as many other ones, other ones or none."""
    turn = chance.choice(["same", "longer", "longer", "longer", "shorter", "as many", "as many", "others", "none"])
    count = {"as many": len(values), "others": chance.randint(0, 4), "none": 0, "longer": chance.randint(0, 3)}
    if turn in ("same", "shorter"):
        return values if turn == "same" else values[: chance.randint(0, len(values))]
    return (values if turn == "longer" else []) + [fresh() for _ in range(count[turn])]


def versions(pool: list[Any], chance: random.Random) -> list[list[Any]]:
    """The versions of one dictionary, one for each batch."""
    found = [chance.choices(pool, k=chance.choice([0, 2, 4, 12]))]
    for _ in range(chance.randint(0, 5)):
        found.append(evolved(found[-1], lambda: chance.choice(pool), chance))
    return found


def encode(values: pa.Array, rows: int, chance: random.Random, index: pa.DataType | None = None) -> pa.Array:
    """Rows that use some values of a dictionary; nulls if it is empty."""
    indices = [chance.choice([None, chance.randrange(len(values))]) if len(values) else None for _ in range(rows)]
    return pa.DictionaryArray.from_arrays(pa.array(indices, index or pa.int8()), values)


def of_a_type(kind: pa.DataType, pool: list[Any], chance: random.Random) -> list[Batch]:
    index, most = chance.choice(INDICES), chance.choice([5, 5, 5, 200])
    return [[encode(pa.array(one, kind), chance.randint(0, most), chance, index)] for one in versions(pool, chance)]


def of_two_columns(chance: random.Random) -> list[Batch]:
    """Make two columns; the second has letters, so that dictionaries of the same length differ only in their bodies."""
    found = []
    for one, other in zip(versions(WORD[1], chance), versions(["x", "y", "z"], chance), strict=False):
        rows = chance.choice([0, 1, 3, 8])
        found.append([encode(pa.array(values, WORD[0]), rows, chance) for values in (one, other)])
    return found


def shared(chance: random.Random) -> list[Batch]:
    """Make two columns with one dictionary: mostly, one has the first values of the other's."""
    found = []
    for one in versions(WORD[1], chance):
        other = one[: chance.randint(0, len(one))] if chance.random() < 0.9 else chance.choices(WORD[1], k=2)
        pair, rows = chance.sample([one, other], 2), chance.choice([0, 1, 3])
        found.append([encode(pa.array(values, WORD[0]), rows, chance) for values in pair])
    return found


def held(chance: random.Random) -> list[Batch]:
    """Make an encoded column, and the same column inside every type that may hold one."""
    numbers, codes = pa.array([1, 2, 3, 4]), pa.array([0, 1, 0, 0], pa.int8())
    found = []
    for one in versions(WORD[1], chance):
        coded = encode(pa.array(one, WORD[0]), 4, chance)
        sizes = pa.array([2, 0, 1, 3], pa.int32()), pa.array([2, 1, 0, 1], pa.int32())
        found.append(
            [
                coded,
                pa.StructArray.from_arrays([coded], names=["s"]),
                pa.ListArray.from_arrays(pa.array([0, 1, 1, 3, 4], pa.int32()), coded),
                pa.FixedSizeListArray.from_arrays(pa.concat_arrays([coded, coded]), 2),
                pa.ListViewArray.from_arrays(*sizes, coded),
                pa.UnionArray.from_sparse(codes, [coded, numbers]),
                pa.UnionArray.from_dense(codes, pa.array([1, 0, 2, 3], pa.int32()), [coded, numbers]),
                pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), coded),
            ]
        )
    return found


def nested(chance: random.Random) -> list[Batch]:
    """Make dictionaries of lists of words, and of structs of two words; the words have dictionaries, too."""
    inner: list[Any] = chance.choices(WORD[1], k=3)
    outer: list[Any] = []
    both: list[Any] = []
    found = []
    for _ in range(chance.randint(1, 9)):
        if chance.random() < 0.4:
            inner = evolved(inner, lambda: chance.choice(WORD[1]), chance)
        at = lambda: chance.choice([None, *range(len(inner))])  # noqa: E731, B023
        cut = [one for one in outer if not any(i is not None and i >= len(inner) for i in one or ())]
        outer = evolved(cut, lambda: chance.choice([None, [], [at()], [at(), at()]]), chance)  # noqa: B023
        cut = [one for one in both if not any(i is not None and i >= len(inner) for i in one)]
        both = evolved(cut, lambda: (at(), at()), chance)  # noqa: B023
        words, other = pa.array(inner, WORD[0]), chance.sample(range(len(inner)), len(inner))
        left = pa.array([one[0] for one in both], pa.int8())
        right = pa.array([None if one[1] is None else other.index(one[1]) for one in both], pa.int8())
        members = [
            pa.DictionaryArray.from_arrays(left, words),
            pa.DictionaryArray.from_arrays(right, pa.array([inner[i] for i in other], WORD[0])),
        ]
        structs = pa.StructArray.from_arrays(members, names=["a", "b"])
        found.append([encode(lists(outer, words), 5, chance), encode(structs, 5, chance, pa.int16())])
    return found


def lists(rows: Sequence[Any], words: pa.Array) -> pa.Array:
    """Lists of words, given by their indices."""
    ends = [sum(len(one or ()) for one in rows[:i]) for i in range(len(rows) + 1)]
    items = pa.DictionaryArray.from_arrays(pa.array([at for one in rows for at in one or ()], pa.int8()), words)
    mask = pa.array([one is None for one in rows], pa.bool_()) if rows else None
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, mask=mask)


SHAPES = {"two columns": of_two_columns, "shared": shared, "held": held, "nested": nested}


def drawn(shape: str, seed: int) -> tuple[list[Batch], random.Random]:
    """A history, and the random generator for all other choices of its test; "any type" takes each type in turn."""
    chance = random.Random(f"{shape} {seed}")
    make = SHAPES.get(shape) or partial(of_a_type, *KINDS[seed % len(KINDS)])
    return make(chance), chance


def table_of(columns: Batch) -> pa.RecordBatch:
    return pa.record_batch(columns, names=[f"c{i}" for i in range(len(columns))])


def alone(columns: Batch, absent: Iterable[int] = ()) -> bytes:
    """A stream of one batch; dictionaries that no row needs may be absent."""
    parts = forge.split(pyarrow_bytes(table_of(columns)))
    return b"".join(part for i, part in enumerate(parts) if i - 1 not in absent)


def texts(batch: Any) -> list[str]:
    """The columns of a batch of any library, or of a list, as texts, in which nan equals itself, and 0 is not -0."""
    return [repr(one.to_pylist()) for one in (batch if isinstance(batch, list) else batch.columns)]


def together(batches: list[Batch]) -> list[str]:
    """The columns of all batches, one after the other, as such texts."""
    return [repr([value for one in columns for value in one.to_pylist()]) for columns in zip(*batches, strict=True)]


def came(history: list[Batch], shape: str, chance: random.Random) -> tuple[list[Any], list[Batch], list[list[Any]]]:
    """Our batches, the columns that each must show, and the values of each column's dictionary; None: it is absent.

    Each batch is from a reader of its own, or all are slices from one reader, in any order.
    """
    values: list[list[Any]] = []
    if chance.random() < 0.6:
        batches = []
        for columns in history:
            flat = shape in ("any type", "two columns", "shared")
            unused = [i for i, one in enumerate(columns) if flat and one.null_count == len(one)]
            absent = [i for i in unused if chance.random() < 0.3]
            batches += ipc.open_stream(alone(columns, absent))
            values.append([None if i in absent else one for i, one in enumerate(spelled(columns, shape))])
        return batches, history, values
    data = pyarrow_bytes([table_of(one) for one in history], emit_dictionary_deltas=chance.random() < 0.5)
    steps = list(zip(ipc.open_stream(data), history, strict=True))
    batches, shown = [], []
    for batch, columns in steps if chance.random() < 0.5 else chance.choices(steps, k=6):
        start = chance.randint(0, batch.num_rows)
        count = chance.randint(0, batch.num_rows - start)
        batches.append(batch.slice(start, count))
        shown.append([one.slice(start, count) for one in columns])
        values.append(spelled(columns, shape))
    return batches, shown, values


def spelled(columns: Batch, shape: str) -> list[Any]:
    """The values of each column's dictionary, as texts; nothing for nested ones, which no test needs."""
    if shape == "nested":
        return []
    whole = [columns[0]] * len(columns) if shape == "held" else columns
    return [[repr(value) for value in one.dictionary.to_pylist()] for one in whole]


# -- what a writer sends -------------------------------------------------------------------------------------

STREAMS: list[dict[str, bool]] = [{}, {"deltas": True}, {"unify": True}, {"deltas": True, "unify": True}]
FILES: list[dict[str, bool]] = [{"file": True, **options} for options in STREAMS]
#: The id of a dictionary, whether it is a delta, and how many values come.
Sent = tuple[int, bool, int]


def distinct(lists: Iterable[list[str]]) -> list[str]:
    """The dictionary that unifies several: each value once, in the order of their first appearance."""
    return list(dict.fromkeys(value for values in lists for value in values))


class Known:
    """The model of a writer: the values of each dictionary that its readers have, as plain lists."""

    def __init__(self, ids: list[int], *, file: bool = False, deltas: bool = False, unify: bool = False) -> None:
        self.ids, self.file, self.deltas, self.unify = ids, file, deltas, unify
        self.sent: dict[int, list[str] | None] = dict.fromkeys(ids)
        self.merged: dict[int, list[str]] = {id: [] for id in ids}

    def before(self, columns: list[list[str] | None]) -> list[Sent] | None:
        """The dictionaries that are sent before a batch whose columns have these values; None if it must be refused."""
        after, made = dict(self.sent), []
        for id, sent in self.sent.items():
            come = [one for i, one in zip(self.ids, columns, strict=True) if i == id and one is not None]
            values = max(come, key=len, default=[])
            if self.unify:
                values = self.merged[id] = distinct([self.merged[id], *come])
                if self.file and not self.deltas:
                    continue
            elif any(values[: len(one)] != one for one in come):
                return None
            if sent is None:
                if values or not self.file:
                    made.append((id, False, len(values)))
                    after[id] = values
            elif sent[: len(values)] != values:
                is_delta = self.deltas and values[: len(sent)] == sent
                if self.file and not is_delta:
                    return None
                made.append((id, is_delta, len(values) - is_delta * len(sent)))
                after[id] = values
        self.sent = after
        return made

    def values(self, id: int) -> list[str]:
        """The values of a dictionary that readers have."""
        sent = self.sent[id]
        return self.merged[id] if sent is None else sent

    def at_close(self) -> list[Sent]:
        """The dictionaries that a file has after its batches: those that were not sent before."""
        return [(id, False, len(self.merged[id])) for id, sent in self.sent.items() if self.file and sent is None]


class Out:
    """A writer into memory, and a reader of what it writes."""

    def __init__(
        self, root: ipc.Schema, *, file: bool = False, deltas: bool | None = None, unify: bool = False
    ) -> None:
        self.sink = bytearray()
        self.writer = (ipc.new_file if file else ipc.new_stream)(
            self.sink, root, dictionary_deltas=deltas, unify_dictionaries=unify
        )
        self.file = file
        self.decoder = ipc.StreamDecoder(validate="none")
        self.fed = 8 if file else 0
        self.found: Any = None  # the batch that was read last
        self.lengths: dict[int, int] = {}
        self.below: dict[int, set[int]] = {}
        for each in self.writer.schema:
            self.below |= below(each.type)

    def write(self, batch: Any) -> list[Sent]:
        """Write a batch; return the dictionaries that went out before it."""
        self.writer.write_batch(batch)
        return self.news()

    def close(self) -> list[Sent]:
        """Close the writer; return the dictionaries that went out after the batches."""
        self.writer.close()
        return self.news()

    def news(self) -> list[Sent]:
        """The dictionaries that went out since the last call; inner before outer, and once each in a file."""
        self.decoder.feed(bytes(self.sink[self.fed :]))
        self.fed = len(self.sink)
        found = []
        for event in self.decoder:
            if isinstance(event, BatchRead):
                assert self.file or self.lengths.keys() == self.below.keys(), "a batch before some dictionary"
                self.found = event.batch
            if isinstance(event, DictionaryRead):
                before = self.lengths.get(event.id)
                assert event.is_delta <= (before is not None), "a delta before its dictionary"
                assert event.is_delta or before is None or not self.file, "a file cannot replace a dictionary"
                assert event.length == 0 or self.below[event.id] <= self.lengths.keys(), "outer before inner"
                found.append((event.id, event.is_delta, event.length - event.is_delta * (before or 0)))
                self.lengths[event.id] = event.length
        return found


def below(kind: Any) -> dict[int, set[int]]:
    """Every dictionary in a type, by id: which ids its values refer to."""
    if isinstance(kind, types.Dictionary):
        inner = below(kind.value_type)
        return {kind.dictionary_id: set(inner), **inner}
    found: dict[int, set[int]] = {}
    for each in kind.children:
        found |= below(each.type)
    return found
