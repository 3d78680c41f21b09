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
from arrowipc.spark.read.columns import METADATA
from arrowipc.spark.read.folders import key_fields
from arrowipc.spark.types import index_of, to_spark_schema
from arrowipc.spark.unify import merge_fields

__all__ = ["infer_schema"]

#: Remote files that are looked at together: their cost is waiting.
FETCHES = 16


def infer_schema(options: ReadOptions) -> st.StructType:
    """Spark's schema of the first file, or of all, where damage is tolerated of those that can be read."""
    if options.describe:
        from arrowipc.spark.read.describe import COLUMNS

        return _with_added(COLUMNS, replace(options, metadata=False), "")
    files = options.files()
    keys = {field.name: field for field in key_fields(files)}
    columns = options.columns
    if columns is not None:
        keys = {name: field for name, field in keys.items() if index_of(name, columns) is not None}
        columns = [name for name in columns if index_of(name, [*keys]) is None]
    merged = st.StructType()
    seen: set[bytes] = set()
    path = ""
    for path, found in _schemas(options, files):
        if (described := found.serialize()) in seen:
            continue
        seen.add(described)
        with naming(path):
            merged = merge_fields([merged, to_spark_schema(_projected(found, columns, options), options.types)])
        if not options.merge_schema:
            break
    if columns is not None and options.merge_schema:
        for column in columns:
            if index_of(column, merged.names) is None and index_of(column.split(".")[0], merged.names) is None:
                raise UsageError(f"option columns: no file has a column {column!r}")
    # As in Spark, a key takes the place of the column that files have under its name.
    fields = {field.name: field for field in merged.fields}
    for name, field in keys.items():
        known = index_of(name, [*fields])
        fields[name if known is None else [*fields][known]] = field
    if options.columns is not None:
        heads = [name if index_of(name, [*fields]) is not None else name.split(".")[0] for name in options.columns]
        order = [index_of(name, [*fields]) for name in heads]
        fields = {[*fields][i]: [*fields.values()][i] for i in dict.fromkeys(order) if i is not None}
    return _with_added(st.StructType([*fields.values()]), options, path)


def _with_added(schema: st.StructType, options: ReadOptions, path: str) -> st.StructType:
    """The schema and the columns of the options withMetadata and mode=PERMISSIVE."""
    added = dict(METADATA) if options.metadata else {}
    if options.mode == "permissive":
        added[options.corrupt_column] = st.StringType()
    for name, type_ in added.items():
        if name in schema.names:
            raise UsageError(
                f"{path} has a column {name!r} of its own, and "
                + (
                    "withMetadata adds one; leave one of them out"
                    if name in METADATA
                    else "mode PERMISSIVE adds one for the texts of errors; name another one with the option "
                    "columnNameOfCorruptRecord"
                )
            )
        schema = st.StructType([*schema.fields, st.StructField(name, type_)])
    return schema


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
            source = options.source(file.path, file.size)
            with naming(file.path):
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

    first: Exception | None = None
    found = 0
    with ThreadPoolExecutor(FETCHES) as pool:
        several = options.merge_schema and any(is_url(file.path) for file in files)
        for file, schema in zip(files, pool.map(looked, files) if several else map(looked, files), strict=True):
            if isinstance(schema, Exception):
                missing = isinstance(schema, FileNotFoundError)
                if not (options.ignore_missing if missing else options.tolerates_damage):
                    raise schema
                first = first or schema
            else:
                found += 1
                yield file.path, schema
    if not found:
        raise first or UsageError(
            "no file is left of those that were found: modifiedAfter, modifiedBefore or "
            "recursiveFileLookup=false rule all of them out"
        )
