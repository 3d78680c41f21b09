"""Reads Arrow's JSON integration format into the values and types that arrowipc is expected to give."""

from __future__ import annotations

import datetime as dt
import gzip
import itertools
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from peers.integration_json import field_of, pairs_of

import arrowipc as ipc
from arrowipc.columns.extensions import STORED_TIMES

EPOCH = dt.datetime(1970, 1, 1)
PER_SECOND = {"SECOND": 1, "MILLISECOND": 1_000, "MICROSECOND": 1_000_000}

#: The part of Arrow's test data that is in the repository.
PART = Path(__file__).resolve().parents[1] / "data/arrow-testing"
#: Files that we made with other libraries.
WRITERS = PART.with_name("writers")


def data_root() -> Path:
    """Where Arrow's test data is: $ARROW_TEST_DATA, beside the repository, or the part of it in the repository."""
    named = os.environ.get("ARROW_TEST_DATA")
    if named:
        return Path(named)
    beside = PART.parents[2].parent / "shared/data/arrow-testing/data"
    return beside if beside.is_dir() else PART


#: All of Arrow's test data is there.
WHOLE = data_root() != PART
# How many golden data sets each folder must hold: a folder that lost one is a failure, not a shorter run.
FOLDERS = {
    "0.14.1": 9 if WHOLE else 8,
    "0.17.1": 1,
    "1.0.0-bigendian": 22 if WHOLE else 11,
    "2.0.0-compression": 4,
    "4.0.0-shareddict": 1,
    "cpp-21.0.0": 32 if WHOLE else 24,
}
# And how many inputs that once broke a reader.
HOSTILE = {"arrow-ipc-stream": 40 if WHOLE else 10, "arrow-ipc-file": 19 if WHOLE else 5}


def cases() -> list[Path]:
    """The golden data sets, as paths without suffix."""
    found = data_root().glob("arrow-ipc-stream/integration/*/*.json.gz")
    return sorted(path.with_name(path.name.removesuffix(".json.gz")) for path in found)


@dataclass(frozen=True)
class Golden:
    """One golden data set: the parsed JSON and the two IPC forms of it."""

    json: dict[str, Any]
    stream: Path
    file: Path


def load(case: Path) -> Golden:
    with gzip.open(case.with_name(case.name + ".json.gz")) as source:
        return Golden(
            json.load(source),
            case.with_name(case.name + ".stream"),
            case.with_name(case.name + ".arrow_file"),
        )


# Values.


def batches(content: dict[str, Any]) -> Iterator[list[list[Any]]]:
    """Per batch the columns, each as the list that `Array.to_pylist` must give; the stored number where it refuses."""
    words = _dictionaries(content)
    for batch in content["batches"]:
        assert all(column["count"] == batch["count"] for column in batch["columns"])
        yield [values(f, c, words) for f, c in zip(content["schema"]["fields"], batch["columns"], strict=True)]


def null_counts(content: dict[str, Any]) -> Iterator[list[int | None]]:
    """Per batch and column the number of nulls; None for types that have no validity of their own."""
    for batch in content["batches"]:
        yield [_null_count(f, c) for f, c in zip(content["schema"]["fields"], batch["columns"], strict=True)]


def _null_count(field: dict[str, Any], column: dict[str, Any]) -> int | None:
    if "dictionary" not in field and field["type"]["name"] in ("union", "runendencoded", "null"):
        return None
    return column["VALIDITY"].count(0)


def _dictionaries(content: dict[str, Any]) -> dict[int, list[Any]]:
    """Decoded dictionaries by id, in the order of the file: inner ones come before those that use them."""
    fields = {f["dictionary"]["id"]: f for f in _walk(content["schema"]["fields"]) if "dictionary" in f}
    words: dict[int, list[Any]] = {}
    for entry in content.get("dictionaries", ()):
        plain = {k: v for k, v in fields[entry["id"]].items() if k != "dictionary"}
        words[entry["id"]] = values(plain, entry["data"]["columns"][0], words)
    return words


