"""Columns of payloads; see ``payloads/payload_decoder.pyx``."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, final

from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.errors import ArrowIpcError
from arrowipc.limits import Limits
from arrowipc.schemas import Schema

@final
class DecodedPayloads:
    @property
    def batch(self) -> RecordBatch: ...
    @property
    def counts(self) -> Array: ...
    @property
    def start(self) -> int: ...
    @property
    def next(self) -> int: ...
    @property
    def num_null(self) -> int: ...
    @property
    def num_failed(self) -> int: ...
    @property
    def num_alone(self) -> int: ...
    @property
    def failures(self) -> tuple[tuple[int, ArrowIpcError], ...]: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def parent_index(self) -> Array | None: ...

def decode_payloads(
    column: Any,
    schema: Any = None,
    *,
    columns: Iterable[str | int] | str | int | None = None,
    parent_index: bool | str = False,
    on_error: Literal["raise", "skip", "null"] = "raise",
    validate: Literal["none", "full", "strict"] = "full",
    limits: Limits | None = None,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    dictionaries: Literal["unify", "decode"] = "unify",
    start: int = 0,
    bare: bool = True,
    use_threads: bool = True,
    verify: bool | None = False,
) -> DecodedPayloads: ...
def repeat(
    batch: Any,
    counts: DecodedPayloads | Array | Sequence[int] | Any,
) -> RecordBatch: ...
