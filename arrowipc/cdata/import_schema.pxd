# From the structs of producers' schemas to plans.
from libc.string cimport strcmp

from arrowipc._core cimport Plan
from arrowipc.cdata.export cimport ArrowSchema

# The plan of the batches that a struct describes (`whole`), or of the one column that any schema describes.
# Equal schemas give the same plan while they are among the last few. `schema` stays the caller's to release.
cdef Plan plan_of(const ArrowSchema* schema, bint whole)


cdef inline bint stands_for_batch(const ArrowSchema* schema) noexcept nogil:
    return (schema.release != NULL and schema.format != NULL and strcmp(schema.format, "+s") == 0
            and schema.dictionary == NULL)
