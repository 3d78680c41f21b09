"""Record batches: what a reader hands out, as thin views of the columns that it read.

A batch is its table of nodes and buffers; a column becomes an `Array` when somebody asks for it.
"""

cimport cython
from cpython.list cimport PyList_GET_ITEM
from cpython.ref cimport PyObject
from libc.stdint cimport INT64_MAX, int32_t, int64_t

from arrowipc._core cimport (
    Columns, DictionaryPlan, Memory, Plan, Recent, field_path, identity, limits_data, raise_fault,
)
from arrowipc.columns.array cimport (
    STEP, Array, clip, dictionary_array, is_foreign, is_integer, make_array, parse_max_values, set_hints_metaclass,
)
from arrowipc.columns.builder cimport BuilderMemory, ColumnsBuilder
from arrowipc.columns.elements cimport (
    AS_BACKED, DICT_SLOTS, Quota, check_native, count_bytes, pause_collector, quota, read_values, resume_collector,
    rows_of,
)
from arrowipc.columns.equal cimport longest_dictionaries, same_values
from arrowipc.inline.bits cimport load_int
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.layouts cimport BUFFER_FIXED, BUFFER_OFFSETS, LAYOUTS, width_of
from arrowipc.inline.loads cimport count_bits
from arrowipc.inline.plan cimport (
    LAYOUT_FIXED, LAYOUT_NULL, LAYOUT_STRUCT, ColumnsData, Extent, FieldPlan, LimitsData,
    Node, place_field,
)
from arrowipc.metadata.schema_reader cimport column_named, plan_schema, plans_equal, project, python_plan

from arrowipc.columns.array import is_conditions, is_expression, is_mask, mask_of
from arrowipc.columns.tabular import Tabular

from arrowipc.arguments import check_flag, columns_of, equals_foreign, integer_of, items_of, metadata_of
from arrowipc.errors import LimitError, NotFoundError, UsageError

# The plan of a batch that nobody filled: it has no fields, so nothing in the batch can be reached.
cdef Plan NO_COLUMNS = Plan.__new__(Plan)
NO_COLUMNS.allocate(0, 0, 0)
NO_COLUMNS.dictionaries = []


