"""The options of the data source, checked: Spark passes them as texts under lower-case names."""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import arrowipc
from arrowipc.errors import UsageError
from arrowipc.inspection.recover import recover
from arrowipc.read.remote import RemoteSource
from arrowipc.spark.read.files import is_url, storage_options

__all__ = ["ReadOptions", "check_names", "choice", "count", "flag", "names"]

DEFAULT_ROWS_PER_BATCH = 32_768

_READ = (
    "path",
    "pathGlobFilter",
    "format",
    "columns",
    "batchesPerPartition",
    "partitionBytes",
    "rowsPerBatch",
    "validate",
    "nanoseconds",
    "unsupported",
    "mode",
    "columnNameOfCorruptRecord",
    "recover",
    "ignoreMissingFiles",
)
_WRITE = (
    "path",
    "format",
    "compression",
    "compressionLevel",
    "batchRows",
    "batchBytes",
    "maxRecordsPerFile",
    "dictionaryColumns",
    "statistics",
)
#: What Spark users ask for -> the options that there are, besides ``storage.NAME``.
OPTIONS = {
    "read": (*_READ, "paths", "pushFilters"),
    "readStream": (*_READ, "maxFilesPerTrigger", "maxBytesPerTrigger", "maxTrackedFiles"),
    "write": _WRITE,
    # Spark passes these two of its own with the others.
    "writeStream": (*_WRITE, "checkpointLocation", "queryName"),
}
#: Options that Spark's own file formats have and we do not, and what to do instead.
INSTEAD = {
    "modifiedAfter": "choose files by their paths or by pathGlobFilter",
    "modifiedBefore": "choose files by their paths or by pathGlobFilter",
    "mergeSchema": "the schema is that of the first file; give another one with .schema(...)",
    "basePath": "directories such as year=2024 make no columns; add them to what is read",
    "recursiveFileLookup": "directories are always searched to any depth",
    "ignoreCorruptFiles": "mode=DROPMALFORMED leaves out what is damaged, and recover=true reads what is in "
    "front of it",
}
STORAGE = "storage"
CORRUPT_COLUMN = "_corrupt_record"
_MAGIC = b"ARROW1"


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read, checked."""

    format: str
    columns: list[str] | None
    batches_per_partition: int | None
    partition_bytes: int | None
    rows_per_batch: int
    validate: str
    mode: str
    corrupt_column: str
    recover: bool
    ignore_missing: bool
    push_filters: bool
    storage: dict[str, Any]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "ReadOptions":
        """Check Spark's options, which come as texts under lower-case names."""
        check_names(options, "read", "readStream")  # of both: Spark asks for a schema without saying what for
        return cls(
            format=choice(options, "format", ("auto", "file", "stream")),
            columns=names(options.get("columns")),
            batches_per_partition=count(options, "batchesPerPartition"),
            partition_bytes=count(options, "partitionBytes"),
            rows_per_batch=count(options, "rowsPerBatch") or DEFAULT_ROWS_PER_BATCH,
            validate=choice(options, "validate", ("full", "none", "strict")),
            mode=choice(options, "mode", ("failfast", "permissive", "dropmalformed")),
            corrupt_column=options.get("columnnameofcorruptrecord") or CORRUPT_COLUMN,
            recover=flag(options, "recover"),
            ignore_missing=flag(options, "ignoreMissingFiles"),
            push_filters=flag(options, "pushFilters"),
            storage=storage_options(options),
        )

    @property
    def goes_on(self) -> bool:
        """Whether damage is passed over or told in a row, instead of ending the query."""
        return self.recover or self.mode != "failfast"

    def source(
        self, path: str, size: int | None = None, version: Mapping[str, str] | None = None
    ) -> str | RemoteSource:
        """What a reader takes for a path; several readers may share it, which saves requests."""
        return RemoteSource(path, self.storage, size=size, version=version) if is_url(path) else path

    def open(self, source: str | RemoteSource, columns: Iterable[int | str] | None = None) -> Any:
        """Open a file of either format; a reader of arrowipc."""
        opener = {"auto": arrowipc.open, "file": arrowipc.open_file, "stream": arrowipc.open_stream}[
            self.format
        ]
        return opener(source, columns=None if columns is None else list(columns), validate=self.validate)

    def open_damaged(self, source: str | RemoteSource, columns: Iterable[int | str] | None = None) -> Any:
        """Open what is left of a file of either format."""
        chosen: Any = None if columns is None else list(columns)
        level: Any = self.validate
        return recover(source, columns=chosen, validate=level)

    def is_stream(self, source: str | RemoteSource) -> bool:
        """Whether the file is to be read as a stream."""
        return self.format == "stream" or (self.format == "auto" and not _begins_like_a_file(source))


