"""Reads hostile files through the jar in a JVM of 1 GiB, and says of each what became of it.

``python -m helpers.spark_survive JAR FOLDER`` takes the lines of ``helpers.jvm.Reader``, with the option ``rows`` where
not all rows are wanted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from helpers import twins

OURS = "org.arrowipc.spark.ArrowIpcException"


def causes(error: Any) -> list[str]:
    """The classes of a Java exception and of what caused it."""
    java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    found = []
    while java is not None and len(found) < 20:
        found.append(java.getClass().getName())
        java = java.getCause()
    return found


def attempt(spark: Any, path: str, rows: str = "") -> str:
    try:
        frame = spark.read.format("arrowipc").load(path)
        (frame.limit(int(rows)) if rows else frame).write.format("noop").mode("overwrite").save()
    except Exception as error:
        chain, text = causes(error), str(error)
        ours = next((each for each in chain if each.startswith(OURS)), None)
        memory = "OutOfMemoryError" in text or any("OutOfMemory" in each for each in chain)
        condition = getattr(error, "getCondition", lambda: None)()
        found = "out of memory" if memory else ours.partition("$")[2] if ours else f"{chain[-1:]} {condition}"
        return f"error {found}: {' '.join(text.split())[:9000]}"
    return "ok"


def used(process: int) -> int:
    """Milliseconds of the processors, which are as many on a machine that has much else to do."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")


def main(jar: str, folder: str) -> None:
    spark = twins.session("local[1]", jar, Path(folder), spark__driver__memory="1g")
    spark.sparkContext.setLogLevel("OFF")
    process = spark._jvm.java.lang.ProcessHandle.current().pid()
    for number, line in enumerate(sys.stdin):
        path, *options = line.rstrip("\n").split("\t")
        spark.conf.set("spark.sql.codegen.wholeStage", str(number % 2 == 0))
        spark.conf.set("spark.sql.codegen.factoryMode", ("FALLBACK", "NO_CODEGEN")[number % 2])
        start = used(process)
        answer = attempt(spark, path, **dict(option.split("=") for option in options))
        status = Path(f"/proc/{process}/status").read_text()
        if "VmHWM:" not in status:
            sys.exit(f"the JVM ended: {answer}")
        peak = status.partition("VmHWM:")[2].split()[0]
        print(used(process) - start, peak, answer, flush=True)
    spark.stop()


if __name__ == "__main__":
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    main(*sys.argv[1:])
