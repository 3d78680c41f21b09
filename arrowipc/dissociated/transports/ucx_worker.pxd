"""The parts of UCX's binary interface, version 1.13, that arrowipc uses: structs, numbers and function types.

They are declared here and not taken from headers, so that arrowipc is built without UCX, and one build works with any
library from 1.13 on: structs begin with a mask of the fields that are set, and later versions only append fields.
tests/dissociated/test_ucx.py compares sizes, places and numbers with the headers of installed libraries.
"""

from libc.stdint cimport int8_t, intptr_t, uint32_t, uint64_t, uintptr_t

# UCX's statuses are one byte; the other bytes of the register with a function's result are undefined.
ctypedef int8_t Status

cdef enum:
    UCS_OK = 0
    UCS_INPROGRESS = 1
    UCS_ERR_NO_MEMORY = -4
    UCS_ERR_BUSY = -15
    UCS_ERR_CANCELED = -16
    UCS_ERR_TIMED_OUT = -20
    UCS_ERR_REJECTED = -23
    UCS_ERR_NOT_CONNECTED = -24
    UCS_ERR_CONNECTION_RESET = -25
    UCS_ERR_ENDPOINT_TIMEOUT = -80
    UCS_ERR_LAST = -100

    UCS_THREAD_MODE_SERIALIZED = 1

    UCP_PARAM_FIELD_FEATURES = 1 << 0
    UCP_PARAM_FIELD_MT_WORKERS_SHARED = 1 << 5
    UCP_FEATURE_TAG = 1 << 0
    UCP_FEATURE_RMA = 1 << 1
    UCP_FEATURE_WAKEUP = 1 << 4
    UCP_FEATURE_STREAM = 1 << 5
    UCP_FEATURE_AM = 1 << 6

    UCP_WORKER_PARAM_FIELD_THREAD_MODE = 1 << 0
    UCP_WORKER_PARAM_FIELD_FLAGS = 1 << 5
    UCP_WORKER_PARAM_FIELD_CLIENT_ID = 1 << 8
    UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK = 1 << 0

    UCP_LISTENER_PARAM_FIELD_SOCK_ADDR = 1 << 0
    UCP_LISTENER_PARAM_FIELD_CONN_HANDLER = 1 << 2
    UCP_LISTENER_ATTR_FIELD_SOCKADDR = 1 << 0
    UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR = 1 << 0
    UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID = 1 << 1

    UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE = 1 << 1
    UCP_EP_PARAM_FIELD_ERR_HANDLER = 1 << 2
    UCP_EP_PARAM_FIELD_SOCK_ADDR = 1 << 4
    UCP_EP_PARAM_FIELD_FLAGS = 1 << 5
    UCP_EP_PARAM_FIELD_CONN_REQUEST = 1 << 6
    UCP_EP_PARAMS_FLAGS_CLIENT_SERVER = 1 << 0
    UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID = 1 << 2
    UCP_ERR_HANDLING_MODE_NONE = 0
    UCP_ERR_HANDLING_MODE_PEER = 1
    UCP_EP_CLOSE_FLAG_FORCE = 1 << 0

    UCP_OP_ATTR_FIELD_CALLBACK = 1 << 1
    UCP_OP_ATTR_FIELD_USER_DATA = 1 << 2
    UCP_OP_ATTR_FIELD_FLAGS = 1 << 4

    UCP_AM_HANDLER_PARAM_FIELD_ID = 1 << 0
    UCP_AM_HANDLER_PARAM_FIELD_CB = 1 << 2
    UCP_AM_HANDLER_PARAM_FIELD_ARG = 1 << 3
    UCP_AM_SEND_FLAG_REPLY = 1 << 0
    UCP_AM_RECV_ATTR_FLAG_RNDV = 1 << 17

    UCP_MEM_MAP_PARAM_FIELD_LENGTH = 1 << 1
    UCP_MEM_MAP_PARAM_FIELD_FLAGS = 1 << 2
    UCP_MEM_MAP_PARAM_FIELD_PROT = 1 << 3
    UCP_MEM_MAP_ALLOCATE = 1 << 1
    UCP_MEM_MAP_PROT_LOCAL_READ = 1 << 0
    UCP_MEM_MAP_PROT_LOCAL_WRITE = 1 << 1
    UCP_MEM_MAP_PROT_REMOTE_READ = 1 << 8
    UCP_MEM_ATTR_FIELD_ADDRESS = 1 << 0
    UCP_MEM_ATTR_FIELD_LENGTH = 1 << 1

