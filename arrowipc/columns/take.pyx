"""Rows in any order and number, in memory of their own.

The elements to take of a field are given by their numbers or as runs of adjacent elements (`Chosen`). Each field is
copied in the faster way: run by run if its runs are long enough, else element by element, from one or several batches.
Fields below lists and unions have a `Chosen` of their own, and choose for themselves. `repeat_rows` repeats the rows
beside payloads without numbering them, where fields have no children.

The contents are untrusted. Offsets of lists and text, type codes and run ends are checked before they are followed.
Values that are only copied are not checked.
"""

cimport cython
from cpython.list cimport PyList_GET_ITEM
from libc.stdint cimport INT32_MAX, INT64_MAX, int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from arrowipc._core cimport Columns, Memory, Plan, Source, field_path, raise_fault
from arrowipc.columns.array cimport Array, as_array, count_nulls, is_foreign
from arrowipc.columns.builder cimport SnapshotOwner, may_follow
from arrowipc.columns.elements cimport check_native, extent_bytes
from arrowipc.columns.equal cimport longest_dictionaries
from arrowipc.columns.record_batch cimport RecordBatch, concat_into
from arrowipc.inline.bits cimport SLACK, append_bits, largest, ones, store_int
from arrowipc.inline.element cimport validity
from arrowipc.inline.fault cimport FAULT_FULL, Fault, fail
from arrowipc.inline.gather cimport (
    AHEAD, Chosen, Lists, Piece, Run, gather_list_views, gather_views, copy_bits, copy_runs, copy_texts,
    first_code, fitting_views, gather_bits, gather_codes, gather_data, gather_members, gather_offsets, gather_runs,
    gather_words, home_of, keep_words, line_up, list_runs, move_lists, move_views, number_bits, repeat_bits,
    repeat_words, run_offsets, runs_of_bits, skip_uniform, spread_lists, spread_runs, write_runs,
)
from arrowipc.inline.layouts cimport BUFFER_BITS, BUFFER_OFFSETS, LAYOUTS, LayoutSpec, width_of
from arrowipc.inline.loads cimport (
    add_overflows, bitmap_bytes, count_bits, get_bit, loose_i64, loose_u64, mul_overflows, popcount64, prefetch,
    round_up,
)
from arrowipc.inline.plan cimport (
    FIELD_NULLABLE, LAYOUT_BOOL, LAYOUT_DENSE, LAYOUT_FIXED, LAYOUT_FIXED_LIST, LAYOUT_NULL, LAYOUT_RUN_END,
    LAYOUT_SPARSE, LAYOUT_STRUCT, LAYOUT_VIEW, ColumnsData, Extent, FieldPlan, Node, ViewRange,
    copy_tables,
)
from arrowipc.inline.room cimport Room, make_room
from arrowipc.inline.threads cimport FREE_THREADED, in_order
from arrowipc.metadata.schema_reader cimport own_metadata

from arrowipc.errors import LimitError, UsageError

cdef extern from "Python.h":
    bint PyLong_CheckExact(object)
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

cdef enum:
    SHORT = 3                   # the average length of runs from which on runs are copied instead of elements
    LONG = 24                   # ... of bits and numbers
    MOST_ELEMENTS = 1 << 24     # list elements that may be numbered at the same time; each takes 12 bytes
    INDICES_AT_ONCE = 1 << 10   # indices that are checked together
    DENSE = 20                  # if at least so many per cent of the rows are taken, all rows are read
    SMALL = 1 << 12             # a buffer of up to so many bytes shares a block with others


# -- rows, field by field ------------------------------------------------------------------------------------


cdef object too_many_bytes():
    return LimitError("the rows asked for take more bytes than are allowed here; take fewer at a time")


