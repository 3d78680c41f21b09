"""Building of batches and arrays from Python lists, NumPy arrays and Arrays, column by column."""

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy

from arrowipc._core cimport Columns, DictionaryPlan, Memory, Plan, Recent, Source, identity
from arrowipc.cdata.import_array cimport import_array
from arrowipc.columns.array cimport Array, dictionary_array, make_array
from arrowipc.columns.elements cimport AS_BACKED, MAX_VALUES, check_native, quota
from arrowipc.columns.record_batch cimport RecordBatch, batch_of_arrays, columns_at, count_rows, single_column
from arrowipc.inline.element cimport validity
from arrowipc.inline.loads cimport get_bit
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_NULLABLE, LAYOUT_BOOL, LAYOUT_FIXED_LIST, LAYOUT_NULL, Extent, FieldPlan, ViewRange,
)
from arrowipc.inline.threads cimport FREE_THREADED
from arrowipc.metadata.schema_reader cimport has_metadata
from arrowipc.values.scalars cimport is_numpy
from arrowipc.values.nested cimport Builder, DictionaryValues, as_list, is_mapping, listed_names, plan_of, values_below

import sys
from _operator import is_

from arrowipc.arguments import check_text, described, integer_of, items_of, repeated
from arrowipc.columns.column import Column
from arrowipc.columns.record_batch import batches_of
from arrowipc.columns.extensions import STORED_TIMES
from arrowipc.datatypes import Field, own
from arrowipc.errors import NotFoundError, UsageError
from arrowipc.schemas import Schema, numbered_field


cdef bint is_pandas(object values) except -1:
    """Whether values are a Series, an Index of one level or an array of pandas."""
    pandas = sys.modules.get("pandas")
    if pandas is None or isinstance(values, pandas.MultiIndex):
        return False
    return isinstance(values, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray))


cdef list of_pandas(object values):
    """Return values for which `is_pandas` holds as a list of Python values; missing ones become None."""
    return [None if missing else value for value, missing in zip(values.tolist(), sys.modules["pandas"].isna(values))]


# Plans of the types last used for building arrays, looked up by identity: making a plan takes longer than filling
# a short array. Types are immutable, and plans do not change.
cdef Recent recent_types = Recent(8)


# -- entry points --------------------------------------------------------------------------------------------


cpdef RecordBatch build_batch(object mapping, object schema=None, int64_t rows=0):
    """See `RecordBatch.from_pydict`; `rows` is the number of rows of a batch without columns.

    A column may also be another sequence, or an :class:`Array` of the column's type. NumPy arrays of the right dtype,
    contiguous and in native byte order, are not copied: later changes of them show in the batch.
    """
    if not is_mapping(mapping):
        raise UsageError(f"expected a mapping of column names to values, found {described(mapping)}")
    schema = given_schema(schema)
    names = list(mapping) if schema is None else schema.names
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"names of columns are text, found {described(name)}")
    names = [str.__str__(name) for name in names]
    check_names(names, mapping)
    return build_columns(names, [mapping[name] for name in names], schema, rows)


def build_arrays(arrays, names=None, schema=None, metadata=None):
    """See `RecordBatch.from_arrays`."""
    arrays = items_of("arrays", arrays)
    schema = given_schema(schema)
    if names is None and schema is None and not arrays:
        names = ()
    if (names is None) == (schema is None):
        raise UsageError("from_arrays needs names= or schema=, and takes one of them")
    if schema is not None and metadata is not None:
        raise UsageError("from_arrays: schema= brings its own metadata, leave metadata= out")
    names = schema.names if names is None else [check_text("names", name) for name in items_of("names", names)]
    if len(names) != len(arrays):
        raise UsageError(f"expected an array for each of {len(names)} columns, found {len(arrays)}")
    return build_columns(names, arrays, schema, 0, metadata)


