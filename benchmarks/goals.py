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
        ">= 10x",
        "iterate_batches",
        floor="metadata touched",
        why="the metadata of so many batches does not fit in the processor's caches",
        front=True,
    ),
    Row("iterate 1000", "the same, 1000 columns", ">= 25x", "iterate_batches"),
    Row("project", "read 5 of 1000 columns", ">= 20x", "project_columns", front=True),
    Row("validate", "read batches of 10 columns x 100 rows, fully validated", ">= 5x", "validate_small", front=True),
    Row("validate large", "read 100,000 rows x 10 columns, fully validated", ">= 3x", "validate_large"),
    Row(
        "handover",
        "hand every batch over to pyarrow",
        ">= 0.7x",
        "handover",
        floor="batches that are there",
        why="importing a batch takes pyarrow as long as reading it",
        front=True,
    ),
    Row(
        "small stream",
        "one small stream per call, 10 rows",
        ">= 8x",
        "small_stream",
        why="there are more schemas than are cached, so each is parsed again",
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
        "write table",
        "write a pyarrow table of many small batches",
        ">= 1x",
        "write_table",
        beside="pyarrow through C",
        why="each chunk reaches arrowipc through the C data interface, which pyarrow's own writer does not need",
    ),
    Row("write memory", "write 128 MB to memory", ">= 0.9x", "write_large", floor="memcpy"),
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
    Row("read small lz4", "read LZ4 bodies of small buffers, equal threads", ">= 1.5x", "compressed"),
    Row("read small zstd", "the same, ZSTD", ">= 1.5x", "compressed", floor="codec alone"),
    Row("compress lz4", "write LZ4 bodies, equal threads", ">= 1x", "write_compressed", floor="codec alone"),
    Row("compress zstd", "the same, ZSTD", ">= 1x", "write_compressed", floor="codec alone"),
    Row("deltas", "400 dictionary deltas of 100 words", ">= 20x", "deltas"),
    Row(
        "deltas flat",
        "growth of the cost per delta, from 200 to 3200 deltas, warm caches (exponent)",
        "k <= 0.1",
        "deltas",
    ),
    Row("file", "open a file of 100,000 batches and read one", ">= 1x", "file_random"),
    Row("read tensor", "read a tensor, zero-copy", ">= 1x", "tensors"),
    Row("gather tensor", "write a strided tensor", ">= 2x", "tensors", floor="np.copyto"),
    Row("import", "`import arrowipc`", "<= 15 ms", "import_time", front=True),
    Row("installed", "installed size", "<= 5.72 MiB", "import_time"),  # 6 MB
    Row(
        "spark",
        "Spark: decode payloads in `mapInArrow`, compared with no decoding",
        ">= 0.8x",
        "spark_payloads",
    ),
    Row("spark pyarrow", "the same, compared with pyarrow", ">= 3.5x", "spark_payloads"),
)
