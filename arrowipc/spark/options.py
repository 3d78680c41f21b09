"""The options of the data source, checked: Spark passes them as texts under lower-case names."""

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

import arrowipc
from arrowipc.errors import FormatError, UsageError
from arrowipc.inspection.recover import recover
from arrowipc.read.files import FoundFile, find_files, is_url, root_of
from arrowipc.read.remote import RemoteSource, find_system
from arrowipc.read.sources import first_bytes, map_file

if TYPE_CHECKING:
    from arrowipc.spark.types import TypeOptions

__all__ = [
    "TABLE",
    "Option",
    "ReadOptions",
    "byte_size",
    "check_names",
    "choice",
    "count",
    "flag",
    "names",
    "options_resource",
    "storage_options",
]

Side = Literal["both", "python", "jvm", "spark"]


@dataclass(frozen=True)
class Option:
    """One option of ``format("arrowipc")``, for reading or for writing.

    Attributes
    ----------
    use : {"read", "write"}
        Streams have the options of reads and writes.
    type : str
        ``flag``, ``count`` (a whole number from 1), ``bytes`` (such as 4194304 or 4m), ``names`` (separated by commas,
        or a JSON list), ``text``, or the words to choose from, separated by ``|``.
    default : str
        Empty where there is none.
    side : {"both", "python", "jvm", "spark"}
        Who has it: the file format in the JVM, the Python data source, both; or Spark itself has it for every file
        format, and the Python data source gives it the same meaning.
    instead : str
        What to do on the side that does not have it.
    """

    name: str
    use: Literal["read", "write"]
    type: str
    default: str
    side: Side
    meaning: str
    instead: str = ""


_EXACT = "error|truncate|long"
#: All options. The docstring of the data source, the check of names and values, the table of docs/guides/spark-files.md
#: and the defaults of the JVM are made of this.
TABLE: tuple[Option, ...] = (
    Option("format", "read", "auto|file|stream", "auto", "both", "Files or streams; `auto` looks at each file."),
    Option(
        "mergeSchema", "read", "flag", "false", "both", "The schema has the columns of all files, not of the first."
    ),
    Option("validate", "read", "full|none", "full", "both", "`none` trusts the values of files; layouts are checked."),
    Option("nanoseconds", "read", _EXACT, "error", "both", "What to do about values that are no whole microseconds."),
    Option("unsupported", "read", "error|drop|string", "error", "both", "What to do about types that Spark lacks."),
    Option(
        "extensions", "read", "flag", "false", "both", "Extension types such as `arrow.uuid` become what they mean."
    ),
    Option(
        "columns",
        "read",
        "names",
        "",
        "python",
        "Columns to read; `a.b` is field b of struct a.",
        "select the columns: Spark reads no others",
    ),
    Option(
        "storage.NAME",
        "read",
        "text",
        "",
        "python",
        "What the file system of a URL (fsspec) wants to know; writing, too.",
        "give Hadoop's file system its settings, spark.hadoop.*",
    ),
    Option("maxPartitionBytes", "read", "bytes", "128m", "python", "Bytes of a task at most.", "set spark.sql.files.*"),
    Option("basePath", "read", "text", "", "spark", "The folder below which `key=value` folders are columns."),
    Option("pathGlobFilter", "read", "text", "", "spark", "A pattern for the names of files."),
    Option("recursiveFileLookup", "read", "flag", "false", "spark", "Folders are searched, and are no columns."),
    Option(
        "ignoreCorruptFiles", "read", "flag", "false", "spark", "The rest of a damaged file is left out, and logged."
    ),
    Option(
        "ignoreMissingFiles", "read", "flag", "false", "spark", "Files that vanish before they are read are left out."
    ),
    Option("maxFilesPerTrigger", "read", "count", "", "spark", "Files of a micro-batch at most."),
    Option("format", "write", "file|stream", "file", "both", "Files (`.arrow`) or streams (`.arrows`)."),
    Option("compression", "write", "none|uncompressed|lz4|zstd", "none", "both", "How batches are compressed."),
    Option("batchRows", "write", "count", "65536", "both", "Rows of a batch at most."),
    Option("batchBytes", "write", "bytes", "32m", "both", "Bytes of a batch at most, before compression."),
    Option("statistics", "write", "flag", "false", "both", "Least and greatest values of each batch are kept in it."),
)


