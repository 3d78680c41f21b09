"""From bytes to record batches, wherever the bytes come from.

``files`` finds the files of paths, folders and patterns; ``sources`` turns what callers name into memory or a file
object (``file_objects``, which also notice another version, ``remote`` with any fsspec file system, ``http``).
``framing`` cuts messages out of chunks, ``message_index`` finds them in a whole. ``decoders`` makes batches and keeps
the dictionaries of one schema, for ``stream_decoder`` and ``file_decoder``; ``decoding`` is what every batch goes
through, with ``decompress`` for compressed bodies and ``validate`` for what buffers say. ``row_reader`` takes rows by
number, of batches that are loaded when they are needed. ``file_statistics`` reads what footers and metadata say about
batches.

Imports ``inline``, the base, ``metadata``, ``columns``.
"""
