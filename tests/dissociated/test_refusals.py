"""What goes wrong is said where it is: to the client, and among the errors of the server."""

import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.lent_memory import process, says, serve
from dissociated.peers import until
from helpers.memory import interrupted
from helpers.processes import run_function, start, together

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.dissociated import schemes, server
from arrowipc.dissociated.memory import arena
from arrowipc.dissociated.protocol import REASONS, Reason
from arrowipc.dissociated.transports import sockets
from arrowipc.errors import FormatError, TruncatedError, UnsupportedError, UsageError

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = peers.SECONDS
NOBODY = 65534
TRANSPORTS = ("tcp", "unix", "shm")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be another user, too"
)


def torn() -> Iterator[pa.RecordBatch]:
    yield peers.numbers().to_batches()[0]
    raise LookupError("the second batch is nowhere")


def find(name: bytes) -> Any:
    if name == b"find":
        raise KeyError("the catalogue is closed")
    return {b"n": peers.numbers(), b"open": lambda: 1 / 0, b"torn": torn, b"what": object(), b"empty": []}.get(name)


FAILED = re.escape(REASONS[Reason.FAILED])


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("name", "error", "words", "said"),
    [
        ("nothing", FormatError, "without sending a schema: it does not know the stream that was asked for$", None),
        ("find", FormatError, f"without sending a schema: {FAILED}$", "KeyError"),
        ("open", FormatError, f"without sending a schema: {FAILED}$", "ZeroDivisionError"),
        ("empty", FormatError, f"without sending a schema: {FAILED}$", "UsageError"),
        ("what", FormatError, f"without sending a schema: {FAILED}$", "UsageError"),
        (
            "torn",
            TruncatedError,
            f"before the metadata of message 2 arrived: the server ended it, {FAILED}",
            "LookupError",
        ),
    ],
)
def test_d021_what_becomes_of_a_request_is_said(transport, name, error, words, said):
    with dissociated.Server(find, transport) as server:
        with pytest.raises(error, match=words) as raised:
            dissociated.connect(server.uri, name, timeout=SECONDS).read_all()
        assert type(raised.value) is error
        if said is not None:
            until(lambda: server.errors, "the server says why")
        assert peers.kinds(server) == ([said] if said else [])


def test_errors_of_sockets_name_the_address(tmp_path):
    nowhere, port = tmp_path / "nowhere.sock", peers.socket.create_server(("127.0.0.1", 0))
    number = port.getsockname()[1]
    for uri, words in (
        (f"arrowipc+unix://{nowhere}?want_data=999999999999999999", f"connecting to unix {nowhere}: No such"),
        ("arrowipc+unix:///@nobody-is-here?want_data=999999999999999999", "unix @nobody-is-here: .*refused"),
    ):
        with pytest.raises(OSError, match=words):
            dissociated.connect(uri, timeout=SECONDS)
    with pytest.raises(OSError, match=f"listening on tcp 127.0.0.1:{number}: Address already in use"):
        dissociated.Server({}, "tcp", ("127.0.0.1", number))
    port.close()
    with pytest.raises(ConnectionRefusedError, match=f"connecting to tcp 127.0.0.1:{number}: Connection refused"):
        dissociated.connect(f"arrowipc+tcp://127.0.0.1:{number}?want_data=999999999999999999", timeout=SECONDS)


# -- options -------------------------------------------------------------------------------------------------


