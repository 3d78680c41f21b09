"""The buffers of columns while they are built, and the loops that fill those of leaf types from Python lists.

Each loop has a fast path for the exact Python class that `to_pylist` returns for the type. All other values and nulls
take the slow path, one value at a time. Only the slow path runs the code of other classes, which could change
the list: therefore it checks the list's length again afterwards.

Null slots and the padding of every block up to 64 bytes are zero, so that no old contents of memory leave the process.
"""

cimport cython
from cpython.bool cimport PyBool_Check
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check, PyFloat_CheckExact
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject, PyTypeObject, Py_GT, Py_TYPE, richcmpfunc
from cpython.unicode cimport PyUnicode_CheckExact
from libc.math cimport isinf
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, int8_t, uint32_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from arrowipc._core cimport Columns, Memory, Plan, field_path
from arrowipc.inline.bits cimport largest, load_int, ones, store_int
from arrowipc.inline.datetimes cimport import_datetime, is_plain_date
from arrowipc.inline.fbs_layout cimport (
    DateUnit_DAY, Precision_DOUBLE, Precision_SINGLE, Type_Date, Type_FloatingPoint, Type_Int, Type_Timestamp,
)
from arrowipc.inline.layouts cimport LAYOUTS
from arrowipc.inline.loads cimport bitmap_bytes, loose_i64, mul_overflows, round_up
from arrowipc.inline.plan cimport (
    FIELD_NULLABLE, FIELD_SIGNED, FIELD_UTF8, LAYOUT_BOOL, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_FIXED_LIST, LAYOUT_NULL,
    LAYOUT_RUN_END, LAYOUT_VAR64, LAYOUT_VIEW, Extent, FieldPlan, Node,
)
from arrowipc.inline.threads cimport FREE_THREADED
from arrowipc.metadata.schema_reader cimport plan_field
from arrowipc.values.scalars cimport (
    MS_PER_DAY, STORED, IS_NULL, MISFIT, Written, bytes_of, day_number, describe_kind, is_numpy, read_decimal,
    store_value, the_decimal,
)

from arrowipc.errors import UsageError

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text) noexcept
    void* PyUnicode_DATA(object text) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(object text) noexcept
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

# Stands for the slots of children under a null parent: it becomes null where the child is nullable, else zero.
FILLER = object()

cdef enum:
    INLINE = 12                 # bytes that a view holds itself
    FIRST_POOL = 1 << 12        # each data buffer of views is twice as large as the one before, from this size
    LARGEST_POOL = 1 << 25      # to this one
    CAUTIOUS_ROWS = 64          # until so many rows are done, which show how long values are,
    CAUTIOUS_BYTES = 1 << 20    # at most so many bytes are reserved for the other rows

cdef enum Zoned:
    ZONED_UNKNOWN = 0
    ZONED_NO
    ZONED_YES


cdef inline object item(list items, int64_t i, int64_t count):
    """Element i of a list that is known to have had `count` of them."""
    if PyList_GET_SIZE(items) != count:
        raise UsageError(f"a list of {count} values changed to {len(items)} while it was being read")
    return <object> PyList_GET_ITEM(items, i)


# -- text ----------------------------------------------------------------------------------------------------

cdef struct Word:
    # The bytes of one text or binary value, in memory that another object owns.
    const char* data
    Py_ssize_t size


cdef inline int open_text(Converter b, int32_t f, int64_t i, object value, Word* w) except -1:
    if PyUnicode_IS_COMPACT_ASCII(value):
        w.size = PyUnicode_GET_LENGTH(value)
        w.data = <const char*> PyUnicode_DATA(value)
        return 0
    return open_wide_text(b, f, i, value, w)


cdef int open_wide_text(Converter b, int32_t f, int64_t i, object value, Word* w) except -1:
    try:
        w.data = PyUnicode_AsUTF8AndSize(value, &w.size)    # the text keeps these bytes
    except UnicodeEncodeError:
        b.refuse(f, i, "text that UTF-8 can hold", value)
    return 0


