"""Tables of other libraries, taken column by column: their streams together cost less than the table's.

The stream of a table whose columns are cut into chunks makes each batch as an object of the producer before it is
exported. The chunks of the columns exist already: as long as they are equally long, one of each column makes a batch.
From the first chunks that are not equally long on, the table's own stream gives the rest.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport strcmp

from arrowipc._core cimport Plan, field_name, level_of
from arrowipc.cdata.export cimport ARROW_FLAG_NULLABLE, ArrowArray, ArrowArrayStream, ArrowSchema
from arrowipc.cdata.import_array cimport (
    BatchStream, Dictionaries, count_live, import_stream, load_columns, moved_stream, plan_of, schema_in,
)
from arrowipc.columns.record_batch cimport RecordBatch
from arrowipc.inline.plan cimport LEVEL_NONE
from arrowipc.metadata.schema_reader cimport plan_schema

from arrowipc.errors import FormatError, UsageError

# -- chunks --------------------------------------------------------------------------------------------------


@cython.final
cdef class ChunkOwner:
    """The next chunk of each column, moved here from its producer."""

    cdef ArrowArray* arrays             # one per column; release NULL: it is at its end
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
        # A pending error survives this: deallocation saves and restores it.
        cdef int32_t i
        if self.arrays == NULL:
            return
        count_live(-1)
        for i in range(self.count):
            if self.arrays[i].release != NULL:
                self.arrays[i].release(&self.arrays[i])
        free(self.arrays)


cdef int fetch(ArrowArrayStream** producers, int32_t count, ArrowArray* out, int32_t* column) noexcept nogil:
    """Take the next chunk that is not empty of each column; returns the code of the producer `column` that failed."""
    cdef ArrowArray* array
    cdef int code
    for column[0] in range(count):
        array = &out[column[0]]
        while True:
            code = producers[column[0]].get_next(producers[column[0]], array)
            if code:
                # A struct that a failed call has left must not be released.
                array.release = NULL
                return code
            if array.release == NULL:
                array.length = 0    # a released array may state any length
            if array.release == NULL or array.length != 0:
                break
            array.release(array)
            array.release = NULL
    return 0


# -- schemas -------------------------------------------------------------------------------------------------


cdef const char* NAMELESS = ""


cdef bint same_type(const ArrowSchema* known, const ArrowSchema* found, bint top) noexcept nogil:
    """Return whether a schema has the type of one that was checked; a column's (`top`) name and nullability may differ.

    Metadata may differ, too: it says what values mean, and does not change their layout.
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
    """Compare the schema of a column's stream with the table's schema."""
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
cdef class ColumnStream(BatchStream):
    """The batches of another library's table, not copied; :func:`columns_from` makes it.

    Its schema is that of the table, with all metadata.
    """

    cdef object table
    cdef list streams                   # BatchStream per column
    cdef ArrowArrayStream** producers   # the stream in each
    cdef int64_t rows                   # rows of the batches that were returned
    cdef BatchStream rest               # the table from the first unequal chunks on; None: all were equally long so far

    def __dealloc__(self):
        free(self.producers)

    cdef int start(self, object table) except -1:
        """Take the streams of all columns, whose types must be those of the table's schema."""
        cdef BatchStream stream
        cdef ArrowSchema* schema
        cdef int32_t i
        capsule = table.schema.__arrow_c_schema__()
        schema = schema_in(capsule)
        self.plan = plan_of(schema, True)
        columns = table.columns
        if len(columns) != self.plan.d.n_columns or not columns:
            raise FormatError(f"the table has {len(columns)} columns, its schema {self.plan.d.n_columns}; "
                              "expected as many, and one or more")
        self.producers = <ArrowArrayStream**> calloc(len(columns), sizeof(ArrowArrayStream*))
        if self.producers == NULL:
            raise MemoryError()
        self.table, self.streams = table, []
        for i, column in enumerate(columns):
            stream = moved_stream(column)
            if stream is None:
                raise UsageError(f"column {field_name(self.plan, self.plan.d.columns[i])!r}: expected an object with "
                                 f"__arrow_c_stream__, found {type(column).__name__}")
            check_type(self.plan, i, schema.children[i], stream)
            self.streams.append(stream)
            self.producers[i] = &stream.stream
        if self.plan.dictionaries:
            self.known = Dictionaries(len(self.plan.dictionaries))
        return 0

    cdef RecordBatch take(self):
        cdef RecordBatch batch = self.of_chunks() if self.streams else None
        if self.rest is not None:
            batch = self.rest.next()
            while batch is not None and batch.d.length == 0:
                batch = self.rest.next()
        return batch

    cdef RecordBatch of_chunks(self):
        """Return a batch of one chunk of each column; None at the end, and if `rest` goes on."""
        cdef RecordBatch batch
        cdef BatchStream stream
        cdef ChunkOwner chunks
        cdef int32_t i, n = self.plan.d.n_columns, column = 0
        cdef int64_t length
        cdef bint equal = True
        cdef int code
        chunks = ChunkOwner.__new__(ChunkOwner, n)
        with nogil:
            code = fetch(self.producers, n, chunks.arrays, &column)
        if code:
            stream = self.streams[column]
            try:
                stream.fail(code)
            finally:
                self.code, self.message = code, stream.message
                self.finish()
        # At its end, a column has a chunk of no rows.
        length = chunks.arrays[0].length
        for i in range(n):
            equal &= chunks.arrays[i].length == length
        if length == 0 or not equal:
            table = self.table
            self.finish()
            if not equal:
                self.rest = own_stream(table.slice(self.rows), self.level)
            return None
        self.rows += length
        batch = RecordBatch.__new__(RecordBatch)
        load_columns(batch, self.plan, chunks.columns, 0, length, chunks, self.level, self.known)
        return batch

    cdef int finish(self) except -1:
        cdef BatchStream stream
        cdef list streams = self.streams
        self.streams, self.table, self.rest = [], None, None
        for stream in streams:
            stream.finish()
        return 0


