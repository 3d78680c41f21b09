"""`stat`: what each column of a source holds, one batch in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

import arrowipc as ipc
from arrowipc._arguments import printable
from arrowipc.cli.sources import about, source
from arrowipc.cli.terminal import (
    FILE,
    Progress,
    as_json,
    console,
    counted,
    fit,
    json_option,
    say_json,
    say_line,
    size_text,
    width,
)
from arrowipc.errors import ArrowIpcError
from arrowipc.preview import shorten, type_text, value_text

if TYPE_CHECKING:
    from arrowipc.anatomy import Node
    from arrowipc.types import DataType, Field

#: Columns of the table without --all.
SHOWN = 200
#: Widest cell.
CELL_WIDTH = 20


class Distinct:
    """Counts distinct values: exactly up to `BOUND` of them, beyond that by the smallest hashes.

    Hashes are spread evenly, so the position of the k-th smallest tells how many there are; with 4,096 the
    standard error is 1.6 %.
    """

    BOUND = 4096

    def __init__(self) -> None:
        import numpy as np

        self._smallest = np.empty(0, np.uint64)
        self._full = False

    def add(self, hashes: bytes) -> None:
        """Take the hashes of the values of a batch."""
        import numpy as np

        more = np.frombuffer(hashes, np.uint64)
        if self._full:
            more = more[more < self._smallest[-1]]
        if len(more):
            merged = np.unique(np.concatenate([self._smallest, more]))
            self._full = self._full or len(merged) > self.BOUND
            self._smallest = merged[: self.BOUND]

    @property
    def is_exact(self) -> bool:
        """bool: no value was left out."""
        return not self._full

    def __int__(self) -> int:
        if not self._full:
            return len(self._smallest)
        return round((self.BOUND - 1) * 2.0**64 / max(float(self._smallest[-1]), 1.0))


class Column:
    """What is known of one column so far."""

    def __init__(self, field: Field, schema: ipc.Schema) -> None:
        self.field = field
        self._schema = schema  # of its values alone
        self.nulls = 0
        self.min: Any = None
        self.max: Any = None
        self.stored = self.raw = self.dictionary = 0
        self.codecs: set[str] = set()
        self.distinct: Distinct | None = Distinct()

    def weigh(self, nodes: list[Node], codec: str | None, dictionary: bool) -> None:
        """Take the bytes of the column's nodes in one message."""
        stored = sum([buffer.length for node in nodes for buffer in node.buffers])
        self.stored += stored
        self.raw += sum([buffer.raw_length or 0 for node in nodes for buffer in node.buffers])
        if dictionary:
            self.dictionary += stored
        if codec is not None:
            self.codecs.add(codec)

    def add(self, column: Any, found: Any) -> None:
        """Take the values of one batch, and the statistics of them."""
        self.nulls += column.null_count if found is None or found.null_count is None else found.null_count
        if found is not None:
            for name, choose in (("min", min), ("max", max)):
                bound, old = getattr(found, name), getattr(self, name)
                if bound is not None:
                    setattr(self, name, bound if old is None else choose(old, bound, key=_sortable))
        if self.distinct is not None:
            from arrowipc._statistics import value_hashes

            try:
                self.distinct.add(value_hashes(ipc.RecordBatch.from_pydict({"": column}, self._schema)))
            except ArrowIpcError:
                self.distinct = None  # lists that share so much that to tell them apart takes too long


def _sortable(bound: Any) -> Any:
    return bound.encode() if isinstance(bound, str) else bound


