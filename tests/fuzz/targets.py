"""One target per way into the library: any bytes give values or an error of ours, and values can be used.

A target takes bytes, and a random generator for the other choices of a caller; an error that it raises is a finding.
"""

import asyncio
import base64
import contextlib
import functools
import gzip
import itertools
import json
import random
import struct
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from columns.variants import extension_streams
from dissociated import peers
from helpers import arrays, drive
from helpers.cdata import CStream
from helpers.memory import nothing_imported
from helpers.mutate import overwritten

import arrowipc as ipc
from arrowipc import Limits, aio, types
from arrowipc.cdata.import_array import array_from, batch_from, schema_from, stream_from
from arrowipc.cli.browse import browsed, page_of
from arrowipc.cli.sources import Failure, opened
from arrowipc.cli.terminal import json_text
from arrowipc.columns.extensions import Names, variant_value
from arrowipc.decode.decoders import schema_of
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.dissociated.client import Client
from arrowipc.dissociated.conformance.__main__ import lines
from arrowipc.dissociated.conformance.servers import STREAM, Subject, Wire, check_server
from arrowipc.dissociated.link import Link
from arrowipc.dissociated.session import Roles, Session
from arrowipc.dissociated.transports.message_runs import read_run, write_run
from arrowipc.dissociated.uri import DissociatedUri
from arrowipc.filters.pruning import OPERATORS, Pruner
from arrowipc.filters.row_filters import RowFilter
from arrowipc.filters.statistics import mark_of
from arrowipc.inspection.message_layout import locate_messages, nodes_of, outline_of
from arrowipc.sources.file_statistics import decode_entry
from arrowipc.sources.files import find_files
from arrowipc.sources.spark_log import LOG, local_log
from fuzz import corpus, uses
from fuzz.imports import Hostile
from fuzz.sides import FEW, SMALL, Inside, Stored, guarded, source_of, told

#: The limits of `FEW`, with which readers decode a batch again for nearly every row.
KEEPS_ONE = Limits(**SMALL, row_cache_bytes=0)
MOST_BATCHES = 8


@dataclass(frozen=True)
class Target:
    """A way into the library, and valid inputs for it."""

    name: str
    run: Callable[[bytes, random.Random], bool]
    seeds: Callable[[], list[bytes]]

    def __call__(self, data: bytes) -> bool:
        """Run with choices that follow from the data; return False if the data were refused."""
        return self.run(data, random.Random(zlib.crc32(data)))


TARGETS: dict[str, Target] = {}


def target(name: str, *seeds: Callable[[], list[bytes]]) -> Callable[[Any], Any]:
    """Register a function as the target `name`, fed with `seeds`; errors of ours are not findings."""

    def register(run: Callable[[bytes, random.Random], None]) -> Callable[[bytes, random.Random], bool]:
        @functools.wraps(run)
        def guarded(data: bytes, chance: random.Random) -> bool:
            try:
                run(data, chance)
            except uses.REFUSED:
                return False
            return True

        TARGETS[name] = Target(name, guarded, lambda: [each for make in seeds for each in make()])
        return guarded

    return register


def level_of(chance: random.Random) -> str:
    return chance.choice(("none", "none", "full", "full", "full", "strict"))


def options(chance: random.Random) -> dict[str, Any]:
    """Options that a caller may give to a reader."""
    chosen: dict[str, Any] = {"validate": level_of(chance), "limits": None if chance.random() < 0.1 else FEW}
    if chance.random() < 0.2:
        chosen["columns"] = chance.choice(([0], [1, 0], [], ["x"], ["c0.a"], [0, 1, 0]))
    if chance.random() < 0.2:
        chosen["ensure_native_endian"] = False
    chosen["use_threads"] = chance.random() < 0.2
    if chance.random() < 0.3:
        chosen["verify"] = chance.choice((None, None, True))
    return chosen


def a_seed(seeds: list[bytes], data: bytes) -> bytes:
    """A valid input that follows from the data."""
    return seeds[zlib.crc32(data[:64]) % len(seeds)]


def read(batches: Any, level: str, chance: random.Random) -> None:
    """Use the first batches."""
    for _, batch in zip(range(MOST_BATCHES), batches, strict=False):
        uses.batch(batch, level, chance)


