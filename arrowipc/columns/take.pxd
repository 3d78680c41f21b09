# Elements of columns, repeated and rearranged: what rows are copied by when their order is not that of the source.
from libc.stdint cimport int64_t

from arrowipc._core cimport Columns
from arrowipc.columns.array cimport RecordBatch
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport ColumnsData, Extent, FieldPlan, Node
from arrowipc.inline.room cimport Room

cdef struct TakeRange:
    # Some elements that follow each other.
    int64_t start       # -1: nulls
    int64_t count
    int64_t times       # how often all of them come, one after the other

# Fill `out`, which is new, with the rows that `ranges` name, all of which exist in `source`; `left` bytes may be
# written, and what was is taken from it, also after an exception. Dictionaries, data of views, and children that need
# no rearranging are shared with `source`.
cdef int take_ranges(Columns out, Columns source, const TakeRange* ranges, int64_t n, int64_t* left) except -1

cdef struct FlatMemory:
    # What the buffers of a flat column lie in, of one column after the other.
    Room validity
    Room values             # values, views or offsets
    Room data


# Fill `out`, the extents of a flat field, and its node with the values at the physical positions `numbers` of the one
# column of `values` (-1: null; NULL: there are only nulls). Views are copied, their data buffers stay where they are.
# Returns the bytes of the buffers; -1: more than `most`, or `fault`.
cdef int64_t take_flat(FlatMemory* memory, Extent* out, Node* node, const FieldPlan* field, const ColumnsData* values,
                       const int64_t* numbers, int64_t n, int64_t most, Fault* fault) noexcept nogil
cdef void free_flat(FlatMemory* memory) noexcept nogil

# The rows from `first` on, as often as `counts` say; the rows at `indices`. `name`: of the function that errors name.
cdef RecordBatch repeat_rows(RecordBatch source, object counts, int64_t first, str name)
cpdef RecordBatch take_rows(RecordBatch source, object indices, str name)
