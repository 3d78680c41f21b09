"""Arrow IPC in Apache Spark: the data source ``arrowipc``, payload columns, and conversion of types.

>>> import arrowipc.spark
>>> from arrowipc.spark import decode_payloads
>>> spark = arrowipc.spark.session()                                             # doctest: +SKIP
>>> flights = spark.read.format("arrowipc").load("flights/*.arrow")              # doctest: +SKIP
>>> flights = decode_payloads(messages, "payload", keep=["topic"])               # doctest: +SKIP

Needs pyspark, pyarrow and pandas on the driver and on the executors. Importing this package imports
neither Spark nor pyarrow; the first use of one of its names does.
"""

from importlib import import_module
from sys import modules
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import by_name, missing
from arrowipc.errors import missing_package
from arrowipc.options import with_advice

if TYPE_CHECKING:
    from arrowipc.spark.frames import collect, create
    from arrowipc.spark.jar import find_jar
    from arrowipc.spark.payloads.columns import from_arrow, from_arrow_udf, to_arrow, to_arrow_udf
    from arrowipc.spark.payloads.decode import decode_payload_batches, decode_payloads
    from arrowipc.spark.payloads.encode import encode_payload_batches, encode_payloads, payload_schema
    from arrowipc.spark.payloads.options import CodecOptions, DecodeOptions, EncodeOptions
    from arrowipc.spark.read.convert import BatchConverter, to_spark_batch
    from arrowipc.spark.read.describe import count_rows, describe
    from arrowipc.spark.sessions import configure, register, session
    from arrowipc.spark.shared import Shared, share
    from arrowipc.spark.source import ArrowIpcDataSource
    from arrowipc.spark.types import TypeOptions, to_spark_schema

__all__ = [
    "ArrowIpcDataSource",
    "BatchConverter",
    "CodecOptions",
    "DecodeOptions",
    "EncodeOptions",
    "Shared",
    "TypeOptions",
    "collect",
    "configure",
    "count_rows",
    "create",
    "decode_payload_batches",
    "decode_payloads",
    "describe",
    "encode_payload_batches",
    "encode_payloads",
    "find_jar",
    "from_arrow",
    "from_arrow_udf",
    "payload_schema",
    "register",
    "session",
    "share",
    "to_arrow",
    "to_arrow_udf",
    "to_spark_batch",
    "to_spark_schema",
]

_MODULES = {
    "frames": ("collect", "create"),
    "jar": ("find_jar",),
    "payloads.columns": ("from_arrow", "from_arrow_udf", "to_arrow", "to_arrow_udf"),
    "payloads.decode": ("decode_payload_batches", "decode_payloads"),
    "payloads.encode": ("encode_payload_batches", "encode_payloads", "payload_schema"),
    "payloads.options": ("CodecOptions", "DecodeOptions", "EncodeOptions"),
    "read.convert": ("BatchConverter", "to_spark_batch"),
    "read.describe": ("count_rows", "describe"),
    "sessions": ("configure", "register", "session"),
    "shared": ("Shared", "share"),
    "source": ("ArrowIpcDataSource",),
    "types": ("TypeOptions", "to_spark_schema"),
}
#: What there is here -> the names that Spark and pyarrow have for it.
_INSTEAD = by_name(
    {
        "collect(df) makes a Table, which has it": "to_pandas to_polars toArrow toPandas",
        "count_rows(spark, path)": "count num_rows",
        "create(spark, data)": "create_dataframe createDataFrame from_pandas from_polars",
        "decode_payloads(df, column), from_arrow(column, schema)": "decode decode_payload",
        "describe(spark, path)": "infer_schema schema_of stats",
        'df.write.format("arrowipc").save(path)': "save write write_arrow",
        "encode_payloads(df, rows_per_payload=...), to_arrow(column)": "encode encode_payload",
        "find_jar()": "jar jars packages",
        "payload_schema(df)": "from_spark_schema to_arrow_schema",
        "register(spark)": "enable install",
        "session(master) starts one, or finds the one that runs": "builder get_session SparkSession",
        "share(data) for tasks, create(spark, data) for rows": "broadcast parallelize",
        'spark.read.format("arrowipc").load(path)': "load read_arrow",
    }
)
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise missing(f"module {__name__!r}", name, modules[__name__], _INSTEAD)
    try:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("pyspark", "pyarrow", "pandas"):
            raise
        raise ModuleNotFoundError(
            f"{missing_package(f'arrowipc.spark.{name}', package)}, on the driver and on the executors ({error})",
            name=error.name,
        ) from error
    if not isinstance(value, type):
        value = with_advice(value)
        setattr(modules[value.__module__], name, value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
