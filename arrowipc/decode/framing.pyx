"""Framing: cuts chunks of input into whole encapsulated messages (prefix, metadata, body), without any I/O.

Columnar format, "Encapsulated message format": a continuation marker ``FFFFFFFF`` (absent before Arrow 0.15),
the metadata's size as int32, the metadata, and `Message.bodyLength` bytes of body. A size of 0 ends the stream.
"""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from arrowipc._core cimport (
    Memory, Source, export_bytes, limits_data, open_batch, open_message, raise_fault, read_pairs, window,
)
from arrowipc.metadata.checksums cimport (
    SUM_DIGITS, VERIFY_ALL, VERIFY_THERE, Checksum, changed_byte, check_sum, closes_stream, find_checksum, has_number,
    is_right, read_hex, sign_alone, verify_of,
)
from arrowipc.inline.body_parts cimport BodyPart, padding, put_parts, stored_size
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, fb_field, fb_i64, fb_table, fb_u8
from arrowipc.inline.loads cimport inside, load_i32, load_i64, prefetch
from arrowipc.inline.plan cimport BatchHeader
from arrowipc.inline.threads cimport count_up

from _collections import deque  # `collections` loads a dozen modules

from arrowipc.arguments import check_choice, check_flag, check_integer, described, integer_of, metadata_of
from arrowipc.metadata.checksums import UNCLOSED
from arrowipc.errors import ArrowIpcError, FormatError, LimitError, TruncatedError, UsageError

cdef enum State:
    STATE_PREFIX        # expecting a continuation marker, a legacy size, or the end
    STATE_SIZE          # ... the size behind a continuation marker
    STATE_METADATA
    STATE_BODY
    STATE_END

cdef enum:
    LARGE_SCHEMA = 1 << 23
    WORTH_LETTING_GO = 1 << 15  # bytes: from this size on, a copy releases the GIL
    CACHE_LINE = 64
    LINES_AHEAD = 12            # a prefix and the metadata of about ten columns; 18 were slower

cdef tuple PIECES = ("prefix", "prefix", "metadata", "body", "end")
cdef tuple KINDS = ("NONE", "Schema", "DictionaryBatch", "RecordBatch", "Tensor", "SparseTensor")


cdef str kind_name(int kind):
    return KINDS[kind] if 0 <= kind < len(KINDS) else str(kind)


cdef str UNUSED = "its __init__ was not called"


