"""Arrays as other types: numbers and times by NumPy where all of them fit, else one value after the other."""

from __future__ import annotations

import math

from arrowipc import datatypes as at
from arrowipc.arguments import described
from arrowipc.columns.array import Array, stored_as
from arrowipc.errors import UsageError
from arrowipc.types import as_type
from arrowipc.values.from_python import build_array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from arrowipc.types import TypeLike

_NUMBERS = at.Int, at.FloatingPoint
_MOMENTS = at.Timestamp, at.Date
_TIMES = at.Timestamp, at.Date, at.Time, at.Duration
#: Unit -> how long it takes, in nanoseconds.
_LENGTH = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "day": 86_400 * 10**9}


def cast(array: Array, type: TypeLike) -> Array:
    """See `Array.cast`."""
    source, target = array.type, as_type(type)
    values: Any
    if source != target and isinstance(source, _NUMBERS) and isinstance(target, _NUMBERS):
        numbers = _as_numbers(array, target)
        if numbers is not None:
            return numbers
    if isinstance(source, _TIMES) and isinstance(target, _TIMES):
        _check_times(source, target)
        if (scaled := _as_scaled(array, source, target)) is not None:
            return scaled
        values = _scaled(_stored(array).to_pylist(), source, target)
    elif isinstance(source, _TIMES) and target == _integers(source):
        values = _stored(array)
    elif isinstance(target, _TIMES) and source == _integers(target):
        values = array.to_pylist(extensions=False)
    elif isinstance(target, at.Dictionary):
        values = array if target.value_type == source else cast(array, target.value_type)
    elif isinstance(source, at.Null) or _times(source) == _times(target):
        values = _converted(array.to_pylist(extensions=False), source, target)
    else:
        raise _refused(source, target)
    try:
        return build_array(values, target)
    except UsageError as error:
        raise UsageError(f"cast of {source} to {target}: {error}; to_arrow().cast() converts more") from None


def _as_numbers(array: Array, target: Any) -> Array | None:
    """The numbers as NumPy converts them; None where some do not fit, or NumPy does not prove that they do."""
    from arrowipc.values.to_numpy import np, split, stored_dtype

    values, valid = split(array)
    dtype = stored_dtype(target)
    if valid is not None:
        values = np.where(valid, values, values.dtype.type(0))  # under nulls may be anything
    # Python compares integers with floats exactly.
    low, high = (values.min().item(), values.max().item()) if len(values) else (0, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(dtype)
    if dtype.kind == "f" and values.dtype.kind == "f":
        fits = not (np.isinf(converted) & ~np.isinf(values)).any()
    elif dtype.kind == "f":  # larger integers may have more digits than it
        fits = max(-low, high) <= 1 << np.finfo(dtype).nmant + 1
    else:
        fits = np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max  # false of NaN, too
        fits = fits and (values.dtype.kind != "f" or bool((values == np.trunc(values)).all()))
    if not fits:
        return None
    return _of_numbers(target, converted, valid)


def _refused(source: at.DataType, target: at.DataType) -> UsageError:
    return UsageError(f"{source} is not cast to {target} here: to_arrow().cast() may do it")


def _times(kind: at.DataType) -> list[at.DataType]:
    """The types of times in a type: what Python has no class for is an integer of their units."""
    if isinstance(kind, at.Dictionary):
        return _times(kind.value_type)
    return [kind] if isinstance(kind, _TIMES) else [each for child in kind.children for each in _times(child.type)]


def _integers(times: Any) -> at.Int:
    """The integers that hold times."""
    return at.Int(32 if times == at.Date("day") else getattr(times, "bit_width", 64), True)


def _stored(array: Array) -> Array:
    """The integers of a column of times."""
    return stored_as(array, _integers(array.type), array.buffers(), len(array))


def _check_times(source: Any, target: Any) -> None:
    """Refuse times that are not cast to those of another type."""
    alike = isinstance(source, _MOMENTS) and isinstance(target, _MOMENTS)
    zones = [getattr(each, "timezone", None) is None for each in (source, target)]
    if not (alike or isinstance(target, source.__class__)) or zones[0] != zones[1]:
        raise _refused(source, target)


def _as_scaled(array: Array, source: Any, target: Any) -> Array | None:
    """Counts of one unit as counts of another, computed by NumPy; None where some are not whole, or do not fit."""
    from arrowipc.values.to_numpy import np, split

    values, valid = split(_stored(array))
    values = values.astype(np.int64) if valid is None else np.where(valid, values, np.int64(0))
    old, new = _LENGTH[source.unit], _LENGTH[target.unit]
    step = _LENGTH["day"] if isinstance(target, at.Date) else new
    common, whole = math.gcd(old, new), step // math.gcd(old, step)
    low, high = (values.min().item(), values.max().item()) if len(values) else (0, 0)
    smallest, largest = low * old // new, high * old // new
    bounds = np.iinfo(f"i{_integers(target).bit_width // 8}")
    in_day = not isinstance(target, at.Time) or (smallest >= 0 and largest * new < _LENGTH["day"])
    # The product, before it is divided, has to fit, too.
    fits = max(-low, high) * (old // common) <= np.iinfo(np.int64).max
    if not (fits and in_day and bounds.min <= smallest and largest <= bounds.max and not (values % whole).any()):
        return None
    return _of_numbers(target, (values * (old // common) // (new // common)).astype(bounds.dtype), valid)


def _of_numbers(target: Any, values: Any, valid: Any) -> Array:
    """An array of stored values; `valid` None: none is null."""
    from arrowipc.values.to_numpy import np

    bits = None if valid is None else np.packbits(valid, bitorder="little")
    return Array.from_buffers(target, len(values), [bits, values])


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
    if isinstance(source, at.Bool) and isinstance(target, at.Int):
        return [None if value is None else int(value) for value in values]
    if isinstance(source, at.TEXT) and isinstance(target, at.BYTES):
        return [None if value is None else value.encode() for value in values]
    if isinstance(source, at.BYTES) and isinstance(target, at.TEXT):
        return [_text(row, value) for row, value in enumerate(values)]
    return values


def _text(row: int, value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        raise UsageError(f"row {row}: expected UTF-8, found {described(value)}") from None