@cython.final
cdef class Taker:
    """The state of one copy of rows."""

    cdef Plan plan
    cdef ColumnsData* d
    cdef list kept          # memory of the copy
    cdef int64_t left       # bytes that may still be written
    cdef bint nulls         # rows of nulls may be among the rows
    cdef bint shares        # data buffers of views, and children of list views, are those of the one piece
    cdef Piece* pieces      # the batches that have the rows
    cdef int64_t n_pieces
    cdef const loose_u64* mask      # a bit for each row of the one piece, on if the row is taken; NULL: not used
    cdef list scratch       # memory that is freed with this object: pieces, and runs that `by_run` has written
    cdef int64_t elements   # list elements that are numbered now, at most MOST_ELEMENTS
    cdef Room pool          # Extents of the data buffers that views point at
    cdef int32_t n_pool
    cdef uint8_t* block     # where the next small buffers go
    cdef int64_t block_left
    cdef int64_t block_size

    def __dealloc__(self):
        free(self.pool.data)

    cdef uint8_t* allocate_values(self, int64_t elements, int64_t width) except NULL:
        """Memory for `elements` values of `width` bytes, which the copy keeps; small buffers share a block."""
        cdef int64_t size, whole
        cdef uint8_t* out
        cdef Memory memory
        if mul_overflows(elements, width, &size) or size > self.left:
            raise too_many_bytes()
        self.left -= size
        if size > SMALL:
            memory = Memory(size + SLACK)
            memory.size = size
            self.kept.append(memory)
            return memory.data
        whole = round_up(size + SLACK, 64)
        if whole > self.block_left:
            self.block_size = max(min(2 * self.block_size, <int64_t> 4 * SMALL), whole)
            memory = Memory(self.block_size)
            self.kept.append(memory)
            self.block = memory.data
            self.block_left = self.block_size
        out = self.block
        self.block += whole
        self.block_left -= whole
        return out

    cdef int put(self, int32_t buffer, const uint8_t* data, int64_t size) except -1:
        self.d.extents[buffer].data = data if size else NULL
        self.d.extents[buffer].size = size
        return 0

    cdef int check(self, int64_t found, const Fault* fault) except -1:
        """Raise the fault of a kernel that returned a negative number; else return 0."""
        return raise_fault(fault, self.plan) if found < 0 else 0

    cdef int full(self, int32_t f, int64_t most, const char* what) except -1:
        """Raise an error that says that the field's offsets, or run ends, cannot count beyond `most`."""
        cdef Fault fault
        return self.check(fail(&fault, FAULT_FULL, f, -1, -1, most, most, what), &fault)

    # -- runs or elements --

    cdef bint by_run(self, Chosen* chosen, int64_t length) except -1:
        """Return whether to copy runs, and fill them: only they are known, or they average `length` elements."""
        cdef Memory runs
        if chosen.n_runs == 0 or (chosen.numbers != NULL and chosen.count < length * chosen.n_runs):
            return False
        if chosen.runs == NULL:
            runs = Memory(chosen.n_runs * sizeof(Run))
            self.scratch.append(runs)
            chosen.runs = <const Run*> runs.data
            with nogil:
                write_runs(<Run*> runs.data, chosen.numbers, chosen.homes, chosen.count)
        return True

    cdef int take_elements(self, int32_t f, const Lists* lists) except -1:
        """Take the elements of field `f` that `lists` hold."""
        cdef Memory runs, numbers, homes
        cdef Chosen chosen = Chosen(f, NULL, NULL, lists.total, NULL, 0)
        if lists.ends != NULL or not self.nulls:
            with nogil:
                chosen.n_runs = list_runs(NULL, lists)
        if lists.ends == NULL and lists.size == 1:
            chosen.numbers, chosen.homes = lists.starts, lists.homes
            return self.take_field(f, &chosen)
        if chosen.n_runs and (lists.total >= SHORT * chosen.n_runs or lists.total > MOST_ELEMENTS - self.elements):
            runs = Memory(chosen.n_runs * sizeof(Run))
            chosen.runs = <const Run*> runs.data
            with nogil:
                list_runs(<Run*> runs.data, lists)
            return self.take_field(f, &chosen)
        if lists.total > self.left:
            raise too_many_bytes()
        numbers, homes = Memory(lists.total * 8), Memory(lists.total * 4 if lists.homes != NULL else 0)
        with nogil:
            spread_lists(<int64_t*> numbers.data, <int32_t*> homes.data, lists)
        chosen = Chosen(f, <const int64_t*> numbers.data, <const int32_t*> homes.data, lists.total, NULL, 0)
        self.elements += lists.total
        self.take_field(f, &chosen)
        self.elements -= lists.total
        return 0

    cdef int take_by_element(self, int32_t f, Chosen chosen) except -1:
        """Take field `f` of a layout that is read element by element; its validity has been taken."""
        cdef int layout = self.plan.d.fields[f].layout
        cdef int64_t spread = chosen.count if chosen.numbers == NULL else 0
        cdef Memory numbers, homes
        if chosen.numbers == NULL:
            if chosen.count > self.left:
                raise too_many_bytes()
            numbers, homes = Memory(chosen.count * 8), Memory(chosen.count * 4 if self.n_pieces > 1 else 0)
            chosen.numbers = <const int64_t*> numbers.data
            chosen.homes = <const int32_t*> homes.data if self.n_pieces > 1 else NULL
            with nogil:
                spread_runs(<int64_t*> numbers.data, <int32_t*> chosen.homes, chosen.runs, chosen.n_runs)
        self.elements += spread
        if layout == LAYOUT_VIEW:
            self.take_views(f, &chosen)
        elif layout == LAYOUT_DENSE:
            self.take_dense(f, &chosen)
        elif layout == LAYOUT_RUN_END:
            self.take_run_ends(f, &chosen)
        else:
            self.take_list_views(f, &chosen)
        self.elements -= spread
        return 0

    # -- one field --

    cdef bint find_pieces(self, int32_t f, int32_t root) noexcept:
        """Find field `f` in all pieces, for elements of `root` (see `Chosen`); returns whether it may have nulls."""
        cdef const FieldPlan* fields = self.plan.d.fields
        cdef const FieldPlan* field = &fields[f]
        cdef const LayoutSpec* spec = &LAYOUTS[field.layout]
        cdef const Extent* extents
        cdef Piece* piece
        cdef bint nulls = False
        cdef int32_t above
        cdef int64_t k
        for k in range(self.n_pieces):
            piece = &self.pieces[k]
            if k + AHEAD < self.n_pieces:
                prefetch(piece[AHEAD].nodes + f)
                prefetch(piece[AHEAD].extents + field.first_buffer)
            extents = &piece.extents[field.first_buffer]
            # Rows of a column are numbered through all pieces.
            piece.shift = -piece.first if fields[root].parent < 0 else 0
            above = f
            while True:
                piece.shift += piece.nodes[above].offset
                if above == root:
                    break
                above = fields[above].parent
            piece.bits = extents[0].data if spec.has_validity and piece.nodes[f].null_count != 0 else NULL
            nulls |= piece.bits != NULL
            piece.values = extents[spec.has_validity].data if spec.n_buffers > spec.has_validity else NULL
            piece.sizes = extents[spec.has_validity + 1].data if spec.n_buffers > spec.has_validity + 1 else NULL
            piece.data = piece.sizes
            if field.view >= 0:
                piece.limit = piece.d.views[field.view].count
                piece.buffers = piece.extents + piece.d.views[field.view].first
            elif spec.n_children == 1:
                piece.limit = piece.nodes[f + 1].length
                piece.data = self.numbers_of(f + 1, piece)
                if field.layout == LAYOUT_FIXED_LIST:
                    piece.values = piece.data
            elif spec.n_buffers == 3:
                piece.limit = extents[2].size
        return nulls

    cdef const uint8_t* numbers_of(self, int32_t f, const Piece* piece) noexcept:
        """The numbers of a piece's field; NULL: it has none, or its values are something else."""
        cdef const FieldPlan* field = &self.plan.d.fields[f]
        cdef const uint8_t* values
        if field.layout != LAYOUT_FIXED:
            return NULL
        values = piece.extents[field.first_buffer + 1].data
        return values + piece.nodes[f].offset * field.width if values != NULL else NULL

    cdef bint has_numbers(self, int32_t f) noexcept:
        """Return whether the lists of field `f` hold numbers without nulls, so that their bytes may be copied."""
        cdef const Piece* piece
        cdef int64_t k
        if self.plan.d.fields[f + 1].layout != LAYOUT_FIXED:
            return False
        for k in range(self.n_pieces):
            piece = &self.pieces[k]
            if validity(piece.d, f + 1) != NULL and piece.nodes[f + 1].null_count != 0:
                return False
        return True

    cdef int take_field(self, int32_t f, Chosen* chosen) except -1:
        """Take the chosen elements of field `f`, and of all fields below it."""
        cdef const FieldPlan* field = &self.plan.d.fields[f]
        cdef int32_t buffer = field.first_buffer
        cdef int kind = LAYOUTS[field.layout].buffers[1].kind
        cdef bint nulls
        self.d.nodes[f] = Node(chosen.count, 0, 0)
        nulls = self.find_pieces(f, chosen.root)
        if LAYOUTS[field.layout].has_validity:
            self.take_validity(f, chosen, nulls)
        if field.layout == LAYOUT_NULL:
            self.d.nodes[f].null_count = chosen.count
        elif kind == BUFFER_BITS:
            self.put_bits(buffer + 1, chosen, False)
        elif field.layout == LAYOUT_VIEW and self.shares or field.layout == LAYOUT_FIXED:
            self.take_fixed(buffer + 1, chosen, width_of(field, 1))
        elif kind == BUFFER_OFFSETS:
            self.take_spans(f, chosen)
        elif field.layout == LAYOUT_FIXED_LIST:
            self.take_fixed_list(f, chosen)
        elif field.layout == LAYOUT_STRUCT:
            self.take_children(f, chosen)
        elif field.layout == LAYOUT_SPARSE:
            self.take_sparse(f, chosen)
        else:
            self.take_by_element(f, chosen[0])
        return 0

    cdef int take_children(self, int32_t f, Chosen* chosen) except -1:
        cdef int32_t child = f + 1
        while child < self.plan.d.fields[f].end:
            self.take_field(child, chosen)
            child = self.plan.d.fields[child].end
        return 0

    cdef int take_validity(self, int32_t f, Chosen* chosen, bint nulls) except -1:
        cdef int32_t buffer = self.plan.d.fields[f].first_buffer
        cdef int64_t n = chosen.count, i
        cdef uint8_t* out
        self.put(buffer, NULL, 0)
        if self.nulls and chosen.numbers != NULL:
            with nogil:
                for i in range(n):
                    nulls |= chosen.numbers[i] < 0
        if nulls and n:
            out = self.put_bits(buffer, chosen, True)
            self.d.nodes[f].null_count = n - count_bits(out, 0, n)
            if self.d.nodes[f].null_count == 0:
                self.put(buffer, NULL, 0)
        return 0

    cdef uint8_t* put_bits(self, int32_t buffer, Chosen* chosen, bint valid) except NULL:
        cdef uint8_t* out = self.allocate_values(bitmap_bytes(chosen.count), 1)
        cdef bint by_run = self.by_run(chosen, LONG)
        with nogil:
            if by_run:
                copy_bits(out, valid, self.pieces, chosen.runs, chosen.n_runs)
            else:
                gather_bits(out, valid, self.pieces, chosen)
        self.put(buffer, out, bitmap_bytes(chosen.count))
        return out

    cdef uint8_t* take_fixed(self, int32_t buffer, Chosen* chosen, int64_t width) except NULL:
        """Take values of `width` bytes."""
        cdef uint8_t* out = self.allocate_values(chosen.count, width)
        cdef bint masked = self.mask != NULL and width in (1, 2, 4, 8) and self.plan.d.fields[chosen.root].parent < 0
        cdef bint by_run = not masked and self.by_run(chosen, LONG if width <= 8 else SHORT)
        with nogil:
            if masked:
                keep_words(out, <int> width, self.pieces.values + self.pieces.shift * width, self.mask,
                           self.pieces.d.length)
            elif by_run:
                copy_runs(out, width, False, self.pieces, chosen.runs, chosen.n_runs)
            else:
                gather_words(out, width, self.pieces, chosen)
        self.put(buffer, out, chosen.count * width)
        return out

    cdef int take_spans(self, int32_t f, Chosen* chosen) except -1:
        """Take text, binary and lists."""
        cdef int32_t width = <int32_t> width_of(&self.plan.d.fields[f], 1)
        cdef uint8_t* offsets = self.allocate_values(chosen.count + 1, width)
        cdef Memory memory
        cdef int64_t* starts
        cdef int64_t total
        cdef Fault fault
        cdef Lists lists
        if self.by_run(chosen, SHORT):
            return self.copy_spans(f, chosen, width, offsets)
        memory = Memory(chosen.count * 8)
        starts = <int64_t*> memory.data
        with nogil:
            # Each width has a loop: as a constant, the width is not compared in it.
            if width == 4:
                total = gather_offsets(offsets, starts, 4, self.pieces, chosen, f, &fault)
            else:
                total = gather_offsets(offsets, starts, 8, self.pieces, chosen, f, &fault)
        self.check_total(f, width, total, &fault)
        self.put(self.plan.d.fields[f].first_buffer + 1, offsets, (chosen.count + 1) * width)
        lists = Lists(starts, offsets + width, chosen.homes, chosen.count, 0, width, total)
        return self.take_between(f, chosen, &lists)

    cdef int copy_spans(self, int32_t f, Chosen* chosen, int32_t width, uint8_t* offsets) except -1:
        """Take text, binary and lists run by run: the bytes or elements of a run lie together, too."""
        cdef int32_t buffer = self.plan.d.fields[f].first_buffer + 1
        cdef int64_t n = chosen.n_runs, total
        cdef Memory memory = Memory(n * sizeof(Run))
        cdef const Run* spans = <const Run*> memory.data
        cdef Fault fault
        cdef Chosen below
        cdef uint8_t* out
        with nogil:
            total = run_offsets(offsets, <Run*> memory.data, width, self.pieces, chosen, f, &fault)
        self.check_total(f, width, total, &fault)
        self.put(buffer, offsets, (chosen.count + 1) * width)
        if LAYOUTS[self.plan.d.fields[f].layout].n_children == 1:
            below = Chosen(f + 1, NULL, NULL, total, spans, n)
            return self.take_field(f + 1, &below)
        out = self.allocate_values(total, 1)
        with nogil:
            copy_runs(out, 1, True, self.pieces, spans, n)
        return self.put(buffer + 1, out, total)

    cdef int check_total(self, int32_t f, int32_t width, int64_t total, const Fault* fault) except -1:
        """Raise if `total`, which `gather_offsets` returned, stands for an error."""
        if total == -2:
            return self.full(f, largest(width, True), b"offsets")
        return self.check(total, fault)

    cdef int64_t unit_of(self, int32_t f) noexcept:
        """Bytes of one element between the offsets of field `f`: 1 for text, the width of numbers in lists."""
        return 1 if LAYOUTS[self.plan.d.fields[f].layout].n_children == 0 else self.plan.d.fields[f + 1].width

    cdef int put_between(self, int32_t f, const uint8_t* data, int64_t total) except -1:
        """Store the `total` bytes of a text field `f`, or the numbers in its lists, in the output."""
        cdef const FieldPlan* field = &self.plan.d.fields[f]
        if LAYOUTS[field.layout].n_children == 0:
            return self.put(field.first_buffer + 2, data, total)
        self.d.nodes[f + 1] = Node(total, 0, 0)
        self.put(field[1].first_buffer, NULL, 0)
        return self.put(field[1].first_buffer + 1, data, total * field[1].width)

    cdef int take_between(self, int32_t f, const Chosen* chosen, const Lists* lists) except -1:
        """Copy the texts, or the elements of lists, of field `f`; `lists.ends` points into the new offsets."""
        cdef int64_t unit = self.unit_of(f)
        cdef uint8_t* out
        if LAYOUTS[self.plan.d.fields[f].layout].n_children and not self.has_numbers(f):
            return self.take_elements(f + 1, lists)
        out = self.allocate_values(lists.total, unit)
        with nogil:
            if unit == 1:   # as a constant, it is not multiplied in the loop
                gather_data(out, 1, lists.ends - lists.width, lists.starts, lists.width, self.pieces, chosen)
            else:
                gather_data(out, unit, lists.ends - lists.width, lists.starts, lists.width, self.pieces, chosen)
        return self.put_between(f, out, lists.total)

    cdef int take_fixed_list(self, int32_t f, Chosen* chosen) except -1:
        """Take fixed-size lists; lists of numbers are copied as values of one width."""
        cdef const FieldPlan* child = &self.plan.d.fields[f + 1]
        cdef int64_t size = self.plan.d.fields[f].width, n = chosen.count, total, k
        cdef Memory memory
        cdef int64_t* starts
        cdef Run* spans
        cdef Lists lists
        cdef Chosen below
        if mul_overflows(n, size, &total):
            raise LimitError("the rows asked for hold more elements than can be counted")
        if self.has_numbers(f):
            return self.put_between(f, self.take_fixed(child.first_buffer + 1, chosen, size * child.width), total)
        if self.by_run(chosen, SHORT):
            memory = Memory(chosen.n_runs * sizeof(Run))
            spans = <Run*> memory.data
            for k in range(chosen.n_runs):
                spans[k] = chosen.runs[k]
                spans[k].start = (spans[k].start + self.pieces[spans[k].home].shift) * size
                spans[k].count *= size
            below = Chosen(f + 1, NULL, NULL, total, spans, chosen.n_runs)
            return self.take_field(f + 1, &below)
        memory = Memory(n * 8)
        starts = <int64_t*> memory.data
        with nogil:
            for k in range(n):
                starts[k] = -1
                if chosen.numbers[k] >= 0:
                    starts[k] = (chosen.numbers[k] + home_of(self.pieces, chosen.homes, k).shift) * size
        lists = Lists(starts, NULL, chosen.homes, n, size, 0, total)
        return self.take_elements(f + 1, &lists)

    cdef int take_list_views(self, int32_t f, const Chosen* chosen) except -1:
        """Take list views and copy the elements of each; or all from the first to the last, if these are fewer.

        A row that is chosen twice gets its elements twice in the first case; in the second both rows share them.
        """
        cdef int32_t buffer = self.plan.d.fields[f].first_buffer + 1
        cdef int32_t width = <int32_t> width_of(&self.plan.d.fields[f], 1)
        cdef int64_t n = chosen.count, total = 0, there = 0, k
        cdef uint8_t* offsets = self.allocate_values(n, width)
        cdef uint8_t* sizes = self.allocate_values(n, width)
        cdef Memory memory = Memory(self.n_pieces * sizeof(Run))
        cdef Run* parts = <Run*> memory.data
        cdef Fault fault
        cdef Chosen below
        cdef int found
        for k in range(self.n_pieces):
            parts[k] = Run(0, 0, <int32_t> k)
        with nogil:
            if width == 4:
                found = gather_list_views(offsets, sizes, parts, &total, 4, self.pieces, chosen, f, &fault)
            else:
                found = gather_list_views(offsets, sizes, parts, &total, 8, self.pieces, chosen, f, &fault)
        self.check(found, &fault)
        self.put(buffer, offsets, n * width)
        self.put(buffer + 1, sizes, n * width)
        if self.shares:
            return 0    # the output has the children of the one piece already
        for k in range(self.n_pieces):
            self.pieces[k].base = there - parts[k].start
            there += parts[k].count
        # To copy all of one piece takes less time than to copy half of it one by one.
        if total <= there >> (self.n_pieces == 1):
            return self.own_elements(f, chosen, width, offsets, sizes, total)
        if there > largest(width, True):
            return self.full(f, largest(width, True), b"offsets")
        with nogil:
            move_lists(offsets, sizes, width, self.pieces, chosen)
        below = Chosen(f + 1, NULL, NULL, there, parts, self.n_pieces)
        return self.take_field(f + 1, &below)

    cdef int own_elements(self, int32_t f, const Chosen* chosen, int32_t width, uint8_t* offsets,
                          const uint8_t* sizes, int64_t total) except -1:
        """Take the elements of list views, list by list."""
        cdef int64_t n = chosen.count
        cdef Memory starts = Memory(n * 8), ends = Memory((n + 1) * 8)
        cdef Lists lists
        if total > largest(width, True):
            return self.full(f, largest(width, True), b"offsets")
        with nogil:
            line_up(<int64_t*> starts.data, <int64_t*> ends.data, offsets, sizes, width, n)
        lists = Lists(<const int64_t*> starts.data, ends.data + 8, chosen.homes, n, 0, 8, total)
        return self.take_between(f, chosen, &lists)

    # -- repeated fields, unions, runs, views --

    cdef int repeat(self, int32_t f, int64_t first, const int64_t* times, int64_t n_times, int64_t n) except -1:
        """Repeat row first + i of a field without children `times[i]` times, for each i; `n` rows in all."""
        cdef const FieldPlan* field = &self.plan.d.fields[f]
        cdef int32_t buffer = field.first_buffer
        cdef int64_t width = width_of(field, 1)
        cdef Node* node = &self.d.nodes[f]
        cdef uint8_t* out
        self.d.nodes[f] = Node(n, 0, 0)
        self.put(buffer, NULL, 0)
        if self.find_pieces(f, f):
            out = self.put_repeated(self.pieces.bits, self.pieces.shift + first, times, n_times, n)
            node.null_count = n - count_bits(out, 0, n)
            self.put(buffer, out if node.null_count else NULL, bitmap_bytes(n) if node.null_count else 0)
        self.pieces.shift += first
        if field.layout == LAYOUT_BOOL:
            out = self.put_repeated(self.pieces.values, self.pieces.shift, times, n_times, n)
            return self.put(buffer + 1, out, bitmap_bytes(n))
        out = self.allocate_values(n, width)
        if width:
            with nogil:
                repeat_words(out, self.pieces.values + self.pieces.shift * width, width, times, n_times)
        return self.put(buffer + 1, out, n * width)

    cdef uint8_t* put_repeated(self, const uint8_t* bits, int64_t start, const int64_t* times, int64_t n_times,
                               int64_t n) except NULL:
        cdef uint8_t* out = self.allocate_values(bitmap_bytes(n), 1)
        memset(out, 0, bitmap_bytes(n) + SLACK)
        with nogil:
            repeat_bits(out, bits, start, times, n_times)
        return out

    cdef int take_sparse(self, int32_t f, Chosen* chosen) except -1:
        cdef const int8_t* ordinals = self.plan.d.codes + 128 * self.plan.d.fields[f].codes
        cdef uint8_t* codes = self.take_fixed(self.plan.d.fields[f].first_buffer, chosen, 1)
        cdef int64_t i
        if self.nulls and chosen.numbers != NULL:
            for i in range(chosen.count):
                if chosen.numbers[i] < 0:
                    codes[i] = <uint8_t> first_code(ordinals)
        return self.take_children(f, chosen)

    cdef int take_dense(self, int32_t f, const Chosen* chosen) except -1:
        cdef const FieldPlan* field = &self.plan.d.fields[f]
        cdef int64_t n = chosen.count, k = 0
        cdef int64_t counts[128]
        cdef int64_t begins[128]
        cdef int32_t children[128]
        cdef const int8_t* ordinals = self.plan.d.codes + 128 * field.codes
        cdef uint8_t* codes = self.allocate_values(n, 1)
        cdef uint8_t* offsets = self.allocate_values(n, 4)
        cdef Memory numbers = Memory(n * 8), homes = Memory(n * 4 if chosen.homes != NULL else 0)
        cdef int64_t* number = <int64_t*> numbers.data
        cdef int32_t* home = <int32_t*> homes.data
        cdef int32_t child = f + 1
        cdef int64_t begin = 0
        cdef Fault fault
        cdef Lists lists
        cdef int found
        with nogil:
            found = gather_codes(codes, counts, ordinals, self.pieces, chosen, f, &fault)
        self.check(found, &fault)
        while child < field.end:
            if counts[k] > INT32_MAX:
                self.full(f, INT32_MAX, b"offsets")
            children[k], begins[k] = child, begin
            begin += counts[k]
            child = self.plan.d.fields[child].end
            k += 1
        with nogil:
            found = gather_members(offsets, number, home, begins, codes, ordinals, children, self.pieces, chosen, f,
                                   &fault)
        self.check(found, &fault)
        self.put(field.first_buffer, codes, n)
        self.put(field.first_buffer + 1, offsets, 4 * n)
        for k in range(field.n_children):
            lists = Lists(number + begins[k], NULL, NULL, counts[k], 1, 0, counts[k])
            if home != NULL:
                lists.homes = home + begins[k]
            self.take_elements(children[k], &lists)
        return 0

    cdef int take_run_ends(self, int32_t f, const Chosen* chosen) except -1:
        cdef int32_t values = self.plan.d.fields[f + 1].end, width = self.plan.d.fields[f + 1].width
        cdef int32_t buffer = self.plan.d.fields[f + 1].first_buffer
        cdef int64_t n = chosen.count, count, k
        cdef Memory begins = Memory(n * 8), numbers = Memory(n * 8)
        cdef Memory homes = Memory(n * 4 if chosen.homes != NULL else 0)
        cdef const int64_t* begin = <const int64_t*> begins.data
        cdef uint8_t* out
        cdef Fault fault
        cdef Lists lists
        if n > largest(width, True):
            self.full(f, largest(width, True), b"run ends")
        with nogil:
            count = gather_runs(<int64_t*> begins.data, <int64_t*> numbers.data, <int32_t*> homes.data, self.pieces,
                                chosen, f, &fault)
        self.check(count, &fault)
        out = self.allocate_values(count, width)
        for k in range(count):
            store_int(out, k, width, begin[k + 1] if k + 1 < count else n)
        self.d.nodes[f + 1] = Node(count, 0, 0)
        self.put(buffer, NULL, 0)
        self.put(buffer + 1, out, count * width)
        lists = Lists(<const int64_t*> numbers.data, NULL, <const int32_t*> homes.data, count, 1, 0, count)
        return self.take_elements(values, &lists)

    cdef int take_views(self, int32_t f, const Chosen* chosen) except -1:
        """Take views and copy the text of each; or all data buffers, if these are smaller."""
        cdef int32_t buffer = self.plan.d.fields[f].first_buffer + 1
        cdef ViewRange* made = &self.d.views[self.plan.d.fields[f].view]
        cdef int64_t n = chosen.count, used, there = 0, k, i
        cdef Extent extent
        cdef uint8_t* views
        cdef uint8_t* text
        cdef Fault fault
        cdef int found
        views = self.allocate_values(n, 16)
        with nogil:
            found = gather_views(views, &used, self.pieces, chosen, f, &fault)
        self.check(found, &fault)
        self.put(buffer, views, 16 * n)
        made[0] = ViewRange(self.n_pool, 0)
        for k in range(self.n_pieces):
            for i in range(self.pieces[k].limit):
                there += self.pieces[k].buffers[i].size
        # Views may share bytes: never copy more than the data buffers hold.
        if used <= there >> (self.n_pieces == 1):
            self.own_texts(views, chosen)
        else:
            for k in range(self.n_pieces):
                self.pieces[k].base = self.n_pool - made.first
                for i in range(self.pieces[k].limit):
                    extent = self.pieces[k].buffers[i]
                    text = self.allocate_values(extent.size, 1)
                    with nogil:
                        if extent.size:
                            memcpy(text, extent.data, extent.size)
                    self.add_pool(Extent(text, extent.size))
            with nogil:
                move_views(views, self.pieces, chosen)
        made.count = self.n_pool - made.first
        return 0

    cdef int own_texts(self, uint8_t* views, const Chosen* chosen) except -1:
        cdef int32_t first = self.n_pool
        cdef int64_t done = 0, end, size
        cdef uint8_t* text
        while done < chosen.count:
            end = fitting_views(views, done, chosen.count, &size)
            if size:
                text = self.allocate_values(size, 1)
                with nogil:
                    copy_texts(text, views, done, end, self.n_pool - first, self.pieces, chosen)
                self.add_pool(Extent(text, size))
            done = end
        return 0

    cdef int add_pool(self, Extent extent) except -1:
        if self.n_pool >= INT32_MAX >> 1:
            raise LimitError("the rows asked for lie in more data buffers than can be counted; take fewer at a time")
        if make_room(&self.pool, (self.n_pool + 1) * <int64_t> sizeof(Extent)) == NULL:
            raise MemoryError()
        (<Extent*> self.pool.data)[self.n_pool] = extent
        self.n_pool += 1
        return 0

    # -- the result --

    cdef int finish(self, Columns out) except -1:
        """Give `out`, whose columns were taken, its owner, and the data buffers of views behind its other buffers."""
        cdef Columns wide = Columns.__new__(Columns)
        cdef int32_t i, n_buffers = out.plan.d.n_buffers
        out.owner = tuple(self.kept)
        if self.n_pool == 0:
            return 0
        wide.allocate(out.plan, self.n_pool)
        copy_tables(&wide.d, &out.d)
        wide.d.length = out.d.length
        memcpy(wide.d.extents + n_buffers, self.pool.data, self.n_pool * sizeof(Extent))
        for i in range(out.plan.d.n_views):
            wide.d.views[i].first += n_buffers
        out.d, wide.d = wide.d, out.d
        return 0


