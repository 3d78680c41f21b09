"""Names the benchmarks: one file per question, each compared with pyarrow and its peers in one process.

Run ``python -m benchmarks`` for all of them, ``python -m benchmarks NAME ...`` for some.
"""

#: The questions in the order in which they are asked and printed. A module of this package has each name: it
#: defines ``TITLE`` and ``cases(scale)``; its docstring says what each contender does in the measured time.
QUESTIONS = (
    "iterate_batches",
    "project_columns",
    "validate_small",
    "validate_large",
    "handover",
    "small_stream",
    "compressed",
    "deltas",
    "file_random",
    "write_batches",
    "write_table",
    "write_large",
    "write_compressed",
    "write_dictionaries",
    "write_footer",
    "write_memory",
    "payload_decode",
    "payload_encode",
    "sparse_tensors",
    "spark_payloads",
    "statistics",
    "tensors",
    "dissociated",
    "import_time",
)
