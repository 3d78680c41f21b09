# The compiled core: memory, plans and columns as objects, opened messages, the walk.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t, uintptr_t

from arrowipc.inline.fault cimport Fault
from arrowipc.inline.flatbuf cimport Table
from arrowipc.inline.plan cimport BatchHeader, ColumnsData, Envelope, LimitsData, PlanData
from arrowipc.inline.threads cimport fetch_add

# Allocate at least `size` bytes, 64-byte aligned; `capacity` receives the true size. `give_block` frees a block, or
# keeps it for the next `take_block`. Both functions need an attached thread.
cdef uint8_t* take_block(int64_t size, int64_t* capacity) except NULL
cdef void give_block(uint8_t* data, int64_t capacity) noexcept


cdef enum:
    MOST_RECENT = 64

# Whether `thing`, which a cache keeps, is the one that `wanted` describes.
ctypedef bint (*matches_t)(object thing, const void* wanted) except -1


@cython.final
cdef class Recent:
    cdef object last                    # the thing that was found or kept most recently
    cdef list things                    # a ring: thing number `most` + 1 replaces the oldest one
    cdef uint64_t[MOST_RECENT] marks    # a number per thing, such as a hash, that differs from nearly all others
    cdef int64_t[MOST_RECENT] sizes
    cdef Py_ssize_t most
    cdef Py_ssize_t oldest
    cdef int64_t bytes
    cdef int64_t most_bytes
    cdef list slots                     # without a GIL: a `Recent` for each slot of threads; None in these

    # Drop all things.
    cdef int forget(self) except -1
    # Return `last` if it matches, else None.
    cdef object again(self, const void* wanted, matches_t matches)
    # Return a matching thing with that mark, or None. Without `matches` the mark alone decides.
    cdef object find(self, uint64_t mark, const void* wanted=*, matches_t matches=*)
    # Keep a thing with a mark; its `size` counts towards `most_bytes`.
    cdef int keep(self, object thing, uint64_t mark, int64_t size=*) except -1


cdef inline uint64_t identity(object key) noexcept:
    """Return the address of `key`: a mark for things that refer to it, because meanwhile no other object has it."""
    return <uint64_t> <uintptr_t> <void*> key


cdef class Jobs:
    """The jobs of one call. Each thread in `run` takes the next job, until all are taken or one failed."""
    cdef int64_t n_jobs
    cdef int64_t taken
    cdef int64_t failed     # a job that failed, after which none is begun; n_jobs: none did
    cdef int64_t active     # threads inside `run`
    # Set the number of jobs; none of them is taken yet.
    cdef void start(self, int64_t n_jobs) noexcept
    # Take jobs and do them. Every subclass implements this.
    cdef int work(self) except -1
    # Do all jobs. Whatever happens, no thread touches them afterwards.
    cdef int run_all(self, bint use_threads) except -1


cdef inline int64_t next_job(Jobs jobs) noexcept nogil:
    """Return the number of a job that no other thread has; the caller does it if it is below `jobs.failed`."""
    return fetch_add(&jobs.taken, 1)


cdef class Memory:
    """A 64-byte aligned block that grows; exported through the buffer protocol."""
    cdef uint8_t* data
    cdef int64_t size       # bytes in use
    cdef int64_t capacity
    cdef int64_t exports
    cdef bint writable
    cdef int reserve(self, int64_t capacity) except -1      # make room; the address may change


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
    cdef dict all_dictionaries      # DictionaryPlan by id, of any depth; None: not made yet. Never changed afterwards
    cdef list names                 # per field + 1, the dict of `schema_reader.names_below`; None: not made yet
    cdef object schema              # arrowipc.Schema, made on first use
    cdef int allocate(self, int32_t n_fields, int32_t n_columns, int32_t n_unions) except -1    # the arrays of `d`


cdef class DictionaryPlan:
    cdef readonly int64_t id
    cdef Plan values                # a plan of one column: the dictionary's values


