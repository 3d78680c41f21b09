"""Rows by the folders that the option ``partitionBy`` puts them into, ``dt=2024-05-31/``, named as Spark names them."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as st

from arrowipc.dataset.partitioning import folder_name
from arrowipc.errors import UsageError

__all__ = ["by_folder", "check_keys"]

_KEYS = (
    st.StringType,
    st.CharType,
    st.VarcharType,
    st.BooleanType,
    st.IntegralType,
    st.DecimalType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
)


def check_keys(schema: st.StructType, names: Sequence[str]) -> None:
    """Refuse keys that are no columns, or whose values Spark or we have no name for."""
    for name in names:
        if name not in schema.names:
            raise UsageError(
                f"option partitionBy: there is no column {name!r}; the columns are {', '.join(schema.names)}"
            )
        if not isinstance(schema[name].dataType, _KEYS):
            kind = schema[name].dataType.simpleString()
            raise UsageError(
                f"option partitionBy: column {name!r} is {kind}, which cannot name folders; cast it to string"
            )
    if len({*names}) < len(names) or len(names) == len(schema.names):
        raise UsageError("option partitionBy: each column can be named once, and one has to be left for the files")


def by_folder(batch: pa.RecordBatch, keys: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of a batch by the folder that they belong to, in their order, without the columns of its name."""
    rest = batch.select([name for name in batch.schema.names if name not in keys])
    columns = {str(i): _grouped(batch.column(name)) for i, name in enumerate(keys)}
    rows = pa.table({**columns, "row": np.arange(batch.num_rows)})
    found = rows.group_by([*columns], use_threads=False).aggregate([("row", "list")]).combine_chunks()
    lists = found["row_list"]
    for i, values in enumerate(found.select([*columns]).to_pylist()):
        texts = [values[name] for name in columns]
        folder = "/".join([folder_name(name, _text(value)) for name, value in zip(keys, texts, strict=True)])
        yield folder, rest if len(found) == 1 else rest.take(lists[i].values)


def _text(value: Any) -> str | None:
    return format(value, "f") if isinstance(value, Decimal) else value


def _grouped(values: Any) -> Any:
    """The values as Spark casts them to string, in the time zone of the session; decimals as they are."""
    if pa.types.is_decimal(values.type):
        return values
    if pa.types.is_timestamp(values.type):
        local = values if values.type.tz is None else pc.local_timestamp(values)
        return pc.replace_substring_regex(local.cast(pa.string()), r"\.?0+$", "")
    return values.cast(pa.string())
