"""From record batches to bytes: which rows and dictionaries are written, in which messages, to which target.

``batches`` finds schema and batches in an argument, ``targets`` opens a target (``atomic_file`` makes a file visible
when it is complete). ``batch_writer`` decides the order of messages and has the sinks that take them.
``dictionary_writer`` decides which dictionaries a batch needs, ``batch_encoder`` encodes a RecordBatch message and
compresses its body.

Imports ``inline``, the base, ``metadata``, ``columns``, ``decode``, ``cdata``, ``values``.
"""