cdef class Framer:
    """Cuts input into messages; feed it chunks of any size, or let it lend its memory to a read.

    Pieces that lie whole in one chunk are not copied: the message points into the chunk and keeps it alive. `verify`
    is as for readers.
    """

    def __cinit__(self):
        self.state = STATE_PREFIX
        self.wanted = 4
        self.failure = UNUSED

    def __init__(self, limits=None, verify=False):
        if self.failure is not UNUSED or type(self) is not Framer:
            raise UsageError("a framer begins once: make another one")
        limits_data(limits, &self.limits)
        self.verify = verify_of(verify)
        self.failure = None

    # -- input --

    def feed(self, data, last=False):
        """Add input behind what is there; `last`: nothing will follow, so a message that stops short fails at once.

        `data` is held, not copied, and must not change while messages point into it.
        """
        cdef Source source = Source(data)
        last = last is not False and check_flag("last", last)
        self.occupy()
        try:
            if self.last:
                raise UsageError("feed() after the last chunk")
            if self.chunk is None or self.at == self.chunk.size:
                self.chunk = source
                self.at = 0
            elif self.queue is None:
                self.queue = deque((source,))
            else:
                self.queue.append(source)
            self.last = last
        finally:
            self.vacate()

    @property
    def bytes_needed(self):
        """int: how many more bytes complete the current piece (0 after the end); reading more is allowed."""
        if self.state == STATE_END:
            return 0
        with cython.critical_section(self):
            self.check_idle()
            held = self.partial.size if self.partial is not None else 0
            return max(self.wanted - held - self._unread(), 0)

    @property
    def bytes_fed(self):
        """int: bytes of the input so far, including those of an incomplete message."""
        return self.bytes_consumed + self._unread() + (self.partial.size if self.partial is not None else 0)

    cdef int64_t _unread(self) noexcept:
        cdef int64_t total = 0
        cdef Source source
        if self.chunk is not None:
            total = self.chunk.size - self.at
        if self.queue is not None:
            for source in self.queue:
                total += source.size
        return total

    def get_buffer(self, sizehint=-1):
        """Lend writable memory for the bytes that are needed next: read into it, then call `buffer_updated`.

        At least one and at most `bytes_needed` bytes; never more than ``Limits.read_ahead`` beyond twice of what was
        received, whatever the input claims.
        """
        integer_of("sizehint", sizehint)
        self.occupy()
        try:
            return self._lend()
        finally:
            self.vacate()

    cdef object _lend(self):
        if self._unread():
            raise UsageError("get_buffer() while fed input is unread: take the events first")
        if self.state == STATE_END:
            raise UsageError("get_buffer() after the end of the stream")
        if self.partial is None:
            # Release the last message: unless somebody else holds it, its memory can be reused for the next one.
            self.piece_owner = self.body_owner = None
            self.partial = Memory()
        held = self.partial.size
        room = min(self.wanted, held + max(held, self.limits.read_ahead))
        self.partial.reserve(room)
        return memoryview(_Loan(self.partial, room - held))

    def buffer_updated(self, nbytes):
        """Say that `nbytes` bytes were written to the memory that `get_buffer` lent."""
        self.occupy()
        try:
            self._filled(check_integer("nbytes", nbytes, 0, 2**63 - 1))
        finally:
            self.vacate()

    cdef int _filled(self, int64_t nbytes) except -1:
        if self.partial is None or not 0 <= nbytes <= min(self.partial.capacity, self.wanted) - self.partial.size:
            raise UsageError(f"buffer_updated({nbytes}) does not fit the memory that get_buffer() lent")
        self.partial.size += nbytes
        return 0

    def pump(self, read, source):
        """Call ``read(source, buffer)`` for some of the bytes that are needed next; 0 bytes: the input is over."""
        self.occupy()
        try:
            if (self._unread() or self.state == STATE_END
                    or (self.partial is not None and self.partial.size >= self.wanted)):
                return      # another thread has read them meanwhile
            with self._lend() as buffer:
                count = read(source, buffer)
            if count:
                self._filled(count)
        except ValueError:
            self.check_usable()     # if the source was closed meanwhile, by `release` and its caller, say so
            raise
        finally:
            self.vacate()
        if not count:
            self.finish()

    def apart(self, call):
        """Return the result of ``call()``, which moves the source; meanwhile nobody else may use this reader."""
        with cython.critical_section(self):
            self.check_idle()
            self.busy = True
        try:
            return call()
        except ValueError:
            self.check_usable()     # if the source was closed meanwhile, say so
            raise
        finally:
            self.vacate()

    def finish(self):
        """Say that the input is over: inside a message, a TruncatedError. Unread messages can still be taken."""
        self.occupy()
        try:
            self.last = True
            if self.partial is not None and self.partial.size == 0:
                self.partial = None     # memory that was lent and not filled
            if self._unread() == 0 and self.state != STATE_END and (self.state != STATE_PREFIX
                                                                    or self.partial is not None):
                self._truncated()
            if self._unread() == 0 and self.is_unclosed():
                raise TruncatedError(UNCLOSED)
        except TruncatedError as error:
            self.poison(error)
            raise
        finally:
            self.vacate()

    def interrupt(self, error):
        """Refuse to go on after an error that may have lost bytes of the source."""
        reason = "an error ended it while it was reading, and bytes may be lost with that"
        self.fail(reason)
        self.release()
        self.fail(f"{reason}: {error!r}")   # after the rest, because `repr` may fail

    @cython.critical_section
    cdef int fail(self, str reason) except -1:
        self.failure = reason
        return 0

    @cython.critical_section
    def release(self):
        """Release the input: nothing more can be read, and what was made of it stays valid.

        If a call is under way in another thread, the input is released when that call ends.
        """
        if self.failure is None:
            self.failure = "it was closed"
        if not self.busy:
            self.busy = True
            self.vacate()

    # -- messages --

    cdef int check_usable(self) except -1:
        if self.failure is not None:
            with cython.critical_section(self):
                reason = self.failure
            raise UsageError(f"this reader cannot continue: {reason}")
        return 0

    cdef int check_idle(self) except -1:
        if self.busy:
            raise UsageError("another thread is using this reader, or this call is part of one: one thread at a time "
                             "may")
        return 0

    cdef int poison(self, object error) except -1:
        """Keep `error`, say in it which message it concerns, and release the input (if busy, `vacate` does that)."""
        if isinstance(error, ArrowIpcError) and self.number:
            kind = f" ({kind_name(self.envelope.kind)})" if self.kind_known else ""
            error.args = (f"message {self.number}{kind}: {error}",)
        self.fail(f"an error ended it: {error}")
        return 0 if self.busy else self._forget()

    cdef int _forget(self) except -1:
        self.chunk = self.partial = None
        self.piece_owner = self.metadata_owner = self.body_owner = self.queue = None
        return 0

    cdef int _truncated(self) except -1:
        cdef int64_t have = self._unread() + (self.partial.size if self.partial is not None else 0)
        advice = " (arrowipc.recover() reads up to here)" if self.num_messages else ""
        raise TruncatedError(f"the input ends inside the {PIECES[self.state]}: it needs {self.wanted:,} bytes "
                             f"and {have:,} are there{advice}")

    cdef int take_piece(self, int64_t size) except -1:
        """Point `piece` at the next `size` bytes, in one stretch, and return 1; or return 0: more input is needed."""
        cdef int64_t available, held
        self.wanted = size
        if size == 0:
            self.piece = NULL
            return 1
        available = self.chunk.size - self.at if self.chunk is not None else 0
        if self.partial is None and size <= available:
            self.piece = self.chunk.data + self.at
            self.piece_owner = self.chunk
            self.at += size
            self.bytes_consumed += size
            return 1
        while available or self.queue:
            if available == 0:
                self.chunk = self.queue.popleft()
                self.at = 0
                available = self.chunk.size
                continue
            if self.last and not self.queue and self.partial is None:
                return self._truncated()
            if self.partial is None:
                self.partial = Memory(min(size, self._unread()))
            held = self.partial.size
            available = min(available, size - held)
            self.partial.reserve(min(size, max(held + available, 2 * held)))
            if available < WORTH_LETTING_GO:
                memcpy(self.partial.data + held, self.chunk.data + self.at, available)
            else:
                with nogil:
                    memcpy(self.partial.data + held, self.chunk.data + self.at, available)
            self.partial.size += available
            self.at += available
            if self.partial.size == size:
                break
            available = self.chunk.size - self.at
        if self.partial is not None and self.partial.size == size:
            self.piece = self.partial.data
            self.piece_owner = self.partial
            self.partial = None
            self.bytes_consumed += size
            return 1
        if self.last and not (self.state == STATE_PREFIX and self.partial is None):
            return self._truncated()
        return 0

    cdef int read_prefix(self) except -1:
        """Read the marker and the size. 1: `wanted` is the metadata's size; 0: more input; 2: the end."""
        cdef int32_t word
        if self.state == STATE_PREFIX:
            if not self.take_piece(4):
                if not self.last:
                    return FRAME_MORE
                self.state = STATE_END
                return FRAME_END
            word = load_i32(self.piece)
            if word != -1:
                return self._sized(word, "00000000")
            self.state = STATE_SIZE
        if not self.take_piece(4):
            return FRAME_MORE
        return self._sized(load_i32(self.piece), "FFFFFFFF 00000000")

    cdef int _sized(self, int32_t size, str marker) except -1:
        if size == 0:
            self.state = STATE_END
            self.end_marker = marker
            return FRAME_END
        if self.num_messages == 0 and self.state == STATE_PREFIX and (size & 3 or not 0 < size < LARGE_SCHEMA):
            refuse_foreign(self)
        if sized_right(size, &self.limits):
            self.state = STATE_METADATA
            self.wanted = size
            return FRAME_MESSAGE
        if size < 0:
            raise FormatError(f"the metadata size is {size}: expected 0 (end of stream) or more; are these bytes an "
                              "Arrow IPC stream, and is the start a message boundary?")
        raise LimitError(f"the metadata size is {size:,} bytes, more than Limits.metadata_bytes = "
                         f"{self.limits.metadata_bytes:,}; are these bytes an Arrow IPC stream?")

    @cython.final
    cdef bint cut(self) noexcept:
        """Go to the next message if it is whole in the chunk, as nearly all are; False: nothing has changed."""
        cdef CutMessage cut
        cdef Fault fault
        cdef const uint8_t* start
        if self.state != STATE_PREFIX or self.partial is not None or self.chunk is None:
            return False
        start = self.chunk.data + self.at
        if (cut_message(start, self.chunk.size - self.at, &self.limits, &cut) != FRAME_MESSAGE
                or cut.metadata - start != 8
                or open_message(cut.metadata, cut.metadata_size, &self.envelope, &fault) < 0
                or self.envelope.body_length > cut.rest_size):
            return False
        self.metadata = cut.metadata
        self.metadata_size = cut.metadata_size
        self.body = cut.rest if self.envelope.body_length else NULL
        if self.metadata_owner is not self.chunk or self.body_owner is not self.chunk:
            self.metadata_owner = self.body_owner = self.chunk
        self.at += 8 + cut.metadata_size + self.envelope.body_length
        self.bytes_consumed += 8 + cut.metadata_size + self.envelope.body_length
        self.num_messages += 1
        self.number = self.num_messages
        self.kind_known = True
        self.prefetch_next()
        return True

    cdef int advance(self) except -1:
        """Go to the next message and return Frame; a message that only closes the stream is skipped."""
        cdef int found = FRAME_MESSAGE if self.cut() else self.next_frame()
        while (found == FRAME_MESSAGE and (self.verify or fb_field(&self.envelope.root, Message_custom_metadata, 4))
               and self.compare_checksum(self.num_messages - 1)):
            found = FRAME_MESSAGE if self.cut() else self.next_frame()
        if found == FRAME_END and self.is_unclosed():
            raise TruncatedError(UNCLOSED)
        return found

    cdef bint is_unclosed(self) noexcept:
        """Whether checksums are verified, and the message that closes the stream has not come."""
        return (self.num_messages and not self.closed
                and (self.verify == VERIFY_ALL or self.verify == VERIFY_THERE and self.has_sums))

    cdef bint compare_checksum(self, int64_t number) except -1:
        """Compare the current message with its checksum if that is wanted; return whether it only closes the stream.

        `number`: of the message in its source, from 0; -1: unknown.
        """
        cdef Checksum checksum
        find_checksum(&self.envelope.root, Message_custom_metadata, &checksum)
        if self.envelope.kind == MessageHeader_Schema:
            self.has_sums = checksum.there
        elif (self.verify == VERIFY_THERE and not self.has_sums and checksum.text != NULL
              and is_right(&checksum, self.metadata, self.metadata_size, self.body, self.envelope.body_length)):
            raise FormatError("its checksum is right, and the Schema message has none: that one has been damaged")
        if self.verify == VERIFY_ALL or self.verify == VERIFY_THERE and self.has_sums:
            if self.closed:
                raise FormatError("it follows the message that closes the stream")
            check_sum(&checksum, self.metadata, self.metadata_size, self.body, self.envelope.body_length, number,
                      self.use_threads)
        self.closed = closes_stream(&self.envelope, &checksum)
        return self.closed

    cdef int next_frame(self) except -1:
        """Go to the next message piece by piece, also if not all of its bytes have come yet."""
        cdef Fault fault
        cdef int found
        if self.state <= STATE_SIZE:
            self.number = self.num_messages + 1
            self.kind_known = False
            found = self.read_prefix()
            if found != FRAME_MESSAGE:
                return found
        if self.state == STATE_METADATA:
            if not self.take_piece(self.wanted):
                return FRAME_MORE
            self.metadata = self.piece
            self.metadata_size = self.wanted
            self.metadata_owner = self.piece_owner
            if open_message(self.metadata, self.metadata_size, &self.envelope, &fault) < 0:
                raise_fault(&fault)
            self.kind_known = True
            self.state = STATE_BODY
            self.wanted = self.envelope.body_length
        if self.state == STATE_BODY:
            if not self.take_piece(self.wanted):
                return FRAME_MORE
            self.body = self.piece
            self.body_owner = self.piece_owner
            self.state = STATE_PREFIX
            self.wanted = 4
            self.num_messages += 1
            self.prefetch_next()
            return FRAME_MESSAGE
        return FRAME_END

    @cython.final
    cdef void prefetch_next(self) noexcept:
        """Prefetch metadata that is read soon, and is not in the caches, while this message is decoded.

        If messages are equally long, that of the next one was prefetched together with this one; then prefetch
        that of the message behind it, because memory takes longer than one message. Iterating 10 columns x 100 rows
        went from 280 to 200 ns per batch by prefetching, and beyond the caches from 303 to 270 by doing it that early.
        """
        cdef int line
        cdef int64_t ahead = self.at, stride = self.at - self.began
        if stride == self.stride and stride > 0:
            ahead += stride
        self.stride = stride
        self.began = self.at
        if self.chunk is not None and self.chunk.size - ahead >= LINES_AHEAD * CACHE_LINE:
            for line in range(LINES_AHEAD):
                prefetch(self.chunk.data + ahead + line * CACHE_LINE)

    def next_message(self):
        """Return the next message, or None when more input is needed or the stream is over (`at_end`)."""
        self.occupy()
        try:
            return take_message(self) if self.advance() == FRAME_MESSAGE else None
        except BaseException as error:
            self.poison(error)
            raise
        finally:
            self.vacate()

    @property
    def at_end(self):
        """bool: the stream is over, by a marker or by the end of the input."""
        return self.state == STATE_END


