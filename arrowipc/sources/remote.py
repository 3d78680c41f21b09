"""Files at URLs: their ends, and the ranges that a reader needs, are fetched with few requests.

Generators (`Steps`) decide what to request; they do no I/O, but yield calls and are sent the answers. `run` makes
these calls one after another, `arrowipc.aio` awaits them.
"""

from __future__ import annotations

import errno
import io
import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from functools import partial
from itertools import islice

from arrowipc._core import copy_into, merge_ranges
from arrowipc.arguments import (
    Initialized,
    check_integer,
    check_text,
    described,
    instance_of,
    integer_of,
    items_of,
)
from arrowipc.errors import ArrowIpcError, UsageError, missing_package, showable
from arrowipc.sources.file_objects import (
    FileObjectError,
    Remote,
    end_of,
    file_path,
    replaced,
    room_for,
    take,
    version_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from typing import Any, TypeAlias, TypeVar

    from arrowipc._core import Memory
    from arrowipc.decode.file_decoder import BlockDecoder
    from arrowipc.sources.http import HttpFile

    Range = tuple[int, int]
    Result = TypeVar("Result")
    #: Yields calls: a method's name (of `RemoteSource.system`) or a function, and what to call it with.
    Steps: TypeAlias = Generator[tuple[Any, ...], Any, Result]

#: Ranges that are closer than this are fetched as one: a request takes some 20 to 50 ms, in which about so many bytes
#: arrive at 20 to 50 MB/s.
GAP = 1 << 20
#: Bytes fetched from the end at first: they contain most footers, even of a thousand nested columns, and small files.
TAIL = 1 << 17
#: Bytes fetched ahead of a reader that reads batches in order: a few GAPs, so that the time of a request matters
#: little, but few compared with the memory that a task may use.
WINDOW = 8 << 20
#: Batches whose metadata is fetched with one request.
HEADS = 64
#: Largest numbers of batches considered for one window, and of its ranges.
BATCHES = 1024
RANGES = 512
#: Seconds in which a server has to send data.
TIMEOUT = 30.0
#: Bytes of one read of a stream; each read switches to fsspec's thread and back.
STREAM_BUFFER = 1 << 20


def find_system(url: str, storage_options: Mapping[str, Any] | None = None) -> tuple[Any, str]:
    """Return fsspec's file system for a URL, and the path in it; a UsageError if it is unknown or not installed."""
    local = file_path(url)
    try:
        import fsspec
    except ImportError:
        raise missing_package(f"{url!r} is a URL, and", "fsspec") from None
    try:
        system, path = fsspec.core.url_to_fs(url, **(storage_options or {}))
    except ImportError as error:
        raise UsageError(f"{url}: {error}") from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"{url}: not a URL that fsspec knows: {_hidden(str(error), storage_options)}") from None
    except Exception as error:  # some file systems log in here
        raise io_error(url, error, options=storage_options) from None
    return system, path if local is None else local  # fsspec would take a host for a folder, and %20 as it is


def _hidden(text: str, options: Any) -> str:
    """Return a text without the values of storage options: these are secrets, and libraries quote wrong values."""
    if isinstance(options, str):
        return text.replace(options, "***") if len(options) > 3 else text
    if isinstance(options, Mapping):
        options = [*options.values()]
    for each in options if isinstance(options, (list, tuple)) else ():
        text = _hidden(text, each)
    return text


def run(steps: Steps[Result], call: Callable[..., Any]) -> Result:
    """Make the calls that `steps` yields until it returns; an error is raised in `steps`, where it yielded the call."""
    answer = None
    try:
        asked = next(steps)
        while True:
            try:
                answer = call(*asked)
            except Exception as error:
                asked = steps.throw(error)
            else:
                asked = steps.send(answer)
    except StopIteration as end:
        result: Result = end.value
        return result


