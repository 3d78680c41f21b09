"""The Python data source under a name of its own, so that a jar in the session does not take its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arrowipc.spark import ArrowIpcDataSource

__all__ = ["FORMAT", "given", "register_python"]

FORMAT = "arrowipc_python"


def register_python(spark: SparkSession) -> None:
    """Let ``format(FORMAT)`` be the Python data source of a session."""
    from arrowipc.spark import ArrowIpcDataSource

    # No module has this class, so it travels whole to the processes that plan.
    attributes = {"name": classmethod(lambda cls: "arrowipc_python")}
    spark.dataSource.register(type("PythonSource", (ArrowIpcDataSource,), attributes))


def given(path: Any, **options: Any) -> ArrowIpcDataSource:
    """The data source as Spark makes it: options are texts under lower-case names."""
    from arrowipc.spark import ArrowIpcDataSource

    texts = {
        name.lower(): str(value).lower() if value in (True, False) else str(value) for name, value in options.items()
    }
    return ArrowIpcDataSource({"path": str(path), **texts})
