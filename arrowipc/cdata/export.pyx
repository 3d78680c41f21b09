"""Export schemas, arrays, batches and streams to other libraries, as capsules of the Arrow C interfaces.

All structs of an exported schema or batch are in one block of memory, which counts those that are not released yet.
A consumer may move a child out and release it later, in any order and from any thread; the last release frees the
block and drops the reference to the `Columns` that the structs point into.

``requested_schema`` is accepted and ignored, as the interface allows: a consumer gets the data as it is, and
casts if it wants to.
"""

cimport cython
from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_INCREF, PyObject
from libc.errno cimport EINVAL, EIO, ENOMEM, ENOSYS
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset, strcmp

from arrowipc._core cimport Columns, DictionaryPlan, Plan, Recent, identity
from arrowipc.columns.array cimport Array
from arrowipc.columns.elements cimport check_native
from arrowipc.columns.record_batch cimport BatchProducer, RecordBatch, default_plan, single_column
from arrowipc.inline.layouts cimport BUFFER_DATA, LAYOUTS, LayoutSpec
from arrowipc.inline.loads cimport prefetch, round_up
from arrowipc.inline.plan cimport LAYOUT_NULL, ColumnsData, Extent, FieldPlan, PlanData
from arrowipc.metadata.schema_reader cimport plan_field, plan_schema

from arrowipc.arguments import described as spelled, instance_of
from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.schemas import Field, Schema, difference

cdef extern from "errno.h" nogil:
    const int ECANCELED

cdef extern from "Python.h" nogil:
    bint Py_IsInitialized() noexcept

cdef extern from "Python.h":
    void Py_DECREF(PyObject* o) noexcept

cdef extern from * nogil:
    """
    #if PY_VERSION_HEX >= 0x030D0000
    #define arrowipc_finalizing Py_IsFinalizing
    #else
    #define arrowipc_finalizing _Py_IsFinalizing
    #endif

    /* What empty buffers point at: an array of length 0 has one offset, a zero that must be readable. */
    static const uint8_t arrowipc_zeros[64] __attribute__((aligned(64))) = {0};

    /* Largest block that is kept for the next export; AddressSanitizer has to see all of them freed. */
    #if defined(__SANITIZE_ADDRESS__)
    #define ARROWIPC_LARGEST_SPARE -1
    #else
    #define ARROWIPC_LARGEST_SPARE 65536
    #endif
    """
    bint finalizing "arrowipc_finalizing"() noexcept
    const uint8_t* zeros "arrowipc_zeros"
    int64_t atomic_add "__atomic_add_fetch"(int64_t* counter, int64_t by, int order) noexcept
    void* atomic_swap "__atomic_exchange_n"(void** slot, void* value, int order) noexcept
    const int64_t LARGEST_SPARE "ARROWIPC_LARGEST_SPARE"
    const int RELAXED "__ATOMIC_RELAXED"
    const int ACQ_REL "__ATOMIC_ACQ_REL"

cdef enum:
    # Types nest 64 levels at most, so dictionaries inside dictionaries stay below this; it bounds recursion.
    MAX_NESTED_DICTIONARIES = 64
    # The most arrays of one export. A schema of 16 MiB holds fewer; dictionaries that share ids could ask for 2^64.
    MAX_STRUCTS = 1 << 22

cdef int64_t live = 0


def live_exports():
    """Count the blocks, streams and capsule structs that are not freed yet: a seam for leak tests."""
    return atomic_add(&live, 0, RELAXED)


cdef void* new_block(size_t size) except NULL:
    cdef void* block = malloc(size)
    if block == NULL:
        raise MemoryError(f"cannot allocate {size:,} bytes to export Arrow data")
    atomic_add(&live, 1, RELAXED)
    return block


cdef void free_block(void* block) noexcept nogil:
    free(block)
    atomic_add(&live, -1, RELAXED)


# -- blocks --------------------------------------------------------------------------------------------------

cdef struct Block:
    # One allocation for a schema, batch or array. Behind this header are its parts, the structs, and their memory.
    int64_t capacity        # bytes, with this header
    int64_t refs            # exported structs that are not released
    PyObject* owner         # the Columns whose memory arrays point into; NULL: of a schema
    void* structs           # the first is moved to the consumer at once

