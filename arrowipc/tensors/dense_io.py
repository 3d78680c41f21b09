"""Reading and writing dense tensors, also in the cells of binary columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import described
from arrowipc.columns.array import Array
from arrowipc.errors import FormatError, UsageError
from arrowipc.metadata.schema_tables import encapsulate, write_tensor_message
from arrowipc.tensors.dense import Tensor, body_of, joined, recent_head, remember_head, tensor_in_bytes, tensor_of
from arrowipc.tensors.message import stored_length
from arrowipc.tensors.message_io import buffer_size, read_framed, read_framed_all, write_framed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from arrowipc.datatypes import DataType
    from arrowipc.decode.framing import Message
    from arrowipc.limits import Limits

# -- reading -------------------------------------------------------------------------------------------------


def read_tensor(source: Any, *, limits: Limits | None = None) -> Any:
    """Read one tensor.

    Parameters
    ----------
    source : path, URL, bytes-like, binary file object, socket file or Message
        Memory and mapped files are not copied, except elements at addresses that are not multiples of their size;
        these are copied once. A file object is read from its position, and is left at the end of the tensor.
    limits : Limits, optional
        Bounds on the sizes that the bytes may claim.

    Returns
    -------
    Tensor
        For a SparseTensor message, the class of its layout, such as ``SparseCOOTensor``.

    Raises
    ------
    FormatError
        The bytes are no tensor; `TruncatedError` and `LimitError` are kinds of it.
    UnsupportedError
        The bytes are valid and not implemented here.
    OSError
        The source cannot be read.
    """
    if type(source) is bytes and limits is None:
        tensor = tensor_in_bytes(source)
        if tensor is not None:
            return tensor
    return _opened(read_framed(source, limits), limits)


def read_tensors(source: Any, *, limits: Limits | None = None) -> Iterator[Any]:
    """Iterate over the tensors of a source that holds any number of them, one after another.

    Parameters
    ----------
    source, limits
        As for `read_tensor`.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> sink = bytearray()
    >>> sizes = [ipc.write_tensor(x, sink) for x in ([1.5], [[2]])]
    >>> [tensor.shape for tensor in ipc.read_tensors(sink)]
    [(1,), (1, 1)]
    """
    return (_opened(message, limits) for message in read_framed_all(source, limits))


def _opened(message: Message, limits: Limits | None) -> Any:
    if message.kind == "SparseTensor":
        from arrowipc.tensors.sparse_io import tensor_of as sparse_tensor_of

        return sparse_tensor_of(message, limits)
    return tensor_of(message, limits)


# -- writing -------------------------------------------------------------------------------------------------


def write_tensor(
    x: Any,
    sink: Any,
    dim_names: Sequence[str] | None = None,
    *,
    type: DataType | None = None,
    durable: bool = True,
) -> int:
    """Write one tensor.

    Values that are contiguous in memory are written in memory order: row-major, column-major or with dimensions in
    any other order. Others (slices, broadcast values, negative strides, which the format cannot express) are gathered
    into row-major order.

    Parameters
    ----------
    x : Tensor, numpy.ndarray, buffer, DLPack object, or a sparse tensor of ours
        Booleans are written as uint8, one byte per value, as Arrow C++ does.
    sink : path, URL, file object, socket, bytearray or writable buffer
        A file object is written from its position, a bytearray is appended to. The tensor and its values
        begin at multiples of 64 in the sink: if it is at another position, zeros come first, which readers skip.
    dim_names : sequence of str, optional
        One name per dimension. Default: those of a `Tensor`.
    type : DataType, optional
        The type of the values, if their dtype does not determine it; see `Tensor`.
    durable : bool, default True
        For paths: wait until the file is on the disk.

    Returns
    -------
    int
        Bytes that were written.

    Raises
    ------
    UsageError
        Not a tensor, or no sink; nothing was written then.
    OSError
        The sink failed.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> ipc.write_tensor([[1, 2], [3, 4]], sink := bytearray())
    256
    >>> ipc.read_tensor(sink).to_numpy().tolist()
    [[1, 2], [3, 4]]
    """
    return write_framed(sink, *_message(x, dim_names, type), durable=durable)


def get_tensor_size(x: Any, dim_names: Sequence[str] | None = None, *, type: DataType | None = None) -> int:
    """Return how many bytes `write_tensor` writes at a position that is a multiple of 64.

    Parameters
    ----------
    x, dim_names, type
        As for `write_tensor`.
    """
    head, buffers = _message(x, dim_names, type)
    return len(head) + sum([stored_length(buffer_size(buffer)) for buffer in buffers])


def serialize_tensor(tensor: Tensor) -> bytes:
    """Return the encapsulated message of a tensor; public as `Tensor.serialize`."""
    head, body = _encoded(tensor)
    return joined(head, body, stored_length(buffer_size(body)))


def _message(x: Any, dim_names: Sequence[str] | None, type: DataType | None) -> tuple[bytes, Sequence[Any]]:
    """Return the head of a message and the buffers of its body."""
    if hasattr(x, "to_csf"):  # only the sparse tensors of arrowipc have this method
        from arrowipc.tensors.sparse_io import encoded

        return encoded(x if dim_names is None else x.rename(dim_names))
    head, body = _encoded(_tensor(x, dim_names, type))
    return head, (body,)


def _tensor(x: Any, dim_names: Sequence[str] | None, type: DataType | None) -> Tensor:
    if isinstance(x, Tensor):
        if dim_names is None and type is None:
            return x
        return Tensor(x.to_numpy(), x.dim_names if dim_names is None else dim_names, type or x.type)
    return Tensor(x, dim_names, type)


def _encoded(tensor: Tensor) -> tuple[bytes, Any]:
    """Return the head of a tensor's message, for an aligned position, and its body."""
    strides, body = body_of(tensor)
    head = recent_head(tensor)
    if head is None:
        length = buffer_size(body)
        stored = stored_length(length)
        metadata = write_tensor_message(tensor.type, tensor.shape, tensor.dim_names, strides, length, stored)
        head = encapsulate(metadata, alignment=64)
        remember_head(tensor, head)
    return head, body


