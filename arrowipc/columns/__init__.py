"""Columns and operations on them: the only representation of data between reading and writing.

``record_batch`` has `RecordBatch`, ``array`` `Array`, ``tabular`` what batches and tables share; ``elements`` reads
one value, ``extensions`` converts values of extension types. ``builder`` appends rows, ``take`` repeats and rearranges
them, ``truncate`` makes buffers of exactly the rows that are written; ``equal`` compares.

Imports ``inline``, the base, ``metadata``.
"""
