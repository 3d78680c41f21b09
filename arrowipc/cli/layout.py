"""`layout`: what lies where in a source, gathered for a picture of bounded size."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import arrowipc as ipc
from arrowipc.arguments import printable
from arrowipc.cli.sources import about, source, target
from arrowipc.cli.terminal import FILE, Progress, counted, json_option, say_json, say_note, size_text
from arrowipc.errors import UsageError
from arrowipc.values.preview import shorten, type_text

if TYPE_CHECKING:
    from arrowipc.inspection.message_layout import Located, Node

#: Messages that are drawn with all their parts: the first ones and the last ones.
FIRST, LAST = 12, 3
#: Parts of one message, beyond which neighbours are drawn as one; pieces of the strip of the whole source.
PARTS, PIECES = 300, 500


class Part(NamedTuple):
    """Some bytes of a message."""

    #: "metadata", "padding", or what a buffer is for.
    role: str
    offset: int
    length: int
    #: Everything that is known of it, a line each.
    words: str
    #: Index of the top-level column that it belongs to; None: none, or several.
    column: int | None = None
    #: What it would be without compression, where that differs.
    raw_length: int | None = None


class Piece(NamedTuple):
    """One message, or several that follow each other."""

    kind: str
    offset: int
    length: int
    title: str
    parts: tuple[Part, ...] = ()
    #: Names of the columns that `Part.column` counts.
    columns: tuple[str, ...] = ()


class Anatomy(NamedTuple):
    """All that the picture shows."""

    name: str
    format: str
    size: int
    title: str
    strip: list[Piece]
    messages: list[Piece]
    #: How many messages lie between the first and the last ones of `messages`, and where.
    omitted: int
    omitted_at: int


def anatomy_of(file: str) -> Anatomy:
    """Go through a source and keep what is drawn of it."""
    from arrowipc.inspection.message_layout import dictionary_fields, locate_messages
    from arrowipc.read.sources import first_bytes

    data = source(file)
    is_file = first_bytes(data) == b"ARROW1"
    outer = list(_frame_of(data)) if is_file else []
    size = outer[-1].offset + outer[-1].length if outer else 0
    first: list[Piece] = []
    last: deque[tuple[Located, int]] = deque(maxlen=LAST)
    pieces: list[Piece] = []
    schema: Any = None
    rows = batches = count = end = 0
    with Progress("reading", _size_of(data)) as progress:
        for number, located in enumerate(locate_messages(data)):
            if located.message.kind == "Schema":
                schema = ipc.read_schema(located.message)
            elif schema is None and is_file:
                schema = ipc.read_schema(data)
            known = {} if schema is None else dictionary_fields(schema)
            if number < FIRST:
                first.append(_piece(number, located, schema, known))
            else:
                last.append((located, number))
            found = _plain(number, located)
            rows += found[1] if located.message.kind == "RecordBatch" else 0
            batches += located.message.kind == "RecordBatch"
            pieces.append(found[0])
            progress.advance(located.metadata_length + located.body_length)
            count, end = number + 1, max(end, located.offset + located.metadata_length + located.body_length)
        shown = first + [_piece(number, located, schema, known) for located, number in last]
    if not is_file:
        total = _size_of(data) or end
        outer = [Piece("end marker", end, total - end, "end of the stream")] if total > end else []
        size = max(total, end)
    columns = 0 if schema is None else len(schema)
    title = (
        f"{counted(rows, 'row')}, {counted(columns, 'column')}, {counted(batches, 'batch', 'batches')}, "
        f"{counted(count, 'message')}, {size_text(size)}"
    )
    omitted = count - len(shown)
    strip = sorted([*_strip(pieces), *outer], key=lambda piece: piece.offset)
    name = "standard input" if file == "-" else os.path.basename(file)
    return Anatomy(name, "file" if is_file else "stream", size, title, strip, shown, omitted, FIRST)


def _size_of(data: Any) -> int | None:
    try:
        return os.path.getsize(data) if isinstance(data, str) else len(data)
    except (OSError, TypeError):
        return None


def _frame_of(data: Any) -> Iterator[Piece]:
    """What a file has around its messages."""
    from arrowipc.inspection.recover import whole
    from arrowipc.read.decoders import TAIL_SIZE, footer_range

    view = memoryview(whole(data, True)).cast("B")
    size = len(view)
    start, length = footer_range(bytes(view[:8]), bytes(view[size - TAIL_SIZE :]), size)
    yield Piece("magic", 0, 8, "ARROW1, padded to 8 bytes")
    if bytes(view[start - 8 : start]) == b"\xff\xff\xff\xff\0\0\0\0":
        yield Piece("end marker", start - 8, 8, "end of the stream")
    yield Piece("footer", start, length, "schema once more, and where the messages are")
    yield Piece("magic", start + length, TAIL_SIZE, "the footer's size, and ARROW1")


# -- messages ------------------------------------------------------------------------------------------------


def _plain(number: int, located: Located) -> tuple[Piece, int]:
    """A message without its parts, and its rows."""
    from arrowipc.inspection.message_layout import outline_of

    found = outline_of(located.message)
    words = [f"message {number:,}: {located.message.kind}"]
    if found is not None:
        if found.dictionary_id is not None:
            words.append(f"{'delta of ' if found.is_delta else ''}dictionary {found.dictionary_id}")
        words.append(counted(found.num_rows, "value" if found.dictionary_id is not None else "row"))
        if found.codec is not None:
            words.append(found.codec)
    length = located.metadata_length + located.body_length
    piece = Piece(located.message.kind, located.offset, length, ", ".join(words))
    return piece, 0 if found is None else found.num_rows


def _piece(number: int, located: Located, schema: Any, known: dict[int, Any]) -> Piece:
    """A message with its parts, neighbours joined where there are too many."""
    from arrowipc.inspection.message_layout import nodes_of, outline_of

    piece, _ = _plain(number, located)
    start = located.offset
    head = Part("metadata", start, located.metadata_length, "metadata: schema" if number == 0 else "metadata")
    found = outline_of(located.message)
    if found is None or schema is None:
        body = Part("body", start + head.length, located.body_length, "body")
        return piece._replace(parts=(head, body) if located.body_length else (head,))
    fields = schema.fields
    if found.dictionary_id is not None:
        name, kind = known.get(found.dictionary_id, ("", None))
        fields = [] if kind is None else [ipc.Field(name, kind.value_type)]
    nodes = nodes_of(located.message, fields)
    body_at = start + located.metadata_length
    parts = [head, *_with_padding(_buffers(nodes, body_at, found.codec), body_at, located.body_length)]
    names = tuple([shorten(printable(field.name), 60) for field in fields[:PARTS]])
    return piece._replace(parts=tuple(_joined(parts)), columns=names)


def _buffers(nodes: list[Node], body_at: int, codec: str | None) -> Iterator[Part]:
    column = -1
    for node in nodes:
        column += node.depth == 0
        for buffer in node.buffers:
            if not buffer.length:
                continue
            size = f"{buffer.length:,} bytes"
            raw = buffer.raw_length
            if codec and raw is not None:
                share = f"{buffer.length / raw:.0%}" if raw else "no"
                stored = "stored as it is" if raw == buffer.length - 8 else f"{codec}: {share} of {raw:,}"
                size += f" ({stored})"
            where = f"bytes {body_at + buffer.offset:,}..{body_at + buffer.offset + buffer.length:,}"
            words = (
                f"{shorten(printable(node.path), 80)}: {type_text(node.type, 80)}\n{buffer.role}: {size}\n"
                f"{where}\n{node.length:,} values, {node.null_count:,} null"
            )
            role = "data" if buffer.role.startswith("data") else buffer.role
            yield Part(role, body_at + buffer.offset, buffer.length, words, column, raw)


def _with_padding(buffers: Iterable[Part], start: int, length: int) -> Iterator[Part]:
    """The buffers in the order in which they lie, and what is between them."""
    at = start
    for part in sorted(buffers, key=lambda part: part.offset):
        if part.offset > at:
            yield Part("padding", at, part.offset - at, f"padding: {part.offset - at:,} bytes")
        yield part
        at = max(at, part.offset + part.length)
    if start + length > at:
        yield Part("padding", at, start + length - at, f"padding: {start + length - at:,} bytes")


def _joined(parts: list[Part]) -> list[Part]:
    """At most about `PARTS` parts: neighbours that are small are drawn as one."""
    if len(parts) <= PARTS:
        return parts
    enough = 2 * sum([part.length for part in parts[1:]]) // PARTS + 1
    out: list[Part] = []
    small: list[Part] = []
    for part in parts:
        if part.length >= enough:
            out += [*_as_one(small), part]
            small = []
            continue
        small.append(part)
        if part.offset + part.length - small[0].offset >= enough:
            out += _as_one(small)
            small = []
    return [*out, *_as_one(small)]


def _as_one(parts: list[Part]) -> list[Part]:
    if len(parts) < 2:
        return parts
    size = parts[-1].offset + parts[-1].length - parts[0].offset
    columns = [part.column for part in parts if part.column is not None]
    of = f" of columns {columns[0]:,} to {columns[-1]:,}" if columns else ""
    return [Part("several", parts[0].offset, size, f"{counted(len(parts), 'part')}{of}\n{size:,} bytes")]


def _strip(pieces: list[Piece]) -> list[Piece]:
    """The whole source in at most `PIECES` pieces: messages that follow each other are joined."""
    pieces = sorted(pieces, key=lambda piece: piece.offset)
    each = -(-len(pieces) // PIECES)
    if each <= 1:
        return pieces
    out = []
    for i in range(0, len(pieces), each):
        group = pieces[i : i + each]
        end = max(piece.offset + piece.length for piece in group)
        kinds = {piece.kind for piece in group}
        kind = min(kinds) if len(kinds) == 1 else "several"
        words = f"{counted(len(group), 'piece')}: {group[0].title} ... {group[-1].title}"
        out.append(Piece(kind, group[0].offset, end - group[0].offset, words))
    return out


# -- the command ---------------------------------------------------------------------------------------------


@click.command()
@FILE
@click.option("-o", "--output", metavar="PICTURE", help="A name that ends with .html or .svg.")
@json_option
def layout(file: str, output: str | None, as_json: bool) -> None:
    """Draw the layout of FILE: messages, their metadata, the buffers of columns, padding, compression.

    An HTML page can be zoomed with the wheel and moved with the mouse; it needs nothing else. Of many
    messages the first and the last are drawn in detail: the picture stays below 2 MB. Without -o it is HTML
    on standard output.

    JSON: {"name", "format", "size", "strip": [{"kind", "offset", "length", "title"}], "omitted",
    "messages": [{"kind", "offset", "length", "title", "columns",
    "parts": [{"role", "offset", "length", "words", "column", "raw_length"}]}]}.
    """
    import sys

    if output is not None and not output.lower().endswith((".html", ".htm", ".svg")):
        raise UsageError(f"the picture is HTML or SVG: {output!r} ends with neither .html nor .svg")
    if output is None and not as_json and sys.stdout.isatty():
        raise UsageError("the picture is for a browser: give it a name, -o layout.html")
    with about(file):
        found = anatomy_of(file)
    if as_json:
        say_json(_document(found))
        if output is None:
            return
    from arrowipc.cli.picture import as_html, as_svg

    text = as_svg(found) if output is not None and output.lower().endswith(".svg") else as_html(found)
    if output is None:
        click.echo(text)
        return
    with about(output), target(output) as written:
        written.write(text.encode())
    if not as_json:
        say_note(f"written: {output}")


def _document(found: Anatomy) -> dict[str, Any]:
    return {
        "name": found.name,
        "format": found.format,
        "size": found.size,
        "strip": [
            {"kind": piece.kind, "offset": piece.offset, "length": piece.length, "title": piece.title}
            for piece in found.strip
        ],
        "omitted": found.omitted,
        "messages": [
            {
                **piece._asdict(),
                "columns": list(piece.columns),
                "parts": [part._asdict() for part in piece.parts],
            }
            for piece in found.messages
        ],
    }
