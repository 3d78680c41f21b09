"""The rules of order of writing: a schema, the dictionaries that a batch needs, the batch, the end."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from arrowipc._core import Columns
from arrowipc.arguments import MetadataLike
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.filters.statistics import Annotator
from arrowipc.read.framing import Message
from arrowipc.schemas import Schema

__all__ = [
    "BatchWriter",
    "BytearraySink",
    "DescriptorSink",
    "EncodeOptions",
    "FixedSink",
    "MessageSink",
    "ObjectSink",
    "batch_message",
    "batch_size",
    "check_schema",
]

class Sink:
    position: int
    behind: Any
    def write_bytes(self, data: bytes) -> None: ...
    def commit(self) -> None: ...
    def discard(self) -> None: ...

class BytearraySink(Sink):
    def __new__(cls, target: bytearray) -> BytearraySink: ...

class MessageSink(Sink):
    ended: bool
    def take(self) -> list[Message]: ...

class FixedSink(Sink):
    def __new__(cls, target: Any, start: int = 0, seek: Callable[[int, int], Any] | None = None) -> FixedSink: ...
    def release(self) -> None: ...

class DescriptorSink(Sink):
    def __new__(
        cls,
        descriptor: int,
        name: str | bytes | None = None,
        position: int = 0,
        ask: Callable[[], int] | None = None,
    ) -> DescriptorSink: ...

class ObjectSink(Sink):
    def __new__(cls, write: Callable[[Any], Any], raw: bool = False) -> ObjectSink: ...

MAGIC: bytes

class EncodeOptions:
    def __new__(
        cls,
        compression: str | Mapping[str, str | None] | None = None,
        compression_level: int | None = None,
        min_space_savings: float | None = None,
        alignment: int = 8,
        legacy: bool | None = False,
        metadata_version: Literal["V4", "V5"] | None = "V5",
        use_threads: bool = True,
        checksum: bool = False,
    ) -> EncodeOptions: ...

class BatchWriter:
    def __init__(
        self,
        sink: Sink,
        encode_options: EncodeOptions,
        is_file: bool = False,
        dictionary_deltas: bool | None = None,
        unify_dictionaries: bool = False,
        coalesce_rows: int = 0,
        allow_64bit: bool = False,
        annotate: Annotator | None = None,
        metadata: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None: ...
    file_metadata: tuple[tuple[bytes, bytes], ...]
    @property
    def ended(self) -> bool: ...
    @property
    def sink(self) -> Sink: ...
    @property
    def is_file(self) -> bool: ...
    @property
    def schema(self) -> Schema | None: ...
    @property
    def counters(self) -> tuple[int, int, int, int, int, int, int]: ...
    def begin(self, schema: Schema) -> None: ...
    def expect(self, schema: Schema) -> None: ...
    def resume(self, existing: Any) -> None: ...
    def write_batch(self, batch: Any, custom_metadata: MetadataLike = None) -> None: ...
    def write_rows(self, batch: RecordBatch, max_rows: int, max_bytes: int) -> None: ...
    def write_stored(self, message: Message, columns: Columns) -> bool: ...
    def check(self) -> None: ...
    def close(self) -> None: ...
    def abandon(self, reason: object) -> None: ...

def batch_message(batch: RecordBatch, **options: Any) -> Message: ...
def batch_size(data: Any, **options: Any) -> int: ...
def check_schema(expected: Schema, found: Schema) -> None: ...
