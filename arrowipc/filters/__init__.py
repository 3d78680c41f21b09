"""Statistics of columns, conditions about their values, and the rows that pass them.

``column_statistics`` measures the values of columns; ``statistics`` writes and reads the form that files store.
``literals`` turns comparisons into ranges of keys; ``pruning`` reads a filter and decides by statistics which batches
it rules out; ``row_filters`` finds the rows that pass, by ``ranges``, which finds the elements in such ranges.

Imports ``inline``, the base, ``columns``.
"""
