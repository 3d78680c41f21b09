"""Writes the metadata of RecordBatch and DictionaryBatch messages, and lists the parts of their body, compressed.

FlatBuffers are usually written from the end. Here the tables stand at fixed places at the start, the vectors
follow, every offset points forward, and the whole metadata is two loops of stores over the plan
(Columnar format, "Encapsulated message format"; Message.fbs).
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, int8_t, uint32_t, uint8_t
from libc.stdlib cimport free, qsort
from libc.string cimport memcpy, memset

from arrowipc._core cimport Memory, next_job, open_batch, raise_fault, read_pairs
from arrowipc.metadata.checksums cimport SUM_DIGITS, crc_more, crc_start, put_hex
from arrowipc.inline.body_parts cimport BodyPart, padding, stored_size
from arrowipc.inline.fault cimport Fault
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Vector
from arrowipc.inline.frames cimport Codec, CodecFunctions
from arrowipc.inline.loads cimport add_overflows, load_i64, put16, put32, put64, round_up
from arrowipc.inline.plan cimport BatchHeader, ColumnsData, Extent, FieldPlan, v4_bitmap
from arrowipc.inline.room cimport reserve_items
from arrowipc.decode.decompress cimport CodecContext, encoders
from arrowipc.decode.framing cimport Message

from arrowipc.arguments import check_choice
from arrowipc.metadata.checksums import CLOSING_PAIR, PAIR
from arrowipc.errors import UsageError


# -- compressed buffers ----------------------------------------------------------------------------------------------

# The stored form of a buffer is one compressed frame if that makes it smaller, else the raw buffer.
#
# A frame depends on its buffer, the codec and the level only: not on the buffers before it nor on the thread
# that made it. So a batch has the same stored form however many threads worked on it.

cdef enum:
    PREFIX = 8                      # bytes of the uncompressed length before each stored buffer
    LINE = 64
    # Bytes: below this, releasing the GIL costs more time than it saves, at levels that take 50 us for so many bytes.
    WORTH_RELEASING = 1 << 14
    QUICK_LEVEL = 3
    SPARE_MEMORY = 1 << 22          # bytes that are kept although the batch needs less


cdef inline bint accepted(int64_t size, int64_t stored, double savings) noexcept nogil:
    """Return whether a frame of `stored` bytes is smaller than `size` by the fraction that is asked for."""
    return stored < size and <double> (size - stored) / <double> size >= savings


cdef int by_size(const void* a, const void* b) noexcept nogil:
    cdef int64_t left = (<const CompressJob*> a).size, right = (<const CompressJob*> b).size
    return (left < right) - (left > right)


cdef class Compressor(Jobs):
    """Compresses the buffers of batch after batch with one codec, for one writer; contexts and memory are reused."""

    def __cinit__(self, codec, level=None, min_space_savings=None, bint use_threads=True):
        from arrowipc import codecs

        self.codec = codecs.check_codec(codec)
        self.pool = encoders(self.codec, codecs.check_level(self.codec, level))
        self.savings = codecs.check_savings(min_space_savings)
        self.use_threads = use_threads

    def __dealloc__(self):
        free(self.jobs)

    cdef int compress(self, const ColumnsData* d, const uint8_t* chosen, BodyPart* parts) except -1:
        cdef CompressJob* job
        cdef bint use_threads
        cdef int64_t i
        self.add_buffers(d, chosen, parts)
        if self.n_jobs == 0:
            if self.memory is not None and self.memory.capacity > SPARE_MEMORY:
                self.memory = None
            return 0
        self.place()
        use_threads = self.use_threads and self.n_jobs > 1 and self.total >= self.pool.row.worth_threads
        if use_threads:
            # The largest first, so that no thread begins one when the others are done.
            qsort(self.jobs, self.n_jobs, sizeof(CompressJob), by_size)
        self.start(self.n_jobs)
        self.run_all(use_threads)
        if self.code:
            name = self.pool.c.error_name(self.code).decode()
            raise MemoryError(f"cannot compress to {self.pool.row.name.decode()}: {name}")
        for i in range(self.n_jobs):
            job = &self.jobs[i]
            if job.stored:
                parts[job.extent].data = job.target
                parts[job.extent].size = job.stored
                parts[job.extent].prefix = job.size
        return 0

    cdef int work(self) except -1:
        cdef CodecContext taken = self.pool.take_context()
        if self.total < WORTH_RELEASING and self.pool.level <= QUICK_LEVEL:
            self.make_frames(taken.state)
        else:
            with nogil:
                self.make_frames(taken.state)
        self.pool.give(taken)
        return 0

    cdef void make_frames(self, void* state) noexcept nogil:
        cdef const Codec* row = self.pool.row
        cdef const CodecFunctions* c = &self.pool.c
        cdef CompressJob* job
        cdef size_t stored
        cdef int64_t i = next_job(self)
        while i < self.failed:
            job = &self.jobs[i]
            stored = row.encode(c, state, job.target, job.room, job.source, job.size, self.pool.level)
            if c.is_error(stored):
                self.code = stored
            elif accepted(job.size, stored, self.savings):
                job.stored = stored
            i = next_job(self)

    cdef int add_buffers(self, const ColumnsData* d, const uint8_t* chosen, BodyPart* parts) except -1:
        """Store all buffers raw, and make jobs of those whose frames might be smaller."""
        cdef const FieldPlan* plan
        cdef int32_t f, k, first
        cdef bint wanted
        if reserve_items(<void**> &self.jobs, &self.jobs_room, d.n_extents, sizeof(CompressJob)) < 0:
            raise MemoryError(f"cannot allocate a list of {d.n_extents:,} buffers")
        self.n_jobs = self.total = 0
        self.code = 0
        if d.n_extents:
            memset(parts, 0, d.n_extents * sizeof(BodyPart))
        for f in range(d.plan.n_fields):
            plan = &d.plan.fields[f]
            wanted = chosen == NULL or chosen[f] != 0
            for k in range(plan.first_buffer, plan.first_buffer + plan.n_buffers):
                self.add_buffer(&d.extents[k], k, wanted, &parts[k])
            if plan.view >= 0:
                first = d.views[plan.view].first
                for k in range(first, first + d.views[plan.view].count):
                    self.add_buffer(&d.extents[k], k, wanted, &parts[k])
        return 0

    cdef void add_buffer(self, const Extent* extent, int32_t index, bint chosen, BodyPart* part) noexcept:
        if extent.size <= 0 or extent.data == NULL:
            return      # `part` is cleared
        part.data = extent.data
        part.size = extent.size
        part.prefix = -1
        part.prefixed = True
        if chosen and accepted(extent.size, self.pool.row.least, self.savings):
            self.jobs[self.n_jobs] = CompressJob(extent.data, extent.size, NULL, 0, 0, index)
            self.n_jobs += 1
            self.total += extent.size

    cdef int place(self) except -1:
        """Give every job the room that its frame can take at most; frames of threads share no cache lines."""
        cdef int64_t i, total = 0
        cdef uint8_t* target
        cdef CompressJob* job
        for i in range(self.n_jobs):
            job = &self.jobs[i]
            job.room = self.pool.row.room(&self.pool.c, job.size, self.pool.level)
            if add_overflows(total, round_up(job.room, LINE), &total):
                raise MemoryError("the buffers of the batch add up to more than memory can hold")
        target = self.frame_memory(total)
        for i in range(self.n_jobs):
            job = &self.jobs[i]
            job.target = target
            target += round_up(job.room, LINE)
        return 0

    cdef object keep(self):
        kept = self.memory
        self.memory = None
        return kept

    cdef uint8_t* frame_memory(self, int64_t size) except NULL:
        """Return `size` bytes: the memory of the batch before, unless it is too small, or much too large."""
        cdef Memory memory = self.memory
        if memory is None or memory.capacity < size or (
                memory.capacity > SPARE_MEMORY and memory.capacity // 2 > size):
            memory = self.memory = None     # freed first, so that both need not exist at the same time
            memory = self.memory = Memory(size)
        return memory.data


# -- messages --------------------------------------------------------------------------------------------------------

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
    """Write a field that points forward at a table or vector."""
    put32(base + field, target - field)


cdef inline void put_vtable(uint8_t* base, int64_t vtable, int64_t table, int64_t size, int32_t n_fields,
                            const int8_t* places) noexcept nogil:
    """Write a vtable, and the pointer to it at the start of its table. A place of 0: the field is absent."""
    cdef int32_t i
    put16(base + vtable, 4 + 2 * n_fields)
    put16(base + vtable + 2, size)
    for i in range(n_fields):
        put16(base + vtable + 4 + 2 * i, places[i])
    put32(base + table, table - vtable)


cdef inline void put_envelope(uint8_t* base, int version, int kind, bint pairs) noexcept nogil:
    """Write the Message table, without the fields whose values are known later."""
    cdef int8_t[5] places = [AT_VERSION, AT_KIND, AT_HEADER, AT_BODY_LENGTH, AT_PAIRS if pairs else 0]
    put32(base, MESSAGE)
    put_vtable(base, MESSAGE_VTABLE, MESSAGE, 24, 5, places)
    put16(base + MESSAGE + AT_VERSION, version)
    base[MESSAGE + AT_KIND] = <uint8_t> kind
    put_offset(base, MESSAGE + AT_HEADER, HEADER)


cdef inline void put_dictionary(uint8_t* base, int64_t id, bint is_delta) noexcept nogil:
    """Write the DictionaryBatch table around a RecordBatch at INNER."""
    cdef int8_t[3] places = [AT_ID, AT_DATA, AT_DELTA if is_delta else 0]
    put_vtable(base, HEADER_VTABLE, HEADER, DICTIONARY_SIZE, 3, places)
    put64(base + HEADER + AT_ID, id)
    put_offset(base, HEADER + AT_DATA, INNER)
    base[HEADER + AT_DELTA] = is_delta


cdef inline int64_t put_batch(uint8_t* base, int64_t vtable, int64_t table, int64_t length, int codec,
                              bint views) noexcept nogil:
    """Write the RecordBatch table and, behind it, that of its compression; return where the vectors may begin."""
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
    """Write the length of a vector of 8-byte aligned items at the next place; return where the items begin."""
    put_offset(base, field, at + 4)
    put32(base + at, 0)
    put32(base + at + 4, count)
    return at + 8


cdef class Encoder:
    """Encodes one message after another into memory that it keeps."""

    def __cinit__(self, compressor=None, alignment=8, bint legacy=False, version="V5", bint checksum=False):
        check_choice("alignment", alignment, (8, 64))
        check_choice("metadata_version", version, ("V5", "V4"))
        self.compressor = compressor
        self.alignment = alignment
        self.legacy = legacy
        self.version = MetadataVersion_V4 if version == "V4" else MetadataVersion_V5
        self.metadata_at = 4 if legacy else 8
        self.checksum = checksum

    def __dealloc__(self):
        free(self.head)
        free(self.stored)
        free(self.parts)

    cdef int encode(self, const ColumnsData* d, const uint8_t* chosen, tuple pairs, int64_t position,
                    bint dictionary=False, int64_t id=0, bint is_delta=False) except -1:
        cdef int64_t n_buffers = self.count_buffers(d), at
        cdef int codec = -1
        if self.checksum:
            pairs = (*pairs, CLOSING_PAIR if self.closing else PAIR)
        self.reserve(self.metadata_at + tables_size(d, n_buffers), <int32_t> n_buffers)
        if self.compressor is not None:
            codec = self.compressor.codec
            self.compressor.compress(d, chosen, self.stored)
        at = self.put_tables(d, n_buffers, codec, len(pairs) > 0, dictionary, id, is_delta)
        if pairs:
            at = self.put_pairs(at, pairs)
        return self.finish_head(at, position)

    cdef bint encode_raw(self, const ColumnsData* d, int64_t position, bint dictionary, int64_t id) noexcept nogil:
        cdef int64_t n_buffers = self.count_buffers(d)
        if (self.checksum or n_buffers > self.parts_room
                or self.metadata_at + tables_size(d, n_buffers) + self.alignment > min(self.head_room, INT32_MAX)):
            return False
        self.close_head(self.put_tables(d, n_buffers, -1, False, dictionary, id, False), position)
        return True

    cdef inline int64_t count_buffers(self, const ColumnsData* d) noexcept nogil:
        """Return the number of Buffer structs of a message."""
        return d.n_extents + <int64_t> (d.plan.n_bitmaps if self.version == MetadataVersion_V4 else 0)

    cdef int64_t put_tables(self, const ColumnsData* d, int64_t n_buffers, int codec, bint pairs, bint dictionary,
                            int64_t id, bint is_delta) noexcept nogil:
        """Write all metadata except custom pairs, for which there must be room; return where it ends."""
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
        """Write the Buffer structs, and list the parts of the body."""
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
        """Do what `put_buffers` does if nothing is compressed, left out or moved."""
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
        """Write Message.custom_metadata; return where it ends, a multiple of 8."""
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
            self.sum_at = self.metadata_at + at + 12 + text_size(key) + 4
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
        """Do the same if there is room for one more multiple of the alignment."""
        cdef int64_t end = self.metadata_at + size
        cdef int64_t pad = padding(position + end, self.alignment)
        memset(self.head + end, 0, pad)
        if not self.legacy:
            put32(self.head, -1)
        put32(self.head + self.metadata_at - 4, size + pad)
        self.head_size = end + pad

    cdef bint agrees(self, Message message, int64_t views) except -1:
        """Return whether a RecordBatch message of `views` view columns is like ours, apart from its custom metadata."""
        cdef BatchHeader header
        cdef Fault fault
        cdef int64_t i, places = message.envelope.body_length
        if message.pieces is not None or message.envelope.version != self.version:
            return False
        if self.version == MetadataVersion_V4 and message.custom_metadata:
            return False    # Arrow 0.17 stated the compression there
        if open_batch(&message.envelope.header, &header, &fault) < 0:
            raise_fault(&fault)
        if (header.codec != (self.compressor.codec if self.compressor is not None else -1)
                or header.variadic.count != views):
            return False
        for i in range(header.buffers.count):
            places |= load_i64(header.buffers.data + Buffer_SIZE * i + Buffer_offset)
        return places & (self.alignment - 1) == 0

    cdef void sign(self, int64_t number) noexcept nogil:
        cdef const BodyPart* part
        cdef uint8_t* text = self.head + self.sum_at
        cdef uint8_t[LINE] zeros
        cdef uint32_t crc
        cdef int32_t i
        memset(zeros, 0, LINE)
        put_hex(text, <uint32_t> number)
        crc = crc_start(self.head + self.metadata_at, self.head_size - self.metadata_at, text + SUM_DIGITS)
        for i in range(self.n_parts):
            part = &self.parts[i]
            if part.prefixed:
                crc = crc_more(crc, <const uint8_t*> &part.prefix, PREFIX)
            crc = crc_more(crc, part.data, part.size)
            crc = crc_more(crc, zeros, padding(stored_size(part), self.alignment))
        put_hex(text + SUM_DIGITS, ~crc)

    cdef int wrap_anew(self, Message message, tuple pairs, int64_t position) except -1:
        """Do what `wrap` does with other custom metadata: write the tables of a RecordBatch message again."""
        cdef BatchHeader header
        cdef Fault fault
        cdef uint8_t* base
        cdef int64_t at
        if open_batch(&message.envelope.header, &header, &fault) < 0:
            raise_fault(&fault)
        # The size of the source is not enough: its vectors may share bytes.
        self.reserve(self.metadata_at + HEADER + BATCH_SIZE + 40 + header.nodes.count * FieldNode_SIZE
                     + header.buffers.count * Buffer_SIZE + header.variadic.count * 8, 1)
        base = self.head + self.metadata_at
        memset(base, 0, HEADER + BATCH_SIZE + 16)
        put_envelope(base, self.version, MessageHeader_RecordBatch, len(pairs) > 0)
        at = put_batch(base, HEADER_VTABLE, HEADER, header.length, header.codec, header.variadic.count > 0)
        at = copy_vector(base, HEADER + AT_NODES, at, &header.nodes, FieldNode_SIZE)
        at = copy_vector(base, HEADER + AT_BUFFERS, at, &header.buffers, Buffer_SIZE)
        if header.variadic.count:
            at = copy_vector(base, HEADER + AT_VARIADIC, at, &header.variadic, 8)
        put64(base + MESSAGE + AT_BODY_LENGTH, self.body_length)
        return self.finish_head(self.put_pairs(at, pairs) if pairs else at, position)

    cdef int wrap(self, Message message, int64_t position) except -1:
        """Encode a message that was read; its checksum, which counts it in the old source, is removed or replaced."""
        cdef int64_t size = round_up(message.metadata_size, 8)
        cdef tuple pairs = read_pairs(&message.envelope.root, Message_custom_metadata), kept
        self.reserve(self.metadata_at + size, 1)
        memcpy(self.head + self.metadata_at, message.metadata_bytes, message.metadata_size)
        memset(self.head + self.metadata_at + message.metadata_size, 0, size - message.metadata_size)
        self.n_parts = 1 if message.envelope.body_length else 0
        self.parts[0].data = message.body_bytes
        self.parts[0].size = self.body_length = self.raw_length = message.envelope.body_length
        self.parts[0].prefixed = False
        kept = tuple([pair for pair in pairs if pair[0] != PAIR[0]])
        if self.checksum or len(kept) < len(pairs):
            return self.wrap_anew(message, (*kept, PAIR) if self.checksum else kept, position)
        return self.finish_head(size, position)

    cdef int reserve(self, int64_t head, int32_t parts) except -1:
        """Make room for `head` bytes and `parts` parts; the bytes and parts so far stay."""
        if (reserve_items(<void**> &self.head, &self.head_room, head, 1) < 0
                or reserve_items(<void**> &self.stored, &self.stored_room, parts, sizeof(BodyPart)) < 0
                or reserve_items(<void**> &self.parts, &self.parts_room, parts, sizeof(BodyPart)) < 0):
            raise MemoryError(f"cannot allocate {head:,} bytes of metadata and lists of {parts:,} buffers")
        return 0


cdef inline int64_t text_size(bytes text) noexcept:
    """Return the bytes of a FlatBuffers string: its length, the text, a NUL, zeros up to a multiple of 4."""
    return round_up(4 + len(text) + 1, 4)


cdef inline int put_text(uint8_t* out, bytes text) except -1:
    cdef const uint8_t* source = text
    put32(out, len(text))
    memcpy(out + 4, source, len(text))
    return 0


cdef inline int64_t tables_size(const ColumnsData* d, int64_t n_buffers) noexcept nogil:
    """Return the bytes of metadata at most, without custom pairs."""
    return (INNER + BATCH_SIZE + 16 + 8 + <int64_t> FieldNode_SIZE * d.plan.n_fields + 8 + Buffer_SIZE * n_buffers
            + 8 + 8 * <int64_t> d.plan.n_views)


cdef inline int64_t copy_vector(uint8_t* base, int64_t field, int64_t at, const Vector* items,
                                int32_t size) noexcept nogil:
    """Write a vector of items of `size` bytes, a multiple of 8; return where it ends."""
    at = put_vector(base, field, at, items.count)
    if items.count:
        memcpy(base + at, items.data, items.count * size)
    return at + items.count * size


cdef inline int64_t put_nodes(uint8_t* base, int64_t table, int64_t at, const ColumnsData* d) noexcept nogil:
    cdef int32_t f
    at = put_vector(base, table + AT_NODES, at, d.plan.n_fields)
    for f in range(d.plan.n_fields):
        put64(base + at + FieldNode_length, d.nodes[f].length)
        put64(base + at + FieldNode_null_count, d.nodes[f].null_count)
        at += FieldNode_SIZE
    return at


cdef inline int64_t put_variadic(uint8_t* base, int64_t table, int64_t at, const ColumnsData* d) noexcept nogil:
    """Write RecordBatch.variadicBufferCounts, one per view field in pre-order."""
    cdef int32_t i
    if d.plan.n_views == 0:
        return at
    at = put_vector(base, table + AT_VARIADIC, at, d.plan.n_views)
    for i in range(d.plan.n_views):
        put64(base + at, d.views[i].count)
        at += 8
    return at
