"""The tools of these tests, checked against pyarrow, which shares no code with them or with arrowipc."""

import pyarrow as pa
import pytest
from helpers import forge
from helpers.forge import batch, bits, dictionary, encoding, field, i8, i32, schema, stream

ROOT = schema(field("x", forge.INT32, metadata=[("a", "b")]), field("s", forge.UTF8), metadata=[("k", "v")])
ROWS = batch(3, [(3, 1), (3, 0)], [bits(1, 0, 1), i32(1, 2, 3), b"", i32(0, 1, 2, 3), b"abc"])
VALUES = [{"x": 1, "s": "a"}, {"x": None, "s": "b"}, {"x": 3, "s": "c"}]


@pytest.mark.parametrize("version", [forge.V4, forge.V5])
@pytest.mark.parametrize("prefix", ["modern", "legacy"])
def test_forged_streams_are_read_by_pyarrow(prefix, version):
    table = pa.ipc.open_stream(stream(ROOT, ROWS, ROWS, prefix=prefix, version=version)).read_all()
    assert table.to_pylist() == VALUES * 2
    assert table.schema.metadata == {b"k": b"v"}


def test_forged_files_are_read_by_pyarrow():
    reader = pa.ipc.open_file(forge.file(ROOT, ROWS, ROWS, metadata=[("file", "z")]))
    assert reader.read_all().to_pylist() == VALUES * 2
    assert reader.metadata == {b"file": b"z"}


def test_forged_dictionaries_are_read_by_pyarrow():
    words = batch(2, [(2, 0)], [b"", i32(0, 1, 3), b"abb"])
    data = stream(
        schema(field("d", forge.UTF8, dictionary=encoding(5, forge.INT8))),
        dictionary(5, words),
        batch(3, [(3, 0)], [b"", i8(1, 0, 1)]),
    )
    assert pa.ipc.open_stream(data).read_all().to_pydict() == {"d": ["bb", "a", "bb"]}
