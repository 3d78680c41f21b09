"""Arrays as NumPy arrays: views where a buffer has NumPy's layout, converted copies otherwise."""

from __future__ import annotations

import math
from functools import reduce

from arrowipc import datatypes as at
from arrowipc.arguments import described
from arrowipc.columns.array import Array
from arrowipc.errors import FormatError, LimitError, UsageError, not_installed

try:
    import numpy as np
except ModuleNotFoundError as _error:
    raise not_installed(_error) from None

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    import numpy.typing as npt

    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.metadata.tensor_parameters import TensorColumn

    _Values: TypeAlias = npt.NDArray[Any]
    _Valid: TypeAlias = npt.NDArray[np.bool_] | None

INTERVAL_DTYPES: dict[str, np.dtype[Any]] = {
    "year_month": np.dtype("<i4"),
    "day_time": np.dtype([("days", "<i4"), ("milliseconds", "<i4")]),
    "month_day_nano": np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")]),
}
# Bytes that encoded values may take when decoded: so many, plus so many for each byte stored.
FREE_BYTES = 1 << 27
BYTES_PER_BYTE = 16
_FLOATS = {"half": "<f2", "single": "<f4", "double": "<f8"}
#: Types whose values buffer has the layout of a NumPy dtype -> that dtype.
_CODES: dict[type[at.DataType], Callable[[Any], Any]] = {
    at.Int: lambda kind: f"<{'i' if kind.signed else 'u'}{kind.bit_width // 8}",
    at.FloatingPoint: lambda kind: _FLOATS[kind.precision],
    at.Timestamp: lambda kind: f"<M8[{kind.unit}]",
    at.Date: lambda kind: f"<M8[{kind.unit}]",
    at.Duration: lambda kind: f"<m8[{kind.unit}]",
    at.Time: lambda kind: f"<i{kind.bit_width // 8}",
    at.Interval: lambda kind: INTERVAL_DTYPES[kind.unit],
    at.Decimal: lambda kind: f"V{kind.bit_width // 8}",
    at.FixedSizeBinary: lambda kind: f"V{kind.byte_width}",
}


#: Objects for False, True and null, where some booleans are null.
_BOOLS = np.array([False, True, None], object)


def to_numpy(array: Array, copy: bool) -> _Values:
    """See :meth:`arrowipc.Array.to_numpy`."""
    parameters = _tensor_parameters(array)
    if parameters is None:
        return _copied(array) if copy else _viewed(array)
    if array.null_count and not copy:
        raise UsageError(f"a column of tensors with {array.null_count:,} nulls needs a copy: use copy=True")
    if parameters.shape is not None:
        return _fixed_to_numpy(array, parameters, parameters.shape, copy)
    return _variable_to_numpy(array, parameters, copy)


def as_array(array: Array, dtype: npt.DTypeLike | None, copy: bool | None) -> _Values:
    """Return the result of ``__array__``: a view if its elements are the values, else a copy if it is allowed."""
    try:
        dtype = None if dtype is None else np.dtype(dtype)
    except Exception as error:  # NumPy's parsers raise various classes
        raise TypeError(f"dtype={described(dtype)}: {error}") from None
    if copy is False:
        try:
            values = _viewed(array)
        except UsageError as error:
            raise ValueError(str(error)) from error  # NumPy's protocol asks for a ValueError
        if dtype is not None and values.dtype != dtype:
            raise ValueError(f"conversion of {array.type} to {dtype} needs a copy")
        return values
    values = _viewed(array) if not copy and _shows(array) else _copied(array)
    return values if dtype is None else _as_dtype(values, dtype, str(array.type))


def _as_dtype(values: _Values, dtype: npt.DTypeLike, what: str) -> _Values:
    try:
        return values.astype(dtype, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"values of {what} are not all {dtype}: {error}") from None


