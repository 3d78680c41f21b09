"""Import schemas, arrays, batches and streams of other libraries through the Arrow C interfaces, without copying.

A producer's array is moved into an `ArrayOwner`, which the columns made of it keep alive; when the last one
is gone, the producer's release callback is called. The structs say how long each array is and not how large
its buffers are, so extents are computed from lengths, offsets and last offsets; from then on a producer's
columns follow the same rules as those that a reader finds in a message.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.errno cimport EINVAL, ENOMEM, ENOSYS
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset, strcmp, strerror

from arrowipc._core cimport Columns, DictionaryPlan, Plan, Recent, field_path, level_of, raise_fault
from arrowipc.cdata.export cimport ARROW_DEVICE_CPU, ArrowArray, ArrowArrayStream, ArrowDeviceArray, ArrowSchema
from arrowipc.columns.array cimport Array, make_array
from arrowipc.columns.builder cimport ColumnsBuilder
from arrowipc.columns.elements cimport check_native
from arrowipc.columns.record_batch cimport BatchProducer, RecordBatch, default_plan
from arrowipc.inline.bits cimport load_int
from arrowipc.inline.fault cimport FAULT_BUFFER_SMALL, FAULT_OFFSET, Fault, fail
from arrowipc.inline.layouts cimport BUFFER_BITS, BUFFER_OFFSETS, LAYOUTS, LayoutSpec, is_binary, width_of
from arrowipc.inline.loads cimport add_overflows, bitmap_bytes, count_bits, load_i32, load_i64, mul_overflows, round_up
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_VIEW, LEVEL_NONE, Extent, FieldPlan, Node, ViewRange,
)
from arrowipc.inline.threads cimport Tally, tally_sum, tally_up
from arrowipc.metadata.schema_reader cimport plan_schema
from arrowipc.decode.decompress cimport normalise
from arrowipc.decode.validate cimport validate as prove

from arrowipc.columns.record_batch import concat_batches
from arrowipc.errors import FormatError, LimitError, UnsupportedError, UsageError, named_column, showable
from arrowipc.schemas import Schema, number_dictionaries, numbered_field


# -- schemas -------------------------------------------------------------------------------------------------

# The batches of one producer have equal schemas. The last few schemas are kept, flattened into bytes, and compared
# with a new one without making a Python object.

cdef enum:
    MAX_LEVELS = 64             # of nested types: Limits.depth
    MAX_FIELDS = 1 << 18        # in one schema: more than metadata of Limits.metadata_bytes can describe
    MAX_METADATA = 0x7FFFFFFF   # bytes of metadata at one field: what a Schema message can hold
    WORTH_KEEPING = 1 << 22     # the most bytes of a flattened schema that is kept


cdef struct Record:
    # One ArrowSchema, flattened: followed by format and name, each with its NUL, and metadata; padded to 8.
    int64_t flags
    int64_t n_children
    int32_t format_size
    int32_t name_size
    int32_t metadata_size       # 0: none
    int32_t encoded


cdef struct Wanted:
    const ArrowSchema* schema
    bint whole


@cython.final
cdef class Known:
    cdef bytes records          # in pre-order, a dictionary after the children
    cdef bint whole             # a struct's children are the columns; else it is one column itself
    cdef Plan plan


cdef Recent recent = Recent(8)      # Known, found by comparison: to make a key of a schema would take as long


cdef bint same_metadata(const uint8_t* known, int32_t size, const char* found) noexcept nogil:
    """Whether encoded metadata is the same; `size` 0: none. Reads no further than the other's sizes allow."""
    cdef const uint8_t* other = <const uint8_t*> found
    cdef int32_t at, length
    if found == NULL or load_i32(other) == 0:
        return size == 0
    if size == 0 or load_i32(other) != load_i32(known):
        return False
    at = 4
    while at < size:
        length = load_i32(known + at)
        if load_i32(other + at) != length or memcmp(known + at + 4, other + at + 4, length) != 0:
            return False
        at += 4 + length
    return True


cdef const uint8_t* match(const uint8_t* at, const ArrowSchema* schema) noexcept nogil:
    """Return the end of the records at `at` if `schema` equals them, else NULL.

    The records are those of a schema that was checked, so a schema that equals them is sound, too.
    """
    cdef const Record* record = <const Record*> at
    cdef const uint8_t* text = at + sizeof(Record)
    cdef int64_t i
    if (schema == NULL or schema.release == NULL or schema.flags != record.flags
            or schema.n_children != record.n_children or (schema.dictionary != NULL) != record.encoded
            or schema.format == NULL or strcmp(<const char*> text, schema.format) != 0):
        return NULL
    text += record.format_size
    if schema.name == NULL:
        if record.name_size != 1:
            return NULL
    elif strcmp(<const char*> text, schema.name) != 0:
        return NULL
    text += record.name_size
    if not same_metadata(text, record.metadata_size, schema.metadata):
        return NULL
    text += record.metadata_size
    # Records begin at multiples of 8 from the first one, which is aligned.
    at = <const uint8_t*> round_up(<int64_t> text, 8)
    if schema.n_children and schema.children == NULL:
        return NULL
    for i in range(schema.n_children):
        at = match(at, schema.children[i])
        if at == NULL:
            return NULL
    return match(at, schema.dictionary) if schema.dictionary != NULL else at


