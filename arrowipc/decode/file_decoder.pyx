"""The decoders of messages that blocks point at, in any order; sans I/O.

The blocks are those of a file's footer, or of a stream's index.

Columnar format, "IPC File Format". A driver asks where a block lies, fetches its bytes, and gets a batch.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from arrowipc._core cimport (
    Columns, Memory, Plan, Source, limits_data, open_batch, open_message, raise_fault, read_pairs,
)
from arrowipc.metadata.checksums cimport (
    VERIFY_ALL, VERIFY_NOTHING, VERIFY_THERE, Checksum, check_sum, find_checksum, is_right, verify_of,
)
from arrowipc.columns.record_batch cimport RecordBatch
from arrowipc.inline.fault cimport FAULT_FLATBUFFER, FAULT_MISSING, Fault, fail_in
from arrowipc.inline.fbs_layout cimport *
from arrowipc.inline.flatbuf cimport Table, Vector, fb_i16, fb_root, fb_table, fb_vector
from arrowipc.inline.loads cimport inside, load_i32, load_i64, prefetch
from arrowipc.inline.plan cimport BatchHeader, Envelope, LimitsData
from arrowipc.inline.threads cimport count_up
from arrowipc.metadata.schema_reader cimport plan_schema, read_plan
from arrowipc.decode.decoders cimport Decoder, Dictionary, TakenDictionary, locate_batch, new_decoder, stretches
from arrowipc.decode.framing cimport FRAME_MESSAGE, CutMessage, Message, cut_message, kind_name, read_prefix
from arrowipc.decode.message_index cimport StreamIndex
from arrowipc.decode.stream_decoder cimport StreamDecoder

from arrowipc._core import merge_ranges
from arrowipc.arguments import metadata_of
from arrowipc.metadata.checksums import PAIR, UNCLOSED
from arrowipc.errors import ArrowIpcError, FormatError, LimitError, TruncatedError, UsageError
from arrowipc.decode.message_index import find_message

MAGIC = b"ARROW1"
#: Bytes behind the footer's table: its size as int32, and the magic.
TAIL_SIZE = 4 + len(MAGIC)
#: The smallest file: magic with padding, a table, tail.
SMALLEST = 8 + 8 + TAIL_SIZE
#: Ranges of a body that are closer than this are fetched as one.
NEAR = 1 << 16

cdef int64_t FILE_HEAD = int.from_bytes(MAGIC + b"\0\0", "little")

cdef enum:
    ADDED_UP_AT_ONCE = 1000     # so many blocks are added up when a footer is opened: that takes microseconds
    MARKER_SIZE = 8             # the end marker, in front of the footer
    HEADS_AHEAD = 8             # how many batches ahead metadata is prefetched
    FREE_USES = 16              # how many blocks of a larger footer are used before all its blocks are added up
    SMALLEST_MESSAGE = 40       # bytes


cdef struct Block:
    # Where a message lies in a file (struct Block of File.fbs).
    int64_t offset
    int64_t metadata_length     # with prefix and padding
    int64_t body_length


def footer_range(bytes head, bytes tail, int64_t size):
    """Find the Footer table (start, length) of a file of `size` bytes from its first 8 and last `TAIL_SIZE` bytes."""
    if head[:6] != MAGIC:
        from arrowipc.metadata.file_signatures import foreign

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
    if tail == bytes(TAIL_SIZE):
        raise FormatError(f"the file does not end with the magic {MAGIC!r} but with zeros: the memory is larger than "
                          "the file, as a shared memory segment may be: give memory[:size], or say where the file ends "
                          "with open_file(footer_offset=size); or it was cut short: arrowipc.recover() reads what is "
                          "whole")
    if tail[4:] != MAGIC:
        raise FormatError(f"the file does not end with the magic {MAGIC!r} but with {tail[4:]!r}: it was cut short "
                          "or something was appended: arrowipc.recover() reads what is whole")
    length = int.from_bytes(tail[:4], "little", signed=True)
    if not 0 < length <= size - 8 - TAIL_SIZE:
        raise FormatError(f"the footer size is {length}: expected 1..{size - 8 - TAIL_SIZE} in a file of {size} bytes")
    return size - TAIL_SIZE - length, length


cdef class Footer:
    """The footer of a file, or the index of a stream in its place; a block is checked when it is used."""

    cdef object source
    cdef str name                       # what errors call it
    cdef int version                    # MetadataVersion
    cdef Plan plan
    cdef tuple metadata                 # Footer.custom_metadata
    cdef Vector dictionaries            # Block structs
    cdef Vector batches
    cdef int64_t end                    # where the footer begins in the file, and so where messages end
    cdef int64_t uses                   # how many times the message of a block was opened
    cdef bint is_added_up               # the blocks are no more bytes than a file can have

    cdef Block block(self, int64_t index, bint dictionary) except *:
        """Return block `index`; it must lie inside the bytes before the footer, and be made of multiples of 8."""
        cdef const Vector* blocks = &self.dictionaries if dictionary else &self.batches
        cdef const uint8_t* entry
        cdef Block b
        what = "dictionary" if dictionary else "record batch"
        if not 0 <= index < blocks.count:
            raise IndexError(f"{what} {index} is out of range: the {self.name} lists {blocks.count}")
        entry = blocks.data + index * Block_SIZE
        b.offset = load_i64(entry + Block_offset)
        b.metadata_length = load_i32(entry + Block_metaDataLength)
        b.body_length = load_i64(entry + Block_bodyLength)
        if (b.offset < 8 or b.metadata_length <= 0 or b.body_length < 0 or b.offset > self.end
                or b.metadata_length > self.end - b.offset
                or b.body_length > self.end - b.offset - b.metadata_length):
            raise FormatError(f"{self.name}: {what} block {index} (offset {b.offset}, metadata {b.metadata_length}, "
                              f"body {b.body_length}) does not lie in bytes 8..{self.end}")
        # The blocks of an index need no alignment: readers of streams accept any framing.
        if (b.offset | b.metadata_length | b.body_length) & 7 and self.name == "footer":
            raise FormatError(f"footer: {what} block {index} (offset {b.offset}, metadata {b.metadata_length}, body "
                              f"{b.body_length}) is not made of multiples of 8")
        return b


cdef Footer read_footer(Source source, int64_t end, const LimitsData* limits, bint some):
    """Open the Footer table in `source`, which lies at byte `end` of the file; `some`: see `read_plan`."""
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
    footer.name = "footer"
    footer.end = end
    if footer.batches.count + footer.dictionaries.count <= ADDED_UP_AT_ONCE:
        check_total(footer)
    try:
        footer.plan = read_plan(source.data, source.size, schema.pos, limits, source, some)
        footer.metadata = read_pairs(&root, Footer_custom_metadata)
    except ArrowIpcError as error:
        error.args = (f"footer: {error}",)
        raise
    return footer


cdef class BlockDecoder:
    """Decodes the messages that blocks point at; the caller fetches their bytes."""

    cdef Footer footer
    cdef readonly Decoder decoder
    cdef LimitsData limits
    cdef int verify                     # see `Verify`
    cdef readonly object damage         # with verify=None, an error in the beginning of a file, before what is listed

    def __cinit__(self, *_, **__):
        if not isinstance(self, (FileDecoder, IndexedDecoder)):
            raise UsageError("BlockDecoder: use FileDecoder or IndexedDecoder")

    @property
    def schema(self):
        """arrowipc.Schema: of the batches, after projection."""
        return plan_schema(self.decoder.plan)

    @property
    def stored_schema(self):
        """arrowipc.Schema: of the messages, before projection."""
        cdef Plan plan = self.decoder.plan
        return plan_schema(read_plan(plan.metadata, plan.metadata_size, plan.schema_table, &self.limits,
                                     plan.metadata_owner, True))

    @property
    def version(self):
        """str: the footer's metadata version, "V4" or "V5"; "V1" and so on if the footer says so."""
        return f"V{self.footer.version + 1}"

    @property
    def metadata(self):
        """KeyValueMetadata: the footer's custom metadata, without its checksum."""
        return metadata_of(tuple([pair for pair in self.footer.metadata if pair[0] != PAIR[0]]))

    @property
    def num_record_batches(self):
        """int: record batches that the footer lists."""
        return self.footer.batches.count

    @property
    def messages_end(self):
        """int: the first byte of the footer; all messages end before it."""
        return self.footer.end

    @property
    def num_dictionaries(self):
        """int: dictionary batches that the footer lists."""
        return self.footer.dictionaries.count

    @property
    def reads_all(self):
        """bool: no column is left out, or all is verified, so that a body is best fetched in one piece."""
        return self.verify != 0 or self.decoder.plan is self.footer.plan

    @property
    def stats(self):
        """tuple of int: messages, record batches, dictionary batches, deltas, replaced dictionaries."""
        cdef Decoder decoder = self.decoder
        return (decoder.num_record_batches + decoder.num_dictionary_batches, decoder.num_record_batches,
                decoder.num_dictionary_batches, decoder.num_dictionary_deltas, decoder.num_replaced_dictionaries)

    def block(self, int64_t index, *, bint dictionary=False):
        """Return where a message lies: (offset, metadata_length, body_length), in bytes of the file."""
        cdef Block block = self.footer.block(index, dictionary)
        if block.metadata_length - 8 > self.limits.metadata_bytes:  # before anybody fetches so much
            error = FormatError(f"the metadata size is {block.metadata_length - 8:,} bytes, more than "
                                "Limits.metadata_bytes")
            raise self._placed(error, "dictionary" if dictionary else "record batch", index, block.offset)
        return block.offset, block.metadata_length, block.body_length

    cdef int open_block(self, Block block, Source source, int64_t at, int kind, bint with_body,
                        Envelope* out) except -1:
        """Open the message of a block whose bytes begin at `at`, and compare it with what the footer says."""
        cdef const uint8_t* data = source.data + at
        cdef int64_t prefix
        cdef int32_t size
        cdef Checksum checksum
        cdef Fault fault
        if count_up(&self.footer.uses, 1) == FREE_USES:
            self.add_up()
        if block.metadata_length + (block.body_length if with_body else 0) > source.size - at:
            raise UsageError(f"the bytes of a block are incomplete: {source.size - at} of "
                             f"{block.metadata_length + block.body_length}")
        prefix = read_prefix(data, block.metadata_length, &size)
        if size <= 0 or size + prefix != block.metadata_length:
            raise FormatError(f"the {self.footer.name} says {block.metadata_length} bytes of metadata, the message has "
                              f"{size} behind a prefix of {prefix}")
        if size > self.limits.metadata_bytes:
            raise FormatError(f"the metadata size is {size:,} bytes, more than Limits.metadata_bytes")
        if open_message(data + prefix, size, out, &fault) < 0:
            raise_fault(&fault)
        if out.kind != kind:
            raise FormatError(f"the {self.footer.name} points at a {kind_name(kind)}, found a {kind_name(out.kind)} "
                              "message")
        if out.body_length != block.body_length:
            raise FormatError(f"the {self.footer.name} says {block.body_length} bytes of body, the message "
                              f"{out.body_length}")
        if self.verify and with_body:
            # The blocks say which number the message has.
            find_checksum(&out.root, Message_custom_metadata, &checksum)
            check_sum(&checksum, out.root.base, out.root.size, data + block.metadata_length, block.body_length,
                      1 + blocks_before(&self.footer.batches, block.offset)
                      + blocks_before(&self.footer.dictionaries, block.offset), self.decoder.use_threads)
        return 0

    cpdef add_up(self):
        """Refuse a footer whose blocks are far more bytes than the file; callers that read all blocks call this."""
        if not self.footer.is_added_up:
            check_total(self.footer)

    def batch(self, int64_t index, source, int64_t at=0, tuple dictionaries=None):
        """Decode record batch `index`, whose metadata and body begin at byte `at` of `source`; -1: as in the file.

        `dictionaries`: those that the batch uses, if an index says which. For a file, load all of them first, in order.
        """
        cdef Block block = self.footer.block(index, False)
        cdef Source held = source if isinstance(source, Source) else Source(source)
        cdef Envelope envelope
        at = block.offset if at == -1 else at
        try:
            self.open_block(block, held, at, MessageHeader_RecordBatch, True, &envelope)
            if dictionaries is None:
                return self.decoder.batch(&envelope, held.data + at + block.metadata_length, held)
            return self.decoder.batch_with(&envelope, held.data + at + block.metadata_length, held, dictionaries)
        except ArrowIpcError as error:
            raise self._placed(error, "record batch", index, block.offset)

    def stored(self, int64_t index, source, int64_t at=0, tuple dictionaries=None):
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
            return message, self.decoder.stored(message, dictionaries)
        except ArrowIpcError as error:
            raise self._placed(error, "record batch", index, block.offset)

    def decode(self, Message message not None):
        """Decode a message that `stored` returned."""
        return self.decoder.batch(&message.envelope, message.body_bytes, message.body_owner)

    def load_dictionary(self, int64_t index, source, int64_t at=0):
        """Decode dictionary batch `index`, whose metadata and body begin at byte `at` of `source`.

        The first one drops all dictionaries: an earlier attempt may have failed in the middle (memory, or the source).
        """
        cdef Block block = self.footer.block(index, True)
        cdef Source held = source if isinstance(source, Source) else Source(source)
        cdef Envelope envelope
        cdef TakenDictionary taken
        if index == 0:
            self.decoder.forget()
        try:
            self.open_block(block, held, at, MessageHeader_DictionaryBatch, True, &envelope)
            self.decoder.dictionary(&envelope, held.data + at + block.metadata_length, held, False,
                                    &taken)
        except ArrowIpcError as error:
            raise self._placed(error, "dictionary batch", index, block.offset)

    def described(self, int64_t index, source, int64_t at=0):
        """Return the custom metadata and the rows of batch `index` from its message, at byte `at` of `source`."""
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
            return metadata_of(read_pairs(&envelope.root, Message_custom_metadata)), header.length
        except ArrowIpcError as error:
            raise self._placed(error, "record batch", index, block.offset)

    def read_lengths(self, Source source not None):
        """Return the rows of all batches as int64, from their metadata; `source` has all bytes of the file."""
        cdef int64_t count = self.footer.batches.count, i = 0
        cdef Memory out = Memory(8 * count)
        cdef int64_t* lengths = <int64_t*> out.data
        out.size = 8 * count
        self.add_up()
        while i < count:
            with nogil:
                i = read_heads(&self.footer.batches, i, source.data, min(source.size, self.footer.end), &self.limits,
                               lengths)
            if i < count:
                # `described` raises the right error, or reads an unusual message.
                lengths[i] = self.described(i, source, self.footer.block(i, False).offset)[1]
                i += 1
        return out

    def body_ranges(self, int64_t index, source):
        """Return the stretches of the body that the projection reads, in rising order; near ones are joined."""
        cdef Block block = self.footer.block(index, False)
        cdef Source held = Source(source)
        cdef Columns columns = Columns.__new__(Columns)
        cdef Envelope envelope
        try:
            self.open_block(block, held, 0, MessageHeader_RecordBatch, False, &envelope)
            # Any base will do: the extents are turned back into offsets and never followed.
            locate_batch(columns, self.decoder.plan, &envelope, held.data, &self.limits)
        except ArrowIpcError as error:
            raise self._placed(error, "record batch", index, block.offset)
        return merge_ranges(stretches(columns, held.data), NEAR)

    def _placed(self, error, what, index, offset):
        """Return the same error, which then says which message it concerns."""
        whole = "file" if isinstance(self, FileDecoder) else "stream"
        error.args = (f"{what} {index} (byte {offset} of the {whole}): {error}",)
        return error