class Survey:
    """All columns of a source, and what lies beside them."""

    def __init__(self, schema: Any) -> None:
        from arrowipc.anatomy import dictionary_fields

        # One for all columns of a type: to make one takes longer than to look at a few thousand values.
        alone = {field.type: ipc.Schema([ipc.Field("", field.type)]) for field in schema}
        self.columns = [Column(field, alone[field.type]) for field in schema]
        self.rows = self.batches = self.messages = self.size = self.metadata = 0
        self._schema = schema
        self._renamed = ipc.Schema([field.__replace__(name=str(i)) for i, field in enumerate(schema)])
        self._dictionaries = dictionary_fields(self._renamed)

    def weigh(self, located: Any) -> None:
        """Take the sizes of a message."""
        from arrowipc.anatomy import nodes_of, outline_of

        self.messages += 1
        self.size += located.metadata_length + located.body_length
        self.metadata += located.metadata_length
        found = outline_of(located.message)
        if found is None:
            return
        if found.dictionary_id is None:
            nodes = nodes_of(located.message, self._renamed.fields)
            starts = [i for i, node in enumerate(nodes) if node.depth == 0]
            for column, start, stop in zip(self.columns, starts, [*starts[1:], len(nodes)], strict=True):
                column.weigh(nodes[start:stop], found.codec, False)
        elif found.dictionary_id in self._dictionaries:
            path, kind = self._dictionaries[found.dictionary_id]
            nodes = nodes_of(located.message, [ipc.Field("", kind.value_type)])
            self.columns[int(path.partition(".")[0])].weigh(nodes, found.codec, True)

    def add(self, batch: Any) -> None:
        """Take the values of a batch."""
        self.batches += 1
        self.rows += len(batch)
        names = self._renamed.names
        # By number: two columns may share a name, and a name may hold a dot.
        numbered = ipc.RecordBatch.from_pydict(dict(zip(names, batch.columns, strict=True)), self._renamed)
        found = ipc.compute_statistics(numbered) if names else {}
        for name, column, values in zip(names, self.columns, batch.columns, strict=True):
            column.add(values, found.get(name))


def survey(file: str) -> Survey:
    """Read all of a source: its messages for sizes, its batches for values."""
    data = source(file)
    with Progress("reading") as progress:
        found: Survey | None = None
        for schema, located, batch in _parts(data):
            found = Survey(schema) if found is None else found
            if located is not None:
                found.weigh(located)
            if batch is not None:
                found.add(batch)
            progress.advance()
    assert found is not None
    return found