cdef Plan plan_of(const ArrowSchema* schema, bint whole):
    cdef Wanted wanted = [schema, whole]
    cdef Known known = recent.again(&wanted, is_known)
    if known is None:
        known = recent.find(0, &wanted, is_known)
    return known.plan if known is not None else learn(schema, whole)


cdef bint is_known(object thing, const void* wanted) except -1:
    cdef Known known = <Known> thing
    cdef const Wanted* w = <const Wanted*> wanted
    return known.whole == w.whole and match(<const uint8_t*> PyBytes_AS_STRING(known.records), w.schema) != NULL


cdef Plan learn(const ArrowSchema* schema, bint whole):
    """Make the plan of a schema that is not known, and keep it for the next time."""
    cdef Known known = Known.__new__(Known)
    cdef list nodes = []
    from arrowipc.cdata.format_strings import field_of, schema_of

    # The struct that stands for a batch does not count as a level of nesting.
    describe(schema, 0 if whole else 1, nodes, [] if whole else [name_of(schema)])
    described = schema_of(nodes) if whole else Schema([field_of(nodes)])
    known.plan = default_plan(number_dictionaries(described))
    known.whole = whole
    known.records = flatten(nodes)
    if len(known.records) <= WORTH_KEEPING:
        recent.keep(known, 0)
    return known.plan


cdef bytes flatten(list nodes):
    """Return the nodes as records, which `match` compares."""
    cdef list parts = []
    cdef Record record
    cdef bytes form, name, metadata
    memset(&record, 0, sizeof(Record))
    for form, name, metadata, flags, n_children, encoded, _ in nodes:
        record.flags = flags
        record.n_children = n_children
        record.format_size = <int32_t> (len(form) + 1)
        record.name_size = <int32_t> (len(name) + 1)
        record.metadata_size = <int32_t> len(metadata)
        record.encoded = encoded
        text = b"".join((form, b"\0", name, b"\0", metadata))
        parts += PyBytes_FromStringAndSize(<const char*> &record, sizeof(Record)), text, bytes(-len(text) & 7)
    return b"".join(parts)


# -- schemas that are new ------------------------------------------------------------------------------------


cdef str place(list path):
    """Return the words for a place in a schema, for errors."""
    if not path:
        return "the schema"
    return named_column(b".".join(path).decode("utf-8", "replace"))


cdef bytes name_of(const ArrowSchema* schema):
    # The name of a released struct is freed already.
    if schema == NULL or schema.release == NULL or schema.name == NULL:
        return b""
    return <bytes> schema.name


cdef int describe(const ArrowSchema* schema, int level, list nodes, list path) except -1:
    """Append the nodes (see `cdata.format_strings`) of a schema and all below it, once pointers and counts are sound.

    `path`: the names down to this one; none for the struct that stands for a batch, which is at level 0.
    """
    cdef Py_ssize_t at = len(nodes)
    cdef int64_t i
    if schema == NULL:
        raise FormatError(f"{place(path)}: a pointer to its ArrowSchema is NULL")
    if schema.release == NULL:
        raise UsageError(f"{place(path)}: the ArrowSchema has been released, or was moved elsewhere")
    if level > MAX_LEVELS:
        raise LimitError(f"{place(path[:1])}: types are nested deeper than {MAX_LEVELS} levels")
    if schema.format == NULL:
        raise FormatError(f"{place(path)}: ArrowSchema.format is NULL")
    if schema.n_children < 0 or (schema.n_children > 0 and schema.children == NULL):
        raise FormatError(f"{place(path)}: ArrowSchema.n_children is {schema.n_children}"
                          f"{' and children is NULL' if schema.n_children > 0 else ', expected 0 or more'}")
    if schema.n_children >= MAX_FIELDS - at:
        raise LimitError(f"{place(path)}: a schema of more than {MAX_FIELDS:,} fields is too large to import")
    nodes.append(None)
    metadata = copy_metadata(schema.metadata, path)
    for i in range(schema.n_children):
        describe(schema.children[i], level + 1, nodes, [*path, name_of(schema.children[i])])
    if schema.dictionary != NULL:
        if schema.dictionary.dictionary != NULL:
            raise UnsupportedError(f"{place(path)}: a dictionary of dictionaries has no counterpart in IPC")
        # A dictionary is no deeper level, as in a Schema message. Its name has no meaning; errors name the column.
        describe(schema.dictionary, level, nodes, path)
    nodes[at] = (<bytes> schema.format, name_of(schema), metadata, schema.flags, schema.n_children,
                 schema.dictionary != NULL, len(nodes))
    return 0


cdef bytes copy_metadata(const char* encoded, list path):
    """Return a copy of encoded metadata, whose size is the sum of the sizes in it; empty for no pairs."""
    cdef const uint8_t* p = <const uint8_t*> encoded
    cdef int64_t count, i, size = 4, length
    if encoded == NULL:
        return b""
    count = load_i32(p)
    if count < 0 or count > MAX_METADATA // 8:
        raise FormatError(f"{place(path)}: the metadata claims {count} pairs, "
                          f"expected 0 to {MAX_METADATA // 8}")
    for i in range(2 * count):
        length = load_i32(p + size)
        if length < 0 or length > MAX_METADATA - size - 4:
            raise FormatError(f"{place(path)}: the metadata has a string of {length} bytes; "
                              f"all of it may take up to {MAX_METADATA:,}")
        size += 4 + length
    return PyBytes_FromStringAndSize(encoded, size) if count else b""


