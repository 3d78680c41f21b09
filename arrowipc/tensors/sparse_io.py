"""Reading and writing sparse tensors."""

from __future__ import annotations

import numpy as np

from arrowipc._core import Recent
from arrowipc.arguments import check_choice
from arrowipc.errors import FormatError, UsageError
from arrowipc.metadata.schema_tables import encapsulate, write_sparse_tensor_message
from arrowipc.tensors.message import stored_length
from arrowipc.tensors.message_io import read_framed, write_framed
from arrowipc.tensors.sparse_convert import Index
from arrowipc.tensors.sparse_message import open_sparse
from arrowipc.tensors.sparse_tensor import LAYOUTS, SparseTensor, from_any
from arrowipc.types import Int
from arrowipc.values.dtypes import dtype_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from arrowipc.decode.framing import Message
    from arrowipc.limits import Limits
    from arrowipc.tensors.sparse_convert import Values
    from arrowipc.tensors.sparse_tensor import Validate

# Reading.


def read_sparse_tensor(source: Any, *, validate: Validate = "full", limits: Limits | None = None) -> SparseTensor:
    """Read one sparse tensor.

    Parameters
    ----------
    source, limits
        As for `read_tensor`.
    validate : {"full", "none", "strict"}
        "full" checks every index. "none" checks them at their first use. "strict" also refuses a COO index that claims
        to be sorted and unique and is not, and compressed indices that are not sorted and unique.

    Returns
    -------
    SparseCOOTensor, SparseCSRMatrix, SparseCSCMatrix or SparseCSFTensor

    Raises
    ------
    FormatError, UnsupportedError, OSError
        As by `read_tensor`.

    Examples
    --------
    >>> import numpy as np
    >>> import arrowipc as ipc
    >>> sink = bytearray()
    >>> size = ipc.write_sparse_tensor(ipc.SparseCOOTensor.from_dense(np.eye(2)), sink)
    >>> ipc.read_sparse_tensor(sink).to_dense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return tensor_of(read_framed(source, limits), limits, validate)


def tensor_of(message: Message, limits: Limits | None = None, validate: Validate = "full") -> SparseTensor:
    """Return the tensor of a "SparseTensor" message; parameters are those of `read_sparse_tensor`."""
    check_choice("validate", validate, ("none", "full", "strict"))
    opened = open_sparse(message, limits)
    data = np.frombuffer(opened.data, dtype_of(opened.type))
    index = _without_padding(opened.index, len(data)) if opened.layout == "CSF" else opened.index
    tensor = LAYOUTS[opened.layout]._of(index, data, opened.shape, opened.dim_names, opened.type, None)
    if validate == "none":
        return tensor
    try:
        canonical = tensor._prove()
    except FormatError as error:
        raise FormatError(f"SparseTensor.sparseIndex: {error}") from None
    if validate == "strict" and not canonical and (opened.layout != "COO" or opened.is_canonical):
        raise FormatError(
            "SparseTensor.sparseIndex: the coordinates are not sorted, or some occur twice"
            + (", though isCanonical says otherwise" if opened.layout == "COO" else "")
        )
    return tensor


def _without_padding(index: Index, leaves: int) -> Index:
    """Return the levels without padding behind their last entry: the lengths of buffers may include padding.

    The last level has one node per value. The level above ends at the first pointer that equals this number, and so on
    upwards. If the lengths of a level's buffers agree exactly, it has no padding, but may end with nodes without
    children.
    """
    pointers, nodes, axes = index
    if len(nodes[-1]) < leaves:
        raise FormatError(
            f"SparseTensorIndexCSF.indicesBuffers[{len(nodes) - 1}] holds {len(nodes[-1]):,} entries: "
            f"{leaves:,} values need as many"
        )
    counts = [leaves]
    for level in range(len(pointers) - 1, -1, -1):
        starts, target = pointers[level], counts[0]
        most = min(len(starts) - 1, len(nodes[level]))
        if most < 0 or len(starts) - 1 != len(nodes[level]) or starts[most] != target:
            found = np.flatnonzero(starts[: most + 1] == target)
            if not len(found):
                raise FormatError(
                    f"indptrBuffers[{level}] never reaches {target}, the number of nodes of level {level + 1}, "
                    f"within the {max(most, 0)} nodes that the buffers of level {level} have room for"
                )
            most = int(found[0])
        counts.insert(0, most)
    return Index(
        tuple([level[: count + 1] for level, count in zip(pointers, counts, strict=False)]),
        tuple([level[:count] for level, count in zip(nodes, counts, strict=True)]),
        axes,
    )


# Writing.


def write_sparse_tensor(x: Any, sink: Any, dim_names: Sequence[str] | None = None, *, durable: bool = True) -> int:
    """Write one sparse tensor.

    Compressed rows, columns and fibres are written sorted, as the format requires, and values of equal coordinates
    are added up. Coordinates (COO) are written as they are; the flag ``isCanonical`` is computed.

    Parameters
    ----------
    x : sparse tensor
        One of arrowipc, SciPy, PyData Sparse, PyTorch or pyarrow; it is written in its own layout.
    sink, dim_names, durable
        As for `write_tensor`; every buffer begins at a multiple of 64.

    Returns
    -------
    int
        Bytes that were written.

    Raises
    ------
    UsageError
        Not a sparse tensor, a dimension is larger than the type of the indices can hold, or no sink; nothing
        was written then.
    OSError
        The sink failed.
    """
    return write_framed(sink, *encoded(from_any(x, dim_names)), durable=durable)


#: Everything that determines a head -> the head: programs often write many tensors of the same structure.
_recent = Recent(64)


def encoded(tensor: SparseTensor) -> tuple[bytes, list[memoryview]]:
    """Return the head of a tensor's message, for an aligned position, and the buffers of its body."""
    if tensor.layout != "COO":
        tensor = tensor.canonical()
    canonical = tensor.is_canonical
    index, axes = tensor._index.arrays, tensor._index.axes
    _check_index_type(tensor.shape, index[-1].dtype)
    buffers, places, length = _laid_out((*index, tensor.data))
    about = (tensor.shape, tensor.dim_names, tensor.type, tensor.non_zero_length)
    key = (*about, tensor.layout, axes, index[0].dtype, index[-1].dtype, canonical, *places)
    head: bytes | None = _recent.get(key)
    if head is None:
        table = _index_table(tensor, places[:-1])
        metadata = write_sparse_tensor_message(
            tensor.type, tensor.shape, tensor.dim_names, tensor.non_zero_length, table, places[-1], length
        )
        head = encapsulate(metadata, alignment=64)
        _recent.put(key, head)
    return head, buffers