cdef inline bint next_word(Converter b, int32_t f, int64_t i, list items, int64_t count, bint text,
                           Word* w) except -1:
    """Find the bytes of value i; return False if it is null, after marking it as null."""
    cdef PyObject* value = PyList_GET_ITEM(items, i)
    if text and PyUnicode_CheckExact(<object> value):
        open_text(b, f, i, <object> value, w)
        return True
    if not text and PyBytes_CheckExact(<object> value):
        w.size = PyBytes_GET_SIZE(<object> value)
        w.data = PyBytes_AS_STRING(<object> value)
        return True
    if value == <PyObject*> None:
        b.null(f, i, True)
        return False
    if value == <PyObject*> b.filler:
        b.null(f, i, False)
        return False
    b.held = b.word(f, i, <object> value)
    item(items, 0, count)
    if text:
        open_text(b, f, i, b.held, w)
    else:
        w.size = PyBytes_GET_SIZE(b.held)
        w.data = PyBytes_AS_STRING(b.held)
    return True


cdef int make_room(Memory memory, int64_t used, int64_t more, int64_t rows_done, int64_t rows) except -1:
    """Enlarge a block that holds `used` bytes by `more`, and by about as much as the other rows will need."""
    cdef int64_t least = used + more
    cdef double ahead = 1.0625 * least * rows / (rows_done + 1)
    cdef int64_t most = 16 * least if rows_done >= CAUTIOUS_ROWS and least < 1 << 56 else CAUTIOUS_BYTES
    memory.size = used
    try:
        memory.reserve(max(least, 2 * memory.capacity, <int64_t> min(ahead, <double> most)))
    except MemoryError:
        memory.reserve(least)
    return 0


cdef int clear_padding(Memory memory) noexcept:
    """Zero the bytes behind those in use, up to a multiple of 64."""
    cdef int64_t end = round_up(memory.size, 64)
    if memory.size < end <= memory.capacity:
        memset(memory.data + memory.size, 0, end - memory.size)
    return 0


# -- the buffers of a plan -----------------------------------------------------------------------------------


