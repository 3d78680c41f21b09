"""Arrays as other types: by NumPy where all values fit, else one value after the other."""

from __future__ import annotations

import re

from arrowipc import datatypes as at
from arrowipc.arguments import described
from arrowipc.columns.array import Array, reinterpret
from arrowipc.columns.extensions import STORED_TIMES
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.derived.parse import parsed
from arrowipc.errors import UsageError
from arrowipc.schemas import Field, Schema
from arrowipc.types import as_type
from arrowipc.values.from_python import build_array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from arrowipc.types import TypeLike

_NUMBERS = at.Int | at.FloatingPoint
_COUNTED = _NUMBERS | at.Bool
_EXACT = at.Int | at.Decimal
_WORDS = at.Utf8 | at.LargeUtf8 | at.Binary | at.LargeBinary
_MOMENTS = at.Timestamp, at.Date
_TIMES = at.Timestamp, at.Date, at.Time, at.Duration
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
#: Unit -> how long it takes, in nanoseconds.
_LENGTH = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "day": 86_400 * 10**9}


def cast(array: Array, type: TypeLike) -> Array:
    """See `Array.cast`."""
    source, target = array.type, as_type(type)
    if source == target and array.field.extension_name is None:
        return array
    values: Any
    are_times = isinstance(source, _TIMES) and isinstance(target, _TIMES)
    made: Array | None = None
    if are_times:
        _check_times(source, target)
        lengths = [_LENGTH[kind.unit] for kind in (source, target)]
        made = _by_numpy(lambda fast: fast.times(integers_of(array), target, *lengths))
    elif isinstance(source, _COUNTED) and isinstance(target, _NUMBERS):
        made = _by_numpy(lambda fast: fast.numbers(array, target))
    elif isinstance(source, _EXACT) and isinstance(target, _EXACT):
        made = _by_numpy(lambda fast: fast.decimals(array, target))
    elif isinstance(source, at.Dictionary) and not isinstance(target, at.Dictionary):
        plain = _by_numpy(lambda fast: fast.decoded(array))
        made = plain if plain is None or plain.type == target else cast(plain, target)
    elif isinstance(source, _WORDS) and isinstance(target, _WORDS):
        made = _by_numpy(lambda fast: fast.words(array, target))
    if made is not None:
        return made
    if are_times:
        values = _scaled(integers_of(array).to_pylist(), source, target)
    elif isinstance(source, _TIMES) and target == integers_for(source):
        values = integers_of(array)
    elif isinstance(target, _TIMES) and source == integers_for(target):
        is_any = isinstance(target, at.Timestamp | at.Duration)  # others have numbers that are no time
        values = (
            reinterpret(array, target, array.buffers(), len(array)) if is_any else array.to_pylist(extensions=False)
        )
    elif isinstance(source, at.Dictionary) and isinstance(target, at.Dictionary) and _has_room(array, target):
        return _recoded(array, target)
    elif isinstance(target, at.Dictionary):
        values = array if target.value_type == source else cast(array, target.value_type)
    elif isinstance(source, at.TEXT) and isinstance(target, _NUMBERS):
        values = _parsed(array, target)
        if values.type != target:
            return cast(values, target)
    elif isinstance(source, at.Null) or (
        _times(source) == _times(target) and not (_has_order(source) and _has_order(target))
    ):
        values = _converted(array.to_pylist(extensions=STORED_TIMES), source, target)
    else:
        raise _refused(source, target)
    try:
        return build_array(values, target)
    except UsageError as error:
        raise UsageError(f"cast of {source} to {target}: {error}; to_arrow().cast() converts more") from None


def _has_room(array: Array, target: at.Dictionary) -> bool:
    """Whether the indices of `target` count all words of a dictionary; refuse an ordered one that would lose some."""
    count = 0 if array.dictionary is None else len(array.dictionary)
    most = 1 << (target.index_type.bit_width - target.index_type.signed)
    if count > most and target.ordered:
        raise UsageError(f"{array.type} is not cast to {target}: its indices count {most:,} values, not {count:,}")
    return count <= most


def _recoded(array: Array, target: at.Dictionary) -> Array:
    """The dictionary in its order, as values of another type, and the indices as other integers."""
    source: Any = array.type
    indices = cast(reinterpret(array, source.index_type, array.buffers(), len(array)), target.index_type)
    words = None if array.dictionary is None else cast(array.dictionary, target.value_type)
    schema, rows = Schema([Field("", target)]), indices.offset + len(indices)
    whole = RecordBatch.from_buffers(schema, rows, [(rows, -1)], indices.buffers(), dictionaries=[words])
    return whole.column(0).slice(indices.offset)


def _by_numpy(convert: Callable[[ModuleType], Any]) -> Array | None:
    """The column as NumPy converts it; None where it is not there, or not all values fit."""
    try:
        from arrowipc.derived import fast_casts
    except ImportError:
        return None
    return convert(fast_casts)  # type: ignore[no-any-return]


def _refused(source: at.DataType, target: at.DataType) -> UsageError:
    return UsageError(f"{source} is not cast to {target} here: to_arrow().cast() may do it")


