"""`stat`: statistics and sizes of each column of a source, with one batch in memory at a time."""

from __future__ import annotations

from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

import arrowipc as ipc
from arrowipc import datatypes as at
from arrowipc.cli.sources import about, source
from arrowipc.cli.terminal import (
    FILE,
    FINE_JSON,
    Progress,
    as_json,
    console,
    fit,
    json_option,
    plain_table,
    say_json,
    say_line,
    width,
)
from arrowipc.errors import printable
from arrowipc.values.dtypes import dtype_of
from arrowipc.values.preview import counted, scalar_text, shorten, size_text, type_text, value_text

if TYPE_CHECKING:
    from arrowipc.inspection.message_layout import Node
    from arrowipc.types import Field

#: Most characters of a name or a type, and of a text value; numbers are never cut.
NAME_WIDTH, CELL_WIDTH = 60, 20


class Column:
    """The statistics of one column, collected so far."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.rows: int = 0
        self.nulls: int = 0
        self.min: Any = None
        self.max: Any = None
        self.stored: int = 0
        self.raw: int = 0
        self.dictionary: int = 0
        self.codecs: set[str] = set()

    def weigh(self, nodes: list[Node], codec: str | None, dictionary: bool) -> None:
        """Add the bytes of the column's nodes in one message."""
        stored = sum([buffer.length for node in nodes for buffer in node.buffers])
        self.stored += stored
        self.raw += sum([buffer.raw_length or 0 for node in nodes for buffer in node.buffers])
        if dictionary:
            self.dictionary += stored
        if codec is not None:
            self.codecs.add(codec)

    def add(self, column: Any, found: Any) -> None:
        """Add the counts and bounds of the column in one batch; `found` is its statistics, or None."""
        self.rows += len(column)
        self.nulls += column.null_count if found is None or found.null_count is None else found.null_count
        if found is not None:
            for name, choose in (("min", min), ("max", max)):
                bound, old = getattr(found, name), getattr(self, name)
                if bound is not None:
                    if bound == 0 and isinstance(bound, float):
                        bound = 0.0  # stands for both zeros: a batch's bounds do not distinguish them
                    setattr(self, name, bound if old is None else choose(old, bound, key=_in_bytes))


def _in_bytes(bound: Any) -> Any:
    """Return the key to compare bounds: of texts the bytes, as in the statistics of batches."""
    return bound.encode() if isinstance(bound, str) else bound


class Survey:
    """All columns of a source, and the sizes of its messages."""

    def __init__(self, schema: Any) -> None:
        from arrowipc.inspection.message_layout import dictionary_fields

        self.columns: list[Column] = [Column(field) for field in schema]
        self.rows: int = 0
        self.batches: int = 0
        self.messages: int = 0
        self.size: int = 0
        self.metadata: int = 0
        self.checksums: bool = True
        self._schema = schema
        self._renamed = ipc.Schema([field.__replace__(name=str(i)) for i, field in enumerate(schema)])
        self._dictionaries = dictionary_fields(self._renamed)

    def weigh(self, located: Any) -> None:
        """Add the sizes of a message."""
        from arrowipc.decode.framing import checksum_of
        from arrowipc.inspection.message_layout import nodes_of, outline_of

        self.messages += 1
        self.size += located.metadata_length + located.body_length
        self.metadata += located.metadata_length
        self.checksums &= checksum_of(located.message) is not None
        found = outline_of(located.message)
        if found is None:
            return
        if found.dictionary_id is None:
            nodes = nodes_of(located.message, self._renamed.fields)
            starts = [i for i, node in enumerate(nodes) if node.depth == 0]
            bounds = pairwise([*starts, len(nodes)])
            for column, (start, stop) in zip(self.columns, bounds, strict=True):
                column.weigh(nodes[start:stop], found.codec, False)
        elif found.dictionary_id in self._dictionaries:
            path, kind = self._dictionaries[found.dictionary_id]
            nodes = nodes_of(located.message, [ipc.Field("", kind.value_type)])
            self.columns[int(path.partition(".")[0])].weigh(nodes, found.codec, True)

    def add(self, batch: Any) -> None:
        """Add the statistics of a batch."""
        self.batches += 1
        self.rows += len(batch)
        names = self._renamed.names
        # Use numbers as names: two columns may have the same name, and a name may contain a dot.
        numbered = ipc.RecordBatch.from_pydict(dict(zip(names, batch.columns, strict=True)), self._renamed)
        found = ipc.compute_statistics(numbered) if names else {}
        for name, column, values in zip(names, self.columns, batch.columns, strict=True):
            column.add(values, found.get(name))


def survey(data: Any) -> Survey:
    """Read all of a source: its messages for sizes, then its batches for values."""
    from arrowipc.inspection.message_layout import locate_messages
    from arrowipc.sources.source import whole

    buffer = whole(data, True)
    with ipc.open(buffer) as reader:
        found = Survey(reader.schema)
        for located in locate_messages(buffer):
            found.weigh(located)
        with Progress("reading", sum([column.raw for column in found.columns])) as progress:
            for batch in reader:
                found.add(batch)
                progress.advance(batch.nbytes)
    return found


