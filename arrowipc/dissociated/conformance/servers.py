"""Checks of a server: its messages are recorded as they arrive, and compared with the text of the protocol."""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from arrowipc.decode.framing import message_kind
from arrowipc.dissociated import schemes
from arrowipc.dissociated.client import connect
from arrowipc.dissociated.memory.address_pairs import Pairs
from arrowipc.dissociated.protocol import WITH_BODY, check_offered_tag
from arrowipc.dissociated.uri import DissociatedUri
from arrowipc.errors import ArrowIpcError
from arrowipc.reader import Closing

__all__ = ["check_server"]

#: Seconds to wait for an answer that the server must not send.
MOMENT = 0.25
#: Idents that name no stream, and addresses that no client holds.
NOBODY = (b"", b"\0\xff arrowipc: no stream has this name", bytes(range(256)) * 256)
STRANGE = struct.pack("<2Q", 2**63 + 7, 2**64 - 1)


class Result(NamedTuple):
    """The result for an item; `ok` is None if there was no occasion to check it."""

    number: int
    ok: bool | None
    sent: str
    came: str


class Wire(Closing):
    """Connections of a client that follows no rules by itself, and the messages received over them."""

    def __init__(self, uris: Sequence[DissociatedUri], timeout: float, connect: Any = schemes.connect) -> None:
        self.uris = uris
        self.timeout = timeout
        self.free_data: int | None = uris[-1].free_data
        self.untagged: list[bytes] = []
        #: Kind and body length of each metadata message; "?" if it cannot be read.
        self.kinds: list[tuple[str, int]] = []
        self.bodies: list[tuple[int, bytes]] = []
        self.first_body_before_end: bool = False
        self.frees_at_once: bool = False
        made = [connect(uri, None, timeout) for uri in uris]
        self.connections: list[Any] = [connection for connection, _ in made]
        self.memory: Any = made[-1][1]

    def ask(self, ident: bytes) -> Wire:
        for uri, connection in zip(self.uris, self.connections, strict=True):
            connection.send(uri.want_data, [ident])
        return self

    def send_freed(self, data: bytes) -> None:
        if self.free_data is not None:
            with contextlib.suppress(OSError):
                self.connections[-1].send(self.free_data, [data])

    def free(self, addresses: Sequence[int]) -> None:
        if addresses:
            self.send_freed(struct.pack(f"<{len(addresses)}Q", *addresses))

    def listen(self, seconds: float | None = None, streams: int = 1) -> Wire:
        """Receive until so many streams are complete, the server is gone, or sends nothing for so many seconds."""
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
    def wholes(self) -> int:
        """The number of streams received completely."""
        return len(self.ends) if len(self.bodies) >= len(self.with_body) else 0

    @property
    def numbers(self) -> list[int]:
        """The numbers of the metadata messages, including the end."""
        return [int.from_bytes(each[1:5], "little") for each in self.untagged]

    @property
    def ends(self) -> list[bytes]:
        return [each for each in self.untagged if each[:1] == b"\0"]

    @property
    def with_body(self) -> list[int]:
        """The positions of the batches and dictionaries among the metadata."""
        return [at for at, (kind, _) in enumerate(self.kinds) if kind in WITH_BODY]

    @property
    def owners(self) -> list[int]:
        """The bits 0-31 of the tags of bodies: the numbers of their messages."""
        return sorted(tag & 0xFFFF_FFFF for tag, _ in self.bodies)

    @property
    def is_gone(self) -> bool:
        return all(each.at_end for each in self.connections)

    @property
    def pairs(self) -> list[bytes]:
        """The bodies of type 1."""
        return [data for tag, data in self.bodies if tag >> 56 == 1]

    @property
    def addresses(self) -> list[int]:
        return [address for each in self.pairs for address in _addresses(each)]

    def lent(self) -> list[Any]:
        """Return the messages whose bodies are in memory of the server."""
        heads = dict(zip(self.numbers, (each[5:] for each in self.untagged), strict=True))
        lent = [(heads[tag & 0xFFFF_FFFF], data) for tag, data in self.bodies if tag >> 56 == 1]
        return [self.memory.message(head, Pairs(data, _kind(head)[1]), list, None) for head, data in lent]

    def said(self) -> str:
        """Return a summary of the received messages."""
        words = [
            f"numbers {_some(self.numbers)}",
            f"types {_some([each[:1].hex() for each in self.untagged])}",
            f"ends {_some([each.hex() for each in self.ends])}",
            f"kinds {_some([kind for kind, _ in self.kinds])}",
            f"tags {_some([f'{tag:#018x}' for tag, _ in self.bodies])}",
            f"bytes {_some([len(data) for _, data in self.bodies])}",
        ]
        return "; ".join(words)

    def close(self) -> None:
        for each in self.connections:
            each.close()


