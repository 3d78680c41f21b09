"""The rules of order of writing (schema, dictionaries, batches, the end), and the sinks that messages go to.

Streams and files are the same messages in the same order; a file has a magic before and a footer behind them
(Columnar format, "IPC Streaming Format" and "IPC File Format"). Everything goes through one `Encoder` into one
`Sink`; opening, naming and closing what is behind the sink is the business of `writer.py`.
"""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint32_t, uint8_t
from libc.stdlib cimport free, getenv
from libc.string cimport memcpy, memset, strchr, strcmp

import io
import os

from arrowipc._core cimport Columns, Plan, Recent, export_bytes, field_path, identity, raise_fault
from arrowipc.metadata.checksums cimport SUM_DIGITS, Checksum, crc_more, find_checksum, put_hex, sign_alone
from arrowipc.columns.elements cimport check, check_native
from arrowipc.columns.record_batch cimport RecordBatch, as_batch, concat_into, default_plan
from arrowipc.columns.truncate cimport Truncator
from arrowipc.inline.body_parts cimport BodyPart, padding, put_parts, stored_size
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, fb_root
from arrowipc.inline.footer_block cimport put_block
from arrowipc.inline.huge_pages cimport HUGE_PAGE, want_huge_pages
from arrowipc.inline.loads cimport load_i32
from arrowipc.inline.plan cimport FIELD_NULLABLE, ColumnsData, FieldPlan
from arrowipc.inline.room cimport reserve_items
from arrowipc.inline.threads cimport count_up
from arrowipc.metadata.schema_reader cimport plan_schema
from arrowipc.decode.framing cimport Message, new_message
from arrowipc.encode.batch_encoder cimport Compressor, Encoder
from arrowipc.encode.dictionary_writer cimport Emission, WrittenDictionaries

from arrowipc.arguments import (
    bytes_taken, check_integer, codec_and_level, instance_of, metadata_of, without_descriptions,
)
from arrowipc.metadata.checksums import PAIR
from arrowipc.errors import NotFoundError, UnsupportedError, UsageError
from arrowipc.metadata.schema_tables import write_footer
from arrowipc.options import MessageOptions
from arrowipc.decode.framing import checksum_of
from arrowipc.schemas import Schema, number_from_zero, schema_message


# -- sinks -----------------------------------------------------------------------------------------------------------

# A sink in memory copies each buffer once, a file descriptor copies none: the buffers of a message go to the kernel
# in one vector. Objects get large buffers as they are and small ones joined.

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
    MOST_PIECES = 1024          # of one writev: IOV_MAX of Linux and macOS
    MOST_AHEAD = 1 << 26        # the most bytes by which a bytearray grows before it has to
    JOINED = 1 << 16            # objects get buffers smaller than this joined
    WORTH_LETTING_GO = 1 << 16  # bytes: copying so many releases the GIL


cdef class Sink:
    """Takes messages, each a head and the parts of a body; at the end it gets one call, `commit` or `discard`."""

    cdef int write(self, const uint8_t* head, int64_t head_size, const BodyPart* parts, int32_t n_parts,
                   int64_t alignment, int64_t body_length) except -1:
        raise NotImplementedError(f"{type(self).__name__} takes no messages")

    def write_bytes(self, bytes data not None):
        """Take bytes that stand for themselves: magic, schema messages, markers, footers."""
        self.write(<const uint8_t*> PyBytes_AS_STRING(data), len(data), NULL, 0, 8, 0)

    def commit(self):
        """Complete the file that was opened for the sink, because everything is written."""
        behind, self.behind = self.behind, None
        if behind is not None:
            behind.commit()

    def discard(self):
        """Give up the file that was opened for the sink, because it is not complete and nothing follows."""
        behind, self.behind = self.behind, None
        if behind is not None:
            behind.discard()


cdef inline void put_message(uint8_t* out, const uint8_t* head, int64_t head_size, const BodyPart* parts,
                             int32_t n_parts, int64_t alignment) noexcept nogil:
    """Copy a whole message to `out`, which has room for it."""
    memcpy(out, head, head_size)
    put_parts(out + head_size, parts, n_parts, alignment)


cdef class BytearraySink(Sink):
    """Appends to a bytearray."""

    cdef bytearray target
    cdef int64_t room           # bytes for which the target is known to have memory

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
                if room >= 2 * HUGE_PAGE:
                    want_huge_pages(PyByteArray_AS_STRING(self.target), room)
            PyByteArray_Resize(self.target, used + size)
        except BufferError:
            raise UsageError("the bytearray cannot grow while a memoryview, a reader or a batch points into it: "
                             "let go of these, or write to another one") from None
        put_message(<uint8_t*> PyByteArray_AS_STRING(self.target) + used, head, head_size, parts, n_parts, alignment)
        self.position += size
        return 0


cdef class MessageSink(Sink):
    """Keeps messages as objects that point at the written buffers, for transports that move bodies by themselves."""

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
        """Return the messages that came since the last call, a list of Message."""
        taken = self.messages
        self.messages = []
        return taken