REFUSED_OPTIONS = [
    ({"transport": "file"}, '"file" tells clients where bodies lie in one file, and needs its path'),
    ({"transport": "carrier pigeon"}, "transport must be 'tcp' or 'unix' or 'shm' or 'file' or 'ucx'"),
    ({"transport": ["tcp"]}, "transport must be"),
    ({"transport_options": {"capacity": 1}}, "the transport 'unix' has no option 'capacity': there are none"),
    (
        {"transport": "shm", "transport_options": {"sise": 1}},
        "the transport 'shm' has no option 'sise': there are capacity, least_bytes, segm",
    ),
    ({"transport_options": 5}, "transport_options must be a Mapping or None, found int 5"),
    ({"max_client": 3}, "no option 'max_client': did you mean 'max_clients'?"),
    ({"max_unsent": 3}, "no option 'max_unsent'"),
    ({"max_held": (1000 << 10) - 1}, "max_held must be an integer from 1024000 to "),
    ({"compresion": "lz4"}, "no option 'compresion': did you mean 'compression'?"),
    ({"alignment": 64}, "no option 'alignment'"),
    ({"compression": "nope"}, "compression must be 'lz4', 'zstd' or None"),
    ({"compression_level": 3}, "compression_level and min_space_savings need a codec"),
    ({"metadata_version": "V9"}, "metadata_version must be 'V5' or 'V4'"),
    ({"schema": 5}, "schema: expected a Schema"),
    ({"limits": 5}, "limits must be a Limits or None, found int 5"),
    ({"on_error": 5}, "on_error: expected a callable, found int 5"),
    ({"want_data": "x"}, "want_data must be an integer from 0"),
    ({"want_data": 5}, "want_data and free_data need a top byte"),
    *(
        ({name: value}, f"{name}: expected seconds, more than 0, or None")
        for name in ("request_timeout", "idle_timeout")
        for value in (0, -1, "1", True, float("nan"))
    ),
]


@pytest.mark.parametrize(("options", "words"), REFUSED_OPTIONS)
def test_options_are_checked_when_a_server_is_made(options, words, tmp_path):
    path = tmp_path / "x.sock"
    with pytest.raises(UsageError, match=re.escape(words)):
        dissociated.Server({"n": peers.numbers()}, **{"transport": "unix", "address": path, **options})
    assert not path.exists()
    if options.keys() & {"compression", "compresion"}:
        with pytest.raises(UsageError, match=re.escape(words)):
            dissociated.Prepared(peers.numbers(), **options)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (5, "expected a RecordBatch, a Table, .* found int 5"),
        (None, "expected a RecordBatch, .* found NoneType"),
        (b"bytes", "expected data, found bytes"),
        (object(), "expected a RecordBatch"),
        ([5], "expected a RecordBatch, .* found int 5"),
        (ipc.Array.from_pylist([1]), "is one column, not a batch"),
        ({"x": object()}, "column 'x': expected a sequence of values"),
    ],
)
def test_sources_are_checked_when_a_server_is_made(source, words):
    with pytest.raises(UsageError, match=rf"streams\['a'\]: .*{words}"):
        dissociated.Server({"n": peers.numbers(), "a": source}, "tcp")
    with pytest.raises(UsageError, match=words):
        dissociated.Prepared(source)


def test_a_name_that_is_there_twice_is_refused():
    with pytest.raises(UsageError, match=r"streams\[b'a'\]: expected one stream of each name"):
        dissociated.Server({"a": peers.numbers(), b"a": peers.numbers()}, "tcp")


@pytest.mark.parametrize(
    "source",
    [
        {"x": [1, 2, 3]},
        [ipc.RecordBatch.from_pydict({"x": [1, 2, 3]})],
        iter([ipc.RecordBatch.from_pydict({"x": [1, 2, 3]})]),
        pa.RecordBatchReader.from_batches(pa.schema([("x", pa.int64())]), pa.table({"x": [1, 2, 3]}).to_batches()),
    ],
    ids=["columns", "list", "iterator", "reader"],
)
def test_checking_a_source_uses_nothing_of_it_up(source):
    with dissociated.Server({"n": source}) as server, dissociated.connect(server.uri, "n", timeout=SECONDS) as reader:
        assert reader.read_all().to_pydict() == {"x": [1, 2, 3]}


ONCE = "the source can be read once, and was read: give a callable that makes a new one for each client"
BATCHES = peers.numbers(10, 2).to_batches()


@pytest.mark.parametrize(
    "make",
    [
        lambda _: pa.table({"x": [1]}).to_reader(),
        lambda _: iter(BATCHES),
        lambda _: [BATCHES[0], iter(BATCHES[1:])],
        lambda _: ipc.open_stream(peers.written(peers.numbers())),
        lambda server: dissociated.connect(server.uri, "t", timeout=SECONDS),
    ],
    ids=["pyarrow's reader", "iterator", "list with an iterator", "our reader", "client"],
)
def test_a_source_that_can_be_read_once_has_no_second_client_without_rows(make):
    with (
        dissociated.Server({"t": peers.numbers()}, "tcp") as origin,
        dissociated.Server({"t": make(origin)}, "unix", schema=BATCHES[0].schema) as server,
    ):
        assert peers.read_from(server).num_rows > 0
        with pytest.raises(FormatError, match="reading the source of the stream failed"):
            peers.read_from(server)
        until(lambda: server.errors, "the server says why")
        assert peers.said(server) == [("UsageError", ONCE)]


