# Between Schema tables, plans and Python schemas.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport LimitsData, Plan

cdef Plan read_plan(const uint8_t* metadata, int64_t size, int64_t schema_table, const LimitsData* limits,
                    object owner)
cdef Plan unshared(Plan plan)
cdef Plan project(Plan whole, object columns)
cdef Plan python_plan(object schema, const LimitsData* limits)
cdef object plan_schema(Plan plan)
cdef object plan_field(Plan plan, int32_t field)
cdef bint same_shape(Plan a, Plan b)
