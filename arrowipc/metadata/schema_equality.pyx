"""Recognises schemas that differ in metadata alone, table by table, without reading them anew.

Writers put into the metadata what changes from payload to payload (pandas: the range of its index). The two
schemas are walked side by side; one of them has been read, so names, types, depth and number of tables of the
other need no proof of their own where they are the same.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcmp

from arrowipc._core cimport Plan
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport (
    Table, Vector, fb_i16, fb_i64, fb_string, fb_table, fb_table_at, fb_u8, fb_vector, fb_vector_table,
)
from arrowipc.inline.plan cimport FieldPlan
from arrowipc.metadata.schema_reader cimport read_type


cdef inline bint same_bytes(const Vector* a, const Vector* b, int64_t element) noexcept nogil:
    return a.count == b.count and (a.count == 0 or memcmp(a.data, b.data, a.count * element) == 0)


cdef inline bint same_text(const Table* a, const Table* b, int32_t slot) noexcept nogil:
    cdef Vector x, y
    return fb_string(a, slot, &x) == fb_string(b, slot, &y) and same_bytes(&x, &y, 1)


cdef bint same_type(const Table* a, const Table* b, int kind) noexcept nogil:
    """Whether two type tables of one kind have the same parameters."""
    cdef FieldPlan x, y
    cdef Fault fault
    cdef Vector ids, others
    x.flags = y.flags = 0
    x.unit = x.precision = x.scale = x.width = 0
    y.unit = y.precision = y.scale = y.width = 0
    if read_type(a, kind, &x, &fault) < 0 or read_type(b, kind, &y, &fault) < 0:
        return False
    if (x.layout != y.layout or x.width != y.width or x.unit != y.unit or x.precision != y.precision
            or x.scale != y.scale or x.flags != y.flags):
        return False
    if kind == Type_Timestamp:
        return same_text(a, b, Timestamp_timezone)
    if kind == Type_Union:
        return (fb_vector(a, Union_typeIds, 4, &ids) == fb_vector(b, Union_typeIds, 4, &others)
                and same_bytes(&ids, &others, 4))
    return True


cdef bint same_encoding(const Table* a, const Table* b) noexcept nogil:
    """Whether two Field tables are dictionary-encoded alike, or both not."""
    cdef Table x, y, index, other
    cdef int64_t id = 0, other_id = 0
    cdef int ordered = 0, other_ordered = 0, kind = 0, found = fb_table(a, Field_dictionary, &x)
    if found < 0 or found != fb_table(b, Field_dictionary, &y):
        return False
    if found == 0:
        return True
    found = fb_table(&x, DictionaryEncoding_indexType, &index)
    return (found >= 0 and found == fb_table(&y, DictionaryEncoding_indexType, &other)
            and (found == 0 or same_type(&index, &other, Type_Int))
            and fb_i64(&x, DictionaryEncoding_id, 0, &id) >= 0
            and fb_i64(&y, DictionaryEncoding_id, 0, &other_id) >= 0 and id == other_id
            and fb_u8(&x, DictionaryEncoding_isOrdered, 0, &ordered) >= 0
            and fb_u8(&y, DictionaryEncoding_isOrdered, 0, &other_ordered) >= 0
            and (ordered != 0) == (other_ordered != 0)
            and fb_i16(&x, DictionaryEncoding_dictionaryKind, 0, &kind) >= 0 and kind == DictionaryKind_DenseArray)


cdef bint same_field(const Table* a, const Table* b) noexcept nogil:
    cdef Table x, y
    cdef int kind = 0, other = 0, nullable = 0, other_nullable = 0
    if (fb_u8(a, Field_type_type, 0, &kind) < 0 or fb_u8(b, Field_type_type, 0, &other) < 0 or kind != other
            or fb_u8(a, Field_nullable, 0, &nullable) < 0 or fb_u8(b, Field_nullable, 0, &other_nullable) < 0
            or (nullable != 0) != (other_nullable != 0) or not same_text(a, b, Field_name)
            or fb_table(a, Field_type, &x) <= 0 or fb_table(b, Field_type, &y) <= 0
            or not same_type(&x, &y, kind)):
        return False
    return same_encoding(a, b) and same_fields(a, b, Field_children)


cdef bint same_fields(const Table* a, const Table* b, int32_t slot) noexcept nogil:
    """Vectors of Field tables, all that is below them included."""
    cdef Vector x, y
    cdef Table one, other
    cdef int64_t i
    if fb_vector(a, slot, 4, &x) < 0 or fb_vector(b, slot, 4, &y) < 0 or x.count != y.count:
        return False
    for i in range(x.count):
        if (fb_vector_table(a, &x, i, &one) < 0 or fb_vector_table(b, &y, i, &other) < 0
                or not same_field(&one, &other)):
            return False
    return True


cdef bint schemas_equal(const Table* schema, Plan plan) noexcept nogil:
    cdef Table known
    cdef Vector fields
    cdef int order = 0
    return (plan.schema_table != 0
            and fb_table_at(plan.metadata, plan.metadata_size, plan.schema_table, &known) > 0
            and fb_i16(schema, Schema_endianness, 0, &order) >= 0
            and order == (Endianness_Big if plan.d.stored_big else Endianness_Little)
            and fb_vector(schema, Schema_fields, 4, &fields) > 0
            and same_fields(schema, &known, Schema_fields))


cdef bint plans_equal(Plan a, Plan b) noexcept nogil:
    """The same for the schema of another plan."""
    cdef Table schema
    return (a.schema_table != 0 and a.d.keep_stored == b.d.keep_stored
            and fb_table_at(a.metadata, a.metadata_size, a.schema_table, &schema) > 0 and schemas_equal(&schema, b))
