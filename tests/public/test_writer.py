"""How writers behave: schemas, mismatches, nulls, errors, sizes of batches, closing, threads."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from columns.broken import forged
from helpers import arrays, forge
from helpers.arrays import batch_of, ipc_bytes, mixed_batch, pyarrow_bytes, read

import arrowipc as ipc
from arrowipc import FormatError, UsageError

OPENERS = [ipc.new_stream, ipc.new_file]


def rows(sink: bytes | bytearray) -> list[int]:
    return [batch.num_rows for batch in read(sink, validate="strict")]


@contextmanager
def refused(sink: bytearray, error: type[Exception], words: str | None = None) -> Iterator[None]:
    """Check that a block raises an error, and writes nothing."""
    size = len(sink)
    with pytest.raises(error, match=words):
        yield
    assert len(sink) == size


WAYS = {
    "write_batch": lambda writer, batch: writer.write_batch(batch),
    "write_table": lambda writer, batch: writer.write_table(batch),
    "table": lambda writer, batch: writer.write(ipc.Table(batch.schema, [batch])),
    "iterator": lambda writer, batch: writer.write(iter([batch])),
    "reader": lambda writer, batch: writer.write(ipc.open_stream(ipc_bytes(batch))),
}


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("how", WAYS)
def test_without_a_schema_the_first_batch_says_it(opener, how):
    batch, sink = batch_of(1, 2), bytearray()
    with opener(sink) as writer:
        assert writer.schema is None
        assert not sink
        WAYS[how](writer, batch)
        assert writer.schema == batch.schema
    assert [each.equals(batch) for each in read(sink, validate="strict")] == [True]


@pytest.mark.parametrize("opener", OPENERS)
def test_neither_schema_nor_batch_is_an_error_that_says_what_to_do(opener):
    for how in (lambda writer: None, lambda writer: writer.write([]), lambda writer: writer.write(iter(()))):
        sink = bytearray()
        writer = opener(sink)
        how(writer)
        with pytest.raises(UsageError, match="no schema was given: give the writer a schema"):
            writer.close()
        assert not sink
        writer.close()


def test_an_empty_table_or_reader_gives_its_schema():
    schema = batch_of(1).schema
    for data in (ipc.Table(schema, []), ipc.open_stream(pyarrow_bytes([], schema=pa.schema([("x", pa.int64())])))):
        sink = ipc_bytes([data])
        assert ipc.open_stream(sink).schema == schema


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (batch_of(1, name="y"), "column 0 is named 'y' in the batch and 'x' in the writer's schema"),
        (batch_of(1, kind=pa.int32()), "column 'x' is int32 in the batch and int64 in the writer's schema"),
        (batch_of("a", kind=pa.string()), "column 'x' is string in the batch and int64 in"),
        (arrays.read_batch(pa.record_batch({"x": [1], "y": [2]})), r"2 columns, .* 1; unknown: \['y'\]"),
        (arrays.read_batch(pa.record_batch({})), r"0 columns, the writer's schema 1; missing: \['x'\]"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"coalesce_rows": 10}])
def test_another_schema_is_refused_with_the_column_and_the_writer_goes_on(other, words, options):
    with ipc.new_stream(sink := bytearray(), **options) as writer:
        writer.write(batch_of(1))
        for write in (writer.write, writer.write_batch, lambda b: writer.write_table(b, 1)):
            with refused(sink, UsageError, words):
                write(other)
        writer.write(batch_of(2))
    assert [batch.to_pydict()["x"] for batch in read(sink, validate="strict")] in ([[1], [2]], [[1, 2]])


@pytest.mark.parametrize("options", [{}, {"compression": "lz4"}])
def test_nulls_in_a_column_that_has_none_are_refused_and_the_writer_goes_on(options):
    theirs = pa.schema([pa.field("n", pa.int64()), pa.field("x", pa.string(), nullable=False)])
    sink = bytearray()
    good = arrays.read_batch(pa.record_batch({"n": [1, None], "x": ["a", "b"]}))
    bad = arrays.read_batch(pa.record_batch({"n": [1, None, 3], "x": ["a", None, None]}))
    with ipc.new_stream(sink, ipc.open_stream(pyarrow_bytes([], schema=theirs)).schema, **options) as writer:
        writer.write(good)
        with refused(sink, UsageError, r"column 'x' has 2 nulls .*nullable=False"):
            writer.write(bad)
        writer.write(bad.slice(0, 1))
    assert rows(sink) == [2, 1]
    table = pa.ipc.open_stream(bytes(sink)).read_all()
    table.validate(full=True)
    assert table.column("x").to_pylist() == ["a", "b", "a"]


def test_broken_contents_are_found_before_anything_is_written():
    bad = forged([forge.field("t", forge.UTF8)], forge.batch(2, [(2, 0)], [b"", forge.i32(0, 1, 1000), b"ab"]))
    good, sink = batch_of("a", name="t", kind=pa.string()), bytearray()
    with ipc.new_stream(sink, good.schema) as writer:
        with refused(sink, FormatError, "column 't'"):
            writer.write(bad)
        writer.write(good)
    assert rows(sink) == [1]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (5, "expected a RecordBatch, a Table, .* found int 5"),
        (None, "found NoneType None"),
        ("x.arrow", "expected data, found str 'x.arrow': read it first"),
        (Path("x.arrow"), "expected data, found PosixPath"),
        (b"ARROW1", "expected data, found bytes"),
        ([batch_of(1), 5], "found int 5"),
        (batch_of(1).column(0), "an array of int64 is one column, not a batch"),
    ],
)
def test_what_holds_no_rows_is_refused(data, words):
    with ipc.new_stream(bytearray(), batch_of(1).schema) as writer, pytest.raises(UsageError, match=words):
        writer.write(data)


def test_a_source_that_fails_leaves_the_writer_usable():
    def source() -> Any:
        yield batch_of(1)
        raise ZeroDivisionError

    with ipc.new_stream(sink := bytearray()) as writer:
        with pytest.raises(ZeroDivisionError):
            writer.write(source())
        writer.write(batch_of(2))
    assert [batch.to_pydict() for batch in read(sink, validate="strict")] == [{"x": [1]}, {"x": [2]}]


@pytest.mark.parametrize("most", [1, 7, 100, 2000, 5000])
def test_max_chunksize_bounds_rows(most):
    batch, sink = mixed_batch(0, 2000), bytearray()
    with ipc.new_stream(sink) as writer:
        writer.write_table(batch, max_chunksize=most)
        writer.write_table(ipc.Table(batch.schema, [batch.slice(0, 5), batch.slice(5, 20)]), most)
    assert rows(sink) == [min(most, part - start) for part in (2000, 5, 20) for start in range(0, part, most)]
    whole = ipc.open_stream(sink).read_all().to_pydict()
    assert {name: column[:2000] for name, column in whole.items()} == batch.to_pydict()


@pytest.mark.parametrize("most", [1, 200, 1000, 20_000, 10**7])
@pytest.mark.parametrize("alignment", [8, 64])
def test_max_chunk_bytes_bounds_bodies(alignment, most):
    batch, sink = mixed_batch(0, 300), bytearray()
    with ipc.new_stream(sink, alignment=alignment) as writer:
        writer.write_table(batch, max_chunk_bytes=most)
    sizes = [message.body_length for message in ipc.MessageReader(bytes(sink)) if message.kind == "RecordBatch"]
    assert all(size <= most or count == 1 for size, count in zip(sizes, rows(sink), strict=True))
    assert ipc.open_stream(sink).read_all().to_pydict() == batch.to_pydict()
    assert len(sizes) == {1: 300, 10**7: 1}.get(most, len(sizes))


@pytest.mark.parametrize("value", [0, -1, 1.5, "7", True])
@pytest.mark.parametrize("name", ["max_chunksize", "max_chunk_bytes"])
def test_bounds_below_1_are_refused(name, value):
    writer = ipc.new_stream(bytearray(), batch_of(1).schema)
    with pytest.raises(UsageError, match=f"{name} must be an integer"):
        writer.write_table(batch_of(1), **{name: value})
    writer.close()


@pytest.mark.parametrize("opener", OPENERS)
def test_batches_wait_until_they_are_enough_or_the_end_or_one_that_does_not_wait(opener):
    batch, sink = mixed_batch(0, 1000), bytearray()
    with opener(sink, coalesce_rows=10) as writer:
        for _ in range(3):
            writer.write(batch.slice(0, 3))
        assert writer.stats.num_record_batches == 0
        writer.write(batch.slice(0, 2))
        assert writer.stats.num_record_batches == 1
        for size in (3, 10, 4, 0, 2):
            writer.write(batch.slice(0, size))
        writer.write_batch(batch.slice(0, 2), {"k": "v"})
        writer.write(batch.slice(0, 1))
        writer.write_table(batch.slice(0, 8), max_chunksize=5)
        writer.write(batch.slice(0, 6))
    assert rows(sink) == [11, 3, 10, 6, 2, 1, 5, 3, 6]


@pytest.mark.parametrize("opener", OPENERS)
def test_a_closed_writer_says_so_and_may_be_closed_again(opener):
    sink, batch = bytearray(), batch_of(1)
    writer = opener(sink)
    writer.write(batch)
    writer.close()
    writer.close()
    with writer:
        pass
    for write in (writer.write, writer.write_batch, writer.write_table, lambda _: writer.write([])):
        with refused(sink, UsageError, "closed"):
            write(batch)
    assert len(read(sink)) == 1
    assert "closed" in repr(writer)


def test_a_stream_that_was_left_by_an_error_has_no_end():
    sink = io.BytesIO()
    with pytest.raises(ZeroDivisionError), ipc.new_stream(sink) as writer:  # noqa: PT012
        writer.write(batch_of(1))
        raise ZeroDivisionError
    assert not sink.getvalue().endswith(b"\xff\xff\xff\xff" + bytes(4))
    with pytest.raises(UsageError, match="the with block was left by ZeroDivisionError"):
        writer.write(batch_of(1))
    assert not sink.closed


def test_stats_count_messages_and_bytes():
    sink = bytearray()
    theirs = {"x": pa.array([7] * 1000), "d": pa.array(["a", "b"] * 500).dictionary_encode()}
    batch = arrays.read_batch(pa.record_batch(theirs))
    with ipc.new_stream(sink, batch.schema, compression="zstd") as writer:
        assert writer.stats[:5] == (1, 0, 0, 0, 0)
        writer.write(batch)
        writer.write(batch.slice(1))
        stats = writer.stats
        assert stats[:5] == (4, 2, 1, 0, 0)
    bodies = [message.body_length for message in ipc.MessageReader(bytes(sink))]
    assert stats.total_serialized_body_size == sum(bodies)
    raw = sum(len(buffer) for part in (batch, batch.slice(1)) for buffer in part.to_message().buffers)
    assert stats.total_raw_body_size == raw + len(b"ab") + 3 * 4


def test_completion_shows_what_writers_are_for() -> None:
    shown = {"close", "schema", "stats", "write", "write_batch", "write_table"}
    assert {name for name in dir(ipc.new_stream(bytearray())) if not name.startswith("_")} == shown
    assert {name for name in dir(ipc.new_file(bytearray())) if not name.startswith("_")} == shown | {"metadata"}
