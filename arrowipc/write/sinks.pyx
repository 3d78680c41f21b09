"""Where encoded messages go: memory that grows or is fixed, file descriptors, and objects with a `write` method.

Memory takes one copy of every buffer, a file descriptor none at all: the buffers of a message go to the kernel
in one vector. Objects get large buffers as they are and small ones joined.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, strchr

from arrowipc._core cimport export_bytes
from arrowipc.inline.body_parts cimport BodyPart, padding, put_part, stored_size
from arrowipc.inline.loads cimport load_i32, prefetch_to_write
from arrowipc.read.framing cimport Message, new_message

import os

from arrowipc.errors import UsageError

__all__ = ["BytearraySink", "FixedSink", "DescriptorSink", "MessageSink", "ObjectSink"]

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t writev(int fd, const iovec* pieces, int count)

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from *:
    """
    static const unsigned char arrowipc_padding[64] = {0};
    """
    const uint8_t* ZEROS "arrowipc_padding"

cdef enum:
    CLAIMED = 8192              # bytes of a message whose memory is asked for at once
    MOST_PIECES = 1024          # of one writev: IOV_MAX of Linux and macOS
    MOST_AHEAD = 1 << 26        # by which a bytearray grows before it has to
    JOINED = 1 << 16            # objects get buffers smaller than this joined
    WORTH_LETTING_GO = 1 << 16  # bytes: a copy that others may run beside


cdef class Sink:
    """Takes one message after another, each a head and the parts of a body."""

    cdef int write(self, const uint8_t* head, int64_t head_size, const BodyPart* parts, int32_t n_parts,
                   int64_t alignment, int64_t body_length) except -1:
        raise NotImplementedError(f"{type(self).__name__} takes no messages")

    def write_bytes(self, bytes data not None):
        """Take bytes that stand for themselves: magic, schema messages, markers, footers."""
        self.write(<const uint8_t*> PyBytes_AS_STRING(data), len(data), NULL, 0, 8, 0)


cdef inline void put_message(uint8_t* out, const uint8_t* head, int64_t head_size, const BodyPart* parts,
                             int32_t n_parts, int64_t alignment, int64_t size) noexcept nogil:
    """Copy a whole message of `size` bytes to `out`, which has room for it."""
    cdef int32_t i
    cdef int64_t at
    # Memory that a stream has not reached yet is in no cache: small buffers would wait for it one after the other.
    for at in range(0, min(size, <int64_t> CLAIMED), 64):
        prefetch_to_write(out + at, 1)
    memcpy(out, head, head_size)
    out += head_size
    for i in range(n_parts):
        out = put_part(out, &parts[i], alignment)


cdef class BytearraySink(Sink):
    """Appends to a bytearray."""

    cdef bytearray target
    cdef int64_t room           # of which it is known that the target has the memory

    def __cinit__(self, bytearray target not None):
        self.target = target

    cdef int write(self, const uint8_t* head, int64_t head_size, const BodyPart* parts, int32_t n_parts,
                   int64_t alignment, int64_t body_length) except -1:
        cdef int64_t used = PyByteArray_GET_SIZE(self.target), size = head_size + body_length, room = self.room
        if used + size > room:
            # On its own a bytearray grows by an eighth; shrinking it to no less than half keeps its memory.
            room = used + size + min(used, <int64_t> MOST_AHEAD)
        try:
            if room != self.room:
                PyByteArray_Resize(self.target, room)
                self.room = room
            PyByteArray_Resize(self.target, used + size)
        except BufferError:
            raise UsageError("the bytearray cannot grow while a memoryview, a reader or a batch points into it: "
                             "let go of these, or write to another one") from None
        put_message(<uint8_t*> PyByteArray_AS_STRING(self.target) + used, head, head_size, parts, n_parts, alignment,
                    size)
        self.position += size
        return 0


cdef class MessageSink(Sink):
    """Keeps messages as objects that point at what was written, for transports that move bodies by themselves."""

    cdef list messages
    cdef readonly bint ended    # the end-of-stream marker came

    def __cinit__(self):
        self.messages = []
        self.keeps = True

    cdef int write(self, const uint8_t* head, int64_t head_size, const BodyPart* parts, int32_t n_parts,
                   int64_t alignment, int64_t body_length) except -1:
        # The head is a prefix of 8 bytes and the metadata; without metadata it is the end of the stream.
        if head_size < 8 or load_i32(head) != -1:
            raise UsageError("messages that stand for themselves have no prefix: legacy=True means nothing here")
        if load_i32(head + 4) == 0:
            self.ended = True
        elif isinstance(self.owners, Message):
            self.messages.append(self.owners)       # passed on as it was read
        else:
            self.messages.append(new_message(head + 8, head_size - 8, parts, n_parts, alignment, self.owners))
        self.owners = None
        self.position += head_size + body_length
        return 0

    def take(self):
        """list of Message: those that came since the last call."""
        taken = self.messages
        self.messages = []
        return taken


cdef class FixedSink(Sink):
    """Fills memory of a given size: writable buffers, maps, shared memory.

    Parameters
    ----------
    target : writable bytes-like
        Held until `release`.
    start : int
        Where in `target` to begin.
    """

    cdef Py_buffer view
    cdef bint held
    cdef int64_t start

    def __cinit__(self, target, int64_t start=0):
        PyObject_GetBuffer(target, &self.view, PyBUF_WRITABLE | PyBUF_ND | PyBUF_FORMAT)
        self.held = True
        self.start = start
        if self.view.format != NULL and strchr(self.view.format, b"O") != NULL:
            raise UsageError("this memory holds Python objects: bytes written there would crash the interpreter")
        if not 0 <= start <= self.view.len:
            raise UsageError(f"position {start} lies outside a buffer of {self.view.len} bytes")

    def __dealloc__(self):
        self.release()

    cpdef release(self):
        """Let go of the memory."""
        if self.held:
            self.held = False
            PyBuffer_Release(&self.view)

    cdef int write(self, const uint8_t* head, int64_t head_size, const BodyPart* parts, int32_t n_parts,
                   int64_t alignment, int64_t body_length) except -1:
        cdef int64_t at = self.start + self.position, size = head_size + body_length
        cdef uint8_t* out
        if not self.held:
            raise UsageError("the buffer was released")
        if size > self.view.len - at:
            raise UsageError(f"the buffer is full: the next {size:,} bytes do not fit the {self.view.len - at:,} that "
                             f"are left of {self.view.len:,} (get_record_batch_size() tells what a batch needs)")
        out = <uint8_t*> self.view.buf + at
        if size < WORTH_LETTING_GO:
            put_message(out, head, head_size, parts, n_parts, alignment, size)
        else:
            with nogil:
                put_message(out, head, head_size, parts, n_parts, alignment, size)
        self.position += size
        return 0


cdef class DescriptorSink(Sink):
    """Writes to a file descriptor, which stays the caller's.

    Parameters
    ----------
    descriptor : int
    name : str, optional
        What errors call the file.
    position : int, default 0
        Bytes that are in the file already.
    ask : callable, optional
        Returns the descriptor, or raises ValueError once its owner has closed it: the number may be that of
        another file by then.
    """

    cdef int descriptor
    cdef object name
    cdef object ask
    cdef iovec* pieces
    cdef int32_t room

    def __cinit__(self, int descriptor, name=None, int64_t position=0, ask=None):
        self.descriptor = descriptor
        self.position = position
        self.name = name
        self.ask = ask

    def __dealloc__(self):
        free(self.pieces)

    cdef int write(self, const uint8_t* head, int64_t head_size, const BodyPart* parts, int32_t n_parts,
                   int64_t alignment, int64_t body_length) except -1:
        cdef int64_t n
        cdef int32_t count, first = 0
        if self.ask is not None:
            self.descriptor = self.ask()
        self.reserve(1 + 3 * <int64_t> n_parts)
        count = list_pieces(self.pieces, head, head_size, parts, n_parts, alignment)
        while first < count:
            with nogil:
                n = writev(self.descriptor, &self.pieces[first], min(count - first, <int32_t> MOST_PIECES))
            if n < 0:
                self.check(errno)
                continue
            self.position += n
            # What the kernel did not take goes again.
            while first < count and n >= <int64_t> self.pieces[first].iov_len:
                n -= self.pieces[first].iov_len
                first += 1
            if n:
                self.pieces[first].iov_base = <uint8_t*> self.pieces[first].iov_base + n
                self.pieces[first].iov_len -= n
            if first < count:
                # Also a signal cuts a write short, without saying so.
                PyErr_CheckSignals()
        return 0

    cdef int check(self, int code) except -1:
        """Raise what a failed call stands for, unless it may be tried again."""
        if code == EINTR:
            return PyErr_CheckSignals()
        if code == EAGAIN:
            raise BlockingIOError(code, "the sink cannot take more now: arrowipc writers need a blocking sink",
                                  self.name)
        raise OSError(code, os.strerror(code), self.name)

    cdef int reserve(self, int64_t pieces) except -1:
        cdef void* moved
        if pieces > self.room:
            moved = realloc(self.pieces, pieces * sizeof(iovec))
            if moved == NULL:
                raise MemoryError(f"cannot allocate a list of {pieces:,} buffers")
            self.pieces = <iovec*> moved
            self.room = <int32_t> pieces
        return 0


cdef inline int32_t add_piece(iovec* out, int32_t n, const void* data, int64_t size) noexcept nogil:
    """Put a piece behind `n` others, unless it is empty; returns how many there are."""
    if size == 0:
        return n
    out[n].iov_base = <void*> data
    out[n].iov_len = size
    return n + 1


cdef int32_t list_pieces(iovec* out, const uint8_t* head, int64_t head_size, const BodyPart* parts, int32_t n_parts,
                         int64_t alignment) noexcept nogil:
    cdef int32_t i, n = add_piece(out, 0, head, head_size)
    for i in range(n_parts):
        if parts[i].prefixed:
            n = add_piece(out, n, &parts[i].prefix, 8)
        n = add_piece(out, n, parts[i].data, parts[i].size)
        n = add_piece(out, n, ZEROS, padding(stored_size(&parts[i]), alignment))
    return n


cdef class ObjectSink(Sink):
    """Calls a function with bytes, as `file.write` or `socket.sendall` take them.

    Parameters
    ----------
    write : callable
        Takes a bytes-like object that is only valid during the call; returns how much of it was taken, or None
        for all of it.
    """

    cdef object call
    cdef bint raw

    def __cinit__(self, write, bint raw=False):
        self.call = write
        self.raw = raw

    cdef int write(self, const uint8_t* head, int64_t head_size, const BodyPart* parts, int32_t n_parts,
                   int64_t alignment, int64_t body_length) except -1:
        cdef int32_t i = 0, first
        cdef int64_t size = head_size
        # Runs of small parts, the head in front of the first, go joined; large ones as they are.
        while True:
            first = i
            while i < n_parts and stored_size(&parts[i]) < JOINED and size < 16 * JOINED:
                size += stored_size(&parts[i]) + padding(stored_size(&parts[i]), alignment)
                i += 1
            if size:
                self.pass_joined(head, head_size, parts + first, i - first, alignment, size)
            if i == n_parts:
                return 0
            head_size = size = 0
            if stored_size(&parts[i]) >= JOINED:
                self.pass_large(&parts[i], alignment)
                i += 1

    cdef int pass_joined(self, const uint8_t* head, int64_t head_size, const BodyPart* parts, int32_t n_parts,
                         int64_t alignment, int64_t size) except -1:
        cdef bytes joined = PyBytes_FromStringAndSize(NULL, size)
        put_message(<uint8_t*> PyBytes_AS_STRING(joined), head, head_size, parts, n_parts, alignment, size)
        return self.hand_over(joined)

    cdef int pass_large(self, const BodyPart* part, int64_t alignment) except -1:
        cdef int64_t pad = padding(stored_size(part), alignment)
        cdef Lent lent
        cdef bint kept
        if part.prefixed:
            self.hand_over(PyBytes_FromStringAndSize(<const char*> &part.prefix, 8))
        lent = Lent.__new__(Lent)
        lent.data = part.data
        lent.size = part.size
        view = memoryview(lent)
        try:
            self.hand_over(view)
        finally:
            # Whoever kept it would look at memory that is used again: they get an error instead.
            kept = not released(view)
        if kept or lent.exports:
            raise UsageError("write() kept the memory that it was given, which is only valid during the call: keep "
                             "bytes(data) instead")
        if pad:
            self.hand_over(PyBytes_FromStringAndSize(<const char*> ZEROS, pad))
        return 0

    cdef int hand_over(self, object data) except -1:
        cdef int64_t done = 0, size = len(data), count
        while done < size:
            rest = data if done == 0 else memoryview(data)[done:]
            taken = self.call(rest)
            if done:
                released(rest)
            if taken is None:
                if self.raw:
                    raise BlockingIOError("the sink cannot take more now: arrowipc writers need a blocking sink")
                count = size - done
            else:
                count = taken if hasattr(taken, "__index__") else 0
            if not 0 < count <= size - done:
                raise OSError(f"write() was given {size - done:,} bytes and returned {taken!r}: expected how many it "
                              "took, or None for all of them")
            done += count
        self.position += size
        return 0


cdef class Lent:
    # Memory that an object may look at during one call.
    cdef const uint8_t* data
    cdef int64_t size
    cdef int exports            # views of it that are alive

    def __getbuffer__(self, Py_buffer* view, int flags):
        export_bytes(self, view, self.data, self.size, False, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.exports -= 1


cdef bint released(object view) except -1:
    """Release a memoryview; False when something else rests on it."""
    try:
        view.release()
    except BufferError:
        return False
    return True
