"""Payloads decoded in the JVM and in Python: the same rows of the same cells, and the same cells refused."""

import random
import re
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from helpers import mutate
from helpers.arrow_columns import COLUMNS, file, held, stream
from helpers.processes import rounds
from pyspark.sql import DataFrame, SparkSession

from arrowipc.spark import decode_payloads, to_spark_schema

pytestmark = [pytest.mark.spark, pytest.mark.nosanitize]

#: Damaged frames that the codecs of Python take.
TAKEN = "a compressed buffer of .* does not hold its"
WAYS = [(write, codec) for write in (stream, file) for codec in (None, "lz4", "zstd")]


def cells_of(chance: random.Random, batch: pa.RecordBatch, mutants: int) -> list[bytes | None]:
    """Whole payloads of one to three batches, some that are cut, and some with a lie in them."""
    whole = []
    for write, codec in chance.sample(WAYS, 4):
        parts = [batch.slice(chance.randrange(batch.num_rows + 1)) for _ in range(chance.randrange(3))]
        whole.append(write(batch, *parts, compression=codec))
    cut = [cell[: chance.randrange(len(cell))] for cell in whole]
    return [*whole, None, b"", *cut, *mutate.mixed(whole, chance.randrange(1 << 30), mutants)]


def frame(spark: SparkSession, cells: list[bytes | None]) -> DataFrame:
    return spark.createDataFrame(pa.table({"n": range(len(cells)), "payload": pa.array(cells, pa.binary())})).coalesce(
        1
    )


def outcome(frame: DataFrame, schema: Any, **options: Any) -> dict[int, tuple[list[str], str | None]]:
    """The rows of each cell as texts, and why it was refused."""
    found: dict[int, tuple[list[str], str | None]] = {}
    rows = decode_payloads(frame, "payload", schema, keep=["n"], on_error="null", error_column="why", **options)
    for row in rows.collect():
        found.setdefault(row["n"], ([], row["why"]))[0].append(str(row[:-1]))
    return found


@pytest.mark.campaign
def test_both_engines_say_the_same_of_the_same_cells(spark: SparkSession) -> None:
    wrong, seen = [], defaultdict(int)
    for case in range(rounds(8, 75)):
        chance = random.Random(case)
        columns = {}
        for name in chance.sample([*COLUMNS], 3):
            columns[name] = chance.choice([*held(COLUMNS[name]).values()])[0]
        rows = min(map(len, columns.values()))
        batch = pa.record_batch({name: array.slice(0, rows) for name, array in columns.items()})
        schema = to_spark_schema(batch.schema)
        cells = cells_of(chance, batch, 30)
        options = {"validate": "full", "nanoseconds": chance.choice(["error", "truncate"])}
        jvm, python = (outcome(frame(spark, cells), schema, engine=engine, **options) for engine in ("jvm", "python"))
        for n in range(len(cells)):
            one, other = jvm.get(n), python.get(n)
            refused = [each is not None and each[1] is not None for each in (one, other)]
            seen[refused[0]] += 1
            if refused == [False, False]:
                same = one == other
            else:
                same = refused[0] and (refused[1] or re.search(TAKEN, str(one)) is not None)
            if not same:
                wrong.append((case, n, [*columns], one, other))
    assert min(seen[True], seen[False]) > 10
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(f"{each}"[:1500] for each in wrong[:20])
