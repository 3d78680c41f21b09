"""Hive keys: columns whose values are in the names of folders, ``year=2024/country=NZ/part-0.arrow``."""

from __future__ import annotations

import datetime as dt
import re
from urllib.parse import unquote

from arrowipc import datatypes as at
from arrowipc.errors import UsageError
from arrowipc.filters.literals import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

#: The value in the name of a folder that means null.
NULL = "__HIVE_DEFAULT_PARTITION__"
#: How many folders of one path may have a key.
MOST_KEYS = 64

_INTEGER = re.compile(r"-?[0-9]{1,20}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _moment(text: str) -> dt.datetime:
    found: dt.datetime
    found, more = read_text(dt.datetime, text)
    if more:
        raise ValueError("nanoseconds")  # Python's datetime has no place for them
    return found


#: Type of a key -> the function that reads the key's text.
_READERS: dict[type[at.DataType], Callable[[str], Any]] = {
    at.Int: lambda text: int(_INTEGER.fullmatch(text).group()),  # type: ignore[union-attr]
    at.FloatingPoint: float,
    at.Bool: {"true": True, "false": False}.__getitem__,
    at.Date: dt.date.fromisoformat,
    at.Timestamp: _moment,
    **dict.fromkeys(at.TEXT, str),
}


def keys_of(path: str, below: str) -> dict[str, str | None]:
    """Return keys and their texts (None for null) from the folders in `below`, the part of `path` that counts."""
    if "://" in path:
        below = below.partition("?")[0]  # a query may contain slashes
    if "=" not in below:
        return {}
    found: dict[str, str | None] = {}
    for part in below.replace("\\", "/").split("/")[:-1]:
        name, is_key, text = part.partition("=")
        if not (is_key and name):
            continue
        name, text = (unquote(each, errors="surrogateescape") for each in (name, text))
        if name in found or len(found) == MOST_KEYS:
            raise UsageError(f"{path}: the key {name!r} repeats, or there are more than {MOST_KEYS}")
        try:
            (name + text).encode()
        except UnicodeEncodeError:
            raise UsageError(f"{path!r}: the key {name!r} cannot be encoded as UTF-8") from None
        found[name] = None if text == NULL else text
    return found


def key_type(texts: Iterable[str | None]) -> at.DataType:
    """Return int64 if all values are integers, date32 if all are dates (2024-05-31), else utf8; nulls fit any type."""
    known = {text for text in texts if text is not None}
    if known and all(_INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**63 for text in known):
        return at.Int(64, True)
    if known and all(map(_is_date, known)):
        return at.Date("day")
    return at.Utf8()


def _is_date(text: str) -> bool:
    try:
        return bool(_DATE.fullmatch(text) and dt.date.fromisoformat(text))
    except ValueError:
        return False


def key_value(path: str, name: str, text: str | None, kind: at.DataType) -> Any:
    """Return the value of a key, as `RecordBatch.from_pydict` takes it; a UsageError if the text does not fit."""
    reader = _READERS.get(type(kind))
    try:
        if reader is not None:
            return None if text is None else reader(text)
    except (ValueError, KeyError, AttributeError):
        pass
    raise UsageError(f"{path}: the key {name!r} is {text!r}, which is not a valid {kind}")
