"""Arrow's JSON integration format, and the program that Arrow's integration tests call for arrowipc.

The projects of the Arrow format exchange test data in it: batches, written buffer by buffer. The library says
which buffers a type has (`roles_of`) and what they must hold (`RecordBatch.from_buffers`); this file says only
how each buffer looks in JSON. From a checkout:

    PYTHONPATH=tests python -m peers.integration_json --mode=VALIDATE --arrow=FILE --json=DOCUMENT
"""

from __future__ import annotations

import argparse
import functools
import gzip
import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import arrowipc as ipc
from arrowipc import types
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.columns.truncate import compact
from arrowipc.errors import FormatError, UnsupportedError, UsageError
from arrowipc.inspection.message_layout import dictionary_fields, roles_of
from arrowipc.limits import Limits
from arrowipc.metadata.schema_writer import number_dictionaries, schema_metadata, separate_dictionaries
from arrowipc.read.decoders import schema_of
from arrowipc.read.framing import message_of
from arrowipc.schemas import Schema
from arrowipc.types import DataType, Field
from arrowipc.values.dtypes import dtype_of

if TYPE_CHECKING:
    import numpy as np

    Json = dict[str, Any]

__all__ = ["differences", "read_json", "write_json"]

WORDS = {"s": "SECOND", "ms": "MILLISECOND", "us": "MICROSECOND", "ns": "NANOSECOND"}
VALUES = {word: value for value, word in WORDS.items()}
#: Types by their names in JSON, and the keys of their parameters in the order in which the classes take them;
#: "*": the children, one by one, "children": as a list.
KEYS: dict[str, tuple[type[DataType], tuple[str, ...]]] = {
    "null": (types.Null, ()),
    "bool": (types.Bool, ()),
    "int": (types.Int, ("bitWidth", "isSigned")),
    "floatingpoint": (types.FloatingPoint, ("precision",)),
    "decimal": (types.Decimal, ("precision", "scale", "bitWidth")),
    "date": (types.Date, ("unit",)),
    "time": (types.Time, ("unit", "bitWidth")),
    "timestamp": (types.Timestamp, ("unit", "timezone")),
    "duration": (types.Duration, ("unit",)),
    "interval": (types.Interval, ("unit",)),
    "utf8": (types.Utf8, ()),
    "binary": (types.Binary, ()),
    "largeutf8": (types.LargeUtf8, ()),
    "largebinary": (types.LargeBinary, ()),
    "utf8view": (types.Utf8View, ()),
    "binaryview": (types.BinaryView, ()),
    "fixedsizebinary": (types.FixedSizeBinary, ("byteWidth",)),
    "list": (types.List, ("*",)),
    "largelist": (types.LargeList, ("*",)),
    "listview": (types.ListView, ("*",)),
    "largelistview": (types.LargeListView, ("*",)),
    "fixedsizelist": (types.FixedSizeList, ("*", "listSize")),
    "map": (types.Map, ("*", "keysSorted")),
    "struct": (types.Struct, ("children",)),
    "union": (types.Union, ("mode", "children", "typeIds")),
    "runendencoded": (types.RunEndEncoded, ("*",)),
}
NAMES = {kind: name for name, (kind, _) in KEYS.items()}
#: What may be left out.
DEFAULTS: dict[tuple[type[DataType], str], Any] = {
    (types.Timestamp, "timezone"): None,
    (types.Decimal, "bitWidth"): 128,
}

TEXT = (types.Utf8, types.LargeUtf8, types.Utf8View)
VARIABLE = (types.Utf8, types.LargeUtf8, types.Binary, types.LargeBinary)
VIEWS = (types.Utf8View, types.BinaryView)
WIDE = (types.LargeUtf8, types.LargeBinary, types.LargeList, types.LargeListView)
INLINE = 12


# -- schemas -------------------------------------------------------------------------------------------------


