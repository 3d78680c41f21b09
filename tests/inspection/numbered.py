"""Batches that can be told apart by their rows, words with a dictionary, and damage to the bytes that hold them."""

import pyarrow as pa
from helpers import arrays, forge
from helpers.arrays import ipc_bytes

import arrowipc as ipc

#: The schema of one column of words, with a dictionary.
CODED = forge.schema(forge.field("w", forge.UTF8, dictionary=forge.encoding(0, forge.INT8)))


def numbered(number: int, rows: int) -> ipc.RecordBatch:
    """Rows `number * rows` and those behind it."""
    ids = range(number * rows, (number + 1) * rows)
    columns = {
        "id": pa.array(ids, pa.int64()),
        "word": pa.array([f"w{row}" if row % 3 else None for row in ids]),
        "parts": pa.array([[row] * (row % 4) for row in ids], pa.list_(pa.int32())),
    }
    return arrays.read_batch(pa.record_batch(columns))


def smash(data: bytes, start: int, stop: int, with_: bytes = b"\xaa") -> bytes:
    return data[:start] + (with_ * (stop - start))[: stop - start] + data[stop:]


#: Four batches of five rows, as a file and as a stream, and the blocks of the file: the stream has them 8 bytes before.
PARTS = [numbered(number, 5) for number in range(4)]
FILE, STREAM = ipc_bytes(PARTS, "file"), ipc_bytes(PARTS, "stream")
BLOCKS = ipc.open_file(FILE).blocks


def damaged(data: bytes, number: int, shift: int = 0) -> bytes:
    """FILE, or STREAM with a `shift` of 8, with the metadata of a batch made senseless, and the sizes as they were."""
    offset, head, _ = BLOCKS[number]
    return smash(data, offset - shift + 8, offset - shift + head, b"\xff")
