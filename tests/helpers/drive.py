"""Drives every reader over the same bytes, and uses the results as thoroughly as a user could."""

import asyncio
import atexit
import contextlib
import io
import random
import re
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import arrowipc as ipc
from arrowipc import aio
from arrowipc.columns.extensions import STORED_TIMES
from arrowipc.events import BatchRead, SchemaRead

_runner: list[asyncio.Runner] = []


def run(doing: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine; in the main thread in one loop, which takes less time than a new one for each."""
    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(doing)
    if not _runner:
        _runner.append(asyncio.Runner())
        atexit.register(_runner[0].close)
    return _runner[0].run(doing)


async def pieces(data: bytes, sizes: Iterator[int]) -> AsyncIterator[bytes]:
    """Yield the data in chunks of these sizes; the size 0 yields an empty chunk."""
    at = 0
    while at < len(data):
        size = next(sizes)
        yield data[at : at + size]
        at += size


class Reads:
    """An object with an async `read` that gives fewer bytes than it is asked for."""

    def __init__(self, data: bytes, sizes: Iterator[int]) -> None:
        self.data, self.at, self._sizes = data, 0, sizes
        self.most = 0

    async def read(self, size: int) -> bytes:
        self.most = max(self.most, size)
        part = self.data[self.at : self.at + min(size, max(1, next(self._sizes)))]
        self.at += len(part)
        return part


class Receives(Reads):
    """The same as a stream of anyio, which raises an exception at its end."""

    class EndOfStream(Exception):
        """The exception in the place of anyio's."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        part = await super().read(max_bytes)
        if not part:
            raise self.EndOfStream
        return part

    read = None  # type: ignore[assignment]


def fed(data: bytes) -> asyncio.StreamReader:
    """A StreamReader that has all the data; it must be made while a loop runs."""
    source = asyncio.StreamReader()
    source.feed_data(data)
    source.feed_eof()
    return source


def sources(data: bytes, sizes: Iterator[int]) -> list[Any]:
    """A source of each kind over the same data."""
    return [pieces(data, sizes), Reads(data, sizes), Receives(data, sizes), fed(data)]


async def read(source: Any, **options: Any) -> tuple[Any, list[Any]]:
    """The schema and the batches of a source."""
    async with aio.open_stream(source, **options) as reader:
        return reader.schema, [batch async for batch in reader]


class Sink(bytearray):
    """Keeps the bytes that are written to it in a loop."""

    async def write(self, data: bytes) -> None:
        """Append data, like a response of aiohttp."""
        self += data


LEVELS = ("none", "full", "strict")
ROWS_TO_LOOK_AT = 10_000


@dataclass(frozen=True)
class Reading:
    """What one driver read: the schema and the batches."""

    schema: Any
    batches: list[Any]

    def values(self) -> list[list[list[Any]]]:
        """The Python values, per batch and column."""
        return [[column.to_pylist(extensions=STORED_TIMES) for column in batch.columns] for batch in self.batches]

    def rows(self) -> list[int]:
        return [batch.num_rows for batch in self.batches]


class ShortReads(io.RawIOBase):
    """A non-seekable source that returns a few bytes at a time, as sockets and pipes do."""

    def __init__(self, data: bytes, sizes: Iterator[int] | None = None) -> None:
        self._data, self._at = memoryview(data), 0
        self._sizes = sizes or iter(lambda: 7, None)

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        part = self._data[self._at : self._at + min(len(target), max(1, next(self._sizes)))]
        target[: len(part)] = part
        self._at += len(part)
        return len(part)


def from_bytes(data: Any, **options: Any) -> Reading:
    with ipc.open_stream(data, **options) as reader:
        return Reading(reader.schema, list(reader))


def from_object(data: bytes, **options: Any) -> Reading:
    return from_bytes(io.BytesIO(data), **options)


def from_short_reads(data: bytes, **options: Any) -> Reading:
    return from_bytes(ShortReads(data), **options)


def events(data: bytes, sizes: Iterator[int] | None = None, **options: Any) -> list[Any]:
    """All events of the push decoder, fed with chunks of the given sizes (default: all at once)."""
    decoder, found, at = ipc.StreamDecoder(**options), [], 0
    while at < len(data):
        size = max(1, next(sizes)) if sizes else len(data)
        decoder.feed(data[at : at + size])
        found += decoder
        at += size
    decoder.finish()
    return [*found, *decoder]


def pushed(data: bytes, sizes: Iterator[int] | None = None, **options: Any) -> Reading:
    seen = events(data, sizes, **options)
    schemas = [event.schema for event in seen if isinstance(event, SchemaRead)]
    return Reading(schemas[0], [event.batch for event in seen if isinstance(event, BatchRead)])


def pushed_in_bits(data: bytes, **options: Any) -> Reading:
    chance = random.Random(len(data))
    return pushed(data, iter(lambda: chance.choice((1, 3, 8, 64, 1000)), None), **options)


def from_file(data: bytes, **options: Any) -> Reading:
    with ipc.open_file(data, **options) as reader:
        return Reading(reader.schema, [reader.get_batch(i) for i in range(reader.num_record_batches)])


def from_file_object(data: bytes, **options: Any) -> Reading:
    with ipc.open_file(io.BytesIO(data), **options) as reader:
        return Reading(reader.schema, list(reader))


def awaited(data: bytes, **options: Any) -> Reading:
    chance = random.Random(len(data))
    source = pieces(data, iter(lambda: chance.choice((0, 1, 3, 8, 64, 1000)), None))
    return Reading(*run(read(source, **options)))


def indexed(data: bytes, **options: Any) -> Reading:
    """Read in any order, by an index; from memory, or in pieces from a file object."""
    with ipc.IndexedStreamReader(data if len(data) & 8 else io.BytesIO(data), **options) as reader:
        found = Reading(reader.schema, list(reader))
        numbers = list(range(len(found.batches)))
        random.Random(len(data)).shuffle(numbers)
        again = {i: reader.get_batch(i) for i in numbers}
        assert reader.count_rows() == sum(found.rows())
        if "columns" not in options:  # dictionaries that no batch needs, too
            for i in range(reader.decoder.num_dictionaries):
                reader.decoder.load_dictionary(i, *reader._dictionary(i))
    if options.get("validate", "full") != "none":
        assert repr(Reading(found.schema, [again[i] for i in sorted(again)]).values()) == repr(found.values())
    return found


STREAM_DRIVERS = (from_bytes, from_object, from_short_reads, pushed, pushed_in_bits, awaited, indexed)
FILE_DRIVERS = (from_file, from_file_object)

Driver = Callable[..., Reading]


def _agreed(data: bytes, drivers: tuple[Driver, ...], options: dict[str, Any]) -> Reading:
    first, *others = [driver(data, **options) for driver in drivers]
    for driver, other in zip(drivers[1:], others, strict=True):
        assert other.schema.equals(first.schema, check_metadata=True), driver.__name__
        assert other.rows() == first.rows(), driver.__name__
        assert repr(other.values()) == repr(first.values()), driver.__name__
    return first


def read_stream(data: bytes, **options: Any) -> Reading:
    """Read with every stream driver; all must agree."""
    return _agreed(data, STREAM_DRIVERS, options)


def read_file(data: bytes, **options: Any) -> Reading:
    """Read with every file driver; all must agree."""
    return _agreed(data, FILE_DRIVERS, options)


def column(data: bytes, index: int = 0, **options: Any) -> list[Any]:
    """The values of one column of a one-batch stream."""
    (batch,) = read_stream(data, **options).batches
    return batch.column(index).to_pylist(extensions=STORED_TIMES)


def _refuse(
    data: bytes, error: type[Exception], words: tuple[str, ...], drivers: tuple[Driver, ...], options: Any
) -> None:
    for driver in drivers:
        with pytest.raises(ipc.ArrowIpcError) as caught:
            driver(data, **options).values()
        assert isinstance(caught.value, error), f"{driver.__name__}: {caught.value!r} is no {error.__name__}"
        for word in words:
            if driver is indexed:  # it finds a broken message when it reads that batch
                word = re.sub(r"^message \d", r"(message|batch) \\d", word)
            assert re.search(word, str(caught.value), re.IGNORECASE), (
                f"{driver.__name__}: {word!r} not in {caught.value!r}"
            )


def refuse_stream(data: bytes, error: type[Exception], *words: str, **options: Any) -> None:
    """Check that every stream driver raises `error`, and that the message contains each of the patterns."""
    _refuse(data, error, words, STREAM_DRIVERS, options)


def refuse_at_every_level(data: bytes, *said: Any) -> None:
    """Check the same at each level of validation; the error is a FormatError if none is given."""
    error, *words = said if said and isinstance(said[0], type) else (ipc.FormatError, *said)
    for level in LEVELS:
        refuse_stream(data, error, *words, validate=level)


def refuse_values(data: bytes, *words: str) -> None:
    """Check that values that are unsafe for other code are refused at "full" and "strict", and harmless at "none"."""
    for level in LEVELS[1:]:
        refuse_stream(data, ipc.FormatError, *words, validate=level)
    survives(data, validate="none")


def rows_of(table: list[tuple[Any, ...]]) -> pytest.MarkDecorator:
    """Run a test for each row of a table; each row begins with the number of its case."""
    return pytest.mark.parametrize("row", table, ids=[f"{row[0]} {i}" for i, row in enumerate(table)])


def refuse_file(data: bytes, error: type[Exception], *words: str, **options: Any) -> None:
    """Check that every file driver raises `error`, and that the message contains each of the patterns."""
    _refuse(data, error, words, FILE_DRIVERS, options)


def survives(data: bytes, drivers: tuple[Driver, ...] = STREAM_DRIVERS, **options: Any) -> int:
    """Check that every driver gives values or an ArrowIpcError, nothing else; return how many gave values."""
    good = 0
    for driver in drivers:
        try:
            reading = driver(data, **options)
            for batch in reading.batches:
                use(batch, export=options.get("validate", "full") != "none")
            good += 1
        except ipc.ArrowIpcError:
            pass
    return good


def use(batch: Any, export: bool = True) -> None:
    """Use everything that a batch offers; a damaged batch may raise an ArrowIpcError, and nothing else."""
    small = batch.slice(0, min(batch.num_rows, ROWS_TO_LOOK_AT))
    repr(batch)
    small.equals(small)
    small.to_pylist(extensions=STORED_TIMES)
    for array in small.columns:
        use_array(array)
    half = small.slice(small.num_rows // 2)
    for array in half.columns:
        array.to_pylist(extensions=STORED_TIMES)
    write_out(small, sound=export)
    write_out(half, sound=export, compression="lz4", alignment=64)
    write_out(half, sound=export, unify_dictionaries=True)
    pack(half, sound=export)
    if export:
        export_to_pyarrow(batch)


def write_out(batch: Any, sound: bool, **options: Any) -> None:
    """Write a batch; if it is `sound` it must come back as it was, else it may also be refused."""
    if batch.schema.endianness == "big":
        return  # such a batch is kept as stored, and our writers are little-endian
    sink = bytearray()
    with contextlib.suppress(*(() if sound else (ipc.ArrowIpcError,))):
        with ipc.new_stream(sink, batch.schema, **options) as writer:
            writer.write_batch(batch)
        (again,) = ipc.open_stream(sink, validate="full" if sound else "none")
        assert not sound or again.equals(batch, nan_equal=True)


def pack(batch: Any, sound: bool) -> None:
    """Encode a payload for each run of equal values of the first column, and one for each row, which must come back."""
    if batch.schema.endianness == "big":
        return
    names = batch.schema.names
    if names and names.count(names[0]) == 1:
        with contextlib.suppress(*(() if sound else (ipc.ArrowIpcError,))):
            found = ipc.encode_payloads(batch, group_by=names[0], keep_keys=True)
            assert len(found.payloads) == len(found.keys) <= len(batch)
    with contextlib.suppress(*(() if sound else (ipc.ArrowIpcError,))):
        cells = ipc.encode_payloads(batch, rows_per_payload=1)
        for row, cell in enumerate(cells if sound else ()):
            (again,) = ipc.open_stream(cell)
            assert again.equals(batch.slice(row, 1), nan_equal=True)


def use_array(array: Any) -> None:
    """Use everything that an array and its children offer."""
    repr(array), array.null_count, array.type, array.offset
    array.to_pylist(extensions=STORED_TIMES)
    array.slice(len(array) // 2, 2).to_pylist(extensions=STORED_TIMES)
    array.equals(array)
    for index in (0, len(array) - 1):
        if len(array):
            with contextlib.suppress(ipc.UnsupportedError):  # nanoseconds that Python's classes cannot hold
                array[index]
    with contextlib.suppress(ipc.UsageError, ipc.UnsupportedError):
        array.to_numpy()
    for buffer in array.buffers():
        bytes(buffer[:64]) if buffer is not None else None
    for child in array.children:
        if len(child) <= ROWS_TO_LOOK_AT:
            use_array(child)
    if array.dictionary is not None and len(array.dictionary) <= ROWS_TO_LOOK_AT:
        use_array(array.dictionary)


# Errors of pyarrow that are not about memory safety: value domains and padding, which our "full" leaves to
# "strict"; dense union offsets that do not rise; empty slices of views, which it refuses even from itself.
_BEYOND_FULL = r"""precision|whole\ number\ of\ days|acceptable\ range|does\ not\ fit|null.count
    |padding\ bytes|non-monotonic\ offset|length:\ 0\ and\ offset"""
# All errors of pyarrow about its own extension types, tried one by one: to us, an extension is its storage type
# and bytes.
_OF_EXTENSIONS = r"""storage\ type|serialized?\ (JSON\ |)(meta)?data|JSON\ (parse\ error|object)|type_name
    |dim_names|permutation|shape\ (must|dimensions)|uniform_shape|FixedSizeList\ value\ type|to\ Tensor"""
_ASKS_FOR_MORE = re.compile(f"{_BEYOND_FULL}|{_OF_EXTENSIONS}", re.IGNORECASE | re.VERBOSE)


def export_to_pyarrow(batch: Any) -> None:
    """Export a batch to pyarrow, whose full validation must accept it, as far as that is about memory safety."""
    import pyarrow as pa

    found = None
    try:
        found = pa.record_batch(batch)
        found.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowTypeError) as error:
        if not _ASKS_FOR_MORE.search(str(error)):
            raise AssertionError(f"an invalid batch was handed over: {error}") from error
    if found is not None:
        # pyarrow builds an array when it is asked for; one that it cannot build ends the process.
        for i in range(found.num_columns):
            with contextlib.suppress(KeyError):  # a type that pyarrow has no Python class for
                found.column(i).to_string(window=2, container_window=2)
