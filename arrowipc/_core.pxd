# The compiled core: memory, plans and columns as objects, opened messages, the walk.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t, uintptr_t

from arrowipc.inline.fault cimport Fault
from arrowipc.inline.flatbuf cimport Table
from arrowipc.inline.plan cimport BatchHeader, ColumnsData, Envelope, LimitsData, PlanData
from arrowipc.inline.threads cimport fetch_add

# 64-byte aligned memory of at least `size` bytes; `capacity` receives its true size. Both need an attached thread.
cdef uint8_t* take_block(int64_t size, int64_t* capacity) except NULL
cdef void give_block(uint8_t* data, int64_t capacity) noexcept


cdef enum:
    MOST_RECENT = 64

# Whether a thing that was kept is the one that is wanted.
ctypedef bint (*matches_t)(object thing, const void* wanted) except -1


@cython.final
cdef class Recent:
    cdef object last                    # the one that was found or kept last
    cdef list things                    # in any order; once there are `most`, or `most_bytes`, the oldest make room
    cdef uint64_t[MOST_RECENT] marks    # numbers that tell most things apart
    cdef int64_t[MOST_RECENT] sizes
    cdef Py_ssize_t most
    cdef Py_ssize_t oldest
    cdef int64_t bytes
    cdef int64_t most_bytes
    cdef list slots                     # without a GIL: one for each slot of threads; None in these

    cdef int forget(self) except -1
    # The last one again, or any of a mark; None: there is none. Without `matches` the mark alone decides.
    cdef object again(self, const void* wanted, matches_t matches)
    cdef object find(self, uint64_t mark, const void* wanted=*, matches_t matches=*)
    cdef int keep(self, object thing, uint64_t mark, int64_t size=*) except -1
    cdef object last_again(self, const void* wanted, matches_t matches)
    cdef object find_own(self, uint64_t mark, const void* wanted, matches_t matches)
    cdef int keep_own(self, object thing, uint64_t mark, int64_t size) except -1


cdef inline uint64_t identity(object key) noexcept:
    """A mark for things that hold their key: no other object has it as long as they do."""
    return <uint64_t> <uintptr_t> <void*> key


cdef class Jobs:
    """The jobs of one call. Each thread in `run` takes the next job, until all are taken or one failed."""
    cdef int64_t n_jobs
    cdef int64_t taken
    cdef int64_t failed     # the first job that failed; n_jobs: none. Later ones are not begun
    cdef int64_t active     # threads inside `run`
    # How many jobs there are; none is taken yet.
    cdef void start(self, int64_t n_jobs) noexcept
    # Take jobs and do them. Every class has its own.
    cdef int work(self) except -1
    # Do all jobs. Whatever happens, no thread touches them afterwards.
    cdef int run_all(self, bint use_threads) except -1


cdef inline int64_t next_job(Jobs jobs) noexcept nogil:
    """A job that no other thread has; it is to be done if it is below `jobs.failed`."""
    return fetch_add(&jobs.taken, 1)


cdef class Memory:
    """A 64-byte aligned block that grows; exported through the buffer protocol."""
    cdef uint8_t* data
    cdef int64_t size       # bytes in use
    cdef int64_t capacity
    cdef int64_t exports
    cdef bint writable
    cdef int reserve(self, int64_t capacity) except -1


cdef class Source:
    cdef Py_buffer view
    cdef bint held
    cdef const uint8_t* data
    cdef int64_t size


cdef class Plan:
    """A schema made ready for the walk."""
    cdef PlanData d
    cdef const uint8_t* metadata    # the flatbuffer that holds the Schema table
    cdef int64_t metadata_size
    cdef object metadata_owner      # bytes of our own, or the Source of a large footer
    cdef int64_t schema_table       # position of that table
    cdef int64_t max_depth          # Limits.depth under which it was read
    cdef list dictionaries          # DictionaryPlan per distinct id that the plan needs itself
    cdef dict all_dictionaries      # the same at any depth, by id; None: not made yet. Nobody changes it
    cdef list names                 # what `schema_reader.names_below` made, per field + 1, once somebody looked
    cdef object schema              # arrowipc.Schema, made when asked for
    cdef int allocate(self, int32_t n_fields, int32_t n_columns, int32_t n_unions) except -1