@cython.no_gc
cdef class RecordBatch(Columns, Tabular):
    """Rows of several columns, in the memory that they were read into.

    Readers make batches; ``RecordBatch()`` is one without columns. A batch keeps the bytes it points at
    alive, and nothing is copied until values are asked for. ``len(batch)`` is the number of rows. ``batch["x"]`` and
    ``batch[0]`` are columns. ``==`` compares schemas and values, see :meth:`equals`. Batches are not hashable.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2, None], "y": ["a", "b", "c"]})
    >>> batch.num_rows, batch.num_columns, batch["x"].to_pylist()
    (3, 2, [1, 2, None])
    >>> batch.slice(1).to_pylist()
    [{'x': 2, 'y': 'b'}, {'x': None, 'y': 'c'}]
    >>> batch.head(1).to_pydict(), list(batch.tail(1).iter_rows())
    ({'x': [1], 'y': ['a']}, [(None, 'c')])
    >>> batch.drop("y").rename(["a"]).append_column("b", [7, 8, 9]).schema.names
    ['a', 'b']
    """

    def __cinit__(self):
        self.metadata_pairs = ()
        self.dictionaries = ()
        self.plan = NO_COLUMNS
        self.d.plan = &NO_COLUMNS.d

    def __init__(self, *given, **named):
        if given or named:  # which a `__cinit__` without parameters lets pass
            raise UsageError("RecordBatch() has no columns: batches are made by record_batch(data), "
                             "RecordBatch.from_arrays() and from_pydict()")

    @property
    def custom_metadata(self):
        """KeyValueMetadata: that of the message, without arrowipc's own keys, which describe the rows."""
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
    def nbytes(self):
        """Bytes of all buffers, also those of dictionaries; a slice counts the buffers it was cut from."""
        return count_bytes(self)

    @property
    def columns(self):
        """All columns, as a list of :class:`Array`."""
        return columns_at(self)

    def itercolumns(self):
        """Iterate over the columns."""
        return iter(self.columns)

    def column(self, i):
        """Return one column (an :class:`Array`): an index, of which negative ones count from the end, or a name.

        Raises IndexError or KeyError if there is no such column, UsageError if several have that name.
        """
        return column_at(self, find_column(self.plan, i))

    def __getitem__(self, i):
        if isinstance(i, (str, int)) or is_integer(i):
            return column_at(self, find_column(self.plan, i))
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
            Names, indices, or dotted paths into structs and lists, in the order wanted. One that does not exist, or a
            part that is asked for twice, is a UsageError.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> batch = ipc.RecordBatch.from_pydict({"x": [1], "y": ["a"], "z": [{"p": 1.5, "q": None}]})
        >>> batch.select(["z.p", "x"]).to_pylist()
        [{'z': {'p': 1.5}, 'x': 1}]
        """
        return select_columns(self, columns_of(columns))

    def _pieces(self):
        return [self]

    @staticmethod
    def _of_batch(batch):
        return batch

    def _with_schema(self, schema):
        """The same columns, described by a schema of the same types."""
        cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
        check_native(self, "another schema")
        out.share(self, default_plan(schema))
        out.dictionaries = self.dictionaries
        out.metadata_pairs = self.metadata_pairs
        return out

    def add_column(self, i, field, values):
        """Return the batch with one more column before column `i`; see :meth:`append_column`."""
        from arrowipc.values.from_python import add_to_each

        return add_to_each([self], i, field, values)[0]

    def take(self, indices):
        """Return rows in any order and number.

        The rows are copied: nothing of the batch, or of the file that it was read from, stays in memory because
        of them. A dictionary is copied whole, and once: all rows that are taken with it share the copy.

        Parameters
        ----------
        indices : sequence of int, numpy.ndarray, Array or object of another library
            Negative ones count from the end. None gives a row of nulls, and so does a null of an Array.

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
        """Return copies of the rows where `mask` is true (``batch[mask]`` does the same), or that pass conditions.

        Parameters
        ----------
        mask : sequence of bool, numpy.ndarray, Array, object of another library, list of conditions, or expression
            As many as there are rows, else a UsageError. Null counts as false. Conditions are those of
            :func:`arrowipc.open_dataset`: ``[("x", ">", 3)]``. Expressions of pyarrow and polars are computed by them.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> batch = ipc.RecordBatch.from_pydict({"x": [10, 20, 30]})
        >>> batch.filter([True, None, True]).to_pydict(), batch.filter([("x", ">=", 20)]).to_pydict()
        ({'x': [10, 30]}, {'x': [20, 30]})
        """
        if is_expression(mask):
            from arrowipc.derived.computed import mask_by

            mask = mask_by(self, mask)
        if is_conditions(mask):
            from arrowipc.filters.row_filters import RowFilter

            return RowFilter(mask, plan_schema(self.plan)).apply(self)
        from arrowipc.columns.take import keep_rows

        return keep_rows(self, mask_of(mask))

    def iter_rows(self, *, named=False, extensions=None):
        """Iterate over the rows as tuples, or (`named`) as dicts like :meth:`to_pylist`; makes a thousand at a time."""
        cdef int64_t start
        named = check_flag("named", named)
        for start in range(0, self.d.length, STEP):
            some = slice_batch(self, start, min(STEP, self.d.length - start))
            if named:
                yield from some.to_pylist(extensions=extensions)
            elif not self.d.plan.n_columns:
                yield from [()] * len(some)
            else:
                yield from zip(*column_values([some], self.d.plan.n_columns, quota(AS_BACKED, extensions)))

    def slice(self, offset=0, length=None):
        """Return rows ``[offset, offset + length)`` without copying; what lies past the end is left out.

        Without `length`, all rows from `offset` on. Negative ones are a UsageError.
        """
        start, count = clip(offset, length, self.d.length)
        return slice_batch(self, start, count)

    def equals(self, other, check_metadata=False, nan_equal=False):
        """Whether `other` has an equal schema and equal values.

        Parameters
        ----------
        other : RecordBatch, or an object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
        check_metadata : bool, default False
            Compare all metadata of the schema too. That of the message never counts.
        nan_equal : bool, default False
            Whether NaN equals NaN.

        Raises
        ------
        FormatError
            If values are broken.
        """
        cdef RecordBatch batch
        nan_equal = nan_equal is not False and check_flag("nan_equal", nan_equal)
        check_metadata = check_metadata is not False and check_flag("check_metadata", check_metadata)
        if not isinstance(other, RecordBatch):
            if not is_foreign(other):
                return False
            from arrowipc.cdata.import_array import batch_from

            other = batch_from(other, most=self.d.length)
        batch = other
        if self.d.length != batch.d.length or self.d.plan.n_columns != batch.d.plan.n_columns:
            return False
        if self.plan is not batch.plan and (check_metadata or not plans_equal(self.plan, batch.plan)):
            if not self.schema.equals(batch.schema, check_metadata):
                return False
        return same_rows(self, batch, nan_equal)

    def __eq__(self, other):
        return equals_foreign(self, other) if is_foreign(other) else NotImplemented

    @staticmethod
    def from_arrow(data, *, validate="none"):
        """Take over rows that another library holds, without copying them.

        Parameters
        ----------
        data : object
            With ``__arrow_c_array__`` (a struct array, such as a ``pyarrow.RecordBatch``).
        validate : {"none", "full", "strict"}
            What is checked about the values: nothing by default, because a library that hands over addresses is
            trusted with what they point at.

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
            For buffers that somebody else describes: `rows_per_batch`, `depth` and `dictionary_bytes` hold
            (LimitError).

        Raises
        ------
        UsageError
            There are more or fewer nodes, buffers, counts or dictionaries than the schema asks for, or a
            dictionary is of another type.
        FormatError
            A length or null count cannot be, a buffer is too small for its node, or a value is broken.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> from arrowipc.types import field, int8
        >>> schema = ipc.Schema([field("x", int8())])
        >>> ipc.RecordBatch.from_buffers(schema, 3, [(3, 1)], [bytes([0b101]), bytes(3)]).to_pydict()
        {'x': [0, None, 0]}
        """
        from arrowipc.decode.from_buffers import from_buffers

        return from_buffers(schema, length, nodes, buffers, variadic, dictionaries, custom_metadata, validate, limits)

    def to_message(self, **options):
        """Encode the batch: a :class:`Message` with references to the buffers of the body, which are not copied.

        Parameters
        ----------
        **options
            `compression`, `compression_level`, `min_space_savings`, `alignment`, `metadata_version` and
            `use_threads`, as for :func:`arrowipc.new_stream`.
        """
        from arrowipc.encode.batch_writer import batch_message

        return batch_message(self, **options)

    def serialize(self, **options):
        """Return the encapsulated RecordBatch message as bytes; the options are those of `to_message`.

        :func:`arrowipc.read_record_batch` reads it back, given the schema.
        """
        from arrowipc.encode.batch_writer import batch_message

        return batch_message(self, **options).serialize(options.get("alignment", 8))

    def __reduce_ex__(self, protocol):
        from arrowipc.values.pickling import reduce_batch

        return reduce_batch(self, protocol)

    def __copy__(self):
        return self

    def __repr__(self):
        from arrowipc.values.repr import rows_text

        return rows_text(self)

    def __arrow_c_array__(self, requested_schema=None):
        """Export as a struct array: an ``arrow_schema`` and an ``arrow_array`` PyCapsule, without copying."""
        from arrowipc.cdata.export import export_array

        return export_array(self, requested_schema)

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        """Export as a struct array on the CPU: ``arrow_schema`` and ``arrow_device_array`` PyCapsules."""
        from arrowipc.cdata.export import export_device_array

        return export_device_array(self, requested_schema, **kwargs)

    def __arrow_c_stream__(self, requested_schema=None):
        """Export as a stream of this one batch: an ``arrow_array_stream`` PyCapsule."""
        from arrowipc.cdata.export import export_stream

        return export_stream(plan_schema(self.plan), iter([self]), requested_schema)

    def __arrow_c_device_stream__(self, requested_schema=None, **kwargs):
        """Export the same as a stream on the CPU: an ``arrow_device_array_stream`` PyCapsule."""
        from arrowipc.cdata.export import export_device_stream

        return export_device_stream(plan_schema(self.plan), iter([self]), requested_schema, **kwargs)


