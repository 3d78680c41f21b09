"""Runs of small messages over sockets; see ``dissociated/transports/message_runs.pyx``."""

from arrowipc._core import ReadableBuffer
from arrowipc.decode.framing import Message
from arrowipc.limits import Limits

def read_run(
    stage: ReadableBuffer, start: int, end: int, number: int, limits: Limits | None = None
) -> tuple[list[Message], int]: ...
def write_run(number: int, messages: list[Message], metadata: bool = True, bodies: bool = True) -> list[memoryview]: ...
