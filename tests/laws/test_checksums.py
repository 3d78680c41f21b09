"""Checksums: whatever happened to a source since it was written is found, and nothing that is copied is stale."""

import io
import random
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import arrays, drive, forge, randoms
from helpers.arrays import FORMS, ipc_bytes
from helpers.processes import rounds
from helpers.terminal import run
from hypothesis import given, settings, strategies as st

import arrowipc as ipc
from arrowipc import FormatError, TruncatedError, UsageError, types
from arrowipc.decode.framing import checksum_of
from arrowipc.inspection.message_layout import locate_messages
from arrowipc.metadata.checksums import crc32c

KEY = b"arrowipc:checksum"
END = b"\xff\xff\xff\xff\0\0\0\0"
TABLE = pa.table(
    {
        "number": pa.array([1, None, 3, 4, 5, 6, 7, 8], pa.int64()),
        "text": ["a", "bc", "", None, "def", "g", "hi", "jkl"],
        "coded": pa.array(["x", "y", "x", "y", "x", "y", "x", "y"]).dictionary_encode(),
    }
)
WAYS = {name: arrays.WAYS[name] for name in ("plain", "lz4", "aligned", "legacy")}


def written(kind: str = "stream", rows: int = 2, data: Any = TABLE, **options: Any) -> bytes:
    """A source with checksums, unless the options say otherwise."""
    return ipc_bytes(data.to_batches(rows), kind, **{"checksum": True, **options})


def verified(data: Any, **options: Any) -> Any:
    with ipc.open(data, verify=True, **options) as reader:
        return reader.read_all()


def found(data: bytes, **options: Any) -> bool:
    try:
        verified(data, **options)
    except ipc.ArrowIpcError:
        return True
    return False


# -- what is found -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "columns"), [*((form, None) for form in WAYS), ("plain", ["number"])])
@pytest.mark.parametrize("kind", FORMS)
def test_any_changed_bit_is_found_also_in_columns_that_are_not_read(kind, form, columns):
    data = written(kind, rows=8, **WAYS[form])
    assert pa.table(verified(data, columns=columns)).equals(TABLE.select(columns or TABLE.column_names))
    every = form == "plain" and kind == "stream" and columns is None
    for bit in range(0, 8 * len(data), 1 if every else 11):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        assert found(changed, columns=columns), bit


@pytest.mark.parametrize("rows", [33 << 15, (33 << 15) + 1])
@pytest.mark.parametrize("kind", FORMS)
def test_a_changed_bit_of_a_large_body_is_found_by_one_thread_and_by_several(kind, rows):
    data = bytearray(written(kind, rows, pa.table({"number": np.arange(rows)})))
    for use_threads in (True, False):
        assert verified(data, use_threads=use_threads).num_rows == rows
        for place in random.Random(7).sample(range(len(data) - 8), 8):
            data[place] ^= 16
            assert found(data, use_threads=use_threads), place
            data[place] ^= 16


def test_a_missing_repeated_or_swapped_message_is_found():
    data = written()
    parts = forge.split(data)
    assert len(parts) == 7  # schema, dictionary, four batches, the end
    assert b"".join(parts) + END == data
    for i in range(len(parts)):
        assert found(b"".join(parts[:i] + parts[i + 1 :]) + END), i
        assert found(b"".join(parts[: i + 1] + parts[i:]) + END), i
        for k in range(i):
            swapped = parts.copy()
            swapped[i], swapped[k] = swapped[k], swapped[i]
            assert found(b"".join(swapped) + END), (i, k)


def from_payload(data: bytes, **options: Any) -> drive.Reading:
    batch = ipc.decode_payloads([data], **options).batch
    return drive.Reading(batch.schema, [batch])


def exported(data: bytes, **options: Any) -> drive.Reading:
    table = pa.RecordBatchReader.from_stream(ipc.open_stream(data, **options)).read_all()
    return drive.Reading(table.schema, table.to_batches())


@pytest.mark.parametrize("verify", [True, None, False])
@pytest.mark.parametrize("read", [*drive.STREAM_DRIVERS, from_payload, exported], ids=lambda read: read.__name__)
def test_all_readers_find_with_verify_that_a_stream_stops_between_messages(read, verify):
    data = written()
    for count in range(1, 8):
        torn = b"".join(forge.split(data)[:count])
        for end in (b"", END):
            if count == 7 or verify is False:
                assert sum(read(torn + end, verify=verify).rows()) == max(0, min(count, 6) - 2) * 2
                continue
            with pytest.raises((FormatError, pa.ArrowInvalid), match="closes it"):
                read(torn + end, verify=verify)
            assert not ipc.validate(torn + end).ok
            with ipc.recover(torn + end, verify=verify) as reader:
                assert sum(batch.num_rows for batch in reader) == max(0, count - 2) * 2
            assert not reader.report.complete


