"""The dictionaries of one writer: what its reader knows so far, and what the next batch needs before it.

Writer and reader agree when every value of a batch's dictionary equals the value that the reader's dictionary
has at the same index; whether it is the same object, or lies in the same bytes, only saves time.

Each batch is decided on as a whole: dictionaries are visited inner before outer, the messages to write are
collected, and only if nothing has raised do they become the new state.
"""

from libc.stdint cimport int32_t, int64_t

from arrowipc._core cimport Columns, DictionaryPlan, Plan
from arrowipc.columns.builder cimport BEGINS_DELTAS, ColumnsBuilder, begins_with_snapshot
from arrowipc.columns.elements cimport check_native, dictionary_of
from arrowipc.columns.equal cimport begins_with
from arrowipc.distinct.memo_table cimport SPELLED_LEAST, new_budget
from arrowipc.distinct.unifier cimport encoded_fields, new_unifier, place_path, transposed
from arrowipc.metadata.schema_reader cimport same_shape

from arrowipc.errors import UsageError


cdef Columns no_values(Plan plan):
    return ColumnsBuilder(plan).snapshot()


cdef bint same_memory(Columns a, Columns b):
    """Return whether both have the same elements in the same memory; dictionaries below them are not compared."""
    cdef int32_t i
    if (a.owner is not b.owner or a.plan is not b.plan or a.d.length != b.d.length
            or a.d.n_extents != b.d.n_extents):
        return False
    for i in range(a.d.n_extents):
        if a.d.extents[i].data != b.d.extents[i].data or a.d.extents[i].size != b.d.extents[i].size:
            return False
    for i in range(a.plan.d.n_fields):
        if a.d.nodes[i].offset != b.d.nodes[i].offset or a.d.nodes[i].length != b.d.nodes[i].length:
            return False
    return True


