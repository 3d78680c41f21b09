"""`head`, `tail` and `count`: rows of a source, by number, at random or by conditions."""

from __future__ import annotations

import os
import random
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import click

import arrowipc as ipc
from arrowipc.cli.outputs import checked_output, named_batches, output_options, write_batches
from arrowipc.cli.sources import about, is_gzip, seekable_source, source
from arrowipc.cli.terminal import (
    FILE,
    FINE_JSON,
    Progress,
    as_json,
    column_option,
    columns_of,
    console,
    fit,
    json_option,
    plain_table,
    say_json,
    say_line,
    say_note,
    say_written,
    to_output,
    where_option,
    width,
)
from arrowipc.errors import printable
from arrowipc.multifile.filters import columns_tested, from_text, rows_passing
from arrowipc.values.preview import NULL, counted, shorten, type_text, value_text

#: Largest width of a cell of a table.
CELL_WIDTH = 40
#: Least width of a cell, in a narrow terminal where the columns do not fit.
LEAST_WIDTH = 8
#: Characters of a type that may make its column wider than the values.
TYPE_WIDTH = 14
#: Rows that are taken from a source at a time.
PIECE = 10_000
#: Rows that are formatted and printed at a time; their values, and those before, determine the widths of columns.
PAGE = 500

_Command = TypeVar("_Command", bound=Callable[..., Any])


_count_option = click.option(
    "-n", "--rows", type=click.IntRange(0), default=10, show_default=True, help="Number of rows."
)


def _table_options(command: _Command) -> _Command:
    """Add the options of all commands that print rows: `columns`, `as_json`, and those of an output file."""
    writing = output_options(default=None, words="Write the rows to FILE instead of printing a table.")
    made: _Command = column_option(json_option(writing(command)))
    return made


# -- sources -------------------------------------------------------------------------------------------------


@contextmanager
def _opened(
    file: str, columns: str | None, conditions: Sequence[str] = (), most: int | None = None, *, anywhere: bool = True
) -> Iterator[tuple[Any, Any]]:
    """Open a file, stream, folder or pattern; yield it, and the numbers of the first `most` matching rows.

    The numbers are None without conditions. `anywhere`: the caller needs `take`, `slice` or `count_rows`; then a stream
    is scanned, and one through a pipe is copied to disk.
    """
    chosen, filters, tested = columns_of(columns), None, None
    with about(file), ExitStack() as stack:
        if file != "-" and not is_gzip(file) and (conditions or os.path.isdir(file) or is_pattern(file)):
            found: Any = ipc.open_dataset(file)
            if conditions:
                filters = from_text(conditions, found.schema)
                found = _pruned(found, filters)
                tested = found.select(columns_tested(filters, found.schema))
            found = found if chosen is None else found.select(chosen)
        else:
            data = seekable_source(file) if anywhere else source(file)
            found = stack.enter_context(ipc.open(data, columns=chosen, index=anywhere))
            if conditions:
                filters = from_text(conditions, (whole := stack.enter_context(ipc.open(data))).schema)
                tested = stack.enter_context(ipc.open(data, columns=columns_tested(filters, whole.schema)))
        yield found, None if filters is None else _matching(filters, tested, most)


def _matching(filters: Any, batches: Any, most: int | None) -> Any:
    """Return the numbers of the first `most` rows that match, or of all."""
    import numpy as np

    numbers, start, count = [np.zeros(0, np.int64)], 0, 0
    with Progress("looking") as progress:
        for batch in batches if most != 0 else ():
            numbers.append(rows_passing(filters, batch) + start)
            start, count = start + len(batch), count + len(numbers[-1])
            progress.advance(batch.nbytes)
            if most is not None and count >= most:
                break
    return np.concatenate(numbers)[:most]


def is_pattern(path: str) -> bool:
    """Whether a name contains wildcards and is not the name of a file."""
    return bool(re.search(r"[*]" if "://" in path else r"[*?\[{]", path)) and not os.path.exists(path)


def _pruned(dataset: Any, filters: Any) -> Any:
    """Leave out batches and files without a match, and print how many rows they have."""
    left = dataset.prune(filters)
    rows, kept = dataset.count_rows(), left.count_rows()
    if kept < rows:
        say_note(f"--where: skipped {rows - kept:,} of {counted(rows, 'row')}, by statistics and names of folders")
    return left