cdef struct ExportedPart:
    # The private_data of an exported struct points here: to the struct's place in its block, wherever it was moved.
    Block* block
    int32_t index
    int32_t end             # one past the last struct below it: dictionaries stand behind the children

ctypedef fused Exported:
    ArrowSchema
    ArrowArray


# The block of arrays that was freed last. Blocks of ten columns are too large for the fast lists of malloc, and streams
# need one after another: the spare saves 4 % of a hand-over to pyarrow.
cdef void* spare = NULL


cdef Block* new_structs(PyObject* owner, int64_t count, int64_t width, int64_t more) except NULL:
    """A block for `count` structs of `width` bytes each and `more` bytes behind them."""
    cdef int64_t size = sizeof(Block) + count * (<int64_t> sizeof(ExportedPart) + width) + more
    cdef Block* block = <Block*> atomic_swap(&spare, NULL, ACQ_REL) if owner != NULL else NULL
    if block != NULL and block.capacity >= size:
        atomic_add(&live, 1, RELAXED)
    else:
        free(block)
        block = <Block*> new_block(size)
        block.capacity = size
    block.refs = count
    block.owner = owner
    block.structs = <ExportedPart*> (block + 1) + count
    if owner != NULL:
        Py_INCREF(<object> owner)
    return block


cdef void release_struct(Exported* exported) noexcept nogil:
    """Release a struct and everything below it that was not moved out; free the block with its last struct."""
    cdef ExportedPart* part = <ExportedPart*> exported.private_data
    cdef Block* block = part.block
    cdef ExportedPart* parts = <ExportedPart*> (block + 1)
    cdef Exported* below
    cdef PyObject* owner
    cdef int64_t released = 1
    cdef int32_t i = part.index + 1
    while i < part.end:
        below = <Exported*> block.structs + i
        if below.release == exported.release:
            below.release = NULL
            released += 1
            i += 1
        else:
            # It was moved out with all below it, or replaced by a struct that is not ours.
            if below.release != NULL:
                below.release(below)
            i = parts[i].end
    exported.release = NULL
    if atomic_add(&block.refs, -released, ACQ_REL) == 0:
        owner = block.owner
        atomic_add(&live, -1, RELAXED)
        free(atomic_swap(&spare, block, ACQ_REL) if owner != NULL and block.capacity <= LARGEST_SPARE else block)
        if owner != NULL:
            drop(owner)


cdef void release_schema(ArrowSchema* schema) noexcept nogil:
    release_struct(schema)


cdef void release_array(ArrowArray* array) noexcept nogil:
    release_struct(array)


cdef void drop(PyObject* owner) noexcept nogil:
    """Drop a reference from any thread, whatever Python is doing."""
    if not Py_IsInitialized() or finalizing():
        # Taking the GIL would hang or kill this thread, and the process is about to return the memory anyway.
        return
    drop_with_gil(owner)


cdef void drop_with_gil(PyObject* owner) noexcept with gil:
    cdef PyObject* kind
    cdef PyObject* value
    cdef PyObject* traceback
    # A consumer may release while an error of its own is pending, which must survive the owner's destructor.
    PyErr_Fetch(&kind, &value, &traceback)
    Py_DECREF(owner)
    PyErr_Restore(kind, value, traceback)


# -- schemas -----------------------------------------------------------------------------------------------

# (schema, its nodes) of the schemas that were exported last: the exports of batch after batch ask for the same one.
cdef Recent recent_schemas = Recent(4)


cdef list schema_nodes(object schema):
    """Return the nodes that `cdata.format_strings.nodes_of` makes of a Schema, Field or DataType."""
    found = recent_schemas.find(identity(schema))
    if found is None:
        # Not imported at the top: readers load this module for its batch producer, and most export no schema.
        from arrowipc.cdata.format_strings import nodes_of

        found = (schema, nodes_of(schema))
        recent_schemas.keep(found, identity(schema))
    return found[1]


