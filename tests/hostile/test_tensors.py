"""Tensor messages put together by hand: what the schema allows is read, the rest is refused by name."""

from typing import Any

import numpy as np
import pytest
from helpers import forge
from helpers.forge import Table

import arrowipc as ipc
from arrowipc import types as T


def message(
    body: bytes,
    shape: Any = (2, 3),
    strides: Any = None,
    data: tuple[int, int] | None = (0, 48),
    kind: str | int | None = "FloatingPoint",
    parameters: dict[str, int] | None = None,
    names: Any = None,
    **framing: int,
) -> bytes:
    """A Tensor message as Tensor.fbs says, made with nothing of ours; sizes of 0 are left out, as writers do."""
    dims = None
    if shape is not None:
        dims = [Table("TensorDim", size=n or None, name=names and names[i]) for i, n in enumerate(shape)]
    slots: dict[str, Any] = {"shape": dims, "strides": strides, "data": data}
    if isinstance(kind, str):
        slots["type"] = Table(kind, **({"precision": 2} if parameters is None else parameters))
    elif kind is not None:
        slots |= {"type": Table("Null"), "type_type": kind}
    return forge.message(Table("Tensor", **slots), body=body, **framing)


VALUES = np.arange(6.0)
BODY = VALUES.tobytes()


GRID, AT_64 = VALUES.reshape(2, 3).tolist(), b"\xee" * 64 + BODY + b"\xee" * 16
#: What is stored, and the values that it says.
READ = {
    "row-major": (message(BODY), GRID),
    "row-major, strides empty": (message(BODY, strides=()), GRID),
    "row-major, strides given": (message(BODY, strides=(24, 8)), GRID),
    "column-major": (message(BODY, strides=(8, 16)), VALUES.reshape(3, 2).T.tolist()),
    "an offset inside the body": (message(AT_64, data=(64, 48)), GRID),
    "misaligned values": (message(b"\xee" + BODY, data=(1, 48)), GRID),
    "a prefix from before version 0.15": (message(BODY)[4:], GRID),
    "gaps": (message(BODY, (3,), (16,)), [0, 2, 4]),
    "shared rows": (message(BODY, (2, 3), (0, 8)), [[0, 1, 2], [0, 1, 2]]),
    "windows": (message(BODY, (4, 3), (8, 8)), [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]),
    "any stride of one row": (message(BODY, (1, 6), (999_999, 8)), [[0, 1, 2, 3, 4, 5]]),
    "no dimension": (message(BODY, (), data=(8, 8)), 1),
    "no row": (message(b"", (0, 3), data=(0, 0)), []),
    "no row at any place": (message(b"", (0, 3), data=(999, 0)), []),
    "no column": (message(BODY, (3, 0), (10**9, 8)), [[], [], []]),
}


@pytest.mark.parametrize("name", READ)
def test_by_hand(name):
    data, expected = READ[name]
    found = ipc.read_tensor(data)
    assert found == ipc.read_tensor(bytearray(data)) == ipc.read_tensor(memoryview(b"x" + data)[1:])
    assert found.to_numpy().tolist() == expected
    assert found.to_numpy().flags.aligned


def test_by_hand_names():
    assert ipc.read_tensor(message(BODY, names=("zeit", "größe"))).dim_names == ("zeit", "größe")
    assert ipc.read_tensor(message(BODY, names=("", ""))).dim_names is None


def test_by_hand_booleans_take_one_byte_each():
    tensor = ipc.read_tensor(message(b"\1\0\1\1", (2, 2), data=(0, 4), kind="Bool", parameters={}))
    assert tensor.type == T.bool_()
    assert tensor.to_numpy().tolist() == [[True, False], [True, True]]
    assert ipc.read_tensor(tensor.serialize()) == tensor