cdef object given_schema(object schema):
    """Return an argument as a Schema, also one of another library; None means that it is inferred from the values."""
    if schema is None:
        return None
    from arrowipc.types import as_schema

    return as_schema(schema)


cdef RecordBatch build_columns(list names, list columns, object schema, int64_t rows, object metadata=None):
    """Build a batch of columns: sequences, NumPy arrays, Arrays; `rows` counts if there are no columns."""
    cdef list sources = []
    for i, name in enumerate(names):
        sources.append(column_source(name, columns[i], None if schema is None else schema.fields[i].type))
    if schema is None:
        from arrowipc.values.inference import infer_schema

        schema = with_own_dictionaries(infer_schema(names, sources, metadata), sources)
    for name, source in zip(names, sources):
        if len(source) != len(sources[0]):
            raise UsageError(f"columns must be equally long: {names[0]!r} has {len(sources[0]):,} rows, "
                             f"{name!r} has {len(source):,}")
    return build(plan_of(schema), sources, len(sources[0]) if sources else rows)


cdef object with_own_dictionaries(object schema, list sources):
    """Return the schema, without the dictionary ids of arrays whose ids another batch's arrays use: these differ."""
    from arrowipc.metadata.schema_tables import dictionaries_of

    cdef dict owners = {}
    cdef list fields = []
    for field, source in zip(schema.fields, sources):
        if isinstance(source, Array):
            batch = (<Array> source).columns
            if any([owners.setdefault(each.dictionary_id, batch) is not batch for each in dictionaries_of((field,))]):
                field = numbered_field(field, lambda _: None)
        fields.append(field)
    return schema if all(map(is_, fields, schema.fields)) else schema.__replace__(fields=fields)


def build_rows(rows, schema=None):
    """See `RecordBatch.from_pylist`."""
    schema = given_schema(schema)
    items = as_list(rows)
    if items is None or not all([is_mapping(row) for row in items]):
        raise UsageError(f"rows: expected a list of dicts, found {described(rows)}")
    names = [*items[0]] if schema is None and items else [] if schema is None else schema.names
    mapping = {name: [None] * len(items) for name in names}
    for at, row in enumerate(items):
        if put_row(<list> items, at, mapping) < len(row):
            extra = [name for name in row if name not in mapping]
            whose = "first row" if schema is None else "schema"
            raise UsageError(f"row {at}: the {whose} has no {listed_names(extra)}; the columns are those of the "
                             "schema, or the keys of the first row")
    return build_batch(mapping, schema, len(items))


cdef int64_t put_row(list rows, Py_ssize_t at, dict columns) except -1:
    """Put the values of row `at` into the columns; return the number of columns for which it has a value."""
    cdef PyObject* value
    cdef int64_t found = 0
    row = rows[at]
    for name, column in columns.items():
        if type(row) is dict and not FREE_THREADED:    # else another thread may remove a value meanwhile
            value = PyDict_GetItemWithError(row, name)
            if value == NULL:
                continue
            (<list> column)[at] = <object> value
        elif name in row:
            (<list> column)[at] = row[name]
        else:
            continue
        found += 1
    return found


def empty_batch(schema):
    """Make a batch without rows, of a schema in little-endian byte order."""
    return build(plan_of(schema), [[]] * len(schema), 0)


cpdef Array build_array(object values, object type=None):
    """See `Array.from_pylist`; the field of the result is named "", nullable, of the extension type of an Array given.

    Every type takes the values that ``to_pylist`` returns for it, None, and values that can be converted without loss.
    Unions take (type code, value) tuples; a plain value goes to the only child whose ``to_pylist`` returns its class,
    or else to the only one that can convert it, and None to the first child that is nullable.
    """
    cdef RecordBatch batch
    cdef Plan plan = None
    source = column_source("", values, type)
    if type is None:
        from arrowipc.values.inference import field_of, infer_type

        type = infer_type(source)
        if isinstance(source, Array) and has_metadata((<Array> source).columns.plan, (<Array> source).index):
            plan = plan_of(Schema([field_of("", type, source)]))
    batch = build(plan_of_type(type) if plan is None else plan, [source], len(source))
    return make_array(batch, 0, batch.d.nodes[0].offset, batch.d.length)


