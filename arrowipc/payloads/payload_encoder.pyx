"""Encode ranges of rows of one batch as payloads, each a whole stream in a cell of its own.

A cell has the bytes that `new_stream` writes for the slice. The parts that are the same in all cells (the schema
message, whole dictionaries, the end) are made once, by the writer that makes streams, and copied; the rest goes
through the same truncator and encoder, range by range, into one block of memory that grows. Only errors, compressed
bodies and custom metadata take the GIL.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from arrowipc._core cimport Columns, DictionaryPlan, Memory, Plan, Source, raise_fault
from arrowipc.columns.elements cimport check_native, extent_bytes
from arrowipc.columns.record_batch cimport RecordBatch, select_columns
from arrowipc.columns.take cimport int64_source, int64s
from arrowipc.columns.truncate cimport Truncator
from arrowipc.distinct.unifier cimport transpose
from arrowipc.inline.body_parts cimport put_parts
from arrowipc.inline.fault cimport FAULT_MEMORY, Fault, fail
from arrowipc.inline.plan cimport FIELD_ENCODED, FIELD_ORDERED, ColumnsData, FieldPlan
from arrowipc.inline.room cimport Room, make_room, new_zeros
from arrowipc.metadata.schema_reader cimport plan_schema
from arrowipc.payloads.cells cimport array_over
from arrowipc.payloads.dictionary_gc cimport (
    UsedValues, close_used, forget_used, gather_used, is_reducible, note_used, open_used,
)
from arrowipc.payloads.group_runs cimport find_runs, first_rows
from arrowipc.encode.batch_encoder cimport Encoder
from arrowipc.encode.batch_writer cimport BatchWriter, refused_field
from arrowipc.encode.dictionary_writer cimport Emission

from collections import namedtuple

from arrowipc.arguments import check_flag, check_integer, described, items_of
from arrowipc.columns.record_batch import concat_batches
from arrowipc.datatypes import Binary, Field, LargeBinary
from arrowipc.errors import UsageError
from arrowipc.options import WriteOptions
from arrowipc.schemas import Schema
from arrowipc.encode.batch_writer import BytearraySink, check_schema
from arrowipc.types import as_schema
from arrowipc.encode.batches import batches_of

cdef enum:
    FIRST_BLOCK = 1 << 16   # the most bytes of the first block of cells; `grow` estimates the rest
    LEAST_MESSAGE = 256     # about the least bytes of a RecordBatch message
    LEAST_PAYLOAD = 64      # every payload takes more, whatever is in it
    # A dictionary is trimmed if it has more than so many times as many values as there are elements: trimming
    # smaller ones saves little, and a reader that finds the same bytes in each payload need not unify them.
    LARGER = 2

cdef enum Outcome:
    # Why a payload could not be made.
    BAD_COLUMNS = -1        # `fault`, of the batch
    BAD_DICTIONARY = -2     # `fault`, of the values of dictionary `PayloadEncoder.blamed`
    BAD_ROWS = -3           # the writer refuses them, and raises its own error
    BAD_SIZE = -4           # the cells outgrow int32 offsets
    RAISED = -5             # `PayloadEncoder.error`

cdef struct Encoded:
    # A dictionary-encoded field.
    int32_t field
    Room indices            # the transposed ones

cdef struct Shared:
    # One dictionary message that all payloads have, unless they write a part of the dictionary.
    int64_t at              # where the whole message begins in `PayloadEncoder.common`
    int64_t size
    int64_t id
    int64_t count           # values
    UsedValues used         # closed (`values` is NULL): it is always written whole
    Encoded* fields         # the fields that refer to it
    int32_t n_fields


GroupedPayloads = namedtuple("GroupedPayloads", ["payloads", "keys"])
GroupedPayloads.__doc__ = """What `encode_payloads(group_by=...)` returns: one payload per run of equal keys.

Attributes
----------
payloads : Array
    Binary, one cell per run.
keys : RecordBatch
    The key columns, one row per run.

