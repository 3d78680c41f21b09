"""Compiles jvm/ to the jar that lets Spark read Arrow files without Python, with the JDK that is there.

``make jar`` leaves it in ``arrowipc/spark/``, from where the wheel takes it. It is compiled against the jars that
PySpark brings, by default those of the interpreter that runs this; ``--spark`` names those of another release. The
same sources give the same bytes. Without a JDK nothing is built, and the package does without.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "jvm" / "src" / "main"
JAR = ROOT / "arrowipc" / "spark" / "arrowipc-spark.jar"
#: The oldest Java that Spark 4 runs on.
RELEASE = "17"
#: Bytes that the wheel has room for.
MOST_BYTES = 250_000
#: When every file in the jar was made, so that two builds are equal.
EPOCH = (1980, 1, 1, 0, 0, 0)


def spark_jars() -> Path | None:
    """Return the directory of PySpark's jars; None where PySpark is not installed."""
    found = importlib.util.find_spec("pyspark")
    return None if found is None or found.origin is None else Path(found.origin).parent / "jars"


def compiled(jars: Path, folder: Path) -> None:
    """Compile all sources into a folder; warnings are errors."""
    files = sorted(str(path) for path in SOURCES.rglob("*.java"))
    options = ["--release", RELEASE, "-encoding", "UTF-8", "-g:source,lines", "-Xlint:all,-classfile,-path,-processing"]
    options += ["-Xlint:-serial", "-Werror", "-proc:none", "-cp", f"{jars}/*", "-d", str(folder)]
    subprocess.run(["javac", *options, *files], check=True)


def packed(folder: Path, jar: Path) -> None:
    """Pack classes and resources; the manifest is first, as readers of jars have it."""
    resources = SOURCES / "resources"
    parts = {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\nAutomatic-Module-Name: org.arrowipc.spark\r\n\r\n"}
    for base in (folder, resources):
        parts |= {path.relative_to(base).as_posix(): path.read_bytes() for path in sorted(base.rglob("*.*"))}
    draft = jar.with_suffix(".draft")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED, 9)
    draft.replace(jar)


def main() -> None:
    """Build, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spark", type=Path, default=spark_jars(), help="a directory of Spark's jars")
    parser.add_argument("--to", type=Path, default=JAR, help="the jar")
    options = parser.parse_args()
    if shutil.which("javac") is None:
        sys.exit("no javac found: the jar is not built, and Spark reads by Python; install a JDK of Java 17 or newer")
    if options.spark is None:
        sys.exit("pyspark is not installed here, whose jars are needed: pip install pyspark, or give --spark")
    with tempfile.TemporaryDirectory() as folder:
        try:
            compiled(options.spark, Path(folder))
        except subprocess.CalledProcessError:
            sys.exit("javac refuses the sources: the jar is not built")
        packed(Path(folder), options.to)
    size = options.to.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"{options.to}: {size} bytes, more than {MOST_BYTES}")
    print(f"{options.to}: {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
