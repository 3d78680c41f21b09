"""Record batches and arrays: what a reader hands out, as thin views of the columns that it read.

A batch is its table of nodes and buffers; a column becomes an object when somebody asks for it. Element 0 of
an array lies at the physical position `offset` of its buffers, so slices share all of them.
"""

cimport cython
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Unpack
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from arrowipc._core cimport Columns, DictionaryPlan, Memory, Plan, export_bytes, field_path, limits_data, window
from arrowipc.columns.elements cimport (
    AS_BACKED, DICT_SLOTS, Quota, check_native, count_bytes, dictionary_of, pause_collector, quota, read_values,
    resume_collector, rows_of, values,
)
from arrowipc.columns.equal cimport same_values
from arrowipc.inline.element cimport validity
from arrowipc.inline.fbs_layout cimport Type_FloatingPoint, Type_Int
from arrowipc.inline.bits cimport SLACK, append_bits
from arrowipc.inline.loads cimport bitmap_bytes, count_bits
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_SIGNED, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_FIXED_LIST, LAYOUT_NULL, LAYOUT_SPARSE,
    LAYOUT_STRUCT, ColumnsData, Extent, FieldPlan, LimitsData, Node, place_field,
)
from arrowipc.metadata.schema_reader cimport column_named, plan_field, plan_schema, project, python_plan

from arrowipc.arguments import columns_of, integer_of, metadata_of, no_attribute
from arrowipc.errors import NotFoundError, UsageError

__all__ = ["Array", "RecordBatch"]

# Elements that iteration over an array turns into Python values at a time.
cdef enum:
    STEP = 1024

# What a batch that nobody filled stands on: no fields, so nothing in it can be reached.
cdef Plan NO_COLUMNS = Plan.__new__(Plan)
NO_COLUMNS.allocate(0, 0, 0)
NO_COLUMNS.dictionaries = []


# -- batches -------------------------------------------------------------------------------------------------