def _begins_like_a_file(source: str | RemoteSource) -> bool:
    if isinstance(source, RemoteSource):
        return source.head()[: len(_MAGIC)] == _MAGIC
    with open(source, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def check_names(options: Mapping[str, str], *kinds: str) -> None:
    """Refuse each name that is no option of any of the `kinds`, which are keys of `OPTIONS`.

    Raises
    ------
    UsageError
        Says what to do instead, where the option belongs, or which one has a similar name.
    """
    if {"provider", "owner"} <= {name.lower() for name in options}:
        raise UsageError(
            "Spark hands no Python data source the options of a catalog table: use CREATE TEMPORARY VIEW ... "
            "USING arrowipc OPTIONS (path ...), or load(path)"
        )
    known = {name.lower(): name for kind in kinds for name in OPTIONS[kind]}
    for name in options:
        first, _, rest = name.lower().partition(".")
        if name.lower() not in known and not (first == STORAGE and rest):
            kind = kinds[0] if len(kinds) == 1 else "read"
            raise UsageError(_unknown(name, kind, known))


def _unknown(name: str, kind: str, known: Mapping[str, str]) -> str:
    """Words for a name that is no option; Spark passes names in lower case."""
    first, dot, rest = name.partition(".")
    instead = {spelt.lower(): spelt for spelt in INSTEAD}.get(name.lower())
    if instead is not None:
        return f"arrowipc has no option {instead!r}: {INSTEAD[instead]}; leave it out"
    if dot and difflib.get_close_matches(first.lower(), [STORAGE], 1, 0.8):
        return f"arrowipc has no option {name!r}; did you mean '{STORAGE}.{rest}'?"
    elsewhere = {spelt.lower(): (spelt, other) for other, names in OPTIONS.items() for spelt in names}
    if name.lower() in elsewhere:
        spelt, other = elsewhere[name.lower()]
        return f"option {spelt}: it belongs to {other}, and means nothing to {kind}; leave it out"
    close = difflib.get_close_matches(name.lower(), known, 1)
    if close:
        return f"arrowipc has no option {name!r}; did you mean {known[close[0]]!r}?"
    return f"arrowipc has no option {name!r} for {kind}; there are {', '.join(sorted(known.values()))}"


def flag(options: Mapping[str, str], name: str) -> bool:
    """Take ``true`` or ``false``, the default."""
    return choice(options, name, ("false", "true")) == "true"


def choice(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """Take one of a few words, in any case; the first is the default."""
    value = options.get(name.lower(), allowed[0]).lower()
    if value not in allowed:
        raise UsageError(f"option {name}: expected one of {', '.join(allowed)}, found {value!r}")
    return value


def count(options: Mapping[str, str], name: str) -> int | None:
    """Take a whole number from 1, None where the option is not given."""
    value = options.get(name.lower())
    if value is None:
        return None
    if not value.strip().isdecimal() or int(value) < 1:
        raise UsageError(f"option {name}: expected a whole number from 1, found {value!r}")
    return int(value)


def names(value: str | None) -> list[str] | None:
    """Take names separated by commas, or a JSON list of them."""
    if value is None:
        return None
    names: Any = [name.strip() for name in value.split(",")]
    if value.lstrip().startswith("["):
        try:
            names = json.loads(value)
        except ValueError:
            names = None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise UsageError(
            f"option columns: expected names separated by commas or a JSON list of names, found {value!r}"
        )
    return names