cdef class FileDecoder(BlockDecoder):
    """Decodes an Arrow IPC file; the caller fetches its bytes.

    `footer`: the table (see `footer_range`), at byte `start` of the file; or another FileDecoder, some of whose columns
    are read. The keywords are those of `arrowipc.open_file`. The caller passes the bytes in `to_check` to `check`.
    """

    cdef Checksum checksum              # of the end of the file
    cdef bint tail_right
    # (start, stop) of bytes to `check`: with `verify` the end and the beginning, at "strict" bytes that no block lists.
    cdef readonly list to_check

    def __cinit__(self, footer, int64_t start=0, *, columns=None, validate="full", limits=None, use_threads=True,
                  ensure_native_endian=True, verify=False):
        if isinstance(footer, FileDecoder):
            self.footer, self.limits = (<FileDecoder> footer).footer, (<FileDecoder> footer).limits
            self.decoder = (<FileDecoder> footer).decoder.part(columns)
            self.verify = (<FileDecoder> footer).verify
            self.to_check = []
            return
        cdef Table root
        limits_data(limits, &self.limits)
        self.decoder = new_decoder(columns, validate, limits, use_threads, ensure_native_endian)
        self.footer = read_footer(Source(footer), start, &self.limits, columns is not None)
        self.to_check = check_listing(self.footer, self.limits.metadata_bytes) if validate == "strict" else []
        self.decoder.open(self.footer.plan)
        self.verify = verify_of(verify)
        fb_root((<Source> self.footer.source).data, (<Source> self.footer.source).size, &root)
        find_checksum(&root, Footer_custom_metadata, &self.checksum)
        if self.verify:
            self.list_ends()

    cdef int list_ends(self) except -1:
        """Add the bytes outside of blocks to `to_check`: those from the end marker on, and before the first block."""
        cdef int64_t end = max(<int64_t> 0, self.footer.end - MARKER_SIZE), first = end
        cdef bint dictionary
        for dictionary in range(2):
            if (self.footer.dictionaries if dictionary else self.footer.batches).count:
                first = min(first, self.footer.block(0, dictionary).offset)
        self.to_check = [(end, self.footer.end + (<Source> self.footer.source).size + TAIL_SIZE),
                         (0, min(first, self.limits.metadata_bytes + MARKER_SIZE)), *self.to_check]
        return 0

    cdef bint tail_agrees(self, Source tail) except -1:
        """Compare the end of the file with its checksum; False: it has none, or a wrong one, perhaps a copied one."""
        cdef Source footer = self.footer.source
        cdef Checksum end = self.checksum
        end.text = NULL
        if self.checksum.text != NULL and tail.size == MARKER_SIZE + footer.size + TAIL_SIZE:
            end.text = tail.data + MARKER_SIZE + (self.checksum.text - footer.data)
        if self.verify == VERIFY_THERE and (end.text == NULL or not is_right(&end, tail.data, tail.size, NULL, 0)):
            return False
        check_sum(&end, tail.data, tail.size, NULL, 0, 1 + self.footer.batches.count + self.footer.dictionaries.count,
                  False)
        return True

    cdef int check_head(self, Source head) except -1:
        """Compare the Schema message, which follows the magic, with its checksum; blocks list the bytes behind it."""
        cdef Checksum checksum
        cdef CutMessage cut
        cdef Envelope message
        cdef Fault fault
        checksum.text, checksum.there = NULL, False
        if (cut_message(head.data + 8, head.size - 8, &self.limits, &cut) == FRAME_MESSAGE
                and open_message(cut.metadata, cut.metadata_size, &message, &fault) == 0):
            find_checksum(&message.root, Message_custom_metadata, &checksum)
        if self.verify == VERIFY_THERE and not self.tail_right:
            if checksum.there:
                raise FormatError("the Schema message has a checksum, and that of the end of the file is not right")
            self.verify = VERIFY_NOTHING    # checksums of batches or of the footer were copied from another file
            return 0
        self.verify = VERIFY_ALL
        check_sum(&checksum, cut.metadata, cut.metadata_size, NULL, 0, 0, False)
        if load_i64(head.data) != FILE_HEAD or cut.rest_size:
            raise FormatError("it is not the magic, two zeros and the Schema message")
        return 0

    def check(self, int64_t start, data):
        """Check the bytes from `start` on: one of the pieces in `to_check`, which are checked in their order."""
        cdef Source source = Source(data)
        cdef bint keeps = self.verify == VERIFY_THERE and self.tail_right
        try:
            if self.verify and start + source.size > self.footer.end:
                self.tail_right = self.tail_agrees(source)
            elif self.verify and start == 0:
                self.check_head(source)
            else:
                self.check_unlisted(start, source)
        except FormatError as error:
            if start == 0 or start + source.size > self.footer.end:
                error.args = (f"the {'end' if start else 'beginning'} of the file: {error}",)
            if start or not keeps:
                raise
            self.damage = error     # no reason to stop: the footer has all that is needed

    cdef int check_unlisted(self, int64_t start, Source source) except -1:
        """Refuse the bytes from `start` on, which no block lists, if a batch or a dictionary is in them."""
        found = find_message(source, 0)
        while found is not None:
            if found[2].kind != "Schema":
                raise FormatError(f"footer: the {found[2].kind} message at byte {start + found[0]} is not listed: only "
                                  "readers of streams see it. Other levels than \"strict\" read what is listed")
            found = find_message(source, found[1])

    def select(self, columns):
        """Return a decoder of some of the columns that this one reads; it has loaded no dictionaries yet."""
        return FileDecoder(self, columns=columns)