def fill_null(Array array not None, value):
    """See `Array.fill_null`."""
    from arrowipc.values.row_reader import take_across

    cdef const uint8_t* bits
    cdef Memory rows
    cdef int64_t i
    if array.null_count == 0:
        return array
    quota(AS_BACKED).take(array.columns, array.length)
    schema = Schema([array.field])
    parts = [build_arrays([each], schema=schema) for each in (array, [value])]
    bits, rows = validity(&array.columns.d, array.index), Memory(8 * array.length)
    rows.size = 8 * array.length
    for i in range(array.length):
        (<int64_t*> rows.data)[i] = i if bits != NULL and get_bit(bits, array.offset + i) else array.length
    return take_across(parts, rows)[0].column(0)


cdef list chunks_like(list batches, object values, object kind):
    """Return the chunks of a column that are as long as the batches, if they can be added as they are; else None."""
    from arrowipc.metadata.schema_tables import dictionaries_of

    if (not isinstance(values, Column) or kind not in (None, values.field.type) or dictionaries_of((values.field,))
            or list(map(len, values._arrays())) != list(map(len, batches))):
        return None
    return values._arrays()


def add_to_each(list batches not None, position, field, values):
    """See `RecordBatch.add_column`: add a column to batches of one schema, to each its part of the values."""
    from arrowipc.values.inference import infer_schema

    cdef RecordBatch batch = batches[0]
    cdef int64_t count = batch.d.plan.n_columns, start = 0
    cdef list fields = list(batch.schema.fields), columns, out = []
    cdef Array array, part
    cdef Plan plan
    place = integer_of("column", position)
    if not -count <= place <= count:
        raise NotFoundError(f"column index {position} is out of range: the batch has {count} columns")
    field = own(field, Field)
    name = field.name if isinstance(field, Field) else check_text("field", field)
    kind = field.type if isinstance(field, Field) else None
    cdef list chunks = chunks_like(batches, values, kind)
    source = column_source(name, values, kind) if chunks is None else batches_of(values.field, chunks[:1])[0].column(0)
    if not isinstance(field, Field):
        field = infer_schema([name], [source]).fields[0]
    array = source if isinstance(source, Array) and source.type == field.type else build_array(source, field.type)
    rows, given = count_rows(batches), array if chunks is None else values
    if len(given) != rows:
        raise UsageError(f"column {name!r}: expected {rows:,} values, as there are rows, found {array.length:,}")
    if not field.nullable and given.null_count:
        raise UsageError(f"column {name!r}: {given.null_count:,} values are null, and the field is not nullable")
    fields.insert(place, field)
    schema = Schema(fields, batch.schema.metadata, batch.schema.endianness)
    plan = plan_of(with_own_dictionaries(schema, [*batch.columns[:place], array, *batch.columns[place:]]))
    for i, batch in enumerate(batches):
        columns = columns_at(batch)
        if chunks is None:
            part = make_array(array.columns, array.index, array.offset + start, batch.d.length)
        else:
            part = chunks[i]
        check_native(part.columns, "an added column")
        columns.insert(place, part)
        out.append(batch_of_arrays(plan, columns, batch.d.length))
        start += batch.d.length
    return out


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


cdef Plan plan_of_type(object type):
    from arrowipc.types import as_type
    from arrowipc.values.inference import field_of

    found = recent_types.find(identity(type))
    if found is not None:
        return found[1]
    type = as_type(type)
    plan = plan_of(Schema([field_of("", type)]))
    recent_types.keep((type, plan), identity(type))
    return plan


