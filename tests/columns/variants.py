"""Variants of Parquet, encoded plainly: the oracle of what `arrowipc.columns.extensions` reads; and extension types."""

import datetime as dt
import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

from helpers.arrays import ipc_bytes

import arrowipc as ipc
from arrowipc import types

EPOCH = dt.datetime(1970, 1, 1)
#: What Variants may hold, nested.
VARIANT = {"a": [1, None, 2.5, "x", {"é": True, "a": b"y"}], "b": {}, "t": "a" * 70}


def encoded(value: Any, width: int = 1, large: bool = False) -> tuple[bytes, bytes]:
    """Metadata and value; offsets and ids take `width` bytes, counts 4 if `large`."""
    names = sorted(set(_names(value)))
    texts = [name.encode() for name in names]
    offsets = [sum(map(len, texts[:i])) for i in range(len(texts) + 1)]
    head = b"".join(number.to_bytes(width, "little") for number in (len(names), *offsets))
    return bytes([1 | (width - 1) << 6]) + head + b"".join(texts), _value(value, names, width, large)


def _names(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(name for each in value.values() for name in _names(each))]
    return [name for each in value for name in _names(each)] if isinstance(value, list) else []


def primitive(kind: int, data: bytes = b"") -> bytes:
    return bytes([kind << 2]) + data


def _value(value: Any, names: list[str], width: int, large: bool) -> bytes:
    if isinstance(value, list | dict):
        keys = sorted(value) if isinstance(value, dict) else []
        parts = [_value(each, names, width, large) for each in ([value[k] for k in keys] if keys else list(value))]
        offsets = [sum(map(len, parts[:i])) for i in range(len(parts) + 1)]
        header = (large << 2 | width - 1) << 2 | 3
        if isinstance(value, dict):
            header = (large << 4 | (width - 1) << 2 | width - 1) << 2 | 2
        numbers = [*(names.index(key) for key in keys), *offsets]
        count = len(parts).to_bytes(4 if large else 1, "little")
        return bytes([header]) + count + b"".join(n.to_bytes(width, "little") for n in numbers) + b"".join(parts)
    match value:
        case None | True | False:
            return primitive({None: 0, True: 1, False: 2}[value])
        case int():
            size = next(i for i in range(4) if -(1 << (8 << i) - 1) <= value < 1 << (8 << i) - 1)
            return primitive(3 + size, value.to_bytes(1 << size, "little", signed=True))
        case float():
            return primitive(7, struct.pack("<d", value))
        case Decimal():
            scale = -int(value.as_tuple().exponent)
            number = int(value.scaleb(scale))
            size = next(i for i in range(3) if abs(number) < 1 << (32 << i) - 1)
            return primitive(8 + size, bytes([scale]) + number.to_bytes(4 << size, "little", signed=True))
        case dt.datetime():
            count = (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
            return primitive(13 if value.tzinfo is None else 12, struct.pack("<q", count))
        case dt.date():
            return primitive(11, struct.pack("<i", (value - EPOCH.date()).days))
        case dt.time():
            moment = dt.datetime.combine(EPOCH, value) - EPOCH
            return primitive(17, struct.pack("<q", moment // dt.timedelta(microseconds=1)))
        case bytes():
            return primitive(15, struct.pack("<I", len(value)) + value)
        case str():
            text = value.encode()
            short = len(text) < 64
            return bytes([len(text) << 2 | 1]) + text if short else primitive(16, struct.pack("<I", len(text)) + text)
        case UUID():
            return primitive(20, value.bytes)
    raise TypeError(value)


def extension_streams() -> list[bytes]:
    """Streams of the extension types that have a meaning in Python, alone and in lists."""
    binary, moment = types.binary(), types.timestamp("us", "UTC")
    variant = dict(zip(("metadata", "value"), encoded(VARIANT), strict=True))
    columns: dict[str, tuple[Any, Any, str]] = {
        "arrow.uuid": (types.binary(16), b"0123456789abcdef", ""),
        "arrow.bool8": (types.int8(), 1, ""),
        "arrow.json": (types.utf8(), '{"a": [1, {}]}', ""),
        "arrow.parquet.variant": (types.struct({"metadata": binary, "value": binary}), variant, ""),
        "arrow.timestamp_with_offset": (
            types.struct({"timestamp": moment, "offset_minutes": types.dictionary(types.int8(), types.int16())}),
            {"timestamp": 1 << 50, "offset_minutes": 90},
            "",
        ),
        "arrow.fixed_shape_tensor": (types.list_(types.int8(), 2), [1, 2], '{"shape": [1, 2], "permutation": [1, 0]}'),
    }
    found = []
    for name, (kind, value, parameters) in columns.items():
        pairs = {"ARROW:extension:name": name, "ARROW:extension:metadata": parameters}
        inner = types.field("x", kind, metadata=pairs)
        rows = {"x": [value, None, value], "y": [[value, None], None, []]}
        found.append(ipc_bytes(rows, schema=ipc.Schema([inner, types.field("y", types.list_(inner))])))
    return found
