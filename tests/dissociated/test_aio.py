"""The asyncio drivers: the same streams, beside other tasks; cancelled and late reads leave nothing behind.

Numbers in names (`d022`) are those of the conformance checklist.
"""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pyarrow as pa
import pytest
from dissociated import peers

from arrowipc import dissociated
from arrowipc.errors import TruncatedError, UsageError

pytestmark = pytest.mark.usefixtures("nothing_left")

TRANSPORTS = ("tcp", "unix")
SECONDS = peers.SECONDS


def run(main) -> object:
    """Run a coroutine in a loop of its own, which must be done in time and leave no task."""

    async def guarded():
        async with asyncio.timeout(2 * SECONDS):
            result = await main()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        assert not watched(asyncio.get_running_loop()), "descriptors that the loop still watches"
        return result

    return asyncio.run(guarded())


def watched(loop) -> list[int]:
    own = loop._ssock.fileno()
    return [fd for fd in loop._selector.get_map() if fd != own]


def endless():
    number = 0
    while True:
        yield pa.record_batch([pa.array(np.full(1 << 15, number))], ["x"])
        number += 1


class Slow:
    """Gives one batch, and more when it is told to."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def __call__(self):
        yield from peers.numbers().to_batches()
        self.gate.wait(SECONDS)
        yield from peers.numbers().to_batches()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_other_tasks_get_their_turn_beside_a_server_that_is_always_faster(transport):
    async def main():
        async with (
            dissociated.AsyncServer({"t": endless}, transport, max_held=16 << 20) as server,
            await dissociated.connect_async(server.uri, "t", timeout=SECONDS) as reader,
        ):
            turns = 0

            async def other():
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            task = asyncio.create_task(other())
            numbers = [(await anext(reader)).column(0)[3] for _ in range(50)]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert turns >= 40
            return numbers

    assert run(main) == list(range(50))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_read_that_times_out_or_is_cancelled_has_lost_nothing(transport):
    slow = Slow()

    async def main():
        with dissociated.Server({"t": slow}, transport) as server:
            async with await dissociated.connect_async(server.uri, "t", timeout=SECONDS) as reader:
                await reader.read_next_batch()
                reader._timeout = 0.2
                with pytest.raises(TimeoutError, match=r"waited 0.2 s for .* to send message 2"):
                    await reader.read_next_batch()
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await reader.read_next_batch()
                task = asyncio.create_task(reader.read_next_batch())
                await asyncio.sleep(0.05)
                with pytest.raises(UsageError, match="another task reads"):
                    await reader.read_next_batch()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert not watched(asyncio.get_running_loop())
                slow.gate.set()
                reader._timeout = SECONDS
                batches = [batch async for batch in reader]
                with pytest.raises(StopAsyncIteration):
                    await reader.read_next_batch()
                return len(batches)

    assert run(main) == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_that_is_closed_ends_the_task_that_reads(transport):
    slow = Slow()

    async def main():
        with dissociated.Server({"t": slow}, transport) as server:
            reader = await dissociated.connect_async(server.uri, "t", timeout=SECONDS)
            await reader.read_next_batch()
            task = asyncio.create_task(reader.read_next_batch())
            await asyncio.sleep(0.05)
            await reader.close()
            with pytest.raises((UsageError, TruncatedError)):
                await task
            with pytest.raises(UsageError, match="closed"):
                await reader.read_next_batch()
            slow.gate.set()

    run(main)


def test_connecting_that_is_cancelled_leaves_nothing():
    async def main():
        with peers.socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            uri = f"arrowipc+tcp://127.0.0.1:{port}?want_data=1"
            for seconds in (0, 0.001, 0.1):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await dissociated.connect_async(uri, "t")
            with pytest.raises(TimeoutError, match="to send message 0"):
                await dissociated.connect_async(uri, "t", timeout=1)

    run(main)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_server_that_is_closed_truncates_what_is_being_read(transport):
    async def main():
        async with (
            dissociated.AsyncServer({"t": endless}, transport, max_held=16 << 20) as server,
            await dissociated.connect_async(server.uri, "t", timeout=SECONDS) as reader,
        ):
            await reader.read_next_batch()
            await server.close()
            with pytest.raises(TruncatedError, match="the connection was lost before"):
                async for _ in reader:
                    pass
        assert server.num_clients == 0
        with pytest.raises(UsageError, match="runs already"):
            await server.__aenter__()

    run(main)


def test_a_server_that_was_never_entered_can_be_closed():
    async def main():
        server = dissociated.AsyncServer({"t": peers.numbers()}, "tcp")
        await server.close()

    run(main)