set_hints_metaclass(RecordBatch)


def same_rows(RecordBatch batch not None, RecordBatch other not None, bint nan_equal):
    """Whether batches of equal schemas, and as many rows, have equal values."""
    cdef int32_t i, f, g
    check_native(batch, "comparison")
    check_native(other, "comparison")
    for i in range(batch.d.plan.n_columns):
        f, g = batch.d.plan.columns[i], other.d.plan.columns[i]
        if not same_values(batch, f, batch.d.nodes[f].offset, other, g, other.d.nodes[g].offset, batch.d.length,
                           nan_equal):
            return False
    return True


def find_other_schema(schema, list batches):
    """Return the position of the first batch whose schema is not equal to `schema`; -1: there is none."""
    cdef Plan known = None      # of a batch whose schema is equal
    cdef RecordBatch batch
    for i, batch in enumerate(batches):
        if known is None or not plans_equal(known, batch.plan):
            if not schema.equals(plan_schema(batch.plan)):
                return i
            known = batch.plan
    return -1


def names_columns(items):
    """Return whether the index in ``batch[items]`` names columns, and not rows."""
    return isinstance(items, (list, tuple)) and len(items) > 0 and all([isinstance(each, str) for each in items])


cdef RecordBatch as_batch(object data):
    if isinstance(data, RecordBatch):
        return data
    from arrowipc.cdata.import_array import batch_from

    return batch_from(data)


