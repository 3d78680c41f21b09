"""Schemas: from FlatBuffers to a `Plan`, to Python's `Schema`, and back.

A Schema message goes through ``schema_reader``, which flattens it into a `Plan`, recognises schemas that were read
before, and makes the Python objects on first use. ``schema_tables`` writes FlatBuffers.
``tensor_parameters`` reads what a field's metadata says of its tensors.
``file_signatures`` recognises other formats by their first bytes. ``checksums`` are entries of custom metadata.

Imports ``inline`` and the base.
"""