@contextmanager
def _chosen(
    file: str,
    columns: str | None,
    conditions: Sequence[str],
    pick: Callable[[int], Sequence[int]],
    most: int | None = None,
) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Yield the schema, and the batches of the rows that `pick` chooses.

    `pick` is called with the number of rows that match all conditions, at most `most`, and returns the chosen ones
    among these, by number.
    """
    with _opened(file, columns, conditions, most) as (found, numbers):
        places = pick(found.count_rows() if numbers is None else len(numbers))
        if numbers is None and isinstance(places, range):
            yield found.schema, iter(found.slice(places.start, len(places)).batches)
            return
        rows = places if numbers is None else [int(numbers[i]) for i in places]
        yield found.schema, (found.take(rows[start : start + PIECE]) for start in range(0, len(rows), PIECE))


# -- commands ------------------------------------------------------------------------------------------------


@click.command()
@FILE
@_count_option
@click.option("--offset", type=click.IntRange(0), default=0, metavar="N", help="Rows to skip first.")
@click.option(
    "--take",
    "numbers",
    metavar="LIST",
    help="Print these rows instead: numbers and ranges such as 5,17-20, from 0, in any order; -1 is the last row.",
)
@click.option("--sample", "samples", is_flag=True, help="Print random rows instead, each at most once, in their order.")
@click.option("--seed", type=int, help="Seed of --sample; the same seed gives the same rows.")
@where_option
@_table_options
def head(
    file: str,
    rows: int,
    offset: int,
    numbers: str | None,
    samples: bool,
    seed: int | None,
    conditions: tuple[str, ...],
    columns: str | None,
    **printing: Any,
) -> None:
    """Print the first rows of FILE as a table, or the rows that --take, --sample and --where choose.

    FILE may also be a folder, or a pattern in quotes, of files and streams. Columns that do not fit are named below
    the table; long values are cut. Only the batches that hold the rows are decoded.

    \b
    Examples:
      arrowipc head taxi.arrow --take 5,17-20
      arrowipc head taxi.arrow -n 1000 --sample -o some.arrow
      arrowipc head taxi.arrow --where 'fare > 100' -c vendor,fare

    JSON: one line per row, an object by column name (pairs of name and value where two columns share one).
    """
    if numbers is not None and samples:
        raise click.UsageError("--take and --sample exclude each other")
    most = None
    pick: Callable[[int], Sequence[int]]
    if numbers is not None:
        pick = partial(_numbers, numbers)
    elif samples:
        pick = partial(_sample, rows, random.SystemRandom().randrange(1 << 32) if seed is None else seed)
    elif not conditions and (not offset or file == "-"):
        with _opened(file, columns, anywhere=False) as (found, _):  # read in order, also from a pipe
            total = partial(_total, file, found, offset)
            _show(file, found.schema, _between(found, offset, rows), **printing, total=total)
        return
    else:
        most = offset + rows
        pick = lambda total: range(min(offset, total), min(offset + rows, total))  # noqa: E731
    with _chosen(file, columns, conditions, pick, most) as (schema, batches):
        _show(file, schema, batches, **printing)


@click.command()
@FILE
@_count_option
@click.option("-f", "--follow", is_flag=True, help="Then print rows as a writer appends them to a stream.")
@click.option("--timeout", type=click.FloatRange(0), metavar="S", help="With -f: end after S seconds without rows.")
@where_option
@_table_options
def tail(
    file: str,
    rows: int,
    follow: bool,
    timeout: float | None,
    conditions: tuple[str, ...],
    columns: str | None,
    **printing: Any,
) -> None:
    """Print the last rows of FILE as a table; FILE as for `head`.

    With -f, FILE is the path of a stream: rows are printed until its end marker comes. If FILE is renamed or replaced,
    the new one is followed.

    JSON: as `head` prints it.
    """
    if follow or timeout is not None:
        if not follow or printing["output"] is not None or file == "-":
            raise click.UsageError("-f prints the rows of a file: give a path, leave -o out; --timeout goes with -f")
        chosen = columns_of(columns)
        read = None if conditions else chosen
        with about(file), ipc.open_stream(file, columns=read, follow=True, timeout=timeout) as reader:
            _follow(file, reader, rows, from_text(conditions, reader.schema), chosen, printing)
        return
    with _chosen(file, columns, conditions, lambda total: range(max(total - rows, 0), total)) as (schema, batches):
        _show(file, schema, batches, **printing)


def _follow(
    file: str, reader: Any, rows: int, filters: Any, columns: Sequence[str] | None, printing: dict[str, Any]
) -> None:
    """Print the last existing rows, and then all that are appended."""

    def passing(timeout: float | None) -> Iterator[Any]:
        reader.timeout = timeout
        for batch in reader:
            kept = batch.take(rows_passing(filters, batch)) if filters else batch
            yield kept.select(columns) if filters and columns is not None else kept

    def show(*batches: Any) -> None:
        if any(map(len, batches)):
            _show(file, batches[0].schema, iter(batches), **printing)
            with to_output():
                sys.stdout.flush()

    timeout, last = reader.timeout, deque[Any]()
    with suppress(ipc.TruncatedError):  # the next batch is not complete yet
        for batch in passing(0):
            last.append(batch)
            while last and sum(map(len, last)) - len(last[0]) >= rows:
                last.popleft()
    surplus = max(sum(map(len, last)) - rows, 0)
    show(*[batch.slice(surplus if i == 0 else 0) for i, batch in enumerate(last)])
    for batch in passing(timeout):
        show(batch)


@click.command()
@FILE
@where_option
@json_option
def count(file: str, conditions: tuple[str, ...], as_json: bool) -> None:
    """Print the number of rows of FILE; FILE as for `head`. Without --where, no values are read.

    JSON: {"rows"}.
    """
    piped = file == "-" and not conditions
    with _opened(file, "" if piped else None, conditions, anywhere=not piped) as (found, numbers):
        rows = sum(map(len, found)) if piped else found.count_rows() if numbers is None else len(numbers)
    if as_json:
        say_json({"rows": rows})
    else:
        say_line(str(rows))


def _numbers(text: str, total: int) -> Sequence[int]:
    """Return the rows of a list such as 5,17-20."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(-?\d+)(?:\s*-\s*(\d+))?\s*", part)
        if match is None:
            raise click.UsageError(f"--take: expected numbers and ranges, such as 5,17-20, found {part!r}")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        for row in (first, last):
            if not -total <= row < total:
                raise click.UsageError(f"--take: row {row} is out of range: there are {counted(total, 'row')}, from 0")
        if last < first:
            raise click.UsageError(f"--take: the range {part.strip()!r} ends before it begins")
        found += range(first, last + 1)
    return found