cdef class FixedSink(Sink):
    """Fills memory of a given size, from `start` on; `seek` of a map moves its position behind the written bytes."""

    cdef Py_buffer view
    cdef bint held
    cdef int64_t start
    cdef object seek

    def __cinit__(self, target, int64_t start=0, seek=None):
        PyObject_GetBuffer(target, &self.view, PyBUF_WRITABLE | PyBUF_ND | PyBUF_FORMAT)
        self.held = True
        self.start = start
        self.seek = seek
        if self.view.format != NULL and strchr(self.view.format, b"O") != NULL:
            raise UsageError("this memory holds Python objects: bytes written there would crash the interpreter")
        if not 0 <= start <= self.view.len:
            raise UsageError(f"position {start} lies outside a buffer of {self.view.len} bytes")

    def __dealloc__(self):
        self.release()

    cpdef release(self):
        """Release the memory."""
        if self.held:
            self.held = False
            PyBuffer_Release(&self.view)

    def commit(self):
        """Release the memory; its unused rest stays as it was."""
        seek, self.seek = self.seek, None
        self.release()
        if seek is not None:
            seek(self.position, os.SEEK_CUR)

    def discard(self):
        """Do the same as `commit`: bytes that were written cannot be taken back."""
        self.commit()

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
            put_message(out, head, head_size, parts, n_parts, alignment)
        else:
            with nogil:
                put_message(out, head, head_size, parts, n_parts, alignment)
        self.position += size
        return 0


cdef class DescriptorSink(Sink):
    """Writes to a file descriptor, which stays the caller's, behind the `position` bytes that are in the file already.

    `ask` returns the descriptor, or raises once its owner has closed it: the number may be that of another file then.
    """

    cdef int descriptor
    cdef object name
    cdef object ask
    cdef iovec* pieces
    cdef int64_t room

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
        if reserve_items(<void**> &self.pieces, &self.room, 1 + 3 * <int64_t> n_parts, sizeof(iovec)) < 0:
            raise MemoryError(f"cannot allocate a list of {n_parts:,} buffers")
        count = list_pieces(self.pieces, head, head_size, parts, n_parts, alignment)
        while first < count:
            with nogil:
                n = writev(self.descriptor, &self.pieces[first], min(count - first, <int32_t> MOST_PIECES))
            if n < 0:
                self.check(errno)
                continue
            self.position += n
            # The pieces that the kernel did not take are written again.
            while first < count and n >= <int64_t> self.pieces[first].iov_len:
                n -= self.pieces[first].iov_len
                first += 1
            if n:
                self.pieces[first].iov_base = <uint8_t*> self.pieces[first].iov_base + n
                self.pieces[first].iov_len -= n
            if first < count:
                # A signal, too, cuts a write short, without an error.
                PyErr_CheckSignals()
        return 0

    cdef int check(self, int code) except -1:
        """Raise the error of a failed call, unless the call may be tried again."""
        if code == EINTR:
            return PyErr_CheckSignals()
        if code == EAGAIN:
            raise BlockingIOError(code, "the sink cannot take more now: arrowipc writers need a blocking sink",
                                  self.name)
        raise OSError(code, os.strerror(code), self.name)


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
    """Calls a function with bytes that are only valid during the call, as `file.write` or `socket.sendall` take them.

    The function returns how many of them it took, or None for all.
    """

    cdef object call
    cdef bint raw
    cdef bytearray scratch      # memory for joined parts, if `write` is known to keep no reference to it; else None

    def __cinit__(self, write, bint raw=False):
        self.call = write
        self.raw = raw
        if type(write) is type(len) and type(write.__self__) is io.BytesIO:
            self.scratch = bytearray()

    cdef int write(self, const uint8_t* head, int64_t head_size, const BodyPart* parts, int32_t n_parts,
                   int64_t alignment, int64_t body_length) except -1:
        cdef int32_t i = 0, first
        cdef int64_t size = head_size
        # Small parts that follow each other are joined, with the head before the first; large ones stay as they are.
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
        cdef bytes joined
        if self.scratch is not None:
            # Memory that is used again stays in the caches, and does not stop memory beside it from growing.
            PyByteArray_Resize(self.scratch, size)
            put_message(<uint8_t*> PyByteArray_AS_STRING(self.scratch), head, head_size, parts, n_parts, alignment)
            return self.hand_over(self.scratch)
        joined = PyBytes_FromStringAndSize(NULL, size)
        put_message(<uint8_t*> PyBytes_AS_STRING(joined), head, head_size, parts, n_parts, alignment)
        return self.hand_over(joined)

    cdef int pass_large(self, const BodyPart* part, int64_t alignment) except -1:
        cdef int64_t pad = padding(stored_size(part), alignment)
        cdef Lent lent
        if part.prefixed:
            self.hand_over(PyBytes_FromStringAndSize(<const char*> &part.prefix, 8))
        lent = Lent.__new__(Lent)
        lent.data = part.data
        lent.size = part.size
        view = memoryview(lent)
        try:
            self.hand_over(view)
        finally:
            # A view that `write` has kept would show memory that is used again: now it raises an error.
            release(view)
        if lent.exports:
            raise UsageError("write() kept the memory that it was given, which is only valid during the call: keep "
                             "bytes(data) instead")
        if pad:
            self.hand_over(PyBytes_FromStringAndSize(<const char*> ZEROS, pad))
        return 0

    cdef int hand_over(self, object data) except -1:
        cdef int64_t done = 0, size = len(data)
        while done < size:
            rest = data if done == 0 else memoryview(data)[done:]
            taken = self.call(rest)
            if done:
                release(rest)
            if taken is None and self.raw:
                raise BlockingIOError("the sink cannot take more now: arrowipc writers need a blocking sink")
            if type(taken) is int and taken == size - done:     # as nearly always
                break
            done += bytes_taken(getattr(self.call, "__self__", self.call), size - done, taken)
        self.position += size
        return 0


