"""Arrow's JSON integration format: batches spelled out buffer by buffer, read and written.

The projects of the Arrow format exchange test data in it. JSON becomes messages, which the stream decoder
reads like any others; batches become messages, whose nodes and buffers are spelled out. So all rules stand
elsewhere: here is only how the buffers of each type look in JSON.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from arrowipc import types
from arrowipc.columns.array import Array, RecordBatch
from arrowipc.errors import FormatError, LimitError, UnsupportedError, UsageError
from arrowipc.events import BatchRead
from arrowipc.inspection.message_layout import Node, dictionary_fields, nodes_of
from arrowipc.limits import Limits
from arrowipc.metadata.schema_writer import (
    batch_message,
    number_dictionaries,
    schema_metadata,
    separate_dictionaries,
)
from arrowipc.read.decoders import StreamDecoder
from arrowipc.read.framing import message_of
from arrowipc.schema import Schema
from arrowipc.types import DataType, Field

if TYPE_CHECKING:
    import numpy as np

    Json = dict[str, Any]

__all__ = ["differences", "read_json", "write_json"]

UNITS = {"SECOND": "s", "MILLISECOND": "ms", "MICROSECOND": "us", "NANOSECOND": "ns"}
UNIT_NAMES = {short: name for name, short in UNITS.items()}
#: Names of types without parameters.
PLAIN = {
    "null": types.Null,
    "bool": types.Bool,
    "utf8": types.Utf8,
    "binary": types.Binary,
    "largeutf8": types.LargeUtf8,
    "largebinary": types.LargeBinary,
    "utf8view": types.Utf8View,
    "binaryview": types.BinaryView,
    "list": types.List,
    "largelist": types.LargeList,
    "listview": types.ListView,
    "largelistview": types.LargeListView,
    "struct": types.Struct,
    "runendencoded": types.RunEndEncoded,
}
PLAIN_NAMES = {kind: name for name, kind in PLAIN.items()}

TEXT = (types.Utf8, types.LargeUtf8, types.Utf8View)
VARIABLE = (types.Utf8, types.LargeUtf8, types.Binary, types.LargeBinary)
VIEWS = (types.Utf8View, types.BinaryView)
WIDE = (types.LargeUtf8, types.LargeBinary, types.LargeList, types.LargeListView)
INLINE = 12


# -- schemas -------------------------------------------------------------------------------------------------


def _field_of(entry: Json) -> Field:
    kind = _type_of(entry["type"], [_field_of(child) for child in entry.get("children") or ()])
    encoding = entry.get("dictionary")
    if encoding is not None:
        index = encoding["indexType"]
        kind = types.Dictionary(
            types.Int(index["bitWidth"], index["isSigned"]), kind, encoding["isOrdered"], encoding["id"]
        )
    return Field(entry["name"], kind, entry["nullable"], _pairs_of(entry))


def _type_of(entry: Json, children: list[Field]) -> DataType:
    name = entry["name"]
    unit: Any = UNITS.get(entry.get("unit", ""))
    match name:
        case "int":
            return types.Int(entry["bitWidth"], entry["isSigned"])
        case "floatingpoint":
            return types.FloatingPoint(entry["precision"].lower())
        case "decimal":
            return types.Decimal(entry["precision"], entry["scale"], entry.get("bitWidth", 128))
        case "date":
            return types.Date("day" if entry["unit"] == "DAY" else "ms")
        case "time":
            return types.Time(unit, entry["bitWidth"])
        case "timestamp":
            return types.Timestamp(unit, entry.get("timezone"))
        case "duration":
            return types.Duration(unit)
        case "interval":
            return types.Interval(entry["unit"].lower())
        case "fixedsizebinary":
            return types.FixedSizeBinary(entry["byteWidth"])
        case "fixedsizelist":
            return types.FixedSizeList(children[0], entry["listSize"])
        case "map":
            return types.Map(children[0], entry["keysSorted"])
        case "union":
            return types.Union(entry["mode"].lower(), children, entry["typeIds"])
        case "struct":
            return types.Struct(children)
    if name not in PLAIN:
        raise UnsupportedError(f"there is no type {name!r} in the format")
    return PLAIN[name](*children)  # type: ignore[no-any-return]


def _pairs_of(entry: Json) -> list[tuple[str, str]]:
    return [(pair["key"], pair["value"]) for pair in entry.get("metadata") or ()]


def _field_json(field: Field) -> Json:
    kind = field.type
    out: Json = {"name": field.name, "nullable": field.nullable}
    if isinstance(kind, types.Dictionary):
        out["dictionary"] = {
            "id": kind.id,
            "indexType": _type_json(kind.index_type),
            "isOrdered": kind.ordered,
        }
        kind = kind.value_type
    out["type"] = _type_json(kind)
    out["children"] = [_field_json(child) for child in kind.children]
    return out | _pairs_json(field.metadata)


def _type_json(kind: DataType) -> Json:
    match kind:
        case types.Int(width, signed):
            return {"name": "int", "bitWidth": width, "isSigned": signed}
        case types.FloatingPoint(precision):
            return {"name": "floatingpoint", "precision": precision.upper()}
        case types.Decimal(digits, scale, width):
            return {"name": "decimal", "precision": digits, "scale": scale, "bitWidth": width}
        case types.Date(unit):
            return {"name": "date", "unit": "DAY" if unit == "day" else "MILLISECOND"}
        case types.Time(unit, width):
            return {"name": "time", "unit": UNIT_NAMES[unit], "bitWidth": width}
        case types.Timestamp(unit, zone):
            return {"name": "timestamp", "unit": UNIT_NAMES[unit]} | (
                {} if zone is None else {"timezone": zone}
            )
        case types.Duration(unit):
            return {"name": "duration", "unit": UNIT_NAMES[unit]}
        case types.Interval(unit):
            return {"name": "interval", "unit": unit.upper()}
        case types.FixedSizeBinary(width):
            return {"name": "fixedsizebinary", "byteWidth": width}
        case types.FixedSizeList(_, size):
            return {"name": "fixedsizelist", "listSize": size}
        case types.Map(_, keys_sorted):
            return {"name": "map", "keysSorted": keys_sorted}
        case types.Union(mode, _, codes):
            return {"name": "union", "mode": mode.upper(), "typeIds": list(codes)}
    return {"name": PLAIN_NAMES[type(kind)]}


def _pairs_json(pairs: Iterable[tuple[bytes, bytes]]) -> Json:
    found = []
    for key, value in pairs:
        try:
            found.append({"key": key.decode(), "value": value.decode()})
        except UnicodeDecodeError:
            raise UnsupportedError(f"metadata {key!r}: JSON cannot hold bytes that are no text") from None
    return {"metadata": found} if found else {}


# -- JSON to messages ----------------------------------------------------------------------------------------


class _Body:
    """The nodes and buffers of one message, gathered in pre-order."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, int]] = []
        self.buffers: list[bytes] = []
        self.variadic: list[int] = []

    def add(self, field: Field, column: Json) -> None:
        """Take a column and those below it."""
        kind, count = field.type, column["count"]
        valid = column.get("VALIDITY")
        own = not isinstance(kind, (types.Null, types.Union, types.RunEndEncoded))
        nulls = count if isinstance(kind, types.Null) else valid.count(0) if own and valid else 0
        self.nodes.append((count, nulls))
        if own:
            self.buffers.append(_bits(valid or []) if nulls else b"")
        self._add_values(kind, column)
        for child, below in zip(kind.children, column.get("children") or (), strict=True):
            self.add(child, below)

    def _add_values(self, kind: DataType, column: Json) -> None:
        if isinstance(kind, types.Dictionary):
            self._add_values(kind.index_type, column)
        elif isinstance(kind, types.Union):
            self.buffers.append(_numbers(column["TYPE_ID"], "i1"))
            if kind.mode == "dense":
                self.buffers.append(_numbers(column["OFFSET"], "<i4"))
        elif isinstance(kind, VIEWS):
            pools = [bytes.fromhex(pool) for pool in column["VARIADIC_DATA_BUFFERS"]]
            self.buffers += [b"".join([_view(kind, each) for each in column["VIEWS"]]), *pools]
            self.variadic.append(len(pools))
        elif isinstance(kind, (*VARIABLE, types.List, types.LargeList, types.Map)):
            self.buffers.append(_numbers(column["OFFSET"] or [0], "<i8" if isinstance(kind, WIDE) else "<i4"))
            if isinstance(kind, VARIABLE):
                encode: Callable[[str], bytes] = str.encode if isinstance(kind, TEXT) else bytes.fromhex
                self.buffers.append(b"".join(map(encode, column["DATA"])))
        elif isinstance(kind, (types.ListView, types.LargeListView)):
            width = "<i8" if isinstance(kind, WIDE) else "<i4"
            self.buffers += [_numbers(column["OFFSET"], width), _numbers(column["SIZE"], width)]
        elif not kind.children and not isinstance(kind, (types.Null, types.Struct)):
            self.buffers.append(_fixed(kind, column["DATA"]))


