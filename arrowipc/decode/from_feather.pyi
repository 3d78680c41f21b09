"""The columns of a Feather V1 file as a record batch; see ``from_feather.pyx``."""

from arrowipc._core import ReadableBuffer
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.limits import Limits

def batch_of(data: ReadableBuffer, limits: Limits) -> RecordBatch: ...