cdef class Converter:
    """The buffers of one plan while they are filled; fills the fields that have no children."""

    def __cinit__(self, Plan plan not None, *_):
        cdef int64_t nodes = plan.d.n_fields * <int64_t> sizeof(Node)
        cdef int64_t extents = plan.d.n_buffers * <int64_t> sizeof(Extent)
        cdef uint8_t* block = <uint8_t*> calloc(1, nodes + extents + plan.d.n_fields + 1)
        if block == NULL:
            raise MemoryError(f"cannot allocate columns of {plan.d.n_fields:,} fields")
        self.plan = plan
        self.p = self.d.plan = &plan.d
        self.d.nodes = <Node*> block
        self.d.extents = <Extent*> (block + nodes)
        self.zoned = block + nodes + extents
        self.owners = [None] * plan.d.n_buffers
        self.pools = [[] for _ in range(plan.d.n_views)]
        self.filler = FILLER
        self.user_field = -1

    def __dealloc__(self):
        free(self.d.nodes)

    cdef uint8_t* allocate_buffer(self, int32_t buffer, int64_t size) except NULL:
        """Return new memory for a buffer of `size` bytes; only its padding is zero."""
        cdef Memory memory
        if size <= 0:
            return <uint8_t*> self.d.nodes     # nothing is written there
        memory = Memory.__new__(Memory, size)
        memory.size = size
        clear_padding(memory)
        self.take(buffer, memory.data, size, memory)
        return memory.data

    cdef int take(self, int32_t buffer, const uint8_t* data, int64_t size, object owner) except -1:
        """Let a buffer be bytes that `owner` keeps alive."""
        self.d.extents[buffer].data = data if size else NULL
        self.d.extents[buffer].size = size
        self.owners[buffer] = owner
        return 0

    cdef int null(self, int32_t f, int64_t at, bint asked) except -1:
        """Mark an element as null. `asked`: its own value is null, which a field that is not nullable refuses."""
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef Node* node = &self.d.nodes[f]
        cdef uint8_t* bits
        if not field.flags & FIELD_NULLABLE:
            if asked:
                self.blame(f, at, "is null, and the field is not nullable")
            return 0
        if node.null_count == 0:
            bits = self.allocate_buffer(field.first_buffer, bitmap_bytes(node.length))
            memset(bits, 0xFF, node.length >> 3)
            if node.length & 7:
                bits[node.length >> 3] = <uint8_t> ones(node.length & 7)
        bits = <uint8_t*> self.d.extents[field.first_buffer].data
        bits[at >> 3] &= <uint8_t> ~(1 << (at & 7))
        node.null_count += 1
        return 0

    cdef Columns finish(self, Columns out, int64_t length, tuple dictionaries):
        """Fill `out`, new Columns, with the nodes and buffers built."""
        cdef int32_t next_extent = self.p.n_buffers, i
        cdef int64_t variadic = 0
        cdef uintptr_t address
        cdef list owners = [], pool
        for pool in self.pools:
            variadic += len(pool)
        out.allocate(self.plan, variadic)
        if self.p.n_fields:
            memcpy(out.d.nodes, self.d.nodes, self.p.n_fields * sizeof(Node))
        if self.p.n_buffers:
            memcpy(out.d.extents, self.d.extents, self.p.n_buffers * sizeof(Extent))
        for owner in self.owners:
            if owner is not None and (not owners or owners[len(owners) - 1] is not owner):
                owners.append(owner)
        for i in range(self.p.n_views):
            pool = self.pools[i]
            out.d.views[i].first = next_extent
            out.d.views[i].count = <int32_t> len(pool)
            for address, size, owner in pool:
                out.d.extents[next_extent].data = <const uint8_t*> address
                out.d.extents[next_extent].size = size
                next_extent += 1
                owners.append(owner)
        out.d.length = length
        out.owner = tuple(owners)
        out.dictionaries = dictionaries
        return out

    # Errors, with the column and the row.

    cdef int refuse(self, int32_t f, int64_t at, object expected, object value, object reason=None) except -1:
        """Raise a UsageError: element `at` of field `f` is not what was expected."""
        because = f" ({reason})" if reason else ""
        return self.blame(f, at, f"expected {expected}, found {shown(value)}{because}")

    cdef int blame(self, int32_t f, int64_t at, object problem) except -1:
        """Raise a UsageError about an element, or about the whole field if `at` is -1."""
        path, row = self.origin(f, max(at, 0))
        where = [f"column {path!r}"] if path else []
        if at >= 0:
            where.append(f"row {row}")
        raise UsageError(f"{', '.join(where)}: {problem}" if where else problem)

    cdef tuple origin(self, int32_t f, int64_t at):
        """The path of a field and the row of the column that its element belongs to."""
        cdef int level = self.depth
        path = field_path(self.plan, f)
        while level > 0:
            level -= 1
            at = self.parent_of(self.above[level], self.above_child(level, f), at)
        if self.user is not None:
            # Field 0 of the plan of dictionary values stands for `user_field`: its name is in the path already.
            outer, at = self.user.origin(self.user_field, at)
            path = outer + path[len(field_path(self.plan, 0)):]
        return (path[1:] if path.startswith(".") else path), at

    cdef int32_t above_child(self, int level, int32_t f) noexcept:
        """Return the child of above[level] that is field `f` or contains it."""
        cdef int32_t child = self.above[level] + 1
        while self.p.fields[child].end <= f:
            child = self.p.fields[child].end
        return child

    cdef int64_t parent_of(self, int32_t f, int32_t child, int64_t at) noexcept:
        """The element of field `f` that element `at` of its child belongs to."""
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef const Extent* extent = &self.d.extents[field.first_buffer]
        cdef int layout = field.layout
        cdef int64_t count = self.d.nodes[f].length, low = 0, high = count, middle
        cdef int32_t width = LAYOUTS[layout].buffers[1].width       # of offsets, where it has them
        if layout == LAYOUT_FIXED_LIST:
            return at // field.width if field.width else at
        if layout == LAYOUT_RUN_END:
            extent = &self.d.extents[self.p.fields[f + 1].first_buffer + 1]
            return load_int(extent.data, at - 1, self.p.fields[f + 1].width) if at else 0
        if layout == LAYOUT_DENSE:
            while low < count and (self.child_of(f, <int8_t> extent[0].data[low]) != child
                                   or load_int(extent[1].data, low, 4) != at):
                low += 1
            return low
        # Offsets rise: find the last one that is not greater than `at`.
        while low + 1 < high:
            middle = (low + high) // 2
            if load_int(extent[1].data, middle, width) <= at:
                low = middle
            else:
                high = middle
        return low

    cdef int32_t child_of(self, int32_t f, int8_t code) noexcept:
        """The child of a union that has a type code."""
        cdef int8_t ordinal = self.p.codes[128 * self.p.fields[f].codes + code]
        cdef int32_t child = f + 1
        while ordinal > 0:
            child = self.p.fields[child].end
            ordinal -= 1
        return child

    # One value.

    cdef int store(self, int32_t f, int64_t at, object value, uint8_t* out) except -1:
        """Store one value of fixed width, which is not None, at `out`; return STORED or IS_NULL."""
        cdef const FieldPlan* field = &self.p.fields[f]
        cdef const char* reason = NULL
        cdef int found
        if field.type == Type_Timestamp and self.zoned[f] == ZONED_UNKNOWN:
            zone = plan_field(self.plan, f).type.timezone
            self.zoned[f] = ZONED_NO if zone is None else ZONED_YES
        found = store_value(field, self.zoned[f] == ZONED_YES, value, out, &reason)
        if (found == MISFIT and PyBool_Check(value) and field.type == Type_Int and field.width == 1
                and plan_field(self.plan, f).extension_name == "arrow.bool8"):
            found = store_value(field, False, int(value), out, &reason)
        if found == MISFIT and field.type == Type_Int and PyFloat_Check(value) and value.is_integer():
            found = store_value(field, False, int(value), out, &reason)
        if found == MISFIT:
            self.refuse(f, at, describe_kind(field), value, None if reason == NULL else reason.decode())
        return found

    cdef int slow(self, int32_t f, int64_t at, list items, int64_t count, uint8_t* out) except -1:
        """Store value `at` of a list, of any class or None, at `out`."""
        value = item(items, at, count)
        memset(out, 0, self.p.fields[f].width)
        if value is None or value is self.filler:
            return self.null(f, at, value is None)
        if self.store(f, at, value, out) == IS_NULL:
            memset(out, 0, self.p.fields[f].width)
            self.null(f, at, True)
        item(items, 0, count)
        return 0

    cdef object word(self, int32_t f, int64_t at, object value):
        """Return a text value as str, or a binary value as bytes."""
        if self.p.fields[f].flags & FIELD_UTF8:
            if isinstance(value, str):
                return str.__str__(value)
            self.refuse(f, at, "a str", value)
        found = bytes_of(value)
        if found is None:
            self.refuse(f, at, "bytes", value)
        return found

    cdef object truth(self, int32_t f, int64_t at, object value):
        """Return a bool, also one of NumPy, as True or False."""
        if value is True or value is False:
            return value
        if is_numpy(value, "bool_"):
            return bool(value)
        self.refuse(f, at, "True or False", value)

    # Whole columns.

    cdef int leaf(self, int32_t f, list items) except -1:
        """Fill a field that has no children; the length in its node is already set."""
        cdef int layout = self.p.fields[f].layout, kind = self.p.fields[f].type
        if layout == LAYOUT_NULL:
            return fill_nulls(self, f, items)
        if layout == LAYOUT_BOOL:
            return fill_bools(self, f, items)
        if layout == LAYOUT_VIEW:
            return fill_views(self, f, items)
        if layout != LAYOUT_FIXED:
            return fill_words(self, f, items)
        if kind == Type_Int:
            return fill_integers(self, f, items)
        if kind == Type_FloatingPoint:
            return fill_floats(self, f, items)
        return fill_others(self, f, items)


