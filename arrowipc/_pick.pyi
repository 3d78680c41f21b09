"""Rows in any order and number; see ``_pick.pyx``."""

from collections.abc import Sequence
from typing import Any, final

from arrowipc._array import Array, RecordBatch
from arrowipc._payload import DecodedPayloads

@final
class Picker: ...

def repeat(
    batch: Any,
    counts: DecodedPayloads | Array | Sequence[int] | Any | None = None,
    *,
    parent_index: Array | Sequence[int] | Any | None = None,
) -> RecordBatch: ...