def test_batches_of_a_file_that_changed_places_are_found():
    data = written("file", data=TABLE.select(["number"]))
    first, second = ipc.open_file(data).blocks[2:4]
    assert first[1:] == second[1:]
    size = sum(first[1:])
    one, other = data[first[0] : first[0] + size], data[second[0] : second[0] + size]
    swapped = data[: first[0]] + other + one + data[second[0] + size :]
    assert ipc.open_file(swapped).read_all().num_rows == 8
    with pytest.raises(FormatError, match=r"found as number 3"):
        verified(swapped)
    assert len(ipc.validate(swapped).damage) == 2


@given(randoms.batches(), st.sampled_from(FORMS), st.randoms(use_true_random=False))
@settings(max_examples=rounds(15, 15))
def test_random_batches_are_verified_and_random_changes_found(parts, kind, chance):
    schema = parts[0].schema if parts else pa.schema([("x", pa.int8())])
    data = ipc_bytes(parts, kind, schema, checksum=True)
    assert [pa.record_batch(batch) for batch in ipc.open(data, verify=True)] == parts
    assert ipc.validate(data).ok
    for _ in range(20):
        changed = bytearray(data)
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        assert found(changed)
        assert not ipc.validate(changed).ok


def test_what_has_no_checksums_is_refused():
    for kind in FORMS:
        data = ipc_bytes(TABLE, kind)
        with pytest.raises(FormatError, match=r"no checksum.*verify=True"):
            verified(data)
        assert ipc.open(data, verify=None).read_all().num_rows == 8
    with pytest.raises(UsageError, match="V5"):
        ipc.new_stream(bytearray(), checksum=True, metadata_version="V4")
    with pytest.raises(UsageError, match="verify must be"):
        ipc.open_stream(data, verify="yes")


# -- who reads it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", WAYS)
@pytest.mark.parametrize("kind", FORMS)
def test_other_readers_read_the_same_values(kind, form):
    data = written(kind, **WAYS[form])
    opener = pa.ipc.open_file if kind == "file" else pa.ipc.open_stream
    assert opener(data).read_all().equals(TABLE)
    polars = pytest.importorskip("polars")
    if form in ("plain", "lz4"):
        read = polars.read_ipc if kind == "file" else polars.read_ipc_stream
        assert read(io.BytesIO(data)).to_arrow().to_pydict() == TABLE.to_pydict()
    nanoarrow = pytest.importorskip("nanoarrow.ipc")
    if kind == "stream" and form in ("plain", "aligned"):
        plain = written(kind, data=TABLE.select(["number", "text"]))
        with nanoarrow.InputStream.from_readable(io.BytesIO(plain)) as source:
            assert pa.RecordBatchReader.from_stream(source).read_all().num_rows == 8


@pytest.mark.parametrize("kind", FORMS)
def test_our_readers_show_nothing_of_it(kind):
    data = written(kind)
    plain = written(kind, checksum=False)
    for source in (data, io.BytesIO(data)):
        with ipc.open(source) as reader, ipc.open(plain) as other:
            batches = list(reader.iter_batches_with_custom_metadata())
            assert batches == list(other.iter_batches_with_custom_metadata())
            assert len(batches) == 4
    with ipc.open(data, index=True, verify=True) as reader:
        assert reader.num_record_batches == 4
        assert [reader[i].num_rows for i in (3, 0, -1)] == [2, 2, 2]
        assert reader.take([7, 0], columns=["number"])["number"].to_pylist() == [8, 1]


def test_an_event_loop_writes_and_verifies_them(tmp_path):
    async def encoded() -> bytes:
        return b"".join([part async for part in ipc.aio.encode(TABLE, checksum=True)])

    async def read(data: bytes) -> Any:
        (tmp_path / "x").write_bytes(data)
        async with ipc.aio.open_file(tmp_path / "x", verify=True) as reader:
            return await reader.read_all()

    stream, file = drive.run(encoded()), written("file")
    assert pa.table(verified(stream)).equals(TABLE)
    assert drive.awaited(stream, verify=True).rows() == [8]
    assert pa.table(drive.run(read(file))).equals(TABLE)
    with pytest.raises(FormatError, match=r"record batch 3.*its bytes are not"):
        drive.run(read(file.replace(b"jkl", b"jkm")))