def rows_as_array(
    batches: Sequence[RecordBatch], width: int, dtype: npt.DTypeLike | None, promoted: np.dtype[Any] | None = None
) -> _Values:
    """Return the result of ``__array__`` of rows: a matrix, as from data frames; always a copy.

    If all columns have one dtype, the matrix has it; numbers become `promoted`, by default NumPy's common dtype. Others
    become objects, as in ``to_pylist``: NumPy would turn times into numbers, equally long lists into more dimensions.
    """
    columns = [[batch.column(i) for batch in batches] for i in range(width)]
    values = [[each.__array__() for each in column] for column in columns]
    dtypes = {each.dtype for column in values for each in column}
    flat = all(each.ndim == 1 for column in values for each in column)
    if not flat or (len(dtypes) > 1 and any(each.kind not in "biuf" for each in dtypes)):
        values = [[_objects(each) for each in column] for column in columns]
        dtypes = {np.dtype(object)}
    promoted = promoted or (np.result_type(*dtypes) if dtypes else np.dtype(np.float64))
    matrix = np.empty((sum(map(len, batches)), width), promoted)
    for i, column in enumerate(values):
        if promoted == np.int64 and any(len(each) and each.dtype == np.uint64 and each.max() >> 63 for each in column):
            raise UsageError(f"column {i}: a value is more than int64 holds, as which it would be beside signed ones")
        np.concatenate([matrix[:0, i], *column], out=matrix[:, i])
    return matrix if dtype is None else _as_dtype(matrix, dtype, "these columns")


def tensor_dtype(kinds: Sequence[at.DataType], floats: bool) -> np.dtype[Any] | None:
    """Return the dtype for numbers of all `kinds`, as pyarrow chooses it; None if a type is not one of numbers."""
    dtypes: list[Any] = [stored_dtype(kind) for kind in kinds if isinstance(kind, at.Int | at.FloatingPoint)]
    if not dtypes or len(dtypes) < len(kinds):
        return None
    promoted: np.dtype[Any] = reduce(np.promote_types, dtypes)
    if all(isinstance(kind, at.Int) for kind in kinds):
        if floats:
            return np.dtype("f4" if promoted.itemsize < 4 else "f8")
        if promoted.kind == "f":  # no integer type holds uint64 and negative numbers; floats would round them
            return np.dtype(np.int64)
    return promoted


def stored_dtype(kind: at.DataType) -> np.dtype[Any] | None:
    """Return the dtype of values as stored in the buffer; None for days, booleans and types without a fixed width."""
    code = _CODES.get(type(kind))
    return None if code is None or is_days(kind) else np.dtype(code(kind))


def is_days(kind: at.DataType) -> bool:
    """Whether dates are of 32 bits, for which NumPy has 64; comparing types takes five times as long."""
    return isinstance(kind, at.Date) and kind.unit == "day"


# Views.


def _viewed(array: Array) -> _Values:
    kind = array.type
    if array.null_count:
        raise UsageError(f"an array of {kind} with {array.null_count:,} nulls needs a copy: use copy=True")
    if isinstance(kind, at.FixedSizeList):
        values = _viewed(array.children[0])
        return values.reshape(len(array), kind.list_size, *values.shape[1:])
    return _stored(array, stored_dtype(kind))


def _stored(array: Array, dtype: np.dtype[Any] | None) -> _Values:
    """Return the values buffer, read-only; the memory behind it lives as long as the result."""
    if dtype is None:
        raise UsageError(f"an array of {array.type} needs a copy: use copy=True")
    if len(array) == 0 or dtype.itemsize == 0:
        values = np.zeros(len(array), dtype)
        values.flags.writeable = False
        return values
    buffer = array.buffers()[1]
    assert buffer is not None
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)


def _shows(array: Array) -> bool:
    """Whether the elements of a view are the values, and not only bytes that encode them."""
    kind = array.type
    if array.null_count:
        return False
    if isinstance(kind, at.FixedSizeList):
        return _shows(array.children[0])
    return _is_number(kind) and not _is_bool8(array)


def _is_number(kind: at.DataType) -> bool:
    """Whether the stored dtype has the meaning of the type, and does not only hold bytes that encode a value."""
    return stored_dtype(kind) is not None and not isinstance(kind, (at.Decimal, at.FixedSizeBinary, at.Time))


# Copies.


