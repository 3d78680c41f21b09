"""One dictionary out of many: each value has one number in it, and indices are transposed to these numbers.

Payload columns and writers use the same `Unifier`: a `MemoTable` numbers the values, a `TransposeMap` keeps the numbers
that the values of one dictionary have. Dictionaries come again and again, or grow: a value that has a number is not
looked up a second time. Where dictionaries refer to dictionaries, the inner ones are unified first, and the indices in
the values of the outer ones are transposed, too.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from arrowipc._core cimport Columns, DictionaryPlan, Plan, field_name, field_path, raise_fault
from arrowipc.columns.builder cimport BEGINS_DELTAS, Span, set_span, span_children
from arrowipc.columns.elements cimport dictionary_of, extent_bytes
from arrowipc.columns.equal cimport begins_with
from arrowipc.columns.record_batch cimport RecordBatch
from arrowipc.distinct.memo_table cimport SPELLED_LEAST, Budget, MemoTable, new_budget
from arrowipc.inline.bits cimport largest, load_int, store_int
from arrowipc.inline.element cimport index_at, validity
from arrowipc.inline.fault cimport FAULT_FULL, FAULT_INDEX, FAULT_MEMORY, Fault, fail
from arrowipc.inline.layouts cimport LAYOUTS
from arrowipc.inline.loads cimport get_bit, unlikely
from arrowipc.inline.minmax cimport integer_bounds
from arrowipc.inline.plan cimport (
    FIELD_ENCODED, FIELD_ORDERED, FIELD_SIGNED, ColumnsData, Extent, FieldPlan, Node, PlanData,
)
from arrowipc.inline.room cimport make_room, new_zeros

from arrowipc.errors import UnsupportedError, UsageError

cdef enum:
    MOST_RECENT = 8     # dictionaries whose numbers are kept
    NUMBER_BYTES = 32   # the bytes that the number of a value takes, in all tables of numbers together


class NotUnified(UsageError):
    """The dictionaries of a column cannot become one."""


# -- indices ----------------------------------------------------------------------------------------------------

cdef struct Move:
    # The arguments of transposing indices from one buffer to another.
    const uint8_t* bits
    const uint8_t* source
    uint8_t* out            # of row `start`
    int64_t start
    int64_t stop
    const int64_t* numbers
    uint64_t count          # values of the dictionary
    int64_t limit           # largest index that may be written
    int64_t mask            # the bits of an index in the word that load_int returns


cdef inline bint move_all(const Move* m, int32_t width, int32_t written) noexcept nogil:
    """Transpose all indices, and return whether all could be."""
    cdef const uint8_t* bits = m.bits
    cdef const uint8_t* source = m.source
    cdef uint8_t* out = m.out
    cdef const int64_t* numbers = m.numbers
    cdef int64_t i, index, number, valid, limit = m.limit, mask = m.mask
    cdef uint64_t count = m.count
    cdef bint wrong = False
    if bits == NULL:
        for i in range(m.start, m.stop):
            index = load_int(source, i, width) & mask
            if unlikely(<uint64_t> index >= count, 0):
                return False
            number = numbers[index]
            wrong |= number > limit
            store_int(out, i - m.start, written, number)
    else:
        # Nulls may be anywhere: a branch would be mispredicted too often.
        for i in range(m.start, m.stop):
            valid = -<int64_t> get_bit(bits, i)
            index = load_int(source, i, width) & mask & valid
            wrong |= <uint64_t> index >= count
            number = numbers[index if <uint64_t> index < count else 0] & valid
            wrong |= number > limit
            store_int(out, i - m.start, written, number)
    return not wrong


cdef int transpose(const ColumnsData* d, int32_t f, int64_t start, int64_t count, const int64_t* numbers,
                   int64_t n_values, uint8_t* out, int32_t width, int64_t limit, Fault* fault) noexcept nogil:
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef bint signed = (field.flags & FIELD_SIGNED) != 0
    cdef Move m
    cdef int64_t i, index
    cdef bint moved
    m.bits = d.extents[field.first_buffer].data
    m.source = d.extents[field.first_buffer + 1].data
    m.out = out
    m.start = start
    m.stop = start + count
    m.numbers = numbers
    m.count = <uint64_t> n_values
    m.limit = limit
    # Unsigned indices of 8 bytes from 2^63 on become negative and are refused.
    m.mask = -1 if signed or field.width == 8 else largest(field.width, False)
    if n_values == 0:
        # There is no number that `move_all` could read for a wrong index or a null: all indices must be null.
        moved = False
        memset(out, 0, count * width)
    elif field.width != width:
        moved = move_all(&m, field.width, width)
    elif width == 4:
        moved = move_all(&m, 4, 4)
    elif width == 1:
        moved = move_all(&m, 1, 1)
    elif width == 2:
        moved = move_all(&m, 2, 2)
    else:
        moved = move_all(&m, 8, 8)
    if moved:
        return 0
    for i in range(m.start, m.stop):
        if m.bits == NULL or get_bit(m.bits, i):
            index = load_int(m.source, i, field.width) & m.mask
            if not 0 <= index < n_values:
                return fail(fault, FAULT_INDEX, f, 1, i, index, n_values)
            if numbers[index] > limit:
                return fail(fault, FAULT_FULL, f, 1, i, numbers[index], limit)
    # Without values, all indices are null. Else the memory has changed since `move_all`: some may not be written.
    return fail(fault, FAULT_INDEX, f, 1, start, n_values, n_values) if n_values else 0


cdef int check_used_indices(const ColumnsData* d, int32_t f, int64_t start, int64_t count, int64_t n_values,
                       Fault* fault) noexcept nogil:
    cdef const FieldPlan* field = &d.plan.fields[f]
    cdef const uint8_t* bits = validity(d, f)
    cdef const uint8_t* p = d.extents[field.first_buffer + 1].data + start * field.width
    cdef int64_t i, index = 0, low = 0, high = 0
    # Nulls mostly have a valid index, too. Unsigned indices from 2^63 on are negative here, and left to the loop.
    if (n_values and integer_bounds(p, field.width, field.flags & FIELD_SIGNED, count, NULL, 0, &low, &high)
            and 0 <= low <= high < n_values):
        return 0
    for i in range(start, start + count):
        if (bits == NULL or get_bit(bits, i)) and index_at(d, f, i, n_values, &index, fault) < 0:
            return -1
    return 0


# -- the indices of columns ----------------------------------------------------------------------------------


cdef str place_path(tuple place):
    cdef Plan plan = place[1]
    cdef int32_t field = place[2]
    cdef list parts = []
    if place[0] is None:
        return field_path(plan, field)
    # The column of a dictionary's plan stands for the field that the dictionary belongs to.
    while plan.d.fields[field].parent >= 0:
        parts.append(field_name(plan, field))
        field = plan.d.fields[field].parent
    return ".".join([place_path(place[0]), *reversed(parts)])


@cython.auto_pickle(False)
cdef class Indices:
    """Memory for transposed indices, from `new_zeros`: the rows that are not written out are zeros and cost nothing."""

    cdef uint8_t* data

    def __dealloc__(self):
        free(self.data)


cdef int find_spans(const ColumnsData* d, int64_t start, int64_t count, Span* spans, Fault* fault) noexcept nogil:
    """Find the elements of every field that rows start .. start + count may use. `spans` are zeros before."""
    cdef const PlanData* p = d.plan
    cdef Span inner
    cdef int32_t i, f
    for i in range(p.n_columns):
        if set_span(d, p.columns[i], start, count, spans, fault) < 0:
            return -1
    for f in range(p.n_fields):
        if (spans[f].count and LAYOUTS[p.fields[f].layout].n_children
                and span_children(d, f, True, spans, &inner, fault) < 0):
            return -1
    return 0


cdef Columns twin(Columns columns, Plan plan, tuple dictionaries):
    """Return the same columns in other tables, which may be changed."""
    cdef Columns out = (RecordBatch if type(columns) is RecordBatch else Columns)()
    out.share(columns, plan)
    out.dictionaries, out.metadata_pairs = dictionaries, columns.metadata_pairs
    return out


cdef int raise_index_fault(const Fault* fault, Columns columns, tuple dictionaries, tuple outer) except -1:
    cdef const FieldPlan* field
    if fault.code != FAULT_FULL:
        return raise_fault(fault, columns.plan, None if outer is None else
                           f"the dictionary of column {place_path(outer)!r}")
    field = &columns.d.plan.fields[fault.field]
    kind = f"{'int' if field.flags & FIELD_SIGNED else 'uint'}{8 * field.width}"
    count = (<Columns> dictionaries[field.dictionary]).d.length
    raise NotUnified(f"column {place_path((outer, columns.plan, fault.field))!r}: the unified dictionary has "
                     f"{count:,} values, and indices of type {kind} reach {fault.expected:,}: cast() "
                     "the columns to a wider index type, or keep the rows in several batches")


cdef Columns transposed(Columns columns, Plan plan, list fields, list maps, tuple dictionaries, int64_t start,
                        int64_t count, tuple outer, Budget budget):
    """Only rows start .. start + count are transposed; other indices have no meaning. The result has `plan`, which is
    of the same shape, and `dictionaries`; a batch in which no index changes is returned itself. `outer`: the place of
    the dictionary that `columns` are, None for a batch. An eighth of the indices' bytes is spent from `budget` (or
    None): children that are used in any order may be rewritten as a whole whenever a delta comes.
    """
    cdef Columns out = None
    cdef TransposeMap map
    cdef Indices indices
    cdef const FieldPlan* field
    cdef const Node* node
    cdef list owners = [columns.owner]
    cdef Fault fault
    cdef int32_t f
    cdef int found
    cdef int64_t i, known
    cdef Span* spans = <Span*> new_zeros(columns.d.plan.n_fields, sizeof(Span))
    try:
        if find_spans(&columns.d, start, count, spans, &fault) < 0:
            raise_index_fault(&fault, columns, dictionaries, outer)
        for i in range(len(fields)):
            f = fields[i]
            map = maps[i]
            if spans[f].count == 0:
                continue
            # The map may have more values than this dictionary: the rest came with longer ones.
            known = 0 if map is None else dictionary_of(columns, f).d.length
            if map is None or map.identity:
                found = check_used_indices(&columns.d, f, spans[f].start, spans[f].count, known, &fault)
            else:
                if budget is not None:
                    budget.spend(spans[f].count * columns.d.plan.fields[f].width >> 3)
                if out is None:
                    out = twin(columns, plan, dictionaries)
                field = &columns.d.plan.fields[f]
                node = &columns.d.nodes[f]
                indices = Indices.__new__(Indices)
                indices.data = <uint8_t*> new_zeros(node.offset + node.length, field.width)
                owners.append(indices)
                out.d.extents[field.first_buffer + 1] = Extent(indices.data, (node.offset + node.length) * field.width)
                with nogil:
                    found = transpose(&columns.d, f, spans[f].start, spans[f].count, map.numbers(), known,
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


# -- the numbers of values -----------------------------------------------------------------------------------


cdef class TransposeMap:
    def __cinit__(self):
        self.identity = self.rising = True

    def __dealloc__(self):
        free(self.room.data)

    cdef const int64_t* numbers(self) noexcept nogil:
        return <const int64_t*> self.room.data

    cdef int add(self, MemoTable table, Columns dictionary, Columns values) except -1:
        cdef int64_t count = dictionary.d.length
        cdef int64_t* numbers = <int64_t*> make_room(&self.room, count * <int64_t> sizeof(int64_t))
        if numbers == NULL:
            raise MemoryError(f"cannot allocate the numbers of {count:,} values")
        table.add(values, self.count, count - self.count, numbers + self.count)
        self.note(count)
        self.dictionary = dictionary
        return 0

    cdef int add_data(self, MemoTable table, const ColumnsData* values, Fault* fault) noexcept nogil:
        cdef int64_t count = values.length
        cdef int64_t* numbers = <int64_t*> make_room(&self.room, count * <int64_t> sizeof(int64_t))
        if numbers == NULL:
            return fail(fault, FAULT_MEMORY)
        if table.add_data(values, self.count, count - self.count, numbers + self.count, fault) < 0:
            return -1
        self.note(count)
        return 0

    cdef void note(self, int64_t count) noexcept nogil:
        """Note that the first `count` values have numbers."""
        cdef const int64_t* numbers = self.numbers()
        cdef bint identity = self.identity, rising = self.rising
        cdef int64_t i
        for i in range(self.count, count):
            identity &= numbers[i] == i
            rising &= i == 0 or numbers[i - 1] <= numbers[i]
        self.identity, self.rising = identity, rising
        self.count = count


cdef class Unifier:
    cdef int check_version(self) except -1:
        if self.version != self.table.version:
            # `restore` has removed values, whose numbers may stand for others by now.
            self.version = self.table.version
            self.recent = []
            self.whole = None
        return 0

    cdef TransposeMap find(self, Columns dictionary):
        """Return the numbers of a recent dictionary that begins with this one, or begins this one; None: none does."""
        cdef TransposeMap known
        cdef Columns longer, shorter
        self.check_version()
        for known in self.recent:
            if known.dictionary is dictionary:
                return known
        for known in self.recent:
            longer, shorter = dictionary, known.dictionary
            if longer.d.length < shorter.d.length:
                longer, shorter = shorter, longer
            if begins_with(longer, shorter):
                return known
        return None

    cdef TransposeMap add(self, Columns dictionary, tuple place):
        cdef TransposeMap found = self.find(dictionary)
        cdef int64_t before
        cdef bint delta = False
        if found is not None and dictionary.d.length <= found.count:
            if dictionary.d.length == found.count:
                found.dictionary = dictionary
            self.check_order(found, place)
            return found
        if found is None:
            found = TransposeMap.__new__(TransposeMap)
        else:
            # Nobody must find the map until all values have numbers: adding them may raise.
            self.recent.remove(found)
            delta = begins_with(dictionary, found.dictionary) == BEGINS_DELTAS
        values = self.to_add(dictionary, found.count, place)
        before = self.table.count
        found.add(self.table, dictionary, values)
        self.check_order(found, place)
        self.fresh = self.fresh or (self.table.count > before and not delta)
        self.recent.insert(0, found)
        del self.recent[MOST_RECENT:]
        return found

    cdef int check_order(self, TransposeMap map, tuple place) except -1:
        """Refuse the dictionary of an ordered field whose values are not in the order of the unified one."""
        if not map.rising and (<Plan> place[1]).d.fields[<int32_t> place[2]].flags & FIELD_ORDERED:
            raise NotUnified(f"column {place_path(place)!r}: its dictionary is ordered, and has its values in another "
                             "order than those before it, or a value twice: decode the values (dictionary_decode(); of "
                             "payloads, dictionaries=\"decode\"), or keep the rows in several batches")
        return 0

    cdef Columns to_add(self, Columns dictionary, int64_t known, tuple place):
        """Return a dictionary for the table: indices in its values are transposed to the unified inner dictionaries."""
        cdef int64_t more = dictionary.d.length - known
        cdef Columns below
        cdef list maps = []
        if extent_bytes(&dictionary.d) < dictionary.d.length and not self.table.earns:
            # Values may take no bytes at all, but their numbers take some.
            self.table.budget.spend(NUMBER_BYTES * more)
        if not self.below:
            return dictionary
        for f in self.encoded:
            below = dictionary_of(dictionary, f)
            maps.append(None if below is None else (<Unifier> self.below[self.plan.d.fields[f].dictionary]).add(
                below, (place, self.plan, f)))
        return transposed(dictionary, self.plan, self.encoded, maps,
                          tuple([(<Unifier> inner).values() for inner in self.below]), known, more, place,
                          None if self.table.earns else self.table.budget)

    cdef Columns values(self):
        cdef tuple below = tuple([(<Unifier> inner).values() for inner in self.below])
        self.check_version()
        if (self.whole is None or self.whole.d.length != self.table.count
                or any(new is not old for new, old in zip(below, self.whole.dictionaries))):
            self.table.builder.dictionaries = below
            self.whole = self.table.snapshot()
        return self.whole


cdef list encoded_fields(Plan plan):
    cdef int32_t f
    return [f for f in range(plan.d.n_fields) if plan.d.fields[f].flags & FIELD_ENCODED]


cdef Unifier new_unifier(Plan plan, tuple below, Budget budget, bint earns):
    cdef Unifier unifier = Unifier.__new__(Unifier)
    cdef MemoTable table
    unifier.plan = plan
    unifier.encoded = encoded_fields(plan)
    unifier.below = below
    unifier.recent = []
    unifier.table = table = MemoTable(plan)
    table.below = tuple([(<Unifier> inner).table for inner in below])
    table.budget, table.earns = budget, earns
    table.spelled.left = &budget.left
    return unifier


cdef Unifier unifier_of(DictionaryPlan dictionary, dict known, Budget budget, bint earns):
    if dictionary.id not in known:
        below = tuple([unifier_of(inner, known, budget, earns) for inner in dictionary.values.dictionaries])
        known[dictionary.id] = new_unifier(dictionary.values, below, budget, earns)
    return known[dictionary.id]


def unify(tuple pieces, set ordinals):
    """Return the columns with indices into one dictionary of distinct values for each of `ordinals`.

    Also returns these dictionaries, by ordinal: columns whose indices did not have to change keep their own ones.
    """
    cdef Plan plan = (<Columns> pieces[0]).plan
    cdef Budget budget = new_budget(SPELLED_LEAST, "")
    cdef Columns piece, found
    cdef Unifier unifier
    cdef int32_t f
    cdef list out = [], maps = [[] for _ in pieces]
    cdef list fields = [f for f in encoded_fields(plan) if plan.d.fields[f].dictionary in ordinals]
    cdef dict known = {}, joined
    cdef tuple place, dictionaries
    try:
        for f in fields:
            unifier = unifier_of(plan.dictionaries[plan.d.fields[f].dictionary], known, budget, True)
            place = (None, plan, f)
            for piece, numbers in zip(pieces, maps):
                found = dictionary_of(piece, f)
                (<list> numbers).append(None if found is None else unifier.add(found, place))
        joined = {ordinal: unifier_of(plan.dictionaries[ordinal], known, budget, True).values()
                  for ordinal in ordinals}
        dictionaries = tuple([joined.get(ordinal) for ordinal in range(len(plan.dictionaries))])
        for piece, numbers in zip(pieces, maps):
            out.append(transposed(piece, piece.plan, fields, numbers, dictionaries, 0, piece.d.length, None, None))
        return tuple(out), joined
    except NotUnified as error:
        raise UnsupportedError(str(error)) from None
