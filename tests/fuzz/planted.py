"""Targets with a bug each, which the value of one slot triggers: a fuzzer must find them."""

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass

from helpers import forge

#: The limits of one input: seconds of processor time, more is a hang; growth of the process, more is a bomb.
SECONDS, MEMORY = 0.5, 32 << 20
ROOT = forge.schema(forge.field("x", forge.INT32))
BATCH = forge.batch(2, [(2, 0)], [b"", forge.i32(1, 2)])


@dataclass(frozen=True)
class Planted:
    """Fails if the slot `path` of a RecordBatch message holds a value that `is_bad`."""

    path: str
    is_bad: Callable[[int], bool]
    fail: Callable[[], object]

    def __call__(self, data: bytes) -> None:
        """Look at the slot, as a reader without checks would."""
        try:
            value = forge.read(data, self.path)
        except (LookupError, struct.error, ValueError, OverflowError):
            return
        if self.is_bad(value):
            self.fail()

    @staticmethod
    def seeds() -> list[bytes]:
        return [forge.message(BATCH)]


def hang() -> None:
    while True:
        pass


TARGETS = {
    "index": Planted("header.nodes[0].length", lambda value: value >= 2**31 - 1, lambda: [][1]),
    "crash": Planted("header.buffers[1].length", lambda value: value < 0, lambda: ctypes.string_at(0)),
    "greedy": Planted("header.length", lambda value: value > 2**30, lambda: b"x" * (MEMORY * 2)),
    "hang": Planted("bodyLength", lambda value: value == 0, hang),
    "sound": Planted("header.nodes[0].length", lambda value: False, hang),
}
