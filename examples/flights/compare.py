"""Checks that data frames hold the same rows, each the same number of times."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from arrowipc.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXAMPLES = 5
_SOURCE = "arrowipc_source"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found: the rows of each source, how many distinct rows differ, and some of those."""

    names: list[str]
    counts: list[int]
    differing: int
    examples: list[str]


def compare_rows(sources: "Mapping[str, DataFrame]") -> Comparison:
    """Compare all rows on all columns; exact, and independent of order. Null equals null, and NaN equals NaN.

    Rows are grouped by all their columns and counted per source, so that a repeated row is found too.
    Sources whose columns differ in name, order or type are a `UsageError`.
    """
    from pyspark.sql import DataFrame, functions as F

    names, first = list(sources), next(iter(sources.values()))
    for name, frame in sources.items():
        if frame.dtypes != first.dtypes:
            odd = [f"{column} ({kind})" for column, kind in sorted({*first.dtypes} ^ {*frame.dtypes})]
            raise UsageError(
                f"{names[0]} and {name} cannot be compared: their columns differ in {', '.join(odd) or 'order'}"
            )
    columns = [quote(name) for name in first.columns]
    marked = [frame.select(*columns, F.lit(i).alias(_SOURCE)) for i, frame in enumerate(sources.values())]
    counts = [f"{_SOURCE}_{i}" for i in range(len(names))]
    times = [F.count_if(F.col(_SOURCE) == i).alias(count) for i, count in enumerate(counts)]
    rows = reduce(DataFrame.unionAll, marked).groupBy(*columns).agg(*times)
    differs = reduce(lambda left, right: left | right, [F.col(count) != F.col(counts[0]) for count in counts[1:]])
    totals = [F.coalesce(F.sum(count), F.lit(0)).alias(count) for count in counts]
    *found, differing = rows.agg(*totals, F.count_if(differs)).collect()[0]
    examples = []
    for row in rows.where(differs).limit(EXAMPLES).collect() if differing else []:
        values = ", ".join(f"{name}={value}" for name, value in zip(first.columns, row, strict=False))
        often = ", ".join(f"{name}: {count} times" for name, count in zip(names, row[len(columns) :], strict=True))
        examples.append(f"{values} ({often})")
    return Comparison(names, found, differing, examples)


def quote(name: str) -> str:
    """A column name as Spark's functions take it, also if it has dots."""
    return "`" + name.replace("`", "``") + "`"
