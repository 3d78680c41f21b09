"""UCX's library, found when the program runs (nothing is linked), and the contexts that it makes."""

from libc.stdint cimport intptr_t, uintptr_t
from libc.string cimport memcpy, memset

from arrowipc.errors import UnsupportedError, UsageError

cdef extern from * nogil:
    """
    #ifdef _WIN32
    /* There is no UCX for Windows: no library is ever found. */
    #define RTLD_NOW 0
    #define RTLD_LOCAL 0
    #define RTLD_NOLOAD 0
    static inline void* dlopen(const char* name, int flags) { (void) name; (void) flags; return NULL; }
    static inline void* dlsym(void* library, const char* name) { (void) library; (void) name; return NULL; }
    static inline int dlclose(void* library) { (void) library; return 0; }
    static inline int pthread_atfork(void (*a)(void), void (*b)(void), void (*c)(void)) {
        (void) a; (void) b; (void) c; return 0;
    }
    #else
    #include <dlfcn.h>
    #include <pthread.h>
    #endif
    """
    int RTLD_NOW, RTLD_LOCAL, RTLD_NOLOAD
    void* dlopen(const char* name, int flags)
    void* dlsym(void* library, const char* name)
    int dlclose(void* library)
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil,
                       void (*child)() noexcept nogil)



cdef void count_fork() noexcept nogil:
    global forks
    forks += 1


FUNCTIONS = (
    "get_version", "status_string", "config_read", "config_modify", "config_release", "init_version", "cleanup",
    "worker_create", "worker_destroy", "worker_progress", "worker_get_efd", "worker_arm", "worker_signal",
    "worker_set_am_recv_handler", "listener_create", "listener_destroy", "listener_query", "listener_reject",
    "conn_request_query", "ep_create", "ep_close_nbx", "ep_flush_nbx", "ep_print_info", "tag_send_nbx",
    "tag_send_sync_nbx", "tag_probe_nb", "tag_msg_recv_nbx", "am_send_nbx", "am_recv_data_nbx", "am_data_release",
    "get_nbx", "request_free", "mem_map", "mem_unmap", "mem_query", "rkey_pack", "rkey_buffer_release",
    "ep_rkey_unpack", "rkey_ptr", "rkey_destroy",
)


def load(bytes path not None, bint only_loaded=False):
    """Take the functions of the library at `path`; False: it cannot be loaded, or is not loaded yet (`only_loaded`).

    Raises
    ------
    UnsupportedError
        The library is there, and is older than UCX 1.13 or none of UCX.
    """
    cdef Ucp found
    cdef void** slot = <void**> &found
    cdef const char* name = path
    cdef int flags = RTLD_NOW | RTLD_LOCAL | (RTLD_NOLOAD if only_loaded else 0)
    cdef void* library
    with nogil:
        library = dlopen(name, flags)
    if library == NULL:
        return False
    # The struct is its functions one behind the other, as FUNCTIONS names them.
    for function in FUNCTIONS:
        symbol = ("ucs_" if function == "status_string" else "ucp_") + function
        slot[0] = dlsym(library, symbol.encode())
        if slot[0] == NULL:
            dlclose(library)
            raise UnsupportedError(f"{path.decode()} has no {symbol}: UCX 1.13 or newer is needed")
        slot += 1
    if ucp.get_version == NULL:
        pthread_atfork(NULL, NULL, count_fork)
    memcpy(&ucp, &found, sizeof(Ucp))
    return True


def version():
    """Return major, minor and release number of the library; None: none is loaded."""
    cdef unsigned int major, minor, release
    if ucp.get_version == NULL:
        return None
    ucp.get_version(&major, &minor, &release)
    return major, minor, release


cdef str status_text(Status status):
    return f"{ucp.status_string(status).decode()} ({status})"


cdef object failure_of(Status status, str what):
    """The exception that says so."""
    text = f"{what}: {status_text(status)}"
    if status == UCS_ERR_NO_MEMORY:
        return MemoryError(text)
    if status == UCS_ERR_REJECTED:
        return ConnectionRefusedError(text)
    if status == UCS_ERR_TIMED_OUT:
        return TimeoutError(text)
    if status in (UCS_ERR_CONNECTION_RESET, UCS_ERR_NOT_CONNECTED, UCS_ERR_CANCELED, UCS_ERR_ENDPOINT_TIMEOUT):
        # The last one: a peer that is gone no longer answers.
        return ConnectionResetError(text)
    return OSError(text)


cdef int check(Status status, str what) except -1:
    if status < 0:
        raise failure_of(status, what)
    return 0


cdef class Context:
    """What workers of one process share: the devices, and how they are used.

    Parameters
    ----------
    settings : mapping of str to str
        What would be ``UCX_*`` in the environment, without that prefix. Unknown names are passed over: versions
        differ.
    remote_memory : bool
        Whether peers may read memory of this process, and write it: UCX asks nobody, not even for an address that
        was made known. So only where it is needed.
    """

    def __init__(self, settings, bint remote_memory):
        cdef void* config
        cdef ucp_params_t params
        if ucp.get_version == NULL:
            raise UsageError("no UCX library is loaded")
        self.remote_memory = remote_memory
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

    cdef int check_process(self) except -1:
        if self.forks != forks:
            raise UsageError("UCX does not work in a process that was forked from the one that used it: connect "
                             "anew in a process that was started (spawn), or before anything uses UCX")
        return 0

    def check(self):
        """Raise a `UsageError` if not this process made it but one that it was forked from."""
        self.check_process()

    def __dealloc__(self):
        if self.handle != NULL and self.forks == forks:
            ucp.cleanup(self.handle)
