"""The sources of a server: data of any kind, as the messages of one stream."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import check_names
from arrowipc.dissociated.memory.receiving import ALIGNMENT
from arrowipc.encode.batch_writer import BatchWriter, MessageSink
from arrowipc.encode.batches import batches_of
from arrowipc.errors import UsageError
from arrowipc.opening import open as open_reader
from arrowipc.options import WriteOptions
from arrowipc.types import as_schema

if TYPE_CHECKING:
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.decode.framing import Message
    from arrowipc.dissociated.connection import OfferedMemory
    from arrowipc.schemas import Schema

#: Options about how messages are made: those of a writer, and of its encoder.
MAKING = (
    *("allow_64bit", "compression", "compression_level", "dictionary_deltas", "metadata_version"),
    *("min_space_savings", "schema", "unify_dictionaries", "use_threads"),
)


class ReadyMessages:
    """Messages of one stream, schema first, that are served as they are."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = messages

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)


class ReadOnce:
    """A source that can be read once, such as a reader or an iterator: a second time it would seem to have no rows."""

    def __init__(self, given: Any) -> None:
        self._given = [given]

    def take(self) -> Any:
        """Return what was given, the first time."""
        try:
            return self._given.pop()
        except IndexError:
            raise UsageError(
                "the source can be read once, and was read: give a callable that makes a new one for each client"
            ) from None


class Prepared:
    """A source whose messages are made once for all clients, and are in shared memory once.

    Parameters
    ----------
    source : object
        A source as for `Server`; it is read when the first client asks, and again for the next one if that failed.
    sparing : bool, default False
        Hold in shared memory only bodies that would not be sent (`least_bytes`), and only if all held bodies
        together are within its `capacity`. A server with "shm" prepares tables in this way by itself.
    **options
        The options of `Server` about how messages are made: `compression` and others.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc import dissociated
    >>> source = dissociated.Prepared(lambda: ipc.RecordBatch.from_pydict({"x": [1, 2, 3]}))
    >>> with dissociated.Server({"numbers": source}, "shm") as server:
    ...     for _ in range(2):
    ...         with dissociated.connect(server.uri, "numbers") as reader:
    ...             print(reader.read_all().to_pydict())
    {'x': [1, 2, 3]}
    {'x': [1, 2, 3]}
    """

    def __init__(self, source: Any, *, sparing: bool = False, **options: Any) -> None:
        check_made(options)
        self._source = checked_source(source, options.get("schema"))
        self._sparing = sparing
        self._options = options
        self._lock = threading.Lock()
        self._made: list[Message] | None = None
        self._tried = False  # whether `hold` was called

    def messages(self, memory: OfferedMemory | None) -> Generator[Message, None, None]:
        """Yield the messages, in `memory` if there is room."""
        with self._lock:
            if self._made is None:
                self._made = list(messages_of(self._source, **self._options))
            if memory is not None and not self._tried:
                self._tried = True
                with contextlib.suppress(OSError):  # if there is no room now, there may be for each client
                    self._made = memory.hold(self._made, self._sparing)
            messages = self._made
        yield from messages


class StoredFile:
    """An Arrow IPC file or stream as a source: opened for each client, so that it may be replaced in between."""

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self.path: str = os.path.abspath(path)
        self.memory: OfferedMemory | None = None
        self._options = options
        self().close()  # an unreadable file raises here, not when a client asks

    def __call__(self) -> Any:
        """Open the file."""
        return open_reader(self.path if self.memory is None else self.memory.stored(self.path), **self._options)


def check_made(options: Mapping[str, Any], others: Iterable[str] = ()) -> None:
    """Check options about how messages are made; `others` are also known. A `UsageError` names the first wrong one."""
    check_names("a server", options, [*MAKING, *others])
    next(messages_of(ReadyMessages([]), **options), None)  # makes a writer, which checks the values


def checked_source(given: Any, schema: Any = None) -> Any:
    """Return the source for an argument: a path is a file, a dict of columns is a batch."""
    if isinstance(given, (str, os.PathLike)):
        return StoredFile(given)
    if isinstance(given, Mapping):
        return next(iter(batches_of(given, schema)[1]))
    for each in given if isinstance(given, (list, tuple)) else [given]:
        later = callable(each) or hasattr(each, "__arrow_c_stream__")
        if not (later or isinstance(each, (Prepared, ReadyMessages, Iterator))):
            batches_of(each, schema)
    return ReadOnce(given) if _can_be_read_once(given) else given


def _can_be_read_once(given: Any) -> bool:
    return isinstance(given, Iterator) or (isinstance(given, (list, tuple)) and any(map(_can_be_read_once, given)))


def source_of(given: Any, memory: OfferedMemory | None, options: Mapping[str, Any]) -> Any:
    """Return the source for an argument of a server; tables are `Prepared` if `memory` can hold bodies."""
    given = checked_source(given, options.get("schema"))
    if isinstance(given, StoredFile):
        given.memory = memory
    is_held = memory is not None and memory.holds and is_table(given)
    return Prepared(given, sparing=True, **options) if is_held else given


def is_table(given: Any) -> bool:
    """Whether a source is complete in memory: a table or batch of any library."""
    return hasattr(given, "__len__") and (hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"))


def messages_of(source: Any, schema: Any = None, **options: Any) -> Generator[Message, None, None]:
    """Yield the messages of a stream: schema, then dictionaries and batches; bodies are not copied.

    Parameters
    ----------
    source : RecordBatch, Table, reader, object with an Arrow C stream or array, path, ReadyMessages or callable
        A callable is called for each stream and returns one of the others, which is closed at the end.
    schema : Schema, optional
        For a source that does not determine it, for example a list of batches that may be empty.
    **options
        `compression`, `compression_level`, `min_space_savings`, `metadata_version`, `use_threads`,
        `dictionary_deltas`, `unify_dictionaries` and `allow_64bit`: see `arrowipc.new_stream`.

    Raises
    ------
    UsageError
        The source is nothing that can be served, or the options do not fit.
    """
    schema = None if schema is None else as_schema(schema)
    sink = MessageSink()
    rules = {"alignment": ALIGNMENT, "legacy": False, "metadata_version": "V5", **options}
    writer = BatchWriter(sink, WriteOptions(rules))
    data = source.take() if isinstance(source, ReadOnce) else source() if callable(source) else source
    is_own = callable(source)
    if isinstance(data, (str, os.PathLike)):
        data, is_own = open_reader(data), True
    try:
        if isinstance(data, ReadyMessages):
            yield from data
            return
        found, batches = schema_and_batches(data, schema)
        writer.expect(found)
        yield from sink.take()
        for batch in batches:
            writer.write_batch(batch)
            yield from sink.take()
        writer.close()
        yield from sink.take()
    finally:
        close = getattr(data, "close", None)
        if is_own and close is not None:
            close()


def schema_and_batches(data: Any, schema: Schema | None) -> tuple[Schema, Iterator[RecordBatch]]:
    """Return the schema and the batches of data; without a schema of its own, data have that of their first batch."""
    found, given = batches_of(data, schema)
    batches = iter(given)
    if found is None:
        first = next(batches, None)
        if first is not None:
            return first.schema, itertools.chain([first], batches)
        if schema is None:
            raise UsageError("the source has no batches and no schema: say what it is empty of (schema=)")
        found = schema
    return found, batches
