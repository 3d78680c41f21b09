"""Decompresses the bodies of many small messages without Python: one context, one block of memory for all of them."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from arrowipc.inline.fbs_layout cimport CompressionType_LZ4_FRAME
from arrowipc.inline.loads cimport round_up
from arrowipc.inline.plan cimport ColumnsData, LimitsData
from arrowipc.read.decompress cimport (
    IDLE_CONTEXTS, WORTH_THREADS, DecompressContext, DecompressJob, Functions, Ledger, Library, decode_job, enter_all,
    library_for,
)

from arrowipc.errors import UnsupportedError

cdef enum:
    LINE = 64       # buffers begin at multiples of it, and the rest of their last line is zero


cdef uint8_t* scratch_room(Scratch* scratch, int64_t size) noexcept nogil:
    cdef int64_t capacity
    if size > scratch.capacity:
        # Nothing in it is still needed: no copy.
        capacity = max(size, 2 * scratch.capacity)
        free(scratch.data)
        scratch.data = <uint8_t*> malloc(capacity)
        scratch.capacity = capacity if scratch.data != NULL else 0
    return scratch.data


cdef class Inflater:
    def __dealloc__(self):
        cdef DecompressContext context
        free(self.jobs)
        for context in (self.lz4 if self.known[0] else None, self.zstd if self.known[1] else None):
            if context is not None and len(context.library.idle) < IDLE_CONTEXTS:
                context.library.idle.append(context)

    cdef int prepare(self, int codec) except -1:
        cdef Library library
        cdef DecompressContext context
        self.known[codec] = True
        if codec == CompressionType_LZ4_FRAME:
            self.lz4 = None
        else:
            self.zstd = None
        try:
            library = library_for(codec)
        except UnsupportedError:
            # The reader says so.
            return 0
        if not library.native():
            return 0
        context = library.idle.pop() if library.idle else DecompressContext(library)
        if codec == CompressionType_LZ4_FRAME:
            self.lz4 = context
        else:
            self.zstd = context
        return 0

    cdef int inflate(self, ColumnsData* d, int codec, const LimitsData* limits, Scratch* scratch) noexcept nogil:
        cdef const Functions* library
        cdef void* state
        cdef Ledger sums
        cdef DecompressJob* job
        cdef uint8_t* target
        cdef int64_t i
        cdef void* moved
        if not self.known[codec]:
            return INFLATE_LATER
        if d.n_extents >= self.room:
            moved = realloc(self.jobs, 2 * (<int64_t> d.n_extents + 1) * sizeof(DecompressJob))
            if moved == NULL:
                return INFLATE_NOT
            self.jobs = <DecompressJob*> moved
            self.room = 2 * (<int64_t> d.n_extents + 1)
        if enter_all(d, codec, self.jobs, limits, &sums):
            return INFLATE_NOT
        if sums.jobs == 0:
            return INFLATED
        if codec == CompressionType_LZ4_FRAME:
            if self.lz4 is None:
                return INFLATE_NOT
            library = &self.lz4.library.c
            state = self.lz4.state
        else:
            if self.zstd is None:
                return INFLATE_NOT
            library = &self.zstd.library.c
            state = self.zstd.state
        if self.use_threads and sums.jobs > 1 and sums.claimed >= WORTH_THREADS:
            return INFLATE_NOT
        # One more line: an empty buffer at the end gets an address inside the block too.
        target = scratch_room(scratch, sums.reserved + LINE)
        if target == NULL:
            return INFLATE_NOT
        for i in range(sums.jobs):
            job = &self.jobs[i]
            job.target = target
            target += round_up(job.claim, LINE)
            if job.claim & (LINE - 1):
                memset(target - LINE, 0, LINE)
            if not decode_job(library, state, job):
                # What a frame that failed leaves behind outlives a reset of LZ4's context (the size that it stated).
                self.known[codec] = False
                return INFLATE_NOT
            d.extents[job.extent].data = job.target if job.claim else NULL
            d.extents[job.extent].size = job.claim
        return INFLATED


cdef Inflater new_inflater(bint use_threads):
    cdef Inflater inflater = Inflater.__new__(Inflater)
    inflater.use_threads = use_threads
    return inflater
