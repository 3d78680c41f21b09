"""Checks that data frames hold the same rows, each the same number of times."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from arrowipc.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Comparison", "compare_rows"]

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
    examples : list of tuple
        Some of those rows: the values by column, and how often each source holds the row.
    """

    names: list[str]
    counts: list[int]
    differing: int
    examples: list[tuple[dict[str, Any], list[int]]]

    @property
    def agree(self) -> bool:
        """Whether all sources hold the same rows, each the same number of times."""
        return self.differing == 0

    def and_(self, other: "Comparison") -> "Comparison":
        """Join a comparison to this one, which agrees: it compares the first source here with others."""
        if not other.agree:
            return other
        return Comparison(self.names + other.names[1:], self.counts + other.counts[1:], 0, [])


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
    marked: list[DataFrame] = []
    for index, name in enumerate(names):
        frame = sources[name]
        _check_columns(names[0], first, name, frame)
        flags = [F.lit(int(other == index)).alias(f"{_COUNT}{other}") for other in range(len(names))]
        marked.append(frame.select(*columns, *flags))
    counts = [f"{_COUNT}{index}" for index in range(len(names))]
    grouped = reduce(lambda left, right: left.unionAll(right), marked).groupBy(*columns)
    rows = grouped.agg(*[F.sum(count).alias(count) for count in counts])
    differs: Column = reduce(lambda left, right: left | right, [F.col(c) != F.col(counts[0]) for c in counts[1:]])
    totals = [F.sum(count).alias(count) for count in counts]
    found = rows.agg(*totals, F.count_if(differs).alias("differing")).collect()[0]
    examples = rows.where(differs).limit(EXAMPLES).collect() if found["differing"] else []
    return Comparison(
        names,
        [found[count] or 0 for count in counts],
        found["differing"],
        [(dict(zip(first.columns, row, strict=False)), list(row[len(columns) :])) for row in examples],
    )


def quote(name: str) -> str:
    """A column name as Spark's functions take it when it may hold dots."""
    return "`" + name.replace("`", "``") + "`"


def _check_columns(first_name: str, first: "DataFrame", name: str, frame: "DataFrame") -> None:
    expected, found = dict(first.dtypes), dict(frame.dtypes)
    if list(expected.items()) != list(found.items()):
        odd = [
            f"{column} ({expected.get(column, 'missing')} / {found.get(column, 'missing')})"
            for column in {**expected, **found}
            if expected.get(column) != found.get(column)
        ]
        raise UsageError(
            f"{first_name} and {name} cannot be compared: their columns differ in "
            + (", ".join(odd) if odd else "order")
        )
