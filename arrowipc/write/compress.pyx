"""Buffers in their stored form: one compressed frame each where that makes them smaller, raw elsewhere.

A frame depends on its buffer, the codec and the level only: not on the buffers before it nor on the thread
that made it. So a batch has the same stored form however many threads worked on it.
"""

cimport cython
from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy, memset

from arrowipc._core cimport Memory
from arrowipc.columns.array cimport RecordBatch
from arrowipc.inline.body_parts cimport BodyPart
from arrowipc.inline.fbs_layout cimport CompressionType_LZ4_FRAME
from arrowipc.inline.loads cimport add_overflows, round_up
from arrowipc.inline.plan cimport ColumnsData, Extent, FieldPlan

from arrowipc.errors import UsageError

cdef extern from * nogil:
    """
    #if defined(_WIN32)
    #include <windows.h>
    static inline void short_sleep(void) { Sleep(1); }
    #else
    #include <time.h>
    static inline void short_sleep(void) {
        struct timespec pause = {0, 100000};
        nanosleep(&pause, NULL);
    }
    #endif
    """
    int64_t fetch_add "__sync_fetch_and_add"(int64_t* counter, int64_t step) noexcept
    void short_sleep() noexcept


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

ctypedef size_t (*bound_lz4_t)(size_t size, const Preferences* preferences) noexcept nogil
ctypedef size_t (*frame_lz4_t)(void* target, size_t room, const void* source, size_t size,
                               const Preferences* preferences) noexcept nogil
ctypedef size_t (*bound_zstd_t)(size_t size) noexcept nogil
ctypedef size_t (*frame_zstd_t)(void* state, void* target, size_t room, const void* source, size_t size,
                                int level) noexcept nogil
ctypedef void* (*create_zstd_t)() noexcept nogil
ctypedef size_t (*free_zstd_t)(void* state) noexcept nogil
ctypedef unsigned int (*is_error_t)(size_t code) noexcept nogil
ctypedef const char* (*error_name_t)(size_t code) noexcept nogil

cdef enum:
    PREFIX = 8                      # bytes of the uncompressed length before each stored buffer
    # A compressed LZ4 block has a token, a literal, an offset of 2, a token and 5 literals: 10 bytes. Around
    # it lie a header of 7, the block's size and the end mark.
    LEAST_LZ4 = 25
    LEAST_ZSTD = 10                 # magic number 4, descriptor 1, content size 1, block header 3, a byte
    LINE = 64
    # Bytes: below this, handing over the GIL costs more than it gives, at levels that take 50 us for as much.
    WORTH_RELEASING = 1 << 14
    QUICK_LEVEL = 3
    # Bytes: below this, waking a thread costs more than it gives (measured at the default level).
    WORTH_THREADS_LZ4 = 1 << 17
    WORTH_THREADS_ZSTD = 1 << 16
    IDLE_ENCODERS = 16
    SPARE_MEMORY = 1 << 22          # bytes that are kept although the batch needs less


cdef struct CompressJob:
    # One buffer that is worth trying.
    const uint8_t* source
    int64_t size
    uint8_t* target         # where the frame goes
    int64_t room
    int64_t stored          # bytes of the frame, 0: the buffer stays raw
    int32_t extent


# -- the codec -----------------------------------------------------------------------------------------------


cdef struct Functions:
    # A frame encoder as a package exports it; those of other codecs, or where nobody exports it all, are NULL.
    is_error_t is_error
    error_name_t error_name
    bound_lz4_t bound_lz4
    frame_lz4_t frame_lz4
    bound_zstd_t bound_zstd
    frame_zstd_t frame_zstd
    create_zstd_t create_zstd
    free_zstd_t free_zstd


cdef inline void* address(object number):
    return <void*> <uintptr_t> number


@cython.final
cdef class CompressContext:
    """libzstd's working memory, used by one thread at a time."""
    cdef void* state
    cdef free_zstd_t free   # not its library: that refers to idle contexts, and may be cleared before they end

    def __dealloc__(self):
        if self.state != NULL:
            self.free(self.state)


cdef CompressContext new_context(const Functions* c):
    cdef CompressContext made = CompressContext.__new__(CompressContext)
    made.free = c.free_zstd
    made.state = c.create_zstd()
    if made.state == NULL:
        raise MemoryError()
    return made