cdef RecordBatch slice_batch(RecordBatch batch, int64_t offset, int64_t length):
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
    """Cut top-level field `f` to its elements [offset, offset + length), which exist, and count their nulls."""
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
        bitmap[0] = Extent(NULL, 0)


cdef Array column_at(RecordBatch batch, int64_t i):
    cdef int32_t f = batch.d.plan.columns[i]
    return make_array(batch, f, batch.d.nodes[f].offset, batch.d.nodes[f].length)


cdef list columns_at(RecordBatch batch):
    return [column_at(batch, i) for i in range(batch.d.plan.n_columns)]


cdef int64_t find_column(Plan plan, object i) except -1:
    cdef int64_t count = plan.d.n_columns
    if isinstance(i, str):
        return column_named(plan, i)
    position = integer_of("column", i)
    if not -count <= position < count:
        raise NotFoundError(f"column index {i} is out of range: the batch has {count} columns")
    return position + count if position < 0 else position


def column_of_each(list batches not None, i):
    """One column of batches of the same names; see `RecordBatch.column`."""
    cdef RecordBatch batch
    cdef Plan plan = None
    cdef int64_t position = 0
    cdef list out = []
    for batch in batches:
        if batch.plan is not plan:
            plan = batch.plan
            position = find_column(plan, i)
        out.append(column_at(batch, position))
    return out


def batches_to_pydict(batches, schema, max_values, extensions=None, maps_as_pydicts=None):
    """Columns of batches that have `schema`, as a dict of lists of Python values."""
    names = schema.names
    if len(set(names)) < len(names):
        raise UsageError("to_pydict would lose columns whose name occurs twice; take them by index")
    cdef Quota q = quota(parse_max_values(max_values), extensions, maps_as_pydicts)
    return dict(zip(names, made_values(batches, names, q, -1)))


