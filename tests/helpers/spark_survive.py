"""Reads hostile files through the jar in a JVM of 1 GiB, and says of each what became of it.

``python -m helpers.spark_survive JAR FOLDER`` takes lines ``ROWS PATH`` (no rows: all of them) and answers each with a
JSON line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers import children, twins

OURS = "org.arrowipc.spark.ArrowIpcException"


class Survivor:
    """The process, asked about one file after the other."""

    def __init__(self, jar: str, folder: Path) -> None:
        self._log = folder / "survivor.log"
        with open(self._log, "w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "helpers.spark_survive", jar, str(folder)],
                **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True, "cwd": folder},
                env={**children.environment(), "PYSPARK_PYTHON": sys.executable},
            )

    def ask(self, path: Path, rows: int = 0) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{rows} {path}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"{path.name} ended the process: {self._log.read_text()[-2000:]}"
        return json.loads(answer)

    def close(self) -> None:
        self._process.communicate(timeout=60)


def causes(error: Any) -> list[str]:
    """The classes of a Java exception and of what caused it."""
    java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    found = []
    while java is not None and len(found) < 20:
        found.append(java.getClass().getName())
        java = java.getCause()
    return found


def attempt(spark: Any, rows: int, path: str) -> dict[str, Any]:
    try:
        frame = spark.read.format("arrowipc").load(path)
        (frame.limit(rows) if rows else frame).write.format("noop").mode("overwrite").save()
    except Exception as error:
        chain, text = causes(error), str(error)
        ours = next((each for each in chain if each.startswith(OURS)), None)
        memory = "OutOfMemoryError" in text or any("OutOfMemory" in each for each in chain)
        condition = getattr(error, "getCondition", lambda: None)()
        found = "out of memory" if memory else ours.partition("$")[2] if ours else f"{chain[-1:]} {condition}"
        return {"error": found, "text": text[:1500]}
    return {"error": ""}


def seconds(process: int) -> float:
    """What a process has used of the processors, which is the same on a machine that has much else to do."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(jar: str, folder: str) -> None:
    spark = twins.session("local[1]", jar, Path(folder), spark__driver__memory="1g")
    spark.sparkContext.setLogLevel("OFF")
    process = spark._jvm.java.lang.ProcessHandle.current().pid()
    for number, line in enumerate(sys.stdin):
        rows, _, path = line.rstrip("\n").partition(" ")
        spark.conf.set("spark.sql.codegen.wholeStage", str(number % 2 == 0))
        spark.conf.set("spark.sql.codegen.factoryMode", ("FALLBACK", "NO_CODEGEN")[number % 2])
        start = seconds(process)
        answer = attempt(spark, int(rows), path)
        status = Path(f"/proc/{process}/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) >> 10
        print(json.dumps({**answer, "seconds": seconds(process) - start, "peak": peak}), flush=True)
    spark.stop()


if __name__ == "__main__":
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    main(*sys.argv[1:])
