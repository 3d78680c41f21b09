"""A server of files whose answers come late, as a script: it prints its port, and the bytes sent so far for every line.

Its arguments are the folder, and the seconds before an answer.
"""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any


class Files(http.server.BaseHTTPRequestHandler):
    """Answers requests for ranges of files."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    folder: str
    late: float
    sent = 0
    lock = threading.Lock()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Answer without a body."""
        self.answer(False)

    def do_GET(self) -> None:
        """Answer with a body."""
        self.answer(True)

    def answer(self, body: bool) -> None:
        """Send a range of a file."""
        time.sleep(self.late)
        with open(self.folder + self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            asked = self.headers.get("Range")
            first, last = asked[len("bytes=") :].split("-") if asked else ("0", "")
            start = int(first) if first else max(size - int(last), 0)
            stop = min(int(last) + 1, size) if first and last else size
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
            self.send_header("Content-Length", str(stop - start))
            self.send_header("Accept-Ranges", "bytes")
            self.end_headers()
            self.wfile.flush()
            if body:
                with self.lock:
                    Files.sent += stop - start
                while start < stop and (
                    done := os.sendfile(self.connection.fileno(), file.fileno(), start, stop - start)
                ):
                    start += done


class Threads(http.server.ThreadingHTTPServer):
    """As many connections as come."""

    request_queue_size = 128


class Server:
    """Serves a folder from another process, late, and counts the bytes of its answers."""

    def __init__(self, folder: str, late: float) -> None:
        command = [sys.executable, __file__, folder, str(late)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Server:
        self.url = f"http://127.0.0.1:{self._answer()}"
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            process.terminate()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def sent(self, run: Callable[[], Any]) -> int:
        """Return the bytes that are sent for one run."""
        assert self._process.stdin is not None
        counts = []
        for action in (lambda: None, run):
            action()
            print(file=self._process.stdin, flush=True)
            counts.append(self._answer())
        return counts[1] - counts[0]


if __name__ == "__main__":
    Files.folder, Files.late = sys.argv[1], float(sys.argv[2])
    server = Threads(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    for _ in sys.stdin:
        print(Files.sent, flush=True)
