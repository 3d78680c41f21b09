"""Tensors as DLPack capsules, which other libraries take without a copy and release when they like."""

from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from arrowipc._tensor cimport Tensor

from arrowipc._datatypes import Bool, FloatingPoint, Int
from arrowipc._tensor import row_major_copy

cdef extern from "Python.h" nogil:
    bint Py_IsInitialized() noexcept

cdef extern from "Python.h":
    void Py_DECREF(PyObject* o) noexcept

cdef extern from * nogil:
    """
    #if PY_VERSION_HEX >= 0x030D0000
    #define arrowipc_finalizing Py_IsFinalizing
    #else
    #define arrowipc_finalizing _Py_IsFinalizing
    #endif

    /* The structs of DLPack 1.0, which are its ABI. */
    typedef struct { int32_t device_type; int32_t device_id; } arrowipc_DLDevice;
    typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } arrowipc_DLDataType;
    typedef struct {
        void* data;
        arrowipc_DLDevice device;
        int32_t ndim;
        arrowipc_DLDataType dtype;
        int64_t* shape;
        int64_t* strides;           /* in elements */
        uint64_t byte_offset;
    } arrowipc_DLTensor;
    typedef struct arrowipc_DLManagedTensor {
        arrowipc_DLTensor dl_tensor;
        void* manager_ctx;
        void (*deleter)(struct arrowipc_DLManagedTensor*);
    } arrowipc_DLManagedTensor;
    typedef struct arrowipc_DLManagedTensorVersioned {
        struct { uint32_t major; uint32_t minor; } version;
        void* manager_ctx;
        void (*deleter)(struct arrowipc_DLManagedTensorVersioned*);
        uint64_t flags;
        arrowipc_DLTensor dl_tensor;
    } arrowipc_DLManagedTensorVersioned;
    """
    bint finalizing "arrowipc_finalizing"() noexcept

    struct DLDevice "arrowipc_DLDevice":
        int32_t device_type
        int32_t device_id

    struct DLDataType "arrowipc_DLDataType":
        uint8_t code
        uint8_t bits
        uint16_t lanes

    ctypedef struct DLTensor "arrowipc_DLTensor":
        void* data
        DLDevice device
        int32_t ndim
        DLDataType dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset

    ctypedef struct DLManagedTensor "arrowipc_DLManagedTensor":
        DLTensor dl_tensor
        void* manager_ctx
        void (*deleter)(DLManagedTensor*) noexcept nogil

    struct DLPackVersion:
        uint32_t major
        uint32_t minor

    ctypedef struct DLManagedTensorVersioned "arrowipc_DLManagedTensorVersioned":
        DLPackVersion version
        void* manager_ctx
        void (*deleter)(DLManagedTensorVersioned*) noexcept nogil
        uint64_t flags
        DLTensor dl_tensor

    int64_t atomic_add "__atomic_add_fetch"(int64_t* counter, int64_t by, int order) noexcept

cdef enum:
    RELAXED = 0
    DEVICE_CPU = 1
    FLAG_READ_ONLY = 1
    FLAG_IS_COPIED = 2
    CODE_INT = 0
    CODE_UINT = 1
    CODE_FLOAT = 2
    CODE_BOOL = 6

cdef const char* PLAIN = "dltensor"
cdef const char* VERSIONED = "dltensor_versioned"

# Structs that nobody has freed yet.
cdef int64_t live = 0


def live_dlpack():
    """Count the DLPack structs that are not released yet: a seam for leak tests."""
    return atomic_add(&live, 0, RELAXED)


def export(Tensor tensor not None, stream, max_version, dl_device, copy):
    """See `Tensor.__dlpack__`.

    Raises
    ------
    BufferError
        What DLPack's protocol asks for when memory cannot be handed over like this.
    """
    cdef bint versioned = max_version is not None and tuple(max_version) >= (1, 0)
    cdef bint copied
    cdef uint64_t flags
    if stream is not None:
        raise BufferError(f"this memory is on the CPU, which has no streams; found stream={stream!r}")
    if dl_device is not None and tuple(dl_device) != (DEVICE_CPU, 0):
        raise BufferError(f"this memory is on the CPU, device (1, 0); asked for {tuple(dl_device)}")
    dtype = dtype_of(tensor)
    # Consumers from before version 1 take memory for writable; and strides count elements.
    needed = not versioned or not in_elements(tensor)
    if copy is False and needed:
        raise BufferError("this memory is read-only, or its strides are no multiples of an element: it needs a copy, "
                          "or a consumer of DLPack 1.0")
    copied = copy is True or needed
    if copied:
        tensor = Tensor(copy_of(tensor), None, tensor.type)
    flags = FLAG_IS_COPIED if copied else FLAG_READ_ONLY
    return capsule_versioned(tensor, dtype, flags) if versioned else capsule_plain(tensor, dtype)


