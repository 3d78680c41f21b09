"""Uses of arrowipc as small deterministic operations: tests repeat them, let allocations fail, or run them in threads.

`SCENARIOS` names makers; a maker prepares the inputs and returns the operation. `plain` makes a text of what the
operation returns, so that two runs can be compared.
"""

import contextlib
import io
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
from columns.variants import extension_streams

import arrowipc as ipc
from arrowipc.columns import truncate
from arrowipc.decode.framing import message_of
from arrowipc.dissociated.memory.address_pairs import Lease, Pairs, write_pairs
from arrowipc.dissociated.served import messages_of
from arrowipc.filters.statistics import mark_of, statistics_in
from helpers import arrays, arrow_columns, drive, forge, golden

Operation = Callable[[], Any]
SCENARIOS: dict[str, Callable[[], Operation]] = {}
#: Scenarios that run code of other libraries, which may not survive a lack of memory in the interpreter:
#: pyarrow dies of a failed PyCapsule_New, NumPy forgets to set an exception.
FOREIGN: set[str] = set()

#: Scenarios that use helper threads.
POOLED = {"a large compressed stream", "large bodies written"}


def scenario(make: Callable[[], Any] = tuple, foreign: bool = False) -> Callable[[Callable[[Any], Any]], Any]:
    """Register a function, under its name with spaces, that is called with the input that `make` makes."""

    def enter(use: Callable[[Any], Any]) -> Callable[[Any], Any]:
        add(use.__name__.replace("_", " "), make, use, foreign)
        return use

    return enter


def add(name: str, make: Callable[[], Any], use: Callable[[Any], Any], foreign: bool = False) -> None:
    SCENARIOS[name] = cache(lambda: partial(use, make()))
    FOREIGN.update({name} if foreign else ())


class Stored(bytes):
    """A stream or file that was written: equal if it holds equal values, even in other buffers."""


