# Turns the extents that the walk found into columns that kernels can read.
#
# The order of the steps, which `normalise` keeps:
#   walk (core) -> decompress -> check_sizes (core) -> swap_bytes -> align -> validate
# The values of dictionaries are Columns too, and go through the same steps. A step that allocates memory adds it to
# `columns.owner`; decompression releases the compressed body, unless a buffer in it was stored raw.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t

from arrowipc._core cimport Columns, check_sizes, raise_fault
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport CompressionType_MAX
from arrowipc.inline.frames cimport Codec, CodecFunctions, DecompressJob, free_t
from arrowipc.inline.plan cimport ColumnsData, LimitsData
cdef enum:
    N_CODECS = CompressionType_MAX + 1


@cython.final
cdef class CodecContext:
    """A codec's working memory, used by one thread at a time."""
    cdef void* state        # NULL: the codec needs none
    cdef free_t free        # not a reference to the pool, because that refers to idle contexts


@cython.final
cdef class CodecPool:
    """One codec that decodes, or encodes at one level: its C functions, and the contexts that are idle."""
    cdef int codec
    cdef int level          # of an encoder
    cdef CodecFunctions c
    cdef dict addresses     # of the functions in `c`, by name
    cdef const Codec* row   # how the functions are called
    cdef list idle          # contexts that nobody uses
    # Take a context for one thread, and give it back. A context that met an error is not given back: resetting LZ4's
    # context does not remove everything that a failed frame left in it.
    cdef CodecContext take_context(self)
    cdef int give(self, CodecContext taken) except -1


# Return the pool of encoders of a codec; raise UnsupportedError if its package is missing. Encoders of other levels
# than the default one may be large: they are freed with their compressor.
cdef CodecPool encoders(int codec, int level)


# Replace the compressed buffers by their contents.
cdef int decompress(Columns columns, int codec, const LimitsData* limits, bint use_threads) except -1
# Copy the buffers whose values are misaligned to multiples of 64; with `swap`, copy all numbers, their bytes reversed.
cdef int align(Columns columns, bint swap) except -1

# Return the same columns with every buffer copied into native byte order; for plans that keep the stored order.
cdef Columns native_copy(Columns columns)


cdef inline int normalise(Columns columns, int codec, const LimitsData* limits, bint use_threads) except -1:
    """Do everything between the walk and `validate`; a raw, little-endian, aligned batch stays as it is."""
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
    DECODE_CODEC        # the codec has to be looked for first: `prepare`
    DECODE_BY_DECODER   # a `Decoder` has to do it: it is broken, too large, or unusual, such as worth several threads

cdef struct Scratch:
    # Memory that only grows; its contents are valid until it is written again.
    uint8_t* data
    int64_t capacity


@cython.final
cdef class Inflater:
    """Decompresses batch after batch as readers do, without the GIL."""
    cdef list taken             # for each codec, its pool and a context; None: the codec is missing
    cdef const CodecFunctions* functions[N_CODECS]
    cdef void* states[N_CODECS]
    cdef bint[N_CODECS] known          # False: not looked for, or the context met an error
    cdef DecompressJob* jobs
    cdef int64_t room
    cdef bint use_threads       # leave large bodies to the reader, which has threads

    # Look for a codec, once, with the GIL.
    cdef int prepare(self, int codec) except -1
    # Make the extents readable that the walk has found; compressed ones are decompressed to `scratch`. Return Decoded.
    cdef int inflate(self, ColumnsData* d, int codec, const LimitsData* limits, Scratch* scratch) noexcept nogil


cdef Inflater new_inflater(bint use_threads)
