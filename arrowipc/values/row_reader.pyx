"""Access to rows by number, in batches that are loaded when they are needed: for tables, readers and data sets."""

cimport cython
from cpython.list cimport PyList_GET_ITEM
from cpython.number cimport PyNumber_Index
from cpython.ref cimport PyObject
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t
from libc.string cimport memset

from arrowipc._core cimport Columns, Memory, Plan, Source, field_name
from arrowipc.columns.elements cimport (
    AS_BACKED, Quota, check_native, pause_collector, quota, read_values, resume_collector,
)
from arrowipc.columns.record_batch cimport RecordBatch, slice_batch
from arrowipc.columns.take cimport (
    alone, int64_source, number_rows, take_numbers, take_pieces, with_nulls, without_nulls,
)
from arrowipc.inline.gather cimport AHEAD, Homes, find_homes, write_runs
from arrowipc.inline.loads cimport add_overflows, loose_i64, prefetch
from arrowipc.inline.plan cimport Extent, Node
from arrowipc.inline.threads cimport in_order
from arrowipc.maps.file_maps cimport MappedBody
from arrowipc.metadata.schema_reader cimport same_shape

from arrowipc.columns.array import clip
from arrowipc.columns.record_batch import concat_batches
from arrowipc.columns.take import take_indices
from arrowipc.errors import ArrowIpcError, FormatError, LimitError, NotFoundError, UsageError

cdef extern from "Python.h":
    PyObject** PySequence_Fast_ITEMS(object)

cdef struct BatchState:
    # The state of one batch.
    int64_t call        # number of the last call that needed it
    int64_t size        # bytes that it keeps, while it is in the queue; else 0
    int64_t taken       # rows taken since it was last released
    int64_t queued      # while it is in the queue: number of the last call when it was put at the end
    int32_t next        # while it is in the queue: the batch behind it
    int32_t piece       # its number among the batches of `call`


cdef int open_homes(Homes* homes, int64_t* firsts, int64_t count, Memory known) except -1:
    """Make the table, in `known`, for batches that begin at rows `firsts`; firsts[count] is the number of all rows."""
    cdef int64_t b
    cdef int32_t low = 0
    homes[0] = Homes(firsts, count, NULL, 0)
    while firsts[count] >> homes.shift > 4 * count:
        homes.shift += 1
    known.reserve(((firsts[count] >> homes.shift) + 2) * sizeof(int32_t))
    homes.known = <int32_t*> known.data
    with nogil:
        for b in range((firsts[count] >> homes.shift) + 2):
            while low < count - 1 and firsts[low + 1] <= b << homes.shift:
                low += 1
            homes.known[b] = low
    return 0


cdef object first_owner(Columns columns):
    """The owner of the message's bytes; after decompression it is the first in a tuple of owners."""
    cdef object owner = columns.owner
    while type(owner) is tuple and owner:
        owner = owner[0]
    return owner


cdef int64_t own_bytes(Columns columns) except -1:
    """Bytes of the buffers that only these columns keep alive: not those in a mapped file or in a caller's memory."""
    cdef object owner = first_owner(columns)
    cdef Source lent = None
    cdef int64_t total = 0
    cdef int32_t i
    if type(owner) is MappedBody:
        owner = (<MappedBody> owner).source
    if type(owner) is Source and type(<object> (<Source> owner).view.obj) is not Memory:
        lent = owner
    for i in range(columns.d.n_extents):
        if lent is None or not lent.data <= columns.d.extents[i].data < lent.data + lent.size:
            total += columns.d.extents[i].size
    return total


cdef bint sort_rows(int64_t* out, int64_t* begins, int64_t* moved, const int64_t* rows, const int32_t* homes, int64_t n,
                    int64_t m) noexcept nogil:
    """Sort rows by batch into `out`; write where the rows of each of `m` batches begin, and each row's new place.

    Return whether the rows were sorted already.
    """
    cdef bint in_order = True
    cdef int64_t i
    memset(begins, 0, (m + 1) * sizeof(int64_t))
    for i in range(n):
        begins[homes[i]] += 1
    for i in range(1, m + 1):
        begins[i] += begins[i - 1]
    for i in range(n - 1, -1, -1):
        begins[homes[i]] -= 1
        moved[i] = begins[homes[i]]
        in_order &= moved[i] == i
        out[moved[i]] = rows[i]
    return in_order