def io_error(url: str, error: BaseException, where: str = "", options: Any = None) -> BaseException:
    """Return any exception of a file system as an OSError that names the URL.

    It contains no secrets; raise it ``from None``, because the text of the original exception may.
    """
    if isinstance(error, (ArrowIpcError, MemoryError)):
        return error
    cause = error.__cause__ if isinstance(error, OSError) and error.__cause__ is not None else error
    if type(cause).__module__ == "arrowipc.sources.http":
        reason = f"{where}{cause}"
    elif isinstance(cause, TimeoutError):  # most have no text
        reason = f"{where}no answer in time{f': {cause}' if str(cause) else ''}"
    else:
        reason = f"{where}{type(cause).__name__}: {cause}"
    url, reason = showable(url), showable(_hidden(reason, options))
    # Over HTTP, fsspec reports every failure as a missing file; the cause is the real error.
    http = type(cause).__module__.partition(".")[0] == "aiohttp"
    if isinstance(error, FileNotFoundError) and (not http or getattr(cause, "status", 0) in (404, 410)):
        return FileNotFoundError(errno.ENOENT, f"not found ({reason})", url)
    if isinstance(error, PermissionError):
        return PermissionError(errno.EACCES, f"not allowed ({reason})", url)
    if isinstance(cause, TimeoutError):
        return TimeoutError(f"{url}: {reason}")
    return OSError(f"{url}: {reason}")