cdef int64_t blocks_before(const Vector* blocks, int64_t offset) noexcept nogil:
    """Count the blocks that begin before `offset`; their offsets rise."""
    cdef int64_t low = 0, high = blocks.count, middle
    while low < high:
        middle = (low + high) // 2
        if load_i64(blocks.data + middle * Block_SIZE + Block_offset) < offset:
            low = middle + 1
        else:
            high = middle
    return low


cdef int64_t read_heads(const Vector* blocks, int64_t i, const uint8_t* file, int64_t end, const LimitsData* limits,
                        int64_t* lengths) noexcept nogil:
    """Read the rows of batches from block `i` on; return the first block that is broken or unusual, or their number."""
    cdef const uint8_t* entry
    cdef const uint8_t* head
    cdef int64_t offset, size
    cdef Envelope message
    cdef BatchHeader header
    cdef Fault fault
    for i in range(i, blocks.count):
        entry = blocks.data + i * Block_SIZE
        offset = load_i64(entry + Block_offset)
        size = load_i32(entry + Block_metaDataLength)
        if i + HEADS_AHEAD < blocks.count:
            # The messages lie far apart.
            prefetch(file + max(min(load_i64(entry + HEADS_AHEAD * Block_SIZE + Block_offset), end), <int64_t> 0))
        if offset & 7 or size & 7 or size < 16 or offset < 8 or not inside(offset, size, end):
            return i
        head = file + offset
        if (load_i32(head) != -1 or load_i32(head + 4) != size - 8 or size > limits.metadata_bytes
                or open_message(head + 8, size - 8, &message, &fault) < 0
                or message.kind != MessageHeader_RecordBatch
                or message.body_length != load_i64(entry + Block_bodyLength)
                or not inside(offset + size, message.body_length, end)
                or open_batch(&message.header, &header, &fault) < 0
                or header.length < 0 or header.length > limits.rows_per_batch):
            return i
        lengths[i] = header.length
    return blocks.count