def shown(value):
    """Return the class and a short repr of any object, for a message; a repr that fails is no error."""
    import reprlib

    try:
        text = reprlib.repr(value)
    except Exception:
        text = "that cannot be shown"
    name = type(value).__name__
    return text if value is None else f"{name} {text if len(text) <= 80 else text[:77] + '...'}"


# -- the loops -----------------------------------------------------------------------------------------------


cdef int64_t bytes_for(int64_t count, int64_t width) except -1:
    cdef int64_t size = 0
    if mul_overflows(count, width, &size):
        raise MemoryError(f"{count:,} values of {width:,} bytes do not fit memory")
    return size


cdef int fill_nulls(Converter b, int32_t f, list items) except -1:
    cdef int64_t count = b.d.nodes[f].length, i
    for i in range(count):
        value = item(items, i, count)
        if value is None:
            if not b.p.fields[f].flags & FIELD_NULLABLE:
                b.blame(f, i, "is null, and the field is not nullable")
        elif value is not b.filler:
            b.refuse(f, i, "None, as in every row of a null column", value)
    b.d.nodes[f].null_count = count
    return 0


cdef int fill_bools(Converter b, int32_t f, list items) except -1:
    cdef int64_t count = b.d.nodes[f].length, i
    cdef uint8_t* bits = b.allocate_buffer(b.p.fields[f].first_buffer + 1, bitmap_bytes(count))
    # Python objects are needed here: <PyObject*> True would be the address 1.
    cdef object yes = True, no = False
    cdef PyObject* value
    cdef bint true
    cdef uint32_t byte = 0
    for i in range(count):
        value = PyList_GET_ITEM(items, i)
        true = value == <PyObject*> yes
        if not true and value != <PyObject*> no:
            if value == <PyObject*> None or value == <PyObject*> b.filler:
                b.null(f, i, value == <PyObject*> None)
            else:
                true = b.truth(f, i, <object> value)
                item(items, 0, count)
        byte |= <uint32_t> true << (i & 7)
        if i & 7 == 7 or i == count - 1:
            bits[i >> 3] = <uint8_t> byte
            byte = 0
    return 0


