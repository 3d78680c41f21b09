# Verified FlatBuffers navigation: every step is proven to stay inside the buffer before it is taken.
#
# A reader does not verify a whole buffer and then trust it; each access checks the one thing it needs. So a field that
# nobody reads costs nothing, and a shared sub-table is visited only as often as somebody reads it.
# Offsets and tables must lie at multiples of 4. 8-byte words need not lie at multiples of 8: some writers put them at
# odd multiples of 4 in footers, and every load here takes any address.
# Results: 1 present, 0 absent (use the default), -1 broken.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from arrowipc.inline.loads cimport load_i32, load_i64, load_u16, load_u32

cdef struct Table:
    const uint8_t* base     # first byte of the flatbuffer
    int64_t size            # its bytes
    int64_t pos             # where the table starts
    int64_t vtable          # where its vtable starts
    int32_t vtable_bytes
    int32_t inline_bytes    # the table's own bytes; all scalars lie inside them

cdef struct Vector:
    const uint8_t* data     # first element; NULL when absent
    int64_t count


cdef inline int fb_table_at(const uint8_t* base, int64_t size, int64_t pos, Table* out) noexcept nogil:
    """Open the table that begins at byte `pos` of a flatbuffer."""
    cdef int64_t vtable
    if pos < 4 or pos & 3 or pos > size - 4:
        return -1
    vtable = pos - <int64_t> load_i32(base + pos)
    if vtable < 0 or vtable & 1 or vtable > size - 4:
        return -1
    out.base = base
    out.size = size
    out.pos = pos
    out.vtable = vtable
    out.vtable_bytes = load_u16(base + vtable)
    out.inline_bytes = load_u16(base + vtable + 2)
    if out.vtable_bytes < 4 or out.vtable_bytes & 1 or out.vtable_bytes > size - vtable:
        return -1
    if out.inline_bytes < 4 or out.inline_bytes > size - pos:
        return -1
    return 1


cdef inline int fb_root(const uint8_t* base, int64_t size, Table* out) noexcept nogil:
    if size < 8:
        return -1
    return fb_table_at(base, size, <int64_t> load_u32(base), out)


cdef inline int64_t fb_field(const Table* t, int32_t slot, int32_t width) noexcept nogil:
    """Return the position of an inline field of `width` bytes: 0 absent, -1 broken. `slot` is a vtable byte offset."""
    cdef int32_t offset
    if slot + 2 > t.vtable_bytes:
        return 0
    offset = load_u16(t.base + t.vtable + slot)
    if offset == 0:
        return 0
    if offset < 4 or offset > t.inline_bytes - width or (t.pos + offset) & (min(width, 4) - 1):
        return -1
    return t.pos + offset


cdef inline int fb_u8(const Table* t, int32_t slot, int default, int* out) noexcept nogil:
    cdef int64_t pos = fb_field(t, slot, 1)
    out[0] = t.base[pos] if pos > 0 else default
    return -1 if pos < 0 else pos > 0


cdef inline int fb_i16(const Table* t, int32_t slot, int default, int* out) noexcept nogil:
    cdef int64_t pos = fb_field(t, slot, 2)
    out[0] = <int> <int16_t> load_u16(t.base + pos) if pos > 0 else default
    return -1 if pos < 0 else pos > 0


cdef inline int fb_i32(const Table* t, int32_t slot, int32_t default, int32_t* out) noexcept nogil:
    cdef int64_t pos = fb_field(t, slot, 4)
    out[0] = load_i32(t.base + pos) if pos > 0 else default
    return -1 if pos < 0 else pos > 0


cdef inline int fb_i64(const Table* t, int32_t slot, int64_t default, int64_t* out) noexcept nogil:
    cdef int64_t pos = fb_field(t, slot, 8)
    out[0] = load_i64(t.base + pos) if pos > 0 else default
    return -1 if pos < 0 else pos > 0


cdef inline int64_t fb_follow(const Table* t, int64_t pos) noexcept nogil:
    """Return the target of the offset stored at `pos`; -1 if its first 4 bytes do not lie inside the buffer."""
    cdef int64_t target = pos + <int64_t> load_u32(t.base + pos)
    return target if pos < target <= t.size - 4 else -1


cdef inline int fb_table(const Table* t, int32_t slot, Table* out) noexcept nogil:
    """Open the table that a field points at."""
    cdef int64_t pos = fb_field(t, slot, 4)
    if pos <= 0:
        return <int> pos
    return fb_table_at(t.base, t.size, fb_follow(t, pos), out)


cdef inline int fb_vector(const Table* t, int32_t slot, int32_t element, Vector* out) noexcept nogil:
    """Open a vector of `element`-byte scalars or structs."""
    cdef int64_t pos = fb_field(t, slot, 4), count
    out.data = NULL
    out.count = 0
    if pos <= 0:
        return <int> pos
    pos = fb_follow(t, pos)
    if pos < 0:
        return -1
    count = load_u32(t.base + pos)
    if count > (t.size - pos - 4) // element:
        return -1
    if pos & 3:
        return -1
    out.data = t.base + pos + 4
    out.count = count
    return 1


cdef inline int fb_vector_table(const Table* t, const Vector* v, int64_t i, Table* out) noexcept nogil:
    """Open element i < count of a vector of tables (opened with element=4)."""
    return fb_table_at(t.base, t.size, fb_follow(t, (v.data - t.base) + 4 * i), out)


cdef inline int fb_string(const Table* t, int32_t slot, Vector* out) noexcept nogil:
    """Open the bytes of a string, without its terminator; the caller checks whether they are UTF-8."""
    return fb_vector(t, slot, 1, out)