@cython.final
cdef class Library:
    """How a codec compresses at one level: by C functions, or by what codec.py makes of its package."""
    cdef int codec
    cdef int level
    cdef Functions c
    cdef Preferences preferences
    cdef object addresses
    cdef object encoder     # encoder(codec, level) -> a function for one thread
    cdef list idle          # contexts of libzstd, or encoders, that nobody uses

    def __cinit__(self, int codec, int level, addresses, encoder):
        from arrowipc import codecs

        memset(&self.c, 0, sizeof(Functions))
        memset(&self.preferences, 0, sizeof(Preferences))
        self.codec = codec
        self.level = level
        self.addresses = addresses
        self.encoder = encoder
        self.idle = []
        if addresses is None:
            return
        self.c.is_error = <is_error_t> address(addresses[0])
        self.c.error_name = <error_name_t> address(addresses[1])
        if codec == CompressionType_LZ4_FRAME:
            self.c.bound_lz4 = <bound_lz4_t> address(addresses[2])
            self.c.frame_lz4 = <frame_lz4_t> address(addresses[3])
            self.preferences.block_size = codecs.LZ4_BLOCK_SIZE
            self.preferences.independent = 1
            self.preferences.level = level
        else:
            self.c.bound_zstd = <bound_zstd_t> address(addresses[2])
            self.c.frame_zstd = <frame_zstd_t> address(addresses[3])
            self.c.create_zstd = <create_zstd_t> address(addresses[4])
            self.c.free_zstd = <free_zstd_t> address(addresses[5])

    cdef bint native(self) noexcept nogil:
        return self.c.is_error != NULL

    cdef int64_t room(self, int64_t size) noexcept nogil:
        """Bytes that the frame of `size` bytes may take where it is made."""
        if self.c.bound_lz4 != NULL:
            return self.c.bound_lz4(size, &self.preferences)
        # A package allocates for itself: only what is smaller than the buffer comes to us.
        return self.c.bound_zstd(size) if self.c.bound_zstd != NULL else size

    cdef size_t frame(self, void* state, const CompressJob* job) noexcept nogil:
        """Bytes of the frame that was made, or an error."""
        if self.c.frame_lz4 != NULL:
            return self.c.frame_lz4(job.target, job.room, job.source, job.size, &self.preferences)
        return self.c.frame_zstd(state, job.target, job.room, job.source, job.size, self.level)

    cdef object take(self):
        """A context or an encoder, for one thread until it is given back; None for liblz4, which needs none."""
        if self.c.frame_lz4 != NULL:
            return None
        if self.idle:
            return self.idle.pop()
        return new_context(&self.c) if self.native() else self.encoder(self.codec, self.level)

    cdef int give(self, object taken) except -1:
        if taken is not None and len(self.idle) < IDLE_ENCODERS:
            self.idle.append(taken)
        return 0


cdef list libraries = [None, None]      # at the default level: their encoders serve all compressors


cdef Library library_for(int codec, int level):
    """The library of a codec and level; encoders of other levels, maybe large, end with their compressor."""
    cdef Library found = libraries[codec]
    if found is None:
        from arrowipc import codecs

        find = codecs.lz4_frame_functions if codec == CompressionType_LZ4_FRAME else codecs.zstd_frame_functions
        found = Library(codec, codecs.DEFAULT_LEVEL, find(), codecs.encoder)
        libraries[codec] = found
    return found if level == found.level else Library(codec, level, found.addresses, found.encoder)


def forget_libraries():
    """Look for the codec libraries again at the next compressor; a seam for tests."""
    libraries[:] = [None, None]


# -- the buffers of a batch ----------------------------------------------------------------------------------


cdef inline bint accepted(int64_t size, int64_t stored, double savings) noexcept nogil:
    """Whether `stored` bytes are enough less than `size`."""
    return stored < size and <double> (size - stored) / <double> size >= savings


cdef int by_size(const void* a, const void* b) noexcept nogil:
    cdef int64_t left = (<const CompressJob*> a).size, right = (<const CompressJob*> b).size
    return (left < right) - (left > right)


