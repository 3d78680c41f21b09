"""The rules of the Dissociated IPC protocol, without I/O: the contents of messages, and their order.

The protocol is experimental upstream; everything that follows its text is in this file. The file handles bytes,
numbers and order, but no sockets, no memory and no Arrow data: `Incoming` pairs metadata with bodies for
one client, `Outgoing` numbers them for one server, `Leases` counts the memory that a client holds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

from arrowipc.arguments import check_text, described
from arrowipc.decode.framing import message_kind
from arrowipc.errors import ArrowIpcError, FormatError, LimitError, TruncatedError, UsageError
from arrowipc.limits import Limits

#: The bits of a body's tag that are the number of its message.
SEQUENCE_MASK = 0x0000_0000_FFFF_FFFF
RESERVED_MASK = 0x00FF_FFFF_0000_0000
TYPE_SHIFT = 56

#: Sequence numbers wrap around; a number that is WINDOW or more ahead counts as behind.
NUMBERS = 1 << 32
WINDOW = 1 << 31
#: The number of a stream's first message, its schema.
FIRST_NUMBER = 0

END_OF_STREAM = 0
METADATA = 1
PREFIX = struct.Struct("<BI")

#: Words for a refusal: the protocol has no message that says why.
REFUSED = (
    "it does not know the stream that was asked for, could not read it, or serves too many others; it did "
    "not say which, and its errors may"
)

#: Messages that have a body, even an empty one.
WITH_BODY = frozenset({"RecordBatch", "DictionaryBatch"})


class BodyType(IntEnum):
    """The top byte of a body's tag."""

    #: The packed body of the IPC format.
    PACKED = 0
    #: Pairs of an address and a length: see `arrowipc.dissociated.memory.address_pairs`.
    PAIRS = 1


class Reason(IntEnum):
    """Why a server ended a connection, if the transport can say so; the protocol itself cannot."""

    UNKNOWN = 1
    FULL = 2
    FAILED = 3
    OTHER_USER = 4
    TOO_LATE = 5
    NOT_UNDERSTOOD = 6
    CLOSED = 7
    IDLE = 8
    TOO_MUCH = 9


REASONS: dict[int, str] = {
    Reason.UNKNOWN: "it does not know the stream that was asked for",
    Reason.FULL: "it serves as many clients as it may already (max_clients=); come back later",
    Reason.FAILED: "reading the source of the stream failed; the errors of the server say why",
    Reason.OTHER_USER: "it shares memory, and takes clients of its own user only",
    Reason.TOO_LATE: "it waited too long for this client to ask, to end a message, or to take what was sent",
    Reason.NOT_UNDERSTOOD: "it could not parse what this client sent",
    Reason.CLOSED: "it was closed",
    Reason.IDLE: "this client was idle for the longest, and made room for another one (max_clients=, max_held=)",
    Reason.TOO_MUCH: "this client asked for more at once than one client may",
}


def refusal(reason: int) -> OSError:
    """Return the error for a server that ended the connection before it sent anything."""
    words = f"the server closed the connection: {words_of(reason)}"
    return PermissionError(words) if reason == Reason.OTHER_USER else ConnectionRefusedError(words)


def words_of(reason: int) -> str:
    """Return a reason in words."""
    return REASONS.get(reason, f"for reason {reason}, which this version does not know")


# -- the contents of messages --------------------------------------------------------------------------------


def metadata_prefix(number: int) -> bytes:
    """Return the bytes before the metadata of message `number`."""
    return PREFIX.pack(METADATA, number)


def end_of_stream(number: int) -> bytes:
    """Return the message that ends the metadata; `number` is the one after the last."""
    return PREFIX.pack(END_OF_STREAM, number)


def parse_metadata(data: Any) -> tuple[int, memoryview | None]:
    """Read an untagged message: return its number and the metadata; None if the stream ends before this number."""
    view = memoryview(data).cast("B")
    if len(view) < PREFIX.size:
        raise FormatError(f"a metadata message has a prefix of 5 bytes, this one has {len(view)} in all")
    kind, number = PREFIX.unpack_from(view)
    if kind == METADATA:
        return number, view[PREFIX.size :]
    if kind != END_OF_STREAM:
        raise FormatError(f"a metadata message is of type 0 (end of stream) or 1 (metadata), found {kind}")
    if len(view) != PREFIX.size:
        raise FormatError(f"the end of the stream has 5 bytes, found {len(view):,}")
    return number, None


