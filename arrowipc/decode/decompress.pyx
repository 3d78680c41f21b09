"""Makes a located body readable: decompresses it, checks its sizes, reverses its byte order, aligns it."""

cimport cython
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy, memset

from arrowipc._core cimport *
from arrowipc.inline.fault cimport *
from arrowipc.inline.fbs_layout cimport CompressionType_LZ4_FRAME, CompressionType_ZSTD
from arrowipc.inline.frames cimport *
from arrowipc.inline.layouts cimport BUFFER_FIXED, BUFFER_OFFSETS, LAYOUTS, BufferSpec, size_needed
from arrowipc.inline.loads cimport (
    bswap16, bswap32, bswap64, load_i64, load_u32, loose_u16, loose_u32, loose_u64, mul_overflows, round_up,
)
from arrowipc.inline.plan cimport *
from arrowipc.inline.room cimport new_zeros, reserve_items

from arrowipc._core import forgetting
from arrowipc.errors import FormatError, LimitError, UnsupportedError

cdef enum:
    PREFIX = 8                      # bytes of the uncompressed length before each compressed buffer
    MOST_UNUSED = 1 << 16           # a buffer may always be so many bytes larger than its field's length requires
    WORTH_RELEASING = 1 << 16       # bytes: below this, handing over the GIL costs more than it gives
    WORTH_THREADS = 1 << 18         # bytes: below this, waking a thread costs more than it gives
    MOST_IDLE = 16                  # how many idle contexts of a codec are kept for the next batches


# -- the codecs ----------------------------------------------------------------------------------------------

cdef Codec[N_CODECS] CODECS
CODECS[CompressionType_LZ4_FRAME] = Codec(
    "LZ4_FRAME", LZ4_EXPANSION, LZ4_LEAST, 1 << 17, "",
    check_lz4, NULL, create_lz4, decode_lz4, room_for_lz4, encode_lz4,
)
CODECS[CompressionType_ZSTD] = Codec(
    "ZSTD", 0, ZSTD_LEAST, 1 << 16,
    ". Arrow Java up to 19.0.0 wrote a length of 0 before some buffers that are not empty: arrowipc.recover() "
    "reads them if their frames state their size",     # apache/arrow-java#1116
    check_zstd, stated_by_zstd, create_zstd, decode_zstd, room_for_zstd, encode_zstd,
)


# -- decompression: what each buffer claims ------------------------------------------------------------------


cdef enum Refusal:
    # Claims that are refused before anything is allocated.
    REFUSED_SHORT = 1       # no room for the prefix
    REFUSED_NEGATIVE
    REFUSED_EXPANSION       # the codec cannot hold that much in so little
    REFUSED_KNOWN           # the length of the field requires much less
    REFUSED_TOTAL           # Limits.decompressed_bytes
    REFUSED_RATIO           # Limits.decompressed_ratio and _slack
    REFUSED_FRAME           # the frame itself contradicts it


cdef struct Ledger:
    # Sums over the buffers of a batch, and why a claim was refused.
    int64_t stored
    int64_t claimed
    int64_t reserved        # claims rounded up to the alignment of buffers
    int64_t raw             # buffers stored raw
    int64_t jobs
    const char* why         # of REFUSED_FRAME


