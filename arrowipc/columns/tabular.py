"""The methods that record batches and tables share, made of a few that each class has itself."""

from __future__ import annotations

from _collections_abc import Mapping  # see arguments.py

from arrowipc.arguments import Hints, check_flag, check_safe, integer_of
from arrowipc.errors import UsageError
from arrowipc.options import with_advice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Self, SupportsIndex

    import numpy.typing as npt
    import pandas as pd
    import polars as pl

    from arrowipc.arguments import Extensions, MapsAsDicts, MetadataLike, Nulls, Order
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.schemas import Field, Schema
    from arrowipc.tensors.dense import Tensor

    class _Rows(Hints):
        """The members that each subclass defines itself."""

        __slots__ = ()

        @property
        def schema(self) -> Schema: ...
        @property
        def num_rows(self) -> int: ...
        def itercolumns(self) -> Iterator[Any]: ...
        def select(self, columns: Iterable[str | int] | str | int) -> Self: ...
        def add_column(self, i: SupportsIndex, field: Any, values: Any) -> Self: ...
        def slice(self, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> Self: ...
        def take(self, indices: Any) -> Self: ...
        def filter(self, mask: Any) -> Self: ...
        @property
        def nbytes(self) -> int: ...
        def _with_schema(self, schema: Schema) -> Self: ...
        def _pieces(self) -> list[RecordBatch]: ...
        @classmethod
        def _of_batch(cls, batch: RecordBatch) -> Self: ...
        @classmethod
        def from_arrow(cls, data: Any) -> Self: ...
else:
    _Rows = Hints


class Tabular(_Rows):
    """Base of :class:`RecordBatch` and :class:`Table`: rows of several columns."""

    __slots__ = ()

    @classmethod
    @with_advice
    def from_pydict(cls, mapping: Mapping[str, Any], schema: Any = None, metadata: MetadataLike = None) -> Self:
        """Make rows of columns: a dict of lists of Python values, NumPy arrays or :class:`Array`, equally long.

        Parameters
        ----------
        mapping : dict
        schema : Schema, optional
            None: the types are those that the values have (:mod:`arrowipc.values.inference`).
        metadata : mapping or pairs of str or bytes, optional
            Of the schema, where none is given.

        Raises
        ------
        UsageError
            Columns are missing or too many, lengths differ, or a value does not fit its column; the message names
            column and row.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> from arrowipc.types import field, int8, list_
        >>> schema = ipc.Schema([field("x", list_(int8()))])
        >>> ipc.RecordBatch.from_pydict({"x": [[1, 2], None]}, schema).to_pylist()
        [{'x': [1, 2]}, {'x': None}]
        """
        from arrowipc.values.from_python import build_batch

        return cls._described(build_batch(mapping, schema), schema, metadata)

    @classmethod
    @with_advice
    def from_pylist(cls, rows: Sequence[Mapping[str, Any]], schema: Any = None, metadata: MetadataLike = None) -> Self:
        """Make rows of dicts; a key that a row does not have is null, one that no column has is a UsageError.

        Without `schema`, the columns are the keys of the first row. Other parameters and errors are those of
        :meth:`from_pydict`.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> ipc.RecordBatch.from_pylist([{"x": 1, "y": "a"}, {"x": 2}]).to_pydict()
        {'x': [1, 2], 'y': ['a', None]}
        """
        from arrowipc.values.from_python import build_rows

        return cls._described(build_rows(rows, schema), schema, metadata)

    @classmethod
    @with_advice
    def from_arrays(
        cls,
        arrays: Iterable[Any],
        names: Iterable[str] | None = None,
        schema: Any = None,
        metadata: MetadataLike = None,
    ) -> Self:
        """Make rows of columns, each of which is what :meth:`from_pydict` takes; names may repeat.

        Parameters
        ----------
        arrays : sequence
        names : sequence of str, optional
        schema : Schema, optional
            In place of `names`: names, types and metadata.
        metadata : mapping or pairs of str or bytes, optional
            Of the schema, where `names` are given.

        Raises
        ------
        UsageError
            There are more or fewer names than arrays, lengths differ, or a value does not fit its column.
        """
        from arrowipc.values.from_python import build_arrays

        return cls._of_batch(build_arrays(arrays, names, schema, metadata))

    @classmethod
    @with_advice
    def from_struct_array(cls, struct_array: Any) -> Self:
        """Make rows of an array of structs, a column for each member: :meth:`from_arrow` under pyarrow's name."""
        return cls.from_arrow(struct_array)

    @classmethod
    def from_pandas(cls, frame: Any, schema: Any = None, **options: Any) -> Self:
        """Make rows of a ``pandas.DataFrame``; needs pyarrow, the options are those of its ``from_pandas``."""
        from arrowipc.values.libraries import from_pandas

        return cls.from_arrow(from_pandas(frame, {"schema": schema, **options}))

    @classmethod
    @with_advice
    def from_records(cls, array: npt.NDArray[Any]) -> Self:
        """Make rows of a structured NumPy array of one dimension, a column for each of its fields."""
        from arrowipc.values.libraries import from_records

        return cls._of_batch(from_records(array))

    @classmethod
    def _described(cls, batch: RecordBatch, schema: Any, metadata: MetadataLike) -> Self:
        if schema is not None and metadata is not None:
            raise UsageError("a schema has metadata of its own: give schema= or metadata=, not both")
        return cls._of_batch(batch if metadata is None else batch.with_metadata(metadata))

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return len(self.schema)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.num_rows, len(self.schema)

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
        return self.schema.names

    def __contains__(self, name: object) -> bool:
        """Whether there is a column of that name."""
        return name in self.schema

    def field(self, i: SupportsIndex | str) -> Field:
        """Return the field of a column; see :meth:`arrowipc.Schema.field`."""
        return self.schema.field(i)

    @with_advice
    def drop(self, columns: Iterable[str | int] | str | int) -> Self:
        """Return all columns but some (names or indices), without copying.

        Raises IndexError, KeyError or UsageError if there is no such column, or several have that name.
        """
        from arrowipc.schemas import positions_without

        return self.select(positions_without(self.schema, columns))

    drop_columns = drop

    @with_advice
    def rename(self, names: Mapping[str, str] | Iterable[str]) -> Self:
        """Return the same columns under other names (all in order, or a mapping from old to new), without copying.

        Raises KeyError if no column has an old name; UsageError if several have it, or for a wrong number of names.
        """
        from arrowipc.schemas import renamed

        return self._with_schema(renamed(self.schema, names))

    rename_columns = rename

    @with_advice
    def with_metadata(self, metadata: MetadataLike = None) -> Self:
        """Return the same columns with other metadata of the schema, without copying; None: with none."""
        return self._with_schema(self.schema.with_metadata(metadata))

    replace_schema_metadata = with_metadata

    @with_advice
    def append_column(self, field: Any, values: Any) -> Self:
        """Return the same rows with one more column at the end.

        Parameters
        ----------
        field : str or Field
            A name alone: the type is that of the values.
        values : sequence, numpy.ndarray, Array or object with ``__arrow_c_array__``
            As many as there are rows (else a UsageError). Arrays of the right type are not copied.
        """
        return self.add_column(len(self.schema), field, values)

    @with_advice
    def set_column(self, i: SupportsIndex | str, field: Any, values: Any) -> Self:
        """Return the same rows with another column in place of column `i`; see :meth:`append_column`."""
        position = self.schema.position(i)
        return self.drop(position).add_column(position, field, values)

    @with_advice
    def remove_column(self, i: SupportsIndex | str) -> Self:
        """Return the same rows without column `i`, without copying."""
        return self.drop(self.schema.position(i))

    @with_advice
    def cast(self, target_schema: Any, safe: bool = True) -> Self:
        """Return the columns as the types of another schema of the same names; see :meth:`Array.cast`.

        A dict of names and types may leave names out: these columns stay as they are.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> ipc.table({"x": [1, 2], "y": [3, 4]}).cast({"y": "string"}).to_pydict()
        {'x': [1, 2], 'y': ['3', '4']}
        """
        from arrowipc.types import as_schema
        from arrowipc.values.from_python import build_arrays

        schema = as_schema(target_schema)
        if isinstance(target_schema, Mapping) and set(schema.names) <= set(self.column_names):
            wanted = dict(zip(schema.names, schema, strict=True))
            fields = [wanted.get(field.name, field) for field in self.schema]
            schema = as_schema(fields).with_metadata(self.schema.metadata)
        if schema.names != self.column_names:
            raise UsageError(f"cast: expected a schema with the names {self.column_names}, found {schema.names}")
        check_safe("cast", safe)
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(self.itercolumns(), schema, strict=True)
        ]
        if not columns:
            return self._with_schema(schema)
        # Columns have one array for each batch, or for the batch without rows that stands for none.
        arrays = zip(*[column._arrays() or [column.combine()] for column in columns], strict=True)
        return self._like([build_arrays(each, schema=schema) for each in arrays])

    def _like(self, changed: list[RecordBatch]) -> Self:
        """Return rows of the batches that were made from those of this object."""
        return self._of_batch(changed[0])

    @with_advice
    def sort_by(self, sorting: str | Iterable[str | tuple[str, Order] | tuple[str, Order, Nulls]]) -> Self:
        """Return the rows in the order of one or more columns, in new memory; rows that are equal there keep theirs.

        Parameters
        ----------
        sorting : str, or sequence of str, (str, order) or (str, order, nulls)
            Names of columns, the first decides first. The order is "ascending" unless it says "descending". NaN
            and behind it nulls come last in both; with "at_start" for `nulls`, nulls and behind them NaN come first.
            Inside lists, NaN is greater than other numbers.

        Raises
        ------
        UsageError
            Values of a column have no order, such as structs; or an order is called otherwise.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> rows = ipc.table({"x": [2, None, 1, 2], "y": ["a", "b", "c", "d"]})
        >>> rows.sort_by([("x", "descending"), "y"])["y"].to_pylist()
        ['a', 'd', 'c', 'b']
        """
        from arrowipc.derived.computed import sorted_rows

        return self.take(sorted_rows(self, sorting))

    def drop_null(self) -> Self:
        """Return the rows that have no null in any column."""
        valid = [column.is_valid().to_numpy(copy=True) for column in self.itercolumns() if column.null_count]
        if not valid:
            return self
        from functools import reduce

        return self.filter(reduce(lambda a, b: a & b, valid))

    def to_string(self) -> str:
        """Return the text that shows the schema and the first rows and the last: that of ``repr``."""
        return repr(self)

    def get_total_buffer_size(self) -> int:
        """Return :attr:`nbytes`, which counts whole buffers."""
        return self.nbytes

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.get_total_buffer_size()

    def head(self, n: int = 5) -> Self:
        """Return the first `n` rows; with a negative `n`, all but the last ones."""
        n = integer_of("head: n", n)
        return self.slice(0, n if n >= 0 else max(self.num_rows + n, 0))

    def tail(self, n: int = 5) -> Self:
        """Return the last `n` rows; with a negative `n`, all but the first ones."""
        n = integer_of("tail: n", n)
        return self.slice(max(self.num_rows - n, 0) if n >= 0 else -n)

    def to_pydict(
        self,
        *,
        max_values: int | None = None,
        extensions: Extensions = None,
        maps_as_pydicts: MapsAsDicts = None,
    ) -> dict[str, list[Any]]:
        """Return the columns as a dict of lists of Python values.

        Parameters and errors are those of :meth:`Array.to_pylist`. Two columns of one name are a UsageError.
        """
        from arrowipc.columns.record_batch import batches_to_pydict

        return batches_to_pydict(self._pieces(), self.schema, max_values, extensions, maps_as_pydicts)

    def to_pylist(
        self,
        *,
        max_values: int | None = None,
        extensions: Extensions = None,
        maps_as_pydicts: MapsAsDicts = None,
    ) -> list[Any]:
        """Return the rows as a list of dicts; of lists of (name, value) pairs if two columns share a name.

        Parameters and errors are those of :meth:`to_pydict`.
        """
        from arrowipc.columns.record_batch import batches_to_pylist

        return batches_to_pylist(self._pieces(), self.schema, max_values, extensions, maps_as_pydicts)

    def to_struct_array(self) -> Any:
        """Return the rows as one array of structs in the same memory."""
        from arrowipc.columns.array import Array

        return Array.from_arrow(self)

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.RecordBatch``, of a table a ``pyarrow.Table``, over the same memory."""
        from arrowipc.values.libraries import to_arrow

        return to_arrow(self)

    def to_polars(self) -> pl.DataFrame:
        """Return a ``polars.DataFrame``; polars copies columns that it stores differently."""
        from arrowipc.values.libraries import to_polars

        return to_polars(self)  # type: ignore[no-any-return]

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Return a ``pandas.DataFrame``, the same one with pyarrow and without it.

        Parameters
        ----------
        **options
            Of pyarrow's ``to_pandas``, such as ``types_mapper=pandas.ArrowDtype``, which is called with pyarrow's
            types; all but ``ignore_metadata`` need pyarrow. Without options the dtypes are those that pyarrow
            chooses; integers with nulls are float64, or ``Int64`` if that is needed for all digits. Index, names and
            dtypes are those that pandas noted in the schema.
        """
        from arrowipc.values.to_pandas import to_pandas

        return to_pandas(self, options)

    def to_records(self) -> npt.NDArray[Any]:
        """Return the rows as a structured NumPy array; nulls are those of ``Array.to_numpy(copy=True)``."""
        from arrowipc.values.libraries import to_records

        return to_records(self._pieces(), self.schema)

    def to_tensor(self, null_to_nan: bool = False, row_major: bool = True) -> Tensor:
        """Return columns of numbers as a tensor of rows and columns, of one type.

        Parameters
        ----------
        null_to_nan : bool, default False
            True: all columns become floating-point numbers, and nulls NaN. False: nulls are a UsageError.
        row_major : bool, default True
            False: each column lies together.

        Raises
        ------
        UsageError
            Columns are no numbers; or an unsigned integer beside signed ones is more than int64 holds. Integers beside
            floating-point numbers are rounded as those require.
        """
        from arrowipc.tensors.dense import Tensor
        from arrowipc.values.to_numpy import rows_as_array, tensor_dtype

        row_major = check_flag("row_major", row_major)
        if not check_flag("null_to_nan", null_to_nan) and any(column.null_count for column in self.itercolumns()):
            raise UsageError("to_tensor: some values are null; null_to_nan=True makes them NaN")
        dtype = tensor_dtype(self.schema.types, null_to_nan)
        matrix = rows_as_array(self._pieces(), len(self.schema), None, dtype)
        if matrix.dtype.kind == "O":
            raise UsageError(f"to_tensor: expected columns of numbers, found {', '.join(map(str, self.schema.types))}")
        return Tensor(matrix.copy("C" if row_major else "F"))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        from arrowipc.values.to_numpy import rows_as_array

        if copy is False:
            raise ValueError("rows become a matrix by a copy: take columns with column(name).to_numpy()")
        return rows_as_array(self._pieces(), len(self.schema), dtype)

    def validate(self, *, full: bool = False) -> None:
        """Check the values (offsets, text, indices) if `full`; the sizes of buffers are known to be right.

        Raises FormatError if values are broken.
        """
        from arrowipc.decode.from_buffers import validate_full

        for batch in self._pieces() if check_flag("full", full) else ():
            validate_full(batch)

    def __narwhals_dataframe__(self) -> Any:
        from arrowipc.values.libraries import narwhals_frame

        return narwhals_frame(self)

    def _repr_html_(self) -> str:
        from arrowipc.values.repr import rows_html

        return rows_html(self)

    def __arrow_c_schema__(self) -> object:
        """Export the schema as an ``arrow_schema`` PyCapsule."""
        return self.schema.__arrow_c_schema__()