cdef int fill_integers(Converter b, int32_t f, list items) except -1:
    cdef const FieldPlan* field = &b.p.fields[f]
    cdef int64_t count = b.d.nodes[f].length, number, i
    cdef int32_t width = field.width
    cdef uint8_t* out = b.allocate_buffer(field.first_buffer + 1, bytes_for(count, width))
    cdef bint signed = field.flags & FIELD_SIGNED != 0
    cdef int64_t high = largest(width, signed), low = -high - 1 if signed else 0
    cdef PyObject* value
    cdef int overflow = 0
    for i in range(count):
        value = PyList_GET_ITEM(items, i)
        if PyLong_CheckExact(<object> value):
            number = PyLong_AsLongLongAndOverflow(<object> value, &overflow)
            if overflow == 0 and low <= number <= high:
                store_int(out, i, width, number)
                continue
        b.slow(f, i, items, count, out + i * width)
    return 0


cdef int fill_floats(Converter b, int32_t f, list items) except -1:
    cdef const FieldPlan* field = &b.p.fields[f]
    cdef int64_t count = b.d.nodes[f].length, i
    cdef int32_t width = field.width
    cdef uint8_t* out = b.allocate_buffer(field.first_buffer + 1, bytes_for(count, width))
    cdef PyObject* value
    cdef double number
    cdef float single
    for i in range(count):
        value = PyList_GET_ITEM(items, i)
        if PyFloat_CheckExact(<object> value):
            number = PyFloat_AS_DOUBLE(<object> value)
            if field.unit == Precision_DOUBLE:
                memcpy(out + 8 * i, &number, 8)
                continue
            if field.unit == Precision_SINGLE:
                single = <float> number
                if isinf(single) == isinf(number):
                    memcpy(out + 4 * i, &single, 4)
                    continue
        b.slow(f, i, items, count, out + i * width)
    return 0


