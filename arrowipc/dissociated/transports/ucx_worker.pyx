"""The UCX calls that a connection needs: the library and its contexts, workers, messages, memory, listeners.

`ucx_library` finds the library at run time; nothing is linked. `ucx_worker.pxd` declares its binary interface.

No call waits: a task that takes longer is an `Operation`, which `Worker.progress` completes. UCX's callbacks run inside
that call and without the GIL: they write into C structs, which `progress` reads afterwards.
"""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, intptr_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from arrowipc._core cimport Memory, Source, export_bytes, window

from arrowipc.errors import UsageError

cdef extern from * nogil:
    """
    #include <pthread.h>
    """
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil,
                       void (*child)() noexcept nogil)


# -- the library and its contexts ----------------------------------------------------------------------------

cdef Ucp ucp                        # zeros: no library is loaded
cdef int forks                      # number of forks, of this process and its ancestors, since the library was loaded


cdef void count_fork() noexcept nogil:
    global forks
    forks += 1


FUNCTIONS = (
    "ucp_get_version", "ucs_status_string", "ucp_config_read", "ucp_config_modify", "ucp_config_release",
    "ucp_init_version", "ucp_cleanup", "ucp_worker_create", "ucp_worker_destroy", "ucp_worker_progress",
    "ucp_worker_get_efd", "ucp_worker_arm", "ucp_worker_signal", "ucp_worker_set_am_recv_handler",
    "ucp_listener_create", "ucp_listener_destroy", "ucp_listener_query", "ucp_listener_reject",
    "ucp_conn_request_query", "ucp_ep_create", "ucp_ep_close_nbx", "ucp_ep_flush_nbx", "ucp_tag_send_nbx",
    "ucp_tag_send_sync_nbx", "ucp_tag_probe_nb", "ucp_tag_msg_recv_nbx", "ucp_am_send_nbx", "ucp_am_recv_data_nbx",
    "ucp_am_data_release", "ucp_get_nbx", "ucp_request_free", "ucp_mem_map", "ucp_mem_unmap", "ucp_mem_query",
    "ucp_rkey_pack", "ucp_rkey_buffer_release", "ucp_ep_rkey_unpack", "ucp_rkey_ptr", "ucp_rkey_destroy",
)


def take_functions(list addresses not None):
    """Set the addresses of the library's functions, in the order of FUNCTIONS."""
    cdef Ucp found
    cdef void** slot = <void**> &found
    # The members of the struct are the functions in the same order.
    for address in addresses:
        slot[0] = <void*> <uintptr_t> address
        slot += 1
    if ucp.get_version == NULL:
        pthread_atfork(NULL, NULL, count_fork)
    memcpy(&ucp, &found, sizeof(Ucp))


def version():
    """Return major, minor and release number of the library; None if none is loaded."""
    cdef unsigned int major, minor, release
    if ucp.get_version == NULL:
        return None
    ucp.get_version(&major, &minor, &release)
    return major, minor, release


cdef str status_text(Status status):
    return f"{ucp.status_string(status).decode()} ({status})"


cdef dict ERRORS = {
    UCS_ERR_NO_MEMORY: MemoryError, UCS_ERR_REJECTED: ConnectionRefusedError, UCS_ERR_TIMED_OUT: TimeoutError,
    **dict.fromkeys((UCS_ERR_CONNECTION_RESET, UCS_ERR_NOT_CONNECTED, UCS_ERR_CANCELED), ConnectionResetError),
    UCS_ERR_ENDPOINT_TIMEOUT: ConnectionResetError,  # a peer that is gone no longer answers
}


cdef object failure_of(Status status, str what):
    """Return the exception for a call that failed."""
    return ERRORS.get(status, OSError)(f"{what}: {status_text(status)}")


cdef int check(Status status, str what) except -1:
    if status < 0:
        raise failure_of(status, what)
    return 0


