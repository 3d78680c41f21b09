"""Writes the metadata of RecordBatch and DictionaryBatch messages, and lists the parts of their body.

FlatBuffers are usually written from the end. Here the tables stand at fixed places at the start, the vectors
follow, every offset points forward, and the whole metadata is two loops of stores over the plan
(Columnar format, "Encapsulated message format"; Message.fbs).
"""

from libc.stdint cimport INT32_MAX, int8_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from arrowipc._core cimport open_batch, raise_fault
from arrowipc.inline.body_parts cimport BodyPart, padding, stored_size
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.loads cimport load_i64, put16, put32, put64, round_up
from arrowipc.inline.plan cimport BatchHeader, ColumnsData, FieldPlan, v4_bitmap
from arrowipc.read.framing cimport Message
from arrowipc.write.compress cimport Compressor

from arrowipc.errors import UsageError

# Where the tables of a message stand in its metadata. A vtable of n fields takes 4 + 2 * n bytes.
cdef enum:
    MESSAGE_VTABLE = 8
    MESSAGE = 24
    HEADER_VTABLE = 48
    HEADER = 64
    # RecordBatch, alone or behind the DictionaryBatch that holds it.
    BATCH_SIZE = 32
    DICTIONARY_SIZE = 24
    INNER_VTABLE = HEADER + DICTIONARY_SIZE
    INNER = INNER_VTABLE + 16
    # Fields in their tables; the first four bytes point at the vtable.
    AT_HEADER = 4
    AT_BODY_LENGTH = 8
    AT_PAIRS = 16
    AT_VERSION = 20
    AT_KIND = 22
    AT_NODES = 4
    AT_LENGTH = 8
    AT_BUFFERS = 16
    AT_COMPRESSION = 20
    AT_VARIADIC = 24
    AT_DATA = 4
    AT_ID = 8
    AT_DELTA = 16


cdef inline void put_offset(uint8_t* base, int64_t field, int64_t target) noexcept nogil:
    """A field that points forward at a table or vector."""
    put32(base + field, target - field)


cdef inline void put_vtable(uint8_t* base, int64_t vtable, int64_t table, int64_t size, int32_t n_fields,
                            const int8_t* places) noexcept nogil:
    """A vtable, and the pointer to it at the start of its table. A place of 0: the field is absent."""
    cdef int32_t i
    put16(base + vtable, 4 + 2 * n_fields)
    put16(base + vtable + 2, size)
    for i in range(n_fields):
        put16(base + vtable + 4 + 2 * i, places[i])
    put32(base + table, table - vtable)


cdef inline void put_envelope(uint8_t* base, int version, int kind, bint pairs) noexcept nogil:
    """The Message table, without what is known later."""
    cdef int8_t[5] places = [AT_VERSION, AT_KIND, AT_HEADER, AT_BODY_LENGTH, AT_PAIRS if pairs else 0]
    put32(base, MESSAGE)
    put_vtable(base, MESSAGE_VTABLE, MESSAGE, 24, 5, places)
    put16(base + MESSAGE + AT_VERSION, version)
    base[MESSAGE + AT_KIND] = <uint8_t> kind
    put_offset(base, MESSAGE + AT_HEADER, HEADER)


cdef inline void put_dictionary(uint8_t* base, int64_t id, bint is_delta) noexcept nogil:
    """The DictionaryBatch table around a RecordBatch at INNER."""
    cdef int8_t[3] places = [AT_ID, AT_DATA, AT_DELTA if is_delta else 0]
    put_vtable(base, HEADER_VTABLE, HEADER, DICTIONARY_SIZE, 3, places)
    put64(base + HEADER + AT_ID, id)
    put_offset(base, HEADER + AT_DATA, INNER)
    base[HEADER + AT_DELTA] = is_delta


cdef inline int64_t put_batch(uint8_t* base, int64_t vtable, int64_t table, int64_t length, int codec,
                              bint views) noexcept nogil:
    """The RecordBatch table and, behind it, that of its compression; returns where the vectors may begin."""
    cdef int8_t[5] places = [AT_LENGTH, AT_NODES, AT_BUFFERS, AT_COMPRESSION if codec >= 0 else 0,
                             AT_VARIADIC if views else 0]
    cdef int8_t[1] codec_place = [4]
    cdef int64_t at = table + BATCH_SIZE
    put_vtable(base, vtable, table, 28, 5, places)
    put64(base + table + AT_LENGTH, length)
    if codec >= 0:
        put_vtable(base, at, at + 8, 5, 1, codec_place)
        base[at + 12] = <uint8_t> codec
        put_offset(base, table + AT_COMPRESSION, at + 8)
        at += 16
    return at