cdef inline const char* put(char** end, bytes text, int64_t size) noexcept:
    """Copy `size` bytes of `text` (one more than its length: with the NUL) to `end`, and advance `end`."""
    cdef char* start = end[0]
    memcpy(start, <const char*> text, size)
    end[0] = start + size
    return start


cdef int fill_nodes(list nodes, ArrowSchema* out) except -1:
    """Put nodes of a schema into a new block and hand its root to `out`."""
    cdef int64_t n = len(nodes), size = n * sizeof(void*)
    cdef Block* block
    cdef ArrowSchema* schemas
    cdef ArrowSchema* schema
    cdef ArrowSchema** pointers
    cdef ExportedPart* parts
    cdef char* text
    cdef bytes form, name, metadata
    cdef int32_t i, k, child
    for form, name, metadata, _, _, _, _ in nodes:
        size += len(form) + len(name) + len(metadata) + 2 + 8
    block = new_structs(NULL, n, sizeof(ArrowSchema), size)
    parts = <ExportedPart*> (block + 1)
    schemas = <ArrowSchema*> block.structs
    pointers = <ArrowSchema**> (schemas + n)
    text = <char*> (pointers + n)
    for i in range(n):
        form, name, metadata, flags, n_children, encoded, end = <tuple> nodes[i]
        parts[i] = ExportedPart(block, i, end)
        schema = &schemas[i]
        schema.metadata = NULL
        if metadata:
            # It begins at a multiple of 8, for consumers that load its words without copying them.
            text = <char*> round_up(<int64_t> text, 8)
            schema.metadata = put(&text, metadata, len(metadata))
        schema.format = put(&text, form, len(form) + 1)
        schema.name = put(&text, name, len(name) + 1)
        schema.flags = flags
        schema.n_children = n_children
        schema.children = pointers
        schema.release = release_schema
        schema.private_data = &parts[i]
        child = i + 1
        for k in range(<int32_t> schema.n_children):
            pointers[k] = &schemas[child]
            child = nodes[child][6]
        pointers += schema.n_children
        schema.dictionary = &schemas[child] if encoded else NULL
    out[0] = schemas[0]
    return 0


# -- arrays ------------------------------------------------------------------------------------------------

cdef struct Need:
    # The numbers of things that a block has to hold.
    int64_t arrays
    int64_t pointers
    int64_t sizes

cdef struct Cursor:
    # The unused rest of a block.
    Block* block
    ExportedPart* parts
    ArrowArray* arrays
    int32_t next            # array
    void** pointers
    int64_t* sizes


cdef inline Columns dictionary_values(Columns columns, int32_t ordinal):
    """The values of a dictionary; None when they have not arrived: legal while nothing refers to them."""
    if columns is None or columns.dictionaries is None or ordinal >= len(columns.dictionaries):
        return None
    return columns.dictionaries[ordinal]


cdef inline Plan dictionary_plan(Plan plan, Columns values, int32_t ordinal):
    return values.plan if values is not None else (<DictionaryPlan> plan.dictionaries[ordinal]).values


cdef int measure(Plan plan, Columns columns, int32_t first, int32_t end, int depth, Need* need) except -1:
    """Add the needs of the fields [first, end) and their dictionaries; `columns` None: they are empty arrays."""
    cdef const FieldPlan* field
    cdef Columns values
    cdef Plan values_plan
    cdef int32_t i, variadic
    if depth > MAX_NESTED_DICTIONARIES or end - first > MAX_STRUCTS - need.arrays:
        raise UnsupportedError(f"more than {MAX_STRUCTS:,} fields, or more than {MAX_NESTED_DICTIONARIES} "
                               "dictionaries inside each other, are too much to export")
    need.arrays += end - first
    for i in range(first, end):
        field = &plan.d.fields[i]
        need.pointers += field.n_buffers + field.n_children
        if field.view >= 0:
            variadic = columns.d.views[field.view].count if columns is not None else 0
            need.pointers += variadic + 1
            need.sizes += variadic
        if field.dictionary >= 0:
            values = dictionary_values(columns, field.dictionary)
            values_plan = dictionary_plan(plan, values, field.dictionary)
            measure(values_plan, values, 0, values_plan.d.n_fields, depth + 1, need)
    return 0


