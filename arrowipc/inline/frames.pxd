# Compressed frames: what a codec's library does, and how it is asked.
#
# A codec is one `Codec`, a row of the table in decode/decompress, and one row of `arrowipc.codecs`, which finds its
# library. No other kernel tells codecs apart.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from arrowipc.inline.loads cimport load_i64, load_u32

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
    # The functions of one library in one direction; those of the other library and the other direction are NULL. A row
    # of `arrowipc.codecs` has the first two in both directions.
    is_error_t is_error
    error_name_t error_name
    free_t free                 # NULL: this direction needs no context
    create_lz4_t create_lz4
    reset_lz4_t reset_lz4
    decode_lz4_t decode_lz4
    decode_block_t decode_block
    bound_lz4_t bound_lz4
    encode_lz4_t encode_lz4
    create_zstd_t create_zstd
    decode_zstd_t decode_zstd
    frame_size_t most_zstd      # the most bytes that frames can hold; ZSTD_CONTENTSIZE_ERROR: they are incomplete
    frame_size_t stated_zstd    # the bytes that frames say they hold
    bound_zstd_t bound_zstd
    encode_zstd_t encode_zstd


cdef inline uintptr_t address(dict addresses, str name) except? 0:
    """Return the address of a function by its name in `arrowipc.codecs`; 0: it belongs to another use."""
    return addresses.get(name, 0)


cdef inline CodecFunctions functions_at(dict addresses) except *:
    """Return the functions that `arrowipc.codecs.functions` has found."""
    cdef CodecFunctions c
    c.is_error = <is_error_t> address(addresses, "is_error")
    c.error_name = <error_name_t> address(addresses, "error_name")
    c.free = <free_t> address(addresses, "free")
    c.create_lz4 = <create_lz4_t> address(addresses, "create_lz4")
    c.reset_lz4 = <reset_lz4_t> address(addresses, "reset_lz4")
    c.decode_lz4 = <decode_lz4_t> address(addresses, "decode_lz4")
    c.decode_block = <decode_block_t> address(addresses, "decode_block")
    c.bound_lz4 = <bound_lz4_t> address(addresses, "bound_lz4")
    c.encode_lz4 = <encode_lz4_t> address(addresses, "encode_lz4")
    c.create_zstd = <create_zstd_t> address(addresses, "create_zstd")
    c.decode_zstd = <decode_zstd_t> address(addresses, "decode_zstd")
    c.most_zstd = <frame_size_t> address(addresses, "most_zstd")
    c.stated_zstd = <frame_size_t> address(addresses, "stated_zstd")
    c.bound_zstd = <bound_zstd_t> address(addresses, "bound_zstd")
    c.encode_zstd = <encode_zstd_t> address(addresses, "encode_zstd")
    return c


cdef enum Outcome:
    DONE = 0
    BROKEN                  # the codec refuses the frame
    UNFINISHED              # the frame goes on after its claim, or stops before its end
    TRAILING                # bytes after the frame
    OTHER_SIZE              # the frame holds another number of bytes


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


# Return why a frame cannot hold `claim` bytes; NULL: nothing in its header is against it. `c` is NULL if the package
# is missing.
ctypedef const char* (*check_t)(const CodecFunctions* c, const uint8_t* frame, int64_t size,
                               int64_t claim) noexcept nogil
# Return how many bytes a frame says it holds, 0 if it does not say.
ctypedef int64_t (*stated_t)(const CodecFunctions* c, const uint8_t* frame, int64_t size) noexcept nogil
# Return a new context of this direction, NULL if there is no memory for it.
ctypedef void* (*create_t)(const CodecFunctions* c) noexcept nogil
# Decode a frame that `check` has accepted, and set `made`, `code` and `outcome`.
ctypedef void (*decode_t)(const CodecFunctions* c, void* context, DecompressJob* job) noexcept nogil
# Return the most bytes that a frame of `size` bytes can take.
ctypedef size_t (*room_t)(const CodecFunctions* c, int64_t size, int level) noexcept nogil
# Make a frame; return its size, or a code for which `is_error` is true.
ctypedef size_t (*encode_t)(const CodecFunctions* c, void* context, uint8_t* target, int64_t room,
                            const uint8_t* source, int64_t size, int level) noexcept nogil


