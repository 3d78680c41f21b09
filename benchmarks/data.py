"""Makes the input of the benchmarks: batches, streams and files, the same in every run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

WORDS = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "harbour", "island", "juniper")
CITIES = ("Zürich", "Kraków", "São Paulo", "東京", "Αθήνα", "Москва", "Lagos", "Oslo", "Lima", "Reykjavík")


def plain_batch(columns: int, rows: int) -> pa.RecordBatch:
    """Return a batch of int64 columns without nulls."""
    values = pa.array(np.arange(rows, dtype=np.int64))
    return pa.record_batch([values] * columns, [f"c{i}" for i in range(columns)])


def mixed_batch(rows: int, ascii_only: bool = False) -> pa.RecordBatch:
    """Return a batch of ten columns as in everyday tables: numbers, times, a flag, two texts; three have
    nulls.
    """
    random = np.random.default_rng(7)
    nulls = random.random(rows) < 0.1
    words = np.array(WORDS, dtype=object)[random.integers(0, len(WORDS), rows)]
    pool = WORDS if ascii_only else CITIES
    places = np.array(pool, dtype=object)[random.integers(0, len(pool), rows)]
    return pa.record_batch(
        {
            "id": pa.array(np.arange(rows, dtype=np.int64)),
            "price": pa.array(random.random(rows).round(2)),
            "quantity": pa.array(random.integers(0, 1000, rows, dtype=np.int32), mask=nulls),
            "sold": pa.array(random.random(rows) < 0.5),
            "at": pa.array((np.arange(rows) + 1_700_000_000_000_000).astype("datetime64[us]")),
            "day": pa.array(random.integers(0, 20_000, rows, dtype=np.int32)).cast(pa.date32()),
            "code": pa.array(random.integers(0, 100, rows, dtype=np.int16), mask=nulls),
            "score": pa.array(random.random(rows, dtype=np.float32)),
            "name": pa.array([f"{word} {i}" for i, word in enumerate(words)], pa.string()),
            "city": pa.array(places, pa.string(), mask=nulls),
        }
    )


#: The shapes that a question is asked for: the goal holds for the worst of them.
SHAPES = ("int64", "mixed", "text", "nested and dictionary")


def shaped(shape: str, rows: int, columns: int = 10) -> pa.RecordBatch:
    """Return a batch of one of `SHAPES`: tens of columns of these, again and again.

    * int64: whole numbers without nulls;
    * mixed: five int64, three float64 with nulls, two texts;
    * text: ten texts with nulls;
    * nested and dictionary: three dictionary-encoded texts, three lists of int64, two structs of a number and a text,
      a map, and a list of structs, half of them with nulls.
    """
    if shape == "int64":
        return plain_batch(columns, rows)
    random = np.random.default_rng(5)
    nulls = random.random(rows) < 0.1
    words = pa.array(np.array(CITIES, dtype=object)[random.integers(0, len(CITIES), rows)], pa.string())
    holey = pa.array(words.to_pylist(), pa.string(), mask=nulls)
    number = pa.array(random.integers(0, 1 << 40, rows))
    if shape == "mixed":
        ten = [number] * 5 + [pa.array(random.random(rows), mask=nulls)] * 3 + [words] * 2
    elif shape == "text":
        ten = [holey] * 10
    else:
        ends = pa.array(np.arange(rows + 1, dtype=np.int32) * 3)
        holes = pa.array(nulls)
        threes = pa.array(random.integers(0, 1 << 40, rows * 3))
        texts = pa.array(words.to_pylist() * 3, pa.string())
        pair = pa.StructArray.from_arrays([number, words], ["n", "s"], mask=holes)
        pairs = pa.StructArray.from_arrays([threes, texts], ["n", "s"])
        lists = pa.ListArray.from_arrays(ends, threes, mask=holes)
        mapped = pa.MapArray.from_arrays(ends, texts, threes)
        ten = [words.dictionary_encode()] * 2 + [holey.dictionary_encode()] + [lists] * 3 + [pair] * 2
        ten += [mapped, pa.ListArray.from_arrays(ends, pairs)]
    return pa.record_batch((ten * -(-columns // 10))[:columns], [f"c{i}" for i in range(columns)])


def stream(batches: Iterable[pa.RecordBatch], **options: Any) -> bytes:
    """Return batches of one schema as an Arrow IPC stream."""
    return _written(pa.ipc.new_stream, batches, options)


def file(batches: Iterable[pa.RecordBatch], **options: Any) -> bytes:
    """Return batches of one schema as an Arrow IPC file."""
    return _written(pa.ipc.new_file, batches, options)


def _written(new_writer: Any, batches: Iterable[pa.RecordBatch], options: dict[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    writer = None
    for batch in batches:
        if writer is None:
            writer = new_writer(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options))
        writer.write_batch(batch)
    if writer is None:
        raise ValueError("no batches: the schema is unknown")
    writer.close()
    return bytes(sink.getvalue())


def messages(data: bytes) -> list[bytes]:
    """Return the encapsulated messages of a stream, the end-of-stream marker left out."""
    return [bytes(message.serialize()) for message in pa.ipc.MessageReader.open_stream(data)]


END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def delta_stream(deltas: int, words: int, rows: int = 100) -> bytes:
    """Return a stream whose dictionary grows by `words` words with each delta, a batch behind each.

    A delta message holds only what is new, so each is taken from a stream of two batches of its own: writing
    one long stream would take pyarrow time that grows with the square of its length.
    """
    seed = "seed"
    head: list[bytes] = []
    parts: list[bytes] = []
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    for i in range(deltas):
        values = [seed] + [f"word {j}" for j in range(i * words, (i + 1) * words)]
        newest = pa.array(np.arange(rows, dtype=np.int32) % words + 1 + i * words)
        first = _encoded(pa.array(np.zeros(rows, np.int32)), [seed])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, first.schema, options=options) as writer:
            writer.write_batch(first)
            writer.write_batch(_encoded(pa.array(np.arange(rows, dtype=np.int32) % words + 1), values))
        schema, dictionary, batch, delta, _ = messages(bytes(sink.getvalue()))
        if not head:
            head = [schema, dictionary, batch]
        parts += [delta, bytes(_bare(newest))]
    return b"".join(head + parts) + END_OF_STREAM


def _encoded(indices: pa.Array, words: list[str]) -> pa.RecordBatch:
    return pa.record_batch([pa.DictionaryArray.from_arrays(indices, pa.array(words))], ["word"])


def _bare(indices: pa.Array) -> pa.Buffer:
    """Return the message of a batch of indices, which looks the same as that of dictionary-encoded values."""
    return pa.record_batch([indices], ["word"]).serialize()