cdef inline const uint8_t* address_of(const Extent* extent) noexcept nogil:
    """Return the address of a buffer; of an empty one, that of readable zeros."""
    return extent.data if extent.size > 0 and extent.data != NULL else zeros


cdef void fill_buffers(Cursor* cursor, const FieldPlan* field, const ColumnsData* d,
                       ArrowArray* array) noexcept nogil:
    """Set the buffers of an array; `d` NULL: of an empty one. Only a validity bitmap may be NULL."""
    cdef const void** buffers = <const void**> cursor.pointers
    cdef const LayoutSpec* spec = &LAYOUTS[field.layout]
    cdef const Extent* extent
    cdef int32_t i, n = field.n_buffers, variadic = 0
    array.buffers = buffers
    for i in range(n):
        buffers[i] = address_of(&d.extents[field.first_buffer + i]) if d != NULL else zeros
    if spec.buffers[2].kind == BUFFER_DATA:
        # Consumers soon take the size of the data from the last offset, which often nobody has read yet.
        prefetch(<const uint8_t*> buffers[1] + spec.buffers[1].width * (array.offset + array.length))
    if not spec.has_validity:
        array.null_count = array.length if field.layout == LAYOUT_NULL else 0
    elif array.null_count == 0 or buffers[0] == zeros:
        array.null_count = 0
        buffers[0] = NULL
    if field.view >= 0:
        # IPC counts the variadic buffers in the metadata; here their sizes are one more buffer at the end.
        if d != NULL:
            variadic = d.views[field.view].count
        for i in range(variadic):
            extent = &d.extents[d.views[field.view].first + i]
            buffers[n + i] = address_of(extent)
            cursor.sizes[i] = extent.size
        buffers[n + variadic] = cursor.sizes if variadic else <const void*> zeros
        cursor.sizes += variadic
        n += variadic + 1
    array.n_buffers = n
    cursor.pointers += n


cdef int fill_field(Cursor* cursor, Plan plan, Columns columns, int32_t f) except -1:
    """Fill the arrays of a field and of all below it, side by side in pre-order, a dictionary behind the children."""
    cdef const FieldPlan* field = &plan.d.fields[f]
    cdef const ColumnsData* d = &columns.d if columns is not None else NULL
    cdef ArrowArray* array = &cursor.arrays[cursor.next]
    cdef ExportedPart* part = &cursor.parts[cursor.next]
    cdef Columns values
    cdef int32_t k, child = f + 1
    part.block = cursor.block
    part.index = cursor.next
    cursor.next += 1
    array.length = d.nodes[f].length if d != NULL else 0
    array.null_count = d.nodes[f].null_count if d != NULL else 0
    # An empty array has no offset: pyarrow reads views up to it, and takes the buffers of such an array for empty.
    array.offset = d.nodes[f].offset if array.length else 0
    array.n_children = field.n_children
    array.children = <ArrowArray**> cursor.pointers
    array.dictionary = NULL
    array.release = release_array
    array.private_data = part
    cursor.pointers += field.n_children
    fill_buffers(cursor, field, d, array)
    for k in range(field.n_children):
        array.children[k] = &cursor.arrays[cursor.next]
        fill_field(cursor, plan, columns, child)
        child = plan.d.fields[child].end
    if field.dictionary >= 0:
        values = dictionary_values(columns, field.dictionary)
        array.dictionary = &cursor.arrays[cursor.next]
        fill_field(cursor, dictionary_plan(plan, values, field.dictionary), values, 0)
    part.end = cursor.next
    return 0


cdef int open_block(Columns columns, const Need* need, Cursor* cursor) except -1:
    """Allocate a block that owns a reference to `columns`, and point `cursor` at its parts."""
    cdef Block* block
    check_native(columns, "the Arrow C data interface")
    block = new_structs(<PyObject*> columns, need.arrays, sizeof(ArrowArray),
                        need.pointers * sizeof(void*) + need.sizes * sizeof(int64_t))
    cursor.block = block
    cursor.parts = <ExportedPart*> (block + 1)
    cursor.arrays = <ArrowArray*> block.structs
    cursor.next = 0
    cursor.pointers = <void**> (cursor.arrays + need.arrays)
    cursor.sizes = <int64_t*> (cursor.pointers + need.pointers)
    return 0


