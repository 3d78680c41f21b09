"""Brings the file format for Arrow files into Spark sessions, and says which implementation a session has.

In a session with the jar, the name ``arrowipc`` is a file format in the JVM, like ``parquet``. Without the jar, it is
a data source in Python, which is slow and only reads. If a session knows both, Spark uses the file format.
"""

import functools
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from arrowipc.arguments import instance_of
from arrowipc.spark.jar import find_jar
from arrowipc.spark.shipping import check_session
from arrowipc.spark.source import ArrowIpcDataSource

log: logging.Logger = logging.getLogger("arrowipc.spark")

#: The catalog with the functions on payloads: the setting that registers it in Spark, and its class.
CATALOG = "spark.sql.catalog.arrowipc"
CATALOG_CLASS = "org.arrowipc.spark.payloads.ArrowIpcCatalog"


def configure(builder: Any) -> Any:
    """Let the sessions of a builder read and write Arrow files in the JVM.

    Parameters
    ----------
    builder : SparkSession.Builder
        Changed, and returned: the jar is added to ``spark.jars``; it is built first if it is missing (`find_jar`). A
        Spark that runs already does not change: see `register`. If there is no jar, nothing is changed, and the log
        says why.

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
    # Keep the jars that were set before: a second value of a setting replaces the first.
    others = [each for each in str(options.get("spark.jars", "")).split(",") if each and each != jar]
    return builder.config("spark.jars", ",".join([*others, jar])).config(CATALOG, CATALOG_CLASS)


def session(master: str | None = None, settings: Mapping[str, Any] | None = None) -> SparkSession:
    """Start Spark with the format ``arrowipc``, or register the format in the session that runs; see `register`.

    Parameters
    ----------
    master : str, optional
        As for ``spark-submit --master``, or the address of a Spark Connect server (``sc://...``); default: that of
        Spark's own configuration.
    settings : mapping of str to str, optional
        Settings of Spark, such as ``{"spark.sql.shuffle.partitions": 8}``.

    Examples
    --------
    >>> spark = arrowipc.spark.session("local[2]")                                    # doctest: +SKIP
    >>> spark.sql("SELECT count(*) FROM arrowipc.`events`").show()                    # doctest: +SKIP
    """
    builder: Any = SparkSession.builder
    if master is not None:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    for name, value in instance_of("settings", settings or {}, Mapping).items():
        builder = builder.config(name, value)
    if SparkSession.getActiveSession() is None:
        builder = configure(builder)
    spark: SparkSession = builder.getOrCreate()
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Bring the format ``arrowipc`` and the functions on payloads to a session that runs already.

    A session that has the jar does not change. Another one gets the jar (`find_jar`), by ``ADD JAR`` or, with Spark
    Connect, by ``addArtifact``; it then reads, writes and has tables and streams as if it had started with the jar.
    If there is no jar, or the server refuses it, the log says so once, and the Python data source reads.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect. In a classic one, Spark shows the added jar to the thread that calls `register`, and to the
        streams that this thread starts: call it in each thread that reads or writes.

    Examples
    --------
    >>> arrowipc.spark.register(spark)                                                # doctest: +SKIP
    >>> spark.range(3).write.format("arrowipc").save("numbers")                       # doctest: +SKIP
    """
    check_session(spark)
    if not has_jar(spark) and (jar := find_jar()) is not None:
        try:
            if _is_remote(spark):
                spark.addArtifact(jar)  # only for this session
            else:
                quoted = jar.replace("\\", r"\\").replace("'", r"\'")
                spark.sql(f"ADD JAR '{quoted}'")
        except Exception as error:  # servers refuse with various exceptions
            log.warning("this session does not take the jar %s: %s", jar, str(error).partition("\n")[0])
    if not has_jar(spark):
        if reader_of(spark) is None:  # another package's broken module pyspark_* stops Spark's search
            spark.dataSource.register(ArrowIpcDataSource)
        _say_once()


def has_jar(spark: SparkSession) -> bool:
    """Whether a session has the jar, in this thread; if so, register the catalog of functions on payloads."""
    if reader_of(spark) != "jvm":
        return False
    if spark.conf.get(CATALOG, None) is None:
        spark.conf.set(CATALOG, CATALOG_CLASS)
    return True


def reader_of(spark: SparkSession) -> Literal["jvm", "python"] | None:
    """Return the implementation of ``format("arrowipc")`` in a session: that in the JVM, that in Python, or None."""
    if _is_remote(spark):
        try:
            # With a file format, all columns become nullable; a Python source keeps the given schema.
            empty = spark.read.format("arrowipc").schema("x long NOT NULL").load("file:///dev/null")
            return "jvm" if empty.schema["x"].nullable else "python"
        except PySparkException as error:  # a server on Windows (file format), or one that has neither, and logs that
            return "jvm" if error.getCondition() == "PATH_NOT_FOUND" else None
    sources: Any = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource  # type: ignore[union-attr]
    state: Any = spark._jsparkSession.sessionState()
    with suppress(Exception):  # raises if no source has this name; finds Python sources only in some threads
        if sources.lookupDataSource("arrowipc", state.conf()).getName().startswith("org.arrowipc."):
            return "jvm"
    return "python" if state.dataSourceManager().dataSourceExists("arrowipc") else None


def _is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


@functools.cache
def _say_once() -> None:
    log.warning(
        "this Spark session has no jar of arrowipc, so the Python data source reads Arrow files, slowly, and writes "
        "none: start Spark, or the server of Spark Connect, with the jar that python -m arrowipc.spark.jar prints"
    )