def _bits(values: list[Any]) -> bytes:
    import numpy as np

    return np.packbits(np.array(values, np.uint8), bitorder="little").tobytes()


def _numbers(values: list[Any], code: str) -> bytes:
    """Integers, which may be texts, as the bytes of their type."""
    import numpy as np

    return np.array([int(value) for value in values], code).tobytes()


def _fixed(kind: DataType, values: list[Any]) -> bytes:
    """Values of fixed width as they are stored."""
    import numpy as np

    match kind:
        case types.Bool():
            return _bits(values)
        case types.FloatingPoint(precision):
            code = {"half": "<f2", "single": "<f4", "double": "<f8"}[precision]
            with np.errstate(over="raise"):  # a number too large for its type is not infinity
                return np.array(values, code).tobytes()
        case types.Decimal(_, _, width):
            return b"".join([int(value).to_bytes(width // 8, "little", signed=True) for value in values])
        case types.FixedSizeBinary(width):
            return b"".join(map(bytes.fromhex, values))
        case types.Interval("day_time"):
            return _numbers([value[name] for value in values for name in ("days", "milliseconds")], "<i4")
        case types.Interval("month_day_nano"):
            return b"".join(
                [
                    _numbers([value["months"], value["days"]], "<i4")
                    + _numbers([value["nanoseconds"]], "<i8")
                    for value in values
                ]
            )
    return _numbers(values, _code(kind))


def _code(kind: DataType) -> str:
    """The NumPy code of the integers that values are stored as."""
    match kind:
        case types.Int(width, signed):
            return f"<{'i' if signed else 'u'}{width // 8}"
        case types.Date("day") | types.Interval("year_month"):
            return "<i4"
        case types.Time(_, width):
            return f"<i{width // 8}"
    return "<i8"


def _view(kind: DataType, entry: Json) -> bytes:
    size = entry["SIZE"]
    if "INLINED" in entry:
        text = entry["INLINED"]
        data = text.encode() if isinstance(kind, TEXT) else bytes.fromhex(text)
        return _numbers([size], "<i4") + data.ljust(INLINE, b"\0")
    prefix = bytes.fromhex(entry["PREFIX_HEX"]).ljust(4, b"\0")
    return _numbers([size], "<i4") + prefix + _numbers([entry["BUFFER_INDEX"], entry["OFFSET"]], "<i4")


def read_json(source: Any, *, limits: Limits | None = None) -> tuple[Schema, list[RecordBatch]]:
    """Read a document of the integration format.

    Parameters
    ----------
    source : path, bytes or dict
        The document, also compressed by gzip, or what `json.load` made of it.
    limits : Limits, optional
        Those on decompressed bytes are for gzip, the others for what the document spells out.

    Returns
    -------
    schema : Schema
    batches : list of RecordBatch
        Validated as those of a stream are.

    Raises
    ------
    FormatError
        It is no such document; `LimitError`: it asks for more than `limits`.
    UnsupportedError
        It has a type that the Arrow format has not.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.inspection.integration_json import read_json, write_json
    >>> from arrowipc.types import field, int64
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, None]}, ipc.Schema([field("x", int64())]))
    >>> document = write_json(batch.schema, [batch])
    >>> document["batches"][0]["columns"][0]["DATA"]
    ['1', '0']
    >>> read_json(document)[1][0].to_pydict()
    {'x': [1, None]}
    """
    limits = limits or Limits()
    document = source if isinstance(source, dict) else _load(source, limits)
    try:
        described = document["schema"]
        schema = Schema([_field_of(entry) for entry in described["fields"]], metadata=_pairs_of(described))
        return schema, list(_decoded(schema, document, limits))
    except (
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        ValueError,
        ArithmeticError,
        RecursionError,
        UsageError,
    ) as error:
        if isinstance(error, FormatError):
            raise
        words = f"{type(error).__name__}: {error}"
        raise FormatError(f"not a document of Arrow's integration format: {words}") from None


def _load(source: Any, limits: Limits) -> Json:
    data = source
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            data = file.read()
    try:
        if data[:2] == b"\x1f\x8b":
            data = _inflated(data, limits)
        document = json.loads(data)
    except LimitError:
        raise
    except (ValueError, EOFError, OSError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise FormatError(f"expected a JSON object, found {type(document).__name__}")
    return document


def _inflated(data: bytes, limits: Limits) -> bytes:
    allowed = min(
        limits.decompressed_bytes, limits.decompressed_slack + limits.decompressed_ratio * len(data)
    )
    with gzip.open(io.BytesIO(data)) as file:
        document = file.read(allowed + 1)
    if len(document) > allowed:
        raise LimitError(
            f"{len(data):,} bytes of gzip hold more than {allowed:,}, the most that Limits allow "
            "(decompressed_bytes, decompressed_ratio, decompressed_slack)"
        )
    return document


def _decoded(schema: Schema, document: Json, limits: Limits) -> Iterator[RecordBatch]:
    decoder = StreamDecoder(limits=limits)
    decoder.decode_next(message_of(schema_metadata(schema)))
    known = dictionary_fields(schema)
    for entry in document.get("dictionaries") or ():
        kind = known[entry["id"]][1].value_type
        body = _Body()
        body.add(Field("", kind), entry["data"]["columns"][0])
        parts = batch_message(
            entry["data"]["count"], body.nodes, body.buffers, body.variadic, (entry["id"], False)
        )
        decoder.decode_next(message_of(*parts))
    for entry in document.get("batches") or ():
        body = _Body()
        for field, column in zip(schema.fields, entry["columns"], strict=True):
            body.add(field, column)
        parts = batch_message(entry["count"], body.nodes, body.buffers, body.variadic)
        event = decoder.decode_next(message_of(*parts))
        assert isinstance(event, BatchRead)
        yield event.batch


# -- batches to JSON -----------------------------------------------------------------------------------------


def write_json(schema: Schema, batches: Iterable[RecordBatch]) -> Json:
    """Spell out batches as a document of the integration format.

    Parameters
    ----------
    schema : Schema
    batches : iterable of RecordBatch

    Returns
    -------
    dict
        For `json.dump`. Integers of 64 bits and decimals are texts, bytes hexadecimal.

    Raises
    ------
    FormatError
        A text that was read without validation is no UTF-8.
    UnsupportedError
        A dictionary was replaced in between, or metadata is no text: the format cannot say so.
    """
    schema = number_dictionaries(schema)
    written: list[Json] = []
    dictionaries: dict[int, Array] = {}
    for batch in batches:
        written.append({"count": len(batch), "columns": _columns(schema.fields, batch)})
        for field, column in zip(schema, batch.columns, strict=True):
            _gather(field.type, column, dictionaries)
    known = dictionary_fields(schema)
    return {
        "schema": {"fields": [_field_json(field) for field in schema]} | _pairs_json(schema.metadata),
        "dictionaries": [
            _dictionary_json(id, known[id][1].value_type, each) for id, each in dictionaries.items()
        ],
        "batches": written,
    }


def _dictionary_json(id: int, kind: DataType, values: Array) -> Json:
    field = Field(f"DICT{id}", kind)
    # Were an id shared below, the values behind it would be unified and get other indices.
    schema = separate_dictionaries(Schema([field]))
    alone = RecordBatch.from_pydict({field.name: values}, schema)
    return {"id": id, "data": {"count": len(values), "columns": _columns([field], alone)}}


def _gather(kind: DataType, column: Array, found: dict[int, Array]) -> None:
    """Note the dictionaries of a column, inner ones first; a later one may only extend an earlier one."""
    if isinstance(kind, types.Dictionary):
        values = column.dictionary
        if values is None or kind.id is None:
            return
        _gather(kind.value_type, values, found)
        before = found.get(kind.id)
        if before is not None:
            short, long = sorted((before, values), key=len)
            if not long.slice(0, len(short)).equals(short, nan_equal=True):
                raise UnsupportedError(
                    f"dictionary {kind.id} was replaced: the integration format has one of each"
                )
            values = long
        found[kind.id] = values
        return
    for child, below in zip(kind.children, column.children, strict=True):
        _gather(child.type, below, found)


def _columns(fields: Iterable[Field], batch: RecordBatch) -> list[Json]:
    message = batch.to_message()
    nodes = iter(nodes_of(message, fields))
    body = bytes(message.body)
    return [_column_json(field, nodes, body) for field in fields]


def _column_json(field: Field, nodes: Iterator[Node], body: bytes) -> Json:
    import numpy as np

    node = next(nodes)
    data = {each.role: body[each.offset : each.offset + each.length] for each in node.buffers}
    kind, count = field.type, node.length
    out: Json = {"name": field.name, "count": count}
    valid: Any = None
    if "validity" in data:
        valid = _from_bits(data["validity"], count) if data["validity"] else np.ones(count, bool)
        out["VALIDITY"] = valid.astype(int).tolist()
    width = "<i8" if isinstance(kind, WIDE) else "<i4"
    if "type codes" in data:
        out["TYPE_ID"] = np.frombuffer(data["type codes"], "i1").tolist()
    if "offsets" in data:
        offsets = np.frombuffer(data["offsets"], width)
        out["OFFSET"] = _spelled(offsets)
    if "sizes" in data:
        out["SIZE"] = _spelled(np.frombuffer(data["sizes"], width))
    if "views" in data:
        pools = [data[role] for role in data if role.startswith("data ")]
        out["VIEWS"] = [
            _view_json(kind, data["views"][16 * i : 16 * i + 16], bool(valid[i])) for i in range(count)
        ]
        out["VARIADIC_DATA_BUFFERS"] = [pool.hex().upper() for pool in pools]
    elif isinstance(kind, types.Dictionary):
        out["DATA"] = _values(kind.index_type, data["indices"], valid)
    elif isinstance(kind, VARIABLE):
        ends = offsets.tolist() or [0]
        pieces = [data["data"][start:end] for start, end in itertools.pairwise(ends)]
        out["DATA"] = [_content(kind, piece, bool(valid[i])) for i, piece in enumerate(pieces)]
    elif "data" in data:
        out["DATA"] = _values(kind, data["data"], valid)
    if kind.children:
        out["children"] = [_column_json(child, nodes, body) for child in kind.children]
    return out


def _from_bits(data: bytes, count: int) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little").astype(bool)


def _spelled(numbers: np.ndarray[Any, Any]) -> list[Any]:
    """Integers as JSON's, or as texts where they have 64 bits."""
    return list(map(str, numbers.tolist())) if numbers.itemsize == 8 else numbers.tolist()


def _values(kind: DataType, data: bytes, valid: Any) -> list[Any]:
    """Values of fixed width; what lies under a null is 0."""
    import numpy as np

    count = len(valid)
    nothing: Any = 0
    match kind:
        case types.Bool():
            found: list[Any] = _from_bits(data, count).tolist() if count else []
            nothing = False
        case types.FloatingPoint(precision):
            found = np.frombuffer(data, {"half": "<f2", "single": "<f4", "double": "<f8"}[precision]).tolist()
        case types.Decimal(_, _, bits):
            width = bits // 8
            parts = [data[i * width : i * width + width] for i in range(count)]
            found, nothing = [str(int.from_bytes(part, "little", signed=True)) for part in parts], "0"
        case types.FixedSizeBinary(width):
            found, nothing = (
                [data[i * width : (i + 1) * width].hex().upper() for i in range(count)],
                "00" * width,
            )
        case types.Interval("day_time"):
            pairs = np.frombuffer(data, "<i4").reshape(-1, 2).tolist()
            found = [{"days": days, "milliseconds": rest} for days, rest in pairs]
            nothing = {"days": 0, "milliseconds": 0}
        case types.Interval("month_day_nano"):
            triples = np.frombuffer(data, "<i4,<i4,<i8").tolist()
            found = [{"months": m, "days": d, "nanoseconds": n} for m, d, n in triples]
            nothing = {"months": 0, "days": 0, "nanoseconds": 0}
        case _:
            numbers = np.frombuffer(data, _code(kind))
            found, nothing = _spelled(numbers), "0" if numbers.itemsize == 8 else 0
    return [value if ok else nothing for value, ok in zip(found, valid, strict=True)]


def _view_json(kind: DataType, view: bytes, valid: bool) -> Json:
    size = int.from_bytes(view[:4], "little", signed=True) if valid else 0
    if size <= INLINE:
        data = view[4 : 4 + size]
        return {"SIZE": size, "INLINED": _content(kind, data, valid)}
    return {
        "SIZE": size,
        "PREFIX_HEX": view[4:8].hex().upper(),
        "BUFFER_INDEX": int.from_bytes(view[8:12], "little"),
        "OFFSET": int.from_bytes(view[12:], "little"),
    }


def _content(kind: DataType, data: bytes, valid: bool) -> str:
    """Text as it is, bytes in hexadecimal; where what lies under a null is no text, as many zeros."""
    if not isinstance(kind, TEXT):
        return data.hex().upper()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if valid:
            raise FormatError(f"a text of the batches is no UTF-8: {error}") from error
        return "\0" * len(data)


# -- comparison ----------------------------------------------------------------------------------------------


def differences(
    left: tuple[Schema, Iterable[RecordBatch]], right: tuple[Schema, Iterable[RecordBatch]]
) -> list[str]:
    """Compare two sources as the integration tests do; empty: they hold the same.

    Names inside of maps and the order of metadata may differ, as between the libraries; NaN equals NaN.
    """
    found = []
    one, other = left[0], right[0]
    if len(one) != len(other):
        return [f"{len(one)} columns against {len(other)}"]
    if sorted(one.metadata) != sorted(other.metadata):
        found.append(f"metadata {one.metadata} against {other.metadata}")
    for a, b in zip(one, other, strict=True):
        if not _alike(a, b):
            found.append(f"field {a!r} against {b!r}")
    if found:
        return found
    sides = iter(left[1]), iter(right[1])
    number = 0
    while True:
        pair = [next(side, None) for side in sides]
        if pair[0] is None or pair[1] is None:
            return found if pair[0] is pair[1] else [*found, f"one of them ends after {number} batches"]
        for field, here, there in zip(one, pair[0].columns, pair[1].columns, strict=True):
            if not here.equals(there, nan_equal=True):
                found.append(f"batch {number}, column {field.name!r}: the values differ")
        number += 1


def _alike(a: Field, b: Field) -> bool:
    """Whether two fields are equal, with the liberties that the libraries take."""
    if a != b or a.name != b.name or sorted(a.metadata) != sorted(b.metadata):
        return False
    below = [getattr(field.type, "value_type", field.type) for field in (a, b)]
    if isinstance(below[0], types.Map):
        return True
    return all(_alike(x, y) for x, y in zip(below[0].children, below[1].children, strict=True))
