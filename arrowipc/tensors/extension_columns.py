"""Columns of tensors: Arrow's canonical extension types for tensors of one shape, and of a shape per row.

``arrow.fixed_shape_tensor`` is stored as a fixed-size list, ``arrow.variable_shape_tensor`` as a struct of a
list (``data``) and a fixed-size list of int32 (``shape``). Both store row-major values, and their parameters
as JSON in the field's metadata. These are not trusted: if they are broken, the field is read as its storage type.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from arrowipc.arguments import check_integer, check_text, described, items_of, order_of
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.datatypes import EXTENSION_METADATA, EXTENSION_NAME, DataType, Field, FixedSizeList, Int, List, Struct
from arrowipc.errors import UsageError
from arrowipc.metadata.tensor_parameters import FIXED_SHAPE, VARIABLE_SHAPE, TensorColumn, tensor_parameters
from arrowipc.schemas import Schema
from arrowipc.tensors.dense import Tensor

__all__ = [
    "FIXED_SHAPE",
    "VARIABLE_SHAPE",
    "TensorColumn",
    "fixed_shape_tensor",
    "tensor_column",
    "tensor_parameters",
    "variable_shape_tensor",
]

_INT32_MAX = 2**31 - 1


# -- fields --------------------------------------------------------------------------------------------------


def fixed_shape_tensor(
    name: str,
    value_type: DataType,
    shape: Sequence[int],
    *,
    dim_names: Sequence[str] | None = None,
    permutation: Sequence[int] | None = None,
    nullable: bool = True,
) -> Field:
    """Make a field of type ``arrow.fixed_shape_tensor``.

    Parameters
    ----------
    name : str
    value_type : DataType
        The type of the elements, of a fixed width.
    shape : sequence of int
        The shape of each row, as it is stored.
    dim_names : sequence of str, optional
        The names of the stored dimensions.
    permutation : sequence of int, optional
        For each dimension that users see, its number among the stored ones.
    nullable : bool, default True

    Raises
    ------
    UsageError
        The parameters do not fit each other.

    Examples
    --------
    >>> from arrowipc import fixed_shape_tensor
    >>> from arrowipc.types import uint8
    >>> fixed_shape_tensor("image", uint8(), (32, 32, 3), dim_names=("y", "x", "rgb"))
    Field(image: fixed_size_list<item: uint8>[3072])
    """
    sizes = [check_integer("shape: each size", size, 0, _INT32_MAX) for size in items_of("shape", shape)]
    storage = FixedSizeList(Field("item", value_type), check_integer("shape", math.prod(sizes), 0, _INT32_MAX))
    parameters = {"shape": sizes, **_common(len(sizes), dim_names, permutation)}
    return Field(name, storage, nullable, _metadata(FIXED_SHAPE, parameters))


def variable_shape_tensor(
    name: str,
    value_type: DataType,
    ndim: int,
    *,
    dim_names: Sequence[str] | None = None,
    permutation: Sequence[int] | None = None,
    uniform_shape: Sequence[int | None] | None = None,
    nullable: bool = True,
) -> Field:
    """Make a field of type ``arrow.variable_shape_tensor``.

    Parameters
    ----------
    ndim : int
        Dimensions of every row.
    uniform_shape : sequence of int or None, optional
        The sizes that are the same in all rows, None for the others.
    name, value_type, dim_names, permutation, nullable
        As for `fixed_shape_tensor`.
    """
    check_integer("ndim", ndim, 0, _INT32_MAX)
    parameters = _common(ndim, dim_names, permutation)
    if uniform_shape is not None:
        uniform_shape = items_of("uniform_shape", uniform_shape)
        if len(uniform_shape) != ndim:
            raise UsageError(f"uniform_shape has {len(uniform_shape)} sizes for {ndim} dimensions")
        parameters["uniform_shape"] = [
            None if size is None else check_integer("uniform_shape: each size", size, 0, _INT32_MAX)
            for size in uniform_shape
        ]
    sizes = FixedSizeList(Field("item", Int(32, True)), ndim)
    storage = Struct([Field("data", List(Field("item", value_type))), Field("shape", sizes)])
    return Field(name, storage, nullable, _metadata(VARIABLE_SHAPE, parameters))


def _common(ndim: int, dim_names: Sequence[str] | None, permutation: Sequence[int] | None) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    if dim_names is not None:
        names = [check_text("dim_names: each name", name) for name in items_of("dim_names", dim_names)]
        if isinstance(dim_names, str) or len(names) != ndim:
            raise UsageError(f"dim_names: expected {ndim} names, found {described(dim_names)}")
        parameters["dim_names"] = names
    if permutation is not None:
        parameters["permutation"] = list(order_of("permutation", permutation, ndim))
    return parameters


def _metadata(name: str, parameters: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    text = json.dumps(parameters, separators=(",", ":"), ensure_ascii=False)
    return [(EXTENSION_NAME, name.encode()), (EXTENSION_METADATA, text.encode())]


# -- from NumPy ----------------------------------------------------------------------------------------------


def tensor_column(
    values: Any,
    name: str = "",
    *,
    dim_names: Sequence[str] | None = None,
    permutation: Sequence[int] | None = None,
    uniform_shape: Sequence[int | None] | None = None,
) -> Array:
    """Make a column of tensors.

    Parameters
    ----------
    values : array of shape ``(n, *shape)``, or sequence of arrays or None
        One array becomes an ``arrow.fixed_shape_tensor`` column; it is not copied if it is row-major in the stored
        order. Several arrays, of one dtype and one number of dimensions, are copied into an
        ``arrow.variable_shape_tensor`` column; None is null. Booleans are stored as uint8.
    name : str
        The name of the column.
    dim_names, permutation, uniform_shape
        As for `fixed_shape_tensor` and `variable_shape_tensor`; `values` have the dimensions that users see.

    Returns
    -------
    Array
        For ``{name: array}`` in ``RecordBatch.from_pydict``, with ``Schema([array.field, ...])``.

    Raises
    ------
    UsageError
        The values do not fit the parameters or each other.

    Examples
    --------
    >>> import numpy as np
    >>> from arrowipc import tensor_column
    >>> images = tensor_column(np.zeros((10, 32, 32), "uint8"), "image")
    >>> images.to_numpy().shape
    (10, 32, 32)
    """
    if permutation is not None:
        permutation = items_of("permutation", permutation)
    if isinstance(values, (list, tuple)) or (hasattr(values, "dtype") and values.dtype == object):
        return _variable_column(list(values), name, dim_names, permutation, uniform_shape)
    if uniform_shape is not None:
        raise UsageError("uniform_shape is for tensors with a shape per row: give a list of arrays")
    tensor = Tensor(values)
    if tensor.ndim == 0:
        raise UsageError("expected an array of rows, found one of no dimensions")
    if permutation is not None:
        _common(tensor.ndim - 1, None, permutation)
        back = _stored_order(permutation, tensor.ndim - 1)
        tensor = Tensor(tensor.to_numpy().transpose(0, *[each + 1 for each in back]), None, tensor.type)
    length, *shape = tensor.shape
    field = fixed_shape_tensor(name, tensor.type, shape, dim_names=dim_names, permutation=permutation)
    nodes = [(length, 0), (tensor.size, 0)]
    batch = RecordBatch.from_buffers(Schema([field]), length, nodes, [None, None, _raw(tensor.to_numpy())])
    return batch.column(0)


def _variable_column(
    rows: list[Any],
    name: str,
    dim_names: Sequence[str] | None,
    permutation: Sequence[int] | None,
    uniform_shape: Sequence[int | None] | None,
) -> Array:
    import numpy as np

    tensors = [None if row is None else Tensor(row) for row in rows]
    first = next((tensor for tensor in tensors if tensor is not None), None)
    if first is None:
        raise UsageError("expected at least one array: nulls alone have no type")
    kind, ndim, n = first.type, first.ndim, len(rows)
    field = variable_shape_tensor(
        name, kind, ndim, dim_names=dim_names, permutation=permutation, uniform_shape=uniform_shape
    )
    back = _stored_order(permutation, ndim)
    offsets, shapes, parts = np.zeros(n + 1, np.int64), np.zeros((n, ndim), np.int32), []
    for i, tensor in enumerate(tensors):
        if tensor is None:
            continue
        if tensor.type != kind or tensor.ndim != ndim:
            raise UsageError(f"row {i} is {tensor.type} of {tensor.ndim} dimensions, the first one {kind} of {ndim}")
        stored = tensor.to_numpy().transpose(back)
        if any(size not in (None, found) for size, found in zip(uniform_shape or (), stored.shape, strict=False)):
            raise UsageError(f"row {i} is stored in the shape {stored.shape}, uniform_shape says {uniform_shape}")
        shapes[i] = stored.shape
        parts.append(stored.reshape(-1))
        offsets[i + 1] = tensor.size
    np.cumsum(offsets, out=offsets)
    if offsets[-1] > _INT32_MAX:
        raise UsageError(f"the rows have {offsets[-1]:,} values: a column takes {_INT32_MAX:,}, write more batches")
    valid = np.array([tensor is not None for tensor in tensors], np.bool_)
    nulls = int(n - valid.sum())
    bitmap = np.packbits(valid, bitorder="little") if nulls else None
    values = _raw(np.concatenate(parts))
    batch = RecordBatch.from_buffers(
        Schema([field]),
        n,
        [(n, nulls), (n, 0), (int(offsets[-1]), 0), (n, 0), (shapes.size, 0)],
        [bitmap, None, offsets.astype(np.int32), None, values, None, None, shapes],
    )
    return batch.column(0)


def _stored_order(permutation: Sequence[int] | None, ndim: int) -> list[int]:
    """Return, for each stored dimension, its number among those that users see."""
    return list(range(ndim)) if permutation is None else sorted(range(ndim), key=lambda i: permutation[i])


def _raw(values: Any) -> Any:
    """Return values row-major, as bytes: the buffer protocol has no dates and times."""
    import numpy as np

    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)
