"""The page of `browse`, live: a server of this machine alone, for who knows the token in its address."""

from __future__ import annotations

import hmac
import re
import secrets
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import click

from arrowipc.cli.browse_page import PARTS, Browsed, page_of
from arrowipc.cli.terminal import json_text, say_line

__all__ = ["served"]

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def served(found: Browsed, open_browser: bool) -> None:
    """Serve the page until somebody interrupts."""
    token = secrets.token_urlsafe(24)
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(found, token)) as server:
        server.daemon_threads = True
        address = f"http://127.0.0.1:{server.server_port}/{token}/"
        say_line(address, bold=True)
        say_line("Ctrl-C ends it", dim=True)
        sys.stdout.flush()
        if open_browser:
            click.launch(address)
        server.serve_forever(0.2)


def _handler(found: Browsed, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers with the page, or a part of what it shows."""

        server: ThreadingHTTPServer
        timeout = 30

        def do_GET(self) -> None:
            """Answer, or refuse: another host in the request is a page elsewhere whose name leads here."""
            url = urlsplit(self.path)
            before, word, name = [*url.path.split("/"), "", ""][:3]
            here = self.headers.get("Host", "") in {f"{host}:{self.server.server_port}" for host in HOSTS}
            if before or not here or not hmac.compare_digest(word.encode(), token.encode()):
                self.answer(404, "text/plain", "there is nothing here")
            elif not name:
                self.answer(200, "text/html", page_of({**found.first_screen(), "live": True}))
            elif name not in PARTS:
                self.answer(404, "text/plain", "there is no such part")
            else:
                given = dict(parse_qsl(url.query))
                said = {key: given[key] for key in PARTS[name] if key in given}
                chosen = {key: int(text) for key, text in said.items() if re.fullmatch("[0-9]{1,18}", text)}
                self.answer(200, "application/json", json_text(found.tried(getattr(found, name), **chosen)))

        def answer(self, code: int, kind: str, text: str) -> None:
            """Send a text."""
            data = text.encode()
            self.send_response(code)
            for name, value in {**HEADERS, "Content-Type": f"{kind}; charset=utf-8"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Say nothing: the terminal belongs to the command."""

    return Handler


HOSTS = ("127.0.0.1", "localhost")
