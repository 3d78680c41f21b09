"""The same data gives the same bytes: old memory, other threads and rows beside a slice leave no trace."""

import json
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from helpers import arrays
from helpers.processes import environment, printed, run_module
from laws import digests

import arrowipc as ipc


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    return digests.digests()


def differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    assert one.keys() == other.keys()
    return [way for way, digest in one.items() if other[way] != digest]


def test_the_ways_of_writing_differ(expected):
    """Guards the tests below against options that change nothing."""
    written = {how: expected[f"slices, stream, {how}"] for how in digests.OPTIONS}
    assert written["deltas"] == written["plain"], "all batches have one dictionary: nothing of it grows"
    assert len(set(written.values())) == len(written) - 1


def test_after_memory_was_used_for_something_else(expected):
    digests.leave_traces()
    assert not differing(expected, digests.digests())


@pytest.mark.nosanitize  # AddressSanitizer's allocator knows nothing of that variable
def test_whatever_the_allocator_leaves_in_memory(expected):
    # The GNU allocator fills every block with this byte when it gives it out, and with its complement when it
    # gets it back.
    child = {**environment(), "MALLOC_PERTURB_": "170"}
    assert not differing(expected, json.loads(printed(run_module("laws.digests", env=child, timeout=300))))


def test_two_writers_at_once(expected):
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda _: digests.digests(), range(2)):
            assert not differing(expected, found)


@pytest.mark.parametrize("how", ["plain", "lz4", "zstd", "legacy, zstd"])
@pytest.mark.parametrize("data", digests.PARTS)
def test_with_and_without_threads(data, how):
    for form in arrays.FORMS if "legacy" not in how else ("stream",):
        alone = digests.write(data, form, how, use_threads=False)
        assert alone == digests.write(data, form, how, use_threads=True)


@pytest.mark.parametrize("how", digests.OPTIONS)
@pytest.mark.parametrize("sink", ["bytearray", "path", "memory"])
def test_into_every_sink(how, sink, tmp_path):
    (batch,) = digests.PARTS["slice"]()
    expected = digests.write("slice", "stream", how)
    memory = bytearray(len(expected))
    target = {"bytearray": bytearray(), "path": tmp_path / "a.arrows", "memory": memoryview(memory)}[sink]
    with ipc.new_stream(target, batch.schema, **digests.OPTIONS[how]) as writer:
        writer.write_batch(batch)
    assert (target.read_bytes() if sink == "path" else bytes(target)) == expected


# Rows before and after the slice, in number and position; 8 keeps the bits of a bitmap where they are.
BESIDE = ((0, 0), (1, 6), (8, 1), (13, 13))


@pytest.mark.parametrize("name", arrays.CASES)
def test_what_lies_beside_a_slice_leaves_no_trace(name):
    rows = digests.tiled(arrays.CASES[name], 40).slice(5, 18)
    found = {}
    for before, after in BESIDE:
        other = digests.tiled(arrays.CASES[name], 60)
        array = pa.concat_arrays([other.slice(20, before), rows, other.slice(31, after)])
        batch = arrays.read_batch(pa.record_batch({"x": array})).slice(before, len(rows))
        found[before, after] = arrays.ipc_bytes([batch], "stream", batch.schema)
    alone = found[0, 0]
    assert [beside for beside, data in found.items() if data != alone] == []
