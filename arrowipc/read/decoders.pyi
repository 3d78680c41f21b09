from collections.abc import Iterable
from typing import Literal, final

from arrowipc.columns.record_batch import RecordBatch
from arrowipc.limits import Limits
from arrowipc.read.framing import Message
from arrowipc.schemas import Schema

@final
class Decoder:
    @property
    def num_record_batches(self) -> int: ...
    @property
    def num_dictionary_batches(self) -> int: ...
    @property
    def num_dictionary_deltas(self) -> int: ...
    @property
    def num_replaced_dictionaries(self) -> int: ...

class Dictionary: ...

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
