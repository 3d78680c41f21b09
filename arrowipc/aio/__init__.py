"""Streams and files in an event loop: asyncio's streams, HTTP bodies and object stores.

``off_loop`` runs long work in other threads; ``chunks`` reads bytes from sources; ``streams``, ``files`` and
``writers`` drive the same decoders and writer as the blocking functions.

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

from arrowipc import arguments
from arrowipc.aio.files import AsyncFileReader, open_file
from arrowipc.aio.streams import AsyncStreamReader, open_stream
from arrowipc.aio.writers import AsyncFileWriter, encode, new_file

__all__ = [
    "AsyncFileReader",
    "AsyncFileWriter",
    "AsyncStreamReader",
    "encode",
    "new_file",
    "open_file",
    "open_stream",
]

#: What there is for an event loop -> names of blocking functions.
_INSTEAD = arguments.by_name(
    {
        "arrowipc.dissociated.connect in asyncio.to_thread": "connect",
        "asyncio.to_thread calls that of arrowipc": "copy open_dataset validate",
        "encode(data) gives the bytes of a stream, piece by piece": "new_stream write write_stream",
        "open_file(url) and open_stream(chunks); await reader.read_all()": "open read read_all",
        "open_stream(chunks), or arrowipc.StreamDecoder without a loop": "decode",
    }
)


def __getattr__(name: str) -> object:
    import sys

    raise arguments.missing(f"module {__name__!r}", name, sys.modules[__name__], _INSTEAD)