cdef Taker new_taker(Columns out, list sources, bint shares):
    """Return a Taker of rows from `sources` of one shape, numbered through all of them, to `out`, which is new.

    Dictionaries are shared. If it `shares`, it has one source, and data buffers of views and children of list views are
    shared, too.
    """
    cdef Taker taker = Taker.__new__(Taker)
    cdef Columns source = sources[0]
    cdef Memory pieces = Memory(len(sources) * sizeof(Piece))
    cdef int64_t first = 0
    cdef Piece* piece
    if shares:
        out.share(source, source.plan)
    else:
        out.allocate(source.plan, 0)
    out.dictionaries = source.dictionaries
    taker.plan = source.plan
    taker.d = &out.d
    taker.kept = [source.owner] if shares else []
    taker.left = INT64_MAX
    taker.shares = shares
    taker.scratch = [pieces]
    taker.pieces = <Piece*> pieces.data
    for source in sources:
        piece = &taker.pieces[taker.n_pieces]
        piece.d, piece.nodes, piece.extents, piece.first = &source.d, source.d.nodes, source.d.extents, first
        first += source.d.length
        taker.n_pieces += 1
    return taker


cdef int take_columns(Taker taker, Columns out, Chosen rows) except -1:
    """Take all columns of the rows, and finish `out`."""
    cdef int32_t i
    out.d.length = rows.count
    for i in range(taker.plan.d.n_columns):
        rows.root = taker.plan.d.columns[i]
        taker.take_field(rows.root, &rows)
    return taker.finish(out)


