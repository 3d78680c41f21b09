"""Bodies that are sent as pairs of an address and a length for every buffer (body type 1).

See Dissociated IPC, "Data Stream Sequence". Both sides agree on the meaning of an address: an offset into shared
memory, or a position in the memory of the peer. `Pairs` checks addresses against the memory that the caller passes,
and reads nothing else. `Lease` is memory that is given back when nothing reads it any more.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from arrowipc._core cimport Memory, Source, export_bytes
from arrowipc.inline.body_parts cimport BodyPart
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.loads cimport load_i64, load_u64
from arrowipc.inline.plan cimport BatchHeader
from arrowipc.decode.framing cimport Message, Pieces, find_batch, open_apart

from arrowipc.errors import FormatError
from arrowipc.decode.framing import message_of

cdef enum:
    PAIR = 16
    ALIGNMENT = 64

cdef enum:
    # Ways to assign pairs to buffers: one pair for each buffer, in order, ...
    ONE_EACH = 4
    NO_PADDING = 1      # ... but pairs of address 0 are padding, and skipped
    FILLED = 2          # ... but empty buffers have no pair

cdef uint64_t MOST = <uint64_t> 1 << 62     # limit for lengths and their sum, so that sums cannot overflow


cdef int open_buffers(Message message, BatchHeader* out) except -1:
    """Find the Buffer vector of a RecordBatch or DictionaryBatch message."""
    if not find_batch(message, out):
        raise FormatError(f"a {message.kind} message has no buffers")
    return 0


cdef inline void store_u64(uint8_t* out, uint64_t value) noexcept nogil:
    memcpy(out, &value, 8)


def write_pairs(Message message not None, uint64_t address):
    """Return the body of type 1 for a packed body of `message` at `address`.

    It has one pair per Buffer of the metadata. If buffers follow each other, lengths reach up to the next buffer, so
    that the joined pairs are the packed body, too, padding included; empty buffers are (0, 0).
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


def write_places(Message message not None, memory, uint64_t address):
    """Return the body of type 1 with the places of `message`'s buffers in `memory`; None if not all are inside it.

    `address` is the address of the first byte of `memory`.
    """
    cdef Source held = Source(memory)
    cdef Pieces pieces = message.in_pieces()
    cdef BatchHeader header
    cdef const BodyPart* part
    cdef uint64_t low = <uint64_t> held.data, room = <uint64_t> held.size, size, total = 0, place
    cdef bytes out
    cdef uint8_t* at
    cdef int32_t i
    if pieces is None:
        place = <uint64_t> message.body_bytes - low
        size = <uint64_t> message.envelope.body_length
        if <uint64_t> message.body_bytes < low or size > room or place > room - size:
            return None
        return write_pairs(message, address + place)
    open_buffers(message, &header)
    if header.buffers.count != pieces.count:
        return None
    out = PyBytes_FromStringAndSize(NULL, PAIR * (pieces.count + 1))
    at = <uint8_t*> PyBytes_AS_STRING(out)
    for i in range(pieces.count):
        part = &pieces.parts[i]
        if part.prefixed:
            return None                     # the length before a compressed buffer is not in `memory`
        size = <uint64_t> part.size
        place = <uint64_t> part.data - low if size else 0
        if size and (<uint64_t> part.data < low or size > room or place > room - size):
            return None
        store_u64(at + PAIR * (i + 1), address + place if size else 0)
        store_u64(at + PAIR * (i + 1) + 8, size)
        total += size
    store_u64(at, total)
    store_u64(at + 8, pieces.count)
    return out


