"""Tables of other libraries, taken column by column: their streams together cost less than the table's.

A table whose columns are cut into chunks is handed over by its producer as batches that are made one by one,
as objects of its own, before they are exported. The chunks of a column are there already. So batches are put
together here: one array of each column's stream where the chunks are equally long, slices of them elsewhere.
"""

cimport cython
from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport strcmp

from arrowipc._core cimport Columns, Plan, field_name, level_of
from arrowipc.cdata.export cimport ARROW_FLAG_NULLABLE, ArrowArray, ArrowArrayStream, ArrowSchema
from arrowipc.cdata.import_array cimport (
    ArrayOwner, BatchStream, Dictionaries, count_live, import_stream, load, load_columns, moved_stream, plan_of,
    schema_in,
)
from arrowipc.columns.record_batch cimport RecordBatch, slice_column
from arrowipc.metadata.schema_reader cimport plan_schema, project

from arrowipc.errors import FormatError, UsageError

# -- chunks --------------------------------------------------------------------------------------------------


@cython.final
cdef class ChunkOwner:
    """The next chunks of some of the columns, moved here from their producers."""

    cdef ArrowArray* arrays             # one per column; release NULL: that column needed none
    cdef ArrowArray** columns           # pointers to them
    cdef int32_t count

    def __cinit__(self, int32_t count):
        cdef int32_t i
        self.arrays = <ArrowArray*> calloc(count, sizeof(ArrowArray) + sizeof(ArrowArray*))
        if self.arrays == NULL:
            raise MemoryError()
        self.columns = <ArrowArray**> (self.arrays + count)
        for i in range(count):
            self.columns[i] = &self.arrays[i]
        self.count = count
        count_live(1)

    def __dealloc__(self):
        # An error in flight survives this: deallocation puts it aside.
        cdef int32_t i
        if self.arrays == NULL:
            return
        count_live(-1)
        for i in range(self.count):
            if self.arrays[i].release != NULL:
                self.arrays[i].release(&self.arrays[i])
        free(self.arrays)


cdef int fetch(ArrowArrayStream** producers, const int64_t* left, int32_t count, ArrowArray* out,
               int32_t* column) noexcept nogil:
    """Take the next chunk that is not empty of each column that has none left; a released one: its end.

    Returns the code of a producer that failed, and which one that is.
    """
    cdef ArrowArrayStream* producer
    cdef ArrowArray* array
    cdef int32_t i
    cdef int code
    for i in range(count):
        if left[i]:
            continue
        producer = producers[i]
        array = &out[i]
        while True:
            code = producer.get_next(producer, array)
            if code:
                # What a failed call leaves there is nobody's.
                array.release = NULL
                column[0] = i
                return code
            if array.release == NULL or array.length != 0:
                break
            array.release(array)
            array.release = NULL
    return 0


# -- schemas -------------------------------------------------------------------------------------------------


cdef const char* NAMELESS = ""


cdef bint same_type(const ArrowSchema* known, const ArrowSchema* found, bint top) noexcept nogil:
    """Whether a schema has the type of a sound one; names and nullability of a column are the table's to say.

    Metadata does not count either: it says what values mean, and not how they lie.
    """
    cdef int64_t flags, i
    if found == NULL or found.release == NULL or found.format == NULL:
        return False
    flags = ARROW_FLAG_NULLABLE if top else 0
    if (known.flags | flags != found.flags | flags or known.n_children != found.n_children
            or (known.dictionary != NULL) != (found.dictionary != NULL)
            or strcmp(known.format, found.format) != 0):
        return False
    if not top and strcmp(known.name if known.name != NULL else NAMELESS,
                          found.name if found.name != NULL else NAMELESS) != 0:
        return False
    if found.n_children > 0 and found.children == NULL:
        return False
    for i in range(found.n_children):
        if not same_type(known.children[i], found.children[i], False):
            return False
    return found.dictionary == NULL or same_type(known.dictionary, found.dictionary, True)


cdef int check_type(Plan plan, int32_t column, const ArrowSchema* known, BatchStream stream) except -1:
    """Compare what a column's stream says with the table's schema."""
    cdef ArrowSchema found
    stream.ask(&found)
    try:
        if not same_type(known, &found, True):
            expected = plan_schema(plan).field(column)
            given = plan_schema(plan_of(&found, False)).field(0)
            raise FormatError(f"column {expected.name!r}: the schema of the table says {expected.type}, the "
                              f"stream of the column gives {given.type}")
    finally:
        if found.release != NULL:
            found.release(&found)
    return 0


# -- batches -------------------------------------------------------------------------------------------------


