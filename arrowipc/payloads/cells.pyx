"""The cells of a payload column: where the bytes of each lie, whatever library holds them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free

from arrowipc._core cimport Columns, Memory, Source, raise_fault
from arrowipc.cdata.import_array cimport BatchStream, import_stream
from arrowipc.columns.array cimport Array, make_array
from arrowipc.columns.elements cimport check_native
from arrowipc.columns.record_batch cimport RecordBatch, default_plan
from arrowipc.inline.element cimport validity, word_span
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport Type_FixedSizeBinary
from arrowipc.inline.layouts cimport LAYOUTS
from arrowipc.inline.loads cimport get_bit
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_UTF8, LAYOUT_BOOL, LAYOUT_FIXED, LAYOUT_NULL, Extent, FieldPlan, Node,
)
from arrowipc.inline.room cimport new_zeros
from arrowipc.payloads.dictionary_gc cimport extent_of

from arrowipc.errors import UsageError

cdef enum:
    # Python objects that are read at a time: a call that stops early should not have read all of them.
    OBJECTS_AT_ONCE = 4096

cdef const uint8_t* EMPTY = <const uint8_t*> b""


cdef class Cells:
    def __dealloc__(self):
        free(self.table)

    cdef int get(self, int64_t i, Cell* out, Fault* fault) noexcept nogil:
        cdef const uint8_t* bits
        cdef int64_t at = i - self.first
        if self.table != NULL:
            out[0] = self.table[at]
            return 0
        at += self.offset
        out.data = NULL
        out.size = 0
        bits = validity(self.d, self.field)
        if bits != NULL and not get_bit(bits, at):
            return 0
        if self.width:
            out.data = self.d.extents[self.d.plan.fields[self.field].first_buffer + 1].data + at * self.width
            out.size = self.width
            return 0
        if self.d.plan.fields[self.field].layout == LAYOUT_NULL:
            return 0
        if word_span(self.d, self.field, at, &out.data, &out.size, fault) < 0:
            return -1
        if out.size == 0:
            out.data = EMPTY
        return 0

    cdef object owner(self, int64_t i):
        return self.columns if self.table == NULL else self.objects[i - self.first]


cdef int raise_cell_fault(const Fault* fault, Cells cells) except -1:
    return raise_fault(fault, cells.columns.plan, "the column of payloads itself is broken")


cdef Cells cells_of_array(Array array, int64_t first):
    """Cells of one array, whose first one is cell `first` of the column."""
    cdef Cells cells = Cells.__new__(Cells)
    cdef const FieldPlan* field = &array.columns.d.plan.fields[array.index]
    if (field.flags & (FIELD_ENCODED | FIELD_UTF8) or LAYOUTS[field.layout].n_children or field.layout == LAYOUT_BOOL
            or (field.layout == LAYOUT_FIXED and field.type != Type_FixedSizeBinary)):
        raise UsageError("payloads: expected a column of binary, large_binary, binary_view or fixed-size binary, "
                         f"found {array.type}")
    check_native(array.columns, "decoding payloads")
    cells.first = first
    cells.count = array.length
    cells.columns = array.columns
    cells.d = &array.columns.d
    cells.field = array.index
    cells.offset = array.offset
    if field.layout == LAYOUT_FIXED:
        cells.width = field.width
        if cells.width == 0:
            raise UsageError("payloads: a column of fixed-size binary of 0 bytes holds none")
    return cells


def cells_of_stream(column, int64_t start):
    """Yield the cells of every chunk that reaches beyond cell `start`."""
    cdef BatchStream stream = import_stream(column)
    cdef RecordBatch batch
    cdef Cells cells
    cdef int64_t first = 0
    with stream:
        for found in stream:
            batch = found
            if stream.whole:
                raise UsageError("payloads: expected a column, found a table or a column of structs: choose one")
            cells = cells_of_array(make_array(batch, 0, batch.d.nodes[0].offset, batch.d.length), first)
            first += cells.count
            if first > start:
                yield cells


cdef int fill_cell(Cell* cell, object item, list held, int64_t i) except -1:
    """Point a cell to the bytes of a Python object, and append their owner to `held`."""
    cdef Source source
    if type(item) is bytes:
        cell.data = <const uint8_t*> PyBytes_AS_STRING(item)
        cell.size = PyBytes_GET_SIZE(item)
        held.append(item)
    elif item is None:
        held.append(None)
    else:
        try:
            source = Source(item)
        except (TypeError, UsageError) as error:
            raise UsageError(f"payloads: cell {i}: expected bytes or None, found {type(item).__name__}") from error
        cell.data = source.data if source.size else EMPTY
        cell.size = source.size
        held.append(source)
    return 0


def cells_of_objects(column, int64_t start):
    """Yield the cells of a list, tuple or NumPy array of objects, block by block."""
    cdef Cells cells
    cdef int64_t count = len(column), first = start, i
    while first < count:
        cells = Cells.__new__(Cells)
        cells.first = first
        items = list(column[first:first + OBJECTS_AT_ONCE])
        cells.table = <Cell*> new_zeros(len(items), sizeof(Cell))
        cells.objects = []
        for i, item in enumerate(items):
            fill_cell(&cells.table[i], item, cells.objects, first + i)
        cells.count = len(items)
        yield cells
        first += cells.count


cdef object cells_from(object column, int64_t start):
    if isinstance(column, Array):
        return iter((cells_of_array(column, 0),))
    if isinstance(column, (list, tuple)):
        return cells_of_objects(column, start)
    if hasattr(column, "__arrow_c_array__") or hasattr(column, "__arrow_c_stream__"):
        return cells_of_stream(column, start)
    kind = getattr(column, "dtype", None)
    if getattr(kind, "kind", None) == "O" and hasattr(column, "__getitem__"):
        if getattr(column, "ndim", 1) != 1:
            raise UsageError(f"payloads: expected one dimension, found an array of {column.ndim}")
        return cells_of_objects(column if type(column).__module__ == "numpy" else column.to_numpy(), start)
    if getattr(kind, "kind", None) == "S":
        raise UsageError("payloads: NumPy arrays of fixed-size bytes lose zeros at the end of each cell; use "
                         "dtype=object")
    raise UsageError("payloads: expected a binary column (with __arrow_c_array__ or __arrow_c_stream__), a list or "
                     f"a NumPy object array of bytes, found {type(column).__name__}")


cdef Array array_over(object schema, int64_t count, Memory values, Memory data):
    cdef Columns columns = Columns.__new__(Columns)
    columns.allocate(default_plan(schema), 0)
    columns.d.length = count
    columns.d.nodes[0] = Node(count, 0, 0)
    columns.d.extents[0] = Extent(NULL, 0)
    columns.d.extents[1] = extent_of(values.data, values.size)
    if data is not None:
        columns.d.extents[2] = extent_of(data.data, data.size)
    columns.owner = (values, data)
    columns.dictionaries = ()
    return make_array(columns, 0, 0, count)
