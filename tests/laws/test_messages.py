"""The law of mutations for what is not a reader: single messages, schemas and payload cells."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest
from helpers.drive import LEVELS
from helpers.mutate import overwritten

import arrowipc as ipc

SEED = 20261120
ROUNDS = 1500


def written(*, codec: str | None = None) -> bytes:
    """A stream of a Schema, a DictionaryBatch and a RecordBatch with lists, text and nulls."""
    batch = pa.record_batch(
        {
            "n": [1, None, 3],
            "t": ["é", None, "abcdefghijklmnop"],
            "l": [[1, 2], [], None],
            "d": pa.array(["x", "y", "x"]).dictionary_encode(),
            "v": pa.array(["a" * 20, "b", None], pa.string_view()),
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def pieces(data: bytes) -> list[bytes]:
    """The encapsulated messages of a stream, one by one."""
    reader, cuts = ipc.MessageReader(data), [0]
    for _ in reader:
        cuts.append(reader.bytes_consumed)
    return [data[start:stop] for start, stop in pairwise(cuts)]


@pytest.mark.parametrize("codec", [None, "lz4"])
@pytest.mark.parametrize("level", LEVELS)
def test_mutated_messages_give_values_or_an_arrow_ipc_error(level, codec):
    dice = random.Random(SEED)
    root, words, rows = pieces(written(codec=codec))
    schema = ipc.read_schema(root)
    for _ in range(ROUNDS):
        which = dice.randrange(3)
        parts = [root, words, rows]
        parts[which] = overwritten(parts[which], dice)
        try:
            if which == 0:
                repr(ipc.read_schema(ipc.read_message(parts[0])))
            batch = ipc.read_record_batch(parts[2], schema, dictionaries=[parts[1]], validate=level)
            repr(batch)
            batch.to_pylist()
        except ipc.ArrowIpcError:
            pass