def test_remote_sources_are_verified_whole():
    fsspec = pytest.importorskip("fsspec")
    system, data = fsspec.filesystem("memory"), written("file")
    changed = data.replace(b"jkl", b"jkm")
    for name, content in (("right", data), ("wrong", changed), ("stream", written())):
        system.pipe(f"/checksums/{name}", content)
    for options in ({}, {"columns": ["number"]}):
        assert ipc.open_file("memory://checksums/right", verify=True, **options).read_all().num_rows == 8
        with pytest.raises(FormatError, match=r"record batch 3.*its bytes are not"):
            ipc.open_file("memory://checksums/wrong", verify=True, **options).read_all()
    assert ipc.open("memory://checksums/stream", index=True, verify=True)[3].num_rows == 2
    assert ipc.open("memory://checksums/stream", verify=True).read_all().num_rows == 8


# -- what is written again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [None, "zstd"])
@pytest.mark.parametrize("target", FORMS)
@pytest.mark.parametrize("source", FORMS)
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_copies_have_checksums_of_their_own_or_none(source, target, before, after, codec):
    data = written(source, data=TABLE.slice(2), compression=codec, checksum=before)
    for options in ({}, {"validate": "none"}):
        copy = bytearray()
        new = ipc.new_file if target == "file" else ipc.new_stream
        with ipc.open(data, **options) as reader, new(copy, compression=codec, checksum=after) as writer:
            writer.write(TABLE.slice(0, 2))
            assert ipc.copy(reader, writer) == 3
        assert pa.table(ipc.open(copy, verify=after).read_all()).equals(TABLE.unify_dictionaries())
        assert ipc.validate(copy).ok
        assert (KEY in copy) == after


@pytest.mark.parametrize("options", [{}, {"checksum": True}, {"dictionary_deltas": True}])
def test_appending_goes_on_with_them(tmp_path, options):
    path = tmp_path / "a.arrow"
    path.write_bytes(written("file"))
    for _ in range(2):
        with ipc.new_file(path, append=True, **options) as writer:
            writer.write(TABLE)
    assert verified(path.read_bytes()).num_rows == 24
    assert ipc.validate(path).ok
    with ipc.new_file(path) as writer:
        writer.write(TABLE)
    with pytest.raises(UsageError, match="copy it with checksum=True"):
        ipc.new_file(path, append=True, checksum=True)


def test_batches_and_metadata_do_not_carry_them():
    with ipc.open(written("file", metadata={"a": "b"})) as reader:
        batch, metadata = reader[0], reader.metadata
    assert metadata == {b"a": b"b"}
    with ipc.new_file(sink := bytearray(), metadata=metadata) as writer:
        writer.write_batch(batch, custom_metadata=ipc.KeyValueMetadata({KEY: b"00000000:00000000"}))
    assert KEY not in sink
    assert b"b" in sink


def test_what_is_no_message_is_named():
    closing = forge.split(written())[-1]
    for data, words in ((closing, "only closes"), (closing + END, "only closes"), (END, "marker"), (b"", "empty")):
        for source in (data, io.BytesIO(data)):
            with pytest.raises(EOFError, match=words):
                ipc.read_message(source)


# -- damage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMS)
def test_a_changed_bit_is_named_and_the_rest_recovered(kind):
    data = bytearray(written(kind))
    at = data.index((5).to_bytes(8, "little"))
    data[at + 3] ^= 8
    assert ipc.open(data).read_all().num_rows == 8
    with pytest.raises(FormatError, match=r"a bit of byte 3 of its body has changed"):
        verified(data)
    (damage,) = ipc.validate(data).damage
    assert damage.column == "number"
    assert "in column 'number' (data)" in str(damage)
    with ipc.recover(data, resync=True) as reader:
        rows = [value for batch in reader for value in batch["number"].to_pylist()]
    assert rows == [1, None, 3, 4, 7, 8]
    assert reader.report.skipped[0].column == "number"
    report = ipc.recover(data, resync=True, into=(saved := bytearray()))
    assert report.num_rows == 6
    assert KEY not in saved


@pytest.mark.parametrize("place", ["head", "tail", "padding"])
def test_batches_survive_changes_of_what_is_around_them(place):
    data = bytearray(written("file"))
    at = {"head": data.index(b"number"), "tail": data.rindex(b"number"), "padding": 7}[place]
    data[at] ^= 2
    with ipc.recover(data) as reader:
        assert reader.schema.names == ["number", "text", "coded"]
        assert sum(batch.num_rows for batch in reader) == 8
    assert not reader.report.complete
    assert not ipc.validate(data).ok


