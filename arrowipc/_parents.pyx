"""The number of the cell that each row comes from, as a column beside the rows."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from arrowipc._array cimport Array, RecordBatch, make_array
from arrowipc._bytes cimport loose_i64
from arrowipc._core cimport Columns, Extent, LimitsData, Memory, Node, Plan, ViewRange, limits_data
from arrowipc._schema cimport plan_schema, python_plan

from arrowipc.errors import UsageError


cdef object index_field(str name):
    from arrowipc._datatypes import Field, Int

    return Field(name, Int(64, True), False)


cdef void put_words(Extent* extents, Memory memory) noexcept:
    """The buffers of a column of words without nulls."""
    extents[0].data = extents[1].data = NULL
    extents[0].size = 0
    extents[1].size = memory.size
    if memory.size:
        extents[1].data = memory.data


cdef Plan plan_of_one = None


cdef Array int64_array(Memory memory, int64_t count):
    """An array without nulls over memory of our own."""
    cdef Columns columns = Columns.__new__(Columns)
    cdef LimitsData limits
    global plan_of_one
    if plan_of_one is None:
        from arrowipc.schema import Schema

        limits_data(None, &limits)
        plan_of_one = python_plan(Schema([index_field("count")]), &limits)
    columns.allocate(plan_of_one, 0)
    columns.d.length = count
    columns.d.nodes[0] = Node(count, 0, 0)
    put_words(columns.d.extents, memory)
    columns.owner = memory
    columns.dictionaries = ()
    return make_array(columns, 0, 0, count)


cdef Memory cell_numbers(const int64_t* counts, int64_t start, int64_t n, int64_t rows):
    """The number of each cell, as often as it has rows."""
    cdef Memory memory = Memory(8 * rows + 64)
    cdef loose_i64* index = <loose_i64*> memory.data
    cdef int64_t i, k
    memory.size = 8 * rows
    with nogil:
        for i in range(n):
            for k in range(counts[i]):
                index[k] = start + i
            index += counts[i]
    return memory


cdef RecordBatch with_index(RecordBatch batch, str name, const int64_t* counts, int64_t start, int64_t n):
    """The batch with one more column: the number of the cell that each row comes from."""
    from arrowipc.schema import Schema

    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    cdef LimitsData limits
    cdef Plan plan
    cdef Memory memory
    cdef int32_t i
    cdef int32_t buffers = batch.plan.d.n_buffers, variadic = batch.d.n_extents - buffers
    schema = plan_schema(batch.plan)
    if name in schema.names:
        raise UsageError(f"parent_index: the payloads have a column {name!r} themselves; pass another name: "
                         'parent_index="..."')
    limits_data(None, &limits)
    plan = python_plan(Schema([*schema.fields, index_field(name)], schema.metadata, schema.endianness), &limits)
    memory = cell_numbers(counts, start, n, batch.d.length)
    out.allocate(plan, variadic)
    out.d.length = batch.d.length
    if batch.plan.d.n_fields:
        memcpy(out.d.nodes, batch.d.nodes, batch.plan.d.n_fields * sizeof(Node))
        memcpy(out.d.extents, batch.d.extents, buffers * sizeof(Extent))
    if batch.plan.d.n_views:
        memcpy(out.d.views, batch.d.views, batch.plan.d.n_views * sizeof(ViewRange))
    if variadic:
        memcpy(out.d.extents + buffers + 2, batch.d.extents + buffers, variadic * sizeof(Extent))
    for i in range(batch.plan.d.n_views):
        out.d.views[i].first += 2
    out.d.nodes[batch.plan.d.n_fields] = Node(batch.d.length, 0, 0)
    put_words(out.d.extents + buffers, memory)
    out.owner = (batch.owner, memory)
    out.dictionaries = batch.dictionaries if batch.dictionaries is not None else ()
    return out
