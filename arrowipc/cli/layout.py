"""The layout of a source: its messages, and the parts of the first and the last messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import arrowipc as ipc
from arrowipc.decode.file_decoder import MAGIC, TAIL_SIZE, footer_range
from arrowipc.errors import ArrowIpcError, printable
from arrowipc.inspection.message_layout import dictionary_fields, locate_messages, nodes_of, outline_of
from arrowipc.sources.source import END
from arrowipc.values.preview import counted, shorten, type_text

if TYPE_CHECKING:
    from arrowipc.inspection.message_layout import Located
    from arrowipc.limits import Limits

#: At each end: messages that are listed, and messages whose parts are listed. Parts listed per message.
MESSAGES, OPENED, PARTS = 100, 4, 100


class Part(NamedTuple):
    """Some bytes of a source, or of a message."""

    #: The kind of a message, another part of a file ("magic", "footer"), "padding", or the role of a buffer.
    kind: str
    offset: int
    length: int
    words: str
    #: The column to which it belongs.
    column: str = ""
    #: Its length without compression.
    raw_length: int | None = None
    #: The parts of a message, if it is among the first or last OPENED ones.
    parts: tuple[Part, ...] = ()

    @property
    def end(self) -> int:
        """The offset behind its last byte."""
        return self.offset + self.length


def layout_of(buffer: memoryview, schema: Any, limits: Limits | None = None) -> dict[str, Any]:
    """Read the messages in a buffer up to the first invalid one, and return all bytes as parts."""
    first: list[tuple[Part, Located]] = []
    last: deque[tuple[Part, Located]] = deque(maxlen=MESSAGES)
    around: list[Part] = []
    count = batches = end = 0
    error = None
    try:
        around += _frame_of(buffer)
        for located in locate_messages(buffer, limits=limits):
            part = _message(count, located)
            (first if count < MESSAGES else last).append((part, located))
            count, batches, end = count + 1, batches + (part.kind == "RecordBatch"), max(end, part.end)
    except ArrowIpcError as caught:
        error = printable(str(caught))
    if len(buffer) > end and not around:
        kind = "end marker" if error is None and len(buffer) - end <= 8 else "rest"
        words = "end of the stream" if kind == "end marker" else "no messages"
        around.append(Part(kind, end, len(buffer) - end, words))
    if count > len(first) + len(last):
        start = first[-1][0].end
        words = f"messages {MESSAGES:,} to {count - MESSAGES - 1:,}"
        around.append(Part("several", start, last[0][0].offset - start, words))
    listed = [*first, *last]
    dictionaries = dictionary_fields(schema)
    parts = [
        part._replace(parts=tuple(_parts_of(located, schema.fields, dictionaries)))
        if i < OPENED or i >= len(listed) - OPENED
        else part
        for i, (part, located) in enumerate(listed)
    ]
    parts = sorted([*parts, *around], key=lambda part: part.offset)
    return {"messages": count, "batches": batches, "error": error, "parts": [_as_json(part) for part in parts]}


def _as_json(part: Part) -> dict[str, Any]:
    return {**part._asdict(), "parts": [_as_json(each) for each in part.parts]}


def _frame_of(view: memoryview) -> Iterator[Part]:
    """Yield the parts of a file that are not messages; nothing for a stream."""
    if view[: len(MAGIC)] != MAGIC:
        return
    size = len(view)
    start, length = footer_range(bytes(view[:8]), bytes(view[size - TAIL_SIZE :]), size)
    yield Part("magic", 0, 8, "ARROW1, padded to 8 bytes")
    if view[start - 8 : start] == END:
        yield Part("end marker", start - 8, 8, "end of the stream")
    yield Part("footer", start, length, "schema once more, and where the messages are")
    yield Part("magic", start + length, TAIL_SIZE, "the footer's size, and ARROW1")


def _message(number: int, located: Located) -> Part:
    outline = outline_of(located.message)
    words = [f"message {number:,}: {located.message.kind}"]
    if outline is not None:
        if outline.dictionary_id is not None:
            words.append(f"{'delta of ' if outline.is_delta else ''}dictionary {outline.dictionary_id}")
        words.append(counted(outline.num_rows, "row" if outline.dictionary_id is None else "value"))
        words += [outline.codec] if outline.codec else []
    length = located.metadata_length + located.body_length
    return Part(located.message.kind, located.offset, length, ", ".join(words))


def _parts_of(located: Located, fields: Any, dictionaries: Any) -> Iterator[Part]:
    """Yield the metadata, buffers and gaps of a message, in the order of their offsets."""
    at = located.offset + located.metadata_length
    end = at + located.body_length
    yield Part("metadata", located.offset, located.metadata_length, f"metadata of a {located.message.kind} message")
    found: list[Part] = []
    words = "body"
    try:
        outline = outline_of(located.message)
        if outline is not None:
            if outline.dictionary_id is not None:
                name, kind = dictionaries.get(outline.dictionary_id, ("", None))
                fields = [] if kind is None else [ipc.Field(name, kind.value_type)]
            found = sorted(_buffers(nodes_of(located.message, fields), at), key=lambda part: part.offset)
            words = "padding"
    except ArrowIpcError as error:
        words = printable(str(error))
    for part in found[:PARTS]:
        if part.offset > at:
            yield Part("padding", at, part.offset - at, "padding")
        yield part
        at = max(at, part.end)
    if len(found) > PARTS:
        yield Part("several", at, end - at, counted(len(found) - PARTS, "part"))
    elif end > at:
        yield Part("body" if words == "body" else "padding", at, end - at, words)


def _buffers(nodes: Any, body: int) -> Iterator[Part]:
    for node in nodes:
        for buffer in node.buffers:
            if buffer.length:
                words = f"{type_text(node.type, 80)}: {node.length:,} values, {node.null_count:,} null"
                role = "data" if buffer.role.startswith("data") else buffer.role
                name = shorten(printable(node.path), 60)
                yield Part(role, body + buffer.offset, buffer.length, words, name, buffer.raw_length)
