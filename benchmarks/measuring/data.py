"""Makes the input of the benchmarks: batches, streams and files, the same in every run."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc

WORDS = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "harbour", "island", "juniper")
CITIES = ("Zürich", "Kraków", "São Paulo", "東京", "Αθήνα", "Москва", "Lagos", "Oslo", "Lima", "Reykjavík")


def plain_batch(columns: int, rows: int) -> pa.RecordBatch:
    """Return a batch of int64 columns without nulls."""
    values = pa.array(np.arange(rows, dtype=np.int64))
    return pa.record_batch([values] * columns, [f"c{i}" for i in range(columns)])


def mixed_batch(rows: int, ascii_only: bool = False) -> pa.RecordBatch:
    """Return ten columns as in everyday tables: numbers, times, a flag, two texts; three have nulls."""
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


def training_rows(rows: int) -> pa.Table:
    """Return a number, a float, a text and a list of eight numbers, as for training."""
    chance = np.random.default_rng(3)
    words = np.array(WORDS, dtype=object)[chance.integers(0, len(WORDS), rows)]
    tokens = pa.FixedSizeListArray.from_arrays(pa.array(chance.integers(0, 50_000, rows * 8)), 8)
    columns = {
        "id": pa.array(np.arange(rows, dtype=np.int64)),
        "x": pa.array(chance.random(rows)),
        "text": pa.array([f"{word} {i}" for i, word in enumerate(words)], pa.string()),
        "tokens": tokens.cast(pa.list_(pa.int64())),
    }
    return pa.table(columns)


#: What a child process does that has a table of `rows` rows of 100 bytes in one chunk: eight numbers and a text.
TABLE = """
import numpy as np, pyarrow as pa, pyarrow.ipc
random = np.random.default_rng(1)
columns = {f"c{i}": pa.array(random.integers(0, 1 << 20, rows)) for i in range(8)}
offsets = pa.py_buffer(np.arange(0, 32 * (rows + 1), 32, dtype=np.int32))
text = pa.py_buffer(random.integers(97, 101, 32 * rows, dtype=np.uint8))
columns["text"] = pa.StringArray.from_buffers(rows, offsets, text)
table = pa.table(columns)
del columns, offsets, text
"""

#: The shapes that a question is asked for: the goal holds for the worst of them.
SHAPES = ("int64", "mixed", "text", "nested and dictionary")
EVERYDAY = ("everyday", "everyday, ASCII")


def shaped(shape: str, rows: int, columns: int = 10) -> pa.RecordBatch:
    """Return a batch of one of `SHAPES` or `EVERYDAY`: tens of columns of these, again and again.

    * everyday: those of `mixed_batch`;
    * int64: whole numbers without nulls;
    * mixed: five int64, three float64 with nulls, two texts;
    * text: ten texts with nulls;
    * nested and dictionary: three dictionary-encoded texts, three lists of int64, two structs of a number and a text,
      a map, and a list of structs, half of them with nulls.
    """
    if shape in EVERYDAY:
        return mixed_batch(rows, shape == "everyday, ASCII")
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


def write(sink: Any, batches: list[pa.RecordBatch], new_writer: Any = pa.ipc.new_stream, **options: Any) -> None:
    with new_writer(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)


def stream(batches: Iterable[pa.RecordBatch], new_writer: Any = pa.ipc.new_stream, **options: Any) -> bytes:
    """Return batches of one schema as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    write(sink, list(batches), new_writer, **options)
    return bytes(sink.getvalue())


def file(batches: Iterable[pa.RecordBatch], **options: Any) -> bytes:
    """Return batches of one schema as an Arrow IPC file."""
    return stream(batches, pa.ipc.new_file, **options)


def messages(data: bytes) -> list[bytes]:
    """Return the encapsulated messages of a stream, the end-of-stream marker left out."""
    return [bytes(message.serialize()) for message in pa.ipc.MessageReader.open_stream(data)]


END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def delta_stream(deltas: int, words: int, rows: int = 100) -> bytes:
    """Return a stream whose dictionary grows by `words` words with each delta, a batch behind each.

    Our writer makes it: pyarrow's takes time that grows with the square of its length.
    """
    whole, sink = pa.array([f"word {i}" for i in range((deltas + 1) * words)]), bytearray()
    with arrowipc.new_stream(sink, dictionary_deltas=True) as writer:
        for first in range(0, (deltas + 1) * words, words):
            indices = pa.array(np.arange(rows, dtype=np.int32) % words + first)
            column = pa.DictionaryArray.from_arrays(indices, whole.slice(0, first + words))
            writer.write(pa.record_batch([column], ["word"]))
    return bytes(sink)
