"""What `__getattr__` of the package gives, for editors and type checkers: a law compares it with the table there."""

from arrowipc import (
    aio as aio,
    dissociated as dissociated,
    errors as errors,
    events as events,
    spark as spark,
    types as types,
)
from arrowipc._core import release_unused as release_unused
from arrowipc.arguments import KeyValueMetadata as KeyValueMetadata
from arrowipc.columns.array import Array as Array
from arrowipc.columns.record_batch import RecordBatch as RecordBatch, concat_batches as concat_batches
from arrowipc.decode.framing import Message as Message
from arrowipc.decode.stream_decoder import StreamDecoder as StreamDecoder
from arrowipc.errors import (
    ArrowIpcError as ArrowIpcError,
    FormatError as FormatError,
    LimitError as LimitError,
    NotFoundError as NotFoundError,
    TruncatedError as TruncatedError,
    UnsupportedError as UnsupportedError,
    UsageError as UsageError,
)
from arrowipc.filters.statistics import (
    ColumnStatistics as ColumnStatistics,
    compute_statistics as compute_statistics,
)
from arrowipc.inspection.damage import Damage as Damage, Recovery as Recovery
from arrowipc.inspection.recover import recover as recover
from arrowipc.inspection.validate_source import Validation as Validation, validate as validate
from arrowipc.limits import Limits as Limits
from arrowipc.multifile.dataset import Dataset as Dataset, open_dataset as open_dataset
from arrowipc.multifile.row_stream import RowStream as RowStream
from arrowipc.multifile.rows import RowDataset as RowDataset
from arrowipc.multifile.scan import scan_polars as scan_polars
from arrowipc.opening import (
    MessageReader as MessageReader,
    open as open,
    open_file as open_file,
    read as read,
    read_message as read_message,
    read_record_batch as read_record_batch,
    read_schema as read_schema,
)
from arrowipc.payloads.payload_decoder import (
    DecodedPayloads as DecodedPayloads,
    decode_payloads as decode_payloads,
    repeat as repeat,
)
from arrowipc.payloads.payload_encoder import GroupedPayloads as GroupedPayloads, encode_payloads as encode_payloads
from arrowipc.reader import (
    RecordBatchFileReader as RecordBatchFileReader,
    RecordBatchStreamReader as RecordBatchStreamReader,
    open_stream as open_stream,
)
from arrowipc.schemas import Schema as Schema
from arrowipc.sources.file_statistics import file_statistics as file_statistics
from arrowipc.sources.remote import RemoteSource as RemoteSource
from arrowipc.stream_readers import IndexedStreamReader as IndexedStreamReader
from arrowipc.tables import (
    ChunkedArray as ChunkedArray,
    Table as Table,
    array as array,
    chunked_array as chunked_array,
    concat_tables as concat_tables,
    record_batch as record_batch,
    table as table,
)
from arrowipc.tensors.dense import Tensor as Tensor
from arrowipc.tensors.dense_io import (
    get_tensor_size as get_tensor_size,
    read_tensor as read_tensor,
    read_tensors as read_tensors,
    write_tensor as write_tensor,
)
from arrowipc.tensors.extension_columns import (
    fixed_shape_tensor as fixed_shape_tensor,
    tensor_column as tensor_column,
    tensor_parameters as tensor_parameters,
    variable_shape_tensor as variable_shape_tensor,
)
from arrowipc.tensors.sparse_io import (
    read_sparse_tensor as read_sparse_tensor,
    write_sparse_tensor as write_sparse_tensor,
)
from arrowipc.tensors.sparse_tensor import (
    SparseCOOTensor as SparseCOOTensor,
    SparseCSCMatrix as SparseCSCMatrix,
    SparseCSFTensor as SparseCSFTensor,
    SparseCSRMatrix as SparseCSRMatrix,
)
from arrowipc.types import *  # noqa: F403
from arrowipc.types import DataType as DataType, Field as Field, field as field, schema as schema
from arrowipc.writer import (
    RecordBatchFileWriter as RecordBatchFileWriter,
    RecordBatchStreamWriter as RecordBatchStreamWriter,
    copy as copy,
    get_record_batch_size as get_record_batch_size,
    new_file as new_file,
    new_stream as new_stream,
    write as write,
)

__version__: str