@cython.no_gc
cdef class RecordBatch(Columns):
    """Rows of several columns, in the memory that they were read into.

    Readers make batches; ``RecordBatch()`` is one without columns. A batch keeps the bytes it points at
    alive, and nothing is copied until values are asked for.

    Notes
    -----
    ``len(batch)`` is the number of rows. ``batch["x"]`` and ``batch[0]`` are columns. ``==`` compares schemas
    and values, see :meth:`equals`. Batches are not hashable.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import arrowipc as ipc
    >>> made = pa.record_batch({"x": [1, 2, None], "y": ["a", "b", "c"]})
    >>> (batch,) = ipc.open_stream(b"".join([made.schema.serialize(), made.serialize()]))
    >>> batch.num_rows, batch.num_columns
    (3, 2)
    >>> batch["x"].to_pylist()
    [1, 2, None]
    >>> batch.slice(1).to_pylist()
    [{'x': 2, 'y': 'b'}, {'x': None, 'y': 'c'}]
    >>> batch.column("y").equals(batch["y"]), batch.equals(ipc.RecordBatch.from_arrow(made))
    (True, True)
    >>> batch.head(1).to_pydict(), list(batch.tail(1).iter_rows())
    ({'x': [1], 'y': ['a']}, [(None, 'c')])
    >>> batch.drop("y").rename(["a"]).append_column("b", [7, 8, 9]).schema.names
    ['a', 'b']
    >>> batch.to_arrow().equals(made), batch.to_polars().shape, batch.to_pandas().shape
    (True, (3, 2), (3, 2))
    >>> frame = batch.drop("x").to_pandas()
    >>> ipc.RecordBatch.from_pandas(frame)["y"] == ipc.RecordBatch.from_records(batch.slice(0, 2).to_records())["y"]
    False
    """

    def __cinit__(self):
        self.metadata_pairs = ()
        self.dictionaries = ()
        self.plan = NO_COLUMNS
        self.d.plan = &NO_COLUMNS.d

    @property
    def custom_metadata(self):
        """KeyValueMetadata: what the message carried beside the rows, but for keys of ours, which describe them."""
        return metadata_of(self.metadata_pairs)

    @property
    def schema(self):
        """Schema of the columns, an :class:`arrowipc.Schema`; batches of one reader share it."""
        return plan_schema(self.plan)

    @property
    def num_rows(self):
        """Number of rows."""
        return self.d.length

    @property
    def num_columns(self):
        """Number of columns."""
        return self.d.plan.n_columns

    @property
    def shape(self):
        """Number of rows and of columns."""
        return self.d.length, self.d.plan.n_columns

    @property
    def column_names(self):
        """Names of the columns, in order."""
        return plan_schema(self.plan).names

    @property
    def nbytes(self):
        """Bytes of all buffers, also those of dictionaries; a slice counts the buffers it was cut from."""
        return count_bytes(self)

    @property
    def columns(self):
        """All columns, as a list of :class:`Array`."""
        return [column_at(self, i) for i in range(self.d.plan.n_columns)]

    def itercolumns(self):
        """Iterate over the columns."""
        return iter(self.columns)

    def column(self, i):
        """Return one column.

        Parameters
        ----------
        i : int or str
            Index (negative counts from the end) or name.

        Returns
        -------
        Array

        Raises
        ------
        IndexError
            If the index is out of range.
        KeyError
            If no column has that name.
        UsageError
            If several columns have that name.
        """
        cdef int64_t count = self.d.plan.n_columns
        if isinstance(i, str):
            return column_at(self, column_named(self.plan, i))
        position = integer_of("column", i)
        if not -count <= position < count:
            raise NotFoundError(f"column index {i} is out of range: the batch has {count} columns")
        return column_at(self, position + count if position < 0 else position)

    def __getitem__(self, i):
        if isinstance(i, (str, int)) or is_integer(i):
            return self.column(i)
        if isinstance(i, slice):
            start, stop, step = i.indices(self.d.length)
            return slice_batch(self, start, max(stop - start, 0)) if step == 1 else self.take(range(start, stop, step))
        if names_columns(i):
            return self.select(i)
        return self.filter(i) if is_mask(i) else self.take(i)

    def __len__(self):
        return self.d.length

    def select(self, columns):
        """Return some columns, without copying.

        Parameters
        ----------
        columns : sequence of str or int
            Names, indices, or dotted paths into structs and lists, in the order wanted.

        Returns
        -------
        RecordBatch

        Raises
        ------
        UsageError
            If there is no such column, or a part of one is asked for twice.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> batch = ipc.RecordBatch.from_pydict({"x": [1], "y": ["a"], "z": [{"p": 1.5, "q": None}]})
        >>> batch.select(["z.p", "x"]).to_pylist()
        [{'z': {'p': 1.5}, 'x': 1}]
        """
        return select_columns(self, columns_of(columns))

    def drop(self, columns):
        """Return all columns but some, without copying.

        Parameters
        ----------
        columns : str, int or a sequence of them
            Names or indices (negative counts from the end).

        Returns
        -------
        RecordBatch

        Raises
        ------
        IndexError, KeyError, UsageError
            If there is no such column, or several have that name.
        """
        from arrowipc.schema import positions_without

        return self.select(positions_without(plan_schema(self.plan), columns))

    def rename(self, names):
        """Return the same columns under other names, without copying.

        Parameters
        ----------
        names : mapping of str to str, or sequence of str
            Old names and new ones; or all names, in order.

        Returns
        -------
        RecordBatch

        Raises
        ------
        KeyError
            If no column has an old name.
        UsageError
            If several columns have an old name, or there are more or fewer names than columns.
        """
        cdef LimitsData limits
        from arrowipc.schema import renamed

        check_native(self, "renaming")
        limits_data(None, &limits)
        return with_plan(self, python_plan(renamed(plan_schema(self.plan), names), &limits))

    rename_columns = rename
    drop_columns = drop

    def append_column(self, field, values):
        """Return the batch with one more column at its end.

        Parameters
        ----------
        field : str or Field
            A name alone: the type is that of the values.
        values : sequence, numpy.ndarray, Array or object with ``__arrow_c_array__``
            As many as there are rows. Arrays of the right type are not copied.

        Returns
        -------
        RecordBatch

        Raises
        ------
        UsageError
            If there are more or fewer values than rows, or one does not fit the type.
        """
        return self.add_column(self.d.plan.n_columns, field, values)

    def add_column(self, i, field, values):
        """Return the batch with one more column before column `i`; see :meth:`append_column`."""
        from arrowipc.values.from_python import insert_column

        position = integer_of("column", i)
        if not -self.d.plan.n_columns <= position <= self.d.plan.n_columns:
            raise NotFoundError(f"column index {i} is out of range: the batch has {self.d.plan.n_columns} columns")
        return insert_column(self, position, field, values)

    def set_column(self, i, field, values):
        """Return the batch with another column in place of column `i`; see :meth:`append_column`."""
        position = self.schema.position(i)
        return self.drop(position).add_column(position, field, values)

    def remove_column(self, i):
        """Return the batch without column `i`, without copying."""
        return self.drop(self.schema.position(i))

    def with_metadata(self, metadata):
        """Return the same columns with other metadata of the schema, without copying; None: with none."""
        cdef LimitsData limits
        limits_data(None, &limits)
        return with_plan(self, python_plan(self.schema.with_metadata(metadata), &limits))

    def take(self, indices):
        """Return rows in any order and number.

        Parameters
        ----------
        indices : sequence of int, numpy.ndarray, Array or object of another library
            Negative ones count from the end. An Array's null gives a row of nulls.

        Returns
        -------
        RecordBatch
            Of rows that are copied: nothing of the batch, or of the file that it was read from, stays in memory because
            of them. A dictionary is copied whole, and once: all rows that are taken with it share the copy.

        Raises
        ------
        IndexError
            If there is no such row.
        UsageError
            If the indices are no integers; if some are null, and a column is not nullable.
        UnsupportedError
            If the texts or lists of the rows need offsets of 64 bits; take fewer at a time.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> ipc.RecordBatch.from_pydict({"x": [10, 20, 30]}).take([-1, 0, 0]).to_pydict()
        {'x': [30, 10, 10]}
        """
        from arrowipc.columns.take import take_indices

        return take_indices(self, indices)

    def filter(self, mask):
        """Return the rows where `mask` is true (``batch[mask]`` does the same), or that pass conditions.

        Parameters
        ----------
        mask : sequence of bool, numpy.ndarray, Array, object of another library, or list of conditions
            As many as there are rows. Null counts as false. Conditions are those of :func:`arrowipc.open_dataset`:
            ``[("x", ">", 3)]``.

        Returns
        -------
        RecordBatch
            Of rows that are copied, as by :meth:`take`.

        Raises
        ------
        UsageError
            If there are more or fewer elements than rows, or others than booleans.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> batch = ipc.RecordBatch.from_pydict({"x": [10, 20, 30]})
        >>> batch.filter([True, None, True]).to_pydict(), batch[[False, True, False]].to_pydict()
        ({'x': [10, 30]}, {'x': [20]})
        >>> batch.filter([("x", ">=", 20)]).to_pydict()
        {'x': [20, 30]}
        """
        if is_conditions(mask):
            from arrowipc.filters.row_filters import RowFilter

            return RowFilter(mask, plan_schema(self.plan)).apply(self)
        from arrowipc.columns.take import selected_rows

        return self.take(selected_rows(mask_of(mask), self.d.length))

    def head(self, n=5):
        """Return the first `n` rows; with a negative `n`, all but the last ones."""
        return self[:n]

    def tail(self, n=5):
        """Return the last `n` rows; with a negative `n`, all but the first ones."""
        return self[max(self.d.length - n, 0):] if n >= 0 else self[-n:]

    def iter_rows(self, *, named=False, extensions=False):
        """Iterate over the rows, a thousand at a time made.

        Parameters
        ----------
        named : bool, default False
            False: tuples; True: dicts, as in :meth:`to_pylist`.
        extensions : bool or mapping, default False
            See :meth:`Array.to_pylist`.

        Yields
        ------
        tuple or dict
        """
        cdef int64_t start
        for start in range(0, self.d.length, STEP):
            some = slice_batch(self, start, min(STEP, self.d.length - start))
            if named:
                yield from some.to_pylist(extensions=extensions)
            else:
                yield from zip(*column_values([some], self.d.plan.n_columns, quota(AS_BACKED, extensions)))

    def slice(self, offset=0, length=None):
        """Return rows ``[offset, offset + length)`` without copying; what lies past the end is left out.

        Parameters
        ----------
        offset : int, default 0
        length : int, optional
            Default: all rows from `offset` on.

        Returns
        -------
        RecordBatch

        Raises
        ------
        UsageError
            If `offset` or `length` is negative.
        """
        start, count = clip(offset, length, self.d.length)
        return slice_batch(self, start, count)

    def to_pydict(self, *, max_values=None, extensions=False):
        """Return the columns as a dict of lists of Python values, see :meth:`Array.to_pylist`.

        Parameters
        ----------
        max_values : int
            The most Python objects to make: a few bytes can claim to be billions of nulls.
        extensions : bool or mapping, default False
            Whether values of extension types become what they mean, see :meth:`Array.to_pylist`.

        Raises
        ------
        UsageError
            If two columns share a name.
        LimitError
            If there are more values than `max_values`.
        FormatError
            If values are broken; readers find that out earlier unless told ``validate="none"``.
        """
        return batches_to_pydict([self], plan_schema(self.plan), max_values, extensions)

    def to_pylist(self, *, max_values=None, extensions=False):
        """Return the rows as a list of dicts; of lists of (name, value) pairs if two columns share a name.

        Parameters and errors are those of :meth:`to_pydict`.
        """
        return batches_to_pylist([self], plan_schema(self.plan), max_values, extensions)

    def equals(self, other, check_metadata=False, nan_equal=False):
        """Whether `other` has an equal schema and equal values.

        Parameters
        ----------
        other : RecordBatch, or an object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
        check_metadata : bool, default False
            Compare all metadata of the schema too. That of the message never counts.
        nan_equal : bool, default False
            Whether NaN equals NaN.

        Returns
        -------
        bool

        Raises
        ------
        FormatError
            If values are broken.
        """
        cdef RecordBatch batch
        cdef int32_t i, f, g
        if not isinstance(other, RecordBatch) and not is_foreign(other):
            return False
        batch = as_batch(other)
        if self.d.length != batch.d.length or self.d.plan.n_columns != batch.d.plan.n_columns:
            return False
        if self.plan is not batch.plan and not self.schema.equals(batch.schema, check_metadata):
            return False
        check_native(self, "comparison")
        check_native(batch, "comparison")
        for i in range(self.d.plan.n_columns):
            f = self.d.plan.columns[i]
            g = batch.d.plan.columns[i]
            if not same_values(self, f, self.d.nodes[f].offset, batch, g, batch.d.nodes[g].offset,
                               self.d.length, nan_equal):
                return False
        return True

    def __eq__(self, other):
        return self.equals(other) if isinstance(other, RecordBatch) or is_foreign(other) else NotImplemented

    @staticmethod
    def from_arrow(data, *, validate="none"):
        """Take over rows that another library holds, without copying them.

        Parameters
        ----------
        data : object
            With ``__arrow_c_array__`` (a struct array, such as a ``pyarrow.RecordBatch``).
        validate : {"none", "full", "strict"}
            What is proven about the values. Who hands over addresses is trusted with what they point at, so
            nothing is by default.

        Returns
        -------
        RecordBatch

        Raises
        ------
        UsageError
            `data` offers no such interface, or no rows of several columns.
        FormatError
            What it offers breaks the rules of the Arrow C data interface.
        UnsupportedError
            A type that we do not know.
        """
        from arrowipc.cdata.import_array import batch_from

        return batch_from(data, validate)

    @staticmethod
    def from_pydict(mapping, schema=None):
        """Make a batch of Python values.

        Parameters
        ----------
        mapping : dict
            Column name -> list of values, NumPy array or :class:`Array`, all of the same length.
        schema : Schema, optional
            None: the types are those that the values have (:mod:`arrowipc.values.inference`).

        Returns
        -------
        RecordBatch
            NumPy arrays of the right type are not copied.

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

        return build_batch(mapping, schema)

    @staticmethod
    def from_arrays(arrays, names=None, schema=None, metadata=None):
        """Make a batch of columns.

        Parameters
        ----------
        arrays : sequence
            Of what :meth:`from_pydict` takes as columns. Names may repeat, which a dict does not allow.
        names : sequence of str, optional
        schema : Schema, optional
            In place of `names`: names, types and metadata.
        metadata : mapping or pairs of str or bytes, optional
            Of the schema, where `names` are given.

        Returns
        -------
        RecordBatch

        Raises
        ------
        UsageError
            There are more or fewer names than arrays, lengths differ, or a value does not fit its column.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> ipc.RecordBatch.from_arrays([[1, 2], ["a", None]], names=["x", "y"]).to_pylist()
        [{'x': 1, 'y': 'a'}, {'x': 2, 'y': None}]
        """
        from arrowipc.values.from_python import build_arrays

        return build_arrays(arrays, names, schema, metadata)

    @staticmethod
    def from_pylist(rows, schema=None):
        """Make a batch of rows; a key that a row does not have is null.

        Parameters
        ----------
        rows : list of dict
        schema : Schema, optional
            None: the columns are the keys of the first row, their types those of the values.

        Raises
        ------
        UsageError
            A row has another key, or a value does not fit its column.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> ipc.RecordBatch.from_pylist([{"x": 1, "y": "a"}, {"x": 2}]).to_pydict()
        {'x': [1, 2], 'y': ['a', None]}
        """
        from arrowipc.values.from_python import build_rows

        return build_rows(rows, schema)

    @staticmethod
    def from_buffers(schema, length, nodes, buffers, *, variadic=(), dictionaries=(), custom_metadata=(),
                     validate="none", limits=None):
        """Make a batch whose columns point into buffers that exist.

        Parameters
        ----------
        schema : Schema
        length : int
            Rows.
        nodes : iterable of (int, int)
            Length and null count (-1: not counted) of each field, in pre-order.
        buffers : iterable of bytes-like or None
            Of each field, in pre-order, those of its layout; a field of a view type has its data buffers behind
            its views. None: absent. They are held, and must not change. Only numbers at addresses that their
            width does not divide are copied, and those of a schema in big-endian byte order.
        variadic : iterable of int
            The number of data buffers of each field of a view type.
        dictionaries : iterable of Array or None
            The values of each dictionary-encoded field; None: they have not arrived. Fields that share a
            dictionary id share the array.
        custom_metadata : mapping or (bytes, bytes) pairs
            As of a message.
        validate : {"none", "full", "strict"}
            What is proven about the values, those of dictionaries too. The sizes of buffers are always checked.
        limits : Limits, optional
            For buffers that somebody else describes: `rows_per_batch`, `depth` and `dictionary_bytes` hold.

        Returns
        -------
        RecordBatch

        Raises
        ------
        UsageError
            There are more or fewer nodes, buffers, counts or dictionaries than the schema asks for, or a
            dictionary is of another type.
        FormatError
            A length or null count cannot be, a buffer is too small for its node, or a value is broken.
        LimitError
            There is more than `limits` allow.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> from arrowipc.types import dictionary, field, int8, utf8
        >>> schema = ipc.Schema([field("x", int8()), field("y", dictionary(int8(), utf8()))])
        >>> words = ipc.Array.from_pylist(["a", "b"], utf8())
        >>> ipc.RecordBatch.from_buffers(
        ...     schema, 3, [(3, 1), (3, 0)], [bytes([0b101]), bytes(3), None, bytes([1, 0, 1])], dictionaries=[words]
        ... ).to_pydict()
        {'x': [0, None, 0], 'y': ['b', 'a', 'b']}
        """
        from arrowipc.values.from_python import from_buffers

        return from_buffers(schema, length, nodes, buffers, variadic, dictionaries, custom_metadata, validate, limits)

    def to_arrow(self):
        """Return a ``pyarrow.RecordBatch`` over the same memory."""
        from arrowipc.values.libraries import to_arrow

        return to_arrow(self)

    def to_polars(self):
        """Return a ``polars.DataFrame``; polars copies what it stores otherwise."""
        from arrowipc.values.libraries import to_polars

        return to_polars(self)

    def to_pandas(self, **options):
        """Return a ``pandas.DataFrame``, the same one with pyarrow and without it.

        Parameters
        ----------
        **options
            Of pyarrow's ``to_pandas``, such as ``types_mapper=pandas.ArrowDtype``; all but ``ignore_metadata`` need
            pyarrow. Without options the dtypes are those that pyarrow chooses; integers with nulls are float64, or
            ``Int64`` if that is needed for all digits. Index, names and dtypes are those that pandas noted in the
            schema.

        Raises
        ------
        UnsupportedError
            pandas cannot take a column, which the message names.
        """
        from arrowipc.values.to_pandas import to_pandas

        return to_pandas(self, options)

    @staticmethod
    def from_pandas(frame, **options):
        """Make a batch of a ``pandas.DataFrame``; needs pyarrow, the options are those of its ``from_pandas``."""
        from arrowipc.cdata.import_array import batch_from
        from arrowipc.values.libraries import from_pandas

        return batch_from(from_pandas(frame, options), "none")

    def to_records(self):
        """Return the rows as a structured NumPy array; nulls are those of ``Array.to_numpy(copy=True)``."""
        from arrowipc.values.libraries import to_records

        return to_records([self], plan_schema(self.plan))

    @staticmethod
    def from_records(array):
        """Make a batch of a structured NumPy array of one dimension, a column for each of its fields."""
        from arrowipc.values.libraries import from_records

        return from_records(array)

    def __narwhals_dataframe__(self):
        from arrowipc.values.libraries import narwhals_frame

        return narwhals_frame(self)

    def to_message(self, **options):
        """Encode the batch: metadata, and references to the buffers of the body, which are not copied.

        Parameters
        ----------
        **options
            `compression`, `compression_level`, `min_space_savings`, `alignment`, `metadata_version` and
            `use_threads`, as for :func:`arrowipc.new_stream`.

        Returns
        -------
        Message
            Of kind "RecordBatch"; dictionaries travel in messages of their own.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> from arrowipc.types import field, int64
        >>> schema = ipc.Schema([field("x", int64())])
        >>> message = ipc.RecordBatch.from_pydict({"x": [1, 2]}, schema).to_message()
        >>> [len(buffer) for buffer in message.buffers], message.body_length
        ([0, 16], 16)
        """
        from arrowipc.write.batch_writer import batch_message

        return batch_message(self, **options)

    def serialize(self, **options):
        """Return the encapsulated RecordBatch message as bytes; the options are those of `to_message`.

        :func:`arrowipc.read_record_batch` reads it back, given the schema.
        """
        from arrowipc.write.batch_writer import batch_message

        return batch_message(self, **options).serialize(options.get("alignment", 8))

    def __getattr__(self, name):
        raise no_attribute(self, name)

    def __reduce_ex__(self, protocol):
        from arrowipc.values.pickling import reduce_batch

        return reduce_batch(self, protocol)

    def __copy__(self):
        return self

    def __repr__(self):
        from arrowipc.values.repr import batch_text

        return batch_text(self)

    def _repr_html_(self):
        from arrowipc.values.repr import batch_html

        return batch_html(self)

    def __array__(self, dtype=None, copy=None):
        from arrowipc.values.to_numpy import rows_as_array

        return rows_as_array([self], self.d.plan.n_columns, dtype, copy)

    def __arrow_c_schema__(self):
        """Export the schema as an ``arrow_schema`` PyCapsule."""
        from arrowipc.cdata.export import export_schema

        return export_schema(plan_schema(self.plan))

    def __arrow_c_array__(self, requested_schema=None):
        """Export as a struct array: an ``arrow_schema`` and an ``arrow_array`` PyCapsule, without copying."""
        from arrowipc.cdata.export import export_batch

        return export_batch(self, requested_schema)

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        """Export as a struct array on the CPU: ``arrow_schema`` and ``arrow_device_array`` PyCapsules."""
        from arrowipc.cdata.export import export_device_array

        return export_device_array(self, requested_schema, **kwargs)

    def __arrow_c_stream__(self, requested_schema=None):
        """Export as a stream of this one batch: an ``arrow_array_stream`` PyCapsule."""
        from arrowipc.cdata.export import export_stream

        return export_stream(plan_schema(self.plan), iter([self]), requested_schema)


cdef bint is_integer(object i) except -1:
    """Whether it is one index; NumPy's arrays have `__index__` too."""
    return isinstance(i, int) or (hasattr(i, "__index__") and getattr(i, "ndim", 0) == 0)


