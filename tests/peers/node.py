"""Reads streams and files with Arrow JS, which npm installs: many in one process."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent / "js"

# One attempt within half a minute: where there is no network, a test must not wait for one.
OPTIONS = (
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--prefer-offline",
    "--fetch-retries=0",
    "--fetch-timeout=30000",
)


class Missing(Exception):
    """Arrow JS cannot be run here; the message says why."""


class ArrowJS:
    """Arrow JS, ready to read."""

    def __init__(self, build: Path) -> None:
        node, npm = shutil.which("node"), shutil.which("npm")
        if node is None or npm is None:
            raise Missing("Arrow JS needs node and npm on PATH")
        for source in SOURCES.iterdir():
            shutil.copy(source, build)
        try:
            done = subprocess.run([npm, "install", *OPTIONS], cwd=build, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired as late:
            raise Missing("npm did not install apache-arrow within two minutes") from late
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "error" in line]
            raise Missing(f"npm could not install apache-arrow: {' '.join(said[:3])}")
        self._command = [node, str(build / "read_arrow.js")]

    def read(self, paths: list[Path]) -> list[Any]:
        """Read every path, stream or file; see peers.plain_json for the results.

        What Arrow JS refuses is ``{"error": its words}``.
        """
        command = [*self._command, *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        lines = done.stdout.splitlines()
        assert len(lines) == len(paths), done.stderr[-2000:]
        return [json.loads(line) for line in lines]
