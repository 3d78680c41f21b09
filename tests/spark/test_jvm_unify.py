"""What the schema of several files allows the JVM reads from each; the rest is refused by the column's name."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import java
from helpers.arrow_columns import COLUMNS, file

pytestmark = pytest.mark.spark


def union(*names: str) -> pa.Array:
    members = [pa.array([number, None, 7]) for number in range(len(names))]
    return pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), members, list(names))


INTERVAL = pa.array([(1, 2, 3), None, (0, 0, 1)], pa.month_day_nano_interval())
ARRAYS: dict[str, pa.Array] = {
    **{name: column.array for name, column in COLUMNS.items()},
    "union_ab": union("a", "b"),
    "union_bc": union("B", "c"),
    "struct_of_interval": pa.array([{"days": 1, "c": "x"}, None], pa.struct({"days": pa.int64(), "c": pa.string()})),
    "struct_without_fields": pa.array([{}, None], pa.struct({})),
    "list_of_interval": pa.ListArray.from_arrays([0, 3], INTERVAL),
}


def put(folder: Path, arrays: dict[str, pa.Array]) -> dict[str, Path]:
    paths = {name: folder / f"{number}.arrow" for number, name in enumerate(arrays)}
    for name, path in paths.items():
        path.write_bytes(file(pa.record_batch({"x": arrays[name]})))
    return paths


@pytest.mark.parametrize("nanoseconds", ["truncate", "long"])
def test_what_two_files_have_together_is_read_from_each(core: java.Core, tmp_path: Path, nanoseconds: str) -> None:
    # The second time those columns only of which the option makes numbers, and what numbers may become.
    arrays = ARRAYS if nanoseconds == "truncate" else {k: v for k, v in ARRAYS.items() if v.type.num_fields == 0}
    paths = put(tmp_path, arrays)
    pairs = list(itertools.permutations(paths, 2))
    lines = [f"{paths[one]}\twith={paths[other]}" for one, other in pairs]
    merged = 0
    for pair, answer in zip(pairs, core.read(lines, nanoseconds=nanoseconds), strict=True):
        refused = answer.error == "Usage" and "no type holds the values of both" in answer.text
        assert answer.ok or (refused and "column 'x" in answer.text), (pair, answer.text)
        merged += answer.ok
    assert merged > 4 * len(paths)


VALUES: list[tuple[pa.Array, pa.Array, list[Any]]] = [
    (pa.array([-5, None], pa.int8()), pa.array([1], pa.int64()), [-5, None]),
    (pa.array([-5, None], pa.int32()), pa.array([1.5]), ["c014000000000000", None]),
    (pa.array([-5, None], pa.int32()), pa.array(["0.25"]).cast(pa.decimal128(4, 2)), ["-5.00", None]),
    (pa.array([2**63], pa.uint64()), pa.array([1], pa.int8()), ["9223372036854775808"]),
    (pa.nulls(2), pa.array([{"a": 1}]), [None, None]),
    (pa.array([{"a": 1}]), pa.array([{"A": 1 << 40, "b": "x"}]), [[1, None]]),
    (union("a", "b"), union("B", "c"), [[0, None, None], [None, None, None], [7, None, None]]),
    (INTERVAL, pa.array([{"days": 1 << 40, "c": "x"}]), [[1, 2, 3, None], None, [0, 0, 1, None]]),
]


@pytest.mark.parametrize("case", range(len(VALUES)))
def test_values_keep_their_worth(core: java.Core, tmp_path: Path, case: int) -> None:
    one, other, expected = VALUES[case]
    paths = put(tmp_path, {"one": one, "other": other})
    (answer,) = core.read([paths["one"]], values="true", **{"with": str(paths["other"])})
    assert answer.ok, answer.text
    assert list(itertools.chain(*json.loads(answer.text))) == expected


def test_names_that_differ_in_case_only(core: java.Core, tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(file(pa.record_batch({"a": pa.array([1]), "A": pa.array([2])})))
    (answer,) = core.read([path], values="true", **{"with": str(path)})
    assert answer.error == "Usage"
    assert "names that differ in case only do not merge: 'a', 'A'" in answer.text
