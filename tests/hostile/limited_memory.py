"""Reads hostile files in a process of its own, under a memory limit, and reports one JSON line per reading.

Run as ``python -m hostile.limited_memory LEVEL LIMIT_MIB FILE...``; the line printed *before* a reading names it,
so that the parent knows what ended the process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers import drive
from helpers.memory import addressed

import arrowipc as ipc


def messages(data: bytes, validate: str) -> None:
    """Every message there is, as a MessageReader gives it."""
    for message in ipc.MessageReader(data):
        (
            repr(message),
            message.kind,
            message.custom_metadata,
            bytes(message.metadata[:8]),
            bytes(message.body[:8]),
        )


def values(driver: drive.Driver) -> Callable[..., None]:
    def read(data: bytes, validate: str) -> None:
        for batch in driver(data, validate=validate).batches:
            drive.use(batch, export=validate != "none")

    return read


READERS: dict[str, Callable[..., None]] = {
    "open_stream": values(drive.from_bytes),
    "open_stream of an object": values(drive.from_short_reads),
    "open_file": values(drive.from_file),
    "StreamDecoder": values(drive.pushed_in_bits),
    "stream inside the file": lambda data, validate: values(drive.from_bytes)(data[8:], validate),
    "MessageReader": messages,
}


def attempt(read: Callable[..., None], data: bytes, level: str) -> dict[str, Any]:
    start = time.process_time()
    try:
        read(data, validate=level)
        result = "values"
    except ipc.ArrowIpcError as error:
        result = "refused" if str(error).strip() else "an error without words"
    except BaseException as error:
        result = f"{type(error).__name__}: {error}"
    return {"result": result, "seconds": round(time.process_time() - start, 3)}


def warm_up() -> None:
    """Loads what the first reading would load, so that the limit counts the reading alone."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    for codec in (None, "lz4", "zstd"):
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            writer.write_table(table)
        READERS["open_stream"](sink.getvalue().to_pybytes(), "full")
        sink = pa.BufferOutputStream()


def limit_memory(mib: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (addressed() + (mib << 20), resource.RLIM_INFINITY))


def main(level: str, mib: str, *paths: str) -> None:
    warm_up()
    if int(mib):
        limit_memory(int(mib))
    for path in paths:
        data = Path(path).read_bytes()
        for name, read in READERS.items():
            print(json.dumps({"start": f"{Path(path).name} by {name} at {level}"}), flush=True)
            print(json.dumps(attempt(read, data, level)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
