"""Arrays: one column of a batch, or one child of a column, as a thin view of the columns that were read.

Element 0 of an array lies at the physical position `offset` of its buffers, so slices share all of them.
"""

cimport cython
from cpython.ref cimport Py_INCREF
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Unpack
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from arrowipc._core cimport Columns, Memory, Plan, export_bytes, window
from arrowipc.columns.elements cimport AS_BACKED, check_native, dictionary_of, quota, values
from arrowipc.columns.equal cimport same_values
from arrowipc.inline.bits cimport SLACK, append_bits, load_int
from arrowipc.inline.element cimport validity
from arrowipc.inline.fbs_layout cimport Type_FloatingPoint, Type_Int
from arrowipc.inline.layouts cimport width_of
from arrowipc.inline.loads cimport bitmap_bytes, count_bits, get_bit
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_SIGNED, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_FIXED_LIST, LAYOUT_NULL, LAYOUT_SPARSE,
    LAYOUT_STRUCT, ColumnsData, Extent, FieldPlan, Node,
)
from arrowipc.inline.threads cimport in_order
from arrowipc.metadata.schema_reader cimport plan_field

from arrowipc.arguments import Hints, check_flag, described, equals_foreign, integer_of
from arrowipc.columns.column import LISTS, Nested
from arrowipc.errors import FormatError, UsageError


cdef extern from "Python.h":
    void Py_SET_TYPE(object thing, type of_type)
    void PyType_Modified(type changed)


cdef class Compiled:
    """The first base of `Array`. Cython requires that it is compiled; Python classes may only follow it."""


cdef int set_hints_metaclass(type compiled) except -1:
    metaclass = type(Hints)
    Py_INCREF(metaclass)
    Py_SET_TYPE(compiled, metaclass)
    PyType_Modified(compiled)
    return 0