cdef object column_source(str name, object values, object kind):
    """Return the values of a column as a list, an Array, or a NumPy array of at least one dimension.

    `kind` is the type that the column must have, or None.
    """
    if type(values) is list:
        if is_tensor(next((each for each in <list> values if each is not None), None)):
            return [None if each is None else of_tensor(each) for each in <list> values]
        return as_list(values)
    if isinstance(values, Column):
        return values._whole()
    if is_numpy(values, "ndarray"):
        if values.ndim == 0:
            raise UsageError(f"{of_column(name)}expected an array of at least one dimension, found 0")
        return values
    if is_tensor(values):
        return column_source(name, of_tensor(values), kind)
    if is_pandas(values):
        # Convert with pyarrow; if it does not know the values, or they cannot be cast, convert value by value.
        try:
            array = import_array(sys.modules["pandas"].Series(values))
            return array if kind is None else array.cast(kind)
        except (ImportError, NotImplementedError, TypeError, ValueError):
            return of_pandas(values)
    if (hasattr(type(values), "__arrow_c_array__") or hasattr(type(values), "__arrow_c_stream__")
            or hasattr(type(values), "__arrow_c_device_array__")):
        return import_array(values)
    if hasattr(type(values), "__arrow_array__"):
        return import_array(values.__arrow_array__())
    items = as_list(values)
    if items is None:
        raise UsageError(f"{of_column(name)}expected a sequence of values, found {described(values)}; rows go to "
                         "from_pylist")
    return items


cdef bint is_tensor(object values) except -1:
    """Whether `values` is an array of PyTorch, JAX or a similar library, which NumPy can take."""
    kind = type(values)
    return hasattr(kind, "__array__") and hasattr(kind, "__dlpack__") and not is_numpy(values, "ndarray") and not (
        hasattr(kind, "__arrow_c_array__") or hasattr(kind, "__arrow_c_stream__"))


cdef object of_tensor(object values):
    import numpy

    try:
        return numpy.asarray(values)[()]    # [()] makes a scalar of an array without dimensions
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{type(values).__name__} cannot become a NumPy array: {error}") from error


cdef str of_column(str name):
    return f"column {name!r}: " if name else ""


cdef RecordBatch build(Plan plan, list sources, int64_t length):
    """Build a batch of the columns in `sources`, in the order of the plan."""
    cdef Builder builder = Builder(plan, {})
    cdef RecordBatch batch = RecordBatch.__new__(RecordBatch)
    cdef int32_t i
    # A Builder and its dictionaries refer to each other: `finally` breaks the cycle.
    try:
        for i in range(plan.d.n_columns):
            fill(builder, plan.d.columns[i], sources[i])
        # Fill outer dictionaries first: their values may need values of inner ones.
        for values in reversed(list(builder.dictionaries.values())):
            fill_up(builder.dictionaries, values)
        builder.finish(batch, length, values_below(builder.dictionaries, plan))
    finally:
        builder.dictionaries.clear()
    return batch


cdef int fill_up(dict dictionaries, DictionaryValues values) except -1:
    """Add a value to a dictionary that needs one and is empty."""
    cdef Plan plan = values.builder.plan
    cdef Builder builder
    cdef int64_t number
    if values.filled and values.given is None and values.unifier.table.count == 0:
        builder = Builder(plan, dictionaries, True)
        builder.column(0, [builder.filler])
        for below in plan.dictionaries:
            fill_up(dictionaries, dictionaries[(<DictionaryPlan> below).id])
        values.unifier.table.add(builder.finish(Columns.__new__(Columns), 1, values_below(dictionaries, plan)), 0, 1,
                                 &number)
    return 0


# -- columns -------------------------------------------------------------------------------------------------


cdef int fill(Builder b, int32_t f, object source) except -1:
    """Fill a column from a list, an Array or a NumPy array."""
    if isinstance(source, list):
        return b.column(f, source)
    if isinstance(source, Array):
        return adopt(b, f, source)
    return array(b, f, source)


