"""What the Python library makes of bytes for Spark: rows, as the core in the JVM says them, and errors."""

import json
from typing import Any

from helpers import java

import arrowipc
from arrowipc.errors import ArrowIpcError
from arrowipc.spark import to_spark_batch, to_spark_schema

OPENERS = {"": arrowipc.open, "file": arrowipc.open_file, "stream": arrowipc.open_stream}


def verdict(data: Any, kind: str = "", schema: Any = None, options: Any = None) -> tuple[list[Any], str]:
    """The first hundred rows of each batch, and the error that ended them."""
    found: list[Any] = []
    try:
        with OPENERS[kind](data, validate="full") as opened:
            schema = schema or to_spark_schema(opened.schema, options)
            for batch in opened:
                found += json.loads(java.rows(to_spark_batch(batch, schema, options).slice(0, 100)))
    except ArrowIpcError as error:
        return found, f"{type(error).__name__}: {error}"
    return found, ""