def field_of(entry: Json) -> Field:
    kind = _type_of(entry["type"], [field_of(child) for child in entry.get("children") or ()])
    encoding = entry.get("dictionary")
    if encoding is not None:
        index = encoding["indexType"]
        kind = types.Dictionary(
            types.Int(index["bitWidth"], index["isSigned"]), kind, encoding["isOrdered"], encoding["id"]
        )
    return Field(entry["name"], kind, entry["nullable"], pairs_of(entry))


def _type_of(entry: Json, children: list[Field]) -> DataType:
    if entry["name"] not in KEYS:
        raise UnsupportedError(f"there is no type {entry['name']!r} in the format")
    kind, keys = KEYS[entry["name"]]
    parameters: list[Any] = []
    for key in keys:
        if key == "*":
            parameters += children
        elif key == "children":
            parameters.append(children)
        else:
            value = entry.get(key, DEFAULTS[kind, key]) if (kind, key) in DEFAULTS else entry[key]
            is_word = isinstance(value, str) and key != "timezone"
            parameters.append(VALUES.get(value, value.lower()) if is_word else value)
    return kind(*parameters)


def pairs_of(entry: Json) -> list[tuple[str, str]]:
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
    return out | _pairs_json(field.metadata.pairs)


def _type_json(kind: DataType) -> Json:
    out: Json = {"name": NAMES[type(kind)]}
    parameters: tuple[str, ...] = kind.__match_args__
    for key, parameter in zip(KEYS[out["name"]][1], parameters, strict=False):
        value = getattr(kind, parameter)
        if isinstance(value, str) and key != "timezone":
            value = WORDS.get(value, value.upper())
        if key not in ("*", "children") and value is not None:
            out[key] = list(value) if key == "typeIds" else value
    return out


def _pairs_json(pairs: Iterable[tuple[bytes, bytes]]) -> Json:
    found = []
    for key, value in pairs:
        try:
            found.append({"key": key.decode(), "value": value.decode()})
        except UnicodeDecodeError:
            raise UnsupportedError(f"metadata {key!r}: JSON cannot hold bytes that are not text") from None
    return {"metadata": found} if found else {}


# -- JSON to batches -----------------------------------------------------------------------------------------


class _Parts:
    """What `RecordBatch.from_buffers` takes, gathered in pre-order."""

    def __init__(self, dictionaries: Callable[[int], Array | None]) -> None:
        self._values_of = dictionaries
        self.nodes: list[tuple[int, int]] = []
        self.buffers: list[bytes] = []
        self.variadic: list[int] = []
        self.dictionaries: list[Array | None] = []

    def add(self, field: Field, column: Json) -> None:
        """Take a column and those below it."""
        kind, roles = field.type, roles_of(field.type)
        valid = (column.get("VALIDITY") if "validity" in roles else None) or []
        nulls = valid.count(0)
        self.nodes.append((column["count"], nulls))
        self.buffers += [_bits(valid) if nulls else b""] * ("validity" in roles)
        self.buffers += [_buffer(kind, role, column) for role in roles if role != "validity"]
        if isinstance(kind, VIEWS):
            pools = [bytes.fromhex(pool) for pool in column["VARIADIC_DATA_BUFFERS"]]
            self.buffers += pools
            self.variadic.append(len(pools))
        if isinstance(kind, types.Dictionary):
            assert kind.id is not None
            self.dictionaries.append(self._values_of(kind.id))
        for child, below in zip(kind.children, column.get("children") or (), strict=True):
            self.add(child, below)


def _buffer(kind: DataType, role: str, column: Json) -> bytes:
    width = "<i8" if isinstance(kind, WIDE) else "<i4"
    match role:
        case "type codes":
            return _numbers(column["TYPE_ID"], "i1")
        case "offsets":
            return _numbers(column["OFFSET"] or [0], width)
        case "sizes":
            return _numbers(column["SIZE"], width)
        case "views":
            return b"".join([_view(kind, each) for each in column["VIEWS"]])
    if isinstance(kind, VARIABLE):
        encode: Callable[[str], bytes] = str.encode if isinstance(kind, TEXT) else bytes.fromhex
        return b"".join(map(encode, column["DATA"]))
    return _fixed(kind.index_type if isinstance(kind, types.Dictionary) else kind, column["DATA"])


