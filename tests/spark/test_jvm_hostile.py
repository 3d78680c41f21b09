"""Hostile bytes in the JVM: rows or an error of ours, as the Python library says; bounded memory, none left behind.

The core alone reads many inputs, and all of Spark, in a JVM of 1 GiB, fewer of the same.
"""

import json
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from helpers import arrays, arrow_columns, forge, golden, java, mutate
from helpers.arrow_columns import WAYS
from helpers.processes import rounds
from hostile import bombs
from spark.verdicts import verdict

pytestmark = [pytest.mark.spark, pytest.mark.nosanitize]

OURS = {"", "Format", "Limit", "Unsupported", "Usage"}
#: What Spark says of schemas and of files without bytes, before a reader of ours is asked.
SPARK = ("COLUMN_ALREADY_EXISTS", "UNABLE_TO_INFER_SCHEMA")
#: What Python reads only when it is asked for, names that are no fault of the bytes, and frames that its codecs take.
UNREAD = re.compile(
    r"Format: .*a (KeyValue|Schema|Field) table .* leads out|Usage: the schema holds the name .* twice"
    r"|Format: .*a compressed buffer of \d+ bytes does not hold its"
)
#: What the JVM does not read: dictionaries of no rows, batches without columns, validity of columns without nulls; and
#: what Python cannot say.
UNNEEDED = re.compile(
    r"\(DictionaryBatch\): (column|the batch has 0 FieldNodes)|FieldNodes, the schema asks for 0"
    r"|: buffer 0: .* do not decompress|contains a NUL character"
)
#: The heap, as much again of buffers outside of it, and what a JVM takes for itself.
PEAK_MIB = 1024 + 1024 + 512
SECONDS = 30
#: Many batches, each of which is honest: their cost is what they hold.
MANY = {"blocks of one batch", "blocks of one batch of text", "blocks of one compressed batch", "honest batches"}
#: Too much for Spark itself: rows of one value of 200 MiB, which double as they grow, fill 1 GiB of heap, and its plan
#: compares each of 7,620 columns with each, for 30 s (its threads' stacks have no frame of ours).
TOO_MUCH = {"honest frames", "columns on one buffer"}


@pytest.fixture(scope="module")
def through_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[java.ThroughSpark]:
    found = java.ThroughSpark(tmp_path_factory.mktemp("survivor"))
    yield found
    found.close()


@pytest.fixture
def reader(request: pytest.FixtureRequest) -> java.Reader:
    return request.getfixturevalue(request.param)


def read(reader: java.Reader, folder: Path, data: bytes, **options: str) -> java.Answer:
    """What a reader says of a file of these bytes."""
    (folder / "x.arrow").write_bytes(data)
    (answer,) = reader.read([folder / "x.arrow"], **options)
    return answer


def agree(answer: java.Answer, error: str) -> bool:
    """Whether both read an input, or both refuse it."""
    if error:
        return not answer.ok or UNNEEDED.search(error) is not None
    return answer.ok or UNREAD.match(answer.text) is not None


def survive(
    reader: java.Reader, inputs: Iterable[tuple[str, bytes]], folder: Path, *, judged: bool = True, **options: str
) -> Counter[str]:
    """How often which error came; none costs much, and those are refused that the Python library refuses."""
    wrong, found = [], Counter[str]()
    for name, data in inputs:
        answer = read(reader, folder, data, **options)
        spark = answer.error.endswith(SPARK)
        same = not judged or spark or agree(answer, verdict(data)[1])
        cheap = answer.seconds < SECONDS and answer.peak < PEAK_MIB
        if not (same and cheap and (spark or answer.error in OURS)):
            wrong.append((name, answer))
            (folder / f"{name}.arrow").write_bytes(data)
        found["Spark" if spark else answer.error or "ok"] += 1
    print(dict(found))
    assert not wrong, f"{len(wrong)} in {folder}: {wrong[:10]}"
    return found


def test_inputs_that_once_broke_a_reader(core: java.Core, arrow_data: Path, tmp_path: Path) -> None:
    folders = (arrow_data / name for name in ("arrow-ipc-stream", "arrow-ipc-file"))
    inputs = [p for folder in folders for p in folder.iterdir() if p.name.startswith(("crash", "clusterfuzz"))]
    assert len(inputs) >= sum(golden.HOSTILE.values())
    found = survive(core, ((path.name, path.read_bytes()) for path in sorted(inputs)), tmp_path)
    assert found["Format"] > len(inputs) * 2 // 3


