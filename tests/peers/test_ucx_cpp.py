"""A C++ peer over UCX, which knows the protocol's text alone, reads our streams, and we read its own.

Where there is no libucx: on Debian `apt install libucx-dev g++`; elsewhere ``CPATH``, ``LIBRARY_PATH`` and
``LD_LIBRARY_PATH`` say where it lies, or `pip install libucx-cu12`.
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from dissociated.ucx_peers import LIBRARIES, PATIENCE

import arrowipc as ipc
from arrowipc import dissociated
from arrowipc.dissociated.served import messages_of
from arrowipc.dissociated.uri import new_tag
from arrowipc.read.framing import message_of
from arrowipc.read.stream_decoder import StreamDecoder

pytestmark = [
    pytest.mark.nosanitize,
    pytest.mark.skipif(not LIBRARIES, reason="no libucp.so.0: install libucx0 or libucx-cu12"),
]

SOURCE = Path(__file__).parents[1] / "helpers" / "cpp" / "ucx_peer.cpp"
LENGTHS = struct.Struct("<QQ")
NO_BODY = 2**64 - 1


def table() -> pa.Table:
    chance = np.random.default_rng(4)
    columns = {
        "x": pa.array(np.arange(60_000)),
        "y": pa.array(chance.random(60_000), mask=chance.random(60_000) < 0.2),
        "word": pa.array(chance.choice(["a", "bc", "def"], 60_000)).dictionary_encode(),
        "text": pa.array([str(n) * (n % 5) for n in range(60_000)]),
    }
    return pa.table(columns)


SOURCES = {
    "batches": lambda: pa.Table.from_batches(table().to_batches(max_chunksize=7000)),
    "one row": lambda: table().slice(0, 1),
    "no rows": lambda: table().slice(0, 0).combine_chunks(),
    "no bytes": lambda: pa.Table.from_batches([pa.record_batch({"n": pa.nulls(5)})] * 3),
    "wide": lambda: pa.table({f"a column with a name of some length, {n}": [n] for n in range(3000)}),
    "large": lambda: pa.table({"x": np.arange(3_000_000)}),
}
#: One is enough usually.
each_source = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if i else ()) for i, name in enumerate(SOURCES)]
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


def parts_of(data: bytes) -> Iterator[ipc.Message]:
    at = 0
    while at < len(data):
        head, body = LENGTHS.unpack_from(data, at)
        at += LENGTHS.size
        rest = None if body == NO_BODY else data[at + head : at + head + body]
        yield message_of(data[at : at + head], rest)
        at += head + len(rest or b"")


@each_source
def test_d093_the_peer_reads_what_we_serve(program, lanes, name):
    source = SOURCES[name]()
    with dissociated.Server({name: source}, "ucx", transport_options={"error_mode": "none"}) as server:
        metadata, data = server.uris
        command = [program, "client", "127.0.0.1", metadata.port, metadata.want_data, data.want_data, name]
        done = subprocess.run(list(map(str, command)), capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr.decode()
    decoder, batches = StreamDecoder(None, "strict"), []
    for message in parts_of(done.stdout):
        event = decoder.decode_next(message)
        batches += [event.batch] if hasattr(event, "batch") else []
    found = pa.table(ipc.Table(decoder.schema, batches))
    assert found.equals(source)


@each_source
def test_d094_we_read_what_the_peer_serves(program, lanes, name):
    source = SOURCES[name]()
    stream = b""
    for message in messages_of(source):
        has_body = message.kind != "Schema"
        stream += LENGTHS.pack(len(message.metadata), message.body_length if has_body else NO_BODY)
        stream += bytes(message.metadata) + bytes(message.body)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    metadata, data = new_tag(), new_tag()
    command = list(map(str, [program, "server", port, metadata, data]))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            process.stdin.write(stream)
            process.stdin.close()
            assert process.stdout.readline() == b"ready\n"
            uris = [f"ucx://127.0.0.1:{port}?want_data={tag}" for tag in (metadata, data)]
            with dissociated.connect(uris, name, timeout=PATIENCE, validate="strict") as reader:
                assert pa.table(reader.read_all()).equals(source)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
