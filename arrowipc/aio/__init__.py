"""Streams and files in an event loop: asyncio's streams, HTTP bodies and object stores.

``off_loop`` decides what the loop's thread does and what another one; ``chunks`` is where bytes come from;
``streams``, ``files`` and ``writers`` turn the decoders and the writer that everybody uses.

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