cdef class Array(Compiled, Nested):
    """One column, or one child of a column: a type, a length, and buffers that are shared with the batch.

    Batches make arrays. ``len(array)``, ``array[i]``, ``array[2:5]`` and iteration work as for a list, and
    ``numpy.asarray(array)`` as :meth:`to_numpy` does where that can be done without loss. ``==`` compares types and
    values, see :meth:`equals`. Arrays are not hashable.

    Attributes
    ----------
    offset : int
        Position of element 0 in the buffers, in elements (in bits for booleans and validity bitmaps).
    length : int
        Number of elements.
    values, offsets, sizes, keys, items, run_ends, indices : Array
        The parts of lists, maps, run-end encoded and dictionary-encoded arrays, which other arrays do not have.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> array = ipc.Array.from_pylist([[1, 2], None, [3]])
    >>> array.type, len(array), array.null_count, array[0], array[-1]
    (DataType(list<item: int64>), 3, 1, [1, 2], [3])
    >>> array.children[0].to_numpy()
    array([1, 2, 3])
    >>> array.slice(1).to_pylist(), array.take([2]).to_pylist(), array.is_valid().to_pylist(), len(array.buffers())
    ([None, [3]], [[3]], [True, False, True], 2)
    """

    def __cinit__(self, columns=None):
        self.columns = columns if isinstance(columns, Columns) else None
        if self.columns is None or self.columns.d.plan == NULL or self.columns.d.plan.n_fields == 0:
            raise UsageError("arrays are made by array(values) and Array.from_pylist(), or are columns: batch[name]")

    @staticmethod
    def from_arrow(data, *, validate="none"):
        """Take over an array that another library holds, without copying it; see :meth:`RecordBatch.from_arrow`."""
        from arrowipc.cdata.import_array import array_from

        return array_from(data, validate)

    @staticmethod
    def from_pylist(values, type=None):
        """Make an array of Python values or of a NumPy array.

        `type` None: that of the values (:func:`arrowipc.values.inference.infer_type`). A value that does not fit the
        type is a UsageError that names its position.

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

    @staticmethod
    def from_buffers(type, length, buffers, null_count=-1, offset=0, children=None):
        """Make an array whose elements are in buffers that exist; see :meth:`RecordBatch.from_buffers` for them.

        Parameters
        ----------
        type : DataType or its name
        length : int
            Elements, from `offset` on.
        buffers : iterable of bytes-like or None
            Those of the type's layout, without those of its children.
        null_count : int, default -1
            -1: not counted.
        offset : int, default 0
            Elements before the first one.
        children : iterable of Array, optional
            Those of a nested type, in order.

        Examples
        --------
        >>> import arrowipc as ipc
        >>> ipc.Array.from_buffers("int8", 2, [None, bytes([1, 2, 3])], offset=1).to_pylist()
        [2, 3]
        """
        from arrowipc.decode.from_buffers import array_from_buffers

        return array_from_buffers(type, length, buffers, null_count, offset, children)

    @property
    def field(self):
        """Name, type, nullability and metadata, an :class:`arrowipc.Field`."""
        if self._field is None:
            made = field_of(self.columns.plan, self.index)
            in_order()
            with cython.critical_section(self):
                if self._field is None:
                    self._field = made
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
        """Bytes of the buffers that the elements use, with those of children and of the dictionary."""
        from arrowipc.columns.record_batch import only_column
        from arrowipc.columns.truncate import compact

        return compact(only_column(self)).nbytes

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
        """The values that the indices of a dictionary-encoded array refer to; None: there are none (yet)."""
        return dictionary_array(self.columns, self.index)

    def buffers(self):
        """Return the buffers in the order of the format, as read-only memoryviews of bytes that keep the memory alive.

        They are those of the whole column: element i of this array lies at `offset` + i. None stands for the validity
        bitmap of an array without nulls. View types have their variadic data buffers at the end; children and
        dictionaries have buffers of their own.
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

    @property
    def values(self):
        """The elements of lists, or the values of runs, also those that a slice leaves out."""
        cdef int32_t child = self.index + 1
        from arrowipc.datatypes import RunEndEncoded

        self._expect("values", (*LISTS, "RunEndEncoded"))
        if isinstance(self.type, RunEndEncoded):
            child = self.columns.d.plan.fields[child].end    # behind the run ends
        return make_array(self.columns, child, self.columns.d.nodes[child].offset, self.columns.d.nodes[child].length)

    def _arrays(self):
        return [self]

    def _whole(self):
        return self

    def _each(self, change):
        return change(self)

    def _cut(self, array):
        return array

    def slice(self, offset=0, length=None):
        """Return elements ``[offset, offset + length)`` without copying; what lies past the end is left out."""
        start, count = clip(offset, length, self.length)
        return make_array(self.columns, self.index, self.offset + <int64_t> start, count)

    def take(self, indices):
        """Return elements in any order and number; parameters and errors are those of :meth:`RecordBatch.take`."""
        from arrowipc.columns.record_batch import only_column
        from arrowipc.columns.take import take_indices

        return take_indices(only_column(self), indices).column(0)

    def filter(self, mask):
        """Return the elements where `mask` is true; parameters and errors are those of :meth:`RecordBatch.filter`."""
        from arrowipc.columns.record_batch import only_column
        from arrowipc.columns.take import keep_rows

        return keep_rows(only_column(self), mask_of(mask)).column(0)

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
        if isinstance(i, str):
            return self.member(i)
        if not is_integer(i):
            return self.filter(i) if is_mask(i) else self.take(i)
        position = integer_of("index", i)
        if not -self.length <= position < self.length:
            raise IndexError(f"index {i} is out of range: the array has {self.length} elements")
        return values(self.columns, self.index, self.offset + position % self.length, 1, quota(AS_BACKED))[0]

    def __iter__(self):
        cdef int64_t i
        for i in range(0, self.length, STEP):
            yield from values(self.columns, self.index, self.offset + i, min(STEP, self.length - i), quota(AS_BACKED))

    def to_pylist(self, *, max_values=None, extensions=None, maps_as_pydicts=None):
        """Return the elements as Python values.

        ======================================  ============================================================
        type                                    value
        ======================================  ============================================================
        integers, floats, bool, text, binary    int, float, bool, str, bytes
        decimals                                decimal.Decimal, exact
        dates                                   datetime.date; datetime.datetime for a date64 inside a day
        times, timestamps, durations            datetime.time, datetime.datetime (aware in a zone), datetime.timedelta
        what lies beyond these classes          int, as stored; also in a time zone that Python does not know
        intervals                               int months, DayTime, MonthDayNano (named tuples)
        lists                                   list
        maps                                    list of (key, value) tuples
        structs                                 dict; list of (name, value) tuples where names repeat
        unions                                  the value of the child
        dictionary and run-end encodings        the decoded values; rows may share one object
        ======================================  ============================================================

        Python's cyclic collector is paused until the values are made.

        Parameters
        ----------
        max_values : int, optional
            The most Python objects to make (else a LimitError): small input can claim to be billions of nulls. It
            also bounds how much text may be made of bytes that several rows share. By default 2**24 and 8 for each
            byte of the columns, 2**27 at most. Lists and dicts are counted apart; a byte is enough for one.
        extensions : bool or mapping, optional
            None: ``arrow.uuid`` and ``arrow.bool8`` become what they mean, as in pyarrow. False: values stay as they
            are stored. True: values of all these extension types become what they mean, nested ones too; others stay
            as they are stored, as does a column that is not stored as its type asks for.

            ================================  ==========================================================
            ``arrow.uuid``, ``arrow.bool8``   uuid.UUID, bool
            ``arrow.json``                    the parsed text
            ``arrow.parquet.variant``         as its types would be above; shredded ones as stored
            ``arrow.timestamp_with_offset``   datetime.datetime with its offset
            ``arrow.fixed_shape_tensor``,     nested lists, as ``to_numpy().tolist()``
            ``arrow.variable_shape_tensor``
            ================================  ==========================================================

            A mapping from names of extension types to functions of one stored value adds to these, or replaces
            them: ``extensions={"geoarrow.wkb": shapely.from_wkb}``.
        maps_as_pydicts : {None, "strict", "lossy"}
            Maps become dicts instead of lists of pairs. A key that repeats is a UsageError if "strict"; if "lossy", its
            last value counts.

        Raises
        ------
        FormatError
            If values are broken, naming column and row; readers find that out earlier unless told
            ``validate="none"``, but for values of extension types.
        UnsupportedError
            If nanoseconds are no whole microseconds: :meth:`to_numpy` gives all digits.
        """
        return values(self.columns, self.index, self.offset, self.length,
                      quota(parse_max_values(max_values), extensions, maps_as_pydicts))

    def to_numpy(self, copy=False, *, zero_copy_only=None, writable=False, dtype=None):
        """Return the elements as a NumPy array.

        Of shape (length,), or (length, size) for fixed-size lists. Timestamps and dates are datetime64
        (in UTC when there is a timezone), durations timedelta64, intervals of days or nanoseconds structured.

        Parameters
        ----------
        copy : bool, default False
            False: a read-only view of the buffers, which stay alive with it. That works for numbers other
            than booleans, for dates in ms, times of day (as integers), timestamps, durations, intervals, decimals and
            binary of fixed size (both as raw bytes, dtype ``V``), and fixed-size lists of these, all without nulls.
            True: always a new array. Nulls become NaN or NaT, integers with nulls float64, ``arrow.bool8`` bool; text,
            binary, decimals, times of day, structs and maps become objects as in ``to_pylist(extensions=False)``, lists
            NumPy arrays; encoded values are decoded.
        zero_copy_only : bool, optional
            pyarrow's name. True: a view, as with ``copy=False``. False: a view where that shows the values, else a
            copy.
        writable : bool, default False
            True: not a view, which is read-only.
        dtype : dtype, optional
            Of the result, which is converted to it, and copied if that needs a copy.

        Raises
        ------
        UsageError
            If a view is asked for and a copy is needed, or the data is kept in big-endian.
        FormatError, LimitError
            As for :meth:`to_pylist`.
        """
        from arrowipc.values.to_numpy import as_array, to_numpy

        check_native(self.columns, "conversion to NumPy")
        copy = copy is not False and check_flag("copy", copy)
        if zero_copy_only is not None:
            zero_copy_only = check_flag("zero_copy_only", zero_copy_only)
        if writable is not False and check_flag("writable", writable):
            if zero_copy_only:
                raise UsageError("to_numpy: a view is read-only, so writable=True and zero_copy_only=True exclude each "
                                 "other")
            copy = True
        if dtype is not None or zero_copy_only is False:
            return as_array(self, dtype, copy or (False if zero_copy_only else None))
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

        A dictionary-encoded array never equals a plain one; two are equal when their decoded values are. NaN equals NaN
        only if `nan_equal`. `other` may be of another library. Broken values raise a FormatError.
        """
        cdef Array array
        nan_equal = nan_equal is not False and check_flag("nan_equal", nan_equal)
        if not isinstance(other, Array):
            if not is_foreign(other):
                return False
            from arrowipc.cdata.import_array import array_from

            other = array_from(other, most=self.length)
        array = other
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
        return equals_foreign(self, other) if is_foreign(other) else NotImplemented

    def __lt__(self, other):
        return self._compared(other)

    def __le__(self, other):
        return self._compared(other)

    def __gt__(self, other):
        return self._compared(other)

    def __ge__(self, other):
        return self._compared(other)

    def __reduce_ex__(self, protocol):
        from arrowipc.values.pickling import reduce_array

        return reduce_array(self, protocol)

    def __copy__(self):
        return self

    def __arrow_c_array__(self, requested_schema=None):
        """Export as an ``arrow_schema`` and an ``arrow_array`` PyCapsule, without copying."""
        from arrowipc.cdata.export import export_array

        return export_array(self, requested_schema)

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        """Export as an array on the CPU: an ``arrow_schema`` and an ``arrow_device_array`` PyCapsule."""
        from arrowipc.cdata.export import export_device_array

        return export_device_array(self, requested_schema, **kwargs)


set_hints_metaclass(Array)


cdef const char* buffer_format(const FieldPlan* f) noexcept:
    """Return the struct module's code for the numbers of a field; NULL: its values are no numbers."""
    cdef int32_t width = f.width
    if f.type == Type_FloatingPoint:
        return b"e" if width == 2 else b"f" if width == 4 else b"d"
    if f.type != Type_Int:
        return NULL
    if f.flags & FIELD_SIGNED:
        return b"b" if width == 1 else b"h" if width == 2 else b"i" if width == 4 else b"q"
    return b"B" if width == 1 else b"H" if width == 2 else b"I" if width == 4 else b"Q"