# -- owners of producers' memory -----------------------------------------------------------------------------


cdef Tally live


def live_imports():
    """Count the owners of producers' arrays and streams that are not released yet: a seam for leak tests."""
    return tally_sum(&live)


cdef void count_live(int64_t change) noexcept:
    tally_up(&live, change)


cdef class ArrayOwner:
    """The owner of a producer's array, which was moved here."""

    def __cinit__(self):
        count_live(1)

    def __dealloc__(self):
        # A pending error survives this: deallocation saves and restores it.
        count_live(-1)
        if self.array.release != NULL:
            self.array.release(&self.array)


# -- arrays: what the structs say ----------------------------------------------------------------------------


cdef int refuse(Plan plan, int32_t f, str what) except -1:
    """Raise for an ArrowArray; `f` -1: the struct that stands for a batch."""
    where = named_column(field_path(plan, f)) if f >= 0 else "the struct of the batch"
    raise FormatError(f"{where}: {what}")


cdef int check_struct(Plan plan, int32_t f, const ArrowArray* array, int64_t n_children,
                      bint encoded) except -1:
    """Check what holds for every type: numbers in range, pointers where the counts ask for them."""
    cdef int64_t end
    if array.release == NULL:
        where = named_column(field_path(plan, f)) if f >= 0 else "the batch"
        raise UsageError(f"{where}: the ArrowArray has been released, or was moved elsewhere")
    if (array.length < 0 or array.offset < 0 or add_overflows(array.offset, array.length, &end)
            or end == INT64_MAX):
        return refuse(plan, f, f"ArrowArray.length {array.length} and offset {array.offset} must not be "
                               "negative, nor together reach 2**63 - 1")
    if array.null_count < -1 or array.null_count > array.length:
        return refuse(plan, f, f"ArrowArray.null_count is {array.null_count}: "
                               f"expected -1 to {array.length}")
    if array.n_children != n_children:
        return refuse(plan, f, f"ArrowArray.n_children is {array.n_children}: expected {n_children}")
    if n_children and array.children == NULL:
        return refuse(plan, f, f"ArrowArray.children is NULL: expected {n_children}")
    if array.n_buffers > 0 and array.buffers == NULL:
        return refuse(plan, f, f"ArrowArray.buffers is NULL: expected {array.n_buffers}")
    if (array.dictionary != NULL) != encoded:
        return refuse(plan, f, f"ArrowArray.dictionary {'is NULL' if encoded else 'is given'}, "
                               f"its schema has {'one' if encoded else 'none'}")
    return 0


cdef int survey(Plan plan, int32_t f, const ArrowArray* array, int64_t* variadic) except -1:
    """Check the structs of a field and of all below it, and count their variadic buffers."""
    cdef const FieldPlan* field = &plan.d.fields[f]
    cdef int64_t i, found = array.n_buffers
    cdef int32_t child = f + 1
    check_struct(plan, f, array, field.n_children, field.flags & FIELD_ENCODED != 0)
    if field.view >= 0:
        # Behind the variadic buffers there is one more, with their sizes.
        if found <= field.n_buffers or found > INT32_MAX:
            return refuse(plan, f, f"ArrowArray.n_buffers is {found}: expected {field.n_buffers + 1} or more")
        variadic[0] += found - field.n_buffers - 1
        if variadic[0] > INT32_MAX - plan.d.n_buffers:
            raise LimitError(f"more than {INT32_MAX:,} buffers are too many to import")
    elif found != field.n_buffers and not (field.layout == LAYOUT_NULL and found == 1):
        # Null arrays of old producers have a validity bitmap that nobody needs.
        return refuse(plan, f, f"ArrowArray.n_buffers is {found}: expected {field.n_buffers}")
    for i in range(field.n_children):
        if array.children[i] == NULL:
            return refuse(plan, f, f"ArrowArray.children[{i}] is NULL")
        survey(plan, child, array.children[i], variadic)
        child = plan.d.fields[child].end
    return 0


cdef int survey_root(Plan plan, const ArrowArray* root) except -1:
    """Check a struct that is a batch, without its columns; it must not have nulls."""
    cdef int64_t valid
    check_struct(plan, -1, root, plan.d.n_columns, False)
    if root.n_buffers != 1:
        return refuse(plan, -1, f"ArrowArray.n_buffers is {root.n_buffers}: expected 1")
    if root.null_count != 0 and root.length > 0:
        if root.buffers[0] != NULL:
            valid = count_bits(<const uint8_t*> root.buffers[0], root.offset, root.length)
            if valid != root.length:
                raise UsageError(f"{root.length - valid:,} of the {root.length:,} structs are null, and a "
                                 "batch has no null rows: import it as an array")
        elif root.null_count > 0:
            return refuse(plan, -1, f"null_count is {root.null_count}, and there is no validity bitmap")
    return 0


