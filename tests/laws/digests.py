"""What we write of one wide set of data in many ways, as digests; ``python -m laws.digests`` prints them.

Two runs that print different digests wrote something that was not in the data: memory of somebody else.
"""

import hashlib
import json
from functools import cache
from typing import Any

import pyarrow as pa
from helpers import arrays, drive

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


def tiled(array: pa.Array, rows: int = ROWS) -> pa.Array:
    """The array again and again, until it has that many rows."""
    return pa.concat_arrays([array] * (rows // len(array) + 1)).slice(0, rows)


@cache
def wide() -> ipc.RecordBatch:
    """A batch of every type there is."""
    return arrays.read_batch(pa.record_batch({name: tiled(array) for name, array in arrays.CASES.items()}))


@cache
def large() -> ipc.RecordBatch:
    """A batch whose buffers are worth several threads, and too large for the allocator's small blocks."""
    names = ("bool", "int64", "halffloat", "string", "string_view", "list", "struct", "dictionary")
    return arrays.read_batch(pa.record_batch({name: tiled(arrays.CASES[name], LARGE_ROWS) for name in names}))


PARTS = ("whole", "slice", "slices", "large", "large slice")


@cache
def parts() -> dict[str, list[ipc.RecordBatch]]:
    """The data by name: batches as they were read, and slices whose bitmaps begin and end inside a byte."""
    whole = wide()
    return {
        "whole": [whole],
        "slice": [whole.slice(5, 22)],
        "slices": [whole.slice(start, 9) for start in (3, 12, 21)] + [whole.slice(0, 0), whole.slice(80)],
        "large": [large()],
        "large slice": [large().slice(13, LARGE_ROWS - 100)],
    }


def ways() -> list[tuple[str, str, str]]:
    """Every (data, form, options) that is written."""
    return [
        (data, form, how)
        for data in PARTS
        for form in arrays.FORMS
        for how in OPTIONS
        if not (form == "file" and "legacy" in how)
    ]


def write(data: str, form: str, how: str, **options: Any) -> bytes:
    batches = parts()[data]
    return arrays.ipc_bytes(batches, form, batches[0].schema, **OPTIONS[how], **options)


def digests() -> dict[str, str]:
    return {", ".join(way): hashlib.sha256(write(*way)).hexdigest() for way in ways()}


def leave_traces() -> None:
    """Fill memory that writing will use again: with ones, as data, as compressed data, as dictionaries."""
    ones = pa.array([-1] * LARGE_ROWS, pa.int64())
    text = pa.array(["\x7f" * 40] * LARGE_ROWS)
    columns = {"a": ones, "b": text, "c": text.cast(pa.string_view()), "d": text.dictionary_encode()}
    batch = arrays.read_batch(pa.record_batch(columns))
    for options in OPTIONS.values():
        if not isinstance(options.get("compression"), dict):
            drive.from_bytes(arrays.ipc_bytes([batch, batch.slice(3)], "stream", batch.schema, **options))


if __name__ == "__main__":
    print(json.dumps(digests()))
