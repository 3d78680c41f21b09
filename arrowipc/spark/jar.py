"""The jar with which Spark reads Arrow files without Python: where it is, and how a session gets it.

``python -m arrowipc.spark.jar`` prints its path, for ``spark-submit --jars``, or says why there is none and exits
with 1. Where Spark has it on its class path, the name ``arrowipc`` means the source in it, which leaves writing,
streams and whatever it cannot do to Python.
"""

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["configure", "find_jar", "session"]

log: logging.Logger = logging.getLogger("arrowipc.spark")

JAR = Path(__file__).with_name("arrowipc-spark.jar")
#: The only major version of Spark whose interfaces it was compiled for.
MAJOR = "4"


def find_jar() -> str | None:
    """Return the path of the jar; None where the package was built without a JDK, or is for another Spark.

    Returns
    -------
    str or None
        For ``spark.jars``, ``--jars`` and ``spark.addArtifact`` of Spark Connect.
    """
    return str(JAR) if _why_not() is None else None


def _why_not() -> str | None:
    try:
        from pyspark import __version__ as version
    except ImportError:
        version = MAJOR
    if version.split(".")[0] != MAJOR:
        return f"its jar is for Spark {MAJOR}, and this is {version}"
    return None if JAR.is_file() else "it was built without a JDK, and has no jar"


def configure(builder: Any) -> Any:
    """Let the sessions of a builder read Arrow files without Python, and name them in SQL.

    Parameters
    ----------
    builder : SparkSession.Builder
        Changed: the jar joins ``spark.jars``, and ``spark.sql.catalog.arrowipc`` makes ``SELECT * FROM
        arrowipc.`path``` work. A Spark that runs already does not change.

    Returns
    -------
    SparkSession.Builder
        The same. Where there is no jar nothing is changed, the log says why, and Python reads.

    Examples
    --------
    >>> from arrowipc.spark import configure
    >>> spark = configure(SparkSession.builder.master("local[2]")).getOrCreate()      # doctest: +SKIP
    """
    why_not = _why_not()
    if why_not is not None:
        log.warning("Python reads Arrow files in Spark: %s", why_not)
        return builder
    # What a builder was told nobody else says; a second value of a setting would replace the first.
    others = str(getattr(builder, "_options", {}).get("spark.jars", "")).split(",")
    jars = [each for each in others if each and each != str(JAR)]
    builder = builder.config("spark.jars", ",".join([*jars, str(JAR)]))
    return builder.config("spark.sql.catalog.arrowipc", "org.arrowipc.spark.ArrowIpcCatalog")


def session(master: str | None = None, settings: Mapping[str, Any] | None = None) -> "SparkSession":
    """Start Spark, or take the session that runs, with the data source ``arrowipc`` in it: see `configure`, `register`.

    Parameters
    ----------
    master : str, optional
        As for ``spark-submit --master``; default: what Spark's own configuration says.
    settings : mapping of str to str, optional
        Of Spark, such as ``{"spark.sql.shuffle.partitions": 8}``.

    Returns
    -------
    pyspark.sql.SparkSession

    Examples
    --------
    >>> import arrowipc.spark
    >>> spark = arrowipc.spark.session("local[2]")                                    # doctest: +SKIP
    >>> spark.sql("SELECT count(*) FROM arrowipc.`events`").show()                    # doctest: +SKIP
    """
    from pyspark.sql import SparkSession

    from arrowipc.spark.source import register

    builder: Any = SparkSession.builder
    if master is not None:
        builder = builder.master(master)
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    spark: SparkSession = configure(builder).getOrCreate()
    register(spark)
    return spark


def main() -> int:
    """Print the path."""
    why_not = _why_not()
    if why_not is not None:
        print(f"arrowipc: {why_not}: Python reads Arrow files in Spark", file=sys.stderr)
        return 1
    print(JAR)
    return 0


if __name__ == "__main__":
    sys.exit(main())
