"""Statistics of all batches in a footer: they say what the batches' own metadata say, of this file only."""

import base64
import json
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.arrays import ipc_bytes, read_batch, stored
from helpers.arrow_columns import ARRAYS

import arrowipc as ipc
from arrowipc import UsageError
from arrowipc.filters.statistics import STATISTICS_KEY
from arrowipc.sources import file_statistics as written
from arrowipc.sources.file_statistics import decode_entry


def file_of(*batches: Any, **options: Any) -> bytearray:
    return ipc_bytes(list(batches), "file", **{"statistics": True, **options})


def entry_of(source: Any) -> bytes | None:
    return ipc.open_file(source).metadata.get(STATISTICS_KEY)


def told(source: Any, **options: Any) -> list[Any]:
    return ipc.file_statistics(ipc.open_file(source), **options)


def block_of(source: Any) -> bytes:
    return struct.pack("<qi4xq", *ipc.open_file(source).blocks[-1])


@pytest.mark.parametrize("name", ARRAYS)
def test_the_footer_says_what_the_batches_say(name):
    array = ARRAYS[name]
    batch = read_batch(pa.record_batch([array, pa.array(range(len(array)))], ["x", "id"]))
    parts = [batch, batch.slice(1), batch.slice(0, 0)]
    found = told(data := file_of(*parts))
    assert entry_of(data) is not None
    nothing = (None,) * 4  # is known of a column, which the footer then leaves out
    for of_footer, part in zip(found, parts, strict=True):
        of_batch = ipc.compute_statistics(part).items()
        assert of_footer == {path: s for path, s in of_batch if (s.null_count, s.min, s.max, s.has_nan) != nothing}
    assert told(data, columns=["id"], batches=[1]) == [{"id": found[1]["id"]}]


def test_the_entry_has_the_entries_of_all_batches():
    data = file_of({"id": [1, None], "place": [{"lat": 1.5}, None]}, {"id": [3], "place": [{"lat": float("nan")}]})
    lat = {"nulls": [1, 0], "kind": "float", "min": [1.5, None], "max": [1.5, None], "nan": [False, True]}
    assert json.loads(zlib.decompress(base64.b64decode(entry_of(data), validate=True))) == {
        "v": 1,
        "last_block": block_of(data).hex(),
        "names": zlib.crc32(b"id\0place\0place.lat"),
        "rows": [2, 1],
        "columns": {
            "id": {"nulls": [1, 0], "kind": "int", "min": [1, 3], "max": [1, 3]},
            "place": {"nulls": [1, 0]},
            "place.lat": lat,
        },
    }


def test_a_batch_that_was_refused_is_not_told():
    sink = bytearray()
    one, other = (ipc.RecordBatch.from_arrow(pa.record_batch({"x": pa.array(w).dictionary_encode()})) for w in "ab")
    with ipc.new_file(sink, one.schema, statistics=True) as writer:
        writer.write(one)
        with pytest.raises(UsageError):
            writer.write(other)
        writer.write(one)
    assert [each["x"].max for each in told(sink)] == ["a", "a"]
    assert entry_of(sink) is not None


def test_indexed_streams(tmp_path):
    stored(tmp_path / "a.arrows", [{"x": [x]} for x in range(3)], statistics=True)
    with ipc.open(tmp_path / "a.arrows", index=True) as reader:
        assert [each["x"].max for each in ipc.file_statistics(reader)] == [0, 1, 2]
    dataset = ipc.open_dataset(tmp_path).filter([("x", ">=", 2)])
    assert [batch["x"].to_pylist() for batch in dataset] == [[2]]


def test_projection_does_not_change_what_is_told():
    data = file_of({"a": [1], "b": [{"c": 2}]})
    assert ipc.file_statistics(ipc.open_file(data, columns=["b"])) == told(data)


def test_columns_that_nobody_can_read_are_no_reason_not_to_filter(tmp_path: Path):
    pl = pytest.importorskip("polars")

    frame = pl.DataFrame({"x": [1, 2, 3], "wide": pl.Series([1, 2, 3], dtype=pl.Int128)})
    frame.write_ipc(tmp_path / "x.arrow")
    with ipc.open_file(tmp_path / "x.arrow", columns=["x"]) as reader:
        assert ipc.file_statistics(reader) == [None]