def names_columns(items):
    """Whether what is in brackets names columns, and no rows."""
    return isinstance(items, (list, tuple)) and len(items) > 0 and all([isinstance(each, str) for each in items])


def is_mask(items):
    """Whether what is in brackets says of each row whether it is wanted, and is no number of one."""
    if isinstance(items, (list, tuple)):
        return (bool in (kinds := set(map(type, items)))) and kinds <= {bool, type(None)}
    kind = getattr(items, "dtype", getattr(items, "type", None))
    return str(kind) in ("bool", "boolean", "Boolean", "DataType(bool)", "bool[pyarrow]")


def mask_of(items):
    """A mask as an array."""
    if isinstance(items, Array) or is_foreign(items):
        return as_array(items)
    from arrowipc.types import bool_
    from arrowipc.values.from_python import build_array

    return build_array(items, bool_())


def is_conditions(items):
    """Whether what is to be filtered by are conditions, and no mask."""
    return isinstance(items, (list, tuple)) and len(items) > 0 and isinstance(items[0], (list, tuple, str))


cdef RecordBatch with_plan(RecordBatch batch, Plan plan):
    """The same columns, described by another plan of the same shape."""
    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    out.share(batch, plan)
    out.dictionaries = batch.dictionaries
    out.metadata_pairs = batch.metadata_pairs
    return out


