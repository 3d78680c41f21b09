"""The dictionaries of one writer: what its reader knows so far, and what the next batch needs before it.

Writer and reader agree when every value of a batch's dictionary equals the value that the reader's dictionary
has at the same index; whether it is the same object, or lies in the same bytes, only saves time.

A batch is decided on as a whole: dictionaries are walked inner before outer, what is to be written is put
together, and only when nothing has raised does any of it become the new state.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from arrowipc._core cimport Columns, DictionaryPlan, Plan, field_name, field_path, raise_fault
from arrowipc.columns.array cimport RecordBatch
from arrowipc.columns.builder cimport FAULT_FULL, ColumnsBuilder, Span, grew_by_deltas, same_memory, set_span
from arrowipc.columns.elements cimport check_native, dictionary_of
from arrowipc.columns.memo_table cimport SPELLED_LEAST, MemoTable, nested_memo_table, new_budget, transpose
from arrowipc.columns.memo_table cimport continues, plainly_continues
from arrowipc.inline.bits cimport largest, load_int
from arrowipc.inline.element cimport index_at
from arrowipc.inline.fault cimport FAULT_OFFSET, Fault, fail
from arrowipc.inline.layouts cimport BUFFER_OFFSETS, LAYOUTS, BufferSpec
from arrowipc.inline.loads cimport get_bit
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_SIGNED, LAYOUT_FIXED_LIST, LAYOUT_SPARSE, LAYOUT_STRUCT, ColumnsData, FieldPlan, Node,
    PlanData,
)
from arrowipc.metadata.schema_reader cimport same_shape
from arrowipc.read.validate cimport index_range

from arrowipc.errors import UsageError

cdef enum:
    MOST_SOURCES = 8        # dictionaries per id whose places in the table are remembered


cdef list encoded_fields(Plan plan):
    cdef int32_t f
    return [f for f in range(plan.d.n_fields) if plan.d.fields[f].flags & FIELD_ENCODED]


cdef Columns no_values(Plan plan):
    return ColumnsBuilder(plan).snapshot()


# -- words ---------------------------------------------------------------------------------------------------


cdef str place_path(tuple place):
    """Dotted path of a field. A place is (place of the dictionary around the field or None, plan, field)."""
    cdef Plan plan = place[1]
    cdef int32_t field = place[2]
    cdef list parts = []
    if place[0] is None:
        return field_path(plan, field)
    # The column of a dictionary's plan is the field that it belongs to.
    while plan.d.fields[field].parent >= 0:
        parts.append(field_name(plan, field))
        field = plan.d.fields[field].parent
    return ".".join([place_path(place[0]), *reversed(parts)])


# -- transposing ----------------------------------------------------------------------------------------------


@cython.auto_pickle(False)
cdef class Indices:
    """Memory for transposed indices, from `calloc`: the rows that are not written out are zeros and cost nothing."""

    cdef uint8_t* data

    def __dealloc__(self):
        free(self.data)


cdef class Transposition:
    """Where the values of one dictionary are in a table."""

    def __cinit__(self):
        self.identity = True

    def __dealloc__(self):
        free(self.places)

    cdef int extend(self, MemoTable table, Columns dictionary, Columns values) except -1:
        cdef int64_t count = dictionary.d.length, room, i
        cdef bint identity = self.identity
        cdef void* moved
        if count > self.room:
            room = max(count, 2 * self.room)
            moved = realloc(self.places, room * sizeof(int64_t))
            if moved == NULL:
                raise MemoryError()
            self.places = <int64_t*> moved
            self.room = room
        table.add(values, self.count, count - self.count, self.places + self.count)
        for i in range(self.count, count):
            identity &= self.places[i] == i
        self.identity = identity
        self.count = count
        self.columns = dictionary
        return 0

    cdef tuple mark(self):
        return self.columns, self.count, self.identity

    cdef int rollback(self, tuple mark) except -1:
        self.columns, self.count, self.identity = mark
        return 0


cdef int check_indices(const ColumnsData* d, int32_t f, const Span* rows, int64_t count,
                       Fault* fault) noexcept nogil:
    """Whether the indices of some rows that are not null lie in a dictionary of `count` values."""
    cdef const uint8_t* bits = d.extents[d.plan.fields[f].first_buffer].data
    cdef int64_t low, high, i
    if not index_range(d, f, rows.start, rows.count, &low, &high) or (low >= 0 and high < count):
        return 0
    for i in range(rows.start, rows.start + rows.count):
        if (bits == NULL or get_bit(bits, i)) and index_at(d, f, i, count, &low, fault) < 0:
            return -1
    return 0


cdef int spread(const ColumnsData* d, int64_t start, int64_t count, Span* spans, Fault* fault) noexcept nogil:
    """Find the elements of every field that rows start .. start + count may use. `spans` are zeros before."""
    cdef const PlanData* p = d.plan
    cdef const FieldPlan* field
    cdef const BufferSpec* offsets
    cdef int64_t first, n
    cdef int32_t i, child, f
    cdef bint in_order
    for i in range(p.n_columns):
        if set_span(d, p.columns[i], start, count, spans, fault) < 0:
            return -1
    for f in range(p.n_fields):
        field = &p.fields[f]
        first = spans[f].start
        n = spans[f].count
        if n == 0:
            continue
        offsets = &LAYOUTS[field.layout].buffers[1]
        # Children of list views, dense unions and runs are used in any order.
        in_order = True
        if field.layout == LAYOUT_FIXED_LIST:
            # No overflow: check_sizes has multiplied for the whole node.
            first *= field.width
            n *= field.width
        elif LAYOUTS[field.layout].n_children == 1 and offsets.kind == BUFFER_OFFSETS:
            n = load_int(d.extents[field.first_buffer + 1].data, first + n, offsets.width)
            first = load_int(d.extents[field.first_buffer + 1].data, first, offsets.width)
            if first < 0 or n < first:
                return fail(fault, FAULT_OFFSET, f, 1, spans[f].start, first, n)
            n -= first
        else:
            in_order = field.layout == LAYOUT_STRUCT or field.layout == LAYOUT_SPARSE
        child = f + 1
        while child < field.end:
            if set_span(d, child, first if in_order else 0, n if in_order else d.nodes[child].length, spans,
                        fault) < 0:
                return -1
            child = p.fields[child].end
    return 0


cdef Columns twin(Columns columns, Plan plan, tuple dictionaries):
    """The same columns again, in tables that may be changed."""
    cdef Columns out = (RecordBatch if type(columns) is RecordBatch else Columns).__new__(
        RecordBatch if type(columns) is RecordBatch else Columns)
    out.share(columns, plan)
    out.dictionaries = dictionaries
    if type(columns) is RecordBatch:
        (<RecordBatch> out).metadata_pairs = (<RecordBatch> columns).metadata_pairs
    return out


cdef int raise_index_fault(const Fault* fault, Columns columns, tuple dictionaries, tuple outer) except -1:
    cdef const FieldPlan* field
    if fault.code != FAULT_FULL:
        return raise_fault(fault, columns.plan, None if outer is None else
                           f"the dictionary of column {place_path(outer)!r}")
    field = &columns.d.plan.fields[fault.field]
    kind = f"{'int' if field.flags & FIELD_SIGNED else 'uint'}{8 * field.width}"
    count = (<Columns> dictionaries[field.dictionary]).d.length
    raise UsageError(f"column {place_path((outer, columns.plan, fault.field))!r}: the unified dictionary has "
                     f"{count:,} values, and indices of type {kind} reach {fault.expected:,}; a wider index "
                     "type is needed")


cdef Columns transposed(Columns columns, Plan plan, list fields, list sources, tuple dictionaries,
                        int64_t start, int64_t count, tuple outer):
    """`columns` with the indices of their encoded `fields` transposed by `sources` (None: all must be null).

    Only rows start .. start + count are; the indices of others mean nothing. The result has `plan`, which is of
    the same shape, and `dictionaries`; a batch in which no index changes is returned itself. `outer`: the place
    of the dictionary that `columns` are, None for a batch.
    """
    cdef Columns out = None
    cdef Transposition source
    cdef Indices indices
    cdef const FieldPlan* field
    cdef const Node* node
    cdef list owners = [columns.owner]
    cdef Fault fault
    cdef int32_t f
    cdef int found
    cdef int64_t i, known
    cdef Span* spans = <Span*> calloc(columns.d.plan.n_fields + 1, sizeof(Span))
    if spans == NULL:
        raise MemoryError()
    try:
        if spread(&columns.d, start, count, spans, &fault) < 0:
            raise_index_fault(&fault, columns, dictionaries, outer)
        for i in range(len(fields)):
            f = fields[i]
            source = sources[i]
            if spans[f].count == 0:
                continue
            # The source may know more values than this dictionary has: the rest came with longer ones.
            known = 0 if source is None else dictionary_of(columns, f).d.length
            if source is None or source.identity:
                found = check_indices(&columns.d, f, &spans[f], known, &fault)
            else:
                if out is None:
                    out = twin(columns, plan, dictionaries)
                field = &columns.d.plan.fields[f]
                node = &columns.d.nodes[f]
                indices = Indices.__new__(Indices)
                indices.data = <uint8_t*> calloc(node.offset + node.length, field.width)
                if indices.data == NULL:
                    raise MemoryError()
                owners.append(indices)
                out.d.extents[field.first_buffer + 1].data = indices.data
                out.d.extents[field.first_buffer + 1].size = (node.offset + node.length) * field.width
                with nogil:
                    found = transpose(&columns.d, f, spans[f].start, spans[f].count, source.places, known,
                                      indices.data + spans[f].start * field.width, field.width,
                                      largest(field.width, (field.flags & FIELD_SIGNED) != 0), &fault)
            if found < 0:
                raise_index_fault(&fault, columns, dictionaries, outer)
    finally:
        free(spans)
    if out is None:
        return columns if outer is None else twin(columns, plan, dictionaries)
    out.owner = tuple(owners)
    return out


# -- what is written -----------------------------------------------------------------------------------------


cdef class Emission:
    """One DictionaryBatch to be written."""


cdef class Brought:
    """A dictionary that the batch at hand has for an id."""


cdef class Written:
    """One dictionary id of the writer, and what went out for it."""

    cdef Columns everything(self):
        """With unify: all values so far."""
        if self.unified is None:
            self.unified = self.table.snapshot()
        return self.unified


cdef Brought brought_by(Columns columns, int32_t field, Written w):
    """What the batch at hand has for an encoded field; None when the field's dictionary has not arrived."""
    cdef Columns found = dictionary_of(columns, field)
    return None if found is None else w.brought[id(found)]