cdef int survey_column(Plan plan, int32_t i, const ArrowArray* column, int64_t rows, int64_t* variadic) except -1:
    """Check column `i` of a batch, which needs `rows` rows of it, and count its variadic buffers."""
    cdef int32_t f = plan.d.columns[i]
    if column == NULL:
        return refuse(plan, f, f"ArrowArray.children[{i}] of the batch is NULL")
    survey(plan, f, column, variadic)
    if column.length < rows:
        return refuse(plan, f, f"has {column.length} rows, the batch needs {rows}")
    return 0


# -- arrays: what the buffers hold ---------------------------------------------------------------------------


cdef int missing(Columns out, int32_t f, int32_t buffer, int64_t elements, int64_t size) except -1:
    """Raise for a buffer that is NULL although bytes are needed."""
    cdef Fault fault
    fail(&fault, FAULT_BUFFER_SMALL, f, buffer, elements, 0, size)
    return raise_fault(&fault, out.plan, f"ArrowArray.buffers[{buffer}] is NULL")


cdef int too_many(Columns out, int32_t f, int64_t elements, int64_t width) except -1:
    return refuse(out.plan, f, f"{elements:,} elements of {width:,} bytes are more than memory can hold")


cdef int bad_offset(Columns out, int32_t f, int64_t at, int64_t found, int64_t expected,
                    const char* what) except -1:
    cdef Fault fault
    fail(&fault, FAULT_OFFSET, f, 1, at, found, expected, what)
    return raise_fault(&fault, out.plan)


cdef inline int take(Columns out, int32_t f, int32_t buffer, const void* data, int64_t elements,
                     int64_t width) except -1:
    """Point an extent at as many bytes as the elements take."""
    cdef Extent* extent = &out.d.extents[out.d.plan.fields[f].first_buffer + buffer]
    # The functions that raise are separate, so that this one is short enough to be inlined.
    if mul_overflows(elements, width, &extent.size):
        return too_many(out, f, elements, width)
    extent.data = <const uint8_t*> data if extent.size else NULL
    if extent.size and data == NULL:
        return missing(out, f, buffer, elements, extent.size)
    return 0


cdef int take_validity(Columns out, int32_t f, const void* bits, int64_t null_count) except -1:
    """Take the bitmap if there are nulls: columns without nulls have none, and code that reads them relies on that."""
    cdef Node* node = &out.d.nodes[f]
    cdef Extent* extent = &out.d.extents[out.d.plan.fields[f].first_buffer]
    cdef int64_t reach = node.offset + node.length
    node.null_count = null_count
    extent[0] = Extent(NULL, 0)
    if null_count < 0:
        if bits == NULL:
            node.null_count = 0
        else:
            node.null_count = node.length - count_bits(<const uint8_t*> bits, node.offset, node.length)
    if node.null_count:
        extent[0] = Extent(<const uint8_t*> bits, bitmap_bytes(reach))
        if bits == NULL:
            return missing(out, f, 0, node.length, extent.size)
    return 0


cdef int take_offsets(Columns out, int32_t f, const ArrowArray* array) except -1:
    """Take 32- or 64-bit offsets of text, binary and lists, and the data of the first two."""
    cdef const FieldPlan* field = &out.d.plan.fields[f]
    cdef const Node* node = &out.d.nodes[f]
    cdef const uint8_t* offsets = <const uint8_t*> array.buffers[1]
    cdef int64_t reach = node.offset + node.length, first = 0, last = 0
    cdef int32_t width = <int32_t> width_of(field, 1)
    # An array without elements need not have its one offset, and the offsets before it are not needed.
    take(out, f, 1, offsets, reach + 1 if node.length else 0, width)
    if node.length:
        first = load_int(offsets, node.offset, width)
        last = load_int(offsets, reach, width)
        if first < 0:
            return bad_offset(out, f, node.offset, first, 0, "expected at least")
        if last < first:
            return bad_offset(out, f, reach, last, first, "expected at least")
    if is_binary(field.layout):
        return take(out, f, 2, array.buffers[2], last, 1)
    if last > array.children[0].length:
        return bad_offset(out, f, reach, last, array.children[0].length, "the child ends at")
    return 0


cdef int take_variadic(Columns out, int32_t f, const ArrowArray* array, int32_t* next) except -1:
    """The data buffers of views become the extents from `next` on; the last buffer says how large they are."""
    cdef const FieldPlan* field = &out.d.plan.fields[f]
    cdef ViewRange* view = &out.d.views[field.view]
    cdef const uint8_t* sizes = <const uint8_t*> array.buffers[array.n_buffers - 1]
    cdef Extent* extent
    cdef int32_t i
    view.first = next[0]
    view.count = <int32_t> (array.n_buffers - 1 - field.n_buffers)
    next[0] += view.count
    if view.count and sizes == NULL:
        return refuse(out.plan, f, f"ArrowArray.buffers[{array.n_buffers - 1}], the sizes of {view.count} "
                                   "data buffers, is NULL")
    for i in range(view.count):
        extent = &out.d.extents[view.first + i]
        extent.size = load_i64(sizes + 8 * i)
        if extent.size < 0:
            return refuse(out.plan, f, f"the size of data buffer {i} is {extent.size}: expected 0 or more")
        extent.data = <const uint8_t*> array.buffers[field.n_buffers + i] if extent.size else NULL
        if extent.size and extent.data == NULL:
            return missing(out, f, field.n_buffers + i, array.length, extent.size)
    return 0


