"""Batches and arrays made of Python lists, NumPy arrays and arrays of ours, column by column."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy

from arrowipc._array cimport Array, RecordBatch, make_array
from arrowipc._bytes cimport bitmap_bytes, get_bit
from arrowipc._core cimport (
    FIELD_NULLABLE, LAYOUT_BOOL, LAYOUT_FIXED_LIST, Columns, DictionaryPlan, Extent, FieldPlan, LimitsData,
    Node, Plan, Source, ViewRange, limits_data,
)
from arrowipc._element cimport validity
from arrowipc._import cimport import_array
from arrowipc._nested cimport Builder, Values, as_list, listed_names
from arrowipc._scalars cimport is_numpy
from arrowipc._schema cimport python_plan
from arrowipc._values cimport MAX_VALUES, check_native, dictionary_of

from arrowipc._arguments import described, repeated
from arrowipc.errors import UsageError

# Plans of the types that arrays were built of last, found by identity: making one costs more than filling a
# short array. Types are immutable, and plans do not change.
cdef list recent_types = []

cdef enum:
    RECENT = 8


# -- entry points --------------------------------------------------------------------------------------------


cpdef RecordBatch build_batch(object mapping, object schema=None):
    """Make a batch of columns given by name.

    Parameters
    ----------
    mapping : mapping of str to column
        A column is a list, a tuple or another sequence of Python values, a NumPy array, or an
        :class:`arrowipc.Array` of the column's type. The names are exactly those of the schema, in any order.
    schema : Schema, optional
        In little-endian byte order, without repeated names. None: what the values are.

    Returns
    -------
    RecordBatch
        Arrays of the right dtype, contiguous and in native byte order, are used as they are: the batch holds
        their memory, and later changes to it show in the batch. Everything else is copied.

    Raises
    ------
    UsageError
        If names or lengths differ, or a value does not fit its type, naming column and row.

    See Also
    --------
    build_array : what each type takes

    Examples
    --------
    >>> from arrowipc._build import build_batch
    >>> from arrowipc.types import int8, list_, schema, string
    >>> s = schema([("id", int8()), ("tags", list_(string()))])
    >>> build_batch({"id": [1, None], "tags": [["a", None], []]}, s).to_pylist()
    [{'id': 1, 'tags': ['a', None]}, {'id': None, 'tags': []}]
    """
    from collections.abc import Mapping

    from arrowipc.schema import Schema

    if not isinstance(mapping, Mapping):
        raise UsageError(f"expected a mapping of column names to values, found {described(mapping)}")
    if schema is not None and not isinstance(schema, Schema):
        raise UsageError(f"expected a Schema, found {described(schema)}")
    names = list(mapping) if schema is None else schema.names
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"names of columns are text, found {described(name)}")
    check_names(names, mapping)
    sources = [column_source(name, mapping[name]) for name in names]
    if schema is None:
        from arrowipc.inference import infer_schema

        schema = infer_schema(dict(zip(names, sources)))
    for name, source in zip(names, sources):
        if len(source) != len(sources[0]):
            raise UsageError(f"columns must be equally long: {names[0]!r} has {len(sources[0]):,} rows, "
                             f"{name!r} has {len(source):,}")
    return build(plan_of(schema), sources, len(sources[0]) if sources else 0)


cpdef Array build_array(object values, object type=None):
    """Make an array of a type; its field is called "" and is nullable.

    Parameters
    ----------
    values : sequence, numpy.ndarray or Array
        See :func:`build_batch`.
    type : DataType, optional
        None: that of the values.

    Returns
    -------
    Array

    Raises
    ------
    UsageError
        If a value does not fit the type, naming the row.

    Notes
    -----
    Every type takes what ``to_pylist`` gives for it, and None. Beyond that:

    ======================  ================================================================================
    type                    also takes
    ======================  ================================================================================
    integers, floats        NumPy scalars; floats take integers that they hold exactly. No bool for a number.
    decimals                int and str, exactly: no digit is rounded away
    binary                  anything bytes-like
    dates, times, spans     int, the stored number; NumPy scalars of datetime64 and timedelta64. Nothing is
                            rounded to the unit.
    timestamps in a zone    datetimes of any zone, converted; naive ones are taken as UTC
    intervals               plain tuples
    lists                   any sequence but text, bytes and mappings; NumPy arrays
    maps                    mappings
    structs                 sequences of (name, value) pairs, the only choice when names repeat. What is
                            missing is null, an unknown name is an error.
    unions                  (type code, value) tuples. A plain value goes to the one child whose ``to_pylist``
                            gives values of its class, or else to the one that can convert it; a tuple of two
                            that begins with a type code is always read as a pair. None goes to the first
                            child that is nullable.
    run-end encoded         plain values; equal neighbours make a run
    dictionaries            plain values; the dictionary holds the distinct ones, in order of first use
    ======================  ================================================================================

    Examples
    --------
    >>> from arrowipc._build import build_array
    >>> from arrowipc.types import decimal128, dictionary, int8, string
    >>> build_array(["1.50", 2, None], decimal128(5, 2)).to_pylist()
    [Decimal('1.50'), Decimal('2.00'), None]
    >>> build_array(["x", "y", "x"], dictionary(int8(), string())).dictionary.to_pylist()
    ['x', 'y']
    """
    cdef RecordBatch batch
    source = column_source("", values)
    if type is None:
        from arrowipc.inference import infer_type

        type = infer_type(source)
    batch = build(plan_of_type(type), [source], len(source))
    return make_array(batch, 0, batch.d.nodes[0].offset, batch.d.length)


cdef int check_names(list names, object mapping) except -1:
    cdef set known = set(names)
    if len(known) < len(names):
        raise UsageError(f"a mapping cannot hold columns whose names repeat: {listed_names(repeated(names))}")
    missing = [name for name in names if name not in mapping]
    extra = [name for name in mapping if name not in known]
    if missing or extra:
        parts = []
        if missing:
            parts.append(f"missing columns: {listed_names(missing)}")
        if extra:
            parts.append(f"columns that the schema does not have: {listed_names(extra)}")
        raise UsageError("; ".join(parts))
    return 0


cdef Plan plan_of(object schema):
    cdef LimitsData limits
    if schema.endianness != "little":
        raise UsageError("columns are built in little-endian byte order; give a schema with "
                         "endianness='little'")
    limits_data(None, &limits)
    return python_plan(schema, &limits)


cdef Plan plan_of_type(object type):
    from arrowipc._datatypes import DataType, Field
    from arrowipc.schema import Schema

    for known, plan in recent_types:
        if known is type:
            return plan
    if not isinstance(type, DataType):
        raise UsageError(f"expected a DataType, found {described(type)}")
    plan = plan_of(Schema([Field("", type)]))
    recent_types.append((type, plan))
    if len(recent_types) > RECENT:
        recent_types.pop(0)
    return plan


cdef object column_source(str name, object values):
    """What a column is built of: a list, an Array, or a NumPy array of at least one dimension."""
    if type(values) is list:
        return values
    if isinstance(values, Array):
        return values
    if is_numpy(values, "ndarray"):
        if values.ndim == 0:
            raise UsageError(f"{of_column(name)}expected an array of at least one dimension, found 0")
        return values
    if hasattr(type(values), "__arrow_c_array__") or hasattr(type(values), "__arrow_c_stream__"):
        return import_array(values)
    items = as_list(values)
    if items is None:
        raise UsageError(f"{of_column(name)}expected a sequence of values, found {described(values)}")
    return items


cdef str of_column(str name):
    return f"column {name!r}: " if name else ""


cdef RecordBatch build(Plan plan, list sources, int64_t length):
    """A batch of the columns that `sources` hold, in the order of the plan."""
    cdef Builder builder = Builder(plan, {})
    cdef RecordBatch batch = RecordBatch.__new__(RecordBatch)
    cdef Values values
    cdef int32_t i
    # A Builder and its dictionaries refer to each other.
    try:
        for i in range(plan.d.n_columns):
            fill(builder, plan.d.columns[i], sources[i])
        # Values of outer dictionaries bring those of inner ones.
        for values in sorted(builder.dictionaries.values(), key=by_height):
            if values.columns is None:
                if values.filled and not values.items:
                    values.items.append(builder.filler)
                values.builder.column(0, values.items)
        builder.finish(batch, length, finished(builder.dictionaries, plan))
    finally:
        builder.dictionaries.clear()
    return batch


def by_height(Values values):
    """Sort key: dictionaries that others are inside of come first."""
    return -values.height


cdef tuple finished(dict dictionaries, Plan plan):
    """The dictionaries of a plan as Columns."""
    cdef DictionaryPlan dictionary
    cdef Values values
    cdef list out = []
    for dictionary in plan.dictionaries:
        values = dictionaries[dictionary.id]
        if values.columns is None:
            values.columns = values.builder.finish(Columns.__new__(Columns), len(values.items),
                                                   finished(dictionaries, dictionary.values))
        out.append(values.columns)
    return tuple(out)


cdef Columns rehome(Columns source, Plan plan):
    """A dictionary in a plan of the same shape: inner dictionaries get the ids of that plan."""
    cdef Columns out
    cdef int32_t i
    if not plan.dictionaries:
        return source
    out = Columns.__new__(Columns)
    out.allocate(plan, source.d.n_extents - source.d.plan.n_buffers)
    memcpy(out.d.nodes, source.d.nodes, plan.d.n_fields * sizeof(Node))
    if source.d.n_extents:
        memcpy(out.d.extents, source.d.extents, source.d.n_extents * sizeof(Extent))
    if plan.d.n_views:
        memcpy(out.d.views, source.d.views, plan.d.n_views * sizeof(ViewRange))
    out.d.length = source.d.length
    out.owner = source
    out.dictionaries = tuple([
        None if source.dictionaries is None or source.dictionaries[i] is None
        else rehome(source.dictionaries[i], (<DictionaryPlan> plan.dictionaries[i]).values)
        for i in range(len(plan.dictionaries))
    ])
    return out


# -- columns -------------------------------------------------------------------------------------------------


cdef int fill(Builder b, int32_t f, object source) except -1:
    """Fill a column from whatever it was given as."""
    if isinstance(source, list):
        return b.column(f, source)
    if isinstance(source, Array):
        return adopt(b, f, source)
    return array(b, f, source)


cdef int array(Builder b, int32_t f, object values) except -1:
    """Fill a field from a NumPy array, of as many dimensions as it nests fixed-size lists."""
    from arrowipc._from_numpy import Misfit, listed, stored

    cdef const FieldPlan* field = &b.p.fields[f]
    cdef int64_t count = len(values)
    if field.layout == LAYOUT_FIXED_LIST and values.ndim > 1:
        if values.shape[1] != field.width:
            b.blame(f, -1, f"expected an array of shape ({count}, {field.width}), found {values.shape}")
        b.d.nodes[f].length = count
        b.above[b.depth] = f
        b.depth += 1
        array(b, f + 1, values.reshape(count * values.shape[1], *values.shape[2:]))
        b.depth -= 1
        return 0
    found = None
    try:
        if values.ndim == 1:
            found = stored(values, b.kind(f))
        if found is None:
            return b.column(f, listed(values, b.kind(f)))
    except Misfit as misfit:
        b.blame(f, -1 if misfit.row is None else misfit.row, misfit.problem)
    b.d.nodes[f].length = count
    plain, mask = found
    return buffer(b, f, values, plain, mask)


cdef int buffer(Builder b, int32_t f, object values, object plain, object mask) except -1:
    """Fill a field with the stored values of an array."""
    import numpy

    cdef const FieldPlan* field = &b.p.fields[f]
    cdef int64_t count = b.d.nodes[f].length
    cdef Source source
    cdef uint8_t* out
    if count and mask is not None:
        masked(b, f, mask)
    if count == 0:
        return 0
    source = Source(plain.reshape(-1).view(numpy.uint8))
    if field.layout == LAYOUT_BOOL:
        out = b.room(field.first_buffer + 1, bitmap_bytes(count))
        pack_bits(source.data, count, 0, out)
    elif numpy.may_share_memory(plain, values):
        b.take(field.first_buffer + 1, source.data, source.size, source)
    else:
        memcpy(b.room(field.first_buffer + 1, source.size), source.data, source.size)
    return 0


cdef int masked(Builder b, int32_t f, object mask) except -1:
    """The validity of a field, from a NumPy array that is true at nulls."""
    import numpy

    cdef int64_t count = b.d.nodes[f].length
    cdef Source source = Source(numpy.ascontiguousarray(mask).view(numpy.uint8))
    cdef int64_t nulls = numpy.count_nonzero(mask)
    if not b.p.fields[f].flags & FIELD_NULLABLE:
        b.blame(f, mask.argmax(), "is null, and the field is not nullable")
    pack_bits(source.data, count, 1, b.room(b.p.fields[f].first_buffer, bitmap_bytes(count)))
    b.d.nodes[f].null_count = nulls
    return 0


cdef int adopt(Builder b, int32_t f, Array array) except -1:
    """Let a field be an Array of the same type; its buffers are shared."""
    cdef Columns source = array.columns, dictionary
    cdef const FieldPlan* field
    cdef const Extent* extents
    cdef const uint8_t* bits
    cdef int32_t i, k, g
    cdef int64_t row = 0
    check_native(source, "a column of a batch")
    if array.type != b.kind(f):
        b.blame(f, -1, f"expected an array of {b.kind(f)}, found one of {array.type}")
    if b.shares(f):
        # Their values have to become one dictionary.
        return b.column(f, array.to_pylist(max_values=max(MAX_VALUES, 64 * array.length)))
    for i in range(f, b.p.fields[f].end):
        field = &b.p.fields[i]
        g = array.index + i - f
        b.d.nodes[i] = source.d.nodes[g]
        extents = &source.d.extents[source.d.plan.fields[g].first_buffer]
        for k in range(field.n_buffers):
            b.take(field.first_buffer + k, extents[k].data, extents[k].size, source)
        if field.view >= 0:
            b.pools[field.view] = variadic(source, g)
        if field.dictionary >= 0:
            dictionary = dictionary_of(source, g)
            if dictionary is not None:
                b.values_of(i).columns = rehome(dictionary, b.values_of(i).builder.plan)
    b.d.nodes[f].offset = array.offset
    b.d.nodes[f].length = array.length
    b.d.nodes[f].null_count = array.null_count
    bits = validity(&b.d, f)
    if array.null_count == 0:
        if bits != NULL:
            b.take(b.p.fields[f].first_buffer, NULL, 0, None)
    elif not b.p.fields[f].flags & FIELD_NULLABLE:
        while bits != NULL and get_bit(bits, array.offset + row):
            row += 1
        b.blame(f, row, "is null, and the field is not nullable")
    return 0


cdef list variadic(Columns source, int32_t f):
    """The data buffers of a view field, as `pools` has them."""
    cdef const ViewRange* views = &source.d.views[source.d.plan.fields[f].view]
    cdef list out = []
    cdef int32_t i
    for i in range(views.first, views.first + views.count):
        out.append((<uintptr_t> source.d.extents[i].data, source.d.extents[i].size, source))
    return out


cdef void pack_bits(const uint8_t* flags, int64_t count, uint8_t flip, uint8_t* bits) noexcept nogil:
    """One bit per byte: whether it is not zero, or is if `flip` is 1. Bits behind them are zero."""
    cdef int64_t i, whole = count >> 3
    cdef const uint8_t* p = flags
    cdef uint8_t mask = <uint8_t> -flip
    for i in range(whole):
        bits[i] = mask ^ <uint8_t> ((p[0] != 0) | (p[1] != 0) << 1 | (p[2] != 0) << 2 | (p[3] != 0) << 3
                                    | (p[4] != 0) << 4 | (p[5] != 0) << 5
                                    | (p[6] != 0) << 6 | (p[7] != 0) << 7)
        p += 8
    if count & 7:
        bits[whole] = 0
        for i in range(count & 7):
            bits[whole] |= <uint8_t> (((p[i] != 0) ^ flip) << i)
