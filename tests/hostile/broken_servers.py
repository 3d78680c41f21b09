"""An HTTP server that lies, in every way that we know a name for; and a child process that believes it.

``python -m hostile.broken_servers DIRECTORY TIMEOUT@URL...`` reads each URL in several ways and prints a JSON line
about each; the last line has the memory that it took. DIRECTORY holds the files that may be read from there.
"""

import gzip
import json
import re
import select
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

from helpers.processes import rounds
from helpers.web import Web

MIB = 1 << 20
ZEROS = bytes(MIB)
#: Bytes that an endless answer has, should nobody stop it: more than all readings together may keep.
ENDLESS = rounds(160 * MIB, 4096 * MIB)
DATE = "Mon, 06 Jul 2026 10:00:00 GMT"
LATER = "Tue, 07 Jul 2026 10:00:00 GMT"


class Ask(NamedTuple):
    """One request: the how-many-eth to its path, and the two versions of what it asks for."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    first: bytes
    second: bytes

    @property
    def range(self) -> tuple[int, int] | None:
        found = re.fullmatch(r"bytes=(\d*)-(\d+)", self.headers.get("range", ""))
        if found is None:
            return None
        size = len(self.first)
        return (int(found[1]), min(int(found[2]) + 1, size)) if found[1] else (max(size - int(found[2]), 0), size)


#: Pieces of an answer; a number is a pause in seconds.
Answer = Iterable[bytes | float]


def head(status: int, headers: dict[str, Any]) -> bytes:
    lines = [f"HTTP/1.1 {status} Words", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def honest(ask: Ask, body: Any = None, status: int = 0, later: bool = False, **changes: Any) -> Answer:
    """What a good server answers, but for changes to its headers and body; `later`: of the other version."""
    data = ask.second if later else ask.first
    start, end = ask.range or (0, len(data))
    headers = {
        "Content-Length": end - start,
        "ETag": '"two"' if later else '"one"',
        "Last-Modified": LATER if later else DATE,
    }
    if ask.range:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}
    yield head(status or (206 if ask.range else 200), headers)
    if ask.method != "HEAD":
        yield from [data[start:end]] if body is None else body


def in_chunks(ask: Ask, *pieces: Any, raw: bool = False) -> Answer:
    """The same in chunks, of which some may be wrong; `raw`: these bytes as they are."""
    body = pieces if raw else chunked(pieces)
    return honest(ask, body, Content_Length=None, Transfer_Encoding="chunked")


def endless() -> Answer:
    return repeat(ZEROS, ENDLESS // MIB)


def chunked(pieces: Answer) -> Answer:
    for piece in pieces:
        assert isinstance(piece, bytes)
        yield b"%x\r\n%s\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def part(ask: Ask) -> bytes:
    return ask.first[slice(*(ask.range or (0, None)))]


def huge(ask: Ask) -> str | None:
    """The range that was asked for, of 2^40 bytes."""
    return ask.range and f"bytes {ask.range[0]}-{ask.range[1] - 1}/{1 << 40}"


def on_get(lie: Callable[[Ask], Answer]) -> Callable[[Ask], Answer]:
    """Lie only when the file is asked for, not its length."""
    return lambda ask: lie(ask) if ask.method == "GET" else honest(ask)


def blown() -> Answer:
    """Some 4 GB of zeros as a few MB."""
    squeeze = zlib.compressobj(9, wbits=31)
    for _ in range(ENDLESS // MIB):
        yield squeeze.compress(ZEROS)
    yield squeeze.flush()


def zipped(ask: Ask, data: bytes) -> Answer:
    return honest(ask, [data], Content_Encoding="gzip", Content_Length=len(data))


def elsewhere(place: Callable[[Ask], str], body: Answer = ()) -> Callable[[Ask], Answer]:
    return lambda ask: [head(302, {"Location": place(ask)}), *([] if ask.method == "HEAD" else body)]


def hop(ask: Ask) -> str:
    return ask.path.partition("?")[0] + f"?{ask.number}"


def multipart(ask: Ask) -> Answer:
    body = b"--x\r\nContent-Range: bytes 0-7/8\r\n\r\n" + part(ask) + b"\r\n--x--\r\n"
    kind = "multipart/byteranges; boundary=x"
    return honest(ask, [body], Content_Type=kind, Content_Length=len(body), Content_Range=None)


def whole(ask: Ask, said: str | None) -> Answer:
    """The whole file, whatever was asked for, and what is said of the range."""
    status = 206 if ask.range and said else 200
    return honest(ask, [ask.first], status, Content_Length=len(ask.first), Content_Range=said)


def shifted(ask: Ask) -> Answer:
    if ask.range is None:
        return honest(ask)
    start, end = ask.range
    start, end = (start - 8, end - 8) if start >= 8 else (start + 8, end + 8)
    return honest(ask, [ask.first[start:end]], Content_Range=f"bytes {start}-{end - 1}/{len(ask.first)}")


def drip(data: bytes) -> Answer:
    for at in range(len(data)):
        yield data[at : at + 1]
        yield 0.5


def conditional(ask: Ask) -> Answer:
    """A good server whose file is replaced behind the third request."""
    if ask.number < 3:
        return honest(ask)
    old = ask.headers.get("if-match", '"two"') != '"two"'
    return [head(412, {"Content-Length": 0})] if old else honest(ask, later=True)


def silent_replacement(ask: Ask, **changes: Any) -> Answer:
    return honest(ask, later=ask.number >= 3, **changes)


FOREVER: list[float] = [600.0]
KNOWN = {"ETag": None, "Last_Modified": None}

#: Name -> the lie, and what readers must do about it: all have the "right" values, or those of files "refused" it,
#: or "either".
LIES: dict[str, tuple[Callable[[Ask], Answer], str]] = {
    "none": (honest, "right"),
    # lengths
    "a range of 2^40 bytes": (on_get(lambda a: honest(a, endless(), Content_Length=1 << 40)), "refused"),
    "a range of 2^40 bytes as 200": (
        on_get(lambda a: honest(a, endless(), 200, Content_Length=1 << 40, Content_Range=None)),
        "refused",
    ),
    "a file of 2^40 bytes in HEAD": (
        lambda a: honest(a, **({"Content_Length": 1 << 40} if a.method == "HEAD" else {})),
        "right",  # nobody asks
    ),
    "a file of 2^40 bytes": (lambda a: honest(a, Content_Range=huge(a)), "refused"),
    "a file of 2^40 bytes, no ranges from the end": (
        lambda a: honest(a, Content_Range=huge(a), **({"ETag": None} if "=-" in a.headers.get("range", "") else {})),
        "refused",
    ),
    "an end of another file": (lambda a: honest(a, later="=-" in a.headers.get("range", "")), "refused"),
    "an end that begins elsewhere": (
        lambda a: shifted(a) if "=-" in a.headers.get("range", "") else honest(a),
        "right",  # what is asked for by its place
    ),
    "no end": (lambda a: [] if "=-" in a.headers.get("range", "") else honest(a), "right"),
    "a file of 10^30 bytes": (lambda a: honest(a, Content_Length=10**30), "refused"),
    "a length below zero": (lambda a: honest(a, Content_Length=-8), "refused"),
    "a length in words": (lambda a: honest(a, Content_Length="many"), "refused"),
    "two lengths": (on_get(lambda a: honest(a, Content_Length="8\r\nContent-Length: 9")), "refused"),
    "a shorter length": (on_get(lambda a: honest(a, Content_Length=len(part(a)) - 3)), "refused"),
    "a longer length": (on_get(lambda a: honest(a, [part(a), b"more"], Content_Length=len(part(a)) + 4)), "refused"),
    "a body cut": (on_get(lambda a: honest(a, [part(a)[: len(part(a)) // 2]])), "refused"),
    "no length and no end": (on_get(lambda a: honest(a, endless(), Content_Length=None)), "refused"),
    "a length nowhere": (lambda a: honest(a, Content_Length=None), "either"),
    # chunks
    "honest chunks": (on_get(lambda a: in_chunks(a, part(a))), "right"),
    "endless chunks": (on_get(lambda a: in_chunks(a, *[ZEROS] * (ENDLESS // MIB))), "refused"),
    "a chunk too much": (on_get(lambda a: in_chunks(a, part(a), b"x")), "refused"),
    "a chunk of words": (on_get(lambda a: in_chunks(a, b"many\r\n", raw=True)), "refused"),
    # ranges
    "another range": (shifted, "refused"),
    "a range that does not say which": (on_get(lambda a: honest(a, Content_Range=None)), "refused"),
    "a range of another file": (
        on_get(lambda a: honest(a, Content_Range="bytes {}-{}/9".format(*(a.range or (0, 0))))),
        "refused",
    ),
    "the whole file as a range": (on_get(lambda a: whole(a, f"bytes 0-{len(a.first) - 1}/{len(a.first)}")), "refused"),
    "the whole file, no ranges": (on_get(lambda a: whole(a, None)), "refused"),
    "parts": (on_get(multipart), "refused"),
    "no such range": (on_get(lambda a: honest(a, [], 416, Content_Length=0)), "refused"),
    "nothing": (on_get(lambda a: [head(204, {})]), "refused"),
    # encodings
    "a gzip bomb": (on_get(lambda a: honest(a, blown(), Content_Encoding="gzip", Content_Length=None)), "refused"),
    "gzip": (on_get(lambda a: zipped(a, gzip.compress(part(a)))), "refused"),
    # what is said of objects in stores, and does nothing to their bytes
    "encodings that are none": (
        on_get(lambda a: honest(a, Content_Encoding="x, utf-8, aws-chunked, identity")),
        "right",
    ),
    # redirects
    "a redirect to itself": (elsewhere(lambda a: a.path), "refused"),
    "one redirect": (lambda a: honest(a) if "?" in a.path else elsewhere(hop)(a), "right"),
    "a redirect to a file": (elsewhere(lambda a: "file:///etc/passwd"), "refused"),
    "a redirect to nowhere": (elsewhere(lambda a: "http://["), "refused"),
    "a redirect without a place": (lambda a: [head(302, {"Content-Length": 0})], "refused"),
    "a redirect that talks on": (
        lambda a: honest(a) if "?" in a.path else elsewhere(hop, repeat(ZEROS, 512))(a),
        "right",
    ),
    "a redirect to another file": (
        lambda a: honest(a, later=True) if "?" in a.path else (elsewhere(hop)(a) if a.number > 2 else honest(a)),
        "refused",
    ),
    # replaced files
    "replaced, and says so": (conditional, "refused"),
    "replaced": (silent_replacement, "refused"),
    "replaced, known by a weak ETag": (
        lambda a: silent_replacement(a, ETag='W/"2"' if a.number >= 3 else 'W/"1"', Last_Modified=None),
        "refused",
    ),
    "replaced, and silent about versions": (
        lambda a: silent_replacement(a, **(KNOWN if a.number >= 3 else {})),
        "refused",
    ),
    "replaced, and found by GET only": (
        lambda a: honest(a, **KNOWN) if a.method == "HEAD" else silent_replacement(a),
        "refused",
    ),
    # stalls
    "silence": (lambda a: FOREVER, "refused"),
    "silence in the head": (lambda a: [b"HTTP/1.1 200 Wo", *FOREVER], "refused"),
    "silence in the body": (on_get(lambda a: honest(a, [part(a)[:3], *FOREVER])), "refused"),
    "silence behind the last chunk": (
        on_get(lambda a: in_chunks(a, b"%x\r\n%s\r\n" % (len(part(a)), part(a)), *FOREVER, raw=True)),
        "refused",
    ),
    "a body in drops": (on_get(lambda a: honest(a, drip(part(a)))), "refused"),
    "redirects in drops": (lambda a: [1.0, *elsewhere(hop)(a)], "refused"),
    # what is no HTTP
    "headers without end": (
        lambda a: [b"HTTP/1.1 200 Words\r\n", *(b"X-%d: y\r\n" % number for number in range(10**5))],
        "refused",
    ),
    "a header without end": (lambda a: [b"HTTP/1.1 200 Words\r\nX: ", *endless()], "refused"),
    "go on, go on": (lambda a: repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 10**5), "refused"),
    "another protocol": (lambda a: [head(101, {"Upgrade": "x", "Connection": "Upgrade"}), *FOREVER], "refused"),
    "noise": (lambda a: [bytes(range(256)) * 100], "refused"),
    "a closed door": (lambda a: [], "refused"),
    "an error without end": (lambda a: [head(500, {}), *endless()], "refused"),
    "an ETag that is none": (lambda a: honest(a, ETag="\x80\xff no quotes"), "right"),
}


class _Liar(BaseHTTPRequestHandler):
    web: "BrokenServer"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            for piece in self.web.answer(self.command, self.path, dict(self.headers.items())):
                if isinstance(piece, bytes):
                    self.wfile.write(piece)
                elif select.select([self.connection], [], [], piece)[0]:
                    return  # the client has left meanwhile

    do_HEAD = do_GET


class BrokenServer(Web):
    """A server on a free port of this machine: ``/NUMBER/...`` is answered with the lie of that number."""

    handler = _Liar

    def __init__(self, files: dict[str, tuple[bytes, bytes]], *lies: Callable[[Ask], Answer]) -> None:
        super().__init__({})
        self.versions_of = files  # ending of a path -> its two versions
        self.seen: list[tuple[str, dict[str, str]]] = []  # path and headers of every request
        self._lies = lies
        self._counts: Counter[str] = Counter()

    def answer(self, method: str, path: str, given: dict[str, str]) -> Answer:
        headers = {name.lower(): value.lower() for name, value in given.items()}
        name = path.partition("?")[0]
        with self.lock:
            self._counts[name] += 1
            number = self._counts[name]
            self.seen.append((path, headers))
        place = path.split("/")[1]
        if not place.isdecimal():
            return [head(404, {"Content-Length": 0})]
        return self._lies[int(place)](Ask(number, method, path, headers, *self.versions_of[name.rpartition(".")[2]]))


def rows(batches: Iterable[Any]) -> list[Any]:
    return [batch.to_pydict() for batch in batches]


def ways(url: str, timeout: float) -> dict[str, tuple[str, Callable[[], Any]]]:
    """Ways to read a URL: the ending of the path, and what gives the batches."""
    import arrowipc as ipc

    def source(ending: str, **options: Any) -> Any:
        return ipc.RemoteSource(f"{url}.{ending}", timeout=timeout, **options)

    def batches(opener: Callable[..., Any], ending: str, **options: Any) -> Any:
        with opener(source(ending), **options) as reader:
            return rows(reader)

    def in_pieces() -> Any:
        with ipc.open_file(source("arrow", gap=0, tail=10), columns=["b", "d"]) as reader:
            return [reader.get_batch(number).to_pydict() for number in range(len(reader))]

    return {
        "file": ("arrow", lambda: batches(ipc.open_file, "arrow")),
        "pieces": ("arrow", in_pieces),
        "stream": ("arrows", lambda: batches(ipc.open_stream, "arrows")),
        "either": ("arrows", lambda: batches(ipc.open, "arrows")),
        "recover": ("arrow", lambda: batches(ipc.recover, "arrow")),
    }


def believe(job: tuple[str, str, float, dict[str, list[Any]]]) -> dict[str, Any]:
    """Read a URL in one way, and say what came of it."""
    from arrowipc import ArrowIpcError

    url, way, timeout, known = job
    url += f"-{way}"  # each counts its own requests
    ending, call = ways(url, timeout)[way]
    start = time.monotonic()
    try:
        found = call()
        names = {name for batch in found for name in batch}
        wanted = [
            [{name: batch[name] for name in batch if name in names} for batch in version] for version in known[ending]
        ]
        if way == "recover":  # what it kept, in front of the damage
            outcome = "right" if any(found == version[: len(found)] for version in wanted) else "wrong"
        else:
            outcome = "right" if found in wanted else "wrong"
        words = ""
    except (ArrowIpcError, OSError) as error:
        outcome, words = "refused", f"{type(error).__name__}: {error}"
        if not str(error).removeprefix(f"{url}.{ending}: ").strip():
            outcome = "wordless"
    except BaseException as error:
        outcome, words = "broken", f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - start
    return {"url": job[0], "way": way, "outcome": outcome, "words": words, "seconds": seconds}


def main(directory: str, *given: str) -> None:
    from helpers import memory

    import arrowipc as ipc

    known = {
        ending: [rows(ipc.open(path.read_bytes())) for path in sorted(Path(directory).glob(f"*.{ending}"))]
        for ending in ("arrow", "arrows")
    }
    urls = [(url, float(timeout)) for timeout, _, url in (text.partition("@") for text in given)]
    believe((urls[0][0], "file", urls[0][1], known))  # libraries are loaded now
    memory.forget_peak()
    before = memory.resident()
    jobs = [(url, way, timeout, known) for url, timeout in urls for way in ways(url, timeout)]
    with ThreadPoolExecutor(16) as pool:
        for line in pool.map(believe, jobs):
            print(json.dumps(line), flush=True)
    print(json.dumps({"mib": (memory.peak() - before) / MIB}))


if __name__ == "__main__":
    main(*sys.argv[1:])
