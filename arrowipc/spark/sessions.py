"""Gives sessions of Spark the file format for Arrow files, and says which one reads them.

Where the jar is on Spark's class path, the name ``arrowipc`` is a file format in the JVM, as ``parquet`` is. Where it
is not, the name is a data source in Python, which is slower and has fewer options. Neither replaces the other later.
"""

import functools
import logging
import os
from collections.abc import Mapping
from typing import Any, Literal

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from arrowipc.spark.jar import find_jar
from arrowipc.spark.source import ArrowIpcDataSource

log: logging.Logger = logging.getLogger("arrowipc.spark")

#: What to do in order to have the file format, by what kind of session lacks it.
LATE = "stop this session and start it with arrowipc.spark.session()"
SUBMITTED = 'give spark-submit --jars "$(python -m arrowipc.spark.jar)"'
REMOTE = "start the server with --jars, or call spark.addArtifact(arrowipc.spark.find_jar()) where it allows that"
#: The catalog with the functions on payloads: the setting that makes Spark know it, and its class.
CATALOG = "spark.sql.catalog.arrowipc"
CATALOG_CLASS = "org.arrowipc.spark.payloads.ArrowIpcCatalog"


def configure(builder: Any) -> Any:
    """Let the sessions of a builder read and write Arrow files in the JVM.

    Parameters
    ----------
    builder : SparkSession.Builder
        Changed, and returned: the jar joins ``spark.jars``; it is built first where it is missing (`find_jar`). A Spark
        that runs already does not change. Where there is no jar nothing is changed, the log says why, and Python reads.

    Examples
    --------
    >>> spark = configure(SparkSession.builder.master("local[2]")).getOrCreate()      # doctest: +SKIP
    """
    options = getattr(builder, "_options", {})
    # spark-submit has started Java already, and a client of Spark Connect starts none.
    if "PYSPARK_GATEWAY_PORT" in os.environ or "spark.remote" in options or "SPARK_REMOTE" in os.environ:
        return builder
    jar = find_jar()
    if jar is None:
        return builder
    # What a builder was told nobody else says; a second value of a setting would replace the first.
    others = [each for each in str(options.get("spark.jars", "")).split(",") if each and each != jar]
    return builder.config("spark.jars", ",".join([*others, jar])).config(CATALOG, CATALOG_CLASS)


def session(master: str | None = None, settings: Mapping[str, Any] | None = None) -> SparkSession:
    """Start Spark, or take the session that runs, with the format ``arrowipc`` in it: see `configure`, `register`.

    Parameters
    ----------
    master : str, optional
        As for ``spark-submit --master``, or the address of a Spark Connect server (``sc://...``), which is given the
        jar if it has none; default: what Spark's own configuration says.
    settings : mapping of str to str, optional
        Of Spark, such as ``{"spark.sql.shuffle.partitions": 8}``.

    Examples
    --------
    >>> spark = arrowipc.spark.session("local[2]")                                    # doctest: +SKIP
    >>> spark.sql("SELECT count(*) FROM arrowipc.`events`").show()                    # doctest: +SKIP
    """
    builder: Any = SparkSession.builder
    if master is not None:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    if SparkSession.getActiveSession() is None:
        builder = configure(builder)
    spark: SparkSession = builder.getOrCreate()
    _make_known(spark)
    if _is_remote(spark) and reader_of(spark) == "python" and (jar := find_jar()) is not None:
        try:
            spark.addArtifact(jar)  # for this session alone
        except Exception as error:  # servers refuse in many ways
            log.warning("the server does not take the jar %s: %s", jar, str(error).partition("\n")[0])
    _say_who_reads(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Make the Python data source known to a session that has no jar of ours, as ``spark.read.format("arrowipc")``.

    Spark finds it by itself where the module ``pyspark_arrowipc`` is on the path of the driver's Python. This is for
    sessions where another package's broken ``pyspark_*`` module stops that search.
    """
    _make_known(spark)
    _say_who_reads(spark)


def _make_known(spark: SparkSession) -> None:
    try:
        spark.dataSource.register(ArrowIpcDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # Spark 4.0 refuses what it found by itself
            raise


def _say_who_reads(spark: SparkSession) -> None:
    if reader_of(spark) == "python":
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        _say_once(REMOTE if _is_remote(spark) else SUBMITTED if submitted else LATE)
    elif spark.conf.get(CATALOG, None) is None:
        spark.conf.set(CATALOG, CATALOG_CLASS)


def _is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def reader_of(spark: SparkSession) -> Literal["jvm", "python"]:
    """Which of the two ``format("arrowipc")`` means in a session: the file format in the JVM, or the Python source."""
    if _is_remote(spark):
        try:
            # Spark looks for the files of a file format, whose columns may all be null; a Python source says itself.
            empty = spark.read.format("arrowipc").schema("x long NOT NULL").load("file:///dev/null")
            return "jvm" if empty.schema["x"].nullable else "python"
        except PySparkException as error:  # a server on Windows, or one that has neither; it logs that
            return "jvm" if error.getCondition() == "PATH_NOT_FOUND" else "python"
    sources: Any = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource  # type: ignore[union-attr]
    state: Any = spark._jsparkSession.sessionState()
    try:
        found = sources.lookupDataSource("arrowipc", state.conf()).getName()
    except Exception:  # no source has this name
        return "python"
    return "jvm" if found.startswith("org.arrowipc.") else "python"


@functools.cache
def _say_once(instead: str) -> None:
    log.warning(
        "the Python data source reads and writes Arrow files in this Spark session, slowly; to have the file format in "
        "the JVM, %s",
        instead,
    )
