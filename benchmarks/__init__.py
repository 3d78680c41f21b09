"""Names the benchmarks: one file per question, each compared with pyarrow and its peers in one process.

Run ``python -m benchmarks`` for all of them, ``python -m benchmarks NAME ...`` for some.
"""

#: The questions in the order in which they are asked and printed; those of a family share a chart. A module
#: of this package has each name: it defines ``TITLE`` and ``cases(scale)``; its docstring says what each
#: contender does in the measured time. One that cannot be asked everywhere defines ``missing()``, which says
#: why not.
FAMILIES = {
    "reading": (
        "iterate_batches",
        "project_columns",
        "validate_small",
        "validate_large",
        "validate_table",
        "handover",
        "small_stream",
    ),
    "payloads": ("payload_decode", "payload_encode"),
    "writing": ("write_batches", "write_table", "write_large"),
    "compressed": ("compressed", "write_compressed"),
    "dictionaries": ("deltas", "write_dictionaries"),
    "files": ("file_random", "shared_reader", "file_messages", "write_footer", "growth"),
    "rows": ("training", "pruning"),
    "remote": ("remote",),
    "values": ("python_values",),
    "arrays": ("tensors", "sparse_tensors", "statistics"),
    "spark": ("spark_payloads", "spark_files"),
    "dissociated": ("dissociated",),
    "start": ("import_time",),
    "memory": ("read_memory", "write_memory", "peak_memory"),
}

QUESTIONS = tuple(name for family in FAMILIES.values() for name in family)
