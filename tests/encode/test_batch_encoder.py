"""The bytes between the bodies: prefixes, end markers, magic, footers, metadata; and single messages."""

import struct
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from helpers import forge
from helpers.arrays import FORMS, batch_of, ipc_bytes

import arrowipc as ipc
from arrowipc import UsageError

PAIRS = ((b"k", b"1"), (b"k", b"2"), (b"\xff\0", b""), (b"", b"\x80"))


# -- framing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["V4", "V5"])
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("alignment", [8, 64])
def test_a_file_is_magic_stream_footer_size_and_magic(alignment, legacy, version):
    options = {"alignment": alignment, "legacy": legacy, "metadata_version": version}
    data, alone = (ipc_bytes([batch_of(1, None), batch_of(3)], form, **options) for form in ("file", "stream"))
    assert data[:8] == b"ARROW1\0\0"
    assert data[-6:] == b"ARROW1"
    size = struct.unpack_from("<i", data, len(data) - 10)[0]
    start = len(data) - 10 - size
    assert start % 8 == 0
    end = forge.LEGACY_EOS if legacy else forge.EOS
    assert alone.endswith(end)
    # Of 64 there are other gaps, because the file begins 8 bytes earlier.
    assert alignment == 64 or data[8:start] == alone.removesuffix(end) + end.ljust(8, b"\0")
    footer = partial(forge.read, data[start:-10], root="Footer")
    assert footer("version") == (3 if version == "V4" else 4)
    assert footer("recordBatches.#") == 2
    for i in range(2):
        names = ("offset", "metaDataLength", "bodyLength")
        offset, head, body = (footer(f"recordBatches[{i}].{name}") for name in names)
        assert offset % 8 == head % 8 == 0
        assert (offset + head) % alignment == body % alignment == 0
        part = data[offset : offset + head + body]
        assert part.startswith(forge.CONTINUATION) is not legacy
        assert forge.read(part, "bodyLength") == body
        assert forge.read(part, "version") == (3 if version == "V4" else 4)
    for opened in (ipc.open_stream(alone), pa.ipc.open_stream(data[8:start]), pa.ipc.open_file(data)):
        assert opened.read_all().to_pydict() == {"x": [1, None, 3]}


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_without_columns_keeps_its_rows(form):
    (bare,) = ipc.open_stream(ipc_bytes(batch_of(1, 2, 3)), columns=[])
    assert [batch.num_rows for batch in ipc.open(ipc_bytes([bare, bare.slice(1)], form))] == [3, 2]


# -- metadata of files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [PAIRS, ((b"last", b"2"),)])
def test_metadata_stands_in_the_first_message_and_in_the_footer_and_can_be_set_until_the_file_is_closed(last):
    writer = ipc.new_file(sink := bytearray(), batch_of(1).schema, metadata=PAIRS)
    assert writer.metadata.pairs == PAIRS
    writer.write(batch_of(1))
    if last != PAIRS:
        writer.metadata = last
    writer.close()
    assert ipc.open_file(sink).metadata.pairs == last
    assert pa.ipc.open_file(bytes(sink)).metadata == dict(last[::-1])  # of a key that repeats, it shows the first value
    assert ipc.MessageReader(bytes(sink)[8:]).read_next_message().custom_metadata.pairs == PAIRS
    with pytest.raises(UsageError, match="closed"):
        writer.metadata = {"later": "3"}


# -- metadata of batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", [(), PAIRS, tuple((b"k%d" % i, bytes(i)) for i in range(200))])
@pytest.mark.parametrize("alignment", [8, 64])
def test_custom_metadata_keeps_order_duplicates_and_binary(pairs, alignment):
    sink = bytearray()
    with ipc.new_stream(sink, batch_of(1).schema, alignment=alignment) as writer:
        writer.write_batch(batch_of(1, 2), custom_metadata=pairs)
        writer.write_batch(batch_of(3))
    first, second = ipc.open_stream(sink, validate="strict")
    assert first.custom_metadata.pairs == pairs
    assert second.custom_metadata.pairs == ()
    batch, metadata = pa.ipc.open_stream(bytes(sink)).read_next_batch_with_custom_metadata()
    assert batch.to_pydict() == first.to_pydict() == {"x": [1, 2]}
    assert (list(metadata.items()) if metadata else []) == list(pairs)