HUGE = 2**62
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "negative size": ({"shape": (-1, 3)}, r"Tensor\.shape\[0\]\.size is -1"),
    "most negative size": ({"shape": (2, -(2**63))}, r"Tensor\.shape\[1\]"),
    "more than the body": ({"shape": (2, 4)}, r"Tensor\.data holds 48 bytes.*need 64"),
    "overflowing count": ({"shape": (HUGE, HUGE)}, r"Tensor\.shape"),
    "overflowing bytes": ({"shape": (HUGE,)}, r"Tensor\.shape"),
    "wrapping count": ({"shape": (2**32, 2**32)}, r"Tensor\.shape"),
    "no shape": ({"shape": None}, r"lacks the required Tensor\.shape"),
    "no type": ({"kind": None}, r"lacks the required Tensor\.type"),
    "no data": ({"data": None}, r"lacks the required Tensor\.data"),
    "unknown type": ({"kind": 99}, r"Tensor\.type"),
    "text": ({"kind": "Utf8", "parameters": {}}, r"Tensor\.type is Utf8.*fixed width"),
    "lists": ({"kind": "List", "parameters": {}}, r"Tensor\.type is List"),
    "nulls": ({"kind": "Null", "parameters": {}}, r"Tensor\.type is Null"),
    "odd width": ({"kind": "Int", "parameters": {"bitWidth": 12, "is_signed": 1}}, r"Tensor\.type: Int\.bitWidth"),
    "unknown precision": ({"parameters": {"precision": 7}}, r"Tensor\.type: FloatingPoint\.precision"),
    "negative width": ({"kind": "FixedSizeBinary", "parameters": {"byteWidth": -5}}, r"Tensor\.type.*byteWidth"),
    "too few strides": ({"strides": (8,)}, r"Tensor\.strides has 1 entries for 2 dimensions"),
    "too many strides": ({"strides": (24, 8, 8)}, r"Tensor\.strides has 3"),
    "negative stride": ({"strides": (-24, 8)}, r"Tensor\.strides\[0\] is -24"),
    "stride past the end": ({"strides": (32, 8)}, r"Tensor\.data holds 48 bytes.*need 56"),
    "overflowing stride": ({"strides": (2**63 - 1, 8)}, r"Tensor\.strides"),
    "overflowing sum": ({"shape": (3, 3), "strides": (HUGE, HUGE)}, r"Tensor\.strides"),
    "shared without end": ({"shape": (2**40, 6), "strides": (0, 8)}, r"Tensor\.strides.*overlap_bytes"),
    "data behind the body": ({"data": (8, 48)}, r"Tensor\.data: bytes 8\.\.\+48 lie outside the 48-byte body"),
    "data before the body": ({"data": (-8, 48)}, r"Tensor\.data"),
    "data of negative length": ({"data": (0, -48)}, r"Tensor\.data"),
    "data that wraps": ({"data": (2**63 - 1, 48)}, r"Tensor\.data"),
    "65 dimensions": ({"shape": (1,) * 65}, r"Tensor\.shape has 65 dimensions"),
    "a name that is not UTF-8": ({"names": (b"\xff", b"x")}, r"Tensor\.shape\[0\]\.name is not UTF-8"),
    "another message": ({"header_type": 3}, "RecordBatch"),
    "a body that is missing": ({"body_length": 1000}, "ends inside the body"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_metadata_is_refused_with_the_name_of_the_field(case):
    changes, words = BROKEN[case]
    data = message(BODY, **changes)
    for source in (data, bytearray(data)):
        with pytest.raises(ipc.FormatError, match=words):
            ipc.read_tensor(source)


def test_no_element_and_sizes_that_numpy_cannot_hold():
    tensor = ipc.read_tensor(message(b"", (0, HUGE, HUGE), data=(0, 0)))
    assert tensor.size == 0
    with pytest.raises(ipc.UsageError, match="NumPy cannot hold"):
        tensor.to_numpy()
    assert "shape" in repr(tensor)
    assert tensor == ipc.read_tensor(tensor.serialize())


def test_other_files_are_named():
    with pytest.raises(ipc.FormatError, match="Parquet"):
        ipc.read_tensor(b"PAR1" * 30)
    with pytest.raises(ipc.FormatError, match="open_stream"):
        ipc.read_tensor(ipc.Schema([]).serialize())
    for nothing in (b"", b"\xff\xff\xff\xff\0\0\0\0", bytes(64), bytes(1000)):
        with pytest.raises(ipc.TruncatedError, match="no message"):
            ipc.read_tensor(nothing)
        assert list(ipc.read_tensors(nothing)) == []


ORIGINALS = [
    message(BODY),
    message(BODY, strides=(8, 16), names=("a", "bc")),
    message(b"\xee" * 8 + BODY, (3, 2), (16, 8), (8, 48)),
    ipc.Tensor(np.arange(6).astype("M8[s]").reshape(2, 3), ("x", "y")).serialize(),
    ipc.Tensor(np.zeros((2, 2), "V5")).serialize(),
]


@pytest.mark.parametrize("original", ORIGINALS)
def test_every_truncation_is_refused(original):
    for end in range(len(original)):
        with pytest.raises(ipc.TruncatedError):
            ipc.read_tensor(original[:end])
