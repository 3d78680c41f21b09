"""The table of all options of ``format("arrowipc")``, and the check of the Python data source's options.

Spark passes options as texts under lower-case names. This module needs neither Spark nor pyarrow, because the jar's
builder imports it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from arrowipc.arguments import like
from arrowipc.errors import UsageError


class Option(NamedTuple):
    """One option of ``format("arrowipc")``, for reading or for writing, or in SQL of ``from_arrow`` or ``to_arrow``.

    `type` is ``flag``, ``count`` (a whole number from 1), ``size`` (one from 0), ``bytes`` (such as 4194304 or 4m),
    ``names`` (separated by commas, or a JSON list), ``text``, or the words to choose from, separated by ``|``. `side`
    says which implementation has it: the jar, the Python data source, both; or "spark": Spark itself has it for every
    file format, and the Python data source with the same meaning. Only the jar has options of writing and of payloads.
    """

    name: str
    use: Literal["read", "write", "payload", "encode"]
    type: str
    default: str
    side: Literal["both", "jvm", "python", "spark"]
    meaning: str


#: All options. The docstring of the data source, the check of names and values, tables of docs/guides/spark-files.md
#: and spark-payloads.md, and the defaults in the JVM are made from this table. A default of - means: no default.
TABLE: tuple[Option, ...] = tuple(
    Option(*line.strip().replace(" - ", "  ", 1).split(" ", 5))  # type: ignore[arg-type]
    for line in """
    format read auto|file|stream auto both Files or streams; `auto` looks at each file.
    mergeSchema read flag false both The schema has the columns of all files, not of the first.
    validate read full|none full both `none` trusts the values of files; layouts are checked.
    nanoseconds read error|truncate|long error both What to do about values that are no whole microseconds.
    unsupported read error|drop|string error both What to do about types that Spark lacks.
    extensions read flag false both Extension types such as `arrow.uuid` become what they mean.
    columns read names - python Columns to read; `a.b` is field b of struct a.
    storage.NAME read text - python What the file system of a URL (fsspec) wants to know.
    maxPartitionBytes read bytes 128m python Bytes of a task at most; a file is read whole.
    basePath read text - spark The folder below which `key=value` folders are columns.
    pathGlobFilter read text - spark A pattern for the names of files.
    recursiveFileLookup read flag false spark Folders are searched, and are no columns.
    ignoreCorruptFiles read flag false spark The rest of a damaged file is left out, and logged.
    ignoreMissingFiles read flag false spark Files that vanish before they are read are left out.
    format write file|stream file jvm Files (`.arrow`) or streams (`.arrows`).
    compression write none|uncompressed|lz4|zstd none jvm How batches are compressed.
    batchRows write count 65536 jvm Rows of a batch at most.
    batchBytes write bytes 32m jvm Bytes of a batch at most, before compression.
    statistics write flag false jvm The minimum and maximum of each column are stored in each batch's metadata.
    invalid_text write error|replace|binary error jvm What to do about texts that are not UTF-8; `binary` stores bytes.
    on_error payload raise|null|row raise jvm A payload that cannot be read fails, is null, or is one row of nulls.
    error_column payload text - jvm The last field of each row, with the reason why a payload could not be read.
    prefix payload size 0 jvm Bytes of each cell before its first message, as a schema registry puts them there.
    column payload text payload jvm What errors call the column.
    schema payload text - jvm The schema message of bare RecordBatch messages, in Base64.
    with_schema encode flag true jvm Each payload begins with its schema; without, it is a bare RecordBatch message.
    """.strip().splitlines()
)
#: Option that only the Python data source has -> advice what to do in the JVM instead.
INSTEAD = {
    "columns": "select the columns: Spark reads no others",
    "storage.NAME": "give Hadoop's file system its settings, spark.hadoop.*",
    "maxPartitionBytes": "set spark.sql.files.*",
}


def options_resource() -> str:
    """Return the text of ``META-INF/arrowipc/options.tsv`` in the jar: name, default, kind and type of each option.

    For options that only the Python data source has, the kind is ``refused``, and advice takes the place of the type.
    """
    own = (each for each in TABLE if each.side in ("both", "jvm"))
    lines = [f"{each.name}\t{each.default}\t{each.use}\t{each.type}\n" for each in own]
    lines += [f"{name.removesuffix('NAME')}\t\trefused\t{instead}\n" for name, instead in INSTEAD.items()]
    return "".join(lines)


#: Advice in errors about features that only the file format in the JVM has.
USE_THE_JAR = (
    "the Python data source cannot do it, and the file format in the JVM can: call arrowipc.spark.register(spark), or "
    "start Spark with the jar that python -m arrowipc.spark.jar prints"
)
#: Options of Spark's own for reading files that the Python data source does not have.
REFUSED = ("modifiedAfter", "modifiedBefore", "timeZone")
_STORAGE = "storage."
#: The options of the Python data source, by their names in lower case.
_OWN = {each.name.lower(): each for each in TABLE if each.use == "read"}


def explained() -> str:
    """Return the options of the Python data source in the form of a docstring."""
    lines = []
    for option in _OWN.values():
        default = f", default ``{option.default}``" if option.default else ""
        kind = option.type.replace("|", "``, ``")
        words = f"``{kind}``" if "|" in option.type else kind
        lines += [f"    {option.name}", f"        {option.meaning.replace('`', '``')} ({words}{default})"]
    return "\n".join(lines)


@dataclass(frozen=True)
class Options:
    """The checked options of a read with the Python data source.

    `values` has a value, or None, for each name in the table; `paths` are those of ``path`` and ``paths``; `storage`
    contains the options for the file system of a URL.
    """

    values: Mapping[str, Any]
    paths: list[str]
    storage: Mapping[str, Any]

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Check the options of a read; raise a UsageError with advice if one is wrong."""
        texts = {name.lower(): value for name, value in given.items()}
        if {"provider", "owner"} <= texts.keys():
            raise UsageError(f"a table of the catalog: {USE_THE_JAR}; or load(path)")
        storage: dict[str, Any] = {}
        for name, text in texts.items():
            if name.startswith(_STORAGE):
                storage[name.removeprefix(_STORAGE)] = _json_or_text(text)
            elif name not in _OWN and name not in ("path", "paths"):  # load() sets these two
                raise UsageError(_unknown(name))
        values = {option.name: _parsed(option, texts.get(name, option.default)) for name, option in _OWN.items()}
        paths = [texts["path"]] if texts.get("path") else []
        if texts.get("paths"):
            more = _json_texts(texts["paths"])
            if more is None:
                raise UsageError(f"option paths: expected a JSON list of texts, found {texts['paths']!r}")
            paths += more
        return cls(values, paths, storage)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def _unknown(name: str) -> str:
    """Return the error text for a name that is not an option of reading; Spark passes names in lower case."""
    for spelt in REFUSED:
        if spelt.lower() == name:
            return f"option {spelt}: {USE_THE_JAR}"
    for option in TABLE:
        if option.name.lower() == name:
            return f"option {option.name}: it belongs to {option.use}, and means nothing to read; leave it out"
    known = [option.name for option in _OWN.values()]
    return f"arrowipc has no option {name!r} for read: {like(name, [*known, *REFUSED])}"


