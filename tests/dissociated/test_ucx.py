"""Dissociated IPC over UCX, between processes and with every UCX library that is found."""

import importlib.util
import random
import re
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dissociated.ucx_peers import LIBRARIES, Peer, needs_ucx, peer
from dissociated.ucx_roles import PATIENCE
from helpers.processes import rounds

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
every_library = pytest.mark.parametrize("library", LIBRARIES)
#: Where the libraries hardly differ, one of them is enough usually.
some_library = pytest.mark.parametrize(
    "library", [pytest.param(name, marks=pytest.mark.slow if i else ()) for i, name in enumerate(LIBRARIES)]
)


def clients_left(server: Peer, count: int = 0) -> tuple[list[str], int]:
    """Wait until the server has only so many clients; returns its errors and the free bytes of its arena."""
    deadline = time.monotonic() + PATIENCE
    while True:
        server.hear("how")
        clients, errors, free = server.tell()
        if clients <= count:
            return errors, free
        assert time.monotonic() < deadline, "the server does not notice that its clients are gone"
        time.sleep(0.05)


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

    def compiles(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "ours.c").write_text(text)
        command = ["gcc", "-std=gnu11", f"-I{folder}", "-c", str(tmp_path / "ours.c"), "-o", str(tmp_path / "o")]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)

    good = compiles(program)
    assert good.returncode == 0, good.stderr
    wrong_number = compiles(program.replace("UCP_FEATURE_AM == (1 << 6)", "UCP_FEATURE_AM == (1 << 7)"))
    assert "UCP_FEATURE_AM" in wrong_number.stderr
    wrong_place = compiles(program.replace("    int mt_workers_shared;\n", "", 1))
    assert "ucp_params_t" in wrong_place.stderr


def test_functions_are_looked_up_in_the_order_of_their_struct() -> None:
    from arrowipc.dissociated.transports.ucx_worker import FUNCTIONS

    declared = DECLARATIONS.read_text().partition("cdef struct Ucp:")[2].partition("\ncdef ")[0]
    assert re.findall(r"\(\*(\w+)\)\(", declared) == [name.partition("_")[2] for name in FUNCTIONS]


@every_library
def test_loading_the_library_takes_no_signals(library: str) -> None:
    with peer("load", library, TCP) as child:
        before, after, variable, version = child.tell()
        assert before == after
        assert variable is None
        assert tuple(version) >= (1, 13, 0)


def test_without_a_library_the_error_says_what_to_install() -> None:
    with peer("load", next(iter(LIBRARIES)), TCP, at="/nowhere/libucp.so.0") as child:
        words = child.words() if child.process.wait(PATIENCE) else ""
    assert "UnsupportedError: ARROWIPC_UCX_LIBRARY = '/nowhere/libucp.so.0'" in words


@some_library
def test_a_forked_process_is_told_that_it_cannot_use_ucx(library: str) -> None:
    with peer("serve", library, SHARED) as server, peer("fork", library, SHARED, uri=server.tell()[0]) as child:
        connecting, reading, (ended, complete) = child.tell(), child.tell(), child.tell()
        assert "forked" in connecting
        assert "forked" in reading
        assert ended == 0
        assert complete is True


@every_way
def test_d003_d022_d064_streams_are_equal_between_processes(library: str, transports: str, mode: str) -> None:
    """Small and large bodies, empty ones (d040), metadata that comes by rendezvous (d001), and two clients at once."""
    with peer("serve", library, transports, error_mode=mode) as server:
        uri, *pair = server.tell()
        names = ["plain", "empty", "wide", "large"]
        with (
            peer("fetch", library, transports, uri=uri, names=names) as client,
            peer("fetch", library, transports, uri=pair, names=names) as other,
        ):
            for name in names:
                assert client.tell() == other.tell() == [name, True, False]
            assert client.end() == other.end() == 0
        assert clients_left(server) == ([], 0)
        assert server.end() == 0