cdef int fill_batch(Columns columns, ArrowArray* out) except -1:
    """Export all columns as one struct array without nulls and offset."""
    cdef const PlanData* plan = &columns.plan.d
    cdef Need need
    cdef Cursor cursor
    cdef ArrowArray* root
    cdef int32_t i
    need.arrays = 1
    need.pointers = 1 + plan.n_columns
    need.sizes = 0
    measure(columns.plan, columns, 0, plan.n_fields, 0, &need)
    open_block(columns, &need, &cursor)
    root = cursor.arrays
    root.length = columns.d.length
    root.null_count = 0
    root.offset = 0
    root.n_buffers = 1
    root.n_children = plan.n_columns
    root.buffers = <const void**> cursor.pointers
    root.buffers[0] = NULL
    root.children = <ArrowArray**> (cursor.pointers + 1)
    root.dictionary = NULL
    root.release = release_array
    root.private_data = cursor.parts
    cursor.parts[0] = ExportedPart(cursor.block, 0, <int32_t> need.arrays)
    cursor.pointers += 1 + plan.n_columns
    cursor.next = 1
    for i in range(plan.n_columns):
        root.children[i] = &cursor.arrays[cursor.next]
        fill_field(&cursor, columns.plan, columns, plan.columns[i])
    out[0] = root[0]
    return 0


cdef int fill_column(Columns columns, int32_t field, ArrowArray* out) except -1:
    """Export one field, at any level, with the length and offset that its node states."""
    cdef int32_t end = columns.plan.d.fields[field].end
    cdef Need need
    cdef Cursor cursor
    need.arrays = need.pointers = need.sizes = 0
    measure(columns.plan, columns, field, end, 0, &need)
    open_block(columns, &need, &cursor)
    fill_field(&cursor, columns.plan, columns, field)
    out[0] = cursor.arrays[0]
    return 0


cdef int fill_array(Array array, ArrowArray* out) except -1:
    """Export an Array, which may be a slice of its field."""
    cdef const FieldPlan* field = &array.columns.plan.d.fields[array.index]
    fill_column(array.columns, array.index, out)
    out.length = array.length
    out.offset = array.offset if array.length else 0
    if field.layout == LAYOUT_NULL:
        out.null_count = array.length
    elif out.null_count != 0:
        # The field has a bitmap; its null count is not the slice's.
        out.null_count = array._null_count
    return 0


# -- streams -----------------------------------------------------------------------------------------------

cdef object EXHAUSTED = object()


@cython.final
cdef class IteratorProducer(BatchProducer):
    """Takes the batches, or arrays, of any Python iterator; each must have the schema, or field, of the stream."""
    cdef object iterator
    cdef object schema
    cdef Plan accepted      # plan of the last batch whose schema was compared

    cdef Columns next(self):
        cdef RecordBatch batch
        found = next(self.iterator, EXHAUSTED)
        if found is EXHAUSTED:
            return None
        if isinstance(self.schema, Field):
            if not isinstance(found, Array) or (<Array> found).type != self.schema.type:
                raise UsageError(f"expected arrays of {self.schema.type} to export, found {spelled(found)}")
            return single_column(<Array> found, self.accepted)
        if not isinstance(found, RecordBatch):
            raise UsageError(f"expected an arrowipc.RecordBatch to export, found {type(found).__name__}")
        batch = <RecordBatch> found
        if batch.plan is not self.accepted:
            # A consumer relies on the stream's schema: with another layout, it would read wild addresses.
            schema = plan_schema(batch.plan)
            if not self.schema.equals(schema):
                raise UsageError("a batch has another schema than the stream that exports it: it "
                                 f"{difference(self.schema, schema)}")
            self.accepted = batch.plan
        return batch