@cython.final
cdef class Work:
    """The buffers that are worth trying; any number of threads may `run`, taking the next each."""
    cdef CompressJob* jobs
    cdef int64_t room
    cdef int64_t n_jobs
    cdef int64_t taken
    cdef int64_t active         # threads inside `run`
    cdef int64_t total          # bytes of all jobs
    cdef size_t code            # the library's error, 0: none
    cdef double savings
    cdef Library library

    def __dealloc__(self):
        free(self.jobs)

    cdef int clear(self, int64_t room, Library library, double savings) except -1:
        if room > self.room:
            free(self.jobs)
            self.room = 0
            self.jobs = <CompressJob*> malloc(room * sizeof(CompressJob))
            if self.jobs == NULL:
                raise MemoryError()
            self.room = room
        self.n_jobs = self.taken = self.total = 0
        self.code = 0
        self.library = library
        self.savings = savings
        return 0

    def run(self):
        """Compress until no job is left."""
        fetch_add(&self.active, 1)
        try:
            if self.taken < self.n_jobs:
                encoder = self.library.take()
                if self.library.native():
                    self.run_released(encoder)
                else:
                    self.run_package(encoder)
                self.library.give(encoder)
        finally:
            fetch_add(&self.active, -1)

    cdef int run_released(self, CompressContext context) except -1:
        cdef void* state = NULL if context is None else context.state
        if self.total < WORTH_RELEASING and self.library.level <= QUICK_LEVEL:
            self.run_native(state)
        else:
            with nogil:
                self.run_native(state)
        return 0

    cdef void run_native(self, void* state) noexcept nogil:
        cdef CompressJob* job
        cdef size_t stored
        cdef int64_t i = fetch_add(&self.taken, 1)
        while i < self.n_jobs:
            job = &self.jobs[i]
            stored = self.library.frame(state, job)
            if self.library.c.is_error(stored):
                self.code = stored
            elif accepted(job.size, stored, self.savings):
                job.stored = stored
            i = fetch_add(&self.taken, 1)

    cdef int run_package(self, object encode) except -1:
        cdef CompressJob* job
        cdef bytes frame
        cdef const uint8_t* made
        cdef int64_t stored
        cdef int64_t i = fetch_add(&self.taken, 1)
        while i < self.n_jobs:
            job = &self.jobs[i]
            try:
                frame = encode(PyMemoryView_FromMemory(<char*> job.source, job.size, PyBUF_READ))
                stored = PyBytes_GET_SIZE(frame)
            except Exception as error:
                # The arguments are proven: what a codec can still lack is memory.
                raise MemoryError(f"cannot compress {job.size:,} bytes: {error}") from error
            if accepted(job.size, stored, self.savings):
                # Kept in memory that is reused: keeping the frames themselves instead makes the package
                # take fresh memory for each, which cost up to 6 % of the time of large buffers.
                made = <const uint8_t*> PyBytes_AS_STRING(frame)
                if stored < WORTH_RELEASING:
                    memcpy(job.target, made, stored)
                else:
                    with nogil:
                        memcpy(job.target, made, stored)
                job.stored = stored
            frame = None
            i = fetch_add(&self.taken, 1)
        return 0

    cdef int run_all(self, bint use_threads) except -1:
        """Do all jobs; whatever happens, no thread touches them any more afterwards."""
        cdef int64_t worth = WORTH_THREADS_ZSTD
        if self.library.codec == CompressionType_LZ4_FRAME:
            worth = WORTH_THREADS_LZ4
        if not use_threads or self.n_jobs < 2 or self.total < worth:
            self.run()
            return 0
        from arrowipc import codecs

        # The largest first, so that no thread begins one when the others are done.
        qsort(self.jobs, self.n_jobs, sizeof(CompressJob), by_size)
        try:
            codecs.run_shared(self.run, self.n_jobs)
        except BaseException:
            # The caller, who may be interrupted, is about to let go of what the jobs point at.
            fetch_add(&self.taken, self.n_jobs)
            with nogil:
                while fetch_add(&self.active, 0):
                    short_sleep()
            raise
        return 0


cdef void enter(Work work, const Extent* extent, int32_t index, bint chosen, BodyPart* part) noexcept:
    """Store one buffer raw, and make a job of it where a frame might be smaller."""
    cdef CompressJob* job
    cdef int64_t least = LEAST_LZ4 if work.library.codec == CompressionType_LZ4_FRAME else LEAST_ZSTD
    if extent.size <= 0 or extent.data == NULL:
        return      # `part` is cleared
    part.data = extent.data
    part.size = extent.size
    part.prefix = -1
    part.prefixed = True
    if not chosen or not accepted(extent.size, least, work.savings):
        return
    job = &work.jobs[work.n_jobs]
    memset(job, 0, sizeof(CompressJob))
    job.source = extent.data
    job.size = extent.size
    job.extent = index
    work.n_jobs += 1
    work.total += extent.size


cdef void enter_all(Work work, const ColumnsData* d, const uint8_t* chosen, BodyPart* parts) noexcept:
    cdef const FieldPlan* plan
    cdef int32_t f, k, first
    cdef bint wanted
    if d.n_extents:
        memset(parts, 0, d.n_extents * sizeof(BodyPart))
    for f in range(d.plan.n_fields):
        plan = &d.plan.fields[f]
        wanted = chosen == NULL or chosen[f] != 0
        for k in range(plan.first_buffer, plan.first_buffer + plan.n_buffers):
            enter(work, &d.extents[k], k, wanted, &parts[k])
        if plan.view >= 0:
            first = d.views[plan.view].first
            for k in range(first, first + d.views[plan.view].count):
                enter(work, &d.extents[k], k, wanted, &parts[k])


# -- the compressor ------------------------------------------------------------------------------------------


