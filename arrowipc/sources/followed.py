"""Reading of a stream that grows: messages that are appended to the file at a path, also if the file is replaced."""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress
from typing import Any

from arrowipc._core import aligned_buffer
from arrowipc.decode.framing import checksum_of, message_kind, message_of
from arrowipc.errors import ArrowIpcError, TruncatedError, UsageError
from arrowipc.limits import Limits
from arrowipc.sources.file_objects import read_at
from arrowipc.sources.locks import lock, unlock
from arrowipc.sources.source import CONTINUATION, check_path

#: Seconds between two checks of a file: without inotify, and with it, because on NFS it does not report all changes.
LOOK, LOOK_BESIDE_INOTIFY = 0.05, 1.0
#: How many bytes before the next message must still be as they were read: else the file was written anew.
KEPT = 4096
#: IN_MODIFY | IN_CREATE | IN_MOVED_TO of Linux.
CHANGES = 0x182


class FollowedPath:
    """The messages of the stream at a path, each once it is complete, then those of the file that replaces it.

    A writer that continues a stream may cut off an unfinished message, and write another one there. Therefore a message
    is only read when all its bytes exist, and its head must be the same after the body was read. A message that is
    cut off was never complete.
    """

    def __init__(self, path: str, limits: Limits | None) -> None:
        check_path(path)
        self.path = path
        self.events: Any = None  # inotify's file, readable when the folder has changed; None without inotify
        self._limits = limits or Limits()
        self._file: Any = None
        self._at = 0  # where the next message begins
        self._kept = b""  # the last bytes before it
        self._after = 0, b""  # both, once the message is accepted
        self._prefix, self._is_end = 8, False
        folder = os.path.dirname(os.path.realpath(path))
        self._poll = select.poll()
        self.most: float = LOOK  # longest time for one call of `wait`
        with suppress(ImportError, OSError, AttributeError):
            from ctypes import CDLL

            library = CDLL(None)
            number = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if number >= 0:  # otherwise the user has reached the limit
                self.events = open(number, "rb", buffering=0)  # noqa: SIM115 - close() does
                self._poll.register(number, select.POLLIN)
                if library.inotify_add_watch(number, os.fsencode(folder), CHANGES) >= 0:
                    self.most = LOOK_BESIDE_INOTIFY

    def wait(self, seconds: float) -> None:
        """Wait until something may have changed, no longer than `seconds`."""
        try:
            found = self._poll.poll(1000 * min(seconds, self.most))
        except RuntimeError:  # of Python
            raise UsageError("another thread waits for this reader: one thread at a time may use it") from None
        if found:
            with suppress(ValueError):  # it was closed meanwhile
                self.events.read(1 << 16)

    def seekable(self) -> bool:
        """Return False: batches come in order."""
        return False

    def close(self) -> None:
        """Close the file."""
        for file in (self.events, self._file):
            if file is not None:
                file.close()

    def rest(self) -> int:
        """Return how many bytes of an unfinished message exist."""
        return 0 if self._file is None else max(os.fstat(self._file.fileno()).st_size - self._at, 0)

    def again(self) -> None:
        """Open the path anew: the next message is the first one of the file that is there then."""
        self._file.close()
        self._file = None

    def take(self) -> tuple[memoryview, bool] | None:
        """Return the next message, and whether it is the first one of a file; None if it is not complete yet."""
        while True:
            now = self._there()
            if self._file is None and (now is None or not self._open(now)):
                return None
            mine = os.fstat(self._file.fileno())
            replaced = now is not None and not os.path.samestat(now, mine)
            # Take the lock before the last read: if it is free, the old file's writer has written everything.
            is_left = replaced and lock(self._file.fileno(), 0, shared=True)
            unlock(self._file.fileno())
            kept = os.pread(self._file.fileno(), len(self._kept), self._at - len(self._kept))
            if mine.st_size < self._at or kept != self._kept:  # the file was cut short or written anew
                self._at, self._kept = 0, b""
            block = self._whole_message()
            if block is not None and self._is_end:
                # Look again: the file may have been renamed after the first look, and before its writer ended it.
                now, mine = self._there(), os.fstat(self._file.fileno())
                is_left = now is not None and not os.path.samestat(now, mine)
                if is_left or (now is None and mine.st_nlink):
                    block = None  # the file was renamed: another one replaces it
            if block is not None:
                self._after = self._at + len(block), bytes(block[-KEPT:])
                return block, self._at == 0
            if not is_left:
                return None
            self.again()

    def accept(self) -> None:
        """Go on behind the message that `take` returned; until then, it returns the same one again."""
        self._at, self._kept = self._after

    def _there(self) -> os.stat_result | None:
        """Return the status of the file at the path; None if there is none."""
        try:
            return os.stat(self.path)
        except FileNotFoundError:
            return None

    def _open(self, found: os.stat_result) -> bool:
        if not stat.S_ISREG(found.st_mode):  # opening a pipe could wait
            raise UsageError(f"follow: {self.path!r} is not a regular file")
        with suppress(FileNotFoundError):
            self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - close() does
            self._at, self._kept = 0, b""
        return self._file is not None

    def _whole_message(self) -> memoryview | None:
        number, at = self._file.fileno(), self._at
        head = os.pread(number, 8, at)
        prefix = 8 if head[:4] == CONTINUATION else 4
        size, body = int.from_bytes(head[prefix - 4 : prefix], "little", signed=True), 0
        if len(head) < prefix or (size == 0 and at and prefix < self._prefix):
            return None  # some file systems show zeros where bytes have not arrived yet
        length = prefix + size if 0 < size <= self._limits.metadata_bytes else prefix
        head = os.pread(number, length, at)
        if length > prefix and len(head) == length:
            with suppress(ArrowIpcError):  # the decoder will raise this error
                body = message_kind(head[prefix:], self._limits)[1]
        if os.fstat(number).st_size < at + length + body:
            return None
        start = -length % 64
        block = memoryview(aligned_buffer(start + length + body))[start:]
        with suppress(TruncatedError):
            read_at(self._file, at, block)
            if block[:length] == head == os.pread(number, length, at):
                self._prefix, self._is_end = self._prefix if at else prefix, size == 0
                return self._with_end(block, prefix, length) if b":end" in head else block
        return None

    def _with_end(self, block: memoryview, prefix: int, length: int) -> memoryview | None:
        """Join the message that closes a stream with checksums and the end marker: continuing writers cut off both."""
        message = message_of(block[prefix:length], block[length:], self._limits)
        if (checksum_of(message) or (0, False))[1]:
            end = os.pread(self._file.fileno(), prefix, self._at + len(block))
            self._is_end = len(end) == prefix and not any(end[-4:])
            return memoryview(bytes(block) + end) if self._is_end else None
        return block
