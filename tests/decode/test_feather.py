"""Feather V1 files: pyarrow's are read as pyarrow reads them, and any bytes give values or an error of ours."""

import io
import os
import pickle
import struct
import warnings

import pyarrow as pa
import pyarrow.feather
import pytest
from helpers import drive, forge
from helpers.arrays import feather_columns, feather_v1

import arrowipc as ipc
from arrowipc.cli import main

COLUMNS = feather_columns()


def theirs(data: bytes) -> pa.Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pyarrow.feather.read_table(pa.BufferReader(data))


def same(data: bytes, **options) -> None:
    found = pa.table(ipc.open(data, **options).read_all())
    found.validate(full=True)
    assert found.equals(theirs(data), check_metadata=True)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_is_read_as_pyarrow_reads_it(name):
    column = COLUMNS[name]
    for part in (column, column[:0], column[1:], pa.concat_arrays([column] * 9)):
        same(feather_v1({name: part, "x": part}))


def test_many_columns_and_none_are_read():
    for columns in ({}, COLUMNS, {str(i): [i] for i in range(1000)}):
        same(feather_v1(columns))


def test_a_file_is_read_from_wherever_arrow_files_are(tmp_path):
    data = feather_v1(COLUMNS)
    path = tmp_path / "x.feather"
    path.write_bytes(data)
    read, write = os.pipe()
    os.write(write, data)
    os.close(write)
    expected = ipc.open(data)[0]
    for opener in (ipc.open, ipc.open_file):
        pieces = [drive.ShortReads(data, iter(lambda: 7, 0))] if opener is ipc.open else []
        for source in (path, str(path), path.as_uri(), data, io.BytesIO(data), *pieces):
            with opener(source, columns=["int8", "string"]) as reader:
                assert reader[0] == expected.select(["int8", "string"])
                assert (reader.num_record_batches, reader.count_rows(), reader.row(0)["int8"]) == (1, 3, 1)
    with open(read, "rb", buffering=0) as pipe:
        assert ipc.open(pipe)[0] == expected
    assert ipc.open(path, memory_map=False)[0] == pickle.loads(pickle.dumps(ipc.open(path)))[0] == expected
    assert ipc.open(path, index=True).take([2, 0]).num_rows == 2
    assert ipc.read_schema(path) == expected.schema
    # What does not fit into memory goes through a temporary file.
    assert ipc.open(path, limits=ipc.Limits(spool_bytes=10))[0] == expected
    assert pa.table(ipc.open_dataset(tmp_path).read_all()).equals(theirs(data))


def test_what_reads_messages_says_what_reads_the_file(tmp_path, capsys):
    path = tmp_path / "x.feather"
    path.write_bytes(data := feather_v1({"x": [1]}))
    asked = [ipc.open_stream, ipc.recover, ipc.read_message, lambda path: ipc.new_file(path, append=True)]
    for call in asked:
        with pytest.raises(ipc.FormatError, match=r"Feather V1 file.*open\(\) reads it"):
            call(path)
    assert "Feather V1 file" in ipc.validate(path).damage[0].reason
    assert path.read_bytes() == data
    assert main(["check", str(path)]) != 0
    assert "Feather V1" in "".join(capsys.readouterr())
    for command in (["head", path], ["count", path], ["schema", path], ["convert", path, tmp_path / "y.arrow"]):
        assert main([str(each) for each in command]) == 0
    assert ipc.open_file(tmp_path / "y.arrow").read_all().to_pydict() == {"x": [1]}


def test_files_before_version_2_have_no_padding():
    data = feather_v1({"x": pa.array(["ab", None, "c"]), "n": pa.array([1, None, 3], pa.int16())})
    (stated,) = struct.unpack_from("<I", data, len(data) - 8)
    table = data[-8 - stated : -8]
    bitmap, offsets, words = b"\5", struct.pack("<4i", 0, 2, 2, 3), b"abc"
    numbers = bitmap + struct.pack("<3h", 1, 0, 3)
    text = bitmap + offsets + words
    # The numbers of both columns (offset, total bytes), and the version, where the FlatBuffer has them.
    for old, new in (((8, 3, 1, 32), (8, 3, 1, len(text))), ((40, 3, 1, 16), (8 + len(text), 3, 1, len(numbers)))):
        assert table.count(struct.pack("<4q", *old)) == 1
        table = table.replace(struct.pack("<4q", *old), struct.pack("<4q", *new))
    root = struct.unpack_from("<I", table)[0]
    vtable = root - struct.unpack_from("<i", table, root)[0]
    version = root + struct.unpack_from("<H", table, vtable + 10)[0]
    assert table[version : version + 4] == struct.pack("<i", 2)
    table = table[:version] + struct.pack("<i", 1) + table[version + 4 :]
    whole = b"FEA1" + bytes(4) + text + numbers + table + struct.pack("<I", stated) + b"FEA1"
    assert ipc.open(whole)[0].to_pydict() == {"x": ["ab", None, "c"], "n": [1, None, 3]}


def broken(data: bytes) -> object:
    """What is read of bytes that may be broken, all of it used; None if they are refused."""
    try:
        with ipc.open(data) as reader:
            for batch in reader:
                drive.use(batch)
            return reader.read_all()
    except ipc.ArrowIpcError:
        return None


@pytest.mark.parametrize(
    "name", ["string", "large_binary", "bool", "int8 of ['b', None]", "timestamp[us, tz=Europe/Oslo]"]
)
def test_any_word_may_lie(name):
    data = feather_v1({"first": COLUMNS[name], "last": COLUMNS[name]})
    words = (b"\0" * 4, forge.i32(2**31 - 1), b"\xff" * 8, b"\0" * 7 + b"\x80", b"\xff" * 7 + b"\x7f")
    for at in range(4, len(data) - 3):
        for lie in (b"\xff", *(() if at % 4 else words)):
            broken(data[:at] + lie + data[at + len(lie) :])


def test_every_truncation_is_refused():
    data = feather_v1(COLUMNS)
    for size in range(4, len(data)):
        assert broken(data[:size]) is None


def test_columns_that_share_bytes_are_no_bomb():
    data = feather_v1({name: pa.array([7] * 100_000, pa.int32()) for name in "abcdefgh"})
    (stated,) = struct.unpack_from("<I", data, len(data) - 8)
    table = data[-8 - stated : -8]
    for i in range(1, 8):  # all columns where the first is
        table = table.replace(struct.pack("<q", 8 + i * 400_000), struct.pack("<q", 8))
    shared = data[:400_008] + table + data[-8:]
    with pytest.raises(ipc.LimitError, match="overlap_bytes"):
        ipc.open(shared, limits=ipc.Limits(overlap_bytes=1 << 20))
    with pytest.raises(ipc.LimitError, match="metadata_bytes"):
        ipc.open(data, limits=ipc.Limits(metadata_bytes=stated - 1))
    with pytest.raises(ipc.LimitError, match="rows_per_batch"):
        ipc.open(data, limits=ipc.Limits(rows_per_batch=99_999))
