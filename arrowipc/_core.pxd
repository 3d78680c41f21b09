# The compiled core's shapes: how a schema is laid out for the walk, what the walk leaves behind, what a message is.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

cimport cython

from arrowipc._fault cimport Fault
from arrowipc._flatbuf cimport Table, Vector

cdef enum Layout:
    # How the buffers of a field lie (Columnar format, "Physical memory layout").
    LAYOUT_NULL = 0
    LAYOUT_BOOL             # validity, bits
    LAYOUT_FIXED            # validity, values of `width` bytes (dictionary-encoded: the indices)
    LAYOUT_VAR32            # validity, int32 offsets, data
    LAYOUT_VAR64            # validity, int64 offsets, data
    LAYOUT_VIEW             # validity, 16-byte views, then variadic data buffers
    LAYOUT_LIST32           # validity, int32 offsets (Map too)
    LAYOUT_LIST64           # validity, int64 offsets
    LAYOUT_LIST_VIEW32      # validity, int32 offsets, int32 sizes
    LAYOUT_LIST_VIEW64      # validity, int64 offsets, int64 sizes
    LAYOUT_FIXED_LIST       # validity; `width` elements each
    LAYOUT_STRUCT           # validity
    LAYOUT_SPARSE           # int8 type codes
    LAYOUT_DENSE            # int8 type codes, int32 offsets
    LAYOUT_RUN_END          # nothing of its own; children run_ends and values

cdef enum Swap:
    # Which words of a value a change of byte order reverses.
    SWAP_NONE = 0
    SWAP_2
    SWAP_4
    SWAP_8
    SWAP_16                 # decimal128: all 16 bytes
    SWAP_32                 # decimal256: all 32 bytes
    SWAP_4_4                # DAY_TIME interval: two int32
    SWAP_4_4_8              # MONTH_DAY_NANO interval
    SWAP_VIEW               # a view: length, and index and offset when not inline

cdef enum FieldFlag:
    FIELD_NULLABLE = 1
    FIELD_UTF8 = 2          # the data must be UTF-8
    FIELD_SIGNED = 4
    FIELD_ORDERED = 8       # dictionary with a meaningful order
    FIELD_KEYS_SORTED = 16
    FIELD_ENCODED = 32      # dictionary-encoded: the values here are indices

cdef struct FieldPlan:
    # One field of a schema flattened in pre-order.
    uint8_t layout          # Layout
    uint8_t type            # Schema.fbs Type of what the buffers hold (Type_Int for dictionary indices)
    uint8_t swap            # Swap
    uint8_t flags           # FieldFlag
    int32_t width           # bytes of a value; elements of a fixed-size list
    int32_t unit            # TimeUnit, DateUnit, IntervalUnit or Precision
    int32_t precision       # decimals
    int32_t scale
    int32_t parent          # its FieldPlan, -1 at the top
    int32_t end             # one past the last FieldPlan below this one: the next sibling
    int32_t n_children      # the first child is the next FieldPlan
    int32_t first_buffer    # of ColumnsData.extents
    int32_t n_buffers       # without variadic ones
    int32_t view            # ordinal in ColumnsData.views, -1: no view type
    int32_t codes           # union: ordinal in PlanData.codes, -1
    int32_t dictionary      # ordinal in Plan.dictionaries, -1
    int32_t source_node     # its FieldNode in the message
    int32_t source_buffer   # its first Buffer in the message, before the two corrections below
    int32_t views_before    # view fields before it in the whole schema: their variadic buffers come first
    int32_t bitmaps_before  # fields before it with one more buffer in metadata V4, see v4_bitmap
    uint32_t table          # position of its Field table in Plan.metadata

cdef inline bint v4_bitmap(const FieldPlan* field) noexcept nogil:
    """Whether metadata V4 gives the field a validity buffer that V5 does not have: unions and run-end encoded."""
    return field.codes >= 0 or field.layout == LAYOUT_RUN_END


cdef struct PlanData:
    FieldPlan* fields
    int32_t n_fields
    int32_t n_columns       # top-level fields
    int32_t n_buffers       # extents without variadic ones
    int32_t n_views
    int32_t n_unions
    int32_t* columns        # FieldPlan of each top-level column
    int8_t* codes           # 128 entries per union: type code -> child ordinal, -1: none
    int32_t source_nodes    # what a message of the whole (unprojected) schema holds
    int32_t source_buffers
    int32_t source_views
    int32_t source_bitmaps
    int32_t n_bitmaps       # fields with one more buffer in metadata V4
    int32_t alignment       # most that any buffer of the plan needs, 1..8
    bint whole              # nothing is projected away: fields and buffers lie as in the message
    bint stored_big         # bodies arrive in big-endian
    bint keep_stored        # ... and are left so (ensure_native_endian=False)

cdef struct Node:
    int64_t length
    int64_t null_count      # never -1 once resolved, except in slices
    int64_t offset          # as ArrowArray.offset; 0 for everything that comes from IPC

cdef struct Extent:
    const uint8_t* data     # NULL: absent or empty
    int64_t size

