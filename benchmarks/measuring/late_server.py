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

    def do_GET(self) -> None:
        """Send a range of a file; of HEAD only what stands before it."""
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
            if self.command != "HEAD":
                with self.lock:
                    Files.sent += stop - start
                while start < stop and (
                    done := os.sendfile(self.connection.fileno(), file.fileno(), start, stop - start)
                ):
                    start += done

    do_HEAD = do_GET


class Threads(http.server.ThreadingHTTPServer):
    """As many connections as come."""

    request_queue_size = 128


class Server:
    """Serves a folder from another process, late, and counts the bytes of its answers."""

    def __init__(self, folder: str, late: float) -> None:
        command, pipe = [sys.executable, __file__, folder, str(late)], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> Server:
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"
        return self

    def __exit__(self, *_: object) -> None:
        with self.process as process:
            process.terminate()

    def sent(self, run: Callable[[], Any]) -> int:
        """Return the bytes that are sent for one run."""
        counts = []
        for action in (lambda: None, run):
            action()
            print(file=self.process.stdin, flush=True)
            counts.append(int(self.process.stdout.readline()))
        return counts[1] - counts[0]


if __name__ == "__main__":
    Files.folder, Files.late = sys.argv[1], float(sys.argv[2])
    server = Threads(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    for _ in sys.stdin:
        print(Files.sent, flush=True)
