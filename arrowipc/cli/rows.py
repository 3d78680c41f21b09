"""`head`, `tail`, `take`, `sample` and `count`: rows of a source, by where they lie in it."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import click

import arrowipc as ipc
from arrowipc.arguments import printable
from arrowipc.cli.outputs import checked_output, output_options, write_batches
from arrowipc.cli.sources import about, source
from arrowipc.cli.terminal import (
    FILE,
    Progress,
    as_json,
    column_option,
    columns_of,
    console,
    counted,
    fit,
    json_option,
    plain_table,
    say_json,
    say_line,
    say_note,
    say_written,
    width,
)
from arrowipc.cli.where import filters_of, where_option
from arrowipc.values.preview import NULL, shorten, type_text, value_text

#: Widest cell of a table.
CELL_WIDTH = 40
#: What is left of it in a narrow terminal, where the columns do not fit.
LEAST_WIDTH = 8
#: Characters of a type that make its column wider.
TYPE_WIDTH = 14
#: Rows that are taken at a time where each is printed by itself.
PIECE = 10_000

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _count_option(words: str) -> Callable[[_Command], _Command]:
    return click.option("-n", "--rows", type=click.IntRange(0), default=10, show_default=True, help=words)


def _table_options(command: _Command) -> _Command:
    """Add what all commands have that print rows: `wide`, `columns`, `as_json`, and where they go instead."""
    wide = click.option(
        "-w",
        "--width",
        "wide",
        type=click.IntRange(0),
        metavar="N",
        help="Characters of a line; 0: as many as all columns need.",
    )
    writing = output_options(default=None, words="Write the rows there, in place of a table.")
    made: _Command = wide(column_option(json_option(writing(command))))
    return made


# -- sources -------------------------------------------------------------------------------------------------


@contextmanager
def _rows(file: str, columns: str | None, conditions: Sequence[str] = (), *, anywhere: bool = True) -> Iterator[Any]:
    """Open a file, a stream, a folder or a pattern for its rows; errors name it.

    `anywhere`: also for `take`, `slice` and `count_rows`, for which a stream is looked through, and one that comes
    through a pipe is copied to the disk.
    """
    chosen = columns_of(columns)
    if file == "-" and conditions:
        raise click.UsageError("--where leaves out what need not be read, and all of standard input is: give a path")
    if file == "-" or not (conditions or os.path.isdir(file) or _is_pattern(file)):
        found = source(file)
        if anywhere and hasattr(found, "read"):
            from arrowipc.inspection.recover import whole

            found = memoryview(whole(found, True))
        with about(file), ipc.open(found, columns=chosen, index=anywhere) as reader:
            yield reader
        return
    with about(file):
        dataset = ipc.open_dataset(file)
        if conditions:
            dataset = _pruned(dataset, conditions)
        yield dataset if chosen is None else dataset.select(chosen)


def _is_pattern(path: str) -> bool:
    """Whether a name is no file, and could stand for several."""
    return bool(re.search(r"[*]" if "://" in path else r"[*?\[{]", path)) and not os.path.exists(path)


def _pruned(dataset: Any, conditions: Sequence[str]) -> Any:
    """Leave out what cannot hold what is looked for, and say how much that is."""
    left = dataset.filter(filters_of(conditions, dataset.schema))
    rows, kept = dataset.count_rows(), left.count_rows()
    say_note(
        f"--where: {rows - kept:,} of {counted(rows, 'row')} left out, in batches and files that hold no such row; "
        f"{kept:,} left, which are not filtered one by one"
    )
    return left


# -- commands ------------------------------------------------------------------------------------------------


@click.command()
@FILE
@_count_option("How many.")
@click.option("--offset", type=click.IntRange(0), default=0, metavar="N", help="Rows to leave out before them.")
@where_option
@_table_options
def head(file: str, rows: int, offset: int, conditions: tuple[str, ...], columns: str | None, **printing: Any) -> None:
    """Print the first rows of FILE as a table.

    FILE may also be a folder, or a pattern in quotes, of files and streams. Columns that do not fit are named below
    the table; long values are cut.

    JSON: one line per row, an object by column name (pairs of name and value where two columns share one).
    """
    with _rows(file, columns, conditions, anywhere=bool(offset) and file != "-") as found:
        far = offset and file != "-"  # what comes through a pipe is read as it comes
        batches = iter(found.slice(offset, rows).batches) if far else _between(found, offset, rows)
        _show(file, found.schema, batches, **printing)


@click.command()
@FILE
@_count_option("How many.")
@where_option
@_table_options
def tail(file: str, rows: int, conditions: tuple[str, ...], columns: str | None, **printing: Any) -> None:
    """Print the last rows of FILE as a table; FILE as for `head`.

    JSON: as `head` prints it.
    """
    with _rows(file, columns, conditions) as found:
        batches = found.slice(max(found.count_rows() - rows, 0), rows).batches
        _show(file, found.schema, iter(batches), **printing)


@click.command()
@FILE
@click.option(
    "--rows",
    "numbers",
    required=True,
    metavar="LIST",
    help="Numbers and ranges, such as 5,17-20: from 0, both ends included, in any order; -1 is the last row.",
)
@_table_options
def take(file: str, numbers: str, columns: str | None, **printing: Any) -> None:
    """Print some rows of FILE as a table, in the order in which they are named; FILE as for `head`.

    Only the batches that hold them are decoded.

    JSON: as `head` prints it.
    """
    with _rows(file, columns) as found:
        _show_taken(file, found, _numbers(numbers, found.count_rows()), **printing)


@click.command()
@FILE
@_count_option("How many.")
@click.option("--seed", type=int, help="For the same rows again.")
@where_option
@_table_options
def sample(
    file: str,
    rows: int,
    seed: int | None,
    conditions: tuple[str, ...],
    columns: str | None,
    **printing: Any,
) -> None:
    """Print rows of FILE that are chosen by chance, each at most once, as a table; FILE as for `head`.

    Every row is as likely as any other. They come in the order that they have in FILE.

    JSON: as `head` prints it.
    """
    if seed is None:
        seed = random.SystemRandom().randrange(1 << 32)
    with _rows(file, columns, conditions) as found:
        total = found.count_rows()
        chosen = sorted(random.Random(seed).sample(range(total), min(rows, total)))
        say_note(f"{len(chosen):,} of {counted(total, 'row')}, --seed {seed}")
        _show_taken(file, found, chosen, **printing)


@click.command()
@FILE
@where_option
@json_option
def count(file: str, conditions: tuple[str, ...], as_json: bool) -> None:
    """Print how many rows FILE has; FILE as for `head`. No values are read.

    With --where, how many rows lie in batches that may hold such rows: at most so many do.

    JSON: {"rows"}.
    """
    with _rows(file, None if file != "-" else "", conditions, anywhere=file != "-") as found:
        rows = sum(map(len, found)) if file == "-" else found.count_rows()
    if as_json:
        say_json({"rows": rows})
    else:
        say_line(str(rows))


def _numbers(text: str, total: int) -> Sequence[int]:
    """Rows that a list names, such as 5,17-20."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(-?\d+)(?:\s*-\s*(\d+))?\s*", part)
        if match is None:
            raise click.UsageError(f"--rows: expected numbers and ranges, such as 5,17-20, found {part!r}")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        for row in (first, last):
            if not -total <= row < total:
                raise click.UsageError(f"--rows: row {row} is out of range: there are {counted(total, 'row')}, from 0")
        if last < first:
            raise click.UsageError(f"--rows: the range {part.strip()!r} ends before it begins")
        found += range(first, last + 1)
    return found


