"""Times of every unit are one kind of Python value: what `to_pylist` gives, `from_pylist` takes; nothing is rounded."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.arrays import read_array, stored
from helpers.terminal import run
from hypothesis import example, given, strategies as st

import arrowipc as ipc
from arrowipc import UnsupportedError, types as T

ZONES = [None, "UTC", "+05:30", "Europe/Oslo", "America/New_York"]
#: What a time in nanoseconds, which is a whole microsecond, is beside one in microseconds.
KINDS = [*[lambda unit, zone=zone: T.timestamp(unit, zone) for zone in ZONES], T.duration]

ticks = st.lists(st.none() | st.integers(-(2**63) // 1000 + 1, 2**63 // 1000 - 1), max_size=8)


@given(ticks, st.sampled_from(KINDS))
# The hours that a summer lacks and repeats.
@example([0, -1, 1, 1_711_846_800_000_000, 1_729_990_800_000_000], KINDS[3])
def test_whole_microseconds_are_what_they_are_in_microseconds(numbers, kind):
    fine = ipc.Array.from_pylist([None if n is None else 1000 * n for n in numbers], kind("ns"))
    coarse = ipc.Array.from_pylist(numbers, kind("us"))
    assert repr(fine.to_pylist()) == repr(coarse.to_pylist())  # with their zones
    assert list(fine) == fine.to_pylist()
    assert ipc.Array.from_pylist(fine.to_pylist(), kind("ns")) == fine
    assert ipc.Array.from_pylist(coarse.to_pylist(), kind("us")) == coarse
    assert fine.cast(kind("us")) == coarse
    assert coarse.cast(kind("ns")) == fine


@pytest.mark.parametrize(
    "kind", [*[T.timestamp("ns", zone) for zone in ZONES], T.duration("ns"), T.time64("ns")], ids=str
)
def test_what_is_no_whole_microsecond_is_shown_and_never_rounded(kind, tmp_path):
    pd = pytest.importorskip("pandas")
    array = ipc.Array.from_pylist([1000, None, 1001], kind)
    below = ipc.array([{"a": [n]} for n in (1000, 1, 2000)], T.struct([T.field("a", T.list_(kind))]))
    batch = ipc.RecordBatch.from_pydict({"t": array, "n": below})
    for call in (
        array.to_pylist,
        lambda: list(array),
        lambda: array[2],
        batch.to_pylist,
        lambda: list(batch.iter_rows()),
    ):
        with pytest.raises(
            UnsupportedError, match=r"value [12]: 1(001)? ns are no whole microseconds.*(to_numpy\(\)|'int64')"
        ):
            call()
    assert array[0] == array.slice(0, 1).to_pylist()[0]
    assert array.slice(2).to_numpy().astype("i8").tolist() == [1001]
    shown = repr(array) + str(batch) + batch._repr_html_()
    assert "001001" in shown or "1001ns" in shown
    assert "Unsupported" not in shown
    if not isinstance(kind, T.Time):
        assert array.to_pandas()[2].value == 1001
        inner = batch["n"].to_pandas()[1]["a"][0]
        assert (inner.value if isinstance(inner, (pd.Timestamp, pd.Timedelta)) else np.asarray(inner).astype("i8")) == 1
    path = stored(tmp_path / "t.arrow", batch)
    rows = run("head", path, "--json").lines
    assert [len(row) for row in rows] == [2, 2, 2]
    if isinstance(kind, T.Duration):
        assert rows[2]["t"] == 1001 / 10**9
    else:
        assert "00.000001001" in rows[2]["t"]
    assert "001001" in (text := run("head", path).out) or "1001ns" in text


def hidden() -> dict[str, Any]:
    fine = pa.array([1, 2000, 3]).view(pa.timestamp("ns"))
    codes = pa.array([1, 0, 1], pa.int8())
    words = pa.array(["a", "b", "c"])
    return {
        "null structs": pa.StructArray.from_arrays([fine], ["t"], mask=pa.array([True, False, True])),
        "sparse unions": pa.UnionArray.from_sparse(codes, [fine, words]),
        "null lists": pa.FixedSizeListArray.from_arrays(fine, 1, mask=pa.array([True, False, True])),
        "dictionaries": pa.DictionaryArray.from_arrays(pa.array([1, 1, None], pa.int8()), fine),
    }


@pytest.mark.parametrize("name", hidden())
def test_what_no_row_shows_is_no_error(name):
    found = read_array(hidden()[name]).to_pylist()
    (moment,) = [each for each in found if each not in (None, "a", "c")][:1]
    while isinstance(moment, (list, dict)):
        (moment,) = moment.values() if isinstance(moment, dict) else moment
    assert moment == dt.datetime(1970, 1, 1, microsecond=2)