def body_tag(number: int, body_type: BodyType) -> int:
    """Return the tag of the body of message `number`."""
    return body_type << TYPE_SHIFT | number


def split_tag(tag: int) -> tuple[int, BodyType]:
    """Return the number of the message and the type of the body that a tag contains."""
    if tag <= SEQUENCE_MASK:
        return tag, BodyType.PACKED
    number, kind = tag & SEQUENCE_MASK, tag >> TYPE_SHIFT
    reserved = tag & RESERVED_MASK
    if kind > BodyType.PAIRS:
        raise FormatError(f"body of message {number}: the types are 0 (packed) and 1 (pairs), found {kind}")
    if reserved:
        raise FormatError(f"body of message {number}: bits 32-55 of its tag {tag:#018x} are reserved and not 0")
    return number, BodyType(kind)


def check_tags(want_data: int, free_data: int | None) -> None:
    """Check the two tags that clients send."""
    for name, tag in (("want_data", want_data), ("free_data", free_data)):
        if tag is None:
            continue
        if type(tag) is not int or not 0 <= tag < 1 << 64:
            raise FormatError(f"{name} is a number from 0 to 2**64 - 1, found {tag!r}")
    if want_data == free_data:
        raise FormatError(f"want_data and free_data are the same tag, {want_data}: they must differ")


def check_offered_tag(tag: int) -> None:
    """Check a tag that a server is about to offer: it must not look like the tag of a body.

    Tags that other servers offer are not checked: clients only send them, so they cannot be taken for bodies.
    """
    if not 0 <= tag < 1 << 64 or tag >> TYPE_SHIFT <= BodyType.PAIRS or not tag & RESERVED_MASK:
        raise UsageError(
            "want_data and free_data need a top byte of 2 or more and bits 32-55 that are not all 0, or they "
            f"could be tags of bodies: found {tag:#018x}"
        )


def ident_of(name: str | bytes) -> bytes:
    """Return the name of a stream as it is sent."""
    if isinstance(name, str):
        return check_text("the name of a stream", name).encode()
    try:
        return bytes(memoryview(name))
    except TypeError:
        raise UsageError(f"the name of a stream must be str or bytes, found {described(name)}") from None


def free_data_body(addresses: Iterable[int]) -> bytes:
    """Return the body of a message that gives `addresses` back."""
    given = tuple(addresses)
    return struct.pack(f"<{len(given)}Q", *given)


def parse_free_data(data: Any) -> tuple[int, ...]:
    """Read the addresses that a client gives back."""
    view = memoryview(data).cast("B")
    if len(view) == 0 or len(view) % 8:
        raise FormatError(f"a free_data message has 8 bytes for each of at least one address, found {len(view)}")
    return struct.unpack(f"<{len(view) // 8}Q", view)


# -- the client's side ---------------------------------------------------------------------------------------


class Arrival(NamedTuple):
    """A complete message; `body` is None if its kind has none."""

    number: int
    metadata: Any
    body_type: BodyType
    body: Any
    #: The length of the body according to the metadata.
    body_length: int = 0


