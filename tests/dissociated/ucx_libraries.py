"""The UCX libraries that are found, and processes that use one of them with transports of their choice."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dissociated.lent_memory import process
from helpers import processes


def libraries() -> dict[str, str]:
    """Name -> path (or name for the loader) of every UCX that is found."""
    found = {}
    if processes.run_python("import ctypes; ctypes.CDLL('libucp.so.0')").returncode == 0:
        found["system"] = "libucp.so.0"
    package = importlib.util.find_spec("libucx")
    for directory in (package and package.submodule_search_locations) or ():
        path = Path(directory, "lib/libucp.so.0")
        if path.exists():
            found["wheel"] = str(path)
    return found


LIBRARIES = libraries()


def environment(library: str, transports: str) -> dict[str, str]:
    """What a process needs to use a library with some transports, without UCX's own words on lost peers."""
    of_ucx = {"ARROWIPC_UCX_LIBRARY": LIBRARIES[library], "UCX_TLS": transports, "UCX_LOG_LEVEL": "fatal"}
    return processes.environment() | of_ucx


needs_ucx = pytest.mark.skipif(not LIBRARIES, reason="no libucp.so.0: install libucx0 or libucx-cu12")


def over_ucx(
    function: Callable[..., None],
    *arguments: object,
    library: str | None = None,
    transports: str = "tcp",
    timeout: float = 120,
) -> None:
    """Run a function in a process that uses a library, the first that is found; it must come to its end."""
    used = environment(library or next(iter(LIBRARIES)), transports)
    processes.printed(processes.run_function(function, *arguments, env=used, timeout=timeout))


def peer(role: Callable[..., None], library: str, transports: str, *given: object) -> Any:
    """A process that does what a function of `ucx_peers` does, for as long as it is needed."""
    return process(role, *given, env=environment(library, transports))
