"""Finding and loading of the UCX library, and its contexts: one per process and use."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
from pathlib import Path

from arrowipc.dissociated.transports import ucx_worker
from arrowipc.errors import UnsupportedError

#: Environment variable: the path of the library to use.
LIBRARY = "ARROWIPC_UCX_LIBRARY"
SONAME = "libucp.so.0"
#: Environment variables of UCX, read when the library is loaded, that turn off its signal handlers: UCX 1.13 would
#: handle five of the process's signals, later versions SIGHUP.
NO_SIGNALS = {"UCX_ERROR_SIGNALS": "", "UCX_DEBUG_SIGNO": "0"}
#: Names in ``UCX_TLS``, the list of transports that UCX may use, that allow memory shared by two processes.
SHARED = frozenset({"all", "sm", "shm", "mm", "posix", "sysv", "xpmem"})

_lock = threading.Lock()
_contexts: dict[tuple[bool, bool], ucx_worker.Context] = {}


def load_library() -> tuple[int, int, int]:
    """Load UCX if it is not loaded yet; return its version.

    The places are tried in this order: the path in ``ARROWIPC_UCX_LIBRARY``; a libucp that this process has already
    loaded, because two in one process conflict; the system's search path; the package ``libucx-cu12``.
    """
    with _lock:
        found = ucx_worker.version()
        if found is not None:
            return found
        added = [name for name in NO_SIGNALS if name not in os.environ]
        for name in added:
            os.environ[name] = NO_SIGNALS[name]
        try:
            _load()
        finally:
            for name in added:
                del os.environ[name]
        found = ucx_worker.version()
        assert found is not None
        return found


def _load() -> None:
    if sys.platform != "linux":  # other systems have other formats of addresses and maps
        raise UnsupportedError("UCX is used on Linux only")
    path = os.environ.get(LIBRARY)
    if path:
        if not _take_library(path):
            raise UnsupportedError(f"{LIBRARY} = {path!r} cannot be loaded as a library")
        return
    if _take_library(SONAME, os.RTLD_NOLOAD) or _take_library(SONAME):
        return
    package = importlib.util.find_spec("libucx")
    for directory in (package and package.submodule_search_locations) or ():
        if _take_library(str(Path(directory, "lib", SONAME))):
            return
    raise UnsupportedError(
        "UCX is needed for this, and there is no libucp.so.0: install your system's UCX (libucx0, ucx) or "
        f"python -m pip install libucx-cu12, or name the library in {LIBRARY}"
    )


def _take_library(path: str, mode: int = 0) -> bool:
    """Use a library; return False if it cannot be loaded, or, with RTLD_NOLOAD, is not loaded yet."""
    try:
        library = ctypes.CDLL(path, mode)
    except OSError:
        return False
    addresses = []
    for name in ucx_worker.FUNCTIONS:
        if not hasattr(library, name):
            raise UnsupportedError(f"{path} has no {name}: UCX 1.13 or newer is needed")
        addresses.append(ctypes.cast(library[name], ctypes.c_void_p).value or 0)
    ucx_worker.take_functions(addresses)
    return True


def context(remote_memory: bool, is_v6: bool) -> ucx_worker.Context:
    """Return the context of this process for connections over IPv6, or IPv4; `remote_memory`: see `Context`."""
    load_library()
    with _lock:
        for other in _contexts.values():
            other.check()
        key = (remote_memory, is_v6)
        if key not in _contexts:
            _contexts[key] = ucx_worker.Context(_settings(is_v6), remote_memory)
        return _contexts[key]


def _settings(is_v6: bool) -> dict[str, str]:
    settings = {}
    names = os.environ.get("UCX_TLS", "all").removeprefix("^").split(",")
    if os.environ.get("UCX_TLS", "^").startswith("^") or not SHARED.isdisjoint(names):
        # Otherwise connections in mode "peer" would not use shared memory. (UCX warns if it may not use any.)
        settings["MM_ERROR_HANDLING"] = "y"
    if is_v6:
        settings["AF_PRIO"] = "inet6"
    return settings
