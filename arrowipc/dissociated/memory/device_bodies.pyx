"""Bodies in memory that the CPU must not read: they are decoded and passed on by arithmetic on addresses.

Metadata is in host memory, so the place of every buffer of a batch on a device is known without reading any of
them. If bytes of the body would be needed, as for compressed bodies, that is an `UnsupportedError`.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t

from arrowipc._core cimport Source, export_bytes, open_batch, raise_fault
from arrowipc.cdata.export cimport ARROW_DEVICE_CPU, check_requested, device_capsule
from arrowipc.columns.record_batch cimport RecordBatch
from arrowipc.inline.body_parts cimport padding, stored_size
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, fb_field, fb_table, fb_u8
from arrowipc.inline.loads cimport inside, load_i64
from arrowipc.inline.plan cimport BatchHeader, Extent
from arrowipc.metadata.schema_reader cimport plan_schema
from arrowipc.decode.framing cimport Message, Pieces
from arrowipc.decode.stream_decoder cimport StreamDecoder

from arrowipc.cdata.export import check_keywords, export_schema
from arrowipc.errors import FormatError, UnsupportedError, UsageError
from arrowipc.events import BatchRead, DictionaryRead, SchemaRead
from arrowipc.decode.framing import message_of

cdef object needs_reading(str what):
    return UnsupportedError(f"{what}: that needs a look at memory of a device; copy the data to the CPU first")


@cython.final
cdef class DeviceMemory:
    """Some bytes on a device, given by their address; nothing here reads them.

    It has the buffer protocol, so that messages can be made of it; reading such a buffer on the CPU kills the process
    if the CPU has no access to the device's memory.

    Parameters
    ----------
    address, nbytes : int
    device_type : int
        As in the Arrow C device interface: 1 CPU, 2 CUDA, 3 CUDA host, 10 ROCm, ...
    device_id : int
    sync_event : int
        Address of the event to wait for before reading; 0: none.
    owner : object
        Keeps the memory and the event alive as long as anything points to them.
    """

    cdef readonly uint64_t address
    cdef readonly int64_t nbytes
    cdef readonly int32_t device_type
    cdef readonly int64_t device_id
    cdef readonly uint64_t sync_event
    cdef readonly object owner

    def __cinit__(self, uint64_t address, int64_t nbytes, int32_t device_type, int64_t device_id=-1,
                  uint64_t sync_event=0, owner=None):
        if nbytes < 0 or address > <uint64_t> -1 - <uint64_t> nbytes:
            raise UsageError(f"{nbytes:,} bytes at address {address:,} are no memory")
        self.address = address
        self.nbytes = nbytes
        self.device_type = device_type
        self.device_id = device_id
        self.sync_event = sync_event
        self.owner = owner

    def __len__(self):
        return self.nbytes

    def __getbuffer__(self, Py_buffer* view, int flags):
        export_bytes(self, view, <const uint8_t*> <uintptr_t> self.address, self.nbytes, False, flags)


cdef DeviceMemory NOWHERE = DeviceMemory(0, 0, ARROW_DEVICE_CPU)


cdef bytes read_by(object read_device, uint64_t address, int64_t nbytes):
    """Copy bytes from the device with a function of the caller."""
    data = bytes(read_device(address, nbytes)) if nbytes else b""
    if len(data) != nbytes:
        raise UsageError(f"read_device returned {len(data):,} bytes where {nbytes:,} were asked for")
    return data


# -- batches -----------------------------------------------------------------------------------------------------------


@cython.final
cdef class DeviceBatch:
    """A record batch whose buffers are on a device.

    A `DeviceDecoder` makes them from messages. They are exported with ``__arrow_c_device_array__``, sent on as
    `messages`, and copied to the CPU only by `to_host`.
    """

    cdef RecordBatch columns        # its extents are addresses on the device: never passed to code that reads them
    cdef DeviceMemory where         # the device, and the event
    cdef object schema_message
    cdef list dictionary_messages
    cdef readonly object message    # Message of the batch alone

    def __cinit__(self, RecordBatch columns=None, DeviceMemory where=None, Message schema=None, list dictionaries=None,
                  Message message=None):
        if columns is None or where is None or schema is None or dictionaries is None or message is None:
            raise UsageError("device batches are made by DeviceDecoder")
        self.columns = columns
        self.where = where
        self.schema_message = schema
        self.dictionary_messages = dictionaries
        self.message = message

    @property
    def schema(self):
        """Schema of the columns."""
        return plan_schema(self.columns.plan)

    @property
    def num_rows(self):
        """int: rows."""
        return self.columns.d.length

    def __len__(self):
        return self.columns.d.length

    @property
    def device_type(self):
        """int: as in the Arrow C device interface."""
        return self.where.device_type

    @property
    def device_id(self):
        """int: number of the device among those of its type; -1: there is only one."""
        return self.where.device_id

    @property
    def sync_event(self):
        """int: address of the event to wait for before reading; 0: none."""
        return self.where.sync_event

    @property
    def messages(self):
        """list of Message: schema, dictionaries and batch, for transports that send memory of the device."""
        return [self.schema_message, *self.dictionary_messages, self.message]

    @property
    def places(self):
        """list of (address, nbytes): the buffers of all columns in pre-order, (0, 0) for those that are absent."""
        cdef int32_t i
        cdef const Extent* extent
        out = []
        for i in range(self.columns.d.n_extents):
            extent = &self.columns.d.extents[i]
            out.append((<uintptr_t> extent.data if extent.size else 0, extent.size))
        return out

    def to_host(self, read_device, validate="full"):
        """Copy the batch and its dictionaries to the CPU.

        Parameters
        ----------
        read_device : callable
            ``read_device(address, nbytes)`` returns bytes of the device; it waits for `sync_event` if there is one.
        validate : {"none", "full", "strict"}

        Returns
        -------
        RecordBatch

        Raises
        ------
        FormatError
            The copied bytes break the format.
        """
        cdef StreamDecoder decoder = StreamDecoder(None, validate)
        event = None
        for message in self.messages:
            event = decoder.decode_next(on_host(message, read_device))
        return event.batch

    def __arrow_c_schema__(self):
        return self.schema.__arrow_c_schema__()

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        """Export as a struct array on the device: ``arrow_schema`` and ``arrow_device_array`` PyCapsules."""
        check_keywords(kwargs)
        check_requested(requested_schema)
        return export_schema(self.schema), device_capsule(
            self.columns, self.where.device_type, self.where.device_id, <void*> <uintptr_t> self.where.sync_event
        )

    def __repr__(self):
        return f"<DeviceBatch: {self.num_rows:,} rows on device {self.device_type}:{self.device_id}>\n{self.schema}"


cdef object on_host(Message message, object read_device):
    """Return the same message with its body copied from the device."""
    cdef int32_t i
    cdef list out = []
    cdef Pieces pieces = message.in_pieces()
    if pieces is None:
        body = read_by(read_device, <uintptr_t> message.body_bytes, message.envelope.body_length)
        return message_of(message.metadata, body)
    for i in range(pieces.count):
        out.append(read_by(read_device, <uintptr_t> pieces.parts[i].data, pieces.parts[i].size))
        out.append(bytes(padding(stored_size(&pieces.parts[i]), pieces.alignment)))
    return message_of(message.metadata, b"".join(out))


# -- from messages -----------------------------------------------------------------------------------------------------


@cython.final
cdef class DeviceDecoder:
    """DeviceDecoder(limits=None, memory=None)\n--\n\n
    Decodes messages whose bodies are `DeviceMemory`, in the order of their stream, without reading the bodies.

    It can replace a `StreamDecoder` wherever messages come one by one. Some bodies may be in memory of the CPU.

    Parameters
    ----------
    limits : Limits, optional
    memory : DeviceMemory, optional
        The memory of bodies that are not `DeviceMemory` themselves, but point into it: bodies sent as pairs.
    """

    cdef StreamDecoder stream
    cdef DeviceMemory memory
    cdef object schema_message
    cdef dict dictionaries      # id -> (Message, DeviceMemory), in the order of arrival

    def __cinit__(self, limits=None, DeviceMemory memory=None):
        self.stream = StreamDecoder(None, "none", limits, False, True)
        self.memory = memory
        self.dictionaries = {}

    @property
    def schema(self):
        """Schema of the batches; None before it has arrived."""
        return self.stream.schema

    def decode_next(self, Message message not None):
        """Decode the next message of the stream.

        Returns
        -------
        SchemaRead, DictionaryRead or BatchRead
            The batch is a `DeviceBatch`.

        Raises
        ------
        FormatError
            The metadata breaks the format, or the order of messages.
        UnsupportedError
            The body would have to be read: it is compressed, in the other byte order, or not aligned, a dictionary
            grows, or nulls were not counted.
        """
        cdef DeviceMemory where = self.place_of(message)
        if message.envelope.kind in (MessageHeader_RecordBatch, MessageHeader_DictionaryBatch):
            if self.stream.opened and self.stream.decoder.plan.d.stored_big:
                raise needs_reading("the bodies are in big-endian byte order")
            refuse_reads(message)
        event = self.stream.decode_next(message)
        if isinstance(event, SchemaRead):
            self.schema_message = message
            return event
        if isinstance(event, DictionaryRead):
            self.dictionaries.pop(event.id, None)
            self.dictionaries[event.id] = (message, where)
            return event
        for _, other in self.dictionaries.values():
            where = common_device(where, other)
        dictionaries = [each for each, _ in self.dictionaries.values()]
        return BatchRead(DeviceBatch(event.batch, where, self.schema_message, dictionaries, message))

    def release(self):
        """Release the dictionaries and the last message; batches stay valid."""
        self.dictionaries = {}
        self.stream.release()

    cdef DeviceMemory place_of(self, Message message):
        """Return the memory, and so the device, of a message's body."""
        cdef DeviceMemory memory
        cdef Source source
        cdef object found = None
        cdef uint64_t address = <uintptr_t> message.body_bytes
        if message.envelope.body_length == 0:
            return NOWHERE
        if isinstance(message.body_owner, Source):
            source = <Source> message.body_owner
            found = <object> source.view.obj
            while isinstance(found, memoryview):
                found = found.obj
            if isinstance(found, DeviceMemory):
                return found
        memory = self.memory
        if memory is not None and address >= memory.address and inside(
                <int64_t> (address - memory.address), message.envelope.body_length, memory.nbytes):
            return memory
        return DeviceMemory(address, message.envelope.body_length, ARROW_DEVICE_CPU, -1, 0, message)


