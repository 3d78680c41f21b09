# Sinks, and the writer that turns batches into the messages of one stream or file.
from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport Columns, Plan
from arrowipc.columns.truncate cimport Truncator
from arrowipc.inline.body_parts cimport BodyPart
from arrowipc.inline.plan cimport ColumnsData
from arrowipc.decode.framing cimport Message
from arrowipc.encode.batch_encoder cimport Encoder
from arrowipc.encode.dictionary_writer cimport WrittenDictionaries

cdef class Sink:
    cdef readonly int64_t position      # bytes taken since it began
    cdef bint keeps                     # it still points at the parts after `write`: the writer sets `owners`
    cdef object owners
    cdef public object behind           # the file that was opened for it, with `commit` and `discard`; None: no file

    # Write the whole message or raise; after an error it is not known how much was written.
    cdef int write(self, const uint8_t* head, int64_t head_size, const BodyPart* parts, int32_t n_parts,
                   int64_t alignment, int64_t body_length) except -1


cdef class EncodeOptions:
    cdef Encoder encoder
    cdef object choice              # None: all columns; else {column name, or "*": whether it is compressed}
    cdef bytes chosen               # the same per field of the writer's plan, see Compressor
    cdef const uint8_t* chosen_data # ... its bytes; NULL: all are compressed
    cdef bint untouched             # a body that another writer stored with the same codec may be written as it is
    cdef int choose(self, Plan plan) except -1


cdef class BatchWriter:
    cdef object __weakref__
    cdef readonly Sink sink
    cdef EncodeOptions encode_options
    cdef Encoder encoder            # encode_options.encoder
    cdef readonly bint is_file
    cdef object deltas              # None: values that came as deltas are written as deltas
    cdef bint unify
    cdef int64_t coalesce_rows
    cdef bint allow_64bit
    cdef object annotate            # None: batches keep the metadata that they have
    cdef Plan plan                  # None: the schema is not known yet
    cdef object asked               # the Schema that it was begun with, before dictionaries were numbered anew
    cdef Plan accepted              # plan of the last batch that was found to fit
    cdef bint has_required          # some columns are not nullable
    cdef Truncator truncator
    cdef dict truncators                    # dictionary id -> Truncator of its values
    cdef WrittenDictionaries dictionaries   # None: the schema has none
    cdef list pending                       # small batches that wait to become one
    cdef int64_t pending_rows
    cdef bytearray batch_blocks     # of the footer
    cdef bytearray dictionary_blocks
    cdef public tuple file_metadata
    cdef object failure             # why nothing more can be written
    cdef bint busy                  # a thread is writing a message
    cdef readonly bint ended        # closed or abandoned: the sink was told so
    cdef int64_t num_messages
    cdef int64_t earlier            # messages of the file that is appended to
    cdef int64_t num_record_batches
    cdef int64_t num_dictionary_batches
    cdef int64_t num_dictionary_deltas
    cdef int64_t num_replaced_dictionaries
    cdef int64_t raw_bytes
    cdef int64_t stored_bytes

    cdef int check_usable(self) except -1
    cdef int check_idle(self) except -1
    cdef int occupy(self) except -1
    cdef int fail(self, object error) except -1
    cdef int set_plan(self, object schema) except -1
    cdef int accept(self, Columns columns) except -1
    cdef int truncate(self, Columns columns, int64_t start, int64_t count) except -1
    cdef int64_t put(self, Columns columns, int64_t start, int64_t count, tuple pairs, int64_t max_bytes,
                     Message stored=*) except -1
    cdef int put_end(self) except -1
    cdef int put_closing(self) except -1
    cdef int put_footer(self, bytes end, tuple metadata) except -1
    cdef int put_dictionaries(self, list emissions) except -1
    cdef int hand_over(self, bytearray blocks, Columns columns, Truncator truncator, Message stored=*) except -1
    cdef int flush(self) except -1


# Return the first field of truncated columns that a writer refuses: it is too long, or must not have nulls; -1: none.
cdef int32_t refused_field(const ColumnsData* d, bint allow_64bit) noexcept nogil
