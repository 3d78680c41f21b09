"""Whether one column begins with the values of another, however either lies in its buffers."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memset

from arrowipc._compare cimport same_values
from arrowipc._core cimport Columns, DictionaryPlan, Plan
from arrowipc._fault cimport Fault
from arrowipc._grow cimport begins_with, extends
from arrowipc._layout cimport Type_FloatingPoint
from arrowipc._unify cimport (
    FAULT_TOO_MUCH, Budget, Spelling, Tree, fell, new_budget, plant, raise_value_fault, spell,
)
from arrowipc._values cimport count_bytes

cdef enum:
    SPELLED_FREE = 1 << 20  # bytes that may be spelled beside those that the values have: for each batch of a writer


cdef bint shares_alike(Columns a, Columns b):
    """Whether two columns of one type refer to their dictionaries by the same ordinals, at every depth."""
    cdef int32_t i
    if not a.plan.dictionaries and not b.plan.dictionaries:
        return True
    if len(a.plan.dictionaries) != len(b.plan.dictionaries):
        return False
    for i in range(a.plan.d.n_fields):
        if a.plan.d.fields[i].dictionary != b.plan.d.fields[i].dictionary:
            return False
    return all(x is None or y is None or shares_alike(x, y) for x, y in zip(a.dictionaries, b.dictionaries))


cdef bint plainly_continues(Columns longer, Columns shorter):
    return extends(longer, shorter) or (begins_with(longer, shorter) and shares_alike(longer, shorter))


cdef bint has_floats(Plan plan):
    cdef DictionaryPlan dictionary
    cdef int32_t i
    for i in range(plan.d.n_fields):
        if plan.d.fields[i].type == Type_FloatingPoint:
            return True
    for dictionary in plan.dictionaries:
        if has_floats(dictionary.values):
            return True
    return False


cdef int spells_alike(const Tree* a, const Tree* b, int64_t count, Spelling* one, Spelling* other,
                      bint* alike, Fault* fault) noexcept nogil:
    """Whether the first `count` values are the same, -0.0 told from 0.0; -1: `fault`, of either side."""
    cdef int64_t i
    alike[0] = False
    for i in range(count):
        one.size = other.size = 0
        if (spell(a, 0, a.d.nodes[0].offset + i, one, fault) < 0
                or spell(b, 0, b.d.nodes[0].offset + i, other, fault) < 0):
            return -1
        if one.size != other.size or memcmp(one.data, other.data, one.size) != 0:
            return 0
    alike[0] = True
    return 0


cdef bint same_spelling(Columns longer, Columns shorter) except -1:
    """Whether the values are spelled alike; those that share so many elements that it takes long to tell are not."""
    cdef Tree a, b
    cdef Spelling one, other
    cdef Fault fault
    cdef Budget budget = new_budget(SPELLED_FREE, "")
    cdef bint alike = False
    cdef int found
    memset(&a, 0, sizeof(Tree))
    memset(&b, 0, sizeof(Tree))
    memset(&one, 0, sizeof(Spelling))
    memset(&other, 0, sizeof(Spelling))
    try:
        plant(longer, &a, None)
        plant(shorter, &b, None)
        budget.earn(count_bytes(longer))
        budget.earn(count_bytes(shorter))
        one.left = other.left = &budget.left
        with nogil:
            found = spells_alike(&a, &b, shorter.d.length, &one, &other, &alike, &fault)
    finally:
        fell(&a)
        fell(&b)
        free(one.data)
        free(other.data)
    if found < 0 and fault.code == FAULT_TOO_MUCH:
        return False
    if found < 0:
        raise_value_fault(&fault, longer.plan, budget)
    return alike


cdef bint continues(Columns longer, Columns shorter) except -1:
    if longer.d.length < shorter.d.length:
        return False
    if shorter.d.length == 0 or plainly_continues(longer, shorter):
        return True
    if has_floats(longer.plan) or longer.plan.dictionaries:
        return same_spelling(longer, shorter)
    return same_values(longer, 0, longer.d.nodes[0].offset, shorter, 0, shorter.d.nodes[0].offset,
                       shorter.d.length, True) != 0
