"""Checksums of messages: a writer stores one in each, and a reader compares it; docs/format.md defines them."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcmp

from arrowipc._core cimport Jobs, Source, next_job
from arrowipc.inline.crc32c cimport crc_init, crc_next, crc_portable, crc_power, crc_times
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, Vector, fb_i64, fb_root, fb_string, fb_vector, fb_vector_table
from arrowipc.inline.plan cimport Envelope
from arrowipc.inline.room cimport new_zeros

from arrowipc.arguments import check_choice
from arrowipc.errors import FormatError

crc_init()

cdef enum:
    KEY_SIZE = 17
    WORTH_RELEASING = 1 << 15   # bytes of a body: from this size on, the GIL is released
    WORTH_THREADS = 1 << 23     # bytes of a body: waking a helper takes as long as a quarter of this
    PIECE = 1 << 18             # bytes that a thread takes at once
    MOST_SEARCHED = 1 << 23     # bytes of a message in which a changed bit is searched; each byte takes 10 ns
    POLYNOMIAL = 0x82F63B78

cdef const char* KEY = b"arrowipc:checksum"
cdef const char* END = b":end"
cdef const uint8_t* BLANK = <const uint8_t*> b"00000000"

#: The entry of a message, and that of the message that closes a stream, before they are filled in.
PAIR = b"arrowipc:checksum", b"00000000:00000000"
CLOSING_PAIR = b"arrowipc:checksum", b"00000000:00000000:end"

NONE = "it has no checksum: if the source was written without checksum=True, read it without verify=True"
UNCLOSED = ("the stream ends without the message that closes it: messages are missing at its end, or its writer was "
            "not closed")


cdef int verify_of(object verify) except -1:
    """Return the Verify that a reader's `verify` names."""
    if verify is False:
        return VERIFY_NOTHING
    return (VERIFY_NOTHING, VERIFY_ALL, VERIFY_THERE)[
        (False, True, None).index(check_choice("verify", verify, (False, True, None)))]


cdef void find_checksum(const Table* table, int32_t slot, Checksum* out) noexcept nogil:
    cdef Vector entries, text
    cdef Table pair
    cdef int64_t i
    out.text, out.there, out.closes, out.alone = NULL, False, False, False
    if fb_vector(table, slot, 4, &entries) <= 0:
        return
    for i in range(entries.count):
        if fb_vector_table(table, &entries, i, &pair) < 0:
            return
        if (fb_string(&pair, KeyValue_key, &text) > 0 and text.count == KEY_SIZE
                and memcmp(text.data, KEY, KEY_SIZE) == 0):
            break
    else:
        return
    out.there = True
    out.alone = entries.count == 1
    if fb_string(&pair, KeyValue_value, &text) <= 0:
        return
    out.closes = text.count == SUM_TEXT + 4 and memcmp(text.data + SUM_TEXT, END, 4) == 0
    if text.count == SUM_TEXT or out.closes:
        out.text = text.data


cdef bint closes_stream(const Envelope* message, const Checksum* checksum) noexcept nogil:
    cdef int64_t rows = 1
    return (checksum.closes and message.kind == MessageHeader_RecordBatch
            and fb_i64(&message.header, RecordBatch_length, 0, &rows) >= 0 and rows == 0)


cdef uint32_t crc_start(const uint8_t* data, int64_t size, const uint8_t* digits) noexcept nogil:
    """Return the register after `data`, with eight zeros in the place of the CRC's digits."""
    cdef uint32_t before = crc_next(crc_next(~<uint32_t> 0, data, digits - data), BLANK, 8)
    return crc_next(before, digits + 8, data + size - digits - 8)


cdef void sign_alone(uint8_t* metadata, int64_t size, const uint8_t* body, int64_t body_size) noexcept nogil:
    cdef Checksum checksum
    cdef Table root
    if fb_root(metadata, size, &root) < 0:
        return
    find_checksum(&root, Message_custom_metadata, &checksum)
    if checksum.text != NULL:
        put_hex(metadata + (checksum.text - metadata) + SUM_DIGITS,
                message_crc(&checksum, metadata, size, body, body_size))


cdef uint32_t crc_more(uint32_t register, const uint8_t* data, int64_t size) noexcept nogil:
    return crc_next(register, data, size)


cdef void put_hex(uint8_t* out, uint32_t number) noexcept nogil:
    """Write a number as eight lower-case hexadecimal digits."""
    cdef int i, digit
    for i in range(8):
        digit = number >> (28 - 4 * i) & 15
        out[i] = <uint8_t> (digit + (48 if digit < 10 else 87))


cdef uint32_t read_hex(const uint8_t* digits) noexcept nogil:
    """Return the number of eight hexadecimal digits; other characters give any number."""
    cdef uint32_t number = 0
    cdef int i
    for i in range(8):
        number = number << 4 | (digits[i] - (48 if digits[i] < 58 else 87) & 15)
    return number


