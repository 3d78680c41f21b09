# The structs of the Arrow C data, stream and device interfaces, and functions that fill them from arrowipc's objects.
from libc.stdint cimport int32_t, int64_t

# The layout is an ABI; each part has a guard macro that every project uses: the header that comes first wins.
cdef extern from * nogil:
    """
    #include <stdint.h>

    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    #define ARROW_FLAG_DICTIONARY_ORDERED 1
    #define ARROW_FLAG_NULLABLE 2
    #define ARROW_FLAG_MAP_KEYS_SORTED 4
    struct ArrowSchema {
        const char* format;
        const char* name;
        const char* metadata;
        int64_t flags;
        int64_t n_children;
        struct ArrowSchema** children;
        struct ArrowSchema* dictionary;
        void (*release)(struct ArrowSchema*);
        void* private_data;
    };
    struct ArrowArray {
        int64_t length;
        int64_t null_count;
        int64_t offset;
        int64_t n_buffers;
        int64_t n_children;
        const void** buffers;
        struct ArrowArray** children;
        struct ArrowArray* dictionary;
        void (*release)(struct ArrowArray*);
        void* private_data;
    };
    #endif

    #ifndef ARROW_C_DEVICE_DATA_INTERFACE
    #define ARROW_C_DEVICE_DATA_INTERFACE
    typedef int32_t ArrowDeviceType;
    #define ARROW_DEVICE_CPU 1
    struct ArrowDeviceArray {
        struct ArrowArray array;
        int64_t device_id;
        ArrowDeviceType device_type;
        void* sync_event;
        int64_t reserved[3];
    };
    #endif

    #ifndef ARROW_C_STREAM_INTERFACE
    #define ARROW_C_STREAM_INTERFACE
    struct ArrowArrayStream {
        int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
        int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
        const char* (*get_last_error)(struct ArrowArrayStream*);
        void (*release)(struct ArrowArrayStream*);
        void* private_data;
    };
    #endif

    #ifndef ARROW_C_DEVICE_STREAM_INTERFACE
    #define ARROW_C_DEVICE_STREAM_INTERFACE
    struct ArrowDeviceArrayStream {
        ArrowDeviceType device_type;
        int (*get_schema)(struct ArrowDeviceArrayStream*, struct ArrowSchema* out);
        int (*get_next)(struct ArrowDeviceArrayStream*, struct ArrowDeviceArray* out);
        const char* (*get_last_error)(struct ArrowDeviceArrayStream*);
        void (*release)(struct ArrowDeviceArrayStream*);
        void* private_data;
    };
    #endif
    """
    const int64_t ARROW_FLAG_DICTIONARY_ORDERED
    const int64_t ARROW_FLAG_NULLABLE
    const int64_t ARROW_FLAG_MAP_KEYS_SORTED
    const int32_t ARROW_DEVICE_CPU

    struct ArrowSchema:
        const char* format
        const char* name            # NULL or "": no name
        const char* metadata        # int32 count of pairs, then int32 size and bytes of each key and value
        int64_t flags
        int64_t n_children
        ArrowSchema** children
        ArrowSchema* dictionary
        void (*release)(ArrowSchema*) noexcept nogil    # NULL: released, or moved elsewhere
        void* private_data

    struct ArrowArray:
        int64_t length
        int64_t null_count          # -1: not counted
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void** buffers
        ArrowArray** children
        ArrowArray* dictionary
        void (*release)(ArrowArray*) noexcept nogil     # NULL: released, or moved elsewhere
        void* private_data

    struct ArrowDeviceArray:
        ArrowArray array
        int64_t device_id
        int32_t device_type
        void* sync_event
        int64_t reserved[3]

    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream*, ArrowSchema* out) noexcept nogil
        int (*get_next)(ArrowArrayStream*, ArrowArray* out) noexcept nogil
        const char* (*get_last_error)(ArrowArrayStream*) noexcept nogil
        void (*release)(ArrowArrayStream*) noexcept nogil
        void* private_data

    struct ArrowDeviceArrayStream:
        int32_t device_type
        int (*get_schema)(ArrowDeviceArrayStream*, ArrowSchema* out) noexcept nogil
        int (*get_next)(ArrowDeviceArrayStream*, ArrowDeviceArray* out) noexcept nogil
        const char* (*get_last_error)(ArrowDeviceArrayStream*) noexcept nogil
        void (*release)(ArrowDeviceArrayStream*) noexcept nogil
        void* private_data


# An `arrow_device_array` capsule of a RecordBatch or Array whose memory is on that device; it is not read.
cdef object device_capsule(object exported, int32_t device_type, int64_t device_id, void* sync_event)
# Refuse a `requested_schema` that is neither None nor an `arrow_schema` capsule.
cdef int check_requested(object requested_schema) except -1
