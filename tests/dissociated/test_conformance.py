"""The conformance check: our own server and client pass, and each of many mistakes is found at its item."""

import contextlib
import gc
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from dissociated import peers
from helpers.processes import run_module

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.dissociated import link, schemes, uri
from arrowipc.dissociated.conformance import __main__ as command
from arrowipc.dissociated.conformance.__main__ import missed
from arrowipc.dissociated.conformance.clients import Client, check_client
from arrowipc.dissociated.conformance.items import ITEMS
from arrowipc.dissociated.conformance.servers import Subject, check_server
from arrowipc.dissociated.conformance.vectors import ROWS, as_json, vectors
from arrowipc.dissociated.memory.arena import Arena
from arrowipc.dissociated.memory.segments import SegmentedMemory
from arrowipc.dissociated.protocol import Incoming, free_data_body
from arrowipc.dissociated.session import Session

STORED = Path(__file__).parents[1] / "data" / "dissociated" / "vectors.json"
ALL = set(ITEMS)
SIX = pa.table({"x": pa.array(range(24_000)), "d": pa.array(["a", "b"] * 12_000).dictionary_encode()})
STREAM = pa.Table.from_batches(SIX.to_batches(max_chunksize=4000))


def test_the_stored_vectors_are_those_of_the_table():
    """To renew them: ``python -m arrowipc.dissociated.conformance vectors > tests/data/dissociated/vectors.json``."""
    assert STORED.read_text() == as_json()


def wrong_of_server(subject: Subject, only: set[int] = ALL) -> list[int]:
    return missed(check_server(subject, only), strict=True)


@pytest.mark.parametrize("transport", ["tcp", "unix", "shm"])
def test_d007_d023_d024_d027_d032_d042_d043_d044_d074_d078_d082_our_server_passes(transport):
    with dissociated.Server({"t": STREAM}, transport) as server:
        subject = Subject([[server.uri], [*server.uris]], b"t", peers.SECONDS)
        results = check_server(subject, ALL)
        assert missed(results, strict=True) == []
    seen = {each.number for each in results if each.ok}
    assert ({72, 74, 75, 78, 82, 84, 86} <= seen) == (transport == "shm")


@contextlib.contextmanager
def scripted(answer: Callable[[Any, int, bytes], Any], **options: Any) -> Iterator[Subject]:
    """A server whose every connection does what `answer` says to each tagged message."""
    endpoint = schemes.listen("tcp", None, None)
    tag, ended = uri.new_tag(), threading.Event()

    def serve() -> None:
        opened: list[Any] = []
        while not ended.wait(0.001):
            if (made := endpoint.listener.accept()) is not None:
                opened.append(made)
            for each in opened:
                with contextlib.suppress(OSError):
                    each.progress()
                    while (frame := each.receive()) is not None:
                        answer(each, frame.tag ^ tag, bytes(frame.data))
        for each in opened:
            each.close()

    with peers.beside(serve):
        place = dissociated.DissociatedUri("arrowipc+tcp", "127.0.0.1", endpoint.port, want_data=tag)
        try:
            yield Subject([[place]], b"t", 0.25)
        finally:
            ended.set()
    endpoint.listener.close()


def sending(words: str) -> Callable[[Any, int, bytes], None]:
    """What sends the messages of a vector to whoever asks."""
    (messages,) = {each.messages for each in vectors() if each.words == words}

    def answer(connection: Any, strange: int, ident: bytes) -> None:
        if strange == 0 and ident == b"t":
            for tag, data in messages:
                connection.send(tag, [data])
        elif strange == 0:
            connection.close()

    return answer


#: Words of a vector -> items that a server which sends it does not meet.
BROKEN = {
    "S =0200000000 M1 B1 E2": {24},
    "M1@0 B1@0 E1": {26, 37, 41},
    "S@1 M1@2 B1@2 E3": {27, 28, 34},
    "S M2 B2 E3 lost": {28, 34},
    "=0100000000ffffffffffffffff E1": {26, 29, 37},
    "S0 M1 B1 E2": {29},
    "S M1 B1 =000200000000": {33},
    "S M1 B1 E1": {34, 66},
    "S S@1 M1@2 B1@2 E3": {37},
    "S M1 E2 E2 B1": {32, 39},
    "S B1@0 M1 B1 E2": {41, 60},
    "S M1 B1@0x100000001 E2": {7, 44},
    "S M1 B1@0x200000000000001 E2": {43, 46},
    "S M1 B0 E2": {47},
    "S B1 B1 M1 E2": {59},
    "S M1 B1 B2 E2": {60},
    "S M1 E2 lost": {3, 40},
    "S M1 M1 B1 E2": {66},
}


