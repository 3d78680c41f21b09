from collections.abc import Iterable, Iterator
from typing import Literal

from arrowipc._array import RecordBatch
from arrowipc._message import Framer
from arrowipc.events import BatchRead, DictionaryRead, EndOfStream, SchemaRead
from arrowipc.limits import Limits
from arrowipc.schema import Schema

class StreamDecoder(Framer):
    def __init__(
        self,
        columns: Iterable[str | int] | str | int | None = None,
        validate: Literal["none", "full", "strict"] = "full",
        limits: Limits | None = None,
        use_threads: bool = True,
        ensure_native_endian: bool = True,
    ) -> None: ...
    def next_event(self) -> SchemaRead | DictionaryRead | BatchRead | EndOfStream | None: ...
    def next_batch(self) -> RecordBatch | None: ...
    def read_schema(self) -> bool: ...
    def producer(self) -> object: ...
    def __iter__(self) -> Iterator[SchemaRead | DictionaryRead | BatchRead | EndOfStream]: ...
    @property
    def schema(self) -> Schema | None: ...
    @property
    def stats(self) -> tuple[int, int, int, int, int]: ...
