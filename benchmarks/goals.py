"""The goals of the project: the rows of the speed table, in order, and what stops us where one is missed."""

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
        A contender that is no floor, but shows what stops us; shown there too.
    why : str, default ""
        What stops us where the named case, or another one of the row, misses the goal.
    """

    key: str
    words: str
    goal: str
    question: str
    floor: str = ""
    beside: str = ""
    why: str = ""


ROWS = (
    Row(
        "iterate",
        "iterate batches of 10 columns x 100 rows, structure checked",
        ">= 10x",
        "iterate_batches",
        floor="metadata touched",
        why="the metadata of so many batches lies in no near cache",
    ),
    Row("iterate 1000", "the same, 1000 columns", ">= 25x", "iterate_batches"),
    Row("project", "5 of 1000 columns", ">= 20x", "project_columns"),
    Row("validate", "batches of 10 columns x 100 rows, fully validated", ">= 5x", "validate_small"),
    Row("validate large", "100,000 rows x 10 columns, fully validated", ">= 3x", "validate_large"),
    Row(
        "handover",
        "hand every batch over to pyarrow",
        ">= 0.7x",
        "handover",
        floor="batches that are there",
        why="pyarrow's own import of a batch takes as long as its reader takes to read it",
    ),
    Row(
        "small stream",
        "one small stream per call, 10 rows",
        ">= 8x",
        "small_stream",
        why="of so many schemas none is kept for the next time: each is parsed anew",
    ),
    Row(
        "decode",
        "payload column, 20,000 streams of 10 rows x 10 columns, to one batch",
        ">= 25x",
        "payload_decode",
        beside="one payload",
        why="a call finds its schema and makes its batch, for as much as the rows of fifteen payloads take",
    ),
    Row("decode known", "the same, bare messages, schema known", ">= 10x", "payload_decode"),
    Row("encode", "payload column written, 20,000 x 10 rows", ">= 8x", "payload_encode"),
    Row(
        "write",
        "write batches of 10 columns x 100 rows, our own",
        ">= 3x",
        "write_batches",
        why="a short stream carries the opening and the end of its writer",
    ),
    Row(
        "write table",
        "write a pyarrow table of many small batches",
        ">= 1x",
        "write_table",
        beside="pyarrow through C",
        why="each chunk comes to us through the C interface, which pyarrow's own writer does without",
    ),
    Row("write memory", "write 128 MB to memory", ">= 0.9x", "write_large", floor="memcpy"),
    Row("write file", "write 128 MB to a file", ">= 1x", "write_large"),
    Row("write peak", "peak memory of writing, above the data", "<= 64 MiB", "write_memory"),
    Row(
        "read lz4",
        "read LZ4 bodies of large buffers, equal threads",
        ">= 1x",
        "compressed",
        floor="codec alone",
    ),
    Row("read zstd", "the same, ZSTD", ">= 1x", "compressed", floor="codec alone"),
    Row("read small lz4", "read LZ4 bodies of small buffers, equal threads", ">= 1.5x", "compressed"),
    Row("read small zstd", "the same, ZSTD", ">= 1.5x", "compressed", floor="codec alone"),
    Row("compress lz4", "write LZ4 bodies, equal threads", ">= 1x", "write_compressed", floor="codec alone"),
    Row("compress zstd", "the same, ZSTD", ">= 1x", "write_compressed", floor="codec alone"),
    Row("deltas", "400 dictionary deltas of 100 words", ">= 20x", "deltas"),
    Row("deltas flat", "cost per delta, from 200 to 3200 deltas, caches warm (exponent)", "k <= 0.1", "deltas"),
    Row("file", "open a file of 100,000 batches and read one", ">= 1x", "file_random"),
    Row("read tensor", "read a tensor, zero-copy", ">= 1x", "tensors"),
    Row("gather tensor", "write a strided tensor", ">= 2x", "tensors", floor="np.copyto"),
    Row("import", "`import arrowipc`", "<= 15 ms", "import_time"),
    Row("installed", "installed size", "<= 5.72 MiB", "import_time"),  # 6 MB
    Row(
        "spark",
        "Spark: payloads decoded in `mapInArrow`, beside no decoding at all",
        ">= 0.8x",
        "spark_payloads",
    ),
    Row("spark pyarrow", "the same, beside pyarrow", ">= 3.5x", "spark_payloads"),
)