def _walk(fields: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for field in fields:
        yield field
        yield from _walk(field.get("children", []))


def values(field: dict[str, Any], column: dict[str, Any], words: dict[int, list[Any]]) -> list[Any]:
    """The logical values of one column; what lies under a null is not looked at."""
    if "dictionary" in field:
        indices, letters = column["DATA"], words.get(field["dictionary"]["id"], [])
        items: Iterator[Any] = (lambda i=i: letters[int(i)] for i in indices)
    else:
        items = _thunks(field, column, words)
    valid = column.get("VALIDITY") or itertools.repeat(1, column["count"])
    found = [item() if ok else None for ok, item in zip(valid, items, strict=True)]
    assert len(found) == column["count"]
    return found


def _thunks(field: dict[str, Any], column: dict[str, Any], words: dict[int, list[Any]]) -> Iterator[Any]:
    """One call per row that gives its value, so that rows under a null are never decoded."""
    kind, name = field["type"], field["type"]["name"]
    below = [values(f, c, words) for f, c in zip(field.get("children", []), column.get("children", []), strict=True)]
    names = [f["name"] for f in field.get("children", [])]
    match name:
        case "null":
            return (lambda: None for _ in range(column["count"]))
        case "list" | "largelist":
            return (lambda a=int(a), b=int(b): below[0][a:b] for a, b in itertools.pairwise(column["OFFSET"]))
        case "listview" | "largelistview":
            spans = zip(column["OFFSET"], column["SIZE"], strict=True)
            return (lambda a=int(a), n=int(n): below[0][a : a + n] for a, n in spans)
        case "fixedsizelist":
            size = kind["listSize"]
            return (lambda i=i: below[0][i * size : (i + 1) * size] for i in range(column["count"]))
        case "map":
            entry = names_of_entries(field)
            spans = itertools.pairwise(column["OFFSET"])
            return (lambda a=int(a), b=int(b): [_pair(e, entry) for e in below[0][a:b]] for a, b in spans)
        case "struct":
            return (lambda row=row: _struct(names, row) for row in _rows(below, column["count"]))
        case "union":
            return _union(kind, column, below)
        case "runendencoded":
            return (lambda v=v: v for v in _expand(*below, column["count"]))
        case "binaryview" | "utf8view":
            return (lambda v=v: _view(name, v, column["VARIADIC_DATA_BUFFERS"]) for v in column["VIEWS"])
    return (lambda v=v: scalar(kind, v) for v in column["DATA"])


def names_of_entries(field: dict[str, Any]) -> list[str]:
    return [child["name"] for child in field["children"][0]["children"]]


def _rows(columns: list[list[Any]], count: int) -> list[tuple[Any, ...]]:
    return [tuple(column[i] for column in columns) for i in range(count)]


def _struct(names: list[str], row: tuple[Any, ...]) -> Any:
    pairs = list(zip(names, row, strict=True))
    return dict(pairs) if len(set(names)) == len(names) else pairs


def _pair(entry: Any, names: list[str]) -> tuple[Any, Any]:
    key, value = [value for _, value in entry] if isinstance(entry, list) else [entry[name] for name in names]
    return key, value


def _union(kind: dict[str, Any], column: dict[str, Any], below: list[list[Any]]) -> Iterator[Any]:
    child = {code: i for i, code in enumerate(kind["typeIds"])}
    offsets = column["OFFSET"] if kind["mode"] == "DENSE" else range(column["count"])
    codes = zip(column["TYPE_ID"], offsets, strict=True)
    return (lambda c=child[code], at=int(at): below[c][at] for code, at in codes)


def _expand(ends: list[int], items: list[Any], count: int) -> Iterator[Any]:
    start = 0
    for end, item in zip(ends, items, strict=True):
        yield from itertools.repeat(item, min(end, count) - start)
        start = end


def _view(name: str, view: dict[str, Any], buffers: list[str]) -> Any:
    if "INLINED" in view:
        return view["INLINED"] if name == "utf8view" else bytes.fromhex(view["INLINED"])
    start = view["OFFSET"]
    data = bytes.fromhex(buffers[view["BUFFER_INDEX"]])[start : start + view["SIZE"]]
    assert data.startswith(bytes.fromhex(view["PREFIX_HEX"]))
    return data.decode() if name == "utf8view" else data


def scalar(kind: dict[str, Any], stored: Any) -> Any:
    """One value of a fixed-width or text type."""
    match kind["name"]:
        case "bool":
            return bool(stored)
        case "utf8" | "largeutf8":
            return stored
        case "binary" | "largebinary" | "fixedsizebinary":
            return bytes.fromhex(stored)
        case "floatingpoint":
            code = {"HALF": "e", "SINGLE": "f", "DOUBLE": "d"}[kind["precision"]]
            return struct.unpack(code, struct.pack(code, stored))[0]
        case "decimal":
            number = int(stored)
            return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -kind["scale"]))
        case "interval" if kind["unit"] == "DAY_TIME":
            return stored["days"], stored["milliseconds"]
        case "interval" if kind["unit"] == "MONTH_DAY_NANO":
            return stored["months"], stored["days"], stored["nanoseconds"]
        case "date" | "time" | "timestamp" | "duration":
            return temporal(kind, int(stored))
    return int(stored)


