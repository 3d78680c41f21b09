"""What the options and codecs of pyarrow mean as keywords of ours."""

from __future__ import annotations

from arrowipc.arguments import described
from arrowipc.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["codec_and_level", "read_keywords", "write_keywords"]

#: Attributes of pyarrow's IpcWriteOptions -> our keywords.
_WRITE = {
    "allow_64bit": "allow_64bit",
    "compression": "compression",
    "emit_dictionary_deltas": "dictionary_deltas",
    "metadata_version": "metadata_version",
    "unify_dictionaries": "unify_dictionaries",
    "use_legacy_format": "legacy",
    "use_threads": "use_threads",
}


def read_keywords(options: Any) -> tuple[list[int] | None, bool, bool]:
    """`columns`, `use_threads` and `ensure_native_endian` of a ``pyarrow.ipc.IpcReadOptions``."""
    if not hasattr(options, "included_fields"):
        raise UsageError(
            f"options: expected a pyarrow.ipc.IpcReadOptions, found {described(options)}: ours are keyword arguments"
        )
    # There the fields come in the order of the schema, each once; and buffers are always aligned here.
    return sorted(set(options.included_fields)) or None, options.use_threads, options.ensure_native_endian


def write_keywords(options: Any) -> dict[str, Any]:
    """The keywords of `new_stream` for a ``pyarrow.ipc.IpcWriteOptions``."""
    if not hasattr(options, "use_legacy_format"):
        raise UsageError(
            f"options: expected a pyarrow.ipc.IpcWriteOptions, found {described(options)}: ours are keyword arguments"
        )
    found = {ours: getattr(options, theirs) for theirs, ours in _WRITE.items()}
    found["metadata_version"] = f"V{options.metadata_version + 1}"
    return found


def codec_and_level(codec: Any, level: int | None) -> tuple[Any, int | None]:
    """A codec as its name, None for none: from text in any case, or from a ``pyarrow.Codec``, which has a level."""
    if hasattr(codec, "compression_level"):
        return codec.name, codec.compression_level if level is None else level
    if isinstance(codec, str):
        lower = codec.lower()
        return None if lower == "uncompressed" else lower, level
    return codec, level