def _between(batches: Any, offset: int, rows: int) -> Iterator[Any]:
    for batch in batches if rows else ():
        piece = batch.slice(min(offset, len(batch)), rows)
        offset -= min(offset, len(batch))
        rows -= len(piece)
        yield piece
        if not rows:
            return


# -- printing ------------------------------------------------------------------------------------------------


def _show_taken(file: str, found: Any, rows: Sequence[int], **printing: Any) -> None:
    pieces = (found.take(rows[start : start + PIECE]) for start in range(0, len(rows), PIECE))
    _show(file, found.schema, pieces, **printing)


def _show(
    file: str,
    schema: Any,
    batches: Iterator[Any],
    *,
    wide: int | None,
    as_json: bool,
    output: str | None,
    kind: str | None,
    force: bool,
) -> None:
    """Write rows to `output`, print them as they come, or all of them as a table."""
    if output is not None:
        kind = checked_output(output, kind, force, [file])
        with about(output), Progress("writing") as progress:
            rows, count = write_batches(output, kind, schema, _named(file, batches), progress, {})
        say_written(output, kind, rows, count, as_json)
        return
    if as_json:
        for batch in batches:
            _say_rows(batch)
        return
    kept = list(batches)
    if not len(schema):
        say_line(f"no columns, {counted(sum(map(len, kept)), 'row')} in the first batches")
        return
    _say_table(schema, kept, width() if wide is None else wide)