cdef class Lent:
    # Memory that an object may read during one call.
    cdef const uint8_t* data
    cdef int64_t size
    cdef int64_t exports        # views of it that are alive

    def __getbuffer__(self, Py_buffer* view, int flags):
        export_bytes(self, view, self.data, self.size, False, flags)
        count_up(&self.exports, 1)

    def __releasebuffer__(self, Py_buffer* view):
        count_up(&self.exports, -1)


cdef int release(object view) except -1:
    """Release a memoryview, unless other views of it exist."""
    try:
        view.release()
    except BufferError:
        pass
    return 0


MAGIC = b"ARROW1"


# -- how bodies are stored -----------------------------------------------------------------------------------


cdef bint is_set(const char* name) noexcept:
    """Return whether an environment variable is set to a text other than 0; uses C, because many streams are small."""
    cdef const char* value = getenv(name)
    return value != NULL and value[0] != 0 and strcmp(value, "0") != 0


cdef class EncodeOptions:
    """How bodies are stored, from `arrowipc.options.MessageOptions` or `WriteOptions`."""

    def __cinit__(self, options):
        cdef Compressor compressor = None
        compression, compression_level = options.compression, options.compression_level
        min_space_savings, legacy, checksum = options.min_space_savings, options.legacy, options.checksum
        metadata_version = options.metadata_version
        if legacy is None:
            legacy = is_set("ARROW_PRE_0_15_IPC_FORMAT")
        if metadata_version is None:
            metadata_version = "V4" if is_set("ARROW_PRE_1_0_METADATA_VERSION") else "V5"
        if type(compression) is str and compression in ("lz4", "zstd") or compression is None:
            codec = compression     # most often there is nothing to convert
        else:
            codec, compression_level = codec_and_level(compression, compression_level)
        if isinstance(compression, dict):
            named = {name: codec_and_level(each, None)[0] for name, each in compression.items()}
            codecs = {name for name in named.values() if name is not None}
            if len(codecs) > 1:
                raise UsageError("compression: a message has one codec, so its columns can have one or none; found "
                                 f"{' and '.join(map(repr, sorted(map(str, codecs))))}")
            self.choice = {name: each is not None for name, each in named.items()}
            codec = codecs.pop() if codecs else None
        if codec is not None and metadata_version == "V4":
            # pyarrow would read such bodies as raw ones.
            raise UsageError('compression came with metadata_version="V5": readers of "V4" do not know it '
                             "(which is also what ARROW_PRE_1_0_METADATA_VERSION=1 asks for)")
        if checksum and metadata_version == "V4":
            # pyarrow takes any custom metadata of such messages for the name of a codec.
            raise UsageError('checksum=True needs metadata_version="V5": readers of "V4" stumble over its entries')
        if codec is not None:
            compressor = Compressor(codec, compression_level, min_space_savings, options.use_threads)
        elif compression_level is not None or min_space_savings is not None:
            raise UsageError("compression_level and min_space_savings need a codec: compression=\"lz4\" or \"zstd\"")
        self.encoder = Encoder(compressor, options.alignment, legacy, metadata_version, checksum)
        self.untouched = self.choice is None and compression_level is None and min_space_savings is None

    cdef int choose(self, Plan plan) except -1:
        """Fill `chosen` for the columns of a schema; refuse names in the choice that the schema does not have."""
        cdef int32_t i, f
        cdef bytearray chosen
        if self.choice is None:
            return 0
        names = plan_schema(plan).names
        known = set(names)
        unknown = [name for name in self.choice if name != "*" and name not in known]
        if unknown:
            raise NotFoundError(f"compression: the schema has no column {unknown[0]!r}; its columns are {names}")
        chosen = bytearray(plan.d.n_fields)
        others = self.choice.get("*", False)
        for i in range(plan.d.n_columns):
            for f in range(plan.d.columns[i], plan.d.fields[plan.d.columns[i]].end):
                chosen[f] = self.choice.get(names[i], others)
        self.chosen = bytes(chosen)
        self.chosen_data = <const uint8_t*> PyBytes_AS_STRING(self.chosen)
        return 0