def _times(kind: at.DataType) -> list[at.DataType]:
    """The types of times in a type: what Python has no class for is an integer of their units."""
    if isinstance(kind, at.Dictionary):
        return _times(kind.value_type)
    return [kind] if isinstance(kind, _TIMES) else [each for child in kind.children for each in _times(child.type)]


def _has_order(kind: at.DataType) -> bool:
    """Whether there is an ordered dictionary in a type: values do not say in which order it has them."""
    if isinstance(kind, at.Dictionary):
        return kind.ordered or _has_order(kind.value_type)
    return any(_has_order(child.type) for child in kind.children)


def integers_for(times: Any) -> at.Int:
    """The integers that hold times."""
    return at.Int(32 if times == at.Date("day") else getattr(times, "bit_width", 64), True)


def integers_of(array: Array) -> Array:
    """The integers of a column of times."""
    return reinterpret(array, integers_for(array.type), array.buffers(), len(array))


def _check_times(source: Any, target: Any) -> None:
    """Refuse times that are not cast to those of another type."""
    alike = isinstance(source, _MOMENTS) and isinstance(target, _MOMENTS)
    zones = [getattr(each, "timezone", None) is None for each in (source, target)]
    if not (alike or isinstance(target, source.__class__)) or zones[0] != zones[1]:
        raise _refused(source, target)


def _scaled(values: list[int | None], source: Any, target: Any) -> list[int | None]:
    """Counts of one unit as counts of another."""
    old, new = _LENGTH[source.unit], _LENGTH[target.unit]
    whole = "day" if isinstance(target, at.Date) else target.unit
    for row, value in enumerate(values):
        if value is not None and value * old % _LENGTH[whole]:
            raise UsageError(f"row {row}: {value:,} {source.unit} are no whole number of {whole}")
    return [None if value is None else value * old // new for value in values]


def _converted(values: list[Any], source: at.DataType, target: at.DataType) -> list[Any]:
    """Values that the target's class of Python has in another form."""
    if isinstance(source, at.FloatingPoint) and isinstance(target, at.Int):
        return [int(value) if value is not None and value.is_integer() else value for value in values]
    if isinstance(source, at.Decimal) and isinstance(target, at.Int):
        # 1E+2147483647 is no integer that anybody has memory for.
        small = [value is not None and (not value or value.adjusted() < 20) for value in values]
        whole = [fits and value == value.to_integral_value() for value, fits in zip(values, small, strict=True)]
        return [int(value) if is_whole else value for value, is_whole in zip(values, whole, strict=True)]
    if isinstance(source, at.Bool) and isinstance(target, _NUMBERS):
        return [None if value is None else int(value) for value in values]
    if isinstance(source, _NUMBERS) and isinstance(target, at.Bool):
        return [bool(value) if value in (0, 1) else value for value in values]
    if isinstance(source, at.TEXT) and isinstance(target, at.Decimal):
        return [_number(row, value) for row, value in enumerate(values)]
    if isinstance(source, at.TEXT) and isinstance(target, at.Bool):
        return [_truth(row, value) for row, value in enumerate(values)]
    if isinstance(source, at.Bool) and isinstance(target, at.TEXT):
        return [None if value is None else "true" if value else "false" for value in values]
    if isinstance(source, _EXACT) and isinstance(target, at.TEXT):
        return [None if value is None else str(value) for value in values]
    if isinstance(source, at.TEXT) and isinstance(target, at.BYTES):
        return [None if value is None else value.encode() for value in values]
    if isinstance(source, at.BYTES) and isinstance(target, at.TEXT):
        return [_text(row, value) for row, value in enumerate(values)]
    return values


def _parsed(array: Array, target: Any) -> Array:
    """The numbers that text writes out, in 64 bits."""
    floats, signed = isinstance(target, at.FloatingPoint), getattr(target, "signed", True)
    numbers, wrong = parsed(array, floats, signed)
    if wrong >= 0:
        expected = "a number" if floats else "a whole number" if signed else "a whole number from 0 on"
        raise UsageError(f"row {wrong}: expected {expected}, found {described(array[wrong])}")
    valid = array.buffers()[0]
    kind = at.FloatingPoint("double") if floats else at.Int(64, signed)
    buffers = [valid and valid[array.offset // 8 :], numbers]
    return Array.from_buffers(kind, len(array), buffers, offset=array.offset % 8)


def _number(row: int, value: str | None) -> str | None:
    """A text that writes a number out; Python's Decimal also takes spaces, underscores and digits of other scripts."""
    if value is not None and not _DECIMAL.fullmatch(value):
        raise UsageError(f"row {row}: expected a number, found {described(value)}")
    return value


def _truth(row: int, value: str | None) -> bool | None:
    """Whether a text says true."""
    if value is None:
        return None
    word = value.lower()
    if word not in ("true", "false", "1", "0"):
        raise UsageError(f"row {row}: expected 'true', 'false', '1' or '0', found {described(value)}")
    return word in ("true", "1")


def _text(row: int, value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        raise UsageError(f"row {row}: expected UTF-8, found {described(value)}") from None