cdef class Compressor:
    """Compresses the buffers of batch after batch with one codec; contexts and memory are reused.

    Parameters
    ----------
    codec
        "lz4" (or "lz4_frame"), or "zstd".
    level
        How hard to try; None is 1, see `codec.LEVELS` for what each codec takes.
    min_space_savings
        A fraction below 1: a buffer of which less than that would be saved stays raw.
    use_threads
        Whether large batches are shared among threads.
    """

    def __cinit__(self, codec, level=None, min_space_savings=None, bint use_threads=True):
        from arrowipc import codecs

        self.codec = codecs.check_codec(codec)
        level = codecs.check_level(self.codec, level)
        self.savings = codecs.check_savings(min_space_savings)
        self.use_threads = use_threads
        self.library = library_for(self.codec, level)
        self.work = Work()

    cdef int compress(self, const ColumnsData* d, const uint8_t* chosen, BodyPart* parts) except -1:
        if self.busy:
            raise UsageError("another thread is writing with this writer, or this call is part of one: one thread at "
                             "a time may")
        self.busy = True
        try:
            compress_all(self, d, chosen, parts)
        except BaseException:
            # A helper of the thread pool that comes too late finds the jobs of its own batch, all taken.
            self.work = Work()
            raise
        finally:
            self.busy = False
        return 0

    cdef object keep(self):
        kept = self.memory
        self.memory = None
        return kept

    cdef uint8_t* frame_memory(self, int64_t size) except NULL:
        """`size` bytes: those of the batch before, unless they are too few, or much too many to hold."""
        cdef Memory memory = self.memory
        if memory is None or memory.capacity < size or (
                memory.capacity > SPARE_MEMORY and memory.capacity // 2 > size):
            memory = self.memory = None     # goes back first, so that it need not lie beside the new one
            memory = self.memory = Memory(size)
        return memory.data

    @property
    def held(self):
        """Bytes that are kept for the next batch."""
        return 0 if self.memory is None else self.memory.capacity

    def stored(self, RecordBatch batch not None, bytes chosen=None):
        """Every buffer of a batch as it is, in its stored form with its prefix; a seam for tests.

        `chosen` has a byte per field of the batch's schema in pre-order, 0 for those that stay raw.
        """
        cdef ColumnsData* d = &batch.d
        cdef const uint8_t* wanted = NULL
        cdef BodyPart* parts
        cdef int32_t i
        if chosen is not None:
            if len(chosen) != d.plan.n_fields:
                raise UsageError(f"expected a byte for each of {d.plan.n_fields} fields, found {len(chosen)}")
            wanted = <const uint8_t*> PyBytes_AS_STRING(chosen)
        parts = <BodyPart*> malloc((d.n_extents + 1) * sizeof(BodyPart))
        if parts == NULL:
            raise MemoryError()
        try:
            self.compress(d, wanted, parts)
            return [joined(&parts[i]) for i in range(d.n_extents)]
        finally:
            free(parts)


cdef int compress_all(Compressor self, const ColumnsData* d, const uint8_t* chosen, BodyPart* parts) except -1:
    cdef Work work = self.work
    cdef CompressJob* job
    cdef int64_t i
    work.clear(d.n_extents, self.library, self.savings)
    enter_all(work, d, chosen, parts)
    if work.n_jobs == 0:
        if self.memory is not None and self.memory.capacity > SPARE_MEMORY:
            self.memory = None
        return 0
    place(self, work)
    work.run_all(self.use_threads)
    if work.code:
        name = work.library.c.error_name(work.code).decode()
        raise MemoryError(f"cannot compress to {'LZ4' if work.library.c.frame_lz4 != NULL else 'ZSTD'}: {name}")
    for i in range(work.n_jobs):
        job = &work.jobs[i]
        if job.stored:
            parts[job.extent].data = job.target
            parts[job.extent].size = job.stored
            parts[job.extent].prefix = job.size
    return 0


cdef int place(Compressor self, Work work) except -1:
    """Give every job the room that its frame can take at most; lines of memory are not shared by threads."""
    cdef int64_t i, total = 0
    cdef uint8_t* target
    cdef CompressJob* job
    for i in range(work.n_jobs):
        job = &work.jobs[i]
        job.room = work.library.room(job.size)
        if add_overflows(total, round_up(job.room, LINE), &total):
            raise MemoryError("the buffers of the batch add up to more than memory can hold")
    target = self.frame_memory(total)
    for i in range(work.n_jobs):
        job = &work.jobs[i]
        job.target = target
        target += round_up(job.room, LINE)
    return 0


cdef bytes joined(const BodyPart* part):
    cdef bytes prefix = b""
    if part.prefixed:
        prefix = (<const char*> &part.prefix)[:PREFIX]
    return prefix + (<const char*> part.data)[:part.size] if part.size else prefix


def stored_buffers(batch, codec, level=None, min_space_savings=None, use_threads=True, chosen=None):
    """Return `Compressor(codec, level, ...).stored(batch, chosen)`."""
    return Compressor(codec, level, min_space_savings, use_threads).stored(batch, chosen)
