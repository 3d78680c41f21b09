# The checksums of messages: how writers make them, and how readers find and compare them.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from arrowipc.inline.flatbuf cimport Table
from arrowipc.inline.plan cimport Envelope

cdef enum Verify:
    VERIFY_NOTHING = 0
    VERIFY_ALL              # messages without a checksum are refused
    VERIFY_THERE            # the checksums that there are

cdef enum:
    SUM_TEXT = 17           # the characters of a number, a colon, and a CRC
    SUM_DIGITS = 9          # where the eight digits of the CRC are in them

cdef struct Checksum:
    const uint8_t* text     # SUM_TEXT characters at least; NULL: there is none, or it has another form
    bint there              # there is an entry of that name
    bint closes             # it is that of the message that ends a stream
    bint alone              # there is no other entry


# Return the Verify that a reader's argument `verify` names.
cdef int verify_of(object verify) except -1
# Read the checksum of a Message or Footer table, whose custom_metadata are in this `slot` of its vtable.
cdef void find_checksum(const Table* table, int32_t slot, Checksum* out) noexcept nogil
# Whether a message only closes a stream: readers skip it.
cdef bint closes_stream(const Envelope* message, const Checksum* checksum) noexcept nogil
# Return the CRC's register after metadata whose checksum has its CRC at `digits`, and after more bytes.
cdef uint32_t crc_start(const uint8_t* data, int64_t size, const uint8_t* digits) noexcept nogil
cdef uint32_t crc_more(uint32_t register, const uint8_t* data, int64_t size) noexcept nogil
# Fill in the CRC of a message in one stretch, if it has a checksum.
cdef void sign_alone(uint8_t* metadata, int64_t size, const uint8_t* body, int64_t body_size) noexcept nogil
# Write, or read, eight hexadecimal digits.
cdef void put_hex(uint8_t* out, uint32_t number) noexcept nogil
cdef uint32_t read_hex(const uint8_t* digits) noexcept nogil
# Raise a FormatError if the checksum is not that of these bytes, or has another number than `number` (-1: any).
cdef int check_sum(const Checksum* checksum, const uint8_t* head, int64_t head_size, const uint8_t* body,
                   int64_t body_size, int64_t number, bint use_threads) except -1
# Whether a checksum has the CRC of a message; whether it has this number.
cdef bint is_right(const Checksum* checksum, const uint8_t* head, int64_t head_size, const uint8_t* body,
                   int64_t body_size) noexcept nogil
cdef bint has_number(const Checksum* checksum, int64_t number) noexcept nogil
# Find the byte with the one changed bit that explains a wrong CRC; -1: there is none.
cdef int64_t changed_byte(const Checksum* checksum, const uint8_t* head, int64_t head_size, const uint8_t* body,
                          int64_t body_size) noexcept nogil