cdef bint is_foreign(object data):
    """Whether something hands rows over by the Arrow C interfaces."""
    return hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__")


cdef RecordBatch as_batch(object data):
    """A batch of ours, or of another library; of a stream all rows."""
    if isinstance(data, RecordBatch):
        return data
    from arrowipc.cdata.import_array import batch_from

    return batch_from(data)


cdef Array as_array(object data):
    if isinstance(data, Array):
        return data
    from arrowipc.cdata.import_array import array_from

    return array_from(data)


cdef RecordBatch slice_batch(RecordBatch batch, int64_t offset, int64_t length):
    """Rows [offset, offset + length) of a batch, which exist: another table over the same buffers."""
    cdef RecordBatch part = RecordBatch.__new__(RecordBatch)
    cdef int32_t i
    part.share(batch, batch.plan)
    part.d.length = length
    part.dictionaries = batch.dictionaries
    part.metadata_pairs = batch.metadata_pairs
    for i in range(batch.d.plan.n_columns):
        slice_column(&part.d, batch.d.plan.columns[i], offset, length)
    return part


cdef void slice_column(ColumnsData* d, int32_t f, int64_t offset, int64_t length) noexcept:
    cdef Node* node = &d.nodes[f]
    cdef Extent* bitmap
    node.offset += offset
    node.length = length
    if node.null_count == 0:
        return
    if d.plan.fields[f].layout == LAYOUT_NULL:
        node.null_count = length
        return
    bitmap = &d.extents[d.plan.fields[f].first_buffer]
    node.null_count = length - count_bits(bitmap.data, node.offset, length)
    if node.null_count == 0:
        # Columns without nulls have no bitmap: everything that reads them relies on it.
        bitmap.data = NULL
        bitmap.size = 0


cdef Array column_at(RecordBatch batch, int64_t i):
    cdef int32_t f = batch.d.plan.columns[i]
    return make_array(batch, f, batch.d.nodes[f].offset, batch.d.nodes[f].length)


# What max_values may be: far beyond any memory, and far from overflowing when it is multiplied.
cdef int64_t MOST_VALUES = 2**56


cdef int64_t given(object max_values) except? -1:
    """The quota that a caller asks for; None: what the bytes of the columns stand for."""
    if max_values is not None and not 0 <= integer_of("max_values", max_values) <= MOST_VALUES:
        raise UsageError(f"max_values must be 0 to 2**56, found {max_values}")
    return AS_BACKED if max_values is None else max_values


