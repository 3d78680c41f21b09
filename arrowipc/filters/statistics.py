"""Statistics of batches: writing them into the metadata of messages and files, and reading them.

A writer that was asked for them (``new_file(..., statistics=True)``) puts one pair into the custom metadata
of each RecordBatch message: the key ``arrowipc:statistics``, and JSON as its value::

    {"v": 1, "rows": 3, "names": 168924141, "columns": {
        "id": {"nulls": 0, "kind": "int", "min": 1, "max": 9},
        "name": {"nulls": 1, "kind": "text", "min": "Ada", "max": "Grace"},
        "place.lat": {"nulls": 0, "kind": "float", "min": -33.4, "max": "inf", "nan": false},
        "tags": {"nulls": 2}}}

``rows`` counts the rows of the batch, and ``names`` is the CRC-32 of the paths of all its columns, with NUL between
them: statistics that a tool copied to a batch of other rows or names are not used. Columns are named by dotted paths:
members of structs have statistics of their own, names that would mean two columns have none. Of a column:

``nulls``
    Its null rows, as a reader sees them: a row is null too if the dictionary value or the run that it stands
    for is null, or a struct around it. Absent if not known.
``min``, ``max``
    Bounds of all values that are neither null nor NaN. Absent if there are no such values, or none that fit.
``kind``
    What the bounds are. All are in the unit and of the scale of the column's type:

    * ``bool``: false and true.
    * ``int``: integers, dates, times, timestamps, durations, and decimals (the unscaled integer). Numbers
      within 2**53 of zero, else their decimal digits as a string.
    * ``float``: numbers, or ``"inf"`` and ``"-inf"``. The bounds of zeros are -0.0 and 0.0.
    * ``text``: a string; texts sort by their UTF-8 bytes.
    * ``binary``: Base64; bytes sort as unsigned numbers.
``min_exact``, ``max_exact``
    false: the bound is no value of the column, or left out. Bounds of text and binary have at most 64
    bytes: a minimum is cut, a maximum cut and then increased, or left out where that cannot be done.
``nan``
    Of floating-point columns: whether there is a NaN.

The footer of a file has the statistics of all its batches, so that one read is enough: under the same key it has the
Base64 of zlib's compression of JSON. In it ``rows`` and each part of a column except ``kind`` are lists with an entry
for each batch (null: not there). ``last_block`` is the file's last batch as the footer stores it, in hexadecimal::

    {"v": 1, "last_block": "...", "names": 168924141, "rows": [3, 4], "columns": {
        "id": {"nulls": [0, 0], "kind": "int", "min": [1, 10], "max": [9, 12]}}}

Statistics belong to the message that contains them. No `RecordBatch` has them, so batches that are made of one cannot
carry statistics of other rows, and a writer writes only statistics that it has computed.
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64, crc32
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from arrowipc import datatypes as at
from arrowipc.arguments import check_text, described, instance_of, items_of, with_field_docs
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.errors import NotFoundError, UsageError
from arrowipc.filters.column_statistics import Collector

if TYPE_CHECKING:
    from typing import TypeAlias

    from arrowipc._core import Columns
    from arrowipc.arguments import KeyValueMetadata
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.filters.column_statistics import Found
    from arrowipc.schemas import Schema

    Bound: TypeAlias = bool | int | float | str | bytes | None

#: Key of the statistics in the custom metadata of a RecordBatch message, and in that of the footer.
STATISTICS_KEY = b"arrowipc:statistics"
VERSION = 1
#: Integers up to here are the same in every language's JSON numbers.
SAFE = 2**53
#: A decimal has at most 78 digits; nothing longer is turned into a number.
MOST_DIGITS = 80
INFINITY = float("inf")


@with_field_docs
class ColumnStatistics(NamedTuple):
    """What is known of one column of a batch.

    Bounds are as they are stored: integers in the unit of the type for dates and times, unscaled integers for
    decimals, str, bytes, float or bool for the rest.

    Parameters
    ----------
    rows : int
        Rows of the batch.
    null_count : int or None
        Null rows among them; None: not known.
    min, max : int, float, str, bytes, bool or None
        Bounds of all values but nulls and NaN; None: there are none, or it is not known.
    min_is_exact, max_is_exact : bool
        Whether the bound is one of the values.
    has_nan : bool or None
        Whether there is a NaN; None: not known, or no floating-point numbers.
    """

    rows: int
    null_count: int | None
    min: Bound
    max: Bound
    min_is_exact: bool = True
    max_is_exact: bool = True
    has_nan: bool | None = None


# -- collecting ----------------------------------------------------------------------------------------------


def compute_statistics(batch: RecordBatch, columns: Iterable[str] | None = None) -> dict[str, ColumnStatistics]:
    """Find the minimum, maximum and null count of each column.

    Parameters
    ----------
    batch : RecordBatch
        Of a slice, only its rows count.
    columns : names of top-level columns, optional
        Default: all.

    Returns
    -------
    dict of str to ColumnStatistics
        By dotted path; members of structs have entries of their own.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> found = ipc.compute_statistics(ipc.RecordBatch.from_pydict({"x": [2.5, None, 1.0], "word": ["b", "a", "c"]}))
    >>> found["x"].min, found["x"].max, found["x"].null_count, found["word"].max
    (1.0, 2.5, 1, 'c')
    """
    wanted = None if columns is None else names_of(columns)
    instance_of("batch", batch, RecordBatch)
    if wanted is not None:
        _check_names(wanted, batch.schema)
    found = Collector(wanted).collect(batch, 0, len(batch))
    return {entry[0]: ColumnStatistics(len(batch), *entry[1:]) for entry in found}


def names_of(columns: Iterable[str]) -> list[str]:
    """Return the names of the columns whose statistics a caller wants, as a list."""
    if isinstance(columns, (str, bytes)) or not isinstance(columns, Iterable):
        raise UsageError(f"statistics: expected True, False or names of columns, found {described(columns)}")
    return [check_text("statistics: each column", each) for each in items_of("statistics", columns)]


def _check_names(names: Iterable[str], schema: Schema) -> None:
    for name in names:
        if name not in schema:
            raise NotFoundError(f"statistics: the schema has no column {name!r}; its columns are {schema.names}")


class Annotator:
    """Adds statistics of all columns (True), or of some, to the metadata of batches that are written."""

    __slots__ = ("_collector", "_last", "_mark", "_names", "file")

    #: The `sources.file_statistics.FileStatistics` that also collects them for a footer; None: there is no footer.
    file: Any

    def __init__(self, columns: bool | Iterable[str]) -> None:
        self._names = () if columns is True else tuple(names_of(columns))  # type: ignore[arg-type]
        self._collector = Collector(None if columns is True else self._names)
        self._last: tuple[int, dict[str, dict[str, Any]]] = 0, {}
        self._mark = 0
        self.file = None

    def check(self, schema: Schema) -> None:
        """Begin with the schema of the batches; raise a UsageError if a wanted column is not there."""
        _check_names(self._names, schema)
        self._mark = mark_of(schema)
        if self.file is not None:
            self.file.begin(schema)

    def written(self) -> None:
        """Tell `file` that the batch that was annotated last is now in the file."""
        if self.file is not None:
            self.file.add(*self._last)

    def __call__(
        self, columns: Columns, start: int, rows: int, pairs: tuple[tuple[bytes, bytes], ...]
    ) -> tuple[tuple[bytes, bytes], ...]:
        """Return the metadata with the statistics of some rows."""
        entries = entries_of(self._collector.collect(columns, start, rows))
        self._last = rows, entries
        return (*pairs, (STATISTICS_KEY, encode_statistics(entries, rows, self._mark)))


# -- writing -------------------------------------------------------------------------------------------------


# The encoder is made once: making it takes longer than encoding a few columns.
_TO_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def encode_statistics(entries: dict[str, dict[str, Any]], rows: int, mark: int) -> bytes:
    """Return the value for `STATISTICS_KEY`; `mark` is `mark_of` the schema."""
    return _TO_JSON({"v": VERSION, "rows": rows, "names": mark, "columns": entries}).encode()


def entries_of(found: Iterable[Found]) -> dict[str, dict[str, Any]]:
    """Return the JSON object of each column, by its path."""
    return {each[0]: _entry(*each[1:]) for each in found}


def mark_of(schema: Schema) -> int:
    """Return a number that almost certainly differs for columns of other names or in another order."""
    return crc32("\0".join(paths_of(schema)).encode())


def paths_of(schema: Schema) -> list[str]:
    """Return the paths of all columns and members of structs, in depth-first order."""
    found: list[str] = []
    left: list[tuple[at.Field, str]] = [(field, "") for field in reversed(schema.fields)]
    while left:
        field, prefix = left.pop()
        found.append(prefix + field.name)
        if isinstance(field.type, at.Struct):
            left += [(child, f"{found[-1]}.") for child in reversed(field.type.fields)]
    return found


def _entry(
    nulls: int | None, low: Bound, high: Bound, low_exact: bool, high_exact: bool, nan: bool | None
) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if nulls is not None:
        entry["nulls"] = nulls
    if low is not None or high is not None:
        entry["kind"] = _KIND_OF[type(high if low is None else low)]
        if low is not None:
            entry["min"] = _outward(low)
        if high is not None:
            entry["max"] = _outward(high)
        if not low_exact:
            entry["min_exact"] = False
        if not high_exact:
            entry["max_exact"] = False
    if nan is not None:
        entry["nan"] = nan
    return entry


def _outward(value: Any) -> Any:
    """Return a bound as it is written in JSON."""
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    whole = not isinstance(value, int) or -SAFE <= value <= SAFE
    return value if whole and value not in (INFINITY, -INFINITY) else str(value)


# -- reading: the bytes may come from anywhere ---------------------------------------------------------------


def statistics_in(metadata: KeyValueMetadata, mark: int, own_rows: int) -> dict[str, ColumnStatistics] | None:
    """Return the statistics in the metadata of a message; `mark` is `mark_of` its schema, `own_rows` are its rows.

    None: there are none, their form is not that of this version, or a tool copied them from another message. A column
    with an invalid part is left out.
    """
    values = [value for key, value in metadata.pairs if key == STATISTICS_KEY]
    document = document_of(values[0], mark) if len(values) == 1 else None
    rows, columns = (None, None) if document is None else (document.get("rows"), document.get("columns"))
    if type(rows) is not int or rows != own_rows or not isinstance(columns, dict):
        return None
    found: dict[str, ColumnStatistics] = {}
    for path, entry in columns.items():
        if isinstance(entry, dict):
            one = {name: value if name == "kind" else [value] for name, value in entry.items()}
            found.update((path, each) for each in listed(one, [rows]))
    return found


def document_of(text: bytes, mark: int) -> dict[str, Any] | None:
    """Return the JSON object of statistics of this version, for columns of this mark; None for anything else."""
    try:
        document = json.loads(text, parse_constant=_refuse)  # NaN and Infinity are not JSON, but Python reads them
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or type(document.get("v")) is not int or document["v"] != VERSION:
        return None
    return document if document.get("names") == mark else None


def _refuse(name: str) -> Any:
    raise ValueError(name)


def listed(column: Any, rows: list[int]) -> list[ColumnStatistics]:
    """Return the statistics of each batch for one column of a document; an empty list if any part is invalid.

    `rows` are those of the batches; all parts of the column except its kind are lists of as many values.
    """
    count = len(rows)
    if not isinstance(column, dict):
        return []
    parts: list[list[Any]] = []
    for name in ("nulls", "min", "max", "min_exact", "max_exact", "nan"):
        part = column.get(name, [None] * count)
        if not isinstance(part, list) or len(part) != count:
            return []
        parts.append(part)
    nulls, low, high, low_exact, high_exact, nan = parts
    try:
        if not _only(nulls, int) or not all(map(_only, (low_exact, high_exact, nan), (bool, bool, bool))):
            return []
        low, high = (_bounds(column, values) for values in (low, high))
        # Text sorts by code points, and thus by its UTF-8 bytes too.
        if any(a is not None and b is not None and a > b for a, b in zip(low, high, strict=True)):
            return []
    except (KeyError, TypeError, ValueError, OverflowError):
        return []
    if any(n is not None and not 0 <= n <= most for n, most in zip(nulls, rows, strict=True)):
        return []
    exact = [
        [True] * count if _only(part, type(None)) else [each is not False for each in part]
        for part in (low_exact, high_exact)
    ]
    return list(map(ColumnStatistics, rows, nulls, low, high, *exact, nan))


def _only(values: list[Any], kind: type) -> bool:
    return {*map(type, values)} <= {kind, type(None)}


def _bounds(column: dict[str, Any], values: list[Any]) -> list[Any]:
    """Return the bounds that the JSON values of a column stand for; most kinds need no conversion."""
    if _only(values, type(None)):
        return values
    kind = column["kind"]
    if kind == "text":
        "".join([value for value in values if value is not None]).encode()  # JSON can spell halves of surrogate pairs
    elif kind not in _KINDS or not _only(values, _KINDS[kind]):
        read: Callable[[Any], Any] = {"int": _int_in, "float": _float_in, "binary": _binary_in}[kind]
        return [None if value is None else read(value) for value in values]
    return values


def _int_in(value: Any) -> int:
    if type(value) is int:
        return value
    digits = value.removeprefix("-") if isinstance(value, str) else ""
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > MOST_DIGITS:
        raise ValueError(value)
    return int(value)


def _float_in(value: Any) -> float:
    if value in ("inf", "-inf") or type(value) in (int, float):
        return float(value)
    raise ValueError(value)


def _binary_in(value: Any) -> bytes:
    return a2b_base64(value, strict_mode=True)


_KIND_OF = {bool: "bool", int: "int", float: "float", str: "text", bytes: "binary"}
#: Kinds -> the type of their JSON values that need no conversion.
_KINDS = {"bool": bool, "int": int, "float": float}