cdef class Context:
    """The common state of the workers of one process: devices and settings."""

    cdef void* handle
    cdef int forks                  # the value of `forks` when it was made

    def __cinit__(self, settings, bint remote_memory):
        cdef void* config
        cdef ucp_params_t params
        if ucp.get_version == NULL:
            raise UsageError("no UCX library is loaded")
        self.forks = forks
        check(ucp.config_read(NULL, NULL, &config), "UCX: reading its settings")
        try:
            for name, value in settings.items():
                ucp.config_modify(config, name.encode(), value.encode())
            memset(&params, 0, sizeof(params))
            params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED
            params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_WAKEUP
            if remote_memory:
                params.features |= UCP_FEATURE_RMA
            params.mt_workers_shared = 1
            check(ucp.init_version(1, 13, &params, config, &self.handle), "UCX: making a context")
        finally:
            ucp.config_release(config)

    cpdef int check(self) except -1:
        """Raise a `UsageError` if an ancestor of this process made it, before a fork."""
        if self.forks != forks:
            raise UsageError("UCX does not work in a process that was forked from the one that used it: connect "
                             "anew in a process that was started (spawn), or before anything uses UCX")
        return 0

    def __dealloc__(self):
        if self.handle != NULL and self.forks == forks:
            ucp.cleanup(self.handle)


cdef enum:
    ACTIVE_MESSAGE = 0          # the id of untagged messages
    ROUNDS = 64                 # most rounds of progress in one call
    LAST_ROUNDS = 10_000        # most rounds of progress to wait for the forced end of a connection
    PACKED_KEY = 1 << 16        # more bytes than any packed key has


# -- data of callbacks ---------------------------------------------------------------------------------------


cdef struct Queued:                 # an element of a queue: the structs below begin with the same field
    Queued* next

cdef struct Queue:
    Queued* first
    Queued* last

cdef struct Arrived:                # an untagged message
    Queued* next
    void* descriptor                # of a message that is still at the sender; NULL: its bytes follow this struct
    size_t length

cdef struct Ticket:                 # the state of an operation
    Ticket* next
    Mailbox* mailbox
    PyObject* operation             # borrowed: the worker holds it until the ticket is finished
    void* request
    Status status
    bint is_done

cdef struct Mailbox:                # the results of a worker's callbacks
    Queue arrived
    Ticket* finished
    Status failure                  # of the connection

cdef struct ConnectionRequest:      # a client that wants to connect to a listener
    Queued* next
    void* handle


cdef void append(Queue* queue, Queued* last) noexcept nogil:
    last.next = NULL
    if queue.last == NULL:
        queue.first = last
    else:
        queue.last.next = last
    queue.last = last


cdef Queued* pop(Queue* queue) noexcept nogil:
    """Remove and return the first element of a queue, which the caller frees; NULL if it is empty."""
    cdef Queued* first = queue.first
    if first != NULL:
        queue.first = first.next
        if first.next == NULL:
            queue.last = NULL
    return first


cdef void finish(void* request, Status status, Ticket* ticket) noexcept nogil:
    if ticket.request != NULL:
        ucp.request_free(request)
    ticket.request = NULL
    ticket.status = status
    ticket.is_done = True
    ticket.next = ticket.mailbox.finished
    ticket.mailbox.finished = ticket


cdef void on_sent(void* request, Status status, void* user_data) noexcept nogil:
    finish(request, status, <Ticket*> user_data)


cdef void on_received(void* request, Status status, const void* length, void* user_data) noexcept nogil:
    finish(request, status, <Ticket*> user_data)


cdef void on_failure(void* arg, void* ep, Status status) noexcept nogil:
    cdef Mailbox* mailbox = <Mailbox*> arg
    if mailbox.failure == UCS_OK:
        mailbox.failure = status


