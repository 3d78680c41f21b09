"""NumPy arrays as the buffers of our columns: which dtype a type takes as it is, and which without loss.

The inverse of :mod:`arrowipc.values.to_numpy`. What has no buffer of the same shape (text, objects, nested
values) becomes a list of Python values.
"""

from __future__ import annotations

import numpy as np

from arrowipc import datatypes as at
from arrowipc.values.to_numpy import is_days, stored_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    import numpy.typing as npt

    _Values: TypeAlias = npt.NDArray[Any]
    _Mask: TypeAlias = npt.NDArray[np.bool_]


_MS_PER_DAY = 86_400_000
#: How many values are converted at a time: what each step reads and writes stays in the processor's cache.
_BLOCK = 1 << 16


class Misfit(Exception):
    """Why an array does not fit a type, from which element on (None: all); the caller makes a UsageError of it."""

    def __init__(self, problem: str, row: int | None = None) -> None:
        super().__init__(problem, row)
        self.problem = problem
        self.row = row


def stored(values: _Values, kind: at.DataType) -> tuple[_Values, _Mask | None] | None:
    """Give the values of one dimension as the buffer of `kind` holds them, and a mask of the nulls.

    Masked arrays have nulls where they are masked, datetime64 and timedelta64 at NaT. The values share memory with
    `values` where that was possible; booleans are one byte each. None: only Python values will do. `Misfit`: the dtype
    cannot be cast without loss.
    """
    dtype = values.dtype
    if dtype.kind in "OSUT" or dtype.fields is not None:
        return None
    target = np.dtype("<i4") if is_days(kind) else stored_dtype(kind)
    if isinstance(kind, at.FixedSizeBinary):
        if dtype.kind != "V" or dtype != target or dtype.itemsize == 0:
            return None
    elif isinstance(kind, at.Bool):
        target = np.dtype(np.bool_)
    elif target is None or target.kind == "V":
        return None
    plain, mask = _unmasked(values)
    if dtype.kind in "mM":
        plain, mask = _ticks(plain, mask, kind)
    else:
        # Numbers given for times are those that are stored.
        number = np.dtype(f"<i{target.itemsize}") if target.kind in "mM" else target
        if mask is not None:
            # Nobody has to have filled what lies under a mask.
            plain = plain.copy()
            plain[mask] = np.zeros((), plain.dtype)
        if dtype != number:
            plain = _cast(plain, number, kind)
    return np.require(plain, requirements=["C", "A"]), mask


def listed(values: _Values, kind: at.DataType) -> list[Any]:
    """Give the values as Python objects that `kind` takes, nulls as None; a `Misfit` if they do not fit it."""
    if values.ndim == 0:
        raise Misfit("expected an array of at least one dimension, found one of none")
    dtype = values.dtype
    if dtype.kind in "mM":
        # In the unit of the type: a number alone does not say what it counts.
        flat, mask = _unmasked(values.reshape(-1))
        try:
            flat, mask = _ticks(flat, mask, _leaf(kind))
        except Misfit as misfit:
            row = None if misfit.row is None else misfit.row * len(values) // values.size
            raise Misfit(misfit.problem, row) from None
        numbers = flat.astype(object)
        if mask is not None:
            numbers[mask] = None
        return list(numbers.reshape(values.shape).tolist())
    if dtype.kind == "f" and dtype.itemsize > 8:
        raise _unfit(dtype, kind)
    items = list(values.tolist())
    missing = getattr(dtype, "na_object", "")
    if not isinstance(missing, str):  # NumPy takes text that stands for what is missing for text
        return [None if item is missing else item for item in items]
    return items


def _unfit(dtype: np.dtype[Any], kind: at.DataType) -> Misfit:
    return Misfit(f"an array of {dtype} cannot become {kind} without loss; convert it first, for instance with astype")


def _leaf(kind: at.DataType) -> at.DataType:
    """Return the type of the values inside encodings and lists."""
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    return kind


def _unmasked(values: _Values) -> tuple[_Values, _Mask | None]:
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values), None
    mask = np.ma.getmaskarray(values)
    return np.asarray(np.ma.getdata(values)), mask if mask.any() else None


def in_blocks(
    values: _Values, valid: _Mask | None, dtype: np.dtype[Any], convert: Callable[[_Values, _Values], bool]
) -> _Values | None:
    """Convert values block by block; None as soon as one does not fit.

    `convert` gets a block and where its result belongs, and returns whether all fits. If not, it gets the block again
    with zeros in place of nulls, under which anything may lie.
    """
    converted = np.empty(len(values), dtype)
    for first in range(0, len(values), _BLOCK):
        block, out = values[first : first + _BLOCK], converted[first : first + _BLOCK]
        if not convert(block, out) and (
            valid is None or not convert(zeroed(block, valid[first : first + _BLOCK]), out)
        ):
            return None
    return converted


