"""From record batches to bytes: what of a batch goes out, in which messages, and where to.

``batches`` finds schema and batches in what callers hand in, ``targets`` opens what they name (``atomic_file``
shows a file when it is whole). ``batch_writer`` decides the order of messages and has the sinks that take them;
``dictionary_writer`` says which dictionaries a batch needs, ``batch_encoder`` lays out a RecordBatch message and
compresses its body. ``file_statistics`` is what a footer says about all batches.

Imports ``inline``, the base, ``metadata``, ``columns``, ``read``, ``cdata``, ``values``.
"""
