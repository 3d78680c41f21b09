"""TCP and Unix sockets: arrowipc's own framing of tagged and untagged messages, versioned by a greeting.

The protocol leaves framing to the transport. Both sides begin with the 8 bytes of `HELLO`; then each message
has a header of 24 bytes (little-endian: u8 kind, 0 untagged, 1 tagged; u8 number of file descriptors; six
bytes 0; u64 tag; u64 length), followed by its bytes. File descriptors (Unix sockets) travel with the header.
A header of kind 2 is the last one: its tag is the reason for which the connection ends, its length is 0.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import socket
import stat
import struct
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from arrowipc._core import Descriptor
from arrowipc.dissociated.connection import LONGER, Connection, Deadline, Frame, Listener
from arrowipc.dissociated.memory.receiving import announced
from arrowipc.dissociated.protocol import Reason
from arrowipc.dissociated.transports.message_runs import read_run, write_run
from arrowipc.errors import FormatError, LimitError, showable
from arrowipc.limits import Limits
from arrowipc.sources.locks import locked

if TYPE_CHECKING:
    from arrowipc.decode.framing import Message

#: Magic and version. Another version is another protocol: it is refused, not guessed.
HELLO = b"arwipc" + struct.pack("<H", 1)
HEADER = struct.Struct("<BBHIQQ")
UNTAGGED, TAGGED, REFUSAL = 0, 1, 2

#: Bytes that one read may return: several small messages.
STAGE = 1 << 17
#: Pieces of one sendmsg (IOV_MAX), and file descriptors that wait for their message (SCM_MAX_FD is 253).
MOST_PIECES = 1024
MOST_HANDLES = 16
#: Most bytes of a tagged message from a client: the name of a stream, or addresses that it gives back.
MOST_ASKED = 16 << 20
#: Seconds between attempts to connect to a Unix socket whose queue is full.
RETRY = 0.005
#: Seconds that a server waits for another one that is about to listen in the same folder.
FOLDER_WAIT = 1.0
#: Bytes of a Unix socket's send buffer; the default of 200 KB causes a thread switch every 50 us.
SOCKET_BUFFER = 4 << 20


class SocketConnection(Connection):
    """One end of a socket."""

    def __init__(
        self, sock: socket.socket, name: str, limits: Limits | None = None, longest: int | None = None
    ) -> None:
        super().__init__(name)
        sock.setblocking(False)
        self._socket = sock
        self._process = os.getpid()
        self._limits = limits or Limits()
        #: Most bytes of a message, by its kind.
        self._most = (self._limits.metadata_bytes + 64, (1 << 62) - 1 if longest is None else longest, 0)
        self._passes_handles = sock.family == socket.AF_UNIX
        self._outgoing: deque[tuple[list[memoryview], tuple[int, ...]]] = deque()
        self._unsent = 0
        self._stage = memoryview(bytearray(STAGE))
        self._first = self._last = 0  # the range of unread bytes in the stage
        self._uncut = False  # the stage may contain a complete message
        self._greeted = False
        self._handles: deque[int] = deque()
        self._target: memoryview | None = None  # memory for a message that is longer than the stage
        self._filled = 0
        self._expected: tuple[int | None, tuple[int, ...]] = (None, ())
        self._reason: int | None = None
        self._queue([memoryview(HELLO)], len(HELLO), ())

    # -- sending --

    def send(self, tag: int | None, stretches: Sequence[Any], handles: Sequence[int] = ()) -> None:
        if self._closed:
            raise BrokenPipeError(f"{self.name}: the connection is closed")
        views = [memoryview(each).cast("B") for each in stretches]
        length = sum(map(len, views))
        head = HEADER.pack(UNTAGGED if tag is None else TAGGED, len(handles), 0, 0, tag or 0, length)
        self._queue([memoryview(head), *filter(len, views)], len(head) + length, tuple(handles))
        if not self.corked:
            self._send_some()

    def send_messages(self, number: int, messages: list[Message], role: str = "both") -> None:
        """See `Connection.send_messages`: small stretches are sent together."""
        if self._closed:
            raise BrokenPipeError(f"{self.name}: the connection is closed")
        views = write_run(number, messages, role != "data", role != "meta")
        self._queue(views, sum(map(len, views)), ())
        if not self.corked:
            self._send_some()

    def _queue(self, pieces: list[memoryview], size: int, handles: tuple[int, ...]) -> None:
        if self._outgoing and not handles and not self._outgoing[-1][1]:
            self._outgoing[-1][0].extend(pieces)  # so that one system call sends all of them
        else:
            self._outgoing.append((pieces, handles))
        self._unsent += size

    def uncork(self) -> None:
        self.corked = False
        self._send_some()

    @property
    def unsent(self) -> int:
        """Bytes that wait to be sent."""
        return self._unsent

    @property
    def wants_write(self) -> bool:
        return bool(self._outgoing)

    def push(self) -> None:
        self._send_some()

    def _send_some(self) -> None:
        while self._outgoing and not self._closed:
            pieces, handles = self._outgoing[0]
            try:
                if handles:
                    rights = array.array("i", handles)
                    sent = self._socket.sendmsg(pieces[:MOST_PIECES], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
                else:
                    sent = self._socket.sendmsg(pieces[:MOST_PIECES])
            except BlockingIOError:
                return
            except OSError:
                self._outgoing.clear()
                self._unsent = 0
                raise
            self._unsent -= sent
            done = 0
            while done < len(pieces) and sent >= len(pieces[done]):
                sent -= len(pieces[done])
                done += 1
            del pieces[:done]
            if sent:
                pieces[0] = pieces[0][sent:]
            self._outgoing[0] = (pieces, ())
            if not pieces:
                self._outgoing.popleft()

    # -- receiving --

    def progress(self) -> None:
        if self._closed:
            return
        # If the peer is gone, its last messages must still be read; the next `send` raises the error.
        with contextlib.suppress(ConnectionError):
            self._send_some()
        while not self._inbox:
            if self._uncut:
                self._uncut = self._cut() and self._first != self._last
            elif self._ended or not self._receive_some():
                return

    def receive(self) -> Frame | None:
        while self._uncut and not self._inbox:
            self._uncut = self._cut() and self._first != self._last
        return self._inbox.popleft() if self._inbox else None

    def receive_run(self, number: int) -> list[Message]:
        if self._inbox or not self._uncut or not self._greeted:
            return []
        messages, self._first = read_run(self._stage, self._first, self._last, number, self._limits)
        return messages

    @property
    def at_end(self) -> bool:
        return (self._ended or self._closed) and not self._inbox and not self._uncut

    def _receive_some(self) -> bool:
        """Read once; return False if nothing has arrived."""
        try:
            if self._target is not None:
                count = self._read(self._target[self._filled :])
            else:
                if self._first:
                    self._stage[: self._last - self._first] = self._stage[self._first : self._last]
                    self._first, self._last = 0, self._last - self._first
                count = self._read(self._stage[self._last :])
        except BlockingIOError:
            return False
        except ConnectionResetError:
            count = 0
        if count == 0:
            self._ended = True
            if self._target is not None or self._first != self._last:
                self._drop()
                raise ConnectionResetError(f"{self.name} is gone in the middle of a message")
            return True
        self._count_arrived(count)
        if self._target is not None:
            self._filled += count
            if self._filled == len(self._target):
                tag, handles = self._expected
                self._inbox.append(Frame(tag, self._target, handles))
                self._target = None
        else:
            self._last += count
            self._uncut = True
        return True

    def _read(self, out: memoryview) -> int:
        if not self._passes_handles:
            return self._socket.recv_into(out)
        room = socket.CMSG_SPACE(4 * MOST_HANDLES)
        count, extra, flags, _ = self._socket.recvmsg_into([out], room, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        for level, kind, data in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(data[: len(data) - len(data) % received.itemsize])
                self._handles.extend(received)
        # The kernel drops descriptors for which there is no room; the others must not pile up without a message.
        if flags & socket.MSG_CTRUNC or len(self._handles) > MOST_HANDLES:
            raise FormatError(f"{self.name} sent more file descriptors than the {MOST_HANDLES} that a message may have")
        return count

    def _cut(self) -> bool:
        """Take a message, or the beginning of a long one, out of the stage; return False if more data is needed."""
        held = self._last - self._first
        if not self._greeted:
            if held < len(HELLO):
                return False
            hello = bytes(self._stage[self._first : self._first + len(HELLO)])
            if hello != HELLO:
                raise FormatError(
                    f"{self.name} does not speak this version of our framing: expected {HELLO!r}, found {hello!r}"
                )
            self._greeted = True
            self._first += len(HELLO)
            return True
        if held < HEADER.size:
            return False
        kind, n_handles, zero, more_zeros, tag, length = HEADER.unpack_from(self._stage, self._first)
        self._check_header(kind, n_handles, zero or more_zeros, tag, length)
        start = self._first + HEADER.size
        if kind == REFUSAL:  # anything after it is ignored
            self._reason, self._ended = tag, True
            self._first = self._last = 0
            return False
        here = min(length, self._last - start)
        if here < length <= STAGE - HEADER.size:
            return False
        # Allocate first: if that fails, the handles are still in `_handles`, and closed in the end.
        data: Any = bytes(self._stage[start : start + here]) if kind == UNTAGGED and here == length else None
        if data is None:
            data = announced(self.name, length, self._limits)  # bodies have to be aligned
            data[:here] = self._stage[start : start + here]
        handles = tuple(self._handles.popleft() for _ in range(n_handles)) if n_handles else ()
        self._first = start + here
        self._expected = tag if kind == TAGGED else None, handles
        if here == length:
            self._inbox.append(Frame(self._expected[0], data, handles))
        else:
            self._target, self._filled = data, here
        return True

    def _check_header(self, kind: int, n_handles: int, reserved: int, tag: int, length: int) -> None:
        if kind > REFUSAL or reserved or (kind == UNTAGGED and tag) or (kind == REFUSAL and (length or not tag)):
            raise FormatError(
                f"{self.name} sent a header that is none of ours: expected kind 0 or 1, zeros, and no tag "
                f"with kind 0, or kind 2 with a reason alone, found kind {kind}, {reserved}, tag {tag:#x}"
            )
        if kind == UNTAGGED and length > self._most[kind]:
            raise LimitError(
                f"{self.name} announces {length:,} bytes of metadata, more than Limits.metadata_bytes = "
                f"{self._limits.metadata_bytes:,}"
            )
        if length > self._most[kind]:
            raise LimitError(
                f"{self.name} announces a tagged message of {length:,} bytes, and at most "
                f"{self._most[kind]:,} are taken"
            )
        if n_handles > len(self._handles):
            raise FormatError(f"{self.name} announces {n_handles} file descriptors, and {len(self._handles)} came")

    # -- the end --

    @property
    def reason(self) -> int | None:
        return self._reason

    def refuse(self, reason: int) -> None:
        if not self._closed:
            self._queue([memoryview(HEADER.pack(REFUSAL, 0, 0, 0, reason, 0))], HEADER.size, ())
            with contextlib.suppress(OSError):
                self._send_some()

    @property
    def arriving(self) -> int:
        return self._last - self._first if self._target is None else len(self._target)

    def interrupt(self) -> None:
        """See `Connection.interrupt`: nothing more is received; the waiting thread sees the end of the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)

    def fileno(self) -> int:
        return self._socket.fileno()

    def prepare_wait(self) -> bool:
        return not (self._inbox or self._uncut or self._ended or self._closed)

    def peer_user(self) -> int | None:
        """Return the user id of the process at the other end of a Unix socket; None if unknown."""
        if not self._passes_handles or not hasattr(socket, "SO_PEERCRED"):
            return None
        credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[1])

    def _drop(self) -> None:
        """Close the file descriptors of messages that are not complete."""
        while self._handles:
            os.close(self._handles.popleft())
        for handle in self._expected[1] if self._target is not None else ():
            os.close(handle)
        self._target = None

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._outgoing.clear()
            self._unsent = 0
            self._drop()
            for frame in self._inbox:
                for handle in frame.handles:
                    os.close(handle)
            self._inbox.clear()
            # Closing alone would not wake a thread that waits on the descriptor. A forked child must not shut down
            # the connection that its parent still uses.
            if self._process == os.getpid():
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()


