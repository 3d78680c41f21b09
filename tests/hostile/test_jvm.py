"""Hostile bytes in the JVM: exceptions of ours, no error of the VM, bounded memory, no memory left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from helpers import arrow_columns, bombs, golden, java, jvm, mutate

pytestmark = pytest.mark.spark

#: What may be raised; Declined leaves a file to the Python engine.
OURS = {"Format", "Limit", "Unsupported", "Usage", "Declined"}
#: The heap, what ``Dump.scala`` lets its readers allocate, and what a JVM takes for itself.
PEAK_MIB = 1024 + 512 + 512
MUTANTS = 5000
#: Many batches, each of which is honest: their cost is what they hold.
MANY = {"blocks of one batch", "blocks of one batch of text", "blocks of one compressed batch", "honest batches"}


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> jvm.Core:
    try:
        return jvm.Core(tmp_path_factory.mktemp("classes"))
    except java.Missing as error:
        pytest.skip(str(error))


def survive(core: jvm.Core, paths: Iterable[Path], seconds: float = 10) -> Counter[str]:
    """How often which error came; all files are read, and none costs much."""
    paths = list(paths)
    answers = core.read(paths)
    found = Counter("ok" if answer.ok else answer.error for answer in answers)
    both = list(zip(paths, answers, strict=True))
    broken = [(path.name, answer) for path, answer in both if answer.error not in {*OURS, ""}]
    assert not broken, broken[:10]
    slow = [(path.name, answer) for path, answer in both if answer.seconds > seconds]
    assert not slow, slow
    assert answers[-1].peak < PEAK_MIB, answers[-1]
    return found


def test_inputs_that_once_broke_a_reader(core, arrow_data):
    folders = (arrow_data / name for name in ("arrow-ipc-stream", "arrow-ipc-file"))
    inputs = [p for folder in folders for p in folder.iterdir() if p.name.startswith(("crash", "clusterfuzz"))]
    assert len(inputs) >= sum(golden.HOSTILE.values())
    assert survive(core, sorted(inputs))["Format"] > len(inputs) * 2 // 3


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


def test_mutants(core, tmp_path):
    paths = []
    for number, data in enumerate(mutate.mixed(originals(), 26, MUTANTS)):
        paths.append(tmp_path / f"{number}.arrow")
        paths[-1].write_bytes(data)
    found = survive(core, paths)
    assert found["Format"] > MUTANTS // 2
    assert found["ok"] > MUTANTS // 20  # some mutants say nothing that is wrong: readers do not refuse everything


@pytest.mark.parametrize("share", range(4))
def test_bombs(core, tmp_path, share):
    paths = []
    for name in sorted({*bombs.BOMBS} - MANY)[share::4]:
        for form, data in bombs.BOMBS[name]().items():
            if form in ("stream", "file"):
                paths.append(tmp_path / f"{name}.{form}")
                paths[-1].write_bytes(data)
    survive(core, paths, seconds=30)


def test_a_file_that_is_cut_anywhere(core, tmp_path):
    """A file that ends early is an exception of the task that reads it, wherever it ends."""
    paths = []
    for write in (arrow_columns.file, arrow_columns.stream):
        data = write(arrow_columns.everything(), compression="zstd")
        for size in range(0, len(data), 97):
            paths.append(tmp_path / f"{write.__name__}.{size}")
            paths[-1].write_bytes(data[:size])
    assert survive(core, paths)["ok"] < len(paths) // 10
