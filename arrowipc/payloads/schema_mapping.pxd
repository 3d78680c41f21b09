# How the fields of a payload become those of the output: read, missing, or to be decoded.
cimport cython
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t

from arrowipc._core cimport Columns, Plan
from arrowipc.distinct.memo_table cimport Budget
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.loads cimport add_overflows, mul_overflows
from arrowipc.inline.plan cimport ColumnsData, LimitsData
from arrowipc.inline.room cimport Room
from arrowipc.payloads.dictionary_gc cimport FlatMemory, extent_of
from arrowipc.decode.decoders cimport BatchTarget

cdef enum:
    # Beside the FaultCodes: missing values would take more bytes than the payload may become.
    FAULT_BLANKS = 102

cdef enum How:
    HOW_READ = 0        # as it is
    HOW_ABSENT          # the payload has no such field: it becomes null
    HOW_TRANSPOSED      # dictionary indices, of another dictionary
    HOW_DECODED         # dictionary-encoded in the payload, plain in the output
    HOW_ENCODED         # plain in the payload, dictionary-encoded in the output

cdef struct Origin:
    # Where a field of the output comes from. It is not set for fields below one that is not HOW_READ.
    int32_t how         # How
    int32_t field       # of SchemaMapping.plan, -1: HOW_ABSENT

cdef struct EncodedField:
    # A field that is dictionary-encoded in the payload, in the output, or in both with different numbers.
    int32_t how             # How
    int32_t out             # the field of the output
    int32_t read            # the field of SchemaMapping.plan
    int32_t dictionary      # of the output, -1: HOW_DECODED
    int64_t limit           # largest index that the output's type can count to
    # Memory that is used again for each payload.
    Room numbers            # int64 per row: the number of its value, -1: null
    Room indices
    FlatMemory values

cdef struct Blanks:
    # The memory that the nulls of missing columns point into: zeros, type codes, and run ends.
    uint8_t* zeros
    int64_t n_zeros
    Room* codes         # per type code; NULL: no union needed one but 0
    int64_t* ends       # per field of the output
    bint moved          # memory was replaced by a larger block: extents must be set again
    int64_t used        # bytes that the extents have
    int64_t most        # ... and may have


@cython.final
cdef class SchemaMapping:
    """How columns of a payload's schema become those of the output."""
    cdef Plan whole             # the payload's schema
    cdef Plan plan              # the part of it that is read
    cdef Plan out
    cdef bint alike             # fields of `plan` are those of `out`, in the same order; only indices may differ
    cdef bint direct            # alike, and no field is encoded: columns of `plan` are columns of `out`
    cdef bint messaged          # the bytes of `whole` are a Schema message that was read, not the footer of a file
    cdef Origin* origins        # per field of `out`
    cdef int32_t* guarded       # fields of `plan` that may have nulls where `out` has none
    cdef int32_t n_guarded
    cdef EncodedField* encoded
    cdef int32_t n_encoded
    # Memory that is used again for each payload.
    cdef Columns decoded        # of `plan`
    cdef BatchTarget target     # ... for the loop
    cdef Columns piece          # of `out`, with room for as many data buffers of views
    cdef Blanks blanks
    cdef object loop            # LoopDictionaries: the dictionaries of the loop; None: not made yet, False: it cannot

    cdef int reserve(self, int64_t variadic) except -1
    # Make `piece` of the columns `d`; encoded fields are left to the caller. -1: `fault`.
    cdef int map_fields(self, const ColumnsData* d, int64_t most, Fault* fault) noexcept nogil
    cdef int check_nulls(self, const ColumnsData* d, Fault* fault) noexcept nogil
    cdef int complete(self, list guarded) except -1


# Return the mapping of payloads with the schema `whole` to the output's, `out`; UsageError if there is none. `strict`:
# a column that `out` does not have is an error, too.
cdef SchemaMapping find_mapping(Plan whole, Plan out, bint strict)
# Return the mapping of payloads that have none of the output's columns: `map_fields` makes nulls.
cdef SchemaMapping absent_mapping(Plan out)
# Raise the fault of `map_fields` or of an append.
cdef int raise_mapping_fault(const Fault* fault, Plan plan) except -1
# Return a schema in which each dictionary type is replaced by the type of its values.
cdef object plain_schema(object schema)


cdef inline void set_values(ColumnsData* d, int32_t f, const uint8_t* data, int64_t size) noexcept nogil:
    """Let field f have these values, or indices."""
    d.extents[d.plan.fields[f].first_buffer + 1] = extent_of(data, size)


@cython.final
cdef class PayloadBudget:
    """The bytes that one call has made of its payloads and that are not in them; refused payloads count, too."""
    cdef LimitsData limits      # decompressed_slack: that of the call
    cdef int64_t taken          # bytes of all payloads so far
    cdef int64_t bytes          # made of them: missing columns, decoded dictionaries, decompressed bodies
    cdef Budget nested          # ... where dictionaries refer to dictionaries

    # Set the limits of a decoder, so that it decompresses a body of a payload of `size` bytes to no more than allowed.
    cdef void bound(self, LimitsData* limits, int64_t size) noexcept nogil
    # Count `more` bytes that were made of a payload of `size` bytes.
    cdef int count(self, int64_t more, int64_t size) except -1


# `limits`: the Limits of the call, or None.
cdef PayloadBudget new_payload_budget(object limits)


cdef inline int64_t may_make(PayloadBudget budget, int64_t size) noexcept nogil:
    """Bytes that may still be made of the payloads so far and of one more, of `size` bytes."""
    cdef int64_t most, total
    if (add_overflows(budget.taken, size, &total) or mul_overflows(total, budget.limits.decompressed_ratio, &most)
            or add_overflows(most, budget.limits.decompressed_slack, &most)):
        return INT64_MAX
    return max(most - budget.bytes, 0)


cdef inline int64_t body_allowance(PayloadBudget budget, int64_t size) noexcept nogil:
    """Bytes to which a body of a payload of `size` bytes may be decompressed."""
    cdef int64_t most
    if add_overflows(may_make(budget, size), size, &most) or most > budget.limits.decompressed_bytes:
        most = budget.limits.decompressed_bytes
    return most
