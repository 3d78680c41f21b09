"""Single messages: read one by one from a source, and decoded separately."""

from __future__ import annotations

from arrowipc.arguments import items_of
from arrowipc.errors import TruncatedError
from arrowipc.read.decoders import decode_messages
from arrowipc.read.framing import Framer, Message
from arrowipc.sources.source import open_source, pump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Any, Self

    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.limits import Limits
    from arrowipc.options import Columns, Validate

__all__ = ["MessageReader", "read_message", "read_record_batch"]


class MessageReader:
    """Iterates over the encapsulated messages of a source, whatever their kind and order.

    Parameters
    ----------
    source : path, bytes-like or binary file object
        A stream, or messages one after another. A file object is left after the last message that was read.
    limits : Limits, optional
        Bounds on what the input may claim.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> reader = ipc.MessageReader.open_stream(batch.schema.serialize() + batch.serialize())
    >>> reader.read_next_message().kind, [message.kind for message in reader], reader.close()
    ('Schema', ['RecordBatch'], None)
    """

    def __init__(self, source: Any, *, limits: Limits | None = None, memory_map: bool = True) -> None:
        self._framer = Framer(limits)
        buffer, self._file, self._owned = open_source(source, memory_map)
        if self._file is None:
            self._framer.feed(buffer, True)

    @classmethod
    def open_stream(cls, source: Any, *, limits: Limits | None = None, memory_map: bool = True) -> Self:
        """Iterate over the messages of a source, like the class itself."""
        return cls(source, limits=limits, memory_map=memory_map)

    def __iter__(self) -> Self:
        return self

    def read_next_message(self) -> Message:
        """Return the next message; StopIteration at the end of the stream, which is a marker or that of the input."""
        while True:
            message = self._framer.next_message()
            if message is not None:
                return message
            if self._framer.at_end:
                raise StopIteration
            pump(self._framer, self._file)

    __next__ = read_next_message

    @property
    def bytes_consumed(self) -> int:
        """int: bytes of the source that were read."""
        return self._framer.bytes_consumed

    def close(self) -> None:
        """Let go of the source; messages that were read stay valid."""
        self._framer.release()
        if self._owned:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_message(source: Any, *, limits: Limits | None = None) -> Message:
    """Read one encapsulated message; an EOFError if there is none, or an end-of-stream marker.

    Parameters
    ----------
    source : path, bytes-like or binary file object
        A file object is left at the end of the message.
    limits : Limits, optional
        Bounds on what the bytes may ask for.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.read_message(ipc.RecordBatch.from_pydict({"x": [1]}).serialize()).kind
    'RecordBatch'
    """
    with MessageReader(source, limits=limits) as reader:
        for message in reader:
            return message
    raise TruncatedError("no message: the input is empty or begins with an end-of-stream marker")


def read_record_batch(
    message: Any,
    schema: Any,
    *,
    columns: Columns = None,
    validate: Validate = "full",
    limits: Limits | None = None,
    use_threads: bool = True,
    dictionaries: Iterable[Any] = (),
) -> RecordBatch:
    """Decode one bare RecordBatch message whose schema is known from elsewhere.

    Parameters
    ----------
    message : Message or bytes-like
        An encapsulated RecordBatch message.
    schema : Schema
        Ours or pyarrow's.
    columns, validate, limits, use_threads
        As for `open_stream`.
    dictionaries : iterable of Message or bytes-like
        DictionaryBatch messages that the batch needs, deltas after the dictionaries that they extend.

    Returns
    -------
    RecordBatch

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> ipc.read_record_batch(batch.serialize(), batch.schema) == batch
    True
    """

    def opened(item: Any) -> Message:
        return item if isinstance(item, Message) else read_message(item, limits=limits)

    return decode_messages(
        opened(message),
        schema,
        [opened(item) for item in items_of("dictionaries", dictionaries)],
        columns,
        validate,
        limits,
        use_threads,
    )
