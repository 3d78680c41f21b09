"""The columns of a read that no batch has: keys of folders, where a row stands, and what is wrong with its record."""

from collections.abc import Iterable, Mapping, Sequence
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

__all__ = ["METADATA", "FileColumns", "check_added", "chosen_columns"]

#: The columns of the option ``withMetadata``.
METADATA: dict[str, st.DataType] = {"_file": st.StringType(), "_batch": st.IntegerType(), "_row": st.LongType()}


def check_added(schema: st.StructType, options: "ReadOptions") -> None:
    """Refuse a schema into which the columns that no file has would not fit, before any data moves."""
    permissive = options.mode == "permissive"
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if options.metadata and field.name in METADATA and field.dataType != METADATA[field.name]:
            raise UsageError(
                f"column {field.name!r} of withMetadata is {METADATA[field.name].simpleString()}, and the schema has "
                f"it as {kind}"
            )
        if permissive and field.name == options.corrupt_column and not isinstance(field.dataType, st.StringType):
            raise UsageError(
                f"column {field.name!r} takes the texts of errors, and the schema has it as {kind}: make it a string, "
                "or name another column with the option columnNameOfCorruptRecord"
            )
        if permissive and not field.nullable:
            raise UsageError(
                f"column {field.name!r} is NOT NULL in the schema, and mode PERMISSIVE gives a row of "
                "nulls for what is damaged; make it nullable, or choose FAILFAST or DROPMALFORMED"
            )


def chosen_columns(schema: Schema, target: st.StructType, columns: Sequence[str] | None, path: str) -> Any:
    """What to read of a file of a schema, None for all: some `columns`, by name or path, or those of `target`."""
    if columns is not None:
        for name in target.names:
            if not any(f"{column}.".lower().startswith(f"{name}.".lower()) for column in columns):
                raise UsageError(
                    f"the schema has a column {name!r}, and the option columns has not: leave one of them out"
                )
        there = [column for column in columns if fields_at(list(schema), column)]
        for column in columns:
            # Of a struct without this field some other has to say where it is null.
            head = column.split(".")[0]
            if column not in there and head in schema and not any(f"{each}.".startswith(f"{head}.") for each in there):
                there.append(head)
        return there
    names = [field.name for field in schema]
    found = [find_name(name, names, path, optional=True) for name in target.names]
    wanted = [index for index in found if index is not None]
    return None if len(wanted) == len(names) else wanted


class FileColumns:
    """What of the schema one file has to give, and how that becomes the whole schema.

    Parameters
    ----------
    schema : StructType
        What Spark reads with.
    options : ReadOptions
    path : str
        Of the file.
    keys : mapping
        The keys of its folders and their texts.
    names : sequence of str
        Of the columns that it has.
    """

    def __init__(
        self,
        schema: st.StructType,
        options: "ReadOptions",
        path: str,
        keys: Mapping[str, str | None],
        names: Sequence[str] = (),
    ) -> None:
        self._schema = arrow_schema_of(schema)
        self.path: str = path
        self._corrupt = options.corrupt_column
        own: list[st.StructField] = []
        #: Column that is none of the file's -> its one value; None: null, or another one in each row.
        self._added: dict[str, Any] = {}
        for field in schema.fields:
            if index_of(field.name, [*keys]) is not None:
                self._added[field.name] = typed_key(path, keys, field)
                continue
            metadata = options.metadata and field.name in METADATA
            error = field.name == self._corrupt and (field.name not in names or options.mode == "permissive")
            if not (metadata or error):
                own.append(field)
                continue
            if field.name in names:
                raise UsageError(
                    f"{path} has a column {field.name!r} of its own, which "
                    + (
                        "withMetadata would replace; leave one of them out"
                        if metadata
                        else "the texts of errors would "
                        "replace; name another one with the option columnNameOfCorruptRecord"
                    )
                )
            self._added[field.name] = None
        #: The columns that the file's batches have to give.
        self.target: st.StructType = st.StructType(own)
        self._metadata = options.metadata

    def complete(self, batch: pa.RecordBatch, number: int, first: int) -> pa.RecordBatch:
        """The rows of `target`, from row `first` of batch `number` of the file, as those of the whole schema."""
        return self._rows(batch.num_rows, batch.columns, number, first) if self._added else batch

    def malformed(self, number: int | None, error: str) -> pa.RecordBatch:
        """The row that stands for a batch, or for a whole file."""
        return self._rows(1, (), number, None, error)

    def _rows(
        self, count: int, columns: Iterable[Any], number: int | None, first: int | None, error: str | None = None
    ) -> pa.RecordBatch:
        left = iter(columns)
        values = {**self._added, self._corrupt: error} if self._corrupt in self._added else self._added
        if self._metadata:
            values = {**values, "_file": self.path, "_batch": number}
        arrays = []
        for field in self._schema:
            if self._metadata and field.name == "_row" and first is not None:
                arrays.append(pa.array(np.arange(first, first + count)))
            elif field.name in self._added:
                value = values[field.name]
                if value is not None and not isinstance(value, pa.Scalar):
                    value = pa.scalar(value, field.type)
                arrays.append(pa.nulls(count, field.type) if value is None else pa.repeat(value, count))
            else:
                array = next(left, None)
                arrays.append(pa.nulls(count, field.type) if array is None else array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