cdef Status on_message(void* arg, const void* header, size_t header_length, void* data, size_t length,
                       const ucp_am_recv_param_t* param) noexcept nogil:
    cdef Mailbox* mailbox = <Mailbox*> arg
    cdef bint stays = param.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV
    cdef Arrived* arrived = <Arrived*> malloc(sizeof(Arrived) + (0 if stays else length))
    if arrived == NULL:
        on_failure(mailbox, NULL, UCS_ERR_NO_MEMORY)
        return UCS_OK
    arrived.length = length
    arrived.descriptor = data if stays else NULL
    if not stays and length:
        # UCX owns the bytes, with or without FLAG_DATA, and takes them back when this function returns UCS_OK.
        memcpy(<uint8_t*> arrived + sizeof(Arrived), data, length)
    append(&mailbox.arrived, <Queued*> arrived)
    return UCS_INPROGRESS if stays else UCS_OK


cdef void on_connection_request(void* handle, void* queue) noexcept nogil:
    cdef ConnectionRequest* request = <ConnectionRequest*> malloc(sizeof(ConnectionRequest))
    if request == NULL:
        return      # the client waits until its own timeout
    request.handle = handle
    append(<Queue*> queue, <Queued*> request)


# -- workers -------------------------------------------------------------------------------------------------


@cython.final
cdef class Operation:
    """A task of a worker, or a message that has arrived and can be received."""

    cdef Ticket ticket
    cdef void* handle               # of a message that waits to be received; its bytes may still be at the sender
    cdef Source held                # the memory that the operation reads
    cdef Py_buffer target           # the memory that it writes
    cdef bint has_target
    cdef bint is_send
    cdef readonly int64_t length
    cdef readonly object tag        # of a message that is received; None: untagged
    cdef readonly object memory     # of a received message; set at once for an untagged one whose bytes have arrived

    def is_done(self):
        """Return whether it has ended, successfully or not."""
        return self.ticket.is_done

    @property
    def status(self):
        """int: negative if it failed."""
        return self.ticket.status

    def failure(self, str what):
        """Return the exception for its failure."""
        return failure_of(self.ticket.status, what)

    def __dealloc__(self):
        if self.has_target:
            PyBuffer_Release(&self.target)


cdef Source gathered(stretches):
    """Join stretches into one block for sending: over a network, UCX takes four times as long to gather them."""
    cdef list sources = []
    cdef Source source
    cdef Memory memory
    cdef int64_t total = 0
    cdef uint8_t* out
    for stretch in stretches:
        source = Source(stretch)
        if source.size:
            sources.append(source)
            total += source.size
    if len(sources) == 1:
        return sources[0]
    memory = Memory(total)
    memory.size = total
    out = memory.data
    for source in sources:
        with nogil:
            memcpy(out, source.data, source.size)
        out += source.size
    return Source(memory)


cdef inline void use(ucp_request_param_t* param, Operation operation, void* callback) noexcept:
    memset(param, 0, sizeof(ucp_request_param_t))
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA
    param.cb = <send_callback> callback
    param.user_data = &operation.ticket


