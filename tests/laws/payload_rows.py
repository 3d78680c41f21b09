"""The rows of payloads, as readers read each of them alone, and payloads with columns of every kind."""

from typing import Any

import pyarrow as pa
from helpers.arrays import CASES, pyarrow_bytes, read

import arrowipc as ipc


def rows_of(batch: ipc.RecordBatch) -> list[list[Any]]:
    return [list(row.values()) for row in batch.to_pylist()]


def alone(*payloads: bytes | None, **options: Any) -> list[list[Any]]:
    """The rows of payloads, each of which is read by the readers; nulls have none."""
    parts = [read(payload, **options) for payload in payloads if payload is not None]
    return [row for part in parts for batch in part for row in rows_of(batch)]


def encoded(words: pa.Array, indices: list[int | None], width: Any = None, ordered: bool = False) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, width or pa.int32()), words, ordered=ordered)


def _plain() -> pa.RecordBatch:
    """Columns without dictionaries."""
    names = ("int32", "string", "list", "string_view", "bool", "struct", "run_end_int32", "dense_union")
    return pa.record_batch({name: CASES[name].slice(0, 3) for name in names})


def _encoded() -> pa.RecordBatch:
    """Columns with dictionaries of many types."""
    texts = encoded(pa.array(["x", None, "a longer text"]), [0, 1, 2, None], pa.int8())
    return pa.record_batch(
        {
            "t": texts,
            "v": encoded(pa.array(["y" * 20, "z"], pa.string_view()), [1, 0, None, 1]),
            "f": encoded(pa.array([1.5, float("nan")]), [1, 0, 1, 1], pa.uint16()),
            "b": encoded(pa.array([True, False]), [1, 0, None, 0]),
            "d": encoded(pa.array([1, 2, 3]), [2, 2, 0, 1], pa.int64()),
            "l": pa.ListArray.from_arrays(pa.array([0, 1, 1, 3, 4], pa.int32()), texts),
            "p": ["plain", None, "text", ""],
        }
    )


def samples() -> dict[str, bytes]:
    """Payloads of every kind, in every kind of framing."""
    one = _encoded().select(["t"]).slice(0, 3)
    numbers = pa.record_batch({"x": range(100), "s": [str(i % 9) * 5 for i in range(100)]})
    return {
        "plain": pyarrow_bytes([_plain()] * 2),
        "plain, legacy": pyarrow_bytes([_plain()], use_legacy_format=True),
        "plain, file": pyarrow_bytes([_plain()], kind="file"),
        "plain, lz4": pyarrow_bytes([_plain()], compression="lz4"),
        "encoded": pyarrow_bytes([_encoded()]),
        "encoded, lz4": pyarrow_bytes([_encoded()], compression="lz4"),
        "encoded, zstd": pyarrow_bytes([_encoded()], compression="zstd"),
        "one column": pyarrow_bytes([one, one]),
        "numbers, zstd": pyarrow_bytes([numbers], compression="zstd"),
    }