def _some(values: Sequence[Any]) -> str:
    shown = ", ".join(map(str, values[:12]))
    return f"{shown}, ... ({len(values)})" if len(values) > 12 else shown or "none"


def _kind(metadata: bytes) -> tuple[str, int]:
    try:
        return message_kind(metadata)
    except ArrowIpcError:
        return "?", 0


def _addresses(body: bytes) -> list[int]:
    """Return the addresses of pairs that are neither empty nor padding; nothing else is checked."""
    pairs = struct.iter_unpack("<2Q", body[16 : len(body) // 16 * 16])
    return [address for address, length in pairs if address and length]


class Subject:
    """The server to check; each of `ways` has one URI for both streams, or two: for metadata and data."""

    def __init__(self, ways: list[list[DissociatedUri]], ident: bytes, timeout: float) -> None:
        self.ways = ways
        self.ident = ident
        self.timeout = timeout

    def wire(self, way: int = 0) -> Wire:
        return Wire(self.ways[way], self.timeout)

    @functools.cached_property
    def seen(self) -> Wire:
        """The messages of one complete stream, and any that arrive within a moment after its end."""
        with self.wire() as wire:
            wire.ask(self.ident).listen().listen(MOMENT, 2)
            wire.free(wire.addresses)
            return wire

    @functools.cached_property
    def strangers(self) -> list[str]:
        """The server's reactions to idents that name no stream."""
        said = []
        for ident in set(NOBODY) - {self.ident}:
            with self.wire() as wire:
                gone = wire.ask(ident).listen().is_gone
                said.append("closed" if gone and not wire.untagged else f"{len(wire.untagged)} untagged messages")
                wire.free(wire.addresses)
        return said

    def values(self, way: int = 0) -> Any:
        """Read the stream with the client of arrowipc."""
        with connect(self.ways[way], self.ident, timeout=self.timeout, validate="strict") as reader:
            return reader.read_all().to_pydict()

    def serves_on(self, clients: int = 1) -> bool:
        """Whether further clients get the same stream at once."""
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(self.wire()).ask(self.ident) for _ in range(clients)]
            same = [each.listen().untagged == self.seen.untagged for each in wires]
            for each in wires:
                each.free(each.addresses)
        return all(same)


Found = tuple[bool | None, str]
Check = Callable[[Subject], Found]
ASKED = "want_data and the ident"
#: Items, what is sent, and whether the items are met (None: no occasion).
CHECKS: list[tuple[tuple[int, ...], str, Check]] = []


def check(*numbers: int, sent: str = ASKED) -> Callable[[Check], Check]:
    """Decorator: add a check for some items to `CHECKS`."""

    def enter(function: Check) -> Check:
        CHECKS.append((numbers, sent, function))
        return function

    return enter


def check_server(subject: Subject, only: set[int]) -> list[Result]:
    """Run the checks; an error counts as a deviation."""
    found = []
    _ = subject.seen  # raises if there is no server: that is no deviation
    for numbers, sent, function in CHECKS:
        if wanted := only.intersection(numbers):
            try:
                ok, came = function(subject)
            except (ArrowIpcError, OSError, ValueError, LookupError, struct.error) as error:
                ok, came = False, f"{type(error).__name__}: {error}"
            found += [Result(number, ok, sent, came) for number in wanted]
    return found


# -- the URI, and the messages of one stream -------------------------------------------------------------------


@check(8, 9, 10, 13, 15, 16, sent="nothing: the URI is read")
def uri_is_read(subject: Subject) -> Found:
    uris = [uri for way in subject.ways for uri in way]
    for uri in uris:
        check_offered_tag(uri.want_data)
        check_offered_tag(uri.want_data if uri.free_data is None else uri.free_data)
    return all(DissociatedUri.parse(str(each)) == each for each in uris), ", ".join(map(str, uris))


def _pairs_are_right(wire: Wire) -> bool:
    found = [Pairs(each) for each in wire.pairs]
    buffers = [len(each.buffers) for each in wire.lent()] if wire.memory else [each.count for each in found]
    pairs = [pair for each in wire.pairs for pair in struct.iter_unpack("<2Q", each[16:])]
    return [each.count for each in found] == buffers and not any(at for at, length in pairs if not length)


def _packed_are_right(wire: Wire) -> bool | None:
    found = [(wire.kinds[tag & 0xFFFF_FFFF][1], len(data)) for tag, data in wire.bodies if tag >> 56 == 0]
    return all(announced == came for announced, came in found) if found else None


#: Items -> function that says whether a stream is right; None: there is no occasion.
STREAM: dict[tuple[int, ...], Callable[[Wire], bool | None]] = {
    (1, 24): lambda w: bool(w.untagged) and all(len(each) >= 5 and each[0] < 2 for each in w.untagged),
    (11,): lambda w: w.free_data is not None if w.pairs else None,
    (26,): lambda w: w.kinds[:1] == [("Schema", 0)],
    (27,): lambda w: w.numbers[:1] == [0],
    (28, 34): lambda w: w.numbers == list(range(len(w.numbers))),
    (29,): lambda w: all(kind != "?" for kind, _ in w.kinds) and all(m[5:9] != b"\xff" * 4 for m in w.untagged),
    (32, 39): lambda w: len(w.ends) == 1 and w.untagged[-1:] == w.ends,
    (33,): lambda w: {len(each) for each in w.ends} == {5},
    (35,): lambda w: not w.bodies if len(w.kinds) == 1 else None,
    (37,): lambda w: [kind for kind, _ in w.kinds].count("Schema") == 1,
    (3, 4, 40, 42): lambda w: sorted(set(w.owners)) == w.with_body,
    (41,): lambda w: 0 not in w.owners,
    (7, 44): lambda w: all(not tag >> 32 & 0xFF_FFFF for tag, _ in w.bodies),
    (43, 46): lambda w: all(tag >> 56 < 2 for tag, _ in w.bodies),
    (47,): _packed_are_right,
    (48, 49, 50, 51, 83): lambda w: _pairs_are_right(w) if w.pairs else None,
    (55,): lambda w: True if len({tag >> 56 for tag, _ in w.bodies}) > 1 else None,
    (59,): lambda w: len(set(w.owners)) == len(w.owners),
    (60,): lambda w: set(w.owners) <= set(w.with_body),
    (63,): lambda w: w.first_body_before_end if len(w.uris) == 1 and len(w.bodies) > 1 else None,
    (66,): lambda w: len(set(w.numbers)) == len(w.numbers),
}


def _of_stream(right: Callable[[Wire], bool | None], subject: Subject) -> Found:
    return right(subject.seen), subject.seen.said()


for _numbers, _right in STREAM.items():
    check(*_numbers)(functools.partial(_of_stream, _right))


@check(36)
def dictionaries(subject: Subject) -> Found:
    if "DictionaryBatch" not in dict(subject.seen.kinds):
        return None, "no dictionaries"
    return True, f"{len(subject.values())} columns, validated"


# -- want_data -------------------------------------------------------------------------------------------------


@check(17, sent="the ident under another tag, then under want_data")
def idles_until_it_is_asked(subject: Subject) -> Found:
    with subject.wire() as wire:
        for uri, connection in zip(wire.uris, wire.connections, strict=True):
            connection.send(uri.want_data ^ 1, [subject.ident])
        if wire.listen(MOMENT).untagged or wire.bodies:
            return False, f"before want_data: {wire.said()}"
        came = wire.is_gone or wire.ask(subject.ident).listen().wholes == 1
        wire.free(wire.addresses)
        return came, "nothing at first, then " + ("the stream" if came else "no whole stream")


@check(18, sent="want_data and idents of no stream: empty, with NUL, 64 KiB; then the ident")
def any_ident(subject: Subject) -> Found:
    return subject.serves_on(), ", ".join(subject.strangers)


@check(21, sent="want_data and idents of no stream")
def unknown_ident(subject: Subject) -> Found:
    return set(subject.strangers) == {"closed"}, ", ".join(subject.strangers)


@check(20, 68, sent=ASKED + " over two connections; that of the metadata is closed behind the end")
def separate_connections(subject: Subject) -> Found:
    if len(subject.ways[-1]) == 1:
        return None, "one URI: give those of metadata and data too"
    with subject.wire(-1) as wire:
        metadata, data = wire.connections
        metadata.send(wire.uris[0].want_data, [subject.ident])
        while not wire.ends and not metadata.at_end:
            wire.listen(MOMENT)
        metadata.close()
        data.send(wire.uris[1].want_data, [subject.ident])
        wire.listen()
        wire.free(wire.addresses)
        return wire.wholes == 1, wire.said()


@check(64, sent=ASKED + " over one connection, then over two")
def same_over_both(subject: Subject) -> Found:
    if len(subject.ways) == 1:
        return None, "one way: give the URIs of both"
    same = subject.values(0) == subject.values(1)
    return same, "the same values" if same else "other values"


@check(22, sent=ASKED + ", by four clients at once")
def streams_do_not_mix(subject: Subject) -> Found:
    same = subject.serves_on(4)
    return same, "the stream of one client" if same else "another stream"


@check(23, sent=ASKED + ", twice over one connection")
def second_request(subject: Subject) -> Found:
    with subject.wire() as wire:
        wire.ask(subject.ident).ask(subject.ident).listen(streams=2)
        wire.free(wire.addresses)
        once = subject.seen.numbers
        return wire.numbers == once * 2 or (wire.numbers[: len(once)] == wire.numbers and wire.is_gone), wire.said()


# -- memory ------------------------------------------------------------------------------------------------------


def lending(*numbers: int, sent: str) -> Callable[[Callable[[Subject, Wire], Found]], None]:
    """Decorator: add a check with a client that holds all bodies of a stream."""

    def enter(function: Callable[[Subject, Wire], Found]) -> None:
        def run(subject: Subject) -> Found:
            with subject.wire() as wire:
                wire.frees_at_once = numbers == (80,)
                if not wire.ask(subject.ident).listen().pairs or wire.free_data is None:
                    return None, "no body of type 1, or no free_data"
                return function(subject, wire)

        check(*numbers, sent=f"{ASKED}; {sent}")(run)

    return enter


@lending(80, sent="each address is freed as soon as it comes")
def freed_during_the_stream(subject: Subject, wire: Wire) -> Found:
    return wire.wholes == 1, wire.said()


@lending(78, sent="nothing is freed")
def connection_stays(subject: Subject, wire: Wire) -> Found:
    gone = wire.listen(MOMENT, 2).connections[-1].at_end
    wire.free(wire.addresses)
    return not gone, "the server closed it" if gone else "the connection is open"


def _holding(goes: bool, subject: Subject, wire: Wire) -> Found:
    """Whether bodies in shared memory stay unchanged while four other clients read."""
    if wire.memory is None or (goes and wire.uris[-1].scheme == "ucx"):
        return None, "UCX unmaps memory with the connection"
    held = wire.lent()
    before = [bytes(each.body) for each in held]
    if goes:
        wire.__exit__()
    time.sleep(MOMENT)  # the server needs time to see the end of the connection
    subject.serves_on(4)  # at the same time, so that they use all free memory near the beginning
    same = [bytes(each.body) == old for each, old in zip(held, before, strict=True)]
    if not goes:
        wire.free(wire.addresses)
    return all(same), f"{sum(same)} of {len(same)} bodies as before"


lending(72, sent="nothing is freed, and four other clients read")(functools.partial(_holding, False))
lending(86, sent="the client goes, its memory stays mapped, and four others read")(functools.partial(_holding, True))

#: Actions of a client with memory that it holds: item, description and function. The server must keep serving.
FREEING: tuple[tuple[int, str, Callable[[Wire], None]], ...] = (
    (74, "free_data of 7 bytes", lambda wire: wire.send_freed(bytes(7))),
    (75, "all addresses, backwards, in one message", lambda wire: wire.free(wire.addresses[::-1])),
    (82, "addresses that it does not hold", lambda wire: wire.send_freed(STRANGE)),
    (84, "the connection is closed", lambda wire: None),
    (90, "a million addresses", lambda wire: wire.send_freed(STRANGE * (1 << 19))),
)


def _goes_on(free: Callable[[Wire], None], may_close: bool, subject: Subject, wire: Wire) -> Found:
    free(wire)
    if wire.listen(MOMENT, 2).connections[-1].at_end and not may_close:
        return False, "the connection is closed"
    wire.__exit__()
    ok = subject.serves_on()
    return ok, "other clients are served" if ok else "other clients get another stream, or none"


for _number, _sent, _free in FREEING:
    lending(_number, sent=_sent)(functools.partial(_goes_on, _free, _number == 74))
