"""From bytes to record batches, wherever the bytes come from.

``files`` finds the files of paths, folders and patterns; ``sources`` opens a source as memory or a file
object (``file_objects``, which also notice another version, ``remote`` with any fsspec file system, ``http``).
``framing`` cuts messages out of chunks, ``message_index`` finds them in a whole. ``decoders`` makes batches and keeps
the dictionaries of one schema, for ``stream_decoder`` and ``file_decoder``; ``decoding`` decodes every batch,
with ``decompress`` for compressed bodies and ``validate`` for the contents of buffers. ``row_reader`` takes rows by
number and loads batches when they are needed. ``file_statistics`` reads the statistics in footers and metadata.

Imports ``inline``, the base, ``metadata``, ``columns``.
"""
