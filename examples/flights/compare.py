"""Checks that data frames hold the same rows, each the same number of times."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from arrowipc.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Comparison", "compare_rows", "quote"]

EXAMPLES = 5
_COUNT = "arrowipc_rows_in_"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found.

    Parameters
    ----------
    names : list of str
        Of the sources compared.
    counts : list of int
        Rows of each source.
    differing : int
        Distinct rows that the sources do not hold equally often; 0 means that they agree.
    examples : list of str
        Some of those rows, and how often each source holds them.
    """

    names: list[str]
    counts: list[int]
    differing: int
    examples: list[str]


def compare_rows(sources: Mapping[str, "DataFrame"]) -> Comparison:
    """Compare all rows on all columns; exact, and independent of order.

    Rows are grouped by all their columns and counted per source in one pass, so that a row that one source
    holds once too often is found too. Nulls equal nulls, and NaN equals NaN.

    Parameters
    ----------
    sources : mapping of str to pyspark.sql.DataFrame
        Two or more, by name.

    Raises
    ------
    UsageError
        If their columns differ in name, order or type.
    """
    from pyspark.sql import functions as F

    names = list(sources)
    first = sources[names[0]]
    columns = [quote(name) for name in first.columns]
    marked = []
    for index, (name, frame) in enumerate(sources.items()):
        if frame.dtypes != first.dtypes:
            odd = [f"{column} ({kind})" for column, kind in sorted({*first.dtypes} ^ {*frame.dtypes})]
            raise UsageError(
                f"{names[0]} and {name} cannot be compared: their columns differ in {', '.join(odd) or 'order'}"
            )
        flags = [F.lit(int(other == index)).alias(f"{_COUNT}{other}") for other in range(len(names))]
        marked.append(frame.select(*columns, *flags))
    counts = [f"{_COUNT}{index}" for index in range(len(names))]
    totals = [F.sum(count).alias(count) for count in counts]
    rows = reduce(lambda left, right: left.unionAll(right), marked).groupBy(*columns).agg(*totals)
    differs = reduce(lambda left, right: left | right, [F.col(count) != F.col(counts[0]) for count in counts[1:]])
    found = rows.agg(*totals, F.count_if(differs).alias("differing")).collect()[0]
    examples = []
    for row in rows.where(differs).limit(EXAMPLES).collect() if found["differing"] else []:
        values = ", ".join(f"{name}={value}" for name, value in zip(first.columns, row, strict=False))
        times = ", ".join(f"{name}: {count} times" for name, count in zip(names, row[len(columns) :], strict=True))
        examples.append(f"{values} ({times})")
    return Comparison(names, [found[count] or 0 for count in counts], found["differing"], examples)


def quote(name: str) -> str:
    """A column name as Spark's functions take it when it may hold dots."""
    return "`" + name.replace("`", "``") + "`"