@pytest.mark.parametrize(("columns", "kept"), [(["number", "text"], 3), (None, 0)])
def test_lost_messages_are_counted(columns, kept):
    """What was lost may have been a dictionary, so that batches behind it, which need one, are refused."""
    parts = forge.split(written(data=TABLE.select(columns or TABLE.column_names)))
    for i in range(len(parts) - 5, len(parts)):
        torn = b"".join(parts[:i] + parts[i + 1 :]) + END
        intact = 4 if i == len(parts) - 1 else kept or i - (len(parts) - 5)
        checked = ipc.validate(torn)
        assert not checked.ok
        assert checked.num_batches == intact
        with ipc.recover(torn, resync=True) as reader:
            assert len(list(reader)) == intact
        assert not reader.report.complete


WORDS = ["ab", "ba", "cd", "cd", "abe", "ef", "ef", "g"]


def coded(words: str) -> pa.Array:
    return pa.array(list(words)).dictionary_encode()


def listed(words: str) -> pa.Array:
    return pa.ListArray.from_arrays(range(len(words) + 1), coded(words))


def doubled(words: str) -> pa.Array:
    values = listed("".join(sorted(set(words))))
    return pa.DictionaryArray.from_arrays([sorted(set(words)).index(each) for each in words], values)


def columns_that_share_a_dictionary() -> list[Any]:
    kind = types.Dictionary(types.int8(), types.utf8(), dictionary_id=0)
    schema = ipc.schema({"i": "int32", "w": kind, "v": kind})
    rows = [[{"i": number, "w": word, "v": word} for word in words] for number, words in enumerate(WORDS)]
    return [ipc.RecordBatch.from_pylist(each, schema) for each in rows]


def numbered(column: Any, *more: Any) -> list[Any]:
    """A batch of each of WORDS, whose first column says which one it is."""
    return [
        pa.record_batch({"i": [number] * len(words), **{str(k): each(words) for k, each in enumerate((column, *more))}})
        for number, words in enumerate(WORDS)
    ]


GROWING = {"dictionary_deltas": True}
#: Kind, batches, options of the writer.
HISTORIES = {
    "numbers": lambda: ("stream", numbered(lambda words: pa.array(list(words))), {}),
    "replaced dictionaries": lambda: ("stream", numbered(coded), {}),
    "growing dictionaries": lambda: ("stream", numbered(coded), GROWING),
    "nested": lambda: ("stream", numbered(listed), GROWING),
    "dictionaries in dictionaries": lambda: ("stream", numbered(doubled), {}),
    "two columns": lambda: ("stream", numbered(coded, lambda words: coded(words[::-1] + "x")[:-1]), GROWING),
    "shared": lambda: ("stream", columns_that_share_a_dictionary(), {}),
    "file": lambda: ("file", numbered(coded), {**GROWING, "unify_dictionaries": True}),
    "torn file": lambda: ("file", numbered(coded, listed), {**GROWING, "unify_dictionaries": True}),
}


def changed_order(count: int) -> Iterator[list[int]]:
    """Each message but the first lost, repeated, moved, exchanged with another one."""
    every = list(range(count))
    for i in every[1:]:
        others = every[:i] + every[i + 1 :]
        yield others
        for k in range(1, count):
            yield [*every[:k], i, *every[k:]]
            yield [*others[:k], i, *others[k:]]
            yield [{i: k, k: i}.get(each, each) for each in every]