def batches_to_pylist(batches, schema, max_values, extensions=None, maps_as_pydicts=None):
    """Rows of batches that have `schema`: dicts, or lists of (name, value) pairs where names repeat."""
    cdef Quota q = quota(parse_max_values(max_values), extensions, maps_as_pydicts)
    rows = count_rows(batches)
    for batch in batches:
        q.take(batch, len(batch))
        q.take_objects(batch, len(batch), DICT_SLOTS)
    return made_values(batches, schema.names, q, rows)


cdef list made_values(object batches, list names, Quota q, int64_t rows):
    """The columns of all batches, joined; or, unless `rows` is -1, the rows of all batches."""
    cdef bint running = pause_collector()
    try:
        columns = column_values(batches, len(names), q)
        if rows < 0:
            return columns
        return rows_of(tuple(names), columns, len(columns[0]) if columns else rows, NULL, 0)
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


cdef class BatchProducer:
    cdef Columns next(self):
        raise NotImplementedError(f"{type(self).__name__} does not produce batches")

    def __iter__(self):
        return self

    def __next__(self):
        batch = self.next()
        if batch is None:
            raise StopIteration
        return batch


# -- arrays as columns ---------------------------------------------------------------------------------------


cdef Plan default_plan(object schema):
    cdef LimitsData limits
    limits_data(None, &limits)
    return python_plan(schema, &limits)


cdef Columns single_column(Array array, Plan plan):
    """The buffers are shared, and so are the tables of nodes and extents if nothing in them has to change."""
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


def batch_of(schema, arrays, length):
    """Arrays as the columns of a schema, which has their types, over the same buffers; each has `length` elements."""
    return batch_of_arrays(default_plan(schema), list(arrays), length)


# (field, the plan of a batch with this column only): callers ask for the same columns again and again.
cdef Recent recent_columns = Recent(8)


def batches_of(field, arrays):
    """Arrays of a field's type as batches of one column, in the same memory."""
    cdef Array array
    cdef list out = []
    cdef tuple known = recent_columns.find(identity(field))
    if known is None:
        from arrowipc.schemas import Schema

        known = field, default_plan(Schema([field]))
        recent_columns.keep(known, identity(field))
    for array in arrays:
        check_native(array.columns, "a column of a batch")
        out.append(batch_of_arrays(<Plan> known[1], [array], array.length))
    return out


def only_column(Array array not None):
    """An array as the only column of a batch."""
    return batches_of(array.field, (array,))[0]


cdef int place_arrays(Columns out, Plan plan, list arrays, int64_t length) except -1:
    """Fill `out`, which is new, with the arrays as columns of `plan`."""
    cdef Array array
    cdef int32_t i, f, g, column, variadic = 0, next = plan.d.n_buffers
    cdef list dictionaries = []
    cdef const ColumnsData* d
    for array in arrays:
        d = &array.columns.d
        for g in range(array.index, d.plan.fields[array.index].end):
            if d.plan.fields[g].view >= 0:
                variadic += d.views[d.plan.fields[g].view].count
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
    out.owner = (<Array> arrays[0]).columns if len(arrays) == 1 else tuple([(<Array> each).columns for each in arrays])
    out.dictionaries = share_dictionaries(plan, dictionaries) if dictionaries else ()
    return 0


cdef tuple share_dictionaries(Plan plan, list arrays):
    cdef list out = [None] * len(plan.dictionaries), taken = [None] * len(plan.dictionaries)
    cdef Array array, known
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
        dictionary, known = plan.dictionaries[ordinal], taken[ordinal]
        if known is None:
            out[ordinal] = single_column(array, dictionary.values)
            taken[ordinal] = array
        elif (array.columns is not known.columns or array.index != known.index or array.offset != known.offset
                or array.length != known.length):
            raise UsageError(f"column {field_path(plan, i)!r}: it shares dictionary {dictionary.id} with another "
                             "field, and has other values")
    return tuple(out)


# -- some columns --------------------------------------------------------------------------------------------


