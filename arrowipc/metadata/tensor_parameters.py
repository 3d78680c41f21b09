"""Reads what the metadata of a field says of its tensors, for columns of Arrow's two extension types of tensors.

The parameters are JSON, which is as untrusted as any other metadata.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from arrowipc.arguments import described, instance_of
from arrowipc.datatypes import DataType, Field, FixedSizeList, Int, LargeList, List, Struct
from arrowipc.errors import FormatError

FIXED_SHAPE = "arrow.fixed_shape_tensor"
VARIABLE_SHAPE = "arrow.variable_shape_tensor"


class TensorColumn(NamedTuple):
    """The parameters of a column of tensors.

    Shapes are those of the stored, row-major values. ``permutation`` maps the dimensions that users see to the
    stored ones: dimension i is the stored dimension ``permutation[i]``; names are those of the stored
    dimensions.
    """

    value_type: DataType
    #: None: each row has its own.
    shape: tuple[int, ...] | None
    ndim: int
    dim_names: tuple[str, ...] | None
    permutation: tuple[int, ...] | None
    #: Of tensors with a shape per row: sizes that are the same in all rows; None where they differ.
    uniform_shape: tuple[int | None, ...] | None


def tensor_parameters(field: Field) -> TensorColumn | None:
    """Return what the metadata of a field says of its tensors; None if it is no field of tensors.

    Raise a FormatError if the metadata is broken, or does not fit the type that the field is stored as.
    """
    if instance_of("field", field, Field).extension_name == FIXED_SHAPE:
        return _fixed(field, _Parameters(field))
    if field.extension_name == VARIABLE_SHAPE:
        return _variable(field, _Parameters(field))
    return None


class _Parameters:
    """The JSON of a field's metadata, of which nothing is trusted."""

    def __init__(self, field: Field) -> None:
        self._where = f"field {field.name!r}: {field.extension_name}"
        try:
            found = json.loads(field.extension_metadata or b"{}")
        except (ValueError, RecursionError) as error:
            raise self.broken(f"its metadata is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise self.broken(f"its metadata is not a JSON object but {described(found)}")
        self._found = found

    def broken(self, problem: str) -> FormatError:
        return FormatError(f"{self._where}: {problem}")

    def entries(self, name: str, kind: type | tuple[type, ...]) -> tuple[Any, ...] | None:
        """Return a list of values of one kind as a tuple; None if there is none."""
        found = self._found.get(name)
        if found is None:
            return None
        if not isinstance(found, list) or not all(
            isinstance(each, kind) and not isinstance(each, bool) for each in found
        ):
            raise self.broken(f"{name} is {described(found)}")
        return tuple(found)

    def sizes(self, name: str, kind: type | tuple[type, ...] = int) -> tuple[Any, ...] | None:
        found = self.entries(name, kind)
        if found is not None and any(each is not None and not 0 <= each <= 2**63 - 1 for each in found):
            raise self.broken(f"{name} is {described(list(found))}: expected sizes of 0 or more")
        return found

    def of_dimensions(self, ndim: int) -> tuple[tuple[str, ...] | None, tuple[int, ...] | None]:
        """Return names and permutation, which have one entry per dimension."""
        names, order = self.entries("dim_names", str), self.entries("permutation", int)
        if names is not None and len(names) != ndim:
            raise self.broken(f"dim_names has {len(names)} names for {ndim} dimensions")
        if order is not None and (len(order) != ndim or sorted(order) != list(range(ndim))):
            raise self.broken(f"permutation is {described(list(order))}: expected 0 to {ndim - 1} in some order")
        return names, order


def _fixed(field: Field, parameters: _Parameters) -> TensorColumn:
    kind = field.type
    if not isinstance(kind, FixedSizeList):
        raise parameters.broken(f"is stored as a fixed-size list, found {kind}")
    shape = parameters.sizes("shape")
    if shape is None:
        raise parameters.broken("its metadata lacks the shape")
    if len(shape) > 63 or math.prod(shape) != kind.list_size:
        raise parameters.broken(f"shape {described(list(shape))} does not fit lists of {kind.list_size} elements")
    names, order = parameters.of_dimensions(len(shape))
    return TensorColumn(kind.value_type, shape, len(shape), names, order, None)


def _variable(field: Field, parameters: _Parameters) -> TensorColumn:
    kind = field.type
    fields = {child.name: child.type for child in kind.children} if isinstance(kind, Struct) else {}
    data, sizes = fields.get("data"), fields.get("shape")
    if (
        len(fields) != 2
        or not isinstance(data, (List, LargeList))
        or not isinstance(sizes, FixedSizeList)
        or not isinstance(sizes.value_type, Int)
    ):
        raise parameters.broken(
            f"is stored as a struct of data (a list) and shape (a fixed-size list of integers), found {kind}"
        )
    ndim = sizes.list_size
    if ndim > 63:
        raise parameters.broken(f"tensors of {ndim} dimensions are not supported: at most 63 are")
    names, order = parameters.of_dimensions(ndim)
    uniform = parameters.sizes("uniform_shape", (int, type(None)))
    if uniform is not None and len(uniform) != ndim:
        raise parameters.broken(f"uniform_shape has {len(uniform)} sizes for {ndim} dimensions")
    return TensorColumn(data.value_type, None, ndim, names, order, uniform)