def options_resource() -> str:
    """The text of ``META-INF/arrowipc/options.tsv`` in the jar: name, default, kind and type of each option.

    The kind is ``read`` or ``write``. It is ``refused`` for what only the Python data source has: the name ends with
    a dot where it is the beginning of names, the default is empty, and in the place of the type is what to do instead.
    """
    lines = []
    for option in TABLE:
        if option.side == "python":
            lines.append((option.name.removesuffix("NAME"), "", "refused", option.instead))
        elif option.side != "spark":
            lines.append((option.name, option.default, option.use, option.type))
    return "".join("\t".join(line) + "\n" for line in lines)


DEFAULT_ROWS_PER_BATCH = 32_768
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Files that the driver looks into: a second of its time where they are near, and of many cores' beyond.
DEFAULT_PLANNING_THRESHOLD = 10_000
#: Files of up to so many bytes are read at once, which is quicker than mapping them.
SMALL = 1 << 16

_READ = (
    "path",
    "pathGlobFilter",
    "format",
    "columns",
    "batchesPerPartition",
    "partitionBytes",
    "maxPartitionBytes",
    "openCostInBytes",
    "minPartitionNum",
    "parallelPlanningThreshold",
    "rowsPerBatch",
    "validate",
    "nanoseconds",
    "unsupported",
    "extensions",
    "mode",
    "columnNameOfCorruptRecord",
    "recover",
    "ignoreMissingFiles",
    "ignoreCorruptFiles",
    "mergeSchema",
    "withMetadata",
    "engine",
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
    "partitionBy",
)
#: What Spark users ask for -> the options that there are, besides ``storage.NAME``.
OPTIONS: dict[str, tuple[str, ...]] = {
    "read": (
        *_READ,
        "paths",
        "pushFilters",
        "filter",
        "basePath",
        "recursiveFileLookup",
        "modifiedAfter",
        "modifiedBefore",
        "timeZone",
        "describe",
    ),
    "readStream": (*_READ, "maxFilesPerTrigger", "maxBytesPerTrigger", "maxTrackedFiles"),
    "write": _WRITE,
    # Spark passes these two of its own with the others.
    "writeStream": (*_WRITE, "checkpointLocation", "queryName"),
}
STORAGE = "storage"
CORRUPT_COLUMN = "_corrupt_record"


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read, checked.

    Attributes
    ----------
    paths : list of str
        Of the options ``path`` and ``paths``, as they were given.
    """

    paths: list[str]
    name_filter: str | None
    format: str
    columns: list[str] | None
    batches_per_partition: int | None
    partition_bytes: int | None
    max_partition_bytes: int | None
    open_cost: int | None
    min_partitions: int | None
    planning_threshold: int
    rows_per_batch: int
    validate: str
    mode: str
    corrupt_column: str
    recover: bool
    ignore_missing: bool
    merge_schema: bool
    metadata: bool
    push_filters: bool
    filter: Any
    base_path: str | None
    recursive: bool | None
    modified_after: int | None
    modified_before: int | None
    describe: bool
    storage: dict[str, Any]
    types: "TypeOptions"

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "ReadOptions":
        """Check Spark's options, which come as texts under lower-case names."""
        from arrowipc.spark.types import TypeOptions  # imports pyarrow, which finding the data source must not

        check_names(options, "read", "readStream")  # of both: Spark asks for a schema without saying what for
        if choice(options, "engine", ("auto", "python", "jvm")) == "jvm":
            raise UsageError(
                "option engine: jvm is wanted, and Python was asked; put the jar that python -m arrowipc.spark.jar "
                "names on Spark's class path, see arrowipc.spark.configure; streams are read by Python only"
            )
        return cls(
            paths=_paths(options),
            name_filter=options.get("pathglobfilter"),
            format=choice(options, "format", ("auto", "file", "stream")),
            columns=names(options, "columns"),
            batches_per_partition=count(options, "batchesPerPartition"),
            partition_bytes=byte_size(options, "partitionBytes"),
            max_partition_bytes=byte_size(options, "maxPartitionBytes"),
            open_cost=byte_size(options, "openCostInBytes", least=0),
            min_partitions=count(options, "minPartitionNum"),
            planning_threshold=count(options, "parallelPlanningThreshold") or DEFAULT_PLANNING_THRESHOLD,
            rows_per_batch=count(options, "rowsPerBatch") or DEFAULT_ROWS_PER_BATCH,
            validate=choice(options, "validate", ("full", "none", "strict")),
            mode=_mode(options),
            corrupt_column=options.get("columnnameofcorruptrecord") or CORRUPT_COLUMN,
            recover=flag(options, "recover"),
            ignore_missing=flag(options, "ignoreMissingFiles"),
            merge_schema=flag(options, "mergeSchema"),
            metadata=flag(options, "withMetadata"),
            push_filters=flag(options, "pushFilters"),
            filter=_filter(options),
            base_path=options.get("basepath"),
            recursive=flag(options, "recursiveFileLookup") if "recursivefilelookup" in options else None,
            modified_after=_moment(options, "modifiedAfter"),
            modified_before=_moment(options, "modifiedBefore"),
            describe=flag(options, "describe"),
            storage=storage_options(options),
            types=TypeOptions.of(options),
        )

    @property
    def tolerates_damage(self) -> bool:
        """Whether damage is left out or becomes a row, instead of ending the query."""
        return self.recover or self.mode != "failfast"

    def files(self) -> list[FoundFile]:
        """The files to read; see `find_files`."""
        if not self.paths:
            raise UsageError(
                'arrowipc needs a path: spark.read.format("arrowipc").load("directory or file or pattern")'
            )
        for path in filter(is_url, self.paths):
            try:
                find_system(path, self.storage)
            except UsageError as error:
                raise UsageError(
                    f"{error}; what only Spark can read comes with "
                    'spark.read.format("binaryFile").load(...) and decode_payloads(df, "content")'
                ) from error
        from arrowipc.spark.read.folders import chosen_files  # which needs pyarrow

        found = find_files(self.paths, self.name_filter, self.ignore_missing, self.storage, behind_matches=True)
        root = None if self.base_path is None else root_of(self.base_path, self.storage)
        return list(chosen_files(found, root, self))

    def source(self, path: str, size: int | None = None, version: Mapping[str, str] | None = None) -> Any:
        """What a reader takes for a path: a map of a local file, or the bytes of a small one, else a `RemoteSource`.

        Several readers may share it, so a file is opened, and what is far away is requested, only once.
        """
        if is_url(path):
            return RemoteSource(path, self.storage, size=size, version=version)
        with open(path, "rb", buffering=0) as file:
            small = size is not None and size <= SMALL
            return memoryview(file.readall() if small else map_file(file))

    def open(self, source: Any, columns: Sequence[int | str] | None = None, *, index: bool = False) -> Any:
        """Open a `source` of either format, streams with an `index` where that is asked for; a reader of arrowipc."""
        openers: dict[str, Any] = {"auto": arrowipc.open, "file": arrowipc.open_file, "stream": arrowipc.open_stream}
        level: Any = self.validate
        if index and self.format != "file":
            return arrowipc.open(source, columns=columns, validate=level, index=True)
        return openers[self.format](source, columns=columns, validate=level)

    def opener(self, source: Any, part: bool) -> Callable[..., Any]:
        """What opens a `source` for a task: by its batches if it reads a part, else what is there, or left of it."""
        if part:
            return partial(self.open, source, index=True)
        if self.recover:
            if self.is_stream(source):
                return partial(self.open_damaged, source)
            try:
                self.open(source).close()
            except FormatError:
                return partial(self.open_damaged, source)
        return partial(self.open, source)

    def open_damaged(self, source: Any, columns: Sequence[int | str] | None = None) -> Any:
        """Open what is left of a `source` of either format."""
        level: Any = self.validate
        return recover(source, columns=columns, validate=level)

    def is_stream(self, source: Any) -> bool:
        """Whether a `source` is to be read as a stream."""
        return self.format == "stream" or (self.format == "auto" and first_bytes(source) != b"ARROW1")


