"""`Tensor`: a dense tensor over existing memory, such as a message's body; from and to other libraries' arrays."""

from cpython.buffer cimport (
    PyBUF_ANY_CONTIGUOUS, PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_F_CONTIGUOUS, PyBUF_ND, PyBUF_STRIDED_RO,
    PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from arrowipc._core cimport Memory, Recent, identity, limits_data, open_message, window
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, Vector, fb_vector
from arrowipc.inline.loads cimport load_i64
from arrowipc.inline.plan cimport LAYOUT_BOOL, Envelope, FieldPlan, LimitsData
from arrowipc.decode.framing cimport FRAME_MESSAGE, CutMessage, Message, cut_message
from arrowipc.tensors.message cimport (
    Location, Shape, broken, count_elements, element_type, read_buffer, read_element, read_names, read_shape,
)
from arrowipc.tensors.strided_copy cimport (
    MOST_DIMENSIONS, Gathered, gather_all, gathered, is_packed, reach, row_major, stored_strides,
)

from arrowipc.datatypes import Bool, FloatingPoint, Int
from arrowipc.arguments import check_flag, checked_names, equals_foreign
from arrowipc.errors import FormatError, LimitError, UsageError

cdef dict plain_types = {}      # (Schema.fbs Type, width, flags) -> the one type object


cdef object type_object(const FieldPlan* element, const Table* table):
    """Return the type of the elements; types of integers and floats are cached."""
    if element.type != Type_Int and element.type != Type_FloatingPoint:
        return element_type(element, table)
    key = element.type << 16 | element.width << 8 | element.flags
    found = plain_types.get(key)
    if found is None:
        found = plain_types[key] = element_type(element, table)
    return found


cdef class Held:
    # An exported buffer with strides; a tensor that points into it keeps this object alive.
    cdef Py_buffer view
    cdef bint held

    def __cinit__(self, obj):
        PyObject_GetBuffer(obj, &self.view, PyBUF_STRIDED_RO)
        self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef class Tensor:
    """Tensor(data, dim_names=None, type=None)\n--\n\n
    A dense tensor of values of a fixed width, in memory that it keeps alive and does not change.

    Parameters
    ----------
    data : numpy.ndarray, buffer, DLPack object, object with ``__array__``, or nested list
        Memory on the CPU is not copied, whatever its strides.
    dim_names : sequence of str, optional
        One name per dimension; empty: no name.
    type : DataType, optional
        The type of the values, if the dtype does not determine it, such as ``date32()`` for int32. The widths must
        agree. Default: the type of the dtype; booleans become uint8, one byte per value.

    Raises
    ------
    UsageError
        The data is no array, or its elements have no type of a fixed width.

    Notes
    -----
    Equality compares type, shape and values (NaN differs from NaN, as in NumPy), not names or strides.

    Examples
    --------
    >>> import numpy as np
    >>> import arrowipc as ipc
    >>> tensor = ipc.Tensor(np.arange(6, dtype="int16").reshape(2, 3), dim_names=("y", "x"))
    >>> tensor.shape, tensor.strides, tensor.type
    ((2, 3), (6, 2), DataType(int16))
    >>> ipc.read_tensor(tensor.serialize()) == tensor
    True
    >>> ipc.Tensor.from_numpy(tensor.to_numpy()).equals(ipc.Tensor.from_dlpack(tensor)), tensor.dim_names
    (True, ('y', 'x'))
    """

    cdef const uint8_t* data            # the first element, which need not be the lowest address
    cdef int64_t* dims                  # shape, then strides in bytes: 2 * ndim
    cdef int32_t _ndim
    cdef int64_t width                  # bytes of an element
    cdef int64_t count
    cdef readonly object type           # DataType
    cdef readonly tuple dim_names       # of str, None: no dimension has a name
    cdef object owner
    cdef object __weakref__

    def __init__(self, data, dim_names=None, type=None):
        cdef Held held
        cdef int32_t i
        from arrowipc.values.dtypes import as_values

        if self.dims != NULL:
            raise UsageError("a tensor does not change: make another one")
        values, kind = as_values(data, type)
        if values.ndim > MOST_DIMENSIONS:
            raise UsageError(f"a tensor has at most {MOST_DIMENSIONS} dimensions, found {values.ndim}")
        names = checked_names(dim_names, values.ndim)
        self.allocate(values.ndim)
        self.type = kind
        self.width = values.dtype.itemsize
        self.dim_names = names
        self.count = values.size
        for i in range(self._ndim):
            self.dims[i] = values.shape[i]
            self.dims[self._ndim + i] = values.strides[i]
        if self.count and self.width:
            held = Held(values)
            self.data = <const uint8_t*> held.view.buf
            self.owner = held

    def __dealloc__(self):
        free(self.dims)

    cdef int allocate(self, int32_t ndim) except -1:
        self.dims = <int64_t*> malloc(2 * ndim * sizeof(int64_t) + 1)
        if self.dims == NULL:
            raise MemoryError()
        self._ndim = ndim
        return 0

    @staticmethod
    def from_numpy(obj, dim_names=None, type=None):
        """Make a tensor of a NumPy array: its memory, its strides. Parameters are those of `Tensor`."""
        return Tensor(obj, dim_names, type)

    @staticmethod
    def from_dlpack(obj, dim_names=None):
        """Make a tensor of an object with ``__dlpack__`` whose memory is on the CPU.

        Raises
        ------
        UsageError
            If NumPy cannot take it: it is on another device, of a type that NumPy does not have, or has gradients.
        """
        import numpy as np

        try:
            values = np.from_dlpack(obj)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
            raise UsageError(f"cannot take this {obj.__class__.__name__} over DLPack: {error}") from error
        return Tensor(values, dim_names)

    # -- properties --

    @property
    def shape(self):
        """tuple of int: the sizes of the dimensions."""
        return tuple([self.dims[i] for i in range(self._ndim)])

    @property
    def strides(self):
        """tuple of int: bytes from one element to the next along each dimension."""
        return tuple([self.dims[self._ndim + i] for i in range(self._ndim)])

    @property
    def ndim(self):
        """int: dimensions."""
        return self._ndim

    @property
    def size(self):
        """int: elements."""
        return self.count

    @property
    def itemsize(self):
        """int: bytes of an element."""
        return self.width

    @property
    def nbytes(self):
        """int: bytes of all elements, each counted as often as it occurs."""
        return self.count * self.width

    @property
    def is_contiguous(self):
        """bool: the elements are neighbours, in row-major or column-major order."""
        return self.is_row_major or self.is_column_major

    @property
    def is_row_major(self):
        """bool: the elements are neighbours in row-major order."""
        return self.in_rows()

    @property
    def is_column_major(self):
        """bool: the elements are neighbours in column-major order."""
        return is_packed(self._ndim, self.dims, self.dims + self._ndim, self.width, True)

    cdef bint in_rows(self) noexcept:
        return is_packed(self._ndim, self.dims, self.dims + self._ndim, self.width, False)

    cdef Tensor packed(self):
        """Return a row-major tensor of the same values: itself, or a copy."""
        return self if self.in_rows() else Tensor(self.to_numpy(copy=True), None, self.type)

    def dim_name(self, i):
        """Return the name of a dimension, "" if it has none."""
        return (self.dim_names or ("",) * self._ndim)[i]

    # -- conversion to others --

    def to_numpy(self, copy=False):
        """Return the values as a NumPy array.

        Parameters
        ----------
        copy : bool, default False
            False: a read-only view of this tensor's memory. True: an array of its own, row-major.

        Raises
        ------
        UsageError
            NumPy cannot hold this shape.
        """
        np = numpy_module()
        dtype = dtype_for(self.type)
        try:
            if check_flag("copy", copy):
                return np.array(self.to_numpy(), order="C")
            if self.count == 0 or self.width == 0:
                values = np.empty(self.shape, dtype)
                values.flags.writeable = False
                return values
            if self.in_rows():
                return np.ndarray(self.shape, dtype, window(self.data, self.nbytes, self))
            return viewed(self, np, dtype)
        except ValueError as error:
            raise UsageError(f"NumPy cannot hold a tensor of shape {self.shape} and {dtype}: {error}") from error

    def __array__(self, dtype=None, copy=None):
        values = self.to_numpy(copy is True)
        if dtype is None or values.dtype == dtype:
            return values
        if copy is False:
            raise ValueError(f"conversion of {self.type} to {dtype} needs a copy")
        return values.astype(dtype)

    def __getbuffer__(self, Py_buffer* view, int flags):
        cdef bint contiguous = self.in_rows()
        if flags & PyBUF_WRITABLE:
            raise BufferError("this memory is read-only")
        if not contiguous:
            if flags & PyBUF_STRIDES != PyBUF_STRIDES or flags & PyBUF_C_CONTIGUOUS == PyBUF_C_CONTIGUOUS:
                raise BufferError("the elements are not neighbours in row-major order: ask for strides")
            if flags & PyBUF_ANY_CONTIGUOUS == PyBUF_ANY_CONTIGUOUS and not self.is_column_major:
                raise BufferError("the elements are not neighbours: ask for strides")
        if flags & PyBUF_F_CONTIGUOUS == PyBUF_F_CONTIGUOUS and not self.is_column_major:
            raise BufferError("the elements are not neighbours in column-major order")
        view.obj = self
        view.buf = <void*> self.data if self.data != NULL else <void*> self.dims
        view.len = self.count * self.width
        view.readonly = True
        view.itemsize = self.width
        view.format = PyBytes_AS_STRING(self.format_of()) if flags & PyBUF_FORMAT else NULL
        view.ndim = self._ndim
        view.shape = <Py_ssize_t*> self.dims if flags & PyBUF_ND else NULL
        view.strides = <Py_ssize_t*> (self.dims + self._ndim) if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        view.suboffsets = NULL
        view.internal = NULL

    cdef bytes format_of(self):
        """Return the struct format of the elements; `formats` keeps it alive, because buffers point to it."""
        found = formats.get(self.type)
        if found is None:
            dtype = dtype_for(self.type)
            code = dtype.char if dtype.kind in "biuf" else {4: "i", 8: "q"}[self.width] if dtype.kind in "mM" else None
            found = formats[self.type] = code.encode() if code else b"%ds" % self.width
        return found

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """Return a DLPack capsule; see the Array API standard.

        Consumers that pass ``max_version=(1, 0)`` or later get the memory itself, marked as read-only, if NumPy is 2.1
        or later. Other consumers could write to it: they get a copy, or an error with ``copy=False``.

        Raises
        ------
        BufferError
            If the memory cannot be exported like this; DLPack's protocol requires this class.
        """
        if stream is not None:
            raise BufferError(f"this memory is on the CPU, which has no streams; found stream={stream!r}")
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError(f"this memory is on the CPU, device (1, 0); asked for {tuple(dl_device)}")
        if not isinstance(self.type, (Bool, FloatingPoint, Int)):
            raise BufferError(f"DLPack has no type for {self.type}: hand over numbers, for instance "
                              "to_numpy().view('int64')")
        # DLPack's strides are numbers of elements.
        if max_version is not None and tuple(max_version) >= (1, 0) and not any([n % self.width for n in self.strides]):
            try:
                return self.to_numpy().__dlpack__(max_version=max_version, copy=copy)
            except TypeError:
                pass        # NumPy before 2.1 cannot say that memory is read-only
        if copy is False:
            raise BufferError("this memory is read-only, or its strides are no multiples of an element: it needs a "
                              "copy, or a consumer of DLPack 1.0")
        return self.to_numpy(copy=True).__dlpack__()

    def __dlpack_device__(self):
        """Return the device of the memory, ``(1, 0)``: the CPU."""
        return (1, 0)

    # -- values --

    def equals(self, other, nan_equal=False):
        """Whether type, shape and values are equal, also to pyarrow's; with `nan_equal`, NaN equals NaN."""
        nan_equal = check_flag("nan_equal", nan_equal)
        other = arrow_tensor(other)
        return other is not None and same(self, other, nan_equal)

    def __eq__(self, other):
        return equals_foreign(self, other) if is_tensor(other) else NotImplemented

    __hash__ = None

    def __len__(self):
        if self._ndim == 0:
            raise TypeError("a tensor of no dimensions has no length")
        return self.dims[0]

    def serialize(self):
        """Return the encapsulated message as bytes.

        Raises
        ------
        MemoryError
            If the message does not fit into memory.
        """
        from arrowipc.tensors.dense_io import serialize_tensor

        return serialize_tensor(self)

    def __reduce__(self):
        from arrowipc.tensors.dense_io import read_tensor

        return read_tensor, (self.serialize(),)

    def __repr__(self):
        from arrowipc.tensors.dense_io import tensor_text

        return tensor_text(self)


cdef dict formats = {}
cdef object numpy = None        # the module, after the first call of `numpy_module`
cdef Recent dtypes = Recent(64)     # (type object, its dtype), by identity: hashing a type takes longer than `to_numpy`


cdef object numpy_module():
    global numpy
    if numpy is None:
        import numpy
    return numpy


cdef object dtype_for(object kind):
    found = dtypes.find(identity(kind))
    if found is None:
        from arrowipc.values.dtypes import dtype_of

        found = (kind, dtype_of(kind))
        dtypes.keep(found, identity(kind))
    return found[1]


cdef object viewed(Tensor tensor, object np, object dtype):
    """Return the values as a NumPy array with strides, over the memory from the lowest to the highest element."""
    cdef int64_t low = 0, size
    cdef int32_t i, ndim = tensor._ndim
    cdef int64_t strides[MOST_DIMENSIONS]
    for i in range(ndim):
        strides[i] = tensor.dims[ndim + i]
        if strides[i] < 0:
            low += (tensor.dims[i] - 1) * strides[i]
            strides[i] = -strides[i]
    size = reach(ndim, tensor.dims, strides, tensor.width)
    memory = window(tensor.data + low, size, tensor)
    return np.ndarray(tensor.shape, dtype, memory, -low, tensor.strides)


# -- from messages -------------------------------------------------------------------------------------------


cdef Tensor open_tensor(const Table* header, const uint8_t* body, int64_t body_length, object owner,
                        const LimitsData* limits):
    """Make the tensor that a Tensor table describes, after checking that all elements are inside the body."""
    cdef Tensor tensor = Tensor.__new__(Tensor)
    cdef FieldPlan element
    cdef Table type
    cdef Shape shape
    cdef Location data
    cdef int64_t nbytes, needed
    cdef Memory memory
    read_element(header, Tensor_type_type, Tensor_type, "Tensor", &element, &type)
    read_shape(header, Tensor_shape, "Tensor", &shape)
    read_buffer(header, Tensor_data, "Tensor", "data", body_length, &data)
    tensor.allocate(shape.ndim)
    tensor.width = element.width
    tensor.count = count_elements(&shape, element.width, "Tensor", &nbytes)
    if shape.ndim:
        memcpy(tensor.dims, shape.size, shape.ndim * sizeof(int64_t))
    needed = read_strides(header, tensor, nbytes, limits, data.length)
    if needed > data.length:
        raise FormatError(f"Tensor.data holds {data.length:,} bytes: shape {tensor.shape} and strides {tensor.strides} "
                          f"need {needed:,}")
    tensor.type = type_object(&element, &type)
    tensor.dim_names = read_names(header, Tensor_shape, "Tensor")
    if needed == 0:
        return tensor
    tensor.data = body + data.offset
    tensor.owner = owner
    if <uintptr_t> tensor.data & (element_alignment(&element) - 1):
        memory = Memory(needed)
        memcpy(memory.data, tensor.data, needed)
        memory.size = needed
        tensor.data = memory.data
        tensor.owner = memory
    return tensor


cdef inline int64_t element_alignment(const FieldPlan* element) noexcept nogil:
    if element.layout == LAYOUT_BOOL or element.type == Type_FixedSizeBinary:
        return 1
    return min(element.width, 8)


cdef int64_t read_strides(const Table* header, Tensor tensor, int64_t nbytes, const LimitsData* limits,
                          int64_t length) except -1:
    """Read the strides; return how many bytes the elements span, 0 if there are no elements."""
    cdef int64_t* strides = tensor.dims + tensor._ndim
    cdef Vector stored
    cdef int64_t needed
    cdef int32_t i
    if fb_vector(header, Tensor_strides, 8, &stored) < 0:
        broken("Tensor", "strides")
    if stored.count == 0:
        row_major(tensor._ndim, tensor.dims, tensor.width, strides)
        return nbytes
    if stored.count != tensor._ndim:
        raise FormatError(f"Tensor.strides has {stored.count} entries for {tensor._ndim} dimensions")
    for i in range(tensor._ndim):
        strides[i] = load_i64(stored.data + 8 * i)
        if strides[i] < 0:
            raise FormatError(f"Tensor.strides[{i}] is {strides[i]}: expected 0 or more")
    if nbytes == 0:
        return 0
    needed = reach(tensor._ndim, tensor.dims, strides, tensor.width)
    if needed < 0:
        raise FormatError(f"Tensor.strides: strides {tensor.strides} of shape {tensor.shape} reach over more than "
                          "2**63 - 1 bytes")
    if nbytes > length and nbytes - length > limits.overlap_bytes:
        raise LimitError(f"Tensor.strides: the elements of shape {tensor.shape} add up to {nbytes:,} bytes in a buffer "
                         f"of {length:,}: they share more than Limits.overlap_bytes = {limits.overlap_bytes:,}")
    return needed


def tensor_of(Message message not None, limits=None):
    """Return the tensor of a message of kind "Tensor"; errors name the field of the table that is wrong.

    Only ``overlap_bytes`` of `limits` is used: the elements' bytes may exceed the buffer that they share by so much.
    """
    cdef LimitsData bounds
    limits_data(limits, &bounds)
    if message.envelope.kind != MessageHeader_Tensor:
        raise FormatError(f"expected a Tensor message, found {message.kind}")
    message.join()
    return open_tensor(&message.envelope.header, message.body_bytes, message.envelope.body_length, message.body_owner,
                       &bounds)


cdef LimitsData default_bounds
limits_data(None, &default_bounds)


def tensor_in_bytes(bytes data not None):
    """Return the tensor of bytes that begin with a whole Tensor message; None for others, which `Framer` must check."""
    cdef const uint8_t* start = <const uint8_t*> PyBytes_AS_STRING(data)
    cdef CutMessage cut
    cdef Envelope envelope
    cdef Fault fault
    if (cut_message(start, PyBytes_GET_SIZE(data), &default_bounds, &cut) != FRAME_MESSAGE
            or open_message(cut.metadata, cut.metadata_size, &envelope, &fault) < 0
            or envelope.kind != MessageHeader_Tensor or envelope.body_length > cut.rest_size):
        return None
    return open_tensor(&envelope.header, cut.rest, envelope.body_length, data, &default_bounds)


# -- for messages --------------------------------------------------------------------------------------------


def body_of(Tensor tensor not None):
    """Return the strides (None: row-major) and the buffer with which a tensor is stored.

    Contiguous elements are stored in memory order, whatever the order of dimensions; others are copied row-major.
    """
    cdef int64_t strides[MOST_DIMENSIONS]
    if tensor.count == 0 or tensor.width == 0:
        return None, b""
    if tensor.in_rows():
        return None, window(tensor.data, tensor.nbytes, tensor)
    if stored_strides(tensor._ndim, tensor.dims, tensor.dims + tensor._ndim, tensor.width, strides):
        return tuple([strides[i] for i in range(tensor._ndim)]), window(tensor.data, tensor.nbytes, tensor)
    return None, gathered(tensor.data, tensor, tensor._ndim, tensor.dims, tensor.dims + tensor._ndim, tensor.width)


# (shape and strides, type, names, head) of recent messages: programs often write many tensors of the same form.
cdef Recent recent_heads = Recent(16)


cdef bint is_head_of(object thing, const void* wanted) except -1:
    cdef Tensor tensor = <Tensor> wanted
    form, kind, names, _ = <tuple> thing
    return (PyBytes_GET_SIZE(form) == 16 * tensor._ndim
            and (tensor._ndim == 0 or memcmp(PyBytes_AS_STRING(form), tensor.dims, 16 * tensor._ndim) == 0)
            and (kind is tensor.type or kind == tensor.type) and names == tensor.dim_names)


def recent_head(Tensor tensor not None):
    """Return the head of an earlier tensor of the same form; None if there is none."""
    found = recent_heads.again(<void*> tensor, is_head_of)
    if found is None:
        found = recent_heads.find(tensor._ndim, <void*> tensor, is_head_of)
    return None if found is None else found[3]


def remember_head(Tensor tensor not None, bytes head not None):
    """Keep a head for `recent_head`."""
    form = PyBytes_FromStringAndSize(<const char*> tensor.dims, 16 * tensor._ndim)
    recent_heads.keep((form, tensor.type, tensor.dim_names, head), tensor._ndim)


def joined(bytes head not None, buffer, int64_t stored):
    """Return a head and a buffer as bytes, with zeros up to `stored` bytes behind the head."""
    cdef Gathered pieces
    cdef uint8_t* at
    if isinstance(buffer, Gathered):
        pieces, buffer = buffer, bytearray(buffer.nbytes)
        at = buffer
        with nogil:
            gather_all(pieces, at)
    return b"".join((head, buffer, bytes(stored - len(buffer))))


# -- equality ------------------------------------------------------------------------------------------------


cdef Tensor arrow_tensor(object other):
    """Return a Tensor, or another Arrow library's tensor as one; None for other objects, also of NumPy and torch."""
    if isinstance(other, Tensor):
        return other
    return Tensor(other.to_numpy()) if is_tensor(other) else None


cdef bint is_tensor(object other) except -1:
    return hasattr(other, "dim_names") and hasattr(other, "__dlpack__")     # arrays of NumPy and torch lack dim_names


cdef bint same(Tensor a, Tensor b, bint nan_equal) except -1:
    """Whether two tensors have equal types, shapes and values: floats as numbers, others by their bytes."""
    if a._ndim != b._ndim or a.type != b.type:
        return False
    if a._ndim and memcmp(a.dims, b.dims, a._ndim * sizeof(int64_t)) != 0:
        return False
    if a.count == 0 or a.width == 0:
        return True
    if isinstance(a.type, FloatingPoint):
        return numpy_module().array_equal(a.to_numpy(), b.to_numpy(), equal_nan=nan_equal)
    a, b = a.packed(), b.packed()
    return memcmp(a.data, b.data, a.count * a.width) == 0