cdef int fill_others(Converter b, int32_t f, list items) except -1:
    """Fill decimals, dates, times, timestamps, durations, intervals and binary of fixed size."""
    cdef int32_t width = b.p.fields[f].width
    cdef int64_t count = b.d.nodes[f].length, i
    cdef uint8_t* out = b.allocate_buffer(b.p.fields[f].first_buffer + 1, bytes_for(count, width))
    cdef bint dates = b.p.fields[f].type == Type_Date
    cdef int64_t per_day = 1 if b.p.fields[f].unit == DateUnit_DAY else MS_PER_DAY
    cdef PyObject* value
    if dates:
        import_datetime()
    for i in range(count):
        value = PyList_GET_ITEM(items, i)
        if dates and is_plain_date(<object> value):
            store_int(out, i, width, day_number(<object> value) * per_day)
        else:
            b.slow(f, i, items, count, out + i * width)
    return 0


cdef int fill_words(Converter b, int32_t f, list items) except -1:
    """Fill text and binary with offsets."""
    cdef const FieldPlan* field = &b.p.fields[f]
    cdef int64_t count = b.d.nodes[f].length, used = 0, i
    cdef int32_t width = 8 if field.layout == LAYOUT_VAR64 else 4
    cdef int64_t most = largest(width, True)
    cdef bint text = field.flags & FIELD_UTF8 != 0
    cdef uint8_t* offsets = b.allocate_buffer(field.first_buffer + 1, bytes_for(count + 1, width))
    cdef Memory memory = Memory.__new__(Memory)
    cdef Word w
    store_int(offsets, 0, width, 0)
    for i in range(count):
        if next_word(b, f, i, items, count, text, &w):
            if w.size > memory.capacity - used:
                make_room(memory, used, w.size, i, count)
            if w.size:
                memcpy(memory.data + used, w.data, w.size)
            used += w.size
            if used > most:
                b.blame(f, i, f"the values add up to {used:,} bytes here, more than 32-bit offsets can "
                              f"count; use {'large_utf8' if text else 'large_binary'}, or fewer rows")
        store_int(offsets, i + 1, width, used)
    b.held = None
    memory.size = used
    clear_padding(memory)
    return b.take(field.first_buffer + 2, memory.data, used, memory)


cdef int close_pool(Converter b, int32_t f, Memory memory, int64_t used) except -1:
    """Add `memory` to the data buffers of a view field, unless it is empty."""
    cdef list pool = b.pools[b.p.fields[f].view]
    if used:
        memory.size = used
        clear_padding(memory)
        pool.append((<uintptr_t> memory.data, used, memory))
    return 0


