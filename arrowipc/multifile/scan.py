"""Data sets as polars' lazy frames: columns, files and batches that a query does not need are not read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.multifile.filters import from_polars
from arrowipc.tables import Table

if TYPE_CHECKING:
    import polars as pl

    from arrowipc.schemas import Schema


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
        Batches that its filters rule out by statistics are not read. Such filters are comparisons of columns with
        literals, ``is_in``, ``is_between``, ``starts_with``, nulls, and combinations of them with "and", "or" and
        "not". polars filters the rest.

    Raises
    ------
    UnsupportedError
        polars is not installed, or does not know the type of a column; else errors are those of `open_dataset`.

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
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise UnsupportedError(f"scan_polars needs polars 1.5 or newer: pip install polars ({error})") from None
    if not (hasattr(dataset, "select") and hasattr(dataset, "prune")):
        from arrowipc.multifile.dataset import open_dataset

        dataset = open_dataset(dataset, **options)
    elif options:
        raise UsageError(f"scan_polars: the data set is open already; {', '.join(options)} have no effect")
    schema: Schema = dataset.schema
    nothing = Table(schema, []).to_polars()
    frame_schema = nothing.schema

    def scan(offset: int = 0, length: int | None = None) -> pl.LazyFrame:
        def frames(
            columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
        ) -> Iterator[pl.DataFrame]:
            # A limit counts the rows before the predicate: so if there is one, no batch may be left out.
            whole = offset == 0 and length is None
            test = from_polars(predicate, schema) if whole and predicate is not None and n_rows is None else None
            chosen = dataset if test is None else dataset.prune(test)
            if columns is not None:
                needed = {*columns, *([] if predicate is None else predicate.meta.root_names())}
                chosen = chosen.select([name for name in schema.names if name in needed])
            left, is_empty = n_rows, True
            for batch in chosen if whole else _rows(chosen, offset, length):
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= len(batch)
                yield _part(batch.to_polars(), columns, predicate)
                is_empty = False
                if left == 0:
                    return
            if is_empty:
                yield _part(nothing, columns, None)

        return register_io_source(frames, schema=frame_schema)

    def select(*exprs: Any, **named: Any) -> pl.LazyFrame:
        if len(exprs) != 1 or named or not isinstance(exprs[0], pl.Expr) or not exprs[0].meta.eq(pl.len()):
            return pl.LazyFrame.select(frame, *exprs, **named)

        def counted(
            columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
        ) -> Iterator[pl.DataFrame]:
            found = pl.Series("len", [dataset.count_rows()], pl.get_index_type()).to_frame()
            yield _part(found if n_rows is None else found.head(n_rows), columns, predicate)

        return register_io_source(counted, schema={"len": pl.get_index_type()})

    # polars passes only slices of the first rows to a source: for others, and for the count, ask the data set.
    frame = scan()
    own: Any = frame
    own.slice = lambda offset, length=None: (scan if offset else partial(pl.LazyFrame.slice, frame))(offset, length)
    own.tail, own.select = lambda n=5: scan(-n, n), select
    return frame


def _rows(dataset: Any, offset: int, length: int | None) -> Any:
    """Return the batches of some rows, counted as polars does: from the end if `offset` is negative."""
    if offset < 0:
        offset += dataset.count_rows()
        if offset < 0:
            offset, length = 0, None if length is None else max(length + offset, 0)
    return dataset.slice(offset, length, alone=True).to_batches()


def _part(frame: pl.DataFrame, columns: list[str] | None, predicate: pl.Expr | None) -> pl.DataFrame:
    if predicate is not None:
        frame = frame.filter(predicate)
    return frame if columns is None or frame.columns == columns else frame.select(columns)