def _bits(values: list[Any]) -> bytes:
    import numpy as np

    return np.packbits(np.array(values, np.uint8), bitorder="little").tobytes()


def _numbers(values: list[Any], code: Any) -> bytes:
    """Integers, which may be texts, as the bytes of their type."""
    import numpy as np

    return np.array([int(value) for value in values], code).tobytes()


def _fixed(kind: DataType, values: list[Any]) -> bytes:
    """Values of fixed width as they are stored."""
    import numpy as np

    if isinstance(kind, types.Bool):
        return _bits(values)
    dtype = _dtype(kind)
    if dtype.names:
        return np.array([tuple([int(value[name]) for name in dtype.names]) for value in values], dtype).tobytes()
    if isinstance(kind, types.Decimal):
        return b"".join([int(value).to_bytes(dtype.itemsize, "little", signed=True) for value in values])
    if dtype.kind == "V":
        return b"".join(map(bytes.fromhex, values))
    if dtype.kind == "f":
        with np.errstate(over="raise"):  # a number too large for its type is not infinity
            return np.array(values, dtype).tobytes()
    return _numbers(values, dtype)


def _dtype(kind: DataType) -> np.dtype[Any]:
    """How values are stored; dates, times and durations are numbers here."""
    import numpy as np

    dtype = dtype_of(kind)
    return np.dtype("<i8") if dtype.kind in "mM" else dtype


def _view(kind: DataType, entry: Json) -> bytes:
    size = entry["SIZE"]
    if "INLINED" in entry:
        text = entry["INLINED"]
        data = text.encode() if isinstance(kind, TEXT) else bytes.fromhex(text)
        return _numbers([size], "<i4") + data.ljust(INLINE, b"\0")
    prefix = bytes.fromhex(entry["PREFIX_HEX"]).ljust(4, b"\0")
    return _numbers([size], "<i4") + prefix + _numbers([entry["BUFFER_INDEX"], entry["OFFSET"]], "<i4")


def read_json(source: Any, *, limits: Limits | None = None) -> tuple[Schema, list[RecordBatch]]:
    """Read a document: a path, its bytes, also compressed by gzip, or what `json.load` made of it.

    The batches are validated as those of a stream are. `FormatError`: it is no such document; `UnsupportedError`:
    it has a type that the Arrow format has not; `LimitError`: it asks for more than `limits`.
    """
    limits = limits or Limits()
    document = source if isinstance(source, dict) else _load(source)
    try:
        described = document["schema"]
        schema = Schema([field_of(entry) for entry in described["fields"]], metadata=pairs_of(described))
        read = schema_of(message_of(schema_metadata(schema)), limits)
        return schema, list(_batches(read, document, limits))
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


