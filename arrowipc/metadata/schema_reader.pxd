# Conversions between Schema tables, plans and Python schemas.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport Plan
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.flatbuf cimport Table
from arrowipc.inline.plan cimport FieldPlan, LimitsData

# Return the plan of a Schema table.
cdef Plan read_plan(const uint8_t* metadata, int64_t size, int64_t schema_table, const LimitsData* limits,
                    object owner, bint some=*)
# Read layout and parameters from a type table of this kind (Schema.fbs Type), and check them all.
cdef int read_type(const Table* type, int kind, FieldPlan* f, Fault* fault) noexcept nogil
# Return the Python type of values of a fixed width; `f` was filled by `read_type` from that table.
cdef object fixed_type(const FieldPlan* f, const Table* type)
# Return a copy of a plan that may be changed.
cdef Plan unshared(Plan plan)
# Let a plan, and those of its dictionaries, refer to a copy of their metadata instead of a file whose footer is large.
cdef int own_metadata(Plan plan, bytes copy) except -1
# Return the plan of the columns that a user requests.
cdef Plan project(Plan whole, object columns)
# Return the plan of some fields of `whole`, in any order: a list of (field, None for all below it, or such a list for
# its children).
cdef Plan arrange(Plan whole, list fields)
# Return the fields directly below a field; -1: the columns.
cdef list children_of(Plan plan, int32_t field)
# Return the plan of a Python schema.
cdef Plan python_plan(object schema, const LimitsData* limits)
# Do the same for messages that have the schema's fields and no others: columns that were read with a projection have a
# plan for messages of the whole schema.
cdef Plan message_plan(object schema, const LimitsData* limits)
# Return the Python schema of a plan, and the Python field of one of its fields.
cdef object plan_schema(Plan plan)
cdef object plan_field(Plan plan, int32_t field)
# Whether a field has metadata; an extension type is stored as metadata, too.
cdef bint has_metadata(Plan plan, int32_t field) noexcept nogil
# Whether two plans have the same layouts and types.
cdef bint same_shape(Plan a, Plan b)
# Return the index of the only column of that name; raise the errors of `Schema.field`.
cdef int32_t column_named(Plan plan, object name) except -1


# Whether an unverified Schema table describes exactly the fields of a plan of a whole schema, in the same byte order;
# then `read_plan` would accept it too. Metadata and features are not compared.
cdef bint schemas_equal(const Table* schema, Plan plan) noexcept nogil
# Do the same for two plans. False also if only the Python schemas can tell: for projected plans, and for plans whose
# dictionaries have other ids.
cdef bint plans_equal(Plan a, Plan b) noexcept nogil
