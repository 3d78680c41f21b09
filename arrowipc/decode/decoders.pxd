# The decoder that turns messages into batches, and keeps the dictionaries that they need.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from arrowipc._core cimport Columns, DictionaryPlan, Plan
from arrowipc.columns.builder cimport ColumnsBuilder
from arrowipc.columns.record_batch cimport RecordBatch
from arrowipc.inline.flatbuf cimport Table
from arrowipc.inline.plan cimport BatchHeader, ColumnsData, Envelope, LimitsData
from arrowipc.decode.decompress cimport Inflater, Scratch
from arrowipc.decode.framing cimport Message

# Count and walk: allocate `out`, point its extents into the body, and return Walked. At "strict", also check that no
# two Buffers share bytes, which has to be known before a buffer is copied.
cdef int locate(Columns out, Plan plan, const BatchHeader* header, const uint8_t* body, int64_t body_length,
                int version, int level, const LimitsData* limits) except -1
# Do the same for a RecordBatch message, at "none"; Arrow 0.17 named its codec in the custom metadata.
cdef int locate_batch(Columns out, Plan plan, const Envelope* message, const uint8_t* body,
                      const LimitsData* limits) except -1
# Return where the buffers that were found lie, as (start, end) from `base` on; empty ones are left out.
cdef list stretches(Columns columns, const uint8_t* base)
# Do all steps for columns that are kept. `out` already has its dictionaries (None: its indices stay unchecked), and the
# owner of the body as its own.
cdef int decode_columns(Columns out, Plan plan, const Table* table, const Envelope* message, const uint8_t* body,
                        int level, const LimitsData* limits, bint use_threads) except -1


cdef struct BatchTarget:
    # Columns of one plan; batches are decoded into them one after the other.
    ColumnsData* d
    int64_t* prefix     # plan.source_views + 1 entries, for the walk
    int64_t room        # data buffers of views that `d` has extents for
    int codec           # of the last batch, -1: its body was raw


# Do all steps for columns that are read once, and then used for the next batch: decode into `into`, decompress to
# `inflated` (`allowance` bytes at most, whatever `limits` say), and validate at `level` with dictionaries of those
# `lengths`, as for `check_columns`. Return Decoded; `wanted` gets the number of data buffers, or the codec, it needs.
cdef int decode_batch_into(BatchTarget* into, const Table* table, const Envelope* message, const uint8_t* body,
                           int level, const int64_t* lengths, Inflater inflater, Scratch* inflated,
                           const LimitsData* limits, int64_t allowance, int64_t* wanted) noexcept nogil


cdef class Dictionary:
    """The state of one dictionary id: its values so far."""
    cdef Columns values                    # None: the dictionary has arrived, but the projection does not need it
    cdef ColumnsBuilder builder            # None until the first delta
    cdef int64_t nbytes
    cdef list bounds                # [low, high] index per nested encoded field, over all values
    cdef Columns resolved           # values with their own dictionaries, as of `resolved_at`
    cdef int64_t resolved_at
    cdef int64_t piece_bytes        # the part of `nbytes` that its last message added

    cdef Dictionary successor(self)     # a copy that a delta can extend


cdef struct TakenDictionary:
    # What a DictionaryBatch message contained.
    int64_t id
    bint is_delta
    int64_t length      # values of the dictionary, including those of earlier messages


@cython.final
cdef class Decoder:
    cdef Plan plan                  # the columns of the schema that are read
    cdef object columns             # ... as the caller requested them
    cdef bint keep_stored
    cdef LimitsData limits
    cdef int level
    cdef bint use_threads
    cdef dict known                 # id -> DictionaryPlan, at every depth of the whole schema
    cdef dict needed                # the same for `plan`
    cdef dict entries               # id -> Dictionary
    cdef int64_t dictionary_bytes
    cdef int64_t generation         # counts changes of any dictionary
    cdef tuple current              # resolved dictionaries of `plan`; None: to be made
    cdef readonly int64_t num_dictionary_batches
    cdef readonly int64_t num_dictionary_deltas
    cdef readonly int64_t num_replaced_dictionaries
    cdef readonly int64_t num_record_batches

    # Begin with a schema: read the columns that the caller requested, or those of `plan`.
    cdef int open(self, Plan whole) except -1
    cdef int open_as(self, Plan whole, Plan plan) except -1
    cdef Decoder part(self, object columns)     # a decoder of some of its columns
    # Decode a RecordBatch message.
    cdef RecordBatch batch_with(self, const Envelope* message, const uint8_t* body, object body_owner,
                                tuple dictionaries)
    # Return what a writer must know to pass the message on.
    cdef Columns stored(self, Message message, tuple dictionaries=*)
    # Decode a DictionaryBatch message.
    cdef int dictionary(self, const Envelope* message, const uint8_t* body, object body_owner, bint replaceable,
                        TakenDictionary* taken) except -1
    cdef bint needs_dictionary(self, const Envelope* message) except -1
    cdef int grow(self, Dictionary entry, Columns piece, int64_t id) except -1
    cdef int widen_bounds(self, Dictionary entry, Columns piece) except -1
    cdef int forget(self) except -1     # all dictionaries
    @cython.final
    cdef inline tuple resolved(self):
        """Return the dictionaries that a batch has at present."""
        with cython.critical_section(self):
            if self.current is None:
                self.current = self.resolve(self.plan.dictionaries)
            return self.current

    @cython.final
    cdef inline RecordBatch batch(self, const Envelope* message, const uint8_t* body, object body_owner):
        return self.batch_with(message, body, body_owner, self.resolved())

    cdef tuple resolve(self, list wanted)                   # the present values of dictionaries
    cdef Columns values_of(self, DictionaryPlan wanted)     # of one; None: it has not arrived


# Refuse a dictionary that exceeds the limits; `all_bytes` are the bytes of all dictionaries, including this one.
cdef int check_dictionary(int64_t id, int64_t length, int64_t nbytes, int64_t all_bytes,
                          const LimitsData* limits) except -1
# Return all dictionaries of a plan, of any depth, by id.
cdef dict dictionaries_of(Plan plan)
# Make a decoder that has no schema yet.
cdef Decoder new_decoder(object columns, object validate, object limits, bint use_threads,
                         bint ensure_native_endian)
