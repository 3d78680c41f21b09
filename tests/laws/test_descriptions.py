"""Descriptions never outlive their values: after any chain of operations statistics are true or absent."""

import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers.processes import rounds
from helpers.terminal import run
from hypothesis import given, settings, strategies as st

import arrowipc as ipc
from arrowipc.types import field, int64

NAMES = ["x", "y", "z"]
WORDS = ["", "a", "b", "zz", "a word of more than sixty-four bytes, so that its bounds are cut somewhere"]


def made(chance: random.Random, rows: int) -> ipc.RecordBatch:
    """A batch of three columns that can be taken for each other."""
    columns = {name: [chance.choice([None, *range(-2, 200, 50)]) for _ in range(rows)] for name in NAMES}
    whole = {name: pa.array(values, pa.int64()) for name, values in columns.items()}
    whole["word"] = pa.array([chance.choice([None, *WORDS]) for _ in range(rows)], pa.string())
    whole["real"] = pa.array([chance.choice([None, 0.0, -0.0, float("nan"), 2.5]) for _ in range(rows)], pa.float64())
    return ipc.RecordBatch.from_arrow(pa.record_batch(whole))


Batches = list[ipc.RecordBatch]


def shuffled(batches: Batches, chance: random.Random, count: int | None = None) -> list[str]:
    """Names of columns in any order: all, or some of them."""
    names = batches[0].schema.names
    return chance.sample(names, len(names) if count is None else count)


def append_column(batches: Batches, chance: random.Random) -> Batches:
    named = field(f"new {chance.getrandbits(40)}", int64())
    return [batch.append_column(named, [chance.randrange(9) for _ in range(batch.num_rows)]) for batch in batches]


def shifted(batches: Batches, chance: random.Random) -> Batches:
    """Other values in columns of the same names."""
    return [batch.take([*range(1, len(batch)), 0]) if len(batch) else batch for batch in batches]


def renamed(batches: Batches, chance: random.Random) -> Batches:
    names = shuffled(batches, chance)
    return [batch.rename(names) for batch in batches]


def selected(batches: Batches, chance: random.Random) -> Batches:
    names = shuffled(batches, chance, chance.randint(1, batches[0].num_columns))
    return [batch.select(names) for batch in batches]


def in_cells(batch: ipc.RecordBatch) -> ipc.RecordBatch:
    return ipc.decode_payloads(ipc.encode_payloads(batch, rows_per_payload=2)).batch if len(batch) else batch


OPERATIONS: list[Callable[[Batches, random.Random], Batches]] = [
    append_column,
    shifted,
    renamed,
    selected,
    lambda batches, chance: ipc.Table.from_batches(batches).rename(shuffled(batches, chance)).to_batches(),
    lambda batches, _: [batch.drop(batch.schema.names[0]) if batch.num_columns > 1 else batch for batch in batches],
    lambda batches, chance: [batch.slice(chance.randint(0, batch.num_rows)) for batch in batches],
    lambda batches, chance: ipc.Table.from_batches(batches).head(chance.randint(1, 9)).to_batches() or [batches[0][:0]],
    lambda batches, chance: [b.take(chance.choices(range(len(b)), k=3)) if len(b) else b for b in batches],
    lambda batches, _: [ipc.Table.from_batches(batches).combine()],
    lambda batches, _: pickle.loads(pickle.dumps(batches)),
    lambda batches, _: [in_cells(batch) for batch in batches],
]


def source_of(path: Path) -> Any:
    return ipc.open(path, index=True)


def rewritten(path: Path, to: Path, chance: random.Random) -> None:
    """Read, change, write, with all metadata that are at hand."""
    with source_of(path) as reader:
        metadata = reader.metadata
        given = [reader.get_batch_metadata(i) for i in range(len(reader))]
        batches = list(reader)
    old = len(batches)
    for operation in chance.choices(OPERATIONS, k=chance.randint(0, 3)):
        batches = operation(batches, chance)
    options: dict[str, Any] = {"statistics": chance.choice([False, False, True, [batches[0].schema.names[0]]])}
    options |= chance.choice([{}, {"compression": "lz4"}, {"coalesce_rows": 5}])
    explicit = chance.random() < 0.5 and len(batches) == old
    with ipc.new_file(to, batches[0].schema, metadata=metadata, durable=False, **options) as writer:
        if chance.random() < 0.2:
            writer.write_table(ipc.Table.from_batches(batches), max_chunksize=2)
        for number, batch in enumerate(batches):
            writer.write_batch(batch, custom_metadata=given[number] if explicit else None)


def by_pyarrow(path: Path, to: Path, chance: random.Random) -> None:
    """Another library changes names, order or number of rows, and keeps all metadata."""
    with source_of(path) as reader, pa.ipc.open_file(path) as theirs:
        given = [dict(reader.get_batch_metadata(i)) for i in range(len(reader))]
        batches = [theirs.get_batch(i) for i in range(theirs.num_record_batches)]
        metadata = theirs.metadata
    names = batches[0].schema.names
    order = chance.sample(names, len(names))
    match chance.randrange(3):
        case 0:
            batches = [batch.rename_columns(order) for batch in batches]
        case 1:
            batches = [batch.select(order) for batch in batches]
        case 2:
            batches = [batch.take(pa.array([*range(len(batch)), 0])) if len(batch) else batch for batch in batches]
    with pa.ipc.new_file(to, batches[0].schema, metadata=metadata) as writer:
        for batch, pairs in zip(batches, given, strict=True):
            writer.write_batch(batch, custom_metadata=pairs)


