"""The law of mutations for payload cells."""

import random

import pytest

pa = pytest.importorskip("pyarrow")

import arrowipc as ipc  # noqa: E402
from arrowipc.spark import decode_payload_batches, to_spark_schema  # noqa: E402
from arrowipc.spark.payloads.cells import PayloadDecoder, Wanted  # noqa: E402
from arrowipc.spark.payloads.options import DecodeOptions  # noqa: E402


# Not "none": it hands what nobody checked to pyarrow, which is the caller's explicit choice.
@pytest.mark.parametrize("level", ["full", "strict"])
@pytest.mark.parametrize("kind", ["new_stream", "new_file"])
@pytest.mark.parametrize("codec", [None, "zstd"])
def test_mutated_payloads_give_rows_or_an_arrow_ipc_error(level, kind, codec):
    dice = random.Random(20261120)
    words = pa.array(["red", "green", None]).dictionary_encode()
    batch = pa.record_batch({"n": [1, None, 3], "t": ["é", None, "abcdefghijklmnop"], "d": words})
    sink = pa.BufferOutputStream()
    with getattr(pa.ipc, kind)(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(batch)
    good = sink.getvalue().to_pybytes()
    wanted = to_spark_schema(batch.schema)
    for _ in range(250):
        bad = bytearray(good)
        bad[dice.randrange(len(bad))] = dice.randrange(256)
        cells = pa.record_batch({"id": [0, 1, 2], "payload": pa.array([good, bytes(bad), good], pa.binary())})
        try:
            decoded = list(decode_payload_batches([cells], "payload", wanted, validate=level))
            assert sum(part.num_rows for part in decoded) >= 6
            failed = 0
        except ipc.ArrowIpcError:
            failed = 1
        options = {"keep": ["id"], "on_error": "null", "error_column": "why", "validate": level}
        rows = pa.Table.from_batches(decode_payload_batches([cells], "payload", wanted, **options)).to_pylist()
        assert [row["t"] for row in rows if row["id"] != 1] == batch["t"].to_pylist() * 2
        assert sum(row["why"] is not None for row in rows) == failed
        decoder = PayloadDecoder(Wanted("payload", wanted, None), DecodeOptions(on_error="skip", validate=level))
        arrays = pa.concat_arrays(decoder.decode_lists(cells["payload"]))
        arrays.validate(full=True)
        lists = arrays.to_pylist()
        assert [None if each is None else len(each) for each in lists[::2]] == [3, 3]
        assert (lists[1] is None) == bool(failed)
