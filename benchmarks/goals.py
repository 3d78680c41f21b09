"""The goals of the project: the rows of the speed table, in order, and why some cases miss theirs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One row of the table; a case says by `Case.row` that it counts for it.

    Attributes
    ----------
    key : str
    words : str
        The question.
    goal : str
        As `Result.goal` says it.
    question : str
        The benchmark that has the cases.
    floor : str, default ""
        The contender that does only what nobody can leave out; shown where the goal is missed.
    beside : str, default ""
        A contender that is no floor, but explains the miss; shown there too.
    why : str, default ""
        Why the named case, or another one of the row, misses the goal.
    front : bool, default False
        The README shows the row.
    """

    key: str
    words: str
    goal: str
    question: str
    floor: str = ""
    beside: str = ""
    why: str = ""
    front: bool = False


ROWS = (
    Row(
        "iterate",
        "iterate batches of 10 columns x 100 rows, structure checked",
        ">= 15x",
        "iterate_batches",
        floor="metadata touched",
        why="what is left are the objects of a batch and its metadata, which pyarrow reads too",
        front=True,
    ),
    Row(
        "iterate floor",
        "the same, beside an empty object per batch and its metadata touched",
        ">= 0.625x",
        "iterate_batches",
        why="the floor has no table of buffers; texts and nested columns have 30 to 50 buffers a batch to fill in",
    ),
    Row("iterate 1000", "the same, 1000 columns", ">= 30x", "iterate_batches"),
    Row(
        "iterate cold",
        "the same, 20,000 batches, which no cache holds",
        ">= 15x",
        "iterate_batches",
        floor="metadata touched",
        why="the metadata of so many batches does not fit in the processor's caches",
    ),
    Row("project", "read 5 of 1000 columns", ">= 20x", "project_columns", front=True),
    Row("validate", "read batches of 10 columns x 100 rows, fully validated", ">= 5x", "validate_small", front=True),
    Row("validate large", "read 100,000 rows x 10 columns, fully validated", ">= 3x", "validate_large"),
    Row(
        "validate table",
        "a mapped file as a validated pyarrow table, pyarrow's own not validated",
        ">= 0.8x",
        "validate_table",
        floor="bytes touched",
        why="pyarrow touches no page of the bodies; to look at the bytes once takes longer than all of its work",
    ),
    Row(
        "validate table 2",
        "the same, two threads",
        ">= 1x",
        "validate_table",
        floor="bytes touched",
        why="pyarrow touches no page of the bodies; the kernel maps them for both threads one after the other",
    ),
    Row(
        "handover",
        "hand every batch over to pyarrow",
        ">= 0.9x",
        "handover",
        floor="import alone",
        why="importing a batch takes pyarrow as long as reading it",
        front=True,
    ),
    Row(
        "small stream",
        "one small stream per call, 10 rows",
        ">= 10x",
        "small_stream",
        floor="decoder alone",
        why="a call of `open_stream` with its options takes as long as decoding; of 64 schemas each is parsed again",
        front=True,
    ),
    Row(
        "decode",
        "decode a payload column: 20,000 streams of 10 rows x 10 columns",
        ">= 25x",
        "payload_decode",
        beside="one payload",
        why="finding the schema and building the batch costs each call as much as fifteen payloads",
        front=True,
    ),
    Row(
        "decode small",
        "the same, 20 payloads per call",
        ">= 30x",
        "payload_decode",
        beside="arrowipc none",
        why="values are validated, which pyarrow does not; a batch for the caller costs as much as ten payloads",
    ),
    Row("decode known", "the same, bare messages, schema known", ">= 10x", "payload_decode"),
    Row("encode", "encode a payload column: 20,000 x 10 rows", ">= 8x", "payload_encode", front=True),
    Row(
        "write",
        "write our own batches of 10 columns x 100 rows",
        ">= 3x",
        "write_batches",
        why="in a short stream, opening and closing the writer is a large part of the work",
        front=True,
    ),
    Row(
        "write growing",
        "the same, four shapes, to growing memory",
        ">= 3x",
        "write_batches",
        floor="memcpy",
        why="new memory is zeroed by the kernel, page by page, and pyarrow's allocator gives out used memory again",
    ),
    Row(
        "write BytesIO",
        "the same, to BytesIO",
        ">= 6x",
        "write_batches",
        floor="memcpy",
        why="BytesIO moves what it has when it grows, and new memory is zeroed by the kernel",
    ),
    Row(
        "write table",
        "write a pyarrow table of many small batches",
        ">= 1x",
        "write_table",
        beside="pyarrow through C",
        why="each chunk reaches arrowipc through the C data interface, which pyarrow's own writer does not need",
    ),
    Row(
        "write table small",
        "the same, four shapes",
        ">= 2x",
        "write_table",
        floor="taken and copied",
        why="pyarrow's export of a chunk takes half of the time that its own writer takes",
    ),
    Row("write table large", "write a pyarrow table of one chunk", ">= 1x", "write_table", floor="taken and copied"),
    Row(
        "write memory",
        "write 128 MB to memory",
        ">= 0.9x",
        "write_large",
        floor="memcpy",
    ),
    Row("write file", "write 128 MB to a file", ">= 1x", "write_large"),
    Row("write peak", "peak memory of writing, beyond the data", "<= 64 MiB", "write_memory"),
    Row(
        "read lz4",
        "read LZ4 bodies of large buffers, equal threads",
        ">= 1x",
        "compressed",
        floor="codec alone",
        front=True,
    ),
    Row("read zstd", "the same, ZSTD", ">= 1x", "compressed", floor="codec alone"),
    Row(
        "read lz4 shapes",
        "the same, four shapes, LZ4",
        ">= 1.05x",
        "compressed",
        floor="codec alone",
        why="decoding is nearly all of the time, and the codec's library is as fast as pyarrow's",
    ),
    Row(
        "read zstd shapes",
        "the same, four shapes, ZSTD",
        ">= 1.05x",
        "compressed",
        floor="codec alone",
        why="decoding is nearly all of the time, and the codec's library is as fast as pyarrow's",
    ),
    Row("read small lz4", "read LZ4 bodies of small buffers, equal threads", ">= 1.5x", "compressed"),
    Row("read small zstd", "the same, ZSTD", ">= 1.5x", "compressed", floor="codec alone"),
    Row(
        "compress lz4",
        "write LZ4 bodies, equal threads",
        ">= 1x",
        "write_compressed",
        floor="codec alone",
        why="the codec is nearly all of the time; its frames are copied into the sink, 1 ms for 12 MB",
    ),
    Row("compress zstd", "the same, ZSTD", ">= 1x", "write_compressed", floor="codec alone"),
    Row(
        "compress lz4 shapes",
        "the same, four shapes, LZ4",
        ">= 1.05x",
        "write_compressed",
        floor="codec alone",
        why="the codec is nearly all of the time; its frames are copied into the sink, 1 ms for 12 MB",
    ),
    Row(
        "compress zstd shapes",
        "the same, four shapes, ZSTD",
        ">= 1.05x",
        "write_compressed",
        floor="codec alone",
        why="libzstd as Python packages have it compresses 1 to 6 % slower than as pyarrow has it, which is the floor",
    ),
    Row("deltas", "400 dictionary deltas of 100 words", ">= 20x", "deltas"),
    Row(
        "deltas flat",
        "growth of the cost per delta, from 200 to 3200 deltas, warm caches (exponent)",
        "k <= 0.1",
        "deltas",
        why="it was 0.05 and 0.09 in other runs; why it varies was not found",
    ),
    Row("file", "open a file of 100,000 batches and read one", ">= 1x", "file_random"),
    Row(
        "shared mapped",
        "two threads on one file reader, validated, beside one thread",
        ">= 1.9x",
        "shared_reader",
        floor="bytes alone",
        why="two processors share the memory's bandwidth",
    ),
    Row(
        "shared read",
        "the same, file not mapped",
        ">= 1.7x",
        "shared_reader",
        floor="bytes alone",
        why="the kernel's copy is most of the work, and two of them share the memory's bandwidth",
    ),
    Row("growth", "growth of the cost per unit (exponent)", "k <= 0.05", "growth", beside="copied"),
    Row(
        "remote columns",
        "5 of 1000 columns of a file over HTTP, 20 ms a request",
        "<= 300 ms",
        "remote",
        floor="ranges alone",
    ),
    Row("remote batches", "the same, 2 of 20 batches", "<= 100 ms", "remote", floor="ranges alone"),
    Row("read tensor", "read a tensor, zero-copy", ">= 1x", "tensors"),
    Row("gather tensor", "write a strided tensor", ">= 2x", "tensors", floor="np.copyto"),
    Row("import", "`import arrowipc`", "<= 15 ms", "import_time"),
    Row(
        "first file",
        "`import arrowipc` and read a first small file, a new process",
        "<= 3 ms",
        "import_time",
        front=True,
        why="thirty Python files of 0.1 to 0.4 ms each, and the library of the compiled modules",
    ),
    Row(
        "installed",
        "installed size, with the `.pyc` files that pip makes",
        "<= 5.72 MiB",
        "import_time",
        why="the library has 3.4 MB, Python files and stubs 1.8, their `.pyc` files 2.8, the jar for Spark 0.2",
    ),
    Row(
        "spark",
        "Spark: decode payloads in `mapInArrow`, compared with no decoding",
        ">= 0.8x",
        "spark_payloads",
    ),
    Row("spark pyarrow", "the same, compared with pyarrow", ">= 3.5x", "spark_payloads"),
    Row("peak convert", "peak memory of converting 1 GB to LZ4, not mapped", "<= 32 MiB", "peak_memory"),
    Row("peak project", "peak memory of reading 2 of 10 columns of 1 GB, not mapped", "<= 32 MiB", "peak_memory"),
    Row("peak payloads", "peak memory of decoding 1 GB of payloads, 4 MB at once", "<= 32 MiB", "peak_memory"),
)
