"""Parquet, CSV and NDJSON as source or target of a conversion, with pyarrow."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import arrowipc as ipc
from arrowipc.arguments import repeated
from arrowipc.cdata.import_array import schema_from
from arrowipc.cli.sources import about, source, target
from arrowipc.cli.terminal import FINE_JSON, as_json, json_text
from arrowipc.errors import FormatError, UnsupportedError
from arrowipc.values.libraries import library
from arrowipc.values.preview import type_text

FORMATS = ["arrow", "parquet", "csv", "ndjson"]
ENDINGS = {
    ".arrow": "file",
    ".feather": "file",
    ".ipc": "file",
    ".arrows": "stream",
    ".stream": "stream",
    ".parquet": "parquet",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
}
NAMES = {"csv": "CSV", "parquet": "Parquet"}
#: Rows converted to Python values at a time.
ROWS = 1000


def format_of(path: str) -> str | None:
    """Return the format for the suffix of a name; None if the suffix is not known."""
    return ENDINGS.get(os.path.splitext(path)[1].lower())


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Turn pyarrow's errors into arrowipc's."""
    pa = library("pyarrow", "this format")
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(str(error)) from None
    except OSError:
        raise
    except pa.ArrowException as error:
        raise FormatError(str(error)) from None


# -- reading -------------------------------------------------------------------------------------------------


class _Reader:
    """The schema and the batches of a source of another format."""

    def __init__(self, schema: Any, batches: Iterator[Any]) -> None:
        self.schema = schema_from(schema)
        self._batches = batches

    def __iter__(self) -> Iterator[ipc.RecordBatch]:
        while True:
            with _translated_errors():
                batch = next(self._batches, None)
            if batch is None:
                return
            yield ipc.RecordBatch.from_arrow(batch)


@contextmanager
def foreign_reader(path: str, kind: str, columns: list[str] | None) -> Iterator[_Reader]:
    """Open a source of another format, for some columns or all; standard input is copied to disk."""
    from arrowipc.sources.source import whole

    pa, ds = library("pyarrow", f"reading {kind}"), library("pyarrow.dataset", f"reading {kind}")
    made = {"parquet": ds.ParquetFileFormat, "csv": ds.CsvFileFormat, "ndjson": ds.JsonFileFormat}[kind]()
    with about(path):
        with _translated_errors():
            fragment = made.make_fragment(pa.py_buffer(whole(source(path), True)))
            names = fragment.physical_schema.names
            for name in columns or ():
                if name not in names:
                    raise ipc.UsageError(f"there is no column {name!r}; the columns are {names[:50]}")
            found = fragment.scanner(columns=columns, batch_readahead=1)
        yield _Reader(found.projected_schema, found.to_batches())


# -- writing -------------------------------------------------------------------------------------------------


class _Writer:
    """Writes batches one by one."""

    def __init__(self, write: Callable[[ipc.RecordBatch], None]) -> None:
        self.write_batch = write


@contextmanager
def foreign_writer(path: str, kind: str, schema: ipc.Schema, codec: str | None, level: int | None) -> Iterator[_Writer]:
    """Open a destination of another format; the codec is that of Parquet's pages."""
    if kind == "csv":
        _check_csv(schema)
    if kind == "ndjson":
        _check_names(schema)
        with target(path, terminal=True) as file:
            yield _Writer(partial(_write_lines, file))
        return
    start = _csv_writer if kind == "csv" else partial(_parquet_writer, codec or "zstd", level)
    with target(path, terminal=kind == "csv") as file, ExitStack() as stack:
        with _naming_column(kind, start, schema):
            write = start(file, schema, stack)

        def write_batch(batch: ipc.RecordBatch) -> None:
            with _naming_column(kind, start, schema, batch):
                write(batch)

        yield _Writer(write_batch)


def _csv_writer(file: Any, schema: ipc.Schema, stack: ExitStack) -> Callable[[ipc.RecordBatch], None]:
    pa = library("pyarrow", "writing CSV")
    plain = pa.schema([pa.field(f.name, _plain_type(f.type)) for f in pa.schema(schema)])
    writer = stack.enter_context(library("pyarrow.csv", "writing CSV").CSVWriter(file, plain))
    return lambda batch: writer.write_batch(pa.record_batch(batch).cast(plain))


def _parquet_writer(
    codec: str, level: int | None, file: Any, schema: ipc.Schema, stack: ExitStack
) -> Callable[[ipc.RecordBatch], None]:
    pa, parquet = library("pyarrow", "writing Parquet"), library("pyarrow.parquet", "writing Parquet")
    writer = parquet.ParquetWriter(file, pa.schema(schema), compression=codec, compression_level=level)
    stack.enter_context(writer)
    return lambda batch: writer.write_batch(pa.record_batch(batch))


@contextmanager
def _naming_column(
    kind: str, start: Callable[..., Any], schema: ipc.Schema, batch: ipc.RecordBatch | None = None
) -> Iterator[None]:
    """Turn pyarrow's errors into arrowipc's, with the name of the column.

    To find it, each column is written alone, to memory; the first one that fails is named.
    """
    with _translated_errors():
        try:
            yield
        except library("pyarrow", f"writing {kind}").ArrowException as error:
            for i, field in enumerate(schema):
                try:
                    with ExitStack() as stack:
                        write = start(io.BytesIO(), ipc.Schema([field]), stack)
                        if batch is not None:
                            write(batch.select([i]))
                except type(error) as own:
                    words = f"{NAMES[kind]} cannot hold column {field.name!r} of type {type_text(field.type, 80)}"
                    raise type(error)(f"{words}: leave it out with --columns ({own})") from None
            raise


def _check_csv(schema: ipc.Schema) -> None:
    """Refuse nested columns, which CSV cannot hold."""
    for field in schema:
        if getattr(field.type, "value_type", field.type).children or field.type.children:
            raise UnsupportedError(
                f"CSV cannot hold column {field.name!r} of type {type_text(field.type, 80)}: "
                "leave it out with --columns, or write NDJSON"
            )


def _check_names(schema: ipc.Schema) -> None:
    """Refuse two columns of the same name, which a JSON object cannot hold."""
    if twice := repeated(schema.names):
        raise UnsupportedError(f"NDJSON cannot hold two columns named {twice[0]!r}: choose one with --columns")


def _plain_type(kind: Any) -> Any:
    """Return the type with which a column is written as CSV: that of the values for a dictionary."""
    return getattr(kind, "value_type", kind) if hasattr(kind, "index_type") else kind


def _write_lines(file: Any, batch: ipc.RecordBatch) -> None:
    """Write rows as lines of JSON."""
    for start in range(0, len(batch), ROWS):
        piece = batch.slice(start, min(ROWS, len(batch) - start))
        rows = [as_json(row) for row in piece.to_pylist(extensions=FINE_JSON)]
        lines = "".join([json_text(dict(row)) + "\n" for row in rows])
        data = memoryview(lines.encode())
        while data:
            data = data[file.write(data) :]