cdef int fill_buffers(Columns out, int32_t f, const ArrowArray* array, int64_t null_count,
                      int32_t* next) except -1:
    """Set the buffers of one field, whose node is set already."""
    cdef const FieldPlan* field = &out.d.plan.fields[f]
    cdef Node* node = &out.d.nodes[f]
    cdef const void** buffers = array.buffers
    cdef int64_t reach = node.offset + node.length
    cdef int layout = field.layout, kind, k
    cdef const LayoutSpec* spec = &LAYOUTS[layout]
    if layout == LAYOUT_NULL:
        node.null_count = node.length
        return 0
    if layout == LAYOUT_RUN_END:
        # `normalise` refuses nulls here; -1 only says that they were not counted.
        node.null_count = max(null_count, 0)
        return 0
    if spec.has_validity:
        take_validity(out, f, buffers[0], null_count)
    else:
        node.null_count = 0
    for k in range(spec.has_validity, spec.n_buffers):
        kind = spec.buffers[k].kind
        if kind == BUFFER_OFFSETS:
            return take_offsets(out, f, array)
        if kind == BUFFER_BITS:
            take(out, f, k, buffers[k], bitmap_bytes(reach), 1)
        else:
            take(out, f, k, buffers[k], reach, width_of(field, k))
    return take_variadic(out, f, array, next) if layout == LAYOUT_VIEW else 0


cdef int fill(Columns out, int32_t f, const ArrowArray* array, int64_t start, int64_t length, int32_t* next,
              Dictionaries known, int level) except -1:
    """Fill field `f`, and all below it, with elements [start, start + length) of an array, which has them."""
    cdef const FieldPlan* field = &out.d.plan.fields[f]
    cdef Node* node = &out.d.nodes[f]
    cdef int64_t child_length
    cdef int32_t i, child = f + 1
    node.length = length
    # An empty array gets offset 0, whatever the producer says: no byte of its buffers may be needed.
    node.offset = array.offset + start if length else 0
    fill_buffers(out, f, array, -1 if array.null_count > 0 and length != array.length
                 else array.null_count if length else 0, next)
    for i in range(field.n_children):
        child_length = array.children[i].length
        if field.layout == LAYOUT_RUN_END and child_length > array.children[0].length:
            # Values behind the last run are legal here, but not in a message.
            child_length = array.children[0].length
        fill(out, child, array.children[i], 0, child_length, next, known, level)
        child = out.d.plan.fields[child].end
    if field.dictionary >= 0:
        load_values(out, field.dictionary, array.dictionary, level, known)
    return 0


# -- arrays: dictionaries ------------------------------------------------------------------------------------


cdef class Dictionaries:
    """The last dictionaries of a producer's batches, which rarely change from one batch to the next.

    Arrays in the same memory share the columns made of the first one, so a writer need not compare them.
    """

    def __cinit__(self, int64_t count):
        self.values = [None] * count
        self.arrays = <const ArrowArray**> calloc(count + 1, sizeof(ArrowArray*))
        if self.arrays == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.arrays)


cdef bint same_array(const ArrowArray* known, const ArrowArray* found) noexcept nogil:
    """Return whether an array has its elements in the same memory as one that was checked, and is not released."""
    cdef int64_t i
    if (found == NULL or found.release == NULL or found.length != known.length or found.offset != known.offset
            or found.null_count != known.null_count or found.n_buffers != known.n_buffers
            or found.n_children != known.n_children or (found.dictionary != NULL) != (known.dictionary != NULL)):
        return False
    if known.n_buffers and (found.buffers == NULL or memcmp(found.buffers, known.buffers,
                                                            known.n_buffers * sizeof(void*)) != 0):
        return False
    if known.n_children and found.children == NULL:
        return False
    for i in range(known.n_children):
        if not same_array(known.children[i], found.children[i]):
            return False
    return known.dictionary == NULL or same_array(known.dictionary, found.dictionary)


cdef int load_values(Columns user, int32_t ordinal, const ArrowArray* array, int level, Dictionaries known) except -1:
    """Find or make the values of a dictionary of `user`."""
    cdef Columns values
    cdef DictionaryPlan dictionary
    if known.arrays[ordinal] != NULL and same_array(known.arrays[ordinal], array):
        return 0
    dictionary = user.plan.dictionaries[ordinal]
    values = Columns.__new__(Columns)
    load(values, dictionary.values, array, False, user.owner, level, None)
    known.values[ordinal] = values
    known.arrays[ordinal] = array       # which lives as long as the owner of `values`
    known.all = None
    return 0


# -- arrays: columns -----------------------------------------------------------------------------------------


cdef Dictionaries begin(Columns out, Plan plan, int64_t variadic, int64_t length, object owner, Dictionaries known):
    """Allocate `out` for the columns that were surveyed; return the `Dictionaries` for its dictionaries."""
    out.allocate(plan, variadic)
    out.owner = owner
    out.d.length = length
    return Dictionaries(len(plan.dictionaries)) if known is None and plan.dictionaries else known