cdef object copy_of(Tensor tensor):
    import numpy as np
    from arrowipc._elements import dtype_of as numpy_dtype

    if tensor.count == 0:
        return np.empty(tensor.shape, numpy_dtype(tensor.type))
    return np.frombuffer(row_major_copy(tensor), numpy_dtype(tensor.type)).reshape(tensor.shape)


cdef tuple dtype_of(Tensor tensor):
    """Code and bits of the elements."""
    kind = tensor.type
    if isinstance(kind, Int):
        return (CODE_INT if kind.signed else CODE_UINT, 8 * tensor.width)
    if isinstance(kind, FloatingPoint):
        return (CODE_FLOAT, 8 * tensor.width)
    if isinstance(kind, Bool):
        return (CODE_BOOL, 8)
    raise BufferError(f"DLPack has no type for {kind}: hand over numbers, for instance to_numpy().view('int64')")


cdef bint in_elements(Tensor tensor) noexcept:
    cdef int32_t i
    for i in range(tensor._ndim):
        if tensor.dims[tensor._ndim + i] % tensor.width:
            return False
    return True


cdef int fill(DLTensor* out, Tensor tensor, tuple dtype, int64_t* dims) noexcept:
    """Describe the tensor; `dims` has room for shape and strides and lives as long as `out`."""
    cdef int32_t i, ndim = tensor._ndim
    for i in range(ndim):
        dims[i] = tensor.dims[i]
        dims[ndim + i] = tensor.dims[ndim + i] // tensor.width
    out.data = <void*> tensor.data
    out.device.device_type = DEVICE_CPU
    out.device.device_id = 0
    out.ndim = ndim
    out.dtype.code = dtype[0]
    out.dtype.bits = dtype[1]
    out.dtype.lanes = 1
    out.shape = dims
    out.strides = dims + ndim
    out.byte_offset = 0
    return 0


cdef void* block_for(Tensor tensor, size_t size) except NULL:
    """Memory for a struct of `size` bytes, a multiple of 8, and shape and strides behind it."""
    cdef void* block = malloc(size + 2 * tensor._ndim * sizeof(int64_t))
    if block == NULL:
        raise MemoryError()
    memset(block, 0, size)
    atomic_add(&live, 1, RELAXED)
    Py_INCREF(tensor)
    return block


cdef object capsule_plain(Tensor tensor, tuple dtype):
    cdef DLManagedTensor* made = <DLManagedTensor*> block_for(tensor, sizeof(DLManagedTensor))
    fill(&made.dl_tensor, tensor, dtype, <int64_t*> (made + 1))
    made.manager_ctx = <void*> tensor
    made.deleter = delete_plain
    try:
        return PyCapsule_New(made, PLAIN, drop_plain)
    except BaseException:
        delete_plain(made)
        raise


cdef object capsule_versioned(Tensor tensor, tuple dtype, uint64_t flags):
    cdef DLManagedTensorVersioned* made = <DLManagedTensorVersioned*> block_for(tensor,
                                                                                sizeof(DLManagedTensorVersioned))
    fill(&made.dl_tensor, tensor, dtype, <int64_t*> (made + 1))
    made.version.major = 1
    made.version.minor = 0
    made.flags = flags
    made.manager_ctx = <void*> tensor
    made.deleter = delete_versioned
    try:
        return PyCapsule_New(made, VERSIONED, drop_versioned)
    except BaseException:
        delete_versioned(made)
        raise


# -- release: from any thread, with or without the GIL, also while an exception is on its way ----------------


cdef void delete_plain(DLManagedTensor* made) noexcept nogil:
    let_go(made.manager_ctx)
    free(made)


cdef void delete_versioned(DLManagedTensorVersioned* made) noexcept nogil:
    let_go(made.manager_ctx)
    free(made)


cdef void let_go(void* tensor) noexcept nogil:
    atomic_add(&live, -1, RELAXED)
    if not Py_IsInitialized() or finalizing():
        return      # there is no interpreter left to give it back to
    with gil:
        drop_reference(<PyObject*> tensor)


cdef void drop_reference(PyObject* tensor) noexcept:
    cdef PyObject* kind = NULL
    cdef PyObject* value = NULL
    cdef PyObject* traceback = NULL
    PyErr_Fetch(&kind, &value, &traceback)
    Py_DECREF(tensor)
    PyErr_Restore(kind, value, traceback)


cdef void drop_plain(object capsule) noexcept:
    """A capsule that nobody has taken: a consumer renames it."""
    cdef DLManagedTensor* made
    if PyCapsule_IsValid(capsule, PLAIN):
        made = <DLManagedTensor*> PyCapsule_GetPointer(capsule, PLAIN)
        made.deleter(made)


cdef void drop_versioned(object capsule) noexcept:
    cdef DLManagedTensorVersioned* made
    if PyCapsule_IsValid(capsule, VERSIONED):
        made = <DLManagedTensorVersioned*> PyCapsule_GetPointer(capsule, VERSIONED)
        made.deleter(made)
