# The encoder, which makes messages of truncated columns: their metadata, and the parts of their body.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport Jobs, Memory
from arrowipc.inline.body_parts cimport BodyPart
from arrowipc.inline.plan cimport ColumnsData, Extent
from arrowipc.decode.decompress cimport CodecPool
from arrowipc.decode.framing cimport Message

cdef struct CompressJob:
    # One buffer that may become smaller.
    const uint8_t* source
    int64_t size
    uint8_t* target         # where the frame goes
    int64_t room
    int64_t stored          # bytes of the frame, 0: the buffer stays raw
    int32_t extent


@cython.final
cdef class Compressor(Jobs):
    cdef readonly int codec     # CompressionType
    cdef double savings         # least fraction of a buffer that its frame must save
    cdef bint use_threads
    cdef CodecPool pool
    cdef Memory memory          # the frames of the last batch
    cdef CompressJob* jobs      # the buffers of one batch that may become smaller
    cdef int64_t jobs_room
    cdef int64_t total          # bytes of all jobs
    cdef size_t code            # the library's error, 0: none

    # Compress the buffers, and fill parts[0 : d.n_extents]. `chosen`: one byte per field of d.plan, 0: its buffers stay
    # raw (NULL: all are compressed). An empty buffer becomes an empty part without a prefix. The memory of the parts
    # is valid until the next call (or longer with `keep`), and only as long as the columns are.
    cdef int compress(self, const ColumnsData* d, const uint8_t* chosen, BodyPart* parts) except -1
    # Return the owner that keeps compressed buffers alive beyond the next call.
    cdef object keep(self)
    cdef uint8_t* frame_memory(self, int64_t size) except NULL
    cdef void make_frames(self, void* state) noexcept nogil
    cdef int add_buffers(self, const ColumnsData* d, const uint8_t* chosen, BodyPart* parts) except -1
    cdef void add_buffer(self, const Extent* extent, int32_t index, bint chosen, BodyPart* part) noexcept
    cdef int place(self) except -1


cdef class Encoder:
    cdef readonly int version           # MetadataVersion
    cdef readonly int64_t alignment     # of bodies and the buffers in them: 8 or 64
    cdef readonly bint legacy           # prefix without a continuation marker
    cdef readonly bint checksum         # each message has one: the caller of `encode` calls `sign` before it is written
    cdef bint closing                   # the next message closes a stream
    cdef int64_t sum_at                 # in `head`: the text of the checksum
    cdef Compressor compressor          # None: bodies stay raw
    cdef uint8_t* head                  # prefix, metadata, padding
    cdef int64_t head_size
    cdef int64_t head_room
    cdef int64_t metadata_at            # in `head`: behind the prefix
    cdef BodyPart* stored               # per extent
    cdef int64_t stored_room
    cdef BodyPart* parts                # in the order of the body
    cdef int32_t n_parts
    cdef int64_t parts_room
    cdef int64_t body_length
    cdef int64_t raw_length             # bytes of the body without compression and padding

    # Encode a message that will begin at byte `position` of its sink: a RecordBatch, or a DictionaryBatch of this id.
    # `chosen`: as for Compressor.
    cdef int encode(self, const ColumnsData* d, const uint8_t* chosen, tuple pairs, int64_t position,
                    bint dictionary=*, int64_t id=*, bint is_delta=*) except -1
    # Do the same without the GIL, for bodies that stay raw, without pairs, and if there is room for them already.
    # False: there is no room, nothing was done, and `encode` makes room.
    cdef bint encode_raw(self, const ColumnsData* d, int64_t position, bint dictionary, int64_t id) noexcept nogil
    cdef int64_t count_buffers(self, const ColumnsData* d) noexcept nogil
    cdef int64_t put_tables(self, const ColumnsData* d, int64_t n_buffers, int codec, bint pairs, bint dictionary,
                            int64_t id, bint is_delta) noexcept nogil
    cdef int64_t put_buffers(self, uint8_t* base, int64_t table, int64_t at, const ColumnsData* d,
                             int64_t n_buffers) noexcept nogil
    cdef int64_t put_plain(self, uint8_t* base, int64_t at, const ColumnsData* d) noexcept nogil
    # For a message that was read: return whether it is like those of this encoder; encode it with a new prefix.
    cdef bint agrees(self, Message message, int64_t views) except -1
    cdef int wrap(self, Message message, int64_t position) except -1
    cdef int reserve(self, int64_t head, int32_t parts) except -1
    cdef int64_t put_pairs(self, int64_t at, tuple pairs) except -1
    # Fill in the checksum of the message, which is number `number` of its stream or file.
    cdef void sign(self, int64_t number) noexcept nogil
    cdef int wrap_anew(self, Message message, tuple pairs, int64_t position) except -1
    cdef int finish_head(self, int64_t size, int64_t position) except -1
    cdef void close_head(self, int64_t size, int64_t position) noexcept nogil
