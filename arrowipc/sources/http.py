"""Files over HTTP: no more of a response is read than was requested, and all responses are of one version.

Connections, TLS and pooling are those of fsspec's HTTP file system (aiohttp). The headers of an answer are compared
with the request before its body is read.
"""

from __future__ import annotations

import asyncio
import re
import time

from arrowipc.errors import showable
from arrowipc.sources.file_objects import replaced, version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Any, TypeVar

    Result = TypeVar("Result")

#: Bytes that one read takes from a connection.
CHUNK = 1 << 18
#: A response with fewer bytes of a range than this within the timeout has stalled ...
STEP = 1 << 12
#: ... or fewer than this of a stream, which may be written while it is read.
LIVE_STEP = 1 << 8
#: Ranges that are fetched at the same time: each takes some 0.5 ms of processor time, so more of them would wait for
#: the processor, and not for the 20 ms of the network.
MOST = 48
#: Ranges that are fetched at first: small servers can queue about as many new connections. The system repeats an
#: attempt for which there is no room only after a second, then after three and seven.
FIRST = 16
REDIRECTS = 10
#: Encodings that a server may have applied to the bytes of a file (Content-Encoding).
CODINGS = frozenset(("gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"))
#: Headers that may follow a redirect to another host.
HARMLESS = {"user-agent", "accept", "accept-language"}

_STRONG = re.compile(r'"[!#-~]*"')
_LENGTH = re.compile(r"\d{1,18}", re.ASCII)
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.ASCII)
_NO_RANGES = (
    "the server sends only whole files (no range requests), and an Arrow IPC file is read in parts; put "
    "'simplecache::' before the URL to download it first"
)


class Refused(OSError):
    """A server's answer does not fit the request; the text says how."""


class Missing(FileNotFoundError, Refused):
    """The server says that there is no such file."""


async def fetch_all(fetch: Callable[..., Awaitable[Result]], parts: Sequence[tuple[Any, ...]]) -> list[Result]:
    """Fetch parts concurrently: a few at first, and one more with every answer; the first failure ends them all."""
    free, more = asyncio.Semaphore(FIRST), iter(range(MOST - FIRST))

    async def one(part: tuple[Any, ...]) -> Result:
        async with free:
            found = await fetch(*part)
        if next(more, None) is not None:
            free.release()
        return found

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(part)) for part in parts]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


class _Deadline:
    """A limit for the time that `step` more bytes of a response take; None: no limit.

    All time counts, also waiting for other threads, except for the time between `pause` and `resume`.
    """

    def __init__(self, timeout: float | None, step: int = STEP) -> None:
        self._timeout = timeout
        self._step, self._count = step, 0
        self._start = self._paused = time.monotonic()

    async def wait(self, what: Awaitable[Result]) -> Result:
        """Wait for the next bytes."""
        if self._timeout is None:
            return await what
        try:
            async with asyncio.timeout(self._start + self._timeout - time.monotonic()) as limit:
                return await what
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(
                f"the server stalls: {self._count:,} bytes came in {self._timeout:g} s; "
                "RemoteSource(url, timeout=) waits longer"
            ) from error

    def arrived(self, count: int) -> None:
        """Count bytes that have arrived; reset the deadline after each `step`."""
        self._count += count
        if self._count >= self._step:
            self._start, self._count = time.monotonic(), 0

    def pause(self) -> None:
        """Stop counting time, because nothing waits for the server."""
        self._paused = time.monotonic()

    def resume(self) -> None:
        """Continue to count time after `pause`."""
        self._start += time.monotonic() - self._paused


