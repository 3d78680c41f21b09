"""Numbers that text writes out in decimal digits, read without a Python object for each.

Whole numbers are digits after an optional minus sign. Floats are what Python's `float` takes, without spaces and
underscores. Both are as pyarrow reads them, apart from its hexadecimal numbers.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, UINT64_MAX, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from arrowipc.columns.array cimport Array
from arrowipc.columns.elements cimport check, check_native
from arrowipc.inline.element cimport validity, word_span
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.loads cimport get_bit, put64
from arrowipc.inline.plan cimport ColumnsData

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, object overflow) except? -1.0

cdef enum Numbers:
    SIGNED = 0
    UNSIGNED
    FLOATS

cdef enum:
    SHORT = 18              # so many digits fit 64 bits, and a double holds ten to this power exactly

cdef double[SHORT + 1] POWERS
cdef int _power
POWERS[0] = 1.0
for _power in range(SHORT):
    POWERS[_power + 1] = 10.0 * POWERS[_power]      # exact, which `pow` is not in every C library


cdef inline int64_t read_digits(const uint8_t* p, int64_t i, int64_t size, uint64_t* value) noexcept nogil:
    """Append digits from p[i] on to a number; return where they end. What does not fit 64 bits wraps around."""
    while i < size and <uint8_t> (p[i] - 48) < 10:
        value[0] = 10 * value[0] + (p[i] - 48)
        i += 1
    return i


cdef inline bint whole_number(const uint8_t* p, int64_t size, bint signed, uint64_t* value) noexcept nogil:
    """Read a whole number, two's complement if negative; False if the text is not a whole number, or does not fit."""
    cdef bint negative = signed and size > 0 and p[0] == 45
    cdef uint64_t digit, most = <uint64_t> INT64_MAX + negative if signed else UINT64_MAX
    cdef int64_t i = negative
    value[0] = 0
    if i == size:
        return False
    if size - i <= SHORT:
        i = read_digits(p, i, size, value)
    else:
        while i < size:
            digit = <uint8_t> (p[i] - 48)
            if digit > 9 or value[0] > (most - digit) // 10:
                return False
            value[0] = 10 * value[0] + digit
            i += 1
    if negative:
        value[0] = -value[0]
    return i == size


cdef inline bint short_float(const uint8_t* p, int64_t size, double* value) noexcept nogil:
    """Read a float of so few digits that one division rounds it right; False if the text is another one."""
    cdef bint negative = size > 0 and p[0] == 45
    cdef int64_t i, first = negative, point, digits, power
    cdef uint64_t number = 0
    if size - first > SHORT:
        return False
    point = i = read_digits(p, first, size, &number)
    digits = i - first
    if i < size and p[i] == 46:
        point = i + 1
        i = read_digits(p, point, size, &number)
        digits += i - point
    power = i - point
    if i < size or digits == 0 or number >> 53:
        return False
    value[0] = <double> number / POWERS[power]
    if negative:
        value[0] = -value[0]
    return True


cdef double any_float(const uint8_t* p, int64_t size) except? -1.0:
    """Read a float as Python does, rounded right; a ValueError if the text is none."""
    cdef bytes text = PyBytes_FromStringAndSize(<const char*> p, size)
    cdef char* end = NULL
    cdef double value = PyOS_string_to_double(PyBytes_AS_STRING(text), &end, <object> NULL)
    if end != PyBytes_AS_STRING(text) + size:
        raise ValueError
    return value


cdef int64_t parse(Array text, int numbers, uint8_t* out) except -2:
    """Read the number of each row into `out`, and return the first row that holds none, or -1."""
    cdef const ColumnsData* d = &text.columns.d
    cdef const uint8_t* valid = validity(d, text.index)
    cdef const uint8_t* p
    cdef int64_t row, size
    cdef uint64_t whole
    cdef double real
    cdef Fault fault
    cdef int found = 0
    with nogil:
        for row in range(text.length):
            if valid != NULL and not get_bit(valid, text.offset + row):
                continue
            found = word_span(d, text.index, text.offset + row, &p, &size, &fault)
            if found < 0:
                break
            if numbers != FLOATS:
                if not whole_number(p, size, numbers == SIGNED, &whole):
                    return row
            else:
                if not short_float(p, size, &real):
                    with gil:
                        try:
                            real = any_float(p, size)
                        except ValueError:
                            return row
                whole = (<uint64_t*> &real)[0]
            put64(out + 8 * row, <int64_t> whole)
    check(found, &fault, text.columns)
    return -1


def parsed(Array text not None, bint floats, bint signed):
    """Return numbers of 64 bits, zeros under nulls, and the first row that holds no such number, or -1.

    The numbers begin at bit `text.offset` of the first byte of the validity bitmap that holds any of theirs.
    """
    check_native(text.columns, "a cast of text to numbers")
    cdef int64_t before = 8 * (text.offset % 8), size = before + 8 * text.length
    cdef bytes numbers = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* out = <uint8_t*> PyBytes_AS_STRING(numbers)
    memset(out, 0, size)
    return numbers, parse(text, FLOATS if floats else SIGNED if signed else UNSIGNED, out + before)
