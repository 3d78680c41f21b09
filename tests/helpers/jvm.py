"""Runs the core of ``jvm/`` outside Spark, in one Java process for many files, and says what it should give."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from arrowipc.spark import find_jar
from helpers.java import OPTIONS, Missing, compiled

DUMP = Path(__file__).resolve().parents[2] / "jvm" / "src" / "test" / "scala" / "org/arrowipc/spark/Dump.scala"


class Answer(NamedTuple):
    """What became of one file: its rows or values, or an error; how long that took, and the memory."""

    ok: bool
    text: str
    seconds: float
    #: Most memory that the process had until then, in MiB.
    peak: int

    @property
    def error(self) -> str:
        """The class of the error, without its words."""
        return "" if self.ok else self.text.split(":")[0]


class Core:
    """The core in the jar."""

    def __init__(self, build: Path) -> None:
        jar = find_jar()
        if jar is None:
            raise Missing("no jar was built: make jar")
        self._command = compiled(build, [DUMP], jar)

    def read(self, paths: Iterable[Path], heap: str = "1g", **options: str) -> list[Answer]:
        """Read every path with some options; see ``Dump.scala``."""
        more = "".join(f"\t{name}={value}" for name, value in options.items())
        lines = [f"{path}{more}\n" for path in paths]
        java, path = self._command
        command = [java, f"-Xmx{heap}", *OPTIONS, "-cp", path, "org.arrowipc.spark.Dump"]
        command.insert(1, "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")
        done = subprocess.run(command, input="".join(lines), capture_output=True, encoding="utf-8", timeout=1200)
        found = done.stdout.removesuffix("\n").split("\n")
        assert done.returncode == 0, f"ended after {len(found) // 2} of {len(lines)} files: {done.stderr[-2000:]}"
        assert len(found) == 2 * len(lines), done.stderr[-2000:]
        return [_answer(*pair) for pair in zip(found[::2], found[1::2], strict=True)]


def _answer(took: str, text: str) -> Answer:
    word, _, rest = text.partition(" ")
    words = took.split()
    return Answer(word == "ok", rest, int(words[1]) / 1000, int(words[4]) >> 10)


def plain(array: pa.Array) -> list[Any]:
    """The values of a column as ``Dump.scala`` says them, once the Python side has converted it for Spark."""
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [plain(array.field(number)) for number in range(kind.num_fields)]
        rows: list[Any] = [list(row) for row in zip(*columns, strict=True)] if columns else [[]] * len(array)
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        values, ends = plain(array.values), array.offsets.to_pylist()
        valid = array.is_valid().to_pylist()
        return [values[ends[i] : ends[i + 1]] if valid[i] else None for i in range(len(array))]
    if pa.types.is_temporal(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    values = array.to_pylist()
    change: Any = None
    if pa.types.is_decimal(kind):
        change = "{:f}".format
    elif pa.types.is_floating(kind):
        code = ("f", "I") if kind.bit_width == 32 else ("d", "Q")
        change = lambda value: f"{struct.unpack(code[1], struct.pack(code[0], value))[0]:x}"  # noqa: E731
    elif pa.types.is_binary(kind):
        change = bytes.hex
    return [None if value is None else change(value) if change else value for value in values]


def rows(batch: pa.RecordBatch) -> str:
    """The rows of a converted batch, as ``Dump.scala`` says them."""
    return json.dumps([list(row) for row in zip(*map(plain, batch.columns), strict=True)], ensure_ascii=False)
