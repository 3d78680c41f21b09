"""SparseTensor messages put together by hand after the text of SparseTensor.fbs, right ones and broken ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from helpers import forge
from helpers.forge import DOUBLE, INT64, Table

#: Offset and length of a buffer in the body.
Place = tuple[int, int]


@dataclass
class Body:
    """Buffers one after another, each at a multiple of `alignment`."""

    alignment: int = 64
    bytes: bytearray = field(default_factory=bytearray)

    def add(self, data: bytes, padded: int = 0) -> Place:
        """Return offset and length of `data`; its length rounded up to a multiple of `padded`, if given."""
        self.bytes += bytes(-len(self.bytes) % self.alignment)
        place = len(self.bytes), len(data) + (-len(data) % padded if padded else 0)
        self.bytes += data
        self.bytes += bytes(-len(self.bytes) % max(self.alignment, 8))
        return place


def pack(code: str, values: Sequence[int | float]) -> bytes:
    return forge.packed(code, *values)


def coo(
    indices: Place | None, kind: Table | None = INT64, strides: Sequence[int] | None = None, canonical: bool = False
) -> Table:
    slots = {"indicesBuffer": indices, "indicesType": kind, "indicesStrides": strides}
    return Table("SparseTensorIndexCOO", isCanonical=canonical or None, **slots)


def csx(axis: int, indptr: Place, indices: Place, kinds: Sequence[Table] = (INT64, INT64)) -> Table:
    slots = {"indptrType": kinds[0], "indptrBuffer": indptr, "indicesType": kinds[1], "indicesBuffer": indices}
    return Table("SparseMatrixIndexCSX", compressedAxis=axis or None, **slots)


def csf(
    indptr: Sequence[Place],
    indices: Sequence[Place],
    order: Sequence[int] | None,
    kinds: Sequence[Table] = (INT64,) * 2,
) -> Table:
    slots = {"indptrType": kinds[0], "indptrBuffers": indptr, "indicesType": kinds[1], "indicesBuffers": indices}
    return Table("SparseTensorIndexCSF", axisOrder=order, **slots)


def message(
    body: Body,
    index: Table | None,
    shape: Sequence[int] | None,
    count: int,
    data: Place | None,
    kind: Table = DOUBLE,
    names: Sequence[str] | None = None,
    tag: int | None = None,
) -> bytes:
    """Return the encapsulated message; slots that have their default are left out, as writers do."""
    dims = None
    if shape is not None:
        dims = [Table("TensorDim", size=n or None, name=names and names[i]) for i, n in enumerate(shape)]
    slots = {"type": kind, "shape": dims, "non_zero_length": count or None, "data": data}
    header = Table("SparseTensor", sparseIndex=index, sparseIndex_type=tag, **slots)
    return forge.message(header, body=bytes(body.bytes))