cdef list sources_of(Columns columns, Plan plan, list encoded, tuple written):
    """Where the values of each encoded field are in the tables."""
    cdef list out = []
    cdef Brought one
    cdef int32_t f
    for f in encoded:
        one = brought_by(columns, f, written[plan.d.fields[f].dictionary])
        out.append(None if one is None else one.source)
    return out


cdef class WrittenDictionaries:
    """Decides what goes out before each batch of a writer.

    Parameters
    ----------
    plan : Plan
        Of the writer's schema.
    file : bool
        A file cannot replace a dictionary, and may hold a dictionary behind the batches that use it.
    deltas : bool or None
        A dictionary that begins with the one before it is written as the values that are new. None: where a
        reader got it like that. Streams then hold what their source held: also a dictionary whose inner one was
        replaced stays as it is if the source let it. Files take None for False.
    unify : bool
        Different dictionaries of one id become one, and the batches' indices follow it.
    """

    def __cinit__(self, Plan plan not None, bint file, deltas, bint unify):
        self.plan = plan
        self.file = file
        self.deltas = bool(deltas)
        self.as_came = deltas is None and not file
        self.unify = unify
        self.order = []
        self.budget = new_budget(SPELLED_LEAST, "")
        known = {}
        self.encoded = encoded_fields(plan)
        self.top = tuple([self.enter((<DictionaryPlan> one).values, (<DictionaryPlan> one).id, known)
                          for one in plan.dictionaries])

    cdef Written enter(self, Plan plan, int64_t id, dict known):
        """The one `Written` of an id, behind those that it refers to."""
        cdef Written w = known.get(id)
        if w is None:
            w = known[id] = Written.__new__(Written)
            w.id = id
            w.plan = w.matched = plan
            w.encoded = encoded_fields(plan)
            w.below = tuple([self.enter((<DictionaryPlan> one).values, (<DictionaryPlan> one).id, known)
                             for one in plan.dictionaries])
            w.brought = {}
            w.sources = []
            if self.unify:
                w.table = nested_memo_table(plan, tuple([(<Written> one).table for one in w.below]), self.budget, True)
            self.order.append(w)
        return w

    # -- a batch --

    cdef Columns before(self, Columns batch, list emissions):
        if batch.dictionaries is self.last and batch.plan is self.last_plan and self.last is not None:
            if self.unify:
                return transposed(batch, self.plan, self.encoded, self.sources, self.unified, 0,
                                  batch.d.length, None)
            return batch
        if not self.order:
            return batch
        return self.prepare(batch, emissions)

    cdef Columns prepare(self, Columns batch, list emissions):
        cdef Columns out = batch
        cdef list made = [], sources = None, marks
        cdef tuple unified = None
        cdef Written w
        if batch.plan is not self.last_plan and not same_shape(self.plan, batch.plan):
            raise UsageError("the batch has other columns than the writer's schema")
        check_native(batch, "writing")
        marks = []
        try:
            self.gather(batch, self.encoded, self.top, self.plan, None)
            if self.unify:
                marks = [mark_of(w) for w in self.order if w.brought]
            for w in self.order:
                w.next = w.sent
                w.replaced = w.stale = w.fresh = False
                if self.unify:
                    self.merge(w, made)
                else:
                    self.compare(w, made)
            if self.unify:
                sources = sources_of(batch, self.plan, self.encoded, self.top)
                unified = tuple([w.everything() for w in self.top])
                out = transposed(batch, self.plan, self.encoded, sources, unified, 0, batch.d.length, None)
            emissions.extend(made)
        except BaseException:
            for mark in marks:
                go_back(mark)
            raise
        finally:
            for w in self.order:
                w.brought = {}
        for w in self.order:
            w.sent = w.next
            w.next = None
        self.last_plan = batch.plan
        self.last = batch.dictionaries
        self.sources = sources
        self.unified = unified
        return out

    cdef int gather(self, Columns columns, list encoded, tuple written, Plan plan, tuple outer) except -1:
        """Fill `brought` of every id that `columns` or their dictionaries have a dictionary for.

        `columns` may share dictionaries differently than `plan`, which is the writer's: ids come from `plan`,
        values from `columns`, field by field.
        """
        cdef Columns found
        cdef Written w
        cdef Brought one
        cdef int32_t f
        for f in encoded:
            found = dictionary_of(columns, f)
            w = written[plan.d.fields[f].dictionary]
            if found is None or id(found) in w.brought:
                continue
            if found.plan is not w.matched:
                if not same_shape(w.plan, found.plan):
                    raise UsageError(f"column {place_path((outer, plan, f))!r}: its dictionary has values of "
                                     "another type than the writer's schema")
                w.matched = found.plan
            one = Brought.__new__(Brought)
            one.values = found
            one.place = (outer, plan, f)
            w.brought[id(found)] = one
            if w.below:
                self.gather(found, w.encoded, w.below, w.plan, one.place)
        return 0

    cdef int emit(self, Written w, Columns values, bint delta, list made) except -1:
        cdef Emission e = Emission.__new__(Emission)
        cdef Written one
        e.start = w.sent.d.length if delta else 0
        if values.d.length > e.start:
            for one in w.below:
                if one.next is None:
                    # Held back so far, because nothing refers to it; now the reader may look for it.
                    self.emit(one, no_values(one.plan), False, made)
        e.id = w.id
        e.is_delta = delta
        e.replaces = w.sent is not None and not delta
        e.plan = w.plan
        e.values = values
        made.append(e)
        w.next = values
        w.replaced = e.replaces
        return 0

    # -- dictionaries as they come --

    cdef int compare(self, Written w, list made) except -1:
        """What a dictionary needs when each batch's own one counts."""
        cdef Brought one = longest(w)
        cdef Columns values = None if one is None else one.values, sent = w.sent
        cdef Written inner
        cdef bint below = False
        for inner in w.below:
            below |= inner.replaced or inner.stale
        if below and self.as_came and values is not None and sent is not None and values.d.length >= sent.d.length:
            # A source that pays for the inner dictionary only must not make its copy pay for all around it.
            w.stale = same_memory(values, sent) or grew_by_deltas(values, sent, True)
        if w.stale:
            if values.d.length > sent.d.length:
                self.emit(w, values, True, made)
            w.next = values
        elif values is None or (values.d.length == 0 and sent is None and self.file):
            # The column is all null, or its dictionary is empty. A file holds it back: any later one continues it. In
            # a stream, what the reader has is replaced where it refers to a dictionary that is gone.
            if sent is None and not self.file or sent is not None and below:
                self.emit(w, no_values(w.plan), False, made)
        elif sent is None or below:
            self.emit(w, values, False, made)
        elif values.d.length <= sent.d.length and continues(sent, values):
            if values.d.length == sent.d.length:
                # The next batch probably has the same object, or one that grew out of it.
                w.next = values
        elif values.d.length > sent.d.length and continues(values, sent):
            if self.file and not self.deltas:
                raise UsageError(
                    f"column {place_path(one.place)!r}: its dictionary has grown from {sent.d.length:,} to "
                    f"{values.d.length:,} values, and a file cannot replace a dictionary; pass "
                    "dictionary_deltas=True (the new values are added) or unify_dictionaries=True"
                )
            self.emit(w, values, self.deltas or self.as_came and grew_by_deltas(values, sent, False), made)
        elif self.file:
            raise UsageError(
                f"column {place_path(one.place)!r}: its dictionary has other values than the one that is "
                "written, and a file cannot replace a dictionary; pass unify_dictionaries=True (the indices "
                "then follow one dictionary of all values)"
            )
        else:
            self.emit(w, values, False, made)
        return 0

    # -- one dictionary for all --

    cdef int merge(self, Written w, list made) except -1:
        """What a dictionary needs when all batches share one that grows."""
        cdef tuple below = tuple([(<Written> inner).everything() for inner in w.below])
        cdef Columns whole
        cdef Brought one
        cdef bint replaced = False
        for inner in w.below:
            replaced |= (<Written> inner).replaced
        for one in w.brought.values():
            one.source = self.source(w, one, below)
        if self.file and not self.deltas:
            return 0
        whole = w.everything()
        if w.sent is None:
            if whole.d.length or not self.file:
                self.emit(w, whole, False, made)
        elif replaced:
            self.emit(w, whole, False, made)
        elif whole.d.length > w.sent.d.length:
            self.emit(w, whole, self.deltas or self.as_came and not w.fresh, made)
        return 0

    cdef Transposition source(self, Written w, Brought one, tuple below):
        """Where the values of a dictionary are in the table, which takes in the new ones."""
        cdef Columns dictionary = one.values, to_add = one.values
        cdef int64_t before = w.table.count
        cdef Transposition found = None, known
        cdef bint delta
        for known in w.sources:
            if plainly_continues(dictionary, known.columns) or plainly_continues(known.columns, dictionary):
                found = known
                break
        if found is None:
            found = Transposition()
            if len(w.sources) == MOST_SOURCES:
                w.sources.pop(0)
            w.sources.append(found)
        if found.columns is None or dictionary.d.length > found.count:
            if w.below:
                to_add = transposed(dictionary, w.plan, w.encoded,
                                    sources_of(dictionary, w.plan, w.encoded, w.below), below, found.count,
                                    dictionary.d.length - found.count, one.place)
            delta = found.columns is not None and grew_by_deltas(dictionary, found.columns, False)
            found.extend(w.table, dictionary, to_add)
            if w.table.count > before:
                w.unified = None
                w.fresh |= not delta
            w.table.builder.dictionaries = below
        return found

    # -- the end --

    cdef list at_close(self):
        cdef list made = []
        cdef Written w
        if self.file:
            for w in self.order:
                w.next = w.sent
            for w in self.order:
                if w.next is None:
                    self.emit(w, w.everything() if self.unify else no_values(w.plan), False, made)
            for w in self.order:
                w.sent = w.next
                w.next = None
        return made


cdef Brought longest(Written w):
    """The one dictionary that a batch has for an id, which all others of that batch begin."""
    cdef Brought best = None, one, longer, shorter
    for one in w.brought.values():
        if best is None:
            best = one
            continue
        longer, shorter = (one, best) if one.values.d.length > best.values.d.length else (best, one)
        if not continues(longer.values, shorter.values):
            raise UsageError(
                f"columns {place_path(best.place)!r} and {place_path(one.place)!r} share dictionary {w.id} "
                "and come with different values for it; give them dictionaries of their own, or pass "
                "unify_dictionaries=True"
            )
        best = longer
    return best


cdef tuple mark_of(Written w):
    """What `go_back` needs to undo what a refused batch did to an id."""
    cdef Transposition source
    return w, w.table.mark(), w.unified, [(source, source.mark()) for source in w.sources]


cdef int go_back(tuple mark) except -1:
    cdef Written w = mark[0]
    cdef Transposition source
    w.table.rollback(mark[1])
    w.unified = mark[2]
    w.sources = [source for source, _ in mark[3]]
    for source, state in mark[3]:
        source.rollback(state)
    return 0
