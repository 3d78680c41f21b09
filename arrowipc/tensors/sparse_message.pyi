"""SparseTensor messages opened; see ``tensors/sparse_message.pyx``."""

from typing import Any, Literal

from arrowipc.datatypes import DataType
from arrowipc.limits import Limits
from arrowipc.read.framing import Message
from arrowipc.tensors.sparse_convert import Indices, Values

def open_sparse(
    message: Message, limits: Limits | None = None
) -> tuple[
    Literal["COO", "CSR", "CSC", "CSF"],
    bool,
    tuple[Indices, ...],
    tuple[Any, ...],
    tuple[int, ...],
    Values,
    tuple[int, ...],
    tuple[str, ...] | None,
    DataType,
]: ...