Examples
--------
>>> import arrowipc as ipc
>>> batch = ipc.RecordBatch.from_pydict({"k": [1, 1, 2], "x": ["a", "b", "c"]})
>>> found = ipc.encode_payloads(batch, group_by=["k"])
>>> len(found.payloads), found.keys.to_pydict()
(2, {'k': [1, 2]})
"""


# -- one payload ---------------------------------------------------------------------------------------------


cdef class PayloadEncoder:
    """Encodes ranges of rows of one batch, between `offsets` that were checked, into cells one behind the other."""

    cdef BatchWriter writer
    cdef Encoder encoder
    cdef Truncator truncator
    cdef RecordBatch batch
    cdef tuple pairs                # custom metadata of the batch
    cdef Source common              # the bytes that are in every cell: schema message, whole dictionaries
    cdef Source end
    cdef int64_t schema_size
    cdef Shared* shared             # dictionary messages, in their order
    cdef int32_t n_shared
    cdef bint used_values           # some of them may be written in part
    cdef bint raw                   # neither compressed nor with metadata: no Python needed
    cdef bint careful               # the writer may refuse rows
    cdef bint large
    cdef list values                # Emission per dictionary message
    cdef Memory offsets
    cdef int64_t n
    cdef int64_t done               # cells that are complete
    cdef int64_t fixed              # bytes that each cell has at least
    cdef Memory cells
    cdef uint8_t* data              # of cells
    cdef int64_t used
    cdef int64_t capacity
    cdef Memory ends
    cdef int32_t blamed
    cdef object error

    def __cinit__(self, RecordBatch batch, Memory offsets, schema, options, bint with_schema, bint with_end,
                  bint trim_dictionaries, bint large):
        cdef int32_t f
        self.batch = batch
        self.offsets = offsets
        self.n = offsets.size // 8 - 1
        self.pairs = batch.metadata_pairs
        self.large = large
        self.writer = BatchWriter(BytearraySink(bytearray()), options)
        self.encoder = self.writer.encoder
        self.begin(schema, with_schema, trim_dictionaries)
        self.truncator = self.writer.truncator
        end = b"" if not with_end else bytes(4) if self.encoder.legacy else b"\xff\xff\xff\xff" + bytes(4)
        self.end = Source(self.closing_message() + end if self.encoder.checksum else end)
        self.raw = self.encoder.compressor is None and not self.pairs
        self.careful = self.writer.has_required
        for f in range(batch.d.plan.n_fields):
            self.careful |= batch.d.nodes[f].length > INT32_MAX
        self.cells = Memory(min(FIRST_BLOCK, max(1, self.n) * self.fixed))
        self.data = self.cells.data
        self.capacity = self.cells.capacity
        self.ends = Memory((self.n + 1) * (8 if large else 4))

    def __dealloc__(self):
        cdef int32_t i, k
        for i in range(self.n_shared):
            for k in range(self.shared[i].n_fields):
                free(self.shared[i].fields[k].indices.data)
            free(self.shared[i].fields)
            close_used(&self.shared[i].used)
        free(self.shared)

    cdef int begin(self, object schema, bint with_schema, bint trim_dictionaries) except -1:
        """Let the writer make the messages that are the same in every cell."""
        cdef BatchWriter writer = self.writer
        cdef bytearray target = bytearray()
        cdef Emission emission
        cdef int32_t i
        cdef int64_t at
        self.values = []
        writer.sink = BytearraySink(target)
        writer.begin(schema)
        writer.accept(self.batch)
        if not with_schema:
            # Messages are aligned from the start of the cell.
            target = bytearray()
            writer.sink = BytearraySink(target)
        self.schema_size = writer.sink.position
        if writer.dictionaries is not None:
            writer.dictionaries.before(self.batch, self.values)
        self.shared = <Shared*> new_zeros(len(self.values), sizeof(Shared))
        for emission in self.values:
            i = self.n_shared
            self.n_shared += 1
            at = writer.sink.position
            writer.put_dictionaries([emission])
            self.shared[i].at = at
            self.shared[i].size = writer.sink.position - at
            self.shared[i].id = emission.id
            self.shared[i].count = emission.values.d.length
            if (trim_dictionaries and is_reducible(emission.values) and not below_others(writer.plan, emission.id)
                    and not is_ordered(writer.plan, emission.id)):
                self.open_shared(&self.shared[i], emission.values)
        self.common = Source(bytes(target))
        self.fixed = self.common.size + LEAST_MESSAGE
        for i in range(self.n_shared):
            if self.shared[i].used.values != NULL:
                self.fixed -= self.shared[i].size
        return 0

    cdef bytes closing_message(self):
        """The message that closes a stream with checksums; it is the same in every cell."""
        cdef BatchWriter writer = self.writer
        cdef bytearray target = bytearray()
        writer.sink = BytearraySink(target)
        writer.num_messages = self.n_shared + 2
        writer.num_record_batches = 1
        writer.put_closing()
        writer.encoder.closing = False
        return bytes(target)

    cdef int open_shared(self, Shared* one, Columns values) except -1:
        """Make a dictionary ready to be written in part."""
        cdef Plan plan = self.writer.plan
        cdef int32_t f
        one.fields = <Encoded*> new_zeros(plan.d.n_fields, sizeof(Encoded))
        for f in range(plan.d.n_fields):
            if plan.d.fields[f].flags & FIELD_ENCODED and id_of(plan, plan.d.fields[f].dictionary) == one.id:
                one.fields[one.n_fields].field = f
                one.n_fields += 1
        open_used(&one.used, values)
        self.used_values = True
        return 0

    cdef int run(self) except -1:
        """Make all cells."""
        cdef Fault fault
        cdef int outcome
        if self.raw:
            with nogil:
                outcome = encode_all(self, &fault)
        else:
            # Every payload needs the GIL: to release it between two would mean to wait for it.
            outcome = encode_all(self, &fault)
        if outcome < 0:
            self.raise_outcome(self.done, outcome, &fault)
        self.cells.size = self.used
        self.ends.size = (self.n + 1) * (8 if self.large else 4)
        return 0

    cdef int raise_outcome(self, int64_t i, int outcome, Fault* fault) except -1:
        cdef const int64_t* offsets = <const int64_t*> self.offsets.data
        cdef Emission emission
        where = f"payload {i:,} (rows {offsets[i]:,} to {offsets[i + 1]:,})"
        if outcome == BAD_COLUMNS:
            raise_fault(fault, self.batch.plan, where)
        elif outcome == BAD_DICTIONARY:
            emission = self.values[self.blamed]
            raise_fault(fault, emission.values.plan, f"{where}: dictionary {emission.id}")
        elif outcome == BAD_ROWS:
            self.writer.truncate(self.batch, offsets[i], offsets[i + 1] - offsets[i])
        elif outcome == BAD_SIZE:
            raise UsageError(f"the payloads reach {self.used:,} bytes with number {i:,} of {self.n:,}, and the offsets "
                             f"of a binary column count to {INT32_MAX:,}: pass large=True, or fewer rows at a time")
        raise self.error

    def column(self):
        """The cells, as an `Array`."""
        return array_over(LARGE_BINARY if self.large else BINARY, self.n, self.ends, self.cells)


cdef object BINARY = Schema([Field("", Binary())]), LARGE_BINARY = Schema([Field("", LargeBinary())])


cdef int64_t id_of(Plan plan, int32_t dictionary) except -1:
    cdef DictionaryPlan found = plan.dictionaries[dictionary]
    return found.id


cdef bint below_others(Plan plan, int64_t id) except -1:
    """Return whether another dictionary refers to this one; then all payloads share the memory of its indices."""
    cdef DictionaryPlan outer, inner
    for outer in plan.dictionaries:
        for inner in outer.values.dictionaries:
            if inner.id == id:
                return True
        if below_others(outer.values, id):
            return True
    return False


cdef bint is_ordered(Plan plan, int64_t id) except -1:
    """Whether the order of a dictionary has a meaning, which payloads with parts of it do not have together."""
    cdef int32_t f
    for f in range(plan.d.n_fields):
        if plan.d.fields[f].flags & FIELD_ORDERED and id_of(plan, plan.d.fields[f].dictionary) == id:
            return True
    return False


# -- the loop ------------------------------------------------------------------------------------------------


cdef int grow(PayloadEncoder k, int64_t size) noexcept with gil:
    """Make room for `size` more bytes, and for as many as the other cells will need, judged by the cells so far."""
    cdef const int64_t* offsets = <const int64_t*> k.offsets.data
    cdef int64_t needed = k.used + size
    # The bytes that each cell has, whatever its rows are; and the rows so far, each of which adds some bytes.
    cdef double fixed = k.fixed, rows = offsets[k.done] - offsets[0]
    cdef double wanted = k.n * fixed
    # The other rows may be quite different, so the estimate is bounded by the size of the input.
    cdef double bound = 8.0 * needed + 2.0 * k.n * fixed + 2.0 * extent_bytes(&k.batch.d)
    try:
        if rows:
            wanted += max(0.0, k.used - k.done * fixed) / rows * (offsets[k.n] - offsets[0])
        if not k.large:
            bound = min(bound, <double> INT32_MAX)
        k.cells.size = k.used
        k.cells.reserve(max(needed + (needed >> 3), <int64_t> min(1.03 * wanted, bound)))
    except BaseException as error:
        k.error = error
        return RAISED
    k.data = k.cells.data
    k.capacity = k.cells.capacity
    return 0


cdef inline uint8_t* take(PayloadEncoder k, int64_t size) noexcept nogil:
    """Return the next `size` bytes of the cells; NULL: there is no memory."""
    if size > k.capacity - k.used and grow(k, size) < 0:
        return NULL
    k.used += size
    return k.data + (k.used - size)


cdef inline int put_bytes(PayloadEncoder k, const uint8_t* data, int64_t size) noexcept nogil:
    cdef uint8_t* out
    if size == 0:
        return 0
    out = take(k, size)
    if out == NULL:
        return RAISED
    memcpy(out, data, size)
    return 0


cdef int put_message(PayloadEncoder k) noexcept nogil:
    """Append the message that was just encoded."""
    cdef int64_t head = k.encoder.head_size
    cdef uint8_t* out = take(k, head + k.encoder.body_length)
    if out == NULL:
        return RAISED
    memcpy(out, k.encoder.head, head)
    put_parts(out + head, k.encoder.parts, k.encoder.n_parts, k.encoder.alignment)
    return 0


cdef int encode_with_gil(PayloadEncoder k, const ColumnsData* d, int64_t position, bint dictionary,
                         int64_t id, int64_t number) noexcept with gil:
    try:
        if dictionary:
            k.encoder.encode(d, NULL, (), position, True, id)
        else:
            k.encoder.encode(d, k.writer.encode_options.chosen_data, k.pairs, position)
        if k.encoder.checksum:
            k.encoder.sign(number)
    except BaseException as error:
        k.error = error
        return RAISED
    return 0


cdef inline int encode(PayloadEncoder k, const ColumnsData* d, int64_t position, bint dictionary,
                       int64_t id, int64_t number) noexcept nogil:
    """Encode a message, which is number `number` of its cell."""
    if k.raw and k.encoder.encode_raw(d, position, dictionary, id):
        return 0
    return encode_with_gil(k, d, position, dictionary, id, number)


cdef int put_used(PayloadEncoder k, Shared* one, int64_t start, Fault* fault) noexcept nogil:
    """Append the part of a dictionary that the truncated rows use, and transpose their indices. 1: append all of it."""
    cdef ColumnsData* d = &k.truncator.d
    cdef const FieldPlan* field
    cdef Encoded* encoded
    cdef int64_t elements = 0
    cdef int32_t i
    cdef int found
    for i in range(one.n_fields):
        elements += d.nodes[one.fields[i].field].length
    if one.count <= LARGER * elements:
        return 1
    for i in range(one.n_fields):
        if note_used(&one.used, d, one.fields[i].field, fault) < 0:
            return BAD_COLUMNS
    found = gather_used(&one.used, fault)
    if found < 0:
        return BAD_DICTIONARY
    if found == 0:
        for i in range(one.n_fields):
            encoded = &one.fields[i]
            field = &d.plan.fields[encoded.field]
            if d.nodes[encoded.field].length == 0:
                continue
            if make_room(&encoded.indices, d.nodes[encoded.field].length * field.width) == NULL:
                fail(fault, FAULT_MEMORY)
                return BAD_COLUMNS
            if transpose(d, encoded.field, 0, d.nodes[encoded.field].length, one.used.places, one.count,
                         encoded.indices.data, field.width, INT64_MAX, fault) < 0:
                return BAD_COLUMNS
            d.extents[field.first_buffer + 1].data = encoded.indices.data
        found = encode(k, &one.used.d, k.used - start, True, one.id, one - k.shared + 1)
        if found == 0:
            found = put_message(k)
    forget_used(&one.used)
    return found


cdef int put_dictionaries(PayloadEncoder k, int64_t start, Fault* fault) noexcept nogil:
    """Append the dictionary messages of a cell that begins at `start`."""
    cdef Shared* one
    cdef int32_t i
    cdef int found
    for i in range(k.n_shared):
        one = &k.shared[i]
        found = 1
        if one.used.values != NULL:
            found = put_used(k, one, start, fault)
        if found == 1:
            found = put_bytes(k, k.common.data + one.at, one.size)
        if found < 0:
            k.blamed = i
            return found
    return 0


cdef int encode_cell(PayloadEncoder k, int64_t i, Fault* fault) noexcept nogil:
    """Append cell i."""
    cdef const int64_t* offsets = <const int64_t*> k.offsets.data + i
    cdef int64_t start = k.used
    cdef int found
    if k.truncator.truncate(&k.batch.d, offsets[0], offsets[1] - offsets[0], fault) < 0:
        return BAD_COLUMNS
    if k.careful and refused_field(&k.truncator.d, False) >= 0:
        return BAD_ROWS
    found = put_bytes(k, k.common.data, k.schema_size if k.used_values else k.common.size)
    if found == 0 and k.used_values:
        found = put_dictionaries(k, start, fault)
    if found == 0:
        found = encode(k, &k.truncator.d, k.used - start, False, 0, k.n_shared + 1)
    if found == 0:
        found = put_message(k)
    if found == 0:
        found = put_bytes(k, k.end.data, k.end.size)
    if found == 0 and k.used > INT32_MAX and not k.large:
        found = BAD_SIZE
    return found


cdef inline void put_offset(PayloadEncoder k, int64_t i) noexcept nogil:
    """Store where cell i begins, which is the end of the one before it."""
    if k.large:
        (<int64_t*> k.ends.data)[i] = k.used
    else:
        (<int32_t*> k.ends.data)[i] = <int32_t> k.used


cdef int encode_all(PayloadEncoder k, Fault* fault) noexcept nogil:
    """Append all cells; `k.done` counts those that are complete."""
    cdef int outcome = 0
    put_offset(k, 0)
    while k.done < k.n and outcome == 0:
        outcome = encode_cell(k, k.done, fault)
        if outcome == 0:
            k.done += 1
            put_offset(k, k.done)
    return outcome


# -- arguments -----------------------------------------------------------------------------------------------


cdef RecordBatch one_batch(object data, object schema):
    """Return the argument `batch` as one batch; several are joined."""
    cdef RecordBatch out
    if isinstance(data, RecordBatch):
        return data
    declared, found = batches_of(data, schema)
    batches = list(found)
    if batches:
        return concat_batches(batches)
    if declared is None:
        raise UsageError("encode_payloads: there are no batches, so nothing says what the columns are")
    return RecordBatch.from_pydict({i: [] for i in declared.names}, declared)


cdef Memory read_offsets(object given, int64_t rows):
    """Return offsets as int64; refuse them if they fall or lie outside the batch."""
    cdef Source source = int64_source(given, "offsets")
    cdef int64_t n = source.size // 8, i
    cdef Memory out = int64s(n)
    cdef int64_t* offsets = <int64_t*> out.data
    if n == 0:
        raise UsageError("offsets: expected one entry more than there are payloads, found none")
    # A copy: the caller's memory may change meanwhile.
    memcpy(offsets, source.data, 8 * n)
    for i in range(n):
        if not 0 <= offsets[i] <= rows:
            raise UsageError(f"offsets: entry {i:,} is {offsets[i]:,}, outside the batch of {rows:,} rows")
        if i and offsets[i] < offsets[i - 1]:
            raise UsageError(f"offsets: entry {i:,} is {offsets[i]:,}, lower than {offsets[i - 1]:,} before it")
    return out


cdef Memory regular_offsets(int64_t step, int64_t rows):
    cdef int64_t n = rows // step + (rows % step != 0), i
    cdef Memory out = int64s(n + 1)
    for i in range(n):
        (<int64_t*> out.data)[i] = i * step
    (<int64_t*> out.data)[n] = rows
    return out


cdef tuple key_columns(object group_by, object schema):
    """Ordinals of the key columns."""
    names = [group_by] if isinstance(group_by, str) else items_of("group_by", group_by)
    found = {}      # in their order
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"group_by: expected names of columns, found {described(name)}")
        places = schema.get_all_field_indices(name)
        if len(places) != 1:
            raise UsageError(f"group_by: {len(places) or 'no'} columns are named {name!r}; the batch has "
                             f"{schema.names}")
        if places[0] in found:
            raise UsageError(f"group_by: {name!r} is named twice")
        found[places[0]] = None
    if not found:
        raise UsageError("group_by: expected the name of a column at least")
    return tuple(found)


# -- the public function -------------------------------------------------------------------------------------


def encode_payloads(batch, offsets=None, *, rows_per_payload=None, group_by=None, keep_keys=False, schema=None,
                    with_schema=True, with_end=None, trim_dictionaries=True, large=False, compression=None,
                    compression_level=None, min_space_savings=None, alignment=8, legacy=False,
                    metadata_version="V5", use_threads=True, checksum=False):
    """Encode ranges of rows as the cells of a binary column, each cell an Arrow IPC stream of its own.

    Exactly one of `offsets`, `rows_per_payload` and `group_by` says which rows a payload has.

    Parameters
    ----------
    batch : RecordBatch, or anything that a writer's ``write`` takes
        Several batches are joined first.
    offsets : sequence of int, NumPy array or Array of integers, optional
        Payload ``i`` has the rows ``offsets[i]`` to ``offsets[i + 1]``; there is one more offset than there are
        payloads. They must not fall.
    rows_per_payload : int, optional
        Rows of every payload but the last, which may have fewer.
    group_by : str or sequence of str, optional
        Key columns: neighbouring rows with equal keys are one payload. Equal keys that lie apart give payloads
        of their own, so sort first where that matters. Null equals null, NaN equals NaN, 0.0 equals -0.0.
    keep_keys : bool, default False
        Leave the key columns in the payloads too.
    schema : Schema, or an object with ``__arrow_c_schema__``, optional
        What the payloads declare; needed for a dict of columns. Default: that of `batch`.
    with_schema : bool, default True
        Begin each payload with the Schema message. Without it, a cell is what :func:`read_record_batch` takes
        (dictionary messages first, where there are dictionaries, numbered as :func:`new_stream` numbers them).
    with_end : bool, optional
        End each payload with the end-of-stream marker. Default: as `with_schema`.
    trim_dictionaries : bool, default True
        Where a dictionary has more than twice as many values as a payload has elements, write only those that
        the payload uses, and renumber the indices. Ordered dictionaries, those of nested types, and those that
        other dictionaries refer to, are written whole.
    large : bool, default False
        Return large binary, whose offsets have 64 bits.
    compression, compression_level, min_space_savings, alignment, legacy, metadata_version, use_threads
        As for :func:`new_stream`. Each payload counts for itself: alignment begins with it.
    checksum : bool, default False
        The same. It needs `with_schema` and `with_end`.

    Returns
    -------
    Array or GroupedPayloads
        Binary, without nulls: one cell per payload. With `group_by` a pair, ``payloads`` and ``keys``: the
        array, and a batch of the key columns with one row per payload.

    Raises
    ------
    UsageError
        Offsets that fall or lie outside the batch; columns that are not there; rows that the schema does not
        allow; or payloads that take more than 2**31 - 1 bytes together, without ``large=True``.
    FormatError
        The batch was read with ``validate="none"`` and its contents are broken; the message names payload and
        column.

    Notes
    -----
    A payload has the bytes that :func:`new_stream` writes for the slice, trimmed dictionaries aside. Custom
    metadata of the batch is in each.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.types import field, int64, utf8
    >>> schema = ipc.Schema([field("day", int64()), field("word", utf8())])
    >>> batch = ipc.RecordBatch.from_pydict({"day": [1, 1, 2], "word": ["a", "b", None]}, schema)
    >>> payloads = ipc.encode_payloads(batch, rows_per_payload=2)
    >>> [ipc.open_stream(cell).read_all().num_rows for cell in payloads]
    [2, 1]
    >>> payloads, keys = ipc.encode_payloads(batch, group_by="day")
    >>> keys.to_pydict()
    {'day': [1, 2]}
    >>> [ipc.open_stream(cell).read_all().to_pydict() for cell in payloads]
    [{'word': ['a', 'b']}, {'word': [None]}]
    """
    cdef RecordBatch rows, keys = None
    cdef Memory starts
    cdef PayloadEncoder encoder
    if (offsets is not None) + (rows_per_payload is not None) + (group_by is not None) != 1:
        raise UsageError("encode_payloads: expected one of offsets, rows_per_payload and group_by, found "
                         f"{[each for each in (offsets, rows_per_payload, group_by) if each is not None] or 'none'}")
    with_schema = with_schema is True or check_flag("with_schema", with_schema)
    with_end = with_schema if with_end is None else check_flag("with_end", with_end)
    trim_dictionaries = trim_dictionaries is True or check_flag("trim_dictionaries", trim_dictionaries)
    large = large is not False and check_flag("large", large)
    if checksum and not (with_schema and with_end):
        raise UsageError("encode_payloads: checksum=True is of whole streams, and needs with_schema and with_end")
    declared = None if schema is None else as_schema(schema)
    rows = one_batch(batch, declared)
    if declared is None:
        declared = plan_schema(rows.plan)
    if offsets is not None:
        starts = read_offsets(offsets, rows.d.length)
    elif rows_per_payload is not None:
        each = check_integer("rows_per_payload", rows_per_payload, 1, INT64_MAX)
        if not large and rows.d.length // each > INT32_MAX // LEAST_PAYLOAD:
            raise UsageError(f"{rows.d.length // each:,} payloads take more than {INT32_MAX:,} bytes, which is what "
                             "the offsets of a binary column count to: pass large=True, or fewer rows at a time")
        starts = regular_offsets(each, rows.d.length)
    else:
        check_schema(declared, plan_schema(rows.plan))
        check_native(rows, "encode_payloads(group_by=)")
        columns = key_columns(group_by, declared)
        keys = select_columns(rows, columns)
        starts = find_runs(keys)
        if not check_flag("keep_keys", keep_keys):
            rest = tuple([i for i in range(len(declared)) if i not in columns])
            rows = select_columns(rows, rest)
            declared = (plan_schema(rows.plan) if schema is None
                        else Schema([declared.fields[i] for i in rest], declared.metadata))
    options = WriteOptions({
        "compression": compression, "compression_level": compression_level, "min_space_savings": min_space_savings,
        "alignment": alignment, "legacy": legacy, "metadata_version": metadata_version, "use_threads": use_threads,
        "checksum": checksum,
    })
    encoder = PayloadEncoder(rows, starts, declared, options, with_schema, with_end, trim_dictionaries, large)
    encoder.run()
    if keys is None:
        return encoder.column()
    return GroupedPayloads(encoder.column(), first_rows(keys, <const int64_t*> starts.data, encoder.n))
