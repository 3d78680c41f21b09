"""Columns and operations on them: the only representation of data between reading and writing.

``record_batch`` has `RecordBatch`, ``array`` has `Array`; ``tabular`` has the methods that batches and tables share,
``column`` those of arrays and chunked arrays. ``elements`` makes Python values of columns, ``extensions`` converts
values of extension types. ``builder`` appends rows, ``take`` repeats and rearranges them, ``truncate`` makes buffers
of exactly the rows that are written; ``equal`` compares columns.

Imports ``inline``, the base, ``metadata``.
"""