cdef inline int64_t put_vector(uint8_t* base, int64_t field, int64_t at, int64_t count) noexcept nogil:
    """The length of a vector of 8-byte aligned items at the next place; returns where the items begin."""
    put_offset(base, field, at + 4)
    put32(base + at, 0)
    put32(base + at + 4, count)
    return at + 8


cdef class Encoder:
    """Encodes one message after another into memory that it keeps.

    Parameters
    ----------
    compressor : Compressor or None
    alignment : {8, 64}
        Of bodies, counted from where the sink began, and of the buffers in them.
    legacy : bool
        Write the prefix from before version 0.15: a size without a continuation marker.
    version : {"V5", "V4"}
    """

    def __cinit__(self, compressor=None, int64_t alignment=8, bint legacy=False, version="V5"):
        if alignment != 8 and alignment != 64:
            raise UsageError(f"alignment must be 8 or 64, found {alignment}")
        if version not in ("V4", "V5"):
            raise UsageError(f'metadata_version must be "V5" or "V4", found {version!r}')
        self.compressor = compressor
        self.alignment = alignment
        self.legacy = legacy
        self.version = MetadataVersion_V4 if version == "V4" else MetadataVersion_V5
        self.metadata_at = 4 if legacy else 8

    def __dealloc__(self):
        free(self.head)
        free(self.stored)

    cdef int record_batch(self, const ColumnsData* d, const uint8_t* chosen, tuple pairs,
                          int64_t position) except -1:
        return self.encode(d, chosen, pairs, position, False, 0, False)

    cdef int dictionary_batch(self, const ColumnsData* d, int64_t id, bint is_delta, int64_t position) except -1:
        return self.encode(d, NULL, (), position, True, id, is_delta)

    cdef int encode(self, const ColumnsData* d, const uint8_t* chosen, tuple pairs, int64_t position,
                    bint dictionary, int64_t id, bint is_delta) except -1:
        cdef int64_t n_buffers = self.count_buffers(d), at
        cdef int codec = -1
        self.reserve(self.metadata_at + tables_size(d, n_buffers), <int32_t> n_buffers)
        if self.compressor is not None:
            codec = self.compressor.codec
            self.compressor.compress(d, chosen, self.stored)
        at = self.put_tables(d, n_buffers, codec, len(pairs) > 0, dictionary, id, is_delta)
        if pairs:
            at = self.put_pairs(at, pairs)
        return self.finish_head(at, position)

    cdef bint encode_raw(self, const ColumnsData* d, int64_t position, bint dictionary, int64_t id) noexcept nogil:
        """`encode` without compression, pairs and delta, if there is room for it; False: `encode` makes room."""
        cdef int64_t n_buffers = self.count_buffers(d)
        if (n_buffers > self.parts_room
                or self.metadata_at + tables_size(d, n_buffers) + self.alignment > min(self.head_room, INT32_MAX)):
            return False
        self.close_head(self.put_tables(d, n_buffers, -1, False, dictionary, id, False), position)
        return True

    cdef inline int64_t count_buffers(self, const ColumnsData* d) noexcept nogil:
        """Buffer structs of a message."""
        return d.n_extents + <int64_t> (d.plan.n_bitmaps if self.version == MetadataVersion_V4 else 0)

    cdef int64_t put_tables(self, const ColumnsData* d, int64_t n_buffers, int codec, bint pairs, bint dictionary,
                            int64_t id, bint is_delta) noexcept nogil:
        """All of the metadata but custom pairs, where there is room; returns where it ends."""
        cdef uint8_t* base = self.head + self.metadata_at
        cdef int64_t at, table = INNER if dictionary else HEADER
        memset(base, 0, INNER + BATCH_SIZE + 16)
        put_envelope(base, self.version, MessageHeader_DictionaryBatch if dictionary else MessageHeader_RecordBatch,
                     pairs)
        if dictionary:
            put_dictionary(base, id, is_delta)
        at = put_batch(base, INNER_VTABLE if dictionary else HEADER_VTABLE, table, d.length, codec,
                       d.plan.n_views > 0)
        at = put_nodes(base, table, at, d)
        at = self.put_buffers(base, table, at, d, n_buffers)
        at = put_variadic(base, table, at, d)
        put64(base + MESSAGE + AT_BODY_LENGTH, self.body_length)
        return at

    cdef int64_t put_buffers(self, uint8_t* base, int64_t table, int64_t at, const ColumnsData* d,
                             int64_t n_buffers) noexcept nogil:
        """The Buffer structs; the parts of the body with them."""
        cdef const FieldPlan* field
        cdef int64_t offset = 0, raw = 0, size, alignment = self.alignment
        cdef int32_t f, k, count, extent
        cdef BodyPart* part = self.parts
        cdef bint packed = self.compressor is not None
        at = put_vector(base, table + AT_BUFFERS, at, n_buffers)
        if not packed and d.plan.n_views == 0 and n_buffers == d.n_extents:
            # The common case: the buffers of the body are the extents, in their order.
            return self.put_plain(base, at, d)
        for f in range(d.plan.n_fields):
            field = &d.plan.fields[f]
            if v4_bitmap(field) and self.version == MetadataVersion_V4:
                put64(base + at, offset)
                put64(base + at + 8, 0)
                part.data = NULL
                part.size = 0
                part.prefixed = False
                part += 1
                at += Buffer_SIZE
            count = field.n_buffers + (d.views[field.view].count if field.view >= 0 else 0)
            for k in range(count):
                extent = (field.first_buffer + k if k < field.n_buffers
                          else d.views[field.view].first + k - field.n_buffers)
                raw += d.extents[extent].size
                if packed:
                    part[0] = self.stored[extent]
                else:
                    part.data = d.extents[extent].data
                    part.size = d.extents[extent].size
                    part.prefixed = False
                size = stored_size(part)
                put64(base + at, offset)
                put64(base + at + 8, size)
                offset += size + padding(size, alignment)
                at += Buffer_SIZE
                part += 1
        self.n_parts = <int32_t> (part - self.parts)
        self.body_length = offset
        self.raw_length = raw
        return at

    cdef int64_t put_plain(self, uint8_t* base, int64_t at, const ColumnsData* d) noexcept nogil:
        """`put_buffers` where nothing is compressed, left out or moved."""
        cdef int64_t offset = 0, raw = 0, size, alignment = self.alignment
        cdef int32_t i
        cdef BodyPart* part = self.parts
        for i in range(d.n_extents):
            size = d.extents[i].size
            part.data = d.extents[i].data
            part.size = size
            part.prefixed = False
            put64(base + at, offset)
            put64(base + at + 8, size)
            raw += size
            offset += size + padding(size, alignment)
            at += Buffer_SIZE
            part += 1
        self.n_parts = d.n_extents
        self.body_length = offset
        self.raw_length = raw
        return at

    cdef int64_t put_pairs(self, int64_t at, tuple pairs) except -1:
        """Message.custom_metadata; returns where it ends, a multiple of 8."""
        cdef int64_t n = len(pairs), entry, i, size = 4 + 4 * n + 8 + 12 * n + 8
        cdef int8_t[2] places = [4, 8]
        cdef uint8_t* base
        for key, value in pairs:
            size += len(key) + len(value) + 16
        self.reserve(self.metadata_at + at + size, 0)
        base = self.head + self.metadata_at
        memset(base + at, 0, size)
        put_offset(base, MESSAGE + AT_PAIRS, at)
        put32(base + at, n)
        entry = at + 4 + 4 * n
        # One vtable serves all entries; it stands in front of the first.
        at = entry + 8
        for i, (key, value) in enumerate(pairs):
            put_offset(base, entry - 4 * (n - i), at)
            if i == 0:
                put_vtable(base, entry, at, 12, 2, places)
            put32(base + at, at - entry)
            put_offset(base, at + 4, at + 12)
            put_offset(base, at + 8, at + 12 + text_size(key))
            put_text(base + at + 12, key)
            put_text(base + at + 12 + text_size(key), value)
            at += 12 + text_size(key) + text_size(value)
        return round_up(at, 8)

    cdef int finish_head(self, int64_t size, int64_t position) except -1:
        """Put the prefix before `size` bytes of metadata and zeros behind them."""
        if size + self.alignment > INT32_MAX:
            raise UsageError(f"the metadata of the message takes {size:,} bytes; its size is an int32")
        self.reserve(self.metadata_at + size + self.alignment, 0)
        self.close_head(size, position)
        return 0

    cdef inline void close_head(self, int64_t size, int64_t position) noexcept nogil:
        """The same, where there is room for one more multiple of the alignment."""
        cdef int64_t end = self.metadata_at + size
        cdef int64_t pad = padding(position + end, self.alignment)
        memset(self.head + end, 0, pad)
        if not self.legacy:
            put32(self.head, -1)
        put32(self.head + self.metadata_at - 4, size + pad)
        self.head_size = end + pad

    cdef bint agrees(self, Message message) except -1:
        """Whether a RecordBatch message has our version, codec and alignment, so that its body needs no change."""
        cdef BatchHeader header
        cdef Fault fault
        cdef int64_t i, places = message.envelope.body_length
        if message.pieces is not None or message.envelope.version != self.version:
            return False
        if self.version == MetadataVersion_V4 and message.custom_metadata:
            return False    # Arrow 0.17 announced compression there
        if open_batch(&message.envelope.header, &header, &fault) < 0:
            raise_fault(&fault)
        if header.codec != (self.compressor.codec if self.compressor is not None else -1):
            return False
        for i in range(header.buffers.count):
            places |= load_i64(header.buffers.data + Buffer_SIZE * i + Buffer_offset)
        return places & (self.alignment - 1) == 0

    cdef int wrap(self, Message message, int64_t position) except -1:
        """Make a message that was read ready to go out again."""
        cdef int64_t size = round_up(message.metadata_size, 8)
        self.reserve(self.metadata_at + size, 1)
        memcpy(self.head + self.metadata_at, message.metadata_bytes, message.metadata_size)
        memset(self.head + self.metadata_at + message.metadata_size, 0, size - message.metadata_size)
        self.n_parts = 1 if message.envelope.body_length else 0
        self.parts[0].data = message.body_bytes
        self.parts[0].size = self.body_length = self.raw_length = message.envelope.body_length
        self.parts[0].prefixed = False
        return self.finish_head(size, position)

    cdef int reserve(self, int64_t head, int32_t parts) except -1:
        """Room for `head` bytes and `parts` parts; what is there stays."""
        cdef void* moved
        if head > self.head_room:
            # 64 more for the padding, so that the common case asks once.
            moved = realloc(self.head, 2 * head + 64)
            if moved == NULL:
                raise MemoryError(f"cannot allocate {head:,} bytes of metadata")
            self.head = <uint8_t*> moved
            self.head_room = 2 * head + 64
        if parts > self.parts_room:
            moved = realloc(self.stored, 2 * <size_t> parts * sizeof(BodyPart))
            if moved == NULL:
                raise MemoryError(f"cannot allocate a list of {parts:,} buffers")
            self.stored = <BodyPart*> moved
            self.parts = self.stored + parts
            self.parts_room = parts
        return 0


