"""What a write is asked for: its options, checked, and the Arrow schema of the files it makes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import types as st

from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.spark.options import check_names, choice, count, names
from arrowipc.spark.types import ARROW_OF, arrow_schema_of, check_unique
from arrowipc.spark.write.folders import check_keys

__all__ = ["WriteOptions", "file_schema"]

# Large enough that a reader's cost per batch vanishes, small enough that a reader's memory stays bounded and
# that a file of a few hundred megabytes can be split among tasks.
DEFAULT_BATCH_ROWS = 65_536
DEFAULT_BATCH_BYTES = 32 << 20


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write, checked.

    Attributes
    ----------
    statistics : bool or tuple of str
        Whether (or for which columns) batches get statistics in their metadata.
    """

    format: str
    compression: Literal["lz4", "zstd"] | None
    compression_level: int | None
    batch_rows: int
    batch_bytes: int
    max_records_per_file: int | None
    dictionary_columns: tuple[str, ...]
    statistics: bool | tuple[str, ...]
    partition_by: tuple[str, ...]

    @classmethod
    def of(cls, options: Mapping[str, str], kind: str = "write") -> "WriteOptions":
        """Check Spark's options, which come as texts under lower-case names; `kind`: or ``writeStream``."""
        check_names(options, kind)
        format_ = choice(options, "format", ("file", "stream"))
        compression: Any = choice(options, "compression", ("none", "lz4", "zstd"))
        statistics = _statistics(options)
        if statistics and format_ == "stream":
            raise UsageError(
                "option statistics: only files have a footer that leads a reader to the statistics of a "
                "batch; leave it out, or write format=file"
            )
        level = options.get("compressionlevel")
        if level is not None and compression == "none":
            raise UsageError("option compressionLevel: there is no compression; add compression=zstd or lz4")
        return cls(
            format=format_,
            compression=None if compression == "none" else compression,
            compression_level=None if level is None else _level(level),
            batch_rows=count(options, "batchRows") or DEFAULT_BATCH_ROWS,
            batch_bytes=count(options, "batchBytes") or DEFAULT_BATCH_BYTES,
            max_records_per_file=count(options, "maxRecordsPerFile"),
            dictionary_columns=tuple(names(options, "dictionaryColumns") or ()),
            statistics=statistics,
            partition_by=tuple(names(options, "partitionBy") or ()),
        )

    @property
    def suffix(self) -> str:
        """How the names of files end."""
        return ".arrow" if self.format == "file" else ".arrows"

    def open(self, sink: Any, schema: pa.Schema) -> Any:
        """Begin a file or stream; a writer of arrowipc."""
        import arrowipc

        opener: Any = arrowipc.new_file if self.format == "file" else arrowipc.new_stream
        return opener(sink, schema, **self.writer_options())

    def writer_options(self) -> dict[str, Any]:
        """The options as arrowipc's writers take them."""
        given: dict[str, Any] = {
            "compression": self.compression,
            "compression_level": self.compression_level,
            # Batches come with dictionaries of their own; a file has one per column, and deltas are more
            # than every reader can take.
            "unify_dictionaries": bool(self.dictionary_columns),
        }
        if self.statistics:
            given["statistics"] = list(self.statistics) if isinstance(self.statistics, tuple) else True
        return given


def _level(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"option compressionLevel: expected a whole number, found {text!r}") from None


def _statistics(options: Mapping[str, str]) -> bool | tuple[str, ...]:
    value = options.get("statistics", "false").strip().lower()
    return value == "true" if value in ("true", "false") else tuple(names(options, "statistics") or ())


def file_schema(schema: st.StructType, options: WriteOptions) -> pa.Schema:
    """The Arrow schema of a data frame; timestamps with a zone are in UTC. Files have no columns of `partition_by`.

    Raises
    ------
    UnsupportedError
        For a type that cannot be written; the text names the column and what helps.
    UsageError
        For a name that occurs twice, or an option that names a column that is not there.
    """
    if not schema.fields:
        raise UsageError("the data frame has no columns, so there is nothing to write")
    _check_type(schema, "")
    if options.partition_by:
        check_keys(schema, options.partition_by)
        rest = st.StructType([field for field in schema.fields if field.name not in options.partition_by])
    else:
        rest = schema
    fields = list(arrow_schema_of(_plain(schema)))
    if isinstance(options.statistics, tuple):
        _check_columns("statistics", options.statistics, rest)
    _check_columns("dictionaryColumns", options.dictionary_columns, rest)
    for name in options.dictionary_columns:
        index = schema.names.index(name)
        field = fields[index]
        if not (pa.types.is_string(field.type) or pa.types.is_binary(field.type)):
            kind = schema[name].dataType.simpleString()
            raise UsageError(f"option dictionaryColumns: expected columns of text or binary, but {name!r} is {kind}")
        fields[index] = field.with_type(pa.dictionary(pa.int32(), field.type))
    return pa.schema(fields)


def _check_columns(option: str, columns: Iterable[str], schema: st.StructType) -> None:
    for name in columns:
        if name not in schema.names:
            raise UsageError(f"option {option}: there is no column {name!r}; the columns are {', '.join(schema.names)}")


_WRITABLE = (*ARROW_OF, st.DecimalType, st.CharType, st.VarcharType)
_INSTEAD = {
    "YearMonthIntervalType": "pyarrow, through which Spark hands rows to Python, cannot take it; write its "
    "months as a number: extract(YEAR FROM {path}) * 12 + extract(MONTH FROM {path})",
    "CalendarIntervalType": "write its parts as columns",
    "VariantType": "it would be read back as a struct of two binaries; write to_json({path}), and use "
    "parse_json on what is read",
    "GeometryType": "write st_asbinary({path}), and its SRID",
    "GeographyType": "write st_asbinary({path}), and its SRID",
}


def _check_type(type_: st.DataType, path: str) -> None:
    """Refuse what cannot be written, on the driver and before any data moves."""
    if isinstance(type_, st.StructType):
        check_unique(type_.names, f"column {path!r}" if path else "the data frame")
        for field in type_.fields:
            _check_type(field.dataType, f"{path}.{field.name}" if path else field.name)
    elif isinstance(type_, st.ArrayType):
        _check_type(type_.elementType, f"{path}.element")
    elif isinstance(type_, st.MapType):
        _check_type(type_.keyType, f"{path}.key")
        _check_type(type_.valueType, f"{path}.value")
    elif not isinstance(type_, _WRITABLE):
        instead = _INSTEAD.get(type(type_).__name__, "write it as text, a number or binary").format(path=path)
        raise UnsupportedError(
            f"column {path!r} has the Spark type {type_.simpleString()}, which arrowipc does not write: {instead}"
        )


def _plain(type_: Any) -> Any:
    """A type with nothing but plain strings for those of a fixed or bounded length."""
    if isinstance(type_, st.StructType):
        return st.StructType(
            [st.StructField(field.name, _plain(field.dataType), field.nullable) for field in type_.fields]
        )
    if isinstance(type_, st.ArrayType):
        return st.ArrayType(_plain(type_.elementType), type_.containsNull)
    if isinstance(type_, st.MapType):
        return st.MapType(_plain(type_.keyType), _plain(type_.valueType), type_.valueContainsNull)
    return st.StringType() if isinstance(type_, (st.CharType, st.VarcharType)) else type_