def zeroed(values: _Values, valid: _Mask | None) -> _Values:
    """Replace what lies under nulls by zeros."""
    return values if valid is None else np.where(valid, values, values.dtype.type(0))


def converted_numbers(values: _Values, valid: _Mask | None, dtype: np.dtype[Any]) -> _Values | None:
    """Numbers as another dtype; None where some do not fit, or NumPy does not prove that they do."""
    # The processor notes whether a finite number becomes infinite; looking for one takes a third of the time.
    over: Any = "raise" if dtype.kind == values.dtype.kind == "f" else "ignore"
    try:
        with np.errstate(all="ignore", over=over):
            return in_blocks(values, valid, dtype, _convert_numbers)
    except FloatingPointError:  # perhaps under a null
        return None if valid is None else converted_numbers(zeroed(values, valid), None, dtype)


def _convert_numbers(values: _Values, out: _Values) -> bool:
    out[:] = values
    if out.dtype.kind == "f":
        if values.dtype.kind == "f":
            return True
        # Python compares integers with floats exactly.
        has_few_digits = max(-values.min().item(), values.max().item()) <= 1 << np.finfo(out.dtype).nmant + 1
        return has_few_digits or not _is_rounded(values, out).any()
    if np.can_cast(values.dtype, out.dtype):
        return True
    limits = np.iinfo(out.dtype)
    if not (limits.min <= values.min().item() and values.max().item() <= limits.max):  # NaN is not between them
        return False
    return values.dtype.kind != "f" or bool((np.trunc(values) == values).all())


def _cast(values: _Values, target: np.dtype[Any], kind: at.DataType) -> _Values:
    """Cast numbers to a dtype that holds every one of them."""
    # NumPy calls bool -> int safe, which we keep apart, and int64 -> float64, which it is not always.
    is_safe = np.can_cast(values.dtype, target, "safe")
    is_known = values.dtype.kind in "iuf" and values.dtype.itemsize <= 8
    if not is_known or not (is_safe or isinstance(kind, (at.Int, at.FloatingPoint))):
        raise _unfit(values.dtype, kind)
    if not is_safe:
        if (converted := converted_numbers(values, None, target)) is None:
            raise _unfit(values.dtype, kind)
        return converted
    cast = values.astype(target)
    if values.dtype.kind in "iu" and target.kind == "f" and values.dtype.itemsize == 8:
        _refuse(_is_rounded(values, cast), values, f"is an integer that {kind} cannot hold exactly")
    return cast


def _is_rounded(integers: _Values, floats: _Values) -> _Mask:
    """Which integers have more digits than the floats that they became, or are too large for them."""
    beyond = np.isinf(floats) | (floats == float(np.iinfo(integers.dtype).max + 1))
    rounded: _Mask = beyond | (np.where(beyond, 0, floats).astype(integers.dtype) != integers)
    return rounded


def _ticks(values: _Values, mask: _Mask | None, kind: at.DataType) -> tuple[_Values, _Mask | None]:
    """Times as the integers that `kind` stores, and which are null."""
    if is_days(kind):
        target = np.dtype("<M8[D]")
    elif isinstance(kind, (at.Date, at.Timestamp, at.Duration)):
        found = stored_dtype(kind)
        assert found is not None
        target = found
    else:
        raise _unfit(values.dtype, kind)
    if values.dtype.kind != target.kind or not np.can_cast(values.dtype, target, "safe"):
        raise _unfit(values.dtype, kind)
    null = np.isnat(values)
    if mask is not None:
        values = np.where(mask, np.zeros((), values.dtype), values)
        null |= mask
    ticks = values
    if values.dtype != target:
        # A coarse unit reaches further than a fine one: NumPy wraps around, or from 2.5 on raises.
        problem = f"lies outside the range of {kind}"
        try:
            ticks = values.astype(target)
        except OverflowError:
            row = _first_beyond(values, target)
            raise Misfit(f"{values[row]} {problem}", row) from None
        _refuse((ticks.astype(values.dtype) != values) & ~null, values, problem)
    numbers = ticks.view("<i8")
    if isinstance(kind, at.Date) and not is_days(kind):
        _refuse((numbers % _MS_PER_DAY != 0) & ~null, values, "is a part of a day, and dates are whole days")
    if is_days(kind):
        numbers = np.where(null, 0, numbers)
        outside = (numbers < -(2**31)) | (numbers >= 2**31)
        _refuse(outside, values, f"lies outside the range of {kind}")
        numbers = numbers.astype("<i4")
    return numbers, null if null.any() else None


def _first_beyond(values: _Values, target: np.dtype[Any]) -> int:
    """Return the row of the first of `values` for which casting all of them fails."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            values[low:middle].astype(target)
            low = middle
        except OverflowError:
            high = middle
    return low


def _refuse(wrong: _Mask, values: _Values, problem: str) -> None:
    rows = np.flatnonzero(wrong)
    if rows.size:
        raise Misfit(f"{values[rows[0]]} {problem}", int(rows[0]))
