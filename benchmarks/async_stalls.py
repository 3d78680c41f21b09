"""For how long does an event loop stand still while 100 clients send 10 MB each? Not compared with peers: a figure.

Another process sends streams of one batch (int64 and text) over as many TCP connections, all at once. The loop's own
latency is measured beside, by a task that sleeps for a millisecond and notes by how much it came late. A stall that
takes long is noted once, as a short one is: so "p99 of time" counts each by its length, as a request would meet it
that comes at any moment. "work" is what the loop's thread itself did between two of these: on a machine with other
things to do, the rest is waiting for a core. Ways of reading:

* nothing: the bytes are read and forgotten, which is what asyncio itself costs;
* aio: ``arrowipc.aio.open_stream``;
* inline: a ``StreamDecoder`` that is fed in the loop's thread;
* whole: all bytes are joined, then ``arrowipc.open_stream`` reads them, in the loop's thread.

Run ``python -m benchmarks.async_stalls [clients] [megabytes] [codec]``.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable

import numpy as np

import arrowipc
from arrowipc import aio


def body(megabytes: int, codec: str | None) -> bytes:
    """One stream of one batch of about that size."""
    rows = megabytes * 1_000_000 // 25
    chance = np.random.default_rng(1)
    words = np.array([f"wörd {i:07}" for i in range(1000)])[chance.integers(0, 1000, rows)]
    sink = bytearray()
    with arrowipc.new_stream(sink, compression=codec) as writer:  # type: ignore[arg-type]
        writer.write({"id": chance.integers(0, 1 << 40, rows), "word": words.tolist()})
    return bytes(sink)


def serve(clients: int, megabytes: int, codec: str | None) -> None:
    """Send the stream to `clients` connections at a time, for ever."""
    data = body(megabytes, codec)
    with socket.create_server(("127.0.0.1", 0), backlog=clients) as listener:
        print(listener.getsockname()[1], len(data), flush=True)
        asked = threading.Barrier(clients)

        def send() -> None:
            while True:
                connection, _ = listener.accept()
                with connection:
                    asked.wait()
                    connection.sendall(data)

        for _ in range(clients):
            threading.Thread(target=send, daemon=True).start()
        sys.stdin.read()


async def nothing(source: asyncio.StreamReader) -> int:
    size = 0
    while data := await source.read(1 << 18):
        size += len(data)
    return size


async def through_aio(source: asyncio.StreamReader) -> int:
    return sum([batch.num_rows async for batch in aio.open_stream(source)])


async def inline(source: asyncio.StreamReader) -> int:
    decoder, rows = arrowipc.StreamDecoder(), 0
    while True:
        while (batch := decoder.next_batch()) is not None:
            rows += batch.num_rows
        if not decoder.bytes_needed:
            return rows
        decoder.feed(await source.read(1 << 18))


async def whole(source: asyncio.StreamReader) -> int:
    return sum(batch.num_rows for batch in arrowipc.open_stream(await source.read()))


async def watch(late: list[tuple[float, float]]) -> None:
    """Note by how much a task that sleeps comes late."""
    loop = asyncio.get_running_loop()
    while True:
        due, before = loop.time() + 0.001, time.thread_time()
        await asyncio.sleep(0.001)
        late.append((max(loop.time() - due, 0), time.thread_time() - before))


async def measure(
    port: int, clients: int, read: Callable[[asyncio.StreamReader], Awaitable[int]]
) -> tuple[list[tuple[float, float]], float]:
    """Seconds of each lateness and of the loop's thread, and those of all."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(clients)]
    late: list[tuple[float, float]] = []
    watching = asyncio.create_task(watch(late))
    start = time.perf_counter()
    found = await asyncio.gather(*[read(source) for source, _ in opened])
    took = time.perf_counter() - start
    watching.cancel()
    for _, sink in opened:
        sink.close()
    assert len(set(found)) == 1
    assert found[0]
    return late, took


def main() -> None:
    clients, megabytes = (int(each) for each in (*sys.argv[1:3], *("100", "10")[len(sys.argv[1:3]) :]))
    codec = sys.argv[3] if len(sys.argv) > 3 else None
    code = f"from benchmarks import async_stalls; async_stalls.serve({clients}, {megabytes}, {codec!r})"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port, size = map(int, server.stdout.readline().split())
        print(f"{clients} clients, {size / 1e6:.1f} MB each{'' if codec is None else f' ({codec})'}; milliseconds late")
        print(
            f"{'':8} {'p50':>7} {'p99':>7} {'p99 of time':>12} {'most':>7} {'p99 work':>9} {'seconds':>8} {'GB/s':>6}"
        )
        for read in (nothing, through_aio, inline, whole, nothing, through_aio):
            late, took = asyncio.run(measure(port, clients, read))
            each, worked = np.array(late).T * 1000
            by_time = np.repeat(each, (each * 100 + 1).astype(int))
            figures = [*np.percentile(each, [50, 99]), np.percentile(by_time, 99), each.max()]
            row = "".join(f"{figure:{width}.2f}" for figure, width in zip(figures, (7, 8, 13, 8), strict=True))
            row += f" {np.percentile(worked, 99):9.2f} {took:8.2f} {clients * size / took / 1e9:6.2f}"
            print(f"{read.__name__.removeprefix('through_'):8} {row}")
        server.stdin.close()
        server.kill()


if __name__ == "__main__":
    main()
