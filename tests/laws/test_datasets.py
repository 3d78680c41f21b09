"""Laws of data sets: parts in files and streams are their concatenation, and rows those of all of them."""

import random
from itertools import pairwise

from helpers import randoms
from helpers.arrays import FORMS, pyarrow_bytes
from hypothesis import assume, given, strategies as st

import arrowipc as ipc


@given(randoms.batches(most_batches=5), st.integers(0, 2**32))
def test_a_data_set_is_its_parts_in_order(tmp_path_factory, parts, seed):
    assume(parts)
    chance, folder = random.Random(seed), tmp_path_factory.mktemp("parts")
    cuts = sorted(chance.choices(range(len(parts) + 1), k=chance.randrange(4)))
    for number, (start, stop) in enumerate(pairwise([0, *cuts, len(parts)])):
        data = pyarrow_bytes(parts[start:stop], chance.choice(FORMS), parts[0].schema)
        (folder / f"{number}.arrow").write_bytes(data)
    whole = ipc.open_stream(pyarrow_bytes(parts)).read_all()
    dataset = ipc.open_dataset(folder, workers=chance.choice((0, 1, 3)))
    table = dataset.read_all()
    assert table.equals(whole, nan_equal=True)
    assert dataset.count_rows() == table.num_rows
    n = table.num_rows
    start, count = chance.randrange(n + 2), chance.randrange(n + 2)
    assert dataset.slice(start, count).equals(table.slice(start, count), nan_equal=True)
    assert dataset.slice(start, count, alone=True).equals(table.slice(start, count), nan_equal=True)
    assert dataset.head(count).equals(table.head(count), nan_equal=True)
    if n:
        rows = [chance.randrange(-n, n) for _ in range(chance.randrange(1, 12))]
        assert repr(dataset.take(rows).to_pydict()) == repr(table.take(rows).combine().to_pydict())
        assert repr(dataset.row(rows[0])) == repr(table.slice(rows[0] % n, 1).to_pylist()[0])


@given(randoms.batches(most_columns=3, most_batches=1), randoms.batches(most_columns=3, most_batches=1))
def test_columns_that_only_one_file_has(tmp_path_factory, first, second):
    """Named apart, the columns of two files stand beside each other, and beside nulls."""
    assume(first and second)
    folder = tmp_path_factory.mktemp("apart")
    mine, theirs = (
        parts[0].rename_columns([f"{prefix}{i}" for i in range(parts[0].num_columns)])
        for parts, prefix in ((first, "a"), (second, "b"))
    )
    for name, batch in (("0", mine), ("1", theirs)):
        (folder / f"{name}.arrow").write_bytes(pyarrow_bytes(batch))
    table = ipc.open_dataset(folder).read_all()
    assert table.schema.names == [*mine.schema.names, *theirs.schema.names]
    halves = table.slice(0, mine.num_rows), table.slice(mine.num_rows)
    for batch, half, other in ((mine, *halves), (theirs, *halves[::-1])):
        whole = ipc.open_stream(pyarrow_bytes(batch)).read_all()
        assert repr(half.select(batch.schema.names).to_pydict()) == repr(whole.to_pydict())
        assert all(value is None for name in batch.schema.names for value in other.to_pydict()[name])