ctypedef struct ucs_sock_addr_t:
    const void* addr
    uint32_t addrlen

ctypedef struct sockaddr_storage:
    uint64_t words[16]

ctypedef struct ucs_cpu_set_t:
    uint64_t ucs_bits[16]

ctypedef struct ucp_params_t:
    uint64_t field_mask
    uint64_t features
    size_t request_size
    void* request_init
    void* request_cleanup
    uint64_t tag_sender_mask
    int mt_workers_shared
    size_t estimated_num_eps
    size_t estimated_num_ppn
    const char* name

ctypedef struct ucp_worker_params_t:
    uint64_t field_mask
    int thread_mode
    ucs_cpu_set_t cpu_mask
    unsigned int events
    void* user_data
    int event_fd
    uint64_t flags
    const char* name
    size_t am_alignment
    uint64_t client_id

ctypedef struct ucp_listener_conn_handler_t:
    void (*cb)(void* conn_request, void* arg) noexcept nogil
    void* arg

ctypedef struct ucp_listener_params_t:
    uint64_t field_mask
    ucs_sock_addr_t sockaddr
    ucp_listener_conn_handler_t accept_handler      # the older handler, not used; it has the same layout
    ucp_listener_conn_handler_t conn_handler

ctypedef struct ucp_listener_attr_t:
    uint64_t field_mask
    sockaddr_storage sockaddr

ctypedef struct ucp_conn_request_attr_t:
    uint64_t field_mask
    sockaddr_storage client_address
    uint64_t client_id

ctypedef struct ucp_err_handler_t:
    void (*cb)(void* arg, void* ep, Status status) noexcept nogil
    void* arg

ctypedef struct ucp_ep_params_t:
    uint64_t field_mask
    const void* address
    int err_mode
    ucp_err_handler_t err_handler
    void* user_data
    unsigned int flags
    ucs_sock_addr_t sockaddr
    void* conn_request
    const char* name
    ucs_sock_addr_t local_sockaddr

ctypedef struct ucp_tag_recv_info_t:
    uint64_t sender_tag
    size_t length

# Callbacks for receiving have different parameters after `status`; they are cast to this type.
ctypedef void (*send_callback)(void* request, Status status, void* user_data) noexcept nogil

ctypedef struct ucp_request_param_t:
    uint32_t op_attr_mask
    uint32_t flags
    void* request
    send_callback cb
    uint64_t datatype
    void* user_data
    void* reply_buffer
    int memory_type
    void* recv_info
    void* memh

ctypedef struct ucp_am_recv_param_t:
    uint64_t recv_attr
    void* reply_ep

ctypedef struct ucp_am_handler_param_t:
    uint64_t field_mask
    unsigned int id
    uint32_t flags
    Status (*cb)(void* arg, const void* header, size_t header_length, void* data, size_t length,
                 const ucp_am_recv_param_t* param) noexcept nogil
    void* arg

ctypedef struct ucp_mem_map_params_t:
    uint64_t field_mask
    void* address
    size_t length
    unsigned int flags
    unsigned int prot
    int memory_type

ctypedef struct ucp_mem_attr_t:
    uint64_t field_mask
    void* address
    size_t length
    int mem_type