def _parts(data: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the schema with every message and every batch, each None where the other comes alone."""
    from arrowipc._stream import StreamDecoder
    from arrowipc.anatomy import locate_messages
    from arrowipc.events import BatchRead
    from arrowipc.reader import _first_bytes

    if _first_bytes(data) == b"ARROW1":
        with ipc.open(data) as reader:
            yield reader.schema, None, None
            for located in locate_messages(data):
                yield reader.schema, located, None
            for batch in reader:
                yield reader.schema, None, batch
        return
    decoder = StreamDecoder()
    for located in locate_messages(data):
        event = decoder.decode_next(located.message)
        yield decoder.schema, located, event.batch if isinstance(event, BatchRead) else None
    if decoder.schema is None:
        ipc.open_stream(b"").close()  # says that there is nothing


@click.command()
@FILE
@click.option("--all", "everything", is_flag=True, help=f"Also the columns behind the first {SHOWN}.")
@json_option
def stat(file: str, everything: bool, as_json: bool) -> None:
    """Print what each column of FILE holds.

    Nulls, the least and the greatest value, distinct values (exact up to 4,096; beyond, marked ~ and mostly
    within 2 %), bytes without compression, bytes as stored, the dictionary's part of these, and the column's
    share of all bytes. One batch is in memory at a time.

    JSON: {"rows", "batches", "messages", "bytes", "metadata_bytes", "columns": [{"name", "type", "nulls",
    "min", "max", "distinct", "distinct_is_exact", "raw_bytes", "stored_bytes", "dictionary_bytes",
    "codecs"}]}; bounds as `head --json` spells values.
    """
    with about(file):
        found = survey(file)
    if as_json:
        say_json(_document(found))
        return
    say_line(
        f"{counted(found.rows, 'row')} in {counted(found.batches, 'batch', 'batches')}, "
        f"{counted(len(found.columns), 'column')}, {size_text(found.size)} in "
        f"{counted(found.messages, 'message')}, {size_text(found.metadata)} of them metadata",
        bold=True,
    )
    if found.columns:
        _say_table(found, found.columns if everything else found.columns[:SHOWN])
    if len(found.columns) > SHOWN and not everything:
        say_line(f"... and {len(found.columns) - SHOWN:,} more columns: --all shows them", dim=True)


#: Titles of the table, and in which order they go where it is too wide.
TITLES = ("column", "type", "nulls", "min", "max", "distinct", "raw", "stored", "dict", "share")
DROPPED = ("dict", "raw", "type", "share", "max", "min", "stored", "nulls")


def _say_table(found: Survey, columns: list[Column]) -> None:
    from rich.table import Table
    from rich.text import Text

    rows = [_cells(found, column) for column in columns]
    needs = {title: fit([title, *[row[title] for row in rows]], CELL_WIDTH) + 2 for title in TITLES}
    for title in DROPPED:
        if sum(needs.values()) > width():
            del needs[title]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title, need in needs.items():
        left = title in ("column", "type", "min", "max")
        table.add_column(title, justify="left" if left else "right", no_wrap=True, min_width=need - 2)
    for row in rows:
        table.add_row(*[Text(row[title]) for title in needs])
    console().print(table)


def _cells(found: Survey, column: Column) -> dict[str, str]:
    kind = column.field.type
    return {
        "column": shorten(printable(column.field.name), CELL_WIDTH),
        "type": type_text(kind, CELL_WIDTH),
        "nulls": f"{column.nulls:,}" if column.nulls else "-",
        "min": shorten(_bound_text(column.min, kind), CELL_WIDTH),
        "max": shorten(_bound_text(column.max, kind), CELL_WIDTH),
        "distinct": _distinct_text(column.distinct),
        "raw": size_text(column.raw),
        "stored": size_text(column.stored) + (f" {min(column.codecs)}" if column.codecs else ""),
        "dict": size_text(column.dictionary) if column.dictionary else "-",
        "share": f"{column.stored / found.size:.0%}" if found.size else "",
    }


def _distinct_text(distinct: Distinct | None) -> str:
    if distinct is None:
        return "?"
    return f"{'' if distinct.is_exact else '~'}{int(distinct):,}"


def _bound_value(bound: Any, kind: DataType) -> Any:
    """A bound as an array of one value of its column's type; None if there is none."""
    from arrowipc import types
    from arrowipc._assemble import assemble

    if isinstance(kind, (types.Dictionary, types.RunEndEncoded)):
        return _bound_value(bound, kind.value_type)
    wide = {types.Decimal: 16, types.Timestamp: 8, types.Duration: 8}
    size = wide.get(type(kind), 0)
    if isinstance(kind, (types.Decimal, types.Time)):
        size = kind.bit_width // 8
    if isinstance(kind, types.Date):
        size = 4 if kind.unit == "day" else 8
    if bound is None or not size:
        return None
    data = bound.to_bytes(size, "little", signed=True)
    return assemble(ipc.Schema([ipc.Field("", kind)]), 1, [(1, 0)], [None, data]).column(0)


def _bound_text(bound: Any, kind: DataType) -> str:
    if bound is None:
        return "-"
    array = _bound_value(bound, kind)
    return printable(str(bound)) if array is None else value_text(array, 0, 60)


def _document(found: Survey) -> dict[str, Any]:
    columns = []
    for column in found.columns:
        kind, bounds = column.field.type, []
        for bound in (column.min, column.max):
            array = _bound_value(bound, kind)
            bounds.append(as_json(bound if array is None else array.to_pylist()[0]))
        distinct = column.distinct
        columns.append(
            {
                "name": column.field.name,
                "type": str(kind),
                "nulls": column.nulls,
                "min": bounds[0],
                "max": bounds[1],
                "distinct": None if distinct is None else int(distinct),
                "distinct_is_exact": distinct is not None and distinct.is_exact,
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
        "columns": columns,
    }
