"""The schema of a read that nobody gave: of the first file or of all of them, their folders, and what was asked for."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from pyspark.sql import types as st

import arrowipc
from arrowipc.columns.pruning import fields_at
from arrowipc.errors import FormatError, UsageError
from arrowipc.read.files import FoundFile, is_url, naming
from arrowipc.schema import Schema
from arrowipc.spark.options import ReadOptions
from arrowipc.spark.read.columns import added_columns, check_own
from arrowipc.spark.read.folders import key_fields
from arrowipc.spark.types import index_of, to_spark_schema
from arrowipc.spark.unify import merge_fields

__all__ = ["infer_schema"]

#: Remote files that are looked at together: their cost is waiting.
FETCHES = 16


def infer_schema(options: ReadOptions) -> st.StructType:
    """Spark's schema of the first file, or of all; where damage is tolerated, of those that can be read."""
    path = ""
    if options.describe:
        from arrowipc.spark.read.describe import COLUMNS

        schema, options = COLUMNS, replace(options, metadata=False)
    else:
        files = options.files()
        keys = key_fields(files)
        chosen = options.columns
        if chosen is not None:
            keys = [field for field in keys if index_of(field.name, chosen) is not None]
            chosen = [name for name in chosen if index_of(name, [key.name for key in keys]) is None]
        path, schema = _of_files(options, files, chosen)
        fields = [*schema.fields]
        for key in keys:
            # As in Spark, a key takes the place of the column that files have under its name.
            place = index_of(key.name, schema.names)
            fields = [*fields, key] if place is None else [*fields[:place], key, *fields[place + 1 :]]
        names = [field.name for field in fields]
        if options.columns is not None:
            places = [index_of(each, names) for name in options.columns for each in (name, name.split(".")[0])]
            fields = [fields[place] for place in dict.fromkeys(places) if place is not None]
        schema = st.StructType(fields)
    added = added_columns(options)
    check_own(schema.names, added, path)
    return st.StructType([*schema.fields, *[st.StructField(name, type_) for name, type_ in added.items()]])


def _of_files(options: ReadOptions, files: list[FoundFile], chosen: list[str] | None) -> tuple[str, st.StructType]:
    """The first file, and the chosen columns that it or, with ``mergeSchema``, all files have."""
    merged, seen, first = st.StructType(), set[bytes](), ""
    for path, schema in _schemas(options, files):
        first = first or path
        if (described := schema.serialize()) in seen:
            continue
        seen.add(described)
        with naming(path):
            found = to_spark_schema(_projected(schema, chosen, options), options.types)
            if not options.merge_schema:
                return path, found
            merged = merge_fields([merged, found])
    for column in chosen or ():
        if index_of(column, merged.names) is None and index_of(column.split(".")[0], merged.names) is None:
            raise UsageError(f"option columns: no file has a column {column!r}")
    return first, merged


def _projected(schema: Schema, columns: list[str] | None, options: ReadOptions) -> Schema:
    """The schema of some columns; with ``mergeSchema``, of those that are there."""
    if columns is None:
        return schema
    wanted = [name for name in columns if fields_at(list(schema), name)] if options.merge_schema else columns
    with arrowipc.open_stream(schema.serialize(), columns=wanted) as reader:
        return reader.schema


def _schemas(options: ReadOptions, files: list[FoundFile]) -> Iterator[tuple[str, Schema]]:
    """The schema of each file that has one; where none has, the error of the first."""

    def looked(file: FoundFile) -> Schema | Exception:
        try:
            with naming(file.path):
                source = options.source(file.path, file.size)
                try:
                    reader = options.open(source)
                except FormatError:
                    if not options.recover:
                        raise
                    reader = options.open_damaged(source)
                with reader:
                    schema: Schema = reader.schema
                    return schema
        except (FormatError, FileNotFoundError) as error:
            return error

    error: Exception | None = None
    found = False
    with ThreadPoolExecutor(FETCHES) as pool:
        several = options.merge_schema and any(is_url(file.path) for file in files)
        for file, schema in zip(files, pool.map(looked, files) if several else map(looked, files), strict=True):
            if not isinstance(schema, Exception):
                found = True
                yield file.path, schema
            elif options.ignore_missing if isinstance(schema, FileNotFoundError) else options.tolerates_damage:
                error = error or schema
            else:
                raise schema
    if not found:
        raise error or UsageError("no file is left of those that were found, by their times and folders")