cdef Array make_array(Columns columns, int32_t field, int64_t offset, int64_t length):
    """Return elements [offset, offset + length) of a field, `offset` physical; the caller knows that they exist."""
    cdef Array array = Array.__new__(Array, columns)
    array.index = field
    array.offset = offset
    array.length = length
    array._null_count = -1
    return array


cdef Array dictionary_array(Columns columns, int32_t field):
    """The values of an encoded field's dictionary; None for other fields, and before it has arrived."""
    cdef Columns dictionary = dictionary_of(columns, field)
    if dictionary is None:
        return None
    return make_array(dictionary, 0, dictionary.d.nodes[0].offset, dictionary.d.length)


cdef object field_of(Plan plan, int32_t field):
    """Return the Field of a FieldPlan. For a column, it is the object in the schema if the schema exists already."""
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
        return plan.schema.fields[low]
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


# -- arrays over other buffers, and arguments -----------------------------------------------------------------


def validity_array(Array array, uint8_t flip):
    """Return the validity bits as booleans; each byte of them is combined with `flip` (0 or 255) by exclusive or."""
    cdef const ColumnsData* d = &array.columns.d
    cdef const uint8_t* bits = validity(d, array.index)
    cdef int64_t size = bitmap_bytes(array.length), i
    cdef Memory memory = Memory(size + SLACK)
    from arrowipc.types import bool_

    quota(AS_BACKED).take(array.columns, array.length)
    if bits == NULL:
        memset(memory.data, 0 if d.plan.fields[array.index].layout == LAYOUT_NULL else 255, size)
    else:
        append_bits(memory.data, 0, bits, array.offset, array.length)
    for i in range(size):
        memory.data[i] ^= flip
    memory.size = size
    return column_of(bool_(), array.length, [None, memory], 0)


