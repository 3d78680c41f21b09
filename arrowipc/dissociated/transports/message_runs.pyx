"""Runs of messages in the framing of `sockets`: many small messages are written, and read, together.

A run is the usual sequence of a stream over one connection: a header and the metadata of a message, a header and its
body, then the next message. Reading stops at anything else, and at invalid input: `SocketConnection.receive` handles
these message by message, and reports errors.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from arrowipc._core cimport Memory, Source, limits_data, open_message, window
from arrowipc.inline.body_parts cimport BodyPart, padding, put_part, stored_size
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.loads cimport load_i64, load_u32, load_u64, put32, put64
from arrowipc.inline.plan cimport LimitsData
from arrowipc.decode.framing cimport Message, Pieces

cdef enum:
    HEADER = 24             # kind, number of file descriptors, zeros: 8 bytes; tag; length
    PREFIX = 5              # of metadata: type 1, number
    HEAD = HEADER + PREFIX
    UNTAGGED = 0
    TAGGED = 1
    ALIGNMENT = 64
    SMALL = 1 << 13         # up to so many bytes, copying a stretch is faster than passing it to the system call

cdef uint64_t NUMBERS = <uint64_t> 1 << 32


cdef struct Found:
    # A message of a run, of which both parts are complete.
    const uint8_t* metadata
    int64_t metadata_size
    const uint8_t* body
    int64_t body_size
    const uint8_t* end


cdef inline bint find_message(const uint8_t* at, const uint8_t* end, uint64_t number, int64_t most,
                              Found* out) noexcept nogil:
    """Whether message `number` is complete at `at`: at most `most` bytes of metadata, then a packed body."""
    cdef int64_t left = end - at - HEAD, size
    if (left < HEADER or load_u64(at) != UNTAGGED or load_u64(at + 8) != 0 or at[HEADER] != 1
            or load_u32(at + HEADER + 1) != number):
        return False
    size = load_i64(at + 16)
    if size < 8 + PREFIX:
        return False
    size -= PREFIX
    if size > most or size > left - HEADER:
        return False
    out.metadata, out.metadata_size = at + HEAD, size
    at += HEAD + size
    left -= size + HEADER
    size = load_i64(at + 16)
    if load_u64(at) != TAGGED or load_u64(at + 8) != number or size < 0 or size > left:
        return False
    out.body, out.body_size = at + HEADER, size
    out.end = at + HEADER + size
    return True


cdef inline int64_t room_for(int64_t size) noexcept nogil:
    return size + padding(size, ALIGNMENT)


def read_run(stage, int64_t start, int64_t end, uint32_t number, limits=None):
    """Return the consecutive messages, from `number` on, at the start of ``stage[start:end]``, and their end.

    They are copied into one block of memory, with aligned bodies; a batch keeps this whole block, at most the stage.
    """
    cdef Source source = Source(stage)
    cdef LimitsData bounds
    cdef Found found
    cdef Memory memory
    cdef int64_t room = 0, last
    cdef uint64_t first = number, count = 0, i
    cdef const uint8_t* at
    cdef const uint8_t* stop
    cdef list messages = []
    end = min(end, source.size)
    if start < 0 or start > end:
        return messages, start
    limits_data(limits, &bounds)
    stop = source.data + end
    at = source.data + start
    while find_message(at, stop, (first + count) % NUMBERS, bounds.metadata_bytes, &found):
        room += room_for(found.metadata_size) + room_for(found.body_size)
        count += 1
        at = found.end
    if count == 0:
        return messages, start
    memory = Memory(room)
    at = source.data + start
    last = start
    for i in range(count):
        # Check again: another thread may have changed the stage since the first loop.
        if not find_message(at, stop, (first + i) % NUMBERS, bounds.metadata_bytes, &found):
            break
        message = copy_message(memory, &found, room)
        if message is None:
            break
        messages.append(message)
        at = found.end
        last = at - source.data
    return messages, last


cdef Message copy_message(Memory memory, const Found* found, int64_t room):
    """Copy a message behind the others in `memory`; return None if it is not a valid message of a run."""
    cdef Message message = Message.__new__(Message)
    cdef Fault fault
    cdef uint8_t* metadata = memory.data + memory.size
    cdef uint8_t* body = metadata + room_for(found.metadata_size)
    cdef int64_t missing
    if room_for(found.metadata_size) + room_for(found.body_size) > room - memory.size:
        return None
    memcpy(metadata, found.metadata, found.metadata_size)
    # Encapsulated metadata (with a prefix) are left to the general path.
    if load_u32(metadata) == 0xFFFFFFFF or open_message(metadata, found.metadata_size, &message.envelope, &fault) < 0:
        return None
    missing = message.envelope.body_length - found.body_size
    if message.envelope.kind not in (MessageHeader_RecordBatch, MessageHeader_DictionaryBatch) or not (
            0 <= missing < ALIGNMENT):
        return None
    memcpy(body, found.body, found.body_size)
    message.envelope.body_length = found.body_size
    message.metadata_bytes, message.metadata_size, message.metadata_owner = metadata, found.metadata_size, memory
    message.body_bytes, message.body_owner = body, memory
    memory.size += room_for(found.metadata_size) + room_for(found.body_size)
    return message


cdef inline uint8_t* put_header(uint8_t* at, int64_t kind, uint64_t tag, int64_t length) noexcept nogil:
    put64(at, kind)
    put64(at + 8, <int64_t> tag)
    put64(at + 16, length)
    return at + HEADER


cdef inline bint has_body(Message message) noexcept:
    return message.envelope.kind in (MessageHeader_RecordBatch, MessageHeader_DictionaryBatch)


cdef int64_t gathered_size(Message message, Pieces pieces, bint metadata, bint bodies) noexcept:
    """Return how many bytes of a message `write_run` copies."""
    cdef int64_t size = HEAD + message.metadata_size if metadata else 0
    cdef int32_t i
    if not bodies or not has_body(message):
        return size
    size += HEADER
    if pieces is None:
        return size + (message.envelope.body_length if message.envelope.body_length <= SMALL else 0)
    for i in range(pieces.count):
        size += stored_size(&pieces.parts[i]) + padding(stored_size(&pieces.parts[i]), pieces.alignment)
        if pieces.parts[i].size > SMALL:
            size -= pieces.parts[i].size
    return size


cdef class _Gathering:
    """The output of `write_run`: stretches of `memory`, into which small parts are copied, and large parts in place."""
    cdef Memory memory
    cdef uint8_t* at
    cdef uint8_t* sent      # bytes of `memory` before this are in `stretches` already
    cdef list stretches

    cdef int end_stretch(self) except -1:
        if self.at != self.sent:
            self.stretches.append(window(self.sent, self.at - self.sent, self.memory))
            self.sent = self.at
        return 0

    cdef int put(self, const uint8_t* data, int64_t size, object owner) except -1:
        if size > SMALL:
            self.end_stretch()
            self.stretches.append(window(data, size, owner))
        elif size:
            memcpy(self.at, data, size)
            self.at += size
        return 0

    cdef int put_body(self, Message message, Pieces pieces) except -1:
        cdef const BodyPart* part
        cdef int64_t pad
        cdef int32_t i
        if pieces is None:
            return self.put(message.body_bytes, message.envelope.body_length, message.body_owner)
        for i in range(pieces.count):
            part = &pieces.parts[i]
            if part.size <= SMALL:
                self.at = put_part(self.at, part, pieces.alignment)
                continue
            if part.prefixed:
                put64(self.at, part.prefix)
                self.at += 8
            self.put(part.data, part.size, pieces.owners)
            pad = padding(stored_size(part), pieces.alignment)
            memset(self.at, 0, pad)
            self.at += pad
        return 0


def write_run(uint32_t number, list messages not None, bint metadata=True, bint bodies=True):
    """Return the bytes to send for messages of a stream, numbered from `number` on, as consecutive views.

    Small parts are copied together, large ones are not copied.
    """
    cdef _Gathering out = _Gathering.__new__(_Gathering)
    cdef Message message
    cdef int64_t size = 0
    cdef uint64_t first = number
    # Keep the pieces: another thread may join a body into one block meanwhile.
    cdef list held = [(<Message?> each).in_pieces() for each in messages]
    for message, pieces in zip(messages, held):
        size += gathered_size(message, pieces, metadata, bodies)
    out.memory = Memory(size)
    out.memory.size = size
    out.at = out.sent = out.memory.data
    out.stretches = []
    for message, pieces in zip(messages, held):
        if metadata:
            out.at = put_header(out.at, UNTAGGED, 0, PREFIX + message.metadata_size)
            out.at[0] = 1
            put32(out.at + 1, <int64_t> first)
            memcpy(out.at + PREFIX, message.metadata_bytes, message.metadata_size)
            out.at += PREFIX + message.metadata_size
        if bodies and has_body(message):
            out.at = put_header(out.at, TAGGED, first, message.envelope.body_length)
            out.put_body(message, pieces)
        first = (first + 1) % NUMBERS
    out.end_stretch()
    return out.stretches
