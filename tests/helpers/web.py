"""An HTTP server of files in memory, which logs every request, and which can misbehave."""

import hashlib
import re
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Request(NamedTuple):
    """One request, and how many bytes of a body were sent for it."""

    method: str
    path: str
    range: tuple[int, int] | None
    sent: int


@lru_cache(4)
def tag_of(data: bytes) -> str:
    """The ETag of a file, which takes longer than the rest of an answer."""
    return f'"{hashlib.sha1(data).hexdigest()}"'


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # a client that finds no place in it tries again a second later


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    web: "Web"

    def log_message(self, *_: Any) -> None:
        pass

    def end_headers(self) -> None:
        if not self.web.keeps_connections:
            self.send_header("Connection", "close")  # the server then closes it
        super().end_headers()

    def do_HEAD(self) -> None:
        web = self.web
        with web.lock:
            web.busy += 1
            web.most_busy = max(web.busy, web.most_busy)
        time.sleep(web.delay)
        with web.lock:  # before the client can know of the answer
            web.busy -= 1
        self._answer()

    do_GET = do_HEAD

    def _answer(self) -> None:
        web, path = self.web, self.path.lstrip("/")
        if web.fault == "drops HEAD" and self.command == "HEAD":
            self.close_connection = True
            return None
        if web.fault == "broken":
            return self._end(500)
        if self.headers.get("Authorization", "") != web.token:
            return self._end(401)
        if path.endswith("/") or not path:
            return self._end(200, self._listing(path), {"Content-Type": "text/html"})
        data = web.files.get(path)
        if data is None and any(name.startswith(path + "/") for name in web.files):
            return self._end(301, b"", {"Location": f"/{path}/"})
        if data is None:
            return self._end(404)
        etag = {"ETag": tag_of(data)} if web.versions else {}
        if etag and self.headers.get("If-Match", etag["ETag"]) != etag["ETag"]:
            return self._end(412)
        asked = re.fullmatch(r"bytes=(\d*)-(\d+)", self.headers.get("Range") or "")
        if asked is not None and not asked[1] and web.fault == "no ends":
            return self._end(501)
        if asked is None or web.fault in ("no ranges", "says no ranges", "no length"):
            return self._end(200, data, etag)
        if asked[1]:
            start, end = int(asked[1]), min(int(asked[2]) + 1, len(data))
        else:
            start, end = max(len(data) - int(asked[2]), 0), len(data)
        if web.fault == "shifted" and start:
            start, end = start - 8, end - 8
        part = data[start : end - 3] if web.fault == "short" and start else data[start:end]
        place = f"bytes {start}-{start + len(part) - 1}/{len(data)}"
        return self._end(206, part, {"Content-Range": place, **etag}, (start, end))

    def _listing(self, path: str) -> bytes:
        below = {name[len(path) :].split("/")[0] for name in self.web.files if name.startswith(path)}
        names = {name if path + name in self.web.files else name + "/" for name in below}
        return "".join(f'<a href="/{path}{name}">{name}</a>\n' for name in sorted(names)).encode()

    def _end(
        self, status: int, data: bytes = b"", headers: Mapping[str, str] = {}, part: tuple[int, int] | None = None
    ) -> None:
        self.send_response(status)
        if self.web.fault == "no length" and data:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(data)))
        for name, value in {"Content-Type": "application/octet-stream", **headers}.items():
            self.send_header(name, value)
        if self.web.coding is not None:
            self.send_header("Content-Encoding", self.web.coding)
        if self.web.fault == "says no ranges":
            self.send_header("Accept-Ranges", "none")
        self.end_headers()
        cut = self.web.fault == "cut" and len(data) > 100
        sent = data[: len(data) // 2] if cut else data
        if self.command == "HEAD":
            sent = b""
        self.web.log.append(Request(self.command, self.path.lstrip("/"), part, len(sent)))
        try:
            self.wfile.write(sent)
        except OSError:
            self.close_connection = True  # the client closed before it had all
        if cut:
            self.close_connection = True


class Web:
    """A server on a free port of this machine."""

    handler: type[BaseHTTPRequestHandler] = _Handler

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files  # path without the leading slash -> bytes; paths that end in a slash are directories
        self.log: list[Request] = []  # the requests so far
        self.token = ""  # what the header Authorization must hold
        self.coding: str | None = None  # the Content-Encoding that answers claim; nothing is done to their bytes
        self.versions = True  # whether answers have an ETag, and ``If-Match`` is heeded
        self.delay = 0.0  # seconds before an answer
        self.busy = self.most_busy = 0  # requests that are answered at the same time
        self.keeps_connections = True  # whether a connection waits for a next request, as clients keep them
        self.lock = threading.Lock()
        # How it misbehaves: "no ranges", "says no ranges", "cut" (an answer ends before its Content-Length), "short" (a
        # range is answered with less), "no length" (neither ranges nor a Content-Length), "drops HEAD" (it hangs up),
        # "broken" (status 500), "no ends" (of ranges that count from the end, status 501), "shifted" (another range).
        self.fault = ""
        self._server = _Server(("127.0.0.1", 0), type("Handler", (self.handler,), {"web": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/{path}"

    @property
    def port(self) -> int:
        return self._server.server_port

    def gets(self) -> list[Request]:
        return [request for request in self.log if request.method == "GET"]

    def sent(self) -> int:
        return sum(request.sent for request in self.log)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
