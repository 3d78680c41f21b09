"""Runs of rows with equal keys; see ``payloads/group_runs.pyx``."""

from collections.abc import Sequence

from arrowipc.columns.record_batch import RecordBatch

def runs_of(batch: RecordBatch, columns: Sequence[int]) -> tuple[list[int], RecordBatch]: ...
