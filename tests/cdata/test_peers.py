"""Other libraries take what we hand over, whole and in part, and hand it back as it was."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from helpers.arrays import CASES, pyarrow_bytes, read_batch

import arrowipc as ipc
from arrowipc.cdata.import_array import batch_from, stream_from

FLAT = ("int32", "double", "string", "bool", "binary", "date32")
NESTED = ("list", "struct", "dictionary", "string_view")
#: A library, its oldest version, what makes its own data of ours, and the columns that come back as they were.
PEERS: dict[str, tuple[str | None, Callable[[Any, Any], Any], tuple[str, ...]]] = {
    "polars": (None, lambda polars, data: polars.DataFrame(data), (*FLAT, *NESTED)),
    "pandas": ("3.0", lambda pandas, data: pandas.DataFrame.from_arrow(data), ("double", "string", "timestamp[us]")),
    "nanoarrow": (None, lambda na, data: na.ArrayStream(data), (*FLAT, *NESTED, "map", "decimal128")),
    "arro3.core": (
        None,
        lambda core, data: core.Table.from_arrow(data),
        (*FLAT, *NESTED, "map", "decimal128", "list_view"),
    ),
    "duckdb": (
        None,
        lambda duckdb, data: duckdb.connect().register("t", data).sql("select * from t"),
        (*FLAT, "list", "struct", "map", "decimal128"),
    ),
}


@pytest.mark.parametrize("peer", PEERS)
def test_what_goes_to_a_library_comes_back(peer: str) -> None:
    oldest, make, names = PEERS[peer]
    library = pytest.importorskip(peer, oldest)
    whole = pa.record_batch({name: CASES[name][:3] for name in names})
    ours = read_batch(whole)
    for part in (ours, ours.slice(1), ours.slice(1, 1)):
        assert batch_from(make(library, part), "full").to_pydict() == part.to_pydict()
    with ipc.open_stream(pyarrow_bytes([whole, whole])) as reader, stream_from(make(library, reader), "full") as stream:
        assert [row for batch in stream for row in batch.to_pylist()] == ours.to_pylist() * 2
