"""Export to other libraries through the Arrow C data, stream and device interfaces; see ``export.pyx``."""

from collections.abc import Iterable
from typing import Any

from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import BatchProducer, RecordBatch
from arrowipc.datatypes import DataType, Field
from arrowipc.schemas import Schema

# PyCapsules have no type that annotations can name before typing.CapsuleType of Python 3.13.
def export_schema(schema: Schema | Field | DataType) -> Any: ...
def export_stream(
    schema: Schema | Field,
    source: BatchProducer | Iterable[RecordBatch] | Iterable[Array],
    requested_schema: object = None,
) -> Any: ...
def export_device_stream(
    schema: Schema | Field,
    source: BatchProducer | Iterable[RecordBatch] | Iterable[Array],
    requested_schema: object = None,
    **kwargs: object,
) -> Any: ...