# Python's cyclic garbage collector ignores columns and batches, as it ignores NumPy's arrays: visiting all batches in
# memory again and again took a fifth of the time of reading them. So nothing inside may refer back to its columns: if
# the source of a batch refers to that batch, neither is ever freed. (The decorator has to be in the .pyx too.)
@cython.no_gc
@cython.freelist(8)
cdef class Columns:
    cdef ColumnsData d
    cdef Plan plan
    cdef object owner
    cdef tuple dictionaries         # Columns (or None: not arrived) per plan.dictionaries
    cdef Columns own                # a dictionary's copy in memory of its own (`columns.take`); None: not made
    cdef object __weakref__
    # A batch's (key, value) pairs of bytes from its message. They are here, not in RecordBatch, because only objects of
    # one size share a freelist.
    cdef tuple metadata_pairs
    # Allocate nodes, views and extents for a plan, and extents for `variadic` data buffers of views.
    cdef int allocate(self, Plan plan, int64_t variadic) except -1
    # Copy the nodes, views and extents of `source`, so that they may be changed; `plan` is of the same shape.
    cdef int share(self, Columns source, Plan plan) except -1
    # Copy field `g` of `source`, and all fields below it, to field `f`, which has the same shape; copy their
    # dictionaries to their places in `dictionaries`. `next` is as for `place_field`.
    cdef int32_t place_column(self, int32_t f, Columns source, int32_t g, int32_t next, list dictionaries) except -1


# Copy the fields of an `arrowipc.Limits`, or the defaults, to a struct.
cdef int limits_data(object limits, LimitsData* out) except -1
# Return the Level that a reader's argument `validate` names.
cdef int level_of(object validate) except -1
# Raise the exception that describes `fault`; `where` is written before its message.
cdef int raise_fault(const Fault* fault, Plan plan=*, object where=*) except -1

# Open a Message table, and check what messages of every kind have.
cdef int open_message(const uint8_t* metadata, int64_t size, Envelope* out, Fault* fault) noexcept nogil
# Open a RecordBatch table.
cdef int open_batch(const Table* table, BatchHeader* out, Fault* fault) noexcept nogil
# Count the bytes of all strings of a Field table.
cdef int64_t text_size(const Table* field) noexcept nogil
# Return the custom metadata in a slot of a table as (key, value) pairs of bytes.
cdef tuple read_pairs(const Table* table, int32_t slot)
# Fill `view` for a `__getbuffer__`.
cdef int export_bytes(object exporter, Py_buffer* view, const uint8_t* data, int64_t size, bint writable,
                      int flags) except -1
# Return a read-only memoryview of bytes that `owner` keeps alive.
cdef object window(const uint8_t* data, int64_t size, object owner)
# Return the name of a field, and the names from its column down to it, joined by dots.
cdef str field_name(Plan plan, int32_t field)
cdef str field_path(Plan plan, int32_t field)

cdef enum Walked:
    # In which state the walk leaves the extents.
    WALK_BROKEN = -1    # `fault` says what is wrong
    WALK_STORED         # extents as they are stored: compressed, or of any size, byte order and address
    WALK_MEASURED       # extents of a raw body, as `check_sizes` leaves them, at multiples of 8
    WALK_UNALIGNED      # the same at other addresses

# Check that the message's vectors have the lengths that the plan requires, and fill `prefix` (source_views + 1 entries;
# NULL without views). Afterwards the columns need room for `count_variadic` extents besides those of the plan.
cdef int check_counts(const PlanData* plan, const BatchHeader* header, int version, int64_t* prefix,
                      const LimitsData* limits, Fault* fault) noexcept nogil
cdef int64_t count_variadic(const PlanData* plan, const int64_t* prefix) noexcept nogil
# Walk a message: find its nodes and extents, and return Walked. If `walk_measured` returns WALK_STORED, something is
# unusual: the contents are undefined, nothing is known about the batch, and `walk_stored` has to begin again.
cdef int walk_measured(ColumnsData* d, const BatchHeader* header, const uint8_t* body, int64_t body_length,
                       const LimitsData* limits) noexcept nogil
cdef int walk_stored(ColumnsData* d, const BatchHeader* header, const uint8_t* body, int64_t body_length, int version,
                     const int64_t* prefix, const LimitsData* limits, Fault* fault) noexcept nogil
# Check that every extent holds what the length of its node requires.
cdef int check_sizes(const ColumnsData* d, Fault* fault) noexcept nogil