@pytest.mark.campaign
@pytest.mark.parametrize("name", HISTORIES)
def test_recovery_never_gives_a_batch_other_values_than_it_was_written_with(name):
    """The numbers in checksums say what is missing, repeated or elsewhere; a batch comes back at most once."""
    kind, batches, options = HISTORIES[name]()
    source = ipc_bytes(batches, kind, checksum=True, **options)
    whole = [batch.to_pydict() for batch in ipc.open(source, verify=True)]
    assert [batch["i"][0] for batch in whole] == list(range(len(WORDS)))
    head = 8 if kind == "file" else 0
    end = ipc.open_file(source).decoder.messages_end if kind == "file" else len(source)
    parts = forge.split(source[head:end])
    foot = b"" if name == "torn file" else source[end:]
    orders = list(changed_order(len(parts)))
    for order in random.Random(60).sample(orders, min(rounds(60, 10_000), len(orders))):
        data = source[:head] + b"".join([parts[i] for i in order]) + END + foot
        for resync in (False, True):
            with ipc.recover(data, resync=resync) as reader:
                kept = [batch.to_pydict() for batch in reader]
            ids = [batch["i"][0] for batch in kept]
            assert all(batch == whole[i] for i, batch in zip(ids, kept, strict=True)), (order, resync)
            assert len(set(ids)) == len(ids), (order, resync)
            if name != "file" or order[:-1] != [*range(len(parts))]:  # behind all that a footer lists, nothing is lost
                complete = order == [*range(len(parts))] and name != "torn file"
                assert reader.report.complete == complete, (order, resync)
            if name == "numbers" and resync:
                assert len(ids) == len(set(order) & set(range(1, len(parts) - 1))), order
        report = ipc.recover(data, resync=True, into=(saved := bytearray()))
        assert report.num_batches == len(kept)
        assert [batch.to_pydict() for batch in ipc.open(saved)] == kept


# -- payload columns, commands -------------------------------------------------------------------------------


@pytest.mark.parametrize("trim", [False, True])
def test_payloads(trim):
    batch = ipc.RecordBatch.from_arrow(TABLE.combine_chunks().to_batches()[0])
    cells = ipc.encode_payloads(batch, rows_per_payload=3, checksum=True, trim_dictionaries=trim)
    decoded = ipc.decode_payloads(cells, verify=True)
    assert decoded.batch.to_pydict() == batch.to_pydict()
    assert decoded.num_alone == 0
    values = [bytes(cell) for cell in cells.to_pylist()]
    assert all(verified(cell).num_rows for cell in values)
    for i in range(0, len(values[1]), 3):
        changed = bytearray(values[1])
        changed[i] ^= 1 << i % 8
        assert ipc.decode_payloads([values[0], changed], verify=True, on_error="skip").num_failed == 1
    plain = ipc.encode_payloads(batch, rows_per_payload=3)
    assert ipc.decode_payloads(plain, verify=None).batch == decoded.batch
    with pytest.raises(FormatError, match=r"cell 0.*no checksum"):
        ipc.decode_payloads(plain, verify=True)
    assert ipc.decode_payloads([written("file")], verify=True).batch.num_rows == 8
    with pytest.raises(UsageError, match="with_schema"):
        ipc.encode_payloads(batch, rows_per_payload=3, checksum=True, with_end=False)


def test_commands(tmp_path):
    source, target = tmp_path / "a.arrow", tmp_path / "b.arrows"
    source.write_bytes(written("file"))
    assert run("convert", str(source), str(target), "--checksum").code == 0
    assert verified(target.read_bytes()).num_rows == 8
    assert "with checksums" in run("stat", str(target)).out
    changed = bytearray(target.read_bytes())
    changed[changed.index((5).to_bytes(8, "little"))] ^= 1
    target.write_bytes(changed)
    checked = run("check", str(target))
    assert checked.code == 1
    assert "column 'number'" in checked.out
    assert run("convert", str(source), str(tmp_path / "c.csv"), "--checksum").code == 2


# -- the CRC -------------------------------------------------------------------------------------------------


def test_the_crc_is_that_of_the_definition_and_of_every_way_to_compute_it():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0
    chance = random.Random(zlib.crc32(b"crc"))
    data = memoryview(chance.randbytes(20_000))
    for size in [*range(70), *[chance.randrange(20_000) for _ in range(300)]]:
        start = chance.randrange(20_000 - size + 1)
        part = data[start : start + size]
        assert crc32c(part) == crc32c(part, portable=True)


def test_a_message_that_is_padded_otherwise_gets_another_checksum():
    data = b"".join([message.serialize(alignment=64) for message in ipc.MessageReader(written("stream"))])
    for verify in (True, None):
        with pytest.raises(TruncatedError, match="closes it"):
            ipc.open_stream(data, verify=verify).read_all()
    assert [batch.num_rows for batch in ipc.open_stream(data)] == [2] * 4


def test_a_definition_in_a_few_lines_agrees():
    """docs/format.md, spelled out: what others would write."""
    for located in locate_messages(written(alignment=64)):
        message = located.message
        metadata, text = bytes(message.metadata), message.custom_metadata[KEY]
        start = metadata.index(text) + 9
        blank = metadata[:start] + b"00000000" + metadata[start + 8 :]
        assert text[9:17] == f"{crc32c(blank + bytes(message.body)):08x}".encode()
        assert checksum_of(message) == (int(text[:8], 16), False, int(text[9:17], 16))
