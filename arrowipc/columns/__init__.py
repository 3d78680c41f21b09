"""Columns and what is done to them: the one representation of data between reading and writing.

``array`` has `RecordBatch` and `Array`; ``elements`` reads one value, ``extensions`` (and ``variant``) know what
values of extension types mean. ``builder`` is where rows are appended and batches joined, ``take`` repeats and
rearranges rows, ``truncate`` makes buffers of exactly the rows that go out; ``equal`` and ``group_runs`` compare;
``memo_table`` numbers distinct values, ``unifier`` makes one dictionary of many; ``column_statistics`` measures, for
``statistics``, by which ``pruning`` says what a filter needs.

Imports ``inline``, the base, ``metadata``.
"""
