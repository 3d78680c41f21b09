"""Whether a file was replaced by another one, from what servers and file systems say of it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["replaced", "version_of"]

#: Names under which fsspec's file systems tell the version of a file, and what we call it.
NAMES = {
    "VersionId": "version",
    "version_id": "version",
    "generation": "version",
    "ETag": "etag",
    "etag": "etag",
    "md5Hash": "hash",
    "md5": "hash",
    "LastModified": "time",
    "Last-Modified": "time",
    "last_modified": "time",
    "mtime": "time",
    "modificationTime": "time",
    "updated": "time",
    "modified": "time",
    "created": "made",
    "size": "size",
}


def version_of(info: Mapping[str, Any]) -> dict[str, str]:
    """What tells this version of a file from others; empty where nothing does.

    Parameters
    ----------
    info : mapping
        As ``info`` of a file system of fsspec gives it.
    """
    found: dict[str, str] = {}
    for name, key in NAMES.items():
        value = info.get(name)
        if value not in (None, "", "null"):
            found.setdefault(key, str(value.timestamp() if hasattr(value, "timestamp") else value))
    return found if found.keys() - {"size"} else {}


def replaced(known: Mapping[str, str], found: Mapping[str, str]) -> str | None:
    """What shows that a file is another one than before; None where nothing does.

    Versions, strong ETags and hashes of the content decide alone. Times and weak ETags all have to agree.
    """
    for key in ("size", "version", "etag", "hash", "time", "made"):
        if key not in known or key not in found:
            continue
        # A listing may spell an ETag without the quotes that the file itself has.
        before, after = (value[key].removeprefix("W/").strip('"') for value in (known, found))
        if before != after:
            return f"{key} {before[:80]!r} became {after[:80]!r}"
        weak = known[key].startswith("W/") or found[key].startswith("W/")
        if key in ("version", "etag", "hash") and not weak:
            return None
    return None
