"""The layout of a source: its messages, and the parts of each, collected in bounded size."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import arrowipc as ipc
from arrowipc.arguments import printable
from arrowipc.cli.terminal import counted
from arrowipc.errors import ArrowIpcError
from arrowipc.values.preview import shorten, type_text

if TYPE_CHECKING:
    from arrowipc.inspection.message_layout import Located, Node

__all__ = ["Anatomy", "Part", "Piece", "anatomy_of", "message_of"]

#: Parts of one message, of which more are one part; pieces of a source, beyond which they are joined by twos.
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
    """One message, or several that follow each other, or what a file has around them."""

    kind: str
    offset: int
    length: int
    title: str
    #: The first message of it, from 0; None: none.
    message: int | None = None
    messages: int = 1


class Anatomy(NamedTuple):
    """The layout of a source."""

    size: int
    rows: int
    batches: int
    #: Where each message begins.
    offsets: array[int]
    #: The whole source.
    pieces: list[Piece]
    schema: Any
    #: Why not all of it is here.
    error: str | None


def anatomy_of(buffer: Any, advance: Callable[[int], None] = lambda _: None) -> Anatomy:
    """Go through the messages in a buffer, as far as they are whole; `advance` is told of bytes."""
    from arrowipc.inspection.message_layout import locate_messages, outline_of

    size = len(memoryview(buffer).cast("B"))
    offsets, pieces = array("q"), []
    schema: Any = None
    rows = batches = end = 0
    error = None
    outer: list[Piece] = []
    try:
        outer += _frame_of(buffer)
        schema = ipc.read_schema(buffer)
        for number, located in enumerate(locate_messages(buffer)):
            outline = outline_of(located.message)
            if located.message.kind == "RecordBatch" and outline is not None:
                rows, batches = rows + outline.num_rows, batches + 1
            offsets.append(located.offset)
            pieces.append(_plain(number, located, outline))
            if len(pieces) == 2 * PIECES:
                pieces = [_as_piece(pieces[i : i + 2]) for i in range(0, len(pieces), 2)]
            end = max(end, located.offset + located.metadata_length + located.body_length)
            advance(located.metadata_length + located.body_length)
    except ArrowIpcError as caught:
        error = printable(str(caught))
    if size > end and not outer:
        kind = "end marker" if error is None and size - end <= 8 else "rest"
        outer.append(Piece(kind, end, size - end, "end of the stream" if kind == "end marker" else "no messages"))
    return Anatomy(size, rows, batches, offsets, sorted([*pieces, *outer], key=lambda each: each.offset), schema, error)


def _frame_of(buffer: Any) -> Iterator[Piece]:
    """What a file has around its messages."""
    from arrowipc.read.file_decoder import MAGIC, TAIL_SIZE, footer_range

    view = memoryview(buffer).cast("B")
    if view[: len(MAGIC)] != MAGIC:
        return
    size = len(view)
    start, length = footer_range(bytes(view[:8]), bytes(view[size - TAIL_SIZE :]), size)
    yield Piece("magic", 0, 8, "ARROW1, padded to 8 bytes")
    if bytes(view[start - 8 : start]) == b"\xff\xff\xff\xff\0\0\0\0":
        yield Piece("end marker", start - 8, 8, "end of the stream")
    yield Piece("footer", start, length, "schema once more, and where the messages are")
    yield Piece("magic", start + length, TAIL_SIZE, "the footer's size, and ARROW1")


def _as_piece(pieces: list[Piece]) -> Piece:
    """Neighbours as one."""
    first, last = pieces[0], pieces[-1]
    kind = first.kind if all(each.kind == first.kind for each in pieces) else "several"
    count = sum([each.messages for each in pieces])
    words = f"messages {number:,} to {number + count - 1:,}: {kind}" if (number := first.message) is not None else ""
    return Piece(kind, first.offset, last.offset + last.length - first.offset, words, number, count)


# -- messages ------------------------------------------------------------------------------------------------


def _plain(number: int, located: Located, outline: Any) -> Piece:
    """A message without its parts."""
    words = [f"message {number:,}: {located.message.kind}"]
    if outline is not None:
        if outline.dictionary_id is not None:
            words.append(f"{'delta of ' if outline.is_delta else ''}dictionary {outline.dictionary_id}")
        words.append(counted(outline.num_rows, "value" if outline.dictionary_id is not None else "row"))
        if outline.codec is not None:
            words.append(outline.codec)
    length = located.metadata_length + located.body_length
    return Piece(located.message.kind, located.offset, length, ", ".join(words), number)


def message_of(buffer: Any, anatomy: Anatomy, number: int) -> dict[str, Any]:
    """One message with its parts, the last ones as one where there are too many.

    Raises
    ------
    FormatError
        What its metadata says does not fit together.
    """
    from arrowipc._core import Source
    from arrowipc.errors import FormatError
    from arrowipc.inspection.message_layout import Located, dictionary_fields, nodes_of, outline_of
    from arrowipc.read.message_index import find_message

    start = anatomy.offsets[number]
    source = Source(memoryview(buffer).cast("B"))
    if (found := find_message(source, start, schemas=True, there=True)) is None:
        raise FormatError(f"no message begins at byte {start:,}")
    _, end, message = found
    located = Located(start, end - start - message.body_length, message.body_length, message)
    outline = outline_of(message)
    parts = [Part("metadata", start, located.metadata_length, f"metadata of a {message.kind} message")]
    fields: Any = ()
    body = start + located.metadata_length
    if outline is None:
        parts += [Part("body", body, located.body_length, "body")] if located.body_length else []
    else:
        fields = anatomy.schema.fields
        if outline.dictionary_id is not None:
            name, kind = dictionary_fields(anatomy.schema).get(outline.dictionary_id, ("", None))
            fields = [] if kind is None else [ipc.Field(name, kind.value_type)]
        buffers = _buffers(nodes_of(message, fields), body, outline.codec)
        parts += _with_padding(buffers, body, located.body_length)
        parts = [*parts[:PARTS], *_as_one(parts[PARTS:])]
    names = [shorten(printable(field.name), 60) for field in fields[:PARTS]]
    piece = _plain(number, located, outline)
    return {**piece._asdict(), "parts": [part._asdict() for part in parts], "columns": names}


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
    """The buffers in the order of their positions, with the gaps between them."""
    at = start
    for part in sorted(buffers, key=lambda part: part.offset):
        if part.offset > at:
            yield Part("padding", at, part.offset - at, f"padding: {part.offset - at:,} bytes")
        yield part
        at = max(at, part.offset + part.length)
    if start + length > at:
        yield Part("padding", at, start + length - at, f"padding: {start + length - at:,} bytes")


def _as_one(parts: list[Part]) -> list[Part]:
    if len(parts) < 2:
        return parts
    size = parts[-1].offset + parts[-1].length - parts[0].offset
    columns = [part.column for part in parts if part.column is not None]
    of = f" of columns {columns[0]:,} to {columns[-1]:,}" if columns else ""
    return [Part("several", parts[0].offset, size, f"{counted(len(parts), 'part')}{of}\n{size:,} bytes")]
