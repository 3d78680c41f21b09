"""Tries our objects in functions of other libraries, and theirs in ours: the tables of docs/taken.md.

``python -m helpers.taken`` (`make support`) writes them.
"""

import datetime as dt
import decimal
import io
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import arro3.core as arro3
import duckdb
import nanoarrow
import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet

import arrowipc as ipc
from helpers.support import ROOT

PAGE = ROOT / "docs/taken.md"
LIBRARIES = ("pyarrow", "polars", "pandas", "duckdb", "narwhals", "nanoarrow", "arro3-core")

#: Columns of three rows, the second of which is null.
COLUMNS: dict[str, Any] = {
    "int8": pa.array([1, None, -3], pa.int8()),
    "float": pa.array([1.5, None, -0.0], pa.float32()),
    "bool": pa.array([True, None, False]),
    "string": pa.array(["a", None, "b"]),
    "binary": pa.array([b"a", None, b""]),
    "decimal": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")]),
    "date": pa.array([dt.date(2020, 1, 1), None, dt.date(1, 1, 1)]),
    "zoned timestamp": pa.array([1, None, 3], pa.timestamp("us", "Europe/Rome")),
    "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
    "list": pa.array([[1, 2], None, []], pa.list_(pa.int16())),
    "struct": pa.array([{"a": 1}, None, {"a": None}]),
    "uuid": pa.array([uuid.UUID(int=5).bytes, None, uuid.UUID(int=7).bytes], pa.uuid()),
}


def stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return sink.getvalue()


def parquet(table: Any) -> Any:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    return pyarrow.parquet.read_table(io.BytesIO(sink.getvalue()))


