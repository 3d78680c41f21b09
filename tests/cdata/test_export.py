"""Hand-over through the Arrow PyCapsule interface: to the libraries people use, and struct by struct."""

import ctypes
import errno
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import forge
from helpers.arrays import CASES, batch_of_columns, pyarrow_bytes, read_batch
from helpers.arrow_columns import everything
from helpers.cdata import CArray, CDeviceArray, CDeviceStream, Consumer, CSchema, int64s, move, peek, release, take
from helpers.processes import in_threads, run_function

import arrowipc as ipc
from arrowipc import types
from arrowipc.cdata import export
from arrowipc.cdata.import_array import batch_from, stream_from

pa = pytest.importorskip("pyarrow")


def take_array(exported: Any) -> Any:
    return take(exported.__arrow_c_array__()[1], CArray)


def numbers(*columns: list[int]) -> Any:
    return batch_of_columns(*[pa.array(column, pa.int64()) for column in columns])


@pytest.fixture
def rich() -> Any:
    """Columns of three rows, of every type."""
    return everything().append_column("empty", pa.array(["", "", ""]))


# -- consumers ---------------------------------------------------------------------------------------------


FLAT = "int32 double string bool binary date32 list struct"
NESTED = f"{FLAT} dictionary string_view"
#: A library -> what makes its own data of ours, and the columns that come back as they were.
PEERS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "polars": (lambda polars, data: polars.DataFrame(data), NESTED),
    "pandas": (lambda pandas, data: pandas.DataFrame.from_arrow(data), "double string timestamp[us]"),
    "nanoarrow": (lambda na, data: na.ArrayStream(data), f"{NESTED} map decimal128"),
    "arro3.core": (lambda core, data: core.Table.from_arrow(data), f"{NESTED} map decimal128 list_view"),
    "duckdb": (lambda db, data: db.connect().register("t", data).sql("select * from t"), f"{FLAT} map decimal128"),
}


@pytest.mark.parametrize("peer", PEERS)
def test_what_goes_to_a_library_comes_back(peer: str) -> None:
    make, names = PEERS[peer]
    library = pytest.importorskip(peer, {"pandas": "3.0"}.get(peer))
    whole = pa.record_batch({name: CASES[name][:3] for name in names.split()})
    ours = read_batch(whole)
    for part in (ours, ours.slice(1), ours.slice(1, 1)):
        assert batch_from(make(library, part), "full").to_pydict() == part.to_pydict()
    with ipc.open_stream(pyarrow_bytes([whole, whole])) as reader, stream_from(make(library, reader), "full") as stream:
        assert [row for batch in stream for row in batch.to_pylist()] == ours.to_pylist() * 2


def test_device_arrays(rich: Any) -> None:
    batch = read_batch(rich)
    assert pa.RecordBatch._import_from_c_device_capsule(*batch.__arrow_c_device_array__()).equals(rich)
    column = batch["list_of_struct"].slice(1)
    expected = rich["list_of_struct"].slice(1)
    assert pa.Array._import_from_c_device_capsule(*column.__arrow_c_device_array__()).equals(expected)
    with pytest.raises(ipc.UnsupportedError, match="stream"):
        batch.__arrow_c_device_array__(stream=1)