class SocketListener(Listener):
    """A listening socket."""

    def __init__(
        self,
        sock: socket.socket,
        name: str,
        limits: Limits | None = None,
        *,
        same_user: bool = False,
        remove: str | None = None,
    ) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._name = name
        self._limits = limits
        self._same_user = same_user
        # Registered before the path is bound, so that an interrupt in between leaves no file behind.
        self._end = weakref.finalize(self, _end_listening, sock, remove, os.getpid())

    def accept(self) -> SocketConnection | None:
        try:
            sock, address = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        try:
            tune(sock)
        except OSError:  # the client is gone already
            sock.close()
            return None
        name = f"the client {place(*address[:2])}" if address else f"a client of {self._name}"
        client = SocketConnection(sock, name, self._limits, MOST_ASKED)
        user = client.peer_user() if self._same_user else None
        if self._same_user and user != os.geteuid():
            whose = "an unknown user" if user is None else f"user {user}"
            client.refuse(Reason.OTHER_USER)
            client.close()
            raise PermissionError(
                f"{name} was sent away: it is of {whose}, and this server, which shares memory, "
                f"takes clients of its own user only, {os.geteuid()}"
            )
        return client

    @property
    def port(self) -> int:
        """The port of a TCP socket."""
        return int(self._socket.getsockname()[1])

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._end()