cdef int refuse_foreign(Framer framer) except -1:
    """Raise an error that names the input's format, if its first bytes tell: four in `piece`, more in the chunk."""
    from arrowipc.metadata.file_signatures import HEAD, foreign

    cdef int64_t size = 4
    if framer.piece_owner is framer.chunk:
        size = min(HEAD, size + framer.chunk.size - framer.at)
    advice = foreign(framer.piece[:size])
    if advice is not None:
        raise FormatError(advice)
    return 0


cdef class _Loan:
    # Writable memory behind the bytes in use of `partial`, which cannot grow as long as a view of it exists.
    cdef Memory memory
    cdef int64_t start, size

    def __cinit__(self, Memory memory, int64_t size):
        self.memory = memory
        self.start = memory.size
        self.size = size

    def __getbuffer__(self, Py_buffer* view, int flags):
        # Views keep this object alive: refuse a new view of it after the memory was filled.
        if self.memory.size != self.start:
            raise BufferError("this memory was filled: get_buffer() lends more")
        export_bytes(self, view, self.memory.data + self.start, self.size, True, flags)
        count_up(&self.memory.exports, 1)

    def __releasebuffer__(self, Py_buffer* view):
        count_up(&self.memory.exports, -1)


cdef Message take_message(Framer framer):
    cdef Message message = Message.__new__(Message)
    message.envelope = framer.envelope
    message.metadata_bytes = framer.metadata
    message.metadata_size = framer.metadata_size
    message.metadata_owner = framer.metadata_owner
    message.body_bytes = framer.body
    message.body_owner = framer.body_owner
    return message


