"""Laws that hold for any input: splits, truncations, mutations, and the agreement of all readers."""

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from helpers import arrow_columns, drive, forge, mutate, randoms
from helpers.arrays import pyarrow_bytes
from helpers.drive import LEVELS
from helpers.memory import addressed
from helpers.processes import rounds
from hypothesis import given, settings, strategies as st

import arrowipc as ipc
from arrowipc import TruncatedError
from arrowipc.events import BatchRead, EndOfStream, SchemaRead


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Allocating more than a GiB is a MemoryError, not the end of the machine; sanitizers need it all."""
    with open("/proc/self/maps") as maps:
        if "libasan" in maps.read():
            yield
            return
    old = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (addressed() + (1 << 30), old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, old)


#: Events as text, so that two runs can be compared; all others by `repr`.
TEXTS = {
    BatchRead: lambda read: f"{[column.to_pylist() for column in read.batch.columns]} {read.batch.custom_metadata}",
    SchemaRead: lambda read: f"{read.schema} {read.schema.metadata}",
}


def summary(events: list) -> list[str]:
    return [TEXTS.get(type(event), repr)(event) for event in events]


@given(randoms.batches(), st.sampled_from([None, "lz4", "zstd"]))
def test_reading_gives_what_pyarrow_wrote(parts, codec):
    data, file = (pyarrow_bytes(parts, kind=kind, compression=codec) for kind in ("stream", "file"))
    stream = drive.read_stream(data)
    for reading in (stream, drive.read_file(file), drive.from_bytes(file[8:]), drive.pushed_in_bits(file[8:])):
        assert reading.schema.equals(stream.schema, check_metadata=True)
        assert [pa.record_batch(batch).num_rows for batch in reading.batches] == [part.num_rows for part in parts]
        for ours, theirs in zip(reading.batches, parts, strict=True):
            converted = pa.record_batch(ours)
            converted.validate(full=True)
            assert converted.equals(theirs, check_metadata=True)


def filled(data: bytes, sizes: Iterator[int]) -> list:
    """All events, of a decoder whose memory is filled."""
    decoder, seen, at = ipc.StreamDecoder(), [], 0
    while at < len(data):
        target = decoder.get_buffer()
        size = min(next(sizes), len(target), len(data) - at)
        target[:size] = data[at : at + size]
        del target
        decoder.buffer_updated(size)
        seen += decoder
        at += size
    decoder.finish()
    return [*seen, *decoder]


@pytest.mark.parametrize("feed", [drive.events, filled])
@given(parts=randoms.batches(), seed=st.integers(0, 2**32), most=st.sampled_from([1, 2, 8, 123, 1000, 1 << 20]))
def test_every_split_gives_the_same_events(feed, parts, seed, most):
    chance = random.Random(seed)
    data = pyarrow_bytes(parts)
    sizes = iter(lambda: chance.randint(1, most), None)
    assert summary(feed(data, sizes)) == summary(drive.events(data))


@given(randoms.batches(most_columns=2, most_rows=4))
def test_bytes_needed_never_asks_for_too_much(parts):
    data = pyarrow_bytes(parts)
    decoder, seen, at = ipc.StreamDecoder(), [], 0
    while at < len(data):
        need = decoder.bytes_needed
        assert 0 < need <= len(data) - at
        decoder.feed(data[at : at + need])
        at += need
        seen += decoder
    assert isinstance(seen[-1], EndOfStream)
    assert decoder.bytes_consumed == len(data)


@given(randoms.batches(), st.integers(0, 2**32), st.sampled_from([1, 2, 8, 123, 1000, 100_000]))
def test_an_event_loop_reads_the_same_for_every_split(parts, seed, most):
    chance = random.Random(seed)
    data = pyarrow_bytes(parts, compression=chance.choice([None, "lz4"]))
    rest = chance.randbytes(chance.choice((0, 0, 3, 20)))
    wanted = drive.from_bytes(data)

    async def read():
        sizes = iter(lambda: chance.randint(0, most), None)
        return [await drive.read(source) for source in drive.sources(data + rest, sizes)]

    for schema, batches in drive.run(read()):
        assert schema.equals(wanted.schema, check_metadata=True)
        found = drive.Reading(schema, batches)
        assert repr(found.values()) == repr(wanted.values())
        assert [batch.custom_metadata for batch in batches] == [batch.custom_metadata for batch in wanted.batches]


@settings(max_examples=rounds(8, 60))
@given(randoms.batches(most_columns=2, most_rows=3))
def test_every_truncation_is_a_boundary_or_truncated(parts):
    data = pyarrow_bytes(parts)
    clean = set(accumulate(map(len, forge.split(data))))
    for end in range(1, len(data)):
        for driver in (drive.from_bytes, drive.pushed, drive.awaited):
            if end in clean:
                driver(data[:end])
            else:
                with pytest.raises(TruncatedError):
                    driver(data[:end])


@given(randoms.batches(most_columns=2, most_rows=3))
def test_every_truncation_of_a_file_is_refused(parts):
    data = pyarrow_bytes(parts, kind="file")
    for end in range(0, len(data), 3):
        with pytest.raises(ipc.FormatError):
            drive.from_file(data[:end])


def outcome(driver: drive.Driver, data: bytes, **options) -> str:
    """Values as text, or the error as text; anything else passes through and fails the test."""
    try:
        reading = driver(data, **options)
        for batch in reading.batches:
            drive.use(batch, export=options["validate"] != "none")
        return repr([[c.to_pylist() for c in b.slice(0, min(b.num_rows, 1000)).columns] for b in reading.batches])
    except (ipc.ArrowIpcError, MemoryError) as error:
        return repr(error)


@pytest.mark.parametrize(
    ("kind", "codecs"),
    [("stream", [None]), ("stream", ["lz4", "zstd"]), ("file", [None])],
    ids=["streams", "compressed streams", "files"],
)
@given(parts=randoms.batches(most_rows=5), seed=st.integers(0, 2**32), level=st.sampled_from(LEVELS))
def test_mutants_give_values_or_an_error(kind, codecs, parts, seed, level):
    """All readers agree which of both; an event loop refuses with the words of the decoder that it feeds."""
    chance = random.Random(seed)
    data = pyarrow_bytes(parts, kind=kind, compression=chance.choice(codecs))
    drivers = (drive.from_bytes, drive.pushed_in_bits, drive.awaited) if kind == "stream" else drive.FILE_DRIVERS
    mutants = [mutate.overwritten(data, chance) for _ in range(10)] + [data[: chance.randrange(len(data))]]
    with bounded_memory():
        for broken in (data, *mutants):
            found = [outcome(each, broken, validate=level) for each in drivers]
            assert len({each if each[0] == "[" else "refused" for each in found}) == 1
            assert kind == "file" or found[1] == found[2]
            assert broken is not data or found[0][0] == "["


# -- batches that are walked and measured in one pass are what two passes make of them -----------------------

#: Layouts that are walked and measured in one pass.
LAYOUTS = (
    *("int32", "bool", "string", "large_binary", "large_list", "fixed_list", "struct", "map"),
    *("dictionary", "fixed_binary"),
)
FAST = pa.record_batch({name: arrow_columns.COLUMNS[name].array for name in LAYOUTS})


def parts_of(column: ipc.Array) -> tuple[Any, ...]:
    """What a column and those below it hold."""
    buffers = [None if part is None else bytes(part) for part in column.buffers()]
    return len(column), column.null_count, buffers, [parts_of(child) for child in column.children]


def stored(source: Any, columns: list[int] | None) -> list[Any]:
    """What is read, as far as that goes: null counts and bytes, or the class of the error."""
    found: list[Any] = []
    try:
        for batch in ipc.open_stream(source, validate="none", columns=columns):
            found += [batch.num_rows, *map(parts_of, batch.columns)]
    except ipc.ArrowIpcError as error:
        found.append(type(error))
    return found


def measured(source: Any, width: int) -> list[Any]:
    """Read all columns, and the same ones by number, which takes two passes."""
    found = stored(source, None)
    assert found == stored(source, list(range(width)))
    return found


@given(randoms.batches(), st.integers(0, 8))
def test_batches_are_measured_right_whatever_their_types_and_address(parts, shift):
    if parts and parts[0].num_columns:
        data = pyarrow_bytes(parts)
        found = measured(memoryview(bytes(shift) + data)[shift:], parts[0].num_columns)
        assert found == measured(data, parts[0].num_columns)
        assert not any(isinstance(each, type) for each in found), "what pyarrow writes is read"


@given(st.integers(0, 2**32))
def test_batches_are_measured_right_whatever_the_metadata_says(seed):
    for mutant in mutate.mutants(pyarrow_bytes([FAST, FAST.slice(1)]), seed, 20):
        try:
            names = ipc.open_stream(mutant).schema.names
        except ipc.ArrowIpcError:
            continue
        measured(mutant, len(names))


def test_every_word_of_a_batch_at_its_edges_is_measured_right():
    source = pyarrow_bytes([FAST])
    for slot in mutate.slots(source):
        if slot.width == 8:
            for value in (0, 1, 3, 1 << 27, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 8):
                lie = value.to_bytes(8, "little")
                measured(source[: slot.offset] + lie + source[slot.offset + 8 :], FAST.num_columns)
