"""Writes the metadata that is made once: schemas, tensors, footers."""

from collections.abc import Sequence
from typing import Any, Literal

from arrowipc.datatypes import DataType, Dictionary, Field
from arrowipc.schemas import Schema

def write_schema_message(
    schema: Schema, version: Literal["V4", "V5"], custom_metadata: tuple[tuple[bytes, bytes], ...]
) -> bytes: ...
def encapsulate(metadata: bytes, legacy: bool = False, alignment: int = 8) -> bytes: ...
def write_tensor_message(
    type_: DataType,
    shape: Sequence[int],
    names: Sequence[str] | None,
    strides: Sequence[int] | None,
    length: int,
    body_length: int,
) -> bytes: ...
def write_sparse_tensor_message(
    type_: DataType,
    shape: Sequence[int],
    names: Sequence[str] | None,
    non_zero_length: int,
    index: tuple[Any, ...],
    data: tuple[int, int],
    body_length: int,
) -> bytes: ...
def dictionaries_of(fields: tuple[Field, ...]) -> list[Dictionary]: ...
