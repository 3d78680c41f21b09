"""Casts of whole columns of numbers and times by NumPy, where it is there and all values fit."""

from __future__ import annotations

import numpy as np

from arrowipc import datatypes as at
from arrowipc.columns.array import Array
from arrowipc.values.to_numpy import split, stored_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

_DAY = 86_400 * 10**9


def numbers(array: Array, target: at.Int | at.FloatingPoint) -> Array | None:
    """The numbers as NumPy converts them; None as for :func:`converted_numbers`."""
    values, valid = split(array)
    dtype = stored_dtype(target)
    assert dtype is not None
    if valid is not None:
        values = np.where(valid, values, values.dtype.type(0))  # under nulls may be anything
    converted = converted_numbers(values, dtype)
    return None if converted is None else _array_of(target, converted, valid)


def converted_numbers(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Numbers as another dtype; None where some do not fit, or NumPy does not prove that they do."""
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(dtype)
    if values.dtype.kind == "f" and dtype.kind == "f":
        fits = bool(np.isfinite(converted).all() or (np.isinf(converted) == np.isinf(values)).all())
    else:
        # Python compares integers with floats exactly.
        low, high = (values.min().item(), values.max().item()) if len(values) else (0, 0)
        if dtype.kind == "f":  # larger integers may have more digits than it
            fits = max(-low, high) <= 1 << np.finfo(dtype).nmant + 1
        else:
            fits = np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max  # false of NaN, too
            fits = fits and (values.dtype.kind != "f" or bool((values == np.trunc(values)).all()))
    return converted if fits else None


def times(integers: Array, target: Any, old: int, new: int) -> Array | None:
    """Counts of units of `old` ns as those of `new` ns; None where some are not whole, or do not fit."""
    values, valid = split(integers)
    values = values.astype(np.int64, copy=False) if valid is None else np.where(valid, values, np.int64(0))
    low, high = (values.min().item(), values.max().item()) if len(values) else (0, 0)
    smallest, largest = low * old // new, high * old // new
    dtype = np.dtype("<i4") if target == at.Date("day") or getattr(target, "bit_width", 64) == 32 else np.dtype("<i8")
    in_day = not isinstance(target, at.Time) or (smallest >= 0 and largest * new < _DAY)
    scale, step = max(old // new, 1), _DAY if isinstance(target, at.Date) else new
    # The product has to fit, too.
    fits = max(-low, high) * scale <= np.iinfo(np.int64).max
    fits = fits and in_day and np.iinfo(dtype).min <= smallest and largest <= np.iinfo(dtype).max
    if not fits or not _are_multiples(values, max(step // old, 1)):
        return None
    counts = values * scale if old > new else values // (new // old)
    return _array_of(target, counts.astype(dtype, copy=False), valid)


def _are_multiples(values: Any, size: int) -> bool:
    """Whether integers are multiples of one; NumPy divides much faster than it finds remainders."""
    return size == 1 or bool((values // size * size == values).all())


def _array_of(target: Any, values: Any, valid: Any) -> Array:
    """An array of stored values; `valid` None: none is null."""
    bits = None if valid is None else np.packbits(valid, bitorder="little")
    return Array.from_buffers(target, len(values), [bits, values])
