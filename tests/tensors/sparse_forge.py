"""SparseTensor messages put together by hand after the text of SparseTensor.fbs, right ones and broken ones.

Slots, tags and structs are written out here: nothing of arrowipc takes part.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers

INT, FLOAT, UTF8, BOOL, FIXED_SIZE_BINARY = 2, 3, 5, 6, 15
COO, CSX, CSF = 1, 2, 3
V5, SPARSE_TENSOR = 4, 5

FLOAT64: tuple[Any, ...] = (FLOAT, 2)
INT64: tuple[Any, ...] = (INT, 64, True)


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


def add_type(builder: flatbuffers.Builder, kind: tuple[Any, ...]) -> int:
    tag, *values = kind
    builder.StartObject(2)
    if tag == INT:
        builder.PrependInt32Slot(0, values[0], 0)
        builder.PrependBoolSlot(1, values[1], False)
    elif tag == FLOAT:
        builder.PrependInt16Slot(0, values[0], 0)
    elif tag == FIXED_SIZE_BINARY:
        builder.PrependInt32Slot(0, values[0], 0)
    return int(builder.EndObject())


def add_vector(builder: flatbuffers.Builder, code: str, width: int, values: Sequence[int]) -> int:
    builder.StartVector(width, len(values), width)
    for value in reversed(values):
        getattr(builder, f"Prepend{code}")(value)
    return int(builder.EndVector())


def add_buffers(builder: flatbuffers.Builder, buffers: Sequence[tuple[int, int]]) -> int:
    builder.StartVector(16, len(buffers), 8)
    for offset, length in reversed(buffers):
        builder.PrependInt64(length)
        builder.PrependInt64(offset)
    return int(builder.EndVector())


def put_buffer(builder: flatbuffers.Builder, slot: int, place: tuple[int, int] | None) -> None:
    if place is None:
        return
    builder.Prep(8, 16)
    builder.PrependInt64(place[1])
    builder.PrependInt64(place[0])
    builder.PrependStructSlot(slot, builder.Offset(), 0)


Index = Callable[[flatbuffers.Builder], tuple[int, int]]


def coo(
    indices: tuple[int, int] | None,
    kind: tuple[Any, ...] | None = INT64,
    strides: Sequence[int] | None = None,
    canonical: bool = False,
) -> Index:
    def build(builder: flatbuffers.Builder) -> tuple[int, int]:
        type_ = None if kind is None else add_type(builder, kind)
        stored = None if strides is None else add_vector(builder, "Int64", 8, strides)
        builder.StartObject(4)
        if type_ is not None:
            builder.PrependUOffsetTRelativeSlot(0, type_, 0)
        if stored is not None:
            builder.PrependUOffsetTRelativeSlot(1, stored, 0)
        put_buffer(builder, 2, indices)
        builder.PrependBoolSlot(3, canonical, False)
        return COO, int(builder.EndObject())

    return build


def csx(
    axis: int,
    indptr: tuple[int, int] | None,
    indices: tuple[int, int] | None,
    indptr_kind: tuple[Any, ...] = INT64,
    indices_kind: tuple[Any, ...] = INT64,
) -> Index:
    def build(builder: flatbuffers.Builder) -> tuple[int, int]:
        kinds = add_type(builder, indptr_kind), add_type(builder, indices_kind)
        builder.StartObject(5)
        builder.PrependInt16Slot(0, axis, 0)
        builder.PrependUOffsetTRelativeSlot(1, kinds[0], 0)
        put_buffer(builder, 2, indptr)
        builder.PrependUOffsetTRelativeSlot(3, kinds[1], 0)
        put_buffer(builder, 4, indices)
        return CSX, int(builder.EndObject())

    return build


def csf(
    indptr: Sequence[tuple[int, int]] | None,
    indices: Sequence[tuple[int, int]] | None,
    order: Sequence[int] | None,
    indptr_kind: tuple[Any, ...] = INT64,
    indices_kind: tuple[Any, ...] = INT64,
) -> Index:
    def build(builder: flatbuffers.Builder) -> tuple[int, int]:
        kinds = add_type(builder, indptr_kind), add_type(builder, indices_kind)
        pointers = None if indptr is None else add_buffers(builder, indptr)
        nodes = None if indices is None else add_buffers(builder, indices)
        axes = None if order is None else add_vector(builder, "Int32", 4, order)
        builder.StartObject(5)
        builder.PrependUOffsetTRelativeSlot(0, kinds[0], 0)
        if pointers is not None:
            builder.PrependUOffsetTRelativeSlot(1, pointers, 0)
        builder.PrependUOffsetTRelativeSlot(2, kinds[1], 0)
        if nodes is not None:
            builder.PrependUOffsetTRelativeSlot(3, nodes, 0)
        if axes is not None:
            builder.PrependUOffsetTRelativeSlot(4, axes, 0)
        return CSF, int(builder.EndObject())

    return build


def message(
    body: Body,
    index: Index | None,
    shape: Sequence[int] | None,
    count: int,
    data: tuple[int, int] | None,
    kind: tuple[Any, ...] = FLOAT64,
    names: Sequence[str] | None = None,
    tag: int | None = None,
) -> bytes:
    """Return the encapsulated message, its body at a multiple of 64."""
    builder = flatbuffers.Builder(1024)
    type_ = add_type(builder, kind)
    dims = None
    if shape is not None:
        offsets = []
        for axis, size in enumerate(shape):
            name = builder.CreateString(names[axis]) if names else None
            builder.StartObject(2)
            builder.PrependInt64Slot(0, size, 0)
            if name is not None:
                builder.PrependUOffsetTRelativeSlot(1, name, 0)
            offsets.append(builder.EndObject())
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        dims = builder.EndVector()
    found, table = (0, None) if index is None else index(builder)
    builder.StartObject(7)
    builder.PrependUint8Slot(0, kind[0], 0)
    builder.PrependUOffsetTRelativeSlot(1, type_, 0)
    if dims is not None:
        builder.PrependUOffsetTRelativeSlot(2, dims, 0)
    builder.PrependInt64Slot(3, count, 0)
    builder.PrependUint8Slot(4, found if tag is None else tag, 0)
    if table is not None:
        builder.PrependUOffsetTRelativeSlot(5, table, 0)
    put_buffer(builder, 6, data)
    header = builder.EndObject()
    builder.StartObject(5)
    builder.PrependInt16Slot(0, V5, 0)
    builder.PrependUint8Slot(1, SPARSE_TENSOR, 0)
    builder.PrependUOffsetTRelativeSlot(2, header, 0)
    builder.PrependInt64Slot(3, len(body.bytes), 0)
    builder.Finish(builder.EndObject())
    metadata = bytes(builder.Output())
    metadata += bytes(-(8 + len(metadata)) % 64)
    return b"\xff\xff\xff\xff" + struct.pack("<i", len(metadata)) + metadata + bytes(body.bytes)