cdef class Pieces:
    def __dealloc__(self):
        free(self.parts)


cdef Message new_message(const uint8_t* metadata, int64_t metadata_size, const BodyPart* parts, int32_t n_parts,
                         int64_t alignment, object owners):
    """Return a message that was just encoded: its metadata is copied, its body stays where its parts are."""
    cdef Message message = Message.__new__(Message)
    cdef Pieces pieces = Pieces.__new__(Pieces)
    cdef Fault fault
    copied = PyBytes_FromStringAndSize(<const char*> metadata, metadata_size)
    message.metadata_bytes = copied
    message.metadata_size = metadata_size
    message.metadata_owner = copied
    if open_message(message.metadata_bytes, metadata_size, &message.envelope, &fault) < 0:
        raise_fault(&fault)
    pieces.parts = <BodyPart*> malloc(n_parts * sizeof(BodyPart) + 1)
    if pieces.parts == NULL:
        raise MemoryError(f"cannot allocate a list of {n_parts:,} buffers")
    if n_parts:
        memcpy(pieces.parts, parts, n_parts * sizeof(BodyPart))
    pieces.count = n_parts
    pieces.alignment = alignment
    pieces.owners = owners
    message.pieces = pieces
    return message


cdef Message open_apart(object metadata, object body, object limits):
    """Return the message of metadata and a body that came separately; their lengths may contradict each other.

    An encapsulated message's prefix in front of the metadata is skipped.
    """
    cdef Message message = Message.__new__(Message)
    cdef Source head = Source(metadata), rest = Source(body)
    cdef LimitsData bounds
    cdef Fault fault
    cdef int64_t start = 8 if head.size >= 8 and load_i32(head.data) == -1 else 0
    limits_data(limits, &bounds)
    if head.size - start > bounds.metadata_bytes:
        raise LimitError(f"the metadata has {head.size - start:,} bytes, more than Limits.metadata_bytes = "
                         f"{bounds.metadata_bytes:,}")
    message.metadata_bytes = head.data + start
    message.metadata_size = head.size - start
    message.metadata_owner = head
    if open_message(message.metadata_bytes, message.metadata_size, &message.envelope, &fault) < 0:
        raise_fault(&fault)
    message.body_bytes = rest.data
    message.body_owner = rest
    return message


