"""Arrow's JSON integration format, and the program that Arrow's integration tests call for arrowipc.

The projects of the Arrow format exchange test data in it: batches, written buffer by buffer. The library says
which buffers a type has (`roles_of`) and what they must hold (`RecordBatch.from_buffers`); this file says only
how each buffer looks in JSON. From a checkout:

    PYTHONPATH=tests python -m peers.integration_json --mode=VALIDATE --arrow=FILE --json=DOCUMENT
"""

import argparse
import functools
import gzip
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import arrowipc as ipc
from arrowipc import Array, Limits, RecordBatch, Schema, UnsupportedError, types
from arrowipc.decode.decoders import schema_of
from arrowipc.decode.framing import message_of
from arrowipc.inspection.message_layout import dictionary_fields, roles_of
from arrowipc.schemas import schema_message
from arrowipc.types import DataType, Field
from arrowipc.values.dtypes import dtype_of

Json = dict[str, Any]

UNITS = {"SECOND": "s", "MILLISECOND": "ms", "MICROSECOND": "us", "NANOSECOND": "ns"}
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
            parameters.append(UNITS.get(value, value.lower()) if is_word else value)
    return kind(*parameters)


def pairs_of(entry: Json) -> list[tuple[str, str]]:
    return [(pair["key"], pair["value"]) for pair in entry.get("metadata") or ()]


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
            assert kind.dictionary_id is not None
            self.dictionaries.append(self._values_of(kind.dictionary_id))
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
    return np.packbits(np.array(values, np.uint8), bitorder="little").tobytes()


def _numbers(values: list[Any], code: Any) -> bytes:
    """Integers, which may be texts, as the bytes of their type."""
    return np.array([int(value) for value in values], code).tobytes()


def _fixed(kind: DataType, values: list[Any]) -> bytes:
    """Values of fixed width as they are stored."""
    if isinstance(kind, types.Bool):
        return _bits(values)
    dtype = dtype_of(kind)
    if dtype.kind in "mM":  # dates, times and durations are numbers here
        return _numbers(values, "<i8")
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


def _view(kind: DataType, entry: Json) -> bytes:
    size = entry["SIZE"]
    if "INLINED" in entry:
        text = entry["INLINED"]
        data = text.encode() if isinstance(kind, TEXT) else bytes.fromhex(text)
        return _numbers([size], "<i4") + data.ljust(INLINE, b"\0")
    prefix = bytes.fromhex(entry["PREFIX_HEX"]).ljust(4, b"\0")
    return _numbers([size], "<i4") + prefix + _numbers([entry["BUFFER_INDEX"], entry["OFFSET"]], "<i4")


def read_json(source: Any) -> tuple[Schema, list[RecordBatch]]:
    """Read a document: a path, also of one compressed by gzip, or what `json.load` made of it."""
    document = source if isinstance(source, dict) else json.loads(_read(source))
    described = document["schema"]
    schema = Schema([field_of(entry) for entry in described["fields"]], metadata=pairs_of(described))
    return schema, list(_batches(schema_of(message_of(schema_message(schema)), Limits()), document))


def _read(path: str) -> bytes:
    data = Path(path).read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def _batches(schema: Schema, document: Json) -> Iterator[RecordBatch]:
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
        )

    for id in entries:
        values_of(id)
    for entry in document.get("batches") or ():
        yield batch(schema, entry["count"], entry["columns"])


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
    for number, (mine, theirs) in enumerate(itertools.zip_longest(left[1], right[1])):
        if mine is None or theirs is None:
            return [*found, f"one of them ends after {number} batches"]
        for field, here, there in zip(one, mine.columns, theirs.columns, strict=True):
            if not here.equals(there, nan_equal=True):
                found.append(f"batch {number}, column {field.name!r}: the values differ")
    return found


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


def main(arguments: list[str] | None = None) -> int:
    """Do what one mode says. The exit code is 1 where two sources differ, and where an error ends the program."""
    parser = argparse.ArgumentParser(prog="python -m peers.integration_json", description=main.__doc__)
    add = parser.add_argument
    modes = ("JSON_TO_ARROW", "VALIDATE", "STREAM_TO_FILE", "FILE_TO_STREAM")
    add("--integration", action="store_true", help="changes nothing; Arrow's tests pass it")
    add("--mode", choices=modes, required=True)
    add("--arrow", metavar="PATH", default="-", help="an Arrow file or stream; - is stdin, in the last two modes")
    add("--json", metavar="PATH", help="a document, also gzipped; needed in the first two modes")
    add("-o", "--output", metavar="PATH", default="-", help="what the last two modes write; - is stdout")
    chosen = parser.parse_args(arguments)
    if chosen.mode in modes[2:]:
        _convert(chosen.arrow, chosen.output, chosen.mode == "STREAM_TO_FILE")
        return 0
    if chosen.json is None or chosen.arrow == "-":
        parser.error(f"--mode={chosen.mode} needs --arrow PATH and --json PATH")
    (schema, batches), found = read_json(chosen.json), []
    if chosen.mode == "JSON_TO_ARROW":
        with ipc.new_file(chosen.arrow, schema) as writer:
            writer.write(iter(batches))
    else:
        with ipc.open(chosen.arrow) as reader:
            found = differences((schema, batches), (reader.schema, reader))
    for words in found[:20]:
        print(words[:2000], file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
