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
