"""SparseTensor messages put together by hand after the text of SparseTensor.fbs, right ones and broken ones."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from helpers.forge import V5, Table, encapsulate, flatbuffer

INT, FLOAT, UTF8, FIXED_SIZE_BINARY = "Int", "FloatingPoint", "Utf8", "FixedSizeBinary"
PARAMETERS = {INT: ("bitWidth", "is_signed"), FLOAT: ("precision",), FIXED_SIZE_BINARY: ("byteWidth",)}

#: The name of a type and its parameters.
Kind = tuple[Any, ...]
FLOAT64: Kind = (FLOAT, 2)
INT64: Kind = (INT, 64, True)


@dataclass
class Body:
    """Buffers one after another, each at a multiple of `alignment`."""

    alignment: int = 64
    bytes: bytearray = field(default_factory=bytearray)

    def add(self, data: bytes, padded: int = 0) -> tuple[int, int]:
        """Return offset and length of `data`; its length rounded up to a multiple of `padded`, if given."""
        self.bytes += bytes(-len(self.bytes) % self.alignment)
        place = len(self.bytes), len(data) + (-len(data) % padded if padded else 0)
        self.bytes += data
        self.bytes += bytes(-len(self.bytes) % max(self.alignment, 8))
        return place


def pack(code: str, values: Sequence[int | float]) -> bytes:
    return struct.pack(f"<{len(values)}{code}", *values)


def table(kind: str, **slots: Any) -> Table:
    """A table without the slots that have their default, as writers leave them out."""
    return Table(kind, **{name: value for name, value in slots.items() if value is not False and value != 0})


def type_of(kind: Kind) -> Table:
    name, *values = kind
    return table(name, **dict(zip(PARAMETERS.get(name, ()), values, strict=True)))


def coo(
    indices: tuple[int, int] | None,
    kind: Kind | None = INT64,
    strides: Sequence[int] | None = None,
    canonical: bool = False,
) -> Table:
    slots = {"indicesType": None if kind is None else type_of(kind), "indicesStrides": strides}
    return table("SparseTensorIndexCOO", indicesBuffer=indices, isCanonical=canonical, **slots)


def csx(
    axis: int, indptr: tuple[int, int] | None, indices: tuple[int, int] | None, kinds: Sequence[Kind] = (INT64, INT64)
) -> Table:
    slots = {"indptrType": type_of(kinds[0]), "indicesType": type_of(kinds[1])}
    return table("SparseMatrixIndexCSX", compressedAxis=axis, indptrBuffer=indptr, indicesBuffer=indices, **slots)


def csf(
    indptr: Sequence[tuple[int, int]] | None,
    indices: Sequence[tuple[int, int]] | None,
    order: Sequence[int] | None,
    kinds: Sequence[Kind] = (INT64, INT64),
) -> Table:
    slots = {"indptrType": type_of(kinds[0]), "indicesType": type_of(kinds[1])}
    return Table("SparseTensorIndexCSF", indptrBuffers=indptr, indicesBuffers=indices, axisOrder=order, **slots)


def message(
    body: Body,
    index: Table | None,
    shape: Sequence[int] | None,
    count: int,
    data: tuple[int, int] | None,
    kind: Kind = FLOAT64,
    names: Sequence[str] | None = None,
    tag: int | None = None,
) -> bytes:
    """Return the encapsulated message, its body at a multiple of 64."""
    dims = None
    if shape is not None:
        dims = [Table("TensorDim", size=n or None, name=names[i] if names else None) for i, n in enumerate(shape)]
    header = Table(
        "SparseTensor",
        type=type_of(kind),
        shape=dims,
        non_zero_length=count or None,
        sparseIndex=index,
        sparseIndex_type=tag,
        data=data,
    )
    metadata = flatbuffer(Table("Message", version=V5, header=header, bodyLength=len(body.bytes)))
    return encapsulate(metadata, bytes(body.bytes), pad=-(8 + len(metadata)) % 64)
