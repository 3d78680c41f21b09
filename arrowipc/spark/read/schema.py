"""The schema of a read: that of the first file or of all, and columns of ``key=value`` folders with Spark's types."""

import re
from collections.abc import Iterable, Mapping
from os.path import dirname
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

import arrowipc
from arrowipc import types as at
from arrowipc.errors import FormatError, UsageError
from arrowipc.filters.pruning import fields_at
from arrowipc.multifile.partitioning import MOST_KEYS, key_type, key_value, keys_of
from arrowipc.schemas import Schema
from arrowipc.sources.files import FoundFile, naming
from arrowipc.spark.read.sources import ReadOptions
from arrowipc.spark.types import arrow_type_of, find_name, index_of, to_spark_schema
from arrowipc.spark.unify import merge_fields
from arrowipc.types import as_schema

_REAL = re.compile(r"[+-]?[0-9]*\.[0-9]+|-?[0-9]{1,9}")
_INT = range(-(2**31), 2**31)


def infer_schema(options: ReadOptions) -> st.StructType:
    """Return the Spark schema of the first file, or with ``mergeSchema`` of all, limited to the option ``columns``."""
    files = options.files()
    if not files:
        raise UsageError(f"{', '.join(options.paths)}: no file has a schema; give one with schema(...)")
    keys = key_fields(files)
    chosen = columns = options["columns"]
    if columns is not None:
        keys = [field for field in keys if index_of(field.name, columns) is not None]
        chosen = [name for name in columns if index_of(name, [key.name for key in keys]) is None]
    fields = [*_of_files(options, files, chosen).fields]
    for key in keys:
        # As in Spark, a key replaces the column of the same name in files.
        place = index_of(key.name, [field.name for field in fields])
        fields = [*fields, key] if place is None else [*fields[:place], key, *fields[place + 1 :]]
    if columns is not None:
        names = [field.name for field in fields]
        places = [index_of(each, names) for name in columns for each in (name, name.split(".")[0])]
        fields = [fields[place] for place in dict.fromkeys(places) if place is not None]
    return st.StructType(fields)


def _of_files(options: ReadOptions, files: list[FoundFile], chosen: list[str] | None) -> st.StructType:
    """Return the schema of the chosen columns in the first file or, with ``mergeSchema``, in all files."""
    merged, seen, merges = st.StructType(), set[bytes](), options["mergeSchema"]
    error: Exception | None = None
    for file in files:
        try:
            with naming(file.path), options.open(options.source(file.path, file.size)) as reader:
                schema: Schema = reader.schema
        except (FormatError, FileNotFoundError) as found:
            missing = isinstance(found, FileNotFoundError)
            if not options["ignoreMissingFiles" if missing else "ignoreCorruptFiles"]:
                raise
            error = error or found
            continue
        if (described := schema.serialize()) in seen:
            continue
        seen.add(described)
        with naming(file.path):
            columns = chosen
            if columns is not None and merges:
                columns = [name for name in columns if fields_at(list(schema), name)]
            if columns is not None:
                with arrowipc.open_stream(described, columns=columns) as reader:
                    schema = reader.schema
            spark_schema = to_spark_schema(schema, options.types)
            if not merges:
                return spark_schema
            merged = merge_fields([merged, spark_schema])
    if not seen and error is not None:
        raise error  # from the first file that could not be read
    for column in chosen or ():
        if index_of(column, merged.names) is None and index_of(column.split(".")[0], merged.names) is None:
            raise UsageError(f"option columns: no file has a column {column!r}")
    return merged


def key_fields(files: Iterable[FoundFile]) -> list[st.StructField]:
    """Return the columns of the files' folders: int, bigint, double, date, string or void, as Spark infers them.

    Spark also infers timestamps, in a time zone that it does not expose, and decimals (``1e5``); here both are strings.
    """
    folders = dict.fromkeys((dirname(file.path), dirname(file.below)) for file in files if "=" in file.below)
    texts: dict[str, set[str | None]] = {}
    for path, below in folders:
        for name, text in keys_of(path, below + "/").items():
            known = index_of(name, [*texts])
            texts.setdefault(name if known is None else [*texts][known], set()).add(text)
        if len(texts) > MOST_KEYS:
            raise UsageError(f"{path} and others: the folders have more than {MOST_KEYS} keys together")
    return [st.StructField(name, _key_type(found)) for name, found in texts.items()]


def _key_type(texts: set[str | None]) -> st.DataType:
    known = [text for text in texts if text is not None]
    if not known:
        return st.NullType()
    match key_type(known):
        case at.Int():
            return st.IntegerType() if all(int(text) in _INT for text in known) else st.LongType()
        case at.Date():
            return st.DateType()
    return st.DoubleType() if all(map(_REAL.fullmatch, known)) else st.StringType()


def typed_key(path: str, keys: Mapping[str, str | None], field: st.StructField) -> Any:
    """Return the value of a key column as a scalar of the Arrow type that Spark expects."""
    type_ = arrow_type_of(field.dataType, field.name)
    name = [*keys][index_of(field.name, [*keys]) or 0]
    if keys[name] is None:
        if not field.nullable:
            raise UsageError(f"{path}: the key {name!r} is null, and the schema says that it has no nulls")
        return pa.scalar(None, type_)
    if isinstance(field.dataType, st.TimestampType):
        raise UsageError(
            f"{path}: the key {name!r} is to be a timestamp, and Spark does not say in which time zone its text is; "
            "ask for a string or timestamp_ntz, and convert it in Spark"
        )
    schema: Schema = as_schema(pa.schema([("key", type_)]))
    try:
        return pa.scalar(key_value(path, name, keys[name], schema[0].type), type_)
    except (pa.ArrowInvalid, OverflowError):
        kind = field.dataType.simpleString()
        raise UsageError(f"{path}: the key {name!r} is {keys[name]!r}, too large for {kind}") from None


def chosen_columns(schema: Schema, target: st.StructType, columns: list[str] | None, path: str) -> Any:
    """Return the columns to read from a file, None for all: those of the option `columns`, or those of `target`."""
    names = schema.names
    if columns is None:
        found = [find_name(name, names, path, optional=True) for name in target.names]
        return None if names == target.names else [index for index in found if index is not None]
    for name in target.names:
        if not any(f"{column}.".lower().startswith(f"{name}.".lower()) for column in columns):
            raise UsageError(f"column {name!r} of the schema is not in the option columns: leave one of them out")
    there = [column for column in columns if fields_at(list(schema), column)]
    for column in columns:
        # If a struct lacks the field, read the whole struct, to know where it is null.
        head = column.split(".")[0]
        if column not in there and head in names and not any(f"{each}.".startswith(f"{head}.") for each in there):
            there.append(head)
    return there