cdef class RowReader:
    """Rows of record batches of one schema; they are numbered through all batches.

    Batch `i` has ``lengths[i]`` rows, and ``load(i)`` returns it. The batches that were used last are kept, up to
    `cache_bytes`, and at least one; bytes in a mapped file or in a caller's memory are not counted. ``expect`` is
    called with a list of the batches that will be loaded next. Any number of threads may use a reader at the same time.
    """

    cdef object load, expect
    cdef Homes homes
    cdef Memory firsts, known, state_memory
    cdef BatchState* states
    cdef list batches           # the batches that are kept; None for the others
    cdef int32_t oldest
    cdef int32_t newest
    cdef int64_t kept_bytes
    cdef int64_t cache_bytes
    cdef int64_t calls
    cdef Plan plan              # of the first batch that was loaded; else None
    cdef tuple dictionaries     # of the last batch that was loaded
    cdef tuple names            # of the columns; None before the first call of `row`

    def __cinit__(self, lengths, load, *, int64_t cache_bytes=64 << 20, expect=None):
        cdef Source given = int64_source(lengths, "lengths")
        cdef int64_t count = given.size // 8, i, length
        cdef int64_t* firsts
        if count >= INT32_MAX:
            raise LimitError(f"{count:,} batches are more than can be counted through")
        self.load, self.expect, self.cache_bytes = load, expect, cache_bytes
        self.firsts, self.known, self.state_memory = Memory((count + 1) * 8), Memory(), Memory()
        self.state_memory.reserve(count * sizeof(BatchState))
        self.states = <BatchState*> self.state_memory.data
        if count:
            memset(self.states, 0, count * sizeof(BatchState))
        firsts = <int64_t*> self.firsts.data
        firsts[0] = 0
        for i in range(count):
            length = (<const loose_i64*> given.data)[i]
            if length < 0 or add_overflows(firsts[i], length, &firsts[i + 1]):
                raise LimitError(f"batch {i} cannot have {length} rows after {firsts[i]}")
        open_homes(&self.homes, firsts, count, self.known)
        self.batches = [None] * count
        self.oldest = self.newest = -1

    @property
    def num_rows(self):
        """int: of all batches."""
        return self.homes.firsts[self.homes.count]

    # -- batches --

    cdef RecordBatch fetch(self, int32_t b):
        """Load a batch, and keep it; another thread may have loaded and kept the same batch meanwhile."""
        cdef RecordBatch batch = <RecordBatch?> self.load(b)
        cdef int64_t length = self.homes.firsts[b + 1] - self.homes.firsts[b]
        if batch is None or batch.d.length != length:
            found = "nothing" if batch is None else f"{batch.d.length} rows"
            raise FormatError(f"batch {b}: expected the {length} rows that its reader said before, found {found}")
        with cython.critical_section(self):
            self.keep(batch, b)
        return batch

    cdef int hold(self, list batches) except -1:
        """Take a new list of all batches, which have the lengths that the reader knows, and are not counted."""
        cdef int32_t b
        for b in range(self.homes.count):
            self.check_shape(<RecordBatch?> batches[b], b)
        self.batches = batches
        return 0

    cdef int check_shape(self, RecordBatch batch, int32_t b) except -1:
        if self.plan is None:
            self.plan = batch.plan
        elif batch.plan is not self.plan and not same_shape(batch.plan, self.plan):
            raise UsageError(f"batch {b} has other types than the batches before it")
        return 0

    cdef int keep(self, RecordBatch batch, int32_t b) except -1:
        cdef int64_t size
        self.check_shape(batch, b)
        # Count the tables and objects, too: there may be many batches of a mapped file, whose buffers do not count.
        size = 256 + batch.d.plan.n_fields * <int64_t> sizeof(Node) + batch.d.n_extents * <int64_t> sizeof(Extent)
        size += own_bytes(batch)
        if batch.dictionaries is not self.dictionaries:
            for dictionary in batch.dictionaries:
                if dictionary is not None and dictionary not in (self.dictionaries or ()):
                    size += own_bytes(dictionary)
            self.dictionaries = batch.dictionaries
        if self.batches[b] is None:
            self.batches[b] = batch
        if self.states[b].size == 0:
            self.states[b].size = size
            self.kept_bytes += size
            self.enqueue(b)
            self.make_room(b)
        return 0

    cdef void enqueue(self, int32_t b) noexcept:
        if self.oldest < 0:
            self.oldest = b
        else:
            self.states[self.newest].next = b
        self.newest = b
        self.states[b].queued = self.calls

    cdef int make_room(self, int32_t b) except -1:
        """Evict batches until the cache fits: oldest first, but one used since it was queued is queued again.

        So the use of a batch changes nothing in the queue. Batch `b` stays.
        """
        cdef int32_t first
        while self.kept_bytes > self.cache_bytes and self.oldest != self.newest:
            first = self.oldest
            self.oldest = self.states[first].next
            if first == b or self.states[first].call > self.states[first].queued:
                self.enqueue(first)
            else:
                self.kept_bytes -= self.states[first].size
                self.states[first].size = 0
                self.batches[first] = None
        return 0

    cdef int release_taken(self, RecordBatch batch, int32_t b) except -1:
        """Release a mapped batch once as many rows as it has were taken: later rows rarely need its pages."""
        if self.states[b].taken >= batch.d.length and type(first_owner(batch)) is MappedBody:
            self.batches[b], self.states[b].taken = None, 0
        return 0

    cdef RecordBatch batch(self, int32_t b, int64_t rows):
        """Return a batch, loaded if necessary; `rows` of its rows will be taken."""
        cdef RecordBatch batch
        with cython.critical_section(self):
            batch = <RecordBatch> self.batches[b]
            self.calls += 1
            self.states[b].call = self.calls
        if batch is None:
            batch = self.fetch(b)
        self.states[b].taken += rows
        self.release_taken(batch, b)
        return batch

    cdef int announce(self, list numbers) except -1:
        if self.expect is not None and numbers:
            self.expect(numbers)
        return 0

    # -- rows --

    def take(self, rows):
        """Return rows in any order and number, as one batch; negative ones count from the end, None is a null row."""
        cdef Memory positions
        rows, positions = without_nulls(rows)
        taken = self.take_valid(rows)
        return taken if positions is None else with_nulls(taken, positions)

    cdef RecordBatch take_valid(self, object rows):
        cdef Source index = int64_source(rows, "take")
        cdef int64_t n = index.size // 8, size = 0, lacking = 0, call, i
        cdef Memory numbers = Memory(n * 8), homes = Memory(n * 4), order = Memory(min(n, self.homes.count) * 4)
        cdef int32_t* home = <int32_t*> homes.data
        cdef int32_t* wanted = <int32_t*> order.data
        cdef int32_t m = 0, b
        cdef BatchState* state
        cdef RecordBatch batch
        cdef list held = [], absent
        number_rows(<int64_t*> numbers.data, index, self.homes.firsts[self.homes.count], True, NotFoundError, "take")
        if n == 0 and self.homes.count == 0:
            raise UsageError("take: there is no batch to tell which columns there are")
        if n == 0:
            return alone(take_numbers(self.batch(0, 0), [], True, IndexError, "take"))
        with nogil:
            find_homes(&self.homes, home, <const int64_t*> numbers.data, n)
        with cython.critical_section(self):
            # No Python code runs in this loop: a call of another thread in between would change `piece` of the batches.
            self.calls += 1
            call = self.calls
            for i in range(n):
                if i + AHEAD < n:
                    prefetch(&self.states[home[i + AHEAD]])
                state = &self.states[home[i]]
                if state.call != call:
                    prefetch(PySequence_Fast_ITEMS(self.batches) + home[i])
                    state.call, state.piece, wanted[m] = call, m, home[i]
                    m += 1
                home[i] = state.piece
                state.taken += 1
            for i in range(m):
                if i + AHEAD < m:
                    prefetch(<const void*> PyList_GET_ITEM(self.batches, wanted[i + AHEAD]))
                batch = <RecordBatch> PyList_GET_ITEM(self.batches, wanted[i])
                held.append(batch)
                lacking += batch is None
                size += self.states[wanted[i]].size if batch is not None else 0
        if lacking:
            absent = sorted([(wanted[i], i) for i in range(m) if held[i] is None])
            self.announce([number for number, _ in absent])
            for at, (number, i) in enumerate(absent):
                if size > self.cache_bytes:
                    return alone(self.take_apart(held, absent[at:], wanted, <int64_t*> numbers.data, home, n))
                b = number
                held[i] = self.fetch(b)
                size += self.states[b].size
        for i in range(m):
            self.release_taken(<RecordBatch> PyList_GET_ITEM(held, i), wanted[i])
        return alone(self.gather(held, wanted, <int64_t*> numbers.data, home, n))

    cdef RecordBatch gather(self, list held, const int32_t* wanted, int64_t* rows, int32_t* homes, int64_t n):
        """Take rows, numbered through all batches, from the batches in `held`, whose numbers are `wanted`."""
        cdef int64_t m = len(held), at = 0, i
        cdef Memory moves = Memory(m * 8)
        cdef int64_t* move = <int64_t*> moves.data
        cdef RecordBatch found
        for i in range(m):
            move[i] = at - self.homes.firsts[wanted[i]]
            at += (<RecordBatch> PyList_GET_ITEM(held, i)).d.length
        for i in range(n):
            rows[i] += move[homes[i]]
        found = take_pieces(held, rows, homes, n, write_runs(NULL, rows, homes, n))
        if found is not None:
            return found
        for i in range(n):
            rows[i] -= move[homes[i]]
        return self.take_apart(held, [], wanted, rows, homes, n)

    cdef RecordBatch take_apart(self, list held, list absent, const int32_t* wanted, const int64_t* rows,
                                const int32_t* homes, int64_t n):
        """Like `gather`, but for any layout and any number of batches: it takes batch by batch, `absent` ones last.

        All rows of one batch are taken together; at the end the rows are put into the order that was asked for.
        """
        cdef int64_t m = len(held), i
        cdef Memory sorted_rows = Memory(n * 8), begins = Memory((m + 1) * 8), moved = Memory(n * 8)
        cdef list parts = [None] * m
        cdef bint in_order
        cdef int32_t b
        moved.size = n * 8
        in_order = sort_rows(<int64_t*> sorted_rows.data, <int64_t*> begins.data, <int64_t*> moved.data, rows, homes,
                             n, m)
        for i in range(m):
            if held[i] is not None:
                parts[i] = self.part(held[i], wanted[i], <int64_t*> sorted_rows.data, <int64_t*> begins.data + i)
                held[i] = None
        for number, i in absent:
            b = number
            parts[i] = self.part(self.fetch(b), b, <int64_t*> sorted_rows.data, <int64_t*> begins.data + i)
        found = concat_batches(parts)
        del parts
        return found if in_order else take_numbers(found, moved, False, IndexError, "take")

    cdef RecordBatch part(self, RecordBatch batch, int32_t b, int64_t* rows, const int64_t* begins):
        """Take the rows of one batch: rows[begins[0]:begins[1]]."""
        cdef int64_t n = begins[1] - begins[0], i
        for i in range(begins[0], begins[1]):
            rows[i] -= self.homes.firsts[b]
        return take_pieces([batch], rows + begins[0], NULL, n, write_runs(NULL, rows + begins[0], NULL, n))

    def row(self, i, *, extensions=None):
        """Return one row as a dict; `extensions` as for `RecordBatch.to_pydict`."""
        cdef int64_t total = self.homes.firsts[self.homes.count], number, at
        cdef int32_t b, k, f
        cdef RecordBatch batch
        cdef dict out = {}
        cdef Quota q
        cdef bint running
        index = PyNumber_Index(i)
        if not -total <= index < total:
            raise NotFoundError(f"row: {index} is not one of the {total} rows")
        number = index
        number += total if number < 0 else 0
        find_homes(&self.homes, &b, &number, 1)
        at = number - self.homes.firsts[b]
        batch = self.batch(b, 1)
        check_native(batch, "conversion to Python values")
        names = self.names
        if names is None:
            names = tuple([field_name(batch.plan, batch.d.plan.columns[k]) for k in range(batch.d.plan.n_columns)])
            if len(set(names)) < len(names):
                raise UsageError("row would lose columns whose name occurs twice; take it as a batch")
            in_order()
            with cython.critical_section(self):
                self.names = self.names or names
        q = quota(AS_BACKED, extensions)
        running = pause_collector()
        try:
            for k in range(batch.d.plan.n_columns):
                f = batch.d.plan.columns[k]
                values = read_values(q, batch, f, batch.d.nodes[f].offset + at, 1)
                out[(<tuple> names)[k]] = <object> PyList_GET_ITEM(values, 0)
        finally:
            resume_collector(running)
        return out

    def slice(self, offset=0, length=None):
        """Return rows ``[offset, offset + length)``, as far as they exist, as a list of batches, without copying."""
        cdef int64_t total = self.homes.firsts[self.homes.count], start, stop, at, rows
        cdef int64_t* firsts = self.homes.firsts
        cdef int32_t b
        cdef RecordBatch batch
        cdef list out = [], numbers = []
        start, rows = clip(offset, length, total)
        stop = start + rows
        if start == stop:
            return []
        find_homes(&self.homes, &b, &start, 1)
        while firsts[b] < stop:
            if firsts[b] < firsts[b + 1]:
                numbers.append(b)
            b += 1
        self.announce([number for number in numbers if self.batches[number] is None])
        for number in numbers:
            b = number
            at = max(start - firsts[b], 0)
            rows = min(stop, firsts[b + 1]) - firsts[b] - at
            batch = self.batch(b, rows)
            out.append(batch if rows == batch.d.length else slice_batch(batch, at, rows))
        return out