def originals() -> list[bytes]:
    """A small input of every type, in both formats, with both codecs, and the golden files."""
    cases = [golden.load(case) for case in golden.cases() if "bigendian" not in str(case)]
    found = [path.read_bytes() for case in cases for path in (case.stream, case.file)]
    for number, column in enumerate(arrow_columns.COLUMNS.values()):
        batch = pa.record_batch({"x": column.array})
        for write, codec in (WAYS[number % 6], WAYS[(number + 3) % 6]):
            found.append(write(batch, batch, compression=codec))
    return found


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("reader", "count"),
    [("core", rounds(400, 5000)), pytest.param("through_spark", rounds(14, 3000), marks=pytest.mark.slow)],
    indirect=["reader"],
)
def test_mutants(reader: java.Reader, tmp_path: Path, count: int) -> None:
    mutants = mutate.mixed(originals(), 40, count)
    found = survive(reader, ((str(number), data) for number, data in enumerate(mutants)), tmp_path)
    assert found["Format"] > count // 2
    assert found["ok"] > count // 20  # some mutants say nothing that is wrong: readers do not refuse everything


@pytest.mark.parametrize("share", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 16))])
@pytest.mark.parametrize("reader", ["core", pytest.param("through_spark", marks=pytest.mark.slow)], indirect=True)
def test_bombs(reader: java.Reader, tmp_path: Path, share: int) -> None:
    core = isinstance(reader, java.Core)
    names = sorted({*bombs.BOMBS} - MANY - (set() if core else TOO_MUCH))[share::16]
    inputs = (
        (f"{name}.{form}", data)
        for name in names
        for form, data in bombs.BOMBS[name]().items()
        if form.startswith(("stream", "file"))
    )
    survive(reader, inputs, tmp_path, judged=False, **({} if core else {"rows": "100"}))


