"""Other libraries take what we hand over, whole and in part, and hand it back as it was."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from helpers.arrays import CASES, pyarrow_bytes, read_batch

import arrowipc as ipc
from arrowipc.cdata.import_array import array_from, batch_from, schema_from, stream_from


def by_polars(data: Any) -> Any:
    return pytest.importorskip("polars").DataFrame(data)


def by_pandas(data: Any) -> Any:
    return pytest.importorskip("pandas", minversion="3.0").DataFrame.from_arrow(data)


def by_nanoarrow(data: Any) -> Any:
    return pytest.importorskip("nanoarrow").ArrayStream(data)


def by_arro3(data: Any) -> Any:
    return pytest.importorskip("arro3.core").Table.from_arrow(data)


def by_duckdb(data: Any) -> Any:
    connection = pytest.importorskip("duckdb").connect()
    connection.register("t", data)
    return connection.sql("select * from t")


#: What makes a library's own data of ours, and the columns that come back as they were.
FLAT = ("int32", "double", "string", "bool", "binary", "date32")
NESTED = ("list", "struct", "dictionary", "string_view")
PEERS: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "polars": (by_polars, (*FLAT, *NESTED)),
    "pandas": (by_pandas, ("double", "string", "timestamp[us]")),
    "nanoarrow": (by_nanoarrow, (*FLAT, *NESTED, "map", "decimal128")),
    "arro3": (by_arro3, (*FLAT, *NESTED, "map", "decimal128", "list_view")),
    "duckdb": (by_duckdb, (*FLAT, "list", "struct", "map", "decimal128")),
}


@pytest.mark.parametrize("peer", PEERS)
def test_what_goes_to_a_library_comes_back(peer: str) -> None:
    make, names = PEERS[peer]
    whole = pa.record_batch({name: CASES[name][:3] for name in names})
    ours = read_batch(whole)
    for part in (ours, ours.slice(1), ours.slice(1, 1)):
        assert batch_from(make(part), "full").to_pydict() == part.to_pydict()
    with ipc.open_stream(pyarrow_bytes([whole, whole])) as reader, stream_from(make(reader), "full") as stream:
        assert [row for batch in stream for row in batch.to_pylist()] == ours.to_pylist() * 2


def test_single_columns_of_other_libraries() -> None:
    polars, na = pytest.importorskip("polars"), pytest.importorskip("nanoarrow")
    core = pytest.importorskip("arro3.core")
    column = read_batch(pa.record_batch({"s": CASES["string"]}))["s"]
    for part in (column, column.slice(1)):
        for made in (polars.Series(part), na.Array(part), core.Array.from_arrow(part)):
            assert array_from(made, "full").to_pylist() == part.to_pylist()
    assert schema_from(na.c_schema(na.struct({"x": na.int32()}))).names == ["x"]