def _named(file: str, batches: Iterator[Any]) -> Iterator[tuple[None, Any]]:
    """The same batches, without messages; errors of reading them, unlike those of writing, name `file`."""
    with about(file):
        for batch in batches:
            yield None, batch


def _say_rows(batch: Any) -> None:
    """Print each row as a line of JSON, a thousand rows of Python values at a time."""
    names = batch.schema.names
    repeated = len(set(names)) != len(names)
    for start in range(0, len(batch), 1000):
        piece = batch.slice(start, 1000)
        lists = [column.to_pylist() for column in piece.columns]
        for i in range(len(piece)):
            pairs = [(name, as_json(values[i])) for name, values in zip(names, lists, strict=True)]
            say_json(pairs if repeated else dict(pairs), line=True)


class _Column(NamedTuple):
    """A column as it is printed: its field, its name, its values, and the cells of a line that they take."""

    field: Any
    name: str
    texts: list[str]
    need: int


def _fitting(schema: Any, batches: list[Any], room: int, most: int) -> list[_Column]:
    """The first columns that fit into `room` characters (0: all), cut to `most` each."""
    found: list[_Column] = []
    for i, field in enumerate(schema.fields):
        texts = [value_text(batch.column(i), k, most, quotes=False) for batch in batches for k in range(len(batch))]
        name = shorten(printable(field.name), most)
        # The type is cut to what the values take: `schema` spells it out.
        need = fit([name, *texts, "x" * min(len(type_text(field.type, most)), TYPE_WIDTH)], most)
        if room and found and sum([each.need + 2 for each in found]) + need > room:
            break
        found.append(_Column(field, name, texts, need))
    return found


def _say_table(schema: Any, batches: list[Any], room: int) -> None:
    """Print rows as a table of the columns that fit into `room` characters (0: all)."""
    from rich.text import Text

    from arrowipc.types import Decimal, FloatingPoint, Int

    most = CELL_WIDTH if not room else max(min(CELL_WIDTH, room - 3), 4)
    columns = _fitting(schema, batches, room, most)
    if len(columns) < len(schema):  # rather more of them than all of the first
        columns = _fitting(schema, batches, room, max(min(most, room // 3), LEAST_WIDTH))
    table = plain_table()
    for field, name, _, need in columns:
        right = isinstance(field.type, (Int, FloatingPoint, Decimal))
        title = Text.assemble((name, "bold"), "\n", (type_text(field.type, need), "dim cyan"))
        table.add_column(title, justify="right" if right else "left", no_wrap=True, width=need)
    for row in zip(*[each.texts for each in columns], strict=True):
        table.add_row(*[Text(text, style="dim italic" if text is NULL else "") for text in row])
    out = console()
    out.width = max(room, sum([each.need + 2 for each in columns])) + 2
    out.print(table, soft_wrap=False, crop=False)
    _say_left(schema.names[len(columns) :], max(room, 20))


def _say_left(names: list[str], room: int) -> None:
    """Name the columns that did not fit, as many as two lines take."""
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