cdef struct ViewRange:
    int32_t first           # of the variadic data buffers in ColumnsData.extents
    int32_t count

cdef struct ColumnsData:
    # What one walk leaves behind: no Python object, one allocation.
    const PlanData* plan
    Node* nodes             # plan.n_fields
    ViewRange* views        # plan.n_views
    Extent* extents         # plan.n_buffers, then all variadic buffers
    int32_t n_extents
    int64_t length          # rows
    void* block             # the allocation

cdef struct Envelope:
    # A Message table, opened.
    Table root
    Table header
    int version             # MetadataVersion
    int kind                # MessageHeader
    int64_t body_length

cdef struct BatchHeader:
    # A RecordBatch table, opened.
    int64_t length
    int codec               # CompressionType, -1: the body is raw
    Vector nodes
    Vector buffers
    Vector variadic

cdef struct LimitsData:
    int64_t metadata_bytes
    int64_t depth
    int64_t rows_per_batch
    int64_t decompressed_bytes
    int64_t decompressed_ratio
    int64_t decompressed_slack
    int64_t dictionary_bytes
    int64_t read_ahead
    int64_t overlap_bytes

cdef enum Level:
    LEVEL_NONE = 0          # structure
    LEVEL_FULL = 1          # + memory safety for every consumer
    LEVEL_STRICT = 2        # + value domain


cdef class Memory:
    """A 64-byte aligned block that grows; exported through the buffer protocol."""
    cdef uint8_t* data
    cdef int64_t size       # bytes in use
    cdef int64_t capacity
    cdef int exports
    cdef bint writable
    cdef int reserve(self, int64_t capacity) except -1


cdef class Source:
    """A caller's buffer, held for as long as anything points into it."""
    cdef Py_buffer view
    cdef bint held
    cdef const uint8_t* data
    cdef int64_t size


cdef class Plan:
    """A schema made ready for the walk."""
    cdef PlanData d
    cdef const uint8_t* metadata    # the flatbuffer that holds the Schema table
    cdef int64_t metadata_size
    cdef object metadata_owner      # bytes of our own, or the Source of a large footer
    cdef int64_t schema_table       # position of that table
    cdef int64_t max_depth          # Limits.depth under which it was read
    cdef list dictionaries          # DictionaryPlan per distinct id that the plan needs itself
    cdef list names                 # once somebody looked for one: what `_schema.names_below` made, per field + 1
    cdef object schema              # arrowipc.Schema, made when asked for
    cdef int allocate(self, int32_t n_fields, int32_t n_columns, int32_t n_unions) except -1


cdef class DictionaryPlan:
    cdef readonly int64_t id
    cdef Plan values                # a plan of one column: the dictionary's values


# The cyclic collector leaves columns and batches alone, as it does NumPy's arrays: walking all batches that are kept,
# again and again, took a fifth of the time of reading them. So nothing inside may lead back to its columns, and who
# makes the source of a batch refer to that batch keeps both. (The decorator has to be in the .pyx too.)
@cython.no_gc
cdef class Columns:
    """Columns in memory: a plan, nodes and extents, and what keeps their bytes alive."""
    cdef ColumnsData d
    cdef Plan plan
    cdef object owner
    cdef tuple dictionaries         # Columns (or None: not arrived) per plan.dictionaries
    cdef int allocate(self, Plan plan, int64_t variadic) except -1


cdef int limits_data(object limits, LimitsData* out) except -1
cdef int raise_fault(const Fault* fault, Plan plan=*, object where=*) except -1

cdef int open_message(const uint8_t* metadata, int64_t size, Envelope* out, Fault* fault) noexcept nogil
cdef int open_batch(const Table* table, BatchHeader* out, Fault* fault) noexcept nogil
cdef int64_t text_size(const Table* field) noexcept nogil
cdef tuple read_pairs(const Table* table, int32_t slot)
cdef int export_bytes(object exporter, Py_buffer* view, const uint8_t* data, int64_t size, bint writable,
                      int flags) except -1
cdef object window(const uint8_t* data, int64_t size, object owner)
cdef str field_name(Plan plan, int32_t field)
cdef str field_path(Plan plan, int32_t field)

# The walk without the allocation, for kernels that use the same `d` again and again: `check_counts` (which fills
# `prefix`: source_views + 1 entries, NULL without views), room for `count_variadic` more extents, `walk`.
cdef int check_counts(const PlanData* plan, const BatchHeader* header, int version, int64_t* prefix,
                      const LimitsData* limits, Fault* fault) noexcept nogil
cdef int64_t count_variadic(const PlanData* plan, const int64_t* prefix) noexcept nogil
cdef int walk(ColumnsData* d, const BatchHeader* header, const uint8_t* body, int64_t body_length, bint v4,
              const int64_t* prefix, const LimitsData* limits, Fault* fault) noexcept nogil
cdef int locate(Columns out, Plan plan, const BatchHeader* header, const uint8_t* body, int64_t body_length,
                int version, const LimitsData* limits) except -1
cdef int check_sizes(const ColumnsData* d, Fault* fault) noexcept nogil