@functools.cache
def scratch() -> tempfile.TemporaryDirectory[str]:
    """A directory that is removed at the end of this process."""
    return tempfile.TemporaryDirectory(prefix="arrowipc-fuzz-", ignore_cleanup_errors=True)


def laid(name: str, data: bytes) -> Path:
    """Write a new file: the one before may still be mapped, and must not be cut short."""
    path = Path(scratch().name, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return path


# -- readers -------------------------------------------------------------------------------------------------


@target("stream", corpus.streams)
def stream(data: bytes, chance: random.Random) -> None:
    chosen = options(chance)
    with ipc.open_stream(source_of(data, chance), **chosen) as reader:
        read(reader, chosen["validate"], chance)
        repr(reader), reader.stats, reader.bytes_consumed


def appended_to(data: bytes, *batches: Any) -> Path:
    """The data as a file to which a writer appended batches."""
    path = laid("x.arrows", data)
    with ipc.new_stream(path, append=True, durable=False) as writer:
        for batch in batches:
            writer.write(batch)
    return path


@target("growing-stream", corpus.streams)
def growing_stream(data: bytes, chance: random.Random) -> None:
    """Append to a valid stream and bytes after it, which are cut off or refused; append to any stream and follow it."""
    batch = arrays.batch_of(1, 2)
    good = appended_to(b"", batch).read_bytes()[:-8]
    with contextlib.suppress(ipc.ArrowIpcError):
        whole = appended_to(good + data[: chance.choice((3, 8, 200, len(data)))], batch).read_bytes()
        assert whole.startswith(good)
        assert [each == batch for each in ipc.open_stream(whole)][-1]
    path = appended_to(data[: chance.randrange(len(data) + 1)])
    batches = list(ipc.open_stream(path.read_bytes(), limits=FEW))
    with ipc.open_stream(path, follow=True, timeout=0, limits=FEW) as reader:
        assert [each.num_rows for each in reader] == [each.num_rows for each in batches]
    read(batches, "full", chance)


def in_any_order(make: Callable[..., Any], data: bytes, chance: random.Random, seekable: bool = False) -> None:
    """Use batches by their numbers, and what the reader that `make` makes says of all of them."""
    chosen = options(chance)
    with make(source_of(data, chance, seekable), **chosen) as reader:
        repr(reader), reader.blocks, reader.metadata, reader.schema
        numbers = list(range(reader.num_record_batches))[:MOST_BATCHES]
        chance.shuffle(numbers)
        with contextlib.suppress(*uses.REFUSED):
            ipc.file_statistics(reader, batches=numbers)
        for number in numbers:
            with contextlib.suppress(*uses.REFUSED):
                reader.get_batch_metadata(number)
            with contextlib.suppress(*uses.REFUSED):
                uses.batch(reader.get_batch(number), chosen["validate"], chance)
        reader.count_rows()


@target("file", corpus.files)
def file(data: bytes, chance: random.Random) -> None:
    in_any_order(ipc.open_file, data, chance)


@target("feather", corpus.feathers)
def feather(data: bytes, chance: random.Random) -> None:
    """A Feather V1 file, which `open` knows from its first bytes."""
    in_any_order(ipc.open, b"FEA1" + data[4:], chance)


@target("indexed", corpus.streams)
def indexed(data: bytes, chance: random.Random) -> None:
    in_any_order(functools.partial(ipc.open, index=True), data, chance, seekable=True)


@target("rows", corpus.files, corpus.streams)
def rows(data: bytes, chance: random.Random) -> None:
    """Read rows of files and of indexed streams: in any order, one row, and a range of rows."""
    chosen = options(chance)
    if chosen["limits"] is not None and chance.random() < 0.5:
        chosen["limits"] = KEEPS_ONE
    make = ipc.open_file if data[:6] == b"ARROW1" else functools.partial(ipc.open, index=True)
    with make(source_of(data, chance, seekable=True), **chosen) as reader:
        lengths, total = reader.batch_lengths().tolist(), reader.count_rows()
        for _ in range(3):
            wanted = [chance.randrange(-total, total) for _ in range(chance.randrange(40))] if total else []
            wanted = chance.choice((wanted, sorted(wanted), wanted[:2] * 5, list(range(min(total, 40)))))
            some = chance.choice((None, None, None, [0]))
            with contextlib.suppress(*uses.REFUSED):
                taken = reader.take(wanted, columns=some)
                assert taken.num_rows == len(wanted)
                uses.batch(taken, chosen["validate"], chance)
                # Do not compare rows that were not validated: they, and rows copied with them, may be invalid.
                for place, row in list(enumerate(wanted))[:3] if some is None and chosen["validate"] != "none" else ():
                    row, number = row % total, 0
                    while row >= lengths[number]:
                        row, number = row - lengths[number], number + 1
                    one = reader.get_batch(number).slice(row, 1)
                    assert taken.slice(place, 1).equals(one, nan_equal=True), (wanted, place)
            with contextlib.suppress(*uses.REFUSED):
                repr(reader.row(wanted[0] if wanted else 0, columns=some, extensions=chance.random() < 0.2))
            start = chance.randrange(min(total, 1 << 40) + 1)
            with contextlib.suppress(*uses.REFUSED):
                part = reader.slice(start, chance.randrange(100), columns=some)
                assert part.num_rows <= total - start
                for each in part.batches:
                    uses.batch(each, chosen["validate"], chance)


@target("push", corpus.streams)
def push(data: bytes, chance: random.Random) -> None:
    chosen = options(chance)
    del chosen["use_threads"]
    sizes = iter(lambda: chance.choice((1, 3, 8, 64, 1000, 1 << 16)), None)
    for event in drive.events(data, sizes if chance.random() < 0.8 else None, **chosen)[: 2 * MOST_BATCHES]:
        repr(event)
        if hasattr(event, "batch"):
            uses.batch(event.batch, chosen["validate"], chance)


@target("awaited", corpus.streams)
def awaited(data: bytes, chance: random.Random) -> None:
    """Read in an event loop, from any kind of source and in any pieces, and cancel some of the reads."""
    chosen = options(chance)
    sizes = iter(lambda: chance.choice((0, 1, 7, 64, 5000, 1 << 17)), None)

    async def read_some() -> list[Any]:
        reader = aio.open_stream(chance.choice(drive.sources(data, sizes)), **chosen)
        found: list[Any] = []
        try:
            while len(found) < MOST_BATCHES:
                task = asyncio.create_task(reader.read_next_batch())
                if chance.random() < 0.1:
                    await asyncio.sleep(0)
                    task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    found.append(await task)
        except StopAsyncIteration:
            repr(reader), reader.schema, reader.stats
        finally:
            await reader.close()
        return found

    for batch in drive.run(read_some()):
        uses.batch(batch, chosen["validate"], chance)


@target("awaited-file", corpus.files)
def awaited_file(data: bytes, chance: random.Random) -> None:
    chosen = options(chance)

    async def read_some() -> list[Any]:
        found: list[Any] = []
        async with aio.open_file(Stored(data, chance), "x", prefetch=chance.randrange(4), **chosen) as reader:
            repr(reader), reader.metadata
            for number in range(min(reader.num_record_batches, 2)):
                with contextlib.suppress(*uses.REFUSED):
                    found.append(await reader.get_batch(-number))
            async for batch in reader:
                found.append(batch)
                if len(found) >= MOST_BATCHES:
                    break
        return found

    with contextlib.suppress(OSError):  # of an answer that is too short
        for batch in drive.run(read_some()):
            uses.batch(batch, chosen["validate"], chance)


@target("message", corpus.streams, corpus.tensors, corpus.sparse_tensors)
def message(data: bytes, chance: random.Random) -> None:
    found: list[Any] = []
    level, schema = level_of(chance), chance.choice(corpus.schemas())
    with contextlib.suppress(*uses.REFUSED):
        for each in ipc.MessageReader(source_of(data, chance), limits=FEW):
            found.append(each)
            uses.message(each)
    with contextlib.suppress(*uses.REFUSED):
        ipc.read_message(data, limits=FEW)
    with contextlib.suppress(*uses.REFUSED):
        schema = ipc.read_schema(found[0] if found else data, limits=FEW)
    words = [each for each in found if each.kind == "DictionaryBatch"]
    for each in found[:MOST_BATCHES]:
        with contextlib.suppress(*uses.REFUSED):
            batch = ipc.read_record_batch(each, schema, validate=level, limits=FEW, dictionaries=words)
            uses.batch(batch, level, chance)


@target("payload", corpus.streams)
def payload(data: bytes, chance: random.Random) -> None:
    good = a_seed(corpus.streams(), data)
    cells: list[Any] = [guarded(data), None, data, data[: chance.randrange(len(data) + 1)], good, data]
    cells = cells[: chance.randrange(1, len(cells) + 1)]
    if chance.random() < 0.5:
        chance.shuffle(cells)
    schema = None
    if chance.random() < 0.4:
        with contextlib.suppress(*uses.REFUSED):
            schema = ipc.read_schema(chance.choice((good, data)), limits=FEW)
    level = level_of(chance)
    decoded = ipc.decode_payloads(
        cells,
        schema,
        validate=level,
        limits=FEW,
        on_error=chance.choice(("raise", "skip", "null", "null")),
        dictionaries=chance.choice(("unify", "decode")),
        parent_index=chance.random() < 0.3,
        bare=chance.random() < 0.7,
        use_threads=False,
        verify=chance.choice((*[False] * 9, None, None, True)),
        max_rows=chance.choice((None, None, 0, 3)),
        max_bytes=chance.choice((None, None, 100)),
    )
    repr(decoded), repr(decoded.failures), decoded.counts.to_pylist(), decoded.schema
    assert sum(each or 0 for each in decoded.counts.to_pylist()) == decoded.batch.num_rows or schema is None
    uses.batch(decoded.batch, level, chance)


@target("recover", corpus.files, corpus.streams)
def recover(data: bytes, chance: random.Random) -> None:
    chosen = options(chance)
    if chance.random() < 0.3:
        source: Any = laid("recover.arrow", data)
        chosen["memory_map"] = chance.random() < 0.5
    else:
        source = source_of(data, chance)
    chosen["resync"] = chosen["validate"] != "none" and chance.random() < 0.5
    if chance.random() < 0.3:
        report = ipc.recover(source, into=(sink := bytearray()), **chosen)
        with ipc.open(sink, limits=FEW) as again:
            assert sum(batch.num_rows for batch in again) == report.num_rows
        return
    with ipc.recover(source, **chosen) as reader:
        read(reader, chosen["validate"], chance)
        list(reader)
        assert str(reader.report)
        assert reader.report.complete == (reader.report.error is None)


@target("validate", corpus.files, corpus.streams, corpus.tensors)
def validate(data: bytes, chance: random.Random) -> None:
    """Invalid bytes raise nothing, and bytes that are reported as valid can be read."""
    level = chance.choice(("full", "strict"))
    try:
        found = ipc.validate(source_of(data, chance), level=level, limits=FEW)
        assert repr(found)
        assert str(found)
        if found.ok:
            with ipc.open(data, validate=level, limits=FEW) as reader:
                read(reader, level, chance)
    except ipc.ArrowIpcError as error:
        raise AssertionError(f"bad bytes were to raise nothing, good ones to be read: {error}") from error


@target("anatomy", corpus.files, corpus.streams)
def anatomy(data: bytes, chance: random.Random) -> None:
    """Find the messages, and the nodes and buffers of each column."""
    source = source_of(data, chance)
    schema = None
    for located in locate_messages(source, limits=FEW):
        if located.message.kind == "Schema":
            schema = schema_of(located.message, FEW)
        found = outline_of(located.message)
        if found is not None and found.dictionary_id is None and schema is not None:
            nodes = nodes_of(located.message, schema.fields)
            assert sum(len(each.buffers) for each in nodes) <= len(found.buffers)


@target("browse", corpus.files, corpus.streams)
def browse(data: bytes, chance: random.Random) -> None:
    """Show a source like the command line: as documents, with nothing that could drive a terminal or a browser."""
    found = browsed("x", data, FEW)
    text = json_text(found)
    assert text.isprintable()
    assert len(text) < 4_000_000
    assert json.loads(text) == json.loads(json.dumps(found))
    assert "<script" not in page_of(found)


# -- tensors -------------------------------------------------------------------------------------------------


@target("tensor", corpus.tensors)
def tensor(data: bytes, chance: random.Random) -> None:
    for each in ipc.read_tensors(source_of(data, chance), limits=FEW):
        uses.tensor(each) if isinstance(each, ipc.Tensor) else uses.sparse(each, "full")


@target("sparse", corpus.sparse_tensors)
def sparse(data: bytes, chance: random.Random) -> None:
    level = level_of(chance)
    uses.sparse(ipc.read_sparse_tensor(source_of(data, chance), validate=level, limits=FEW), level)


# -- dissociated ---------------------------------------------------------------------------------------------


@target("client", corpus.frames)
def client(data: bytes, chance: random.Random) -> None:
    level = level_of(chance)
    # A server may say that it is full (ConnectionRefusedError) or belongs to another user (PermissionError).
    with told(data) as (_, connection), contextlib.suppress(ConnectionError, PermissionError):
        link = Link(connection, connection, Inside(data))
        columns = chance.choice((None, ()))
        with Client(link, StreamDecoder(columns, level, FEW), FEW).begin(5) as reader:
            read(reader, level, chance)
            repr(reader)


@target("conformance", corpus.frames)
def conformance(data: bytes, chance: random.Random) -> None:
    """Whatever a server sends, each check of a stream ends with a result."""
    free = chance.choice((None, corpus.FREE))
    uri = DissociatedUri("arrowipc+unix", path="/x", want_data=corpus.WANT, free_data=free)
    items = {each for numbers in STREAM for each in numbers}
    with told(data) as (_, connection):
        subject = Subject([[uri]], b"", 0.01)
        subject.seen = Wire([uri], 0.01, lambda *_: (connection, Inside(data))).listen()
        results = check_server(subject, items)
        assert {each.number for each in results} == items
        "\n".join(lines(results, items, chance.random() < 0.5))


@target("runs", corpus.frames)
def runs(data: bytes, chance: random.Random) -> None:
    """Messages that are read together are written as the same bytes, wherever reading begins."""
    start, end = len(peers.HELLO), chance.choice((len(data), len(data) + 1, chance.randrange(len(data) + 1)))
    if chance.random() < 0.2:
        start = chance.randrange(-1, len(data) + 1)
    for number in range(MOST_BATCHES):
        found, last = read_run(data, start, end, number, FEW)
        assert start <= last <= max(start, min(end, len(data)))
        if found:
            again = b"".join(write_run(number, found))
            assert len(again) == last - start
            assert again == data[start:last]
        else:
            assert last == start
            kind, length = struct.unpack_from("<Q8xQ", data, start) if 0 <= start <= len(data) - 24 else (0, 0)
            start += 24 + length if kind < 2 and length < len(data) else 1
        if (start := max(start, last)) > len(data):
            break


SERVED = ipc.Table.from_arrow(peers.numbers(50))


@target("server", corpus.requests)
def server(data: bytes, chance: random.Random) -> None:
    streams = {b"t": SERVED}
    with told(data) as (raw, connection), contextlib.suppress(ConnectionError):
        roles = Roles({corpus.WANT: "both", corpus.WANT + 1: "meta", corpus.WANT + 2: "data"}, corpus.FREE)
        session = Session(connection, streams.get, roles)
        for _ in range(2000):
            if session.step() is None:
                break
            with contextlib.suppress(BlockingIOError):
                while raw.recv(1 << 20):
                    pass
        else:
            raise AssertionError("the session does not end, and its client is gone")
        session.close()


@target("uri", corpus.uris)
def uri(data: bytes, chance: random.Random) -> None:
    """The URI of a server survives text, and so do others that differ from it in a few bytes."""
    for each in [*(overwritten(data or b"?", chance, 1) for _ in range(50)), data]:
        with contextlib.suppress(*(() if each is data else uses.REFUSED)):
            found = DissociatedUri.parse(each.decode(chance.choice(("latin-1", "utf-8")), "replace"))
            assert 0 <= found.want_data < 2**64
            assert DissociatedUri.parse(str(found)) == found


# -- from other libraries, and into files --------------------------------------------------------------------


@target("import", corpus.dice)
def imported(data: bytes, chance: random.Random) -> None:
    hostile, level = Hostile(data), chance.choice(("none", "full"))
    with nothing_imported(), contextlib.suppress(*uses.REFUSED):
        if chance.random() < 0.7:
            pair = hostile.batch()
            with contextlib.suppress(*uses.REFUSED):
                repr(schema_from(pair[0]))
            uses.batch(batch_from(pair, level), level, chance)
        else:
            drive.use_array(array_from(hostile.single(), level))


@target("import-stream", corpus.dice)
def imported_stream(data: bytes, chance: random.Random) -> None:
    """Everything that a producer gave is released once, whatever happens to it here."""
    hostile = Hostile(data)
    stream = hostile.stream()
    with nothing_imported(), contextlib.suppress(*uses.REFUSED, OSError):
        _import_stream(stream, chance)
    released = {kind: hostile.producer.released[kind] for kind in stream.given}
    assert released == stream.given, f"given {stream.given}, released {released}"
    assert stream.released[CStream] == 1


def _import_stream(source: Any, chance: random.Random) -> None:
    level = chance.choice(("none", "full"))
    match chance.randrange(6):
        case 0:
            uses.batch(batch_from(source, level), level, chance)
        case 1:
            drive.use_array(array_from(source, level))
        case 2:
            with ipc.new_stream(bytearray()) as writer:
                writer.write(source)
        case _:
            taken = stream_from(source, level)
            for _ in range(2 * MOST_BATCHES):
                with contextlib.suppress(*uses.REFUSED, OSError):
                    batch = next(taken, None)
                    if batch is None:
                        break
                    uses.batch(batch, level, chance)
            if chance.random() < 0.5:
                taken.close()


@target("append", corpus.files)
def append(data: bytes, chance: random.Random) -> None:
    """A file that cannot be appended to stays unchanged; any other keeps all of its batches and has the new one."""
    path, level = laid("append.arrow", data), level_of(chance)
    with ipc.open_file(data, validate=level, limits=FEW) as reader:
        schema, count = reader.schema, reader.num_record_batches
        batch = reader.get_batch(0) if count else None
    try:
        with ipc.new_file(path, append=True, durable=False) as writer:
            if batch is not None:
                writer.write_batch(batch)
    except uses.REFUSED:
        assert path.read_bytes() == data, "refused, and changed all the same"
        return
    with ipc.open_file(path, limits=FEW, validate=level) as again:
        assert again.schema.equals(schema)
        assert again.num_record_batches == count + (batch is not None)
        with contextlib.suppress(*uses.REFUSED):
            again.count_rows()
    if batch is not None and level != "none":
        with ipc.open_file(path, limits=FEW) as again:
            assert again.get_batch(count).equals(batch, nan_equal=True)


@target("buffers", corpus.streams)
def buffers(data: bytes, chance: random.Random) -> None:
    """Make batches from changed nodes, buffers and dictionaries of hostile batches."""
    with ipc.open_stream(data, validate="none", limits=FEW) as reader:
        batch = next(iter(reader), None)
    if batch is None:
        return
    parts = arrays.parts_of(batch)
    for _ in range(chance.choice((0, 0, 0, 1, 2, 3))):
        name = chance.choice(("length", "nodes", "buffers", "buffers", "variadic", "dictionaries"))
        if name == "length":
            parts[name] = chance.choice((0, -1, parts[name] + 1, 1 << 62, 1 << 70))
        elif parts[name]:
            parts[name][chance.randrange(len(parts[name]))] = _other(name, chance.choice(parts[name]), chance)
    level = level_of(chance)
    uses.batch(ipc.RecordBatch.from_buffers(**parts, validate=level, limits=FEW), level, chance)


def _other(name: str, old: Any, chance: random.Random) -> Any:
    if name == "nodes":
        return chance.choice((old, (old[0], -1), (old[0] + 1, old[1]), (1 << 62, 0), (old[0], 1 << 40), (old[0], 0)))
    if name == "variadic":
        return chance.choice((0, -1, old + 1, 1 << 62))
    if old is None:
        return None
    if name == "dictionaries":
        return chance.choice((None, old.slice(1), old))
    return chance.choice((None, old, old[1:], old[: len(old) // 2], bytes(len(old)), chance.randbytes(len(old))))


@target("extensions", extension_streams)
def extensions(data: bytes, chance: random.Random) -> None:
    """Read extension types with changed parameters, and values that no reader validates."""
    level = level_of(chance)
    with ipc.open_stream(data, validate=level, limits=FEW) as reader:
        for batch in reader:
            for column in batch.columns:
                column.to_pylist(extensions=True, max_values=chance.choice((None, 1000)))
            list(batch.iter_rows(extensions={"arrow.uuid": repr}))


@target("variant", corpus.variants)
def variant(data: bytes, chance: random.Random) -> None:
    end = 1 + data[0] if data else 0
    made = 0

    def charge(values: int, lists: int, dicts: int) -> None:
        nonlocal made
        made += values

    names = Names(data[1:end])
    for value in (data[end:], data[end + chance.randrange(4) :]):
        variant_value(names, value, charge)
    assert made <= 2 * len(data), "more values than bytes"


def filter_of(names: list[str], chance: random.Random, depth: int = 0) -> Any:
    """A filter, which may be invalid."""
    if depth < 4 and chance.random() < 0.4:
        parts = [filter_of(names, chance, depth + 1) for _ in range(chance.randrange(4))]
        return chance.choice((parts, [parts], (chance.choice(("and", "or", "not")), *parts)))
    op = chance.choice((*OPERATORS, "=", "~"))
    literal = chance.choice((chance.choice(uses.LITERALS), list(uses.LITERALS[: chance.randrange(6)])))
    return (chance.choice(names), op) if "null" in op else (chance.choice(names), op, literal)


@target("footer-statistics", corpus.footers)
def footer_statistics(data: bytes, chance: random.Random) -> None:
    """Decode statistics from anywhere, and let filters use them."""
    count, schema = 1, ipc.Schema([])
    with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        document = json.loads(data)
        names = [str(name) for name in document["columns"] if "." not in name]
        schema, count = ipc.Schema([types.field(name, types.int8()) for name in names]), len(document["rows"])
        data = json.dumps({**document, "names": mark_of(schema)}).encode()
    text = base64.b64encode(zlib.compress(data, 1))
    for found in (decode_entry(text, min(count, 1 << 16), bytes(24), schema) or [])[:MOST_BATCHES]:
        for path, known in (found or {}).items():
            assert known.null_count is None or 0 <= known.null_count <= known.rows, path
            assert known.min is None or known.max is None or known.min <= known.max, path
        _prune(found, chance)


@target("filter", corpus.streams)
def filtered(data: bytes, chance: random.Random) -> None:
    """Any filter on the columns of any schema is refused, or decides by statistics and by values."""
    level = level_of(chance)
    with ipc.open_stream(data, validate=level, limits=FEW) as reader:
        names = [*reader.schema.names, "c0.a"]
        for batch in (None, *zip(range(2), reader, strict=False)):
            known = None if batch is None or level == "none" else ipc.compute_statistics(batch[1])
            for _ in range(4 if batch is not None else 0):
                with contextlib.suppress(*uses.REFUSED):
                    test = RowFilter(filter_of(names, chance), reader.schema, strict=chance.random() < 0.5)
                    some = batch[1].slice(chance.randrange(3), uses.ROWS)
                    passed = memoryview(test.rows(some)).cast("q").tolist()
                    assert passed == sorted({*passed} & {*range(len(some))})
                    uses.batch(test.apply(some), level, chance)
            for _ in range(4):
                with contextlib.suppress(ipc.UsageError):
                    pruner = Pruner(filter_of(names, chance), reader.schema, strict=chance.random() < 0.5)
                    pruner.keeps(known), pruner.keeps(None, {chance.choice(names): chance.choice(uses.LITERALS)})


def _prune(known: Any, chance: random.Random) -> None:
    """Use bounds of any type for columns of another type."""
    for path in known or ():
        kind = chance.choice((types.int64(), types.utf8(), types.float32(), types.timestamp("ms"), types.binary()))
        schema = ipc.Schema([types.field(path, kind)])
        for op in OPERATORS:
            literal = () if "null" in op else ([] if "in" in op else chance.choice(uses.LITERALS),)
            Pruner((path, op, *literal), schema, strict=False).keeps(known)


@target("columns", corpus.streams)
def columns(data: bytes, chance: random.Random) -> None:
    """Casts, masks, indices and parts of any column: each is refused, or gives as many elements as it should."""
    level = level_of(chance)
    with ipc.open_stream(data, validate=level, limits=FEW) as reader:
        found = [array for _, batch in zip(range(2), reader, strict=False) for array in batch.slice(0, 200).columns]
    for array in found[:20]:
        uses.computed(array.slice(chance.randrange(2)), level, chance)


@target("gzip", lambda: [gzip.compress(each, mtime=0) for each in corpus.files() + corpus.streams()])
def unpacked(data: bytes, chance: random.Random) -> None:
    """Read gzip data like the command line: valid or damaged, of any content."""
    level = level_of(chance)
    try:
        with opened(str(laid("packed.gz", data)), validate=level, limits=FEW) as reader:
            read(reader, level, chance)
    except Failure as failure:
        if not isinstance(failure.error, OSError):
            raise failure.error from None


@target("copy", corpus.files, corpus.streams)
def copied(data: bytes, chance: random.Random) -> None:
    """Data that were copied at "full" can be read at "full", and are the same."""
    level, sink = chance.choice(("none", "full")), bytearray()
    make = ipc.new_file if chance.random() < 0.5 else ipc.new_stream
    source = source_of(data, chance, seekable=True)
    codec = chance.choice((None, None, "lz4", "zstd"))
    dictionaries = {
        "dictionary_deltas": chance.choice((None, None, True, False)),
        "unify_dictionaries": chance.random() < 0.3,
    }
    with (
        ipc.open(source, validate=level, limits=FEW) as reader,
        make(sink, reader.schema, compression=codec, **dictionaries) as writer,
    ):
        ipc.copy(reader, writer)
    if level == "full":
        with ipc.open(data, limits=FEW) as before, ipc.open(bytes(sink), limits=FEW) as after:
            for old, new in zip(before, after, strict=True):
                if old.num_rows <= uses.ROWS:
                    assert new.equals(old, nan_equal=True), "a batch changed when it was copied"


# -- rows ----------------------------------------------------------------------------------------------------


@target("row-dataset", corpus.files, corpus.streams)
def row_dataset(data: bytes, chance: random.Random) -> None:
    """Some rows, one by one and together: each is read, or refused with an error of ours."""
    form = chance.choice(("python", "numpy", "arrow"))
    found = ipc.RowDataset(laid("rows.arrow", data), format=form, validate=level_of(chance), limits=FEW)
    count = len(found)
    repr(found)
    for _ in range(4 if count else 0):
        rows = [chance.randrange(-count, count) for _ in range(chance.choice((1, 5)))]
        for ask in (rows[0], rows):
            with contextlib.suppress(*uses.REFUSED):
                found[ask]


@target("spark_log", corpus.spark_logs)
def spark_log(data: bytes, chance: random.Random) -> None:
    """Read a file of the log of Spark's streaming sink: exactly the files that it lists are found."""
    folder = str(laid(f"spark_log/{LOG}/0", b"").parents[1])
    laid(f"spark_log/{LOG}/0", data.replace(b"FOLDER", folder.encode()))
    for name in corpus.LOGGED_FILES:
        laid(f"spark_log/{name}", b"")
    found = {file.path[len(folder) + 1 :] for file in find_files([folder], ignore_missing=True, may_be_empty=True)}
    assert found == (local_log(folder) or set()) & {*corpus.LOGGED_FILES}


@target("dataset", corpus.files, corpus.streams)
def dataset(data: bytes, chance: random.Random) -> None:
    """Read a folder with the input, a valid file, and perhaps a truncated one; the key of one of them is odd."""
    good = a_seed(corpus.files(), data)
    laid("set/k=1/a.arrow", data)
    laid("set/k=x%20/b.arrow", good)
    laid("set/c.arrow", data[: chance.randrange(len(data) + 1)] if chance.random() < 0.3 else data)
    folder = Path(scratch().name) / "set"
    level = level_of(chance)
    chosen: dict[str, Any] = {
        "validate": level,
        "limits": FEW,
        "workers": chance.choice((0, 2)),
        "on_error": chance.choice(("raise", "skip", "skip")),
        "on_missing": chance.choice(("null", "error")),
    }
    if chance.random() < 0.3:
        with contextlib.suppress(*uses.REFUSED):
            chosen["schema"] = ipc.read_schema(chance.choice((good, data)), limits=FEW)
    found = ipc.open_dataset(chance.choice((folder, folder / "k=1", f"{folder}/**/[abc].arrow")), **chosen)
    repr(found), repr(found.fragments)
    names = found.schema.names
    if names and chance.random() < 0.3:
        found = found.select([chance.randrange(len(names))])
    if names and chance.random() < 0.5:
        with contextlib.suppress(ipc.UsageError):
            found = found.filter(filter_of(names, chance))
    with contextlib.suppress(*uses.REFUSED):
        for batch in itertools.islice(found, MOST_BATCHES):
            uses.batch(batch, level, chance)
    count = found.count_rows()
    if count:
        found.take([chance.randrange(-count, count) for _ in range(5)])
        found.slice(chance.randrange(count), 3, alone=chance.random() < 0.5), found.row(chance.randrange(count))
