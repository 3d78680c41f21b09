"""Streams that grow: the messages that are appended at a path, also when another file takes its place."""

from __future__ import annotations

import os
import select
import stat
import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from arrowipc._core import aligned_buffer
from arrowipc.arguments import check_choice, described
from arrowipc.errors import ArrowIpcError, FormatError, TruncatedError, UsageError
from arrowipc.limits import Limits
from arrowipc.options import ReadOptions, read_options, with_keywords
from arrowipc.read.framing import message_kind
from arrowipc.read.stream_decoder import StreamDecoder
from arrowipc.reader import RecordBatchStreamReader
from arrowipc.sources.file_objects import read_at
from arrowipc.sources.source import CONTINUATION, locate_source
from arrowipc.tables import difference

if TYPE_CHECKING:
    from typing import Unpack

    from arrowipc.options import ReadKeywords

__all__ = ["FollowingStreamReader"]

#: Seconds between two looks at a file: where nothing tells of changes, and where inotify does (not of all, on NFS).
LOOK, LOOK_BESIDE_INOTIFY = 0.05, 1.0
#: IN_MODIFY | IN_CREATE | IN_MOVED_TO of Linux.
CHANGES = 0x182


class FollowedPath:
    """The messages of the stream at a path, each once it is whole, then those of the file that takes its place.

    A writer that continues a stream may cut off a message that was not finished, and write another one there. So a
    message is read at once, when all of it is there, and its head has to be the same after the body was read: what was
    cut off was never whole.
    """

    def __init__(self, path: str, limits: Limits | None) -> None:
        self.path = path
        self.events: Any = None  # a file that can be read from when something has changed in the folder
        self._limits = limits or Limits()
        self._file: Any = None
        self._at = 0  # where the next message begins
        self._prefix = 8
        folder = os.path.dirname(os.path.realpath(path))
        self._poll = select.poll()
        self.most = LOOK  # seconds to wait at once
        with suppress(ImportError, OSError, AttributeError):
            from ctypes import CDLL

            library = CDLL(None)
            number = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if number >= 0:  # else this user has too many
                self.events = open(number, "rb", buffering=0)  # noqa: SIM115 - close() does
                self._poll.register(number, select.POLLIN)
                if library.inotify_add_watch(number, os.fsencode(folder), CHANGES) >= 0:
                    self.most = LOOK_BESIDE_INOTIFY

    def wait(self, seconds: float) -> None:
        """Wait until something may have changed, no longer than `seconds`."""
        if self._poll.poll(1000 * min(seconds, self.most)):
            with suppress(ValueError):  # it was closed meanwhile
                self.events.read(1 << 16)

    def seekable(self) -> bool:
        """False: batches come in order."""
        return False

    def close(self) -> None:
        """Let go of the file."""
        for file in (self.events, self._file):
            if file is not None:
                file.close()

    def rest(self) -> int:
        """Return how many bytes of an unfinished message are there."""
        return 0 if self._file is None else max(os.fstat(self._file.fileno()).st_size - self._at, 0)

    def take(self) -> tuple[memoryview, bool] | None:
        """Return the next message and whether it is the first one of a file; None: there is none yet."""
        while True:
            now = None
            with suppress(FileNotFoundError):
                now = os.stat(self.path)
            if self._file is None and (now is None or not self._open(now)):
                return None
            mine = os.fstat(self._file.fileno())
            replaced = now is not None and not os.path.samestat(now, mine)
            # Before the last look: what a writer wrote until it went is read.
            is_left = replaced and not _has_writer(self._file.fileno())
            if mine.st_size < self._at:  # cut short and begun again
                self._at = 0
            block = self._whole_message()
            is_end = block is not None and len(block) <= 8 and not any(block[-4:])
            if is_end and (replaced or (now is None and mine.st_nlink)):
                block, is_left = None, replaced  # the file was renamed: another one comes
            if block is not None:
                self._at += len(block)
                return block, self._at == len(block)
            if not is_left:
                return None
            self._file.close()
            self._file = None

    def _open(self, found: os.stat_result) -> bool:
        if not stat.S_ISREG(found.st_mode):  # a pipe could be waited for
            raise UsageError(f"follow: {self.path!r} is not a regular file")
        with suppress(FileNotFoundError):
            self._file, self._at = open(self.path, "rb", buffering=0), 0  # noqa: SIM115 - close() does
        return self._file is not None

    def _whole_message(self) -> memoryview | None:
        number, at = self._file.fileno(), self._at
        head = os.pread(number, 8, at)
        prefix = 8 if head[:4] == CONTINUATION else 4
        size, body = int.from_bytes(head[prefix - 4 : prefix], "little", signed=True), 0
        if len(head) < prefix or (size == 0 and at and prefix < self._prefix):
            return None  # zeros stand where a file system has not got the bytes yet
        length = prefix + size if 0 < size <= self._limits.metadata_bytes else prefix
        head = os.pread(number, length, at)
        if length > prefix and len(head) == length:
            with suppress(ArrowIpcError):  # the decoder will say what is wrong
                body = message_kind(head[prefix:], self._limits)[1]
        if os.fstat(number).st_size < at + length + body:
            return None
        start = -length % 64
        block = memoryview(aligned_buffer(start + length + body))[start:]
        with suppress(TruncatedError):
            read_at(self._file, at, block)
            if block[:length] == head == os.pread(number, length, at):
                self._prefix = self._prefix if at else prefix
                return block
        return None