def test_device_streams(rich: Any) -> None:
    """What tables, columns, batches and readers give is on the CPU, and ends as a stream does, with its error."""
    batch = read_batch(rich)
    table = ipc.Table.from_batches([batch, batch.slice(1)])
    column = rich["list_of_struct"]
    sources = [(table, [rich, rich.slice(1)]), (table["list_of_struct"], [column, column.slice(1)])]
    sources += [(batch, [rich]), (ipc.open(pyarrow_bytes(rich)), [rich])]
    for source, expected in sources:
        stream, schema, out = take(source.__arrow_c_device_stream__(), CDeviceStream), CSchema(), CDeviceArray()
        assert (stream.device_type, stream.get_schema(stream, schema)) == (1, 0)
        release(schema)
        kind = pa.Array if isinstance(expected[0], pa.Array) else pa.RecordBatch
        described = expected[0].type if kind is pa.Array else rich.schema
        for part in expected:
            assert stream.get_next(stream, out) == 0
            assert (out.device_id, out.device_type, out.sync_event) == (-1, 1, None)
            assert kind._import_from_c_device(ctypes.addressof(out), described).equals(part)
        assert (stream.get_next(stream, out), out.array.release, stream.get_last_error(stream)) == (0, None, None)
        release(stream)
    broken = take(export.export_device_stream(SCHEMA, iter([1])), CDeviceStream)
    assert broken.get_next(broken, out) == errno.EINVAL
    assert b"RecordBatch" in broken.get_last_error(broken)
    release(broken)
    with pytest.raises(ipc.UnsupportedError, match=r"__arrow_c_device_stream__.*stream"):
        table.__arrow_c_device_stream__(stream=1)


def test_requested_schemas_are_ignored() -> None:
    batch = numbers([1, 2])
    wish = pa.schema([("c0", pa.string())]).__arrow_c_schema__()
    assert pa.RecordBatch._import_from_c_capsule(*batch.__arrow_c_array__(wish)).column(0).type == pa.int64()
    assert pa.Array._import_from_c_capsule(*batch["c0"].__arrow_c_array__(wish)).type == pa.int64()
    assert peek(wish, CSchema).release is not None
    for call in (batch.__arrow_c_array__, batch["c0"].__arrow_c_array__, batch.__arrow_c_stream__):
        with pytest.raises(ipc.UsageError, match="arrow_schema"):
            call("int64")


# -- structs and buffers -----------------------------------------------------------------------------------


def everywhere(array: Any) -> Iterator[Any]:
    yield array
    for i in range(array.n_children):
        yield from everywhere(array.children[i].contents)
    if array.dictionary:
        yield from everywhere(array.dictionary.contents)


@pytest.mark.parametrize("rows", [0, 3])
def test_only_validity_bitmaps_may_be_null(rich: Any, rows: int) -> None:
    batch = read_batch(rich.slice(0, rows))
    capsule = batch.__arrow_c_array__()[1]
    seen = 0
    for array in everywhere(peek(capsule, CArray)):
        assert all(array.buffers[i] for i in range(1, array.n_buffers))
        if array.n_buffers > 1 and array.null_count > 0:
            assert array.buffers[0]
        assert all(array.buffers[i] % 8 == 0 for i in range(array.n_buffers) if array.buffers[i])
        seen += 1
    assert seen > rich.num_columns


def test_a_missing_offset_buffer_becomes_a_zero(arrow_data: Path) -> None:
    # Arrow 0.14 left the offsets of empty arrays out.
    for path in sorted(arrow_data.glob("arrow-ipc-stream/integration/*/generated_primitive_zerolength.stream")):
        for batch in ipc.open_stream(path):
            capsule = batch.__arrow_c_array__()[1]
            root = peek(capsule, CArray)
            for i, column in enumerate(batch.columns):
                if str(column.type) in ("string", "binary"):
                    array = root.children[i].contents
                    assert array.n_buffers == 3
                    assert ctypes.string_at(array.buffers[1], 4) == bytes(4)
                    assert array.buffers[2]


def test_slices_share_buffers_and_carry_offsets() -> None:
    batch = numbers([1, 2, 3, 4], [5, 6, 7, 8])
    whole, part = take_array(batch), take_array(batch.slice(1, 2))
    assert (part.length, part.offset) == (2, 0)
    for i, expected in enumerate(([2, 3], [6, 7])):
        child = part.children[i].contents
        assert (child.offset, int64s(child)) == (1, expected)
        assert child.buffers[1] == whole.children[i].contents.buffers[1]
    array = take_array(batch["c1"].slice(2))
    assert (array.length, array.offset, int64s(array)) == (2, 2, [7, 8])
    for moved in (whole, part, array):
        release(moved)