@some_library
def test_d071_the_body_that_is_expected_is_found_by_the_low_bits_of_its_tag(library: str) -> None:
    with peer("expect", library, TCP) as child:
        assert child.tell() == [3, 1, 2, 4]
        assert child.end() == 0


@pytest.mark.parametrize("size", [1000, 1 << 20])
@some_library
def test_d090_metadata_beyond_the_limit_is_refused(library: str, size: int) -> None:
    """Whether its bytes came along or are still to be fetched."""
    with peer("limit", library, SHARED, size=size) as child:
        found, refused = child.tell()
        assert "Limits.metadata_bytes" in refused
        # The one before may be on its way still when the next is refused.
        assert found in ([5, size], [5])
        assert child.end() == 0


@pytest.mark.parametrize(
    ("end", "memory"), [("kill", 64 << 20), pytest.param("kill", 0, marks=pytest.mark.slow), ("end", 0)]
)
@every_way
def test_d070_d087_a_server_that_ends_ends_the_stream_and_leaves_arrays(
    library: str, transports: str, mode: str, end: str, memory: int
) -> None:
    """In the middle of bodies, where a client may leave, too."""
    with peer("serve", library, transports, error_mode=mode, memory=memory) as server:
        uri, *_ = server.tell()
        with (
            peer("fetch_slowly", library, transports, uri=uri, name="endless") as client,
            peer("fetch_slowly", library, transports, uri=uri, name="endless") as other,
        ):
            client.tell(), other.tell()
            assert other.end() == 0
            assert clients_left(server, 1)[0] == []
            assert getattr(server, end)() in (0, None)
            client.hear("go on")
            how, first_is_there = client.tell()
            assert how in ("TruncatedError", "ConnectionResetError", "BrokenPipeError")
            assert first_is_there is True
            assert client.end() == 0


@some_library
def test_nobody_listening_is_an_oserror(library: str) -> None:
    with peer("fetch", library, TCP, uri="ucx://127.0.0.1:9?want_data=1", names=["plain"]) as client:
        assert client.process.wait(PATIENCE) == 1
        assert "ConnectionRefusedError: connecting to ucx 127.0.0.1:9" in client.words()


@some_library
def test_d087_every_wait_for_a_silent_peer_ends(library: str) -> None:
    with peer("silence", library, TCP) as child:
        (first, left, version), (second, left_again, _) = child.tell(), child.tell()
        assert first == second == ["connecting", "first answer", "metadata", "body"]
        # An older UCX aborts the process that destroys what was not answered in mode "none": that worker stays.
        assert left_again <= left or version < [1, 18]
        assert child.end() == 0


@some_library
def test_a_server_that_drops_the_first_mode_without_a_word_is_tried_in_the_other(library: str) -> None:
    with peer("drop", library, TCP) as child:
        (first, left), (second, left_again) = child.tell(), child.tell()
        assert first == second == ["dropped", "answered"]
        assert left_again <= left
        assert child.end() == 0


@pytest.mark.parametrize("mode", ["peer", "none"])
@some_library
def test_a_server_that_answers_late_serves_a_client_that_tries_both_modes(library: str, mode: str) -> None:
    with peer("serve", library, TCP, error_mode=mode) as server:
        uri, *_ = server.tell()
        server.process.send_signal(signal.SIGSTOP)
        with peer("fetch", library, TCP, uri=uri, names=["plain"]) as client:
            time.sleep(3)  # by then both wait
            server.process.send_signal(signal.SIGCONT)
            assert client.tell() == ["plain", True, False]
            assert client.end() == 0
        assert clients_left(server)[0] == []
        assert server.end() == 0


@pytest.mark.skipif(len(LIBRARIES) < 2, reason="needs UCX of two versions: libucx0 and libucx-cu12")
def test_libraries_of_two_versions_refuse_each_other_with_a_word_about_that() -> None:
    one, other = list(LIBRARIES)[:2]
    with peer("serve", one, SHARED) as server:
        uri, *_ = server.tell()
        with peer("fetch", other, SHARED, uri=uri, names=["plain"]) as client:
            assert client.process.wait(PATIENCE) == 1
            assert "Both ends need the same minor version" in client.words()


