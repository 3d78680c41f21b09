"""Schemas: from FlatBuffers to a `Plan`, to Python's `Schema`, and back.

A Schema message goes through ``schema_reader``, which flattens it into a `Plan` and makes the Python
objects when somebody asks; ``schema_equality`` says whether two plans mean the same. Outwards
``flatbuffer_builder`` lays out tables, ``schema_tables`` writes schemas and message headers with it,
``schema_writer`` is what callers use.

Imports ``inline`` and the base (``_core``, ``errors``, ``limits``, ``datatypes``, ``schema``).
"""
