"""The functions on payloads in the JVM: a check whether a session has them, and columns that call them."""

import base64
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as st

from arrowipc.errors import UsageError
from arrowipc.schemas import Schema
from arrowipc.spark.payloads.options import CodecOptions, DecodeOptions
from arrowipc.spark.sessions import CATALOG, CATALOG_CLASS, has_jar, log

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

#: Options that only Python has -> their values for which the JVM does the same.
PYTHON_ONLY: dict[str, tuple[Any, ...]] = {
    "validate": ("full", "none"),
    "verify": (False,),
    "extensions": (False,),
    "compression_level": (None,),
    "checksum": (False,),
}
#: The setting with which Spark passes texts and binaries to Python in Arrow's large types.
LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"


def in_jvm(spark: "SparkSession | None", options: DecodeOptions | CodecOptions) -> bool:
    """Whether payloads are decoded or encoded in the JVM, as ``engine`` says, or if possible for "auto"."""
    if options.engine == "python":
        return False
    reason = _missing(spark, options)
    if reason and options.engine == "jvm":
        raise UsageError(f"engine: the JVM cannot do it, as {reason}")
    if reason:
        log.info("payloads are converted in Python: %s", reason)
    return not reason


def _missing(spark: "SparkSession | None", options: DecodeOptions | CodecOptions) -> str:
    """Return why the JVM cannot do it; if it can, return an empty text, after its functions were registered."""
    for name, usual in PYTHON_ONLY.items():
        if (value := getattr(options, name, usual[0])) not in usual:
            return f"only Python has {name}={value!r}"
    if spark is None or not has_jar(spark):
        return "the session lacks the jar: call arrowipc.spark.register(spark)"
    if isinstance(options, CodecOptions) and spark.conf.get(LARGE_TYPES, "false") == "true":
        return f"only Python writes the types that {LARGE_TYPES} asks for"
    known = spark.conf.get(CATALOG)
    return f"{CATALOG} is {known}" if known != CATALOG_CLASS else ""


def rows_of(column: Any, name: str, target: st.StructType, given: Schema | None, options: DecodeOptions) -> "Column":
    """Return a column with the rows of each payload as an array of structs; `name` names the column in errors.

    With ``on_error="skip"`` the array of a payload that cannot be read is null; with "null" it is one row of nulls.
    """
    parts = {
        "column": name,
        "on_error": {"raise": "raise", "skip": "null", "null": "row"}[options.on_error],
        "error_column": options.error_column or "",
        "validate": options.validate,
        "schema": base64.b64encode(given.serialize()).decode() if given is not None else "",
    }
    return _call("from_arrow", column, [target.json()], parts | _types(options))


def schema_of(column: Any, options: DecodeOptions) -> "Column":
    """Return a column with the Spark schema of each payload, as JSON; null if it cannot be read."""
    return _call("schema_of_arrow", column, [], {"on_error": "null"} | _types(options))


def payload_of(rows: Any, options: CodecOptions) -> "Column":
    """Return a column with the payload of each array of structs, or struct."""
    parts = {"compression": options.compression or "", "with_schema": str(options.with_schema).lower()}
    return _call("to_arrow", rows, [], parts)


def _types(options: DecodeOptions) -> dict[str, str]:
    parts = {"prefix": str(options.prefix), "nanoseconds": options.nanoseconds, "unsupported": options.unsupported}
    return parts | {"extensions": str(options.extensions).lower()}


def _call(function: str, column: Any, texts: list[str], parts: dict[str, str]) -> "Column":
    from pyspark.sql import functions as F

    texts += [f"{name}={value}" for name, value in parts.items() if value]
    name = ".".join("`" + text.replace("`", "``") + "`" for text in ("arrowipc", *texts, function))
    return F.call_function(name, column)
