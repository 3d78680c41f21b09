# The integers of a sparse tensor's index, wherever they lie, and the shape they point into.
from cpython.buffer cimport Py_buffer
from libc.stdint cimport INT64_MAX, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from arrowipc.inline.loads cimport loose_u16, loose_u32, loose_u64

ctypedef fused Word:
    uint8_t
    loose_u16
    loose_u32
    loose_u64

cdef enum Finding:
    FOUND_STRAY = 1             # an index outside its dimension
    FOUND_START                 # pointers that do not begin with 0
    FOUND_DESCENT               # pointers that decrease
    FOUND_END                   # pointers that do not end where they must
    FOUND_DISORDER              # indices that are not sorted where they have to be
    FOUND_MEMORY

cdef struct Found:
    int code                    # Finding
    int64_t at                  # row or entry
    int64_t column
    uint64_t found
    int64_t expected

cdef struct Words:
    # A matrix of integers (a vector has one column).
    uint8_t* data
    int64_t rows
    int64_t columns
    int64_t row_step            # bytes
    int64_t column_step
    int width
    bint is_signed
    uint64_t top                # largest value that is not the pattern of a negative number


cdef class Integers:
    cdef Py_buffer view
    cdef bint held
    cdef Words w


cdef class Values:
    cdef Py_buffer view
    cdef bint held


cdef class Space:
    cdef int64_t n
    cdef int64_t* size          # of axis k of the order in which the axes are gone through
    cdef int64_t* axis          # which one that is
    cdef int64_t* last          # largest index that an array of integers may hold for it; see `bound`
    cdef bint keyed             # whether one 63-bit number can say where an element lies
    cdef int bound(self, const Words* w) except -1


cdef int raise_found(const Found* fault, Words w, str name) except -1


cdef inline int fail(Found* fault, int code, int64_t at=0, uint64_t found=0, int64_t expected=0,
                     int64_t column=-1) noexcept nogil:
    fault.code = code
    fault.at = at
    fault.column = column
    fault.found = found
    fault.expected = expected
    return -1


cdef inline int64_t last_index(const Words* w, int64_t size) noexcept nogil:
    """The largest index below `size` that the integers can hold; -1: none is right."""
    return <int64_t> w.top if <uint64_t> (size - 1) > w.top and size > 0 else size - 1


cdef inline uint64_t stray(uint64_t word, int64_t last) noexcept nogil:
    """Has the sign bit set if `word` is not in 0..last; with last -1 always."""
    return word | (<uint64_t> last - word)


cdef inline bint is_stray(uint64_t word, int64_t last) noexcept nogil:
    return stray(word, last) >> 63


cdef inline uint64_t get_word(const uint8_t* p, int width) noexcept nogil:
    if width == 8:
        return (<const loose_u64*> p)[0]
    if width == 4:
        return (<const loose_u32*> p)[0]
    if width == 2:
        return (<const loose_u16*> p)[0]
    return p[0]


cdef inline void put_word(uint8_t* p, int width, uint64_t word) noexcept nogil:
    if width == 8:
        (<loose_u64*> p)[0] = word
    elif width == 4:
        (<loose_u32*> p)[0] = <uint32_t> word
    elif width == 2:
        (<loose_u16*> p)[0] = <uint16_t> word
    else:
        p[0] = <uint8_t> word


cdef inline uint64_t word_at(const Words* w, int64_t row, int64_t column=0) noexcept nogil:
    return get_word(w.data + row * w.row_step + column * w.column_step, w.width)


cdef inline void set_word(const Words* w, int64_t row, uint64_t word, int64_t column=0) noexcept nogil:
    put_word(w.data + row * w.row_step + column * w.column_step, w.width, word)


cdef inline void copy_value(uint8_t* to, const uint8_t* value, int64_t width) noexcept nogil:
    if width == 8:
        (<loose_u64*> to)[0] = (<const loose_u64*> value)[0]
    elif width == 4:
        (<loose_u32*> to)[0] = (<const loose_u32*> value)[0]
    elif width == 2:
        (<loose_u16*> to)[0] = (<const loose_u16*> value)[0]
    elif width == 1:
        to[0] = value[0]
    else:
        memcpy(to, value, width)
