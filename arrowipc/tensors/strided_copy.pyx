"""Row-major copies of elements at strides, in small tiles if the input has another innermost dimension."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from arrowipc.inline.loads cimport add_overflows, loose_u16, loose_u32, loose_u64, mul_overflows

cdef enum:
    CACHE_LINE = 64

# -- layouts -------------------------------------------------------------------------------------------------


cdef void row_major(int32_t ndim, const int64_t* shape, int64_t width, int64_t* strides) noexcept nogil:
    """Write contiguous strides; zeros where they overflow, which only happens for an empty tensor."""
    cdef int64_t stride = width
    cdef int32_t i
    for i in range(ndim - 1, -1, -1):
        strides[i] = stride
        if mul_overflows(stride, shape[i], &stride):
            stride = 0


cdef bint is_packed(int32_t ndim, const int64_t* shape, const int64_t* strides, int64_t width,
                    bint by_columns) noexcept nogil:
    """Whether the elements are contiguous in row- or column-major order; ignore strides of dimensions of size 1."""
    cdef int64_t expected = width
    cdef int32_t i, k
    for i in range(ndim):
        if shape[i] == 0:
            return True
    for k in range(ndim):
        i = k if by_columns else ndim - 1 - k
        if shape[i] != 1:
            if strides[i] != expected:
                return False
            expected *= shape[i]    # cannot overflow: at most the bytes of the tensor
    return True


cdef bint stored_strides(int32_t ndim, const int64_t* shape, const int64_t* strides, int64_t width,
                         int64_t* out) noexcept nogil:
    """Whether the elements are contiguous with the dimensions in some order; if so, write the strides to store.

    A dimension of size 1 gets the stride that it has in column-major order, because readers compare strides with these.
    """
    cdef int64_t expected = width
    cdef int32_t i, k, at = 0
    cdef uint8_t placed[MOST_DIMENSIONS]
    for i in range(ndim):
        placed[i] = False
    for k in range(ndim):
        # Find the first dimension, not placed yet, whose stride is the bytes of those placed, or whose size is 1.
        at = -1
        for i in range(ndim):
            if not placed[i] and (shape[i] == 1 or strides[i] == expected):
                at = i
                break
        if at < 0:
            return False
        placed[at] = True
        out[at] = expected
        expected *= shape[at]
    return True


cdef int64_t reach(int32_t ndim, const int64_t* shape, const int64_t* strides, int64_t width) noexcept nogil:
    cdef int64_t last = 0, step
    cdef int32_t i
    for i in range(ndim):
        if shape[i] == 0:
            return 0
    for i in range(ndim):
        if mul_overflows(shape[i] - 1, strides[i], &step) or add_overflows(last, step, &last):
            return -1
    return -1 if add_overflows(last, width, &last) else last


cdef void join_dimensions(int32_t ndim, const int64_t* shape, const int64_t* strides, int64_t width,
                          Joined* out) noexcept nogil:
    """Write fewer dimensions that have the same elements in the same order; for tensors that are not empty."""
    cdef int32_t i, n = 0
    out.width = width
    for i in range(ndim):
        if shape[i] == 1:
            continue
        # No overflow: the product is a distance in memory that exists.
        if n and out.stride[n - 1] == shape[i] * strides[i]:
            out.size[n - 1] *= shape[i]
            out.stride[n - 1] = strides[i]
        else:
            out.size[n] = shape[i]
            out.stride[n] = strides[i]
            n += 1
    if n and out.stride[n - 1] == width:
        # Contiguous elements are copied as one run of bytes.
        out.size[n - 1] *= width
        out.stride[n - 1] = out.width = 1
    elif n == 0 or width > 8 or width & (width - 1):
        # So are elements whose width has no loop below.
        out.size[n] = width
        out.stride[n] = out.width = 1
        n += 1
    out.ndim = n


# -- gathering -----------------------------------------------------------------------------------------------


cdef class Gathered:
    cdef void rewind(self) noexcept:
        cdef int32_t i
        for i in range(self.layout.ndim):
            self.index[i] = 0
        self.ended = self.nbytes == 0

    cdef int64_t fill(self, uint8_t* out, int64_t room) noexcept nogil:
        """Copy as many whole rows of dimension `level` as fit into `room`; a row has at most PIECE bytes."""
        cdef Joined* layout = &self.layout
        cdef int64_t left, rows, done = 0, part
        while not self.ended and self.block <= room - done:
            left = layout.size[self.level] - self.index[self.level]
            rows = min(left, (room - done) // self.block)
            part = rows * self.block
            gather(out + done, self.at(), layout, self.level, rows)
            done += part
            self.advance(rows)
        return done

    cdef inline const uint8_t* at(self) noexcept nogil:
        cdef const uint8_t* data = self.data
        cdef int32_t i
        for i in range(self.level + 1):
            data += self.index[i] * self.layout.stride[i]
        return data

    cdef inline void advance(self, int64_t rows) noexcept nogil:
        cdef int32_t i = self.level
        self.index[i] += rows
        while self.index[i] == self.layout.size[i]:
            self.index[i] = 0
            if i == 0:
                self.ended = True
                return
            i -= 1
            self.index[i] += 1


cdef Gathered gathered(const uint8_t* data, object owner, int32_t ndim, const int64_t* shape, const int64_t* strides,
                       int64_t width):
    cdef Gathered made = Gathered.__new__(Gathered)
    cdef int64_t block
    cdef int32_t i
    made.data = data
    made.owner = owner
    made.nbytes = width
    for i in range(ndim):
        made.nbytes *= shape[i]
    if made.nbytes:
        join_dimensions(ndim, shape, strides, width, &made.layout)
        block = made.layout.width
        made.level = made.layout.ndim - 1
        while made.level and made.layout.size[made.level] * block <= PIECE:
            block *= made.layout.size[made.level]
            made.level -= 1
        made.block = block
    made.rewind()
    return made


cdef void gather_all(Gathered source, uint8_t* out) noexcept nogil:
    cdef int64_t done = 0
    while done < source.nbytes:
        done += source.fill(out + done, min(source.nbytes - done, <int64_t> PIECE))


cdef void gather(uint8_t* out, const uint8_t* data, const Joined* layout, int32_t level, int64_t rows) noexcept nogil:
    """Copy `rows` rows of dimension `level`, from `data`, to `out`."""
    cdef int32_t last = layout.ndim - 1, near = last, i
    cdef int64_t size[MOST_DIMENSIONS + 1]
    cdef int64_t index[MOST_DIMENSIONS + 1]
    cdef int64_t after[MOST_DIMENSIONS + 1]     # bytes in the output from one element of a dimension to the next
    cdef int64_t inner
    for i in range(level, last + 1):
        size[i] = rows if i == level else layout.size[i]
        index[i] = 0
    after[last] = layout.width
    for i in range(last - 1, level - 1, -1):
        after[i] = after[i + 1] * size[i + 1]
    inner = distance(layout.stride[last])
    if inner > layout.width:
        # Find the dimension with the smallest stride in the input; `near` stays `last` if none is smaller than its own.
        for i in range(level, last):
            if distance(layout.stride[i]) < inner and layout.stride[i] and size[i] > 1:
                near = i
                inner = distance(layout.stride[i])
    while True:
        if near == last:
            line(out, data, layout.stride[last], size[last], layout.width)
        else:
            tiles(out, after[near], data, layout.stride[near], size[near], layout.stride[last], size[last],
                  layout.width)
        # Advance the index of the dimensions that `line` and `tiles` do not handle.
        i = last - 1
        while i >= level:
            if i != near:
                index[i] += 1
                out += after[i]
                data += layout.stride[i]
                if index[i] < size[i]:
                    break
                out -= after[i] * size[i]
                data -= layout.stride[i] * size[i]
                index[i] = 0
            i -= 1
        if i < level:
            return


cdef inline int64_t distance(int64_t stride) noexcept nogil:
    return stride if stride >= 0 else -stride


ctypedef fused Unsigned:
    uint8_t
    loose_u16
    loose_u32
    loose_u64


cdef inline void copy_words(Unsigned* out, const uint8_t* data, int64_t stride, int64_t count) noexcept nogil:
    cdef int64_t i
    for i in range(count):
        out[i] = (<const Unsigned*> (data + i * stride))[0]


cdef void line(uint8_t* out, const uint8_t* data, int64_t stride, int64_t count, int64_t width) noexcept nogil:
    """Copy `count` elements at a stride into contiguous ones."""
    if width == 1:
        if stride == 1:
            memcpy(out, data, count)
        else:
            copy_words(<uint8_t*> out, data, stride, count)
    elif width == 2:
        copy_words(<loose_u16*> out, data, stride, count)
    elif width == 4:
        copy_words(<loose_u32*> out, data, stride, count)
    else:
        copy_words(<loose_u64*> out, data, stride, count)


cdef void tiles(uint8_t* out, int64_t row_bytes, const uint8_t* data, int64_t row_stride, int64_t rows,
                int64_t stride, int64_t count, int64_t width) noexcept nogil:
    """Copy `rows` lines, for input where the next line's element is nearer in memory than the next element of a line.

    A tile is one cache line wide in the output; in the input, each cache line of a column is used for several rows.
    """
    cdef int64_t wide = CACHE_LINE // width
    cdef int64_t row, column = 0, n
    cdef uint8_t* at
    cdef const uint8_t* source
    while column < count:
        n = min(wide, count - column)
        at = out + column * width
        source = data + column * stride
        if n == wide and width == 8:
            for row in range(rows):
                copy_words(<loose_u64*> at, source, stride, 8)
                at += row_bytes
                source += row_stride
        elif n == wide and width == 4:
            for row in range(rows):
                copy_words(<loose_u32*> at, source, stride, 16)
                at += row_bytes
                source += row_stride
        else:
            for row in range(rows):
                line(at, source, stride, n, width)
                at += row_bytes
                source += row_stride
        column += n
