"""Columns and what is done to them: the one representation of data between reading and writing.

``array`` has `RecordBatch` and `Array`, ``elements`` reads one value, ``from_buffers`` makes columns of
buffers. ``builder`` is where values are appended, ``concat`` joins, ``take`` repeats and rearranges,
``truncate`` makes buffers of exactly the rows that go out; ``equal`` and ``group_runs`` compare;
``memo_table`` numbers distinct values, ``dictionary_gc`` keeps the dictionary values that are used;
``column_statistics`` measures, for ``statistics``.

Imports ``inline``, the base, ``metadata``.
"""