class Lent:
    """A producer for the C interfaces that is not recognised as ours."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._source.__arrow_c_stream__()


class LentArray(Lent):
    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._source.__arrow_c_array__()


def plain(result: Any) -> str:
    """A result as text that is equal for equal results."""
    if isinstance(result, ipc.RecordBatch | ipc.Table | ipc.Array):
        return repr((type(result).__name__, str(getattr(result, "schema", "")), result.to_pylist()))
    if isinstance(result, Stored):
        return plain(list(ipc.open(result)))
    if isinstance(result, np.ndarray):
        return repr((result.dtype, result.shape, result.tolist()))
    if isinstance(result, list | tuple):
        return repr([plain(each) for each in result])
    if isinstance(result, pa.RecordBatch | pa.Table | pa.Array):
        return repr(result.to_pylist())
    return repr(result)


# -- inputs ------------------------------------------------------------------------------------------------


@cache
def everything() -> pa.RecordBatch:
    """Three rows of every type."""
    return arrow_columns.everything()


@cache
def layouts() -> pa.RecordBatch:
    """A column per layout, and no more: a test that fails one allocation after the other must come to an end."""
    names = (
        *("null", "bool", "int64", "string", "large_string", "string_view", "list", "list_view"),
        *("large_list_view", "fixed_size_list", "struct", "map", "sparse_union", "dense_union", "dictionary"),
        *("run_end_int32", "dictionary_lists", "decimal128"),
    )
    found = {name: arrays.CASES[name] for name in names}
    return pa.record_batch({name: pa.concat_arrays([array] * 4).slice(0, 8) for name, array in found.items()})


@cache
def ours() -> ipc.RecordBatch:
    """The batch of `layouts`, read by us."""
    return arrays.read_batch(layouts())


@cache
def words(number: int = 0) -> pa.RecordBatch:
    """A batch with a dictionary, which grows with `number`."""
    values = [f"word {i}" for i in range(3 + number)]
    indices = pa.array([0, None, number % 3, 2 + number], pa.int16())
    return pa.record_batch(
        {"d": pa.DictionaryArray.from_arrays(indices, pa.array(values)), "n": pa.array([1, 2, None, 4], pa.int32())}
    )


@cache
def deltas() -> bytes:
    """A stream with deltas."""
    return arrow_columns.stream(*map(words, range(3)), emit_dictionary_deltas=True)


@cache
def large() -> pa.RecordBatch:
    """A batch whose bodies are large enough for several threads and for blocks that are kept."""
    return pa.record_batch(
        {
            "x": pa.array(np.arange(200_000) // 7),
            "y": pa.array(np.arange(200_000) % 1000, pa.int32()),
            "t": pa.array([f"text {i % 997}" for i in range(100_000)] * 2),
        }
    )


@cache
def big_endian() -> bytes:
    """A stream of a big-endian machine."""
    fields = [forge.field("x", forge.INT32), forge.field("t", forge.Table("Utf8"))]
    body = [b"", b"\0\0\0\1\0\0\0\2", b"", b"\0\0\0\0\0\0\0\1\0\0\0\3", b"abc"]
    return forge.stream(forge.schema(*fields, endianness=1), forge.batch(2, [(2, 0), (2, 0)], body, variadic=None))


def numbers(count: int = 5, first: int = 0) -> pa.RecordBatch:
    """A small payload."""
    return pa.record_batch(
        {
            "a": pa.array(range(first, first + count), pa.int64()),
            "t": pa.array([f"t{i}" for i in range(count)], pa.string()),
        }
    )


# -- operations that are one expression ----------------------------------------------------------------------


def batches_in(data: bytes) -> Any:
    return drive.from_bytes(data).batches


def cells_of(count: int) -> list[bytes]:
    return [arrow_columns.stream(words(i % 4)) for i in range(count)] + [deltas()]


def some_cells() -> list[Any]:
    cells: list[Any] = [arrow_columns.stream(numbers(i, i)) for i in (1, 3, 0, 2)] * 3
    cells[2:2] = [None, arrow_columns.stream(numbers(4), compression="lz4"), arrow_columns.file(numbers(2))]
    return cells


def values_to_build() -> tuple[Any, ...]:
    schema, values = ours().schema, ours().to_pydict()
    kept = [field for field in schema.fields if "union" not in field.name]  # unions are read only
    parts = {"i": [1, None], "d": [Decimal("1.5"), None], "l": [[1], [2.5]], "s": [{"p": "a"}, {"q": 2**63}]}
    return {field.name: values[field.name] for field in kept}, ipc.Schema(kept), parts


def columns() -> pa.Table:
    """Columns whose chunks begin in different rows."""
    coded = [words()["d"].slice(0, 2), words()["d"].slice(1, 3)]
    chunks = {"a": [[1, 2], [3, 4, 5]], "t": [["x"], ["y", "z", None], ["w"]], "d": coded}
    return pa.table({name: pa.chunked_array(each) for name, each in chunks.items()})


def rows_to_take() -> list[ipc.Table]:
    flat = arrays.read_batch(pa.record_batch({"x": [1, None, 3], "t": ["a", "bc", None], "l": [[1, 2], [], [3]]}))
    return [ipc.Table.from_batches([each, each.slice(1)]) for each in (flat, ours())]


def dictionaries_to_join() -> list[ipc.RecordBatch]:
    strangers = pa.record_batch([pa.array(["p", "q"]).dictionary_encode(), [1, 2]], names=["d", "n"])
    return [arrays.read_batch(each) for each in (words(3), words(1), words(2), strangers.cast(words().schema))]


#: Ways to write dictionaries.
DICTIONARIES: tuple[dict[str, Any], ...] = ({}, {"dictionary_deltas": True}, {"unify_dictionaries": True})


def written(form: str, **options: Any) -> Callable[[Any], Any]:
    """Return a function that writes a batch and a slice of it."""
    return lambda batch: Stored(arrays.ipc_bytes([batch, batch.slice(3, 4)], form, batch.schema, **options))


#: Operations that are one expression: a function that makes the input, and one that uses it.
EXPRESSIONS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "a stream of every type": (lambda: arrow_columns.stream(everything(), everything()), batches_in),
    "an lz4 stream": (lambda: arrow_columns.stream(layouts(), compression="lz4"), batches_in),
    "a zstd stream": (lambda: arrow_columns.stream(layouts(), compression="zstd"), batches_in),
    "a large compressed stream": (
        lambda: arrow_columns.stream(large(), compression="lz4"),
        lambda data: [batch.num_rows for batch in batches_in(data)],
    ),
    "dictionaries with deltas": (deltas, batches_in),
    "big endian streams": (big_endian, batches_in),
    "the push decoder": (deltas, lambda data: drive.pushed(data, iter([1, 3, 64, 1000] * 1000)).batches),
    "a file": (lambda: arrow_columns.file(layouts(), layouts()), lambda data: drive.from_file(data).batches),
    "payloads of every layout": (
        lambda: [arrow_columns.stream(layouts()), arrow_columns.stream(layouts(), compression="zstd")] * 2,
        lambda cells: ipc.decode_payloads(cells).batch,
    ),
    "payloads with dictionaries": (lambda: cells_of(8), lambda cells: ipc.decode_payloads(cells).batch),
    "payloads with dictionaries decoded": (
        lambda: cells_of(6),
        lambda cells: ipc.decode_payloads(cells, dictionaries="decode").batch,
    ),
    "payloads encoded": (ours, lambda batch: ipc.encode_payloads(batch, rows_per_payload=3)),
    "payloads encoded by key": (
        lambda: arrays.read_batch(words(2)),
        lambda batch: tuple(ipc.encode_payloads(batch, group_by="d", compression="zstd")),
    ),
    "a stream written": (ours, written("stream")),
    "a file written": (ours, written("file", unify_dictionaries=True, statistics=True)),
    "an lz4 stream written": (ours, written("stream", compression="lz4", coalesce_rows=20)),
    "a zstd file written": (ours, written("file", compression="zstd", alignment=64, unify_dictionaries=True)),
    "large bodies written": (
        lambda: arrays.read_batch(large()),
        lambda batch: len(arrays.ipc_bytes([batch], "stream", batch.schema, compression="lz4")),
    ),
    "batches of buffers": (
        lambda: arrays.parts_of(ours()),
        lambda parts: ipc.RecordBatch.from_buffers(**parts, validate="strict"),
    ),
    "imported batches": (everything, lambda batch: ipc.RecordBatch.from_arrow(batch, validate="strict")),
    "imported tables": (
        lambda: pa.Table.from_batches([layouts(), layouts().slice(2)]),
        lambda table: ipc.Table.from_arrow(table, validate="full").to_batches(),
    ),
    "exported batches": (ours, lambda batch: (pa.record_batch(batch), pa.array(batch["dictionary"]))),
    "python values": (
        lambda: arrays.read_batch(everything()),
        lambda batch: (batch.to_pydict(), batch.to_pylist(), [column[0] for column in batch.columns]),
    ),
    "extension types as values": (
        lambda: [next(iter(ipc.open_stream(data))) for data in extension_streams()],
        lambda batches: [batch.to_pylist(extensions=True) for batch in batches],
    ),
    "comparisons": (
        lambda: arrays.read_batch(layouts()),
        lambda other: (ours().equals(other, nan_equal=True), ours().equals(other.slice(1)), ours() == other),
    ),
    "batches joined": (
        ours,
        lambda batch: (ipc.concat_batches([batch, batch.slice(2, 5), batch]), truncate.compact(batch.slice(2, 5))),
    ),
    "concatenation that goes on": (
        lambda: [ours(), ours().slice(3), ours().slice(1, 2)],
        lambda pieces: insist(lambda: ipc.concat_batches(pieces)),
    ),
    "rows repeated": (ours, lambda batch: ipc.repeat(batch, [0, 1, 2, 3, 0, 1, 1, 2])),
    "a strict stream from an odd address": (
        lambda: memoryview(b"?" + arrow_columns.stream(layouts()))[1:],
        lambda data: list(ipc.open_stream(data, validate="strict")),
    ),
    "a stream from an object with projection": (
        lambda: arrow_columns.stream(layouts(), layouts()),
        lambda data: drive.from_object(data, columns=["struct.b", "dictionary", "int64"], validate="none").batches,
    ),
    "a file object with projection": (
        lambda: arrow_columns.file(layouts(), layouts(), compression="zstd"),
        lambda data: drive.from_file_object(data, columns=["dictionary", "list"]).batches,
    ),
    "imported column by column": (columns, lambda table: ipc.Table.from_arrow(table).to_batches()),
    "payloads decoded": (some_cells, lambda cells: ipc.decode_payloads(cells, parent_index=True).batch),
    "dictionaries written": (
        lambda: [arrays.read_batch(words(number)) for number in (0, 2, 1)],
        lambda batches: [
            Stored(arrays.ipc_bytes(batches, "stream", batches[0].schema, **options)) for options in DICTIONARIES
        ],
    ),
    "values built": (
        values_to_build,
        lambda made: (ipc.RecordBatch.from_pydict(*made[:2]), ipc.RecordBatch.from_pydict(made[2])),
    ),
    "batches lent to ourselves": (
        lambda: (LentArray(ours()), Lent(ipc.Table.from_batches([ours(), ours()])), LentArray(ours()["map"])),
        lambda lent: (
            ipc.RecordBatch.from_arrow(lent[0], validate="strict"),
            ipc.Table.from_arrow(lent[1]),
            ipc.Array.from_arrow(lent[2]),
        ),
    ),
    "rows taken": (
        rows_to_take,
        lambda tables: [found.take([2, 0, 0, -1]) for table in tables for found in (table, table.batches[0])],
    ),
    "dictionaries joined": (dictionaries_to_join, ipc.concat_batches),
}
for _name, (_make, _use) in EXPRESSIONS.items():
    add(_name, _make, _use, _name.startswith(("imported", "exported")))


@scenario(tempfile.TemporaryDirectory)
def a_path_written_and_mapped(folder: Any) -> Any:
    path = f"{folder.name}/x.arrow"
    with ipc.new_file(path, durable=False) as writer:
        writer.write({"x": [1, 2, 3]})
    with ipc.open(path) as reader:
        found = list(reader)
    assert os.listdir(folder.name) == ["x.arrow"] or threading.active_count() > 1
    return found


@scenario(
    lambda: (
        arrow_columns.file(layouts(), layouts(), compression="lz4"),
        arrow_columns.file(numbers(40), numbers(40, 40), numbers(9, 80)),
    )
)
def rows_of_a_file(files: Any) -> Any:
    with ipc.open_file(files[0], limits=ipc.Limits(row_cache_bytes=0)) as one, ipc.open_file(files[1]) as other:
        n = one.count_rows()
        return (
            one.take([n - 1, 0, n // 2, 0]),
            one.slice(1, n - 2, columns=["struct.b", "dictionary"]).combine(),
            [other.take([80, 3, 41, -1]), other.row(50), other.slice(30, 20).num_rows],
        )


@scenario(deltas)
def messages_one_by_one(data: bytes) -> Any:
    found = list(ipc.MessageReader(data))
    texts = [(repr(each), len(each.buffers), each.serialize()) for each in found]
    words_of = [each for each in found if each.kind == "DictionaryBatch"]
    last = [each for each in found if each.kind == "RecordBatch"][-1]
    return texts, ipc.read_record_batch(last, ipc.read_schema(data), dictionaries=words_of)


@scenario(lambda: arrow_columns.file(numbers(), numbers(4))[:-60])
def what_is_recovered(data: bytes) -> Any:
    recovered = ipc.recover(data)
    return list(recovered), recovered.report.complete


@scenario((golden.WRITERS / "polars-2.1.0-zstd.arrow").read_bytes)
def what_is_recovered_of_polars(data: bytes) -> Any:
    """Recover and validate a Schema message without framing, and dictionaries after the batches."""
    return what_is_recovered(data[:-60]), str(ipc.validate(data, level="strict"))


@scenario(lambda: [arrow_columns.stream(numbers(3)), arrow_columns.stream(words())])
def payloads_that_fail_are_skipped(streams: list[bytes]) -> Any:
    good, other = streams
    cells = [good, good[:-40], None, b"nonsense", other, good]
    skipped = ipc.decode_payloads(cells, on_error="skip")
    null = ipc.decode_payloads(cells, on_error="null", columns=["a"])
    return skipped.batch, skipped.num_failed, null.batch, [at for at, _ in null.failures]


@scenario(ours)
def messages_written(batch: ipc.RecordBatch) -> Any:
    message = batch.to_message(compression="zstd")
    return message.serialize(), len(message.buffers), len(message.stretches), bytes(message.body)


@scenario(deltas)
def a_stream_copied(data: bytes) -> Any:
    sink = bytearray()
    with ipc.open_stream(data) as reader, ipc.new_stream(sink, reader.schema) as writer:
        rows = ipc.copy(reader, writer)
    return rows, bytes(sink)


@scenario(deltas, foreign=True)
def exported_streams(data: bytes) -> Any:
    with ipc.open_stream(data) as reader:
        return pa.RecordBatchReader.from_stream(reader).read_all()


@scenario(lambda: (ours(), deltas()))
def capsules_that_nobody_takes(made: Any) -> Any:
    batch, data = made
    batch.__arrow_c_array__(), batch.__arrow_c_schema__(), batch.__arrow_c_stream__()
    batch.__arrow_c_device_array__(), batch["list"].__arrow_c_array__()
    with ipc.open_stream(data) as reader:
        reader.__arrow_c_stream__(), reader.__arrow_c_device_stream__()


@scenario(lambda: arrays.read_batch(everything()), foreign=True)
def numpy_values(batch: ipc.RecordBatch) -> Any:
    found = []
    for column in batch.columns:
        with contextlib.suppress(ipc.UsageError, ipc.UnsupportedError):
            found.append(column.to_numpy(copy=True))
    return found


@scenario(ours)
def pictures(batch: ipc.RecordBatch) -> int:
    # A value that cannot be shown is replaced by the reason, so only the number of pictures is compared.
    texts = [repr(batch), batch._repr_html_(), *map(repr, batch.columns), str(batch.schema)]
    return len([text for text in texts if text])


def with_statistics() -> tuple[ipc.RecordBatch, Any, ipc.Schema]:
    batch = ours()
    with ipc.open_file(arrays.ipc_bytes([batch], "file", batch.schema, statistics=True)) as reader:
        return batch, reader.get_batch_metadata(0), reader.schema


@scenario(with_statistics)
def bounds(made: Any) -> Any:
    batch, metadata, schema = made
    return ipc.compute_statistics(batch), statistics_in(metadata, mark_of(schema), len(batch))


@scenario(lambda: arrays.ipc_bytes([{"x": [1, None, 3], "word": ["a", "b", None]}] * 2, "file", statistics=True))
def statistics_of_a_footer(data: bytes) -> Any:
    with ipc.open_file(data) as reader:
        return ipc.file_statistics(reader)


@scenario(lambda: arrow_columns.stream(layouts().slice(0, 0)))
def schemas(data: bytes) -> Any:
    read = ipc.read_schema(data)
    again = ipc.Schema(read.fields, metadata=[(b"k", b"v")])
    return str(read), again.serialize(), read.equals(again)


# -- objects that are used again after an error ------------------------------------------------------------


def insist(call: Operation) -> Any:
    """Call a function again after a MemoryError: it works, or says that its object cannot go on."""
    try:
        return call()
    except MemoryError:
        return call()


@scenario(lambda: [arrays.read_batch(words(number)) for number in (0, 2, 1)])
def writers_that_go_on(batches: list[ipc.RecordBatch]) -> Any:
    found = []
    for options in (*DICTIONARIES, {"coalesce_rows": 9}):
        sink = bytearray()
        writer = ipc.new_stream(sink, batches[0].schema, **options)
        for batch in batches:
            insist(lambda: writer.write_batch(batch))  # noqa: B023
        insist(writer.close)
        found.append(Stored(sink))
    return found


@scenario(lambda: arrow_columns.file(words(), words().slice(1)))
def file_readers_that_go_on(data: bytes) -> Any:
    found = []
    for source in (data, io.BytesIO(data)):
        reader = ipc.open_file(source)
        found += [insist(lambda: reader.get_batch(i)) for i in (1, 0)]  # noqa: B023
    return found


# -- tensors -------------------------------------------------------------------------------------------------


@scenario(lambda: np.arange(24, dtype=np.float32).reshape(2, 3, 4), foreign=True)
def tensors(array: Any) -> Any:
    sink = bytearray()
    ipc.write_tensor(array.transpose(2, 0, 1), sink)
    tensor = ipc.read_tensor(sink)
    strided = ipc.Tensor.from_numpy(array[:, ::2], ["a", "b", "c"])
    back = ipc.Tensor.from_dlpack(tensor)
    return tensor.to_numpy(), strided.equals(tensor), strided.serialize(), back.to_numpy(), repr(strided)


@scenario(lambda: np.array([[0, 1.5, 0, 0], [2.5, 0, 0, -1], [0, 0, 0, 0]]), foreign=True)
def sparse_tensors(dense: Any) -> Any:
    found = []
    for layout in (ipc.SparseCOOTensor, ipc.SparseCSRMatrix, ipc.SparseCSCMatrix, ipc.SparseCSFTensor):
        sink = bytearray()
        ipc.write_sparse_tensor(layout.from_dense(dense), sink)
        read = ipc.read_sparse_tensor(sink)
        found += [read.to_dense(), read.to_coo().to_dense(), read.to_csr().data, read.equals(read)]
    return found


# -- dissociated ---------------------------------------------------------------------------------------------


@scenario(lambda: [arrays.read_batch(words(number)) for number in (0, 1)])
def messages_taken_apart(batches: list[ipc.RecordBatch]) -> Any:
    decoder, found, returned = ipc.StreamDecoder(), [], []
    for message in messages_of(ipc.Table.from_batches(batches)):
        body = bytes(message.body)
        if message.kind == "Schema":
            decoder.decode_next(message_of(message.metadata))
            continue
        lease = Lease(body, returned.append, len(body))
        told = write_pairs(message, 4096)
        apart = Pairs(told, message.body_length).message(message.metadata, lease, 4096)
        event = decoder.decode_next(apart)
        found += [event.batch] if hasattr(event, "batch") else []
    return found, len(returned) <= 4


def pick(names: str | None) -> Iterator[str]:
    """Yield the scenarios whose names hold one of some words."""
    for name in SCENARIOS:
        if not names or any(word in name for word in names.split(",")):
            yield name
