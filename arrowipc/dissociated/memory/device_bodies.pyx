"""Bodies in memory that the CPU must not touch: taken apart and passed on by arithmetic on addresses, never read.

Metadata is host memory, so a batch on a device is known down to the place of every buffer without a look at any of
them. What cannot be known so (how long text is, how many nulls there are where nobody counted) needs `read_device`,
a callable of the caller's that copies bytes from the device; without it that is an `UnsupportedError`.
"""

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.string cimport memset

from arrowipc._core cimport (
    Columns, DictionaryPlan, Plan, Source, export_bytes, field_path, open_batch, raise_fault,
)
from arrowipc.cdata.export cimport ARROW_DEVICE_CPU, ArrowArray, ArrowDeviceArray, device_capsule
from arrowipc.cdata.import_array cimport plan_of, schema_in, survey, survey_batch
from arrowipc.columns.record_batch cimport RecordBatch
from arrowipc.inline.body_parts cimport padding, stored_size
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, fb_field, fb_table, fb_u8
from arrowipc.inline.layouts cimport BUFFER_BITS, BUFFER_FIXED, LAYOUTS, LayoutSpec, width_of
from arrowipc.inline.loads cimport bitmap_bytes, count_bits, inside, load_i32, load_i64, mul_overflows
from arrowipc.inline.plan cimport (
    LAYOUT_FIXED_LIST, LAYOUT_NULL, LAYOUT_RUN_END, LAYOUT_SPARSE, LAYOUT_STRUCT, LAYOUT_VAR32, LAYOUT_VAR64,
    LAYOUT_VIEW, BatchHeader, Extent, FieldPlan, Node, ViewRange,
)
from arrowipc.metadata.schema_reader cimport plan_schema
from arrowipc.read.framing cimport Message, new_message
from arrowipc.read.stream_decoder cimport StreamDecoder
from arrowipc.write.batch_encoder cimport Encoder

from arrowipc.cdata.export import check_keywords, export_schema
from arrowipc.errors import FormatError, UnsupportedError, UsageError
from arrowipc.events import BatchRead, DictionaryRead, SchemaRead
from arrowipc.read.framing import message_of
from arrowipc.messages import read_message

cdef object needs_reading(str what):
    return UnsupportedError(f"{what}: that needs a look at memory of a device: copy the data to the CPU first, or give "
                            "read_device=, a callable (address, nbytes) -> bytes")


