"""Checks of a server: what it sends is recorded as it comes, and compared with the text of the protocol."""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from arrowipc.dissociated import schemes
from arrowipc.dissociated.client import connect
from arrowipc.dissociated.conformance.report import Result
from arrowipc.dissociated.memory.address_pairs import Pairs
from arrowipc.dissociated.protocol import WITH_BODY, check_offered_tag
from arrowipc.dissociated.uri import DissociatedUri
from arrowipc.errors import ArrowIpcError
from arrowipc.read.framing import message_kind

__all__ = ["Subject", "check_server"]

#: Seconds in which a server that must not answer would have answered.
MOMENT = 0.25
#: Ident of no stream, and addresses that no client holds.
NOBODY = b"\0\xff arrowipc: no stream has this name"
STRANGE = struct.pack("<2Q", 2**63 + 7, 2**64 - 1)


class Wire:
    """Connections of a client that obeys no rule by itself, and what came over them."""

    def __init__(self, uris: Sequence[DissociatedUri], timeout: float) -> None:
        self.uris = uris
        self.timeout = timeout
        self.untagged: list[bytes] = []
        #: Kind and length of the body of each metadata message; "?": it cannot be read.
        self.kinds: list[tuple[str, int]] = []
        self.bodies: list[tuple[int, bytes]] = []
        self.first_body_before_end: bool = False
        self.frees_at_once: bool = False
        self.memory: Any = None
        self.connections: list[Any] = []
        for uri in uris:
            connection, memory = schemes.connect(uri, None, timeout)
            self.connections.append(connection)
            self.memory = memory or self.memory

    def ask(self, ident: bytes) -> Wire:
        """Ask for a stream, over each connection."""
        for uri, connection in zip(self.uris, self.connections, strict=True):
            connection.send(uri.want_data, [ident])
        return self

    def send(self, tag: int, data: bytes) -> None:
        """Send a tagged message over the data connection."""
        with contextlib.suppress(OSError):
            self.connections[-1].send(tag, [data])

    @property
    def wholes(self) -> int:
        """int: streams that came completely."""
        return len(self.ends) if len(self.bodies) >= len(self.with_body) else 0

    def listen(self, seconds: float | None = None, streams: int = 1) -> Wire:
        """Receive until so many streams are whole, the server is gone, or sends nothing for so many seconds."""
        end = time.monotonic() + (seconds or self.timeout)
        while self.wholes < streams and time.monotonic() < end and not self.is_gone:
            if self._receive():
                end = time.monotonic() + (seconds or self.timeout)
            else:
                time.sleep(0.001)
        return self

    def _receive(self) -> bool:
        found = False
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.progress()
            while (frame := connection.receive()) is not None:
                found = True
                data = bytes(frame.data)
                if self.memory is None:
                    list(map(os.close, frame.handles))
                elif frame.handles:
                    with contextlib.suppress(ArrowIpcError):  # the pairs are recorded, and judged later
                        self.memory.accept(frame.handles, data)
                if frame.tag is None:
                    self.untagged.append(data)
                    self.kinds += [_kind(data[5:])] if data[:1] == b"\1" else []
                else:
                    self.first_body_before_end |= not self.bodies and all(each[0] for each in self.untagged if each)
                    self.bodies.append((frame.tag, data))
                    if self.frees_at_once and frame.tag >> 56 == 1:
                        self.free(_addresses(data))
        return found

    @property
    def numbers(self) -> list[int]:
        """List of int: numbers of the metadata messages, the end included."""
        return [int.from_bytes(each[1:5], "little") for each in self.untagged]

    @property
    def ends(self) -> list[bytes]:
        """List of bytes: messages of type 0."""
        return [each for each in self.untagged if each[:1] == b"\0"]

    @property
    def with_body(self) -> list[int]:
        """List of int: places of the batches and dictionaries."""
        return [at for at, (kind, _) in enumerate(self.kinds) if kind in WITH_BODY]

    @property
    def owners(self) -> list[int]:
        """List of int: bits 0-31 of the tags of bodies, in order."""
        return sorted(tag & 0xFFFF_FFFF for tag, _ in self.bodies)

    @property
    def is_gone(self) -> bool:
        """bool: the server has closed every connection."""
        return all(each.at_end for each in self.connections)

    @property
    def pairs(self) -> list[bytes]:
        """List of bytes: bodies of type 1."""
        return [data for tag, data in self.bodies if tag >> 56 == 1]

    @property
    def addresses(self) -> list[int]:
        """List of int: those that were handed out."""
        return [address for each in self.pairs for address in _addresses(each)]

    def lent(self) -> list[Any]:
        """Return the messages whose bodies are in memory of the server."""
        heads = {struct.unpack_from("<I", each, 1)[0]: each[5:] for each in self.untagged if each[:1] == b"\1"}
        return [
            self.memory.message(heads[tag & 0xFFFF_FFFF], Pairs(data, _kind(heads[tag & 0xFFFF_FFFF])[1]), list, None)
            for tag, data in self.bodies
            if tag >> 56 == 1
        ]

    def free(self, addresses: Sequence[int]) -> None:
        """Give addresses back in one message."""
        if addresses and self.uris[-1].free_data is not None:
            self.send(self.uris[-1].free_data, struct.pack(f"<{len(addresses)}Q", *addresses))

    def close(self) -> None:
        """Disconnect."""
        for each in self.connections:
            each.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _kind(metadata: bytes) -> tuple[str, int]:
    try:
        return message_kind(metadata)
    except ArrowIpcError:
        return "?", 0