def message_kind(metadata, limits=None):
    """Return the kind of a message whose body has not come yet (as `Message.kind`), and how long that body is."""
    cdef Message message = open_apart(metadata, b"", limits)
    return kind_name(message.envelope.kind), message.envelope.body_length


def message_of(metadata, body=None, limits=None):
    """Return the `Message` of metadata and a body that came separately, without copying them.

    A prefix in front of the metadata is skipped. The body has the length that the metadata says; zeros at its end that
    only fill up to a multiple of 64 may be missing.
    """
    cdef Message message = open_apart(metadata, b"" if body is None else body, limits)
    cdef int64_t found = (<Source> message.body_owner).size, claimed = message.envelope.body_length
    if found > claimed or claimed - found >= CACHE_LINE:
        raise FormatError(f"{message.kind} message: its metadata says that the body has {claimed:,} bytes, found "
                          f"{found:,}")
    message.envelope.body_length = found
    return message


cdef dict TYPES = {
    "Schema": "schema", "DictionaryBatch": "dictionary", "RecordBatch": "record batch", "Tensor": "tensor",
    "SparseTensor": "sparse tensor",
}


cdef class Message:
    """One encapsulated message: its metadata, and its body in one stretch or as the buffers it is made of.

    Messages are made by :func:`arrowipc.read_message`, :class:`arrowipc.MessageReader` (both point into the
    bytes that were read) and :meth:`arrowipc.RecordBatch.to_message` (which points into the batch).

    Examples
    --------
    >>> import arrowipc as ipc
    >>> import io
    >>> message = ipc.RecordBatch.from_pydict({"x": [1, 2]}).to_message()
    >>> message.kind, message.body_length
    ('RecordBatch', 16)
    >>> message.copy_body_into(body := bytearray(16))
    >>> body[:2]
    bytearray(b'\\x01\\x00')
    >>> message.serialize_to(sink := io.BytesIO())
    >>> message.equals(ipc.read_message(sink.getvalue()))
    True
    """

    def __init__(self):
        raise UsageError("messages are made by read_message(), MessageReader and RecordBatch.to_message()")

    def __reduce_ex__(self, protocol):
        from arrowipc.values.pickling import reduce_message

        return reduce_message(self, protocol)

    def __copy__(self):
        return self

    @property
    def kind(self):
        """str: "Schema", "DictionaryBatch", "RecordBatch", "Tensor" or "SparseTensor" (union MessageHeader)."""
        return kind_name(self.envelope.kind)

    @property
    def version(self):
        """str: the metadata version, "V4" or "V5"."""
        return "V5" if self.envelope.version == MetadataVersion_V5 else "V4"

    @property
    def type(self):
        """str: the kind as pyarrow spells it: "schema", "dictionary", "record batch", "tensor", "sparse tensor"."""
        return TYPES[self.kind]

    @property
    def metadata_version(self):
        """int: the version as the format counts it, 3 or 4: ``pyarrow.ipc.MetadataVersion.V5`` equals 4."""
        return self.envelope.version

    @property
    def metadata(self):
        """memoryview: the FlatBuffers bytes, without prefix, with padding."""
        return window(self.metadata_bytes, self.metadata_size, self.metadata_owner)

    @property
    def body(self):
        """memoryview: the body, `body_length` bytes; a body in pieces is put together the first time."""
        self.join()     # after the first call, the fields below do not change any more
        return window(self.body_bytes, self.envelope.body_length, self.body_owner)

    @property
    def body_length(self):
        """int: bytes of the body."""
        return self.envelope.body_length

    @property
    def buffers(self):
        """list of memoryview: the buffers of the body as stored, as in the metadata; of other kinds, the body."""
        cdef Pieces pieces = self.in_pieces()
        cdef int64_t offset, size, length = self.envelope.body_length
        if pieces is not None:
            return [stored_piece(&pieces.parts[i], pieces.owners) for i in range(pieces.count)]
        found = outline(self)
        if found is None:
            return [self.body] if length else []
        out = []
        for i, (offset, size) in enumerate(found[5]):
            if not inside(offset, size, length):
                raise FormatError(f"buffer {i}: bytes {offset}..+{size} lie outside the {length}-byte body")
            out.append(window(self.body_bytes + offset, size, self.body_owner))
        return out

    @property
    def custom_metadata(self):
        """KeyValueMetadata: what the message carries beside its header."""
        return metadata_of(read_pairs(&self.envelope.root, Message_custom_metadata))

    @cython.critical_section
    cdef Pieces in_pieces(self):
        """Return the body's pieces, which another thread may join meanwhile; None: the body is in one stretch."""
        return self.pieces

    @cython.critical_section
    cdef int join(self) except -1:
        """Put the body together, if it is in pieces."""
        cdef Memory memory
        if self.pieces is None:
            return 0
        memory = Memory(self.envelope.body_length)
        memory.size = self.envelope.body_length
        put_parts(memory.data, self.pieces.parts, self.pieces.count, self.pieces.alignment)
        self.body_bytes = memory.data
        self.body_owner = memory
        self.pieces = None
        return 0

    def copy_body_into(self, target):
        """Write the body, `body_length` bytes, to the beginning of writable memory that has room for it."""
        cdef Pieces pieces
        cdef object owner
        cdef const uint8_t* body
        cdef Py_buffer view
        cdef uint8_t* out
        try:
            PyObject_GetBuffer(target, &view, PyBUF_WRITABLE)
        except BufferError as error:
            raise UsageError(f"cannot write to the memory of this {type(target).__name__}: {error}") from None
        try:
            if view.len < self.envelope.body_length:
                raise UsageError(f"the body has {self.envelope.body_length:,} bytes, the target {view.len:,}")
            out = <uint8_t*> view.buf
            # Keep references to all: another thread may put the body together meanwhile.
            with cython.critical_section(self):
                pieces, owner, body = self.pieces, self.body_owner, self.body_bytes
            with nogil:
                if pieces is not None:
                    put_parts(out, pieces.parts, pieces.count, pieces.alignment)
                elif self.envelope.body_length:
                    memcpy(out, body, self.envelope.body_length)
        finally:
            PyBuffer_Release(&view)

    @property
    def stretches(self):
        """list of memoryview: the body as it is sent, with padding, in pieces to be sent one after the other."""
        cdef const BodyPart* part
        cdef int64_t pad
        cdef int32_t i
        cdef list out = []
        cdef Pieces pieces = self.in_pieces()
        if pieces is None:
            return [self.body] if self.envelope.body_length else out
        for i in range(pieces.count):
            part = &pieces.parts[i]
            pad = padding(stored_size(part), pieces.alignment)
            if part.prefixed:
                out.append(PyBytes_FromStringAndSize(<const char*> &part.prefix, 8))
            if part.size:
                out.append(window(part.data, part.size, pieces.owners))
            if pad:
                out.append(bytes(pad))
        return out

    def serialize(self, alignment=8):
        """Return the encapsulated message as bytes; the body begins at a multiple of `alignment`."""
        cdef int64_t body = self.envelope.body_length, head = 8 + self.metadata_size
        cdef int64_t pad
        cdef bytes out
        cdef uint8_t* at
        cdef int32_t size
        cdef Pieces pieces = self.in_pieces()
        pad = padding(head, check_choice("alignment", alignment, (8, 64)))
        size = <int32_t> (self.metadata_size + pad)
        out = PyBytes_FromStringAndSize(NULL, head + pad + body)
        at = <uint8_t*> <char*> out
        memset(at, 0xFF, 4)
        memcpy(at + 4, &size, 4)
        if self.metadata_size:  # 0 if the message was made by __new__ alone
            memcpy(at + 8, self.metadata_bytes, self.metadata_size)
        memset(at + head, 0, pad)
        at += head + pad
        if pieces is not None:
            put_parts(at, pieces.parts, pieces.count, pieces.alignment)
        elif body:
            memcpy(at, self.body_bytes, body)
        if pad:
            sign_alone(at - size, size, at, body)     # the checksum includes the padding
        return out

    def serialize_to(self, sink, alignment=8):
        """Write what `serialize` returns to a file object, or whatever has a `write`."""
        if not hasattr(sink, "write"):
            raise UsageError(f"sink must have a write method, found {described(sink)}")
        sink.write(self.serialize(alignment))

    def equals(self, other):
        """Whether `other`, a message of this library or of pyarrow, has the same bytes."""
        if not hasattr(other, "metadata") or not hasattr(other, "body"):
            return False
        # Cast to unsigned bytes: pyarrow's views are of signed ones.
        return (self.metadata == memoryview(other.metadata).cast("B")
                and self.body == memoryview(b"" if other.body is None else other.body).cast("B"))

    def __repr__(self):
        from arrowipc.values.repr import message_text

        return message_text(self)