@cython.final
cdef class DeviceMemory:
    """Some bytes on a device, by their address. Nothing here reads them.

    It has the buffer protocol, so that messages can be made of it; whoever reads such a buffer on the CPU is ended by
    the system if the device's memory is not the CPU's too.

    Parameters
    ----------
    address, nbytes : int
    device_type : int
        Of the Arrow C device interface: 1 CPU, 2 CUDA, 3 CUDA host, 10 ROCm, ...
    device_id : int
    sync_event : int
        Address of the event to wait for before reading, 0: none.
    owner : object
        Keeps the memory, and the event, as long as anything points there.
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

    def part(self, int64_t start, int64_t nbytes):
        """Return some of the bytes, which keep all of them."""
        if not inside(start, nbytes, self.nbytes):
            raise UsageError(f"bytes {start}..+{nbytes} lie outside of {self.nbytes:,}")
        return DeviceMemory(self.address + start, nbytes, self.device_type, self.device_id, self.sync_event, self)

    def __len__(self):
        return self.nbytes

    def __getbuffer__(self, Py_buffer* view, int flags):
        export_bytes(self, view, <const uint8_t*> <uintptr_t> self.address, self.nbytes, False, flags)

    def __repr__(self):
        return f"<DeviceMemory: {self.nbytes:,} bytes at {self.address:#x}, device {self.device_type}:{self.device_id}>"


cdef DeviceMemory NOWHERE = DeviceMemory(0, 0, ARROW_DEVICE_CPU)


cdef bytes read_by(object read_device, uint64_t address, int64_t nbytes):
    """Copy bytes from the device, in the way that the caller knows."""
    data = bytes(read_device(address, nbytes)) if nbytes else b""
    if len(data) != nbytes:
        raise UsageError(f"read_device returned {len(data):,} bytes where {nbytes:,} were asked for")
    return data


# -- batches -----------------------------------------------------------------------------------------------------------


@cython.final
cdef class DeviceBatch:
    """A record batch whose buffers are on a device.

    A `DeviceDecoder` makes them of messages, `import_device` of arrays of other libraries. They are handed over with
    ``__arrow_c_device_array__``, sent on as `messages`, and copied to the CPU with `to_host` and not otherwise.
    """

    cdef RecordBatch columns        # its extents are addresses on the device: never given to anybody who reads
    cdef DeviceMemory where         # the device, and the event
    cdef object schema_message
    cdef list dictionary_messages
    cdef readonly object message    # Message of the batch alone

    def __cinit__(self, RecordBatch columns=None, DeviceMemory where=None, Message schema=None, list dictionaries=None,
                  Message message=None):
        if columns is None or where is None or schema is None or dictionaries is None or message is None:
            raise UsageError("device batches are made by DeviceDecoder and import_device()")
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
        """int: which of the devices of that type, -1: there is only one."""
        return self.where.device_id

    @property
    def sync_event(self):
        """int: address of the event to wait for before reading, 0: none."""
        return self.where.sync_event

    @property
    def messages(self):
        """list of Message: schema, dictionaries and batch. For transports that send memory of the device."""
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
            What was copied is not what the format allows.
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
        if requested_schema is not None and not PyCapsule_IsValid(requested_schema, "arrow_schema"):
            raise UsageError("requested_schema: expected an 'arrow_schema' PyCapsule or None, "
                             f"found {type(requested_schema).__name__}")
        return export_schema(self.schema), device_capsule(
            self.columns, self.where.device_type, self.where.device_id, <void*> <uintptr_t> self.where.sync_event
        )

    def __repr__(self):
        return f"<DeviceBatch: {self.num_rows:,} rows on device {self.device_type}:{self.device_id}>\n{self.schema}"


cdef object on_host(Message message, object read_device):
    """The same message with its body copied from the device."""
    cdef int32_t i
    cdef list pieces = []
    if message.pieces is None:
        body = read_by(read_device, <uintptr_t> message.body_bytes, message.envelope.body_length)
        return message_of(message.metadata, body)
    for i in range(message.pieces.count):
        pieces.append(read_by(read_device, <uintptr_t> message.pieces.parts[i].data, message.pieces.parts[i].size))
        pieces.append(bytes(padding(stored_size(&message.pieces.parts[i]), message.pieces.alignment)))
    return message_of(message.metadata, b"".join(pieces))


# -- from messages -----------------------------------------------------------------------------------------------------


@cython.final
cdef class DeviceDecoder:
    """DeviceDecoder(limits=None, memory=None)\n--\n\n
    Decodes messages whose bodies are `DeviceMemory`, in the order of their stream, without reading the bodies.

    Stands in for a `StreamDecoder` wherever messages come one by one. Bodies in memory of the CPU may be among them.

    Parameters
    ----------
    limits : Limits, optional
    memory : DeviceMemory, optional
        What bodies lie in that are not `DeviceMemory` themselves but point there: parts that pairs tell of.
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
        """Schema of the batches: None before it arrived."""
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
            grows, or nobody has counted the nulls.
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
        """Let go of dictionaries and of what arrived last; batches stay valid."""
        self.dictionaries = {}
        self.stream.release()

    cdef DeviceMemory place_of(self, Message message):
        """On which device the body of a message is."""
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
    """Where both are: an array of the device interface is on one device, and waits for one event."""
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


# -- from other libraries ----------------------------------------------------------------------------------------------


@cython.final
cdef class DeviceOwner:
    """A producer's array on a device, ours since it was moved here."""
    cdef ArrowDeviceArray device

    def __dealloc__(self):
        if self.device.array.release != NULL:
            self.device.array.release(&self.device.array)