def _sample(rows: int, seed: int, total: int) -> Sequence[int]:
    """Return random rows, all equally likely, in rising order."""
    chosen = sorted(random.Random(seed).sample(range(total), min(rows, total)))
    say_note(f"{len(chosen):,} of {counted(total, 'row')}, --seed {seed}")
    return chosen


def _between(batches: Any, offset: int, rows: int) -> Iterator[Any]:
    for batch in batches if rows else ():
        piece = batch.slice(min(offset, len(batch)), rows)
        offset -= min(offset, len(batch))
        rows -= len(piece)
        yield piece
        if not rows:
            return


# -- printing ------------------------------------------------------------------------------------------------


def _show(
    file: str,
    schema: Any,
    batches: Iterator[Any],
    *,
    as_json: bool,
    output: str | None,
    kind: str | None,
    force: bool,
    total: Callable[[], int | None] = lambda: None,
) -> None:
    """Write rows to `output`, or print them as JSON or as a table, with the number of rows that were left out."""
    if kind is not None and output is None:
        raise click.UsageError("--to is the format of a file: give -o FILE, too; --json prints rows as lines")
    if output is not None:
        kind = checked_output(output, kind, force, [file])
        named = named_batches(file, ((None, batch) for batch in batches))
        with about(output, True), Progress("writing", output=output) as progress:
            rows, count = write_batches(output, kind, schema, named, progress, {})
        say_written(output, kind, rows, count, as_json)
        return
    if as_json:
        for batch in batches:
            _say_rows(batch)
        return
    if not len(schema):
        say_line(f"no columns, {counted(sum(map(len, batches)), 'row')} in the first batches")
        return
    shown, there = _say_table(schema, batches, width()), total()
    if there is not None and there > shown:
        say_line(f"... and {counted(there - shown, 'more row')}, {there:,} in all", dim=True)


def _total(file: str, found: Any, offset: int) -> int | None:
    """Return the number of rows of a source; None with an offset, for a URL (it would need requests), or on errors."""
    if offset or "://" in file:
        return None
    try:
        return int(found.count_rows())
    except (ipc.ArrowIpcError, OSError):
        return None