def test_a_dictionary_that_never_came_is_empty() -> None:
    below = pa.struct([("s", pa.string_view()), ("l", pa.list_(pa.int8()))])
    values = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([{"s": "x"}], below))
    data = pyarrow_bytes(pa.record_batch({"d": values}))
    without = b"".join(m for m in forge.split(data) if ipc.read_message(m).kind != "DictionaryBatch")
    assert len(without) < len(data)
    (batch,) = ipc.open_stream(without)
    found = pa.record_batch(batch)
    found.validate(full=True)
    assert found.column(0).to_pylist() == [None, None]
    assert len(found.column(0).dictionary) == 0
    assert found.column(0).type == values.type


# -- lifetimes ---------------------------------------------------------------------------------------------


def test_children_outlive_their_parent() -> None:
    parent = take_array(numbers([1, 2], [3, 4], [5, 6]))
    children = [move(parent.children[i].contents) for i in (2, 0)]
    release(parent)
    assert [int64s(child) for child in children] == [[5, 6], [1, 2]]
    release(children[0])
    assert int64s(children[1]) == [1, 2]
    release(children[1])


def test_schemas_can_be_taken_apart(rich: Any) -> None:
    root = take(read_batch(rich).__arrow_c_schema__(), CSchema)
    nested = move(root.children[rich.schema.names.index("list_of_struct")].contents)
    words = move(root.children[rich.schema.names.index("dictionary")].contents.dictionary.contents)
    release(root)
    assert nested.children[0].contents.children[0].contents.name == b"a"
    release(nested)
    assert words.format == b"u"
    release(words)


def test_release_from_other_threads() -> None:
    parents = [take_array(numbers([i], [i + 1], [i + 2])) for i in range(40)]
    parts = [move(p.children[i].contents) for p in parents for i in range(3)] + parents

    def work(mine: list[Any]) -> None:
        for part in mine:
            release(part)

    in_threads(work, [parts[i::4] for i in range(4)])


class Watched(bytes):
    """Bytes that run Python code, with an error of its own, when they die."""

    died: list[str]

    def __del__(self) -> None:
        try:
            raise KeyError("inside __del__")
        except KeyError as error:
            self.died.append(str(error))


def test_release_keeps_a_pending_exception() -> None:
    source = Watched(pyarrow_bytes(pa.record_batch({"x": [1]})))
    source.died = died = []
    batch = next(iter(ipc.open_stream(source)))
    holders = [batch.__arrow_c_stream__(), batch.__arrow_c_array__()[1], batch.__arrow_c_schema__()]
    del source, batch
    # The capsules lie on the stack of the call, which is unwound while ZeroDivisionError is on its way.
    with pytest.raises(ZeroDivisionError):
        print(holders.pop(), holders.pop(), holders.pop(), 1 / 0)
    gc.collect()
    assert len(died) == 1


def test_memory_outlives_reader_file_and_mapping(tmp_path: Path) -> None:
    path = tmp_path / "x.arrows"
    path.write_bytes(pyarrow_bytes(pa.record_batch({"x": ["some", "words"], "y": [1, 2]})))
    with ipc.open_stream(path) as reader:
        moved = take_array(next(iter(reader)))
    del reader
    path.unlink()
    gc.collect()
    assert ctypes.string_at(moved.children[0].contents.buffers[2], 9) == b"somewords"
    assert int64s(moved.children[1].contents) == [1, 2]
    release(moved)


