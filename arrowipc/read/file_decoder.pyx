"""The file decoder: opens a footer and decodes the messages that its blocks point at; sans I/O.

Columnar format, "IPC File Format". A driver asks where a block lies, brings its bytes, and gets a batch.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport (
    Columns, Source, limits_data, locate, open_batch, open_message, raise_fault, read_pairs,
)
from arrowipc.inline.fault cimport FAULT_FLATBUFFER, FAULT_MISSING, Fault, fail_in
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, Vector, fb_i16, fb_root, fb_table, fb_vector
from arrowipc.inline.loads cimport load_i32, load_i64
from arrowipc.inline.plan cimport BatchHeader, Envelope, LimitsData
from arrowipc.metadata.schema_reader cimport plan_schema, read_plan
from arrowipc.read.batch_decoder cimport Decoder, new_decoder
from arrowipc.read.framing cimport Message, kind_name

from arrowipc.errors import ArrowIpcError, FormatError, LimitError, UsageError

MAGIC = b"ARROW1"
#: Bytes behind the footer's table: its size as int32, and the magic.
TAIL_SIZE = 4 + len(MAGIC)
#: The smallest file: magic with padding, a table, tail.
SMALLEST = 8 + 8 + TAIL_SIZE
#: Ranges of a body that are closer than this are fetched as one.
NEAR = 1 << 16

cdef enum:
    ADDED_UP_AT_ONCE = 1000     # blocks: that is a matter of microseconds
    FREE_USES = 16              # of blocks of a larger footer, before its pages are all looked at


def footer_range(bytes head, bytes tail, int64_t size):
    """Find the footer of a file of `size` bytes from its first 8 and last `TAIL_SIZE` bytes.

    Returns
    -------
    start, length : int
        The bytes of the Footer table.

    Raises
    ------
    FormatError
        The bytes are not an Arrow IPC file, and what they look like instead.
    """
    if head[:6] != MAGIC:
        from arrowipc.read.file_signatures import foreign

        if size < len(MAGIC):
            raise FormatError(f"not an Arrow IPC file: {size} bytes are too few" if size else
                              "not an Arrow IPC file: it is empty")
        known = None if head[:4] == MAGIC[:4] else foreign(head)
        if known is None:
            known = f"not an Arrow IPC file: expected the magic {MAGIC!r} at byte 0, found {head[:6]!r}"
            if 0 < int.from_bytes(head[:4], "little") < 1 << 23:
                known += "; streams of Arrow before 0.15 begin like this: open_stream() reads them"
        raise FormatError(known)
    if size < SMALLEST:
        raise FormatError(f"an Arrow IPC file of {size} bytes is cut short: it has no room for a footer, nor "
                          "for a batch that could be recovered")
    if tail[4:] != MAGIC:
        raise FormatError(f"the file does not end with the magic {MAGIC!r} but with {tail[4:]!r}: it was cut short "
                          "or something was appended: arrowipc.recover() reads what is whole")
    length = int.from_bytes(tail[:4], "little", signed=True)
    if not 0 < length <= size - 8 - TAIL_SIZE:
        raise FormatError(f"the footer size is {length}: expected 1..{size - 8 - TAIL_SIZE} in a file of {size} bytes")
    return size - TAIL_SIZE - length, length


cdef class Footer:
    """The footer of a file: the schema's plan, and where its messages lie.

    Opening a file costs nearly the same however many batches it has: blocks are not looked at before they are used,
    and added up when it is clear that more than a few will be.
    """

    cdef Block block(self, int64_t index, bint dictionary) except *:
        """Block `index`: inside the bytes before the footer, and made of multiples of 8."""
        cdef const Vector* blocks = &self.dictionaries if dictionary else &self.batches
        cdef const uint8_t* entry
        cdef Block b
        what = "dictionary" if dictionary else "record batch"
        if not 0 <= index < blocks.count:
            raise IndexError(f"{what} {index} is out of range: the file has {blocks.count}")
        entry = blocks.data + index * Block_SIZE
        b.offset = load_i64(entry + Block_offset)
        b.metadata_length = load_i32(entry + Block_metaDataLength)
        b.body_length = load_i64(entry + Block_bodyLength)
        if (b.offset < 8 or b.metadata_length <= 0 or b.body_length < 0 or b.offset > self.end
                or b.metadata_length > self.end - b.offset
                or b.body_length > self.end - b.offset - b.metadata_length):
            raise FormatError(f"footer: {what} block {index} (offset {b.offset}, metadata {b.metadata_length}, body "
                              f"{b.body_length}) does not lie in bytes 8..{self.end} of the file")
        if (b.offset | b.metadata_length | b.body_length) & 7:
            raise FormatError(f"footer: {what} block {index} (offset {b.offset}, metadata {b.metadata_length}, body "
                              f"{b.body_length}) is not made of multiples of 8")
        return b


cdef Footer read_footer(Source source, int64_t end, const LimitsData* limits):
    """Open the Footer table in `source`, which lies at byte `end` of the file."""
    cdef Footer footer = Footer.__new__(Footer)
    cdef Table root, schema
    cdef Fault fault
    cdef int found
    if (fb_root(source.data, source.size, &root) < 0 or fb_i16(&root, Footer_version, 0, &footer.version) < 0
            or fb_vector(&root, Footer_dictionaries, Block_SIZE, &footer.dictionaries) < 0
            or fb_vector(&root, Footer_recordBatches, Block_SIZE, &footer.batches) < 0):
        fail_in(&fault, FAULT_FLATBUFFER, "Footer table", 0, 0, 0)
        raise_fault(&fault)
    found = fb_table(&root, Footer_schema, &schema)
    if found <= 0:
        fail_in(&fault, FAULT_MISSING if found == 0 else FAULT_FLATBUFFER, "Footer.schema", 0, 0, root.pos)
        raise_fault(&fault)
    footer.source = source
    footer.end = end
    if footer.batches.count + footer.dictionaries.count <= ADDED_UP_AT_ONCE:
        check_total(footer)
    try:
        footer.plan = read_plan(source.data, source.size, schema.pos, limits, source)
        footer.metadata = read_pairs(&root, Footer_custom_metadata)
    except ArrowIpcError as error:
        error.args = (f"footer: {error}",)
        raise
    return footer


cdef class FileDecoder:
    """Decodes an Arrow IPC file whose bytes somebody else fetches.

    Parameters
    ----------
    footer : bytes-like
        The footer's table (see `footer_range`).
    start : int
        Where the table begins in the file: no message reaches beyond.
    columns, validate, limits, use_threads, ensure_native_endian
        As for `arrowipc.open_file`.
    """

    def __cinit__(self, footer, int64_t start, *, columns=None, validate="full", limits=None, use_threads=True,
                 ensure_native_endian=True):
        limits_data(limits, &self.limits)
        self.decoder = new_decoder(columns, validate, limits, use_threads, ensure_native_endian)
        self.footer = read_footer(Source(footer), start, &self.limits)
        if validate == "strict":
            check_disjoint(self.footer)
        self.decoder.open(self.footer.plan)

    @property
    def schema(self):
        """arrowipc.Schema: the footer's schema, after projection."""
        return plan_schema(self.decoder.plan)

    @property
    def version(self):
        """str: the footer's metadata version, "V4" or "V5"; "V1" and so on where it says that."""
        return f"V{self.footer.version + 1}"

    @property
    def metadata(self):
        """tuple of (bytes, bytes): the footer's custom metadata."""
        return self.footer.metadata

    @property
    def num_record_batches(self):
        """int: record batches that the footer lists."""
        return self.footer.batches.count

    @property
    def num_dictionaries(self):
        """int: dictionary batches that the footer lists."""
        return self.footer.dictionaries.count

    @property
    def reads_all(self):
        """bool: no column is left out, so that a body is best fetched in one piece."""
        return self.decoder.plan is self.footer.plan

    @property
    def stats(self):
        """tuple of int: messages, record batches, dictionary batches, deltas, replaced dictionaries."""
        cdef Decoder decoder = self.decoder
        return (decoder.num_record_batches + decoder.num_dictionary_batches, decoder.num_record_batches,
                decoder.num_dictionary_batches, decoder.num_dictionary_deltas, decoder.num_replaced_dictionaries)

    def block(self, int64_t index, *, bint dictionary=False):
        """Return where a message lies: (offset, metadata_length, body_length), in bytes of the file."""
        cdef Block block = self.footer.block(index, dictionary)
        return block.offset, block.metadata_length, block.body_length

    cdef int open_block(self, Block block, Source source, int64_t at, int kind, bint with_body,
                        Envelope* out) except -1:
        """Open the message of a block whose bytes begin at `at`, and compare it with what the footer says."""
        cdef const uint8_t* data = source.data + at
        cdef int64_t prefix = 8, size
        cdef Fault fault
        self.footer.uses += 1
        if self.footer.uses == FREE_USES:
            self.add_up()
        if block.metadata_length + (block.body_length if with_body else 0) > source.size - at:
            raise UsageError(f"the bytes of a block are incomplete: {source.size - at} of "
                             f"{block.metadata_length + block.body_length}")
        size = load_i32(data)
        if size == -1:
            size = load_i32(data + 4)
        else:
            prefix = 4
        if size <= 0 or size + prefix != block.metadata_length:
            raise FormatError(f"the footer says {block.metadata_length} bytes of metadata, the message has "
                              f"{size} behind a prefix of {prefix}")
        if size > self.limits.metadata_bytes:
            raise FormatError(f"the metadata size is {size:,} bytes, more than Limits.metadata_bytes")
        if open_message(data + prefix, size, out, &fault) < 0:
            raise_fault(&fault)
        if out.kind != kind:
            raise FormatError(f"the footer points at a {kind_name(kind)}, found a {kind_name(out.kind)} message")
        if out.body_length != block.body_length:
            raise FormatError(f"the footer says {block.body_length} bytes of body, the message {out.body_length}")
        return 0

    cpdef add_up(self):
        """Refuse a footer whose blocks are far more bytes than the file; whoever goes through all of them asks."""
        if not self.footer.is_added_up:
            check_total(self.footer)

    def batch(self, int64_t index, source, int64_t at=0):
        """Decode record batch `index`, whose metadata and body begin at byte `at` of `source`.

        Load the dictionaries first, all of them and in order.
        """
        cdef Block block = self.footer.block(index, False)
        cdef Source held = source if isinstance(source, Source) else Source(source)
        cdef Envelope envelope
        try:
            self.open_block(block, held, at, MessageHeader_RecordBatch, True, &envelope)
            return self.decoder.batch(&envelope, held.data + at + block.metadata_length, held)
        except ArrowIpcError as error:
            raise self._placed(error, "record batch", index, block.offset)

    def stored(self, int64_t index, source, int64_t at=0):
        """Return record batch `index` as a Message and what a writer must know of it; see `arrowipc.copy`."""
        cdef Block block = self.footer.block(index, False)
        cdef Source held = source if isinstance(source, Source) else Source(source)
        cdef Message message = Message.__new__(Message)
        try:
            self.open_block(block, held, at, MessageHeader_RecordBatch, True, &message.envelope)
            # The prefix has 8 bytes, or 4 in files of old writers.
            message.metadata_bytes = message.envelope.root.base
            message.metadata_size = held.data + at + block.metadata_length - message.metadata_bytes
            message.body_bytes = held.data + at + block.metadata_length
            message.metadata_owner = message.body_owner = held
            return message, self.decoder.stored(message)
        except ArrowIpcError as error:
            raise self._placed(error, "record batch", index, block.offset)

    def decode(self, Message message not None):
        """Decode a message that `stored` returned."""
        return self.decoder.batch(&message.envelope, message.body_bytes, message.body_owner)

    def load_dictionary(self, int64_t index, source, int64_t at=0):
        """Take in dictionary batch `index`, whose metadata and body begin at byte `at` of `source`.

        The first one begins anew: an attempt before may have ended in the middle, for want of memory or by the source.
        """
        cdef Block block = self.footer.block(index, True)
        cdef Source held = source if isinstance(source, Source) else Source(source)
        cdef Envelope envelope
        if index == 0:
            self.decoder.forget()
        try:
            self.open_block(block, held, at, MessageHeader_DictionaryBatch, True, &envelope)
            self.decoder.dictionary(&envelope, held.data + at + block.metadata_length, held, False)
        except ArrowIpcError as error:
            raise self._placed(error, "dictionary batch", index, block.offset)

    def num_rows(self, int64_t index, source, int64_t at=0):
        """Return the rows of record batch `index` from its metadata, which begins at byte `at` of `source`."""
        cdef Block block = self.footer.block(index, False)
        cdef Source held = source if isinstance(source, Source) else Source(source)
        cdef Envelope envelope
        cdef BatchHeader header
        cdef Fault fault
        try:
            self.open_block(block, held, at, MessageHeader_RecordBatch, False, &envelope)
            if open_batch(&envelope.header, &header, &fault) < 0:
                raise_fault(&fault)
            if not 0 <= header.length <= self.limits.rows_per_batch:
                raise FormatError(f"RecordBatch.length is {header.length}: expected 0..{self.limits.rows_per_batch}")
            return header.length
        except ArrowIpcError as error:
            raise self._placed(error, "record batch", index, block.offset)

    def batch_metadata(self, int64_t index, source, int64_t at=0):
        """Return the custom metadata of record batch `index` from its message, which begins at byte `at`."""
        cdef Block block = self.footer.block(index, False)
        cdef Source held = source if isinstance(source, Source) else Source(source)
        cdef Envelope envelope
        try:
            self.open_block(block, held, at, MessageHeader_RecordBatch, False, &envelope)
            return read_pairs(&envelope.root, Message_custom_metadata)
        except ArrowIpcError as error:
            raise self._placed(error, "record batch", index, block.offset)

    def body_ranges(self, int64_t index, source):
        """Return the stretches of the body that the projection reads, from the block's metadata.

        Returns
        -------
        list of (int, int)
            Start and end in the body, rising, with near ones joined.
        """
        cdef Block block = self.footer.block(index, False)
        cdef Source held = Source(source)
        cdef Columns columns = Columns.__new__(Columns)
        cdef Envelope envelope
        cdef BatchHeader header
        cdef Fault fault
        cdef int32_t i
        try:
            self.open_block(block, held, 0, MessageHeader_RecordBatch, False, &envelope)
            if open_batch(&envelope.header, &header, &fault) < 0:
                raise_fault(&fault)
            # Any base will do: the extents are turned back into offsets and never followed.
            locate(columns, self.decoder.plan, &header, held.data, envelope.body_length, envelope.version,
                   &self.limits)
        except ArrowIpcError as error:
            raise self._placed(error, "record batch", index, block.offset)
        joined = []
        last = -NEAR - 1
        for start, end in sorted([(columns.d.extents[i].data - held.data,
                                   columns.d.extents[i].data - held.data + columns.d.extents[i].size)
                                  for i in range(columns.d.n_extents) if columns.d.extents[i].size]):
            if start <= last + NEAR:
                start, _ = joined.pop()
                end = max(end, last)
            joined.append((start, end))
            last = end
        return joined

    def _placed(self, error, what, index, offset):
        """The same error, saying which message of the file it concerns."""
        error.args = (f"{what} {index} (byte {offset} of the file): {error}",)
        return error


