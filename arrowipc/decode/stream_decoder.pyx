"""The decoder of streams: a schema, then dictionaries and batches in any order, then the end; sans I/O.

Columnar format, "IPC Streaming Format". Readers that pull, callers that push bytes, and asyncio all use this decoder.
"""

from cpython.object cimport PyTypeObject
from libc.stdint cimport int64_t, uintptr_t

from arrowipc._core cimport Columns, Plan, Source
from arrowipc.metadata.checksums cimport verify_of
from arrowipc.columns.record_batch cimport BatchProducer, RecordBatch
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.loads cimport inside
from arrowipc.inline.plan cimport LimitsData
from arrowipc.metadata.schema_reader cimport plan_schema, read_plan
from arrowipc.decode.decoders cimport TakenDictionary, locate_batch, new_decoder, stretches
from arrowipc.decode.framing cimport FRAME_END, FRAME_MESSAGE, FRAME_MORE, Framer, Message, take_message

from arrowipc.arguments import check_flag
from arrowipc.errors import FormatError, UnsupportedError, UsageError
from arrowipc.options import unexpected

# The order of a stream: which kinds of messages may come FIRST, and LATER. None: it may come; text: why it may not.
cdef dict FIRST = {
    MessageHeader_Schema: None,
    MessageHeader_DictionaryBatch: "a stream begins with a Schema message, found a DictionaryBatch (no schema yet)",
    MessageHeader_RecordBatch: "a stream begins with a Schema message, found a RecordBatch (no schema yet); for "
                               "bare batches whose schema is known use read_record_batch(message, schema)",
    MessageHeader_Tensor: "this is a Tensor message, not a stream of record batches: read it with "
                          "read_tensor()",
    MessageHeader_SparseTensor: "this is a SparseTensor message, not a stream of record batches: read it "
                                "with read_sparse_tensor()",
}
cdef dict LATER = {
    MessageHeader_Schema: "a second Schema message: a stream has one; a new stream begins after an end-of-stream "
                          "marker",
    MessageHeader_DictionaryBatch: None,
    MessageHeader_RecordBatch: None,
    MessageHeader_Tensor: "a Tensor message inside a stream of record batches",
    MessageHeader_SparseTensor: "a SparseTensor message inside a stream of record batches",
}


cdef enum Next:
    NEXT_BATCH      # a batch; None: more input is needed, or this is the end
    NEXT_STORED     # a batch as a message, and what a writer must know of it
    NEXT_EVENT
    NEXT_SCHEMA     # whether the schema is known


cdef object events = None       # the module, once an event is needed


cdef object load_events():
    global events
    if events is None:
        from arrowipc import events as found

        events = found
    return events


cdef bint find_extents(Columns out, Plan plan, Message message, const LimitsData* limits) except -1:
    """Find where a RecordBatch message says that its buffers lie; False: its metadata does not fit the schema."""
    try:
        locate_batch(out, plan, &message.envelope, message.body_bytes, limits)
    except (FormatError, UnsupportedError):
        return False
    return True


