"""Batches and arrays of buffers that a caller gives, which are validated as those of a message are."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uintptr_t

from arrowipc._core cimport Columns, DictionaryPlan, Plan, Source, field_path, level_of, limits_data
from arrowipc.columns.array cimport Array
from arrowipc.columns.elements cimport check_native, count_bytes
from arrowipc.columns.record_batch cimport RecordBatch, share_dictionaries
from arrowipc.inline.fbs_layout cimport Buffer_SIZE, FieldNode_SIZE, MetadataVersion_V5
from arrowipc.inline.loads cimport load_i64
from arrowipc.inline.plan cimport LEVEL_NONE, BatchHeader, LimitsData
from arrowipc.metadata.schema_reader cimport message_plan, plan_field
from arrowipc.decode.decoders cimport check_dictionary, locate
from arrowipc.decode.decompress cimport normalise
from arrowipc.decode.validate cimport validate

from arrowipc.arguments import instance_of, integer_of, items_of, metadata_of, without_descriptions
from arrowipc.datatypes import BinaryView, Dictionary, Field, Utf8View, own
from arrowipc.errors import UsageError
from arrowipc.schemas import Schema


def from_buffers(schema, length, nodes, buffers, variadic, dictionaries, custom_metadata, level, limits):
    """See `RecordBatch.from_buffers`.

    The batch is treated as a message whose body is the whole memory: a buffer's offset is its address. So the walk
    checks nodes and counts as it does those of a message, and all later steps are the same.
    """
    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    cdef int proof = level_of(level)
    cdef LimitsData bounds
    cdef BatchHeader header
    cdef Plan plan
    cdef Source source
    cdef bytes table
    # Make lists: the caller's iterables may allow only one pass, or lie about their lengths.
    nodes, buffers = items_of("nodes", nodes), items_of("buffers", buffers)
    variadic, dictionaries = items_of("variadic", variadic), items_of("dictionaries", dictionaries)
    limits_data(limits, &bounds)
    if limits is None:
        bounds.rows_per_batch = bounds.dictionary_bytes = INT64_MAX
    plan = message_plan(schema, &bounds)
    owners, places = [], []
    for each in buffers:
        source = Source(b"" if each is None else each)
        owners.append(source)
        places.append((<uintptr_t> source.data if source.size else 0, source.size))
    table = packed(length, nodes, places, variadic)
    check_numbers(plan, nodes, buffers, variadic, dictionaries)
    header.length = load_i64(table)
    header.codec = -1
    header.nodes.data = <const uint8_t*> table + 8
    header.nodes.count = len(nodes)
    header.buffers.data = header.nodes.data + FieldNode_SIZE * header.nodes.count
    header.buffers.count = len(places)
    header.variadic.data = header.buffers.data + Buffer_SIZE * header.buffers.count
    header.variadic.count = len(variadic)
    locate(out, plan, &header, NULL, INT64_MAX, MetadataVersion_V5, LEVEL_NONE, &bounds)
    out.owner = owners
    out.dictionaries = given_dictionaries(plan, dictionaries, &bounds)
    normalise(out, -1, &bounds, False)
    if proof:
        validate_whole(out, proof, False)
    if custom_metadata:
        out.metadata_pairs = without_descriptions(metadata_of(custom_metadata).pairs)
    return out


def array_from_buffers(type, length, buffers, null_count, offset, children):
    """See `Array.from_buffers`."""
    from arrowipc.types import as_type

    start, count = integer_of("offset", offset), integer_of("length", length)
    nodes, parts = [(start + count, -1 if start else null_count)], items_of("buffers", buffers)
    variadic, dictionaries = [len(parts) - 2] if is_view(kind := as_type(type)) else [], []
    for child in items_of("children", children or ()):
        add_parts(instance_of("children", child, Array), nodes, parts, variadic, dictionaries)
    schema = Schema([Field("", kind)])
    made = from_buffers(schema, start + count, nodes, parts, variadic, dictionaries, (), "none", None)
    return made.column(0).slice(start)


cdef bint is_view(object kind) except -1:
    return isinstance(kind, (BinaryView, Utf8View))


def add_parts(Array array not None, list nodes, list buffers, list variadic, list dictionaries):
    """Append the arguments of `from_buffers` for an array and all its children, in pre-order."""
    if array.offset:
        array = array.take(range(array.length))
    own = array.buffers()
    nodes.append((array.length, array.null_count))
    buffers.extend(own)
    if is_view(array.type):
        variadic.append(len(own) - 2)
    if isinstance(array.type, Dictionary):
        dictionaries.append(array.dictionary)
    for child in array.children:
        add_parts(child, nodes, buffers, variadic, dictionaries)


def validate_full(Columns columns not None):
    """See `RecordBatch.validate`."""
    validate_whole(columns, level_of("full"), True)


cdef int validate_whole(Columns columns, int level, bint use_threads) except -1:
    """Validate columns and their dictionaries, which come from arrays that may not have been validated."""
    for dictionary in columns.dictionaries:
        if dictionary is not None:
            validate_whole(dictionary, level, use_threads)
    return validate(columns, level, use_threads)


cdef bytes packed(object length, object nodes, list places, object variadic):
    """Return the length, then FieldNode structs, Buffer structs and variadic counts, as a message holds them."""
    from array import array

    pairs = [*nodes, *places]
    try:
        return array("q", [length, *[number for first, second in pairs for number in (first, second)],
                           *variadic]).tobytes()
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError("length and variadic counts are integers of 64 bits, and nodes pairs of them: "
                         f"{error}") from None


cdef int check_numbers(Plan plan, object nodes, object buffers, object variadic, object dictionaries) except -1:
    """Check that there are as many nodes, buffers, counts and dictionaries as the plan requires."""
    cdef int32_t i
    cdef int64_t encoded = 0
    for i in range(plan.d.n_fields):
        encoded += plan.d.fields[i].dictionary >= 0
    expected = plan.d.n_fields, plan.d.n_buffers + sum(variadic), plan.d.n_views, encoded
    found = len(nodes), len(buffers), len(variadic), len(dictionaries)
    if found != expected:
        raise UsageError("expected {} nodes, {} buffers, {} variadic counts and {} dictionaries, ".format(*expected)
                         + "found {}, {}, {} and {}".format(*found))
    return 0


cdef tuple given_dictionaries(Plan plan, list arrays, const LimitsData* limits):
    """Return the dictionaries of a plan, made of the arrays that a caller gives for its encoded fields."""
    cdef DictionaryPlan dictionary
    cdef Columns values
    cdef Array array
    cdef int64_t nbytes, total = 0
    cdef int32_t i, k = 0
    for i in range(plan.d.n_fields):
        if plan.d.fields[i].dictionary < 0:
            continue
        given = arrays[k]
        k += 1
        if given is None:
            continue
        dictionary = plan.dictionaries[plan.d.fields[i].dictionary]
        expected = plan_field(dictionary.values, 0).type
        if not isinstance(given, Array) or (<Array> given).type != expected:
            found = f"one of {given.type}" if isinstance(given, Array) else type(given).__name__
            raise UsageError(f"column {field_path(plan, i)!r}: its dictionary must be an array of {expected}, "
                             f"found {found}")
        check_native((<Array> given).columns, "a dictionary")
    cdef tuple out = share_dictionaries(plan, arrays)
    for i in range(len(out)):
        values = out[i]
        if values is not None:
            nbytes = count_bytes(values)
            total += nbytes
            check_dictionary((<DictionaryPlan> plan.dictionaries[i]).id, values.d.length, nbytes, total, limits)
    return out