@cython.final
cdef class ColumnStream:
    """The batches of another library's table, not copied; :func:`columns_from` makes it.

    A batch ends where the chunk of any column ends. Its schema is that of the table, with all metadata.

    Notes
    -----
    Errors of producers are those of :class:`arrowipc.cdata.import_array.BatchStream`. Any error ends the stream, and
    later calls repeat it. Two threads must not take from it at a time.
    """

    cdef Plan plan
    cdef list streams                   # BatchStream per column
    cdef ArrowArrayStream** producers   # the stream in each
    cdef list pieces                    # Columns per column: the chunk in use; None: there is none
    cdef list plans                     # Plan per column, once a piece needed it
    cdef Dictionaries known             # of the last batch of equal chunks
    cdef int64_t* left                  # elements of the piece that are still to come
    cdef int64_t rows                   # that were handed out
    cdef int32_t count
    cdef int level
    cdef bint busy                      # a thread waits for the producers
    cdef bint closed
    cdef tuple failure                  # (type, arguments) of the error that ended it

    def __init__(self):
        raise UsageError("streams of columns are made of a table: use columns_from")

    def __dealloc__(self):
        free(self.left)
        free(self.producers)

    @property
    def schema(self):
        """Schema of the batches, an :class:`arrowipc.Schema`."""
        return plan_schema(self.plan)

    cdef str name(self, int32_t column):
        return field_name(self.plan, self.plan.d.columns[column])

    cdef int start(self, object source) except -1:
        """Take the streams of all columns, whose types must be those of the table's schema."""
        cdef BatchStream stream
        cdef ArrowSchema* schema
        cdef int32_t i
        capsule = source.schema.__arrow_c_schema__()
        schema = schema_in(capsule)
        self.plan = plan_of(schema, True)
        columns = source.columns
        if len(columns) != self.plan.d.n_columns or not columns:
            raise FormatError(f"the table has {len(columns)} columns, its schema {self.plan.d.n_columns}; "
                              "expected as many, and one or more")
        self.count = self.plan.d.n_columns
        self.left = <int64_t*> calloc(self.count, sizeof(int64_t))
        self.producers = <ArrowArrayStream**> calloc(self.count, sizeof(ArrowArrayStream*))
        if self.left == NULL or self.producers == NULL:
            raise MemoryError()
        self.streams = []
        for i, column in enumerate(columns):
            stream = moved_stream(column)
            if stream is None:
                raise UsageError(f"column {self.name(i)!r}: expected an object with __arrow_c_stream__, "
                                 f"found {type(column).__name__}")
            check_type(self.plan, i, schema.children[i], stream)
            self.streams.append(stream)
            self.producers[i] = &stream.stream
        self.pieces = [None] * self.count
        self.plans = [None] * self.count
        return 0

    @cython.critical_section
    cdef RecordBatch next(self):
        """The next batch; None at the end."""
        if self.closed:
            raise UsageError("the stream is closed")
        if self.failure is not None:
            kind, arguments = self.failure
            raise kind(*arguments)
        if self.busy:
            raise UsageError("the stream is in use by another thread")
        if self.streams is None:
            return None
        self.busy = True
        try:
            return self.advance()
        except BaseException as error:
            self.failure = type(error), error.args
            self.finish()
            raise
        finally:
            self.busy = False

    cdef RecordBatch advance(self):
        cdef RecordBatch batch
        cdef ChunkOwner chunks
        cdef int64_t length
        cdef int32_t i, needed = 0, column = 0
        cdef bint equal = True, ended = False
        cdef int code
        for i in range(self.count):
            needed += self.left[i] == 0
        if needed == 0:
            return self.join()
        chunks = ChunkOwner.__new__(ChunkOwner, self.count)
        with nogil:
            code = fetch(self.producers, self.left, self.count, chunks.arrays, &column)
        if code:
            (<BatchStream> self.streams[column]).fail(code)
        length = chunks.arrays[0].length
        for i in range(self.count):
            ended |= self.left[i] == 0 and chunks.arrays[i].release == NULL
            equal &= chunks.arrays[i].length == length
        if ended:
            return self.at_end(chunks)
        if needed < self.count or not equal:
            self.keep(chunks)
            return self.join()
        batch = RecordBatch.__new__(RecordBatch)
        if self.known is None and self.plan.dictionaries:
            self.known = Dictionaries(len(self.plan.dictionaries))
        load_columns(batch, self.plan, chunks.columns, 0, length, chunks, self.level, self.known)
        self.rows += length
        return batch

    cdef RecordBatch at_end(self, ChunkOwner chunks):
        """All columns must be at their end when one of them is."""
        cdef int32_t i, short = -1, longer = -1
        for i in range(self.count):
            if self.left[i] or chunks.arrays[i].release != NULL:
                longer = i
            else:
                short = i
        if longer >= 0:
            raise FormatError(f"column {self.name(short)!r} of the table has {self.rows:,} rows, column "
                              f"{self.name(longer)!r} has more")
        self.finish()
        return None

    cdef int keep(self, ChunkOwner chunks) except -1:
        """Make each chunk a piece by itself, which lives as long as its own slices and no longer."""
        cdef ArrayOwner owner
        cdef Columns piece
        cdef int32_t i
        for i in range(self.count):
            if self.left[i]:
                continue
            if self.plans[i] is None:
                self.plans[i] = project(self.plan, [i])
            owner = ArrayOwner.__new__(ArrayOwner)
            owner.array = chunks.arrays[i]
            chunks.arrays[i].release = NULL
            piece = Columns.__new__(Columns)
            load(piece, self.plans[i], &owner.array, False, owner, self.level, None)
            self.pieces[i] = piece
            self.left[i] = piece.d.length
        return 0

    cdef RecordBatch join(self):
        """The rows up to the end of the shortest piece."""
        cdef RecordBatch batch = RecordBatch.__new__(RecordBatch)
        cdef Columns piece
        cdef list owners = []
        cdef list dictionaries = [None] * len(self.plan.dictionaries)
        cdef int64_t length = INT64_MAX, variadic = 0
        cdef int32_t i, f, next = self.plan.d.n_buffers
        for i in range(self.count):
            piece = self.pieces[i]
            variadic += piece.d.n_extents - piece.d.plan.n_buffers
            length = min(length, self.left[i])
            owners.append(piece.owner)
        batch.allocate(self.plan, variadic)
        batch.d.length = length
        batch.owner = tuple(owners)
        for i in range(self.count):
            piece = self.pieces[i]
            f = self.plan.d.columns[i]
            next = batch.place_column(f, piece, 0, next, dictionaries)
            slice_column(&batch.d, f, piece.d.length - self.left[i], length)
            self.left[i] -= length
            if self.left[i] == 0:
                self.pieces[i] = None
        batch.d.n_extents = next
        batch.dictionaries = tuple(dictionaries)
        self.rows += length
        return batch

    cdef int finish(self) except -1:
        """Let go of all producers."""
        cdef BatchStream stream
        cdef list streams = self.streams
        self.streams = None
        self.pieces = None
        if streams is not None:
            for stream in streams:
                stream.finish()
        return 0

    @cython.critical_section
    def close(self):
        """Let go of the producers; batches that were taken stay valid."""
        if self.busy:
            raise UsageError("the stream is in use by another thread")
        self.closed = True
        self.finish()

    def __iter__(self):
        return self

    def __next__(self):
        cdef RecordBatch batch = self.next()
        if batch is None:
            raise StopIteration
        return batch