@cython.final
@cython.no_gc_clear
cdef class Worker:
    """One end of one connection; connections never share a worker, because tags do not distinguish them."""

    cdef Context context
    cdef void* handle
    cdef void* ep
    cdef Mailbox mailbox
    cdef set outstanding
    cdef list spent                 # handles of keys that are no longer used, to be destroyed
    cdef bint peer_errors
    cdef int64_t keys               # number of keys in use
    cdef readonly int64_t unsent    # bytes of messages that are not sent yet, plus 1 for each message
    cdef bint is_closed

    def __cinit__(self, Context context not None, uint64_t client_id=0):
        cdef ucp_worker_params_t params
        cdef ucp_am_handler_param_t handler
        context.check()
        self.context = context
        self.outstanding = set()
        self.spent = []
        memset(&params, 0, sizeof(params))
        params.field_mask = (UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS
                             | UCP_WORKER_PARAM_FIELD_CLIENT_ID)
        params.thread_mode = UCS_THREAD_MODE_SERIALIZED
        params.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK
        params.client_id = client_id
        check(ucp.worker_create(context.handle, &params, &self.handle), "UCX: making a worker")
        memset(&handler, 0, sizeof(handler))
        handler.field_mask = (UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB
                              | UCP_AM_HANDLER_PARAM_FIELD_ARG)
        handler.id = ACTIVE_MESSAGE
        handler.cb = on_message
        handler.arg = &self.mailbox
        check(ucp.worker_set_am_recv_handler(self.handle, &handler), "UCX: waiting for active messages")

    cdef int check_open(self) except -1:
        self.context.check()
        if self.is_closed or self.handle == NULL:
            raise BrokenPipeError("the UCX connection is closed")
        return 0

    # -- the connection --

    def connect(self, bytes address not None, bint peer_errors):
        """Begin to connect to a listener; `address` is a struct sockaddr."""
        cdef ucp_ep_params_t params
        memset(&params, 0, sizeof(params))
        params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR
        params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER | UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID
        params.sockaddr.addr = PyBytes_AS_STRING(address)
        params.sockaddr.addrlen = <unsigned int> len(address)
        self.make_endpoint(&params, peer_errors)

    cdef int make_endpoint(self, ucp_ep_params_t* params, bint peer_errors) except -1:
        cdef Status status
        self.check_open()
        if self.ep != NULL:
            raise UsageError("a worker has one connection")
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER if peer_errors else UCP_ERR_HANDLING_MODE_NONE
        params.err_handler.cb = on_failure
        params.err_handler.arg = &self.mailbox
        self.peer_errors = peer_errors
        with nogil:
            status = ucp.ep_create(self.handle, params, &self.ep)
        if status < 0:
            self.ep = NULL
            raise failure_of(status, "UCX: connecting")
        return 0

    @property
    def failure(self):
        """int: the status with which the connection broke; 0 if it did not."""
        return self.mailbox.failure

    def failure_text(self):
        """Return `failure` in words."""
        return status_text(self.mailbox.failure)

    @property
    def num_outstanding(self):
        """int: number of operations that have begun and not ended."""
        return len(self.outstanding)

    # -- operations --

    cdef Operation begin(self):
        cdef Operation operation = Operation.__new__(Operation)
        self.check_open()
        operation.ticket.mailbox = &self.mailbox
        operation.ticket.operation = <PyObject*> operation
        return operation

    cdef object started(self, Operation operation, void* result, str what):
        """Return an operation; keep it alive until it has ended."""
        if result == NULL:
            operation.ticket.is_done = True
        elif is_error(result):
            raise failure_of(<Status> <intptr_t> result, what)
        else:
            operation.ticket.request = result
            self.outstanding.add(operation)
            if operation.is_send:
                self.unsent += operation.length + 1
        return operation

    def send(self, tag, stretches, bint synchronous=False):
        """Begin to send a message; `tag` None: an active message."""
        cdef Operation operation = self.begin()
        cdef ucp_request_param_t param
        cdef const void* buffer = NULL
        cdef size_t count
        cdef uint64_t number = 0 if tag is None else tag
        cdef bint is_tagged = tag is not None
        cdef void* result
        if self.ep == NULL:
            raise UsageError("the worker is not connected")
        check(self.mailbox.failure, "UCX: sending")
        operation.is_send = True
        use(&param, operation, <void*> on_sent)
        operation.held = gathered(stretches)
        operation.length = operation.held.size
        count = <size_t> operation.length
        if count:
            buffer = operation.held.data
        with nogil:
            if not is_tagged:
                param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS
                param.flags = UCP_AM_SEND_FLAG_REPLY
                result = ucp.am_send_nbx(self.ep, ACTIVE_MESSAGE, NULL, 0, buffer, count, &param)
            elif synchronous:
                result = ucp.tag_send_sync_nbx(self.ep, buffer, count, number, &param)
            else:
                result = ucp.tag_send_nbx(self.ep, buffer, count, number, &param)
        return self.started(operation, result, "UCX: sending")

    def probe(self, uint64_t tag, uint64_t mask):
        """Take the first message that has arrived with a tag that equals `tag` in the bits `mask`; None if none has."""
        cdef ucp_tag_recv_info_t info
        cdef Operation waiting = self.begin()
        waiting.handle = ucp.tag_probe_nb(self.handle, tag, mask, 1, &info)
        if waiting.handle == NULL:
            return None
        waiting.tag = info.sender_tag
        waiting.length = <int64_t> info.length
        return waiting

    def untagged(self):
        """Take the first untagged message that has arrived, or return None; its bytes are here if it has `memory`."""
        cdef Arrived* arrived = <Arrived*> self.mailbox.arrived.first
        cdef Memory memory
        cdef Operation waiting = self.begin()
        if arrived == NULL:
            return None
        waiting.length = <int64_t> arrived.length
        waiting.handle = arrived.descriptor
        if arrived.descriptor == NULL:
            memory = Memory(waiting.length)
            memory.size = waiting.length
            if waiting.length:
                memcpy(memory.data, <uint8_t*> arrived + sizeof(Arrived), arrived.length)
            waiting.memory = memory
        free(pop(&self.mailbox.arrived))
        return waiting

    def refuse(self, Operation waiting not None):
        """Discard an untagged message without receiving it."""
        cdef void* handle = waiting.handle
        self.check_open()
        if handle != NULL and waiting.tag is None:
            waiting.handle = NULL
            ucp.am_data_release(self.handle, handle)

    def receive(self, Operation operation not None, memory):
        """Begin to receive a message into `memory`, which must have its length."""
        cdef ucp_request_param_t param
        cdef void* handle = operation.handle
        cdef bint is_tagged = operation.tag is not None
        cdef void* result
        self.check_open()
        if handle == NULL or operation.has_target:
            raise UsageError("this message was received already")
        self.aim(operation, memory)
        if operation.target.len != operation.length:
            raise UsageError(f"a message of {operation.length:,} bytes, and memory of {operation.target.len:,}")
        use(&param, operation, <void*> on_received)
        operation.handle = NULL
        with nogil:
            if is_tagged:
                result = ucp.tag_msg_recv_nbx(self.handle, operation.target.buf, operation.length, handle, &param)
            else:
                result = ucp.am_recv_data_nbx(self.handle, handle, operation.target.buf, operation.length, &param)
        return self.started(operation, result, "UCX: receiving")

    def get(self, RemoteKey key not None, uint64_t address, memory):
        """Begin to copy memory of the peer from `address` on into `memory`."""
        cdef Operation operation = self.begin()
        cdef ucp_request_param_t param
        cdef void* result
        if key.worker is not self or self.ep == NULL:
            raise UsageError("the key belongs to another connection")
        check(self.mailbox.failure, "UCX: reading memory of the peer")
        self.aim(operation, memory)
        use(&param, operation, <void*> on_sent)
        with nogil:
            result = ucp.get_nbx(self.ep, operation.target.buf, operation.target.len, address, key.handle, &param)
        return self.started(operation, result, "UCX: reading memory of the peer")

    cdef int aim(self, Operation operation, memory) except -1:
        PyObject_GetBuffer(memory, &operation.target, PyBUF_WRITABLE)
        operation.has_target = True
        operation.memory = memory
        return 0

    def flush(self):
        """Begin to wait until all sent messages have left; also used to wait until a connection is made."""
        cdef Operation operation = self.begin()
        cdef ucp_request_param_t param
        cdef void* result
        use(&param, operation, <void*> on_sent)
        with nogil:
            result = ucp.ep_flush_nbx(self.ep, &param)
        return self.started(operation, result, "UCX: connecting")

    # -- progress --

    def progress(self):
        """Do what is possible without waiting; return the operations that have ended since the last call."""
        cdef int i
        cdef Ticket* ticket
        cdef Operation operation
        cdef list finished = []
        self.check_open()
        with nogil:
            for i in range(ROUNDS):
                if (ucp.worker_progress(self.handle) == 0 or self.mailbox.arrived.first != NULL
                        or self.mailbox.finished != NULL):
                    break
        ticket = self.mailbox.finished
        self.mailbox.finished = NULL
        while ticket != NULL:
            operation = <Operation> ticket.operation
            ticket = ticket.next
            self.outstanding.discard(operation)
            if operation.is_send:
                self.unsent -= operation.length + 1
            finished.append(operation)
        if not self.outstanding:
            self.drop_keys()
        finished.reverse()
        return finished

    def fileno(self):
        """Return the descriptor that becomes readable at the next event, after `arm`."""
        cdef int descriptor
        self.check_open()
        check(ucp.worker_get_efd(self.handle, &descriptor), "UCX: waiting")
        return descriptor

    def arm(self):
        """Get ready to wait; return False if there are events already."""
        cdef Status status
        self.check_open()
        with nogil:
            status = ucp.worker_arm(self.handle)
        if status == UCS_ERR_BUSY:
            return False
        check(status, "UCX: waiting")
        return True

    def signal(self):
        """Wake the threads that wait for `fileno`."""
        self.check_open()
        check(ucp.worker_signal(self.handle), "UCX: waking who waits")

    # -- the end --

    def hang_up(self):
        """Begin to end the connection; running operations are completed first."""
        cdef Operation operation = self.begin()
        cdef ucp_request_param_t param
        cdef void* result
        cdef void* ep = self.ep
        if ep == NULL:
            return self.started(operation, NULL, "")
        use(&param, operation, <void*> on_sent)
        self.ep = NULL
        with nogil:
            result = ucp.ep_close_nbx(ep, &param)
        return self.started(operation, result, "UCX: closing")

    def close(self):
        """Release the worker, as soon as nothing reads memory of the peer in place any more."""
        self.is_closed = True
        if self.keys == 0:
            self.destroy()

    cdef void destroy(self) noexcept:
        cdef void* handle = self.handle
        cdef Arrived* arrived
        cdef Operation operation
        cdef void* request
        cdef void* ep = self.ep
        self.handle = NULL
        self.ep = NULL
        if handle == NULL or self.context.forks != forks:
            return      # a forked process has a copy of UCX's memory, but not its threads
        while self.mailbox.arrived.first != NULL:
            arrived = <Arrived*> pop(&self.mailbox.arrived)
            if arrived.descriptor != NULL:
                ucp.am_data_release(handle, arrived.descriptor)
            free(arrived)
        if self.mailbox.failure == UCS_OK and self.is_needed(ep):
            self.break_off(handle, ep)
            if self.is_needed(ep):
                # Destroying the worker would abort the process in UCX 1.13, and free memory twice in 1.22. So leak it,
                # with the memory that it reads and writes; it is never progressed again.
                Py_INCREF(self.context)
                Py_INCREF(self.outstanding)
                return
        for operation in self.outstanding:
            if not operation.is_send and not operation.has_target and operation.ticket.request != NULL:
                # UCX 1.13 aborts the process if there is still a request for a flush or for the connection's end.
                request = operation.ticket.request
                operation.ticket.request = NULL
                ucp.request_free(request)
        self.drop_keys()
        with nogil:
            ucp.worker_destroy(handle)
        # Only now UCX can no longer read memory that is being sent, or write memory of messages being received.
        self.mailbox.finished = NULL
        self.outstanding = set()
        self.unsent = 0

    cdef void drop_keys(self) noexcept:
        """Destroy the keys in `spent`, which unmaps their memory."""
        while self.spent:
            ucp.rkey_destroy(<void*> <uintptr_t> self.spent.pop())

    cdef bint is_needed(self, void* ep):
        """Whether the worker must not be destroyed: messages or, with UCX before 1.18, other operations run."""
        cdef unsigned int major, minor, release
        cdef Operation operation
        ucp.get_version(&major, &minor, &release)
        for operation in self.outstanding:
            if not operation.ticket.is_done and (operation.is_send or operation.has_target
                                                 or ep != NULL and major == 1 and minor < 18):
                return True
        return False

    cdef void break_off(self, void* handle, void* ep) noexcept:
        """End the connection by force, because the peer does not receive the messages; only in mode "peer"."""
        cdef Operation operation
        cdef ucp_request_param_t param
        cdef void* result
        cdef int i
        if not self.peer_errors or ep == NULL:
            return
        operation = Operation.__new__(Operation)
        operation.ticket.mailbox = &self.mailbox
        use(&param, operation, <void*> on_sent)
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS
        param.flags = UCP_EP_CLOSE_FLAG_FORCE
        with nogil:
            result = ucp.ep_close_nbx(ep, &param)
            if result != NULL and not is_error(result):
                operation.ticket.request = result
                for i in range(LAST_ROUNDS):
                    ucp.worker_progress(handle)
                    if operation.ticket.is_done:
                        break
        self.outstanding.add(operation)

    def __dealloc__(self):
        if self.handle != NULL:
            self.destroy()


