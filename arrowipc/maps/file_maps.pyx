"""Maps of files, and their memory: the pages of batches that nothing refers to any more are released."""

cimport cython
from libc.errno cimport ENOMEM, errno
from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.string cimport memset
from posix.mman cimport MADV_DONTNEED, MAP_FAILED, MAP_SHARED, PROT_READ, madvise, mmap, munmap

import os

from arrowipc._core cimport Source, export_bytes
from arrowipc.inline.threads cimport Guard, Tally, hold, let_go, tally_sum, tally_up

cdef extern from * nogil:
    """
    #include <fcntl.h>
    #include <unistd.h>
    /* Bytes of files and of shared memory that are resident in this process; INT64_MAX: the system does not say. */
    static int64_t resident_file_bytes(void) {
        char text[128], *number = text;
        int64_t pages = 0;
        int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
        ssize_t size = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
        if (file >= 0)
            close(file);
        text[size < 0 ? 0 : size] = 0;
        /* The third number, parsed by hand: sscanf and strtol of a new C library are missing in an older one. */
        for (int spaces = 0; *number && spaces < 2; number++)
            spaces += *number == ' ';
        if (*number == 0)
            return INT64_MAX;
        for (; *number >= '0' && *number <= '9'; number++)
            pages = 10 * pages + (*number - '0');
        return pages * sysconf(_SC_PAGESIZE);
    }
    """
    int64_t resident_file_bytes() noexcept

cdef enum:
    MOST_MAPS = 1 << 14         # a quarter of the 65,530 that Linux gives a process: malloc needs some too
    FAULT_AROUND = 1 << 16      # bytes that a page fault brings along at most
    LOOK = 1 << 24              # bytes of dropped bodies after which the memory of files is measured again
    RUN = 1 << 20               # bytes whose pages are released together: a call for each small batch costs more

cdef Tally live_maps
cdef int64_t most_resident = 96 << 20   # bytes of files that the process may have in memory before pages are released


def count_maps():
    """Count the live maps, for tests of leaks."""
    return tally_sum(&live_maps)


def keep_resident(int64_t most):
    """Set how many bytes of files may be in memory before pages are released; return the number before: for tests."""
    global most_resident, unseen
    before, most_resident, unseen = most_resident, most, LOOK
    return before


@cython.final
cdef class FileMap:
    """All bytes of a regular file, not empty, as read-only memory. Unlike `mmap.mmap`, it keeps no descriptor.

    Raise an OSError if the file cannot be mapped, or if too many are mapped: it can still be read.
    """

    def __cinit__(self, int descriptor):
        cdef int64_t size = os.fstat(descriptor).st_size
        cdef void* data = MAP_FAILED
        cdef int code = ENOMEM
        if tally_sum(&live_maps) < MOST_MAPS:
            data = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0)
            code = errno
        if data == MAP_FAILED:
            raise OSError(code, os.strerror(code))
        self.data, self.size = data, size
        tally_up(&live_maps, 1)

    def __getbuffer__(self, Py_buffer* view, int flags):
        export_bytes(self, view, <const uint8_t*> self.data, self.size, False, flags)

    def __dealloc__(self):
        if self.data != NULL:
            tally_up(&live_maps, -1)
            with nogil:
                munmap(self.data, self.size)


# A page of a file that was read counts as memory of the process until its map ends. When the last reference to a batch
# is gone and mapped files hold much memory, the pages of its body are released. Nothing is lost: a map is never written
# to, and a released page that is read again comes from the file. Pages that the body shares with a neighbour, or that a
# page fault may bring in with it, are released together with that neighbour.

cdef struct Pages:
    uintptr_t first
    size_t size

cdef Guard maps_guard                   # guards the runs of all maps, and these two
cdef int64_t unseen = LOOK              # bytes of bodies that were dropped since the memory of files was measured
cdef bint is_crowded = False


@cython.final
@cython.no_gc
@cython.freelist(8)
cdef class MappedBody:
    def __dealloc__(self):
        leave(self.map, self.start, self.end)


cdef MappedBody mapped_body(Source source, FileMap map, const uint8_t* body, int64_t size):
    cdef MappedBody out = MappedBody.__new__(MappedBody)
    out.source, out.map, out.start, out.end = source, map, <uintptr_t> body, <uintptr_t> body + size
    return out


cdef void leave(FileMap map, uintptr_t start, uintptr_t end) noexcept:
    """Add a dropped body to the run of those before it; release the run if it is long, or the body lies elsewhere."""
    cdef Pages[2] pages
    cdef int i
    memset(pages, 0, sizeof(pages))
    start, end = max(start, <uintptr_t> map.data), min(end, <uintptr_t> map.data + map.size)
    hold(&maps_guard)
    if start > map.high + FAULT_AROUND or end + FAULT_AROUND < map.low:
        cut_run(map, &pages[0])
        map.low, map.high = start, end
    else:
        map.low, map.high = min(map.low, start), max(map.high, end)
    if map.high - map.low >= RUN:
        cut_run(map, &pages[1])
    let_go(&maps_guard)
    for i in range(2):
        if pages[i].size:
            with nogil:
                madvise(<void*> pages[i].first, pages[i].size, MADV_DONTNEED)


cdef void cut_run(FileMap map, Pages* out) noexcept:
    """Cut the pages to release off a run; an end that is smaller than the reach of a page fault stays in it."""
    global unseen, is_crowded
    cdef uintptr_t first = (map.low + FAULT_AROUND - 1) & ~<uintptr_t> (FAULT_AROUND - 1)
    cdef uintptr_t last = map.high & ~<uintptr_t> (FAULT_AROUND - 1)
    if first >= last:
        return
    map.low = last
    unseen += last - first
    if unseen >= LOOK:
        unseen = 0
        is_crowded = resident_file_bytes() > most_resident
    if is_crowded:
        out.first, out.size = first, last - first
