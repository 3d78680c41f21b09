"""Columns put together of buffers that exist already, in the layout of a schema."""

from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Plan, Source, check_sizes, limits_data, raise_fault
from arrowipc.columns.array cimport RecordBatch
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport LimitsData
from arrowipc.metadata.schema_reader cimport python_plan

from arrowipc.errors import UsageError


def from_buffers(schema, int64_t length, nodes, buffers):
    """Make a batch whose columns point into buffers.

    Parameters
    ----------
    schema : Schema
        Without views and dictionaries.
    length : int
        Rows.
    nodes : sequence of (int, int)
        Length and null count of each field, in pre-order.
    buffers : sequence of bytes-like or None
        Of each field, in pre-order, those of its layout; None: absent. They are held, and must not change.

    Returns
    -------
    RecordBatch

    Raises
    ------
    UsageError
        There are more or fewer nodes or buffers than the schema asks for.
    FormatError
        A buffer is too small for its node.
    """
    cdef RecordBatch batch = RecordBatch.__new__(RecordBatch)
    cdef LimitsData limits
    cdef Fault fault
    cdef Plan plan
    cdef Source source
    cdef int32_t i
    limits_data(None, &limits)
    plan = python_plan(schema, &limits)
    if plan.d.n_views or plan.dictionaries or len(nodes) != plan.d.n_fields or len(buffers) != plan.d.n_buffers:
        raise UsageError(f"expected {plan.d.n_fields} nodes and {plan.d.n_buffers} buffers of a schema without views "
                         f"and dictionaries, found {len(nodes)} and {len(buffers)}")
    batch.allocate(plan, 0)
    batch.d.length = length
    batch.dictionaries = ()
    for i in range(plan.d.n_fields):
        batch.d.nodes[i].length, batch.d.nodes[i].null_count = nodes[i]
        batch.d.nodes[i].offset = 0
    owners = []
    for i in range(plan.d.n_buffers):
        batch.d.extents[i].data = NULL
        batch.d.extents[i].size = 0
        if buffers[i] is not None:
            source = Source(buffers[i])
            owners.append(source)
            batch.d.extents[i].size = source.size
            batch.d.extents[i].data = source.data if source.size else NULL
    batch.owner = owners
    if check_sizes(&batch.d, &fault) < 0:
        raise_fault(&fault, plan)
    return batch
