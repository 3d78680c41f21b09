"""Schemas of other libraries: an ArrowSchema, checked and made a plan, and the last few of them recognised.

Batch after batch of one producer comes with an equal schema. The last few are kept, flattened into bytes, and
compared with what comes in without making a Python object.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memset, strcmp

from arrowipc._core cimport Plan, limits_data
from arrowipc.cdata.export cimport ArrowSchema
from arrowipc.inline.loads cimport load_i32, round_up
from arrowipc.inline.plan cimport LimitsData
from arrowipc.metadata.schema_reader cimport python_plan

from arrowipc.errors import FormatError, LimitError, UnsupportedError, UsageError

cdef enum:
    MAX_LEVELS = 64             # of nested types: Limits.depth
    MAX_FIELDS = 1 << 18        # in one schema: more than metadata of Limits.metadata_bytes can describe
    MAX_METADATA = 1 << 24      # bytes of it at one field: Limits.metadata_bytes
    RECENT = 8                  # schemas that are kept
    WORTH_KEEPING = 1 << 22     # bytes of a flattened schema up to which it is


# -- schemas that are known ----------------------------------------------------------------------------------


cdef struct Record:
    # One ArrowSchema, flattened: followed by format and name, each with its NUL, and metadata; padded to 8.
    int64_t flags
    int64_t n_children
    int32_t format_size
    int32_t name_size
    int32_t metadata_size       # 0: none
    int32_t encoded


@cython.final
cdef class Known:
    cdef bytes records          # in pre-order, a dictionary after the children
    cdef bint whole             # a struct's children are the columns; else it is one column itself
    cdef Plan plan


cdef list recent = []


cdef bint same_metadata(const uint8_t* known, int32_t size, const char* found) noexcept nogil:
    """Whether encoded metadata is the same; `size` 0: none. Reads no further than the other's sizes allow."""
    cdef const uint8_t* other = <const uint8_t*> found
    cdef int32_t at, length
    if found == NULL or load_i32(other) == 0:
        return size == 0
    if size == 0 or load_i32(other) != load_i32(known):
        return False
    at = 4
    while at < size:
        length = load_i32(known + at)
        if load_i32(other + at) != length or memcmp(known + at + 4, other + at + 4, length) != 0:
            return False
        at += 4 + length
    return True


cdef const uint8_t* match(const uint8_t* at, const ArrowSchema* schema) noexcept nogil:
    """The end of the records at `at` if `schema` is what they say, else NULL.

    The records are of a schema that was proven sound, so whatever equals them is too.
    """
    cdef const Record* record = <const Record*> at
    cdef const uint8_t* text = at + sizeof(Record)
    cdef int64_t i
    if (schema == NULL or schema.release == NULL or schema.flags != record.flags
            or schema.n_children != record.n_children or (schema.dictionary != NULL) != record.encoded
            or schema.format == NULL or strcmp(<const char*> text, schema.format) != 0):
        return NULL
    text += record.format_size
    if schema.name == NULL:
        if record.name_size != 1:
            return NULL
    elif strcmp(<const char*> text, schema.name) != 0:
        return NULL
    text += record.name_size
    if not same_metadata(text, record.metadata_size, schema.metadata):
        return NULL
    text += record.metadata_size
    # Records begin at multiples of 8 from the first one, which is aligned.
    at = <const uint8_t*> round_up(<int64_t> text, 8)
    if schema.n_children and schema.children == NULL:
        return NULL
    for i in range(schema.n_children):
        at = match(at, schema.children[i])
        if at == NULL:
            return NULL
    return match(at, schema.dictionary) if schema.dictionary != NULL else at


cdef Plan plan_of(const ArrowSchema* schema, bint whole):
    """The plan of a producer's schema; `whole`: of the batches that it describes, else of one column."""
    cdef Known known
    for known in recent:
        if known.whole == whole and match(<const uint8_t*> PyBytes_AS_STRING(known.records), schema) != NULL:
            return known.plan
    return learn(schema, whole)


cdef Plan learn(const ArrowSchema* schema, bint whole):
    """Make the plan of a schema that is not known, and keep it for the next time."""
    cdef Known known = Known.__new__(Known)
    cdef list nodes = []
    cdef LimitsData limits
    from arrowipc.cdata.format_strings import field_of, schema_of
    from arrowipc.schema import Schema
    from arrowipc.metadata.schema_writer import number_dictionaries

    # The struct that stands for a batch is not a level of its types.
    describe(schema, 0 if whole else 1, nodes, [] if whole else [name_of(schema)])
    limits_data(None, &limits)
    described = schema_of(nodes) if whole else Schema([field_of(nodes)])
    known.plan = python_plan(number_dictionaries(described), &limits)
    known.whole = whole
    known.records = flatten(nodes)
    if len(known.records) <= WORTH_KEEPING:
        recent.insert(0, known)
        del recent[RECENT:]
    return known.plan