cdef int check_total(Footer footer) except -1:
    """Refuse blocks that are more than twice the file: they may repeat, but must not make a thousand files of one."""
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


cdef list check_listing(Footer footer, int64_t largest):
    """For "strict": refuse blocks that share bytes, and batches out of order; return the gaps that may hold a batch."""
    cdef Block b
    cdef int64_t i, at = 8
    cdef bint dictionary
    extents = []
    for dictionary in range(2):
        for i in range((footer.dictionaries if dictionary else footer.batches).count):
            b = footer.block(i, dictionary)
            extents.append((b.offset, b.offset + b.metadata_length + b.body_length))
    extents.sort()
    for (start, stop), (following, _) in zip(extents, extents[1:]):
        if following < stop:
            raise FormatError(f"footer: the blocks at bytes {start} and {following} of the file overlap")
    for i in range(1, footer.batches.count):
        b = footer.block(i, False)
        if b.offset < footer.block(i - 1, False).offset:
            raise FormatError(f"footer: batch {i} (byte {b.offset}) lies before batch {i - 1}: readers disagree about "
                              "the order. Other levels than \"strict\" read them as listed; arrowipc.copy() writes so")
    gaps = []
    for start, stop in [*extents, (footer.end, 0)]:
        if start - at > largest + SMALLEST_MESSAGE:
            raise FormatError(f"footer: no block lists bytes {at}..{start} of the file")
        if start - at >= SMALLEST_MESSAGE:
            gaps.append((at, start))
        at = stop
    return gaps