cdef struct Codec:
    const char* name            # in Message.fbs
    int64_t expansion           # a byte of a frame holds at most so many; 0: there is no bound
    int64_t least               # bytes of the smallest frame
    int64_t worth_threads       # bytes to encode: below this, waking a thread costs more time than it saves
    const char* hint            # where a length of 0 before a frame may come from
    check_t check
    stated_t stated             # NULL: its frames do not say
    create_t create
    decode_t decode
    room_t room
    encode_t encode


# -- LZ4 -------------------------------------------------------------------------------------------------------------

cdef enum:
    LZ4_VERSION = 100           # LZ4F_VERSION
    LZ4_MAGIC = 0x184D2204
    LZ4_EXPANSION = 255         # a byte of an LZ4 block yields at most this many
    # A compressed block has a token, a literal, an offset of 2, a token and 5 literals: 10 bytes. Around it lie a
    # header of 7, the block's size and the end mark.
    LZ4_LEAST = 25
    # LZ4F_blockSizeID_t of 1 MB. Blocks are independent, so that each can be decoded straight to its place. At this
    # size that costs nothing: they are as fast as linked blocks of 64 KB, and their size is within 0.2 %, while
    # independent blocks of 64 KB make text 19 % larger and 15 % slower. A buffer of less than 1 MB is one
    # block, whose declared size is the smallest that holds it.
    LZ4_BLOCK_SIZE = 6


cdef struct Preferences:
    # LZ4F_preferences_t of lz4frame.h, the same since liblz4 1.8: 56 bytes on every ABI that we build for.
    # The first seven members are its LZ4F_frameInfo_t.
    unsigned int block_size     # LZ4F_blockSizeID_t
    unsigned int independent    # LZ4F_blockMode_t: 0 linked, 1 independent
    unsigned int checksum       # of the content: none, as all other writers
    unsigned int kind
    uint64_t content_size       # 0: not stated; the prefix in front of the frame states it
    unsigned int dictionary
    unsigned int block_checksum
    int level
    unsigned int flush
    unsigned int favour_decoder
    unsigned int[3] reserved


cdef inline Preferences lz4_preferences(int level) noexcept nogil:
    return Preferences(LZ4_BLOCK_SIZE, 1, 0, 0, 0, 0, 0, level, 0, 0, [0, 0, 0])


cdef inline const char* check_lz4(const CodecFunctions* c, const uint8_t* frame, int64_t size,
                                  int64_t claim) noexcept nogil:
    cdef uint8_t flags
    if size < 7 or load_u32(frame) != <uint32_t> LZ4_MAGIC:
        return "not an LZ4 frame (legacy and skippable frames are not allowed)"
    flags = frame[4]
    if flags & 1:
        return "the LZ4 frame needs a dictionary"
    if flags & 8 and (size < 15 or load_i64(frame + 6) != claim):
        return "the LZ4 frame states another size"
    return NULL


cdef inline void* create_lz4(const CodecFunctions* c) noexcept nogil:
    cdef void* made = NULL
    c.create_lz4(&made, LZ4_VERSION)
    return made


cdef inline uint8_t lz4_checksum(uint8_t flags, uint8_t size) noexcept nogil:
    """Return the byte that ends a frame header of two bytes: the second lowest byte of their XXH32."""
    cdef uint32_t h = <uint32_t> 374761393 + 2
    h += flags * <uint32_t> 374761393
    h = (h << 11 | h >> 21) * <uint32_t> 2654435761
    h += size * <uint32_t> 374761393
    h = (h << 11 | h >> 21) * <uint32_t> 2654435761
    h = (h ^ h >> 15) * <uint32_t> 2246822519
    h = (h ^ h >> 13) * <uint32_t> 3266489917
    return <uint8_t> ((h ^ h >> 16) >> 8)