def list_span(Array array not None):
    """Return the first and the last offset of lists, and the number of elements that belong to null lists."""
    cdef const ColumnsData* d = &array.columns.d
    cdef int32_t width = <int32_t> width_of(&d.plan.fields[array.index], 1)
    cdef const Extent* offsets = &d.extents[d.plan.fields[array.index].first_buffer + 1]
    cdef const uint8_t* bits = validity(d, array.index)
    cdef int64_t limit = d.nodes[array.index + 1].length, first = 0, last = 0, hidden = 0, offset, i
    if offsets.size == 0:
        return 0, 0, 0      # an empty array may leave out its one offset
    check_native(array.columns, "flatten()")
    for i in range(array.offset, array.offset + array.length + 1):
        offset = load_int(offsets.data, i, width)
        if not last <= offset <= limit:
            raise FormatError(f"flatten: the offsets of {array.type} do not rise from 0 to {limit}")
        if i == array.offset:
            first = offset
        elif bits != NULL and not get_bit(bits, i - 1):
            hidden += offset - last
        last = offset
    return first, last, hidden


def reinterpret(Array array, kind, buffers, int64_t count):
    """Return the first `count` elements as an array of `kind`, a type of the same width, over `buffers`."""
    check_native(array.columns, "looking at the stored integers")
    return column_of(kind, array.offset + count, buffers).slice(array.offset)


