"""Streams and files in an event loop: read from and written to asyncio's streams, HTTP bodies and object stores.

``off_loop`` decides what the loop's thread does and what another one; ``chunks`` is where bytes come from and go to;
``streams``, ``files`` and ``writers`` turn the decoders and the writer that everybody uses.

Names load when they are first used.

Examples
--------
>>> import asyncio
>>> import arrowipc as ipc
>>> from arrowipc import aio
>>> async def main():
...     batches = [ipc.RecordBatch.from_pydict({"x": [1, 2]}), ipc.RecordBatch.from_pydict({"x": [3]})]
...     return [batch.to_pydict() async for batch in aio.open_stream(aio.encode(batches))]
>>> asyncio.run(main())
[{'x': [1, 2]}, {'x': [3]}]
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HOMES = {
    "AsyncFileReader": "arrowipc.aio.files",
    "AsyncStreamReader": "arrowipc.aio.streams",
    "AsyncStreamWriter": "arrowipc.aio.writers",
    "encode": "arrowipc.aio.writers",
    "new_stream": "arrowipc.aio.writers",
    "open_file": "arrowipc.aio.files",
    "open_stream": "arrowipc.aio.streams",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> "Any":
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'arrowipc.aio' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
