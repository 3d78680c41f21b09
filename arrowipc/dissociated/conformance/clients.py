"""Checks of a client: it is started once for each vector, and writes the stream that it read to its output."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import struct
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from arrowipc.dissociated import schemes
from arrowipc.dissociated.conformance.servers import Result
from arrowipc.dissociated.conformance.vectors import STREAMS, Vector, memory, vectors
from arrowipc.dissociated.memory.address_pairs import Pairs
from arrowipc.dissociated.memory.arena import F_SEAL_GROW, F_SEAL_SHRINK
from arrowipc.dissociated.uri import DissociatedUri, new_tag
from arrowipc.errors import ArrowIpcError, UsageError
from arrowipc.reader import open_stream

TRANSPORTS = {"arrowipc+tcp": "tcp", "arrowipc+unix": "unix", "ucx": "ucx"}
IDENT = "conformance ü"
NO_MEMORY = "bodies in shared memory were not offered"
#: Item -> further items that its vectors show.
ALSO: dict[int, tuple[int, ...]] = {24: (1, 4, 7, 30, 42, 44), 40: (3,), 61: (6,), 48: (43,)}
#: Items whose vectors break a rule only if the messages are read in this order.
ORDERED = (39, 59, 60)
#: Item, description and function of a change of the URI; whether the client must accept the changed URI or fail.
URIS: tuple[tuple[int, str, Callable[[str], str], bool], ...] = (
    (8, "a URI of an unknown scheme", lambda uri: uri.replace("://", "-pigeon://", 1), False),
    (9, "a URI without want_data", lambda uri: uri.replace("want_data=", "other="), False),
    (9, "a URI whose want_data is 2**64", lambda uri: f"{uri.partition('want_data=')[0]}want_data={2**64}", False),
    (10, "a URI whose free_data is -1", lambda uri: re.sub(r"&free_data=\d+|$", "&free_data=-1", uri, count=1), False),
    (13, "a URI whose remote_handle has no padding", lambda uri: uri.replace("%3D", ""), True),
    (14, "a URI with an unknown parameter", lambda uri: f"{uri}&color=blue", True),
    (14, "a URI with want_data twice", lambda uri: f"{uri}&want_data=1", False),
)


class Trial(NamedTuple):
    """The result of one run of the client."""

    code: int | None  #: None: it had to be killed
    values: dict[str, list[Any]] | None
    custom: dict[Any, Any]
    requests: list[tuple[int | None, bytes]]  #: the first message of each connection
    freed: list[bytes]
    said: str

    @property
    def has_failed(self) -> bool:
        """bool: it ended with an error, and neither crashed nor hung."""
        return self.code is not None and self.code > 0

    @property
    def outcome(self) -> str:
        """str: the result in words."""
        if self.code is None:
            return "it hangs"
        if self.code < 0:
            return f"it crashed (signal {-self.code}): {self.said}"
        if self.code:
            return f"it failed: {self.said}"
        rows = None if self.values is None else len(next(iter(self.values.values()), ()))
        return "it wrote no Arrow stream" if rows is None else f"it read {rows} rows"


class Client:
    """The client to check: `command` starts it, `start` makes the process, `has_memory`: it reads shared memory."""

    def __init__(self, uri: str, command: str, timeout: float, has_memory: bool, start: Any = subprocess.Popen) -> None:
        self.start = start
        self.timeout = timeout
        parts = urlsplit(uri)
        schemes.check_scheme(parts.scheme)
        self.words: list[str] = shlex.split(command)
        self.is_pair: bool = "{metadata}" in command
        if not self.is_pair and "{uri}" not in command:
            raise UsageError("the command has to contain {uri}, or {metadata} and {data}")
        is_unix = parts.scheme == "arrowipc+unix"
        self.has_memory: bool = has_memory and is_unix
        options = {"error_mode": "none"} if parts.scheme == "ucx" else {}
        path = parts.path.removeprefix("/") if parts.path.startswith("/@") else parts.path
        address = (path or None) if is_unix else (parts.hostname or "127.0.0.1", parts.port or 0)
        self.endpoint: Any = schemes.listen(TRANSPORTS[parts.scheme], address, None, **options)
        self.tags: dict[str, int] = {"uri": new_tag(), "metadata": new_tag(), "data": new_tag()}
        self.free_data: int = new_tag()

    def _uri(self, role: str, lends: bool, free_data: bool) -> str:
        _, scheme, host, port, path, _ = self.endpoint
        free = self.free_data if lends and free_data else None
        handle = b"memfd" if lends else None
        tag = self.tags[role]
        return str(DissociatedUri(scheme, host, port, path, want_data=tag, free_data=free, remote_handle=handle))

    def why_not(self, vector: Vector) -> str:
        """Return why a vector cannot be used for the client, or an empty string."""
        if self.is_pair and vector.item in ORDERED:
            return "the order in which two connections bring something is not certain"
        return NO_MEMORY if vector.has_pairs and not self.has_memory else ""

    def run(self, vector: Vector, change: Callable[[str], str] = str, free_data: bool = True) -> Trial:
        """Start the client and send it the messages."""
        lends = self.has_memory and (vector.has_pairs or change is not str)
        given = {role: change(self._uri(role, lends, free_data)) for role in self.tags}
        words = [each.format(**given, ident=IDENT) for each in self.words]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            with self.start(words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors) as process:
                try:
                    requests, freed = self._serve(vector, process)
                    code = process.poll()
                finally:
                    process.kill()
            out.seek(0), errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()[-1:]
            values, custom = _values(out.read()) if code == 0 else (None, {})
        return Trial(code, values, custom, requests, freed, "".join(said)[:200])

    def _serve(self, vector: Vector, process: Any) -> tuple[list[tuple[int | None, bytes]], list[bytes]]:
        """Play the server until the client has ended; each connection that asks gets the messages of the vector."""
        end = time.monotonic() + self.timeout
        requests: list[tuple[int | None, bytes]] = []
        freed: list[bytes] = []
        opened: list[Any] = []
        asked: dict[Any, float] = {}
        has_ended = False
        with contextlib.ExitStack() as stack:
            while not has_ended:
                has_ended = process.poll() is not None or time.monotonic() > end  # one more turn for its last messages
                with contextlib.suppress(OSError):
                    if (made := self.endpoint.listener.accept()) is not None:
                        opened.append(stack.enter_context(made))
                for each in list(opened):
                    with contextlib.suppress(OSError, ArrowIpcError):
                        each.progress()
                    while (frame := each.receive()) is not None:
                        if each not in asked:
                            requests.append((frame.tag, bytes(frame.data)))
                            asked[each] = time.monotonic()
                            self._send(each, frame.tag, vector)
                        elif frame.tag == self.free_data:
                            freed.append(bytes(frame.data))
                    # Close the connection in the end, for a client that waits for more.
                    patience = 0.0 if vector.is_lost else self.timeout / 2
                    if each in asked and not each.unsent and time.monotonic() - asked[each] > patience:
                        opened.remove(each)
                        each.close()
                time.sleep(0.001)
        return requests, freed

    def _send(self, connection: Any, role: int | None, vector: Vector) -> None:
        """Send the messages that a connection asked for."""
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):  # the client may have closed it
            handles = [_sealed()] if vector.has_pairs else []
            stack.callback(list, map(os.close, handles))
            for tag, data in vector.messages:
                if role != self.tags["metadata" if tag is not None else "data"]:
                    has_pairs = tag is not None and tag >> 56 == 1
                    connection.send(tag, [data], handles if has_pairs else ())
                    handles = [] if has_pairs else handles
            if vector.has_pairs:  # before the descriptor is closed
                connection.flush(self.timeout)

    def close(self) -> None:
        """Stop listening."""
        self.endpoint.listener.close()


def _sealed() -> int:
    """Return a new memfd with the shared memory of the vectors."""
    handle = os.memfd_create("arrowipc", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(handle, memory())
    fcntl.fcntl(handle, fcntl.F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK)
    return handle


def _values(data: bytes) -> tuple[dict[str, list[Any]] | None, dict[Any, Any]]:
    """Return the values and the custom metadata of the stream that the client wrote."""
    try:
        with open_stream(data, validate="strict") as reader:
            table = reader.read_all()
        return table.to_pydict(), dict(table.schema.metadata or {})
    except ArrowIpcError:
        return None, {}


# -- the checks ------------------------------------------------------------------------------------------------

FIRST, LENT, TWICE = "S M1 B1 M2 B2 E3", "S M1 P1 E2", "S M1 P1 M1@2 P1@2 E3"
#: Vectors that show further items: about requests, and about memory that is given back.
_ASKING, _FREEING = (18, 19, 20), (73, 74, 75, 77, 81, 83)
_MORE = {FIRST: _ASKING, LENT: (73, 74, 75, 77, 83), TWICE: (73, 77)}


def check_client(client: Client, only: set[int]) -> list[Result]:
    """Run the vectors and judge the results."""
    found = []
    for vector in vectors():
        numbers = {vector.item, *ALSO.get(vector.item, ()), *_MORE.get(vector.words, ())} & only
        if not numbers:
            continue
        sent = f"{vector.means} ({vector.words})" if vector.words else vector.means
        if why_not := client.why_not(vector):
            found += [Result(number, None, sent, why_not) for number in numbers]
            continue
        trial = client.run(vector)
        found += [_judged(number, client, vector, trial, sent) for number in numbers]
    return found + [each for each in _of_uris(client) if each.number in only]


def _judged(number: int, client: Client, vector: Vector, trial: Trial, sent: str) -> Result:
    if number in _ASKING:
        roles = ("metadata", "data") if client.is_pair else ("uri",)
        ok = dict(trial.requests) == {client.tags[role]: IDENT.encode() for role in roles}
        came = ", ".join(f"{tag}: {data!r}" for tag, data in trial.requests)
        return Result(number, None if number == 20 and not client.is_pair else ok, f"the ident {IDENT!r}", came)
    if number in _FREEING and vector.has_pairs and vector.values is not None:
        ok, came = _freed(number, vector, trial)
        if number != 81 or not ok:
            return Result(number, ok, sent, came)
    if vector.values is None:
        return Result(number, trial.has_failed, sent, trial.outcome)
    ok = trial.code == 0 and trial.values == vector.values
    if vector.item == 38:
        ok = ok and trial.custom == dict(STREAMS["plain"][0].metadata or {})
        return Result(number, ok, sent, f"{trial.outcome}, custom_metadata {trial.custom}")
    wrong = "" if ok or trial.values is None else f", but other values: {trial.values}"
    return Result(number, ok, sent, trial.outcome + wrong[:200])


def _freed(number: int, vector: Vector, trial: Trial) -> tuple[bool, str]:
    """Judge the addresses that a client gave back."""
    lent = Counter(a for tag, data in vector.messages if tag is not None and tag >> 56 for a in Pairs(data).addresses)
    lengths = [len(each) for each in trial.freed]
    if any(each % 8 or not each for each in lengths):
        return number != 74, f"free_data of {lengths} bytes"
    back = Counter(a for each in trial.freed for a in struct.unpack(f"<{len(each) // 8}Q", each))
    came = f"{back.total()} of {lent.total()} addresses in {len(lengths)} messages"
    if number in (73, 81):
        return back == lent, came
    strange = [hex(each) for each in back - lent]
    return not strange, came + (f", not held: {strange}" if strange else "")


def _of_uris(client: Client) -> Iterable[Result]:
    by_words = {each.words: each for each in vectors()}
    for number, sent, change, accepted in URIS:
        if client.is_pair:
            yield Result(number, None, sent, "URIs are given as a pair")
        elif number == 13 and not client.has_memory:
            yield Result(number, None, sent, NO_MEMORY)
        else:
            trial = client.run(by_words[FIRST], change)
            ok = trial.values == by_words[FIRST].values if accepted else trial.has_failed
            yield Result(number, ok, sent, trial.outcome)
    sent = "a body of type 1, and a URI without free_data"
    if not client.has_memory:
        yield Result(12, None, sent, NO_MEMORY)
        return
    trial = client.run(by_words[LENT], free_data=False)
    ok = trial.values == by_words[LENT].values and not trial.freed
    yield Result(12, ok, sent, f"{trial.outcome}, {len(trial.freed)} messages of free_data")
