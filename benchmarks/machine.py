"""What the numbers depend on besides the code: versions, the processor, and how much of it is free."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import platform
import threading
import time
from typing import Any

#: The packages whose versions a result names.
PACKAGES = (
    "arrowipc",
    "pyarrow",
    "nanoarrow",
    "polars",
    "arro3-core",
    "arro3-io",
    "numpy",
    "zstandard",
    "backports.zstd",
    "lz4",
    "datasets",
    "torch",
)

#: The goals are set for a machine of so many processors. With more, libraries would use as many threads as
#: each thinks right: some can be told otherwise, some cannot.
PROCESSORS = 2


def confine() -> None:
    """Let this process, and its children, use `PROCESSORS` processors; before a library is imported."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])


def version(package: str) -> str | None:
    """Return the version of a package; of the checkout when ours is used without being installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        if package != "arrowipc":
            return None
        return str(importlib.import_module("arrowipc").__version__)


def cpu_name() -> str:
    """Return what the processor calls itself."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_cores(wanted: int, seconds: float = 0.15) -> float:
    """Return how many processors `wanted` busy threads get right now, from 0 to `wanted`.

    Where others keep a processor busy, two threads take as long as one, for every library: such a case would
    compare the libraries on one thread under the name of two.
    """
    block = bytes(1 << 18)

    def work(until: float) -> None:
        while time.perf_counter() < until:
            hashlib.sha256(block)  # lets go of the GIL

    start, used = time.perf_counter(), time.process_time()
    helpers = [threading.Thread(target=work, args=(start + seconds,)) for _ in range(wanted)]
    for helper in helpers:
        helper.start()
    for helper in helpers:
        helper.join()
    return (time.process_time() - used) / (time.perf_counter() - start)


def environment() -> dict[str, Any]:
    """Return what the numbers depend on besides the code."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_name(),
        "cores": cores(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "versions": {package: found for package in PACKAGES if (found := version(package)) is not None},
    }
