"""Dissociated IPC over UCX, between processes and with every UCX library that is found."""

import contextlib
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from dissociated import peers
from dissociated.lent_memory import PATIENCE, Holder, ends, hears, says, state_of
from dissociated.ucx_libraries import LIBRARIES, needs_ucx, over_ucx, peer
from dissociated.ucx_peers import fetch, fetch_slowly, fork, serve
from helpers.processes import rounds

import arrowipc as ipc
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.dissociated import DissociatedUri, schemes
from arrowipc.dissociated.client import Client
from arrowipc.dissociated.connection import Deadline
from arrowipc.dissociated.link import Link
from arrowipc.dissociated.transports import ucx_library, ucx_worker
from arrowipc.dissociated.transports.ucx import connect_ucx, listen_ucx
from arrowipc.dissociated.transports.ucx_memory import UcxArena

pytestmark = [needs_ucx, pytest.mark.nosanitize]  # UCX brings hooks of its own for the memory functions

TCP, SHARED = "tcp", "tcp,posix,sysv,cma"
DECLARATIONS = Path(__file__).resolve().parents[2] / "arrowipc" / "dissociated/transports/ucx_worker.pxd"

#: Every library, over a network and over shared memory, in both error modes; one library in two ways is enough usually.
WAYS = [
    pytest.param(
        library, transports, mode, id=f"{library}-{transports}-{mode}", marks=pytest.mark.slow if i or is_slow else ()
    )
    for i, library in enumerate(LIBRARIES)
    for transports, mode, is_slow in ((TCP, "peer", 0), (SHARED, "none", 0), (TCP, "none", 1), (SHARED, "peer", 1))
]
every_way = pytest.mark.parametrize(("library", "transports", "mode"), WAYS)
#: Where the libraries hardly differ, one of them is enough usually.
some_library = pytest.mark.parametrize(
    "library", [pytest.param(name, marks=pytest.mark.slow if i else ()) for i, name in enumerate(LIBRARIES)]
)


def tells(child: Popen[str]) -> Any:
    """What a process says next."""
    return json.loads(says(child))


def clients_left(server: Popen[str], count: int = 0) -> tuple[list[str], int]:
    """Wait until the server has only so many clients; returns its errors and the bytes of its arena in use."""

    def asked() -> tuple[list[str], int] | None:
        hears(server, "how")
        clients, errors, used = tells(server)
        return (errors, used) if clients <= count else None

    found: tuple[list[str], int] = peers.until(asked, "the server notices that its clients are gone")
    return found


def resident(child: Popen[str]) -> int:
    """Bytes of memory of a process, without those of files."""
    text = Path(f"/proc/{child.pid}/status").read_text()
    return sum(int(text.split(kind)[1].split()[0]) << 10 for kind in ("RssAnon:", "RssShmem:"))


# -- declarations --------------------------------------------------------------------------------------------


def headers() -> list[str]:
    """Folders with UCX's headers."""
    package = importlib.util.find_spec("libucx")
    folders = [Path(each, "include") for each in (package and package.submodule_search_locations) or ()]
    return [str(each) for each in (Path("/usr/include"), *folders) if (each / "ucp/api/ucp.h").exists()]


