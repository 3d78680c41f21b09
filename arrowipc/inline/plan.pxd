# How a schema is laid out for the walk, and what the walk produces: the structs that all kernels share.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from arrowipc.inline.flatbuf cimport Table, Vector

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
    FIELD_REPEATED = 64     # another field has the same buffers: the same column was requested twice

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
    """Whether metadata V4 gives the field a validity buffer that V5 does not have (unions, run-end encoded fields)."""
    return field.codes >= 0 or field.layout == LAYOUT_RUN_END


cdef inline int64_t buffer_place(const FieldPlan* field, bint v4, const int64_t* prefix) noexcept nogil:
    """Return the number of the field's first Buffer in a message; `prefix` is that of `check_counts`."""
    cdef int64_t first = field.source_buffer
    if prefix != NULL:
        first += prefix[field.views_before]
    if v4:
        first += field.bitmaps_before + v4_bitmap(field)
    return first


cdef struct FieldSizes:
    # How the sizes of a field's buffers and children follow from its length, for `walk_measured`: 16 bytes, enough for
    # most layouts.
    int32_t bits            # of an element of buffer 1
    int32_t parent          # as in FieldPlan
    int32_t times           # how many elements it must have for each element of its parent
    int8_t n_buffers
    int8_t more             # 1: buffer 1 has one element more, the last offset

cdef struct PlanData:
    FieldPlan* fields
    FieldSizes* sizes       # n_fields; only if `measurable`
    int32_t n_fields
    int32_t n_columns       # top-level fields
    int32_t n_buffers       # extents without variadic ones
    int32_t n_views
    int32_t n_unions
    int32_t* columns        # FieldPlan of each top-level column
    int8_t* codes           # 128 entries per union: type code -> child ordinal, -1: none
    int32_t source_nodes    # these four: how many a message of the whole (unprojected) schema has
    int32_t source_buffers
    int32_t source_views
    int32_t source_bitmaps
    int32_t n_bitmaps       # fields with one more buffer in metadata V4
    int32_t alignment       # the largest that any buffer of the plan needs, 1..8
    bint measurable         # the lengths of nodes say how large all buffers must be at least
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
    # What one walk produces: no Python objects, one allocation.
    const PlanData* plan
    Node* nodes             # plan.n_fields; the allocation begins here
    ViewRange* views        # plan.n_views
    Extent* extents         # plan.n_buffers, then all variadic buffers
    int32_t n_extents
    int64_t length          # rows
    int64_t block_size      # 0: not made by `Columns.allocate`


cdef inline void copy_tables(ColumnsData* out, const ColumnsData* source) noexcept nogil:
    """Copy nodes, views and extents; `out` has room for as many."""
    if source.plan.n_fields:
        memcpy(out.nodes, source.nodes, source.plan.n_fields * sizeof(Node))
    if source.n_extents:
        memcpy(out.extents, source.extents, source.n_extents * sizeof(Extent))
    if source.plan.n_views:
        memcpy(out.views, source.views, source.plan.n_views * sizeof(ViewRange))


cdef inline int32_t place_views(ColumnsData* out, int32_t f, const ColumnsData* source, int32_t g,
                                int32_t next) noexcept nogil:
    """Give view field `f` of `out` the data buffers of view field `g` of `source` (NULL: none).

    They go to the extents from `next` on, which exist; return the number of the extent behind them.
    """
    cdef ViewRange* made = &out.views[out.plan.fields[f].view]
    cdef const ViewRange* view
    made.first = next
    made.count = 0
    if source == NULL:
        return next
    view = &source.views[source.plan.fields[g].view]
    made.count = view.count
    if view.count:
        memcpy(&out.extents[next], &source.extents[view.first], view.count * sizeof(Extent))
    return next + view.count


cdef inline int32_t place_field(ColumnsData* out, int32_t f, const ColumnsData* source, int32_t g,
                                int32_t next) noexcept nogil:
    """Copy the node and the extents of field `g` of `source` to field `f` of `out`, which has the same layout.

    `next` and the result are as for `place_views`.
    """
    cdef const FieldPlan* field = &out.plan.fields[f]
    cdef const FieldPlan* origin = &source.plan.fields[g]
    cdef int32_t k
    out.nodes[f] = source.nodes[g]
    for k in range(field.n_buffers):
        out.extents[field.first_buffer + k] = source.extents[origin.first_buffer + k]
    return place_views(out, f, source, g, next) if field.view >= 0 else next


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
    int64_t payload_slack
    bint repairs            # mistakes of known writers are repaired, see `RecoveryLimits`

cdef enum Level:
    LEVEL_NONE = 0          # structure
    LEVEL_FULL = 1          # + memory safety for every consumer
    LEVEL_STRICT = 2        # + value domain
