"""Hostile files through the jar, in a JVM of 1 GiB: values or an error of ours, as the Python library says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import arrow_columns, bombs, golden, mutate
from helpers.rounds import rounds
from helpers.spark_survive import Survivor

import arrowipc
from arrowipc.errors import ArrowIpcError
from arrowipc.spark import find_jar, to_spark_batch, to_spark_schema

pytestmark = [pytest.mark.spark, pytest.mark.nosanitize]

OURS = {"", "Format", "Limit", "Unsupported", "Usage"}
#: What Spark says of schemas and of files without bytes, before a reader of ours is asked.
SPARK = ("COLUMN_ALREADY_EXISTS", "UNABLE_TO_INFER_SCHEMA")
#: The heap, as much again of buffers outside of it, and what a JVM takes for itself.
PEAK_MIB = 1024 + 1024 + 512
SECONDS = 20
MUTANTS = rounds(150, 3000)
#: Many batches, each of which is honest: their cost is what they hold.
MANY = {"blocks of one batch", "blocks of one batch of text", "blocks of one compressed batch", "honest batches"}


@pytest.fixture(scope="module")
def survivor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivor]:
    found = Survivor(str(find_jar()), tmp_path_factory.mktemp("survivor"))
    yield found
    found.close()


def broken(answer: dict[str, Any]) -> bool:
    """Whether an answer is none that a hostile file may get, or cost more than one may."""
    known = answer["error"] in OURS or answer["error"].endswith(SPARK)
    return not known or answer["seconds"] > SECONDS or answer["peak"] > PEAK_MIB


def originals() -> list[bytes]:
    """A small input of every type, in both formats, with both codecs, and the golden files."""
    cases = [golden.load(case) for case in golden.cases() if "bigendian" not in str(case)]
    found = [path.read_bytes() for case in cases for path in (case.stream, case.file)]
    ways = [(write, codec) for write in (arrow_columns.file, arrow_columns.stream) for codec in (None, "lz4", "zstd")]
    for number, column in enumerate(arrow_columns.COLUMNS.values()):
        batch = pa.record_batch({"x": column.array})
        for write, codec in (ways[number % 6], ways[(number + 3) % 6]):
            found.append(write(batch, batch, compression=codec))
    return found


def verdict(path: Path) -> str:
    """The kind of error that the Python library has for a file; none where it has values for Spark."""
    try:
        with arrowipc.open(path) as reader:
            schema = to_spark_schema(reader.schema)
            for batch in reader:
                to_spark_batch(batch, schema)
    except ArrowIpcError as error:
        return type(error).__name__.removesuffix("Error")
    return ""


@pytest.mark.campaign
def test_mutants(survivor: Survivor, tmp_path: Path) -> None:
    """The same files are read and refused as by the Python library."""
    path, wrong, found, others = tmp_path / "x.arrow", [], Counter[str](), Counter[str]()
    for number, data in enumerate(mutate.mixed(originals(), 40, MUTANTS)):
        path.write_bytes(data)
        answer, expected = survivor.ask(path), verdict(path)
        spark = answer["error"].endswith(SPARK)
        found["Spark" if spark else answer["error"] or "values"] += 1
        others[f"{expected} {answer['error']}"] += expected != answer["error"]
        if broken(answer) or (not spark and bool(expected) != bool(answer["error"])):
            wrong.append((number, expected, answer))
            (tmp_path / f"{number}.arrow").write_bytes(data)
    print(f"mutants: {dict(found)}, other kinds: {dict(others)}")
    assert not wrong, f"{len(wrong)} in {tmp_path}: {wrong[:10]}"
    assert found["Format"] > MUTANTS // 2
    assert found["values"] > MUTANTS // 20  # some mutants say nothing that is wrong: readers do not refuse everything


@pytest.mark.slow
@pytest.mark.parametrize("share", range(4))
def test_bombs(survivor: Survivor, tmp_path: Path, share: int) -> None:
    wrong, path = [], tmp_path / "x.arrow"
    for name in sorted({*bombs.BOMBS} - MANY)[share::4]:
        for form, data in bombs.BOMBS[name]().items():
            if form.startswith(("stream", "file")):
                path.write_bytes(data)
                answer = survivor.ask(path, rows=100)
                if broken(answer):
                    wrong.append((name, form, answer))
    assert not wrong, f"{len(wrong)}: {wrong[:10]}"


def test_files_that_are_cut_anywhere(survivor: Survivor, tmp_path: Path) -> None:
    wrong, path, ends = [], tmp_path / "x.arrow", 40
    for write in (arrow_columns.file, arrow_columns.stream):
        data = write(arrow_columns.everything(), arrow_columns.everything(), compression="zstd")
        for size in range(1, len(data), len(data) // rounds(8, ends)):
            path.write_bytes(data[:size])
            answer = survivor.ask(path)
            if broken(answer) or bool(answer["error"]) != bool(verdict(path)):
                wrong.append((write.__name__, size, answer))
    assert not wrong, f"{len(wrong)}: {wrong[:10]}"