def column_of(kind, int64_t length, buffers, null_count=-1):
    """An array of a type without children or a dictionary, over buffers of `length` elements."""
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.schemas import schema_of_type

    return RecordBatch.from_buffers(schema_of_type(kind), length, [(length, null_count)], buffers).column(0)


def is_mask(items):
    """Return whether the index in ``array[items]`` is a mask, a boolean for each row, and not row numbers."""
    if isinstance(items, (list, tuple)):
        return (bool in (kinds := set(map(type, items)))) and kinds <= {bool, type(None)}
    kind = getattr(items, "dtype", getattr(items, "type", None))
    return str(kind) in ("bool", "boolean", "Boolean", "DataType(bool)", "bool[pyarrow]")


def mask_of(items):
    """A mask as an array."""
    if isinstance(items, str) or callable(items):
        raise UsageError("filter: expected a mask, conditions such as [('x', '>', 3)], or an expression of pyarrow or "
                         f"polars, found {described(items)}")
    if isinstance(items, Array) or is_foreign(items):
        return as_array(items)
    from arrowipc.types import bool_
    from arrowipc.values.from_python import build_array

    return build_array(items, bool_())


def is_conditions(items):
    """Return whether the argument of `filter` is a list of conditions, and not a mask."""
    return isinstance(items, (list, tuple)) and len(items) > 0 and isinstance(items[0], (list, tuple, str))


def is_expression(items):
    """Return whether `items` is an expression of pyarrow or polars, which their own engines compute."""
    kind = type(items)
    return (kind.__module__.partition(".")[0], kind.__name__) in (("pyarrow", "Expression"), ("polars", "Expr"))


cpdef bint is_integer(object i) except -1:
    """Return whether `i` is a single index; NumPy's arrays have `__index__`, too."""
    return isinstance(i, int) or (hasattr(i, "__index__") and getattr(i, "ndim", 0) == 0)


cpdef bint is_foreign(object data):
    """Return whether an object offers its rows through the Arrow C data or stream interface."""
    return hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__")


cdef Array as_array(object data):
    if isinstance(data, Array):
        return data
    from arrowipc.cdata.import_array import array_from

    return array_from(data)


# The largest max_values: more than any memory holds, and small enough to be multiplied without an overflow.
cdef int64_t MOST_VALUES = 2**56


cdef int64_t parse_max_values(object max_values) except? -1:
    """Return the quota that a caller asks for; for None AS_BACKED: the bytes of the columns decide."""
    if max_values is not None and not 0 <= integer_of("max_values", max_values) <= MOST_VALUES:
        raise UsageError(f"max_values must be 0 to 2**56, found {max_values}")
    return AS_BACKED if max_values is None else max_values


cpdef tuple clip(object offset, object length, int64_t available):
    """Return start and count of the elements that a slice asks for and that exist."""
    start = integer_of("slice: offset", offset)
    count = available if length is None else integer_of("slice: length", length)
    if start < 0 or count < 0:
        raise UsageError(f"slice: offset and length must not be negative, found {start} and {count}")
    start = min(start, available)
    return start, min(count, available - start)