cdef class StreamDecoder(Framer):
    """StreamDecoder(columns=None, validate="full", limits=None, use_threads=True, ensure_native_endian=True, \
verify=False)\n--\n\n
    Decodes an Arrow IPC stream that arrives in chunks of any size; does no I/O of its own.

    The keywords are those of `arrowipc.open_stream`.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> decoder = ipc.StreamDecoder()
    >>> decoder.feed(batch.schema.serialize() + batch.serialize(), True)
    >>> [type(event).__name__ for event in decoder]
    ['SchemaRead', 'BatchRead', 'EndOfStream']
    """

    def __init__(self, columns=None, validate="full", limits=None, use_threads=True, ensure_native_endian=True,
                 verify=False, **others):
        for name in others:
            raise unexpected("StreamDecoder", name, ("columns", "validate", "limits", "use_threads",
                                                     "ensure_native_endian", "verify"))
        if self.decoder is not None:
            raise UsageError("a decoder begins once: make another one")
        set_up(self, columns, validate, limits, use_threads, ensure_native_endian, verify)

    cdef int begin(self) except -1:
        """Read the schema message."""
        if self.envelope.body_length:
            raise FormatError(f"a Schema message has no body, this one has {self.envelope.body_length} bytes")
        return self.open_schema(read_plan(self.metadata, self.metadata_size, self.envelope.header.pos, &self.limits,
                                          self.metadata_owner, self.decoder.columns is not None))

    cdef int open_schema(self, Plan whole) except -1:
        self.decoder.open(whole)
        self.opened = True
        return 0

    cdef bint reach_batch(self) except -1:
        """Decode messages up to the next RecordBatch message; False: more input is needed, or this is the end."""
        cdef int found, kind
        cdef TakenDictionary taken
        while True:
            found = self.advance()
            if found != FRAME_MESSAGE:
                self.check_end(found)
                return False
            kind = self.envelope.kind
            if self.opened and kind == MessageHeader_RecordBatch:
                return True
            self.check_order(kind)
            if kind == MessageHeader_Schema:
                self.begin()
            else:
                self.decoder.dictionary(&self.envelope, self.body, self.body_owner, True, &taken)

    cdef object take_next(self, int what):
        """Return the next thing of a kind (Next). Only one call at a time may run, and an error ends this decoder."""
        self.occupy()
        try:
            if what == NEXT_BATCH:
                return self.decoder.batch(&self.envelope, self.body, self.body_owner) if self.reach_batch() else None
            if what == NEXT_EVENT:
                return self.take_event()
            return self.take_stored() if what == NEXT_STORED else self.reach_schema()
        except BaseException as error:
            self.poison(error)
            raise
        finally:
            self.vacate()

    cdef tuple take_stored(self):
        cdef Message message
        if not self.reach_batch():
            return None
        message = take_message(self)
        return message, self.decoder.stored(message)

    def next_stored(self):
        """Return the next RecordBatch message and what a writer must know of it, or None; see `arrowipc.copy`."""
        return self.take_next(NEXT_STORED)

    def decode(self, Message message not None):
        """Decode a RecordBatch message that `next_stored` returned last."""
        if not self.opened or message.envelope.kind != MessageHeader_RecordBatch:
            raise UsageError("decode() takes a RecordBatch message that next_stored() returned")
        message.join()
        return self.decoder.batch(&message.envelope, message.body_bytes, message.body_owner)

    cdef object take_event(self):
        cdef int found = self.advance()
        if found != FRAME_MESSAGE:
            self.check_end(found)
            if found == FRAME_MORE or self.ended:
                return None
            self.ended = True
            return load_events().EndOfStream(self.bytes_consumed, self.end_marker)
        return self.event()

    cdef object event(self):
        """Decode the current message, and return its event."""
        cdef int kind = self.envelope.kind
        cdef TakenDictionary taken
        self.check_order(kind)
        if kind == MessageHeader_Schema:
            self.begin()
            return load_events().SchemaRead(plan_schema(self.decoder.plan))
        if kind == MessageHeader_RecordBatch:
            return load_events().BatchRead(self.decoder.batch(&self.envelope, self.body, self.body_owner))
        self.decoder.dictionary(&self.envelope, self.body, self.body_owner, True, &taken)
        return load_events().DictionaryRead(taken.id, taken.is_delta, taken.length)

    def decode_next(self, Message message not None):
        """Decode a whole message as the next of this stream, and return its event. Do not call `feed` as well."""
        self.occupy()
        try:
            message.join()
            self.number = self.num_messages + 1
            self.envelope = message.envelope
            self.kind_known = True
            self.metadata = message.metadata_bytes
            self.metadata_size = message.metadata_size
            self.metadata_owner = message.metadata_owner
            self.body = message.body_bytes
            self.body_owner = message.body_owner
            self.num_messages += 1
            if self.verify:
                self.compare_checksum(-1)
            event = self.event()
            # From here on only the decoded batch may keep the message: the sender waits for its memory.
            self.body = NULL
            self.metadata_owner = self.body_owner = None
            return event
        except BaseException as error:
            self.poison(error)
            raise
        finally:
            self.vacate()

    def stretches_read(self, Message message not None, memory):
        """Return which parts (start, end) of `memory`, where the body lies, `decode_next` reads; None: perhaps all."""
        cdef Source held = Source(memory)
        cdef Columns columns = Columns.__new__(Columns)
        cdef int64_t from_start = <int64_t> (<uintptr_t> message.body_bytes - <uintptr_t> held.data)
        if (not self.opened or self.decoder.plan.d.whole or message.pieces is not None
                or not inside(from_start, message.envelope.body_length, held.size)):
            return None
        if message.envelope.kind == MessageHeader_DictionaryBatch:
            return None if self.decoder.needs_dictionary(&message.envelope) else []
        if message.envelope.kind != MessageHeader_RecordBatch or not find_extents(
                columns, self.decoder.plan, message, &self.limits):
            return None
        return stretches(columns, held.data)

    def fits(self, Message message not None):
        """Whether the metadata of a RecordBatch message has the nodes and buffers that the schema requires."""
        if message.envelope.kind != MessageHeader_RecordBatch or not self.opened:
            return False
        return find_extents(Columns.__new__(Columns), self.decoder.plan, message, &self.limits)

    def go_on(self, forget):
        """Accept messages again after a FormatError of `decode_next`.

        `forget`: drop the dictionaries so far, so that batches that need one are refused until it has come again.
        """
        if self.decoder is None:
            raise UsageError(f"this decoder cannot be used: {self.failure}")
        self.fail(None)
        if check_flag("forget", forget):
            self.decoder.forget()

    cdef int check_order(self, int kind) except -1:
        if (kind == MessageHeader_Schema) != self.opened and kind <= MessageHeader_RecordBatch:
            return 0
        reason = (LATER if self.opened else FIRST).get(kind)
        if reason is not None:
            raise FormatError(reason)
        return 0

    cdef int check_end(self, int found) except -1:
        if found == FRAME_END and not self.opened:
            raise FormatError("no schema: the input is empty" if self.bytes_consumed == 0
                              else "no schema: the stream ends before its Schema message")
        return 0

    def next_event(self):
        """Return the next event, or None when more input is needed or everything was reported.

        Returns
        -------
        SchemaRead, DictionaryRead, BatchRead, EndOfStream or None

        Raises
        ------
        FormatError
            The bytes break the format; every later call raises UsageError.
        """
        return self.take_next(NEXT_EVENT)

    def next_batch(self):
        """Return the next record batch without reporting what comes before it; None as in `next_event`."""
        return self.take_next(NEXT_BATCH)

    def batches(self):
        """Return an iterator over the batches of a decoder that was fed all its input."""
        return DecodedBatches(self)

    def __iter__(self):
        return iter(self.next_event, None)

    def finish(self):
        """Say that the input is over; events that are still unread can be taken as before.

        Raises
        ------
        TruncatedError
            The input stops inside a message.
        FormatError
            It stops before a schema.
        """
        Framer.finish(self)
        if self.bytes_needed:
            self.read_schema()

    def read_schema(self):
        """Read the stream's first message if it is there; return whether the schema is known."""
        return self.take_next(NEXT_SCHEMA)

    cdef bint reach_schema(self) except -1:
        cdef int found
        if not self.opened:
            found = self.advance()
            self.check_end(found)
            if found == FRAME_MESSAGE:
                self.check_order(self.envelope.kind)
                self.begin()
        return self.opened

    @property
    def schema(self):
        """arrowipc.Schema: what is read, after projection; None before the schema message arrived."""
        if not self.opened:
            return None
        return plan_schema(self.decoder.plan)

    @property
    def stats(self):
        """tuple of int: messages, record batches, dictionary batches, deltas, replaced dictionaries."""
        if self.decoder is None:
            return 0, 0, 0, 0, 0
        return (self.num_messages, self.decoder.num_record_batches, self.decoder.num_dictionary_batches,
                self.decoder.num_dictionary_deltas, self.decoder.num_replaced_dictionaries)


cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* kind, Py_ssize_t items)


def new_without_init(kind):
    """Return an instance of a class of Python, without its `__init__`: `object.__new__` in a third of the time."""
    if not isinstance(kind, type):
        raise TypeError(f"expected a class, found {kind!r}")
    return PyType_GenericAlloc(<PyTypeObject*> kind, 0)


cdef int set_up(StreamDecoder stream, object columns, object validate, object limits, object use_threads,
                object ensure_native_endian, object verify) except -1:
    """Make a new StreamDecoder ready for its input."""
    use_threads = use_threads is True or check_flag("use_threads", use_threads)
    ensure_native_endian = ensure_native_endian is True or check_flag("ensure_native_endian", ensure_native_endian)
    stream.verify, stream.use_threads = verify_of(verify), use_threads
    stream.decoder = new_decoder(columns, validate, limits, use_threads, ensure_native_endian)
    stream.limits = stream.decoder.limits
    stream.failure = None
    return 0


def stream_of(data, columns, validate, limits, use_threads, ensure_native_endian, verify):
    """Return a `StreamDecoder` that was fed all its input and has read its schema: one call for a small stream."""
    cdef StreamDecoder stream = StreamDecoder.__new__(StreamDecoder)
    set_up(stream, columns, validate, limits, use_threads, ensure_native_endian, verify)
    stream.chunk = Source.__new__(Source, data)     # Source(data) takes three times as long
    stream.last = True
    stream.take_next(NEXT_SCHEMA)
    return stream


cdef class DecodedBatches(BatchProducer):
    """The batches of a decoder that needs no more input, for loops and for the C stream interface."""

    cdef StreamDecoder decoder

    def __cinit__(self, StreamDecoder decoder not None):
        self.decoder = decoder

    cdef Columns next(self):
        return <Columns> self.decoder.take_next(NEXT_BATCH)