# -- memory that processes share ----------------------------------------------------------------------------


@cython.no_gc_clear
cdef class Region:
    """Memory of this process that peers can read; the context must have `remote_memory`. It is writable here."""

    cdef Context context
    cdef void* handle
    cdef void* data
    cdef readonly int64_t size
    cdef readonly bytes key         # the packed key that a peer needs

    def __cinit__(self, Context context not None, int64_t size):
        cdef ucp_mem_map_params_t params
        cdef ucp_mem_attr_t attributes
        cdef void* packed
        cdef size_t length
        context.check()
        self.context = context
        memset(&params, 0, sizeof(params))
        params.field_mask = (UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS
                             | UCP_MEM_MAP_PARAM_FIELD_PROT)
        params.length = <size_t> size
        # UCX must allocate the memory: peers on this machine can only map such memory.
        params.flags = UCP_MEM_MAP_ALLOCATE
        params.prot = UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_LOCAL_WRITE | UCP_MEM_MAP_PROT_REMOTE_READ
        check(ucp.mem_map(context.handle, &params, &self.handle), f"UCX: {size:,} bytes of memory for peers")
        memset(&attributes, 0, sizeof(attributes))
        attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH
        check(ucp.mem_query(self.handle, &attributes), "UCX: where its memory is")
        self.data = attributes.address
        self.size = <int64_t> attributes.length
        check(ucp.rkey_pack(context.handle, self.handle, &packed, &length), "UCX: the key of its memory")
        self.key = PyBytes_FromStringAndSize(<char*> packed, <Py_ssize_t> length)
        ucp.rkey_buffer_release(packed)

    @property
    def address(self):
        """int: address of the first byte."""
        return <uintptr_t> self.data

    def __getbuffer__(self, Py_buffer* view, int flags):
        export_bytes(self, view, <uint8_t*> self.data, self.size, True, flags)

    def __dealloc__(self):
        if self.handle != NULL and self.context.forks == forks:
            ucp.mem_unmap(self.context.handle, self.handle)