cdef int fill_views(Converter b, int32_t f, list items) except -1:
    """Fill text and binary views: short values are inline, others in data buffers, each twice as large as the last."""
    cdef const FieldPlan* field = &b.p.fields[f]
    cdef int64_t count = b.d.nodes[f].length, used = 0, size, i
    cdef bint text = field.flags & FIELD_UTF8 != 0
    cdef list pool = b.pools[field.view]
    cdef uint8_t* view = b.allocate_buffer(field.first_buffer + 1, bytes_for(count, 16))
    cdef Memory memory = Memory.__new__(Memory)
    cdef Word w
    for i in range(count):
        (<loose_i64*> view)[0] = (<loose_i64*> view)[1] = 0
        if next_word(b, f, i, items, count, text, &w):
            if w.size > INT32_MAX:
                b.blame(f, i, f"the value has {w.size:,} bytes, more than a view can count; "
                              f"use {'large_utf8' if text else 'large_binary'}")
            store_int(view, 0, 4, w.size)
            if w.size > INLINE:
                if w.size > min(memory.capacity, INT32_MAX) - used:
                    close_pool(b, f, memory, used)
                    size = max(FIRST_POOL, min(2 * memory.capacity, LARGEST_POOL), w.size)
                    memory = Memory.__new__(Memory, size)
                    used = 0
                memcpy(view + 4, w.data, 4)
                memcpy(memory.data + used, w.data, w.size)
                store_int(view, 2, 4, len(pool))
                store_int(view, 3, 4, used)
                used += w.size
            elif w.size:
                memcpy(view + 4, w.data, w.size)
        view += 16
    b.held = None
    return close_pool(b, f, memory, used)


# -- inference of types --------------------------------------------------------------------------------------


def classes_of(list values not None):
    """Return the classes of the values that are not None, as a set, and whether int64 is too small for an int."""
    cdef set found = set()
    cdef PyObject* last = NULL
    cdef PyObject* value
    cdef Py_ssize_t i = 0
    cdef object most = INT64_MAX
    cdef richcmpfunc greater = (<PyTypeObject*> int).tp_richcompare     # takes half the time of a conversion
    cdef bint large = False
    # The hash of a class may run a metaclass's code, which could change the list.
    values = list(values) if FREE_THREADED else values
    while i < PyList_GET_SIZE(values):
        value = PyList_GET_ITEM(values, i)
        i += 1
        if value == <PyObject*> None:
            continue
        if PyLong_CheckExact(<object> value):
            large |= greater(<object> value, most, Py_GT) is True
        if <PyObject*> Py_TYPE(<object> value) != last:
            last = <PyObject*> Py_TYPE(<object> value)
            found.add(<object> last)
    return found, large


def digits_of(list values not None):
    """Return the largest numbers of digits before and after the point of these decimals; None is skipped."""
    cdef int64_t before = 0, behind = 0
    cdef Written w
    the_decimal()
    for value in values:
        if value is None:
            continue
        if not read_decimal(value, &w):
            raise UsageError(f"the decimal {value} cannot be stored as an Arrow decimal")
        behind = max(behind, -w.exponent)
        before = max(before, w.count + w.exponent)
    return before, behind


def elements_of(list values not None):
    """Return the elements of all these lists and tuples as one list; None is skipped."""
    cdef list out = []
    for value in values:
        if value is not None:
            out.extend(value)
    return out


cdef bint add_members(dict out, dict value) except -1:
    """Append the values of a dict to the lists of its keys; return False at the first key that is not a plain str."""
    cdef PyObject* key = NULL
    cdef PyObject* entry = NULL
    cdef PyObject* part
    cdef Py_ssize_t at = 0
    # Hashing and comparing plain str runs no code of other classes, which could change the dict.
    with cython.critical_section(value):
        while PyDict_Next(value, &at, &key, &entry):
            if not PyUnicode_CheckExact(<object> key):
                return False
            part = PyDict_GetItemWithError(out, <object> key)
            if part != NULL:
                (<list> part).append(<object> entry)
            else:
                out[<object> key] = [<object> entry]
    return True


def members_of(list values not None):
    """Return the values of these dicts as one list per key, keys in the order of their first use; None is skipped."""
    cdef dict out = {}
    for value in values:
        if value is None or (type(value) is dict and add_members(out, value)):
            continue
        for key in list(value):
            out.setdefault(key, []).append(value.get(key))
    return out