@pytest.mark.parametrize("transports", [TCP, SHARED])
@some_library
def test_d048_bodies_are_read_in_the_servers_memory(library: str, transports: str) -> None:
    """Mapped where both share memory, else fetched; all comes back (d074), empty ones are sent (d083)."""
    size = 64 << 20
    with peer("serve", library, transports, memory=size) as server:
        uri, *_ = server.tell()
        assert "free_data=" in uri
        assert "remote_handle=" in uri
        all_free = clients_left(server)[1]
        names = ["plain", "empty", "wide", "large"]
        with peer("fetch", library, transports, uri=uri, names=names) as client:
            for name in names:
                assert client.tell() == [name, True, transports == SHARED and name != "empty"]
            assert client.end() == 0
        errors, free = clients_left(server)
        assert errors == []
        assert free > all_free - 4096  # but for its head
        assert server.end() == 0


@every_library
def test_d086_memory_of_a_killed_client_is_not_used_again(library: str) -> None:
    """Placed, freed and abandoned in any order: no byte that anybody may still read is another one's."""
    with peer("arena", library, SHARED, seed=1) as child:
        was_full, many_left, free_or_retired = child.tell()
        assert was_full
        assert many_left
        assert free_or_retired > (4 << 20) - 4096
        assert child.end() == 0


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("lent", "mode"),
    [(256 << 20, "peer"), *(pytest.param(0, mode, marks=pytest.mark.slow) for mode in ("peer", "none"))],
)
@some_library
def test_d085_d086_killed_clients_leave_nothing_behind(library: str, lent: int, mode: str) -> None:
    """The server goes on, in bounded memory (d088), and no byte of what the others hold changes (d072)."""
    rng = random.Random(85)
    kills = rounds(5, 100)
    held: list[int] = []
    with peer("serve", library, SHARED, memory=lent, error_mode=mode) as server:
        uri, *_ = server.tell()
        with peer("fetch_slowly", library, SHARED, uri=uri, name="endless") as witness:
            witness.tell()
            for number in range(kills):
                with peer("fetch_slowly", library, SHARED, uri=uri, name="endless") as client:
                    client.tell()
                    client.hear("go on")
                    time.sleep(rng.random() / 10)
                    client.kill()
                if number % 5 == 4:
                    clients_left(server, 1)
                    held.append(server.resident())
            witness.hear("go on")
            assert witness.tell() == ["complete", True]
            assert witness.end() == 0
        assert clients_left(server)[0] == []
        with peer("fetch", library, SHARED, uri=uri, names=["plain", "large"]) as client:
            assert [client.tell()[1] for _ in range(2)] == [True, True]
        assert server.end() == 0
    print(f"{kills} clients killed; resident MiB after each 5:", [each >> 20 for each in held])
    assert held[-1] - held[0] < 128 << 20


@pytest.mark.parametrize(
    "where", ["below", "wrapped", *(pytest.param(each, marks=pytest.mark.slow) for each in ("above", "far"))]
)
@some_library
def test_d053_pairs_outside_the_servers_memory_are_refused(library: str, where: str) -> None:
    """UCX computes an address for each of them, and says that it is fine."""
    address = {"below": 64, "above": 1 << 47, "far": 1 << 63, "wrapped": (1 << 64) - 4096}[where]
    pairs = struct.pack("<4Q", 2048, 1, address, 2048).hex()
    with peer("serve", library, SHARED, memory=16 << 20, pairs=pairs) as server:
        uri, *_ = server.tell()
        with peer("fetch", library, SHARED, uri=uri, names=["plain"]) as client:
            assert client.process.wait(PATIENCE) == 1
            assert "FormatError" in client.words()
