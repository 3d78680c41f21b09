"""Columns that other libraries misread: each row of the table in docs/guides/hand-over.md, reproduced."""

import importlib.metadata
import warnings
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from helpers.arrays import stored
from helpers.processes import run_python

PAGE = (Path(__file__).resolve().parents[2] / "docs/guides/hand-over.md").read_text()


def decimals(kind, count=300):
    return pa.array([Decimal(number * 7 - 1000) / 100 for number in range(count)], kind)


def below(array):
    """A column, and one that has it below a dictionary of lists."""
    lists = pa.ListArray.from_arrays(pa.array(range(0, len(array) + 1, 3), pa.int32()), array)
    return [array, pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), lists)]


NARROW = {"decimal32": decimals(pa.decimal32(7, 2)), "decimal64": decimals(pa.decimal64(15, 2))}
TIMES = pa.array([(1, 2, 1500)] * 3, pa.month_day_nano_interval())
BY_NANOARROW = "import nanoarrow; print([row['x'] for row in nanoarrow.Array(table).iter_py()])"
#: What is misread -> the library and the version that was tried, a program that prints what it is given, columns that
#: are misread, and what the page says to hand over instead.
TRIED = {
    "narrow decimals": (
        "polars 2.1.0",
        "import polars; print(polars.DataFrame(table)['x'].to_list())",
        [each for array in NARROW.values() for each in below(array)],
        [
            NARROW["decimal32"].cast(pa.decimal128(7, 2)),
            pa.DictionaryArray.from_arrays(pa.array([5, 0, None, 299], pa.int16()), NARROW["decimal64"]),
        ],
    ),
    "negative decimals": (
        "nanoarrow 0.9.0",
        BY_NANOARROW,
        [decimals(pa.decimal128(9, 2)), pa.StructArray.from_arrays([decimals(pa.decimal256(9, 2))], ["s"])],
        [],
    ),
    "views": (
        "nanoarrow 0.9.0",
        BY_NANOARROW,
        [
            pa.array(["a", "b"], pa.string_view()),
            pa.array([b"a text of more than twelve bytes"], pa.binary_view()),
            pa.array([["a"]], pa.list_(pa.string_view())),
        ],
        [pa.array(["a", None, "a text of more than twelve bytes"])],
    ),
    "nanoseconds": (
        "duckdb 2.0.1",
        "import duckdb; print(duckdb.from_arrow(table).to_arrow_table().to_pydict()['x'])",
        [TIMES, pa.StructArray.from_arrays([TIMES], ["s"])],
        [pa.array([(1, 2, 3000)], pa.month_day_nano_interval())],
    ),
}


def seen_by(program, paths):
    """What a library makes of each column; None where it crashes. In another process: some read too far."""
    steps = ("table = arrowipc.open(path).read_all()", program, "sys.stdout.flush()")
    code = "\n    ".join(["import sys, arrowipc\nfor path in sys.argv[1:]:", *steps])
    found = []
    while len(found) < len(paths):
        done = run_python(code, *paths[len(found) :])
        assert done.returncode <= 0, done.stderr
        found += [*done.stdout.splitlines(), *[None] * (done.returncode != 0)]
    return found


@pytest.mark.nosanitize
@pytest.mark.parametrize("case", TRIED)
def test_columns_are_misread_as_the_page_says_and_what_it_says_helps(case, tmp_path):
    consumer, program, columns, instead = TRIED[case]
    assert f"| {consumer} |" in PAGE
    name, version = consumer.split()
    pytest.importorskip(name)
    installed = importlib.metadata.version(name)
    every = [*columns, *instead]
    paths = [stored(tmp_path / f"{i}.arrows", pa.table({"x": column})) for i, column in enumerate(every)]
    right = [each == str(column.to_pylist()) for each, column in zip(seen_by(program, paths), every, strict=True)]
    for column, is_right in zip(columns, right, strict=False):
        assert not is_right or installed != version, column.type
        if is_right:
            warnings.warn(f"{consumer} misread {case}, {installed} does not: amend the page", stacklevel=1)
    assert all(right[len(columns) :])