cdef int complete(Columns out, Dictionaries known, int level) except -1:
    """Set the dictionaries of columns whose fields are filled, then normalise and validate them."""
    if known is None:
        out.dictionaries = ()
    else:
        if known.all is None:
            known.all = tuple(known.values)
        out.dictionaries = known.all
    normalise(out, -1, NULL, False)
    return prove(out, level)


cdef int load(Columns out, Plan plan, const ArrowArray* array, bint whole, object owner, int level,
              Dictionaries known) except -1:
    cdef int64_t variadic = 0
    cdef int32_t next = plan.d.n_buffers
    if whole:
        survey_root(plan, array)
        return load_columns(out, plan, array.children, array.offset, array.length, owner, level, known)
    survey(plan, 0, array, &variadic)
    known = begin(out, plan, variadic, array.length, owner, known)
    fill(out, 0, array, 0, array.length, &next, known, level)
    return complete(out, known, level)


cdef int load_columns(Columns out, Plan plan, ArrowArray** columns, int64_t start, int64_t length, object owner,
                      int level, Dictionaries known) except -1:
    cdef int64_t variadic = 0
    cdef int32_t i, next = plan.d.n_buffers
    cdef bint views = plan.d.n_views > 0
    # Only views have buffers that must be counted first; without them each column is surveyed when its turn comes.
    for i in range(plan.d.n_columns if views else 0):
        survey_column(plan, i, columns[i], start + length, &variadic)
    known = begin(out, plan, variadic, length, owner, known)
    for i in range(plan.d.n_columns):
        if not views:
            survey_column(plan, i, columns[i], start + length, &variadic)
        fill(out, plan.d.columns[i], columns[i], start, length, &next, known, level)
    return complete(out, known, level)


cdef RecordBatch new_batch(Plan plan, ArrayOwner owner, bint whole, int level, Dictionaries known):
    cdef RecordBatch batch = RecordBatch.__new__(RecordBatch)
    load(batch, plan, &owner.array, whole, owner, level, known)
    return batch


cdef RecordBatch empty_batch(Plan plan):
    """Return a batch without rows."""
    cdef RecordBatch batch = RecordBatch.__new__(RecordBatch)
    ColumnsBuilder(plan).snapshot_into(batch)
    return batch


# -- streams -------------------------------------------------------------------------------------------------


cdef object stream_error(int code, str message):
    """The exception for a code that a producer's stream returned."""
    if code == ENOMEM:
        return MemoryError(message)
    if code == EINVAL:
        return FormatError(message)
    if code == ENOSYS:
        return UnsupportedError(message)
    return OSError(code, showable(message))


cdef bint stands_for_batch(const ArrowSchema* schema) noexcept nogil:
    return (schema.release != NULL and schema.format != NULL and strcmp(schema.format, "+s") == 0
            and schema.dictionary == NULL)


cdef class BatchStream(BatchProducer):
    """The batches of another library's stream, one at a time, not copied; :func:`stream_from` makes it.

    A stream of arrays that are not structs gives batches of one column, with the name of the stream's schema: often
    an empty one. What goes wrong in the producer reaches the caller with the producer's message, and the stream stays
    failed. After a batch that is refused here the next one can be taken. Two threads must not take from it at a time.
    """

    def __init__(self):
        raise UsageError("streams are made of something that has __arrow_c_stream__: use stream_from")

    def __dealloc__(self):
        if self.stream.release != NULL:
            count_live(-1)
            self.stream.release(&self.stream)

    @property
    def schema(self):
        """Schema of the batches, an :class:`arrowipc.Schema`."""
        return plan_schema(self.plan)

    cdef int ask(self, ArrowSchema* schema) except -1:
        """Ask for the schema, which the caller releases (release NULL: there is nothing to release)."""
        cdef int code
        schema.release = NULL
        if (self.stream.get_schema == NULL or self.stream.get_next == NULL
                or self.stream.get_last_error == NULL):
            raise FormatError("a callback of the ArrowArrayStream is NULL")
        with nogil:
            code = self.stream.get_schema(&self.stream, schema)
        if code:
            # A struct that a failed call has left must not be released.
            schema.release = NULL
            return self.fail(code)
        return 0

    cdef int open(self) except -1:
        """Ask for the schema and make the plan; if `whole` was set to False, that of a single column of any type."""
        cdef ArrowSchema schema
        self.ask(&schema)
        try:
            self.whole = self.whole and stands_for_batch(&schema)
            self.plan = plan_of(&schema, self.whole)
        finally:
            if schema.release != NULL:
                schema.release(&schema)
        return 0

    @cython.critical_section
    cdef Columns next(self):
        cdef RecordBatch batch = self.single
        if self.closed:
            raise UsageError("the stream is closed")
        if batch is not None:
            self.single = None
            return batch
        if self.code:
            raise stream_error(self.code, self.message)
        if self.busy:
            raise UsageError("the stream is in use by another thread")
        self.busy = True
        try:
            return self.take()
        finally:
            self.busy = False

    cdef RecordBatch take(self):
        """The next batch of the producer; None at its end."""
        cdef ArrayOwner owner
        cdef int code
        if self.stream.release == NULL:
            return None
        owner = ArrayOwner.__new__(ArrayOwner)
        with nogil:
            code = self.stream.get_next(&self.stream, &owner.array)
        if code:
            owner.array.release = NULL
            self.fail(code)
        if owner.array.release == NULL:
            self.finish()
            return None
        return new_batch(self.plan, owner, self.whole, self.level, self.known)

    cdef int fail(self, int code) except -1:
        """Raise an error with the producer's message, and release the producer."""
        cdef const char* message = self.stream.get_last_error(&self.stream)
        if message == NULL:
            message = strerror(code)
        self.code = code
        self.message = f"the producer of the stream failed: {(<bytes> message).decode('utf-8', 'replace')}"
        self.finish()
        raise stream_error(code, self.message)

    cdef int finish(self) except -1:
        cdef ArrowArrayStream stream = self.stream
        if stream.release != NULL:
            # The stream is moved first: a producer in Python lets other threads run, and these may come here, too.
            self.stream.release = NULL
            count_live(-1)
            stream.release(&stream)
        return 0

    @cython.critical_section
    def close(self):
        """Release the producer; batches that were taken stay valid."""
        if self.busy:
            raise UsageError("the stream is in use by another thread")
        self.closed = True
        self.single = None
        self.finish()

    def __arrow_c_stream__(self, requested_schema=None):
        """Export the remaining batches: an ``arrow_array_stream`` PyCapsule."""
        from arrowipc.cdata.export import export_stream

        return export_stream(self.schema, self, requested_schema)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    def __repr__(self):
        return f"<BatchStream{': closed' if self.closed else ''}>\n{plan_schema(self.plan)}"


