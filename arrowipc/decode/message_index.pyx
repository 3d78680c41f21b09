"""Finds messages: all of a stream (its index), and messages in the middle of arbitrary bytes."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memchr

from arrowipc._core cimport Memory, Source, limits_data, open_message
from arrowipc.metadata.checksums cimport Checksum, closes_stream, find_checksum
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport fb_i64, fb_u8
from arrowipc.inline.footer_block cimport put_block
from arrowipc.inline.loads cimport inside, load_i32, load_i64, loose_i64
from arrowipc.inline.plan cimport Envelope, LimitsData
from arrowipc.decode.framing cimport (
    FRAME_END, FRAME_MESSAGE, FRAME_MORE, CutMessage, Framer, Message, cut_message, kind_name, read_prefix, sized_right,
)

from arrowipc.errors import ArrowIpcError, FormatError, LimitError, TruncatedError, UsageError
from arrowipc.decode.framing import message_of

cdef enum Scanned:
    SCAN_END = 0        # the stream is over
    SCAN_MORE           # the next prefix and metadata do not lie whole in the window
    SCAN_ROOM           # there is no room for another entry
    SCAN_BROKEN         # the next message is broken, or cut short
    SCAN_OTHER          # ... is neither a RecordBatch nor a DictionaryBatch
    SCAN_ROWS           # ... is a RecordBatch of a negative number of rows, or of too many

cdef enum:
    MOST_ZEROS = 1 << 16    # how many zeros before a file's first message are skipped
    ROOM_AT_ONCE = 1024     # how many entries, at least, the lists of an index grow by
    WIDE_WINDOW = 8         # times `near`: how much is read at once if messages are shorter than `near`
    SPARE_HEAD = 64         # bytes that are read beyond the size of the last head, if only heads are read


cdef inline void put_number(Memory numbers, int64_t number) noexcept nogil:
    (<loose_i64*> (numbers.data + numbers.size))[0] = number
    numbers.size += 8


cdef int scan_messages(StreamIndex index, const uint8_t* data, int64_t start, int64_t size) noexcept nogil:
    """Add the messages whose prefix and metadata lie in `size` bytes of the stream, from its byte `start` on."""
    cdef CutMessage cut
    cdef Envelope message
    cdef Checksum checksum
    cdef Fault fault
    cdef int64_t at, head, number = 0
    cdef int delta = 0, found
    while True:
        at = index.next - start
        if index.next == index.size:
            return SCAN_END
        if at >= size:
            return SCAN_MORE
        found = cut_message(data + at, size - at, &index.limits, &cut)
        if found == FRAME_END:
            return SCAN_END
        if found == FRAME_MORE:
            return SCAN_MORE if start + size < index.size and can_complete(data + at, size - at, index) else SCAN_BROKEN
        head = cut.rest - data - at
        if (open_message(cut.metadata, cut.metadata_size, &message, &fault) < 0
                or message.body_length > index.size - index.next - head):
            return SCAN_BROKEN
        if not has_room(index):
            return SCAN_ROOM
        if message.kind == MessageHeader_RecordBatch:
            if fb_i64(&message.header, RecordBatch_length, 0, &number) < 0:
                return SCAN_BROKEN
            if not 0 <= number <= index.limits.rows_per_batch:
                return SCAN_ROWS
            find_checksum(&message.root, Message_custom_metadata, &checksum)
            index.closed = closes_stream(&message, &checksum)
            if not index.closed:
                put_block(index.batches.data + index.batches.size, index.next, head, message.body_length)
                index.batches.size += Block_SIZE
                put_number(index.lengths, number)
                put_number(index.epochs, index.ids.size // 8)
        elif message.kind == MessageHeader_DictionaryBatch:
            if (fb_i64(&message.header, DictionaryBatch_id, 0, &number) < 0
                    or fb_u8(&message.header, DictionaryBatch_isDelta, 0, &delta) < 0):
                return SCAN_BROKEN
            put_block(index.dictionaries.data + index.dictionaries.size, index.next, head, message.body_length)
            index.dictionaries.size += Block_SIZE
            put_number(index.ids, number)
            put_number(index.deltas, delta != 0)
            index.closed = False
        else:
            return SCAN_OTHER
        index.head = head
        index.stride = head + message.body_length
        index.next += index.stride


cdef inline bint has_room(StreamIndex index) noexcept nogil:
    """Whether every list of an index can take another entry."""
    return (index.batches.capacity - index.batches.size >= Block_SIZE
            and index.dictionaries.capacity - index.dictionaries.size >= Block_SIZE)


cdef bint can_complete(const uint8_t* data, int64_t size, StreamIndex index) noexcept nogil:
    """Whether more bytes can complete the prefix and metadata at `data`; then raise `index.head` to their size."""
    cdef int32_t word
    cdef int64_t prefix = read_prefix(data, size, &word)
    if prefix == 0:
        return True
    if not sized_right(word, &index.limits) or word > index.size - index.next - prefix:
        return False
    index.head = max(index.head, prefix + word)
    return True


cdef class StreamIndex:
    """Where the messages of a stream lie, found by their prefixes and metadata alone: bodies are skipped.

    Columnar format, "IPC Streaming Format". Messages in it are framed and lie in the stream; nothing else is checked.
    The first message behind the Schema message begins at `start`, the stream has `size` bytes.
    """

    def __cinit__(self, int64_t start, int64_t size, limits=None):
        limits_data(limits, &self.limits)
        self.next = start
        self.size = size
        self.complete = start >= size
        self.batches, self.lengths, self.epochs = Memory(), Memory(), Memory()
        self.dictionaries, self.ids, self.deltas = Memory(), Memory(), Memory()

    def wanted(self, int64_t near):
        """Return which bytes of the stream to `scan` next, as (start, length).

        `near`: messages that are shorter than this many bytes are read through, longer ones stepped over.
        """
        length = WIDE_WINDOW * near if self.stride < near else self.head + SPARE_HEAD
        return self.next, min(max(length, self.head), self.size - self.next)

    def scan(self, window, int64_t start):
        """Add the messages whose prefix and metadata lie in `window`, the bytes of the stream from `start` on."""
        cdef Source source = window if isinstance(window, Source) else Source(window)
        cdef int found
        if not 0 <= start <= self.next:
            raise UsageError(f"scan: the bytes at {self.next:,} come next, found those from {start:,} on")
        while not self.complete:
            with nogil:
                found = scan_messages(self, source.data, start, source.size)
            if found == SCAN_ROOM:
                self.make_room()
            elif found == SCAN_MORE:
                return
            elif found == SCAN_END:
                self.complete = True
            else:
                self.raise_broken(source, start, found)

    def make_room(self):
        """Make room for more entries in every list."""
        cdef int64_t more
        cdef Memory memory
        for memory in (self.batches, self.dictionaries):
            more = ROOM_AT_ONCE + memory.size // Block_SIZE
            memory.reserve(memory.size + more * Block_SIZE)
        for memory in (self.lengths, self.epochs):
            memory.reserve(self.batches.capacity // Block_SIZE * 8)
        for memory in (self.ids, self.deltas):
            memory.reserve(self.dictionaries.capacity // Block_SIZE * 8)

    cdef int raise_broken(self, Source window, int64_t start, int found) except -1:
        """Raise what is wrong with the next message, as the readers of streams do."""
        cdef CutMessage cut
        cdef Envelope message
        cdef int64_t at = self.next - start, number = 0, there
        cdef Framer framer = Framer()
        framer.limits = self.limits
        framer.num_messages = 1 + self.lengths.size // 8 + self.ids.size // 8
        where = f"message {framer.num_messages + 1} (byte {self.next:,} of the stream)"
        if found == SCAN_BROKEN:
            if opens(window.data + at, window.size - at, &self.limits, &cut, &message, True):
                there = self.size - self.next - (cut.rest - window.data - at)
                if message.body_length > there:
                    raise TruncatedError(f"{where}: the input ends inside the body of this {kind_name(message.kind)}: "
                                         f"it needs {message.body_length:,} bytes and {there:,} are there "
                                         "(arrowipc.recover() reads up to here)")
                raise FormatError(f"{where}: the table of this {kind_name(message.kind)} is broken")
            framer.feed(window.part(at, window.size - at), True)
            framer.next_message()
            # The framer saw no error in the window alone.
            raise TruncatedError(f"{where}: the stream of {self.size:,} bytes ends inside it; arrowipc.recover() reads "
                                 "up to here")
        cut_message(window.data + at, window.size - at, &self.limits, &cut)
        opens(window.data + at, window.size - at, &self.limits, &cut, &message)
        if found == SCAN_OTHER:
            raise FormatError(f"{where}: a {kind_name(message.kind)} message inside a stream of record batches")
        fb_i64(&message.header, RecordBatch_length, 0, &number)
        if number < 0:
            raise FormatError(f"{where}: RecordBatch.length is {number}")
        raise LimitError(f"{where}: it claims {number} rows, more than Limits.rows_per_batch = "
                         f"{self.limits.rows_per_batch}")


# -- messages in the middle of bytes -------------------------------------------------------------------------


cdef bint opens(const uint8_t* data, int64_t size, const LimitsData* limits, CutMessage* cut,
                Envelope* envelope, bint torn=False) noexcept nogil:
    """Whether a message begins at `data` and lies whole in `size` bytes; with `torn`, its body need not."""
    cdef Fault fault
    return (cut_message(data, size, limits, cut) == FRAME_MESSAGE
            and open_message(cut.metadata, cut.metadata_size, envelope, &fault) == 0
            and (torn or envelope.body_length <= cut.rest_size))


cdef int64_t search(const uint8_t* data, int64_t size, int64_t at, bint schemas, const LimitsData* limits,
                    CutMessage* cut, Envelope* envelope, bint torn=False) noexcept nogil:
    """Return where the first plausible message begins, from byte `at` on; -1: nowhere."""
    cdef const void* spot
    while at <= size - 8:
        if data[at] != 0xFF:
            spot = memchr(data + at, 0xFF, size - 7 - at)
            if spot == NULL:
                return -1
            at = <const uint8_t*> spot - data
        if (load_i32(data + at) == -1 and load_i32(data + at + 4) & 7 == 0
                and opens(data + at, size - at, limits, cut, envelope, torn)
                and (not schemas if envelope.kind != MessageHeader_Schema else envelope.body_length == 0)):
            return at
        at += 1
    return -1


def find_message(Source source not None, int64_t start, *, bint schemas=False, bint there=False, limits=None):
    """Find a whole message from byte `start` on, among bytes that may be anything: (start, end, message) or None.

    `schemas`: only a Schema message. `there`: only at byte `start`, also in the framing from before Arrow 0.15. All
    that is known of the message is that its metadata is a Message table, and that its body lies in the source.
    """
    cdef Message message = Message.__new__(Message)
    cdef LimitsData bounds
    cdef CutMessage cut
    limits_data(limits, &bounds)
    if not 0 <= start < source.size:
        return None
    if there:
        if not opens(source.data + start, source.size - start, &bounds, &cut, &message.envelope):
            return None
    else:
        with nogil:
            start = search(source.data, source.size, start, schemas, &bounds, &cut, &message.envelope)
        if start < 0:
            return None
    message.metadata_bytes = cut.metadata
    message.metadata_size = cut.metadata_size
    message.body_bytes = cut.rest
    message.metadata_owner = message.body_owner = source
    return start, cut.rest - source.data + message.envelope.body_length, message


def find_schema(Source source not None, int64_t end, limits=None):
    """Find the Schema message at the beginning of a file whose footer begins at `end`, in any form that writers use.

    Return (start, stop, message). The Rust writer puts zeros in front of the message; Arrow C++ before 0.11 put one
    zero there, which moved its last byte into the next message; polars leaves its framing out; and the JavaScript
    writer writes none (`message` is None; the other messages begin at `start`).
    """
    cdef int64_t start = 8, stop
    cdef LimitsData bounds
    cdef CutMessage cut
    cdef Envelope envelope
    end = min(end, source.size)
    while start < min(end - 8, <int64_t> MOST_ZEROS) and load_i64(source.data + start) == 0:
        start += 8
    found = find_message(source, start, there=True, limits=limits)
    if found is not None:
        return found if found[2].kind == "Schema" else (start, start, None)
    if start < end and source.data[start] == 0:
        found = find_message(source, start + 1, there=True, limits=limits)
        if found is not None and found[2].kind == "Schema" and found[1] % 8 == 1:
            cut_short = bytes(found[2].metadata[:len(found[2].metadata) - 1])
            return start + 1, found[1] - 1, message_of(cut_short + b"\0", limits=limits)
    limits_data(limits, &bounds)
    with nogil:
        stop = search(source.data, end, start, False, &bounds, &cut, &envelope, True)
    if stop < 0:
        stop = end
        if stop - start >= 8 and load_i32(source.data + stop - 8) == -1 and load_i32(source.data + stop - 4) == 0:
            stop -= 8   # the end-of-stream marker
    if start + 8 < stop and stop - start <= bounds.metadata_bytes and load_i32(source.data + start) != -1:
        try:
            message = message_of(source.part(start, stop - start), limits=limits)
        except ArrowIpcError:
            return start, start, None
        if message.kind == "Schema":
            return start, stop, message
    return start, start, None