cdef DeviceMemory common_device(DeviceMemory one, DeviceMemory other):
    """Return the device and event of both; the device interface allows only one device and one event per array."""
    if one.nbytes == 0:
        return other
    if other.nbytes == 0:
        return one
    if one.device_type != other.device_type or one.device_id != other.device_id:
        raise UnsupportedError(f"a batch is on device {one.device_type}:{one.device_id}, and its dictionary on "
                               f"{other.device_type}:{other.device_id}")
    if other.sync_event == 0 or one.sync_event == other.sync_event:
        return one
    if one.sync_event == 0:
        return other
    raise UnsupportedError("a batch and its dictionary wait for different events of the device")


cdef int refuse_reads(Message message) except -1:
    """Raise for a message that cannot be decoded by its metadata alone."""
    cdef Table table = message.envelope.header
    cdef BatchHeader header
    cdef Fault fault
    cdef int64_t i
    cdef int delta = 0
    if message.envelope.kind == MessageHeader_DictionaryBatch:
        if (fb_table(&message.envelope.header, DictionaryBatch_data, &table) <= 0
                or fb_u8(&message.envelope.header, DictionaryBatch_isDelta, 0, &delta) < 0):
            raise FormatError("DictionaryBatch.data is missing, or does not lie inside the metadata")
        if delta:
            raise needs_reading("a dictionary grows (isDelta)")
    if open_batch(&table, &header, &fault) < 0:
        raise_fault(&fault)
    if message.envelope.body_length == 0:
        return 0
    if header.codec >= 0 or (message.envelope.version == MetadataVersion_V4
                             and fb_field(&message.envelope.root, Message_custom_metadata, 4)):
        raise needs_reading("the body is compressed")
    for i in range(header.nodes.count):
        if load_i64(header.nodes.data + FieldNode_SIZE * i + FieldNode_null_count) == -1:
            raise needs_reading(f"FieldNode {i}: nobody has counted its nulls (null_count -1)")
    for i in range(header.buffers.count):
        if (load_i64(header.buffers.data + Buffer_SIZE * i + Buffer_length)
                and (<uint64_t> <uintptr_t> message.body_bytes
                     + <uint64_t> load_i64(header.buffers.data + Buffer_SIZE * i + Buffer_offset)) & 7):
            raise needs_reading(f"Buffer {i} does not begin at a multiple of 8")
    return 0
