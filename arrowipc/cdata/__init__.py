"""The Arrow C data, stream and device interfaces, both ways.

``export`` hands out schemas, arrays, batches and streams; ``import_array`` takes them, with
``import_schema`` for schemas (in ``format_strings``) and ``import_table`` for tables that come column by
column.

Imports ``inline``, the base, ``metadata``, ``columns``, ``read``.
"""