def take_across(list pieces, indices, as_batches=None):
    """Take rows, numbered through all pieces, of one schema; return a list of one batch, or an empty one.

    `as_batches` makes batches of a list of pieces if these are no batches. It is called only for pieces with a row in
    `indices`, unless there are as many indices as pieces.
    """
    cdef Source index
    cdef Memory numbers, positions
    cdef RowReader reader
    if as_batches is None:
        as_batches = list
    if len(pieces) == 1:
        return [take_indices(as_batches(pieces)[0], indices)]
    indices, positions = without_nulls(indices)
    index = int64_source(indices, "take")
    if not pieces:
        numbers = Memory(index.size)
        number_rows(<int64_t*> numbers.data, index, 0, True, IndexError, "take")
        return []
    taken, lengths = None, list(map(len, pieces))
    if index.size // 8 >= sum(lengths) // 4:
        # Looking up each row's batch takes longer than copying all batches.
        try:
            taken = take_indices(concat_batches(as_batches(pieces)), indices)
        except ArrowIpcError:
            pass    # the pieces do not fit one batch, or rows that are not asked for are invalid
    if taken is None:
        reader = RowReader(lengths, lambda i: as_batches([pieces[i]])[0], cache_bytes=INT64_MAX)
        if index.size // 8 >= len(pieces):
            reader.hold(as_batches(pieces))     # at once takes half of what one by one does
        taken = reader.take_valid(indices)
    return [taken if positions is None else with_nulls(taken, positions)]
