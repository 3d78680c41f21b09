# How the fields of a payload become those of the output: read, missing, or to be decoded.
from libc.stdint cimport int32_t, int64_t, uint8_t

cimport cython

from arrowipc._core cimport Columns, Plan
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport ColumnsData

cdef enum:
    # Beside the FaultCodes: missing values would take more bytes than the payload may become.
    FAULT_BLANKS = 102

cdef enum How:
    HOW_READ = 0        # as it is
    HOW_ABSENT          # the payload has no such field: nulls
    HOW_TRANSPOSED      # dictionary indices, of another dictionary
    HOW_DECODED         # dictionary-encoded in the payload, plain in the output
    HOW_ENCODED         # plain in the payload, dictionary-encoded in the output

cdef struct Origin:
    # Of a field of the output; below a field that is not HOW_READ nothing is said.
    int32_t how         # How
    int32_t field       # of SchemaMapping.plan, -1: HOW_ABSENT

cdef struct Blanks:
    # What stands for nulls that nobody wrote: memory of zeros, of type codes, and of run ends.
    uint8_t* zeros
    int64_t n_zeros
    uint8_t* codes[128]
    int64_t n_codes[128]
    int64_t* ends       # per field of the output
    bint moved          # memory was exchanged for larger one: extents must be set again
    int64_t used        # bytes that the extents have
    int64_t most        # ... and may have


@cython.final
cdef class SchemaMapping:
    """From the schema of some payloads to that of the output."""
    cdef Plan whole             # the payload's schema
    cdef Plan plan              # what is read of it
    cdef Plan out
    cdef bint direct            # columns of `plan` have the shape of `out`: nothing needs to be done
    cdef bint encoded           # dictionaries take part
    cdef bint messaged          # the bytes of `whole` are a Schema message that was read, not the footer of a file
    cdef Origin* origins        # per field of `out`
    cdef int32_t* guarded       # fields of `plan` that may have nulls where `out` has none
    cdef int32_t n_guarded
    # Memory that serves payload after payload.
    cdef Columns walked         # of `plan`
    cdef Columns piece          # of `out`
    cdef int64_t* prefix        # for the walk
    cdef int64_t room           # variadic extents in both
    cdef Blanks blanks
    cdef object unifier         # what the loop needs to know of dictionaries (_recode); None: nothing yet

    cdef int reserve(self, int64_t variadic) except -1
    # Make `piece` of the columns `d`; encoded fields are left to the caller. -1: `fault`.
    cdef int spread(self, const ColumnsData* d, int64_t most, Fault* fault) noexcept nogil
    # Make `piece` `rows` rows of nulls.
    cdef int spread_nulls(self, int64_t rows, int64_t most, Fault* fault) noexcept nogil
    cdef int check_nulls(self, const ColumnsData* d, Fault* fault) noexcept nogil
    cdef int allocate(self, int64_t guarded) except -1
    cdef int set_entries(self, list entries, list guarded) except -1
    cdef int set_identity(self) except -1


# The mapping of payloads with the schema `whole`; UsageError where it does not lead to `out`. `strict`: a column that
# `out` has not is an error too.
cdef SchemaMapping find_mapping(Plan whole, Plan out, bint strict)
# Raise what `spread` or an append found.
cdef int raise_mapping_fault(const Fault* fault, Plan plan) except -1
# A schema without dictionaries, whose values stand in their place.
cdef object plain_schema(object schema)
