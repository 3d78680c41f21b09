# From the extents that the walk found to columns that kernels can read.
#
# The order of the steps, which `normalise` keeps:
#   walk (core) -> decompress -> check_sizes (core) -> swap_bytes -> align -> validate
# Dictionaries' values are Columns too and take the same way. A step that makes new memory chains it to
# `columns.owner`; after decompression the compressed body is let go of unless a buffer in it was stored raw.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t

from arrowipc._core cimport Columns, check_sizes, raise_fault
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.plan cimport ColumnsData, LimitsData

# Functions of liblz4 and libzstd, as the packages export them.
ctypedef size_t (*create_lz4_t)(void** context, unsigned int version) noexcept nogil
ctypedef void* (*create_zstd_t)() noexcept nogil
ctypedef size_t (*free_t)(void* context) noexcept nogil
ctypedef unsigned int (*is_error_t)(size_t code) noexcept nogil
ctypedef const char* (*error_name_t)(size_t code) noexcept nogil
ctypedef void (*reset_lz4_t)(void* context) noexcept nogil
ctypedef size_t (*decode_lz4_t)(void* context, void* target, size_t* room, const void* frame, size_t* stored,
                                const unsigned int* options) noexcept nogil
ctypedef int (*decode_block_t)(const char* block, char* target, int stored, int room) noexcept nogil
ctypedef size_t (*decode_zstd_t)(void* context, void* target, size_t room, const void* frame,
                                 size_t stored) noexcept nogil
ctypedef unsigned long long (*frame_size_t)(const void* frames, size_t stored) noexcept nogil
ctypedef size_t (*bound_lz4_t)(size_t size, const void* preferences) noexcept nogil
ctypedef size_t (*encode_lz4_t)(void* target, size_t room, const void* source, size_t size,
                                const void* preferences) noexcept nogil
ctypedef size_t (*bound_zstd_t)(size_t size) noexcept nogil
ctypedef size_t (*encode_zstd_t)(void* context, void* target, size_t room, const void* source, size_t size,
                                 int level) noexcept nogil

cdef struct CodecFunctions:
    # Of one codec in one direction, in the order of `FUNCTIONS`; NULL: those of the others, and all where no package
    # exports what is needed.
    is_error_t is_error
    error_name_t error_name
    create_lz4_t create_lz4     # liblz4 encodes without a context
    create_zstd_t create_zstd
    free_t free
    reset_lz4_t reset_lz4
    decode_lz4_t decode_lz4
    decode_block_t decode_block
    decode_zstd_t decode_zstd
    frame_size_t most_zstd      # that frames can hold; ZSTD_CONTENTSIZE_ERROR: they are not whole
    frame_size_t stated_zstd    # that they say they hold
    bound_lz4_t bound_lz4
    encode_lz4_t encode_lz4
    bound_zstd_t bound_zstd
    encode_zstd_t encode_zstd


@cython.final
cdef class CodecContext:
    """A codec's working memory, used by one thread at a time."""
    cdef void* state
    cdef free_t free        # no reference to the pool, which refers to idle contexts


@cython.final
cdef class CodecPool:
    """How one codec decodes, or encodes at one level: C functions, with the contexts that are idle."""
    cdef int codec
    cdef int level          # of an encoder
    cdef CodecFunctions c
    cdef dict addresses     # what `c` is made of
    cdef list idle          # contexts, or callables, that nobody uses
    # A context or a callable, for one thread until it is given back; None: nothing is needed. One that met an error
    # is not given back: what a frame that failed leaves behind outlives a reset of LZ4's context.
    cdef CodecContext take(self)    # None: the codec needs no context
    cdef int give(self, CodecContext taken) except -1


# The pool of a codec; raises UnsupportedError where its package is missing. Encoders of other levels than the default
# one may be large: they end with their compressor.
cdef CodecPool encoders(int codec, int level)


cdef struct DecompressJob:
    # One compressed buffer.
    const uint8_t* frame
    int64_t stored          # bytes of the frame
    int64_t claim           # bytes that it says it holds
    uint8_t* target
    int64_t made            # bytes that the codec gave
    size_t code             # what the codec returned
    int outcome             # Outcome
    int32_t extent
    int32_t field
    int32_t buffer


cdef int decompress(Columns columns, int codec, const LimitsData* limits, bint use_threads) except -1
# Copy the buffers whose values are misaligned to multiples of 64; with `swap` all numbers, in reverse byte order.
cdef int align(Columns columns, bint swap) except -1

# The same columns with every buffer copied into native byte order; for plans that keep the stored order.
cdef Columns native_copy(Columns columns)


cdef inline int normalise(Columns columns, int codec, const LimitsData* limits, bint use_threads) except -1:
    """Everything between the walk and `validate`; a raw, little-endian, aligned batch passes untouched."""
    cdef Fault fault
    cdef const ColumnsData* d = &columns.d
    cdef uintptr_t address = 0
    cdef int32_t i
    if codec >= 0:
        decompress(columns, codec, limits, use_threads)
    if check_sizes(d, &fault) < 0:
        raise_fault(&fault, columns.plan)
    if d.plan.stored_big and not d.plan.keep_stored:
        align(columns, True)
    for i in range(d.plan.n_buffers):
        address |= <uintptr_t> d.extents[i].data
    if address & 7:
        align(columns, False)
    return 0


cdef enum Decoded:
    # How decoding without Python ends.
    DECODED = 0
    DECODE_ROOM         # it needs room for more data buffers of views
    DECODE_CODEC        # nobody has looked for the codec yet: `prepare`
    DECODE_BY_DECODER   # this is for a `Decoder`: it is broken, too much, or unusual, such as large enough for threads

cdef struct Scratch:
    # Memory that only grows; what it holds is good until it is written again.
    uint8_t* data
    int64_t capacity


@cython.final
cdef class Inflater:
    """Decompresses batch after batch as readers do, without the GIL."""
    cdef list taken             # of each codec, its pool and a context; None: not to be had
    cdef const CodecFunctions* functions[2]
    cdef void* states[2]
    cdef bint[2] known          # False: not looked for, or the context is spoilt
    cdef DecompressJob* jobs
    cdef int64_t room
    cdef bint use_threads       # leave large bodies to the reader, who has some

    # With the GIL, once per codec.
    cdef int prepare(self, int codec) except -1
    # The extents of `d`, as the walk has left them, become readable; what is not raw lies in `scratch`. Decoded.
    cdef int inflate(self, ColumnsData* d, int codec, const LimitsData* limits, Scratch* scratch) noexcept nogil


cdef Inflater new_inflater(bint use_threads)