class HttpFile:
    """A file over HTTP, by fsspec's HTTPFileSystem; only one version is read, that of the first response.

    `timeout` is the number of seconds that an answer may stall. `version` is the result of `version_of` for an earlier
    answer, or empty; answers are compared with it.
    """

    def __init__(self, system: Any, url: str, timeout: float | None, version: Mapping[str, str]) -> None:
        self._system = system
        self._url = url
        self._timeout = timeout
        self.version: dict[str, str] = dict(version)
        # Attributes of fsspec's asynchronous file systems: `_size`, `_ends` and `_fetch` are coroutines of `loop`.
        self.async_impl = True
        self.asynchronous: bool = system.asynchronous
        self.loop: Any = system.loop

    def open(self, size: int | None) -> HttpStream:
        """Request the whole file, to be read in order; `size` is its length, if that is known."""
        from fsspec.asyn import sync

        return sync(self.loop, self._open, size)  # type: ignore[no-any-return]

    # -- coroutines, in fsspec's thread --

    async def _size(self) -> int | None:
        """Request the length of the file; return None if the server does not say it."""
        import aiohttp

        deadline = _Deadline(self._timeout)
        for method in ("HEAD", "GET"):  # some servers do not support HEAD; the body of the GET is not read
            try:
                answer = await self._ask(method, {}, deadline)
            except (OSError, aiohttp.ClientError) as error:
                if method == "GET" or isinstance(error, TimeoutError):
                    raise
                continue
            try:
                if method == "HEAD" and answer.status != 200:
                    continue
                _check_status(answer, (200,))
                length = None if _codings(answer) else _length(answer)
                if length is not None or method == "GET":
                    self._compare(answer, length)
                    return length
            finally:
                answer.release()
        return None

    async def _ends(self, tail: int) -> tuple[int | None, list[tuple[int, bytearray]]]:
        """Request the first 8 and the last `tail` bytes concurrently; return the file's length and (offset, bytes).

        Parts that a server does not send are left out; `_size` and `_fetch` report the reason later.
        """
        ends = [end for end in await fetch_all(self._end, [(size,) for size in {0, tail}]) if end is not None]
        sizes = {total for total, _, _ in ends if total is not None}
        if len(sizes) > 1:
            raise Refused("the file was replaced while it was read: its ends are of files of different lengths")
        return next(iter(sizes), None), [(start, data) for _, start, data in ends if data]

    async def _end(self, tail: int) -> tuple[int | None, int, bytearray] | None:
        """Return the file's length, and offset and bytes of its last `tail` bytes, of its first 8 if `tail` is 0."""
        import aiohttp

        deadline, answer = _Deadline(self._timeout), None
        try:
            answer = await self._ask("GET", {"Range": f"bytes=-{tail}" if tail else "bytes=0-7"}, deadline)
            part = _checked_end(answer, tail)
            if part is None:
                return None
            total, start, end = part
            self._compare(answer, total)
            return total, start, await _body(answer, start, end, answer.status == 206 or end == total, deadline)
        except aiohttp.ClientError:  # some servers do not support ranges from the end
            return None
        finally:
            if answer is not None:
                answer.release()

    async def _fetch(self, ranges: Sequence[tuple[int, int]], size: int) -> list[bytearray]:
        """Return the bytes of all ranges of a file of `size` bytes; the first failure ends them all."""
        return await fetch_all(self._range, [(start, end, size) for start, end in ranges])

    async def _range(self, start: int, end: int, size: int) -> bytearray:
        if start == end:
            return bytearray()
        deadline = _Deadline(self._timeout)
        answer = await self._ask("GET", {"Range": f"bytes={start}-{end - 1}"}, deadline)
        try:
            _check_status(answer, (200, 206), f"bytes {start:,} to {end:,}: ")
            if answer.status == 206:
                total = _checked_range(answer, start, end)
            elif start:
                raise Refused(_NO_RANGES)
            else:
                total = _length(answer)  # without range requests, but the wanted bytes come first
            self._compare(answer, total if total is not None else size, size)
            return await _body(answer, start, end, answer.status == 206 or end == size, deadline)
        finally:
            answer.release()

    async def _open(self, size: int | None) -> HttpStream:
        deadline = _Deadline(self._timeout, LIVE_STEP)
        answer = await self._ask("GET", {}, deadline)
        try:
            _check_status(answer, (200,))
            length = _length(answer)
            self._compare(answer, length if length is not None else size, size)
        except BaseException:
            answer.close()
            raise
        return HttpStream(self.loop, answer, deadline, size)

    async def _ask(self, method: str, headers: dict[str, str], deadline: _Deadline) -> Any:
        """Send a request for the known version, and wait for the head of its answer."""
        headers = {"Accept-Encoding": "identity", **headers}
        etag, modified = self.version.get("etag", ""), self.version.get("time", "")
        if _STRONG.fullmatch(etag):
            headers["If-Match"] = etag
        elif modified.endswith(" GMT") and modified.isascii():
            headers["If-Unmodified-Since"] = modified
        return await deadline.wait(self._follow(method, headers))

    async def _follow(self, method: str, ours: dict[str, str]) -> Any:
        """Send a request and follow redirects; headers, auth and cookies of the options only go to the first host."""
        import aiohttp
        from multidict import CIMultiDict
        from yarl import URL

        session = await self._system.set_session()
        unbounded = aiohttp.ClientTimeout(total=None)  # `_Deadline` limits the time instead
        options = {"timeout": unbounded, **self._system.kwargs, "auto_decompress": False}
        if "timeout" in self._system.client_kwargs:
            options.pop("timeout")
        redirects = options.pop("max_redirects", REDIRECTS) if options.pop("allow_redirects", True) else 0
        headers = CIMultiDict(options.pop("headers", None) or {})
        headers.update(ours)
        url = self._system.encode_url(self._url)
        for _ in range(redirects + 1):
            answer = await session.request(method, url, headers=headers, allow_redirects=False, **options)
            place = answer.headers.get("Location")
            if answer.status not in (301, 302, 303, 307, 308) or place is None:
                return answer
            answer.release()
            try:
                target = url.join(URL(place))
                # A redirect to the same host over HTTPS, at the default port, is the same place.
                secured = url.with_scheme("https") if url.scheme == "http" and url.is_default_port() else url
                elsewhere = target.origin() not in (url.origin(), secured.origin())
            except ValueError:
                raise Refused(f"the server redirects to {showable(place)[:80]!r}, which is not an HTTP URL") from None
            if target.scheme not in ("http", "https"):
                raise Refused(f"the server redirects to a URL of another kind, {target.scheme[:20]!r}")
            options.pop("params", None)
            if elsewhere:
                _check_session(session)
                headers = CIMultiDict(ours)
                for name in ("auth", "cookies"):
                    options.pop(name, None)
            elif target.user is None and url.user is not None:
                target = target.with_user(url.user).with_password(url.password)
            url = target
        raise Refused(f"the server redirects more than {redirects} times")

    def _compare(self, answer: Any, total: int | None, size: int | None = None) -> None:
        """Refuse an answer of another version; the first answer determines the version."""
        headers = answer.headers
        found = {"ETag": headers.get("ETag"), "LastModified": headers.get("Last-Modified"), "size": total}
        version = version_of(found)
        reason = replaced(self.version, {**version, **({} if total is None else {"size": str(total)})})
        if reason is None and size is not None and total != size:
            reason = f"{size:,} bytes became {total:,}"
        known = self.version.keys() & {"etag", "time"}
        if reason is None and known and not known & version.keys():
            reason = "the server says no more which version it sends"
        if reason is not None:
            raise Refused(
                f"the file was replaced while it was read: {reason[:200]}; open it again (or put "
                "'simplecache::' before the URL, if the servers of one file disagree)"
            )
        if not self.version:
            self.version = version