cdef bytes flatten(list nodes):
    """The nodes as `match` compares them."""
    cdef list parts = []
    cdef Record record
    cdef bytes form, name, metadata
    memset(&record, 0, sizeof(Record))
    for form, name, metadata, flags, n_children, encoded, _ in nodes:
        record.flags = flags
        record.n_children = n_children
        record.format_size = <int32_t> (len(form) + 1)
        record.name_size = <int32_t> (len(name) + 1)
        record.metadata_size = <int32_t> len(metadata)
        record.encoded = encoded
        text = b"".join((form, b"\0", name, b"\0", metadata))
        parts += PyBytes_FromStringAndSize(<const char*> &record, sizeof(Record)), text, bytes(-len(text) & 7)
    return b"".join(parts)


# -- schemas that are new ------------------------------------------------------------------------------------


cdef str place(list path):
    """Where in a schema something is wrong."""
    if not path:
        return "the schema"
    return f"column {b'.'.join(path).decode('utf-8', 'replace')!r}"


cdef bytes name_of(const ArrowSchema* schema):
    # What a released struct points at is gone.
    if schema == NULL or schema.release == NULL or schema.name == NULL:
        return b""
    return <bytes> schema.name


cdef int describe(const ArrowSchema* schema, int level, list nodes, list path) except -1:
    """Append the nodes (see `cdata.format_strings`) of a schema and all below it, once pointers and counts are sound.

    `path`: the names down to this one; none for the struct that stands for a batch, which is at level 0.
    """
    cdef Py_ssize_t at = len(nodes)
    cdef int64_t i
    if schema == NULL:
        raise FormatError(f"{place(path)}: a pointer to its ArrowSchema is NULL")
    if schema.release == NULL:
        raise UsageError(f"{place(path)}: the ArrowSchema has been released, or was moved elsewhere")
    if level > MAX_LEVELS:
        raise LimitError(f"{place(path[:1])}: types are nested deeper than {MAX_LEVELS} levels")
    if schema.format == NULL:
        raise FormatError(f"{place(path)}: ArrowSchema.format is NULL")
    if schema.n_children < 0 or (schema.n_children > 0 and schema.children == NULL):
        raise FormatError(f"{place(path)}: ArrowSchema.n_children is {schema.n_children}"
                          f"{' and children is NULL' if schema.n_children > 0 else ', expected 0 or more'}")
    if schema.n_children >= MAX_FIELDS - at:
        raise LimitError(f"{place(path)}: a schema of more than {MAX_FIELDS:,} fields is too large to import")
    nodes.append(None)
    metadata = copy_metadata(schema.metadata, path)
    for i in range(schema.n_children):
        describe(schema.children[i], level + 1, nodes, [*path, name_of(schema.children[i])])
    if schema.dictionary != NULL:
        if schema.dictionary.dictionary != NULL:
            raise UnsupportedError(f"{place(path)}: a dictionary of dictionaries has no counterpart in IPC")
        # No level deeper, as in a Schema message. Its name says nothing; errors below it are the column's.
        describe(schema.dictionary, level, nodes, path)
    nodes[at] = (<bytes> schema.format, name_of(schema), metadata, schema.flags, schema.n_children,
                 schema.dictionary != NULL, len(nodes))
    return 0


cdef bytes copy_metadata(const char* encoded, list path):
    """Encoded metadata, whose size is what its sizes add up to; empty for no pairs."""
    cdef const uint8_t* p = <const uint8_t*> encoded
    cdef int64_t count, i, size = 4, length
    if encoded == NULL:
        return b""
    count = load_i32(p)
    if count < 0 or count > MAX_METADATA // 8:
        raise FormatError(f"{place(path)}: the metadata claims {count} pairs, "
                          f"expected 0 to {MAX_METADATA // 8}")
    for i in range(2 * count):
        length = load_i32(p + size)
        if length < 0 or length > MAX_METADATA - size - 4:
            raise FormatError(f"{place(path)}: the metadata has a string of {length} bytes; "
                              f"all of it may take up to {MAX_METADATA:,}")
        size += 4 + length
    return PyBytes_FromStringAndSize(encoded, size) if count else b""