class Incoming:
    """Puts the messages of one stream in order; they may arrive in any order."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        max_waiting: int = 1 << 16,
        max_waiting_bytes: int = 1 << 30,
    ) -> None:
        self.limits = limits
        self.max_waiting = max_waiting
        self.max_waiting_bytes = max_waiting_bytes
        self.first: int = FIRST_NUMBER
        self.next: int = FIRST_NUMBER
        self.end: int | None = None
        self.waiting_bytes: int = 0
        #: Whether the next message is complete and can be taken.
        self.is_ready: bool = False
        self._metadata: dict[int, Any] = {}
        self._body_lengths: dict[int, int | None] = {}  # from the metadata; None: the message has no body
        self._bodies: dict[int, tuple[BodyType, Any]] = {}

    def receive_metadata(self, data: Any) -> None:
        """Take in an untagged message."""
        number, metadata = parse_metadata(data)
        if metadata is None:
            self._finish(number)
            return
        if number in self._metadata:
            raise FormatError(f"metadata of message {number} arrived twice")
        self._check_place(number, "metadata", len(self._metadata))
        self._body_lengths[number] = self._body_length(number, metadata)
        self._metadata[number] = metadata
        self.waiting_bytes += len(metadata)
        if number == self.next:
            self._look()

    def _body_length(self, number: int, metadata: Any) -> int | None:
        """Return the length of the body of a message, None if it has none; check that its kind is allowed here."""
        try:
            kind, length = message_kind(metadata, self.limits)
        except ArrowIpcError as error:
            error.args = (f"metadata of message {number}: {error}",)
            raise
        if (kind == "Schema") != (number == self.first):
            raise FormatError(
                f"message {number} is a {kind} message: the first message of a stream, {self.first}, is its "
                "schema, and no other is"
            )
        if kind not in WITH_BODY and kind != "Schema":
            raise FormatError(
                f"message {number} is a {kind} message, which does not belong in a stream of record batches"
            )
        return length if kind in WITH_BODY else None

    def receive_body(self, tag: int, body: Any) -> int:
        """Take in a tagged message; return its number."""
        number, body_type = split_tag(tag)
        if number in self._bodies:
            raise FormatError(f"the body of message {number} arrived twice")
        self._check_place(number, "body", len(self._bodies))
        if number in self._metadata and self._body_lengths[number] is None:
            raise FormatError(f"message {number} is the schema, and a body arrived for it")
        self._bodies[number] = (body_type, body)
        self.waiting_bytes += len(body)
        if number == self.next:
            self._look()
        return number

    def _ahead(self, number: int) -> int:
        """Return by how many messages a number is ahead of the next one; negative if it is behind."""
        distance = (number - self.next) % NUMBERS
        return distance if distance < WINDOW else distance - NUMBERS

    def _check_place(self, number: int, what: str, waiting: int) -> None:
        if number == self.next and self.end is None and waiting < self.max_waiting:
            return  # the most frequent case
        ahead = self._ahead(number)
        if ahead < 0:
            raise FormatError(
                f"{what} of message {number} arrived when {self.next} is the next one: it was there already, "
                "or is too old"
            )
        if self.end is not None and ahead >= self._ahead(self.end):
            raise FormatError(f"{what} of message {number} arrived, and the stream ends before {self.end}")
        if ahead > self.max_waiting or waiting >= self.max_waiting:
            raise LimitError(
                f"{what} of message {number} arrived while message {self.next} is still missing: more than "
                f"max_waiting = {self.max_waiting:,} messages would have to wait"
            )
        # Accept the next message's parts in any case, and others while it is complete: one body may be longer than
        # `max_waiting_bytes`.
        if ahead and self.waiting_bytes > self.max_waiting_bytes and not self.is_ready:
            raise LimitError(
                f"{what} of message {number} arrived while message {self.next} is still missing, and "
                f"{self.waiting_bytes:,} bytes wait for that, more than max_waiting_bytes = "
                f"{self.max_waiting_bytes:,}"
            )

    def _finish(self, number: int) -> None:
        if self.end is not None:
            raise FormatError(f"a second end of the stream, at {number}; the first one was at {self.end}")
        last = self._ahead(number)
        if last == 0 and self.next == self.first:
            raise FormatError(f"the stream ends before its schema: {REFUSED}")
        if last < 0:
            raise FormatError(f"the stream ends before message {number}, and {self.next} is the next one")
        for what, waiting in (("metadata", self._metadata), ("a body", self._bodies)):
            for other in waiting:
                if self._ahead(other) >= last:
                    raise FormatError(f"the stream ends before message {number}, and {what} of {other} is there")
        self.end = number

    # -- complete messages --

    def _lacks_body(self, number: int) -> bool:
        return self._body_lengths[number] is not None and number not in self._bodies

    def _look(self) -> None:
        number = self.next
        self.is_ready = number in self._metadata and not self._lacks_body(number)

    def take(self) -> Arrival | None:
        """Return the next message if all of it is there, else None."""
        if not self.is_ready:
            return None
        number = self.next
        metadata = self._metadata.pop(number)
        body_type, body = BodyType.PACKED, None
        length = self._body_lengths.pop(number)
        if length is not None:
            body_type, body = self._bodies.pop(number)
            self.waiting_bytes -= len(body)
        elif number in self._bodies:
            raise FormatError(f"message {number} is the schema, and a body arrived for it")
        self.waiting_bytes -= len(metadata)
        self.next = (number + 1) % NUMBERS
        self.is_ready = False
        if self._metadata:
            self._look()
        return Arrival(number, metadata, body_type, body, length or 0)

    @property
    def is_clear(self) -> bool:
        """Whether the stream has begun and nothing waits: the next bytes may be complete messages in order."""
        return self.next != self.first and not (self._metadata or self._bodies or self.end is not None)

    def skip(self, count: int) -> None:
        """Skip the numbers of messages (batches and dictionaries) that the caller took by itself while `is_clear`."""
        self.next = (self.next + count) % NUMBERS

    @property
    def is_complete(self) -> bool:
        """Whether the stream has ended and every message was taken."""
        return self.end == self.next

    @property
    def metadata_complete(self) -> bool:
        """Whether all metadata has arrived, so that its connection may be closed."""
        return self.end is not None and len(self._metadata) == self._ahead(self.end)

    def wants(self, what: str) -> bool:
        """Whether to receive more "metadata" or "data" now, if each has a connection of its own.

        The one that is ahead waits for the other, so that an honest server never exceeds `max_waiting`.
        """
        missing = "data" if self.next in self._metadata else "metadata"
        waiting = self._metadata if what == "metadata" else self._bodies
        return missing == what or (
            2 * len(waiting) < self.max_waiting and 2 * self.waiting_bytes < self.max_waiting_bytes
        )

    @property
    def wanted_body(self) -> int | None:
        """The number of the next message whose body is missing, for transports that look for a body by its tag."""
        for number in self._metadata:  # in order of arrival, which is nearly always the order of numbers
            if self._lacks_body(number):
                return number
        return None

    def lost(self, what: str, reason: int | None = None) -> None:
        """Handle the end of the connection for "metadata", "data" or "both"; raise if the stream is incomplete."""
        if self.is_complete or (what == "metadata" and self.metadata_complete):
            return
        number = self.next
        has_schema = number != self.first or bool(self._metadata)
        has_begun = has_schema
        if what == "data":  # the first body belongs to the second message
            has_begun = bool(self._bodies) or number not in (self.first, (self.first + 1) % NUMBERS)
        if not has_begun and reason in (Reason.FULL, Reason.OTHER_USER):
            raise refusal(reason)
        if not has_schema and what != "data":
            why = REFUSED if reason is None else words_of(reason)
            raise FormatError(f"the server closed the connection without sending a schema: {why}")
        while number in self._metadata and (what == "metadata" or not self._lacks_body(number)):
            number = (number + 1) % NUMBERS
        missing = "metadata" if number not in self._metadata else "body"
        if what == "data" and missing == "metadata":
            return  # perhaps all bodies have arrived; the metadata will show whether they have
        raise TruncatedError(
            f"the connection was lost before the {missing} of message {number} arrived"
            + ("" if reason is None else f": the server ended it, {words_of(reason)}")
        )


# -- the server's side ---------------------------------------------------------------------------------------


class Outgoing:
    """Numbers the messages of one stream."""

    def __init__(self) -> None:
        self.next: int = FIRST_NUMBER

    def number(self, count: int = 1) -> int:
        """Return the number of the first of the next `count` messages."""
        number = self.next
        self.next = (number + count) % NUMBERS
        return number

    def end(self) -> bytes:
        """Return the message that ends the stream."""
        return end_of_stream(self.next)


class Leases:
    """Counts, for each address, how often a client was told of it and has not given it back."""

    def __init__(self) -> None:
        self._held: dict[int, int] = {}  # removing an entry of a Counter takes three times as long
        self.unknown: int = 0

    def grant(self, addresses: Iterable[int]) -> None:
        """Count addresses that the client was told of."""
        held = self._held
        for address in addresses:
            held[address] = held.get(address, 0) + 1

    def release(self, addresses: Iterable[int]) -> list[int]:
        """Take addresses back; return those that were held, each as often as one of its leases ended.

        Addresses that the client did not hold are counted and ignored: a client cannot free another one's memory.
        """
        held, ended = self._held, []
        for address in addresses:
            count = held.pop(address, 0)
            if count > 1:
                held[address] = count - 1
            if count:
                ended.append(address)
            else:
                self.unknown += 1
        return ended

    def abandon(self) -> list[int]:
        """End all leases because the client is gone; return the addresses, whose memory must not be used again."""
        ended = [address for address, count in self._held.items() for _ in range(count)]
        self._held.clear()
        return ended
