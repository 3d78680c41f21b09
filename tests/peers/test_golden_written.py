"""Arrow's golden files, read by us and written again: everyone reads what they read of the originals."""

from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from helpers import arrays, drive, golden, support
from peers.test_golden import BREAK_A_RULE

CASES = golden.cases()
STREAMS = [("stream", how) for how in arrays.WAYS]
FILES = [("file", how) for how in arrays.WAYS if "legacy" not in how]


def ways_of(case: Path) -> list[tuple[str, str]]:
    """The plain ways and those of V4, in which types differ; by turns two others for streams, and one for files."""
    number, found = CASES.index(case), []
    for ways, count in ((STREAMS, 2), (FILES, 1)):
        others = [way for way in ways if way[1] not in ("plain", "V4")]
        found += [way for way in ways if way not in others]
        found += [others[(number + turn * 3) % len(others)] for turn in range(count)]
    return found


@cache
def written(case: Path, form: str, how: str) -> bytes:
    """The golden stream written again as a stream, or the golden file as a file."""
    read = drive.from_bytes if form == "stream" else drive.from_file
    reading = read(golden.load(case).form(form).read_bytes())
    return arrays.ipc_bytes(reading.batches, form, reading.schema, **arrays.WAYS[how])


@cache
def original(case: Path, form: str) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """What pyarrow reads of the golden itself, in this machine's byte order."""
    return arrays.read_by_pyarrow(golden.load(case).form(form).read_bytes(), form)


@pytest.mark.parametrize(
    ("case", "form", "how"),
    [pytest.param(case, *way, id=f"{golden.name_of(case)}-{'-'.join(way)}") for case in CASES for way in ways_of(case)],
)
def test_pyarrow_reads_what_it_reads_of_the_original(case, form, how):
    schema, batches = original(case, form)
    found_schema, found = arrays.read_by_pyarrow(written(case, form, how), form)
    assert found_schema.equals(schema, check_metadata=True)
    assert len(found) == len(batches)
    for ours, theirs in zip(found, batches, strict=True):
        ours.validate(full=golden.name_of(case) not in BREAK_A_RULE)
        assert ours.equals(theirs, check_metadata=True)


# Other readers.


def same_values(expected: pa.Table, found: pa.Table) -> bool:
    """Equality but for the types: polars has fewer of them, and keeps a column in the nearest of its own."""
    if found.column_names != expected.column_names:
        return False
    for one, other in zip(found.columns, expected.columns, strict=True):
        if pa.types.is_temporal(other.type):
            if not one.equals(other.cast(one.type, safe=False)):  # larger durations wrap around in both
                return False
        elif one.to_pylist() != other.to_pylist():
            return False
    return True


NO_TYPE = "it has no such type"
# "<folder>/<data set>, <form>, <how>" as patterns -> why the reader refuses it, or gives other values.
CANNOT: dict[str, dict[str, str]] = {
    "nanoarrow": {
        "*_binary_view, *": "its IPC reader has no views yet",
        "*_list_view, *": "its IPC reader has no list views yet",
        "*_run_end_encoded, *": "its IPC reader has no run-end encoding yet",
        "*, stream, legacy": "a prefix of 4 bytes is for V4 only there",
        **dict.fromkeys(
            (f"*{name}*, *, {codec}*" for name in ("dict", "extension") for codec in ("lz4", "zstd")),
            "dictionaries are read raw there",
        ),
    },
    "arro3": {"*_run_end_encoded, *V4": "it expects no validity buffer of them, whatever the version"},
    "polars": {
        "1.0.0-bigendian/generated_datetime, *": "it has no time of 24 hours",
        "*_decimal256, *": NO_TYPE,
        "*_duplicate_fieldnames, *": "fields need different names there",
        "*_extension, *": "it does not hand over dictionaries of extension types",
        "*_interval, *": NO_TYPE,
        "*_interval_mdn, *": NO_TYPE,
        "*_list_view, *": NO_TYPE,
        "*_run_end_encoded, *": NO_TYPE,
        "*_union, *": NO_TYPE,
    },
}
PEERS = {
    "nanoarrow": ("nanoarrow", pa.Table.equals, STREAMS),  # it reads no files
    "arro3": ("arro3.io", pa.Table.equals, STREAMS + FILES),
    "polars": ("polars", same_values, STREAMS + FILES),
}


@pytest.mark.nosanitize  # peers that bring their own allocators
@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("case", CASES, ids=golden.name_of)
def test_other_readers(case, peer):
    """Read what pyarrow reads, but for what stands in the table; nothing stands there that is read."""
    module, is_same, ways = PEERS[peer]
    pytest.importorskip(module)
    for form, how in (way for way in ways_of(case) if way in ways):
        schema, batches = original(case, form)
        what, problem = f"{golden.name_of(case)}, {form}, {how}", "other values"
        try:
            found = support.read_table(peer, written(case, form, how), form)
            if is_same(pa.Table.from_batches(batches, schema), found):
                problem = ""
        except Exception as refused:
            problem = repr(refused)
        reasons = [reason for pattern, reason in CANNOT[peer].items() if fnmatch(what, pattern)]
        assert bool(problem) == bool(reasons), f"{what}: {problem or 'is read now, but stands in the table'}"


def test_the_tables_name_what_there_is(arrow_data):
    ways = [f"{form}, {how}" for form, how in STREAMS + FILES]
    names = {f"{golden.name_of(case)}, {way}" for case in CASES for way in ways}
    left_out = () if golden.WHOLE else ("decimal256", "list_view", "binary_view")
    for pattern in (pattern for table in CANNOT.values() for pattern in table):
        assert any(fnmatch(name, pattern) for name in names) or any(part in pattern for part in left_out), pattern
