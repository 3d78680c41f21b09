"""Reads streams and files with Arrow Java, out of the jars that pyspark brings: many in one process."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

from arrowipc.spark.java import NO_JAVA, find_java

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
    """Arrow Java cannot be run here; the message says why."""


def compiled(build: Path, sources: list[Path], jar: str | None = None) -> tuple[str, str]:
    """Compile Java or Scala against PySpark's jars, which hold a compiler of Scala, and one more jar.

    Returns the ``java`` to run, and the class path.
    """
    home, spec = find_java(), importlib.util.find_spec("pyspark")
    if home is None:
        raise Missing(NO_JAVA)
    if spec is None or spec.origin is None:
        raise Missing("pyspark, whose jars hold Arrow Java, is not installed")
    jars = Path(spec.origin).parent / "jars"
    path = f"{jars}/*" if jar is None else f"{jar}:{jars}/*"
    command = [f"{home}/bin/javac", "-cp", path]
    if sources[0].suffix == ".scala":
        command = [f"{home}/bin/java", "-Xss8m", "-XX:+UseSerialGC", "-cp", path, "scala.tools.nsc.Main", "-usejavacp"]
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
        """Read every path (``*.file`` as a file, any other as a stream); see helpers.plainly for the results.

        What Arrow Java refuses is ``{"error": its words}``.
        """
        command = [self._java, *OPTIONS, "-cp", self._path, "ReadArrow"]
        for path in paths:
            command += ["file" if path.suffix == ".file" else "stream", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        assert len(lines) == len(paths), done.stderr[-2000:]
        return [json.loads(line) for line in lines]