@click.command()
@FILE
@json_option
def stat(file: str, as_json: bool) -> None:
    """Print statistics of each column of FILE.

    These are nulls, minimum, maximum, bytes without compression (raw), bytes as stored, bytes of dictionaries, and the
    column's share of all bytes. Minimum and maximum of text and binary columns are cut to 64 bytes. One batch is in
    memory at a time. If a table would be too wide, each column is printed as lines.

    JSON: {"rows", "batches", "messages", "bytes", "metadata_bytes", "checksums", "columns": [{"name", "type", "nulls",
    "min", "max", "raw_bytes", "stored_bytes", "dictionary_bytes", "codecs"}]}; bounds as `head --json` spells values.
    """
    with about(file):
        found = survey(source(file))
    if as_json:
        say_json(_document(found))
        return
    say_line(
        f"{counted(found.rows, 'row')} in {counted(found.batches, 'batch', 'batches')}, "
        f"{counted(len(found.columns), 'column')}, {size_text(found.size)} in "
        f"{counted(found.messages, 'message')}, {size_text(found.metadata)} of them metadata"
        + (", with checksums" if found.checksums else ""),
        bold=True,
    )
    if found.columns:
        _say_table(found)


#: Titles of the table.
TITLES = ("column", "type", "nulls", "min", "max", "raw", "stored", "dict", "share")


def _say_table(found: Survey) -> None:
    """Print the statistics as a table, or, if that is too wide, as lines below each column's name."""
    from rich.text import Text

    rows = [cells_of(found, column) for column in found.columns]
    needs = {title: fit([title, *[row[title] for row in rows]]) for title in TITLES}
    if sum(needs.values()) + 2 * len(needs) - 2 > width():
        for row in rows:
            say_line(f"{row['column']}: {row['type']}", bold=True)
            facts = [f"{title}\xa0{row[title]}" for title in TITLES[2:] if row[title] not in ("", "-")]
            text = ", ".join([each.replace(" ", "\xa0") for each in facts])  # lines are not broken inside one
            for line in wrap(text, width() - 2, break_long_words=False, break_on_hyphens=False):
                say_line("  " + line.replace("\xa0", " "))
        return
    table = plain_table()
    for title, need in needs.items():
        left = title in ("column", "type", "min", "max")
        table.add_column(title, justify="left" if left else "right", no_wrap=True, min_width=need)
    for row in rows:
        table.add_row(*[Text(row[title]) for title in needs])
    console().print(table)


def cells_of(found: Survey, column: Column) -> dict[str, str]:
    """Return the statistics of a column as short texts, by the titles of the table."""
    kind = column.field.type
    return {
        "column": shorten(printable(column.field.name), NAME_WIDTH),
        "type": type_text(kind, NAME_WIDTH),
        "nulls": f"{column.nulls:,}" if column.nulls else "-",
        "min": _bound_text(column.min, column.field),
        "max": _bound_text(column.max, column.field),
        "raw": size_text(column.raw),
        "stored": size_text(column.stored) + (f" {min(column.codecs)}" if column.codecs else ""),
        "dict": size_text(column.dictionary) if column.dictionary else "-",
        "share": f"{column.stored / found.size:.0%}" if found.size else "",
    }


def _bound_value(bound: Any, field: Field) -> Any:
    """Return a stored bound as an array of one value of the column's type; None if there is no bound to convert."""
    kind = field.type
    if isinstance(bound, bytes) and field.extension_name:
        return ipc.RecordBatch.from_arrays([ipc.array([bound], kind)], schema=[field]).column(0)
    while isinstance(kind, (at.Dictionary, at.RunEndEncoded)):
        kind = kind.value_type
    if bound is None or not isinstance(kind, (at.Decimal, at.Date, at.Time, at.Timestamp, at.Duration)):
        return None
    data = bound.to_bytes(dtype_of(kind).itemsize, "little", signed=True)
    schema = ipc.Schema([ipc.Field("", kind)])
    return ipc.RecordBatch.from_buffers(schema, 1, [(1, 0)], [None, data]).column(0)


def _bound_text(bound: Any, field: Field) -> str:
    if bound is None:
        return "-"
    array = _bound_value(bound, field)
    if array is not None:
        return value_text(array, 0, CELL_WIDTH)
    return (
        shorten(printable(str(bound)), CELL_WIDTH)
        if isinstance(bound, (str, bytes))
        else scalar_text(bound, field.type)
    )


def _document(found: Survey) -> dict[str, Any]:
    columns = []
    for column in found.columns:
        bounds = []
        for bound in (column.min, column.max):
            array = _bound_value(bound, column.field)
            bounds.append(as_json(bound if array is None else array.to_pylist(extensions=FINE_JSON)[0]))
        columns.append(
            {
                "name": column.field.name,
                "type": str(column.field.type),
                "nulls": column.nulls,
                "min": bounds[0],
                "max": bounds[1],
                "raw_bytes": column.raw,
                "stored_bytes": column.stored,
                "dictionary_bytes": column.dictionary,
                "codecs": sorted(column.codecs),
            }
        )
    return {
        "rows": found.rows,
        "batches": found.batches,
        "messages": found.messages,
        "bytes": found.size,
        "metadata_bytes": found.metadata,
        "checksums": found.checksums,
        "columns": columns,
    }
