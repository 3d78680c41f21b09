"""Batches that are walked and measured in one pass are what two passes make of them."""

from typing import Any

import numpy as np
import pyarrow as pa
from helpers import arrow_columns, mutate, randoms
from helpers.arrays import pyarrow_bytes
from hypothesis import given, strategies as st

import arrowipc as ipc

#: Layouts that are walked and measured in one pass.
LAYOUTS = (
    *("int32", "bool", "string", "large_binary", "large_list", "fixed_list", "struct", "map"),
    *("dictionary", "fixed_binary"),
)
FAST = pa.record_batch({name: arrow_columns.COLUMNS[name].array for name in LAYOUTS})


def stored(column: ipc.Array) -> tuple[Any, ...]:
    """What a column and those below it hold."""
    buffers = [None if part is None else bytes(part) for part in column.buffers()]
    return len(column), column.null_count, buffers, [stored(child) for child in column.children]


def outcome(source: bytes, columns: list[int] | None) -> list[Any]:
    """What is read, as far as that goes: null counts, bytes and values, or the class of the error."""
    found: list[Any] = []
    try:
        for batch in ipc.open_stream(source, validate="none", columns=columns):
            found.append(batch.num_rows)
            found += [stored(column) for column in batch.columns]
    except ipc.ArrowIpcError as error:
        found.append(type(error))
    return found


def agree(source: bytes, width: int) -> list[Any]:
    """Read all columns, and the same ones by name, which takes two passes."""
    measured, walked = outcome(source, None), outcome(source, list(range(width)))
    assert measured == walked
    return measured


@given(randoms.batches())
def test_whatever_the_types(parts: list[pa.RecordBatch]) -> None:
    if parts and parts[0].num_columns:
        found = agree(pyarrow_bytes(parts), parts[0].num_columns)
        assert not any(isinstance(each, type) for each in found), "what pyarrow writes is read"


@given(st.integers(0, 2**32))
def test_whatever_the_metadata_says(seed: int) -> None:
    source = pyarrow_bytes([FAST, FAST.slice(1)])
    for mutant in mutate.mutants(source, seed, 20):
        try:
            names = ipc.open_stream(mutant).schema.names
        except ipc.ArrowIpcError:
            continue
        agree(mutant, len(names))


def test_bytes_at_any_address() -> None:
    source = pyarrow_bytes([FAST])
    expected = ipc.open_stream(source).read_all().to_pydict()
    for shift in range(9):
        moved = memoryview(bytearray(shift) + source)[shift:]
        (batch,) = ipc.open_stream(moved, validate="none")
        assert batch.to_pydict() == expected == ipc.open_stream(moved).read_all().to_pydict()
        values = batch["int32"].buffers()[1]
        assert values is not None
        assert np.frombuffer(values, np.uint8).ctypes.data % 4 == 0


def test_every_word_of_the_batch_at_its_edges() -> None:
    source = pyarrow_bytes([FAST])
    for slot in mutate.slots(source):
        if slot.width == 8:
            for value in (0, 1, 3, 1 << 27, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 8):
                lie = value.to_bytes(8, "little")
                agree(source[: slot.offset] + lie + source[slot.offset + 8 :], FAST.num_columns)