cdef int array(Builder b, int32_t f, object values) except -1:
    """Fill a field from a NumPy array; each dimension after the first is a level of fixed-size lists."""
    from arrowipc.values.from_numpy import Misfit, listed, stored

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
    found = wrong = None
    try:
        if values.ndim == 1:
            found = stored(values, b.kind(f))
        if found is None:
            return b.column(f, listed(values, b.kind(f)))
    except Misfit as misfit:
        wrong = misfit
    if wrong is not None:
        b.blame(f, -1 if wrong.row is None else wrong.row, wrong.problem)
    b.d.nodes[f].length = count
    plain, mask = found
    return buffer(b, f, values, plain, mask)


cdef int buffer(Builder b, int32_t f, object values, object plain, object mask) except -1:
    """Fill a field from `plain`, the stored values of `values`, and `mask`, true where they are null, or None."""
    import numpy

    cdef const FieldPlan* field = &b.p.fields[f]
    cdef Source source
    if b.d.nodes[f].length == 0:
        return 0
    if mask is not None:
        if not field.flags & FIELD_NULLABLE:
            b.blame(f, mask.argmax(), "is null, and the field is not nullable")
        b.d.nodes[f].null_count = numpy.count_nonzero(mask)
        copy_bytes(b, field.first_buffer, numpy.packbits(~mask, bitorder="little"))
    if field.layout == LAYOUT_BOOL:
        copy_bytes(b, field.first_buffer + 1, numpy.packbits(plain, bitorder="little"))
    elif numpy.may_share_memory(plain, values):
        source = Source(plain.reshape(-1).view(numpy.uint8))
        b.take(field.first_buffer + 1, source.data, source.size, source)
    else:
        copy_bytes(b, field.first_buffer + 1, plain.reshape(-1).view(numpy.uint8))
    return 0


cdef int copy_bytes(Builder b, int32_t buffer, object values) except -1:
    """Copy bytes into a new buffer, whose padding is zero."""
    cdef Source source = Source(values)
    memcpy(b.allocate_buffer(buffer, source.size), source.data, source.size)
    return 0


cdef int adopt(Builder b, int32_t f, Array array) except -1:
    """Fill a field from an Array: share its buffers if the types are equal, else cast or encode it."""
    cdef Columns source = array.columns
    cdef Array dictionary
    cdef const FieldPlan* field
    cdef const Extent* extents
    cdef const uint8_t* bits
    cdef int32_t i, k, g
    cdef int64_t row = 0
    cdef bint encodes = b.p.fields[f].flags & FIELD_ENCODED != 0 and array.type == b.kind(f).value_type
    check_native(source, "a column of a batch")
    if encodes and not (b.values_of(f).builder.plan.dictionaries
                        or source.d.plan.fields[array.index].layout == LAYOUT_NULL):
        return b.encoded_array(f, array)
    if not encodes and array.type != b.kind(f):
        from arrowipc.derived.casts import cast

        try:
            array = cast(array, b.kind(f))
        except UsageError as error:
            b.blame(f, -1, f"expected an array of {b.kind(f)}, found one of {array.type} ({error})")
        return adopt(b, f, array)
    if encodes or b.shares(f):
        # The values of all fields that use a dictionary have to become one.
        most = max(MAX_VALUES, 64 * array.length)
        return b.column(f, array.to_pylist(max_values=most, extensions=STORED_TIMES))
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
            dictionary = dictionary_array(source, g)
            if dictionary is not None:
                b.values_of(i).given = single_column(dictionary, b.values_of(i).builder.plan)
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
    """The data buffers of a view field, in the form of `Converter.pools`."""
    cdef const ViewRange* views = &source.d.views[source.d.plan.fields[f].view]
    cdef list out = []
    cdef int32_t i
    for i in range(views.first, views.first + views.count):
        out.append((<uintptr_t> source.d.extents[i].data, source.d.extents[i].size, source))
    return out