# The first class that an error is an instance of decides the code that the consumer sees.
cdef tuple ERROR_CODES = (
    (NotImplementedError, ENOSYS),
    (MemoryError, ENOMEM),
    (ValueError, EINVAL),       # FormatError, also as TruncatedError
    (OSError, EIO),             # unless it says which
    (Exception, EINVAL),
    (BaseException, ECANCELED),     # KeyboardInterrupt, SystemExit
)


cdef int error_code(object error) except -1:
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and isinstance(number, int) and 0 < number <= INT32_MAX:
        return number
    for kind, code in ERROR_CODES:
        if isinstance(error, kind):
            return code
    return EINVAL


@cython.final
cdef class StreamState:
    """The state of a stream until it is released."""
    cdef list nodes                 # of the schema
    cdef BatchProducer producer     # None after the end and after an error
    cdef bint of_arrays             # whether they are exported as arrays, not as structs
    cdef int failure                # code of the error, which later calls repeat
    cdef char* message              # of the last error, NULL: none

    def __dealloc__(self):
        free(self.message)

    cdef int pull(self, ArrowArray* out) except -1:
        """Export the next batch; leave `out` released at the end."""
        cdef Columns columns = None
        cdef BatchProducer producer = self.producer     # a reference: calls inside `next` may end the stream
        if producer is not None:
            columns = producer.next()
            if columns is None:
                self.producer = None
            else:
                if self.of_arrays:
                    fill_column(columns, 0, out)
                else:
                    fill_batch(columns, out)
        return 0

    cdef int fail(self, object error) except -1:
        """Keep the message of `error`; return its code."""
        cdef size_t size
        cdef bytes text
        try:
            text = str(error).encode("utf-8", "backslashreplace").replace(b"\0", b"\\0")
        except Exception:
            text = b""
        text = type(error).__name__.encode() + (b": " + text if text else b"")
        size = len(text) + 1
        free(self.message)
        self.message = <char*> malloc(size)
        if self.message != NULL:
            memcpy(self.message, <const char*> text, size)
        return error_code(error)


cdef struct StreamData:
    PyObject* state         # a StreamState
    char** message          # its message, here because it is read without the GIL


cdef StreamData* stream_data(object schema, object source) except NULL:
    """Make the private data of a stream; `source` is a BatchProducer or an iterable of batches or arrays."""
    cdef StreamState state = StreamState.__new__(StreamState)
    cdef IteratorProducer producer
    cdef StreamData* data
    state.nodes = schema_nodes(schema)
    if isinstance(source, BatchProducer):
        state.producer = source
    else:
        producer = IteratorProducer.__new__(IteratorProducer)
        producer.iterator = iter(source)
        producer.schema = schema
        if isinstance(schema, Field):
            state.of_arrays = True
            producer.accepted = default_plan(Schema([schema]))
        state.producer = producer
    data = <StreamData*> new_block(sizeof(StreamData))
    data.state = <PyObject*> state
    data.message = &state.message
    Py_INCREF(state)
    return data


ctypedef fused Stream:
    ArrowArrayStream
    ArrowDeviceArrayStream


cdef int stream_get_schema(Stream* stream, ArrowSchema* out) noexcept nogil:
    out.release = NULL
    return stream_call(<StreamData*> stream.private_data, out, NULL)


cdef int stream_get_next(ArrowArrayStream* stream, ArrowArray* out) noexcept nogil:
    out.release = NULL
    return stream_call(<StreamData*> stream.private_data, NULL, out)


cdef int device_stream_get_next(ArrowDeviceArrayStream* stream, ArrowDeviceArray* out) noexcept nogil:
    on_cpu(out)
    return stream_call(<StreamData*> stream.private_data, NULL, &out.array)


cdef int stream_call(StreamData* data, ArrowSchema* schema, ArrowArray* array) noexcept nogil:
    if data == NULL:
        return EINVAL
    if not Py_IsInitialized() or finalizing():
        return ECANCELED
    return stream_call_with_gil(data, schema, array)


