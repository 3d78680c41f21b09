# The framer, which makes whole messages of chunks of input; and messages.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport Memory, Source
from arrowipc.inline.body_parts cimport BodyPart
from arrowipc.inline.loads cimport load_i32
from arrowipc.inline.plan cimport BatchHeader, Envelope, LimitsData

cdef enum Frame:
    FRAME_MORE = 0      # more input is needed
    FRAME_MESSAGE = 1   # `envelope`, `metadata` and `body` hold a message
    FRAME_END = 2       # the stream is over


cdef struct CutMessage:
    # Where the metadata of a message lies, all in one stretch, and the bytes behind it: body and further messages.
    const uint8_t* metadata
    int64_t metadata_size
    const uint8_t* rest
    int64_t rest_size


cdef inline bint sized_right(int32_t size, const LimitsData* limits) noexcept nogil:
    return 0 < size and size <= limits.metadata_bytes


cdef inline int64_t read_prefix(const uint8_t* data, int64_t size, int32_t* metadata_size) noexcept nogil:
    """Read the size of the metadata behind a prefix; return the bytes of the prefix, 0: it is cut short."""
    metadata_size[0] = 0
    if size < 4:
        return 0
    metadata_size[0] = load_i32(data)
    if metadata_size[0] != -1:
        return 4
    if size < 8:
        return 0
    metadata_size[0] = load_i32(data + 4)
    return 8


cdef inline int cut_message(const uint8_t* data, int64_t size, const LimitsData* limits,
                            CutMessage* out) noexcept nogil:
    """Find a message at `data` as `Framer` does, for kernels. FRAME_MORE: it is cut short, or broken."""
    cdef int32_t word
    cdef int64_t prefix = read_prefix(data, size, &word)
    if size == 0 or (prefix and word == 0):
        return FRAME_END
    if not sized_right(word, limits) or word > size - prefix:
        return FRAME_MORE
    out.metadata = data + prefix
    out.metadata_size = word
    out.rest = data + prefix + word
    out.rest_size = size - prefix - word
    return FRAME_MESSAGE


cdef class Framer:
    cdef LimitsData limits
    cdef int state
    cdef Source chunk               # the current chunk of input
    cdef int64_t at                 # its next unread byte
    cdef int64_t began              # where the last message ended in it
    cdef int64_t stride             # bytes of the last message
    cdef object queue               # deque: the chunks behind it
    cdef bint last                  # nothing more will be fed
    cdef Memory partial             # the first bytes of a piece that no chunk holds whole
    cdef int64_t wanted             # bytes of the piece that is being read
    cdef const uint8_t* piece       # the piece that was read last, and the owner of its bytes
    cdef object piece_owner
    cdef object failure             # the error that poisoned this framer
    cdef bint busy                  # a call that changes it is under way, perhaps in another thread
    cdef readonly int64_t bytes_consumed
    cdef readonly int64_t num_messages
    cdef int64_t number             # of the current message, from 1
    cdef bint kind_known            # `envelope` is that of the current message
    cdef readonly object end_marker
    cdef Envelope envelope
    cdef const uint8_t* metadata
    cdef int64_t metadata_size
    cdef object metadata_owner
    cdef const uint8_t* body
    cdef object body_owner
    cdef int verify                 # which checksums of messages are compared, see `Verify`
    cdef bint use_threads           # to verify large bodies
    cdef readonly bint has_sums     # the Schema message had a checksum
    cdef readonly bint closed       # the last message was the one that closes a stream with checksums

    cdef int take_piece(self, int64_t size) except -1
    @cython.final
    cdef bint cut(self) noexcept
    cdef int advance(self) except -1                        # go to the next message; return Frame
    cdef int next_frame(self) except -1
    cdef bint compare_checksum(self, int64_t number) except -1      # compare the checksum of the current message
    cdef bint is_unclosed(self) noexcept
    cdef int read_prefix(self) except -1
    cdef int poison(self, object error) except -1           # refuse all later calls after an error
    cdef int fail(self, str reason) except -1               # ... for a reason; None: accept calls again
    cdef int check_usable(self) except -1                   # raise if it was closed, or an error ended it
    cdef int check_idle(self) except -1                     # raise if another call is under way

    @cython.final
    cdef inline int occupy(self) except -1:
        """Begin a call that changes this object; until `vacate`, calls of other threads are refused."""
        with cython.critical_section(self):
            if self.failure is not None or self.busy:
                self.check_usable()
                self.check_idle()
            self.busy = True
        return 0

    @cython.final
    cdef inline int vacate(self) except -1:
        """End such a call; if the object was closed or has failed meanwhile, release its input."""
        with cython.critical_section(self):
            if self.failure is not None:
                self._forget()
            self.busy = False
        return 0

    cdef int64_t _unread(self) noexcept
    @cython.final
    cdef void prefetch_next(self) noexcept
    cdef int _truncated(self) except -1
    cdef int _forget(self) except -1
    cdef object _lend(self)
    cdef int _filled(self, int64_t nbytes) except -1
    cdef int _sized(self, int32_t size, str marker) except -1


cdef class Message:
    cdef object __weakref__
    cdef Envelope envelope
    cdef const uint8_t* metadata_bytes
    cdef int64_t metadata_size
    cdef object metadata_owner
    cdef const uint8_t* body_bytes      # NULL while `pieces` is there
    cdef object body_owner
    cdef Pieces pieces                  # None: the body is in one stretch

    cdef int join(self) except -1       # put the body into one stretch
    cdef Pieces in_pieces(self)


cdef class Pieces:
    """A body that is not put together: its parts, and the objects that keep them alive."""
    cdef BodyPart* parts                    # one per Buffer of the message
    cdef int32_t count
    cdef int64_t alignment
    cdef object owners


# Whether all messages of a stream that lies whole in memory have checksums, and all of these are right.
cdef bint stream_agrees(const uint8_t* data, int64_t size, const LimitsData* limits) noexcept nogil
# Return the framer's current message.
cdef Message take_message(Framer framer)
# Return the message of metadata and a body that came separately.
cdef Message open_apart(object metadata, object body, object limits)
# Return a message that was just encoded; `owners` keep its parts alive.
cdef Message new_message(const uint8_t* metadata, int64_t metadata_size, const BodyPart* parts, int32_t n_parts,
                         int64_t alignment, object owners)
cdef str kind_name(int kind)    # as the format spells it
# Open the RecordBatch table of a message, also that of a dictionary; 0: the message has none.
cdef int find_batch(Message message, BatchHeader* header) except -1