def batches_to_pydict(batches, schema, max_values, extensions=False):
    """Columns of batches that have `schema`, as a dict of lists of Python values."""
    names = schema.names
    if len(set(names)) < len(names):
        raise UsageError("to_pydict would lose columns whose name occurs twice; take them by index")
    cdef Quota q = quota(given(max_values), extensions)
    cdef bint running = pause_collector()
    try:
        return dict(zip(names, column_values(batches, len(names), q)))
    finally:
        resume_collector(running)


def batches_to_pylist(batches, schema, max_values, extensions=False):
    """Rows of batches that have `schema`: dicts, or lists of (name, value) pairs where names repeat."""
    cdef Quota q = quota(given(max_values), extensions)
    rows = sum([len(batch) for batch in batches])
    for batch in batches:
        q.take(batch, len(batch))
        q.take_objects(batch, len(batch), DICT_SLOTS)
    cdef list columns
    cdef bint running = pause_collector()
    try:
        columns = column_values(batches, len(schema.names), q)
        return rows_of(tuple(schema.names), columns, len(columns[0]) if columns else rows, NULL, 0)
    finally:
        resume_collector(running)


cdef list column_values(object batches, int32_t n_columns, Quota q):
    """One list of Python values per column, those of all batches together."""
    cdef list out = [[] for _ in range(n_columns)], values
    cdef RecordBatch batch
    cdef int32_t i, f
    for batch in batches:
        if batch is None or batch.d.plan.n_columns != n_columns:
            raise UsageError(f"expected batches of {n_columns} columns")
        check_native(batch, "conversion to Python values")
        for i in range(n_columns):
            f = batch.d.plan.columns[i]
            values = read_values(q, batch, f, batch.d.nodes[f].offset, batch.d.length)
            if out[i]:
                out[i] += values
            else:
                out[i] = values
    return out


cpdef tuple clip(object offset, object length, int64_t available):
    """Return start and count of the elements that a slice asks for and that exist."""
    start = integer_of("slice: offset", offset)
    count = available if length is None else integer_of("slice: length", length)
    if start < 0 or count < 0:
        raise UsageError(f"slice: offset and length must not be negative, found {start} and {count}")
    start = min(start, available)
    return start, min(count, available - start)


cdef class BatchProducer:
    """Where a stream takes its batches from."""

    cdef Columns next(self):
        raise NotImplementedError(f"{type(self).__name__} does not produce batches")


# -- arrays --------------------------------------------------------------------------------------------------


