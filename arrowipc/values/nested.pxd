# Building of the columns of one plan, with all their children, from Python lists.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport Columns, Plan
from arrowipc.columns.array cimport Array
from arrowipc.distinct.unifier cimport Unifier
from arrowipc.values.converters cimport Converter


cdef class Builder(Converter)


cdef class DictionaryValues:
    cdef Builder builder        # of the values' plan: only says which values the type takes, and is never filled
    cdef Unifier unifier        # the distinct values so far
    cdef Columns given          # an array's dictionary, which is used instead of `unifier`; else None
    cdef bint filled            # a null slot got index 0 and no validity bit: value 0 must exist
    cdef int users              # number of fields that use this dictionary, at all levels
    cdef Columns columns(self)  # the values


cdef class Builder(Converter):
    cdef dict dictionaries      # id -> DictionaryValues, shared by all plans of one call
    cdef dict kinds             # field -> its DataType
    cdef DictionaryValues values_of(self, int32_t f)            # the dictionary of an encoded field
    cdef object kind(self, int32_t f)                           # the DataType of a field
    cdef int column(self, int32_t f, list items) except -1      # fill a field, and all its children, from a list
    cdef int below(self, int32_t f, int32_t child, list items) except -1
    cdef list elements(self, int32_t f, int64_t at, object value)
    cdef int lists(self, int32_t f, list items) except -1
    cdef int maps(self, int32_t f, list items) except -1
    cdef int pairs(self, int32_t f, int64_t at, object value, list keys, list values) except -1
    cdef int structs(self, int32_t f, list items) except -1
    cdef int row(self, int32_t f, int64_t at, object value, tuple names, bint repeat, list parts) except -1
    cdef int row_of_pairs(self, int32_t f, int64_t at, object value, tuple names, list parts) except -1
    cdef int unions(self, int32_t f, list items) except -1
    cdef object member(self, int32_t f, int64_t at, object value, int32_t* ordinal)
    cdef bint accepts(self, int32_t f, object value, bint loose) except -1
    cdef Columns alone(self, int32_t f, Plan plan, list items)
    cdef int encoded(self, int32_t f, list items) except -1
    cdef int encoded_array(self, int32_t f, Array array) except -1      # fill an encoded field from plain values
    cdef int number(self, int32_t f, Columns columns, int64_t start, int64_t end, uint8_t* out) except -1
    cdef int runs(self, int32_t f, list items) except -1
    cdef bint shares(self, int32_t f) except -1     # whether another field uses a dictionary of this one or below it


# The plan of a schema; the schema must be little-endian.
cdef Plan plan_of(object schema)
# The dictionaries of a plan as Columns; `dictionaries` are those of a Builder.
cdef tuple values_below(dict dictionaries, Plan plan)
cdef bint is_mapping(object value) except -1
# A sequence as a list; None for other objects, and for text, bytes, mappings, sets and iterators.
cdef list as_list(object values)
cdef str listed_names(list names)       # the first ten names, for a message
