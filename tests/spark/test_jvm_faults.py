"""Damaged metadata is an error in the JVM where it is one in Python; a cut stream gives what lies before the cut."""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from helpers import java, jvm, mutate

import arrowipc
from arrowipc.errors import ArrowIpcError
from arrowipc.spark import to_spark_batch

pytestmark = pytest.mark.spark

OPENERS = {"file": arrowipc.open_file, "stream": arrowipc.open_stream}
#: What Python reads only when it is asked for, and names that are no fault of the bytes.
UNREAD = re.compile(r"Format: .*a (KeyValue|Schema|Field) table .* leads out|Usage: the schema holds the name .* twice")


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> jvm.Core:
    try:
        return jvm.Core(tmp_path_factory.mktemp("classes"))
    except java.Missing as error:
        pytest.skip(str(error))


def written(kind: str, codec: str | None, batches: int = 1) -> bytes:
    texts = [None if n % 7 == 0 else f"text {n}, longer than a view" for n in range(40)]
    batch = pa.record_batch(
        {"i": pa.array(range(40), pa.int32()), "d": pa.array(texts).dictionary_encode(), "t": pa.array(texts)}
    )
    batch = batch.append_column("v", pa.array(texts, pa.string_view())).append_column("m", pa.array([2] * 40))
    schema = batch.schema.set(0, batch.schema.field(0).with_metadata({"k": "x"})).with_metadata({"key": "value"})
    new = {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}[kind]
    out = io.BytesIO()
    with new(out, schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        for _ in range(batches):
            writer.write_batch(batch.cast(schema))
    return out.getvalue()


def metadata(data: bytes) -> list[int]:
    """Where the bytes of metadata lie: of the messages, and of the footer."""
    found = [at for span in mutate.Walk(data).spans for at in range(span.start + 8, span.body)]
    if data.startswith(b"ARROW1"):
        found += range(len(data) - 10 - struct.unpack_from("<i", data, len(data) - 10)[0], len(data) - 10)
    return found


def flipped(data: bytes) -> Iterator[bytes]:
    """One bit in turn of every byte of metadata."""
    for at in metadata(data):
        mutant = bytearray(data)
        mutant[at] ^= 1 << at % 8
        yield bytes(mutant)


def zeroed(data: bytes) -> Iterator[bytes]:
    """Every word of metadata of 4 and of 8 bytes."""
    places = {*metadata(data)}
    for width in (4, 8):
        for at in sorted(place for place in places if place % width == 0 and place + width - 1 in places):
            if data[at : at + width].strip(b"\0"):
                yield data[:at] + bytes(width) + data[at + width :]


def verdict(kind: str, path: Path) -> list[object] | str:
    """The rows by the Python side, or its error."""
    try:
        with OPENERS[kind](path, validate="full") as reader:
            return [row for batch in reader for row in json.loads(jvm.rows(to_spark_batch(batch)))]
    except ArrowIpcError as error:
        return f"{type(error).__name__}: {error}"


def same(answer: jvm.Answer, expected: list[object] | str) -> bool:
    if isinstance(expected, list):
        return json.loads(answer.text) == expected if answer.ok else UNREAD.match(answer.text) is not None
    nul = "contains a NUL character" in expected  # which only the way out of Python cannot carry
    return answer.error in {"Format", "Limit", "Unsupported", "Declined", "Usage", *([""] if nul else [])}


@pytest.mark.parametrize("damage", [flipped, zeroed])
@pytest.mark.parametrize(("kind", "codec"), [("file", "zstd"), ("stream", "lz4")])
def test_damaged_metadata_is_an_error_where_python_has_one(core, tmp_path, kind, codec, damage):
    paths = []
    for number, mutant in enumerate(damage(written(kind, codec))):
        paths.append(tmp_path / f"{number}.arrow")
        paths[-1].write_bytes(mutant)
    assert len(paths) > 100
    wrong = []
    for path, answer in zip(paths, core.read(paths, values="true", format=kind), strict=True):
        expected = verdict(kind, path)
        if not same(answer, expected):
            wrong.append(f"{path.name}: {answer.text[:300]}, expected {str(expected)[:300]}")
    assert not wrong, f"{len(wrong)} of {len(paths)}:\n" + "\n".join(wrong[:20])


def test_a_cut_stream_gives_the_batches_before_the_cut(core, tmp_path):
    data = written("stream", None, batches=4)
    first = mutate.Walk(data).spans[0].end
    paths = []
    for size in range(first + 1, len(data), 37):
        paths.append(tmp_path / f"{size}.arrows")
        paths[-1].write_bytes(data[:size])
    seen = set()
    for path, answer in zip(paths, core.read(paths, format="stream"), strict=True):
        rows = 0
        try:
            with arrowipc.open_stream(path) as reader:
                for batch in reader:
                    rows += batch.num_rows
        except ArrowIpcError:
            assert re.match(rf"Format: {rows} rows, then .*cut short", answer.text), (path.name, answer)
            seen.add(rows)
        else:
            assert answer.ok, (path.name, answer)
            assert answer.text == str(rows)
    assert seen == {0, 40, 80, 120, 160}


def test_a_stream_without_its_schema_is_an_error_at_once(core, tmp_path):
    path = tmp_path / "x.arrows"
    path.write_bytes(written("stream", None)[:200])
    (answer,) = core.read([path], format="stream")
    assert answer.error == "Format"
    assert "rows, then" not in answer.text