cdef int stream_call_with_gil(StreamData* data, ArrowSchema* schema, ArrowArray* array) noexcept with gil:
    """Get the schema or the next batch; no exception escapes, and one that is pending stays pending."""
    cdef StreamState state = <StreamState> data.state   # a reference: what the producer calls may release the stream
    cdef PyObject* kind
    cdef PyObject* value
    cdef PyObject* traceback
    cdef int code = 0
    PyErr_Fetch(&kind, &value, &traceback)
    try:
        if schema != NULL:
            fill_nodes(state.nodes, schema)
        elif state.failure:
            # An iterator that raised seems to be at its end when it is called again: the rest would be lost silently.
            code = state.failure
        else:
            state.pull(array)
    except BaseException as error:
        try:
            code = state.fail(error)
        except BaseException:
            code = ENOMEM
        if array != NULL:
            state.failure = code
            state.producer = None
    PyErr_Restore(kind, value, traceback)
    return code


cdef const char* stream_get_last_error(Stream* stream) noexcept nogil:
    if stream.private_data == NULL:
        return "the stream has been released"
    return (<StreamData*> stream.private_data).message[0]


cdef void release_stream(Stream* stream) noexcept nogil:
    cdef StreamData* data = <StreamData*> stream.private_data
    cdef PyObject* state
    stream.release = NULL
    stream.private_data = NULL
    if data != NULL:
        state = data.state
        free_block(data)
        drop(state)


# -- capsules ----------------------------------------------------------------------------------------------

cdef void destroy_capsule(object capsule) noexcept:
    cdef const char* name = PyCapsule_GetName(capsule)
    cdef void* block = PyCapsule_GetPointer(capsule, name)
    cdef ArrowSchema* schema = <ArrowSchema*> block
    cdef ArrowArrayStream* stream = <ArrowArrayStream*> block
    cdef ArrowDeviceArrayStream* device_stream = <ArrowDeviceArrayStream*> block
    cdef ArrowArray* array = <ArrowArray*> block    # an ArrowDeviceArray begins with one
    if strcmp(name, "arrow_schema") == 0:
        if schema.release != NULL:
            schema.release(schema)
    elif strcmp(name, "arrow_array_stream") == 0:
        if stream.release != NULL:
            stream.release(stream)
    elif strcmp(name, "arrow_device_array_stream") == 0:
        if device_stream.release != NULL:
            device_stream.release(device_stream)
    elif array.release != NULL:
        array.release(array)
    free_block(block)


cdef int check_requested(object requested_schema) except -1:
    if requested_schema is not None and not PyCapsule_IsValid(requested_schema, "arrow_schema"):
        raise UsageError("requested_schema: expected an 'arrow_schema' PyCapsule or None, "
                         f"found {type(requested_schema).__name__}")
    return 0


cdef object described(object exported):
    """Return the Schema or Field of an object that is exported."""
    if isinstance(exported, Array):
        return plan_field((<Array> exported).columns.plan, (<Array> exported).index)
    if isinstance(exported, RecordBatch):
        return plan_schema((<RecordBatch> exported).plan)
    raise UsageError(f"expected an arrowipc.RecordBatch or Array to export, found {type(exported).__name__}")


cdef int fill_any(object exported, ArrowArray* out) except -1:
    if isinstance(exported, Array):
        return fill_array(<Array> exported, out)
    return fill_batch(<RecordBatch> exported, out)


cdef object capsule_of(void* block, const char* name):
    """Make the capsule of a struct before it is filled: from then on the capsule frees both, also after an error."""
    try:
        return PyCapsule_New(block, name, destroy_capsule)
    except BaseException:
        free_block(block)
        raise


def export_schema(schema):
    """Export a Schema (as a struct), a Field or a DataType (without a name): an ``arrow_schema`` capsule."""
    cdef list nodes = schema_nodes(schema)
    cdef ArrowSchema* out = <ArrowSchema*> new_block(sizeof(ArrowSchema))
    out.release = NULL
    capsule = capsule_of(out, "arrow_schema")
    fill_nodes(nodes, out)
    return capsule