cdef class Array:
    """One column, or one child of a column: a type, a length, and buffers that are shared with the batch.

    Batches make arrays. ``len(array)``, ``array[i]``, ``array[2:5]`` and iteration work as for a list, and
    ``numpy.asarray(array)`` as :meth:`to_numpy` does where that can be done without loss.

    Attributes
    ----------
    offset : int
        Position of element 0 in the buffers, in elements (in bits for booleans and validity bitmaps).
    length : int
        Number of elements.

    Notes
    -----
    ``==`` compares types and values, see :meth:`equals`. Arrays are not hashable.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import arrowipc as ipc
    >>> made = pa.record_batch({"x": [[1, 2], None, [3]]})
    >>> (batch,) = ipc.open_stream(b"".join([made.schema.serialize(), made.serialize()]))
    >>> array = batch["x"]
    >>> array.type, len(array), array.null_count
    (DataType(list<item: int64>), 3, 1)
    >>> array[0], array[-1]
    ([1, 2], [3])
    >>> array.children[0].to_numpy()
    array([1, 2, 3])
    >>> array.slice(1).to_pylist(), array.take([2]).to_pylist(), array.is_valid().to_pylist(), len(array.buffers())
    ([None, [3]], [[3]], [True, False, True], 2)
    >>> array.equals(ipc.Array.from_arrow(made["x"])), array.to_arrow().null_count
    (True, 1)
    >>> len(array.to_polars()), len(array.to_pandas())
    (3, 3)
    """

    def __cinit__(self, Columns columns not None):
        if columns.d.plan == NULL or columns.d.plan.n_fields == 0:
            raise UsageError("arrays are columns of batches: use batch.column(...)")
        self.columns = columns

    @staticmethod
    def from_arrow(data, *, validate="none"):
        """Take over an array that another library holds, without copying it.

        Parameters and errors are those of :meth:`RecordBatch.from_arrow`.
        """
        from arrowipc.cdata.import_array import array_from

        return array_from(data, validate)

    @staticmethod
    def from_pylist(values, type=None):
        """Make an array of Python values or of a NumPy array.

        Parameters
        ----------
        values : sequence
        type : DataType, optional
            None: that of the values (:func:`arrowipc.values.inference.infer_type`).

        Raises
        ------
        UsageError
            A value does not fit the type; the message names its position.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> from arrowipc.types import date32
        >>> import datetime
        >>> ipc.Array.from_pylist([datetime.date(2020, 2, 29), None], date32()).to_pylist()
        [datetime.date(2020, 2, 29), None]
        """
        from arrowipc.values.from_python import build_array

        return build_array(values, type)

    @property
    def field(self):
        """Name, type, nullability and metadata, an :class:`arrowipc.Field`."""
        if self._field is None:
            self._field = field_of(self.columns.plan, self.index)
        return self._field

    @property
    def type(self):
        """Type of the values, an :class:`arrowipc.DataType`."""
        return self.field.type

    @property
    def null_count(self):
        """Number of nulls in the validity bitmap; unions and run-end encodings have none of their own."""
        return count_nulls(self)

    @property
    def nbytes(self):
        """Bytes of the buffers that the elements use, with those of children and of the dictionary.

        A slice counts its own part, as a message of it would hold it.
        """
        from arrowipc.values.from_python import build_arrays

        dictionary = self.dictionary
        message = build_arrays([self], schema=[self.field]).to_message()
        return sum(map(len, message.buffers)) + (0 if dictionary is None else dictionary.nbytes)

    @property
    def children(self):
        """Arrays of the children, as a list.

        Those of structs, sparse unions and fixed-size lists are cut to this array's rows. Those of other
        lists, dense unions and run-end encoded arrays are whole, and offsets or run ends point into them.
        """
        cdef const FieldPlan* f = &self.columns.d.plan.fields[self.index]
        cdef list out = []
        cdef int32_t child = self.index + 1
        cdef int64_t offset, length
        while child < f.end:
            offset = self.columns.d.nodes[child].offset
            length = self.columns.d.nodes[child].length
            if f.layout == LAYOUT_STRUCT or f.layout == LAYOUT_SPARSE:
                offset += self.offset
                length = self.length
            elif f.layout == LAYOUT_FIXED_LIST:
                offset += self.offset * f.width
                length = self.length * f.width
            out.append(make_array(self.columns, child, offset, length))
            child = self.columns.d.plan.fields[child].end
        return out

    @property
    def dictionary(self):
        """The values that the indices of a dictionary-encoded array refer to.

        None for other types, and as long as no dictionary has arrived.
        """
        return dictionary_array(self.columns, self.index)

    def buffers(self):
        """Return the buffers in the order of the format, as read-only memoryviews of bytes.

        They are those of the whole column: element i of this array lies at `offset` + i. View types have
        their variadic data buffers at the end; children and dictionaries have buffers of their own. The
        memoryviews keep the memory alive.

        Returns
        -------
        list of memoryview or None
            None for the validity bitmap of an array without nulls.
        """
        cdef const FieldPlan* f = &self.columns.d.plan.fields[self.index]
        cdef const Extent* extents = &self.columns.d.extents[f.first_buffer]
        cdef const Extent* variadic
        cdef list out = []
        cdef int32_t i
        for i in range(f.n_buffers):
            if i == 0 and extents[0].data == NULL and f.layout != LAYOUT_SPARSE and f.layout != LAYOUT_DENSE:
                out.append(None)
            else:
                out.append(window(extents[i].data, extents[i].size, self.columns))
        if f.view >= 0:
            variadic = &self.columns.d.extents[self.columns.d.views[f.view].first]
            for i in range(self.columns.d.views[f.view].count):
                out.append(window(variadic[i].data, variadic[i].size, self.columns))
        return out

    def slice(self, offset=0, length=None):
        """Return elements ``[offset, offset + length)`` without copying; what lies past the end is left out.

        Raises
        ------
        UsageError
            If `offset` or `length` is negative.
        """
        start, count = clip(offset, length, self.length)
        return make_array(self.columns, self.index, self.offset + <int64_t> start, count)

    def take(self, indices):
        """Return elements in any order and number; parameters and errors are those of :meth:`RecordBatch.take`.

        Returns
        -------
        Array
        """
        from arrowipc.columns.take import take_indices
        from arrowipc.schema import Schema

        cdef LimitsData limits
        check_native(self.columns, "taking elements")
        limits_data(None, &limits)
        alone = batch_of_arrays(python_plan(Schema([self.field]), &limits), [self], self.length)
        return column_at(take_indices(alone, indices), 0)

    def filter(self, mask):
        """Return the elements where `mask` is true; parameters and errors are those of :meth:`RecordBatch.filter`.

        Returns
        -------
        Array
        """
        from arrowipc.columns.take import selected_rows

        return self.take(selected_rows(mask_of(mask), self.length))

    def fill_null(self, value):
        """Return the elements with `value`, which must fit the type, in place of nulls.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> ipc.Array.from_pylist([1, None]).fill_null(0).to_pylist()
        [1, 0]
        """
        from arrowipc.values.from_python import fill_null

        return fill_null(self, value)

    def cast(self, type):
        """Return the elements as another type: numbers of other widths, other kinds of text, binary and lists, times.

        Values are converted one by one, as by :meth:`to_pylist` and :meth:`from_pylist`; compute libraries are faster.

        Raises
        ------
        UsageError
            If a value does not fit the type; the message names its position.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> ipc.Array.from_pylist([1, None]).cast("int8").type
        DataType(int8)
        """
        from arrowipc.values.from_python import build_array

        return build_array(self.to_pylist(), type)

    def unique(self):
        """Return the distinct elements, in the order of their first occurrence; null is one of them.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> ipc.Array.from_pylist(["b", "a", None, "b"]).unique().to_pylist()
        ['b', 'a', None]
        """
        from arrowipc.values.dictionary_encode import unique

        return unique(self)

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        cdef Py_ssize_t start, stop, step
        if isinstance(i, slice):
            PySlice_Unpack(i, &start, &stop, &step)
            PySlice_AdjustIndices(self.length, &start, &stop, step)
            if step != 1:
                return self.take(range(start, stop, step))
            return make_array(self.columns, self.index, self.offset + start, max(stop - start, 0))
        if not is_integer(i):
            return self.filter(i) if is_mask(i) else self.take(i)
        position = integer_of("index", i)
        if not -self.length <= position < self.length:
            raise IndexError(f"index {i} is out of range: the array has {self.length} elements")
        return values(self.columns, self.index, self.offset + position % self.length, 1)[0]

    def __iter__(self):
        cdef int64_t i
        for i in range(0, self.length, STEP):
            yield from values(self.columns, self.index, self.offset + i, min(STEP, self.length - i))

    def is_valid(self):
        """Return whether each element is not null, as an Array of booleans.

        As for :attr:`null_count`, the validity bitmap decides: nulls in dictionaries, in children of unions
        and in the values of runs do not count.

        Raises
        ------
        LimitError
            If there are more than 2**24, and more than 8 for each byte of the batch.
        """
        return validity_array(self, 0)

    def is_null(self):
        """Return whether each element is null; see :meth:`is_valid`."""
        return validity_array(self, 255)

    def tolist(self):
        """Return the elements as Python values: :meth:`to_pylist` under NumPy's name."""
        return self.to_pylist()

    def to_pylist(self, *, max_values=None, extensions=False):
        """Return the elements as Python values.

        ======================================  ============================================================
        type                                    value
        ======================================  ============================================================
        integers, floats, bool, text, binary    int, float, bool, str, bytes
        decimals                                decimal.Decimal, exact
        dates                                   datetime.date; datetime.datetime for a date64 inside a day
        times in s, ms, us                      datetime.time
        timestamps in s, ms, us                 datetime.datetime; aware when in a zone
        durations in s, ms, us                  datetime.timedelta
        anything in ns or beyond these classes  int, as stored; also in a time zone that Python does not know
        intervals                               int months, DayTime, MonthDayNano (named tuples)
        lists                                   list
        maps                                    list of (key, value) tuples
        structs                                 dict; list of (name, value) tuples where names repeat
        unions                                  the value of the child
        dictionary and run-end encodings        the decoded values; rows may share one object
        ======================================  ============================================================

        Python's cyclic collector rests until the values are there.

        Parameters
        ----------
        max_values : int, optional
            The most Python objects to make: small input can claim to be billions of nulls. It also bounds how
            much text may be made of bytes that several rows share. By default 2**24 and 8 for each byte of
            the columns, 2**27 at most. Lists and dicts are counted apart; a byte is enough for one.
        extensions : bool or mapping, default False
            True: values of these extension types become what they mean, nested ones too; all others stay as they
            are stored, as does a column that is not stored as its type asks for.

            ================================  ==========================================================
            ``arrow.uuid``, ``arrow.bool8``   uuid.UUID, bool
            ``arrow.json``                    the parsed text
            ``arrow.parquet.variant``         as its types would be above; shredded ones as stored
            ``arrow.timestamp_with_offset``   datetime.datetime with its offset; in ns as stored
            ``arrow.fixed_shape_tensor``,     nested lists, as ``to_numpy().tolist()``
            ``arrow.variable_shape_tensor``
            ================================  ==========================================================

            A mapping from names of extension types to functions of one stored value adds to these, or replaces
            them: ``extensions={"geoarrow.wkb": shapely.from_wkb}``.

        Returns
        -------
        list
            None stands for null.

        Raises
        ------
        LimitError
            If there are more values than `max_values`.
        FormatError
            If values are broken, naming column and row; readers find that out earlier unless told
            ``validate="none"``, but for values of extension types.
        UsageError
            If the data is kept in big-endian.
        """
        return values(self.columns, self.index, self.offset, self.length, given(max_values), extensions)

    def to_arrow(self):
        """Return a ``pyarrow.Array`` over the same memory."""
        from arrowipc.values.libraries import to_arrow

        return to_arrow(self)

    def to_polars(self):
        """Return a ``polars.Series``."""
        from arrowipc.values.libraries import to_polars

        return to_polars(self)

    def to_pandas(self, **options):
        """Return a ``pandas.Series``; see :meth:`RecordBatch.to_pandas`."""
        from arrowipc.values.to_pandas import to_pandas

        return to_pandas(self, options)

    def to_numpy(self, copy=False):
        """Return the elements as a NumPy array.

        Parameters
        ----------
        copy : bool, default False
            False: a read-only view of the buffers, which stay alive with it. That works for numbers other
            than booleans, for dates in ms, times, timestamps, durations, intervals, decimals and binary of
            fixed size (both as raw bytes, dtype ``V``), and fixed-size lists of these, all without nulls.
            True: always a new array. Nulls become NaN or NaT, integers with nulls float64; text, binary,
            decimals and nested values become objects as in :meth:`to_pylist`, encoded values are decoded.

        Returns
        -------
        numpy.ndarray
            Of shape (length,), or (length, size) for fixed-size lists. Timestamps and dates are datetime64
            (in UTC when there is a timezone), durations timedelta64, times of day the stored integers,
            intervals of days or nanoseconds structured.

        Raises
        ------
        UsageError
            If a view is asked for and a copy is needed, or the data is kept in big-endian.
        FormatError, LimitError
            As for :meth:`to_pylist`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import arrowipc as ipc
        >>> made = pa.record_batch({"x": [1.5, None]})
        >>> (batch,) = ipc.open_stream(b"".join([made.schema.serialize(), made.serialize()]))
        >>> batch["x"].to_numpy(copy=True)
        array([1.5, nan])
        """
        from arrowipc.values.to_numpy import to_numpy

        check_native(self.columns, "conversion to NumPy")
        return to_numpy(self, copy)

    def __array__(self, dtype=None, copy=None):
        from arrowipc.values.to_numpy import as_array

        check_native(self.columns, "conversion to NumPy")
        return as_array(self, dtype, copy)

    def __getbuffer__(self, Py_buffer* view, int flags):
        cdef const FieldPlan* f = &self.columns.d.plan.fields[self.index]
        cdef const char* code = NULL
        if f.layout == LAYOUT_FIXED and f.flags & FIELD_ENCODED == 0:
            code = buffer_format(f)
        if code == NULL or count_nulls(self) or (f.width > 1 and self.columns.d.plan.keep_stored):
            raise BufferError(f"{self.type} with {count_nulls(self)} nulls has no buffer of numbers; "
                              "to_numpy(copy=True) makes an array")
        export_bytes(self, view, self.columns.d.extents[f.first_buffer + 1].data + self.offset * f.width,
                     self.length * f.width, False, flags)
        view.itemsize = f.width
        if view.format != NULL:
            view.format = <char*> code
        if view.shape != NULL:
            view.shape = <Py_ssize_t*> &self.length

    def __dlpack__(self, **options):
        """Hand numbers without nulls over as DLPack does: see :meth:`Tensor.__dlpack__`."""
        from arrowipc.tensors.dense import Tensor

        is_matrix = self.columns.d.plan.fields[self.index].layout == LAYOUT_FIXED_LIST
        return Tensor(self.to_numpy() if is_matrix else memoryview(self)).__dlpack__(**options)

    def __dlpack_device__(self):
        """Return the device of the memory, ``(1, 0)``: the CPU."""
        return (1, 0)

    def equals(self, other, nan_equal=False):
        """Whether `other` has the same type, nulls in the same places and equal values elsewhere.

        A dictionary-encoded array never equals a plain one; two are equal when their decoded values are.

        Parameters
        ----------
        other : Array, or an object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
        nan_equal : bool, default False
            Whether NaN equals NaN.

        Returns
        -------
        bool

        Raises
        ------
        FormatError
            If values are broken.
        UsageError
            If the data of one is kept in big-endian.
        """
        cdef Array array
        if not isinstance(other, Array) and not is_foreign(other):
            return False
        array = as_array(other)
        if self.length != array.length:
            return False
        if self.columns.plan is not array.columns.plan or self.index != array.index:
            if self.type != array.type:
                return False
        check_native(self.columns, "comparison")
        check_native(array.columns, "comparison")
        return same_values(self.columns, self.index, self.offset, array.columns, array.index, array.offset,
                           self.length, nan_equal) != 0

    def __eq__(self, other):
        return self.equals(other) if isinstance(other, Array) or is_foreign(other) else NotImplemented

    def __getattr__(self, name):
        raise no_attribute(self, name)

    def __reduce_ex__(self, protocol):
        from arrowipc.values.pickling import reduce_array

        return reduce_array(self, protocol)

    def __copy__(self):
        return self

    def __repr__(self):
        from arrowipc.values.repr import array_text

        return array_text(self)

    def _repr_html_(self):
        from arrowipc.values.repr import array_html

        return array_html(self)

    def __arrow_c_schema__(self):
        """Export the field as an ``arrow_schema`` PyCapsule."""
        from arrowipc.cdata.export import export_schema

        return export_schema(self.field)

    def __arrow_c_array__(self, requested_schema=None):
        """Export as an ``arrow_schema`` and an ``arrow_array`` PyCapsule, without copying."""
        from arrowipc.cdata.export import export_array

        return export_array(self, requested_schema)

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        """Export as an array on the CPU: an ``arrow_schema`` and an ``arrow_device_array`` PyCapsule."""
        from arrowipc.cdata.export import export_device_array

        return export_device_array(self, requested_schema, **kwargs)


