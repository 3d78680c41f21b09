"""Conditions about the values of columns, and what passes them.

``literals`` turns comparisons into ranges of keys; ``pruning`` reads a filter and decides by statistics which batches
it rules out; ``row_filters`` finds the rows that pass, by ``ranges``, which finds the elements in such ranges.

Imports ``inline``, the base, ``columns``.
"""