cdef class BodyCrc(Jobs):
    """The CRC of a large body; a job is a piece of it."""
    cdef const uint8_t* data
    cdef int64_t size
    cdef uint32_t* registers    # after each piece; each began as 0

    def __dealloc__(self):
        free(self.registers)

    cdef int work(self) except -1:
        cdef int64_t i
        with nogil:
            i = next_job(self)
            while i < self.n_jobs:
                self.registers[i] = crc_next(0, self.data + i * PIECE, min(<int64_t> PIECE, self.size - i * PIECE))
                i = next_job(self)
        return 0


cdef uint32_t crc_shared(uint32_t register, const uint8_t* data, int64_t size) except? 0:
    """Return the register after `data`, computed by several threads."""
    cdef BodyCrc body = BodyCrc()
    cdef uint32_t power = crc_power(PIECE)
    cdef int64_t i, last = (size - 1) // PIECE
    body.data, body.size = data, size
    body.registers = <uint32_t*> new_zeros(last + 1, sizeof(uint32_t))
    body.start(last + 1)
    body.run_all(True)
    for i in range(last):
        register = crc_times(register, power) ^ body.registers[i]
    return crc_times(register, crc_power(size - last * PIECE)) ^ body.registers[last]


cdef int check_sum(const Checksum* checksum, const uint8_t* head, int64_t head_size, const uint8_t* body,
                   int64_t body_size, int64_t number, bint use_threads) except -1:
    cdef const uint8_t* digits = checksum.text + SUM_DIGITS
    cdef uint32_t crc
    cdef int64_t at
    if checksum.text == NULL:
        raise FormatError("its checksum has been damaged" if checksum.there else NONE)
    if body_size < WORTH_RELEASING:
        crc = message_crc(checksum, head, head_size, body, body_size)
    elif body_size < WORTH_THREADS or not use_threads:
        with nogil:
            crc = message_crc(checksum, head, head_size, body, body_size)
    else:
        crc = ~crc_shared(crc_start(head, head_size, digits), body, body_size)
    if not is_hex_of(digits, crc):
        with nogil:
            at = changed_byte(checksum, head, head_size, body, body_size)
        where = "" if at < 0 else (f": a bit of byte {at:,} of its metadata has changed" if at < head_size else
                                   f": a bit of byte {at - head_size:,} of its body has changed")
        raise FormatError(f"its bytes are not those that were written: they have the CRC-32C {crc:08x}, its checksum "
                          f"says {read_hex(digits):08x}{where}")
    if number >= 0 and not has_number(checksum, number):
        raise FormatError("a message is missing, repeated or in another place: its checksum says that it is number "
                          f"{read_hex(checksum.text):,} of its source, from 0, found as number {number:,}")
    return 0


cdef uint32_t message_crc(const Checksum* checksum, const uint8_t* head, int64_t head_size, const uint8_t* body,
                          int64_t body_size) noexcept nogil:
    return ~crc_next(crc_start(head, head_size, checksum.text + SUM_DIGITS), body, body_size)


cdef bint is_hex_of(const uint8_t* digits, uint32_t number) noexcept nogil:
    """Whether eight digits are those that `put_hex` writes."""
    cdef uint8_t[8] found
    put_hex(found, number)
    return memcmp(found, digits, 8) == 0


cdef bint is_right(const Checksum* checksum, const uint8_t* head, int64_t head_size, const uint8_t* body,
                   int64_t body_size) noexcept nogil:
    return is_hex_of(checksum.text + SUM_DIGITS, message_crc(checksum, head, head_size, body, body_size))


cdef bint has_number(const Checksum* checksum, int64_t number) noexcept nogil:
    return is_hex_of(checksum.text, <uint32_t> number)


cdef int64_t changed_byte(const Checksum* checksum, const uint8_t* head, int64_t head_size, const uint8_t* body,
                          int64_t body_size) noexcept nogil:
    """Return the byte, counted through `head` and `body`, in which a single changed bit explains the CRC; -1: none."""
    cdef const uint8_t* digits = checksum.text + SUM_DIGITS
    cdef uint32_t state = POLYNOMIAL
    cdef uint32_t difference = read_hex(digits) ^ message_crc(checksum, head, head_size, body, body_size)
    cdef int64_t k, size = head_size + body_size
    if size > MOST_SEARCHED:
        return -1
    # A changed bit that has `k` bits behind it changes the CRC by x^(k + 32).
    for k in range(8 * size):
        if state == difference:
            return size - 1 - k // 8
        state = state >> 1 ^ (POLYNOMIAL if state & 1 else 0)
    return -1


def crc32c(data, bint portable=False):
    """Return the CRC-32C of bytes, for tests; `portable`: as processors without an instruction for it compute it."""
    cdef Source source = Source(data)
    if portable:
        return ~crc_portable(~<uint32_t> 0, source.data, source.size)
    return ~crc_next(~<uint32_t> 0, source.data, source.size)