def _end_listening(sock: socket.socket, path: str | None, process: int) -> None:
    # Remove the path only if this socket is bound to it, and only in the process that bound it, not in a forked child.
    if path is not None and process == os.getpid() and sock.getsockname() == path:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    sock.close()


def place(host: str, port: int) -> str:
    """Return host and port in the form of URIs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def tune(sock: socket.socket) -> None:
    """Set a large send buffer for Unix sockets; for TCP, send at once, and detect dead hosts.

    Until a dead host is detected, it holds its leases.
    """
    if sock.family == socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
    else:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def connect_tcp(host: str, port: int, limits: Limits | None = None, timeout: float | None = None) -> SocketConnection:
    """Connect to a TCP server."""
    with _saying(f"connecting to tcp {place(host, port)}"):
        sock = socket.create_connection((host, port), timeout)
    try:
        tune(sock)
    except BaseException:
        sock.close()
        raise
    return SocketConnection(sock, f"tcp {place(host, port)}", limits)


def listen_tcp(host: str, port: int, limits: Limits | None = None) -> SocketListener:
    """Listen on a TCP port; 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with _saying(f"listening on tcp {place(host, port)}"):
        sock = socket.create_server((host, port), family=family)
    return SocketListener(sock, f"tcp {host}", limits)