def _copied(array: Array) -> _Values:
    kind = array.type
    is_matrix = isinstance(kind, at.FixedSizeList) and _has_dtype(kind) and not array.null_count
    if isinstance(kind, at.Dictionary) and isinstance(kind.value_type, at.LISTS):
        return _decoded_lists(array, kind)
    if isinstance(kind, at.LISTS) and not is_matrix:
        return lists_of(kind, [array], lambda elements: _copied(elements[0]))
    if not _has_dtype(kind):
        return _objects(array)
    values, valid = split(array)
    return with_nulls(array, values != 0 if _is_bool8(array) else values, valid)


def _is_bool8(array: Array) -> bool:
    return isinstance(array.type, at.Int) and array.type.bit_width == 8 and array.field.extension_name == "arrow.bool8"


def lists_of(kind: Any, arrays: list[Array], values_of: Callable[[list[Array]], Any]) -> _Values:
    """Return lists as slices of one array, which `values_of` makes of all their elements; None for null lists."""
    used, spans, before, length = [], [], 0, 0
    for array in arrays:
        rows = np.flatnonzero(array.is_valid())
        if len(rows):
            if isinstance(kind, at.FixedSizeList):
                starts = rows * kind.list_size
                ends = starts + kind.list_size
            else:
                dtype = np.dtype("<i8" if isinstance(kind, at.LargeList | at.LargeListView) else "<i4")
                count, skipped = len(array) + isinstance(kind, at.LargeList | at.List), array.offset * dtype.itemsize
                stored = [np.frombuffer(b, dtype, count, skipped).astype(np.int64) for b in array.buffers()[1:] if b]
                starts = stored[0][rows]
                ends = starts + stored[1][rows] if len(stored) > 1 else stored[0][rows + 1]
            first, last = starts.min(), ends.max()
            if first < 0 or last > len(array.children[0]) or (starts > ends).any():
                array.to_pylist()  # raises, and names the row
            elements = array.children[0].slice(first, last - first)
            starts, ends = starts - first, ends - first
            sizes = ends - starts
            if sizes.sum() < last - first:  # leave out elements of no list: their nulls would make numbers floats
                places = sizes.cumsum() - sizes
                elements = elements.take(np.repeat(starts - places, sizes) + np.arange(sizes.sum()))
                starts, ends = places, places + sizes
            used.append(elements)
            spans.append((rows + length, starts + before, ends + before))
            before += len(elements)
        length += len(array)
    cells = np.full(length, None)
    values = np.asarray(values_of(used)) if used else None
    for rows, starts, ends in spans:
        lists = _parts(values, starts, ends)  # type: ignore[arg-type]
        cells[rows] = np.fromiter(lists, object, len(lists))
    return cells


