"""The same data gives the same bytes: old memory, other threads and rows beside a slice leave no trace.

Two runs that give different digests wrote something that was not in the data: memory of somebody else.
"""

import hashlib
import itertools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from helpers import arrays, drive
from helpers.arrays import tiled
from helpers.processes import environment, printed, run_function

import arrowipc as ipc

OPTIONS: dict[str, dict[str, Any]] = {
    **arrays.WAYS,
    "zstd": {"compression": "zstd", "compression_level": 3},
    "some columns": {"compression": {"list": "zstd", "string": "zstd", "*": None}, "alignment": 64},
    "deltas": {"dictionary_deltas": True},
    "unified": {"unify_dictionaries": True},
    "coalesced": {"coalesce_rows": 16},
    "legacy, zstd": {"legacy": True, "compression": "zstd"},
}
ROWS = 83
LARGE_ROWS = 60_000


@cache
def wide() -> ipc.RecordBatch:
    """A batch of every type there is."""
    return arrays.read_batch(pa.record_batch({name: tiled(array, ROWS) for name, array in arrays.CASES.items()}))


@cache
def large() -> ipc.RecordBatch:
    """A batch whose buffers are worth several threads, and too large for the allocator's small blocks."""
    names = ("bool", "int64", "halffloat", "string", "string_view", "list", "struct", "dictionary")
    return arrays.read_batch(pa.record_batch({name: tiled(arrays.CASES[name], LARGE_ROWS) for name in names}))


#: The data by name: batches as they were read, and slices whose bitmaps begin and end inside a byte.
PARTS: dict[str, Callable[[], list[ipc.RecordBatch]]] = {
    "whole": lambda: [wide()],
    "slice": lambda: [wide().slice(5, 22)],
    "slices": lambda: [wide().slice(*extent) for extent in ((3, 9), (12, 9), (21, 9), (0, 0), (80,))],
    "large": lambda: [large()],
    "large slice": lambda: [large().slice(13, LARGE_ROWS - 100)],
}


def write(data: str, form: str, how: str, **options: Any) -> bytes:
    batches = PARTS[data]()
    return arrays.ipc_bytes(batches, form, batches[0].schema, **OPTIONS[how], **options)


def digests() -> dict[str, str]:
    ways = itertools.product(PARTS, arrays.FORMS, OPTIONS)
    written = (way for way in ways if way[1] != "file" or "legacy" not in way[2])
    return {", ".join(way): hashlib.sha256(write(*way)).hexdigest() for way in written}


def leave_traces() -> None:
    """Fill memory that writing will use again: with ones, as data, as compressed data, as dictionaries."""
    ones = pa.array([-1] * LARGE_ROWS, pa.int64())
    text = pa.array(["\x7f" * 40] * LARGE_ROWS)
    columns = {"a": ones, "b": text, "c": text.cast(pa.string_view()), "d": text.dictionary_encode()}
    batch = arrays.read_batch(pa.record_batch(columns))
    for options in OPTIONS.values():
        if not isinstance(options.get("compression"), dict):
            drive.from_bytes(arrays.ipc_bytes([batch, batch.slice(3)], "stream", batch.schema, **options))


def print_digests() -> None:
    print(json.dumps(digests()))


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    return digests()


def test_the_ways_of_writing_differ(expected):
    """Guards the tests below against options that change nothing."""
    written = {how: expected[f"slices, stream, {how}"] for how in OPTIONS}
    assert written["deltas"] == written["plain"], "all batches have one dictionary: nothing of it grows"
    assert len(set(written.values())) == len(written) - 1


@pytest.mark.nosanitize  # AddressSanitizer's allocator knows nothing of that variable
def test_whatever_the_allocator_leaves_in_memory(expected):
    # The GNU allocator fills every block with this byte when it gives it out, and with its complement when it
    # gets it back.
    child = {**environment(), "MALLOC_PERTURB_": "170"}
    assert json.loads(printed(run_function(print_digests, env=child, timeout=300))) == expected


def test_after_memory_was_used_for_something_else_by_two_writers_at_once(expected):
    leave_traces()
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: digests(), range(2))) == [expected] * 2


@pytest.mark.parametrize("how", ["plain", "lz4", "zstd", "legacy, zstd"])
@pytest.mark.parametrize("data", PARTS)
def test_with_and_without_threads(data, how):
    for form in arrays.FORMS if "legacy" not in how else ("stream",):
        alone = write(data, form, how, use_threads=False)
        assert alone == write(data, form, how, use_threads=True)


@pytest.mark.parametrize("how", OPTIONS)
@pytest.mark.parametrize("sink", ["bytearray", "path", "memory"])
def test_into_every_sink(how, sink, tmp_path):
    (batch,) = PARTS["slice"]()
    expected = write("slice", "stream", how)
    memory = bytearray(len(expected))
    target = {"bytearray": bytearray(), "path": tmp_path / "a.arrows", "memory": memoryview(memory)}[sink]
    with ipc.new_stream(target, batch.schema, **OPTIONS[how]) as writer:
        writer.write_batch(batch)
    assert (target.read_bytes() if sink == "path" else bytes(target)) == expected


# Rows before and after the slice, in number and position; 8 keeps the bits of a bitmap where they are.
BESIDE = ((0, 0), (1, 6), (8, 1), (13, 13))


@pytest.mark.parametrize("name", arrays.CASES)
def test_what_lies_beside_a_slice_leaves_no_trace(name):
    rows = tiled(arrays.CASES[name], 40).slice(5, 18)
    found = {}
    for before, after in BESIDE:
        other = tiled(arrays.CASES[name], 60)
        array = pa.concat_arrays([other.slice(20, before), rows, other.slice(31, after)])
        batch = arrays.read_batch(pa.record_batch({"x": array})).slice(before, len(rows))
        found[before, after] = arrays.ipc_bytes([batch], "stream", batch.schema)
    alone = found[0, 0]
    assert [beside for beside, data in found.items() if data != alone] == []
