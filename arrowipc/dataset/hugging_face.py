"""Folders that Hugging Face's `datasets` saved: which files hold the rows, and which their order."""

from __future__ import annotations

import errno
import json
import os

from arrowipc.arguments import printable
from arrowipc.errors import FormatError, LimitError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["saved_files"]

#: Bytes of state.json and dataset_dict.json: some 60 for each shard.
MOST_BYTES = 16 << 20


def saved_files(folder: str, split: str | None) -> tuple[list[str], list[str]] | None:
    """Shards of a folder that `save_to_disk` wrote, in order, and the files that hold the numbers of its rows.

    None where the folder is of another kind. Both come from the folder itself: what it lists elsewhere is refused.
    """
    if os.path.isfile(listed := os.path.join(folder, "dataset_dict.json")):
        splits = _document(listed).get("splits")
        if not isinstance(splits, list) or not all(isinstance(name, str) for name in splits):
            raise FormatError(f"{listed}: expected the names of splits under 'splits', found {_shown(splits)}")
        if split not in splits:
            asked = "say which one is meant" if split is None else f"{split!r} is none of them"
            raise UsageError(f"{folder} holds the splits {', '.join(map(_shown, splits))}: {asked} with split=")
        folder, split = _inside(folder, split, listed), None
    if split is not None:
        raise UsageError(f"split={split!r}: there is no dataset_dict.json in {folder}, which would name its splits")
    if os.path.isfile(state := os.path.join(folder, "state.json")):
        document = _document(state)
        return _listed(document, "_data_files", folder, state), _listed(document, "_indices_data_files", folder, state)
    if os.path.isfile(os.path.join(folder, "dataset_info.json")):
        raise UsageError(
            f"{folder} is a cache of Hugging Face, where files of several splits and of other steps are in one "
            "other: give those that are meant, as a pattern such as NAME-train*.arrow"
        )
    return None


def _document(path: str) -> dict[str, Any]:
    """Read an object of JSON."""
    with open(path, "rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise LimitError(f"{path} is larger than the {MOST_BYTES >> 20} MiB that lists of files may have")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise FormatError(f"{path}: expected an object, found {_shown(document)}")
    return document


def _listed(document: dict[str, Any], key: str, folder: str, state: str) -> list[str]:
    """Paths of the files that state.json has under a key: ``[{"filename": ...}, ...]``, or null."""
    files = document.get(key) or []
    names = [each.get("filename") if isinstance(each, dict) else None for each in files if isinstance(files, list)]
    if not isinstance(files, list) or None in names or (key == "_data_files" and key not in document):
        raise FormatError(f"{state}: expected a list of file names under {key!r}, found {_shown(document.get(key))}")
    if len(set(map(str, names))) < len(names):
        raise FormatError(f"{state} lists a file twice under {key!r}")
    return [_inside(folder, name, state) for name in names]


def _inside(folder: str, name: Any, listed: str) -> str:
    """Path of the file that `listed` names; a file outside the folder is refused."""
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & {"/", "\\", "\0", ":"}:
        raise FormatError(f"{listed}: expected the name of a file beside it, found {_shown(name)}")
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, f"{os.path.basename(listed)} lists it, and it is not there", path)
    return path


def _shown(value: Any) -> str:
    """Spell something of a document, which may be long and drive a terminal."""
    text = printable(repr(value))
    return text if len(text) <= 80 else text[:77] + "..."