@pytest.mark.parametrize("words", BROKEN)
def test_a_broken_stream_is_found_at_its_items(words):
    with scripted(sending(words)) as subject:
        wrong = wrong_of_server(subject, set().union(*BROKEN.values()))
    assert BROKEN[words] <= set(wrong)


def test_a_stream_without_mistakes_has_none():
    with scripted(sending("S M1 B1 M2 B2 E3")) as subject:
        assert wrong_of_server(subject) == []


def test_broken_answers_are_found():
    whole = sending("S M1 B1 M2 B2 E3")
    with scripted(lambda connection, strange, ident: whole(connection, 0, b"t")) as subject:
        assert wrong_of_server(subject, {17, 18, 21, 22}) == [17, 21]
    with scripted(lambda connection, strange, ident: [whole(connection, strange, ident)] * 2) as subject:
        assert wrong_of_server(subject, {17, 23}) == []
    mixed = sending("S M1 B1 E2")
    once: list[int] = []
    other = lambda c, s, i: (mixed if once else whole)(c, s, i) or once.append(1)  # noqa: E731
    with scripted(other) as subject:
        assert wrong_of_server(subject, {22, 23}) == [22, 23]


def altered(change: Callable[[bytes], bytes]) -> Any:
    real = Session._send_placed
    return lambda self, message, placed: real(self, message, placed._replace(pairs=change(placed.pairs)))


def _place_and_forget(self, message, connection, real=SegmentedMemory.place):
    placed = real(self, message, connection)
    self.release(placed.addresses if placed else ())
    return placed


def _step_to_the_end(self, real=Session.step):
    more = real(self)
    return None if more is False and self._asked and not (self.is_busy or self.connection.unsent) else more


def _fail(self, addresses):
    raise LookupError("an address that it does not hold")


#: What a server does wrong with its memory -> what does it, and the item.
FORGETFUL: dict[str, tuple[Any, str, Any, int]] = {
    "one pair for two buffers": (Session, "_send_placed", altered(lambda pairs: pairs[:8] + b"\x01" + pairs[9:32]), 48),
    "a wrong sum": (Session, "_send_placed", altered(lambda pairs: bytes([pairs[0] ^ 8]) + pairs[1:]), 49),
    "memory is used again": (SegmentedMemory, "place", _place_and_forget, 72),
    "memory of those who went is used again": (Arena, "abandon", Arena.release, 86),
    "the connection ends behind the last body": (Session, "step", _step_to_the_end, 78),
    "it fails at what it does not know": (Session, "_release", _fail, 82),
    "no free_data": (dissociated.DissociatedUri, "free_data", None, 11),
}


@pytest.mark.parametrize("mistake", FORGETFUL)
def test_broken_memory_is_found(monkeypatch, mistake):
    owner, name, value, item = FORGETFUL[mistake]
    monkeypatch.setattr(owner, name, value)
    changing = itertools.count()

    def batch() -> ipc.RecordBatch:
        return ipc.RecordBatch.from_pydict({"x": [next(changing)] * 20_000})

    with dissociated.Server({"t": batch}, "shm") as server:
        # Which memory is free by then depends on time.
        assert any(wrong_of_server(Subject([[server.uri]], b"t", 1.0), {item}) == [item] for _ in range(5))


def read_into(out, errors, ident, *uris) -> int:
    """Do what the program of a client does; return the status with which it ends."""
    try:
        with dissociated.connect(uris[0] if len(uris) == 1 else uris, ident, timeout=5, validate="strict") as reader:
            table = reader.read_all()
        with ipc.new_stream(out, table.schema) as writer:
            writer.write(table)
    except Exception as error:
        errors.write(f"{type(error).__name__}: {error}".encode())
        return 1
    del table, reader
    gc.collect()
    for each in list(link._running):  # as the end of a process waits
        each.deliver()
    return 0