cdef int check_total(Footer footer) except -1:
    """Blocks may repeat; a footer must not make a thousand files of one."""
    cdef const Vector* blocks
    cdef const uint8_t* entry
    cdef int64_t i, body, total = 0, end = min(footer.end, <int64_t> 1 << 60)
    cdef bint dictionary
    for dictionary in range(2):
        blocks = &footer.dictionaries if dictionary else &footer.batches
        for i in range(blocks.count):
            entry = blocks.data + i * Block_SIZE
            body = load_i64(entry + Block_bodyLength)
            if 0 <= body <= end:    # others are refused when they are used
                total += max(load_i32(entry + Block_metaDataLength), 0) + body
            if total // 2 > end:
                raise LimitError(f"footer: blocks repeat or overlap until they are more than twice the {end:,} bytes "
                                 "before it")
    footer.is_added_up = True
    return 0


cdef int check_disjoint(Footer footer) except -1:
    """Strict: no two blocks share bytes, and none is listed twice."""
    cdef Block b
    cdef int64_t i
    extents = []
    for i in range(footer.batches.count):
        b = footer.block(i, False)
        extents.append((b.offset, b.offset + b.metadata_length + b.body_length))
    for i in range(footer.dictionaries.count):
        b = footer.block(i, True)
        extents.append((b.offset, b.offset + b.metadata_length + b.body_length))
    extents.sort()
    for (start, stop), (following, _) in zip(extents, extents[1:]):
        if following < stop:
            raise FormatError(f"footer: the blocks at bytes {start} and {following} of the file overlap")
    return 0
