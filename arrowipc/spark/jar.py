"""The jar with Spark's file format for Arrow files: finding it, and building it if it is missing.

PySpark contains the Scala compiler, so wherever Spark and Java can run, the jar can be built: from the sources in
this package, against the Spark that will load it. A wheel of arrowipc contains the jar. Otherwise it is built once,
into the user's cache folder.

``python -m arrowipc.spark.jar`` builds it if necessary and prints the path, for ``spark-submit --jars``; if that fails,
it prints the reason and advice, and exits with 1.
"""

import argparse
import atexit
import functools
import hashlib
import importlib.util
import logging
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from arrowipc.spark.java import NO_JAVA, find_java
from arrowipc.spark.options import options_resource

log: logging.Logger = logging.getLogger("arrowipc.spark")

#: The jar in a wheel, which `make jar` builds.
PREBUILT = Path(__file__).with_name("arrowipc-spark.jar")
#: The folder of the sources, in an installed package and in a checkout.
SOURCES = (Path(__file__).with_name("jvm"), Path(__file__).parents[2] / "jvm" / "src" / "main")
#: The file in the jar with the defaults of the options.
OPTIONS = "META-INF/arrowipc/options.tsv"
#: The only major version of Spark whose interfaces the sources use.
MAJOR = "4"
#: Spark 4 runs on Java 17 or newer. (`-release` would also set that, but needs a file that only a JDK has.) Without
#: forwarders, classes do not repeat methods of their interfaces, which in a newer Spark name types that an older one
#: does not have.
SCALA = ("-Xunchecked-java-output-version:17", "-Xmixin-force-forwarders:false", "-g:line", "-encoding", "UTF-8")
#: The compiler recurses deeply, and runs too briefly for Java's optimizing compiler to be worth its time.
JAVA = ("-Xss8m", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LIMIT_SECONDS = 900
#: The time of every file in the jar, constant so that two builds are equal.
EPOCH = (1980, 1, 1, 0, 0, 0)


NO_SPARK = (
    "there is no Spark with its Scala compiler in SPARK_HOME or PySpark (for Spark Connect alone it brings none): run "
    "python -m pip install pyspark; or run python -m arrowipc.spark.jar where Spark itself is installed, and "
    "give the jar to the server"
)


class NoJar(Exception):
    """There is no jar, and none can be built; the message contains the reason and advice."""


def find_jar() -> str | None:
    """Return the path of the jar, which is built first if it is missing.

    Building takes about 20 seconds of processor time, once for each version of arrowipc and of Spark, and needs Java.

    Returns
    -------
    str or None
        The path for ``spark.jars``, ``--jars`` and ``spark.addArtifact`` of Spark Connect. None if there is no jar and
        none can be built: the log says why, once.
    """
    return _find_once()


@functools.cache
def _find_once() -> str | None:
    """Find or build the jar once per process: a failed build is not tried again."""
    try:
        return str(_found())
    except NoJar as error:
        log.warning("no jar with Spark's file format for Arrow files: %s", error)
        return None


def _found() -> Path:
    sources = _sources()
    digest = _digest(sources)
    prebuilt = _digest_of(PREBUILT) == digest
    jars, versions = _spark(optional=prebuilt)
    if prebuilt:
        return PREBUILT  # also without Spark: a client of Spark Connect can send the jar to its server
    name = f"arrowipc-spark-{versions}-{digest}.jar"
    try:
        folder = _cache_folder()
        path = folder / name
        if _is_whole(path, digest):
            return path
        with _locked(folder / ".lock") as alone:
            if not _is_whole(path, digest):  # another process may have built it meanwhile
                for draft in folder.glob(".build-*") if alone else ():
                    shutil.rmtree(draft, ignore_errors=True)  # the folder of a build that was killed
                _build(jars, sources, path)
        return path
    except OSError as error:
        private = Path(tempfile.mkdtemp(prefix="arrowipc-"))
        atexit.register(shutil.rmtree, private, ignore_errors=True)
        log.warning("the cache folder is not used (%s); the jar is built for this process alone: %s", error, private)
        _build(jars, sources, private / name)
        return private / name


# The sources, and Spark.


def _sources() -> dict[str, Path]:
    """Return the sources and resources, by their names below their folder."""
    for folder in SOURCES:
        found = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        if found:
            return found
    raise NoJar(f"{SOURCES[0]}, the folder of its sources, is missing: install arrowipc again")


def _digest(sources: dict[str, Path]) -> str:
    """Return a digest of the sources, the options and this module."""
    parts = {name: path.read_bytes() for name, path in [*sources.items(), ("jar.py", Path(__file__))]}
    parts[OPTIONS] = options_resource().encode()
    lines = (f"{name} {hashlib.sha256(data).hexdigest()}\n" for name, data in parts.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:20]


def _digest_of(jar: Path) -> str | None:
    """Return the digest of the sources from which a jar was built; None if there is no jar."""
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.comment.decode()
    except (OSError, zipfile.BadZipFile, UnicodeDecodeError):
        return None


def _spark(optional: bool = False) -> tuple[Path, str]:
    """Return the folder of the jars of the Spark that will load the jar, and its versions."""
    home, spec = os.environ.get("SPARK_HOME"), importlib.util.find_spec("pyspark")
    base = Path(home) if home else Path(spec.origin).parent if spec is not None and spec.origin else Path("/dev/null")
    # pip puts a Spark for another Hadoop (PYSPARK_HADOOP_VERSION) into the second folder.
    for jars in (base / "jars", base / "spark-distribution" / "jars"):
        core, scala = (next(iter(jars.glob(f"{name}-*.jar")), None) for name in ("spark-core_*", "scala-compiler"))
        if core is not None and scala is not None:
            version = core.stem.partition("-core_")[2].partition("-")[2]
            if version.partition(".")[0] != MAJOR:
                raise NoJar(f"it is for Spark {MAJOR}, and {jars} has Spark {version}")
            return jars, f"{version}-scala-{scala.stem.rpartition('-')[2]}"
    if optional:
        return Path(), ""
    raise NoJar(NO_SPARK)


# Building.


def _build(jars: Path, sources: dict[str, Path], target: Path) -> None:
    """Compile and pack in a folder beside the target; the jar gets its name when it is complete."""
    home = find_java()
    if home is None:
        raise NoJar(NO_JAVA)
    log.warning("building the Spark file format, once, about 20 s: %s", target)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as folder:
        classes, draft = Path(folder, "classes"), Path(folder, "jar")
        classes.mkdir()
        files = [str(path) for name, path in sources.items() if name.endswith(".scala")]
        java = str(Path(home) / "bin" / "java")
        command = [java, *JAVA, "-cp", f"{jars}/*", "scala.tools.nsc.Main", "-usejavacp", *SCALA]
        command += ["-d", str(classes), *files]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoJar(f"the Scala compiler did not run to its end: {error}") from error
        if done.returncode != 0:
            said = (done.stdout + done.stderr)[-4000:]
            raise NoJar(f"the Scala compiler ended with status {done.returncode}:\n{said}")
        _pack(classes, sources, draft)
        draft.replace(target)


def _pack(classes: Path, sources: dict[str, Path], jar: Path) -> None:
    """Pack classes and resources into a jar; the manifest is first, as readers of jars expect."""
    parts = {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\nAutomatic-Module-Name: org.arrowipc.spark\r\n\r\n"}
    parts[OPTIONS] = options_resource().encode()
    for name, path in sources.items():
        if name.startswith("resources/"):
            parts[name.removeprefix("resources/")] = path.read_bytes()
    for path in sorted(classes.rglob("*.class")):
        parts[path.relative_to(classes).as_posix()] = path.read_bytes()
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.comment = _digest(sources).encode()
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED, 9)
    with jar.open("rb") as file:
        os.fsync(file.fileno())  # before the rename: after a crash, the name could exist without the bytes


# The cache. Spark runs the code in it, so no other user may write there.


def _cache_folder() -> Path:
    """Return the cache folder, made if it is missing; raise an OSError if it cannot be used."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    above = Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache"))
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Path(os.path.realpath(above), "arrowipc")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    _check(folder.parent, {os.geteuid(), 0}, stat.S_ISVTX)
    _check(folder, {os.geteuid()})
    return folder


def _check(path: Path, owners: set[int], excuse: int = 0) -> None:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{path} is expected to be a folder and no link: remove it")
    if found.st_uid not in owners:
        raise PermissionError(f"{path} is expected to be yours, and its owner is user {found.st_uid}: remove it")
    if found.st_mode & 0o022 and not found.st_mode & excuse:
        raise PermissionError(f"others may write to {path} (mode {stat.S_IMODE(found.st_mode):o}): chmod go-w {path}")


def _is_whole(path: Path, digest: str) -> bool:
    """Whether the jar exists and is complete (the digest is at its end); raise an OSError if it must not be used."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(f"{path} is expected to be your own file, which nobody else may write: remove it")
    return _digest_of(path) == digest


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Let one process build at a time; yield False without file locks: then two may build, each into its own file."""
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        alone = False
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            alone = True
        yield alone
    finally:
        with suppress(OSError):  # a child that was forked meanwhile has it open, too
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def main() -> int:
    """Run the command: print the path of the jar."""
    parser = argparse.ArgumentParser(prog="python -m arrowipc.spark.jar", description="Build the jar, print its path.")
    parser.add_argument("--to", type=Path, help="build it again, into this file")
    target = parser.parse_args().to
    try:
        if target is None:
            path = _found()
            atexit.unregister(shutil.rmtree)  # keep a jar in a temporary folder: its path is printed
        else:
            _build(_spark()[0], _sources(), path := target.absolute())
    except NoJar as error:
        print(f"no jar: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
