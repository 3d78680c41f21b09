"""What we write of one wide set of data in many ways, as digests; ``python -m laws.digests`` prints them.

Two runs that print different digests wrote something that was not in the data: memory of somebody else.
"""

import hashlib
import itertools
import json
from collections.abc import Callable
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


if __name__ == "__main__":
    print(json.dumps(digests()))