@cython.final
@cython.no_gc_clear
cdef class RemoteKey:
    """Access to memory of a peer; it keeps the connection's worker alive."""

    cdef Worker worker
    cdef void* handle

    def __cinit__(self, Worker worker not None, bytes packed not None):
        cdef Status status
        cdef const char* data
        worker.check_open()
        if len(packed) > PACKED_KEY or worker.ep == NULL:
            raise UsageError("the key is too long, or the worker not connected")
        # UCX does not get the length of a key: zeros behind it end one that was cut off.
        padded = packed + bytes(2 * PACKED_KEY)
        data = PyBytes_AS_STRING(padded)
        with nogil:
            status = ucp.ep_rkey_unpack(worker.ep, data, &self.handle)
        if status < 0:
            self.handle = NULL
            raise failure_of(status, "UCX: the key of the peer's memory")
        self.worker = worker
        worker.keys += 1

    def place(self, uint64_t address):
        """Return where the peer's `address` is mapped in this process, or None; UCX does not report the size."""
        cdef void* here = NULL
        cdef Status status = ucp.rkey_ptr(self.handle, address, &here)
        return None if status < 0 or here == NULL else <uintptr_t> here

    def mapped(self, uint64_t place, int64_t size):
        """Return memory of this process from `place` on; the caller must have checked that it is mapped."""
        return window(<const uint8_t*> <uintptr_t> place, size, self)

    def __dealloc__(self):
        if self.handle == NULL:
            return
        # This may run in any thread while another one progresses the worker: so leave the key to the worker.
        self.worker.spent.append(<uintptr_t> self.handle)
        self.worker.keys -= 1
        if self.worker.keys == 0 and self.worker.is_closed:
            self.worker.destroy()


