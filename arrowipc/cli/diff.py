"""`diff`: compares the schemas and rows of two sources, and prints the first differences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import click

import arrowipc as ipc
from arrowipc.cli.outputs import named_batches
from arrowipc.cli.sources import PLACE, opened
from arrowipc.cli.terminal import (
    FINE_JSON,
    Progress,
    as_json,
    column_option,
    columns_of,
    console,
    json_option,
    plain_table,
    say_json,
    say_line,
    width,
)
from arrowipc.derived.dictionary_encode import rebatch
from arrowipc.errors import UsageError, printable, showable
from arrowipc.values.preview import counted, shorten, value_text

#: Rows that are compared at a time.
ROWS = 1 << 16


@click.command()
@click.argument("left", metavar="LEFT", type=PLACE)
@click.argument("right", metavar="RIGHT", type=PLACE)
@click.option(
    "-n",
    "--differences",
    "most",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Maximum differences to print.",
)
@click.option("--metadata", is_flag=True, help="Compare metadata of schemas and fields, too.")
@column_option
@json_option
def diff(left: str, right: str, most: int, metadata: bool, columns: str | None, as_json: bool) -> None:
    """Compare the schemas and the rows of two sources, in order; exit with 1 if they differ.

    How rows are cut into batches, framing, compression and dictionaries do not matter; NaN equals NaN.
    Columns are compared by name; where the types of two differ, only that is printed.

    JSON: {"equal", "schema": [{"column", "left", "right"}], "rows": {"left", "right"}, "differences":
    [{"row", "column", "left", "right"}], "complete"}; complete: these are all differences.
    """
    if left == right == "-":
        raise UsageError("standard input can be read only once; use a file for one of the two")
    chosen = columns_of(columns)
    with (
        opened(left, columns=chosen) as one,
        opened(right, columns=chosen) as other,
        Progress("comparing") as progress,
    ):
        schema = list(_schema_differences(one.schema, other.schema, metadata))
        pairs = _pairs(one.schema, other.schema)
        sides = named_batches(left, one), named_batches(right, other)
        found, rows, complete = _compare(*sides, pairs, most, progress)
    equal = not schema and not found and rows[0] == rows[1]
    if as_json:
        say_json(
            {
                "equal": equal,
                "schema": schema,
                "rows": {"left": rows[0], "right": rows[1]},
                "differences": [dict(zip(("row", "column", "left", "right"), each[:4], strict=True)) for each in found],
                "complete": complete,
            }
        )
    else:
        _say(left, right, schema, rows, found, complete)
    if not equal:
        raise click.exceptions.Exit(1)


def _pairs(one: ipc.Schema, other: ipc.Schema) -> list[tuple[str, int, int]]:
    """Return name and positions of columns of the same name and type; equal names are paired in their order."""
    places: dict[str, list[int]] = {}
    for j, name in enumerate(other.names):
        places.setdefault(name, []).append(j)
    pairs = []
    for i, name in enumerate(one.names):
        if places.get(name) and one.fields[i].type == other.fields[j := places[name].pop(0)].type:
            pairs.append((name, i, j))
    return pairs


def _schema_differences(one: ipc.Schema, other: ipc.Schema, metadata: bool) -> Iterator[dict[str, Any]]:
    names = list(dict.fromkeys([*one.names, *other.names]))
    for name in names:
        sides = [[schema.fields[i] for i in schema.get_all_field_indices(name)] for schema in (one, other)]
        for k in range(max(map(len, sides))):
            words = [_field_text(side[k], metadata) if k < len(side) else None for side in sides]
            same = None not in words and sides[0][k].equals(sides[1][k], check_metadata=metadata)
            if not same:
                yield {"column": name, "left": words[0], "right": words[1]}
    if one.names != other.names and sorted(one.names) == sorted(other.names):
        at = next(i for i, names in enumerate(zip(one.names, other.names, strict=True)) if names[0] != names[1])
        words = [f"order: column {at} is {schema.names[at]!r}" for schema in (one, other)]
        yield {"column": None, "left": words[0], "right": words[1]}
    if metadata and one.metadata != other.metadata:
        yield {"column": None, "left": f"metadata {one.metadata}", "right": f"metadata {other.metadata}"}


def _field_text(field: ipc.Field, metadata: bool) -> str:
    words = f"{field.type}{'' if field.nullable else ' not null'}"
    return f"{words} {dict(field.metadata)}" if metadata and field.metadata else words


Difference = tuple[int, str, Any, Any, str, str]


def _compare(
    one: Any, other: Any, pairs: list[tuple[str, int, int]], most: int, progress: Progress
) -> tuple[list[Difference], tuple[int, int], bool]:
    """Return the first differences by row, the numbers of rows, and whether these are all differences."""
    found: list[Difference] = []
    rows = [0, 0]
    complete = True
    for a, b in zip_longest(rebatch(one, ROWS), rebatch(other, ROWS)):
        if a is not None and b is not None and complete:
            here: list[Difference] = []
            both = min(len(a), len(b))
            for name, i, j in pairs:
                left, right = a.column(i).slice(0, both), b.column(j).slice(0, both)
                for at in _differing(left, right, most + 1):
                    here.append((rows[0] + at, name, *_both(left, right, at)))
            here.sort(key=lambda each: each[0])
            found += here
            if len(found) > most:
                found, complete = found[:most], False
        rows[0] += 0 if a is None else len(a)
        rows[1] += 0 if b is None else len(b)
        progress.advance(sum([side.nbytes for side in (a, b) if side is not None]))
    return found, (rows[0], rows[1]), complete


def _differing(left: Any, right: Any, most: int) -> list[int]:
    """Return the first rows in which two columns differ, by halving: equal halves are not compared again."""
    found: list[int] = []
    waiting = [(0, len(left))]
    while waiting and len(found) < most:
        start, count = waiting.pop()
        if left.slice(start, count).equals(right.slice(start, count), nan_equal=True):
            continue
        if count == 1:
            found.append(start)
        else:
            half = count // 2
            waiting += [(start + half, count - half), (start, half)]
    return found


def _both(left: Any, right: Any, at: int) -> tuple[Any, Any, str, str]:
    values = [as_json(side.slice(at, 1).to_pylist(extensions=FINE_JSON)[0]) for side in (left, right)]
    return values[0], values[1], value_text(left, at, 60), value_text(right, at, 60)


def _tail(path: str, most: int) -> str:
    """Return a path, shortened at its beginning, because paths usually differ at their ends."""
    path = showable(path)
    return path if len(path) <= most else "..." + path[3 - most :]


def _say(
    left: str,
    right: str,
    schema: list[dict[str, Any]],
    rows: tuple[int, int],
    found: list[Difference],
    complete: bool,
) -> None:
    if not schema and not found and rows[0] == rows[1]:
        say_line(f"equal: {counted(rows[0], 'row')}", fg="green")
        return
    from rich.text import Text

    most = max((width() - 30) // 2, 10)
    table = plain_table()
    for title in ("row", "column", _tail(left, most), _tail(right, most)):
        table.add_column(Text(title), justify="right" if title == "row" else "left", overflow="fold")
    for each in schema[:100]:
        name = "-" if each["column"] is None else shorten(printable(each["column"]), 30)
        sides = [
            Text("no such column", "dim") if each[side] is None else Text(shorten(printable(each[side]), most * 3))
            for side in ("left", "right")
        ]
        table.add_row(Text("schema", "yellow"), Text(name), *sides)
    if rows[0] != rows[1]:
        table.add_row(Text("rows", "yellow"), "", f"{rows[0]:,}", f"{rows[1]:,}")
    for row, column, _, _, a, b in found:
        sides = [Text(a, "red"), Text(b, "green")]
        table.add_row(f"{row:,}", Text(shorten(printable(column), 30)), *sides)
    console().print(table)
    if len(schema) > 100:
        say_line(f"and {len(schema) - 100:,} more differences of the schemas")
    if not complete:
        say_line("and more: use -n to print them", dim=True)
