"""From bytes to record batches, wherever the bytes come from.

``files`` finds the files of paths, folders and patterns; ``sources`` turns what callers name into memory or a file
object (``file_objects``, ``remote`` with any fsspec file system, ``http``; ``replaced`` notices another version;
``file_signatures`` names what is no Arrow data).
``framing`` cuts messages; ``decoders`` walks them into columns, in the order of streams or of files, with
``decompress`` for compressed bodies and ``validate`` for what buffers say. ``row_reader`` takes rows by number, of
batches that are loaded when they are needed. ``file_statistics`` reads what footers and metadata say about batches.

Imports ``inline``, the base, ``metadata``, ``columns``.
"""