cdef int take_into(Columns out, Columns source, const int64_t* numbers, int64_t n, int64_t* left) except -1:
    cdef Taker taker = new_taker(out, [source], True)
    taker.left, taker.nulls = left[0], True
    try:
        take_columns(taker, out, Chosen(-1, numbers, NULL, n, NULL, 0))
    finally:
        left[0] = taker.left
    return 0


# -- rows ----------------------------------------------------------------------------------------------------


cdef Memory int64s(int64_t count):
    cdef Memory out = Memory(max(8 * count, 8))
    out.size = 8 * count
    return out


cdef object numpy_or_none():
    """NumPy; None if it is not installed."""
    try:
        import numpy
    except ModuleNotFoundError:
        return None
    return numpy


cdef Source int64_source(object values, str name):
    """Return integers in one dimension as int64. NumPy, if installed, converts all that is not a list of ints."""
    cdef Memory numbers
    cdef Py_ssize_t n, i
    cdef int overflow = 0
    if type(values) is Memory or (type(values) is memoryview and values.format in "ql" and values.itemsize == 8
                                  and values.ndim == 1 and values.c_contiguous):
        return Source(values)
    if not hasattr(values, "__len__") and hasattr(values, "__iter__"):
        values = list(values)
    np = None if type(values) is list else numpy_or_none()
    if np is None:
        values = values if type(values) is list and not FREE_THREADED else list(values)
        n = len(values)
        numbers = int64s(n)
        for i in range(n):
            item = <object> PyList_GET_ITEM(values, i)
            if not PyLong_CheckExact(item):
                break
            (<int64_t*> numbers.data)[i] = PyLong_AsLongLongAndOverflow(item, &overflow)
            if overflow:
                break
        else:
            return Source(numbers)
        np = numpy_or_none()
        if np is None:
            raise UsageError(f"{name}: expected integers of 64 bits, found {item!r}")
    found = np.arange(values.start, values.stop, values.step) if type(values) is range else np.asarray(values)
    if found.size == 0:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise UsageError(f"{name}: expected integers in one dimension, without nulls, found {found.dtype} in "
                         f"{found.ndim}")
    if found.dtype.itemsize == 8 and found.dtype.kind == "u" and found.max() > INT64_MAX:
        raise UsageError(f"{name}: {found.max()} is more than there can be rows")
    return Source(np.ascontiguousarray(found, dtype=np.int64))


