# What one pass over a column leaves behind: its bounds, and how many nulls it has.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from arrowipc._core cimport Columns, Plan

cdef enum Kind:
    # What the bounds of a column are.
    KIND_NONE = 0           # lists, maps, structs, unions, intervals, nulls: only nulls are counted
    KIND_BOOL
    KIND_SIGNED             # `low`, `high`; dates, times and small decimals too
    KIND_UNSIGNED           # `low`, `high`, whose bits are those of unsigned numbers
    KIND_HALF               # `low`, `high`: 16-bit numbers as integers that sort as they do
    KIND_FLOAT              # `least`, `most`
    KIND_WIDE               # decimals of 16 and 32 bytes: where they lie
    KIND_TEXT               # where the bytes lie, and how many they are
    KIND_BYTES

cdef struct Bounds:
    int kind                # Kind
    int64_t nulls           # -1: not known
    bint found              # a value that is neither null nor NaN
    bint unknown            # values were left out
    bint nan                # there is a NaN
    int64_t low
    int64_t high
    double least
    double most
    const uint8_t* first    # KIND_WIDE, KIND_TEXT, KIND_BYTES; in the memory of the column or its dictionary
    const uint8_t* last
    int64_t first_size
    int64_t last_size
    uint64_t first_head     # their first 8 bytes as a number that sorts as they do
    uint64_t last_head


cdef class Collector:
    """Statistics of the batches of one schema after another."""
    cdef readonly object columns        # None: all; else names of top-level columns
    cdef Plan plan                      # of the last batch
    cdef list paths                     # dotted path per field of `plan`; None: not wanted, or not unique
    cdef int prepare(self, Plan plan) except -1
    cdef int visit(self, Columns columns, int32_t f, int64_t at, int64_t count, const uint8_t* mask,
                   int64_t mask_at, list out) except -1
