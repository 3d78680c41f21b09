# Whether a schema is another one again, apart from metadata: what payloads of one producer differ in.
from arrowipc._core cimport Plan
from arrowipc.inline.flatbuf cimport Table

# Whether a Schema table, which nobody has verified, describes the very fields of a plan of a whole schema, in the
# same byte order; then `read_plan` would accept it too. Metadata and features are not looked at.
cdef bint schemas_equal(const Table* schema, Plan plan) noexcept nogil
cdef bint plans_equal(Plan a, Plan b) noexcept nogil