cdef class WrittenDictionaries:
    """Decides which dictionaries are written before each batch of a writer.

    A file cannot replace a dictionary, and may hold one behind the batches that use it. With `deltas`, a dictionary
    that begins with the one before it is written as its new values only; None: only if a reader got it as a delta, so
    that streams hold what their source held, also a dictionary whose inner one was replaced. In files None is False.
    With `unify`, different dictionaries of one id become one, and the batches' indices are transposed to it.
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
        self.top = tuple([self.add_written((<DictionaryPlan> one).values, (<DictionaryPlan> one).id, known)
                          for one in plan.dictionaries])

    cdef Written add_written(self, Plan plan, int64_t id, dict known):
        """Return the one `Written` of an id, which is put into `order` behind those that it refers to."""
        cdef Written w = known.get(id)
        if w is None:
            w = known[id] = Written.__new__(Written)
            w.id = id
            w.plan = w.matched = plan
            w.encoded = encoded_fields(plan)
            w.below = tuple([self.add_written((<DictionaryPlan> one).values, (<DictionaryPlan> one).id, known)
                             for one in plan.dictionaries])
            w.brought = {}
            if self.unify:
                w.unifier = new_unifier(plan, tuple([(<Written> one).unifier for one in w.below]), self.budget, True)
            self.order.append(w)
        return w

    # -- a batch --

    cdef Columns before(self, Columns batch, list emissions):
        if batch.dictionaries is self.last and batch.plan is self.last_plan and self.last is not None:
            if self.unify:
                return transposed(batch, self.plan, self.encoded, self.maps, self.unified, 0, batch.d.length, None,
                                  None)
            return batch
        if not self.order:
            return batch
        return self.prepare(batch, emissions)

    cdef Columns prepare(self, Columns batch, list emissions):
        cdef Columns out = batch, found
        cdef list made = [], maps = None
        cdef tuple unified = None
        cdef Written w
        cdef int32_t f
        if batch.plan is not self.last_plan and not same_shape(self.plan, batch.plan):
            raise UsageError("the batch has other columns than the writer's schema")
        check_native(batch, "writing")
        for w in self.order:
            if self.unify:
                w.unifier.table.save()
        try:
            self.gather(batch, self.encoded, self.top, self.plan, None)
            for w in self.order:
                w.next = w.sent
                w.replaced = w.stale = False
                if self.unify:
                    self.merge(w, made)
                else:
                    self.compare(w, made)
            if self.unify:
                maps = []
                for f in self.encoded:
                    # Take the numbers of a dictionary's values; None if it has not arrived.
                    w, found = self.top[self.plan.d.fields[f].dictionary], dictionary_of(batch, f)
                    maps.append(None if found is None else (<Brought> w.brought[id(found)]).map)
                unified = tuple([w.unifier.values() for w in self.top])
                out = transposed(batch, self.plan, self.encoded, maps, unified, 0, batch.d.length, None, None)
            emissions.extend(made)
        except BaseException:
            for w in self.order:
                if self.unify:
                    w.unifier.table.restore()
            raise
        finally:
            for w in self.order:
                w.brought = {}
        for w in self.order:
            w.sent = w.next
            w.next = None
        self.last_plan = batch.plan
        self.last = batch.dictionaries
        self.maps = maps
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
                    # It was held back so far, because nothing referred to it; now the reader may look it up.
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
        """Decide what is written for a dictionary if each batch has its own one."""
        cdef Brought one = longest(w)
        cdef Columns values = None if one is None else one.values, sent = w.sent
        cdef Written inner
        cdef bint below = False
        for inner in w.below:
            below |= inner.replaced or inner.stale
        if below and self.as_came and values is not None and sent is not None and values.d.length >= sent.d.length:
            # If the source has written only a new inner dictionary, its copy must not write all around it again.
            w.stale = same_memory(values, sent) or begins_with_snapshot(values, sent) == BEGINS_DELTAS
        if w.stale:
            if values.d.length > sent.d.length:
                self.emit(w, values, True, made)
            w.next = values
        elif values is None or (values.d.length == 0 and sent is None and self.file):
            # The column is all null, or its dictionary is empty. A file holds the dictionary back: any later one
            # continues it. In a stream, the reader's dictionary is replaced if one that it refers to was replaced.
            if sent is None and not self.file or sent is not None and below:
                self.emit(w, no_values(w.plan), False, made)
        elif sent is None or below:
            self.emit(w, values, False, made)
        elif values.d.length <= sent.d.length and begins_with(sent, values):
            if values.d.length == sent.d.length:
                # The next batch probably has the same object, or one that grew out of it.
                w.next = values
        elif values.d.length > sent.d.length and begins_with(values, sent):
            if self.file and not self.deltas:
                raise UsageError(
                    f"column {place_path(one.place)!r}: its dictionary has grown from {sent.d.length:,} to "
                    f"{values.d.length:,} values, and a file cannot replace a dictionary; pass "
                    "dictionary_deltas=True (the new values are added) or unify_dictionaries=True"
                )
            self.emit(w, values, self.deltas or self.as_came and begins_with(values, sent) == BEGINS_DELTAS, made)
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
        """Decide what is written for a dictionary if all batches share one that grows."""
        cdef Columns whole
        cdef Brought one
        cdef bint replaced = False
        for inner in w.below:
            replaced |= (<Written> inner).replaced
        w.unifier.fresh = False
        for one in w.brought.values():
            one.map = w.unifier.add(one.values, one.place)
        if self.file and not self.deltas:
            return 0
        whole = w.unifier.values()
        if w.sent is None:
            if whole.d.length or not self.file:
                self.emit(w, whole, False, made)
        elif replaced:
            self.emit(w, whole, False, made)
        elif whole.d.length > w.sent.d.length:
            self.emit(w, whole, self.deltas or self.as_came and not w.unifier.fresh, made)
        return 0

    # -- the beginning and the end --

    cdef int know(self, Columns batch) except -1:
        cdef Written w
        cdef Brought one
        cdef int count = 0
        check_native(batch, "appending")
        self.gather(batch, self.encoded, self.top, self.plan, None)
        for w in self.order:
            # An empty dictionary counts as written: only those that `batch` does not have are still to be written.
            one = longest(w)
            w.sent = None if one is None else one.values
            count += one is not None
            for one in w.brought.values() if self.unify else ():
                if not w.unifier.add(one.values, one.place).identity:
                    raise UsageError(f"append: dictionary {w.id} has a value twice, so that it cannot be merged with "
                                     "others: leave unify_dictionaries out")
            w.brought = {}
        return count

    cdef list at_close(self):
        cdef list made = []
        cdef Written w
        if self.file:
            for w in self.order:
                w.next = w.sent
            for w in self.order:
                if w.next is None:
                    self.emit(w, w.unifier.values() if self.unify else no_values(w.plan), False, made)
            for w in self.order:
                w.sent = w.next
                w.next = None
        return made


cdef Brought longest(Written w):
    """Return the longest dictionary that a batch has for an id; it must begin with each of the others."""
    cdef Brought best = None, one, longer, shorter
    for one in w.brought.values():
        if best is None:
            best = one
            continue
        longer, shorter = (one, best) if one.values.d.length > best.values.d.length else (best, one)
        if not begins_with(longer.values, shorter.values):
            raise UsageError(
                f"columns {place_path(best.place)!r} and {place_path(one.place)!r} share dictionary {w.id} "
                "and come with different values for it; give them dictionaries of their own, or pass "
                "unify_dictionaries=True"
            )
        best = longer
    return best