cdef inline int64_t text_size(bytes text) noexcept:
    """Bytes of a FlatBuffers string: its length, itself, a NUL, zeros up to a multiple of 4."""
    return round_up(4 + len(text) + 1, 4)


cdef inline int put_text(uint8_t* out, bytes text) except -1:
    cdef const uint8_t* source = text
    put32(out, len(text))
    memcpy(out + 4, source, len(text))
    return 0


cdef inline int64_t tables_size(const ColumnsData* d, int64_t n_buffers) noexcept nogil:
    """Bytes of metadata at most, without custom pairs."""
    return (INNER + BATCH_SIZE + 16 + 8 + <int64_t> FieldNode_SIZE * d.plan.n_fields + 8 + Buffer_SIZE * n_buffers
            + 8 + 8 * <int64_t> d.plan.n_views)


cdef inline int64_t put_nodes(uint8_t* base, int64_t table, int64_t at, const ColumnsData* d) noexcept nogil:
    cdef int32_t f
    at = put_vector(base, table + AT_NODES, at, d.plan.n_fields)
    for f in range(d.plan.n_fields):
        put64(base + at + FieldNode_length, d.nodes[f].length)
        put64(base + at + FieldNode_null_count, d.nodes[f].null_count)
        at += FieldNode_SIZE
    return at


cdef inline int64_t put_variadic(uint8_t* base, int64_t table, int64_t at, const ColumnsData* d) noexcept nogil:
    """RecordBatch.variadicBufferCounts, one per view field in pre-order."""
    cdef int32_t i
    if d.plan.n_views == 0:
        return at
    at = put_vector(base, table + AT_VARIADIC, at, d.plan.n_views)
    for i in range(d.plan.n_views):
        put64(base + at, d.views[i].count)
        at += 8
    return at
