"""The law of mutations for payload cells."""

import random

import pytest

pa = pytest.importorskip("pyarrow")

import arrowipc as ipc  # noqa: E402
from arrowipc.spark import decode_payload_batches, to_spark_schema  # noqa: E402


# Not "none": it hands what nobody checked to pyarrow, which is the caller's explicit choice.
@pytest.mark.parametrize("level", ["full", "strict"])
def test_mutated_payloads_give_rows_or_an_arrow_ipc_error(level):
    dice = random.Random(20261120)
    batch = pa.record_batch({"n": [1, None, 3], "t": ["é", None, "abcdefghijklmnop"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    good = sink.getvalue().to_pybytes()
    wanted = to_spark_schema(ipc.read_schema(good))
    for _ in range(600):
        bad = bytearray(good)
        bad[dice.randrange(len(bad))] = dice.randrange(256)
        cells = pa.record_batch({"payload": pa.array([good, bytes(bad)], pa.binary())})
        try:
            decoded = list(decode_payload_batches([cells], "payload", wanted, validate=level))
            assert sum(part.num_rows for part in decoded) >= 3
        except ipc.ArrowIpcError:
            pass