cdef const char* buffer_format(const FieldPlan* f) noexcept:
    """What the struct module calls the numbers of a field; NULL: they are none."""
    cdef int32_t width = f.width
    if f.type == Type_FloatingPoint:
        return b"e" if width == 2 else b"f" if width == 4 else b"d"
    if f.type != Type_Int:
        return NULL
    if f.flags & FIELD_SIGNED:
        return b"b" if width == 1 else b"h" if width == 2 else b"i" if width == 4 else b"q"
    return b"B" if width == 1 else b"H" if width == 2 else b"I" if width == 4 else b"Q"


cdef Array make_array(Columns columns, int32_t field, int64_t offset, int64_t length):
    """Elements [offset, offset + length) of a field, `offset` physical; they are known to exist."""
    cdef Array array = Array.__new__(Array, columns)
    array.index = field
    array.offset = offset
    array.length = length
    array._null_count = -1
    return array


cdef Array validity_array(Array array, uint8_t flip):
    """Booleans: the bits of validity, each combined with `flip` by an exclusive or."""
    cdef const ColumnsData* d = &array.columns.d
    cdef const uint8_t* bits = validity(d, array.index)
    cdef int64_t size = bitmap_bytes(array.length), i
    cdef Memory memory = Memory(size + SLACK)
    from arrowipc.schema import Schema
    from arrowipc.types import bool_, field

    quota(AS_BACKED).take(array.columns, array.length)
    if bits == NULL:
        memset(memory.data, 0 if d.plan.fields[array.index].layout == LAYOUT_NULL else 255, size)
    else:
        append_bits(memory.data, 0, bits, array.offset, array.length)
    for i in range(size):
        memory.data[i] ^= flip
    memory.size = size
    return RecordBatch.from_buffers(Schema([field("", bool_())]), array.length, [(array.length, 0)],
                                    [None, memory]).column(0)


