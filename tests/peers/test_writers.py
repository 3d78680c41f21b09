"""What every writer writes that we have or can start is valid, read as by pyarrow, appended to and recovered.

What stands in `NOT` is refused, for the reason beside it; nothing stands there that is read.
"""

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest
from helpers import golden

import arrowipc as ipc
from arrowipc.cli.check import checked

pytestmark = pytest.mark.nosanitize  # peers bring their own allocators

STORED = sorted(path for path in golden.WRITERS.iterdir() if path.suffix in (".arrow", ".arrows"))
#: What is refused, by the beginning of its name, and why.
NOT = {
    "polars-1.0.0.arrow": "counts the data buffers of a dictionary's views among those of the batch: it cannot be told "
    "which count is whose"
}
#: Remarks that validate makes, by the beginning of the name: case 43 of docs/format-checklist.md.
REMARKS = {"polars-2": ["bare-schema"], "javascript": ["no-schema"], "arro3": ["first-message"]}

TABLE = pa.table(
    {
        "n": pa.array([1, None, 3], pa.int32()),
        "s": pa.array(["a", None, "more than twelve bytes of text"]),
        "l": pa.array([[1, 2], None, []], pa.list_(pa.int64())),
        "t": pa.array([0, None, 10**15], pa.timestamp("us", "UTC")),
        "e": pa.array([{"a": 1.5}, None, {"a": None}]),
    }
)


def by_polars(path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(TABLE)
    for codec in ("uncompressed", "lz4", "zstd"):
        frame.write_ipc(path / f"polars-2-{codec}.arrow", compression=codec)
        frame.write_ipc_stream(path / f"polars-2-{codec}.arrows", compression=codec)
        frame.lazy().sink_ipc(path / f"polars-2-{codec}-sink.arrow", compression=codec)
    frame[:0].write_ipc(path / "polars-2-no-rows.arrow")
    polars.concat([frame, frame], rechunk=False).write_ipc(path / "polars-2-chunks.arrow")
    words = polars.Series("c", ["x", "y", "x"], polars.Categorical)
    frame.with_columns(words).write_ipc(path / "polars-2-categories.arrow")
    polars.DataFrame().write_ipc(path / "polars-2-no-columns.arrow")


def by_arro3(path: Path) -> None:
    arro3 = pytest.importorskip("arro3.io")
    for codec in (None, "lz4", "zstd"):
        arro3.write_ipc(TABLE, path / f"arro3-{codec}.arrow", compression=codec)
        arro3.write_ipc_stream(TABLE, path / f"arro3-{codec}.arrows", compression=codec)
    words = pa.table({"c": pa.array(["x", "y", "x"]).dictionary_encode()})
    arro3.write_ipc(words, path / "arro3-dictionary.arrow")


def by_nanoarrow(path: Path) -> None:
    nanoarrow = pytest.importorskip("nanoarrow.ipc")
    with nanoarrow.StreamWriter.from_path(path / "nanoarrow.arrows") as writer:
        writer.write_stream(TABLE)


def by_pyarrow(path: Path) -> None:
    words = TABLE.append_column("c", pa.array(["x", "y", "x"]).dictionary_encode())
    for version in ("V4", "V5"):
        for codec in (None, "lz4", "zstd"):
            if codec and version == "V4":
                continue  # pyarrow itself reads other values of those
            options = pa.ipc.IpcWriteOptions(
                compression=codec, metadata_version=pa.ipc.MetadataVersion[version], unify_dictionaries=True
            )
            for suffix, make in ((".arrow", pa.ipc.new_file), (".arrows", pa.ipc.new_stream)):
                with make(path / f"pyarrow-{version}-{codec}{suffix}", words.schema, options=options) as writer:
                    writer.write_table(words, max_chunksize=2)
    pa.feather.write_feather(words, path / "pyarrow-feather.arrow")


WRITERS: dict[str, Callable[[Path], Any]] = {
    name.removeprefix("by_"): make for name, make in list(globals().items()) if name.startswith("by_")
}


def look_at(path: Path) -> None:
    """Everything that must hold for the file or stream of a writer."""
    is_file = path.suffix == ".arrow"
    theirs = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(path.read_bytes()).read_all()
    why = next((why for start, why in NOT.items() if path.name.startswith(start)), None)
    for level in ("full", "strict"):
        report = ipc.validate(path, level=level)
        assert report.ok == (why is None), f"{path.name}: {report}"
    if why is not None:
        return
    expected = next((codes for start, codes in REMARKS.items() if is_file and path.name.startswith(start)), [])
    assert [each.code for each in report.remarks] == expected, path.name
    said = checked(str(path))
    assert said["verdict"] == "good"
    assert {each["code"] for each in said["remarks"]}.issuperset(expected)
    table = ipc.open(path, validate="strict").read_all()
    assert pa.table(table).equals(theirs, check_metadata=True), path.name
    assert ipc.open_dataset(path).read_all().to_pylist() == theirs.to_pylist()
    with ipc.open(path) as reader, ipc.new_stream(copied := bytearray(), reader.schema) as writer:
        ipc.copy(reader, writer)
    assert ipc.open(copied).read_all().to_pylist() == theirs.to_pylist()
    recovers(path, "no-schema" in expected)
    if is_file:
        goes_on(path, theirs)


def recovers(path: Path, by_footer_alone: bool) -> None:
    """All of it, and of a part the batches in it; parts of files of the JavaScript writer have no schema any more."""
    data = path.read_bytes()
    with ipc.open(data) as reader:
        whole = list(reader)
    assert ipc.recover(data, into=io.BytesIO()).complete
    if by_footer_alone:
        with pytest.raises(ipc.FormatError):
            ipc.recover(data[:-1])
        return
    assert list(ipc.recover(data[:-1])) == whole
    for cut in range(len(data) * 3 // 4, len(data), 97):
        found = list(ipc.recover(data[:cut]))
        assert found == whole[: len(found)], (path.name, cut)


def goes_on(path: Path, theirs: pa.Table) -> None:
    """Rows can be appended, and everybody reads them."""
    if not theirs.num_columns:
        return
    with ipc.new_file(path, append=True) as writer:
        writer.write(ipc.open_file(path).read_all())
    both = theirs.to_pylist() * 2
    assert ipc.open_file(path, validate="strict").read_all().to_pylist() == both
    assert pa.ipc.open_file(path).read_all().to_pylist() == both
    assert ipc.validate(path, level="strict").ok, path.name


@pytest.mark.parametrize("name", [path.name for path in STORED])
def test_files_of_other_writers_are_valid_or_listed(name: str, tmp_path: Path) -> None:
    look_at(Path(shutil.copy(golden.WRITERS / name, tmp_path)))


@pytest.mark.parametrize("writer", WRITERS)
def test_what_writers_write_here_is_valid_or_listed(writer: str, tmp_path: Path) -> None:
    WRITERS[writer](tmp_path)
    written = sorted(tmp_path.iterdir())
    assert written
    for path in written:
        look_at(path)


def test_columns_are_looked_at_where_the_footer_alone_has_the_schema() -> None:
    for suffix, own in ((".arrow", {"no-schema"}), (".arrows", set())):
        said = checked(str(golden.WRITERS / f"javascript-21.2.0-types{suffix}"))
        assert {each["code"] for each in said["remarks"]} == own


def test_every_reason_is_needed() -> None:
    assert all(any(path.name.startswith(start) for path in STORED) for start in [*NOT, *REMARKS])