# -- capsules ------------------------------------------------------------------------------------------------


cdef object nothing_found(object source, str expected):
    hint = ""
    if hasattr(source, "iloc") or hasattr(source, "to_arrow"):
        hint = " (before pandas 2.2 and polars 1.3 there are none: use Table.from_pandas(frame), frame.to_arrow())"
    return UsageError(f"expected an object with {expected}; found {type(source).__name__}, which has none of "
                      f"these{hint}")


cdef ArrowSchema* schema_in(object capsule) except NULL:
    if not PyCapsule_IsValid(capsule, "arrow_schema"):
        raise UsageError(f"expected an 'arrow_schema' PyCapsule, found {capsule!r}")
    return <ArrowSchema*> PyCapsule_GetPointer(capsule, "arrow_schema")


cdef ArrayOwner moved_array(object capsule):
    """Move the array out of a capsule: from now on its producer's memory is released with the owner."""
    cdef ArrayOwner owner
    cdef ArrowDeviceArray* device
    cdef ArrowArray* array
    if PyCapsule_IsValid(capsule, "arrow_array"):
        array = <ArrowArray*> PyCapsule_GetPointer(capsule, "arrow_array")
    elif PyCapsule_IsValid(capsule, "arrow_device_array"):
        device = <ArrowDeviceArray*> PyCapsule_GetPointer(capsule, "arrow_device_array")
        if device.device_type != ARROW_DEVICE_CPU or device.sync_event != NULL:
            raise UsageError(f"the array is on a device of type {device.device_type}, or waits for an event "
                             "there: copy it to the memory of the CPU (type 1) first")
        array = &device.array
    else:
        raise UsageError(f"expected an 'arrow_array' PyCapsule, found {capsule!r}")
    if array.release == NULL:
        raise UsageError("the array has been released, or was already taken out of its capsule")
    owner = ArrayOwner.__new__(ArrayOwner)
    owner.array = array[0]
    array.release = NULL
    return owner


cdef tuple pair_of(object source):
    """The capsules of schema and array that `source` is or offers; None when it does neither."""
    if type(source) is tuple:
        pair = source
    else:
        method = getattr(source, "__arrow_c_array__", None)
        if method is None:
            method = getattr(source, "__arrow_c_device_array__", None)
            if method is None:
                return None
        pair = method()
    if type(pair) is not tuple or len(<tuple> pair) != 2:
        raise UsageError(f"expected an 'arrow_schema' and an 'arrow_array' PyCapsule, found {pair!r}")
    return <tuple> pair


cdef RecordBatch paired(tuple pair, bint whole, int level):
    """Return the batch, or (not `whole`) the one column, of what `pair_of` returned."""
    cdef ArrayOwner owner = moved_array(pair[1])
    return new_batch(plan_of(schema_in(pair[0]), whole), owner, whole, level, None)


cdef BatchStream moved_stream(object source):
    """The stream that `source` is or offers, which is not asked for its schema yet; None: it offers none."""
    cdef BatchStream stream
    cdef ArrowArrayStream* found
    if PyCapsule_IsValid(source, "arrow_array_stream"):
        capsule = source
    else:
        method = getattr(source, "__arrow_c_stream__", None)
        if method is None:
            return None
        if type(source).__module__.startswith("polars."):
            from arrowipc.cdata.format_strings import refuse_addresses

            refuse_addresses(source)
        capsule = method()
        if not PyCapsule_IsValid(capsule, "arrow_array_stream"):
            raise UsageError(f"expected an 'arrow_array_stream' PyCapsule, found {capsule!r}")
    found = <ArrowArrayStream*> PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if found.release == NULL:
        raise UsageError("the stream has been released, or was already taken out of its capsule")
    stream = BatchStream.__new__(BatchStream)
    stream.stream = found[0]
    found.release = NULL
    count_live(1)
    return stream