def _laid_out(arrays: Iterable[Values]) -> tuple[list[memoryview], list[tuple[int, int]], int]:
    """Return arrays as the buffers of a body, the ``Buffer`` (offset, length) of each, and the length of the body."""
    buffers, places, length = [], [], 0
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        buffers.append(flat.view(np.uint8).data if flat.size else memoryview(b""))
        places.append((length, len(buffers[-1])))
        length += stored_length(len(buffers[-1]))
    return buffers, places, length


def _check_index_type(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    most = np.iinfo(dtype).max
    for axis, size in enumerate(shape):
        if size > most:
            raise UsageError(
                f"dimension {axis} of {size:,} is larger than the {most:,} that indices of {dtype} can hold: "
                "convert the tensor with index_type="
            )


def _index_table(tensor: SparseTensor, places: list[tuple[int, int]]) -> tuple[Any, ...]:
    """Return the index as `write_sparse_tensor_message` takes it, given the ``Buffer`` of each of its arrays."""
    arrays = tensor._index.arrays
    types = [Int(8 * each.dtype.itemsize, each.dtype.kind == "i") for each in (arrays[0], arrays[-1])]
    if tensor.layout == "COO":
        # Indices are always written row by row: Arrow C++ assumes that, whatever the strides say, and it expects these
        # strides for a matrix without rows.
        width = arrays[0].dtype.itemsize
        strides = (tensor.ndim * width if len(arrays[0]) else width, width)
        return "COO", types[0], strides, places[0], tensor.is_canonical
    if tensor.layout == "CSF":
        above = tensor.ndim - 1
        return "CSF", types[0], places[:above], types[1], places[above:], tensor._index.axes
    return tensor.layout, types[0], places[0], types[1], places[1]