# -- streams with an index -------------------------------------------------------------------------------------------

#: How many bytes of dictionaries are kept for other batches; bytes that deltas share count once.
KEPT_DICTIONARIES = 1 << 26


cdef class IndexedDecoder(BlockDecoder):
    """Decodes the batches of a stream in any order, each with the dictionaries that precede it in the stream.

    `index` is complete. `stream` has read the schema; this object takes over its decoder, with columns and options.
    """

    cdef StreamIndex index
    cdef dict messages          # id of a dictionary -> the numbers of its DictionaryBatch messages, rising
    cdef dict kept              # number of such a message -> the Dictionary after that message
    cdef int64_t kept_bytes
    cdef int64_t epoch          # DictionaryBatch messages before the batch that was decoded last; -1: none was decoded
    cdef tuple at_epoch         # the dictionaries of that batch

    def __cinit__(self, StreamIndex index not None, StreamDecoder stream not None):
        cdef int64_t i
        if not (stream.opened and index.complete):
            raise UsageError("IndexedDecoder: the schema must be read, and the index complete")
        self.index = index
        self.limits = stream.limits
        self.decoder = stream.decoder
        self.footer = Footer.__new__(Footer)
        self.footer.name = "index"
        self.footer.source = index
        self.footer.version = stream.envelope.version
        self.footer.plan = self.decoder.plan if self.decoder.columns is None else None
        self.footer.metadata = ()
        self.footer.batches = Vector(index.batches.data, index.lengths.size // 8)
        self.footer.dictionaries = Vector(index.dictionaries.data, index.ids.size // 8)
        self.footer.end = index.next
        self.footer.is_added_up = True
        self.verify = stream.verify
        if self.verify == VERIFY_THERE:
            self.verify = VERIFY_ALL if stream.has_sums else VERIFY_NOTHING
        if self.verify == VERIFY_ALL and not index.closed:
            raise TruncatedError(UNCLOSED)
        self.messages = {}
        self.kept = {}
        self.epoch = -1
        for i in range(self.footer.dictionaries.count):
            id = load_i64(index.ids.data + 8 * i)
            if id not in self.decoder.known:
                raise FormatError(f"dictionary {id} is not used by any field of the schema")
            if id in self.decoder.needed:
                self.messages.setdefault(id, []).append(i)

    @property
    def lengths(self):
        """memoryview: the rows of each batch, as int64."""
        return memoryview(self.index.lengths).cast("q")

    def select(self, columns):
        """Return a decoder of some of the columns that this one reads; it has loaded no dictionaries yet."""
        cdef StreamDecoder stream = StreamDecoder.__new__(StreamDecoder)
        stream.decoder, stream.limits, stream.opened = self.decoder.part(columns), self.limits, True
        stream.verify, stream.use_threads = self.verify, self.decoder.use_threads
        stream.envelope.version = self.footer.version
        return IndexedDecoder(self.index, stream)

    def batch(self, int64_t index, source, int64_t at=0, tuple dictionaries=None):
        """Decode record batch `index` as `BlockDecoder.batch` does; it must have as many rows as the index says."""
        cdef RecordBatch out = BlockDecoder.batch(self, index, source, at, dictionaries)
        cdef int64_t rows = load_i64(self.index.lengths.data + 8 * index)
        if out.d.length != rows:
            raise FormatError(f"record batch {index}: the index says {rows:,} rows, the message {out.d.length:,}")
        return out

    @property
    def needs_dictionaries(self):
        """bool: some column that is read is dictionary-encoded."""
        return bool(self.decoder.needed)

    cdef list ends(self, int64_t i):
        """Return the last message of each dictionary before batch `i`, as (id, its place among those of this id)."""
        cdef int64_t epoch = load_i64(self.index.epochs.data + 8 * i)
        from bisect import bisect_left

        return [(id, bisect_left(numbers, epoch) - 1) for id, numbers in self.messages.items()]

    def missing(self, int64_t i):
        """Return the DictionaryBatch messages to load before `dictionaries_at(i)`, in order."""
        while self.kept_bytes > KEPT_DICTIONARIES and self.kept:
            # Drop the dictionary that was kept longest.
            self.kept_bytes -= (<Dictionary> self.kept.pop(next(iter(self.kept)))).piece_bytes
        wanted = []
        for id, place in self.ends(i):
            numbers, chain = self.messages[id], []
            while place >= 0 and numbers[place] not in self.kept:
                chain.append(numbers[place])
                if not load_i64(self.index.deltas.data + 8 * <int64_t> numbers[place]):
                    break
                place -= 1
            wanted += reversed(chain)
        return wanted

    def load_dictionary(self, int64_t index, source, int64_t at=0):
        """Decode DictionaryBatch message `index`, whose metadata and body begin at byte `at` of `source`.

        Load the messages that `missing` names, in that order.
        """
        cdef Block block = self.footer.block(index, True)
        cdef Source held = source if isinstance(source, Source) else Source(source)
        cdef Dictionary before = None, entry
        cdef Decoder decoder = self.decoder
        cdef Envelope envelope
        cdef TakenDictionary taken
        id = load_i64(self.index.ids.data + 8 * index)
        numbers = self.messages[id]
        place = numbers.index(index)
        self.epoch = -1
        try:
            self.open_block(block, held, at, MessageHeader_DictionaryBatch, True, &envelope)
            if load_i64(self.index.deltas.data + 8 * index) and place:
                before = self.kept[numbers[place - 1]]
            decoder.entries.pop(id, None)
            if before is not None:
                decoder.entries[id] = before.successor()
            decoder.dictionary_bytes = sum([(<Dictionary> kept).nbytes for kept in decoder.entries.values()])
            decoder.dictionary(&envelope, held.data + at + block.metadata_length, held, True, &taken)
            if taken.id != id or taken.is_delta != load_i64(self.index.deltas.data + 8 * index):
                raise FormatError("the index says another id, or another kind of dictionary")
        except ArrowIpcError as error:
            raise self._placed(error, "dictionary batch", index, block.offset)
        entry = self.kept[index] = decoder.entries[id]
        entry.piece_bytes = entry.nbytes - (before.nbytes if before is not None else 0)
        self.kept_bytes += entry.piece_bytes

    def dictionaries_at(self, int64_t i):
        """Return the dictionaries of batch `i`; all messages that `missing` names have been loaded."""
        cdef Decoder decoder = self.decoder
        cdef int64_t epoch
        if not decoder.needed:
            return ()
        epoch = load_i64(self.index.epochs.data + 8 * i)
        if epoch != self.epoch:
            for id, place in self.ends(i):
                decoder.entries.pop(id, None)
                if place >= 0:
                    decoder.entries[id] = self.kept[self.messages[id][place]]
            decoder.generation += 1
            self.at_epoch = decoder.resolve(decoder.plan.dictionaries)
            self.epoch = epoch
        return self.at_epoch