def _say_rows(batch: Any) -> None:
    """Print each row as a line of JSON, a thousand rows of Python values at a time."""
    names = batch.schema.names
    repeated = len(set(names)) != len(names)
    for start in range(0, len(batch), 1000):
        piece = batch.slice(start, 1000)
        lists = [column.to_pylist(extensions=FINE_JSON) for column in piece.columns]
        for i in range(len(piece)):
            pairs = [(name, as_json(values[i])) for name, values in zip(names, lists, strict=True)]
            say_json(pairs if repeated else dict(pairs), line=True)


class _Column(NamedTuple):
    """A printed column: its field, its name, its values, cut to `most` characters, and the width that it needs."""

    field: Any
    name: str
    texts: list[str]
    most: int
    need: int

    def going_on(self, position: int, batches: list[Any]) -> _Column:
        """Return the same column with the values of the next page, which may need more width."""
        texts = _texts(batches, position, self.most)
        return self._replace(texts=texts, need=max(self.need, fit(texts)))


def _texts(batches: list[Any], position: int, most: int) -> list[str]:
    """Return the texts of a column's values; numbers and times are never cut."""
    columns = [batch.column(position) for batch in batches]
    return [value_text(column, k, most, quotes=False) for column in columns for k in range(len(column))]


def _fitting(schema: Any, batches: list[Any], room: int, most: int) -> list[_Column]:
    """Return the first columns that fit into `room` characters, each cut to `most`."""
    found: list[_Column] = []
    for i, field in enumerate(schema.fields):
        texts = _texts(batches, i, most)
        name = shorten(printable(field.name), most)
        # The type makes a column only slightly wider, else it is cut: the command `schema` prints all of it.
        need = fit([name, *texts, "x" * min(len(type_text(field.type, most)), TYPE_WIDTH)])
        if found and sum([each.need + 2 for each in found]) + need > room:
            break
        found.append(_Column(field, name, texts, most, need))
    return found


def _pages(batches: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield rows in pages of PAGE rows; the last one may be empty, so there is at least one."""
    page: list[Any] = []
    left = PAGE
    for batch in batches:
        rest = batch
        while len(rest):
            page.append(rest.slice(0, left))
            left -= len(page[-1])
            rest = rest.slice(len(page[-1]))
            if not left:
                yield page
                page, left = [], PAGE
    yield page


def _say_table(schema: Any, batches: Iterator[Any], room: int) -> int:
    """Print rows, page by page, as a table of the columns that fit into `room` characters; return how many rows."""
    columns: list[_Column] = []
    most, count = max(min(CELL_WIDTH, room - 3), 4), 0
    for page in _pages(batches):
        if not columns:
            columns = _fitting(schema, page, room, most)
            if len(columns) < len(schema):  # prefer more columns to wide ones
                columns = _fitting(schema, page, room, max(min(most, room // 3), LEAST_WIDTH))
        elif not page:
            break
        else:
            columns = [column.going_on(i, page) for i, column in enumerate(columns)]
        _say_page(columns, room, with_head=not count)
        count += sum(map(len, page))
    _say_left(schema.names[len(columns) :], max(room, 20))
    return count


def _say_page(columns: list[_Column], room: int, with_head: bool) -> None:
    from rich.text import Text

    from arrowipc.types import Decimal, FloatingPoint, Int

    table = plain_table()
    table.show_header = with_head
    for field, name, _, _, need in columns:
        right = isinstance(field.type, (Int, FloatingPoint, Decimal))
        title = Text.assemble((name, "bold"), "\n", (type_text(field.type, need), "dim cyan"))
        table.add_column(title, justify="right" if right else "left", no_wrap=True, width=need)
    for row in zip(*[each.texts for each in columns], strict=True):
        table.add_row(*[Text(text, style="dim italic" if text is NULL else "") for text in row])
    out = console()
    out.width = max(room, sum([each.need + 2 for each in columns])) + 2
    out.print(table, soft_wrap=False, crop=False)


def _say_left(names: list[str], room: int) -> None:
    """Print the names of the columns that did not fit, as many as fit into two lines."""
    if not names:
        return
    line = f"... and {counted(len(names), 'more column')}: "
    shown = 0
    for name in names:
        text = shorten(printable(name), CELL_WIDTH)
        if shown and len(line) + len(text) > 2 * room - 5:
            break
        line += f"{', ' if shown else ''}{text}"
        shown += 1
    say_line(line + ("" if shown == len(names) else ", ..."), dim=True)
