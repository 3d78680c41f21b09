"""A producer of Arrow C structs that says whatever it is told to, and counts how often it gets them back."""

import ctypes
from collections.abc import Callable
from typing import Any

from helpers.cdata import CArray, CSchema, CStream

new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
NAMES = {CSchema: b"arrow_schema", CArray: b"arrow_array", CStream: b"arrow_array_stream"}


class Producer:
    """Makes structs that say what they are told to, and counts how often their roots are released."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.released = {CSchema: 0, CArray: 0, CStream: 0}
        self.callbacks = {kind: Callback(self._release_of(kind)) for kind in self.released}

    def _release_of(self, kind: Any) -> Callable[[int], None]:
        def released(address: int) -> None:
            struct = kind.from_address(address)
            assert struct.release, "released twice"
            struct.release = None
            self.released[kind] += 1

        return released

    def _fill(self, struct: Any, children: Any, dictionary: Any, changes: dict[str, Any]) -> Any:
        kind = type(struct)
        pointers = (ctypes.POINTER(kind) * max(len(children), 1))(*[ctypes.pointer(c) for c in children])
        struct.n_children = len(children)
        struct.children = pointers
        if dictionary is not None:
            struct.dictionary = ctypes.pointer(dictionary)
        struct.release = ctypes.cast(self.callbacks[kind], ctypes.c_void_p).value
        for name, value in changes.items():
            setattr(struct, name, value)
        self.kept += [struct, pointers, *children, dictionary]
        return struct

    def schema(
        self, format: bytes, *children: Any, name: bytes | None = b"", dictionary: Any = None, **changes: Any
    ) -> Any:
        return self._fill(CSchema(format=format, name=name, flags=2), children, dictionary, changes)

    def array(
        self, length: int, data: list[bytes | None], *children: Any, dictionary: Any = None, **changes: Any
    ) -> Any:
        memory = [None if text is None else ctypes.create_string_buffer(text, len(text) + 64) for text in data]
        at = (ctypes.c_void_p * max(len(memory), 1))(*[m and ctypes.addressof(m) for m in memory])
        struct = CArray(length=length, n_buffers=len(data), buffers=at)
        self.kept += [memory, at]
        return self._fill(struct, children, dictionary, changes)

    def capsule(self, struct: Any, name: bytes | None = None) -> Any:
        # Without a destructor: one in Python could not run while an error is on its way.
        self.kept.append(name := name or NAMES[type(struct)])
        return new_capsule(ctypes.addressof(struct), name, None)

    def pair(self, schema: Any, array: Any) -> tuple[Any, Any]:
        return self.capsule(schema), self.capsule(array)

    def batch(self, columns: list[tuple[Any, Any]], length: int, **changes: Any) -> tuple[Any, Any]:
        schemas, arrays = zip(*columns, strict=True) if columns else ((), ())
        return self.pair(self.schema(b"+s", *schemas), self.array(length, [None], *arrays, **changes))


GetSchema, GetNext, GetLastError = [kind for _, kind in CStream._fields_[:3]]
# As an address: ctypes would not know how long to keep a string.
GetText = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class StreamOf(Producer):
    """A stream that gives items: arrays, None for the end, or numbers for errors."""

    def __init__(self, schema: Any, items: list[Any], message: bytes | None = b"no luck") -> None:
        super().__init__()
        self.described, self.items, self.asked = schema, items, 0
        #: Structs that are the consumer's to release.
        self.given = {CSchema: 0, CArray: 0}
        text = None if message is None else ctypes.create_string_buffer(message)

        def get_schema(stream: Any, out: Any) -> int:
            return self.give(self.described, out)

        def get_next(stream: Any, out: Any) -> int:
            self.asked += 1
            return self.give(self.items.pop(0) if self.items else None, out)

        self.calls = (GetSchema(get_schema), GetNext(get_next), GetText(lambda _: text and ctypes.addressof(text)))
        self.stream = CStream(*self.calls[:2], ctypes.cast(self.calls[2], GetLastError))
        self.stream.release = ctypes.cast(self.callbacks[CStream], ctypes.c_void_p).value

    def give(self, item: Any, out: Any) -> int:
        if isinstance(item, int):
            # What a failed call leaves behind is not to be read.
            out.contents.release = 1
            return item
        out.contents.release = None
        if item is not None:
            out[0] = item
            self.given[type(item)] += bool(item.release)
        return 0

    def open(self, **options: Any) -> Any:
        from arrowipc.cdata.import_array import stream_from

        return stream_from(self, **options)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.capsule(self.stream)


def packed(*numbers: int, width: int = 8) -> bytes:
    return b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
