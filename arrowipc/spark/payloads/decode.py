"""Decodes a binary column whose cells are Arrow IPC: a complete stream, a complete file, or bare messages each."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
from pyspark.sql import types as st

import arrowipc
from arrowipc.arguments import check_integer
from arrowipc.errors import ArrowIpcError, UsageError
from arrowipc.spark.payloads import jvm
from arrowipc.spark.payloads.cells import PayloadDecoder, Wanted, nullable, payload_cells
from arrowipc.spark.payloads.options import ID_BYTES, DecodeKeywords, DecodeOptions
from arrowipc.spark.shipping import check_frame, shipped
from arrowipc.spark.types import arrow_schema_of, find_name, index_of, to_spark_schema
from arrowipc.spark.unify import merge_fields
from arrowipc.types import as_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def decode_payloads(
    df: "DataFrame",
    column: str,
    schema: Any = None,
    *,
    sample: int = 10,
    **options: Unpack[DecodeKeywords],
) -> "DataFrame":
    """Turn a binary column of Arrow IPC payloads into the rows they hold.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        A data frame with a binary column; each cell is a whole stream or a whole file, or null (no rows). Streaming
        data frames work too, if `schema` is given.
    column : str
        Name of that column.
    schema : StructType, str or Arrow schema, optional
        Columns wanted from the payloads, found by name; a text is DDL (``"id bigint, tag string"``). With an
        Arrow schema (pyarrow's or arrowipc's) cells may also be bare RecordBatch messages of that schema. Default: the
        columns of the first payloads, which a small job reads at once. Columns that a payload lacks are null; a
        payload that has none of them is broken, and so is an empty cell. Other types are converted if no value
        changes.
    sample : int, default 10
        Number of payloads that are read if no `schema` is given: the columns are those of all of them, in types that
        hold the values of all.
    **options
        Those of :class:`DecodeOptions`.

    Returns
    -------
    pyspark.sql.DataFrame
        The kept columns and the payloads' columns, one row per row of a payload.

    Raises
    ------
    UsageError
        For a column that `df` does not have, a name that occurs twice, no payload to take the schema from,
        or payloads in the sample that do not go together.
    ArrowIpcError
        On the executors, for a broken payload; the text gives its row and partition.

    Examples
    --------
    >>> decode_payloads(messages, "payload", keep=["topic"]).groupBy("topic").count()   # doctest: +SKIP
    """
    from pyspark.sql import functions as F

    checked = DecodeOptions.of_call(decode_payloads, options)
    check_frame(df)
    keep = list(checked.keep)
    for name in (column, *keep):
        find_name(name, df.columns, "the data frame")
    if checked.id_column is not None:
        df, keep = _with_ids(df, column, checked), [*keep, checked.id_column]
    if isinstance(schema, st.StructType | str) and checked.columns is not None:
        raise UsageError("give either schema= or columns=: a schema already says which columns are wanted")
    if schema is None:
        schema = infer_schema(df, column, checked, sample)
    wanted = wanted_rows(column, schema, checked)
    source = df.select(*map(quoted, dict.fromkeys((column, *keep))))
    fields = source.schema.fields
    kept = [fields[find_name(name, source.columns, "the data frame")] for name in keep]
    schema = output_schema(kept, wanted.target, checked)
    if jvm.in_jvm(df.sparkSession, checked):
        target = st.StructType(schema.fields[len(kept) : len(kept) + len(wanted.target)])
        rows = jvm.rows_of(quoted(column), column, target, wanted.given, checked)
        return source.select(*map(quoted, keep), F.inline(rows))
    for field in kept:
        if isinstance(field.dataType, st.YearMonthIntervalType | st.CalendarIntervalType):
            raise UsageError(
                f"keep: Python cannot be handed column {field.name!r} of type "
                f"{field.dataType.simpleString()}; cast it in Spark"
            )
    checked = replace(checked, keep=keep)

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _decoded(batches, wanted, checked)

    return map_in_arrow(source, decode, schema)


def decode_payload_batches(
    batches: Iterable[pa.RecordBatch], column: str, schema: Any, **options: Unpack[DecodeKeywords]
) -> Iterator[pa.RecordBatch]:
    """Decode the payloads of an iterator of batches, for use in a ``mapInArrow`` function of your own.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        The batches that ``mapInArrow`` passes.
    column : str
        The binary column.
    schema : StructType or Arrow schema
        The columns wanted from the payloads; see :func:`decode_payloads`. No text: only the driver reads DDL.
    **options
        Those of :class:`DecodeOptions`.

    Yields
    ------
    pyarrow.RecordBatch
        The kept columns, then those of `schema`, then the error column; never without rows.

    Raises
    ------
    UsageError
        For wrong arguments.
    ArrowIpcError
        For a payload that cannot be read, unless `on_error` says otherwise.
    """
    if isinstance(schema, str):
        raise UsageError("schema: DDL can be read on the driver only; call StructType.fromDDL there")
    checked = DecodeOptions.of_call(decode_payload_batches, options)
    if checked.id_column is not None or checked.engine == "jvm":
        raise UsageError("id_column and engine='jvm' are for decode_payloads: batches that are in Python stay there")
    return _decoded(batches, wanted_rows(column, schema, checked), checked)


def _with_ids(df: "DataFrame", column: str, options: DecodeOptions) -> "DataFrame":
    """Return the data frame with a column of the identifiers in the prefixes of payloads."""
    from pyspark.sql import functions as F

    name = options.id_column or ""
    if index_of(name, df.columns) is not None:
        raise UsageError(f"id_column: there is a column {name!r} already; choose another name")
    digits = F.hex(F.substring(quoted(column), options.prefix - ID_BYTES + 1, ID_BYTES))
    return df.withColumn(name, F.conv(digits, 16, 10).cast("bigint"))


def wanted_rows(column: str, schema: Any, options: DecodeOptions) -> Wanted:
    """Return the columns that a schema, or some columns of an Arrow schema, ask for; only the driver reads DDL."""
    given = None
    if isinstance(schema, str):
        schema = st.StructType.fromDDL(schema)
    if isinstance(schema, st.StructType):
        target = schema
    else:
        given = as_schema(schema)
        target = to_spark_schema(given, options)
    if options.columns is not None:
        target = narrowed(target, options.columns)
    if not target.fields and not options.keep and options.id_column is None:
        raise UsageError("no column is wanted from the payloads, and none is kept")
    arrow_schema_of(target, variants=False)  # raises here, on the driver, for types that no payload can have
    return Wanted(column, target, given)


def _decoded(batches: Iterable[pa.RecordBatch], wanted: Wanted, options: DecodeOptions) -> Iterator[pa.RecordBatch]:
    decoder = PayloadDecoder(wanted, options)
    for batch in batches:
        yield from decoder.decode(batch)


def narrowed(schema: st.StructType, columns: Any) -> st.StructType:
    """Return the columns of these names or numbers, in order; ``a.b`` is field b of a, unless a column is named so."""
    order: dict[str, list[str] | None] = {}
    for each in columns:
        if isinstance(each, int) and not -len(schema) <= each < len(schema):
            raise UsageError(f"columns: there is no column {each}, the payloads have {len(schema)}: {schema.names}")
        name = schema.names[each] if isinstance(each, int) else each
        head, _, rest = (name, "", "") if name in schema.names else name.partition(".")
        head = schema.names[find_name(head, schema.names, "the schema of the payloads")]
        inner = order.setdefault(head, [])
        if not rest:
            order[head] = None
        elif inner is not None:
            inner.append(rest)
    fields = []
    for head, inner in order.items():
        field = schema[head]
        if inner is not None:
            if not isinstance(field.dataType, st.StructType):
                raise UsageError(f"column '{head}.{inner[0]}': {head!r} is not a struct")
            field = st.StructField(head, narrowed(field.dataType, inner), field.nullable)
        fields.append(field)
    return st.StructType(fields)


def output_schema(kept: Sequence[st.StructField], target: st.StructType, options: DecodeOptions) -> st.StructType:
    """Return the schema of the output: the kept columns, the decoded ones, and the error column."""
    error_column = options.error_column
    taken = {field.name.lower() for field in kept}
    for field in target.fields:
        if field.name.lower() in taken:
            raise UsageError(
                f"the payloads have a column {field.name!r} and so does keep=; rename the column of the data frame"
            )
    fields = list((nullable(target) if options.on_error == "null" else target).fields)
    if error_column is not None:
        if error_column.lower() in taken | {field.name.lower() for field in fields}:
            raise UsageError(f"error_column: there is a column {error_column!r} already; choose another name")
        fields.append(st.StructField(error_column, st.StringType()))
    return st.StructType([*kept, *fields])


def quoted(name: str) -> "Column":
    """Return the column of exactly this name, which may contain dots."""
    from pyspark.sql import functions as F

    escaped = name.replace("`", "``")
    return F.col(f"`{escaped}`")


def map_in_arrow(df: "DataFrame", function: Any, schema: st.StructType) -> "DataFrame":
    """Call ``df.mapInArrow``; rename columns with a dot in their names before, because Spark fails for them."""
    names = df.columns
    if not any("." in name for name in names):
        return df.mapInArrow(shipped(function), schema)

    def renamed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batch.rename_columns(names) for batch in batches)

    return df.toDF(*(f"c{index}" for index in range(len(names)))).mapInArrow(shipped(renamed), schema)


# -- inference of the schema of payloads ---------------------------------------------------------------------


def infer_schema(df: "DataFrame", column: str, options: DecodeOptions, sample: int) -> st.StructType:
    """Return the merged columns of the first payloads; ignore unreadable ones, for which decoding raises later."""
    if df.isStreaming:
        raise UsageError(
            f"column {column!r}: the payloads of a streaming data frame cannot be looked at beforehand; pass schema="
        )
    check_integer("sample", sample, 1, 2**31 - 1)

    def schemas(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _schemas_of(batches, sample, options.prefix)

    payload = quoted(column)
    source = df.select(payload.alias("payload")).where(payload.isNotNull())
    if jvm.in_jvm(df.sparkSession, options):
        texts = [row[0] for row in source.select(jvm.schema_of(quoted("payload"), options)).head(sample)]
        if texts and None not in texts:
            return _merged([st.StructType.fromJson(json.loads(text)) for text in texts])
        # Otherwise let Python find the error.
    found = source.mapInArrow(shipped(schemas), "schema binary, problem string").head(sample)
    if not found:
        raise UsageError(f"column {column!r} holds no payload to take the schema from; pass schema=")
    readable = [row["schema"] for row in found if row["schema"] is not None]
    if not readable:
        raise UsageError(
            f"column {column!r}: none of the first {len(found)} payloads has a schema that can be read; pass "
            f"schema=. The first: {found[0]['problem']}"
        )
    return _merged([to_spark_schema(arrowipc.read_schema(bytes(each)), options) for each in readable])


def _merged(schemas: Sequence[st.StructType]) -> st.StructType:
    try:
        return merge_fields(schemas)
    except UsageError as error:
        raise UsageError(f"payloads of the sample do not go together: {error}") from None


def _schemas_of(batches: Iterable[pa.RecordBatch], most: int, prefix: int) -> Iterator[pa.RecordBatch]:
    """Yield the schema message, or the error, of each of the first cells."""
    for batch in batches:
        cells = payload_cells(batch, "payload", prefix).slice(0, most)
        schemas: list[bytes | None] = []
        problems: list[str | None] = []
        for cell in cells:
            try:
                with arrowipc.open(memoryview(cell.as_buffer())) as reader:
                    schemas.append(bytes(reader.schema.serialize()))
                problems.append(None)
            except ArrowIpcError as error:
                schemas.append(None)
                problems.append(str(error))
        arrays = [pa.array(schemas, pa.binary()), pa.array(problems, pa.string())]
        if len(cells):
            yield pa.RecordBatch.from_arrays(arrays, names=["schema", "problem"])
        most -= len(cells)
        if not most:
            return