cdef object stored_piece(const BodyPart* part, object owner):
    """Return a part in one stretch: a compressed buffer is copied together with its prefix."""
    cdef bytes joined
    if not part.prefixed:
        return window(part.data, part.size, owner)
    joined = PyBytes_FromStringAndSize(NULL, 8 + part.size)
    memcpy(<char*> joined, &part.prefix, 8)
    if part.size:
        memcpy(<char*> joined + 8, part.data, part.size)
    return memoryview(joined)


cdef int find_batch(Message message, BatchHeader* header) except -1:
    cdef Table table = message.envelope.header
    cdef Fault fault
    if message.envelope.kind == MessageHeader_DictionaryBatch:
        if fb_table(&message.envelope.header, DictionaryBatch_data, &table) <= 0:
            raise FormatError("DictionaryBatch.data is missing, or does not lie inside the metadata")
    elif message.envelope.kind != MessageHeader_RecordBatch:
        return 0
    if open_batch(&table, header, &fault) < 0:
        raise_fault(&fault)
    return 1


def survey(Message message not None):
    """Return what a RecordBatch table claims, or None if it is broken: its rows, the bytes of the body that buffers
    take, the bytes that they take without compression, and the codec (-1: none).
    """
    cdef int64_t offset, size, used = 0
    inflated = 0
    try:
        found = outline(message)
    except ArrowIpcError:
        found = None
    if found is None:
        return None
    rows, codec, _, _, _, extents, _ = found
    for offset, size in extents:
        if inside(offset, size, message.envelope.body_length):
            used = max(used, offset + size)
            inflated += max(size, load_i64(message.body_bytes + offset) if codec >= 0 and size >= 8 else 0)
    return rows, used, inflated, codec


