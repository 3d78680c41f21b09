"""Tensors as columns: the public place of `arrowipc.tensors.extension_columns`."""

from arrowipc.tensors.extension_columns import (
    fixed_shape_tensor,
    tensor_column,
    tensor_parameters,
    variable_shape_tensor,
)

__all__ = [
    "fixed_shape_tensor",
    "tensor_column",
    "tensor_parameters",
    "variable_shape_tensor",
]