def export_array(exported, requested_schema=None):
    """Export a RecordBatch (as a struct without nulls) or an Array: ``arrow_schema`` and ``arrow_array`` capsules."""
    cdef ArrowArray* out
    check_requested(requested_schema)
    schema = export_schema(described(exported))
    out = <ArrowArray*> new_block(sizeof(ArrowArray))
    out.release = NULL
    capsule = capsule_of(out, "arrow_array")
    fill_any(exported, out)
    return schema, capsule


def export_device_array(exported, requested_schema=None, **kwargs):
    """Export a RecordBatch or an Array on the CPU: an ``arrow_schema`` and an ``arrow_device_array`` capsule.

    Keywords are for later versions of the interface; any that is not None raises `UnsupportedError`.
    """
    check_keywords(kwargs)
    check_requested(requested_schema)
    return export_schema(described(exported)), device_capsule(exported, ARROW_DEVICE_CPU, -1, NULL)


def check_keywords(keywords, method="__arrow_c_device_array__"):
    """Refuse all keywords of the device interface, because none is known yet, unless they are None."""
    for name, value in keywords.items():
        if value is not None:
            raise UnsupportedError(f"{method}: the keyword {name!r} is not supported")


cdef void on_cpu(ArrowDeviceArray* out) noexcept nogil:
    """Make a released array on the CPU."""
    memset(out, 0, sizeof(ArrowDeviceArray))
    out.device_id = -1
    out.device_type = ARROW_DEVICE_CPU


cdef object device_capsule(object exported, int32_t device_type, int64_t device_id, void* sync_event):
    cdef ArrowDeviceArray* out = <ArrowDeviceArray*> new_block(sizeof(ArrowDeviceArray))
    on_cpu(out)
    out.device_id = device_id
    out.device_type = device_type
    out.sync_event = sync_event
    capsule = capsule_of(out, "arrow_device_array")
    fill_any(exported, &out.array)
    if device_type != ARROW_DEVICE_CPU:
        forget_zeros(&out.array)
    return capsule


cdef void forget_zeros(ArrowArray* array) noexcept nogil:
    """Set the addresses of buffers without bytes to NULL, also below: `zeros` is memory of the CPU."""
    cdef int64_t i
    for i in range(array.n_buffers):
        if array.buffers[i] == zeros:
            array.buffers[i] = NULL
    for i in range(array.n_children):
        forget_zeros(array.children[i])
    if array.dictionary != NULL:
        forget_zeros(array.dictionary)


cdef object stream_capsule(Stream* out, object schema, object source, object requested_schema):
    """Return the capsule of a stream; `out` is NULL and only says of which kind."""
    instance_of("the schema of a stream to export", schema, (Schema, Field))
    check_requested(requested_schema)
    out = <Stream*> new_block(sizeof(out[0]))
    out.release = NULL
    if Stream is ArrowArrayStream:
        capsule = capsule_of(out, "arrow_array_stream")
        out.get_next = stream_get_next
    else:
        capsule = capsule_of(out, "arrow_device_array_stream")
        out.get_next = device_stream_get_next
        out.device_type = ARROW_DEVICE_CPU
    out.private_data = stream_data(schema, source)
    out.get_schema = stream_get_schema[Stream]
    out.get_last_error = stream_get_last_error[Stream]
    out.release = release_stream[Stream]
    return capsule


def export_stream(schema, source, requested_schema=None):
    """Export a `BatchProducer` or an iterable of RecordBatches, or of Arrays: an ``arrow_array_stream`` capsule.

    `source` is asked for the next batch of `schema` (the next array of a field) whenever the consumer wants one. An
    error of `source` reaches the consumer as an errno code and a message; the stream then stays failed. This function
    raises the errors of `export_schema`.
    """
    cdef ArrowArrayStream* out = NULL
    return stream_capsule(out, schema, source, requested_schema)


def export_device_stream(schema, source, requested_schema=None, **kwargs):
    """Export a stream on the CPU: an ``arrow_device_array_stream`` capsule; keywords as `export_device_array`."""
    cdef ArrowDeviceArrayStream* out = NULL
    check_keywords(kwargs, "__arrow_c_device_stream__")
    return stream_capsule(out, schema, source, requested_schema)