cdef bint stream_agrees(const uint8_t* data, int64_t size, const LimitsData* limits) noexcept nogil:
    cdef Checksum checksum
    cdef CutMessage cut
    cdef Envelope message
    cdef Fault fault
    cdef int64_t number = 0
    checksum.closes = False
    while cut_message(data, size, limits, &cut) == FRAME_MESSAGE:
        if (open_message(cut.metadata, cut.metadata_size, &message, &fault) < 0
                or message.body_length > cut.rest_size):
            return False
        find_checksum(&message.root, Message_custom_metadata, &checksum)
        if (checksum.text == NULL or not has_number(&checksum, number)
                or not is_right(&checksum, cut.metadata, cut.metadata_size, cut.rest, message.body_length)):
            return False
        number += 1
        data = cut.rest + message.body_length
        size = cut.rest_size - message.body_length
    return checksum.closes


def checksum_of(Message message not None, bint verified=False):
    """Return the checksum of a message: its number, whether it only closes a stream, and its CRC; None: it has none.

    `verified`: also None if the CRC is not that of the message.
    """
    cdef Checksum checksum
    find_checksum(&message.envelope.root, Message_custom_metadata, &checksum)
    if checksum.text == NULL:
        return None
    if verified:
        message.join()
        if not is_right(&checksum, message.metadata_bytes, message.metadata_size, message.body_bytes,
                        message.envelope.body_length):
            return None
    return (read_hex(checksum.text), closes_stream(&message.envelope, &checksum),
            read_hex(checksum.text + SUM_DIGITS))