def test_what_is_prepared_of_a_source_that_failed_once_is_not_empty():
    source = dissociated.Prepared(torn(), schema=BATCHES[0].schema)
    with pytest.raises(LookupError):
        list(source.messages(None))
    for _ in range(2):
        with pytest.raises(UsageError, match=ONCE):
            list(source.messages(None))


# -- addresses -----------------------------------------------------------------------------------------------


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", ("127.0.0.1", 0), None, "[::1]:0", ("::1", 0)])
def test_a_server_listens_at_a_host_and_port(address):
    assert schemes.host_and_port(":8815") == ("", 8815)
    wanted = schemes.host_and_port(address)[0]
    if ":" in wanted and not has_ipv6():
        pytest.skip("no IPv6 here")
    with dissociated.Server({"t": peers.numbers()}, "tcp", address) as server:
        shown = f"[{wanted}]" if ":" in wanted else wanted
        assert str(server.uri).startswith(f"arrowipc+tcp://{shown}:{server.uri.port}?")
        assert peers.read_from(str(server.uri)).num_rows == 3


@pytest.mark.parametrize("transport", ["tcp", "ucx"])
@pytest.mark.parametrize(
    "address",
    [
        *("8815", "::1:80", "127.0.0.1:70000", "127.0.0.1:-1", "127.0.0.1:", "a:b", "", "127.0.0.1:\u0663", "\0:1"),
        *(8815, b"127.0.0.1:0", ["127.0.0.1", 0], ("127.0.0.1",), ("127.0.0.1", "0"), ("127.0.0.1", True)),
        *(("127.0.0.1", 70000), ("127.0.0.1", -1), (5, 5), ("a\0b", 0), {}),
    ],
)
def test_other_addresses_are_named(transport, address):
    with pytest.raises(UsageError, match=r'address: expected "host:port".* found ' + type(address).__name__):
        dissociated.Server({}, transport, address)


@pytest.mark.parametrize(
    "uri", ["http://x:80", "127.0.0.1:80", "localhost:80", "", "fabric:/h", "http://x?want_data=1"]
)
@pytest.mark.parametrize("pair", [False, True])
def test_a_wrong_scheme_says_so(uri, pair):
    with pytest.raises(UnsupportedError, match=r"no transport speaks '[\w.]*': expected one of arrowipc\+tcp"):
        dissociated.connect([uri, uri] if pair else uri, "n")
    with pytest.raises(UnsupportedError, match="no transport speaks"):
        dissociated.Channel(uri)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limits": 5}, "limits must be a Limits or None, found int 5"),
        ({"timeout": "x"}, "timeout: expected seconds"),
        ({"timeout": 0}, "timeout: expected seconds"),
        ({"timeout": True}, "timeout: expected seconds"),
    ],
)
def test_options_of_clients_are_checked_before_they_connect(options, words):
    uri = "arrowipc+tcp://127.0.0.1:1?want_data=1"
    with pytest.raises(UsageError, match=words):
        dissociated.connect(uri, "n", **options)
    with pytest.raises(UsageError, match=words):
        dissociated.Channel(uri, **options)


# -- paths that are taken ------------------------------------------------------------------------------------


def killed(transport: str, path: Any) -> None:
    """Leave behind what a server leaves that was killed."""
    with process(serve, transport, 1, 1, 1, path) as server:
        assert says(server)
    assert path.is_socket()


@pytest.mark.parametrize("transport", ["unix", "shm"])
def test_the_path_of_a_server_goes_with_it_and_that_of_a_killed_one_is_free(transport, tmp_path, monkeypatch):
    """The path may be relative to the folder of that time, and have any characters."""
    monkeypatch.chdir(tmp_path)
    killed(transport, Path("a b?#%é.sock"))
    with dissociated.Server(find, transport, "a b?#%é.sock") as server:
        monkeypatch.chdir("/")
        path = tmp_path / "a b?#%é.sock"
        assert peers.read_from(str(server.uri), "n").num_rows == 3
        with pytest.raises(OSError, match=f"listening on unix {re.escape(str(path))}: Address already in use"):
            dissociated.Server(find, transport, path)
        assert peers.read_from(server, "n").num_rows == 3
        assert path.is_socket()
    assert not path.exists()


