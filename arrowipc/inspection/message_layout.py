"""The layout of a file or a stream: its messages in order, and the nodes and buffers in each.

Nothing is decoded: of a body, only the first 8 bytes of compressed buffers are read. Offsets and lengths
are what the bytes claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from arrowipc import types
from arrowipc._core import Source
from arrowipc.codecs import CODECS
from arrowipc.decode.file_decoder import MAGIC
from arrowipc.decode.framing import Message, outline
from arrowipc.decode.message_index import find_message, find_schema
from arrowipc.errors import FormatError
from arrowipc.opening import MessageReader
from arrowipc.reader import RecordBatchFileReader
from arrowipc.sources.source import first_bytes, locate_source, whole

if TYPE_CHECKING:
    from arrowipc.limits import Limits
    from arrowipc.schemas import Schema

#: Number in the metadata of a message -> name of the codec.
CODEC_NAMES: dict[int, Any] = {-1: None} | {number: codec.spellings[0] for number, codec in CODECS.items()}
#: Type -> the roles of its buffers, without validity.
ROLES: dict[type[types.DataType], tuple[str, ...]] = {
    **dict.fromkeys((types.Utf8, types.Binary, types.LargeUtf8, types.LargeBinary), ("offsets", "data")),
    **dict.fromkeys((types.Utf8View, types.BinaryView), ("views",)),
    **dict.fromkeys((types.List, types.LargeList, types.Map), ("offsets",)),
    **dict.fromkeys((types.ListView, types.LargeListView), ("offsets", "sizes")),
    **dict.fromkeys((types.Struct, types.FixedSizeList), ()),
    types.Dictionary: ("indices",),
}


class Located(NamedTuple):
    """A message and its position, in bytes from the beginning of the source."""

    offset: int
    #: Of the prefix, the metadata and its padding.
    metadata_length: int
    body_length: int
    message: Message


class BatchOutline(NamedTuple):
    """What the metadata of a RecordBatch or DictionaryBatch message says."""

    num_rows: int
    codec: str | None
    #: None: a RecordBatch.
    dictionary_id: int | None
    is_delta: bool
    #: Length and null count of each node.
    nodes: list[tuple[int, int]]
    #: Offset in the body and length of each buffer.
    buffers: list[tuple[int, int]]
    #: The number of data buffers of each view column.
    variadic_counts: list[int]


class BufferPlace(NamedTuple):
    """A buffer of a column: its purpose, and its position in the body."""

    role: str
    offset: int
    length: int
    #: Its length when it is decompressed; `length` if it is not compressed; None: it cannot be read.
    raw_length: int | None


class Node(NamedTuple):
    """The part of a message that belongs to one field."""

    path: str
    depth: int
    type: types.DataType
    length: int
    null_count: int
    buffers: list[BufferPlace]


def locate_messages(source: Any, *, limits: Limits | None = None, memory_map: bool = True) -> Iterator[Located]:
    """Go through the messages of a file or a stream; source, errors and keywords are those of `arrowipc.open`.

    For a file, these are the Schema message at its beginning, and the messages that its footer lists, in the order of
    their offsets. One message is in memory at a time; a file that is not mapped is copied to the disk first.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.inspection.message_layout import locate_messages
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2]})
    >>> [each.message.kind for each in locate_messages(batch.schema.serialize() + batch.serialize())]
    ['Schema', 'RecordBatch']
    """
    source = locate_source(source)
    if first_bytes(source) == MAGIC:
        yield from _messages_in_file(whole(source, memory_map, limits), limits)
        return
    with MessageReader(source, limits=limits, memory_map=memory_map) as reader:
        start = 0
        for message in reader:
            end = reader.bytes_consumed
            yield Located(start, end - start - message.body_length, message.body_length, message)
            start = end


def _messages_in_file(buffer: Any, limits: Limits | None) -> Iterator[Located]:
    source = Source(buffer)
    decoder = RecordBatchFileReader(buffer, limits=limits).decoder
    decoder.add_up()
    start, end, message = find_schema(source, decoder.messages_end, limits)
    if message is not None:
        yield Located(start, end - start, 0, message)
    counts = ((True, decoder.num_dictionaries), (False, decoder.num_record_batches))
    blocks = [decoder.block(i, dictionary=which) for which, count in counts for i in range(count)]
    for offset, head, body in sorted(blocks):
        found = find_message(source, offset, there=True, limits=limits)
        if found is None:
            raise FormatError(f"the footer lists a message at byte {offset:,}, where none begins")
        yield Located(offset, head, body, found[2])


def outline_of(message: Message) -> BatchOutline | None:
    """Read the metadata of a RecordBatch or DictionaryBatch message; return None for other kinds."""
    found = outline(message)
    return None if found is None else BatchOutline(found[0], CODEC_NAMES[found[1]], *found[2:])


def dictionary_fields(schema: Schema) -> dict[int, tuple[str, types.Dictionary]]:
    """Return the dictionaries of a schema by their id: the path of the first column that uses it, and its type."""
    found: dict[int, tuple[str, types.Dictionary]] = {}

    def visit(fields: Iterable[types.Field], prefix: str) -> None:
        for field in fields:
            kind = field.type
            if isinstance(kind, types.Dictionary):
                if kind.dictionary_id is not None:
                    found.setdefault(kind.dictionary_id, (prefix + field.name, kind))
                kind = kind.value_type
            visit(kind.children, f"{prefix}{field.name}.")

    visit(schema.fields, "")
    return found


def roles_of(kind: types.DataType) -> tuple[str, ...]:
    """Return the purposes of a type's buffers, in order; data buffers of view types come after them."""
    if isinstance(kind, (types.Null, types.RunEndEncoded)):
        return ()
    if isinstance(kind, types.Union):
        return ("type codes", "offsets") if kind.mode == "dense" else ("type codes",)
    return ("validity", *ROLES.get(type(kind), ("data",)))


def nodes_of(message: Message, fields: Iterable[types.Field]) -> list[Node]:
    """Return the nodes of a RecordBatch or DictionaryBatch message, with their columns and their buffers.

    `fields` are those of the schema; for a dictionary, one field of its value type. Raise a FormatError if the message
    has too few nodes or buffers.
    """
    found = outline_of(message)
    if found is None:
        return []
    body = message.body if found.codec else memoryview(b"")
    nodes, buffers, counts = iter(found.nodes), iter(found.buffers), iter(found.variadic_counts)
    out: list[Node] = []

    def place(role: str) -> BufferPlace:
        offset, length = next(buffers)
        raw: int | None = length
        if found.codec and length:
            head = body[offset : offset + 8] if offset >= 0 else b""
            size = int.from_bytes(head, "little", signed=True) if len(head) == 8 else -2
            raw = length - 8 if size == -1 else size if size >= 0 else None
        return BufferPlace(role, offset, length, raw)

    def add(field: types.Field, path: str, depth: int) -> None:
        node = Node(path, depth, field.type, *next(nodes), [])
        out.append(node)
        roles = roles_of(field.type)
        if message.version == "V4" and isinstance(field.type, (types.Union, types.RunEndEncoded)):
            roles = ("validity", *roles)
        if isinstance(field.type, (types.Utf8View, types.BinaryView)):
            roles += tuple([f"data {i}" for i in range(min(next(counts), 1 << 20))])
        node.buffers.extend([place(role) for role in roles])
        for child in field.type.children:
            add(child, f"{path}.{child.name}", depth + 1)

    try:
        for field in fields:
            add(field, field.name, 0)
    except StopIteration:
        raise FormatError("the message has fewer nodes or buffers than its schema asks for") from None
    return out