cdef int encode_alone(EncodeOptions encode_options, Truncator truncator, RecordBatch batch) except -1:
    """Encode a batch as if it were the first message of its sink."""
    cdef Fault fault
    encode_options.choose(batch.plan)
    check_native(batch, "writing")
    check(truncator.truncate(&batch.d, 0, batch.d.length, &fault), &fault, batch)
    encode_options.encoder.encode(&truncator.d, encode_options.chosen_data, batch.metadata_pairs, 0)
    return 0


cdef tuple owners_of(Columns columns, Truncator truncator, Encoder encoder):
    """Return the owners of the memory that the parts of the message that was just encoded point into."""
    return columns, truncator.keep(), encoder.compressor.keep() if encoder.compressor is not None else None


def batch_message(RecordBatch batch not None, **options):
    """Return the RecordBatch message of a batch; see `arrowipc.RecordBatch.to_message`."""
    cdef EncodeOptions encode_options = EncodeOptions(MessageOptions(options))
    cdef Encoder encoder = encode_options.encoder
    cdef Truncator truncator = Truncator(batch.plan)
    if encoder.legacy:
        raise UsageError("legacy is about the prefix of messages in streams and files; a Message has none of its own")
    encode_alone(encode_options, truncator, batch)
    return new_message(encoder.head + encoder.metadata_at, encoder.head_size - encoder.metadata_at, encoder.parts,
                       encoder.n_parts, encoder.alignment, owners_of(batch, truncator, encoder))


def batch_size(data, options):
    """Return the bytes of the encapsulated RecordBatch message of a batch; see `arrowipc.get_record_batch_size`."""
    cdef RecordBatch batch = as_batch(data)
    cdef EncodeOptions encode_options = EncodeOptions(options)
    encode_alone(encode_options, Truncator(batch.plan), batch)
    return encode_options.encoder.head_size + encode_options.encoder.body_length


cdef Recent recent = Recent(8)      # (schema that was asked for, schema that is written)


cdef object written_schema(object schema):
    """Return the schema that a writer declares.

    The same argument gives the same object: a schema keeps its message and its plan once they are made, and services
    write thousands of small streams with few schemas.
    """
    found = recent.find(identity(instance_of("schema", schema, Schema)))
    if found is not None:
        return found[1]
    written = schema
    if schema.features or schema.endianness != "little" or schema._plan is not None:
        # The plan of the schema may be that of a reader: of some of the columns, or of another byte order.
        written = schema.__replace__(features=(), endianness="little")
    written = number_from_zero(written)
    recent.keep((schema, written), identity(schema))
    return written


# -- the writer ----------------------------------------------------------------------------------------------


