"""Spark's side of tests: the Python data source, the package as executors get it, and hostile files in a small JVM."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import arrowipc
from helpers import twins
from helpers.arrow_columns import file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from arrowipc.spark import ArrowIpcDataSource

FORMAT = "arrowipc_python"
#: How Spark evaluates: by generated code, or expression by expression.
WAYS = {"generated": ("CODEGEN_ONLY", "true"), "interpreted": ("NO_CODEGEN", "false")}


def evaluate(conf: Callable[[str, Any], None], way: str) -> None:
    """Let Spark evaluate in one of the `WAYS` until the test ends."""
    for name, value in zip(("factoryMode", "wholeStage"), WAYS[way], strict=True):
        conf(f"spark.sql.codegen.{name}", value)


def short_names(spark: SparkSession) -> None:
    """Register the functions of the jar's extension, as `spark.sql.extensions` does when Spark starts."""
    java: Any = spark._jvm
    extensions = java.org.apache.spark.sql.SparkSessionExtensions()
    java.org.arrowipc.spark.payloads.ArrowIpcExtensions().apply(extensions)
    extensions.registerFunctions(spark._jsparkSession.sessionState().functionRegistry())  # type: ignore[attr-defined]


def register_python(spark: SparkSession) -> None:
    """Let ``format(FORMAT)`` be the Python data source of a session."""
    from arrowipc.spark import ArrowIpcDataSource

    # No module has this class, so it is pickled by value for the processes that plan.
    attributes = {"name": classmethod(lambda cls: "arrowipc_python")}
    spark.dataSource.register(type("PythonSource", (ArrowIpcDataSource,), attributes))


def given(path: Any, **options: Any) -> ArrowIpcDataSource:
    """The data source as Spark makes it: options are texts under lower-case names, several paths are JSON."""
    from arrowipc.spark import ArrowIpcDataSource

    texts = {
        name.lower(): str(value).lower() if value in (True, False) else str(value) for name, value in options.items()
    }
    where = {"paths": json.dumps([*map(str, path)])} if isinstance(path, list) else {"path": str(path)}
    return ArrowIpcDataSource({**where, **texts})


def read_here(path: Any, schema: StructType | None = None, **options: Any) -> pa.Table:
    """Read what the data source gives Spark, with Spark's checks, but without Spark's processes."""
    from arrowipc.spark.types import arrow_schema_of

    source = given(path, **options)
    schema = schema or source.schema()
    reader = pickle.loads(pickle.dumps(source.reader(schema)))
    wanted = arrow_schema_of(schema)
    batches = []
    for partition in reader.partitions():
        for batch in reader.read(pickle.loads(pickle.dumps(partition))):
            assert batch.schema.equals(wanted)
            batches.append(batch)
    return pa.Table.from_batches(batches, wanted)


def payload_frame(spark: SparkSession, *payloads: bytes | None) -> DataFrame:
    """A data frame of one partition: payloads, and the names host0, host1, ... beside them."""
    names = [f"host{row}" for row in range(len(payloads))]
    table = pa.table({"host": names, "payload": pa.array(payloads, pa.binary())})
    return spark.createDataFrame(table).coalesce(1)


def all_types(spark: SparkSession) -> DataFrame:
    """Five rows of all types of Spark that payloads hold, and a row of nulls."""
    held = [text for text in twins.TYPES if "YEAR" not in text]
    held += ["TIME'23:59:59.999999' tm", "NULL nu", "array() ar", "array(array(named_struct('x', id)), NULL) aa"]
    held += ["array(TIMESTAMP'2020-01-01 00:00:00') at"]
    nulls = ", ".join(["9", *["NULL"] * len(held)])
    return spark.sql(f"SELECT id, {', '.join(held)} FROM range(5) UNION ALL SELECT {nulls}")


