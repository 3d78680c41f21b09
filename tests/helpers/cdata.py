"""The Arrow C interfaces as a C consumer sees them: structs over ctypes, moved, read and released by hand."""

import ctypes
import struct
from typing import Any


class CSchema(ctypes.Structure):
    pass


class CArray(ctypes.Structure):
    pass


class CDeviceArray(ctypes.Structure):
    pass


class CStream(ctypes.Structure):
    pass


class CDeviceStream(ctypes.Structure):
    pass


CSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(CSchema))),
    ("dictionary", ctypes.POINTER(CSchema)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
CArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(CArray))),
    ("dictionary", ctypes.POINTER(CArray)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
CDeviceArray._fields_ = [
    ("array", CArray),
    ("device_id", ctypes.c_int64),
    ("device_type", ctypes.c_int32),
    ("sync_event", ctypes.c_void_p),
    ("reserved", ctypes.c_int64 * 3),
]
CStream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(CStream), ctypes.POINTER(CSchema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(CStream), ctypes.POINTER(CArray))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(CStream))),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
CDeviceStream._fields_ = [
    ("device_type", ctypes.c_int32),
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(CDeviceStream), ctypes.POINTER(CSchema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(CDeviceStream), ctypes.POINTER(CDeviceArray))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(CDeviceStream))),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

NAMES = {
    CSchema: b"arrow_schema",
    CArray: b"arrow_array",
    CDeviceArray: b"arrow_device_array",
    CStream: b"arrow_array_stream",
    CDeviceStream: b"arrow_device_array_stream",
}


def peek(capsule: Any, kind: type) -> Any:
    """The struct inside a capsule, without a copy."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return kind.from_address(get_pointer(capsule, NAMES[kind]))


def move(source: Any) -> Any:
    """Move a struct as C code does: copy its bytes, mark the source as released."""
    moved = type(source).from_buffer_copy(source)
    source.release = None
    return moved


def release(moved: Any) -> None:
    """Call the release callback without the GIL, as a C thread would, and check that it marks the struct."""
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(moved.release)(ctypes.addressof(moved))
    assert moved.release is None


def take(capsule: Any, kind: type) -> Any:
    return move(peek(capsule, kind))


def int64s(array: Any, buffer: int = 1) -> list[int]:
    at = array.buffers[buffer] + 8 * array.offset
    return list(struct.unpack(f"={array.length}q", ctypes.string_at(at, 8 * array.length)))


class Consumer:
    """A C consumer of one stream."""

    def __init__(self, capsule: Any) -> None:
        self.stream = take(capsule, CStream)

    def pull(self) -> tuple[int, Any]:
        out = CArray()
        out.release = 1  # a value that an earlier use may leave there
        code = self.stream.get_next(self.stream, out)
        return code, out

    def column(self) -> list[int] | None:
        """The first column of the next batch; None at the end."""
        code, out = self.pull()
        assert code == 0
        if out.release is None:
            return None
        values = int64s(out.children[0].contents)
        release(out)
        return values

    def error(self) -> str | None:
        text = self.stream.get_last_error(self.stream)
        return None if text is None else text.decode()
