"""The sources of a target's input: memory, objects, stores, and connections to a peer that sent it."""

import contextlib
import io
import random
import socket
from collections.abc import Iterator
from typing import Any

from dissociated import peers
from helpers import drive
from helpers.memory import Guarded

from arrowipc import Limits
from arrowipc.dissociated.connection import PeerMemory
from arrowipc.dissociated.transports.sockets import SocketConnection
from fuzz import corpus

#: Limits that are small enough that a hostile claim costs little, and large enough for every seed.
SMALL = {"rows_per_batch": 1 << 20, "decompressed_bytes": 16 << 20, "dictionary_bytes": 16 << 20, "read_ahead": 1 << 20}
FEW = Limits(**SMALL)


def guarded(data: bytes) -> memoryview:
    """Bytes before a page that cannot be read: a step too far ends the process."""
    view = Guarded(len(data)).view
    view[:] = data
    return view.toreadonly()


def source_of(data: bytes, chance: random.Random, seekable: bool = False) -> Any:
    """The bytes as memory at any address or before a page that cannot be read, as an object, or in pieces."""
    match chance.randrange(5 if seekable else 6):
        case 0:
            return memoryview(b"?" * (shift := chance.randrange(8)) + data)[shift:]
        case 1:
            return io.BytesIO(data)
        case 2:
            return guarded(data)
        case 5:
            return drive.ShortReads(data, iter(lambda: chance.choice((1, 7, 64, 5000)), None))
    return data


class Stored:
    """A store of obstore with one object, whose answers may be too short."""

    def __init__(self, data: bytes, chance: random.Random) -> None:
        self._data, self._chance = data, chance

    async def head_async(self, path: str) -> dict[str, Any]:
        return {"size": len(self._data), "e_tag": "1", "last_modified": None, "version": None}

    async def get_ranges_async(self, path: str, *, starts: list[int], ends: list[int]) -> list[bytes]:
        lies = self._chance.random() < 0.01
        return [self._data[start : end - lies] for start, end in zip(starts, ends, strict=True)]


class Inside(PeerMemory):
    """The input itself as the memory of the server."""

    def __init__(self, data: bytes) -> None:
        self.data = guarded(data)

    def message(self, metadata: Any, pairs: Any, returned: Any, limits: Any, reads: Any = None) -> Any:
        memory = self.data
        made = pairs.message(metadata, memory, corpus.BASE, limits)
        for start, end in (reads and reads(made, memory)) or ():
            assert 0 <= start < end <= len(memory)
        returned(pairs.addresses)
        return made


@contextlib.contextmanager
def told(data: bytes) -> Iterator[tuple[socket.socket, SocketConnection]]:
    """A connection to a peer that has sent `data` and will send no more."""
    raw, other = peers.raw_pair()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    with raw, SocketConnection(other, "the peer", FEW) as connection:
        raw.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            raw.send(data)
        raw.shutdown(socket.SHUT_WR)
        yield raw, connection
