"""Tables of distinct values: each value numbered by its first occurrence, whatever its type."""

import random
from typing import Any

import pyarrow as pa
import pytest
from helpers import forge
from helpers.arrays import batch_of_columns
from helpers.forge import UTF8, field, i32, stream
from helpers.randoms import POOLS, array_of, types as random_types
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import FormatError
from arrowipc.distinct.memo_table import MemoTable

#: Types with hundreds of values.
MANY: list[tuple[pa.DataType, Any]] = [(pa.int64(), [None, *range(700)])]
MANY += [
    (kind, array_of(kind, 1000, random.Random(7)).to_pylist())
    for kind in (pa.string(), pa.large_binary(), pa.binary(7))
]


@pytest.mark.parametrize("pools", [POOLS, MANY], ids=["few", "many"])
@given(data=st.data(), seed=st.integers(0, 2**32), pieces=st.integers(1, 4))
def test_a_table_numbers_values_by_first_occurrence(pools: Any, data: Any, seed: int, pieces: int) -> None:
    kind, pool = data.draw(st.sampled_from(pools))
    chance, most = random.Random(seed), 1000 if pools is MANY else 200
    parts = [batch_of_columns(pa.array(chance.choices(pool, k=chance.randint(0, most)), kind)) for _ in range(pieces)]
    table, known, snapshots = MemoTable.like(parts[0]), dict[str, int](), []
    for part in parts:
        cut = part.slice(chance.randint(0, part.num_rows))
        values = map(repr, cut.column(0).to_pylist())
        assert list(table.add_batch(cut)) == [known.setdefault(value, len(known)) for value in values]
        assert table.count == len(known)
        snapshots.append((table.batch(), list(known)))
    for snapshot, texts in snapshots:
        pa.record_batch(snapshot).validate(full=True)
        assert list(map(repr, snapshot.column(0).to_pylist())) == texts


@given(random_types, st.integers(0, 2**32))
def test_a_table_of_any_type_has_each_row_at_its_place(kind: pa.DataType, seed: int) -> None:
    chance = random.Random(seed)
    rows = batch_of_columns(array_of(kind, chance.randint(1, 60), chance))
    table, values, places = MemoTable.like(rows), [], []
    for _ in range(3):
        cut = rows.slice(chance.randint(0, rows.num_rows), chance.randint(0, 30))
        values += cut.column(0).to_pylist()
        places += table.add_batch(cut).tolist()
    first_seen = [place for i, place in enumerate(places) if place not in places[:i]]
    assert first_seen == list(range(table.count))
    found = table.batch().column(0).to_pylist()
    assert repr([found[place] for place in places]) == repr(values)


def test_a_table_of_encoded_values_looks_through_the_dictionary():
    indices = pa.array([0, 1, 2, None, 3], pa.int8())
    rows = batch_of_columns(pa.DictionaryArray.from_arrays(indices, ["a", "b", "a", None]))
    table = MemoTable.like(rows)
    assert table.add_batch(rows).tolist() == [0, 1, 0, 2, 2]
    assert table.batch().column(0).to_pylist() == ["a", "b", None]


def test_a_failed_add_takes_everything_back():
    root = forge.schema(field("c0", UTF8))

    def text(*ends):
        rows = forge.batch(len(ends) - 1, [(len(ends) - 1, 0)], [b"", i32(*ends), b"abcdefgh"])
        (found,) = ipc.open_stream(stream(root, rows), validate="none")
        return found

    table = MemoTable.like(text(0, 1))
    assert table.add_batch(text(0, 1, 2)).tolist() == [0, 1]
    with pytest.raises(FormatError, match="offset"):
        table.add_batch(text(*range(2, 8), 99))
    assert table.count == 2
    assert table.add_batch(text(1, 2, 3)).tolist() == [1, 2]
    assert table.batch().column(0).to_pylist() == ["a", "b", "c"]
