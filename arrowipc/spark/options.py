"""The options of the data source, checked: Spark passes them as texts under lower-case names."""

import difflib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import arrowipc
from arrowipc.errors import UsageError
from arrowipc.recovery import recover
from arrowipc.remote import RemoteSource
from arrowipc.spark.files import is_url, storage_options

__all__ = ["ReadOptions", "check_names", "choice", "count", "flag", "names"]

DEFAULT_ROWS_PER_BATCH = 32_768

READ_OPTIONS = {
    "path",
    "paths",
    "pathglobfilter",
    "format",
    "columns",
    "batchesperpartition",
    "partitionbytes",
    "rowsperbatch",
    "validate",
    "nanoseconds",
    "unsupported",
    "mode",
    "columnnameofcorruptrecord",
    "recover",
    "ignoremissingfiles",
    "pushfilters",
    "maxfilespertrigger",
    "maxbytespertrigger",
    "maxtrackedfiles",
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
        check_names(options, READ_OPTIONS)
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


def check_names(options: Mapping[str, str], known: Collection[str]) -> None:
    """Refuse a name that looks like one of ours, misspelt; Spark adds options of its own."""
    for name in options:
        first, dot, _ = name.lower().partition(".")
        if dot and first != STORAGE and difflib.get_close_matches(first, [STORAGE], 1, 0.8):
            meant = f"{STORAGE}.{name[len(first) + 1 :]}"
            raise UsageError(f"arrowipc has no option {name!r}; did you mean {meant!r}?")
        close = difflib.get_close_matches(name.lower(), known, 1, 0.8)
        if name.lower() not in known and close:
            raise UsageError(f"arrowipc has no option {name!r}; did you mean {close[0]!r}?")


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
