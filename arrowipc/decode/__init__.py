"""From bytes to record batches.

``framing`` cuts messages out of chunks, ``message_index`` finds them in whole inputs. ``decoders`` decodes every
batch, with ``decompress`` for compressed bodies and ``validate`` for the contents of buffers, and keeps the
dictionaries of one schema, for ``stream_decoder`` and ``file_decoder``. ``from_buffers`` makes batches of buffers that
a caller gives, by the same steps, and ``from_feather`` reads Feather V1 files.

Imports ``inline``, the base, ``metadata``, ``columns``.
"""