# (plan, columns, the plan of the columns, its fields as fields of the first plan): all batches of a stream ask for the
# same columns.
cdef Recent recent_parts = Recent(8)


cdef bint has_columns(object part, const void* wanted) except -1:
    return (<tuple> part)[1] == <object> wanted


cdef tuple part_of(Plan whole, tuple columns):
    """Return an entry of `recent_parts`, so that the same columns get the same plan object."""
    cdef Plan plan
    cdef int32_t i
    cdef tuple part = recent_parts.find(identity(whole), <void*> columns, has_columns)
    if part is None:
        plan = project(whole, columns)
        places = {whole.d.fields[i].source_node: i for i in range(whole.d.n_fields)}
        part = (whole, columns, plan, [places[plan.d.fields[i].source_node] for i in range(plan.d.n_fields)])
        recent_parts.keep(part, identity(whole))
    return part


def select_each(batches, columns):
    """Some columns of batches; see `RecordBatch.select`."""
    cdef tuple wanted = columns_of(columns)
    return [select_columns(batch, wanted) for batch in batches]


cdef RecordBatch select_columns(RecordBatch batch, tuple columns):
    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    cdef tuple part = part_of(batch.plan, columns)
    cdef Plan plan = <Plan> part[2]
    cdef list fields = <list> part[3], dictionaries
    cdef int32_t i, g, ordinal, variadic = 0, next
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


cdef int64_t length_of(object piece) except -1:
    if type(piece) is RecordBatch:
        return (<RecordBatch> piece).d.length
    return (<Array?> piece).length


cpdef object count_rows(object pieces):
    cdef int64_t rows = 0, count
    beyond = 0
    for piece in pieces:
        count = length_of(piece)
        if count > INT64_MAX - rows:
            beyond, rows = beyond + rows, 0
        rows += count
    return beyond + rows


def slice_pieces(list pieces not None, offset, length):
    """Return elements [offset, offset + length) of arrays, or of batches, that follow each other.

    Pieces without elements are left out. If all are, one of them stays, because of the values of its dictionaries.
    """
    cdef int64_t skip, left, count, some
    cdef list out = []
    total = count_rows(pieces)
    if total > INT64_MAX:
        raise LimitError(f"slice: {total:,} elements are more than {INT64_MAX:,}; slice some of the batches")
    skip, left = clip(offset, length, total)
    for piece in pieces:
        if left == 0:
            break
        count = length_of(piece)
        some = min(count - skip, left)
        if some > 0:
            out.append(piece if some == count else piece.slice(skip, some))
            left -= some
        skip = max(skip - count, 0)
    return out or [piece.slice(0, 0) for piece in pieces[:1]]


# -- concatenation -------------------------------------------------------------------------------------------


cdef void measure_piece(BuilderMemory g, const ColumnsData* d, int32_t f, int64_t at, int64_t count) noexcept nogil:
    """Add to `wanted` the bytes of `count` elements of a field, from physical element node.offset + `at` on.

    Below lists, only numbers are counted. Buffers that are not counted grow as elements are appended.
    """
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const FieldPlan* below = field + 1
    cdef const Extent* extents = &d.extents[field.first_buffer]
    cdef int64_t* wanted = g.wanted + field.first_buffer
    cdef int32_t kind = LAYOUTS[field.layout].buffers[1].kind, width, child = f + 1
    cdef int64_t first, last, within
    at += d.nodes[f].offset
    if field.layout == LAYOUT_STRUCT:
        while child < field.end:
            measure_piece(g, d, child, at, count)
            child = d.plan.fields[child].end
    elif kind == BUFFER_FIXED:
        wanted[1] += count * width_of(field, 1)
    elif kind == BUFFER_OFFSETS and at + count < extents[1].size // width_of(field, 1):
        width = <int32_t> width_of(field, 1)
        wanted[1] += (count + (wanted[1] == 0)) * width
        # The offsets are not checked yet: never count more than the buffer or the child has.
        first, last = load_int(extents[1].data, at, width), load_int(extents[1].data, at + count, width)
        within = last - first if 0 <= first < last else 0
        if LAYOUTS[field.layout].n_children == 0:
            wanted[2] += min(within, extents[2].size)
        elif below.layout == LAYOUT_FIXED:
            g.wanted[below.first_buffer + 1] += min(within, d.nodes[f + 1].length) * below.width