def unix_address(path: str) -> str:
    """Return the address of a path; one that begins with @ is abstract: without a file, on Linux only."""
    return "\0" + path[1:] if path.startswith("@") else path


def connect_unix(path: str, limits: Limits | None = None, timeout: float | None = None) -> SocketConnection:
    """Connect to a Unix socket."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        deadline = Deadline(timeout)
        with _saying(f"connecting to unix {path}"):
            while not _connected(sock, unix_address(path)):
                deadline.check(f"unix {path} to take another client")
                time.sleep(RETRY)
        tune(sock)
    except BaseException:
        sock.close()
        raise
    return SocketConnection(sock, f"unix {path}", limits)


def _connected(sock: socket.socket, address: str) -> bool:
    """Connect; return False if the server's queue is full, which a socket with a timeout reports without waiting."""
    try:
        sock.connect(address)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _saying(what: str) -> Iterator[None]:
    """Add to an OSError what was tried: errors of sockets do not even name the address."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: not a possible host or path
        if isinstance(error, TimeoutError) and error.errno is None:
            raise TimeoutError(f"{what}: {error}{LONGER}") from None
        if not isinstance(error, OSError) or error.errno is None:
            raise OSError(showable(f"{what}: {error}")) from None
        raise type(error)(error.errno, showable(f"{what}: {error.strerror or error}")) from None


def listen_unix(path: str, limits: Limits | None = None, *, same_user: bool = False) -> SocketListener:
    """Listen on a Unix socket at `path`; there may be no file there but the socket of a server that is gone."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    remove = None if path.startswith("@") else path
    listener = SocketListener(sock, f"unix {path}", limits, same_user=same_user, remove=remove)
    try:
        with _saying(f"listening on unix {path}"):
            if path.startswith("@"):
                sock.bind(unix_address(path))
                sock.listen(64)
            else:
                with _alone_in(os.path.dirname(path)):
                    _bind_path(sock, path)
                    sock.listen(64)
    except BaseException:
        listener.close()
        raise
    return listener


@contextlib.contextmanager
def _alone_in(folder: str) -> Iterator[None]:
    """Keep other servers from binding in a folder: between bind and listen, a socket looks like a left-over one."""
    try:
        directory = Descriptor(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield  # an unreadable folder: bind will raise an error if necessary
        return
    with directory, locked(directory.fileno(), FOLDER_WAIT):  # a server holds the lock for a shorter time
        yield


def _bind_path(sock: socket.socket, path: str) -> None:
    """Bind to a path; a socket that a killed server left there is removed if nobody answers."""
    try:
        sock.bind(path)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or not _is_left_over(path):
            raise
        os.unlink(path)
        sock.bind(path)


def _is_left_over(path: str) -> bool:
    """Whether a path is a socket without a listener."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            probe.connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:  # its queue is full, or this user may not connect
        return False
    return False
