"""A real browser, driven over its debugging protocol: pages of any width in light and dark, clicks, keys, pictures."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Browser:
    """One page of a headless Chromium."""

    def __init__(self, loop: asyncio.AbstractEventLoop, socket: Any) -> None:
        self._loop, self._socket, self._number = loop, socket, 0

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._loop.run_until_complete(self._sent(method, parameters))

    async def _sent(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            found = await asyncio.wait_for(self._socket.receive_json(), 60)
            if found.get("id") == self._number:
                assert "error" not in found, found
                return found["result"]

    def look(self, width: int = 1280, height: int = 800, scheme: str = "light") -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str) -> None:
        self.send("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, condition: str) -> None:
        end = time.monotonic() + 30
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, condition
            time.sleep(0.02)

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, **(text if kind == "keyDown" else {}))

    def picture(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser whose profile lies in a folder."""
    import aiohttp

    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += ["--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"]
    loop = asyncio.new_event_loop()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            said, end = folder / "DevToolsActivePort", time.monotonic() + 60
            while not (said.is_file() and said.read_text().count("\n")):
                assert time.monotonic() < end
                time.sleep(0.05)
            port = said.read_text().split("\n")[0]

            async def opened() -> tuple[Any, Any]:
                session = aiohttp.ClientSession()
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    pages = [each for each in await answer.json() if each["type"] == "page"]
                return session, await session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)

            session, socket = loop.run_until_complete(opened())
            yield Browser(loop, socket)
            loop.run_until_complete(socket.close())
            loop.run_until_complete(session.close())
        finally:
            process.terminate()
            process.wait(30)
            loop.close()
