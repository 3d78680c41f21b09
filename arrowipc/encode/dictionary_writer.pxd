# The dictionaries of one writer: what its reader knows so far, and what the next batch needs before it.
from libc.stdint cimport int64_t

cimport cython

from arrowipc._core cimport Columns, Plan
from arrowipc.distinct.memo_table cimport Budget
from arrowipc.distinct.unifier cimport TransposeMap, Unifier


cdef class Emission:
    # A dictionary, or a delta of one, that is to be written.
    cdef int64_t id
    cdef bint is_delta
    cdef bint replaces              # a dictionary of this id was written before, and this one replaces it
    cdef Plan plan                  # of the writer: the dictionary's values, one column
    cdef Columns values             # the rows to write, of the shape of `plan`
    cdef int64_t start              # ... of `values`: rows start to the end (a delta: only the new ones)


@cython.final
cdef class Brought:
    # A dictionary that the batch at hand has for an id.
    cdef Columns values
    cdef tuple place                # of the first field that it belongs to
    cdef TransposeMap map           # with unify: the numbers of its values


@cython.final
cdef class Written:
    # One dictionary id of the writer, and the dictionary that was written for it.
    cdef int64_t id
    cdef Plan plan                  # of its values
    cdef list encoded               # fields of `plan` with dictionaries of their own
    cdef tuple below                # Written, per plan.dictionaries
    cdef Plan matched               # the plan of the last values
    cdef Columns sent               # what the reader holds; None: nothing
    # The batch at hand.
    cdef dict brought               # id() of the values -> Brought; of different objects
    cdef Columns next               # `sent` after the batch
    cdef bint replaced              # the batch replaces it: dictionaries that refer to it are written again
    cdef bint stale                 # it stays although one that it refers to was replaced, as in the source
    cdef Unifier unifier            # with unify

cdef class WrittenDictionaries:
    cdef Plan plan                  # of the writer; ids are 0..n-1
    cdef bint file
    cdef bint deltas
    cdef bint as_came               # write as deltas only the values that came as deltas
    cdef bint unify
    cdef Budget budget              # with unify: the bytes that all tables may spell
    cdef list encoded               # fields of `plan` with dictionaries
    cdef tuple top                  # Written, per plan.dictionaries
    cdef list order                 # all Written, inner before outer
    # The last batch.
    cdef Plan last_plan
    cdef tuple last
    cdef list maps                  # with unify: TransposeMap or None, per `encoded`
    cdef tuple unified              # ... and the dictionaries of a transposed batch

    # Append to `emissions` the dictionaries that must be written before `batch`, inner ones before outer ones, and
    # return the batch to write: `batch` itself, or one with transposed indices. If it raises, nothing has changed.
    cdef Columns before(self, Columns batch, list emissions)
    # Begin with the dictionaries of `batch`, which are in the file or stream already; return how many they are.
    cdef int know(self, Columns batch) except -1
    # Return the dictionaries that must still be written when a file is closed.
    cdef list at_close(self)

    cdef Written add_written(self, Plan plan, int64_t id, dict known)
    cdef Columns prepare(self, Columns batch, list emissions)
    cdef int gather(self, Columns columns, list encoded, tuple written, Plan plan, tuple outer) except -1
    cdef int compare(self, Written w, list made) except -1
    cdef int merge(self, Written w, list made) except -1
    cdef int emit(self, Written w, Columns values, bint delta, list made) except -1
