"""Columns and operations on them: the only representation of data between reading and writing.

``array`` has `RecordBatch` and `Array`; ``elements`` reads one value, ``extensions`` (and ``variant``) convert
values of extension types. ``builder`` appends rows and joins batches, ``take`` repeats and rearranges rows,
``truncate`` makes buffers of exactly the rows that are written; ``equal`` and ``group_runs`` compare;
``memo_table`` numbers distinct values, ``unifier`` makes one dictionary of many; ``column_statistics`` measures, for
``statistics``.

Imports ``inline``, the base, ``metadata``.
"""
