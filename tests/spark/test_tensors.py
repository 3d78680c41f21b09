"""Tensors in binary columns: made and read as NumPy arrays in the functions that people give to Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from arrowipc import read_tensor
from arrowipc.tensors.dense_io import arrays_from_cells, cells_from_arrays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_tensors_travel_in_binary_columns(spark: SparkSession) -> None:
    # Functions of the test, not of its module: Spark's workers cannot import the tests.
    def make(batches: Iterator[Any]) -> Iterator[Any]:
        """A matrix per id, every seventh missing; column-major where the id is odd."""
        for batch in batches:
            ids = batch["id"].to_pylist()
            order = {0: "C", 1: "F"}
            matrices = [None if n % 7 == 6 else np.full((2, 3), n, "f4", order[n % 2]) for n in ids]
            cells = pa.array(cells_from_arrays(matrices), pa.binary())
            yield pa.record_batch({"id": batch["id"], "matrix": cells})

    def add_up(batches: Iterator[Any]) -> Iterator[Any]:
        """The sum of each matrix, and how many values it has."""
        for batch in batches:
            matrices = arrays_from_cells(batch["matrix"])
            sums = [None if each is None else float(each.sum()) for each in matrices]
            shapes = [None if each is None else list(each.shape) for each in matrices]
            yield pa.record_batch({"id": batch["id"], "sum": pa.array(sums, pa.float64()), "shape": shapes})

    cells = spark.range(0, 50, 1, 3).mapInArrow(make, "id bigint, matrix binary")
    found = cells.mapInArrow(add_up, "id bigint, sum double, shape array<bigint>").orderBy("id").collect()
    assert [tuple(row) for row in found] == [(n, None, None) if n % 7 == 6 else (n, 6.0 * n, [2, 3]) for n in range(50)]
    first = cells.where("id = 5").head()
    assert first is not None
    assert read_tensor(bytes(first["matrix"])).to_numpy().tolist() == [[5.0] * 3] * 2