cdef class DictionaryPlan:
    cdef readonly int64_t id
    cdef Plan values                # a plan of one column: the dictionary's values


# The cyclic collector leaves columns and batches alone, as it does NumPy's arrays: walking all batches that are kept,
# again and again, took a fifth of the time of reading them. So nothing inside may lead back to its columns, and who
# makes the source of a batch refer to that batch keeps both. (The decorator has to be in the .pyx too.)
@cython.no_gc
@cython.freelist(8)
cdef class Columns:
    cdef ColumnsData d
    cdef Plan plan
    cdef object owner
    cdef tuple dictionaries         # Columns (or None: not arrived) per plan.dictionaries
    cdef Columns own                # of a dictionary: its copy in other memory (`columns.take`); None: not made
    cdef object __weakref__
    # Of a batch: (key, value) pairs of bytes from its message. Here, because only objects of one size share a freelist.
    cdef tuple metadata_pairs
    cdef int allocate(self, Plan plan, int64_t variadic) except -1
    # Become the columns `source` in tables of their own, which may be changed; `plan` is of the same shape.
    cdef int share(self, Columns source, Plan plan) except -1
    # Let field `f` and all below it be field `g` of `source`, of the same shape; `next` is as for `place_field`.
    # Their dictionaries go to their places in `dictionaries`.
    cdef int32_t place_column(self, int32_t f, Columns source, int32_t g, int32_t next, list dictionaries) except -1


cdef int limits_data(object limits, LimitsData* out) except -1
cdef int level_of(object validate) except -1
cdef int raise_fault(const Fault* fault, Plan plan=*, object where=*) except -1

cdef int open_message(const uint8_t* metadata, int64_t size, Envelope* out, Fault* fault) noexcept nogil
cdef int open_batch(const Table* table, BatchHeader* out, Fault* fault) noexcept nogil
cdef int64_t text_size(const Table* field) noexcept nogil
cdef tuple read_pairs(const Table* table, int32_t slot)
cdef int export_bytes(object exporter, Py_buffer* view, const uint8_t* data, int64_t size, bint writable,
                      int flags) except -1
cdef object window(const uint8_t* data, int64_t size, object owner)
cdef str field_name(Plan plan, int32_t field)
cdef str field_path(Plan plan, int32_t field)

cdef enum Walked:
    # What the walk leaves behind.
    WALK_BROKEN = -1    # `fault` says what is wrong
    WALK_STORED         # extents as they are stored: compressed, or of any size, byte order and address
    WALK_MEASURED       # ... of a raw body, as `check_sizes` leaves them, at multiples of 8
    WALK_UNALIGNED      # ... at other addresses

# Whether the message's vectors have the lengths that the plan asks for; fills `prefix` (source_views + 1 entries,
# NULL without views). Then the columns need room for `count_variadic` extents beside those of the plan.
cdef int check_counts(const PlanData* plan, const BatchHeader* header, int version, int64_t* prefix,
                      const LimitsData* limits, Fault* fault) noexcept nogil
cdef int64_t count_variadic(const PlanData* plan, const int64_t* prefix) noexcept nogil
# Then the walk; both return Walked. From the first one, WALK_STORED means that something is unusual: contents are
# undefined, and nothing is said about the batch.
cdef int walk_measured(ColumnsData* d, const BatchHeader* header, const uint8_t* body, int64_t body_length,
                       const LimitsData* limits) noexcept nogil
cdef int walk_stored(ColumnsData* d, const BatchHeader* header, const uint8_t* body, int64_t body_length, int version,
                     const int64_t* prefix, const LimitsData* limits, Fault* fault) noexcept nogil
cdef int check_sizes(const ColumnsData* d, Fault* fault) noexcept nogil
