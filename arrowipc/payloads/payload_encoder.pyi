"""Encode ranges of rows of one batch as payloads, each a whole stream in a cell of its own."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, overload

from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch

_Codec: TypeAlias = Literal["lz4", "zstd"] | None

class GroupedPayloads(NamedTuple):
    payloads: Array
    keys: RecordBatch

@overload
def encode_payloads(
    batch: Any,
    offsets: None = None,
    *,
    rows_per_payload: None = None,
    group_by: str | Sequence[str],
    keep_keys: bool = False,
    schema: Any = None,
    with_schema: bool = True,
    with_end: bool | None = None,
    trim_dictionaries: bool = True,
    large: bool = False,
    compression: _Codec | Mapping[str, _Codec] = None,
    compression_level: int | None = None,
    min_space_savings: float | None = None,
    alignment: Literal[8, 64] = 8,
    legacy: bool = False,
    metadata_version: Literal["V5", "V4"] = "V5",
    use_threads: bool = True,
    checksum: bool = False,
) -> GroupedPayloads: ...
@overload
def encode_payloads(
    batch: Any,
    offsets: Any = None,
    *,
    rows_per_payload: int | None = None,
    group_by: None = None,
    keep_keys: bool = False,
    schema: Any = None,
    with_schema: bool = True,
    with_end: bool | None = None,
    trim_dictionaries: bool = True,
    large: bool = False,
    compression: _Codec | Mapping[str, _Codec] = None,
    compression_level: int | None = None,
    min_space_savings: float | None = None,
    alignment: Literal[8, 64] = 8,
    legacy: bool = False,
    metadata_version: Literal["V5", "V4"] = "V5",
    use_threads: bool = True,
    checksum: bool = False,
) -> Array: ...