# -- listeners -----------------------------------------------------------------------------------------------


@cython.final
@cython.no_gc_clear
cdef class Listener:
    """Waits for clients at an address, which is a struct sockaddr."""

    cdef Queue requests
    cdef void* handle
    cdef readonly Worker worker     # its `progress` receives requests
    cdef readonly bytes peer        # struct sockaddr_storage of the client that was accepted last; None: unknown
    cdef readonly uint64_t client_id  # of that client; 0 if it has none

    def __cinit__(self, Context context not None, bytes address not None):
        cdef ucp_listener_params_t params
        cdef Status status
        self.worker = Worker(context)
        memset(&params, 0, sizeof(params))
        params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER
        params.sockaddr.addr = PyBytes_AS_STRING(address)
        params.sockaddr.addrlen = <unsigned int> len(address)
        params.conn_handler.cb = on_connection_request
        params.conn_handler.arg = &self.requests
        with nogil:
            status = ucp.listener_create(self.worker.handle, &params, &self.handle)
        if status < 0:
            self.handle = NULL
            raise failure_of(status, "UCX: listening")

    @property
    def address(self):
        """bytes: struct sockaddr_storage of the address on which it listens, with the actual port."""
        cdef ucp_listener_attr_t attributes
        self.worker.check_open()
        memset(&attributes, 0, sizeof(attributes))
        attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR
        check(ucp.listener_query(self.handle, &attributes), "UCX: where it listens")
        return PyBytes_FromStringAndSize(<char*> &attributes.sockaddr, sizeof(sockaddr_storage))

    def accept(self, Worker worker not None, bint peer_errors):
        """Connect a worker to the next client; `has_request` must be true."""
        cdef ConnectionRequest* waiting = <ConnectionRequest*> self.requests.first
        cdef ucp_conn_request_attr_t attributes
        cdef ucp_ep_params_t params
        self.worker.check_open()
        if waiting == NULL:
            raise UsageError("no client wants to connect")
        self.peer = None
        memset(&attributes, 0, sizeof(attributes))
        attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID
        ucp.conn_request_query(waiting.handle, &attributes)  # fails, and leaves 0, if the client has no id
        self.client_id = attributes.client_id
        attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR
        if ucp.conn_request_query(waiting.handle, &attributes) == UCS_OK:
            self.peer = PyBytes_FromStringAndSize(<char*> &attributes.client_address, sizeof(sockaddr_storage))
        memset(&params, 0, sizeof(params))
        params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST
        params.conn_request = waiting.handle
        free(pop(&self.requests))
        worker.make_endpoint(&params, peer_errors)

    @property
    def has_request(self):
        """bool: a client wants to connect."""
        return self.requests.first != NULL

    def close(self):
        """Accept no more clients, and reject those that wait."""
        self.shut()

    cdef void shut(self) noexcept:
        cdef void* handle = self.handle
        cdef ConnectionRequest* waiting
        self.handle = NULL
        if handle != NULL and self.worker.context.forks != forks:
            handle = NULL
        while self.requests.first != NULL:
            waiting = <ConnectionRequest*> pop(&self.requests)
            if handle != NULL:
                ucp.listener_reject(handle, waiting.handle)
            free(waiting)
        if handle != NULL:
            with nogil:
                ucp.listener_destroy(handle)
        if self.worker is not None:
            self.worker.close()

    def __dealloc__(self):
        self.shut()
