"""The columns of a read that no batch has: folder keys, the position of a row, and what is wrong with its record."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as st

from arrowipc.columns.pruning import fields_at
from arrowipc.errors import UsageError
from arrowipc.schema import Schema
from arrowipc.spark.read.folders import typed_key
from arrowipc.spark.types import arrow_schema_of, find_name, index_of

if TYPE_CHECKING:
    from arrowipc.spark.options import ReadOptions

__all__ = ["FileColumns", "added_columns", "check_added", "check_own", "chosen_columns"]


def added_columns(options: "ReadOptions") -> dict[str, st.DataType]:
    """The columns of withMetadata and of mode PERMISSIVE, which are filled where a schema has them."""
    added: dict[str, st.DataType] = {}
    if options.metadata:
        added = {"_file": st.StringType(), "_batch": st.IntegerType(), "_row": st.LongType()}
    if options.mode == "permissive":
        added[options.corrupt_column] = st.StringType()
    return added


def check_added(schema: st.StructType, options: "ReadOptions") -> None:
    """Refuse a schema into which these columns would not fit, before any data moves."""
    added = added_columns(options)
    for field in schema.fields:
        if added.get(field.name, field.dataType) != field.dataType:
            raise UsageError(
                f"column {field.name!r} takes what withMetadata or mode PERMISSIVE adds, and the schema has it as "
                f"{field.dataType.simpleString()}: make it a {added[field.name].simpleString()}, or name another "
                "column for the texts of errors with the option columnNameOfCorruptRecord"
            )
        if options.mode == "permissive" and not field.nullable:
            raise UsageError(
                f"column {field.name!r} is NOT NULL in the schema, and mode PERMISSIVE gives a row of "
                "nulls for what is damaged; make it nullable, or choose FAILFAST or DROPMALFORMED"
            )


def check_own(names: Iterable[str], added: Iterable[str], path: str) -> None:
    """Refuse columns of a file in whose place others would come."""
    for name in {*names}.intersection(added):
        raise UsageError(
            f"{path} has a column {name!r} of its own, and withMetadata or mode PERMISSIVE adds one; leave the option "
            "out, or name another one for the texts of errors with the option columnNameOfCorruptRecord"
        )


def chosen_columns(schema: Schema, target: st.StructType, columns: Sequence[str] | None, path: str) -> Any:
    """What to read of a file of a schema, None for all: some `columns`, by name or path, or those of `target`."""
    names = schema.names
    if columns is None:
        found = [find_name(name, names, path, optional=True) for name in target.names]
        return None if names == target.names else [index for index in found if index is not None]
    for name in target.names:
        if not any(f"{column}.".lower().startswith(f"{name}.".lower()) for column in columns):
            raise UsageError(f"the schema has a column {name!r}, and the option columns not: leave one of them out")
    there = [column for column in columns if fields_at(list(schema), column)]
    for column in columns:
        # Of a struct without this field some other has to say where it is null.
        head = column.split(".")[0]
        if column not in there and head in names and not any(f"{each}.".startswith(f"{head}.") for each in there):
            there.append(head)
    return there


class FileColumns:
    """What of the schema of a read one file has to give, and how that becomes the whole schema.

    The file's folders have `keys`, and its columns `names`.
    """

    def __init__(
        self,
        schema: st.StructType,
        options: "ReadOptions",
        path: str,
        keys: Mapping[str, str | None],
        names: Sequence[str] = (),
    ) -> None:
        added = [name for name in added_columns(options) if name in schema.names]
        check_own(names, added, path)
        self._schema = arrow_schema_of(schema)
        self._options = options
        self._keys = [field for field in schema.fields if index_of(field.name, [*keys]) is not None]
        #: Column that is none of the file's -> its value.
        self._added: dict[str, Any] = dict.fromkeys(added)
        others = {*added, *[field.name for field in self._keys]}
        #: The columns that the file's batches have to give.
        self.target: st.StructType = st.StructType([field for field in schema.fields if field.name not in others])
        self._place(path, keys)

    def _place(self, path: str, keys: Mapping[str, str | None]) -> None:
        self.path: str = path
        self._added = {**self._added, **{field.name: typed_key(path, keys, field) for field in self._keys}}

    def of_file(self, path: str, keys: Mapping[str, str | None]) -> "FileColumns":
        """The same for a file that has other values of the same keys, and columns of the same names."""
        other = copy(self)
        other._place(path, keys)
        return other

    def complete(self, batch: pa.RecordBatch, number: int, first: int) -> pa.RecordBatch:
        """The rows of `target`, from row `first` of batch `number` of the file, as those of the whole schema."""
        if not self._added:
            return batch
        rows = np.arange(first, first + batch.num_rows) if "_row" in self._added else None
        return self._rows(batch.num_rows, batch.columns, {"_batch": number, "_row": rows})

    def malformed(self, number: int | None, error: str) -> pa.RecordBatch:
        """The row that stands for a batch, or for a whole file."""
        return self._rows(1, (), {"_batch": number, self._options.corrupt_column: error})

    def _rows(self, count: int, columns: Iterable[Any], values: dict[str, Any]) -> pa.RecordBatch:
        left = iter(columns)
        values = {**self._added, **values, "_file": self.path}
        arrays = []
        for field in self._schema:
            value = values[field.name] if field.name in self._added else next(left, None)
            if isinstance(value, np.ndarray):
                value = pa.array(value)
            elif not isinstance(value, pa.Array):
                value = pa.repeat(value if isinstance(value, pa.Scalar) else pa.scalar(value, field.type), count)
            arrays.append(value)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