def feather(table: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        pyarrow.feather.write_feather(table, f"{folder}/x")
        return pyarrow.feather.read_table(f"{folder}/x", memory_map=False)


def dataset(data: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        pyarrow.dataset.write_dataset(data, folder, format="arrow", preserve_order=True)
        return pyarrow.dataset.dataset(folder, format="arrow").to_table()


def written_by_pyarrow(table: Any) -> Any:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, pa.schema(table.schema)) as writer:
        writer.write(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def queried(data: Any) -> Any:
    return duckdb.connect().sql("select * from data").to_arrow_table()


def registered(data: Any) -> Any:
    connection = duckdb.connect()
    connection.register("rows", data)
    return connection.sql("select * from rows").to_arrow_table()


#: Our objects that are handed over, each made from a column of pyarrow.
OURS: dict[str, Callable[[pa.Array], Any]] = {
    "array": ipc.array,
    "column": lambda array: ipc.chunked_array([array[:2], array[2:]]),
    "batch": lambda array: ipc.record_batch([array], ["x"]),
    "table": lambda array: ipc.concat_tables([ipc.table([part], ["x"]) for part in (array[:2], array[2:])]),
    "reader": lambda array: ipc.open(stream(pa.table({"x": array}))),
}

#: A function of another library -> which of `OURS` it gets, and a call of it.
THEIRS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "pyarrow.array(array)": ("array", pa.array),
    "pyarrow.array(column)": ("column", pa.array),
    "pyarrow.chunked_array(column)": ("column", pa.chunked_array),
    "pyarrow.chunked_array([array])": ("array", lambda array: pa.chunked_array([array])),
    "pyarrow.record_batch(batch)": ("batch", pa.record_batch),
    "pyarrow.record_batch({'x': array})": ("array", lambda array: pa.record_batch({"x": array})),
    "pyarrow.table(batch)": ("batch", pa.table),
    "pyarrow.table(table)": ("table", pa.table),
    "pyarrow.table(reader)": ("reader", pa.table),
    "pyarrow.table({'x': column})": ("column", lambda column: pa.table({"x": column})),
    "pyarrow.Table.from_arrays([column])": ("column", lambda column: pa.Table.from_arrays([column], ["x"])),
    "pyarrow.Table.from_batches([batch])": ("batch", lambda batch: pa.Table.from_batches([batch])),
    "pyarrow.Table.append_column('x', column)": (
        "column",
        lambda column: pa.table({"y": [1, 2, 3]}).append_column("x", column).select(["x"]),
    ),
    "pyarrow.StructArray.from_arrays([array])": ("array", lambda a: pa.StructArray.from_arrays([a], ["x"]).field(0)),
    "pyarrow.RecordBatchReader.from_stream(table)": ("table", pa.RecordBatchReader.from_stream),
    "pyarrow.concat_tables([table])": ("table", lambda table: pa.concat_tables([table])),
    "pyarrow.concat_arrays([array])": ("array", lambda array: pa.concat_arrays([array])),
    "pyarrow.compute.take(column, rows)": ("column", lambda column: pyarrow.compute.take(column, [0, 1, 2])),
    "pyarrow.dataset.write_dataset(table)": ("table", dataset),
    "pyarrow.dataset.write_dataset(reader)": ("reader", dataset),
    "pyarrow.dataset.dataset(table)": ("table", lambda table: pyarrow.dataset.dataset(table).to_table()),
    "pyarrow.parquet.write_table(table)": ("table", parquet),
    "pyarrow.feather.write_feather(table)": ("table", feather),
    "pyarrow.ipc.new_stream(...).write(table)": ("table", written_by_pyarrow),
    "polars.Series(array)": ("array", pl.Series),
    "polars.Series(column)": ("column", pl.Series),
    "polars.DataFrame(batch)": ("batch", pl.DataFrame),
    "polars.DataFrame(table)": ("table", pl.DataFrame),
    "polars.DataFrame(reader)": ("reader", pl.DataFrame),
    "polars.DataFrame({'x': column})": ("column", lambda column: pl.DataFrame({"x": column})),
    "polars.from_arrow(array)": ("array", pl.from_arrow),
    "polars.from_arrow(table)": ("table", pl.from_arrow),
    "polars.concat([table])": ("table", lambda table: pl.concat([table])),
    "frame.with_columns(x=column)": ("column", lambda column: pl.DataFrame({"y": [1, 2, 3]}).with_columns(x=column)),
    "pandas.Series.from_arrow(column)": ("column", lambda column: pd.Series.from_arrow(column)),
    "pandas.DataFrame.from_arrow(table)": ("table", lambda table: pd.DataFrame.from_arrow(table)),
    "pandas.DataFrame.from_arrow(reader)": ("reader", lambda reader: pd.DataFrame.from_arrow(reader)),
    "pandas.Series(column, ArrowDtype(type))": (
        "column",
        lambda column: pd.Series(column, dtype=pd.ArrowDtype(pa.field(column.field).type)),
    ),
    "pandas.Series(column)": ("column", pd.Series),
    "pandas.DataFrame({'x': column})": ("column", lambda column: pd.DataFrame({"x": column})),
    "pandas.DataFrame(table)": ("table", pd.DataFrame),
    "duckdb.sql('select * from table')": ("table", queried),
    "duckdb.sql('select * from reader')": ("reader", queried),
    "duckdb.from_arrow(table)": ("table", lambda table: duckdb.from_arrow(table).to_arrow_table()),
    "connection.register('rows', table)": ("table", registered),
    "narwhals.from_native(table)": ("table", lambda table: narwhals.from_native(table).to_arrow()),
    "narwhals.from_arrow(table)": ("table", lambda t: narwhals.from_arrow(t, backend="pyarrow").to_native()),
    "narwhals.from_native(column)": ("column", lambda c: narwhals.from_native(c, series_only=True).to_arrow()),
    "nanoarrow.Array(array)": ("array", nanoarrow.Array),
    "nanoarrow.Array(column)": ("column", nanoarrow.Array),
    "nanoarrow.ArrayStream(reader)": ("reader", nanoarrow.ArrayStream),
    "arro3.core.Array.from_arrow(array)": ("array", arro3.Array.from_arrow),
    "arro3.core.ChunkedArray.from_arrow(column)": ("column", arro3.ChunkedArray.from_arrow),
    "arro3.core.Table.from_arrow(table)": ("table", arro3.Table.from_arrow),
    "arro3.core.RecordBatchReader.from_stream(reader)": ("reader", arro3.RecordBatchReader.from_stream),
}

#: Advice if a function refuses our objects, or reads them as something else.
INSTEAD = {
    "pyarrow.Table.from_batches": "`pyarrow.table(batch)`",
    "pyarrow.concat_tables": "`arrowipc.concat_tables`, or `table.to_arrow()` for each",
    "pyarrow.concat_arrays": "`arrowipc.chunked_array([...]).combine()`",
    "pyarrow.compute": "`column.to_arrow()`",
    "pyarrow.dataset.dataset": "`table.to_arrow()`",
    "pyarrow.parquet": "`table.to_arrow()`",
    "pyarrow.feather": "`arrowipc.write(table, path)`",
    "pyarrow.ipc": "`table.to_arrow()`, or `arrowipc.new_stream`",
    "polars.from_arrow(table)": "`polars.DataFrame(table)`",
    "polars.concat": "`table.to_polars()` for each",
    "frame.with_columns": "`column.to_polars()`",
    "pandas.Series(": "`column.to_pandas()`",
    "pandas.DataFrame({": "`table.to_pandas()`",
    "pandas.DataFrame(table)": "`table.to_pandas()`",
    "narwhals.from_native(column)": "`column.to_arrow()`",
}

#: The objects of other libraries, each made from a column of pyarrow.
OBJECTS: dict[str, Callable[[pa.Array], Any]] = {
    "pyarrow.Array": lambda array: array,
    "pyarrow.ChunkedArray": lambda array: pa.chunked_array([array[:2], array[2:]]),
    "pyarrow.RecordBatch": lambda array: pa.record_batch({"x": array}),
    "pyarrow.Table": lambda array: pa.table({"x": pa.chunked_array([array[:2], array[2:]])}),
    "pyarrow.RecordBatchReader": lambda array: pa.table({"x": array}).to_reader(),
    "polars.Series": pl.Series,
    "polars.DataFrame": lambda array: pl.DataFrame({"x": pl.Series(array)}),
    "pandas.Series": lambda array: array.to_pandas(),
    "pandas.DataFrame": lambda array: pa.table({"x": array}).to_pandas(),
    "duckdb relation": lambda array: duckdb.connect().from_arrow(pa.table({"x": array})),
    "narwhals.DataFrame": lambda array: narwhals.from_native(pa.table({"x": array})),
    "nanoarrow.Array": nanoarrow.Array,
    "nanoarrow.ArrayStream": lambda array: nanoarrow.ArrayStream(pa.table({"x": array})),
    "arro3.core.Array": arro3.Array.from_arrow,
    "arro3.core.ChunkedArray": lambda array: arro3.ChunkedArray.from_arrow(pa.chunked_array([array])),
    "arro3.core.Table": lambda array: arro3.Table.from_arrow(pa.table({"x": array})),
}


def written(data: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        ipc.write(data, f"{folder}/x.arrow")
        return ipc.read(f"{folder}/x.arrow").to_arrow()


#: Our functions that take a column of another library; `OF_ROWS` are those that take rows.
OF_COLUMNS: dict[str, Callable[[Any], Any]] = {
    "array(x)": ipc.array,
    "chunked_array(x)": ipc.chunked_array,
    "table({'x': x})": lambda x: ipc.table({"x": x}),
    "record_batch([x], names)": lambda x: ipc.record_batch([x], ["x"]),
    "append_column('x', x)": lambda x: ipc.table({"y": [1, 2, 3]}).append_column("x", x).select("x"),
    "write({'x': x}, path)": lambda x: written({"x": x}),
}
OF_ROWS: dict[str, Callable[[Any], Any]] = {
    "table(x)": ipc.table,
    "record_batch(x)": ipc.record_batch,
    "concat_tables([x])": lambda x: ipc.concat_tables([x]),
    "concat_batches([x])": lambda x: ipc.concat_batches([x]),
    "write(x, path)": written,
}


def column_of(found: Any) -> Any:
    """The one column of rows, or a column itself."""
    if isinstance(found, pa.Table | pa.RecordBatch | ipc.Table | ipc.RecordBatch):
        return found.column(0)
    if isinstance(found, pd.DataFrame):
        return found["x"]
    if isinstance(found, pl.DataFrame):
        return found["x"]
    return found


def arrived(found: Any) -> tuple[str, list[Any]]:
    """The type and the values of what a function made from an object."""
    found = column_of(found)
    if isinstance(found, pd.Series):
        values = [value.tolist() if isinstance(value, np.ndarray) else value for value in found]
        missing = found.isna()
        return str(found.dtype), [None if gone else value for value, gone in zip(values, missing, strict=True)]
    if isinstance(found, pl.Series):
        return str(found.dtype), found.to_list()
    if not isinstance(found, pa.Array | pa.ChunkedArray):
        streams = pa.RecordBatchReader | nanoarrow.ArrayStream | arro3.RecordBatchReader
        is_rows = isinstance(found, streams | arro3.Table)
        found = pa.table(found).column(0) if is_rows else pa.chunked_array(found)
    return str(found.type), found.to_pylist()


def of_theirs(name: str) -> str:
    """Say what arrives in one of their functions: the same, types of the library's own, other values, or nothing."""
    thing, call = THEIRS[name]
    types, values, refused = [], [], []
    for what, array in COLUMNS.items():
        try:
            with warnings.catch_warnings(action="ignore"):
                kind, found = arrived(call(OURS[thing](array)))
        except Exception:
            refused.append(what)
            continue
        if repr(found) != repr(array.to_pylist()) and found != array.to_pylist():
            values.append(what)
        elif kind != str(array.type):
            types.append(what)
    if len(refused) == len(COLUMNS):
        return "refused"
    parts = [f"refused: {', '.join(refused)}"] if refused else []
    if len(values) == len(COLUMNS):
        return "other values"
    parts += [f"other values: {', '.join(values)}"] if values else []
    parts += ["types of its own"] if len(types) > 4 else [f"other types: {', '.join(types)}"] if types else []
    return "; ".join(parts) or "the same"


def of_ours(name: str, what: str) -> str:
    """Say what arrives in one of our functions that gets one of their objects."""
    call, lost = OF_COLUMNS.get(name) or OF_ROWS[name], []
    for key, array in COLUMNS.items():
        try:
            found = arrived(call(OBJECTS[what](array)))
        except Exception:
            return "refused"
        with warnings.catch_warnings(action="ignore"):
            expected = arrived(by_pyarrow(OBJECTS[what](array)))
        if (found[0], repr(found[1])) != (expected[0], repr(expected[1])):
            lost.append(key)
    return f"other than pyarrow: {', '.join(lost)}" if lost else "yes"


def by_pyarrow(thing: Any) -> Any:
    """Convert an object with pyarrow."""
    if isinstance(thing, pd.DataFrame):
        return pa.Table.from_pandas(thing)
    is_column = isinstance(thing, pd.Series | pl.Series | pa.Array | pa.ChunkedArray | arro3.Array | arro3.ChunkedArray)
    if is_column or isinstance(thing, nanoarrow.Array):
        return pa.chunked_array(thing) if hasattr(thing, "__arrow_c_stream__") else pa.array(thing)
    return pa.table(thing)


def is_column(what: str) -> bool:
    return what.endswith(("Array", "Series"))


def theirs_lines() -> Iterator[str]:
    """The table of their functions."""
    yield from ("| function | what arrives | what helps |", "|---|---|---|")
    for name in THEIRS:
        found = of_theirs(name)
        helps = next((words for key, words in INSTEAD.items() if name.startswith(key)), "")
        yield f"| `{name}` | {found} | {helps if found.startswith(('refused', 'other')) else ''} |"


def ours_lines(functions: dict[str, Callable[[Any], Any]], objects: list[str]) -> Iterator[str]:
    """A table of our functions."""
    yield "| | " + " | ".join(f"`{name}`" for name in functions) + " |"
    yield "|---" * (len(functions) + 1) + "|"
    for what in objects:
        yield f"| {what} | " + " | ".join(of_ours(name, what) for name in functions) + " |"


def tables() -> dict[str, list[str]]:
    """All tables, by the name of their marks."""
    return {
        "theirs": list(theirs_lines()),
        "columns": list(ours_lines(OF_COLUMNS, [each for each in OBJECTS if is_column(each)])),
        "rows": list(ours_lines(OF_ROWS, [each for each in OBJECTS if not is_column(each)])),
        "versions": [f"Tried with {', '.join(f'{each} {version(each)}' for each in LIBRARIES)}."],
    }


def main() -> None:
    text = PAGE.read_text()
    for name, lines in tables().items():
        begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
        before, rest = text.split(begin)
        text = before + begin + "\n".join([*lines, ""]) + end + rest.split(end)[1]
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