def _json_or_text(text: str) -> Any:
    """Return a value parsed as JSON if possible (``true``, ``5``), else the text; ``"12345"`` in quotes is a text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _json_texts(text: str) -> list[str] | None:
    """Return the texts of a JSON list of texts; None for anything else."""
    found = _json_or_text(text)
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else None


def _parsed(option: Option, text: str) -> Any:
    """Return the value of an option, parsed by its type; None if it has none."""
    match option.type:
        case _ if not text and not option.default:
            return None
        case "text":
            return text
        case "flag" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "bytes":
            found = re.fullmatch(r"(\d{1,18})([kmgtp]?)b?", text.strip().lower(), re.ASCII)
            if found is not None and int(found[1]) > 0:
                return int(found[1]) << 10 * " kmgtp".index(found[2] or " ")
        case "names":
            is_json = text.lstrip().startswith("[")
            names = _json_texts(text) if is_json else [each.strip() for each in text.split(",")]
            if names and all(names):
                return names
        case _ if text.lower() in option.type.split("|"):
            return text.lower()
    expected = _EXPECTED.get(option.type) or f"one of {', '.join(option.type.split('|'))}"
    raise UsageError(f"option {option.name}: expected {expected}, found {text!r}")


_EXPECTED = {
    "flag": "true or false",
    "bytes": "a number of bytes from 1, such as 4194304 or 4m",
    "names": "names separated by commas or a JSON list of names",
}
