# An error that a kernel found, as numbers; `_core.raise_fault` makes a message of it.
from libc.stdint cimport int32_t, int64_t

cdef enum FaultCode:
    FAULT_NONE = 0
    # framing and FlatBuffers
    FAULT_FLATBUFFER         # a table, vector or string of the metadata does not lie inside it
    FAULT_MISSING            # a required part of a table is absent
    FAULT_VERSION            # MetadataVersion outside V4..V5
    FAULT_HEADER_TYPE        # MessageHeader tag unknown
    FAULT_BODY_LENGTH        # Message.bodyLength negative
    FAULT_TABLES             # more tables or text visited than the metadata can honestly hold
    FAULT_DEPTH              # types nested deeper than Limits.depth
    FAULT_ENUM               # an enum value that the format does not define
    FAULT_UTF8_NAME          # a name or key that is not UTF-8
    FAULT_TYPE               # type parameters that contradict each other
    FAULT_CHILDREN           # wrong number of children for the type
    FAULT_COMPRESSION        # unknown codec or method
    # the RecordBatch walk
    FAULT_ROWS               # RecordBatch.length negative
    FAULT_ROWS_LIMIT         # ... above Limits.rows_per_batch
    FAULT_NODE_COUNT         # FieldNode vector has another length than the schema asks for
    FAULT_BUFFER_COUNT       # ... Buffer vector
    FAULT_VARIADIC_COUNT     # ... variadicBufferCounts vector, or an entry out of range
    FAULT_VARIADIC_MORE      # ... variadicBufferCounts vector: it is longer
    FAULT_NODE               # FieldNode.length negative
    FAULT_NULL_COUNT         # null_count outside 0..length
    FAULT_COLUMN_LENGTH      # a top-level column is not as long as the batch
    FAULT_CHILD_LENGTH       # a child is shorter than its parent needs
    FAULT_BUFFER_OUTSIDE     # a Buffer does not lie inside the body
    FAULT_BUFFER_SMALL       # a Buffer holds fewer bytes than the node's length needs
    FAULT_OVERLAP            # buffers share more bytes than Limits.overlap_bytes
    FAULT_UNION_NULLS        # metadata V4 union with nulls of its own
    FAULT_RUN_END_NULLS      # a run-end encoded node, or its run ends, claim nulls
    FAULT_MISALIGNED         # strict: a Buffer offset is not a multiple of 8
    FAULT_SHARED             # strict: two buffers share bytes
    FAULT_EMPTY_OUTSIDE      # strict: an empty buffer lies outside the body
    # values
    FAULT_OFFSET             # an offset is negative, decreases or points past the data
    FAULT_VIEW               # a view has a bad length, buffer index or extent
    FAULT_VIEW_PREFIX        # a view's prefix or padding contradicts its data
    FAULT_VIEW_TEXT          # views that share so much text that checking it is not linear
    FAULT_UTF8               # text that is not UTF-8
    FAULT_TYPE_CODE          # a union type code that names no child
    FAULT_UNION_OFFSET       # a dense union offset outside its child
    FAULT_RUN_END            # run ends not rising, not positive, or too short
    FAULT_INDEX              # a dictionary index outside the dictionary
    FAULT_NO_DICTIONARY      # a non-null index and no dictionary yet
    FAULT_LIST_VIEW          # a list view outside its child
    FAULT_MAP_NULLS          # entries or keys of a map that are null
    FAULT_STRICT_NULL_COUNT  # strict: null_count differs from the bitmap
    FAULT_STRICT_DECIMAL     # strict: more digits than the precision
    FAULT_STRICT_DATE        # strict: date64 that is not a whole day
    FAULT_STRICT_TIME        # strict: time of day outside 0..24 h
    FAULT_STRICT_NULLABLE    # strict: nulls in a field that is not nullable
    # memory and builders
    FAULT_MEMORY             # an allocation failed
    FAULT_FULL               # `what`, such as offsets, would reach `found`; its type reaches only `expected`

cdef struct Fault:
    int code            # FaultCode
    int32_t field       # which FieldPlan, -1: none
    int32_t buffer      # which buffer of that field, -1: none
    int64_t at          # byte offset, row or element where it was found
    int64_t found
    int64_t expected
    const char* what    # static text that names the thing, or NULL


cdef inline int fail(Fault* fault, int code, int32_t field=-1, int32_t buffer=-1, int64_t at=-1,
                     int64_t found=0, int64_t expected=0, const char* what=NULL) noexcept nogil:
    """Describe a fault and return -1, so that kernels can say `return fail(...)`."""
    fault.code = code
    fault.field = field
    fault.buffer = buffer
    fault.at = at
    fault.found = found
    fault.expected = expected
    fault.what = what
    return -1


cdef inline int fail_in(Fault* fault, int code, const char* what, int64_t found=0, int64_t expected=0,
                        int64_t at=-1, int32_t field=-1) noexcept nogil:
    """Describe a fault in the metadata, and return -1; `what` names the part."""
    return fail(fault, code, field, -1, at, found, expected, what)


cdef inline int fail_count(Fault* fault, int code, int32_t field, int64_t found,
                           int64_t expected=0) noexcept nogil:
    """Describe a wrong number of a field (`found`), and return -1."""
    return fail(fault, code, field, -1, -1, found, expected, NULL)
