"""Conditions about the values of columns, and what passes them.

``pruning`` reads a filter and decides by statistics which batches it rules out; ``row_filters`` turns its conditions
into ranges of values; ``ranges`` finds the elements of a column that lie in them.

Imports ``inline``, the base, ``columns``.
"""