def structs(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Names of the declared structs; and their fields as C, each with its name."""
    for name, body in re.findall(r"ctypedef struct (\w+):\n((?:    .*\n)+)", text):
        fields = []
        for line in re.sub(r",\n\s+", ", ", body).splitlines():
            declaration = line.split("#")[0].replace("noexcept nogil", "").strip()
            found = re.search(r"\(\*(\w+)\)", declaration) or re.search(r"(\w+)(?:\[\d+\])?$", declaration)
            assert found, line
            fields.append((declaration, found[1]))
        yield name, fields


def comparison(text: str) -> str:
    """A C program that only compiles if our structs and numbers are those of the headers."""
    lines = [
        "#include <stddef.h>",
        "#include <ucp/api/ucp.h>",
        "typedef signed char Status;",
        '_Static_assert(sizeof(ucs_status_t) == 1, "a status");',
    ]
    ours = {name: f"our_{name}" for name, _ in structs(text)}
    callback = re.search(r"ctypedef (void \(\*send_callback\).*?) noexcept", text)
    assert callback
    lines.append(f"typedef {callback[1]};")
    for name, fields in structs(text):
        body = "".join(
            f"    {re.sub(r'[a-z_]+', lambda m: ours.get(m[0], m[0]), declaration)};\n" for declaration, _ in fields
        )
        lines.append(f"typedef struct {{\n{body}}} {ours[name]};")
        theirs = "struct sockaddr_storage" if name == "sockaddr_storage" else name
        # Later versions add fields at the end: they are told by the mask that ours are not there.
        lines.append(f'_Static_assert(sizeof({ours[name]}) <= sizeof({theirs}), "size of {name}");')
        for _, field in fields if name not in ("sockaddr_storage", "ucs_cpu_set_t") else ():
            lines.append(
                f"_Static_assert(offsetof({ours[name]}, {field}) == offsetof({name}, {field}) && "
                f'sizeof((({ours[name]}*) 0)->{field}) == sizeof((({name}*) 0)->{field}), "{name}.{field}");'
            )
    for name, value in re.findall(r"^    (UC\w+) = (.+)$", text, re.M):
        lines.append(f'_Static_assert((long long) {name} == ({value}), "{name}");')
    return "\n".join([*lines, "int main(void) { return 0; }\n"])


@pytest.mark.parametrize("folder", headers() or [None])
def test_our_declarations_are_those_of_the_headers(folder: str | None, tmp_path: Path) -> None:
    if folder is None or shutil.which("gcc") is None:
        pytest.skip("needs gcc and UCX's headers (libucx-dev or libucx-cu12)")
    program = comparison(DECLARATIONS.read_text())
    assert program.count("_Static_assert") > 130
    (tmp_path / "ours.c").write_text(program)
    command = ["gcc", "-std=gnu11", f"-I{folder}", "-fsyntax-only", tmp_path / "ours.c"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def test_functions_are_looked_up_in_the_order_of_their_struct() -> None:
    declared = DECLARATIONS.read_text().partition("cdef struct Ucp:")[2].partition("\ncdef ")[0]
    assert re.findall(r"\(\*(\w+)\)\(", declared) == [name.partition("_")[2] for name in ucx_worker.FUNCTIONS]


# -- in a process of its own ---------------------------------------------------------------------------------


def loading_the_library_takes_no_signals() -> None:
    def handled() -> str:
        status = Path("/proc/self/status").read_text()
        return next(line for line in status.splitlines() if line.startswith("SigCgt"))

    before = handled()
    assert tuple(ucx_library.load_library()) >= (1, 13, 0)
    assert handled() == before
    assert "UCX_ERROR_SIGNALS" not in os.environ


def without_a_library_the_error_says_what_to_install() -> None:
    os.environ["ARROWIPC_UCX_LIBRARY"] = "/nowhere/libucp.so.0"
    with pytest.raises(ipc.UnsupportedError, match=re.escape("ARROWIPC_UCX_LIBRARY = '/nowhere/")):
        ucx_library.load_library()


def pair(**limits: int) -> tuple[Any, Any]:
    """Return the ends of a connection inside this process: a client's with these limits, and its server's."""
    listener = listen_ucx(("127.0.0.1", 0)).listener
    uri = DissociatedUri.parse(f"ucx://127.0.0.1:{listener.port}?want_data=1")
    with ThreadPoolExecutor(1) as pool:
        connecting = pool.submit(connect_ucx, uri, ipc.Limits(**limits), PATIENCE)
        accepted = None
        while not connecting.done():
            accepted = accepted or listener.accept()
            if accepted is not None:
                accepted.progress()
    assert accepted is not None
    return connecting.result()[0], accepted


def d071_the_body_that_is_expected_is_found_by_the_low_bits_of_its_tag() -> None:
    client, server = pair()
    with client, server:
        for number in (1, 2, 3, 4):
            server.send(0xAB << 56 | 0x123456 << 32 | number, [bytes([number])])
        client.expect(3)
        found: list[int] = []

        def receive(own: Any) -> bool:
            server.progress()
            own.progress()
            while (frame := client.receive()) is not None:
                found.append(frame.tag & 0xFFFFFFFF)
            return len(found) == 4

        for _ in range(100):
            receive(client.worker)  # all of them arrive before one is received
            time.sleep(0.001)
        peers.until(lambda: receive(client), "all are received")
        assert found == [3, 1, 2, 4]


def d090_metadata_beyond_the_limit_is_refused() -> None:
    """Whether its bytes came along or are still to be fetched."""

    def progress(*ends: Any) -> None:
        for each in ends:
            each.progress()

    for size in (1000, 1 << 20):
        client, server = pair(metadata_bytes=size)
        with client, server:
            for length in (5, size, size + 65):
                server.send(None, [bytes(length)])
            with pytest.raises(ipc.LimitError, match=r"Limits.metadata_bytes"):
                peers.until(partial(progress, server, client), "the third is refused")
            found: list[int] = []
            while (frame := client.receive()) is not None:
                found.append(len(frame.data))
            # The one before may be on its way still when the next is refused.
            assert sorted(found) in ([5, size], [5])


def twice(law: Callable[[], None], is_answered: bool) -> None:
    """Nothing of what came and went is left the second time: descriptors, once the goodbyes are said.

    An older UCX aborts the process that destroys what was not answered in mode "none": that worker stays.
    """
    left = []
    for _ in range(2):
        law()
        for each in threading.enumerate():
            if each.name == "arrowipc-hang-up":
                each.join(PATIENCE)
        left.append(len(os.listdir("/proc/self/fd")))
    end = time.monotonic() + 5  # some are closed later, in a thread of UCX 1.13
    while (count := len(os.listdir("/proc/self/fd"))) > left[0] and time.monotonic() < end:
        time.sleep(0.05)
    assert count <= left[0] or (not is_answered and tuple(ucx_library.load_library()) < (1, 18))


def d087_every_wait_for_a_silent_peer_ends() -> None:
    messages = [data for tag, data in peers.dissociated(peers.written(peers.numbers())) if tag is None]

    def wait_for_all() -> None:
        listener = listen_ucx(("127.0.0.1", 0)).listener
        with pytest.raises(TimeoutError):
            schemes.connect(DissociatedUri.parse(f"ucx://127.0.0.1:{listener.port}?want_data=1"), None, 0.5)
        listener.close()
        for said in range(3):  # it is silent before the first answer, the metadata, the body
            client, server = pair()
            for each in messages[:said]:
                server.send(None, [each])
            deadline = Deadline(PATIENCE)
            while server.unsent and deadline.left:
                server.progress()
                client.worker.progress()
            reader = Client(Link(client, client), StreamDecoder())
            with contextlib.closing(reader), pytest.raises(TimeoutError):
                list(reader.begin(0.5))
            server.close()

    twice(wait_for_all, is_answered=False)


def a_server_that_drops_the_first_mode_without_a_word_is_tried_in_the_other() -> None:
    def connect_once() -> None:
        listener = listen_ucx(("127.0.0.1", 0), error_mode="none").listener
        uri = DissociatedUri.parse(f"ucx://127.0.0.1:{listener.port}?want_data=1")
        workers, came = [], []
        with ThreadPoolExecutor(1) as pool:
            connecting = pool.submit(connect_ucx, uri, None, PATIENCE)
            while not connecting.done():
                listener._worker.progress()
                if listener._listener.has_request:
                    workers.append(ucx_worker.Worker(listener.context))
                    try:
                        listener._listener.accept(workers[-1], False)
                        came.append("answered")
                    except OSError:
                        came.append("dropped")
                if came[-1:] == ["answered"]:
                    workers[-1].progress()
        connecting.result()[0].close()
        for worker in workers:
            worker.close()
        listener.close()
        assert came == ["dropped", "answered"]

    twice(connect_once, is_answered=True)


def d086_memory_of_a_killed_client_is_not_used_again() -> None:
    """Placed, freed and abandoned in any order: no byte that anybody may still read is another one's."""
    lent = UcxArena(ucx_library.context(True, False), 4 << 20, 0)
    (segment,) = lent._segments.values()
    holder = Holder(lent, 1, lambda start, size: segment.memory[start - segment.address :][:size])
    for _ in range(600):
        holder.step()
    holder.release_all()
    assert holder.was_full
    assert len(holder.gone) > 3
    assert state_of(lent).used == 0
    assert state_of(lent).retired >= sum(end - start for start, end in holder.gone)


#: What is tried in one process, by a name.
LAWS: dict[str, tuple[Callable[[], None], ...]] = {
    "every library": (
        loading_the_library_takes_no_signals,
        d086_memory_of_a_killed_client_is_not_used_again,
    ),
    "messages": (
        d071_the_body_that_is_expected_is_found_by_the_low_bits_of_its_tag,
        d090_metadata_beyond_the_limit_is_refused,
    ),
    "no library": (without_a_library_the_error_says_what_to_install,),
    "two modes": (a_server_that_drops_the_first_mode_without_a_word_is_tried_in_the_other,),
    # It waits for seconds; tests/peers/test_ucx_cpp.py waits for one such server whenever tests run.
    "silence": (d087_every_wait_for_a_silent_peer_ends,),
}


def hold(group: str) -> None:
    """Try all of a group."""
    for law in LAWS[group]:
        law()


@pytest.mark.parametrize(
    ("group", "library"),
    [
        pytest.param(
            group, library, marks=pytest.mark.slow if group == "silence" or (i and group != "every library") else ()
        )
        for group in LAWS
        for i, library in enumerate(LIBRARIES)
    ],
)
def test_one_process(group: str, library: str) -> None:
    over_ucx(hold, group, library=library, transports=SHARED if group == "every library" else TCP)


# -- between processes ---------------------------------------------------------------------------------------


@some_library
def test_a_forked_process_is_told_that_it_cannot_use_ucx(library: str) -> None:
    with peer(serve, library, SHARED) as server, peer(fork, library, SHARED, tells(server)[0]) as child:
        assert tells(child) == [2, 0, 1]  # attempts of the child that were refused; the batches of its parent


@pytest.mark.parametrize("memory", [pytest.param(0, marks=pytest.mark.slow), 64 << 20])
@every_way
def test_d003_d022_d048_d064_streams_are_equal_between_processes(library, transports, mode, memory) -> None:
    """Small and large bodies, empty ones (d040), metadata that comes by rendezvous (d001), and two clients at once.

    With memory, bodies are mapped where both share it, else fetched; all comes back (d074), small ones are sent (d083).
    """
    names = ["words", "no rows", "wide", "large"]
    with peer(serve, library, transports, mode, memory) as server:
        uri, *uris = tells(server)
        assert ("free_data=" in uri and "remote_handle=" in uri) == bool(memory)
        with (
            peer(fetch, library, transports, uri, *names) as client,
            peer(fetch, library, transports, " ".join(uris), *names) as other,
        ):
            for name in names:
                is_mapped = bool(memory) and transports == SHARED and name in ("wide", "large")
                assert tells(client) == tells(other) == [name, True, is_mapped]
            assert ends(client) == ends(other) == 0
        assert clients_left(server) == ([], 0)
        assert ends(server) == 0


@pytest.mark.parametrize(
    ("end", "memory"),
    [("kill", 64 << 20), *(pytest.param(end, 0, marks=pytest.mark.slow) for end in ("kill", "end"))],
)
@every_way
def test_d070_d087_a_server_that_ends_ends_the_stream_and_leaves_arrays(
    library: str, transports: str, mode: str, end: str, memory: int
) -> None:
    """In the middle of bodies, where a client may leave, too."""
    with peer(serve, library, transports, mode, memory) as server:
        uri, *_ = tells(server)
        with (
            peer(fetch_slowly, library, transports, uri) as client,
            peer(fetch_slowly, library, transports, uri) as other,
        ):
            tells(client), tells(other)
            assert ends(other) == 0
            assert clients_left(server, 1)[0] == []
            if end == "kill":
                server.kill()
            else:
                assert ends(server) == 0
            hears(client, "go on")
            how, first_is_there = tells(client)
            assert how in ("TruncatedError", "ConnectionResetError", "BrokenPipeError")
            assert first_is_there is True
            assert ends(client) == 0


@pytest.mark.parametrize("mode", ["peer", pytest.param("none", marks=pytest.mark.slow)])
@some_library
def test_a_server_that_answers_late_serves_a_client_that_tries_both_modes(library: str, mode: str) -> None:
    with peer(serve, library, TCP, mode) as server:
        uri, *_ = tells(server)
        server.send_signal(signal.SIGSTOP)
        with peer(fetch, library, TCP, uri, "words") as client:
            time.sleep(3)  # by then both wait
            server.send_signal(signal.SIGCONT)
            assert tells(client) == ["words", True, False]
            assert ends(client) == 0
        assert clients_left(server)[0] == []
        assert ends(server) == 0


def refused(library: str, uri: str) -> Any:
    """What a client says that cannot read a stream."""
    with peer(fetch, library, SHARED, uri, "large") as client:
        return tells(client)


@some_library
def test_nobody_listening_is_an_oserror(library: str) -> None:
    said = refused(library, "ucx://127.0.0.1:9?want_data=1")
    assert "ConnectionRefusedError: connecting to ucx 127.0.0.1:9" in said


@pytest.mark.skipif(len(LIBRARIES) < 2, reason="needs UCX of two versions: libucx0 and libucx-cu12")
def test_libraries_of_two_versions_refuse_each_other_with_a_word_about_that() -> None:
    one, other = list(LIBRARIES)[:2]
    with peer(serve, one, SHARED) as server:
        assert "Both ends need the same minor version" in refused(other, tells(server)[0])


@pytest.mark.parametrize(
    "address",
    [(1 << 64) - (9 << 20), *(pytest.param(each, marks=pytest.mark.slow) for each in (64, 1 << 47, 1 << 63))],
)
@some_library
def test_d053_pairs_outside_the_servers_memory_are_refused(library: str, address: int) -> None:
    """UCX computes an address for each of them, and says that it is fine."""
    pairs = struct.pack("<4Q", 8 << 20, 1, address, 8 << 20).hex()
    with peer(serve, library, SHARED, "peer", 16 << 20, pairs) as server:
        said = refused(library, tells(server)[0])
        assert re.match(r"FormatError: .* which do not lie in the memory that its remote_handle opens", said)


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize(("lent", "mode"), [(256 << 20, "peer"), (0, "peer"), (0, "none")])
@some_library
def test_d085_d086_killed_clients_leave_nothing_behind(library: str, lent: int, mode: str) -> None:
    """The server goes on, in bounded memory (d088), and no byte of what the others hold changes (d072)."""
    rng = random.Random(85)
    kills = rounds(5, 100)
    held: list[int] = []
    with peer(serve, library, SHARED, mode, lent) as server:
        uri, *_ = tells(server)
        with peer(fetch_slowly, library, SHARED, uri) as witness:
            tells(witness)
            for number in range(kills):
                with peer(fetch_slowly, library, SHARED, uri) as client:
                    tells(client)
                    hears(client, "go on")
                    time.sleep(rng.random() / 10)
                if number % 5 == 4:
                    clients_left(server, 1)
                    held.append(resident(server))
            hears(witness, "go on")
            assert tells(witness) == ["complete", True]
            assert ends(witness) == 0
        assert clients_left(server)[0] == []
        with peer(fetch, library, SHARED, uri, "words", "large") as client:
            assert [tells(client)[1] for _ in range(2)] == [True, True]
        assert ends(server) == 0
    print(f"{kills} clients killed; resident MiB after each 5:", [each >> 20 for each in held])
    assert held[-1] - held[0] < 128 << 20
