"""Arrow Java and the readers of ``jvm/`` in Java processes, which read one file after the other."""

import importlib.util
import json
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from peers import plain_json
from peers.integration_json import read_json

from arrowipc.spark import find_jar
from arrowipc.spark.java import NO_JAVA, find_java
from helpers import processes

SOURCE = Path(__file__).parent / "java" / "ReadArrow.java"

# Arrow Java reaches into java.nio for the addresses of its buffers; the rest makes a short run start sooner.
OPTIONS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    "-Dlog4j2.level=error",
    "-Dio.netty.tryReflectionSetAccessible=true",
)


class Missing(Exception):
    """A program that a test needs cannot be run here; the message says why."""


def compiled(build: Path, sources: list[Path], jar: str | None = None) -> tuple[str, str]:
    """Compile against PySpark's jars, which contain a Scala compiler; return the ``java`` and the class path."""
    home, spec = find_java(), importlib.util.find_spec("pyspark")
    if home is None:
        raise Missing(NO_JAVA)
    if spec is None or spec.origin is None:
        raise Missing("pyspark, whose jars hold Arrow Java, is not installed")
    jars = Path(spec.origin).parent / "jars"
    path = f"{jars}/*" if jar is None else f"{jar}:{jars}/*"
    command = [f"{home}/bin/javac", "-J-XX:TieredStopAtLevel=1", "-cp", path]
    if sources[0].suffix == ".scala":  # one file: the JVM's second compiler would take as long as the Scala compiler
        command = [f"{home}/bin/java", "-Xss8m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path]
        command += ["scala.tools.nsc.Main", "-usejavacp"]
    elif not Path(command[0]).exists():
        raise Missing(f"{home} is a Java without a compiler (javac): install a JDK")
    command += ["-d", str(build), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(Path(home) / "bin" / "java"), f"{build}:{path}"


class ArrowJava:
    """Arrow Java, ready to read."""

    def __init__(self, build: Path) -> None:
        self._java, self._path = compiled(build, [SOURCE])
        if not list(Path(self._path.split(":")[1]).parent.glob("arrow-compression-*.jar")):
            raise Missing("this pyspark brings no arrow-compression jar")

    def read(self, paths: list[Path]) -> list[Any]:
        """Read each path (a file if it ends with .file); return it like peers.plain_json, or ``{"error": words}``."""
        command = [self._java, *OPTIONS, "-cp", self._path, "ReadArrow"]
        for path in paths:
            command += ["file" if path.suffix == ".file" else "stream", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        assert len(lines) == len(paths), done.stderr[-2000:]
        found = [json.loads(line) for line in lines]
        for each in found:
            if "error" not in each:
                schema, _ = read_json({"schema": each["schema"]})
                each["schema"] = plain_json.reading(pa.schema(schema), [])["schema"]
        return found


DUMP = Path(__file__).resolve().parents[2] / "jvm" / "src" / "test" / "scala" / "org/arrowipc/spark/Dump.scala"
#: Seconds for one call of `Reader.read`.
DEADLINE = 1200


class Answer(NamedTuple):
    """The answer for one file: its rows or values, or an error."""

    ok: bool
    text: str
    #: Processor time.
    seconds: float
    #: The peak memory of the process until then, in MiB.
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
        """Return the answer for every path, with some options."""
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
                **{"cwd": self._folder, "env": {**processes.environment(), "PYSPARK_PYTHON": sys.executable}},
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
        java, path = compiled(folder, [DUMP], jar)
        assert jar is not None, "no jar was built: make jar"
        opened = "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"
        super().__init__([java, opened, "-Xmx1g", *OPTIONS, "-cp", path, "org.arrowipc.spark.Dump"], folder)


class ThroughSpark(Reader):
    """The jar in Spark, in a JVM of 1 GiB; see ``helpers.spark``."""

    def __init__(self, folder: Path) -> None:
        super().__init__([sys.executable, "-m", "helpers.spark", str(find_jar()), str(folder)], folder)


def plain(array: pa.Array) -> list[Any]:
    """The values of a column that the Python side has converted for Spark, in the form of ``Dump.scala``."""
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
    """The rows of a converted batch, in the form of ``Dump.scala``."""
    return json.dumps([list(row) for row in zip(*map(plain, batch.columns), strict=True)], ensure_ascii=False)
