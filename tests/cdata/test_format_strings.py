"""What an exported ArrowSchema says: format strings, names, flags, metadata, for every type."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.cdata import CSchema, peek

import arrowipc as ipc
from arrowipc import types
from arrowipc.cdata.import_array import schema_from

FORMATS = {
    "n": types.Null(),
    "b": types.Bool(),
    "c": types.Int(8, True),
    "C": types.Int(8, False),
    "s": types.Int(16, True),
    "S": types.Int(16, False),
    "i": types.Int(32, True),
    "I": types.Int(32, False),
    "l": types.Int(64, True),
    "L": types.Int(64, False),
    "e": types.FloatingPoint("half"),
    "f": types.FloatingPoint("single"),
    "g": types.FloatingPoint("double"),
    "z": types.Binary(),
    "Z": types.LargeBinary(),
    "vz": types.BinaryView(),
    "u": types.Utf8(),
    "U": types.LargeUtf8(),
    "vu": types.Utf8View(),
    "d:5,2": types.Decimal(5, 2),
    "d:9,-3,32": types.Decimal(9, -3, 32),
    "d:18,2,64": types.Decimal(18, 2, 64),
    "d:76,2,256": types.Decimal(76, 2, 256),
    "w:0": types.FixedSizeBinary(0),
    "w:42": types.FixedSizeBinary(42),
    "tdD": types.Date("day"),
    "tdm": types.Date("ms"),
    "tts": types.Time("s", 32),
    "ttm": types.Time("ms", 32),
    "ttu": types.Time("us", 64),
    "ttn": types.Time("ns", 64),
    "tss:": types.Timestamp("s"),
    "tsm:Europe/Köln": types.Timestamp("ms", "Europe/Köln"),
    "tsu:UTC": types.Timestamp("us", "UTC"),
    "tsn:+01:30": types.Timestamp("ns", "+01:30"),
    "tDs": types.Duration("s"),
    "tDm": types.Duration("ms"),
    "tDu": types.Duration("us"),
    "tDn": types.Duration("ns"),
    "tiM": types.Interval("year_month"),
    "tiD": types.Interval("day_time"),
    "tin": types.Interval("month_day_nano"),
    "+l": types.List(types.Field("item", types.Bool())),
    "+L": types.LargeList(types.Field("item", types.Bool())),
    "+vl": types.ListView(types.Field("item", types.Bool())),
    "+vL": types.LargeListView(types.Field("item", types.Bool())),
    "+w:3": types.FixedSizeList(types.Field("item", types.Bool()), 3),
    "+s": types.Struct([]),
    "+us:": types.Union("sparse", []),
    "+ud:5,0": types.Union("dense", [types.Field("a", types.Bool()), types.Field("b", types.Null())], [5, 0]),
    "+r": types.RunEndEncoded(types.Field("run_ends", types.Int(16, True)), types.Field("values", types.Bool())),
    "S ": types.Dictionary(types.Int(16, False), types.Utf8()),
}


@pytest.mark.parametrize("format", FORMATS)
def test_format_strings(format: str) -> None:
    capsule = FORMATS[format].__arrow_c_schema__()
    found = peek(capsule, CSchema)
    assert (found.format.decode(), found.name, found.metadata, found.flags) == (format.strip(), b"", None, 2)
    assert found.n_children == len(FORMATS[format].children)
    assert bool(found.dictionary) == isinstance(FORMATS[format], types.Dictionary)
    schema = ipc.Schema([types.Field("x", FORMATS[format])])
    assert schema_from(schema.__arrow_c_schema__()) == schema


def test_every_type_has_a_format_string() -> None:
    tested = {type(kind) for kind in FORMATS.values()} | {types.Map}
    concrete = {kind for kind in vars(types).values() if isinstance(kind, type) and issubclass(kind, types.DataType)}
    assert tested == concrete - {types.DataType}


def flags(kind: Any, nullable: bool = False) -> int:
    capsule = types.Field("x", kind, nullable).__arrow_c_schema__()
    return int(peek(capsule, CSchema).flags)


def test_flags() -> None:
    entries = types.Field(
        "entries",
        types.Struct([types.Field("k", types.Utf8(), False), types.Field("v", types.Bool())]),
        False,
    )
    words = types.Int(8, True), types.Utf8()
    assert flags(types.Bool()) == 0
    assert flags(types.Bool(), nullable=True) == 2
    assert flags(types.Dictionary(*words)) == 0
    assert flags(types.Dictionary(*words, ordered=True)) == 1
    assert flags(types.Map(entries)) == 0
    assert flags(types.Map(entries, keys_sorted=True), nullable=True) == 6