def _paths(options: Mapping[str, str]) -> list[str]:
    paths = [options["path"]] if options.get("path") else []
    if options.get("paths"):
        more = _json_texts(options["paths"])
        if more is None:
            raise UsageError(f"option paths: expected a JSON list of texts, found {options['paths']!r}")
        paths += more
    return paths


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
    """The error text for a name that is no option; Spark passes names in lower case."""
    first, dot, rest = name.partition(".")
    if dot and difflib.get_close_matches(first.lower(), [STORAGE], 1, 0.8):
        return f"arrowipc has no option {name!r}; did you mean '{STORAGE}.{rest}'?"
    elsewhere = {spelt.lower(): (spelt, other) for other, names in reversed(OPTIONS.items()) for spelt in names}
    if name.lower() in elsewhere:
        spelt, other = elsewhere[name.lower()]
        return f"option {spelt}: it belongs to {other}, and means nothing to {kind}; leave it out"
    close = difflib.get_close_matches(name.lower(), known, 1)
    if close:
        return f"arrowipc has no option {name!r}; did you mean {known[close[0]]!r}?"
    return f"arrowipc has no option {name!r} for {kind}; there are {', '.join(sorted(known.values()))}"


def storage_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Take the options ``storage.NAME``, which the file system of a URL wants to know.

    Values are JSON where they can be (``true``, ``5``, ``{"endpoint_url": ...}``), else texts; a text that
    looks like JSON is given in quotes (``"12345"``). Spark passes the names in lower case.
    """
    taken: dict[str, Any] = {}
    for name, value in options.items():
        first, _, rest = name.partition(".")
        if first.lower() == STORAGE and rest:
            try:
                taken[rest] = json.loads(value)
            except ValueError:
                taken[rest] = value
    return taken


def _mode(options: Mapping[str, str]) -> str:
    """Take the mode, in which ``ignoreCorruptFiles`` has a word."""
    mode = choice(options, "mode", ("failfast", "permissive", "dropmalformed"))
    if not flag(options, "ignoreCorruptFiles"):
        return mode
    if "mode" in options and mode != "dropmalformed":
        raise UsageError(f"option ignoreCorruptFiles: it is mode=DROPMALFORMED; mode={mode.upper()} says otherwise")
    return "dropmalformed"


def _moment(options: Mapping[str, str], name: str) -> int | None:
    """Take a point in time, such as ``2024-05-31T12:00:00``; microseconds since 1970."""
    text, zone = options.get(name.lower()), options.get("timezone", "")
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text + (zone if zone.startswith(("+", "-")) else ""))
        if found.tzinfo is None and zone:
            found = found.replace(tzinfo=ZoneInfo(zone))
    except (ValueError, KeyError, OSError):
        raise UsageError(
            f"option {name}: expected a time such as 2024-05-31T12:00:00, and as timeZone one such as UTC, +02:00 or "
            f"Europe/Oslo, found {text!r} and {zone!r}"
        ) from None
    if found.tzinfo is None:
        raise UsageError(
            f"option {name}: in which time zone? Spark does not tell Python data sources that of the session: give "
            f"the option timeZone, or {text}Z"
        )
    return (found - EPOCH) // timedelta(microseconds=1)


def _filter(options: Mapping[str, str]) -> Any:
    """Take a filter as `open_dataset` has it, in JSON: lists that begin with a text are conditions."""
    text = options.get("filter")

    def parsed(part: Any) -> Any:
        if not isinstance(part, list):
            return part
        if part and isinstance(part[0], str):
            return tuple(part) if part[0] not in ("and", "or", "not") else (part[0], *map(parsed, part[1:]))
        return [parsed(each) for each in part]

    if text is None:
        return None
    try:
        return parsed(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f'option filter: expected JSON such as [["x", ">", 5]], found {text!r}: {error}') from None


def flag(options: Mapping[str, str], name: str) -> bool:
    """Take ``true`` or ``false``, the default."""
    return choice(options, name, ("false", "true")) == "true"


def choice(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """Take one of a few values, in any case; the first is the default."""
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


def byte_size(options: Mapping[str, str], name: str, least: int = 1) -> int | None:
    """Take a number of bytes as Spark writes it, such as ``4194304``, ``4m`` or ``4MB``; None where it is not given."""
    value = options.get(name.lower())
    if value is None:
        return None
    found = re.fullmatch(r"(\d{1,19})([kmgtp]?)b?", value.strip().lower())
    if found is None or int(found[1]) < least:
        raise UsageError(f"option {name}: expected bytes from {least}, such as 4194304 or 4m, found {value!r}")
    return int(found[1]) << 10 * " kmgtp".index(found[2] or " ")


def names(options: Mapping[str, str], name: str) -> list[str] | None:
    """Take names separated by commas, or a JSON list of them; None where the option is not given."""
    value = options.get(name.lower())
    if value is None:
        return None
    is_json = value.lstrip().startswith("[")
    found = _json_texts(value) if is_json else [each.strip() for each in value.split(",")]
    if found is None or not all(found):
        raise UsageError(f"option {name}: expected names separated by commas or a JSON list of names, found {value!r}")
    return found


def _json_texts(value: str) -> list[str] | None:
    """The texts of a JSON list; None where the value is nothing of this kind."""
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else None