def _load(source: Any) -> Json:
    data = source
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            data = file.read()
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        document = json.loads(data)
    except (ValueError, EOFError, OSError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise FormatError(f"expected a JSON object, found {type(document).__name__}")
    return document


def _batches(schema: Schema, document: Json, limits: Limits) -> Iterator[RecordBatch]:
    known = dictionary_fields(schema)
    entries = {entry["id"]: entry["data"] for entry in document.get("dictionaries") or ()}

    @functools.cache
    def values_of(id: int) -> Array | None:
        if id not in entries:
            return None
        alone = Schema([Field("", known[id][1].value_type)])
        return batch(alone, entries[id]["count"], entries[id]["columns"][:1]).column(0)

    def batch(schema: Schema, count: int, columns: list[Json]) -> RecordBatch:
        parts = _Parts(values_of)
        for field, column in zip(schema.fields, columns, strict=True):
            parts.add(field, column)
        return RecordBatch.from_buffers(
            schema,
            count,
            parts.nodes,
            parts.buffers,
            variadic=parts.variadic,
            dictionaries=parts.dictionaries,
            validate="full",
            limits=limits,
        )

    for id in entries:
        values_of(id)
    for entry in document.get("batches") or ():
        yield batch(schema, entry["count"], entry["columns"])


# -- batches to JSON -----------------------------------------------------------------------------------------


def write_json(schema: Schema, batches: Iterable[RecordBatch]) -> Json:
    """Spell out batches as a document for `json.dump`; integers of 64 bits and decimals are texts, bytes hexadecimal.

    `FormatError`: a text that was read without validation is no UTF-8; `UnsupportedError`: a dictionary was
    replaced in between, or metadata is no text. The format cannot say so.
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
        "schema": {"fields": [_field_json(field) for field in schema]} | _pairs_json(schema.metadata.pairs),
        "dictionaries": [_dictionary_json(id, known[id][1].value_type, each) for id, each in dictionaries.items()],
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
                raise UnsupportedError(f"dictionary {kind.id} was replaced: the integration format has one of each")
            values = long
        found[kind.id] = values
        return
    for child, below in zip(kind.children, column.children, strict=True):
        _gather(child.type, below, found)


def _columns(fields: Iterable[Field], batch: RecordBatch) -> list[Json]:
    columns = compact(batch, view_waste=math.inf).columns
    return list(map(_column_json, fields, columns))


def _column_json(field: Field, column: Array) -> Json:
    """Spell out a column whose buffers hold its elements and nothing else."""
    import numpy as np

    kind, count = field.type, len(column)
    buffers = [bytes(buffer or b"") for buffer in column.buffers()]
    data = dict(zip(roles_of(kind), buffers, strict=False))
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
        out["VIEWS"] = [_view_json(kind, data["views"][16 * i : 16 * i + 16], bool(valid[i])) for i in range(count)]
        out["VARIADIC_DATA_BUFFERS"] = [pool.hex().upper() for pool in buffers[2:]]
    elif isinstance(kind, types.Dictionary):
        out["DATA"] = _values(kind.index_type, data["indices"], valid)
    elif isinstance(kind, VARIABLE):
        ends = offsets.tolist() or [0]
        pieces = [data["data"][start:end] for start, end in itertools.pairwise(ends)]
        out["DATA"] = [_content(kind, piece, bool(valid[i])) for i, piece in enumerate(pieces)]
    elif "data" in data:
        out["DATA"] = _values(kind, data["data"], valid)
    if kind.children:
        out["children"] = list(map(_column_json, kind.children, column.children))
    return out


def _from_bits(data: bytes, count: int) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little").astype(bool)


def _spelled(numbers: np.ndarray[Any, Any]) -> list[Any]:
    """Numbers as JSON's, or as texts where they are integers of 64 bits."""
    wide = numbers.itemsize == 8 and numbers.dtype.kind != "f"
    return list(map(str, numbers.tolist())) if wide else numbers.tolist()


def _values(kind: DataType, data: bytes, valid: Any) -> list[Any]:
    """Values of fixed width; what lies under a null is 0."""
    import numpy as np

    if isinstance(kind, types.Bool):
        found: list[Any] = _from_bits(data, len(valid)).tolist() if data else []
        return [value and ok for value, ok in zip(found, valid.tolist(), strict=True)]
    dtype = _dtype(kind)
    nothing: Any = 0
    stored = np.frombuffer(data, dtype) if dtype.itemsize else np.zeros(len(valid), dtype)
    if dtype.names:
        nothing = dict.fromkeys(dtype.names, 0)
        found = [dict(zip(dtype.names, row, strict=True)) for row in stored.tolist()]
    elif isinstance(kind, types.Decimal):
        nothing = "0"
        found = [str(int.from_bytes(value, "little", signed=True)) for value in stored.tolist()]
    elif dtype.kind == "V":
        nothing = "00" * dtype.itemsize
        found = [value.hex().upper() for value in stored.tolist()]
    else:
        found = _spelled(stored)
        nothing = "0" if dtype.itemsize == 8 and dtype.kind != "f" else 0
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
            raise FormatError(f"a text of the batches is not UTF-8: {error}") from error
        return "\0" * len(data)


# -- comparison ----------------------------------------------------------------------------------------------


def differences(left: tuple[Schema, Iterable[RecordBatch]], right: tuple[Schema, Iterable[RecordBatch]]) -> list[str]:
    """Compare two sources as the integration tests do; empty: they hold the same.

    Names inside of maps and the order of metadata may differ, as between the libraries; NaN equals NaN.
    """
    found = []
    one, other = left[0], right[0]
    if len(one) != len(other):
        return [f"{len(one)} columns against {len(other)}"]
    if one.metadata != other.metadata:
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
    if a != b or a.name != b.name or a.metadata != b.metadata:
        return False
    below = [getattr(field.type, "value_type", field.type) for field in (a, b)]
    if isinstance(below[0], types.Map):
        return True
    return all(_alike(x, y) for x, y in zip(below[0].children, below[1].children, strict=True))


# -- the program ---------------------------------------------------------------------------------------------


def _convert(source: str, output: str, to_file: bool) -> None:
    begin = ipc.new_file if to_file else ipc.new_stream
    with (
        ipc.open(sys.stdin.buffer if source == "-" else source) as reader,
        begin(sys.stdout.buffer if output == "-" else output, reader.schema, unify_dictionaries=to_file) as writer,
    ):
        ipc.copy(reader, writer)


def _to_arrow(document: str, arrow: str) -> None:
    schema, batches = read_json(document)
    with ipc.new_file(arrow, schema) as writer:
        writer.write(iter(batches))


def _to_json(arrow: str, document: str) -> None:
    with ipc.open(arrow) as reader:
        found = write_json(reader.schema, reader)
    with open(document, "w", encoding="utf-8") as file:
        json.dump(found, file, ensure_ascii=False, indent=1)


def _validate(document: str, arrow: str) -> list[str]:
    expected = read_json(document)
    with ipc.open(arrow) as reader:
        return differences(expected, (reader.schema, reader))


def main(arguments: list[str] | None = None) -> int:
    """Do what one mode says. The exit code is 1 where two sources differ, and where an error ends the program."""
    parser = argparse.ArgumentParser(prog="python -m peers.integration_json", description=main.__doc__)
    add = parser.add_argument
    modes = ("JSON_TO_ARROW", "ARROW_TO_JSON", "VALIDATE", "STREAM_TO_FILE", "FILE_TO_STREAM")
    add("--integration", action="store_true", help="changes nothing; Arrow's tests pass it")
    add("--mode", choices=modes, required=True)
    add("--arrow", metavar="PATH", default="-", help="an Arrow file or stream; - is stdin, in the last two modes")
    add("--json", metavar="PATH", help="a document, also gzipped; needed in the first three modes")
    add("-o", "--output", metavar="PATH", default="-", help="what the last two modes write; - is stdout")
    chosen = parser.parse_args(arguments)
    if chosen.mode in modes[3:]:
        _convert(chosen.arrow, chosen.output, chosen.mode == "STREAM_TO_FILE")
        return 0
    if chosen.json is None or chosen.arrow == "-":
        parser.error(f"--mode={chosen.mode} needs --arrow PATH and --json PATH")
    found = []
    if chosen.mode == "JSON_TO_ARROW":
        _to_arrow(chosen.json, chosen.arrow)
    elif chosen.mode == "ARROW_TO_JSON":
        _to_json(chosen.arrow, chosen.json)
    else:
        found = _validate(chosen.json, chosen.arrow)
    for words in found[:20]:
        print(words[:2000], file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
