"""Runs of rows with equal keys, and some columns of a batch as a batch; see ``_runs.pyx``."""

from collections.abc import Sequence

from arrowipc._array import RecordBatch

def runs_of(batch: RecordBatch, columns: Sequence[int]) -> tuple[list[int], RecordBatch]: ...