def test_more_than_readers_take_is_left_to_the_batches(monkeypatch):
    words = "".join(random.Random(1).choices("abcdefgh", k=64))
    batches = [{"t": [f"{words}{i}"]} for i in range(50)]
    size = len(zlib.decompress(base64.b64decode(entry_of(file_of(*batches)))))
    for name, most in (("MOST_VALUES", 20), ("MOST_BYTES", size // 2 - 1)):
        with monkeypatch.context() as patch:
            patch.setattr(written, name, most)
            data = file_of(*batches)
        assert entry_of(data) is None
        assert [each["t"].null_count for each in told(data)] == [0] * 50


def test_batches_are_chosen_by_number():
    batches = [{"x": [i]} for i in (1, 2, 3)]
    for data in (file_of(*batches), ipc_bytes(batches, statistics=True)):
        with ipc.open(data, index=True) as reader:
            found = ipc.file_statistics(reader)
            assert ipc.file_statistics(reader, batches=[-1, 0, np.int8(1), -3]) == [found[i] for i in (2, 0, 1, 0)]
            assert ipc.file_statistics(reader, batches=(i for i in (2, 2))) == [found[2]] * 2
            for missing in (3, -4, 2**70):
                with pytest.raises(IndexError, match="out of range"):
                    ipc.file_statistics(reader, batches=[missing])
            for wrong in ([1.5], ["0"], [None], 1, [0, [1]]):
                with pytest.raises(UsageError, match=r"number of a batch must|batches must"):
                    ipc.file_statistics(reader, batches=wrong)
            for wrong in ("x", 1):
                with pytest.raises(UsageError, match="names of columns"):
                    ipc.file_statistics(reader, columns=wrong)


SEED = file_of({"x": [1, None], "t": ["a", "b"]}, {"x": [3, 4], "t": [None, "c"]})
SEED_SCHEMA = ipc.schema(dict.fromkeys("xt", "int64"))


def repacked(change: Any) -> bytes:
    stream = bytearray(zlib.decompress(base64.b64decode(entry_of(SEED))))
    return base64.b64encode(zlib.compress(change(stream)))


def test_any_entry_gives_statistics_or_nothing():
    text, block = entry_of(SEED), block_of(SEED)

    def found_in(text: bytes, count: int = 2, block: bytes = block, schema: Any = SEED_SCHEMA, **limits: Any) -> Any:
        return decode_entry(text, count, block, schema, limits=ipc.Limits(**limits))

    size = len(zlib.decompress(base64.b64decode(text)))
    assert found_in(text) == found_in(text, metadata_bytes=size) == told(SEED)
    assert found_in(text, metadata_bytes=size - 1) is None
    older = base64.b64encode(zlib.compress(ipc_bytes({"statistics": [1, 2]})))  # an entry in Arrow's statistics schema
    cut = repacked(lambda data: data[:-30])
    for other in (b"", b"x", text[:-4], text + b"AAAA", base64.b64encode(b"junk"), cut, older):
        assert found_in(other) is None
    assert found_in(text, count=3) is None, "of another number of batches"
    assert found_in(text, block=bytes(24)) is None, "of another file"
    for names in ("tx", "x", "xtz"):
        assert found_in(text, schema=ipc.schema(dict.fromkeys(names, "int64"))) is None, "of other columns"
    assert found_in(repacked(lambda data: data + bytes(64 << 20))) is None, "too large"


def test_an_entry_says_no_more_than_a_file_has():
    """Of one batch there is one entry, of a bounded length, in each list."""
    from hostile.bombs import BOMBS

    forms = BOMBS["statistics in a footer"]()
    assert [told(data) for data in forms.values()] == [[{}], *[[None]] * (len(forms) - 1)]


@pytest.mark.parametrize(
    ("column", "believed"),
    [
        ({"nulls": [0, 1], "kind": "int", "min": [1, 2], "max": [1, "3"]}, 2),
        ({"nulls": [0, None], "min": [None, None]}, 1),
        ({"nulls": [0]}, 0),
        ({"nulls": 0}, 0),
        ({"nulls": [0, True]}, 0),
        ({"kind": "int", "min": [1, 4], "max": [1, 3]}, 0),
        ({"kind": "int", "min": [1, [2]], "max": [1, 3]}, 0),
        ({"kind": "text", "min": ["a", 2], "max": ["b", "c"]}, 0),
        ({"kind": [], "min": [1, 2]}, 0),
        ({"nan": [False, 0]}, 0),
        ([], 0),
    ],
)
def test_columns_that_make_no_sense_are_left_out(column, believed):
    def change(data: bytearray) -> bytes:
        document = json.loads(data)
        document["columns"]["x"] = column
        return json.dumps(document).encode()

    found = decode_entry(repacked(change), 2, block_of(SEED), SEED_SCHEMA)
    assert [set(each) for each in found] == [{"x", "t"} if number < believed else {"t"} for number in range(2)]


def ends_of(path: Any) -> list[int] | None:
    with ipc.open_file(path) as reader:
        text = reader.metadata.get("__POLARS_IPC_METADATA")
        return None if text is None else json.loads(text)["record_batch_cum_len"]


def test_polars_finds_the_rows_of_all_batches_and_never_old_ones(tmp_path):
    path, lie = tmp_path / "x.arrow", {"__POLARS_IPC_METADATA": '{"record_batch_cum_len":[1,9]}'}
    with pa.ipc.new_file(path, pa.schema([("x", pa.int64())]), metadata=lie) as writer:
        writer.write_batch(pa.record_batch({"x": [0, 1, 2]}))
        writer.write_batch(pa.record_batch({"x": [3]}))
    count = 4
    for statistics_of, expected in ((True, [3, 4, 6]), (False, None), (["x"], [3, 4, 6, 8, 10])):
        with ipc.new_file(path, append=True, statistics=statistics_of) as appender:
            appender.write({"x": [count, count + 1]})
        count += 2
        assert ends_of(path) == expected
    other = tmp_path / "copy.arrow"
    with ipc.open_file(path) as reader, ipc.new_file(other, metadata=reader.metadata) as writer:
        writer.write(reader)
    assert ends_of(other) is None
    polars = pytest.importorskip("polars")
    scanned = polars.scan_ipc(path)
    assert scanned.select(polars.len()).collect().item() == count == 10
    assert [scanned.slice(*part).collect()["x"].to_list() for part in ((3, 4), (-3, 2))] == [[3, 4, 5, 6], [7, 8]]
    with ipc.new_file(path, {"x": "int64"}, statistics=True) as writer:
        pass
    assert ends_of(path) is None