cdef BatchStream stream_of(object source, bint whole, int level):
    """A stream of what `source` is or offers; None when it offers no stream."""
    cdef BatchStream stream = moved_stream(source)
    if stream is not None:
        stream.whole = whole
        stream.level = level
        stream.open()
    return stream


cdef RecordBatch all_of(BatchStream stream, int64_t most):
    """Return the batches of a stream as one, up to the first one with which they have more than `most` rows."""
    cdef list batches = []
    cdef RecordBatch batch
    while most >= 0 and (batch := stream.next()) is not None:
        batches.append(batch)
        most -= batch.d.length
    if len(batches) == 1:
        return batches[0]
    return concat_batches(batches) if batches else empty_batch(stream.plan)


cpdef object schema_from(object source):
    """The schema of another library as an :class:`arrowipc.Schema`; dictionaries are numbered."""
    if isinstance(source, Schema):
        return source
    capsule = source
    if not PyCapsule_IsValid(source, "arrow_schema"):
        method = getattr(source, "__arrow_c_schema__", None)
        if method is None:
            raise nothing_found(source, "__arrow_c_schema__, or an 'arrow_schema' PyCapsule")
        capsule = method()
    return plan_schema(plan_of(schema_in(capsule), True))


cdef RecordBatch import_any(object source, bint whole, int level, int64_t most):
    """All rows of `source`, or (not `whole`) the column that it is; of a stream, up to the batch that passes `most`."""
    cdef BatchStream stream
    cdef tuple pair = pair_of(source)
    if pair is not None:
        return paired(pair, whole, level)
    stream = stream_of(source, whole, level)
    if stream is None:
        raise nothing_found(source, "__arrow_c_array__, __arrow_c_device_array__ or __arrow_c_stream__, or a pair of "
                                    "'arrow_schema' and 'arrow_array' PyCapsules")
    return all_of(stream, most)


cdef RecordBatch import_batch(object source, int level=LEVEL_NONE, int64_t most=INT64_MAX):
    if type(source) is RecordBatch:
        check_native(<RecordBatch> source, "the Arrow C data interface")
        prove(<RecordBatch> source, level)
        return <RecordBatch> source
    return import_any(source, True, level, most)


cdef Array import_array(object source, int level=LEVEL_NONE, int64_t most=INT64_MAX):
    cdef RecordBatch batch
    if type(source) is Array:
        check_native((<Array> source).columns, "the Arrow C data interface")
        prove((<Array> source).columns, level)
        return <Array> source
    batch = import_any(source, False, level, most)
    return make_array(batch, 0, batch.d.nodes[0].offset, batch.d.length)


cdef BatchStream import_stream(object source, int level=LEVEL_NONE):
    cdef BatchStream stream
    cdef tuple pair
    if type(source) is not RecordBatch:
        stream = stream_of(source, True, level)
        if stream is not None:
            return stream
    stream = BatchStream.__new__(BatchStream)
    if type(source) is RecordBatch:
        stream.single = import_batch(source, level)
    else:
        pair = pair_of(source)
        if pair is None:
            raise nothing_found(source, "__arrow_c_stream__, __arrow_c_array__ or __arrow_c_device_array__, "
                                        "or an 'arrow_array_stream' PyCapsule")
        stream.whole = stands_for_batch(schema_in(pair[0]))
        stream.single = paired(pair, stream.whole, level)
    stream.plan = stream.single.plan
    return stream


def described_from(source, whole):
    """The schema (`whole`) or the field that another library describes; errors as for `schema_from`.

    The dictionaries of a field get their ids from the schema that it becomes part of: here, each would begin with 0.
    """
    capsule = source.__arrow_c_schema__()   # a reference: the schema is released with the capsule
    found = plan_schema(plan_of(schema_in(capsule), whole))
    return found if whole else numbered_field(found.fields[0], lambda _: None)


def batch_from(source, validate="none", int64_t most=INT64_MAX):
    """Return a batch of another library as a :class:`RecordBatch` over the same memory; a RecordBatch as it is.

    `source` has ``__arrow_c_array__`` or ``__arrow_c_device_array__`` (on the CPU) and is a struct, or it is their pair
    of PyCapsules; or it has ``__arrow_c_stream__``: all its batches, copied into one if there are several. If a stream
    has more than `most` rows, reading ends with the first batch that goes beyond `most`.
    """
    return import_batch(source, level_of(validate), most)


def array_from(source, validate="none", int64_t most=INT64_MAX):
    """Return the data of another library as an :class:`Array` of any type: a struct becomes an array of structs."""
    return import_array(source, level_of(validate), most)


def stream_from(source, validate="none"):
    """Return the batches of another library as a :class:`BatchStream`, also the one batch that `batch_from` takes."""
    return import_stream(source, level_of(validate))