cdef Array dictionary_array(Columns columns, int32_t field):
    """The values of an encoded field's dictionary; None for other fields, and before it has arrived."""
    cdef Columns dictionary = dictionary_of(columns, field)
    if dictionary is None:
        return None
    return make_array(dictionary, 0, dictionary.d.nodes[0].offset, dictionary.d.length)


cdef Columns single_column(Array array, Plan plan):
    """An array as the only column of `plan`, which is of the same shape and may give dictionaries other ids.

    Buffers are shared, and so are the tables where nothing in them has to change.
    """
    cdef Columns source = array.columns, out
    cdef const Node* node = &source.d.nodes[array.index]
    if (source.d.plan.n_fields == plan.d.n_fields and not plan.dictionaries and node.offset == array.offset
            and node.length == array.length):
        return source
    out = Columns.__new__(Columns)
    place_arrays(out, plan, [array], array.length)
    return out


cdef RecordBatch batch_of_arrays(Plan plan, list arrays, int64_t length):
    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    place_arrays(out, plan, arrays, length)
    return out


cdef int place_arrays(Columns out, Plan plan, list arrays, int64_t length) except -1:
    """Fill `out`, which is new, with the arrays as columns of `plan`."""
    cdef Array array
    cdef int32_t i, f, g, column, variadic = 0, next = plan.d.n_buffers
    cdef list dictionaries = []
    for array in arrays:
        variadic += count_variadic_below(&array.columns.d, array.index)
    out.allocate(plan, variadic)
    for column, array in enumerate(arrays):
        f = plan.d.columns[column]
        for i in range(plan.d.fields[f].end - f):
            g = array.index + i
            next = place_field(&out.d, f + i, &array.columns.d, g, next)
            if plan.d.fields[f + i].dictionary >= 0:
                dictionaries.append(dictionary_array(array.columns, g))
        if out.d.nodes[f].offset != array.offset or out.d.nodes[f].length != array.length:
            slice_column(&out.d, f, array.offset - out.d.nodes[f].offset, array.length)
    out.d.length = length
    out.owner = tuple([(<Array> each).columns for each in arrays])
    out.dictionaries = share_dictionaries(plan, dictionaries)
    return 0


cdef int32_t count_variadic_below(const ColumnsData* d, int32_t f) noexcept nogil:
    """Data buffers of the view fields among a field and those below it."""
    cdef int32_t i, count = 0
    for i in range(f, d.plan.fields[f].end):
        if d.plan.fields[i].view >= 0:
            count += d.views[d.plan.fields[i].view].count
    return count


# -- some columns --------------------------------------------------------------------------------------------

# (plan, columns, their plan, which field of the first each of its fields is): a stream of batches asks for the same.
cdef list recent_parts = []

cdef enum:
    MOST_PARTS = 8


cdef tuple part_of(Plan whole, tuple columns):
    """The plan of some columns, and the fields of the whole one; the same plan for the same ones."""
    cdef Plan plan
    cdef int32_t i
    for known, chosen, found in recent_parts:
        if known is whole and chosen == columns:
            return found
    plan = project(whole, columns)
    places = {whole.d.fields[i].source_node: i for i in range(whole.d.n_fields)}
    found = plan, [places[plan.d.fields[i].source_node] for i in range(plan.d.n_fields)]
    recent_parts.insert(0, (whole, columns, found))
    del recent_parts[MOST_PARTS:]
    return found


cdef RecordBatch select_columns(RecordBatch batch, tuple columns):
    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    cdef Plan plan
    cdef list fields, dictionaries
    cdef int32_t i, g, ordinal, variadic = 0, next
    plan, fields = part_of(batch.plan, columns)
    for g in fields:
        if batch.plan.d.fields[g].view >= 0:
            variadic += batch.d.views[batch.plan.d.fields[g].view].count
    out.allocate(plan, variadic)
    dictionaries = [None] * len(plan.dictionaries)
    next = plan.d.n_buffers
    for i, g in enumerate(fields):
        next = place_field(&out.d, i, &batch.d, g, next)
        ordinal = plan.d.fields[i].dictionary
        if ordinal >= 0 and batch.dictionaries:
            dictionaries[ordinal] = batch.dictionaries[batch.plan.d.fields[g].dictionary]
    out.d.length = batch.d.length
    out.owner = batch.owner
    out.dictionaries = tuple(dictionaries)
    out.metadata_pairs = batch.metadata_pairs
    return out


cdef tuple share_dictionaries(Plan plan, list arrays):
    """The dictionaries of a plan, from those of its encoded fields in pre-order; None: not arrived."""
    cdef list out = [None] * len(plan.dictionaries), taken = [None] * len(plan.dictionaries)
    cdef Array array
    cdef DictionaryPlan dictionary
    cdef int32_t i, k = 0, ordinal
    for i in range(plan.d.n_fields):
        ordinal = plan.d.fields[i].dictionary
        if ordinal < 0:
            continue
        array = arrays[k]
        k += 1
        if array is None:
            continue
        dictionary = plan.dictionaries[ordinal]
        if out[ordinal] is None:
            out[ordinal] = single_column(array, dictionary.values)
            taken[ordinal] = array
        elif not same_elements(taken[ordinal], array):
            raise UsageError(f"column {field_path(plan, i)!r}: it shares dictionary {dictionary.id} with another "
                             "field, and has other values")
    return tuple(out)


cdef bint same_elements(Array a, Array b):
    return a.columns is b.columns and a.index == b.index and a.offset == b.offset and a.length == b.length


cdef object field_of(Plan plan, int32_t field):
    """The Field of a FieldPlan; for a column that of the schema, if that exists already."""
    cdef int32_t low = 0, high = plan.d.n_columns, middle
    if plan.schema is None:
        return plan_field(plan, field)
    while low < high:
        middle = (low + high) // 2
        if plan.d.columns[middle] < field:
            low = middle + 1
        else:
            high = middle
    if low < plan.d.n_columns and plan.d.columns[low] == field:
        return plan.schema.field(low)
    return plan_field(plan, field)


cdef int64_t count_nulls(Array array) noexcept:
    cdef const Node* node = &array.columns.d.nodes[array.index]
    cdef const uint8_t* bits
    if array._null_count < 0:
        bits = validity(&array.columns.d, array.index)
        if bits == NULL:
            is_null = array.columns.d.plan.fields[array.index].layout == LAYOUT_NULL
            array._null_count = array.length if is_null else 0
        elif node.null_count >= 0 and array.offset == node.offset and array.length == node.length:
            array._null_count = node.null_count
        else:
            array._null_count = array.length - count_bits(bits, array.offset, array.length)
    return array._null_count