@cython.final
cdef class DeviceImport:
    """Fills columns with the addresses of a producer's array."""
    cdef Columns out
    cdef object read_device     # None: there is no way to look
    cdef int32_t next           # variadic extent
    cdef list dictionaries

    cdef object read(self, int32_t f, str what, uint64_t address, int64_t nbytes):
        if self.read_device is None:
            raise needs_reading(f"column {field_path(self.out.plan, f)!r}: {what}")
        return read_by(self.read_device, address, nbytes)

    cdef int put(self, int32_t f, int32_t buffer, const void* data, int64_t start, int64_t elements,
                 int64_t width) except -1:
        """`elements` values of `width` bytes from value `start` on."""
        cdef Extent* extent = &self.out.d.extents[self.out.d.plan.fields[f].first_buffer + buffer]
        cdef int64_t skipped
        if mul_overflows(elements, width, &extent.size) or mul_overflows(start, width, &skipped):
            raise FormatError(f"column {field_path(self.out.plan, f)!r}: {elements:,} elements of {width:,} bytes from "
                              f"{start:,} on are more than memory can hold")
        if extent.size and data == NULL:
            raise FormatError(f"column {field_path(self.out.plan, f)!r}: ArrowArray.buffers[{buffer}] is NULL, and "
                              f"{extent.size:,} bytes are needed")
        extent.data = <const uint8_t*> data + skipped if extent.size else NULL
        return 0

    cdef int bits(self, int32_t f, int32_t buffer, const void* data, int64_t start, int64_t length) except -1:
        if length and start & 7:
            raise needs_reading(f"column {field_path(self.out.plan, f)!r}: bits that begin inside of a byte")
        return self.put(f, buffer, data, start >> 3, bitmap_bytes(length), 1)

    cdef int validity(self, int32_t f, const ArrowArray* array, int64_t start, int64_t length) except -1:
        """The bitmap, unless there are no nulls."""
        cdef Node* node = &self.out.d.nodes[f]
        cdef int64_t nulls = array.null_count
        cdef bytes copied
        if length == 0 or array.buffers[0] == NULL:
            nulls = 0
        elif nulls and length != array.length:
            nulls = -1
        if nulls < 0:
            copied = self.read(f, "nobody has counted its nulls (null_count -1)",
                               <uintptr_t> array.buffers[0] + (start >> 3), bitmap_bytes((start & 7) + length))
            nulls = length - count_bits(<const uint8_t*> copied, start & 7, length)
        node.null_count = nulls
        return self.bits(f, 0, array.buffers[0], start, length if nulls else 0)

    cdef int text(self, int32_t f, const ArrowArray* array, int64_t start, int64_t length, bint wide) except -1:
        """Offsets, and as much data as the last of them says, which is on the device too."""
        cdef int64_t width = 8 if wide else 4, last = 0
        cdef bytes copied
        self.put(f, 1, array.buffers[1], start, length + 1 if length else 0, width)
        if length:
            copied = self.read(f, "only its last offset says how long its data is",
                               <uint64_t> <uintptr_t> array.buffers[1] + <uint64_t> (start + length) * width, width)
            last = load_i64(<const uint8_t*> copied) if wide else load_i32(<const uint8_t*> copied)
            if last < 0:
                raise FormatError(f"column {field_path(self.out.plan, f)!r}: its last offset is {last}")
        return self.put(f, 2, array.buffers[2], 0, last, 1)

    cdef int variadic(self, int32_t f, const ArrowArray* array) except -1:
        """The data of views: the last buffer says how large the ones before it are."""
        cdef const FieldPlan* field = &self.out.d.plan.fields[f]
        cdef ViewRange* view = &self.out.d.views[field.view]
        cdef Extent* extent
        cdef bytes sizes
        cdef int32_t i
        view.first = self.next
        view.count = <int32_t> (array.n_buffers - 1 - field.n_buffers)
        self.next += view.count
        if view.count == 0:
            return 0
        sizes = self.read(f, "how large the data of its views is stands in a buffer",
                          <uintptr_t> array.buffers[array.n_buffers - 1], 8 * <int64_t> view.count)
        for i in range(view.count):
            extent = &self.out.d.extents[view.first + i]
            extent.size = load_i64(<const uint8_t*> sizes + 8 * i)
            extent.data = <const uint8_t*> array.buffers[field.n_buffers + i] if extent.size else NULL
            if extent.size < 0 or (extent.size and extent.data == NULL):
                raise FormatError(f"column {field_path(self.out.plan, f)!r}: data buffer {i} of {extent.size:,} bytes "
                                  "is no memory")
        return 0

    cdef int import_field(self, int32_t f, const ArrowArray* array, int64_t start, int64_t length) except -1:
        """Elements [start, start + length) of an array as field `f`, and all that is below it."""
        cdef const FieldPlan* field = &self.out.d.plan.fields[f]
        cdef Node* node = &self.out.d.nodes[f]
        cdef int layout = field.layout, kind, k
        cdef const LayoutSpec* spec = &LAYOUTS[layout]
        if start < 0 or length < 0 or start > array.length - length:
            raise FormatError(f"column {field_path(self.out.plan, f)!r} has {array.length:,} elements: {length:,} from "
                              f"{start:,} on are needed")
        start += array.offset
        node.length = length
        if layout == LAYOUT_NULL:
            node.null_count = length
        elif layout == LAYOUT_RUN_END and (start or length != array.length):
            raise needs_reading(f"column {field_path(self.out.plan, f)!r}: a slice of run-end encoded values")
        elif spec.has_validity:
            self.validity(f, array, start, length)
        for k in range(spec.has_validity, spec.n_buffers):
            kind = spec.buffers[k].kind
            if kind == BUFFER_BITS:
                self.bits(f, k, array.buffers[k], start, length)
            elif kind == BUFFER_FIXED:
                self.put(f, k, array.buffers[k], start, length, width_of(field, k))
            elif layout == LAYOUT_VAR32 or layout == LAYOUT_VAR64:
                self.text(f, array, start, length, layout == LAYOUT_VAR64)
                break
            else:
                self.put(f, k, array.buffers[k], start, length + 1 if length else 0, spec.buffers[k].width)
        if layout == LAYOUT_VIEW:
            self.variadic(f, array)
        self.import_children(f, array, start, length)
        if field.dictionary >= 0:
            self.dictionaries[field.dictionary] = import_dictionary(self, field.dictionary, array.dictionary)
        return 0

    cdef int import_children(self, int32_t f, const ArrowArray* array, int64_t start, int64_t length) except -1:
        """The children: the elements that the parent's are made of, or all where offsets say which."""
        cdef const FieldPlan* field = &self.out.d.plan.fields[f]
        cdef int32_t i, child = f + 1
        cdef int64_t first, count
        for i in range(field.n_children):
            first, count = 0, array.children[i].length
            if field.layout == LAYOUT_STRUCT or field.layout == LAYOUT_SPARSE:
                first, count = start, length
            elif field.layout == LAYOUT_FIXED_LIST:
                if mul_overflows(start, field.width, &first) or mul_overflows(length, field.width, &count):
                    raise FormatError(f"column {field_path(self.out.plan, f)!r}: {length:,} lists of {field.width:,} "
                                      "elements are more than memory can hold")
            self.import_field(child, array.children[i], first, count)
            child = self.out.d.plan.fields[child].end
        return 0