class Late:
    """Lets go of what it holds when nothing else is there any more."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __del__(self) -> None:
        self.held = None


def keep_exports_to_the_end() -> None:
    batch = next(iter(ipc.open_stream(pyarrow_bytes(pa.record_batch({"x": [1, 2]})))))
    sys.kept_alive = [batch.__arrow_c_array__(), batch.__arrow_c_stream__(), pa.record_batch(batch)]  # type: ignore[attr-defined]
    pa.kept_alive = pa.RecordBatchReader.from_stream(batch)
    ctypes.late = Late([batch.__arrow_c_array__(), pa.array(batch["x"])])  # type: ignore[attr-defined]

    def forever() -> None:
        while True:
            pa.record_batch(batch)

    threading.Thread(target=forever, daemon=True).start()
    time.sleep(0.05)
    print("done")


def test_exports_that_live_to_the_end_of_the_process() -> None:
    done = run_function(keep_exports_to_the_end)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


# -- streams -----------------------------------------------------------------------------------------------


SCHEMA = types.schema([("c0", types.int64())])


def exported(source: Any) -> Consumer:
    return Consumer(export.export_stream(SCHEMA, source))


def test_streams_end_and_stay_at_the_end() -> None:
    consumer = exported([numbers([1, 2]), numbers([]), numbers([3])])
    assert [consumer.column() for _ in range(6)] == [[1, 2], [], [3], None, None, None]
    assert consumer.error() is None
    release(consumer.stream)


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ipc.FormatError("bad words"), errno.EINVAL, "FormatError: bad words"),
        (ipc.UnsupportedError("bad words"), errno.ENOSYS, "UnsupportedError: bad words"),
        (MemoryError("bad words"), errno.ENOMEM, "MemoryError: bad words"),
        (OSError(errno.EPIPE, "bad words"), errno.EPIPE, "BrokenPipeError: [Errno 32] bad words"),
        (OSError(-5, "bad words"), errno.EIO, "OSError: [Errno -5] bad words"),
        (KeyboardInterrupt("bad words"), errno.ECANCELED, "KeyboardInterrupt: bad words"),
        (ValueError(), errno.EINVAL, "ValueError"),
        (ValueError("na\0me"), errno.EINVAL, "ValueError: na\\0me"),
        (ValueError("ü \udcff"), errno.EINVAL, "ValueError: ü \\udcff"),
        (Speechless(), errno.EINVAL, "Speechless"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_errors_become_codes_and_messages_that_c_can_hold(error: BaseException, code: int, message: str) -> None:
    def source() -> Iterator[Any]:
        yield numbers([1])
        raise error

    consumer = exported(source())
    assert consumer.column() == [1]
    for _ in range(2):
        # A generator that raised looks ended when it is asked again; the stream must not.
        found, out = consumer.pull()
        assert (found, out.release, consumer.error()) == (code, None, message)
    release(consumer.stream)


def test_batches_of_another_schema_are_refused() -> None:
    consumer = exported([numbers([1]), read_batch(pa.record_batch({"c0": ["text"]}))])
    assert consumer.column() == [1]
    assert consumer.pull()[0] == errno.EINVAL
    assert "another schema" in (consumer.error() or "")
    release(consumer.stream)


def test_misuse_is_reported_before_anything_is_exported() -> None:
    with pytest.raises(ipc.UsageError, match="Schema"):
        export.export_stream(types.int64(), [])
    with pytest.raises(TypeError, match="iterable"):
        export.export_stream(SCHEMA, 7)
    with pytest.raises(ipc.UsageError, match="Schema, Field or DataType"):
        export.export_schema("int64")
    for call in (export.export_device_array, export.export_array):
        with pytest.raises(ipc.UsageError, match="RecordBatch or Array"):
            call("int64")


def test_calls_after_release_are_errors() -> None:
    consumer = exported([numbers([1])])
    release(consumer.stream)
    code, out = consumer.pull()
    assert (code, out.release) == (errno.EINVAL, None)
    assert consumer.stream.get_schema(consumer.stream, CSchema()) == errno.EINVAL
    assert "released" in (consumer.error() or "")


def test_a_stream_released_by_its_own_producer() -> None:
    held: list[Consumer] = []

    def source() -> Iterator[Any]:
        yield numbers([1])
        release(held[0].stream)
        yield numbers([2])

    held.append(exported(source()))
    assert held[0].column() == [1]
    assert held[0].column() == [2]
    assert held[0].pull()[0] == errno.EINVAL


def test_readers_hand_over_what_is_left() -> None:
    batches = [pa.record_batch({"x": [i]}) for i in range(4)]
    with ipc.open_stream(pyarrow_bytes(list(batches))) as reader:
        assert reader.read_next_batch().to_pydict() == {"x": [0]}
        assert pa.table(reader).to_pydict() == {"x": [1, 2, 3]}
