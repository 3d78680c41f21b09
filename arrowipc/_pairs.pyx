"""Bodies that are told of instead of sent: pairs of an address and a length for every buffer (body type 1).

Dissociated IPC, "Data Stream Sequence". An address is whatever both sides agree on: an offset into shared memory, or a
position in the memory of the peer. Nothing here follows one: pairs are compared with the memory that the caller has.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from arrowipc._bytes cimport load_i64
from arrowipc._core cimport BatchHeader, Memory, Source, open_batch, raise_fault
from arrowipc._fault cimport Fault
from arrowipc._flatbuf cimport Table, fb_table
from arrowipc._layout cimport *
from arrowipc._message cimport Message, open_apart

from arrowipc._message import message_of
from arrowipc.errors import FormatError

cdef enum:
    PAIR = 16
    ALIGNMENT = 64

cdef uint64_t MOST = <uint64_t> 1 << 62     # bytes that sums of lengths and addresses stay far below


cdef int open_buffers(Message message, BatchHeader* out) except -1:
    """The Buffer vector of a RecordBatch or DictionaryBatch message."""
    cdef Table table = message.envelope.header
    cdef Fault fault
    if message.envelope.kind == MessageHeader_DictionaryBatch:
        if fb_table(&message.envelope.header, DictionaryBatch_data, &table) <= 0:
            raise FormatError("DictionaryBatch.data is missing, or does not lie inside the metadata")
    elif message.envelope.kind != MessageHeader_RecordBatch:
        raise FormatError(f"a {message.kind} message has no buffers")
    if open_batch(&table, out, &fault) < 0:
        raise_fault(&fault)
    return 0


cdef inline uint64_t load_u64(const uint8_t* data) noexcept nogil:
    return <uint64_t> load_i64(data)


cdef inline void store_u64(uint8_t* out, uint64_t value) noexcept nogil:
    memcpy(out, &value, 8)


def write_pairs(Message message not None, uint64_t address):
    """Return the body of type 1 that says: the packed body of `message` lies at `address`.

    One pair per Buffer of the metadata. Where the buffers lie one behind the other, lengths reach up to the next
    buffer, so that the pairs put together are the packed body too, padding included; empty buffers are (0, 0).
    """
    cdef BatchHeader header
    cdef bytes out
    cdef uint8_t* at
    cdef const uint8_t* buffer
    cdef int64_t i, offset, length, end
    cdef uint64_t total = 0
    open_buffers(message, &header)
    out = PyBytes_FromStringAndSize(NULL, PAIR * (header.buffers.count + 1))
    at = <uint8_t*> PyBytes_AS_STRING(out)
    end = message.envelope.body_length
    for i in range(header.buffers.count - 1, -1, -1):
        buffer = header.buffers.data + Buffer_SIZE * i
        offset = load_i64(buffer + Buffer_offset)
        length = load_i64(buffer + Buffer_length)
        if length < 0 or offset < 0 or offset > message.envelope.body_length - length:
            raise FormatError(f"buffer {i}: bytes {offset}..+{length} lie outside the "
                              f"{message.envelope.body_length}-byte body")
        if length == 0:
            store_u64(at + PAIR * (i + 1), 0)
            store_u64(at + PAIR * (i + 1) + 8, 0)
            continue
        if offset + length <= end and end - offset - length < ALIGNMENT:
            length = end - offset
        end = offset
        store_u64(at + PAIR * (i + 1), address + <uint64_t> offset)
        store_u64(at + PAIR * (i + 1) + 8, length)
        total += <uint64_t> length
    store_u64(at, total)
    store_u64(at + 8, header.buffers.count)
    return out


@cython.final
cdef class Pairs:
    """The body of type 1 of one message, as it arrived: checked in itself, and in nothing else.

    A pair of address 0 stands for padding, unless it is that of a buffer that is not empty.

    Parameters
    ----------
    data : bytes-like
        Two words (all bytes, number of pairs) and a pair of words (address, length) for each buffer; copied.
    body_length : int, optional
        Of the metadata: some servers say this in place of the sum of the lengths.

    Raises
    ------
    FormatError
        The number of pairs does not fit the length of the message, or the lengths do not add up.
    """

    cdef Source source
    cdef readonly int64_t count
    cdef readonly uint64_t total        # bytes of all pairs
    cdef readonly uint64_t start        # the lowest address of a pair that is no padding, 0: there is none
    cdef readonly uint64_t end          # one past the highest byte
    cdef uint64_t low                   # the same for the message at hand
    cdef uint64_t high

    def __init__(self, data, int64_t body_length=-1):
        # A copy: what was checked here must still be there when it is followed.
        cdef Source source = Source(bytes(memoryview(data)))
        cdef uint64_t count, claimed, address, length, total = 0
        cdef int64_t i
        if source.size < PAIR or source.size % PAIR:
            raise FormatError(f"a body of type 1 has 16 bytes and 16 more per buffer, found {source.size:,} bytes")
        count = load_u64(source.data + 8)
        if count != <uint64_t> (source.size // PAIR - 1):
            raise FormatError(f"a body of type 1 of {source.size:,} bytes has {source.size // PAIR - 1:,} pairs, and "
                              f"it says {count:,}")
        self.source = source
        self.count = <int64_t> count
        self.low = self.high = 0
        for i in range(self.count):
            address = self.address(i)
            length = self.length(i)
            if length == 0:
                continue
            if address + length < address or length > MOST or total + length > MOST:
                raise FormatError(f"pair {i}: {length:,} bytes at address {address:,} are no place in memory")
            total += length
            if address:
                self.reach(address, length)
        claimed = load_u64(source.data)
        if claimed != total and not (body_length >= 0 and claimed == <uint64_t> body_length):
            raise FormatError(f"a body of type 1: its pairs have {total:,} bytes together, and it says {claimed:,}")
        self.total = total
        self.start, self.end = self.low, self.high

    cdef inline void reach(self, uint64_t address, uint64_t length) noexcept nogil:
        if self.high == 0 or address < self.low:
            self.low = address
        if address + length > self.high:
            self.high = address + length

    cdef inline uint64_t address(self, int64_t i) noexcept nogil:
        return load_u64(self.source.data + PAIR * (i + 1))

    cdef inline uint64_t length(self, int64_t i) noexcept nogil:
        return load_u64(self.source.data + PAIR * (i + 1) + 8)

    @property
    def places(self):
        """list of (int, int): address and length of every pair that is not empty, in order."""
        cdef int64_t i
        return [(self.address(i), self.length(i)) for i in range(self.count) if self.length(i)]

    @property
    def addresses(self):
        """list of int: what has to be freed, each as often as it was given; padding has not."""
        cdef int64_t i
        return [self.address(i) for i in range(self.count) if self.length(i) and self.address(i)]

    def moved(self, addresses):
        """Return the same pairs with other addresses, one for each of `places`."""
        cdef bytearray out = bytearray(self.source.part(0, self.source.size))
        cdef int64_t i
        new = iter(addresses)
        out[0:8] = self.total.to_bytes(8, "little")
        for i in range(self.count):
            if self.length(i):
                out[PAIR * (i + 1):PAIR * (i + 1) + 8] = next(new).to_bytes(8, "little")
        return Pairs(out)

    def message(self, metadata, memory, uint64_t address, limits=None):
        """Return the `Message` whose buffers are those of the pairs, without copying them where that is possible.

        Parameters
        ----------
        metadata : bytes-like
            Of the message.
        memory : bytes-like
            What all pairs have to lie in; the message keeps it alive.
        address : int
            Of its first byte.
        limits : Limits, optional

        Raises
        ------
        FormatError
            A pair lies outside `memory`, is shorter than its buffer, or there is no way to tell which buffer a pair
            belongs to.
        """
        cdef Source held = Source(memory)
        cdef BatchHeader header
        # A copy of the metadata, also of bytes: the places of its buffers may have to change.
        copied = bytes(memoryview(metadata))
        cdef Message message = open_apart(copied, b"", limits)
        cdef int64_t claimed = message.envelope.body_length
        cdef int matched
        self.low, self.high = self.start, self.end
        open_buffers(message, &header)
        matched = self.assign(&header)
        if matched:
            self.check_lengths(&header, matched)
        self.check_inside(held, address)
        if matched:
            self.put_places(&header, matched)
            # The metadata says where its buffers lie in here from now on.
            message.body_owner = Source(self.span(held, address))
            message.body_bytes = (<Source> message.body_owner).data
            message.envelope.body_length = (<Source> message.body_owner).size
            return message
        if self.total > <uint64_t> claimed or <uint64_t> claimed - self.total >= ALIGNMENT:
            raise FormatError(f"{self.count:,} pairs of {self.total:,} bytes for {header.buffers.count:,} buffers in a "
                              f"body of {claimed:,} bytes: neither one per buffer nor the body as a whole")
        return message_of(copied, self.joined(held, address), limits)

    cdef int assign(self, const BatchHeader* header) except -1:
        """Whose pairs these are: 1 one per Buffer, 2 one per Buffer that is not empty, 0 the packed body in pieces."""
        cdef int64_t i, filled = 0
        if self.count == header.buffers.count:
            return 1
        for i in range(header.buffers.count):
            filled += load_i64(header.buffers.data + Buffer_SIZE * i + Buffer_length) != 0
        return 2 if self.count == filled else 0

    cdef int check_lengths(self, const BatchHeader* header, int matched) except -1:
        """Whether every buffer that is not empty has all its bytes; its pair is no padding, wherever it lies."""
        cdef int64_t i, k = 0, length
        for i in range(header.buffers.count):
            length = load_i64(header.buffers.data + Buffer_SIZE * i + Buffer_length)
            if length == 0:
                k += matched == 1
                continue
            if length < 0 or <uint64_t> length > self.length(k):
                raise FormatError(f"pair {k} has {self.length(k):,} bytes, and its buffer {length:,}")
            self.reach(self.address(k), self.length(k))
            k += 1
        return 0

    cdef int check_inside(self, Source held, uint64_t address) except -1:
        cdef uint64_t size = self.high - self.low
        if size and (self.low < address or self.low - address > <uint64_t> held.size
                     or size > <uint64_t> held.size - (self.low - address)):
            raise FormatError(f"the pairs reach from address {self.low:,} to {self.high:,}, and the memory that they "
                              f"speak of is {held.size:,} bytes at {address:,}")
        return 0

    cdef object span(self, Source held, uint64_t address):
        """The memory from the lowest to the highest byte."""
        return held.part(<int64_t> (self.low - address), <int64_t> (self.high - self.low)) if self.high else b""

    cdef int put_places(self, BatchHeader* header, int matched) except -1:
        """Write the places of the pairs into the metadata's Buffer structs, which are ours to change."""
        cdef int64_t i, k = 0
        cdef uint8_t* buffer
        for i in range(header.buffers.count):
            buffer = <uint8_t*> header.buffers.data + Buffer_SIZE * i
            if load_i64(buffer + Buffer_length) == 0:
                store_u64(buffer + Buffer_offset, 0)
                k += matched == 1
                continue
            store_u64(buffer + Buffer_offset, self.address(k) - self.low)
            k += 1
        return 0

    cdef object joined(self, Source held, uint64_t address):
        """The bytes of all pairs, one behind the other, and zeros for padding."""
        cdef Memory memory
        cdef uint64_t size
        cdef int64_t i, at = 0
        if self.in_a_row():
            return self.span(held, address)
        # No more than was checked to be there: pairs that share bytes could ask for any amount of memory.
        if self.total > self.high - self.low + <uint64_t> ALIGNMENT * <uint64_t> self.count:
            raise FormatError(f"{self.count:,} pairs that are no buffers of their own have {self.total:,} bytes, and "
                              f"the memory that they speak of only {self.high - self.low:,}: they overlap")
        memory = Memory(<int64_t> self.total)
        memory.size = <int64_t> self.total
        for i in range(self.count):
            size = self.length(i)
            if self.address(i):
                memcpy(memory.data + at, held.data + (self.address(i) - address), size)
            else:
                memset(memory.data + at, 0, size)
            at += <int64_t> size
        return memory

    cdef bint in_a_row(self) noexcept nogil:
        cdef uint64_t at = self.low
        cdef int64_t i
        for i in range(self.count):
            if self.length(i):
                if self.address(i) != at or at == 0:
                    return False
                at += self.length(i)
        return True
