"""Exactly some rows of columns; see ``columns/truncate.pyx``."""

from arrowipc.columns.record_batch import RecordBatch

def compact(batch: RecordBatch, *, view_waste: float = 2.0, largest_buffer: int = ...) -> RecordBatch: ...