# -- tables --------------------------------------------------------------------------------------------------


cdef enum:
    SEVERAL = 6     # chunks of a column from which on its stream costs less than its share of the table's


cdef bint is_chunked(object source):
    """Whether a table shows its columns, and the first has several chunks: those of pyarrow and arro3 do."""
    # Asked of the type: data frames have attributes named after their columns. Of the instance only one
    # column: making the list of a thousand costs more than the stream of a table in one chunk.
    if not (hasattr(type(source), "column") and hasattr(type(source), "columns")
            and hasattr(getattr(source, "schema", None), "__arrow_c_schema__")
            and getattr(source, "num_columns", 0)):
        return False
    column = source.column(0)
    return hasattr(column, "__arrow_c_stream__") and getattr(column, "num_chunks", 1) >= SEVERAL


def columns_from(source, validate="none"):
    """Return the batches of a table as a :class:`ColumnStream`, put together of the chunks of its columns.

    `source` has ``schema``, which has ``__arrow_c_schema__``, and ``columns``, a list of one or more objects with
    ``__arrow_c_stream__``. Empty chunks are left out, so a table without rows gives no batches.
    """
    cdef ColumnStream stream = ColumnStream.__new__(ColumnStream)
    stream.level = level_of(validate)
    stream.start(source)
    return stream


def batches_from(source):
    """Return a BatchStream or a ColumnStream of anything with ``__arrow_c_stream__``: the one that costs less.

    Their batches are cut at the same rows. Tables of several chunks are taken column by column.
    """
    cdef BatchStream stream
    if is_chunked(source):
        return columns_from(source)
    stream = import_stream(source)
    if stream.plan.dictionaries:
        stream.known = Dictionaries(len(stream.plan.dictionaries))
    return stream