class HttpStream:
    """A file that is read in order, as it arrives."""

    def __init__(self, loop: Any, answer: Any, deadline: _Deadline, size: int | None) -> None:
        self._loop, self._answer, self._deadline = loop, answer, deadline
        self._left = size
        deadline.pause()

    def read(self, count: int) -> bytes:
        """Wait for some bytes and return them, at most `count`; none at the end of the file."""
        from fsspec.asyn import sync

        self._deadline.resume()
        try:
            return sync(self._loop, self._read, count)  # type: ignore[no-any-return]
        finally:
            self._deadline.pause()

    async def _read(self, count: int) -> bytes:
        data: bytes = await self._deadline.wait(self._answer.content.read(count))
        self._deadline.arrived(len(data) or LIVE_STEP)  # the end of the file is progress, too
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0 or (self._left and not data):
                how = "longer" if data else "shorter"
                raise Refused(f"the answer is {abs(self._left):,} bytes {how} than the file")
        return data

    def close(self) -> None:
        """Close the connection, in any state of the response."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._answer.close)


def _check_status(answer: Any, wanted: tuple[int, ...], where: str = "") -> None:
    """Refuse an answer with another status, or whose bytes are encoded."""
    status = answer.status
    if status not in wanted:
        reason = f"{where}the server answers {status} ({(answer.reason or '')[:80]!r})"
        if status in (404, 410):
            raise Missing(reason)
        if status in (412, 416):
            reason += "; was the file replaced meanwhile?"
        raise Refused(reason)
    if answer.method != "HEAD" and (codings := ", ".join(_codings(answer))):
        raise Refused(
            f"the server sends the file as {codings!r} (Content-Encoding), where its bytes are asked for; "
            "put 'simplecache::' before the URL to download it first"
        )


def _codings(answer: Any) -> list[str]:
    """Return the encodings of the bytes; other values, such as "utf-8" and "aws-chunked" from stores, are ignored."""
    said = answer.headers.get("Content-Encoding", "").lower().split(",")
    return sorted(CODINGS & {each.strip() for each in said})


def _check_session(session: Any) -> None:
    """Refuse a session whose auth or headers, which belong to every request, would be sent to another host."""
    if (
        getattr(session, "auth", None) is not None
        or {name.lower() for name in getattr(session, "headers", None) or ()} - HARMLESS
    ):
        raise Refused(
            "the server redirects to another host, to which the headers or auth in client_kwargs would go "
            "too; give them as storage options of their own: they stay with the first host"
        )


def _length(answer: Any) -> int | None:
    """Return the length in an answer's headers, or None."""
    text = answer.headers.get("Content-Length")
    if text is None:
        return None
    if not _LENGTH.fullmatch(text):
        raise Refused(f"the server says a length that is none: {text[:40]!r}")
    return int(text)


