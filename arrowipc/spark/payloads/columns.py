"""Column functions: payload cells as arrays of structs, and rows as payload cells, in queries and in SQL."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark.sql import SparkSession, types as st

import arrowipc
from arrowipc.errors import UsageError
from arrowipc.schemas import Schema
from arrowipc.spark.payloads import jvm
from arrowipc.spark.payloads.cells import PayloadDecoder, Wanted
from arrowipc.spark.payloads.decode import wanted_rows
from arrowipc.spark.payloads.encode import COLUMN_OVERHEAD, PAYLOAD_OVERHEAD, in_utc
from arrowipc.spark.payloads.options import BYTES_PER_BATCH, CodecKeywords, CodecOptions, DecodeKeywords, DecodeOptions
from arrowipc.spark.read.convert import WithSchema
from arrowipc.spark.shipping import shipped
from arrowipc.types import as_schema

if TYPE_CHECKING:
    from pyspark.sql import Column

# Metadata keys with which Spark marks structs that are special types.
MARKS = (b"variant", b"geometry", b"geography")


def from_arrow(column: "Column | str", schema: Any, **options: Unpack[DecodeKeywords]) -> "Column":
    """The rows of each Arrow IPC payload as an array of structs, as ``from_json`` and ``from_avro`` give them.

    Parameters
    ----------
    column : Column or str
        A binary column; each cell is a whole stream or a whole file, or null, which stays null.
    schema : StructType, str or Arrow schema
        Columns wanted from the payloads, as for :func:`decode_payloads`; ``decode_payloads(df, ...).schema`` returns
        all columns that there are.
    **options
        Those of :class:`DecodeOptions`, without `keep`, `error_column` and `id_column`, and "skip" for `on_error`.

    Returns
    -------
    pyspark.sql.Column
        A column of type ``array<struct<...>>``; ``inline`` makes rows of it, with the other columns of its row. An
        array is one value, so a task holds all rows of a payload at once.

    Raises
    ------
    UsageError
        For wrong arguments, and without the jar for PySpark older than 4.1.
    ArrowIpcError
        On the executors, for a broken payload; the text gives its row and partition.

    Notes
    -----
    In a session with the jar the function runs in the JVM, and SQL calls it by its schema and, if necessary, options::

        SELECT topic, inline(arrowipc.`id bigint, price double`.`on_error=null`.from_arrow(payload)) FROM messages

    Examples
    --------
    >>> rows = from_arrow("payload", "id bigint, price double")                         # doctest: +SKIP
    >>> messages.select("topic", F.inline(rows))                                        # doctest: +SKIP
    """
    name = _name_of(column)
    checked = _checked(from_arrow, options)
    wanted = wanted_rows(name, schema, checked)
    if jvm.in_jvm(SparkSession.getActiveSession(), checked):
        # With "skip", the array of a payload that cannot be read is null.
        checked = replace(checked, on_error="skip" if checked.on_error == "null" else "raise")
        return jvm.rows_of(column, name, wanted.target, wanted.given, checked).alias(f"from_arrow({name})")
    rows: Column = _from_arrow(wanted, checked)(column)
    return rows


def from_arrow_udf(schema: Any, **options: Unpack[DecodeKeywords]) -> Any:
    """:func:`from_arrow` in Python as a function for SQL, for ``spark.udf.register``, with the same errors.

    In a session with the jar, SQL need not register anything: see :func:`from_arrow`.

    >>> spark.udf.register("prices_of", from_arrow_udf("id bigint, price double"))       # doctest: +SKIP
    >>> spark.sql("SELECT topic, inline(prices_of(payload)) FROM messages")              # doctest: +SKIP
    """
    checked = _checked(from_arrow_udf, options)
    if checked.engine == "jvm":
        raise UsageError("engine: Spark registers no function of the JVM as a UDF; SQL calls arrowipc.from_arrow there")
    return _from_arrow(wanted_rows("payload", schema, checked), checked)


def _checked(function: Callable[..., Any], given: DecodeKeywords) -> DecodeOptions:
    options = DecodeOptions.of_call(function, given)
    for each in ("keep", "error_column", "id_column"):
        if getattr(options, each):
            raise UsageError(f"{each}: from_arrow has no such option, as a query keeps what it selects")
    if options.on_error == "skip":
        raise UsageError("on_error: expected 'raise' or 'null', found 'skip': a column leaves no row out")
    return options


def _name_of(column: "Column | str") -> str:
    # Both kinds of Column, classic and Connect, have the same form of str().
    return column if isinstance(column, str) else str(column).removeprefix("Column<'").removesuffix("'>")


def _from_arrow(wanted: Wanted, options: DecodeOptions) -> Any:
    if options.on_error == "null":
        # The decoder skips broken payloads and reports them; the array of such a cell is null.
        options = replace(options, on_error="skip")

    def from_arrow(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        decoder = PayloadDecoder(wanted, options)
        for cells in batches:
            yield from decoder.decode_lists(cells)

    return _arrow_udf(from_arrow, st.ArrayType(wanted.target, False))


def _arrow_udf(function: Any, type_: st.DataType) -> Any:
    try:
        from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
    except ImportError:
        raise UsageError(f"{function.__name__} needs PySpark 4.1 or newer, and this is {pyspark.__version__}") from None
    wrapped = shipped(function)
    wrapped.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    make: Any = arrow_udf  # its overloads lack a plain DataType
    return make(wrapped, type_)


# -- rows as payloads ----------------------------------------------------------------------------------------


def to_arrow(*columns: "Column | str", **options: Unpack[CodecKeywords]) -> "Column":
    """Each row's columns as one Arrow IPC payload, the inverse of :func:`from_arrow`.

    Parameters
    ----------
    *columns : Column or str
        One array of structs: its elements become the rows of the payload. One struct, or several columns: a payload
        of one row, with a large overhead (300 bytes, and 150 per column); see :func:`encode_payloads`.
    **options
        Those of :class:`CodecOptions`: `with_schema`, `compression`, `compression_level`, `checksum`, `engine`.

    Returns
    -------
    pyspark.sql.Column
        A binary column; null if a single array or struct is null. All columns of the payloads are nullable.

    Raises
    ------
    UsageError
        For wrong arguments, and without the jar for PySpark older than 4.1; on the executors for types that no payload
        can hold, which the JVM refuses before the query runs.

    Notes
    -----
    In a session with the jar the function runs in the JVM, and SQL calls it with options in its name::

        SELECT topic, arrowipc.`compression=zstd`.to_arrow(collect_list(struct(id, price))) FROM prices GROUP BY topic

    Examples
    --------
    >>> rows = F.collect_list(F.struct("id", "price"))                                   # doctest: +SKIP
    >>> prices.groupBy("topic").agg(rows.alias("rows")).select("topic", to_arrow("rows"))  # doctest: +SKIP
    """
    from pyspark.sql import functions as F

    checked = CodecOptions.of_call(to_arrow, options)
    if not columns:
        raise UsageError("to_arrow: give the columns that go into the payloads")
    if jvm.in_jvm(SparkSession.getActiveSession(), checked):
        return jvm.payload_of(F.struct(*columns), checked).alias(f"to_arrow({', '.join(map(_name_of, columns))})")
    payload: Column = to_arrow_udf(**options)(F.struct(*columns))
    return payload


def to_arrow_udf(**options: Unpack[CodecKeywords]) -> Any:
    """:func:`to_arrow` in Python as a function for SQL, of one argument: an array of structs, or a struct.

    In a session with the jar, SQL need not register anything: see :func:`to_arrow`.

    >>> spark.udf.register("to_arrow", to_arrow_udf())                                   # doctest: +SKIP
    >>> spark.sql("SELECT to_arrow(collect_list(struct(id, price))) FROM prices GROUP BY topic")  # doctest: +SKIP
    """
    checked = CodecOptions.of_call(to_arrow_udf, options)
    if checked.engine == "jvm":
        raise UsageError("engine: Spark registers no function of the JVM as a UDF; SQL calls arrowipc.to_arrow there")
    codec = checked.codec

    def to_arrow(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for cells in batches:
            yield from _encoded(cells, codec)

    return _arrow_udf(to_arrow, st.BinaryType())


def _encoded(cells: pa.Array, codec: dict[str, Any]) -> Iterator[pa.Array]:
    """Yield the payloads of the cells, in pieces of about `BYTES_PER_BATCH`."""
    if pa.types.is_struct(cells.type) and cells.type.num_fields == 1:
        only = cells.type.field(0).type
        if pa.types.is_struct(only) or (pa.types.is_list(only) and pa.types.is_struct(only.value_type)):
            cells = cells.flatten()[0]
    type_ = cells.type.value_type if pa.types.is_list(cells.type) else cells.type
    if not pa.types.is_struct(type_):
        raise UsageError(f"to_arrow: expected a struct or an array of structs, found {cells.type}; use struct(...)")
    for field in type_:
        _check_marks(field, field.name)
    fields = as_schema(pa.schema([pa.field(field.name, field.type) for field in type_]))
    schema = pa.schema(Schema([in_utc(field) for field in fields]))
    payload_bytes = cells.nbytes / max(len(cells), 1) + PAYLOAD_OVERHEAD + COLUMN_OVERHEAD * len(schema)
    step = max(1, int(BYTES_PER_BATCH / payload_bytes))
    for start in range(0, len(cells), step):
        some = cells.slice(start, step)
        rows, offsets = some, np.arange(len(some) + 1)
        if pa.types.is_list(some.type):
            rows, offsets = some.values, some.offsets.to_numpy()
            rows, offsets = rows.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0]
        batch = pa.RecordBatch.from_arrays(rows.flatten(), names=schema.names)
        source = arrowipc.RecordBatch.from_arrow(WithSchema(batch, schema))
        payloads = pa.array(arrowipc.encode_payloads(source, offsets, **codec))
        yield pc.if_else(some.is_valid(), payloads, None) if some.null_count else payloads


def _check_marks(field: pa.Field, path: str) -> None:
    """Refuse structs that Spark marks as special types."""
    for index in range(field.type.num_fields):
        child = field.type.field(index)
        mark = next((mark.decode() for mark in MARKS if mark in (child.metadata or {})), None)
        if mark is not None:
            raise UsageError(
                f"to_arrow: column {path!r} is a {mark}, which payloads cannot hold; cast it or leave it out"
            )
        _check_marks(child, f"{path}.{child.name}")
