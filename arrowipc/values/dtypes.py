"""The elements of tensors: Arrow types of a fixed width to NumPy dtypes, and back, without converting values.

A boolean is one byte in NumPy and one bit in Arrow's columns; the format does not say what it is in a tensor.
Booleans are written as uint8, as by Arrow C++, and a tensor of type bool is read as one byte per value.
"""

from __future__ import annotations

import numpy as np

from arrowipc import datatypes as at
from arrowipc._core import Recent
from arrowipc.arguments import described
from arrowipc.errors import UsageError
from arrowipc.types import as_type
from arrowipc.values.to_numpy import INTERVAL_DTYPES, is_days, stored_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from arrowipc.types import TypeLike

_types = Recent(64)

_HINTS = {
    "O": "tensors hold values of a fixed width, not Python objects",
    "U": "text has no fixed width in Arrow",
    "T": "text has no fixed width in Arrow",
    "c": "the format has no complex numbers: write x.view(x.real.dtype), twice as long in its last dimension",
}
_PRECISIONS = {2: "half", 4: "single", 8: "double"}


def dtype_of(kind: at.DataType) -> np.dtype[Any]:
    """Return the dtype that stores values as a type of fixed width does; other types are a `UsageError`.

    Dates in days are int32, times of day int32 or int64; decimals and fixed-size binary are void.
    """
    if isinstance(kind, at.Bool):
        return np.dtype(np.bool_)
    stored = np.dtype("<i4") if is_days(kind) else stored_dtype(kind)
    if stored is None:
        raise UsageError(f"a tensor holds values of a fixed width, found the type {kind}")
    return stored


def type_of(dtype: np.dtype[Any]) -> at.DataType:
    """Return the type that stores values as a dtype does; a `UsageError` if there is none.

    Booleans become uint8, ``datetime64`` and ``timedelta64`` timestamps and durations, bytes and void
    fixed-size binary.
    """
    found: at.DataType | None = _types.get(dtype)
    if found is None:
        found = _type_of(dtype)
        _types.put(dtype, found)
    return found


def _type_of(dtype: np.dtype[Any]) -> at.DataType:
    kind, width = dtype.kind, dtype.itemsize
    if kind in "iu":
        return at.Int(8 * width, kind == "i")
    if kind == "b":
        return at.Int(8, False)
    if kind == "f" and width in _PRECISIONS:
        return at.FloatingPoint(_PRECISIONS[width])  # type: ignore[arg-type]
    if kind in "mM":
        unit, count = np.datetime_data(dtype)
        if count == 1 and unit in ("s", "ms", "us", "ns"):
            made = at.Timestamp if kind == "M" else at.Duration
            return made(unit)  # type: ignore[arg-type]
        raise UsageError(
            f"Arrow has no type for {dtype}: its unit is none of s, ms, us, ns; convert it, for instance with "
            f"astype({'datetime64' if kind == 'M' else 'timedelta64'!r} + '[s]')"
        )
    if kind == "V":
        for unit, stored in INTERVAL_DTYPES.items():
            if stored == dtype:
                return at.Interval(unit)  # type: ignore[arg-type]
    if kind in "SV" and not dtype.hasobject:
        return at.FixedSizeBinary(width)
    raise UsageError(f"Arrow has no type for {dtype}" + (f": {_HINTS[kind]}" if kind in _HINTS else ""))


def as_values(data: Any, kind: TypeLike | None) -> tuple[npt.NDArray[Any], at.DataType]:
    """Return data of any library as an array in native byte order, and the type of its elements.

    `kind` is the meaning of the stored values, such as dates for int32; the widths must agree. Raise a UsageError if
    the data is no array, or its elements have no fixed width.
    """
    values = data if isinstance(data, np.ndarray) else _array_of(data)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            raise UsageError("a tensor has no nulls: fill the masked values first, with filled()")
        values = values.data
    if kind is None:
        return values, type_of(values.dtype)
    kind = as_type(kind)
    width = dtype_of(kind).itemsize
    if values.dtype.hasobject or width != values.dtype.itemsize:
        raise UsageError(f"values of {values.dtype} are not stored as {kind} is, which takes {width} bytes each")
    return values, kind


def _array_of(data: Any) -> npt.NDArray[Any]:
    if isinstance(data, (str, dict, set)) or data is None:
        raise UsageError(f"expected an array, found {described(data)}")
    try:
        return np.asarray(data if isinstance(data, np.generic) else memoryview(data))
    except BufferError as error:
        raise UsageError(f"expected an array of numbers without nulls, found {type(data).__name__}: {error}") from None
    except (TypeError, ValueError, NotImplementedError):
        pass
    try:
        if hasattr(data, "__dlpack__"):
            return np.from_dlpack(data)
        return np.asarray(data)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise UsageError(
            f"expected an array, a buffer or a DLPack object, found {type(data).__name__}: {error}"
        ) from error
