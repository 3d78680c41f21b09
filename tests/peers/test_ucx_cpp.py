"""A C++ peer over UCX, which knows the protocol's text alone, reads our streams, and we read its own.

Where there is no libucx: on Debian `apt install libucx-dev g++`; elsewhere ``CPATH``, ``LIBRARY_PATH`` and
``LD_LIBRARY_PATH`` say where it lies, or `pip install libucx-cu12`.
"""

import contextlib
import importlib.util
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.cpp_client import LENGTHS, NO_BODY, decoded
from dissociated.lent_memory import PATIENCE
from dissociated.ucx_libraries import LIBRARIES, needs_ucx

from arrowipc import dissociated
from arrowipc.dissociated.served import messages_of
from arrowipc.dissociated.uri import new_tag

pytestmark = [needs_ucx, pytest.mark.nosanitize]

SOURCE = Path(__file__).parents[1] / "helpers" / "cpp" / "ucx_peer.cpp"


SHAPES = peers.shapes()
#: One is enough usually.
each_shape = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if i else ()) for i, name in enumerate(SHAPES)]
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The peer, built against the UCX that our own side loads: the system's where there is one, else the package's."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    package = importlib.util.find_spec("libucx")
    folders = [Path(each) for each in (package and package.submodule_search_locations) or ()]
    found_in = [[f"-I{each}/include", f"-L{each}/lib", f"-Wl,-rpath,{each}/lib"] for each in folders]
    for where in [[]] if "system" in LIBRARIES else found_in:
        found = tmp_path_factory.mktemp("peer") / "ucx_peer"
        command = [compiler, "-std=c++17", *where, str(SOURCE), "-lucp", "-lucs", "-Wl,--allow-shlib-undefined"]
        if subprocess.run([*command, "-o", str(found)], capture_output=True, timeout=300).returncode == 0:
            return found
    pytest.skip("needs the headers of the UCX that is loaded: libucx-dev beside libucx0, or libucx-cu12 without that")


@pytest.fixture(params=["tcp", "tcp,posix,sysv,cma"])
def lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("UCX_TLS", request.param)
    return request.param


@each_shape
def test_d093_the_peer_reads_what_we_serve(program, lanes, name):
    with dissociated.Server({name: SHAPES[name]}, "ucx", transport_options={"error_mode": "none"}) as server:
        metadata, data = server.uris
        command = [program, "client", "127.0.0.1", metadata.port, metadata.want_data, data.want_data, name]
        done = subprocess.run(list(map(str, command)), capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr.decode()
    assert pa.table(decoded(done.stdout)).equals(SHAPES[name])


def reported(*words: Any) -> str:
    """The report of the conformance check; all items that the text asks for are met."""
    command = [sys.executable, "-m", "arrowipc.dissociated.conformance", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def serving(program: Path, name: str, clients: int) -> Iterator[list[str]]:
    """The URIs of the peer as a server."""
    stream = b""
    for message in messages_of(SHAPES[name]):
        has_body = message.kind != "Schema"
        stream += LENGTHS.pack(len(message.metadata), message.body_length if has_body else NO_BODY)
        stream += bytes(message.metadata) + bytes(message.body)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    metadata, data = new_tag(), new_tag()
    command = list(map(str, [program, "server", port, metadata, data, clients]))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            process.stdin.write(stream)
            process.stdin.close()
            assert process.stdout.readline() == b"ready\n"
            yield [f"ucx://127.0.0.1:{port}?want_data={tag}" for tag in (metadata, data)]
            assert clients > 2 or process.wait(PATIENCE) == 0
        finally:
            process.kill()


@pytest.mark.slow
def test_the_peer_passes_the_conformance_check_as_a_server(program, monkeypatch):
    monkeypatch.setenv("UCX_TLS", "tcp")
    with serving(program, "numbers", 1000) as uris:
        report = reported("server", *uris)
    assert "note 21 L" in report  # it serves the stream under any name
    assert report.count("\nok ") > 20


@pytest.mark.slow
def test_the_peer_passes_the_conformance_check_as_a_client(program, monkeypatch):
    monkeypatch.setenv("UCX_TLS", "tcp")
    script = Path(__file__).parents[1] / "dissociated" / "cpp_client.py"
    client = f"{sys.executable} {script} {program} {{ident}} {{metadata}} {{data}}"
    report = reported("client", "ucx://127.0.0.1:0", client, "--timeout", PATIENCE, "--only", "18-29,32-36,40,56-69")
    assert report.count("\nok ") > 15


@each_shape
def test_d094_we_read_what_the_peer_serves(program, lanes, name):
    with (
        serving(program, name, 2) as uris,
        dissociated.connect(uris, name, timeout=PATIENCE, validate="strict") as reader,
    ):
        assert pa.table(reader.read_all()).equals(SHAPES[name])