def jvm_peak(spark: SparkSession, *, anew: bool = False) -> int:
    """Most memory that the JVM had, in MiB; with `anew`, from now on."""
    process = Path(f"/proc/{spark._jvm.java.lang.ProcessHandle.current().pid()}")  # type: ignore[union-attr]
    if anew:
        (process / "clear_refs").write_text("5")
    lines = (process / "status").read_text().splitlines()
    return int(next(line for line in lines if "VmHWM" in line).split()[1]) >> 10


def load(spark: SparkSession, path: Any, **options: Any) -> DataFrame:
    """What the file format of the jar reads."""
    return spark.read.format("arrowipc").options(**options).load(str(path))


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: row["id"])


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(values, pa.int64())})


def put(path: Path, *batches: pa.RecordBatch) -> Path:
    """Write a file of some batches."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file(*batches))
    return path


DIST = Path(__file__).resolve().parents[2] / "dist"
#: The packages that a Python worker imports for mapInArrow and for our data source, besides PySpark.
NEEDED = ("pyarrow", "numpy")
#: The packages that the driver imports besides.
ON_THE_DRIVER = ("pandas", "python-dateutil", *(["six"] if find_spec("six") else []))


def wheel_archive(directory: Path) -> Path:
    """Write the wheel under a name that Spark unpacks; if none was built, pack the installed package."""
    archive = directory / "arrowipc.zip"
    wheels = sorted(DIST.glob(f"arrowipc-{arrowipc.__version__}-*.whl"))
    if wheels:
        shutil.copy(wheels[-1], archive)
        return archive
    package = Path(arrowipc.__file__).parent
    with zipfile.ZipFile(archive, "w") as zipped:
        for parent, _, names in os.walk(package, followlinks=True):
            for name in names:
                if name.endswith((".py", ".so")):
                    path = Path(parent, name)
                    zipped.write(path, Path("arrowipc") / path.relative_to(package))
        for path in filter(Path.is_file, (package.parent / "jvm/src/main").rglob("*")):
            zipped.write(path, Path("arrowipc/spark/jvm") / path.relative_to(package.parent / "jvm/src/main"))
        zipped.write(package.parent / "pyspark_arrowipc.py", "pyspark_arrowipc.py")
    return archive


def packed_environment(directory: Path) -> Path:
    """Make a virtual environment with arrowipc and what it needs, and pack it with venv-pack."""
    import venv_pack

    environment = directory / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    site = environment / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    unused = shutil.ignore_patterns("tests", "*.h", "*.pyc")
    for path in _parts_of(*NEEDED, *ON_THE_DRIVER):
        if path.is_dir():
            shutil.copytree(path, site / path.name, ignore=unused)
        else:
            shutil.copy(path, site / path.name)
    with zipfile.ZipFile(wheel_archive(directory)) as zipped:
        zipped.extractall(site)
    packed = directory / "environment.tar.gz"
    venv_pack.pack(prefix=str(environment), output=str(packed), compress_level=1)
    return packed


def _parts_of(*names: str) -> Iterator[Path]:
    """Yield the folders and modules of installed distributions."""
    for name in names:
        files = distribution(name).files
        assert files is not None
        root = Path(str(distribution(name).locate_file("")))
        tops = {file.parts[0] for file in files} - {"..", "__pycache__"}
        yield from (root / top for top in sorted(tops) if (root / top).is_dir() or top.endswith(".py"))


#: Spark gives a Python process that plans ten seconds to start, which no setting changes. A busy machine needs more.
STARTED_TOO_LATE = "Python worker failed to connect back"


def failure(action: Callable[[], object]) -> str:
    """Return the message of the error that `action` must raise."""
    from pyspark.errors import PySparkException

    for _ in range(10):
        with pytest.raises(PySparkException) as caught:
            action()
        if STARTED_TOO_LATE not in str(caught.value):
            break
    return str(caught.value)


OURS = "org.arrowipc.spark.ArrowIpcException"


def causes(error: Any) -> list[str]:
    """The classes of a Java exception and of its causes."""
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
    """Milliseconds of a process's processor time, which does not depend on the machine's other load."""
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