cdef class BatchWriter:
    """Writes batches of one schema, as a stream or as a file, into a sink; see `arrowipc.options.WriteOptions`.

    A file has a magic, a footer, and one dictionary per id. `annotate` adds statistics to the metadata of each batch.
    """

    def __cinit__(self, *_, **__):
        self.failure = "its __init__ was not called"
        self.ended = True

    def __init__(self, Sink sink not None, options, bint is_file=False, annotate=None, tuple metadata=()):
        if self.sink is not None:
            raise UsageError("a writer begins once: make another one")
        self.coalesce_rows = check_integer("coalesce_rows", options.coalesce_rows, 0, INT64_MAX)
        self.sink = sink
        self.encode_options = EncodeOptions(options)
        self.encoder = self.encode_options.encoder
        self.is_file = is_file
        self.deltas = options.dictionary_deltas
        self.unify = options.unify_dictionaries
        self.allow_64bit = options.allow_64bit
        self.annotate = annotate
        self.file_metadata = metadata
        self.pending = []
        self.batch_blocks = bytearray()
        self.dictionary_blocks = bytearray()
        self.failure, self.ended = None, False

    # -- the life of a writer --

    # A writer is open until it is closed, abandoned, or fails in the middle of a message: `failure` says why nothing
    # more can be written. Only closing and abandoning end it and tell the sink.

    cdef int check_usable(self) except -1:
        if self.failure is not None:
            raise UsageError(f"this writer cannot continue: {self.failure}")
        return 0

    cdef int check_idle(self) except -1:
        if self.busy:
            raise UsageError("another thread is writing with this writer, or this call is part of one: one thread at "
                             "a time may")
        return 0

    cdef int occupy(self) except -1:
        """Begin a message. There is one at a time: encoder, truncators and sink serve no other one until its end.

        Not only other threads could begin another one: a sink may call Python code that uses this writer.
        """
        self.check_usable()
        self.check_idle()
        self.busy = True
        return 0

    cdef int fail(self, object error) except -1:
        """End the writer after an error in the middle of a message: it is not known how much of it was written."""
        self.failure = f"an error ended it: {str(error) or type(error).__name__}"
        self.pending = []
        return 0

    @cython.critical_section
    def check(self):
        """Raise a UsageError if nothing can be written any more: the writer is closed, or an error ended it."""
        self.check_usable()

    @cython.critical_section
    def close(self):
        """Write the end of the stream or file, and give a new file its name.

        Raises
        ------
        UsageError
            An error ended the writer before: there is nothing complete to close, and what it made is removed.
        OSError
            The sink failed, or (for paths) data could not be brought to the disk; the old file is still
            there.
        """
        if self.ended:
            return
        self.check_idle()
        try:
            self.put_end()
        except BaseException:
            self.abandon("it could not be closed")
            raise
        self.failure = "it was closed"
        self.ended = True
        self.sink.commit()

    @cython.critical_section
    def abandon(self, reason):
        """Stop without an end-of-stream marker or a footer; what was made is removed, as far as it can be."""
        if self.ended:
            return
        if self.failure is None:
            self.failure = str(reason)
        self.pending = []
        self.check_idle()   # another thread may be writing to the sink
        self.ended = True
        self.sink.discard()

    # -- the beginning --

    @cython.critical_section
    def begin(self, schema):
        """Write the magic of a file and the Schema message; dictionaries are numbered anew."""
        head = MAGIC + b"\0\0" if self.is_file else b""
        self.asked = schema
        schema = written_schema(schema)
        self.set_plan(schema)
        if (self.file_metadata or self.encoder.legacy or self.encoder.version == MetadataVersion_V4
                or self.encoder.checksum):
            # Files repeat their metadata in the Schema message, where it survives the loss of the footer.
            metadata = without_descriptions(self.file_metadata) + ((PAIR,) if self.encoder.checksum else ())
            message = schema_message(schema, version_name(self.encoder), metadata, self.encoder.legacy)
            if self.encoder.checksum:
                # These bytes may be changed, because nobody else has them yet.
                sign_alone(<uint8_t*> PyBytes_AS_STRING(message) + self.encoder.metadata_at,
                           len(message) - self.encoder.metadata_at, NULL, 0)
        else:
            message = schema.serialize()
        self.occupy()
        try:
            self.sink.write_bytes(head + message)
        except BaseException as error:
            self.fail(error)
            raise
        finally:
            self.busy = False
        self.num_messages += 1

    @cython.critical_section
    def expect(self, schema):
        """Begin with `schema` if the writer has none yet; else compare the two."""
        self.check_usable()
        if self.plan is not None:
            check_schema(plan_schema(self.plan), schema)
            return
        self.check_idle()
        try:
            self.begin(schema)
        except BaseException:
            self.abandon("it could not begin")
            raise

    @cython.critical_section
    def resume(self, existing):
        """Go on behind the messages of an `ExistingFile` or `ExistingStream`, whose ids and blocks stay."""
        self.set_plan(existing.schema)
        self.batch_blocks = bytearray(existing.batch_blocks)
        self.dictionary_blocks = bytearray(existing.dictionary_blocks)
        self.earlier = existing.num_messages
        if self.annotate is not None and self.annotate.file is not None:
            existing.add_statistics(self.annotate.file)
        if existing.last_batch is not None:
            self.accept(existing.last_batch)
            if (self.dictionaries is not None
                    and self.dictionaries.know(existing.last_batch) < existing.num_dictionaries):
                raise UnsupportedError("append: the file has a dictionary inside another one, which is missing: write "
                                       "it again with arrowipc.copy()")

    cdef int set_plan(self, object schema) except -1:
        cdef int32_t i
        self.check_usable()
        self.plan = default_plan(schema)
        self.encode_options.choose(self.plan)
        if self.annotate is not None:
            self.annotate.check(schema)
        self.truncator = Truncator(self.plan)
        self.truncators = {}
        if self.plan.dictionaries:
            self.dictionaries = WrittenDictionaries(self.plan, self.is_file, self.deltas, self.unify)
        for i in range(self.plan.d.n_columns):
            if not self.plan.d.fields[self.plan.d.columns[i]].flags & FIELD_NULLABLE:
                self.has_required = True
        return 0

    @property
    def schema(self):
        """Schema: of the batches; None if it is not known yet."""
        return None if self.plan is None else plan_schema(self.plan)

    # -- batches --

    @cython.critical_section
    def write_batch(self, batch, custom_metadata=None):
        """Write one batch.

        Parameters
        ----------
        batch : RecordBatch, or an object with ``__arrow_c_array__`` or ``__arrow_c_stream__``
            Of the writer's schema; metadata may differ. A slice writes only its rows.
        custom_metadata : mapping or pairs of str or bytes, optional
            Goes into the message. Default: that of the batch. Keys that begin with ``arrowipc:`` are left out: only
            the writer knows the things that they describe.

        Raises
        ------
        UsageError
            The batch has another schema, nulls in a column that has none by schema, a dictionary that a file
            cannot replace, or the writer is closed. Nothing was written then, and the writer can go on.
        FormatError
            The batch was read with ``validate="none"`` and its contents are broken; as above.
        OSError
            The sink failed: the writer cannot go on.
        """
        cdef RecordBatch own = as_batch(batch)
        cdef tuple pairs = own.metadata_pairs
        if custom_metadata is not None:
            pairs = without_descriptions(metadata_of(custom_metadata).pairs)
        self.check_usable()
        if own.plan is not self.accepted:
            self.accept(own)
        if own.d.length < self.coalesce_rows and not pairs:
            self.pending.append(own)
            self.pending_rows += own.d.length
            if self.pending_rows >= self.coalesce_rows:
                self.flush()
            return
        if self.pending:
            self.flush()
        self.put(own, 0, own.d.length, pairs, INT64_MAX)

    @cython.critical_section
    def write_rows(self, RecordBatch batch not None, max_rows, max_bytes):
        """Write a batch as several: of `max_rows` rows and bodies of `max_bytes` bytes at most.

        One row may exceed `max_bytes`. Custom metadata goes with the first one.
        """
        cdef int64_t start = 0, count, written, likely = check_integer("max_rows", max_rows, 1, INT64_MAX)
        cdef int64_t rows = likely, size = check_integer("max_bytes", max_bytes, 0, INT64_MAX)
        cdef tuple pairs = batch.metadata_pairs
        self.check_usable()
        if batch.plan is not self.accepted:
            self.accept(batch)
        if self.pending:
            self.flush()
        while True:
            count = min(rows, min(likely, batch.d.length - start))
            written = self.put(batch, start, count, pairs, size)
            start += written
            pairs = ()
            if start >= batch.d.length:
                return
            # Trying all that is left each time would cost the square of the number of pieces.
            likely = min(written, INT64_MAX >> 1) * 2 if written == count else written + (written >> 3)

    @cython.critical_section
    def write_stored(self, Message message not None, Columns columns not None):
        """Write a RecordBatch message with its body untouched, if this writer would write the same; else return False.

        `columns` are its rows and dictionaries, as `arrowipc.decode.decoders.Decoder.stored` returns them.
        """
        self.check_usable()
        if columns.plan is not self.accepted:
            self.accept(columns)
        if (not self.encode_options.untouched or self.has_required or self.annotate is not None
                or (self.unify and self.dictionaries is not None)
                or self.sink.keeps and checksum_of(message) is not None
                or columns.d.length < self.coalesce_rows or not columns.plan.d.whole
                or columns.plan.d.stored_big or not self.encoder.agrees(message, columns.plan.d.source_views)):
            return False
        if self.pending:
            self.flush()
        self.put(columns, 0, columns.d.length, (), INT64_MAX, message)
        return True

    cdef int accept(self, Columns columns) except -1:
        """Refuse a batch whose columns have other names or types than those of the writer's schema."""
        if self.plan is None:
            self.expect(plan_schema(columns.plan))
        check_native(columns, "writing")
        if plan_schema(columns.plan) is not self.asked:
            check_schema(plan_schema(self.plan), plan_schema(columns.plan))
        self.accepted = columns.plan
        return 0

    cdef int truncate(self, Columns columns, int64_t start, int64_t count) except -1:
        cdef Fault fault
        cdef int64_t found
        cdef int32_t f
        check(self.truncator.truncate(&columns.d, start, count, &fault), &fault, columns)
        f = refused_field(&self.truncator.d, self.allow_64bit)
        if f < 0:
            return 0
        found = self.truncator.d.nodes[f].length
        if found > INT32_MAX and not self.allow_64bit:
            raise UsageError(f"column {field_path(self.plan, f)!r} has {found:,} elements, more than 2**31 - 1, which "
                             "some readers cannot read: write fewer rows at a time (write_table(max_chunksize=)), or "
                             "say allow_64bit=True")
        found = self.truncator.d.nodes[f].null_count
        raise UsageError(f"column {field_path(self.plan, f)!r} has {found} null{'s' if found > 1 else ''} and the "
                         "writer's schema says that it has none (nullable=False)")

    cdef int64_t put(self, Columns columns, int64_t start, int64_t count, tuple pairs, int64_t max_bytes,
                     Message stored=None) except -1:
        """Write up to `count` rows, fewer to stay below `max_bytes`, and return how many.

        `stored`: a message with exactly these rows, which is written as it was read.
        """
        cdef Columns written = columns
        cdef list emissions = None
        cdef int64_t position
        cdef bint decided = False
        self.occupy()
        position = self.sink.position
        try:
            if stored is None:
                self.truncate(columns, start, count)
            while (max_bytes < INT64_MAX and count > 1
                   and body_size(&self.truncator.d, self.encoder.alignment) > max_bytes):
                count = max(1, min(count - 1, <int64_t> (count * (<double> max_bytes
                                                         / body_size(&self.truncator.d, self.encoder.alignment)))))
                self.truncate(columns, start, count)
            if self.annotate is not None:
                pairs = self.annotate(columns, start, count, pairs)
            if self.dictionaries is not None:
                emissions = []
                written = self.dictionaries.before(columns, emissions)
            # From here on an error may leave a part of a message, or no dictionary although it counts as written.
            decided = True
            if emissions is not None:
                self.put_dictionaries(emissions)
                if written is not columns:
                    self.truncate(written, start, count)
            if stored is not None:
                self.encoder.wrap(stored, self.sink.position)
            else:
                self.encoder.encode(&self.truncator.d, self.encode_options.chosen_data, pairs, self.sink.position)
            self.hand_over(self.batch_blocks, written, self.truncator, stored)
        except BaseException as error:
            # A sink without room raises UsageError before it writes anything: then the writer can still be closed.
            if decided and (emissions or self.sink.position != position or not isinstance(error, UsageError)):
                self.fail(error)
            raise
        finally:
            self.busy = False
        self.num_record_batches += 1
        if self.annotate is not None:
            self.annotate.written()
        return count

    cdef int put_dictionaries(self, list emissions) except -1:
        cdef Emission emission
        cdef Truncator truncator
        cdef Fault fault
        for emission in emissions:
            truncator = self.truncators.get(emission.id)
            if truncator is None:
                truncator = self.truncators[emission.id] = Truncator(emission.plan)
            # The data buffers of views are those of all deltas so far: each delta has to write only its own part.
            truncator.tight = emission.is_delta
            if truncator.truncate(&emission.values.d, emission.start, emission.values.d.length - emission.start,
                                  &fault) < 0:
                raise_fault(&fault, emission.values.plan, f"dictionary {emission.id}")
            self.encoder.encode(&truncator.d, NULL, (), self.sink.position, True, emission.id, emission.is_delta)
            self.hand_over(self.dictionary_blocks, emission.values, truncator)
            self.num_dictionary_batches += 1
            self.num_dictionary_deltas += emission.is_delta
            self.num_replaced_dictionaries += emission.replaces
        return 0

    cdef int hand_over(self, bytearray blocks, Columns columns, Truncator truncator, Message stored=None) except -1:
        """Send the message that was just encoded to the sink: of truncated columns, or `stored` as it was read."""
        cdef Encoder encoder = self.encoder
        cdef int64_t used, position = self.sink.position
        if self.sink.keeps:
            self.sink.owners = owners_of(columns, truncator, encoder) if stored is None else stored
        if encoder.checksum:
            with nogil:
                encoder.sign(self.earlier + self.num_messages)
        self.sink.write(encoder.head, encoder.head_size, encoder.parts, encoder.n_parts, encoder.alignment,
                        encoder.body_length)
        self.num_messages += 1
        self.raw_bytes += encoder.raw_length
        self.stored_bytes += encoder.body_length
        if self.is_file:
            used = PyByteArray_GET_SIZE(blocks)
            PyByteArray_Resize(blocks, used + Block_SIZE)
            put_block(<uint8_t*> PyByteArray_AS_STRING(blocks) + used, position, encoder.head_size,
                      encoder.body_length)
        return 0

    cdef int flush(self) except -1:
        """Write the batches that wait as one batch."""
        cdef list waiting = self.pending
        cdef RecordBatch joined
        self.check_idle()
        self.pending = []
        self.pending_rows = 0
        try:
            if len(waiting) > 1:
                joined = RecordBatch.__new__(RecordBatch)
                joined.metadata_pairs = ()
                try:
                    concat_into(joined, tuple(waiting))
                    waiting = [joined]
                except UnsupportedError:
                    pass    # their offsets or dictionaries do not fit one batch: they are written as they are
            for batch in waiting:
                self.put(batch, 0, (<Columns> batch).d.length, (), INT64_MAX)
        except BaseException as error:
            # The caller was told that these batches are written, so nothing may be written behind them.
            self.fail(error)
            raise
        return 0

    # -- the end --

    cdef int put_end(self) except -1:
        """Write the rest: batches that wait, missing dictionaries, and the end marker or the footer."""
        self.check_usable()
        if self.plan is None:
            raise UsageError("nothing was written and no schema was given: give the writer a schema, so that it can "
                             "say what an empty stream or file is empty of")
        if self.pending:
            self.flush()
        self.occupy()
        try:
            if self.dictionaries is not None:
                self.put_dictionaries(self.dictionaries.at_close())
            end = bytes(4) if self.encoder.legacy else b"\xff\xff\xff\xff" + bytes(4)
            if self.encoder.checksum and not self.is_file:
                self.put_closing()
            if self.is_file:
                metadata = without_descriptions(self.file_metadata)
                if self.annotate is not None and self.annotate.file is not None and self.batch_blocks:
                    metadata += self.annotate.file.entry(bytes(self.batch_blocks[len(self.batch_blocks) - 24:]))
                self.put_footer(end, metadata)
            else:
                self.sink.write_bytes(end)
        except BaseException as error:
            self.fail(error)
            raise
        finally:
            self.busy = False
        return 0

    cdef int put_closing(self) except -1:
        """Write the empty batch that ends a stream with checksums: it proves that no message is missing."""
        from arrowipc.values.from_python import empty_batch

        cdef RecordBatch empty = empty_batch(plan_schema(self.plan))
        cdef list emissions = []
        cdef Fault fault
        if self.num_record_batches == 0 and self.dictionaries is not None:
            self.dictionaries.before(empty, emissions)      # without them, readers refuse any batch
            self.put_dictionaries(emissions)
        check(self.truncator.truncate(&empty.d, 0, 0, &fault), &fault, empty)
        self.encoder.closing = True
        self.encoder.encode(&self.truncator.d, NULL, (), self.sink.position)
        self.hand_over(self.batch_blocks, empty, self.truncator)
        return 0

    cdef int put_footer(self, bytes end, tuple metadata) except -1:
        """Write the end marker and the footer, whose blocks are not copied: there may be millions."""
        cdef BodyPart[2] parts
        cdef int64_t size = PyByteArray_GET_SIZE(self.batch_blocks)
        cdef bytes head = write_footer(plan_schema(self.plan), version_name(self.encoder), self.dictionary_blocks,
                                       size // Block_SIZE, metadata + ((PAIR,) if self.encoder.checksum else ()))
        cdef bytes tail = (len(head) + size).to_bytes(4, "little") + MAGIC
        # The end marker of old streams has 4 bytes only; the footer begins at a multiple of 8.
        head = end.ljust(8, b"\0") + head
        memset(parts, 0, sizeof(parts))
        parts[0].data, parts[0].size = <const uint8_t*> PyByteArray_AS_STRING(self.batch_blocks), size
        parts[1].data, parts[1].size = <const uint8_t*> PyBytes_AS_STRING(tail), len(tail)
        if self.encoder.checksum:
            sign_footer(head, parts, self.earlier + self.num_messages)
        self.sink.write(<const uint8_t*> PyBytes_AS_STRING(head), len(head), parts, 2, 1, size + len(tail))
        return 0

    @property
    def counters(self):
        """tuple of int: messages, record batches, dictionary batches, deltas, replaced ones, raw and stored bytes."""
        return (self.num_messages, self.num_record_batches, self.num_dictionary_batches, self.num_dictionary_deltas,
                self.num_replaced_dictionaries, self.raw_bytes, self.stored_bytes)


cdef int sign_footer(bytes head, const BodyPart* rest, int64_t number) except -1:
    """Fill in the checksum of the end of a file: of the marker and the footer's table in `head`, and of two parts."""
    cdef uint8_t* data = <uint8_t*> PyBytes_AS_STRING(head)
    cdef uint8_t* text
    cdef int64_t size = len(head)
    cdef uint32_t crc = ~<uint32_t> 0
    cdef Checksum checksum
    cdef Table root
    cdef int i
    fb_root(data + 8, size - 8, &root)
    find_checksum(&root, Footer_custom_metadata, &checksum)
    text = data + (checksum.text - data)
    put_hex(text, <uint32_t> number)
    crc = crc_more(crc, data, size)     # the digits of the checksum are still zeros
    for i in range(2):
        crc = crc_more(crc, rest[i].data, rest[i].size)
    put_hex(text + SUM_DIGITS, ~crc)
    return 0


cdef int32_t refused_field(const ColumnsData* d, bint allow_64bit) noexcept nogil:
    cdef const FieldPlan* field
    cdef int32_t f
    for f in range(d.plan.n_fields):
        field = &d.plan.fields[f]
        if (d.nodes[f].length > INT32_MAX and not allow_64bit
                or d.nodes[f].null_count and field.parent < 0 and not field.flags & FIELD_NULLABLE):
            return f
    return -1


cdef str version_name(Encoder encoder):
    return "V4" if encoder.version == MetadataVersion_V4 else "V5"


cdef inline int64_t body_size(const ColumnsData* d, int64_t alignment) noexcept nogil:
    """Return the bytes of a body of these columns, uncompressed."""
    cdef int64_t total = 0
    cdef int32_t i
    for i in range(d.n_extents):
        total += (d.extents[i].size + alignment - 1) & -alignment
    return total


ONE_SCHEMA = " (a stream or file has one: make the batch fit before, or begin another)"


def check_schema(expected, found):
    """Compare a batch's schema with the writer's; raise an error that names the first column that differs."""
    if len(expected) != len(found):
        missing = [field.name for field in expected if field.name not in found]
        surplus = [field.name for field in found if field.name not in expected]
        raise UsageError(f"the batch has {len(found)} columns, the writer's schema {len(expected)}"
                         + (f"; missing: {missing}" if missing else "") + (f"; unknown: {surplus}" if surplus else "")
                         + ONE_SCHEMA)
    for i, (mine, theirs) in enumerate(zip(expected, found)):
        if mine.name != theirs.name:
            raise UsageError(f"column {i} is named {theirs.name!r} in the batch and {mine.name!r} in the writer's "
                             f"schema{ONE_SCHEMA}")
        if mine.type != theirs.type:
            raise UsageError(f"column {mine.name!r} is {theirs.type} in the batch and {mine.type} in the writer's "
                             f"schema{ONE_SCHEMA}")
