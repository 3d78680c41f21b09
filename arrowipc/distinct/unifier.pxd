# One dictionary out of many: the number that each of their values has in it, and indices transposed to these numbers.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport Columns, DictionaryPlan, Plan
from arrowipc.distinct.memo_table cimport Budget, MemoTable
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport ColumnsData
from arrowipc.inline.room cimport Room


@cython.final
cdef class TransposeMap:
    """The number that each value of one dictionary has in a table."""
    cdef Columns dictionary         # None: the caller of `add_data` keeps it
    cdef int64_t count              # values that have numbers
    cdef bint identity              # each of them has the same number in the dictionary
    cdef bint rising                # their numbers have the order of the dictionary
    cdef Room room

    cdef const int64_t* numbers(self) noexcept nogil
    # Number the values behind the first `count`, too. `values`: the dictionary as `Unifier.to_add` returns it.
    cdef int add(self, MemoTable table, Columns dictionary, Columns values) except -1
    # The same without Python, for a flat table. -1: `fault`.
    cdef int add_data(self, MemoTable table, const ColumnsData* values, Fault* fault) noexcept nogil
    cdef void note(self, int64_t count) noexcept nogil


@cython.final
cdef class Unifier:
    """One dictionary that has every value of many dictionaries once."""
    cdef Plan plan                  # of its values
    cdef list encoded               # fields of `plan` with dictionaries of their own
    cdef tuple below                # Unifier, per plan.dictionaries
    cdef MemoTable table
    cdef list recent                # TransposeMap of each dictionary that has numbers already, the last one first ...
    cdef int64_t version            # ... in a table of this version
    cdef Columns whole              # the last result of `values`
    cdef bint fresh                 # values came that no delta brought, since the caller last set this to False

    # Number the values of a dictionary. `place`: of the field that it belongs to, see `place_path`.
    cdef TransposeMap add(self, Columns dictionary, tuple place)
    cdef int check_version(self) except -1
    cdef int check_order(self, TransposeMap map, tuple place) except -1
    cdef TransposeMap find(self, Columns dictionary)
    cdef Columns to_add(self, Columns dictionary, int64_t known, tuple place)
    # All values so far.
    cdef Columns values(self)


# `below`: Unifier, per dictionary of `plan`. `earns`: whether added values raise the budget.
cdef Unifier new_unifier(Plan plan, tuple below, Budget budget, bint earns)
# The unifier of a dictionary, and of the dictionaries below it; `known` has one for each id, and gets the new ones.
cdef Unifier unifier_of(DictionaryPlan dictionary, dict known, Budget budget, bint earns)
cdef list encoded_fields(Plan plan)
# Dotted path of a field. A place is (place of the dictionary around the field or None, plan, field).
cdef str place_path(tuple place)

# Return `columns` with the indices of their encoded `fields` transposed by `maps` (TransposeMap; None: all are null).
cdef Columns transposed(Columns columns, Plan plan, list fields, list maps, tuple dictionaries, int64_t start,
                        int64_t count, tuple outer, Budget budget)

# Write `count` indices of field `f`, from physical row `start` on, as the `numbers` of the values that they stand for,
# in `width` bytes each; zeros where null. -1: `fault`, FAULT_FULL for a number above `limit`.
cdef int transpose(const ColumnsData* d, int32_t f, int64_t start, int64_t count, const int64_t* numbers,
                   int64_t n_values, uint8_t* out, int32_t width, int64_t limit, Fault* fault) noexcept nogil
# Check that such indices, unless they are null, lie in a dictionary of `n_values`. -1: `fault`.
cdef int check_used_indices(const ColumnsData* d, int32_t f, int64_t start, int64_t count, int64_t n_values,
                       Fault* fault) noexcept nogil
