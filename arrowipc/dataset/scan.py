"""Data sets in polars' lazy frames: what a query needs no rows of is not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from arrowipc.dataset.filters import from_polars
from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.tables import Table

if TYPE_CHECKING:
    import polars as pl

    from arrowipc.schemas import Schema

__all__ = ["scan_polars"]


def scan_polars(dataset: Any, **options: Any) -> pl.LazyFrame:
    """Make a lazy frame of a data set: polars reads the columns, files and batches that a query needs.

    Parameters
    ----------
    dataset : Dataset, or what `open_dataset` opens
    **options
        Of `open_dataset`.

    Returns
    -------
    polars.LazyFrame
        What statistics rule out of its filters is not read: comparisons of columns with literals, ``is_in``,
        ``is_between``, ``starts_with``, nulls, and what "and", "or" and "not" make of them. polars filters the rest.

    Raises
    ------
    UnsupportedError
        polars is not installed, or does not know the type of a column.
    UsageError
        Options were given for a data set that is open; else as for `open_dataset`.

    Examples
    --------
    >>> import polars as pl
    >>> import arrowipc as ipc
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with ipc.new_file(folder + "/0.arrow", statistics=True) as writer:
    ...         writer.write({"x": [1, 2, 3]})
    ...     ipc.scan_polars(folder).filter(pl.col("x") > 2).collect().to_dicts()
    [{'x': 3}]
    """
    try:
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise UnsupportedError(f"scan_polars needs polars 1.5 or newer: pip install polars ({error})") from None
    if not (hasattr(dataset, "select") and hasattr(dataset, "prune")):
        from arrowipc.dataset.dataset import open_dataset

        dataset = open_dataset(dataset, **options)
    elif options:
        raise UsageError(f"scan_polars: the data set is open already; {', '.join(options)} have no effect")
    schema: Schema = dataset.schema
    nothing = Table(schema, []).to_polars()

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        # A limit counts the rows before the predicate: then no batch may be left out.
        test = None if predicate is None or n_rows is not None else from_polars(predicate, schema)
        chosen = dataset if test is None else dataset.prune(test)
        if columns is not None:
            needed = {*columns, *([] if predicate is None else predicate.meta.root_names())}
            chosen = chosen.select([name for name in schema.names if name in needed])
        left, is_empty = n_rows, True
        for batch in chosen:
            if left is not None:
                batch = batch.slice(0, left)
                left -= len(batch)
            yield _part(batch.to_polars(), columns, predicate)
            is_empty = False
            if left == 0:
                return
        if is_empty:
            yield _part(nothing, columns, None)

    return register_io_source(frames, schema=nothing.schema)


def _part(frame: pl.DataFrame, columns: list[str] | None, predicate: pl.Expr | None) -> pl.DataFrame:
    if predicate is not None:
        frame = frame.filter(predicate)
    return frame if columns is None or frame.columns == columns else frame.select(columns)