cdef int64_t check_index(int64_t* out, const loose_i64* index, int64_t n, int64_t rows, bint negative) noexcept nogil:
    """Write row index[i] for each i; if `negative`, negative ones count from the end. Return the number of runs.

    Returns ~i for the first i without such a row.
    """
    cdef int64_t wrong = 0, next = -1, row, first = 0, stop, i
    cdef uint64_t runs = n > 0, gap
    while first < n:
        stop = min(first + INDICES_AT_ONCE, n)
        for i in range(first, stop):
            # The sign of `wrong` says that some row is negative, or too large.
            row = index[i]
            wrong |= row | (rows - 1 - row)
            out[i] = row
        for i in range(max(first, <int64_t> 1), stop):
            # The sign of gap or of -gap is set unless gap is 0: a comparison that vectors of all processors can do.
            gap = out[i] - out[i - 1] - 1
            runs += (gap | -gap) >> 63
        first = stop
    if wrong >= 0:
        return runs
    runs, next = 0, -1
    for i in range(n):
        out[i] += rows if negative and out[i] < 0 else 0
        if not 0 <= out[i] < rows:
            return ~i
        runs += out[i] != next
        next = out[i] + 1
    return runs


cdef int64_t number_rows(int64_t* out, Source index, int64_t rows, bint negative, object wrong, str name) except -1:
    cdef int64_t runs
    with nogil:
        runs = check_index(out, <const loose_i64*> index.data, index.size // 8, rows, negative)
    if runs < 0:
        raise wrong(f"{name}: index {(<const loose_i64*> index.data)[~runs]} (item {~runs} of {index.size // 8}) is "
                    f"not one of the {rows} rows")
    return runs


cdef int64_t owner_bytes(object owner) except -1:
    """Bytes of arrowipc's memory that an owner keeps alive; INT64_MAX: it also keeps other memory."""
    cdef int64_t total = 0, size
    if type(owner) is Memory:
        return (<Memory> owner).size
    if type(owner) is SnapshotOwner:
        owner = ((<SnapshotOwner> owner).memories, (<SnapshotOwner> owner).kept)
    if owner is not None and type(owner) is not tuple:
        return INT64_MAX
    for each in owner or ():
        size = owner_bytes(each)
        total = min(total, INT64_MAX - size) + size
    return total


cdef tuple own_dictionaries(tuple dictionaries):
    """Return the dictionaries in memory that holds little else, so that they keep no body or file alive.

    A dictionary stores its copy for the next rows that are taken: there is one copy, however many rows are taken.
    """
    cdef Columns source, copy
    cdef list out = list(dictionaries or ())
    cdef tuple below
    cdef int64_t most, i
    for i in range(len(out)):
        source = out[i]
        if source is None:
            continue
        if source.own is None:
            own_metadata(source.plan, None)
            below = own_dictionaries(source.dictionaries)
            most = 2 * extent_bytes(&source.d) + SMALL
            if owner_bytes(source.owner) <= most and below == (source.dictionaries or ()):
                continue
            copy = Columns.__new__(Columns)
            concat_into(copy, (source,), False)
            copy.dictionaries = below
            in_order()
            with cython.critical_section(source):
                if source.own is None:
                    source.own = copy
        out[i] = source.own
    return tuple(out)


cdef RecordBatch alone(RecordBatch batch):
    """Make taken rows independent of their source: copy its metadata and its dictionaries."""
    own_metadata(batch.plan, None)
    batch.dictionaries = own_dictionaries(batch.dictionaries)
    return batch


cdef RecordBatch take_pieces(list batches, const int64_t* rows, const int32_t* homes, int64_t n, int64_t n_runs):
    """Return rows of batches, numbered through all of them; they form `n_runs` runs. `homes` is NULL for one batch.

    Returns None if the batches have different types, or dictionaries that cannot be joined. The result shares
    dictionaries with the batches, and no other memory.
    """
    cdef RecordBatch batch, source = batches[0], out = RecordBatch.__new__(RecordBatch)
    cdef tuple dictionaries = source.dictionaries
    for batch in batches:
        check_native(batch, "taking rows")
        if batch.plan is not source.plan and not may_follow(batch.plan, source.plan):
            return None
    if len(batches) > 1:
        longest, differing = longest_dictionaries(batches)
        if differing:
            return None
        dictionaries = tuple(longest)
    take_columns(new_taker(out, batches, False), out, Chosen(-1, rows, homes, n, NULL, n_runs))
    out.dictionaries = dictionaries
    return out


cdef RecordBatch take_numbers(RecordBatch source, object indices, bint negative, object wrong, str name):
    cdef Source index = int64_source(indices, name)
    cdef int64_t n = index.size // 8, n_runs
    cdef Memory numbers = Memory(n * 8)
    n_runs = number_rows(<int64_t*> numbers.data, index, source.d.length, negative, wrong, name)
    return take_pieces([source], <int64_t*> numbers.data, NULL, n, n_runs)


cdef int64_t spread_counts(int64_t* out, const int64_t* times, int64_t n_times, int64_t first) noexcept nogil:
    cdef int64_t at = 0, n_runs = 0, i, k
    for i in range(n_times):
        if times[i] == 0:
            continue
        # A row goes on with the run of the row before it; each repetition begins another one.
        n_runs += times[i] - (at > 0 and out[at - 1] == first + i - 1)
        for k in range(at, at + times[i]):
            out[k] = first + i
        at += times[i]
    return n_runs


cdef RecordBatch repeat_rows(RecordBatch source, object counts, int64_t first, str name):
    cdef Source given = int64_source(counts, name)
    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    cdef int64_t n_times = given.size // 8, n = 0, most = 0, i
    cdef Memory copy = Memory(n_times * 8), numbers
    cdef int64_t* times = <int64_t*> copy.data
    cdef const FieldPlan* field
    cdef Taker taker
    cdef Chosen rows = Chosen(-1, NULL, NULL, 0, NULL, 0)
    check_native(source, "repeating rows")
    for i in range(n_times):
        # Read once: the caller's memory may change meanwhile.
        times[i] = (<const loose_i64*> given.data)[i]
        if times[i] < 0:
            raise UsageError(f"{name}: a count is negative")
        if add_overflows(n, times[i], &n):
            raise LimitError("the rows asked for are more than can be counted")
        most = max(most, times[i])
    taker = new_taker(out, [source], True)
    out.d.length = n
    for i in range(source.plan.d.n_columns):
        field = &source.plan.d.fields[source.plan.d.columns[i]]
        if most > 1 and field.layout in (LAYOUT_BOOL, LAYOUT_FIXED, LAYOUT_VIEW):
            taker.repeat(source.plan.d.columns[i], first, times, n_times, n)
            continue
        if rows.numbers == NULL:
            numbers = Memory(n * 8)
            rows.n_runs = spread_counts(<int64_t*> numbers.data, times, n_times, first)
            rows.numbers, rows.count = <const int64_t*> numbers.data, n
        rows.root = source.plan.d.columns[i]
        taker.take_field(rows.root, &rows)
    taker.finish(out)
    return out


cpdef RecordBatch take_rows(RecordBatch source, object indices, str name):
    """Return the rows of a batch at these indices; `name` is that of the function that errors speak of."""
    return take_numbers(source, indices, False, UsageError, name)


def take_indices(RecordBatch source not None, indices):
    """See `RecordBatch.take`: as `take_rows`, with negative indices, which count from the end, and nulls."""
    cdef Memory positions
    indices, positions = without_nulls(indices)
    out = alone(take_numbers(source, indices, True, IndexError, "take"))
    return out if positions is None else with_nulls(out, positions)


# -- nulls among indices, and masks --------------------------------------------------------------------------


cdef tuple without_nulls(object indices):
    """Return the indices that are not null, and the place of each index among them (-1: null; None: none is null)."""
    cdef Array array
    cdef Memory valid, positions
    cdef const uint8_t* bits
    cdef int64_t i, n = 0
    if isinstance(indices, (list, tuple)):
        for index in indices:
            if index is None:
                indices = Array.from_pylist(indices, "int64")
                break
        else:
            return indices, None
    if not isinstance(indices, Array) and not is_foreign(indices):
        return indices, None
    array = as_array(indices)
    if count_nulls(array) == 0:
        return array, None
    bits = validity(&array.columns.d, array.index)
    valid, positions = int64s(array.length - array._null_count), int64s(array.length)
    for i in range(array.length):
        (<int64_t*> positions.data)[i] = -1
        if bits != NULL and get_bit(bits, array.offset + i):
            (<int64_t*> valid.data)[n] = i
            (<int64_t*> positions.data)[i] = n
            n += 1
    return array.take(valid) if n else [], positions


cdef RecordBatch with_nulls(RecordBatch taken, Memory positions):
    """Return rows of `taken` by their numbers; -1 gives a row of nulls."""
    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    cdef int64_t left = INT64_MAX
    cdef int32_t i
    for i in range(taken.d.plan.n_columns):
        if not taken.d.plan.fields[taken.d.plan.columns[i]].flags & FIELD_NULLABLE:
            raise UsageError(f"take: column {field_path(taken.plan, taken.d.plan.columns[i])!r} is not nullable, "
                             "and some indices are null")
    take_into(out, taken, <int64_t*> positions.data, positions.size // 8, &left)
    out.dictionaries = taken.dictionaries
    return out


cdef Memory new_marks(int64_t count):
    cdef Memory out = Memory(round_up(bitmap_bytes(count), 8) + SLACK)
    out.size = round_up(bitmap_bytes(count), 8)
    memset(out.data, 0, out.size + SLACK)
    return out


cdef Memory mask_bits(Array array, int64_t rows):
    """A bit for each row, on where a mask is true and not null."""
    cdef const ColumnsData* d = &array.columns.d
    cdef const FieldPlan* field = &d.plan.fields[array.index]
    cdef const uint8_t* valid = validity(d, array.index)
    cdef Memory out, known
    cdef int64_t i
    if field.layout != LAYOUT_BOOL:
        raise UsageError(f"a mask has booleans, found {array.type}")
    if array.length != rows:
        raise UsageError(f"the mask has {array.length:,} elements, expected {rows:,}, one for each row")
    out = new_marks(rows)
    append_bits(out.data, 0, d.extents[field.first_buffer + 1].data, array.offset, rows)
    if valid != NULL:
        # In two steps, which vectors can do: `keep_bits` takes a tenth longer for a whole filter.
        known = new_marks(rows)
        append_bits(known.data, 0, valid, array.offset, rows)
        for i in range(out.size // 8):
            (<loose_u64*> out.data)[i] &= (<const loose_u64*> known.data)[i]
    return out


cdef Chosen marked(Memory marks, int64_t rows) except *:
    """Count the rows that are marked, and their runs; bits behind the last row are turned off."""
    cdef loose_u64* words = <loose_u64*> marks.data
    cdef Chosen kept = Chosen(-1, NULL, NULL, 0, NULL, 0)
    cdef uint64_t word, before = 0
    cdef int64_t i = 0, next
    if not 0 <= rows <= 64 * (marks.size >> 3):
        raise UsageError(f"expected marks of {rows:,} rows, found those of {8 * marks.size:,}")
    if rows & 63:
        words[rows >> 6] &= ones(rows & 63)
    while 64 * i < rows:
        word = words[i]
        kept.n_runs += popcount64(word & ~(word << 1 | before))
        before = word >> 63
        next = skip_uniform(words, i, (rows + 63) >> 6)
        kept.count += popcount64(word) * (next - i)
        i = next
    return kept


def marked_rows(Memory marks not None, int64_t rows):
    """Return the numbers of the rows that are marked; `marks` has a bit for each row, in words of 64 bits."""
    cdef Chosen kept = marked(marks, rows)
    cdef Memory out = int64s(kept.count)
    number_bits(<int64_t*> out.data, <const loose_u64*> marks.data, rows)
    return out


def selected_rows(Array array not None, int64_t rows):
    """Return the numbers of the rows, of `rows` in all, where a mask is true; null counts as false."""
    return marked_rows(mask_bits(array, rows), rows)


def keep_rows(RecordBatch source not None, Array mask not None):
    """See `RecordBatch.filter`: the rows where a mask is true."""
    return keep_marked(source, mask_bits(mask, source.d.length), False)


def keep_marked(RecordBatch source not None, Memory marks not None, bint may_share):
    """Return the rows that are marked, copied run by run if the runs are long enough.

    `may_share`: if all rows are marked, the batch itself is returned.
    """
    cdef Chosen rows = marked(marks, source.d.length)
    cdef RecordBatch out = RecordBatch.__new__(RecordBatch)
    cdef Memory held = Memory()
    cdef const loose_u64* words = <const loose_u64*> marks.data
    cdef Taker taker
    if may_share and rows.count == source.d.length:
        return source
    check_native(source, "taking rows")
    taker = new_taker(out, [source], False)
    # Reading all rows is faster than looking up many of them, and slower than copying long runs.
    if rows.count >= DENSE * source.d.length // 100 and rows.count < LONG * rows.n_runs:
        taker.mask = words
    if rows.count >= SHORT * rows.n_runs:
        held.reserve(rows.n_runs * sizeof(Run))
        rows.runs = <const Run*> held.data
        with nogil:
            runs_of_bits(<Run*> held.data, words, source.d.length)
    else:
        held.reserve(8 * rows.count)
        rows.numbers = <const int64_t*> held.data
        with nogil:
            number_bits(<int64_t*> held.data, words, source.d.length)
    take_columns(taker, out, rows)
    out.dictionaries = source.dictionaries
    return alone(out)