# -- tables --------------------------------------------------------------------------------------------------


cdef enum:
    SEVERAL = 6     # with so many chunks, a column's stream costs less than its share of the table's stream


cdef bint is_chunked(object source):
    """Return whether a table gives access to its columns (pyarrow and arro3 do), and the first has several chunks."""
    # Attributes are looked up in the type, because data frames have attributes named after their columns. Only one
    # column is asked for: making the list of a thousand costs more than the stream of a table in one chunk.
    if not (hasattr(type(source), "column") and hasattr(type(source), "columns") and hasattr(type(source), "slice")
            and hasattr(getattr(source, "schema", None), "__arrow_c_schema__")
            and getattr(source, "num_columns", 0)):
        return False
    column = source.column(0)
    return hasattr(column, "__arrow_c_stream__") and getattr(column, "num_chunks", 1) >= SEVERAL


cdef BatchStream own_stream(object source, int level):
    cdef BatchStream stream = import_stream(source, level)
    if stream.plan.dictionaries:
        stream.known = Dictionaries(len(stream.plan.dictionaries))
    return stream


def columns_from(table, validate="none"):
    """Return the batches of a table as a :class:`ColumnStream`, put together of the chunks of its columns.

    `table` has ``schema``, which has ``__arrow_c_schema__``, ``columns``, a list of one or more objects with
    ``__arrow_c_stream__``, and ``slice``. Empty chunks are left out, so a table without rows gives no batches.
    """
    cdef ColumnStream stream = ColumnStream.__new__(ColumnStream)
    stream.level = level_of(validate)
    stream.start(table)
    return stream


def batches_from(source):
    """Return the batches of anything with ``__arrow_c_stream__``: tables of several chunks are taken by column.

    Both ways give batches of the same rows.
    """
    return columns_from(source) if is_chunked(source) else own_stream(source, LEVEL_NONE)
