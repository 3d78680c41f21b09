"""The Arrow C data, stream and device interfaces, both ways.

``export`` hands out schemas, arrays, batches and streams, ``import_array`` takes them, ``import_table`` takes
tables that come column by column; ``format_strings`` has the types in the words of the interface.

Imports ``inline``, the base, ``metadata``, ``columns``, ``decode``.
"""