class InThread(contextlib.AbstractContextManager):
    """Our client, in a thread in place of a process: `words` are the ident and the URIs."""

    def __init__(self, words, stdin, stdout, stderr):
        self.pool = ThreadPoolExecutor(1)
        self.code = self.pool.submit(read_into, stdout, stderr, *words)

    def poll(self):
        return self.code.result() if self.code.done() else None

    def kill(self):
        self.pool.shutdown()

    def __exit__(self, *_):
        self.kill()


def wrong_of_client(only: set[int], where: str = "arrowipc+unix:", uris: str = "{uri}") -> list[int]:
    client = Client(where, "{ident} " + uris, 3.0, True, InThread)
    try:
        return missed(check_client(client, only), strict=True)
    finally:
        client.close()


@pytest.mark.parametrize(
    ("where", "uris"),
    [
        ("arrowipc+tcp://127.0.0.1:0", "{uri}"),
        ("arrowipc+tcp://127.0.0.1:0", "{metadata} {data}"),
        ("arrowipc+unix:", "{uri}"),
    ],
)
def test_d019_d073_d077_our_client_passes(where, uris):
    assert wrong_of_client(ALL, where, uris) == []


MISTAKES: dict[str, tuple[Any, str, Any, set[int]]] = {
    "the ident is not opaque": (link.Link, "open", None, {18}),
    "nothing is given back": (link.Returns, "returned", lambda self, addresses: None, {73, 81}),
    "free_data of 7 bytes": (link, "free_data_body", lambda addresses: bytes(7), {74}),
    "other addresses": (link, "free_data_body", lambda given: free_data_body([each + 8 for each in given]), {73, 77}),
    "a lost stream is whole": (Incoming, "lost", lambda self, what, reason=None: setattr(self, "end", self.next), {70}),
    "parameters come twice": (uri, "_tag", lambda name, value, text: int(value) % 2**64, {9, 10}),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_of_clients_are_found(monkeypatch, mistake):
    owner, name, value, items = MISTAKES[mistake]
    if value is None:
        real = link.Link.open.__func__
        value = classmethod(lambda cls, uris, ident, *more: real(cls, uris, ident.replace(b" ", b"_"), *more))
    monkeypatch.setattr(owner, name, value)
    # What is given back together depends on time: a mistake may be invisible once.
    assert any(items <= set(wrong_of_client(items)) for _ in range(5))


def test_the_report_says_what_was_sent_and_what_came(capsys):
    with dissociated.Server({"t": STREAM}) as server:
        assert command.main(["server", str(server.uri), "--ident", "t", "--only", "26-28,72"]) == 0
    said = capsys.readouterr().out
    assert "ok   27 M  The first message has number 0\n           sent: want_data and the ident\n" in said
    assert re.search(r"came: numbers 0, 1, 2", said)
    assert "-    72 M  Memory that was handed out" in said
    assert "3 met, 0 not met" in said
    with scripted(sending("S@1 M1@2 B1@2 E3")) as subject:
        words = ["server", str(subject.ways[0][0]), "--ident", "t", "--only", "26-28,14", "--timeout", "1"]
        assert command.main(words) == 1
    said = capsys.readouterr().out
    assert "FAIL 27 M" in said
    assert "not met: 27, 28" in said
    assert "cannot be seen from outside: 14" in said


def test_what_cannot_be_checked_ends_with_2(capsys):
    assert command.main(["server", "arrowipc+tcp://127.0.0.1:1?want_data=7"]) == 2
    assert "nothing was checked: [Errno 111] connecting to tcp 127.0.0.1:1" in capsys.readouterr().err
    assert command.main(["client", "arrowipc+tcp://127.0.0.1:0", "program"]) == 2
    assert "{uri}, or {metadata} and {data}" in capsys.readouterr().err
    for words in (["server"], ["server", "x", "--only", "97"], ["other"]):
        with pytest.raises(SystemExit) as ended:
            command.main(words)
        assert ended.value.code == 2


def test_the_command_has_help_items_and_vectors():
    run = partial(run_module, "arrowipc.dissociated.conformance")
    assert "want_data is in the URI" in run("items").stdout
    assert len(json.loads(run("vectors").stdout)["vectors"]) == len(ROWS)
    assert "--no-memory" in run("client", "--help").stdout