cdef int concat_into(Columns out, tuple pieces, bint lend=True) except -1:
    cdef ColumnsBuilder builder = ColumnsBuilder((<Columns> pieces[0]).plan)
    cdef int64_t count = len(pieces), rows = 0, k, i
    cdef Memory data = Memory(2 * count * sizeof(void*))
    cdef const ColumnsData** piece = <const ColumnsData**> data.data
    cdef PyObject** owner = <PyObject**> (piece + count)
    cdef list dictionaries, owners
    cdef Columns one
    cdef Fault fault
    cdef int found = 0
    for one in pieces:
        if one.plan is not builder.matched:
            builder.match(one.plan)
    dictionaries, differing = longest_dictionaries(pieces)
    if differing:
        from arrowipc.distinct.unifier import unify

        pieces, unified = unify(pieces, differing)
        for k in differing:
            dictionaries[k] = unified[k]
    owners = [(<Columns> one).owner for one in pieces]
    for i in range(count):
        one = <Columns> pieces[i]
        piece[i] = &one.d
        owner[i] = PyList_GET_ITEM(owners, i)
        rows += one.d.length
    # No other thread has `builder`, and batches do not change: other threads may run meanwhile.
    with nogil:
        for i in range(count):
            for k in range(builder.p.n_columns):
                measure_piece(builder, piece[i], builder.p.columns[k], 0, piece[i].length)
        for i in range(count):
            builder.ahead = <double> rows / max(builder.length + piece[i].length, 1)
            # Rows that a failed append has left need not be removed here.
            found = builder.append_data(piece[i], owner[i] if lend else NULL, &fault)
            if found < 0:
                break
    if found < 0:
        raise_fault(&fault, builder.plan, f"batch {i}")
    builder.dictionaries = tuple(dictionaries)
    builder.snapshot_into(out)
    return 0


def concat_batches(batches):
    """Put batches one behind the other.

    A single batch is returned as it is; else everything is copied, except large data buffers of view columns, which are
    shared. Dictionaries that differ, and do not continue each other, become one that has each value once.

    Parameters
    ----------
    batches : iterable of RecordBatch, or of objects with ``__arrow_c_array__`` or ``__arrow_c_stream__``
        One or more, with the same types (names and metadata are taken from the first one).

    Raises
    ------
    UsageError
        No batch, or batches of different types.
    UnsupportedError
        32-bit offsets or run ends cannot count all values, or dictionary indices all distinct ones; or the orders of
        ordered dictionaries contradict each other.
    FormatError
        A batch was read with ``validate="none"`` and its contents are broken.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> parts = [ipc.RecordBatch.from_pydict({"x": [value]}) for value in (1, 2, 3)]
    >>> ipc.concat_batches(parts).to_pydict()
    {'x': [1, 2, 3]}
    """
    cdef list pieces = []
    cdef RecordBatch first, out
    for i, each in enumerate(items_of("batches", batches)):
        try:
            pieces.append(as_batch(each))
        except UsageError as error:
            raise UsageError(f"concat_batches: item {i}: {error}") from None
    if not pieces:
        raise UsageError("concat_batches: expected one batch at least, found none")
    first = pieces[0]
    if len(pieces) == 1:
        return first
    other = find_other_schema(plan_schema(first.plan), pieces)
    if other >= 0:
        from arrowipc.schemas import difference

        raise UsageError(f"concat_batches: batch {other} has another schema than batch 0: it "
                         f"{difference(first.schema, pieces[other].schema)}")
    out = RecordBatch.__new__(RecordBatch)
    concat_into(out, tuple(pieces))
    return out