# The library's functions; members have their names without the prefix ("ucp_" or "ucs_").
cdef struct Ucp:
    void (*get_version)(unsigned int* major, unsigned int* minor, unsigned int* release) noexcept nogil
    const char* (*status_string)(Status status) noexcept nogil
    Status (*config_read)(const char* prefix, const char* file, void** config) noexcept nogil
    Status (*config_modify)(void* config, const char* name, const char* value) noexcept nogil
    void (*config_release)(void* config) noexcept nogil
    Status (*init_version)(unsigned int major, unsigned int minor, const ucp_params_t* params, const void* config,
                           void** context) noexcept nogil
    void (*cleanup)(void* context) noexcept nogil
    Status (*worker_create)(void* context, const ucp_worker_params_t* params, void** worker) noexcept nogil
    void (*worker_destroy)(void* worker) noexcept nogil
    unsigned int (*worker_progress)(void* worker) noexcept nogil
    Status (*worker_get_efd)(void* worker, int* fd) noexcept nogil
    Status (*worker_arm)(void* worker) noexcept nogil
    Status (*worker_signal)(void* worker) noexcept nogil
    Status (*worker_set_am_recv_handler)(void* worker, const ucp_am_handler_param_t* param) noexcept nogil
    Status (*listener_create)(void* worker, const ucp_listener_params_t* params, void** listener) noexcept nogil
    void (*listener_destroy)(void* listener) noexcept nogil
    Status (*listener_query)(void* listener, ucp_listener_attr_t* attr) noexcept nogil
    Status (*listener_reject)(void* listener, void* request) noexcept nogil
    Status (*conn_request_query)(void* request, ucp_conn_request_attr_t* attr) noexcept nogil
    Status (*ep_create)(void* worker, const ucp_ep_params_t* params, void** ep) noexcept nogil
    void* (*ep_close_nbx)(void* ep, const ucp_request_param_t* param) noexcept nogil
    void* (*ep_flush_nbx)(void* ep, const ucp_request_param_t* param) noexcept nogil
    void* (*tag_send_nbx)(void* ep, const void* buffer, size_t count, uint64_t tag,
                          const ucp_request_param_t* param) noexcept nogil
    void* (*tag_send_sync_nbx)(void* ep, const void* buffer, size_t count, uint64_t tag,
                               const ucp_request_param_t* param) noexcept nogil
    void* (*tag_probe_nb)(void* worker, uint64_t tag, uint64_t mask, int remove,
                          ucp_tag_recv_info_t* info) noexcept nogil
    void* (*tag_msg_recv_nbx)(void* worker, void* buffer, size_t count, void* message,
                              const ucp_request_param_t* param) noexcept nogil
    void* (*am_send_nbx)(void* ep, unsigned int id, const void* header, size_t header_length, const void* buffer,
                         size_t count, const ucp_request_param_t* param) noexcept nogil
    void* (*am_recv_data_nbx)(void* worker, void* descriptor, void* buffer, size_t count,
                              const ucp_request_param_t* param) noexcept nogil
    void (*am_data_release)(void* worker, void* data) noexcept nogil
    void* (*get_nbx)(void* ep, void* buffer, size_t count, uint64_t address, void* rkey,
                     const ucp_request_param_t* param) noexcept nogil
    void (*request_free)(void* request) noexcept nogil
    Status (*mem_map)(void* context, const ucp_mem_map_params_t* params, void** memory) noexcept nogil
    Status (*mem_unmap)(void* context, void* memory) noexcept nogil
    Status (*mem_query)(const void* memory, ucp_mem_attr_t* attr) noexcept nogil
    Status (*rkey_pack)(void* context, void* memory, void** out, size_t* size) noexcept nogil
    void (*rkey_buffer_release)(void* packed) noexcept nogil
    Status (*ep_rkey_unpack)(void* ep, const void* packed, void** rkey) noexcept nogil
    Status (*rkey_ptr)(void* rkey, uint64_t address, void** out) noexcept nogil
    void (*rkey_destroy)(void* rkey) noexcept nogil


cdef inline bint is_error(void* result) noexcept nogil:
    """Whether the result of a function that returns a request or NULL is an error status."""
    return <uintptr_t> result >= <uintptr_t> <intptr_t> UCS_ERR_LAST