def changed_in_body(Message message not None):
    """Return the byte of the body in which one changed bit would explain a wrong checksum; None: there is none."""
    cdef Checksum checksum
    cdef int64_t at = -1
    message.join()
    find_checksum(&message.envelope.root, Message_custom_metadata, &checksum)
    if checksum.text != NULL:
        at = changed_byte(&checksum, message.metadata_bytes, message.metadata_size, message.body_bytes,
                          message.envelope.body_length)
    return at - message.metadata_size if at >= message.metadata_size else None


def outline(Message message not None):
    """Return what the metadata of a RecordBatch or DictionaryBatch message says; None for other kinds.

    Rows, codec (-1: none), dictionary id (None: a RecordBatch), whether it is a delta, (length, null count) of each
    node, (offset, length) of each buffer, the counts of variadic buffers.
    """
    cdef BatchHeader header
    cdef int64_t i, number = 0
    cdef int delta = 0
    cdef const uint8_t* p
    if not find_batch(message, &header):
        return None
    id = None
    if message.envelope.kind == MessageHeader_DictionaryBatch:
        if (fb_i64(&message.envelope.header, DictionaryBatch_id, 0, &number) < 0
                or fb_u8(&message.envelope.header, DictionaryBatch_isDelta, 0, &delta) < 0):
            raise FormatError("the id or isDelta of the DictionaryBatch does not lie inside the metadata")
        id = number
    p = header.nodes.data
    nodes = [(load_i64(p + FieldNode_SIZE * i + FieldNode_length),
              load_i64(p + FieldNode_SIZE * i + FieldNode_null_count)) for i in range(header.nodes.count)]
    p = header.buffers.data
    extents = [(load_i64(p + Buffer_SIZE * i + Buffer_offset), load_i64(p + Buffer_SIZE * i + Buffer_length))
               for i in range(header.buffers.count)]
    p = header.variadic.data
    variadic = [load_i64(p + 8 * i) for i in range(header.variadic.count)]
    return header.length, header.codec, id, bool(delta), nodes, extents, variadic