def _has_writer(descriptor: int) -> bool:
    """Whether a writer of ours has locked a file."""
    from fcntl import LOCK_NB, LOCK_SH, LOCK_UN, flock

    try:
        flock(descriptor, LOCK_SH | LOCK_NB)
        flock(descriptor, LOCK_UN)
    except OSError as error:  # also of file systems without locks
        return isinstance(error, BlockingIOError)
    return False


class FollowingStreamReader(RecordBatchStreamReader):
    """Reads the batches of a stream that grows; made by ``open_stream(path, follow=True)``.

    Attributes
    ----------
    timeout : float or None
        Seconds to wait for the next batch; may be set. Iterating ends after them, and may go on.
    """

    __slots__ = ("_options", "_turn", "following", "timeout")

    @with_keywords(ReadOptions)
    def __init__(
        self,
        source: Any,
        timeout: float | None = None,
        follow: bool = True,
        wait: bool = True,
        **keywords: Unpack[ReadKeywords],
    ) -> None:
        options = read_options(keywords)
        if not check_choice("follow", follow, (False, True)):
            raise UsageError("timeout: nobody waits without follow=True")
        source = locate_source(source)
        if not isinstance(source, (str, os.PathLike)):
            raise UsageError(f"follow: expected the path of a file, found {described(source)}")
        given: Any = timeout
        if given is not None and not (isinstance(given, (int, float)) and given >= 0):
            raise UsageError(f"timeout: expected seconds, from 0, or None, found {described(timeout)}")
        self._closed, self._owned, self._turn, self.timeout = False, True, Lock(), timeout
        self._remember(options, source, timeout)
        self._limits, self._options = options.limits, options.decoding()
        self.decoder = StreamDecoder(**self._options)
        self._file = self._source = self.following = FollowedPath(os.fsdecode(source), options.limits)
        try:
            while wait and not self.decoder.read_schema():
                self._more()
        except BaseException:
            self.close()
            raise

    def poll(self) -> bool:
        """Feed the next message to the decoder; False: there is none now."""
        with self._turn:
            self._check_open()
            found = None if self.decoder.at_end else self.following.take()
            if found is None:
                return False
            old = self.decoder.schema if found[1] else None
            if old is not None:
                self.decoder = StreamDecoder(**self._options)
            self.decoder.feed(found[0])
            if old is not None and self.decoder.read_schema() and not old.equals(self.schema):
                words = difference(old, self.schema)
                raise FormatError(f"another stream took the place of {self.following.path!r}: its schema {words}")
            return True

    def event(self) -> Any:
        """Return the next event of the decoder; None: there is none now."""
        while (event := self.decoder.next_event()) is None and self.poll():
            pass
        return event

    def seconds_left(self, since: float) -> float:
        """Return how much longer to wait for what was waited for `since` then; 0: it will not come, or not in time.

        Raises
        ------
        TruncatedError, FileNotFoundError
            The time is over, and no schema or only a part of a message is there.
        """
        if self.decoder.at_end or self.timeout is None:
            return 0 if self.decoder.at_end else LOOK_BESIDE_INOTIFY
        left = max(since + self.timeout - time.monotonic(), 0)
        if not left and (self.decoder.schema is None or self.following.rest()):
            os.stat(path := self.following.path)
            raise TruncatedError(f"{path!r}: nothing completed its last message for {self.timeout} s")
        return left

    def _more(self) -> bool:
        since = time.monotonic()
        while not self.poll():
            left = self.seconds_left(since)
            if not left:
                return False
            self.following.wait(left)
        return True

    def close(self) -> None:
        """Let go of the file; batches that were read stay valid."""
        with self._turn:
            super().close()
