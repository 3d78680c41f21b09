# The dictionaries of one writer: what its reader knows so far, and what the next batch needs before it.
from libc.stdint cimport int64_t

cimport cython

from arrowipc._core cimport Columns, Plan
from arrowipc.columns.memo_table cimport Budget, MemoTable


cdef class Emission:
    """One DictionaryBatch to be written."""
    cdef readonly int64_t id
    cdef readonly bint is_delta
    cdef readonly bint replaces     # a dictionary of this id went out before, and this one takes its place
    cdef Plan plan                  # of the writer: the dictionary's values, one column
    cdef Columns values             # the rows to write, of the shape of `plan`
    cdef int64_t start              # ... of `values`: rows start to the end (a delta: only the new ones)


@cython.final
cdef class Transposition:
    """Where the values of one dictionary are in a table."""
    cdef Columns columns            # the dictionary
    cdef int64_t* places            # per value of it: the ordinal in the table
    cdef int64_t count
    cdef int64_t room
    cdef bint identity              # each value has the place that it had

    # The dictionary, with more values than before, goes on; `values`: the same as the table wants them.
    cdef int extend(self, MemoTable table, Columns dictionary, Columns values) except -1
    cdef tuple mark(self)
    cdef int rollback(self, tuple mark) except -1


@cython.final
cdef class Brought:
    """A dictionary that the batch at hand has for an id."""
    cdef Columns values
    cdef tuple place                # of the first field that it belongs to
    cdef Transposition source       # with unify: where its values are


@cython.final
cdef class Written:
    """One dictionary id of the writer, and what went out for it."""
    cdef int64_t id
    cdef Plan plan                  # of its values
    cdef list encoded               # fields of `plan` with dictionaries of their own
    cdef tuple below                # Written, per plan.dictionaries
    cdef Plan matched               # the last plan that values came with
    cdef Columns sent               # what the reader holds; None: nothing
    # The batch at hand.
    cdef dict brought               # id() of the values -> Brought; of different objects
    cdef Columns next               # `sent` after the batch
    cdef bint replaced              # the batch replaces it: dictionaries that refer to it go out again
    cdef bint stale                 # it stays although one that it refers to was replaced, as in the source
    # With unify.
    cdef MemoTable table
    cdef list sources               # Transposition, the last ones
    cdef Columns unified            # the table's values, None: to be made
    cdef bint fresh                 # the batch brought new values, not as a delta

    cdef Columns everything(self)


cdef class WrittenDictionaries:
    cdef Plan plan                  # of the writer; ids are 0..n-1
    cdef bint file
    cdef bint deltas
    cdef bint as_came               # as deltas what came as deltas, and only that
    cdef bint unify
    cdef Budget budget              # with unify: what all tables may spell
    cdef list encoded               # fields of `plan` with dictionaries
    cdef tuple top                  # Written, per plan.dictionaries
    cdef list order                 # all of them, inner before outer
    # The last batch.
    cdef Plan last_plan
    cdef tuple last
    cdef list sources               # with unify: Transposition or None, per `encoded`
    cdef tuple unified              # ... and the dictionaries of a transposed batch

    # Appends to `emissions` what must go out before `batch`, inner dictionaries before outer ones, and
    # returns the batch to write: `batch` itself, or one with remapped indices. What raises changes nothing.
    cdef Columns before(self, Columns batch, list emissions)
    # What remains to be written when a file is closed.
    cdef list at_close(self)

    cdef Written enter(self, Plan plan, int64_t id, dict known)
    cdef Columns prepare(self, Columns batch, list emissions)
    cdef int gather(self, Columns columns, list encoded, tuple written, Plan plan, tuple outer) except -1
    cdef int compare(self, Written w, list made) except -1
    cdef int merge(self, Written w, list made) except -1
    cdef Transposition source(self, Written w, Brought one, tuple below)
    cdef int emit(self, Written w, Columns values, bint delta, list made) except -1
