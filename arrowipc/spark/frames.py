"""Spark data frames from Arrow data on the driver, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import arrowipc
from arrowipc.columns.array import Array
from arrowipc.spark.payloads.decode import decode_payloads
from arrowipc.spark.shipping import check_frame, check_session
from arrowipc.spark.types import TypeOptions
from arrowipc.tables import ChunkedArray, Table, chunked_array

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: About the bytes of rows in one payload: so there are enough payloads for all cores, but few calls for each.
CELL_BYTES = 1 << 20
#: Partitions of fewer than `MOST_CELLS` cells each; more data have more partitions.
PARTITIONS = 32
MOST_CELLS = 64


def create(spark: "SparkSession", data: Any, options: TypeOptions | Mapping[str, Any] | None = None) -> "DataFrame":
    """Make a Spark data frame of Arrow data.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect. With the jar (see `register`), the rows are decoded in the JVM.
    data : Table, reader, dict of columns, or object with ``__arrow_c_stream__`` or ``__arrow_c_array__``
        Anything that :func:`arrowipc.table` takes, such as tables and data frames of pyarrow, polars and DuckDB. All
        of it is held in the driver's memory as payloads.
    options : TypeOptions or mapping, optional
        Conversion of values that Spark cannot hold as they are; see :class:`TypeOptions`.

    Returns
    -------
    pyspark.sql.DataFrame
        The rows in their order, with the types of `to_spark_schema`. ``createDataFrame`` gives the same types, but it
        refuses dictionaries, views, unsigned integers, run-end encoding and unions, and reads timestamps without a
        time zone as if they were in that of the session.

    Raises
    ------
    UnsupportedError
        For a type that Spark cannot hold.

    Examples
    --------
    >>> df = create(spark, {"id": [1, 2], "name": ["a", "b"]})                       # doctest: +SKIP
    >>> df = create(spark, arrowipc.open("prices.arrow"))                            # doctest: +SKIP
    """
    check_session(spark)
    table = arrowipc.table(data)
    if not table.column_names:
        return spark.range(table.num_rows).select()
    pieces: list[Array] = []
    for batch in table.batches:
        rows = max(1, batch.num_rows * CELL_BYTES // max(batch.nbytes, 1))
        pieces.append(arrowipc.encode_payloads(batch, rows_per_payload=rows))
    frame = _cells(spark, chunked_array(pieces, "binary"))
    return decode_payloads(frame, "payload", table.schema, **asdict(TypeOptions.of(options)))


def _cells(spark: "SparkSession", payloads: ChunkedArray) -> "DataFrame":
    """Make a data frame of payloads, without a Python object for each where pyarrow is there."""
    try:
        import pyarrow as pa
    except ImportError:
        return spark.createDataFrame([(cell,) for cell in payloads.to_pylist()], "payload binary")
    # Spark makes a partition of each chunk.
    size = min(max(len(payloads) // PARTITIONS, 1), MOST_CELLS)
    chunks = [payloads.slice(at, size).combine() for at in range(0, len(payloads), size)]
    return spark.createDataFrame(pa.table({"payload": chunked_array(chunks, "binary").to_arrow()}))


def collect(df: "DataFrame") -> Table:
    """Collect the rows of a Spark data frame on the driver.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Classic or Connect.

    Returns
    -------
    Table
        The rows in the memory of the result of Spark's ``toArrow``, with its types.

    Examples
    --------
    >>> collect(df.where("price > 100")).to_pylist()                                 # doctest: +SKIP
    """
    check_frame(df)
    return Table.from_arrow(df.toArrow())