@cython.final
cdef class Pairs:
    """The body of type 1 of one message, as it arrived: only its own consistency is checked.

    A pair of address 0 stands for padding, unless it belongs to a buffer that is not empty. Some servers send the
    length of the body instead of the sum of the lengths.
    """

    cdef Source source
    cdef readonly int64_t count
    cdef readonly int64_t body_length   # according to the metadata; -1 if not known
    cdef readonly uint64_t total        # bytes of all pairs
    cdef readonly uint64_t start        # the lowest address of a pair that is not padding; 0 if there is none
    cdef readonly uint64_t end          # one past the highest byte
    cdef uint64_t low                   # the same for the pairs that belong to buffers of the current message
    cdef uint64_t high

    def __cinit__(self, data, int64_t body_length=-1):
        # Copy the bytes: they must not change after they were checked.
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
        self.body_length = body_length
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
        """list of int: the addresses to free, one for each pair that is not empty or padding; they may repeat."""
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
        """Return the `Message` whose buffers are at the pairs' places in `memory`; copy them only if necessary."""
        cdef Source held = Source(memory)
        cdef BatchHeader header
        # Copy the metadata, even if they are bytes: the offsets of its buffers may be changed.
        copied = bytes(memoryview(metadata))
        cdef Message message = open_apart(copied, b"", limits)
        cdef int64_t claimed = message.envelope.body_length
        cdef int matched
        open_buffers(message, &header)
        matched = self.assign(&header)
        if not matched:
            self.check_whole(&header, claimed)
        self.check_inside(held, address)
        if matched:
            self.follow(&header, matched, True)
            # The offsets in the metadata now refer to this span.
            message.body_owner = Source(self.span(held, address))
            message.body_bytes = (<Source> message.body_owner).data
            message.envelope.body_length = (<Source> message.body_owner).size
            return message
        return message_of(copied, self.joined(held, address), limits)

    cdef int assign(self, const BatchHeader* header) noexcept nogil:
        """Return the first way to assign pairs to buffers that gives each buffer all its bytes.

        0 if there is none: then the pairs can only be the packed body in pieces.
        """
        cdef int way
        for way in range(ONE_EACH, ONE_EACH + 4):
            self.low, self.high = self.start, self.end
            if self.follow(header, way, False):
                return way
        self.low, self.high = self.start, self.end
        return 0

    cdef int check_whole(self, const BatchHeader* header, int64_t claimed) except -1:
        """Raise unless the pairs can be the packed body in pieces; they do not fit its buffers."""
        cdef int64_t i, length
        # If there are as many pairs as buffers, one that is too short is an error, unless all are the whole body.
        if self.count == header.buffers.count and <int64_t> self.total != claimed:
            for i in range(self.count):
                length = load_i64(header.buffers.data + Buffer_SIZE * i + Buffer_length)
                if length < 0 or <uint64_t> length > self.length(i):
                    raise FormatError(f"pair {i} has {self.length(i):,} bytes, and its buffer {length:,}")
        if not 0 <= claimed - <int64_t> self.total < ALIGNMENT:
            raise FormatError(f"{self.count:,} pairs of {self.total:,} bytes for {header.buffers.count:,} buffers in a "
                              f"body of {claimed:,} bytes: neither one per buffer nor the body as a whole")
        return 0

    cdef bint follow(self, const BatchHeader* header, int way, bint put) noexcept nogil:
        """Return whether pairs and buffers fit each other; with `put`, write each buffer's offset to the metadata."""
        cdef int64_t i, k = 0, length
        cdef uint8_t* buffer
        for i in range(header.buffers.count):
            buffer = <uint8_t*> header.buffers.data + Buffer_SIZE * i
            length = load_i64(buffer + Buffer_length)
            if length == 0 and way & FILLED:
                if put:
                    store_u64(buffer + Buffer_offset, 0)
                continue
            k = self.passed_over(k, way)
            if k == self.count or length < 0 or <uint64_t> length > self.length(k):
                return False
            if put:
                store_u64(buffer + Buffer_offset, self.address(k) - self.low if length else 0)
            elif length:
                self.reach(self.address(k), self.length(k))
            k += 1
        return self.passed_over(k, way) == self.count

    cdef int64_t passed_over(self, int64_t k, int way) noexcept nogil:
        """Return the next pair, from `k` on, that can belong to a buffer."""
        while k < self.count and ((way & FILLED and self.length(k) == 0)
                                  or (way & NO_PADDING and self.address(k) == 0 and self.length(k))):
            k += 1
        return k

    cdef int check_inside(self, Source held, uint64_t address) except -1:
        cdef uint64_t size = self.high - self.low
        if size and (self.low < address or self.low - address > <uint64_t> held.size
                     or size > <uint64_t> held.size - (self.low - address)):
            raise FormatError(f"the pairs reach from address {self.low:,} to {self.high:,}, and the memory that they "
                              f"speak of is {held.size:,} bytes at {address:,}")
        return 0

    cdef object span(self, Source held, uint64_t address):
        """Return the memory from the lowest to the highest byte."""
        return held.part(<int64_t> (self.low - address), <int64_t> (self.high - self.low)) if self.high else b""

    cdef object joined(self, Source held, uint64_t address):
        """Return the bytes of all pairs, joined, with zeros for padding."""
        cdef Memory memory
        cdef uint64_t size
        cdef int64_t i, at = 0
        if self.in_a_row():
            return self.span(held, address)
        # Pairs that share bytes could require any amount of memory: allow the memory that was checked, plus padding.
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


# -- memory that belongs to the peer, and is given back ------------------------------------------------------


@cython.final
@cython.no_gc   # a garbage collector that finalises a cycle in any order could return memory that others still read
cdef class Lease:
    """A readable stretch of memory; `returned(token)` is called once, when nothing points into it any more.

    That may happen in any thread and at any moment, also during garbage collection: `returned` must neither block nor
    raise. ``queue.SimpleQueue.put`` is suitable.
    """

    cdef Py_buffer view
    cdef bint held
    cdef object returned
    cdef object token

    def __cinit__(self, memory, returned, token):
        PyObject_GetBuffer(memory, &self.view, PyBUF_SIMPLE)
        self.held = True
        self.returned = returned
        self.token = token

    def __getbuffer__(self, Py_buffer* view, int flags):
        export_bytes(self, view, <const uint8_t*> self.view.buf, <int64_t> self.view.len, False, flags)

    def __del__(self):
        if self.held:
            self.held = False
            PyBuffer_Release(&self.view)
            self.returned(self.token)