def _said_range(answer: Any) -> tuple[int, int, int | None] | None:
    """Return start, end and total length from an answer's Content-Range; None if there is no valid one."""
    found = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    return None if found is None else (int(found[1]), int(found[2]) + 1, None if found[3] == "*" else int(found[3]))


def _checked_range(answer: Any, start: int, end: int) -> int | None:
    """Refuse another range than the requested one; return the length of the file if the answer contains it."""
    found, length = _said_range(answer), _length(answer)
    if found is None:
        raise Refused(
            f"asked for bytes {start:,} to {end:,}, and the answer does not say which they are: "
            f"Content-Range {answer.headers.get('Content-Range', '')[:60]!r}"
        )
    first, last, total = found
    if (first, last) != (start, end) or length not in (None, end - start):
        count = last - first if length is None else length
        raise Refused(
            f"asked for bytes {start:,} to {end:,} and got {count:,} of {end - start:,} from {first:,} on; "
            "was the file replaced meanwhile?"
        )
    return total


def _checked_end(answer: Any, tail: int) -> tuple[int | None, int, int] | None:
    """Return the file's length, and start and end of an answer's bytes: the last `tail` ones, the first 8 if that is 0.

    None if the answer is of another kind.
    """
    if answer.status in (404, 410):
        _check_status(answer, ())
    length, found = _length(answer), _said_range(answer)
    if _codings(answer):
        return None
    if answer.status == 200 and (not tail or (length is not None and length <= tail)):  # a server without ranges
        return length, 0, min(tail or 8, 8 if length is None else length)
    if answer.status != 206 or found is None or found[2] is None:
        return None
    total = found[2]
    start, end = (max(total - tail, 0), total) if tail else (0, min(8, total))
    return (total, start, end) if found[:2] == (start, end) and length in (None, end - start) else None


async def _body(answer: Any, start: int, end: int, exact: bool, deadline: _Deadline) -> bytearray:
    """Read the body of an answer; `exact`: no bytes may follow. Memory grows only with the bytes that arrive."""
    data, left = bytearray(), end - start
    content = answer.content
    while left:
        chunk = await deadline.wait(content.read(min(left, CHUNK)))
        if not chunk:
            break
        deadline.arrived(len(chunk))
        data += chunk
        left -= len(chunk)
    more = exact and not left and not content.at_eof() and await deadline.wait(content.read(1))
    if left or more:
        found = "more" if more else f"{len(data):,} of {end - start:,}"
        raise Refused(f"asked for bytes {start:,} to {end:,} and got {found}")
    return data
