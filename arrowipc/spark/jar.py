"""The jar with Spark's file format for Arrow files: where it is, and how it is built where it is missing.

PySpark's jars hold the Scala compiler, so wherever Spark and a Java can run, the jar can be built: from the sources
that the package carries, against the Spark that will load it. A wheel of ours brings it ready. Else it is built once,
into the user's cache folder.

``python -m arrowipc.spark.jar`` does that beforehand and prints the path, for ``spark-submit --jars``; where it
cannot, it says why and what to do, and exits with 1.
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

#: The jar that a wheel brings, and that `make jar` builds.
PREBUILT = Path(__file__).with_name("arrowipc-spark.jar")
#: The sources as they are installed, and as they lie in a checkout.
SOURCES = (Path(__file__).with_name("jvm"), Path(__file__).parents[2] / "jvm" / "src" / "main")
#: Where the jar holds the defaults of the options.
OPTIONS = "META-INF/arrowipc/options.tsv"
#: The only major version of Spark whose interfaces we know.
MAJOR = "4"
#: Spark 4 runs on Java 17 or newer. (`-release` would say so too, but needs a file that only a JDK has.) Classes do not
#: repeat the methods of their interfaces: those of a newer Spark name types that an older one does not have.
SCALA = ("-Xunchecked-java-output-version:17", "-Xmixin-force-forwarders:false", "-g:line", "-encoding", "UTF-8")
#: The compiler recurses deeply. Its run is too short for the second, optimizing compiler of Java to pay.
JAVA = ("-Xss8m", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LIMIT_SECONDS = 900
#: When every file in the jar was made, so that two builds are equal.
EPOCH = (1980, 1, 1, 0, 0, 0)


NO_SPARK = (
    "there is no Spark with its Scala compiler in SPARK_HOME or PySpark (for Spark Connect alone it brings none): run "
    "python -m pip install pyspark; or run python -m arrowipc.spark.jar where Spark itself is installed, and "
    "give the jar to the server"
)


class NoJar(Exception):
    """There is no jar and none can be built; the message says why, and what to do."""


def find_jar() -> str | None:
    """Return the path of the jar, which is built first where it is missing.

    Building takes about 20 seconds of a processor, once for each version of arrowipc and of Spark, and needs a Java.

    Returns
    -------
    str or None
        For ``spark.jars``, ``--jars`` and ``spark.addArtifact`` of Spark Connect. None where there is no jar and none
        can be built: the log says why, once.
    """
    return _outcome()


@functools.cache
def _outcome() -> str | None:
    """What is found; a build that failed is not tried again by the same process."""
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
        return PREBUILT  # a client of Spark Connect, which has no Spark, can still give the jar to its server
    name = f"arrowipc-spark-{versions}-{digest}.jar"
    try:
        folder = _cache_folder()
        path = folder / name
        if _is_whole(path, digest):
            return path
        with _locked(folder / ".lock") as alone:
            if not _is_whole(path, digest):  # another process may have built it meanwhile
                for draft in folder.glob(".build-*") if alone else ():
                    shutil.rmtree(draft, ignore_errors=True)  # of a build that was killed
                _build(jars, sources, path)
        return path
    except OSError as error:
        private = Path(tempfile.mkdtemp(prefix="arrowipc-"))
        atexit.register(shutil.rmtree, private, ignore_errors=True)
        log.warning("the cache folder is not used (%s); the jar is built for this process alone: %s", error, private)
        _build(jars, sources, private / name)
        return private / name


# What it is built from.


def _sources() -> dict[str, Path]:
    """The sources and resources by their names below the folder that holds them."""
    for folder in SOURCES:
        found = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        if found:
            return found
    raise NoJar(f"{SOURCES[0]}, the folder of its sources, is missing: install arrowipc again")


def _digest(sources: dict[str, Path]) -> str:
    """What tells one state of the sources, and of this builder, from another."""
    parts = {name: path.read_bytes() for name, path in [*sources.items(), ("jar.py", Path(__file__))]}
    parts[OPTIONS] = options_resource().encode()
    lines = (f"{name} {hashlib.sha256(data).hexdigest()}\n" for name, data in parts.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:20]


def _digest_of(jar: Path) -> str | None:
    """The state of the sources that a jar was built from; None where there is no jar."""
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.comment.decode()
    except (OSError, zipfile.BadZipFile, UnicodeDecodeError):
        return None


def _spark(optional: bool = False) -> tuple[Path, str]:
    """The folder of the jars of the Spark that will load ours, and its versions."""
    home, spec = os.environ.get("SPARK_HOME"), importlib.util.find_spec("pyspark")
    base = Path(home) if home else Path(spec.origin).parent if spec is not None and spec.origin else Path("/dev/null")
    # The second is where pip puts another Spark (PYSPARK_HADOOP_VERSION).
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
    """Compile into a folder beside the target, which gets its name when it is complete."""
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
    """Pack classes and resources; the manifest is first, as readers of jars expect it."""
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
        os.fsync(file.fileno())  # before it gets its name, which a machine that stops may keep without the bytes


# The cache. Spark runs what lies in it, so nobody else may put anything there.


def _cache_folder() -> Path:
    """Return the folder, made if it is missing; an OSError says why it cannot be used."""
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
    """Whether the jar is there, to its last bytes, which are the digest; an OSError says why it must not be used."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(f"{path} is expected to be your own file, which nobody else may write: remove it")
    return _digest_of(path) == digest


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Let one process build at a time; where the file system has no locks, False, two may, and each renames its own."""
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
    """Print the path."""
    parser = argparse.ArgumentParser(prog="python -m arrowipc.spark.jar", description="Build the jar, print its path.")
    parser.add_argument("--to", type=Path, help="build it again, into this file")
    target = parser.parse_args().to
    try:
        if target is None:
            path = _found()
            atexit.unregister(shutil.rmtree)  # who gets the path wants the file, too
        else:
            _build(_spark()[0], _sources(), path := target.absolute())
    except NoJar as error:
        print(f"no jar: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