def copied(path: Path, to: Path, chance: random.Random) -> None:
    options: dict[str, Any] = chance.choice([{}, {"statistics": True}, {"compression": "zstd"}])
    with (
        source_of(path) as reader,
        ipc.new_file(to, reader.schema, metadata=reader.metadata, durable=False, **options) as writer,
    ):
        ipc.copy(reader, writer)


def streamed(path: Path, to: Path, chance: random.Random) -> None:
    """Into a stream, which has no footer, and out of it."""
    with source_of(path) as reader, ipc.new_stream(between := path.with_suffix(".arrows"), reader.schema) as writer:
        ipc.copy(reader, writer)
    check(between)
    copied(between, to, chance)


def converted(path: Path, to: Path, chance: random.Random) -> None:
    extra = chance.choice([[], ["--statistics"], ["--compression", "lz4"], ["--batch-rows", "3"], ["--checksum"]])
    assert run("convert", path, to, "--force", *extra).code == 0


def merged(path: Path, to: Path, chance: random.Random) -> None:
    codec = chance.choice([[], ["--compression", "zstd"]])
    assert run("cat", "--merge", path, path, "-o", to, "--force", *codec).code == 0


def recovered(path: Path, to: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: -chance.choice([1, 20])])
    ipc.recover(path, into=to, durable=False)
    path.write_bytes(data)


def appended(path: Path, to: Path, chance: random.Random) -> None:
    to.write_bytes(path.read_bytes())
    with source_of(path) as reader:
        batches = shifted(list(reader), chance)
    with ipc.new_file(to, append=True, durable=False, statistics=chance.random() < 0.5) as writer:
        for batch in batches:
            writer.write_batch(batch)


def gathered(path: Path, to: Path, chance: random.Random) -> None:
    """A data set with a schema of its own."""
    with source_of(path) as reader:
        fields = chance.sample(list(reader.schema), len(reader.schema))
    dataset = ipc.open_dataset(path, schema=ipc.Schema(fields))
    with ipc.new_file(to, dataset.schema, durable=False) as writer:
        for batch in dataset:
            writer.write(batch)


WAYS: list[Callable[[Path, Path, random.Random], None]] = [
    *[rewritten] * 3,
    *(by_pyarrow, copied, streamed, converted, merged, recovered, appended, gathered),
]


def check(path: Path) -> None:
    """What anybody is told of the rows of a file is true of them; filters find all rows that match."""
    assert ipc.validate(path).ok  # which compares all checksums
    with source_of(path) as reader:
        batches, told = list(reader), ipc.file_statistics(reader)
        alone = [ipc.file_statistics(reader, batches=[i])[0] for i in range(len(reader))]
    assert alone == told
    for batch, found in zip(batches, told, strict=True):
        computed = ipc.compute_statistics(batch)
        for name, each in (found or {}).items():
            # A maximum that was left out, or was never there: the footer does not tell these apart.
            assert each._replace(max_is_exact=True) == computed[name]._replace(max_is_exact=True), name
            assert each.max_is_exact == computed[name].max_is_exact or each.max is None
    dataset = ipc.open_dataset(path)
    for name in batches[0].schema.names:
        values = [value for batch in batches for value in batch.column(name).to_pylist()]
        known = [value for value in values if value is not None and value == value]
        for value in {min(known), max(known), known[0]} if known else ():
            found = [each for batch in dataset.filter([(name, "==", value)]) for each in batch.column(name).to_pylist()]
            assert found.count(value) == values.count(value), (name, value)


@pytest.mark.campaign
@settings(max_examples=rounds(12, 3000), deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(range(len(WAYS))), min_size=1, max_size=3))
def test_statistics_are_true_of_the_rows_or_absent(tmp_path_factory, seed, ways):
    chance, folder = random.Random(seed), tmp_path_factory.mktemp("law")
    path = folder / "0.arrow"
    with ipc.new_file(path, statistics=True, checksum=chance.random() < 0.5, durable=False) as writer:
        for _ in range(chance.randint(1, 3)):
            writer.write(made(chance, chance.randint(1, 6)))
    check(path)
    # By pyarrow once: renamed and put back in order, other values have the old names, which needs all bytes to see.
    once = [way for i, way in enumerate(ways) if WAYS[way] is not by_pyarrow or way not in ways[:i]]
    for number, way in enumerate(once, 1):
        before, path = path, folder / f"{number}.arrow"
        WAYS[way](before, path, chance)
        check(path)


def test_the_law_sees_true_statistics_and_lost_ones(tmp_path):
    """Guards the law above against files without statistics."""
    chance = random.Random(1)
    with ipc.new_file(tmp_path / "a", statistics=True) as writer:
        writer.write(made(chance, 5))
    copied(tmp_path / "a", tmp_path / "b", chance)
    with ipc.open_file(tmp_path / "b") as reader:
        assert ipc.file_statistics(reader)[0]["x"].rows == 5
