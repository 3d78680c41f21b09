"""From record batches to bytes: what of a batch goes out, in which messages, and where to.

``batch_writer`` decides the order; ``dictionary_writer`` says which dictionaries a batch needs,
``batch_encoder`` lays out a RecordBatch message (``compress`` its body), ``sinks`` take the parts,
``atomic_file`` shows a file when it is whole.

Imports ``inline``, the base, ``metadata``, ``columns``, ``read``, ``cdata``, ``values``.
"""
