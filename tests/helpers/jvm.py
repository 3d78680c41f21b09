"""Readers of files in Java processes, asked about one file after the other: the core of ``jvm/``, and all of Spark."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from arrowipc.spark import find_jar
from helpers import children
from helpers.java import OPTIONS, Missing, compiled

DUMP = Path(__file__).resolve().parents[2] / "jvm" / "src" / "test" / "scala" / "org/arrowipc/spark/Dump.scala"
#: Seconds for one call of `Reader.read`.
DEADLINE = 1200


class Answer(NamedTuple):
    """What became of one file: its rows or values, or an error."""

    ok: bool
    text: str
    #: Of the processors.
    seconds: float
    #: Most memory that the process had until then, in MiB.
    peak: int

    @property
    def error(self) -> str:
        """The class of the error, without its words."""
        return "" if self.ok else self.text.split(":")[0]


class Reader:
    """A process that takes lines ``PATH<tab>OPTION=VALUE...`` and answers ``MILLISECONDS KIB ok|error TEXT``."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command, self._folder, self._log = command, folder, folder / "reader.log"
        self._process: subprocess.Popen[str] | None = None

    def read(self, paths: Iterable[Any], **options: str) -> list[Answer]:
        """What becomes of every path with some options."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        assert self._process is not None
        more = "".join(f"\t{name}={value}" for name, value in options.items())
        deadline = threading.Timer(DEADLINE, self._process.kill)
        deadline.start()
        try:
            return [self._ask(f"{path}{more}") for path in paths]
        finally:
            deadline.cancel()

    def _start(self) -> None:
        with open(self._log, "w") as log:
            self._process = subprocess.Popen(
                self._command,
                **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "encoding": "utf-8"},
                **{"cwd": self._folder, "env": {**children.environment(), "PYSPARK_PYTHON": sys.executable}},
            )

    def _ask(self, line: str) -> Answer:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"{line} ended the process: {self._log.read_text()[-2000:]}"
        took, peak, word, *text = answer.rstrip("\n").split(" ", 3)
        return Answer(word == "ok", "".join(text), int(took) / 1000, int(peak) >> 10)

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=60)


class Core(Reader):
    """The core in the jar, outside Spark; see ``Dump.scala`` for the options."""

    def __init__(self, folder: Path) -> None:
        jar = find_jar()
        if jar is None:
            raise Missing("no jar was built: make jar")
        java, path = compiled(folder, [DUMP], jar)
        opened = "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"
        super().__init__([java, opened, "-Xmx1g", *OPTIONS, "-cp", path, "org.arrowipc.spark.Dump"], folder)


class ThroughSpark(Reader):
    """The jar in Spark, in a JVM of 1 GiB; see ``helpers.spark_survive``."""

    def __init__(self, folder: Path) -> None:
        super().__init__([sys.executable, "-m", "helpers.spark_survive", str(find_jar()), str(folder)], folder)


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
