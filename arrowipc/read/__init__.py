"""From bytes to record batches, without deciding where the bytes come from.

``framing`` cuts messages (``file_signatures`` names what is no Arrow data); ``batch_decoder`` walks a
message into columns, with ``decompress`` (or ``inflate``, in loops without Python) for compressed bodies
and ``validate`` for what buffers say; ``stream_decoder`` and ``file_decoder`` keep the order of messages
and the dictionaries. Bytes come through ``file_objects``, or through ``remote`` (any fsspec file system)
and ``http``, which ``replaced`` watches.

Imports ``inline``, the base, ``metadata``, ``columns``.
"""
