# From Python lists and NumPy arrays to our columns.
from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns
from arrowipc.columns.array cimport Array, RecordBatch
from arrowipc.values.converters cimport Converter


cdef class Values:
    """The values of one dictionary while they are being collected."""
    cdef Builder builder
    cdef dict seen              # key of a value -> its index
    cdef list items             # the values, in the order of their first use
    cdef Columns columns        # once they are built, or those of an array that was given
    cdef bint filled            # an index was needed where there is no value
    cdef int users              # fields that use it, over all levels
    cdef int height             # dictionaries inside dictionaries below it


cdef class Builder(Converter):
    """Columns of one plan while they are being built."""
    cdef dict dictionaries      # id -> Values, shared by all plans of one call
    cdef dict names             # of the children of structs, by field
    cdef dict places            # field -> name -> ordinals of its children, where rows come as pairs
    cdef set repeating          # structs that have two children of one name
    cdef dict kinds             # DataType of fields, by field

    cdef int column(self, int32_t f, list items) except -1
    cdef object kind(self, int32_t f)
    cdef list elements(self, int32_t f, int64_t at, object value)
    cdef int lists(self, int32_t f, list items) except -1
    cdef int below(self, int32_t f, int32_t child, list items) except -1
    cdef int maps(self, int32_t f, list items) except -1
    cdef int pairs(self, int32_t f, int64_t at, object value, list keys, list values) except -1
    cdef int structs(self, int32_t f, list items) except -1
    cdef tuple names_of(self, int32_t f)
    cdef int row(self, int32_t f, int64_t at, object value, tuple names, list parts) except -1
    cdef int row_of_pairs(self, int32_t f, int64_t at, object value, list parts) except -1
    cdef int unions(self, int32_t f, list items) except -1
    cdef object member(self, int32_t f, int64_t at, object value, int32_t* ordinal)
    cdef bint accepts(self, int32_t f, object value, bint loose) except -1
    cdef int runs(self, int32_t f, list items) except -1
    cdef int encoded(self, int32_t f, list items) except -1
    cdef object key(self, int32_t f, int64_t at, object value)
    cdef object nested_key(self, int32_t f, int64_t at, object value)
    cdef bint shares(self, int32_t f) except -1
    cdef Values values_of(self, int32_t f)


cdef list as_list(object values)
cdef str listed_names(list names)


cpdef RecordBatch build_batch(object mapping, object schema=*, int64_t rows=*)
cpdef Array build_array(object values, object type=*)