cdef DeviceImport new_import(Columns out, Plan plan, int64_t variadic, int64_t length, object owner,
                             object read_device):
    """Room for what a survey found."""
    cdef DeviceImport found = DeviceImport.__new__(DeviceImport)
    out.allocate(plan, variadic)
    memset(out.d.nodes, 0, plan.d.n_fields * sizeof(Node))
    memset(out.d.extents, 0, out.d.n_extents * sizeof(Extent))
    memset(out.d.views, 0, plan.d.n_views * sizeof(ViewRange))
    out.owner = owner
    out.d.length = length
    found.out = out
    found.read_device = read_device
    found.next = plan.d.n_buffers
    found.dictionaries = [None] * len(plan.dictionaries)
    return found


cdef Columns import_dictionary(DeviceImport user, int32_t ordinal, const ArrowArray* array):
    """The values of a dictionary."""
    cdef Columns values = Columns.__new__(Columns)
    cdef Plan plan = (<DictionaryPlan> user.out.plan.dictionaries[ordinal]).values
    cdef DeviceImport found
    cdef int64_t variadic = 0
    survey(plan, 0, array, &variadic)
    found = new_import(values, plan, variadic, array.length, user.out.owner, user.read_device)
    found.import_field(0, array, 0, array.length)
    values.dictionaries = tuple(found.dictionaries)
    return values