def _parts(values: _Values, starts: _Values, ends: _Values) -> list[_Values]:
    """Return slices of an array. NumPy makes those of one length that follow each other in half the time: as rows."""
    size = ends[0] - starts[0]
    if size and (ends - starts == size).all() and (starts[1:] == ends[:-1]).all():
        return list(values[starts[0] : ends[-1]].reshape(len(starts), size, *values.shape[1:]))
    return [values[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def split(array: Array) -> tuple[_Values, _Valid]:
    """Return decoded values, of a type that has a dtype, and a mask of those that are not null (None: all).

    The values may be a view of the array's memory. Values under nulls are arbitrary.
    """
    kind = array.type
    if isinstance(kind, at.Dictionary):
        return _decoded(array, kind)
    if isinstance(kind, at.RunEndEncoded):
        return _repeated(array)
    valid = valid_of(array)
    if isinstance(kind, at.FixedSizeList):
        values = _copied(array.children[0])
        return values.reshape(len(array), kind.list_size, *values.shape[1:]), valid
    if isinstance(kind, at.Bool):
        return _bits(array, 1), valid
    if is_days(kind):
        return _stored(array, np.dtype("<i4")).astype("<i8").view("<M8[D]"), valid
    return _stored(array, stored_dtype(kind)), valid


def _has_dtype(kind: at.DataType) -> bool:
    """Whether values of a type have a dtype of their own; otherwise they become objects."""
    if isinstance(kind, (at.FixedSizeList, at.Dictionary, at.RunEndEncoded)):
        return _has_dtype(kind.value_type)
    return isinstance(kind, (at.Bool, at.Date)) or _is_number(kind)


def _objects(array: Array) -> _Values:
    # Not np.array(...), which would make lists of equal length the rows of a matrix.
    return np.fromiter(array.to_pylist(extensions=False), dtype=object, count=len(array))


def _bits(array: Array, buffer: int) -> npt.NDArray[np.bool_]:
    """Return the bits of a bitmap that belong to the array, as bool."""
    if len(array) == 0:
        return np.zeros(0, np.bool_)
    stored = array.buffers()[buffer]
    assert stored is not None
    first = array.offset // 8
    whole = np.frombuffer(stored, np.uint8)[first : (array.offset + len(array) + 7) // 8]
    start = array.offset - 8 * first
    return np.unpackbits(whole, bitorder="little")[start : start + len(array)].view(np.bool_)


def valid_of(array: Array) -> _Valid:
    """Return a mask of the elements that are not null; None if no element is null."""
    valid = _bits(array, 0) if array.null_count else None
    return None if valid is None or valid.all() else valid


def with_nulls(array: Array, values: _Values, valid: _Valid) -> _Values:
    """Return `values`, copied if they are a view, with the null of their dtype (NaN, NaT, None) where not `valid`."""
    if valid is None:
        return values if values.flags.writeable else values.copy()
    if values.ndim > 1 or values.dtype.kind == "V":
        return _objects(array)
    if values.dtype.kind == "b":
        return _BOOLS[np.where(valid, values.view(np.uint8), np.uint8(2))]
    if values.dtype.kind in "iu":
        values = values.astype(np.float64)
        np.putmask(values, ~valid, np.nan)
        return values
    # None becomes NaN or NaT in the dtype, and stays None in an array of objects.
    return np.where(valid, values, np.array(None, values.dtype))


def indices_of(array: Array, kind: at.Dictionary) -> tuple[_Values, _Valid]:
    """Return the indices of dictionary-encoded values, 0 where null, and a mask of those not null (None: all).

    An index outside the dictionary is an error that names the row.
    """
    dictionary, valid, indices = array.dictionary, valid_of(array), _stored(array, stored_dtype(kind.index_type))
    if valid is not None:
        indices = np.where(valid, indices, indices.dtype.type(0))
    values = 0 if dictionary is None else len(dictionary)
    if indices.size and (valid is None or valid.any()) and (indices.min() < 0 or indices.max() >= values):
        _objects(array)  # raises
    return indices.astype(np.int64), valid


def _decoded(array: Array, kind: at.Dictionary) -> tuple[_Values, _Valid]:
    """Like `split`, but for dictionary-encoded values."""
    indices, valid = indices_of(array, kind)
    values, known = split(array.dictionary or Array.from_pylist([], kind.value_type))
    if len(values) == 0:
        return np.zeros((len(array), *values.shape[1:]), values.dtype), valid
    _check_growth(array, values[:1].nbytes * len(array))
    if known is not None:
        valid = known[indices] if valid is None else valid & known[indices]
    return values[indices], valid


def _decoded_lists(array: Array, kind: at.Dictionary) -> _Values:
    """Dictionary-encoded lists: rows with the same index share one array, as a list may hold more than memory does."""
    indices, valid = indices_of(array, kind)
    lists = _copied(array.dictionary or Array.from_pylist([], kind.value_type))
    if lists.ndim > 1 and valid is None:
        _check_growth(array, lists[:1].nbytes * len(array))
        return lists[indices]
    made = np.empty(len(lists) + 1, object)  # the last one stands for nulls
    made[:-1] = list(lists) if lists.ndim > 1 else lists
    return made[indices if valid is None else np.where(valid, indices, len(lists))]


def _repeated(array: Array) -> tuple[_Values, _Valid]:
    """Like `split`, but for run-end encoded values."""
    run_ends, values = array.children
    start, stop, ends = array.offset, array.offset + len(array), _stored(run_ends, stored_dtype(run_ends.type))
    first = int(np.searchsorted(ends, start, side="right"))
    past = int(np.searchsorted(ends, stop, side="left")) + 1 if len(array) else first
    edges = np.concatenate([[start], ends[first:past].astype(np.int64)])
    if edges[-1] < stop or (np.diff(edges) <= 0).any():
        _objects(array)  # raises an error that names the run, if reading the rows reveals it
        raise FormatError(
            f"expected run ends that rise and reach row {stop:,}, found others in an array of {array.type}"
        )
    counts = np.diff(np.minimum(edges, stop))
    each, valid = split(values.slice(first, len(counts)))
    _check_growth(array, each[:1].nbytes * len(array))
    return np.repeat(each, counts, axis=0), None if valid is None else np.repeat(valid, counts)


def _check_growth(array: Array, size: int) -> None:
    """Refuse to expand shared values to `size` bytes if the array itself is much smaller."""
    held = [array, *array.children]
    stored = sum(len(buffer) for each in held for buffer in each.buffers() if buffer is not None)
    allowed = FREE_BYTES + BYTES_PER_BYTE * stored
    if size > allowed:
        raise LimitError(
            f"an array of {array.type} would take {size:,} bytes in NumPy, and its {stored:,} bytes allow "
            f"{allowed:,}; take slices"
        )


# Columns of tensors.


def _tensor_parameters(array: Array) -> TensorColumn | None:
    """Return the parameters of a column of tensors; None if the column has none or they are not valid."""
    if not isinstance(array.type, (at.FixedSizeList, at.Struct)) or array.field.extension_name is None:
        return None
    from arrowipc.metadata.tensor_parameters import tensor_parameters

    try:
        return tensor_parameters(array.field)
    except FormatError:
        return None


def _fixed_to_numpy(array: Array, parameters: TensorColumn, shape: tuple[int, ...], copy: bool) -> _Values:
    """Return an array of shape ``(n, *shape)``, permuted as the column says; if rows are null, one of objects."""
    order = None
    if parameters.permutation is not None:
        order = (0, *[each + 1 for each in parameters.permutation])
    child, size = array.children[0], math.prod(shape)
    bits = isinstance(parameters.value_type, at.Bool)

    def seen(values: Array, length: int) -> _Values:
        rows = values.to_numpy(copy=bits).reshape(length, *shape)
        return rows if order is None else rows.transpose(order)

    if array.null_count:
        # The elements of null rows may be null or arbitrary: do not read them.
        valid = array.is_valid()
        rows = (seen(child.slice(i * size, size), 1)[0].copy() if valid[i] else None for i in range(len(array)))
        return np.fromiter(rows, object, len(array))
    whole = seen(child, len(array))
    return whole.copy() if copy else whole


def _variable_to_numpy(array: Array, parameters: TensorColumn, copy: bool) -> _Values:
    """Return an array of objects: for each row an array, or None."""
    names = [child.name for child in array.type.children]
    data, sizes = (array.children[names.index(name)] for name in ("data", "shape"))
    values = data.children[0].to_numpy(copy=isinstance(parameters.value_type, at.Bool))
    edges = data.offsets.to_numpy().tolist()
    shapes = sizes.children[0].to_numpy().reshape(len(array), parameters.ndim).tolist()
    order = parameters.permutation
    rows: list[Any] = []
    for i, valid in enumerate(array.is_valid() if array.null_count else [True] * len(array)):
        if not valid:
            rows.append(None)
            continue
        start, stop, shape = edges[i], edges[i + 1], shapes[i]
        if not 0 <= start <= stop <= len(values) or min(shape, default=0) < 0 or math.prod(shape) != stop - start:
            raise FormatError(f"field {array.field.name!r}: row {i} has the shape {shape} and {stop - start} values")
        row = values[start:stop].reshape(shape)
        row = row if order is None else row.transpose(order)
        rows.append(row.copy() if copy else row)
    return np.fromiter(rows, object, len(rows))