class RemoteSource(Remote, Initialized):
    """A file at a URL, with options; every reader takes one in place of the URL.

    Parameters
    ----------
    url : str
        A URL of any file system that fsspec knows.
    storage_options : mapping, optional
        Options of that file system, such as credentials.
    size : int, optional
        Bytes of the file, if the caller knows them: saves a request.
    gap : int, default 1 MiB
        Ranges closer than this are fetched as one: about as many bytes as arrive during the time of a request.
    tail : int, default 128 KiB
        Bytes that are fetched from the end at first: more than most footers have.
    timeout : float, default 30
        Seconds without a byte (to be exact: with less than 4 KiB of a range, 256 bytes of a stream) after which
        reading from a stalled HTTP server ends with a TimeoutError. A `timeout` among the storage options replaces
        it, with aiohttp's meaning. Other file systems have their own deadlines, which are storage options.
    version : mapping, optional
        The `version` of another source for the same file: this one reads only that version.
    filesystem : fsspec.AbstractFileSystem, optional
        The file system in which `url` is a path.

    Notes
    -----
    A source reads only one version of the file. If the file is replaced, reading raises an OSError; make a new source
    then. Over HTTP, answers are compared by ETag, Last-Modified and length, and the server is asked to compare them,
    too (``If-Match``). For other file systems, their ``info`` is compared after every round of requests, and
    after every 8 MiB of a stream. If these do not distinguish versions, only another length is noticed.

    Over HTTP, no more of an answer is read than was asked for, nothing is decompressed, and if a request is
    redirected to another host, that host does not receive the headers, cookies and auth of the storage options.

    Raises
    ------
    UsageError
        There is no file system for this URL; or `timeout` is not a positive number.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> source = ipc.RemoteSource("s3://bucket/x.arrow", {"anon": True})   # doctest: +SKIP
    >>> ipc.open_file(source, columns=["price"]).read_all()            # doctest: +SKIP
    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe("/x.bin", b"0123456789")
    >>> source = ipc.RemoteSource("memory://x.bin")
    >>> source.head(), source.read(2, 3), bytes(source.fetch([(4, 6)])[0]), source.open().read(1)
    (b'01234567', b'234', b'45', b'0')
    """

    __slots__ = {
        **dict.fromkeys(("_asked", "_ends", "_file", "_given", "_path", "_size", "_system", "_version")),
        "gap": "int: ranges closer than this many bytes are fetched as one.",
        "tail": "int: bytes that are fetched from the end at once.",
        "url": "str: where the file is.",
    }

    def __init__(
        self,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        size: int | None = None,
        gap: int = GAP,
        tail: int = TAIL,
        timeout: float | None = None,
        version: Mapping[str, str] | None = None,
        filesystem: Any = None,
    ) -> None:
        self._make_once("_given")
        given: Any = timeout
        if given is not None and not (isinstance(given, (int, float)) and 0 < given < float("inf")):
            raise UsageError(f"timeout: expected seconds, more than 0, found {timeout!r}")
        if filesystem is not None and not hasattr(filesystem, "file_at") and not hasattr(filesystem, "protocol"):
            raise UsageError(f"filesystem must be one of fsspec, found {filesystem!r}")
        self._given = storage_options, timeout, filesystem
        self.url: str = check_text("url", url)
        self.gap: int = check_integer("gap", gap, 0, 2**63 - 1)
        self.tail: int = check_integer("tail", tail, 0, 2**63 - 1)
        self._system, self._path = find_system(url, storage_options) if filesystem is None else (filesystem, url)
        self._size = None if size is None else check_integer("size", size, 0, 2**63 - 1)
        self._asked = False
        self._version = dict(instance_of("version", version, Mapping)) if version else None
        self._file = self._open_file(timeout)
        #: (offset, bytes) of what was fetched from both ends
        self._ends: list[tuple[int, bytes | bytearray]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a source of the same file and the same version."""
        options, timeout, filesystem = self._given
        again = partial(RemoteSource, self.url, options, size=self._size, gap=self.gap, tail=self.tail)
        return partial(again, timeout=timeout, version=self.version, filesystem=filesystem), ()

    @property
    def local_path(self) -> str | None:
        """str: the path, if the URL is that of a file of this machine; else None."""
        local = sys.modules.get("fsspec.implementations.local")
        return self._path if local is not None and isinstance(self._system, local.LocalFileSystem) else None

    @property
    def size(self) -> int:
        """int: bytes of the file; requested once."""
        return run(self.sizing(), self.call)

    def sizing(self) -> Steps[int]:
        """Request the length of the file if it is not known; raise an OSError if the server does not say it."""
        if self._size is None and self._file is not None:
            yield from self._ending(self.tail)
        size = yield from self.asking_size()
        if size is None:
            raise OSError(
                f"{showable(self.url)}: the server does not say how long the file is, and an Arrow IPC file is read "
                "from its end; put 'simplecache::' before the URL to download it first"
            )
        return size

    @property
    def known_size(self) -> int | None:
        """int: bytes of the file; None if the server does not say it."""
        return run(self.asking_size(), self.call)

    def asking_size(self) -> Steps[int | None]:
        """`known_size` in steps."""
        if self._size is None and not self._asked:
            try:
                if self._file is not None:
                    self._size = yield ("size",)
                else:
                    info = yield "info", self._path
                    self._pin(info)
                    self._size = info.get("size")
                    if self._size is None:
                        self._size = yield (self._measure,)
            except Exception as error:
                raise self._failure(error) from None
            self._asked = True
        return self._size

    def _ending(self, tail: int) -> Steps[None]:
        """Fetch the first bytes and the last `tail` ones concurrently; the answers also contain the file's length."""
        try:
            self._size, ends = yield "ends", tail
        except Exception as error:
            raise self._failure(error) from None
        self._ends += ends

    def _measure(self) -> int:
        """Open the file to get its length: a downloaded file has one, even if its server does not say it."""
        with self._system.open(self._path, "rb") as file:
            return end_of(file)

    def blocks(self, decoder: BlockDecoder) -> RemoteBlocks:
        """Return an object that fetches the blocks of the file."""
        return RemoteBlocks(self, decoder)

    @property
    def system(self) -> Any:
        """The object whose methods `Steps` call: a file system of fsspec, or an object that reads one file itself."""
        return self._file or self._system

    def call(self, what: Any, *arguments: Any) -> Any:
        """Make one call of `Steps`."""
        if callable(what):
            return what(*arguments)
        if self._file is None:
            return getattr(self._system, what)(*arguments)
        from fsspec.asyn import sync

        return sync(self._file.loop, getattr(self._file, f"_{what}"), *arguments)

    @property
    def version(self) -> dict[str, str]:
        """dict: the properties that identify the file's version, as far as they are known; may be empty."""
        return dict((self._version or {}) if self._file is None else self._file.version)

    def head(self) -> bytes:
        """Return the first 8 bytes, or fewer if the file is shorter."""
        if self._size is None and self._file is not None:
            run(self._ending(0), self.call)
            if (first := self._held(0, 8)) is not None:
                return bytes(first)
        if self.known_size is None:
            with self.open() as file:
                return file.read(8)
        return run(self._heading(), self.call)

    def _heading(self) -> Steps[bytes]:
        size = yield from self.sizing()
        first = min(size, 8)
        if self._held(0, first) is None:
            answers = yield from self._request([(0, size if size <= self.tail else first)])
            self._ends.append((0, answers[0]))
        return bytes(self._held(0, first) or b"")

    def read(self, start: int, length: int) -> bytes:
        """Return some bytes; those at the ends of the file are fetched together with others that are needed next."""
        start, end = _range_of((start, integer_of("start", start) + integer_of("length", length)))
        return run(self.reading(start, end - start), self.call)

    def reading(self, start: int, length: int) -> Steps[bytes]:
        """`read` in steps."""
        size = yield from self.sizing()
        if start < 8:
            yield from self._heading()
        elif start + length > size - self.tail and self._held(start, start + length) is None:
            first = max(min(start, size - self.tail), 0)
            pieces = [(first, size), (0, 8)] if first >= 8 and not self._ends else [(first, size)]
            answers = yield from self._request(pieces)
            self._ends += [(first, bytes(answers[0])), *((0, data) for data in answers[1:])]
        return bytes((yield from self.fetching([(start, start + length)]))[0])

    def fetch(self, ranges: Sequence[Range]) -> list[memoryview]:
        """Return the bytes of all ranges (start, end), fetched concurrently; near ones are fetched as one."""
        return run(self.fetching([_range_of(each) for each in items_of("ranges", ranges)]), self.call)

    def fetching(self, ranges: Sequence[Range]) -> Steps[list[memoryview]]:
        """`fetch` in steps."""
        held = [self._held(start, end) for start, end in ranges]
        merged = merge_ranges([piece for piece, have in zip(ranges, held, strict=True) if have is None], self.gap)
        answers = [memoryview(data) for data in (yield from self._request(merged))]
        starts = [start for start, _ in merged]
        out = []
        for (start, end), have in zip(ranges, held, strict=True):
            if have is None:
                at = bisect_right(starts, start) - 1
                have = answers[at][start - starts[at] : end - starts[at]]
            out.append(have)
        return out

    def open(self) -> io.BufferedReader:
        """Open the file for reading from its beginning to its end, with one request if possible."""
        try:
            if self._file is not None:
                file: Any = self._file.open(self._size)
            else:
                file = self._system.open(self._path, "rb")
                self._pin(getattr(file, "details", None) or self._system.info(self._path))
        except Exception as error:
            raise self._failure(error) from None
        return io.BufferedReader(_Sequential(file, self), STREAM_BUFFER)

    def _held(self, start: int, end: int) -> memoryview | None:
        if start == end:
            return memoryview(b"")
        for offset, data in self._ends:
            if offset <= start and end <= offset + len(data):
                return memoryview(data)[start - offset : end - offset]
        return None

    def _request(self, ranges: Sequence[Range]) -> Steps[Sequence[Any]]:
        answers: Sequence[Any] = []
        if not ranges:
            return answers
        try:
            if self._file is not None:
                size = yield from self.sizing()
                answers = yield "fetch", ranges, size
                return answers
            if self._version is None:
                yield from self._confirming()
            # Errors are returned as answers, the default of `on_error`.
            answers = yield "cat_ranges", [self._path] * len(ranges), *map(list, zip(*ranges, strict=True))
        except Exception as error:
            raise self._failure(error) from None
        for (start, end), answer in zip(ranges, answers, strict=True):
            if isinstance(answer, BaseException):
                raise self._failure(answer, f"bytes {start:,} to {end:,}: ")
            if len(answer) != end - start:
                raise OSError(
                    f"{showable(self.url)}: asked for bytes {start:,} to {end:,} and got {len(answer):,} of "
                    f"{end - start:,}; was the file replaced meanwhile?"
                )
        yield from self._confirming()
        return answers

    def _open_file(self, timeout: float | None) -> HttpFile | None:
        """Return an object that reads the file and compares versions itself (over HTTP or in a store), or None."""
        if hasattr(self._system, "file_at"):
            return self._system.file_at(self._path, self._version or {})  # type: ignore[no-any-return]
        protocol = self._system.protocol
        if "http" not in ((protocol,) if isinstance(protocol, str) else protocol):
            return None
        from arrowipc.sources.http import HttpFile

        if timeout is None and not {"timeout"} & {*self._system.kwargs, *self._system.client_kwargs}:
            timeout = TIMEOUT
        return HttpFile(self._system, self._path, timeout, self._version or {})

    def _pin(self, info: Mapping[str, Any]) -> None:
        """Let the first ``info`` of the file determine its version."""
        if self._version is None:
            # A file that was downloaded completely does not change.
            cached = sys.modules.get("fsspec.implementations.cached")  # not imported: no file was downloaded
            whole = cached is not None and isinstance(self._system, cached.WholeFileCacheFileSystem)
            self._version = {} if whole else version_of(info)

    def _confirming(self) -> Steps[None]:
        """Request the file's ``info``, and raise if the file was replaced since it was opened."""
        if self._version == {}:
            return
        try:
            self._system.invalidate_cache(self._path)
            info = yield "info", self._path
        except Exception as error:
            if self._version is not None:
                raise self._failure(error) from None
            info = {}  # reading the file may work nevertheless, or raises the error
        self._pin(info)
        reason = replaced(self._version or {}, version_of(info))
        if reason is not None:
            raise OSError(f"{showable(self.url)}: the file was replaced while it was read: {reason}; open it again")

    def _failure(self, error: BaseException, where: str = "") -> BaseException:
        return io_error(self.url, error, where, self._given[0])

    def __repr__(self) -> str:
        return f"RemoteSource({showable(self.url)!r})"


def _range_of(found: Any) -> Range:
    """Return a range that a caller gave; else raise a UsageError."""
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise UsageError(f"a range is a pair of start and end, found {described(found)}")
    start, end = integer_of("start", found[0]), integer_of("end", found[1])
    if not 0 <= start <= end < 2**63:
        raise UsageError(f"a range begins at 0 or later and does not end before its start, found {start} to {end}")
    return start, end


class _Sequential(io.RawIOBase):
    """A remote file that is read in order; errors are OSErrors that name the URL."""

    def __init__(self, file: Any, source: RemoteSource) -> None:
        self._inner, self._source = file, source
        self._unsure = 0  # bytes read since the version was last compared
        size = source.version.get("size")
        self._left = None if size is None else int(size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = take(self._inner, self._inner.read(len(buffer)), memoryview(buffer))
        except FileObjectError as error:
            raise OSError(showable(f"{self._source.url}: {error}")) from None
        except Exception as error:
            raise self._source._failure(error) from None
        if self._source._file is None:
            self._look(count)
        return count

    def _look(self, count: int) -> None:
        """Compare the version of the file, at its end and after every WINDOW."""
        self._unsure += count
        if self._left is not None:
            self._left -= count
        if self._unsure and (not count or self._left == 0 or self._unsure > WINDOW):
            run(self._source._confirming(), self._source.call)
            self._unsure = 0

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()


class RemoteBlocks:
    """The blocks of a remote file; only the bytes of the projection are fetched.

    One request fetches several of the batches that are expected in order (`expect`); others are fetched one by one.
    """

    def __init__(self, source: RemoteSource, decoder: BlockDecoder) -> None:
        self._source = source
        self._decoder = decoder
        self._expected: deque[int] = deque()
        self._heads: dict[int, memoryview] = {}
        #: (offset, bytes) of the fetched parts of a batch
        self._ready: dict[int, list[tuple[int, memoryview]]] = {}
        #: Batches that other tasks wait for: they are fetched together with the next one.
        self.waiting: list[int] = []

    def expect(self, numbers: Iterable[int]) -> None:
        """Say which batches will be asked for, in this order."""
        self._expected = deque(numbers)
        self._ready.clear()

    def run(self, steps: Steps[Result]) -> Result:
        """Run steps of this object, waiting for each call."""
        return run(steps, self._source.call)

    def is_ready(self, i: int) -> bool:
        """Whether the bytes of a batch are fetched, so that `batch` makes no call."""
        return i in self._ready

    def batch(self, i: int) -> Steps[tuple[Memory, int]]:
        """Fetch the bytes of a batch; return memory with them, and the position of the batch in it."""
        if i not in self._ready:
            yield from self._fetch([i, *self._following(i)])
        elif self._expected and self._expected[0] == i:
            self._expected.popleft()
        # Allocate the whole body, because the metadata's offsets refer to it; pages without bytes are never touched.
        offset, head, body = self._decoder.block(i)
        block, at = room_for(head, body)
        for start, piece in self._ready.pop(i):
            copy_into(block, at + start - offset, piece)
        return block, at

    def head(self, i: int) -> Steps[memoryview]:
        """Fetch the metadata of a batch, and of the expected ones after it."""
        return (yield from self._head([i] if i in self._heads else [i, *self._following(i)]))

    def load_dictionaries(self) -> Steps[None]:
        """Fetch all dictionary batches, and let the decoder take them in, in order."""
        pending: list[tuple[int, int, int]] = []
        size = 0
        for i in range(self._decoder.num_dictionaries):
            pending.append(self._decoder.block(i, dictionary=True))
            size += pending[-1][1] + pending[-1][2]
            if size > WINDOW:
                yield from self._load(i + 1 - len(pending), pending)
                pending, size = [], 0
        yield from self._load(self._decoder.num_dictionaries - len(pending), pending, [*islice(self._expected, HEADS)])

    def _load(self, first: int, blocks: list[tuple[int, int, int]], numbers: Sequence[int] = ()) -> Steps[None]:
        """Fetch and load some dictionary batches; with them, fetch the metadata of batches `numbers`."""
        heads: dict[int, Range] = {}
        if blocks and numbers and not self._is_whole(*self._decoder.block(numbers[0])[1:]):
            heads = self._head_ranges(numbers)
        ranges = [(offset, offset + head + body) for offset, head, body in blocks]
        pieces = yield from self._source.fetching([*ranges, *heads.values()])
        self._heads |= zip(heads, pieces[len(blocks) :], strict=True)
        for i, ((_, head, body), piece) in enumerate(zip(blocks, pieces, strict=False), first):
            block, at = room_for(head, body)
            copy_into(block, at, piece)
            self._decoder.load_dictionary(i, block, at)

    def _following(self, i: int) -> list[int]:
        """Return the batches expected after batch `i`; if it is not expected, those that other tasks wait for."""
        expected = self._expected
        if i not in expected:
            return [number for number in dict.fromkeys(self.waiting) if number != i and number not in self._ready]
        while expected.popleft() != i:
            pass
        return [*islice(expected, BATCHES)]

    def _fetch(self, numbers: list[int]) -> Steps[None]:
        """Fetch batch `numbers[0]`, and those of `numbers` after it that fit into the window."""
        if self._ready:  # drop batches that were skipped or are no longer wanted
            kept = {*self._expected, *self.waiting}
            self._ready = {number: found for number, found in self._ready.items() if number in kept}
        wanted: dict[int, tuple[list[Range], list[tuple[int, memoryview]]]] = {}
        joined: list[Range] = []
        for position, number in enumerate(numbers):
            try:
                ranges, here = yield from self._ranges(numbers[position:])
            except ArrowIpcError:
                if not wanted:
                    raise
                break  # the error is raised when this batch is read
            joined = merge_ranges([*joined, *ranges], self._source.gap)
            # The limit includes the bytes between near ranges, which are fetched and kept with them.
            if wanted and (len(joined) > RANGES or sum(end - start for start, end in joined) > WINDOW):
                break
            wanted[number] = ranges, here
        pieces = iter((yield from self._source.fetching([piece for ranges, _ in wanted.values() for piece in ranges])))
        for number, (ranges, here) in wanted.items():
            self._ready[number] = here + [(start, next(pieces)) for start, _ in ranges]

    def _ranges(self, numbers: list[int]) -> Steps[tuple[list[Range], list[tuple[int, memoryview]]]]:
        """Return the ranges of batch `numbers[0]` to fetch, and its fetched metadata unless all of it is fetched."""
        offset, head, body = self._decoder.block(numbers[0])
        if self._is_whole(head, body):
            return [(offset, offset + head + body)], []
        start, metadata = offset + head, (yield from self._head(numbers))
        found = self._decoder.body_ranges(numbers[0], metadata)
        return [(start + first, start + end) for first, end in found], [(offset, metadata)]

    def _is_whole(self, head: int, body: int) -> bool:
        """Whether to fetch a block in one piece: all of it is read, or two requests would take longer."""
        return self._decoder.reads_all or head + body <= self._source.gap

    def _head(self, numbers: list[int]) -> Steps[memoryview]:
        """Return the metadata of batch `numbers[0]`; if it must be fetched, fetch that of following ones with it."""
        if numbers[0] not in self._heads:
            ranges = self._head_ranges(numbers)
            self._heads = dict(zip(ranges, (yield from self._source.fetching(list(ranges.values()))), strict=True))
        return self._heads[numbers[0]]

    def _head_ranges(self, numbers: Sequence[int]) -> dict[int, Range]:
        ranges: dict[int, Range] = {}
        cost = last = 0
        for number in numbers[:HEADS]:
            try:
                offset, head, _ = self._decoder.block(number)
            except ArrowIpcError:
                if not ranges:
                    raise
                break
            between = offset - last
            cost += head + (between if 0 < between < self._source.gap else 0)
            if ranges and cost > WINDOW:
                break
            ranges[number] = (offset, offset + head)
            last = offset + head
        return ranges
