# Between Schema tables, plans and Python schemas.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport LimitsData, Plan

cdef struct Block:
    # Where a message lies in a file (struct Block of File.fbs).
    int64_t offset
    int64_t metadata_length     # with prefix and padding
    int64_t body_length


cdef class Footer:
    """The footer of a file, opened."""
    cdef readonly int version           # MetadataVersion
    cdef Plan plan
    cdef readonly tuple metadata        # Footer.custom_metadata
    cdef Block* dictionaries
    cdef Block* batches
    cdef readonly int32_t num_dictionaries
    cdef readonly int32_t num_batches


cdef Plan read_plan(const uint8_t* metadata, int64_t size, int64_t schema_table, const LimitsData* limits)
cdef Plan project(Plan whole, object columns)
cdef Plan python_plan(object schema, const LimitsData* limits)
cdef object plan_schema(Plan plan)
cdef object plan_field(Plan plan, int32_t field)
cdef bint same_shape(Plan a, Plan b)
cdef Footer read_footer(const uint8_t* data, int64_t size, int64_t end, const LimitsData* limits)