# -- cells of binary columns ---------------------------------------------------------------------------------


def cells_from_arrays(arrays: Iterable[Any], dim_names: Sequence[str] | None = None) -> list[bytes | None]:
    """Return one tensor message per array, for the cells of a binary column.

    Parameters
    ----------
    arrays : iterable of arrays or None
        Arrays that `Tensor` takes; iterating over one array gives its rows. None becomes None.
    dim_names : sequence of str, optional
        The names of each array's dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from arrowipc.tensors.dense_io import arrays_from_cells, cells_from_arrays
    >>> arrays_from_cells(cells_from_arrays([np.zeros(3), None]))
    [array([0., 0., 0.]), None]
    """
    return [None if x is None else serialize_tensor(_tensor(x, dim_names, None)) for x in arrays]


def arrays_from_cells(column: Any, *, limits: Limits | None = None) -> list[npt.NDArray[Any] | None]:
    """Return the tensors of a binary column as read-only NumPy arrays.

    Parameters
    ----------
    column : Arrow column of binary, or sequence of bytes-like or None
        Of any library; each cell is one tensor message. Null becomes None.
    limits : Limits, optional

    Raises
    ------
    FormatError
        A cell is no dense tensor; the text names the cell.
    """
    if hasattr(column, "__arrow_c_array__") or hasattr(column, "__arrow_c_stream__"):
        column = Array.from_arrow(column).to_pylist(extensions=False)
    return [_array_in(cell, i, limits) for i, cell in enumerate(column)]


def _array_in(cell: Any, number: int, limits: Limits | None) -> npt.NDArray[Any] | None:
    if cell is None:
        return None
    try:
        tensor = read_tensor(cell if isinstance(cell, bytes) else memoryview(cell), limits=limits)
    except FormatError as error:
        error.args = (f"cell {number}: {error}",)
        raise
    except TypeError:
        raise UsageError(f"cell {number}: expected bytes, found {described(cell)}") from None
    if not isinstance(tensor, Tensor):
        raise FormatError(f"cell {number}: expected a dense tensor, found a {tensor.__class__.__name__}")
    array: npt.NDArray[Any] = tensor.to_numpy()
    return array


# -- text ----------------------------------------------------------------------------------------------------


def tensor_text(tensor: Tensor) -> str:
    """Return the repr of a tensor: type, shape, and some of its values."""
    from arrowipc.values.repr import shaped

    parts = [shaped(tensor)]
    if not tensor.is_row_major:
        parts.append(f"strides {tensor.strides}")
    first = f"<Tensor of {tensor.type}: {', '.join(parts)}>"
    if tensor.size == 0 or tensor.itemsize == 0:
        return first
    import numpy as np

    try:
        text = np.array2string(tensor.to_numpy(), threshold=24, edgeitems=2 if tensor.ndim < 3 else 1)
    except UsageError:
        return first
    lines = text.split("\n")
    return "\n".join([first, *lines[:12], *(["..."] if len(lines) > 12 else [])])