def test_custom_metadata_of_a_batch_that_was_read_is_carried_along_with_its_first_piece():
    sink, again = bytearray(), bytearray()
    with ipc.new_stream(sink) as writer:
        writer.write_batch(batch_of(1, 2, 3), {"a": "1"})
    (batch,) = ipc.open_stream(sink)
    with ipc.new_file(again) as writer:
        writer.write(batch)
        writer.write_batch(batch, {})
        writer.write_table(ipc.open_stream(sink), max_chunksize=2)
    found = [(batch.num_rows, batch.custom_metadata.pairs) for batch in ipc.open_file(again)]
    pairs = ((b"a", b"1"),)
    assert found == [(3, pairs), (3, ()), (2, pairs), (1, ())]


# -- single messages -----------------------------------------------------------------------------------------


def test_a_message_is_what_a_stream_holds():
    batch = batch_of(1, None, 3)
    whole = forge.split(ipc_bytes(batch))[1]
    assert batch.serialize() == whole
    message = batch.to_message()
    assert (message.kind, message.version, message.body_length) == ("RecordBatch", "V5", 32)
    assert message.serialize() == whole
    assert [len(buffer) for buffer in message.buffers] == [1, 24]
    assert bytes(message.body) == whole[-32:]
    # A body that was put together is cut into the same buffers.
    assert [bytes(buffer) for buffer in message.buffers] == [b"\x05", struct.pack("<3q", 1, 0, 3)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alignment": 16}, "alignment must be 8 or 64, found int 16"),
        ({"metadata_version": "V6"}, "metadata_version must be .* found str 'V6'"),
        ({"metadata_version": np.array(["V4", "V5"])}, "metadata_version must be .* found ndarray"),
        ({"compression": {"y": "lz4"}}, r"the schema has no column 'y'; its columns are \['x'\]"),
        ({"compression": {"x": "lz4", "*": "zstd"}}, "a message has one codec"),
        ({"compression": "gzip"}, "compression must be 'lz4', 'zstd' or None, .*, found"),
        ({"compression_level": 3}, "need a codec"),
        ({"compression": "lz4", "compression_level": 13}, "of LZ4_FRAME must be .* from -65536 to 12, found int 13"),
        ({"compression": "lz4", "compression_level": -65_537}, "from -65536 to 12"),
        ({"compression": "lz4", "compression_level": True}, "found bool True"),
        ({"compression": "zstd", "compression_level": 23}, "of ZSTD must be .* from -131072 to 22, found int 23"),
        ({"compression": "zstd", "compression_level": -131_073}, "from -131072 to 22"),
        ({"compression": "zstd", "compression_level": 1.0}, "found float 1.0"),
        *[
            ({"compression": "zstd", "min_space_savings": savings}, "must be a fraction from 0 to below 1")
            for savings in (1, -0.1, float("nan"), "0.1", True)
        ],
        ({"compression": "zstd", "metadata_version": "V4"}, 'came with metadata_version="V5"'),
    ],
)
def test_options_that_cannot_be_are_refused(options, words):
    sink = bytearray()
    for call in (
        lambda: batch_of(1).to_message(**options),
        lambda: batch_of(1).serialize(**options),
        lambda: ipc.get_record_batch_size(batch_of(1), **options),
        lambda: ipc.encode_payloads(batch_of(1), rows_per_payload=1, **options),
        lambda: ipc.new_stream(sink, batch_of(1).schema, **options),
        lambda: ipc.new_file(sink, batch_of(1).schema, **options),
    ):
        with pytest.raises(UsageError, match=words):
            call()
    assert not sink
