"""Casts of whole columns of numbers, decimals, times and text by NumPy, where it is there and all values fit."""

from __future__ import annotations

import numpy as np

from arrowipc import datatypes as at
from arrowipc.columns.array import Array, column_of
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.derived.dictionary_encode import decoded as decoded
from arrowipc.errors import FormatError
from arrowipc.schemas import schema_of_type
from arrowipc.values.from_numpy import converted_numbers, in_blocks, zeroed
from arrowipc.values.to_numpy import split, stored_dtype, valid_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DAY = 86_400 * 10**9
_MOST = (1 << 63) - 1


def numbers(array: Array, target: at.Int | at.FloatingPoint) -> Array | None:
    """The numbers as NumPy converts them; None as for `converted_numbers`."""
    values, valid = split(array)
    dtype = stored_dtype(target)
    assert dtype is not None
    converted = converted_numbers(values, valid, dtype)
    return None if converted is None else _array_of(target, converted, valid)


def decimals(array: Array, target: Any) -> Array | None:
    """Integers and decimals as decimals or integers; None where some do not fit, or the numbers stored have 64 bits."""
    values, valid = _unscaled(array)
    if values is None:
        return None
    shift = getattr(target, "scale", 0) - getattr(array.type, "scale", 0)
    if abs(shift) > 18:  # foreign scales may be of 32 bits
        return None
    factor = 10 ** abs(shift)
    most = max(-values.min().item(), values.max().item()) if len(values) else 0
    if factor > _MOST or (most > _MOST // factor if shift > 0 else not _are_multiples(values, factor)):
        return None
    values, most = (values * factor, most * factor) if shift > 0 else (values // factor, most // factor)
    if isinstance(target, at.Int):
        dtype = np.dtype(f"<{'i' if target.signed else 'u'}{target.bit_width // 8}")
        low = values.min().item() if len(values) else 0
        fits = np.iinfo(dtype).min <= low and most <= np.iinfo(dtype).max
        return _array_of(target, values.astype(dtype), valid) if fits else None
    if most >= 10**target.precision:
        return None
    if target.bit_width < 64:
        return _array_of(target, values.astype("<i4"), valid)
    limbs = np.empty((len(values), target.bit_width // 64), "<i8")
    limbs[:, 0], limbs[:, 1:] = values, (values >> 63)[:, None]
    return _array_of(target, limbs, valid)


def _unscaled(array: Array) -> tuple[Any, Any]:
    """The unscaled values of integers or decimals as int64, None where some have more bits; and which are not null."""
    if isinstance(array.type, at.Int):
        values, valid = split(array)
        most = values.max().item() if len(values) else 0
        return (zeroed(values, valid).astype(np.int64) if most <= _MOST else None), valid
    width = array.type.bit_width // 8
    stored = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    stored = stored[array.offset * width : (array.offset + len(array)) * width]
    limbs = stored.view("<i4" if width == 4 else "<i8").reshape(len(array), max(width // 8, 1))
    valid = valid_of(array)
    values = zeroed(limbs[:, 0], valid).astype(np.int64)
    above = limbs[:, 1:] if valid is None else np.where(valid[:, None], limbs[:, 1:], 0)
    return (values if (above == (values >> 63)[:, None]).all() else None), valid


def words(array: Array, target: Any) -> Array | None:
    """Text or bytes behind offsets as another such type, over the same bytes; None where they are not UTF-8."""
    _, offsets, data = array.buffers()
    dtypes = ["<i8" if isinstance(kind, at.LargeUtf8 | at.LargeBinary) else "<i4" for kind in (array.type, target)]
    ends = np.zeros(1, dtypes[0])
    if offsets:  # behind which there may be any number of bytes
        ends = np.frombuffer(offsets, dtypes[0], len(array) + 1, array.offset * ends.itemsize)
    if dtypes == ["<i8", "<i4"] and not 0 <= ends.min() <= ends.max() <= np.iinfo("<i4").max:
        return None
    valid = valid_of(array)
    bits = None if valid is None else np.packbits(valid, bitorder="little")
    schema, nodes = schema_of_type(target), [(len(array), -1)]
    buffers = [bits, ends.astype(dtypes[1], copy=False), data]
    becomes_text = isinstance(target, at.TEXT) and not isinstance(array.type, at.TEXT)
    try:
        made = RecordBatch.from_buffers(schema, len(array), nodes, buffers, validate="full" if becomes_text else "none")
    except FormatError:
        return None
    return made.column(0)


def times(integers: Array, target: Any, old: int, new: int) -> Array | None:
    """Counts of units of `old` ns as those of `new` ns; None where some are not whole, or do not fit."""
    values, valid = split(integers)
    dtype = np.dtype("<i4") if target == at.Date("day") or getattr(target, "bit_width", 64) == 32 else np.dtype("<i8")
    scale, step = max(old // new, 1), _DAY if isinstance(target, at.Date) else new

    def convert(block: Any, out: Any) -> bool:
        low, high = block.min().item(), block.max().item()
        smallest, largest = low * old // new, high * old // new
        in_day = not isinstance(target, at.Time) or (smallest >= 0 and largest * new < _DAY)
        fits = in_day and np.iinfo(dtype).min <= smallest and largest <= np.iinfo(dtype).max
        # The product has to fit, too.
        if not fits or max(-low, high) * scale > _MOST:
            return False
        block = block.astype(np.int64, copy=False)
        if old > new:
            np.multiply(block, scale, out=out, casting="unsafe")
            return _are_multiples(block, max(step // old, 1))
        np.floor_divide(block, new // old, out=out, casting="unsafe")
        is_whole = old == new or (out * np.int64(new // old) == block).all()
        return bool(is_whole) and (step == new or _are_multiples(block, step // old))

    converted = in_blocks(values, valid, dtype, convert)
    return None if converted is None else _array_of(target, converted, valid)


def _are_multiples(values: Any, size: int) -> bool:
    """Whether integers are multiples of one; NumPy divides much faster than it finds remainders."""
    return size == 1 or bool((values // size * size == values).all())


def _array_of(target: Any, values: Any, valid: Any) -> Array:
    """An array of stored values; `valid` None: none is null."""
    bits = None if valid is None else np.packbits(valid, bitorder="little")
    return column_of(target, len(values), [bits, values])