cdef DeviceOwner moved_device(object capsule):
    cdef DeviceOwner owner
    cdef ArrowDeviceArray* device
    if not PyCapsule_IsValid(capsule, "arrow_device_array"):
        raise UsageError(f"expected an 'arrow_device_array' PyCapsule, found {type(capsule).__name__}")
    device = <ArrowDeviceArray*> PyCapsule_GetPointer(capsule, "arrow_device_array")
    if device.array.release == NULL:
        raise UsageError("the array has been released, or was already taken out of its capsule")
    owner = DeviceOwner.__new__(DeviceOwner)
    owner.device = device[0]
    device.array.release = NULL
    return owner


cdef object encoded(Encoder encoder, object owner):
    """What an encoder has just made, as a message."""
    return new_message(encoder.head + encoder.metadata_at, encoder.head_size - encoder.metadata_at, encoder.parts,
                       encoder.n_parts, encoder.alignment, owner)


cdef int encode_dictionaries(Encoder encoder, Columns columns, dict out) except -1:
    """The messages of all dictionaries, inner ones first."""
    cdef DictionaryPlan dictionary
    cdef Columns values
    for i, dictionary in enumerate(columns.plan.dictionaries):
        values = columns.dictionaries[i]
        if values is None or dictionary.id in out:
            continue
        encode_dictionaries(encoder, values, out)
        encoder.dictionary_batch(&values.d, dictionary.id, False, 0)
        out[dictionary.id] = encoded(encoder, values)
    return 0


def import_device(source, read_device=None):
    """Take a batch of another library that is on a device, for sending.

    Parameters
    ----------
    source : object
        Anything with ``__arrow_c_device_array__`` that is a struct, or the pair of PyCapsules that it returns.
    read_device : callable, optional
        ``read_device(address, nbytes)`` returns bytes of the device, for the few that decide how much is sent: last
        offsets of text and binary, sizes of the data of views, bitmaps whose nulls nobody has counted.

    Returns
    -------
    DeviceBatch
        Its device, event and memory are the producer's, which is released with the last thing that points there.

    Raises
    ------
    UnsupportedError
        Something would have to be read, and there is no `read_device`; or bits would have to be moved.
    FormatError
        Schema and array contradict each other or themselves.
    UsageError
        `source` offers nothing of this, or was consumed already.
    """
    cdef RecordBatch columns = RecordBatch.__new__(RecordBatch)
    cdef DeviceOwner owner
    cdef DeviceMemory where
    cdef ArrowArray* root
    cdef Plan plan
    cdef DeviceImport found
    cdef Encoder encoder = Encoder(None, 64)
    cdef int64_t variadic = 0
    cdef int32_t i
    pair = source if type(source) is tuple else None
    if pair is None:
        method = getattr(source, "__arrow_c_device_array__", None)
        if method is None:
            raise UsageError(f"expected an object with __arrow_c_device_array__, found {type(source).__name__}")
        pair = method()
    if type(pair) is not tuple or len(pair) != 2:
        raise UsageError("expected an 'arrow_schema' and an 'arrow_device_array' PyCapsule")
    plan = plan_of(schema_in(pair[0]), True)
    owner = moved_device(pair[1])
    root = &owner.device.array
    if root.null_count and root.n_buffers == 1 and root.buffers != NULL and root.buffers[0] != NULL:
        raise needs_reading("the struct that stands for the batch may have nulls")
    survey_batch(plan, root, &variadic)
    found = new_import(columns, plan, variadic, root.length, owner, read_device)
    for i in range(plan.d.n_columns):
        found.import_field(plan.d.columns[i], root.children[i], root.offset, root.length)
    columns.dictionaries = tuple(found.dictionaries)
    where = DeviceMemory(0, 1, owner.device.device_type, owner.device.device_id,
                         <uintptr_t> owner.device.sync_event, owner)
    dictionaries = {}
    encode_dictionaries(encoder, columns, dictionaries)
    encoder.record_batch(&columns.d, NULL, (), 0)
    return DeviceBatch(columns, where, read_message(plan_schema(plan).serialize()), list(dictionaries.values()),
                       encoded(encoder, columns))