cdef int read_buffer_prefix(Extent* extent, DecompressJob* job, int codec, const CodecFunctions* c, int64_t known,
                            const LimitsData* limits, Ledger* sums) noexcept nogil:
    """Read one prefix: a raw or empty buffer is done here, a compressed one becomes `job`.

    `known` is the size that the field's length requires (-1: its values decide). `c` is NULL if the codec is missing.
    """
    cdef const Codec* row = &CODECS[codec]
    job.stored = extent.size
    job.claim = 0
    if extent.size < PREFIX:
        return REFUSED_SHORT
    job.claim = load_i64(extent.data)
    job.frame = extent.data + PREFIX
    job.stored = extent.size - PREFIX
    sums.stored += extent.size
    if job.claim == -1:
        extent.data = job.frame if job.stored else NULL
        extent.size = job.stored
        sums.raw += 1
        return 0
    if job.claim < 0:
        return REFUSED_NEGATIVE
    if job.claim == 0 and job.stored == 0:
        extent[0] = Extent(NULL, 0)
        return 0
    if job.claim == 0 and limits.repairs and c != NULL and row.stated != NULL:
        job.claim = row.stated(c, job.frame, job.stored)
    if row.expansion and job.claim // row.expansion > job.stored:
        return REFUSED_EXPANSION
    if (0 <= known < INT64_MAX - MOST_UNUSED and job.claim > known + MOST_UNUSED
            and (job.claim - known - MOST_UNUSED) // LZ4_EXPANSION > job.stored):
        # Writers may leave unused bytes behind a slice, which compress well; a decompression bomb compresses better.
        return REFUSED_KNOWN
    sums.why = row.check(c, job.frame, job.stored, job.claim)
    if sums.why != NULL:
        return REFUSED_FRAME
    if job.claim > limits.decompressed_bytes - sums.claimed or job.claim > INT64_MAX - 128 - sums.reserved:
        return REFUSED_TOTAL
    sums.claimed += job.claim
    sums.reserved += round_up(job.claim, 64)
    sums.jobs += 1
    return 0


cdef int read_buffer_prefixes(ColumnsData* d, int codec, const CodecFunctions* c, DecompressJob* jobs,
                              const LimitsData* limits, Ledger* sums) noexcept nogil:
    """Read all prefixes: raw and empty buffers are done, the others become jobs.

    If a claim is refused, return Refusal (not 0); the job at `sums.jobs` tells which buffer it was.
    """
    cdef const FieldPlan* plan
    cdef int32_t f, k, n, extent
    cdef int64_t allowed
    cdef int refusal
    memset(sums, 0, sizeof(Ledger))
    for f in range(d.plan.n_fields):
        plan = &d.plan.fields[f]
        n = plan.n_buffers
        if plan.view >= 0:
            n += d.views[plan.view].count
        for k in range(n):
            if k < plan.n_buffers:
                extent = plan.first_buffer + k
            else:
                extent = d.views[plan.view].first + k - plan.n_buffers
            if d.extents[extent].size == 0:
                continue    # an empty buffer has no prefix
            jobs[sums.jobs].field = f
            jobs[sums.jobs].buffer = k
            jobs[sums.jobs].extent = extent
            refusal = read_buffer_prefix(&d.extents[extent], &jobs[sums.jobs], codec, c,
                                         size_needed(plan, k, d.nodes[f].length) if k < plan.n_buffers else -1,
                                         limits, sums)
            if refusal:
                return refusal
    if not mul_overflows(sums.stored, limits.decompressed_ratio, &allowed):
        if sums.claimed > allowed and sums.claimed - allowed > limits.decompressed_slack:
            return REFUSED_RATIO
    return 0


# -- decompression: the codec --------------------------------------------------------------------------------


cdef class CodecContext:
    def __dealloc__(self):
        if self.state != NULL:
            self.free(self.state)


cdef class CodecPool:
    def __cinit__(self, int codec, int level, dict addresses):
        self.row = &CODECS[codec]
        self.c = functions_at(addresses)
        self.codec = codec
        self.level = level
        self.addresses = addresses
        self.idle = []

    cdef CodecContext take_context(self):
        cdef CodecContext made
        with cython.critical_section(self):
            if self.idle:
                return self.idle.pop()
        made = CodecContext.__new__(CodecContext)
        made.free = self.c.free
        if made.free != NULL:
            made.state = self.row.create(&self.c)
            if made.state == NULL:
                raise MemoryError(f"no memory for a context of {codec_name(self.codec)}")
        return made

    cdef int give(self, CodecContext taken) except -1:
        if taken.state != NULL and len(self.idle) < MOST_IDLE:
            self.idle.append(taken)
        return 0


# The pools made so far: for each codec its decoders, and its encoders at the default level.
pools = [None] * (2 * N_CODECS)


def forget_contexts():
    """Free the contexts of codecs that nobody uses at the moment; return how many."""
    cdef CodecPool pool
    cdef list idle = []
    for pool in pools:
        if pool is not None:
            with cython.critical_section(pool):
                idle += pool.idle
                pool.idle = []
    return len(idle)


forgetting.append(forget_contexts)


cdef CodecPool pool_of(int codec, bint encodes):
    found = pools[2 * codec + encodes]
    if found is None:
        from arrowipc import codecs

        found = CodecPool(codec, codecs.DEFAULT_LEVEL, codecs.functions(codec, encodes))
        pools[2 * codec + encodes] = found
    return found


cdef CodecPool encoders(int codec, int level):
    cdef CodecPool found = pool_of(codec, True)
    return found if level == found.level else CodecPool(codec, level, found.addresses)


@cython.final
cdef class DecompressJobs(Jobs):
    """The compressed buffers of one batch."""
    cdef DecompressJob* jobs
    cdef int64_t claimed
    cdef CodecPool pool

    def __cinit__(self, int64_t room):
        self.jobs = <DecompressJob*> new_zeros(room, sizeof(DecompressJob))

    def __dealloc__(self):
        free(self.jobs)

    cdef int work(self) except -1:
        cdef CodecContext taken = self.pool.take_context()
        if self.claimed < WORTH_RELEASING:
            self.run(taken.state)
        else:
            with nogil:
                self.run(taken.state)
        if self.failed == self.n_jobs:
            self.pool.give(taken)
        return 0

    cdef void run(self, void* state) noexcept nogil:
        cdef int64_t i = next_job(self)
        while i < self.failed:
            self.pool.row.decode(&self.pool.c, state, &self.jobs[i])
            if self.jobs[i].outcome != DONE:
                self.failed = i
            i = next_job(self)


cdef int by_claim(const void* a, const void* b) noexcept nogil:
    """Order jobs by size, the largest first: it must not still be in work when all others are done."""
    cdef int64_t left = (<const DecompressJob*> a).claim, right = (<const DecompressJob*> b).claim
    return (left < right) - (left > right)


cdef int decompress(Columns columns, int codec, const LimitsData* limits, bint use_threads) except -1:
    """Replace each stored buffer by its content: new memory, or a slice of the body if it is stored raw."""
    cdef DecompressJobs work = DecompressJobs(columns.d.n_extents + 1)
    cdef Ledger sums
    cdef Memory memory
    cdef DecompressJob* job
    cdef int64_t i, used = 0
    cdef const CodecFunctions* c = NULL
    cdef int refusal
    try:
        work.pool = pool_of(codec, False)
        c = &work.pool.c
    except UnsupportedError:
        pass    # raised below, if a buffer is compressed
    refusal = read_buffer_prefixes(&columns.d, codec, c, work.jobs, limits, &sums)
    if refusal:
        raise refuse(columns, codec, refusal, &work.jobs[sums.jobs], &sums, limits)
    if sums.jobs == 0:
        return 0
    if c == NULL:
        pool_of(codec, False)
    work.start(sums.jobs)
    work.claimed = sums.claimed
    # One more line: an empty buffer at the end gets an address inside the block too.
    memory = Memory(sums.reserved + 64)
    for i in range(sums.jobs):
        job = &work.jobs[i]
        job.target = memory.data + used
        used += round_up(job.claim, 64)
        if job.claim & 63:
            memset(memory.data + used - 64, 0, 64)
    use_threads = use_threads and sums.jobs > 1 and sums.claimed >= WORTH_THREADS
    if use_threads:
        qsort(work.jobs, sums.jobs, sizeof(DecompressJob), by_claim)
    work.run_all(use_threads)
    if work.failed < work.n_jobs:
        raise broken(columns, work)
    for i in range(sums.jobs):
        job = &work.jobs[i]
        columns.d.extents[job.extent].data = job.target if job.claim else NULL
        columns.d.extents[job.extent].size = job.claim
    columns.owner = (columns.owner, memory) if sums.raw else memory
    return 0


# -- decompression: messages of refusals ---------------------------------------------------------------------


cdef str codec_name(int codec):
    return CODECS[codec].name.decode()


cdef str place_name(Columns columns, const DecompressJob* job):
    return f"column {field_path(columns.plan, job.field)!r}: buffer {job.buffer}"


cdef str hint(int codec, const DecompressJob* job):
    """Say where a length of 0 before a frame may come from."""
    return "" if job.claim else CODECS[codec].hint.decode()


cdef object refuse(Columns columns, int codec, int refusal, const DecompressJob* job, const Ledger* sums,
                   const LimitsData* limits):
    """Return the exception for a claim that was refused."""
    cdef str place, claim, name = codec_name(codec)
    cdef int64_t length
    if refusal == REFUSED_RATIO:
        return LimitError(
            f"the batch claims {sums.claimed:,} bytes in {sums.stored:,} bytes of {name}: more than "
            f"Limits.decompressed_ratio = {limits.decompressed_ratio:,} times as many and "
            f"Limits.decompressed_slack = {limits.decompressed_slack:,}"
        )
    place = place_name(columns, job)
    claim = f"{place}: claims {job.claim:,} bytes in {job.stored:,} bytes of {name}"
    if refusal == REFUSED_SHORT:
        return FormatError(f"{place}: {job.stored} bytes are too few for the 8-byte uncompressed length that "
                           "a compressed buffer begins with")
    if refusal == REFUSED_NEGATIVE:
        return FormatError(f"{place}: the uncompressed length is {job.claim}: expected -1 (stored raw), 0 or "
                           "more")
    if refusal == REFUSED_EXPANSION:
        return FormatError(f"{claim}, which cannot hold more than {CODECS[codec].expansion} times its size")
    if refusal == REFUSED_KNOWN:
        length = columns.d.nodes[job.field].length
        needed = size_needed(&columns.plan.d.fields[job.field], job.buffer, length)
        return LimitError(f"{claim}; its {length:,} elements need {needed:,}")
    if refusal == REFUSED_FRAME:
        return FormatError(f"{claim}: {sums.why.decode()}{hint(codec, job)}")
    return LimitError(f"{claim}; with it the batch needs more than Limits.decompressed_bytes = "
                      f"{limits.decompressed_bytes:,}")


cdef object broken(Columns columns, DecompressJobs work):
    """Return the exception for a frame that does not hold what was claimed."""
    cdef DecompressJob* job = &work.jobs[work.failed]
    cdef str why
    if job.outcome == BROKEN:
        why = work.pool.c.error_name(job.code).decode("utf-8", "replace")
    elif job.outcome == TRAILING:
        why = "bytes follow the frame"
    elif job.outcome == UNFINISHED:
        why = f"the frame does not end where it should, after {job.made:,} bytes"
    else:
        why = f"it holds {job.made:,} bytes"
    name = codec_name(work.pool.codec)
    return FormatError(f"{place_name(columns, job)}: {job.stored:,} bytes of {name} do not decompress to "
                       f"the claimed {job.claim:,} bytes: {why}{hint(work.pool.codec, job)}")


# -- byte order and alignment --------------------------------------------------------------------------------


cdef inline int words_of(const FieldPlan* plan, int32_t buffer) noexcept nogil:
    """Return the words that a buffer of a field is made of (Swap); SWAP_NONE for bits, bytes and type codes."""
    cdef const BufferSpec* spec = &LAYOUTS[plan.layout].buffers[buffer]
    if spec.kind != BUFFER_FIXED and spec.kind != BUFFER_OFFSETS:
        return SWAP_NONE
    if spec.width == 0 or spec.width == 16:
        return plan.swap
    return SWAP_8 if spec.width == 8 else SWAP_4 if spec.width == 4 else SWAP_NONE


cdef inline uintptr_t words_alignment(int words) noexcept nogil:
    """Return the alignment that consumers require for such words."""
    if words == SWAP_NONE:
        return 1
    if words == SWAP_2:
        return 2
    return 4 if words == SWAP_4 or words == SWAP_4_4 else 8


cdef void swap_values(uint8_t* target, const uint8_t* source, int64_t size, int words) noexcept nogil:
    """Copy values with their bytes reversed; the place of an incomplete last value is not written."""
    cdef int64_t i, k, per
    if words == SWAP_2:
        for i in range(size >> 1):
            (<loose_u16*> target)[i] = bswap16((<const loose_u16*> source)[i])
    elif words == SWAP_4 or words == SWAP_4_4:
        for i in range(size >> 2):
            (<loose_u32*> target)[i] = bswap32((<const loose_u32*> source)[i])
    elif words == SWAP_8:
        for i in range(size >> 3):
            (<loose_u64*> target)[i] = bswap64((<const loose_u64*> source)[i])
    elif words == SWAP_16 or words == SWAP_32:
        per = 2 if words == SWAP_16 else 4
        for i in range(size // (8 * per)):
            for k in range(i * per, i * per + per):
                (<loose_u64*> target)[(2 * i + 1) * per - 1 - k] = bswap64((<const loose_u64*> source)[k])
    elif words == SWAP_4_4_8:
        for i in range(size >> 4):
            (<loose_u32*> target)[4 * i] = bswap32((<const loose_u32*> source)[4 * i])
            (<loose_u32*> target)[4 * i + 1] = bswap32((<const loose_u32*> source)[4 * i + 1])
            (<loose_u64*> target)[2 * i + 1] = bswap64((<const loose_u64*> source)[2 * i + 1])
    elif words == SWAP_VIEW:
        for i in range(size >> 4):
            memcpy(target + 16 * i, source + 16 * i, 16)
            (<loose_u32*> target)[4 * i] = bswap32((<const loose_u32*> source)[4 * i])
            if load_u32(target + 16 * i) > 12:
                # The prefix is bytes; only buffer index and offset are numbers.
                (<loose_u32*> target)[4 * i + 2] = bswap32((<const loose_u32*> source)[4 * i + 2])
                (<loose_u32*> target)[4 * i + 3] = bswap32((<const loose_u32*> source)[4 * i + 3])


cdef inline bint needs_copy(const Extent* extent, int words, bint swap) noexcept nogil:
    if extent.size == 0 or words == SWAP_NONE:
        return False
    return swap or (<uintptr_t> extent.data & (words_alignment(words) - 1)) != 0


cdef int align(Columns columns, bint swap) except -1:
    cdef ColumnsData* d = &columns.d
    cdef const FieldPlan* plan
    cdef Extent* extent
    cdef Memory memory
    cdef uint8_t* target
    cdef int64_t total = 0
    cdef int32_t f, k
    cdef int words
    for f in range(d.plan.n_fields):
        plan = &d.plan.fields[f]
        for k in range(plan.n_buffers):
            extent = &d.extents[plan.first_buffer + k]
            if needs_copy(extent, words_of(plan, k), swap):
                total += round_up(extent.size, 64)
    if total == 0:
        return 0
    memory = Memory(total)
    target = memory.data
    with nogil:
        for f in range(d.plan.n_fields):
            plan = &d.plan.fields[f]
            for k in range(plan.n_buffers):
                extent = &d.extents[plan.first_buffer + k]
                words = words_of(plan, k)
                if needs_copy(extent, words, swap):
                    memset(target + round_up(extent.size, 64) - 64, 0, 64)
                    if swap:
                        swap_values(target, extent.data, extent.size, words)
                    else:
                        memcpy(target, extent.data, extent.size)
                    extent.data = target
                    target += round_up(extent.size, 64)
    columns.owner = (columns.owner, memory)
    return 0


cdef Columns native_copy(Columns columns):
    cdef Columns copy = Columns.__new__(Columns)
    copy.share(columns, columns.plan)
    copy.dictionaries = columns.dictionaries
    align(copy, True)
    return copy


# -- bodies in loops without Python ----------------------------------------------------------------------------------

# `Inflater` decompresses the bodies of many small messages without Python, with one context and one block of memory.

cdef enum:
    LINE = 64       # buffers begin at multiples of it, and the rest of their last line is zero


cdef uint8_t* scratch_room(Scratch* scratch, int64_t size) noexcept nogil:
    """Return at least `size` writable bytes of undefined contents; NULL: no memory."""
    cdef int64_t capacity
    if size > scratch.capacity:
        # The old contents are not needed, so they are not copied.
        capacity = max(size, 2 * scratch.capacity)
        free(scratch.data)
        scratch.data = <uint8_t*> malloc(capacity)
        scratch.capacity = capacity if scratch.data != NULL else 0
    return scratch.data


cdef class Inflater:
    def __dealloc__(self):
        cdef int codec
        free(self.jobs)
        for codec in range(N_CODECS):
            if self.known[codec] and self.taken is not None and self.taken[codec] is not None:
                (<CodecPool> self.taken[codec][0]).give(self.taken[codec][1])

    cdef int prepare(self, int codec) except -1:
        cdef CodecPool pool
        cdef CodecContext context
        self.known[codec], self.functions[codec], self.taken[codec] = True, NULL, None
        try:
            pool = pool_of(codec, False)
        except UnsupportedError:
            return 0    # the reader raises that
        context = pool.take_context()
        self.taken[codec] = pool, context
        self.functions[codec], self.states[codec] = &pool.c, context.state
        return 0

    cdef int inflate(self, ColumnsData* d, int codec, const LimitsData* limits, Scratch* scratch) noexcept nogil:
        cdef const CodecFunctions* c = self.functions[codec]
        cdef Ledger sums
        cdef DecompressJob* job
        cdef uint8_t* target
        cdef int64_t i
        if not self.known[codec]:
            return DECODE_CODEC
        if (reserve_items(<void**> &self.jobs, &self.room, d.n_extents, sizeof(DecompressJob)) < 0
                or read_buffer_prefixes(d, codec, c, self.jobs, limits, &sums)):
            return DECODE_BY_DECODER
        if sums.jobs == 0:
            return DECODED
        if c == NULL or (self.use_threads and sums.jobs > 1 and sums.claimed >= WORTH_THREADS):
            return DECODE_BY_DECODER
        # One more line: an empty buffer at the end gets an address inside the block too.
        target = scratch_room(scratch, sums.reserved + LINE)
        if target == NULL:
            return DECODE_BY_DECODER
        for i in range(sums.jobs):
            job = &self.jobs[i]
            job.target = target
            target += round_up(job.claim, LINE)
            if job.claim & (LINE - 1):
                memset(target - LINE, 0, LINE)
            CODECS[codec].decode(c, self.states[codec], job)
            if job.outcome != DONE:
                # Resetting LZ4's context does not remove everything that a failed frame left in it (its stated size).
                self.known[codec] = False
                return DECODE_BY_DECODER
            d.extents[job.extent].data = job.target if job.claim else NULL
            d.extents[job.extent].size = job.claim
        return DECODED


cdef Inflater new_inflater(bint use_threads):
    cdef Inflater inflater = Inflater.__new__(Inflater)
    inflater.use_threads, inflater.taken = use_threads, [None] * N_CODECS
    return inflater
