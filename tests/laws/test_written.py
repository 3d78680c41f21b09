"""Laws of what we write: it reads back the same, by us and by pyarrow, and lies where the format wants it."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from helpers import arrays, forge, randoms
from helpers.arrays import FORMS, address, ipc_bytes, pyarrow_bytes, read
from helpers.processes import rounds
from hypothesis import given, settings, strategies as st

import arrowipc as ipc

FRAMING = {"alignment": st.sampled_from([8, 64]), "legacy": st.booleans()}
CODECS = {"compression": st.sampled_from(["lz4", "zstd", {"c0": "zstd", "*": None}, {"c0": None, "*": "lz4"}])}
# Readers of V4 know no compression.
options = st.fixed_dictionaries(FRAMING, optional={"metadata_version": st.just("V4")}) | st.fixed_dictionaries(
    FRAMING | CODECS, optional={"min_space_savings": st.sampled_from([0.0, 0.2])}
)


def fit(parts: list[pa.RecordBatch], chosen: dict[str, Any]) -> dict[str, Any]:
    """The options, without codecs for some columns where there are none."""
    ruled_out = isinstance(chosen.get("compression"), dict) and not (parts and parts[0].num_columns)
    return {key: value for key, value in chosen.items() if not ruled_out or key in FRAMING}


def write(batches: list[ipc.RecordBatch], kind: str = "stream", **chosen: Any) -> bytes:
    return ipc_bytes(batches, kind, None if batches else ipc.Schema([]), **chosen)


def read_by_pyarrow(data: bytes, kind: str, full: bool = True) -> list[pa.RecordBatch]:
    """What pyarrow reads, every batch validated."""
    _, found = arrays.read_by_pyarrow(data, kind)
    for batch in found:
        batch.validate(full=full)
    return found


def spans_of(rows: int) -> st.SearchStrategy[tuple[int, int]]:
    """Offset and length of a slice."""
    return st.integers(0, rows).flatmap(lambda start: st.tuples(st.just(start), st.integers(0, rows - start)))


@pytest.mark.parametrize("sliced", [False, True])
@settings(max_examples=rounds(50, 100))
@given(parts=randoms.batches(), kind=st.sampled_from(FORMS), chosen=options, data=st.data())
def test_reading_gives_what_was_written_also_of_slices(sliced, parts, kind, chosen, data):
    chosen = fit(parts, chosen)
    batches = read(pyarrow_bytes(parts))
    if sliced:
        spans = [data.draw(spans_of(part.num_rows)) for part in parts]
        batches = [batch.slice(*span) for batch, span in zip(batches, spans, strict=True)]
        parts = [part.slice(*span) for part, span in zip(parts, spans, strict=True)]
    written = write(batches, kind, **chosen)
    assert read(written, validate="strict") == batches
    for found, expected in zip(read_by_pyarrow(written, kind), parts, strict=True):
        assert found.equals(expected)


@given(randoms.batches(), st.sampled_from(FORMS), options)
def test_writing_what_was_read_gives_the_same_bytes(parts, kind, chosen):
    chosen = fit(parts, chosen)
    first = write(read(pyarrow_bytes(parts)), kind, **chosen)
    assert write(read(first), kind, **chosen) == first


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("version", ["V5", "V4"])
@pytest.mark.parametrize("name", arrays.CASES)
def test_every_type_comes_back(name, version, kind):
    theirs = pa.record_batch([arrays.CASES[name]], names=["x"])
    batch = arrays.read_batch(theirs)
    for part, wanted in ((batch, theirs), (batch.slice(1), theirs.slice(1)), (batch.slice(0, 0), theirs[:0])):
        data = write([part, part], kind, metadata_version=version, alignment=64)
        assert read(data, validate="full") == [part, part]
        # The offsets of this union do not rise, which pyarrow's full validation does not like.
        for found in read_by_pyarrow(data, kind, full=name != "dense_union"):
            assert found.equals(wanted)


def messages(data: bytes, start: int = 0) -> Iterator[tuple[int, ipc.Message]]:
    """The messages of a stream, with the position of each body."""
    reader = ipc.MessageReader(data[start:])
    for message in reader:
        yield start + reader.bytes_consumed - message.body_length, message


def structs(message: ipc.Message, what: str, *names: str) -> list[tuple[int, ...]]:
    """The nodes or buffers of a RecordBatch or DictionaryBatch message."""
    path = f"header.data.{what}" if message.kind == "DictionaryBatch" else f"header.{what}"
    whole = forge.CONTINUATION + forge.i32(0) + bytes(message.metadata)
    places = [f"{path}[{i}]" for i in range(forge.read(whole, f"{path}.#"))]
    return [tuple([forge.read(whole, f"{place}.{name}") for name in names]) for place in places]


@given(randoms.batches(), st.sampled_from(FORMS), options)
def test_bodies_and_buffers_are_aligned_in_order_and_padded_with_zeros(parts, kind, chosen):
    chosen = fit(parts, chosen)
    alignment, data = chosen["alignment"], write(read(pyarrow_bytes(parts)), kind, **chosen)
    found = list(messages(data, 8 if kind == "file" else 0))
    assert found[0][1].kind == "Schema"
    for at, message in found[1:]:
        assert at % alignment == 0
        assert message.body_length % alignment == 0
        assert all(0 <= nulls <= count for count, nulls in structs(message, "nodes", "length", "null_count"))
        end, body = 0, bytes(message.body)
        for offset, length in structs(message, "buffers", "offset", "length"):
            assert offset == end
            end = offset + length + -length % alignment
            assert body[offset + length : end] == bytes(end - offset - length)
        assert end == message.body_length


# The offsets of this dense union do not rise: they are written anew.
@pytest.mark.parametrize("name", [name for name in arrays.CASES if name != "dense_union"])
def test_the_buffers_of_a_message_are_those_of_the_batch(name):
    batch = arrays.read_batch(pa.record_batch([arrays.CASES[name]], names=["x"]))
    owned = [(address(buffer), len(buffer)) for buffer in arrays.parts_of(batch)["buffers"] if buffer]
    for buffer in batch.to_message().buffers:
        place, size = address(buffer), len(buffer)
        assert not size or any(start <= place and place + size <= start + n for start, n in owned)


@given(randoms.batches(most_batches=1), options)
def test_a_message_reads_back_as_the_batch_and_has_the_size_that_was_said(parts, chosen):
    chosen = {key: value for key, value in fit(parts, chosen).items() if key != "legacy"}
    for batch, theirs in zip(read(pyarrow_bytes(parts)), parts, strict=True):
        message = batch.to_message(**chosen)
        assert ipc.get_record_batch_size(batch, **chosen) == len(batch.serialize(**chosen))
        # Dictionaries travel in messages of their own, which a stream holds.
        words = [m for _, m in messages(write([batch])) if m.kind == "DictionaryBatch"]
        schema = ipc.read_schema(write([batch]))
        for form in (message, batch.serialize(**chosen)):
            assert ipc.read_record_batch(form, schema, dictionaries=words, validate="strict").equals(batch)
        if not words:
            found = pa.ipc.read_record_batch(pa.py_buffer(batch.serialize(**chosen)), theirs.schema)
            found.validate(full=True)
            assert found.equals(theirs)


def test_messages_stay_good_when_more_are_made_and_the_batch_is_gone():
    theirs = pa.record_batch({"t": [f"text {i}" for i in range(500)], "b": [i % 3 == 0 for i in range(500)]})
    batch = arrays.read_batch(theirs)
    parts = [batch.slice(i, 7).to_message(compression=codec) for i in range(90) for codec in (None, "zstd")]
    schema = batch.schema
    del batch
    for i, message in enumerate(parts):
        found = ipc.read_record_batch(message.serialize(), schema)
        assert pa.record_batch(found).equals(theirs.slice(i // 2, 7))
