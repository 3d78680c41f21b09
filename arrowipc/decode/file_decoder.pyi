from collections.abc import Iterable
from typing import Self, Unpack

from arrowipc._core import Columns, Memory, ReadableBuffer, Source
from arrowipc.arguments import KeyValueMetadata
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.decode.framing import Message
from arrowipc.decode.message_index import StreamIndex
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.errors import FormatError
from arrowipc.options import DecodeKeywords
from arrowipc.schemas import Schema

MAGIC: bytes
TAIL_SIZE: int
NEAR: int

def footer_range(head: bytes, tail: bytes, size: int) -> tuple[int, int]: ...

class BlockDecoder:
    schema: Schema
    stored_schema: Schema
    version: str
    metadata: KeyValueMetadata
    num_record_batches: int
    messages_end: int
    num_dictionaries: int
    reads_all: bool
    stats: tuple[int, int, int, int, int]
    damage: FormatError | None
    def add_up(self) -> None: ...
    def block(self, index: int, *, dictionary: bool = False) -> tuple[int, int, int]: ...
    def batch(
        self,
        index: int,
        source: Source | ReadableBuffer,
        at: int = 0,
        dictionaries: tuple[Columns | None, ...] | None = None,
    ) -> RecordBatch: ...
    def stored(
        self,
        index: int,
        source: ReadableBuffer | Source,
        at: int = 0,
        dictionaries: tuple[Columns | None, ...] | None = None,
    ) -> tuple[Message, Columns]: ...
    def decode(self, message: Message) -> RecordBatch: ...
    def load_dictionary(self, index: int, source: Source | ReadableBuffer, at: int = 0) -> None: ...
    def described(self, index: int, source: Source | ReadableBuffer, at: int = 0) -> tuple[KeyValueMetadata, int]: ...
    def read_lengths(self, source: Source) -> Memory: ...
    def body_ranges(self, index: int, source: ReadableBuffer) -> list[tuple[int, int]]: ...

class FileDecoder(BlockDecoder):
    def __init__(
        self,
        footer: ReadableBuffer | FileDecoder,
        start: int = 0,
        **keywords: Unpack[DecodeKeywords],
    ) -> None: ...
    to_check: list[tuple[int, int]]
    def check(self, start: int, data: ReadableBuffer) -> None: ...
    def select(self, columns: Iterable[str | int] | str | int) -> Self: ...

class IndexedDecoder(BlockDecoder):
    def __init__(self, index: StreamIndex, stream: StreamDecoder) -> None: ...
    def select(self, columns: Iterable[str | int] | str | int | None) -> Self: ...
    lengths: memoryview
    needs_dictionaries: bool
    def missing(self, i: int) -> list[int]: ...
    def dictionaries_at(self, i: int) -> tuple[Columns | None, ...]: ...