def test_files_that_are_cut_anywhere(core: java.Core, tmp_path: Path) -> None:
    for write in (arrow_columns.file, arrow_columns.stream):
        data = write(arrow_columns.everything(), arrow_columns.everything(), compression="zstd")
        cuts = ((f"{write.__name__} {size}", data[:size]) for size in range(1, len(data), len(data) // 60))
        assert survive(core, cuts, tmp_path)["ok"] <= 6


def written(kind: str, codec: str | None, batches: int = 1) -> bytes:
    texts = [None if n % 7 == 0 else f"text {n}, longer than a view" for n in range(40)]
    batch = pa.record_batch(
        {"i": pa.array(range(40), pa.int32()), "d": pa.array(texts).dictionary_encode(), "t": pa.array(texts)}
    )
    batch = batch.append_column("v", pa.array(texts, pa.string_view())).append_column("m", pa.array([2] * 40))
    schema = batch.schema.set(0, batch.schema.field(0).with_metadata({"k": "x"})).with_metadata({"key": "value"})
    return arrays.pyarrow_bytes([batch.cast(schema)] * batches, kind, compression=codec)


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


@pytest.mark.parametrize(
    ("damage", "kind", "codec"),
    [
        (zeroed, "stream", "lz4"),
        pytest.param(zeroed, "file", "zstd", marks=pytest.mark.slow),
        pytest.param(flipped, "stream", "lz4", marks=pytest.mark.slow),
        pytest.param(flipped, "file", "zstd", marks=pytest.mark.slow),
    ],
)
def test_damaged_metadata_is_an_error_where_python_has_one(core, tmp_path, kind, codec, damage):
    wrong = []
    for number, mutant in enumerate(damage(written(kind, codec))):
        answer = read(core, tmp_path, mutant, values="true", format=kind)
        values, error = verdict(mutant, kind)
        differs = answer.ok and not error and json.loads(answer.text) != values
        if differs or answer.error not in OURS or not agree(answer, error):
            wrong.append(f"{number}: {answer.text[:300]}, expected {error or values!s:.300}")
    assert number > 100
    assert not wrong, f"{len(wrong)} of {number}:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("block", ["compressed", "stored"])
@pytest.mark.parametrize("sums", [("content_checksum",), ("block_checksum",), ("content_checksum", "block_checksum")])
def test_checksums_of_lz4_frames_are_proven(core: java.Core, tmp_path: Path, sums: tuple[str, ...], block: str) -> None:
    """A bit of every byte that a checksum covers, and of the checksum itself."""
    lz4 = pytest.importorskip("lz4.frame")
    values = [*range(40)] if block == "compressed" else [(n * 0x9E3779B97F4A7C15) % 2**63 for n in range(40)]
    frame = lz4.compress(forge.i64(*values), **dict.fromkeys(sums, True))
    wrong = []
    for at in range(-1, len(frame)):
        damaged = bytearray(frame)
        if at >= 0:
            damaged[at] ^= 1 << at % 8
        batch = forge.batch(40, [(40, 0)], [b"", forge.i64(320) + damaged], codec=0)
        answer = read(core, tmp_path, forge.stream(forge.schema(forge.field("x", forge.INT64)), batch), values="true")
        if answer.ok:  # another match may give the same bytes
            good = json.loads(answer.text) == [[value] for value in values] and (
                at < 0 or sums[0] == "content_checksum"
            )
        else:
            good = at >= 0 and answer.error == "Format" and "column 'x': " in answer.text
        if not good:
            wrong.append((at, answer))
    assert not wrong, wrong[:5]


@pytest.mark.parametrize(("name", "codec"), [("lz4", "lz4"), ("ZSTD", "zstd"), ("lz4_frame", None), ("snappy", None)])
def test_codecs_have_the_names_of_arrow_0_17(core: java.Core, tmp_path: Path, name: str, codec: str | None) -> None:
    plain = forge.i64(*range(40))
    packed = forge.i64(len(plain)) + pa.compress(plain, codec or "lz4", asbytes=True)
    body = forge.batch(40, [(40, 0)], [b"", packed])
    batch = forge.message(body, version=forge.V4, metadata=[("ARROW:experimental_compression", name)])
    answer = read(core, tmp_path, forge.stream(forge.schema(forge.field("x", forge.INT64)), batch), values="true")
    if codec is None:
        assert answer.error == "Unsupported"
        assert f"unknown codec {name}" in answer.text
    else:
        assert json.loads(answer.text) == [[value] for value in range(40)]


def test_dictionaries_of_more_values_than_rows_have_numbers_are_refused(core: java.Core, tmp_path: Path) -> None:
    most = 2**31 - 1
    part = forge.batch(most, [(most, 0)], [b"", b""])
    index = forge.encoding(index=forge.INT64)
    parts = [forge.dictionary(0, part), forge.dictionary(0, part, isDelta=True)]
    column = forge.field("x", forge.Table("FixedSizeBinary", byteWidth=0), dictionary=index)
    rows = forge.batch(1, [(1, 0)], [b"", forge.i64(2**31 + 5)])
    answer = read(core, tmp_path, forge.stream(forge.schema(column), *parts, rows), values="true")
    assert (answer.error, f"dictionary 0 has {2 * most} values" in answer.text) == ("Limit", True), answer


def test_a_cut_stream_gives_the_batches_before_the_cut(core, tmp_path):
    data, seen = written("stream", None, batches=4), set()
    schema_ends = mutate.Walk(data).spans[0].end
    for size in (*range((schema_ends + 1) % 97, len(data), 97), len(data) - 1):
        answer = read(core, tmp_path, data[:size], format="stream")
        values, error = verdict(data[:size], "stream")
        if error:
            said = rf"{len(values)} rows, then .*cut short" if size > schema_ends else "(?!.*rows, then)"
            assert re.match(f"Format: {said}", answer.text), (size, answer)
            seen.add(len(values))
        else:
            assert answer.text == str(len(values)), (size, answer)
    assert seen == {0, 40, 80, 120, 160}


@pytest.mark.parametrize(
    ("before", "after", "first"),
    [
        (struct.pack("<2i", 7, 19), struct.pack("<2i", 1, 2), 1),
        (struct.pack("<2i", 7, 19), struct.pack("<2i", 18, 2), 18),
        (struct.pack("<6q", 19, 0, 2, 0, 2, 0), struct.pack("<6q", 19, 0, 0, 0, 0, 0), None),
    ],
    ids=["ends too early", "ends that fall", "no runs"],
)
def test_rows_behind_the_last_run_lie_in_it_where_values_are_trusted(core, tmp_path, before, after, first):
    array = pa.RunEndEncodedArray.from_arrays(pa.array([7, 19], pa.int32()), pa.array([1, 2]))
    data = arrow_columns.file(pa.record_batch({"x": array}))
    assert data.count(before) == 1
    for validate in ("none", "full"):
        answer = read(core, tmp_path, data.replace(before, after), values="true", validate=validate)
        if validate == "none" and first is not None:
            assert json.loads(answer.text) == [[1]] * first + [[2]] * (19 - first)
        else:
            assert answer.error == "Format", answer