cdef inline bint decode_lz4_block(const CodecFunctions* c, DecompressJob* job) noexcept nogil:
    """Decode a frame of one block without checksums, in half the time; False: it has another shape, or is wrong."""
    cdef const uint8_t* frame = job.frame
    cdef int64_t stored = job.stored - 15, most
    cdef uint32_t word
    # 0x60 and 0x40: version 1, blocks independent or linked, nothing else.
    if stored < 1 or (frame[4] & 0xDF) != 0x40 or frame[5] & 0x8F or frame[5] < 0x40 or job.claim < 1:
        return False
    most = <int64_t> 1 << (8 + 2 * (frame[5] >> 4))
    word = load_u32(frame + 7)
    if (word & 0x7FFFFFFF != stored or stored > most or job.claim > most or load_u32(frame + 11 + stored) != 0
            or frame[6] != lz4_checksum(frame[4], frame[5])):
        return False
    if word >> 31:
        if stored != job.claim:
            return False
        memcpy(job.target, frame + 11, stored)
    elif c.decode_block(<const char*> frame + 11, <char*> job.target, <int> stored, <int> job.claim) != job.claim:
        return False
    job.made = job.claim
    job.outcome = DONE
    return True


cdef inline void decode_lz4(const CodecFunctions* c, void* context, DecompressJob* job) noexcept nogil:
    # stable_target: what is written stays where it is, so linked blocks refer to it in place.
    cdef unsigned int[4] options = [1, 0, 0, 0]
    cdef size_t room = job.claim, taken = job.stored
    if decode_lz4_block(c, job):
        return
    c.reset_lz4(context)
    job.code = c.decode_lz4(context, job.target, &room, job.frame, &taken, options)
    job.made = room
    if c.is_error(job.code):
        job.outcome = BROKEN
    elif job.code != 0:
        job.outcome = UNFINISHED
    elif <int64_t> taken != job.stored:
        job.outcome = TRAILING
    else:
        job.outcome = DONE if job.made == job.claim else OTHER_SIZE


cdef inline size_t room_for_lz4(const CodecFunctions* c, int64_t size, int level) noexcept nogil:
    cdef Preferences preferences = lz4_preferences(level)
    return c.bound_lz4(size, &preferences)


cdef inline size_t encode_lz4(const CodecFunctions* c, void* context, uint8_t* target, int64_t room,
                              const uint8_t* source, int64_t size, int level) noexcept nogil:
    cdef Preferences preferences = lz4_preferences(level)
    return c.encode_lz4(target, room, source, size, &preferences)


# -- ZSTD ------------------------------------------------------------------------------------------------------------

cdef enum:
    ZSTD_LEAST = 10             # magic number 4, descriptor 1, content size 1, block header 3, a byte
    ZSTD_MAGIC = 0xFD2FB528
    SKIPPABLE_MAGIC = 0x184D2A50    # and the 15 after it


cdef inline const char* check_zstd(const CodecFunctions* c, const uint8_t* frames, int64_t size,
                                   int64_t claim) noexcept nogil:
    """There may be several frames, one after the other, up to the end of the data."""
    cdef uint32_t magic
    cdef uint64_t most
    if c == NULL:
        return NULL
    magic = load_u32(frames) if size >= 8 else 0
    if magic != <uint32_t> ZSTD_MAGIC and magic >> 4 != SKIPPABLE_MAGIC >> 4:
        return "not a ZSTD frame"
    most = c.most_zstd(frames, size)
    if most == <uint64_t> -2:       # ZSTD_CONTENTSIZE_ERROR; one more: unknown
        return "the ZSTD frame is broken or cut short, or bytes follow it"
    if most < <uint64_t> claim:
        return "the ZSTD frame holds less"
    return NULL


cdef inline int64_t stated_by_zstd(const CodecFunctions* c, const uint8_t* frames, int64_t size) noexcept nogil:
    cdef int64_t stated = <int64_t> c.stated_zstd(frames, size)
    return max(stated, 0)   # an error is a very large number


cdef inline void* create_zstd(const CodecFunctions* c) noexcept nogil:
    return c.create_zstd()


cdef inline void decode_zstd(const CodecFunctions* c, void* context, DecompressJob* job) noexcept nogil:
    job.code = c.decode_zstd(context, job.target, job.claim, job.frame, job.stored)
    job.made = 0
    if c.is_error(job.code):
        job.outcome = BROKEN
    else:
        job.made = job.code
        job.outcome = DONE if job.made == job.claim else OTHER_SIZE


cdef inline size_t room_for_zstd(const CodecFunctions* c, int64_t size, int level) noexcept nogil:
    return c.bound_zstd(size)


cdef inline size_t encode_zstd(const CodecFunctions* c, void* context, uint8_t* target, int64_t room,
                               const uint8_t* source, int64_t size, int level) noexcept nogil:
    return c.encode_zstd(context, target, room, source, size, level)
