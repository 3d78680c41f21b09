"""Lets Spark find the data source ``arrowipc``: it imports every top-level module named ``pyspark_*``."""

from typing import Any


def __getattr__(name: str) -> Any:
    # An exception here would hide the data sources of all other pyspark_* modules too.
    if name == "DefaultSource":
        try:
            from arrowipc.spark.source import ArrowIpcDataSource
        except ImportError as error:
            raise AttributeError(f"arrowipc.spark cannot be imported: {error}") from error
        return ArrowIpcDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
