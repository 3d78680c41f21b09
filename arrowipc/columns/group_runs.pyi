"""Runs of rows with equal keys; see ``columns/group_runs.pyx``."""

from collections.abc import Sequence

from arrowipc.columns.array import RecordBatch

def runs_of(batch: RecordBatch, columns: Sequence[int]) -> tuple[list[int], RecordBatch]: ...
