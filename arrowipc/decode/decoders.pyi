from collections.abc import Iterable
from typing import Literal

from arrowipc.columns.record_batch import RecordBatch
from arrowipc.decode.framing import Message
from arrowipc.limits import Limits
from arrowipc.schemas import Schema

def decode_messages(
    message: Message,
    schema: object,
    dictionaries: list[Message],
    columns: Iterable[str | int] | str | int | None,
    validate: Literal["none", "full", "strict"],
    limits: Limits | None,
    use_threads: bool,
) -> RecordBatch: ...
def schema_of(message: Message, limits: Limits | None) -> Schema: ...
