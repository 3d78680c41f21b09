"""The Arrow C data, stream and device interfaces, both ways.

``export`` exports schemas, arrays, batches and streams, ``import_array`` imports them, ``import_table`` imports
tables column by column; ``format_strings`` converts types to and from the interface's format strings.

Imports ``inline``, the base, ``metadata``, ``columns``, ``decode``.
"""
