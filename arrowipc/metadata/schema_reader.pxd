# Between Schema tables, plans and Python schemas.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport Plan
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.flatbuf cimport Table
from arrowipc.inline.plan cimport FieldPlan, LimitsData

cdef Plan read_plan(const uint8_t* metadata, int64_t size, int64_t schema_table, const LimitsData* limits,
                    object owner, bint some=*)
# Layout and parameters from a type table of this kind (Schema.fbs Type), all checked.
cdef int read_type(const Table* type, int kind, FieldPlan* f, Fault* fault) noexcept nogil
# The Python type of values of a fixed width, from what `read_type` made of that table.
cdef object fixed_type(const FieldPlan* f, const Table* type)
cdef Plan unshared(Plan plan)
# Let a plan, and those of its dictionaries, keep a copy of their metadata and no longer a file whose footer is large.
cdef int own_metadata(Plan plan, bytes copy) except -1
cdef Plan project(Plan whole, object columns)
# Some fields of `whole`, in any order: a list of (field, None: all below it, or such a list for its children).
cdef Plan arrange(Plan whole, list fields)
cdef list children_of(Plan plan, int32_t field)
cdef Plan python_plan(object schema, const LimitsData* limits)
# The same for messages that have the schema's fields and no others: columns that were read with a projection have a
# plan for messages of the whole schema.
cdef Plan message_plan(object schema, const LimitsData* limits)
cdef object plan_schema(Plan plan)
cdef object plan_field(Plan plan, int32_t field)
# Whether a field has metadata; an extension type is such.
cdef bint has_metadata(Plan plan, int32_t field) noexcept nogil
cdef bint same_shape(Plan a, Plan b)
# The index of the one column of that name; errors are those of `Schema.field`.
cdef int32_t column_named(Plan plan, object name) except -1


# Whether a Schema table, which nobody has verified, describes the very fields of a plan of a whole schema, in the
# same byte order; then `read_plan` would accept it too. Metadata and features are not looked at.
cdef bint schemas_equal(const Table* schema, Plan plan) noexcept nogil
# The same of two plans. False also where only Python's schemas tell: of projected plans, and where dictionaries have
# other ids.
cdef bint plans_equal(Plan a, Plan b) noexcept nogil
