"""Batches whose bodies are on a device; see ``dissociated/memory/device_bodies.pyx``."""

from collections.abc import Callable
from typing import Any, Literal, Self, TypeAlias, final

from arrowipc.columns.record_batch import RecordBatch
from arrowipc.decode.framing import Message
from arrowipc.events import BatchRead, DictionaryRead, SchemaRead
from arrowipc.limits import Limits
from arrowipc.schemas import Schema

_ReadDevice: TypeAlias = Callable[[int, int], Any]

@final
class DeviceMemory:
    address: int
    nbytes: int
    device_type: int
    device_id: int
    sync_event: int
    owner: Any
    def __init__(
        self,
        address: int,
        nbytes: int,
        device_type: int,
        device_id: int = -1,
        sync_event: int = 0,
        owner: object = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class DeviceBatch:
    message: Message
    @property
    def schema(self) -> Schema: ...
    @property
    def num_rows(self) -> int: ...
    def __len__(self) -> int: ...
    @property
    def device_type(self) -> int: ...
    @property
    def device_id(self) -> int: ...
    @property
    def sync_event(self) -> int: ...
    @property
    def messages(self) -> list[Message]: ...
    @property
    def places(self) -> list[tuple[int, int]]: ...
    def to_host(
        self, read_device: _ReadDevice, validate: Literal["none", "full", "strict"] = "full"
    ) -> RecordBatch: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_device_array__(
        self, requested_schema: object | None = None, **kwargs: object
    ) -> tuple[object, object]: ...

@final
class DeviceDecoder:
    def __new__(cls, limits: Limits | None = None, memory: DeviceMemory | None = None) -> Self: ...
    @property
    def schema(self) -> Schema | None: ...
    def decode_next(self, message: Message) -> SchemaRead | DictionaryRead | BatchRead: ...
    def release(self) -> None: ...