def temporal(kind: dict[str, Any], stored: int) -> Any:
    """The Python value, or the stored integer where Python's type cannot hold it."""
    unit = kind["unit"]
    if unit == "NANOSECOND":
        found = stored if stored % 1000 else temporal({**kind, "unit": "MICROSECOND"}, stored // 1000)
        return stored if isinstance(found, int) else found
    try:
        if unit == "DAY":
            return (EPOCH + dt.timedelta(days=stored)).date()
        whole, part = divmod(stored, PER_SECOND[unit])
        delta = dt.timedelta(seconds=whole, microseconds=part * (1_000_000 // PER_SECOND[unit]))
        match kind["name"]:
            case "duration":
                return delta
            case "date":
                moment = EPOCH + delta
                return moment.date() if moment.time() == dt.time() else moment
            case "time":
                return (EPOCH + delta).time() if dt.timedelta() <= delta < dt.timedelta(days=1) else stored
        moment = EPOCH + delta
        if not kind.get("timezone"):
            return moment
        return moment.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(kind["timezone"]))
    except OverflowError:
        return stored


# Types.


def schema(content: dict[str, Any]) -> ipc.Schema:
    """The arrowipc Schema that the JSON describes (its endianness is not in the JSON: taken as little)."""
    described = content["schema"]
    return ipc.Schema([field_of(each) for each in described["fields"]], metadata=pairs_of(described))


# Comparison.


def same(expected: Any, found: Any) -> bool:
    """Equality of values *and* of Python types; NaN equals NaN, aware datetimes have equal offsets."""
    if (isinstance(expected, tuple) and isinstance(found, tuple)) or (type(expected) is list and type(found) is list):
        return len(expected) == len(found) and all(map(same, expected, found))
    if type(expected) is not type(found):
        return False
    if isinstance(expected, dict):
        return list(expected) == list(found) and all(same(expected[k], found[k]) for k in expected)
    if isinstance(expected, float):
        return struct.pack("<d", expected) == struct.pack("<d", found) or (expected != expected and found != found)
    if isinstance(expected, Decimal):
        return expected.as_tuple() == found.as_tuple()
    if isinstance(expected, dt.datetime):
        return expected == found and expected.utcoffset() == found.utcoffset()
    return bool(expected == found)


def assert_same(expected: list[Any], found: list[Any], where: str) -> None:
    """Fails naming the first row that differs."""
    assert len(expected) == len(found), f"{where}: {len(expected)} rows expected, {len(found)} found"
    for row, (want, got) in enumerate(zip(expected, found, strict=True)):
        assert same(want, got), f"{where}, row {row}: expected {want!r}, found {got!r}"


def assert_matches(content: dict[str, Any], found_schema: Any, found_batches: list[Any]) -> None:
    """The reader's schema and batches are what the JSON says, null counts and metadata included."""
    want = schema(content)
    assert [f.name for f in want] == [f.name for f in found_schema]
    for expected, found in zip(want, found_schema, strict=True):
        assert_field(expected, found)
    assert found_schema.metadata == want.metadata
    columns, nulls = list(batches(content)), list(null_counts(content))
    assert len(found_batches) == len(columns)
    for number, batch in enumerate(found_batches):
        assert batch.num_columns == len(columns[number])
        assert batch.num_rows == content["batches"][number]["count"]
        for i, expected_values in enumerate(columns[number]):
            where = f"batch {number}, column {i} ({want.fields[i].name})"
            array = batch.column(i)
            assert_same(expected_values, array.to_pylist(extensions=STORED_TIMES), where)
            assert nulls[number][i] in (None, array.null_count), f"{where}: {array.null_count} nulls"


def assert_field(expected: Any, found: Any) -> None:
    """Field equality with metadata at every level.

    Two liberties of the implementation that wrote the files are granted: extension metadata in an order of
    its own and, in streams, the standard names inside a map.
    """
    assert found.nullable == expected.nullable, f"expected {expected!r}, found {found!r}"
    assert found.type == expected.type, f"expected {expected!r}, found {found!r}"
    assert found.metadata == expected.metadata
    inside_map = type(expected.type).__name__ == "Map"
    for below, other in zip(_fields_of(expected.type), _fields_of(found.type), strict=True):
        assert inside_map or below.name == other.name
        if not inside_map:
            assert_field(below, other)


def _fields_of(kind: Any) -> tuple[Any, ...]:
    kind = getattr(kind, "value_type", kind)
    single = [getattr(kind, name) for name in ("value_field", "entries", "run_ends", "values") if hasattr(kind, name)]
    return (*single, *getattr(kind, "fields", ()))