def test_of_many_servers_one_gets_the_path_of_a_killed_one(tmp_path):
    path = tmp_path / "x.sock"
    killed("unix", path)
    found = together(*[lambda: dissociated.Server(find, "unix", path)] * 8)
    (server,) = (each for each in found if not isinstance(each, OSError))
    with server:
        assert peers.read_from(server, "n").num_rows == 3


def test_what_is_no_socket_of_a_dead_server_stays(tmp_path):
    path = tmp_path / "x.sock"
    path.write_text("mine")
    with pytest.raises(OSError, match="Address already in use"):
        dissociated.Server(find, "unix", path)
    assert path.read_text() == "mine"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waits:
        busy.bind(str(path))
        busy.listen(0)
        waits.connect(str(path))  # its queue is full now
        with pytest.raises(OSError, match="Address already in use"):
            dissociated.Server(find, "unix", path)
    assert path.is_socket()


# -- interrupts ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_is_interrupted_while_it_begins_leaves_no_path_and_no_descriptor(tmp_path):
    path = tmp_path / "x.sock"
    made: list[Any] = []
    before = len(peers.descriptors())
    for begin, modules in (
        (lambda: dissociated.Server(find, "unix", path), (server, schemes, sockets)),
        (lambda: arena.MemfdSegment(1, 1 << 16), (arena,)),
    ):
        for count in interrupted(lambda begin=begin: made.append(begin()), *modules):
            until(lambda: made or not path.exists(), f"the path is gone after {count} steps")
        assert count > 50
        made.pop().close()
    peers.until_collected(lambda: len(peers.descriptors()) <= before, "descriptors are back")


# -- other users ---------------------------------------------------------------------------------------------


def become_another_user() -> None:
    # Once as ourselves: whatever this imports may lie where the other user cannot read.
    for transport in TRANSPORTS:
        with dissociated.Server(find, transport) as served:
            peers.read_from(served, "n")
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def client_of_another_user(*uris: str) -> None:
    become_another_user()
    for each in uris:
        try:
            dissociated.connect(each, "n", timeout=SECONDS)
        except Exception as error:
            print(type(error).__name__, error, flush=True)


def server_of_another_user(transport: str, address: str) -> None:
    streams = {"n": peers.numbers(100_000)}
    become_another_user()
    with dissociated.Server(streams, transport, address) as served:
        print(served.uri, flush=True)
        sys.stdin.read()


@as_root
def test_a_client_of_another_user_hears_why_it_is_sent_away_and_so_does_the_server(monkeypatch):
    monkeypatch.setattr(server, "ACCEPT_PAUSE", 10 * SECONDS)  # after other errors, as being out of descriptors
    with dissociated.Server(find, "shm") as served:
        uri = str(served.uri)
        # The second one does not check whose server it is.
        uris = (uri, re.sub("&remote_handle=[^&]*", "", uri))
        printed = run_function(client_of_another_user, *uris, check=True, timeout=3 * SECONDS).stdout
        first, second = printed.splitlines()
        assert first.startswith("PermissionError ")
        assert f"{os.geteuid()}" in first or "takes clients of its own user only" in first
        assert second.startswith("PermissionError ")
        assert "takes clients of its own user only" in second
        until(lambda: len(served.errors) == 2, "the server says so")
        for error, words in peers.said(served):
            assert error == "PermissionError"
            assert f"it is of user {NOBODY}" in words


@as_root
@pytest.mark.parametrize("transport", ["shm", "unix"])
def test_a_server_of_another_user_is_believed_nothing_where_memory_is_shared(transport):
    """Whatever way the bodies would come: it is not asked. Bytes are for other users too."""
    with start(server_of_another_user, transport, "@arrowipc-test-of-another-user") as server:
        uri = server.stdout.readline().strip()
        if transport == "unix":
            assert peers.read_from(uri, "n").num_rows == 100_000
        else:
            with pytest.raises(PermissionError, match=f"that is for servers of our own user.*of user {NOBODY}"):
                dissociated.connect(uri, "n", timeout=SECONDS)
        server.stdin.close()
        server.wait(SECONDS)