def _addresses(body: bytes) -> list[int]:
    """Return those of pairs that are not empty, whatever else is wrong with them."""
    pairs = struct.iter_unpack("<2Q", body[16 : len(body) // 16 * 16])
    return [address for address, length in pairs if address and length]


class Subject:
    """The server that is checked."""

    def __init__(self, ways: list[list[DissociatedUri]], ident: bytes, timeout: float) -> None:
        self.ways = ways
        self.ident = ident
        self.timeout = timeout

    def wire(self, way: int = 0) -> Wire:
        """Connect."""
        return Wire(self.ways[way], self.timeout)

    @functools.cached_property
    def seen(self) -> Wire:
        """Wire: one whole stream, recorded; and what came in the moment behind its end."""
        with self.wire() as wire:
            wire.ask(self.ident).listen()
            wire.listen(MOMENT, 2)
            wire.free(wire.addresses)
            return wire

    def values(self, way: int = 0) -> Any:
        """Read the stream with the client of arrowipc."""
        with connect(self.ways[way], self.ident, timeout=self.timeout, validate="strict") as reader:
            return reader.read_all().to_pydict()

    def serves_on(self) -> bool:
        """Whether a further client gets the same stream."""
        with self.wire() as wire:
            wire.ask(self.ident).listen().free(wire.addresses)
            return wire.untagged == self.seen.untagged

    @property
    def free_data(self) -> int | None:
        """Int or None: the tag."""
        return self.ways[0][-1].free_data


Check = Callable[[Subject], tuple[bool | None, str]]
ASKED = "want_data and the ident"
CHECKS: list[tuple[tuple[int, ...], str, Check]] = []


def check(*numbers: int, sent: str = ASKED) -> Callable[[Check], Check]:
    """Enter a check under its items."""

    def enter(function: Check) -> Check:
        CHECKS.append((numbers, sent, function))
        return function

    return enter


def check_server(subject: Subject, only: set[int]) -> list[Result]:
    """Run the checks; an error is a deviation."""
    found = []
    _ = subject.seen  # a server that is not there has no deviations
    for numbers, sent, function in CHECKS:
        wanted = [each for each in numbers if each in only]
        if wanted:
            try:
                ok, came = function(subject)
            except (ArrowIpcError, OSError, ValueError, LookupError, struct.error) as error:
                ok, came = False, f"{type(error).__name__}: {error}"
            found += [Result(number, ok, sent, came) for number in wanted]
    return found


# -- the URI ---------------------------------------------------------------------------------------------------


@check(8, 9, 10, 16, sent="nothing: the URI is read")
def uri_is_read(subject: Subject) -> tuple[bool | None, str]:
    uris = [uri for way in subject.ways for uri in way]
    return all(DissociatedUri.parse(str(each)) == each for each in uris), ", ".join(map(str, uris))


@check(11)
def free_data_is_there(subject: Subject) -> tuple[bool | None, str]:
    if not subject.seen.pairs:
        return None, "no body of type 1"
    return subject.free_data is not None, f"bodies of type 1; free_data: {subject.free_data}"


@check(13, sent="nothing: the URI is read")
def handle_is_base64(subject: Subject) -> tuple[bool | None, str]:
    handle = subject.ways[0][-1].remote_handle
    return (None, "no remote_handle") if handle is None else (True, f"remote_handle {handle!r}")


@check(15, sent="nothing: the URI is read")
def tags_are_no_bodies(subject: Subject) -> tuple[bool | None, str]:
    tags = [tag for way in subject.ways for uri in way for tag in (uri.want_data, uri.free_data) if tag is not None]
    try:
        list(map(check_offered_tag, tags))
    except ArrowIpcError as error:
        return False, str(error)
    return True, ", ".join(f"{tag:#018x}" for tag in tags)


# -- want_data -------------------------------------------------------------------------------------------------


@check(17, sent="the ident under another tag, then under want_data")
def idles_until_it_is_asked(subject: Subject) -> tuple[bool | None, str]:
    with subject.wire() as wire:
        for uri, connection in zip(wire.uris, wire.connections, strict=True):
            connection.send(uri.want_data ^ 1, [subject.ident])
        early = wire.listen(MOMENT).untagged
        if early or wire.bodies:
            return False, f"{len(early)} untagged messages before want_data"
        came = wire.is_gone or wire.ask(subject.ident).listen().wholes == 1
        wire.free(wire.addresses)
        return came, "nothing at first, then " + ("the stream" if came else "no whole stream")


def _strangers(subject: Subject) -> list[str]:
    """Return what idents of no stream get: empty, with NUL and bytes that are no text, 64 KiB."""
    said = []
    for ident in {b"", NOBODY, bytes(range(256)) * 256} - {subject.ident}:
        with subject.wire() as wire:
            gone = wire.ask(ident).listen().is_gone
            said.append("closed" if gone and not wire.untagged else f"{len(wire.untagged)} untagged messages")
            wire.free(wire.addresses)
    return said


@check(18, sent="want_data and idents of no stream: empty, with NUL, 64 KiB; then the ident")
def any_ident(subject: Subject) -> tuple[bool | None, str]:
    said = _strangers(subject)
    return subject.serves_on(), ", ".join(said)


@check(21, sent="want_data and idents of no stream")
def unknown_ident(subject: Subject) -> tuple[bool | None, str]:
    said = _strangers(subject)
    return set(said) == {"closed"}, ", ".join(said)


@check(20, 68, sent=ASKED + " over two connections; that of the metadata is closed behind the end")
def separate_connections(subject: Subject) -> tuple[bool | None, str]:
    if len(subject.ways[-1]) == 1:
        return None, "one URI: give those of metadata and data too"
    with subject.wire(-1) as wire:
        for uri, connection in zip(wire.uris, wire.connections, strict=True):
            connection.send(uri.want_data, [subject.ident])
            if connection is wire.connections[0]:
                while not (wire.untagged and wire.untagged[-1][:1] == b"\0") and not connection.at_end:
                    wire.listen(MOMENT)
                connection.close()
        wire.listen()
        wire.free(wire.addresses)
        return wire.wholes == 1, f"{len(wire.untagged)} untagged and {len(wire.bodies)} tagged messages"


@check(22, sent=ASKED + ", by four clients at once")
def streams_do_not_mix(subject: Subject) -> tuple[bool | None, str]:
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(subject.wire()).ask(subject.ident) for _ in range(4)]
        same = [each.listen().untagged == subject.seen.untagged for each in wires]
        for each in wires:
            each.free(each.addresses)
    return all(same), f"{sum(same)} of 4 the same as that of one client"


@check(23, sent=ASKED + ", twice over one connection")
def second_request(subject: Subject) -> tuple[bool | None, str]:
    with subject.wire() as wire:
        wire.ask(subject.ident).ask(subject.ident).listen(streams=2)
        numbers = wire.numbers
        wire.free(wire.addresses)
    once = subject.seen.numbers
    return numbers == once * 2 or (numbers[: len(once)] == numbers and wire.is_gone), f"messages {_some(numbers)}"


def _some(values: Sequence[Any]) -> str:
    shown = ", ".join(map(str, values[:12]))
    return f"{shown}, ... ({len(values)})" if len(values) > 12 else shown or "none"


# -- what one stream consists of -----------------------------------------------------------------------------------

#: Items -> whether a stream is right, and what of it says so.
STREAM: tuple[tuple[tuple[int, ...], Callable[[Wire], bool], Callable[[Wire], str]], ...] = (
    (
        (1, 24),
        lambda w: bool(w.untagged) and all(len(each) >= 5 and each[0] < 2 for each in w.untagged),
        lambda w: f"prefixes {_some([each[:5].hex() for each in w.untagged])}",
    ),
    (
        (29,),
        lambda w: all(kind != "?" for kind, _ in w.kinds) and all(each[5:9] != b"\xff" * 4 for each in w.untagged),
        lambda w: (
            f"{_some([kind for kind, _ in w.kinds])}; they begin with {_some([e[5:9].hex() for e in w.untagged])}"
        ),
    ),
    ((26,), lambda w: w.kinds[:1] == [("Schema", 0)], lambda w: _some(w.kinds)),
    ((37,), lambda w: [kind for kind, _ in w.kinds].count("Schema") == 1, lambda w: _some(w.kinds)),
    ((27,), lambda w: w.numbers[:1] == [0], lambda w: f"numbers {_some(w.numbers)}"),
    ((28, 34), lambda w: w.numbers == list(range(len(w.numbers))), lambda w: f"numbers {_some(w.numbers)}"),
    ((66,), lambda w: len(set(w.numbers)) == len(w.numbers), lambda w: f"numbers {_some(w.numbers)}"),
    (
        (32, 39),
        lambda w: len(w.ends) == 1 and w.untagged[-1:] == w.ends,
        lambda w: f"{len(w.ends)} ends, the last of types {_some([each[:1].hex() for each in w.untagged])}",
    ),
    ((33,), lambda w: {len(each) for each in w.ends} == {5}, lambda w: f"ends {_some([e.hex() for e in w.ends])}"),
    (
        (3, 4, 40, 42),
        lambda w: sorted(set(w.owners)) == w.with_body,
        lambda w: f"bodies of {_some(w.owners)}; batches and dictionaries are {_some(w.with_body)}",
    ),
    ((41,), lambda w: 0 not in w.owners, lambda w: f"bodies of {_some(w.owners)}"),
    ((59,), lambda w: len(set(w.owners)) == len(w.owners), lambda w: f"bodies of {_some(w.owners)}"),
    (
        (60,),
        lambda w: set(w.owners) <= set(w.with_body),
        lambda w: f"bodies of {_some(w.owners)}; batches and dictionaries are {_some(w.with_body)}",
    ),
    ((7, 44), lambda w: all(not tag >> 32 & 0xFF_FFFF for tag, _ in w.bodies), lambda w: _tags(w)),
    ((43, 46), lambda w: all(tag >> 56 < 2 for tag, _ in w.bodies), lambda w: _tags(w)),
)


def _tags(wire: Wire) -> str:
    return f"tags {_some([f'{tag:#018x}' for tag, _ in wire.bodies])}"


for _numbers, _right, _what in STREAM:

    def _of_stream(subject: Subject, right: Any = _right, what: Any = _what) -> tuple[bool | None, str]:
        return right(subject.seen), what(subject.seen)

    check(*_numbers)(_of_stream)


@check(35)
def empty_stream(subject: Subject) -> tuple[bool | None, str]:
    if len(subject.seen.kinds) != 1:
        return None, "the stream has batches"
    return not subject.seen.bodies, f"{len(subject.seen.bodies)} tagged messages"


@check(36)
def dictionaries(subject: Subject) -> tuple[bool | None, str]:
    if "DictionaryBatch" not in dict(subject.seen.kinds):
        return None, "no dictionaries"
    values = subject.values()
    return True, f"{len(values)} columns of {len(next(iter(values.values()), ()))} rows, validated"


@check(47)
def packed_bodies(subject: Subject) -> tuple[bool | None, str]:
    lengths = [length for _, length in subject.seen.kinds]
    found = [(lengths[tag & 0xFFFF_FFFF], len(data)) for tag, data in subject.seen.bodies if tag >> 56 == 0]
    if not found:
        return None, "no body of type 0"
    return all(a == b for a, b in found), f"bodyLength and bytes: {_some(found)}"


@check(48, 49, 50, 51, 83)
def pairs(subject: Subject) -> tuple[bool | None, str]:
    if not subject.seen.pairs:
        return None, "no body of type 1"
    found = [Pairs(each) for each in subject.seen.pairs]
    buffers = [len(each.buffers) for each in subject.seen.lent()] if subject.seen.memory else [p.count for p in found]
    empty = [pair for each in subject.seen.pairs for pair in struct.iter_unpack("<2Q", each[16:]) if not pair[1]]
    ok = [each.count for each in found] == buffers and not any(address for address, _ in empty)
    return ok, f"pairs {_some([each.count for each in found])}, buffers {_some(buffers)}, {len(empty)} of no bytes"


@check(55)
def both_types(subject: Subject) -> tuple[bool | None, str]:
    types = {tag >> 56 for tag, _ in subject.seen.bodies}
    return (True if len(types) > 1 else None), f"types {_some(sorted(types))}"


@check(63)
def beside_the_metadata(subject: Subject) -> tuple[bool | None, str]:
    if len(subject.ways[0]) > 1 or len(subject.seen.bodies) < 2:
        return None, "a single body, or two connections"
    return subject.seen.first_body_before_end, "the first body " + (
        "before the end" if subject.seen.first_body_before_end else "behind the end of the metadata"
    )


@check(64, sent=ASKED + " over one connection, then over two")
def same_over_both(subject: Subject) -> tuple[bool | None, str]:
    if len(subject.ways) == 1:
        return None, "one way: give the URIs of both"
    same = subject.values(0) == subject.values(1)
    return same, "the same values" if same else "other values"


# -- memory ------------------------------------------------------------------------------------------------------


def _holding(subject: Subject, between: Callable[[Wire], None]) -> tuple[bool | None, str]:
    """Whether bodies in shared memory are the same after `between`, and four streams at once."""
    with subject.wire() as wire:
        wire.ask(subject.ident).listen()
        if not wire.pairs or wire.memory is None:
            return None, "no body of type 1"
        held = wire.lent()
        before = [bytes(each.body) for each in held]
        between(wire)
        time.sleep(MOMENT)  # the server may not have heard of it
        streams_do_not_mix(subject)  # at once, so that all of its free memory near the beginning is used
        same = [bytes(each.body) == old for each, old in zip(held, before, strict=True)]
        if not wire.is_gone:
            wire.free(wire.addresses)
    return all(same), f"{sum(same)} of {len(same)} bodies as before"


@check(72, sent=ASKED + "; nothing is freed, and four other clients read")
def memory_stays(subject: Subject) -> tuple[bool | None, str]:
    return _holding(subject, lambda _: None)


@check(86, sent=ASKED + "; the connection is closed, the memory stays mapped, and four other clients read")
def memory_is_retired(subject: Subject) -> tuple[bool | None, str]:
    if subject.ways[0][-1].scheme == "ucx":
        return None, "UCX unmaps memory with the connection"
    return _holding(subject, Wire.close)


@check(78, sent=ASKED + ", and nothing is freed")
def connection_stays(subject: Subject) -> tuple[bool | None, str]:
    with subject.wire() as wire:
        if not wire.ask(subject.ident).listen().pairs:
            return None, "no body of type 1"
        wire.listen(MOMENT, 2)
        gone = wire.connections[-1].at_end
        wire.free(wire.addresses)
    return not gone, "the server closed it" if gone else "the connection is open"


@check(80, sent=ASKED + "; each address is freed as soon as it comes")
def freed_during_the_stream(subject: Subject) -> tuple[bool | None, str]:
    if not subject.seen.pairs or subject.free_data is None:
        return None, "no body of type 1 or no free_data"
    with subject.wire() as wire:
        wire.frees_at_once = True
        whole = wire.ask(subject.ident).listen().wholes == 1
    return whole, "the whole stream" if whole else f"{len(wire.untagged)} untagged messages, no whole stream"


def _freeing(*numbers: int, sent: str, way: Callable[[Wire], None]) -> None:
    """Enter a check that the server goes on after what a client frees."""

    @check(*numbers, sent=ASKED + f", then {sent}")
    def goes_on(subject: Subject) -> tuple[bool | None, str]:
        with subject.wire() as wire:
            if not wire.ask(subject.ident).listen().pairs or subject.free_data is None:
                return None, "no body of type 1 or no free_data"
            way(wire)
            wire.listen(MOMENT, 2)
            if numbers != (74,) and wire.connections[-1].at_end:
                return False, "the connection is closed"
        ok = subject.serves_on()
        return ok, "other clients are served" if ok else "other clients get another stream, or none"


def _tag(wire: Wire) -> int:
    return wire.uris[-1].free_data or 0


_freeing(74, sent="free_data of 7 bytes", way=lambda wire: wire.send(_tag(wire), bytes(7)))
_freeing(75, sent="all addresses, backwards, in one message", way=lambda wire: wire.free(wire.addresses[::-1]))
_freeing(82, sent="addresses that it does not hold", way=lambda wire: wire.send(_tag(wire), STRANGE))
_freeing(84, sent="the connection is closed", way=lambda wire: None)
_freeing(90, sent="a million addresses", way=lambda wire: wire.send(_tag(wire), STRANGE * (1 << 19)))
