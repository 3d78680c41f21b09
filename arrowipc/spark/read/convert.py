"""Converts the values of Arrow columns, also nested ones, to exactly the arrays that Spark accepts."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as st

from arrowipc import RecordBatch, types as at
from arrowipc.errors import LimitError, UnsupportedError, UsageError
from arrowipc.schemas import Field, Schema
from arrowipc.spark.types import (
    ListType,
    Meaning,
    TypeOptions,
    arrow_schema_of,
    arrow_type_of,
    changed,
    find_name,
    meant,
    spark_type,
    to_spark_schema,
    union_names,
)
from arrowipc.types import as_schema

if TYPE_CHECKING:
    from typing import TypeAlias

Convert: "TypeAlias" = Callable[[Any], Any]  # pyarrow array -> pyarrow array

MILLISECONDS_PER_DAY = 86_400_000
NANOSECONDS_PER_MICROSECOND = 1_000
NANOSECONDS_PER_DAY = 86_400 * 10**9
# Offsets of Spark's strings, binaries and lists are 32 bits wide.
MAX_OFFSET = 2**31 - 1
# Nested values of a dictionary may expand to EXPANSION_LEAST bytes plus EXPANSION times their own.
EXPANSION, EXPANSION_LEAST = 32, 1 << 26

# pyarrow has no class for two of the three kinds of interval, so they are passed to it as plain bytes.
_INTERVAL_STORAGE: dict[str, at.DataType] = {
    "year_month": at.Int(32, True),
    "day_time": at.FixedSizeBinary(8),
    "month_day_nano": at.FixedSizeBinary(16),
}
_INTERVAL_LAYOUT = {
    "day_time": np.dtype([("days", "<i4"), ("milliseconds", "<i4")]),
    "month_day_nano": np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")]),
}


def to_spark_batch(
    batch: Any,
    schema: st.StructType | None = None,
    options: TypeOptions | Mapping[str, Any] | None = None,
) -> pa.RecordBatch:
    """Convert a record batch for Spark, for use in ``mapInArrow`` and in data sources of your own.

    Parameters
    ----------
    batch : RecordBatch or object with ``__arrow_c_array__``
        arrowipc's, pyarrow's, polars', ...
    schema : pyspark.sql.types.StructType, optional
        The columns wanted, found by name, with their Spark types; default ``to_spark_schema(batch.schema)``.
    options : TypeOptions or mapping, optional
        See :class:`TypeOptions`.

    Returns
    -------
    pyarrow.RecordBatch
        A batch with the exact types, order and nullability that Spark 4 requires.

    Raises
    ------
    UnsupportedError
        For a type or a value that Spark cannot hold; the text names the column and the option that helps.
    LimitError
        Dictionaries that refer to dictionaries stand for more than 32 times their bytes and 64 MiB.
    UsageError
        For a column of ``schema`` that the batch does not have, or has in another type.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"tag": pa.array(["a", "b", "a"]).dictionary_encode()})
    >>> to_spark_batch(batch)["tag"].to_pylist()
    ['a', 'b', 'a']
    """
    options = TypeOptions.of(options)
    source = as_schema(batch.schema if hasattr(batch, "schema") else batch)
    return BatchConverter(source, schema or to_spark_schema(source, options), options)(batch)


class BatchConverter:
    """The conversion of all batches of one Arrow schema to one Spark schema, planned once.

    Parameters
    ----------
    source : Schema
        The schema of the batches.
    target : pyspark.sql.types.StructType
        The columns wanted; found by name, exactly or else ignoring case, as in Spark.
    options : TypeOptions
        Conversion of values that Spark cannot hold.
    label : str, default "the batch"
        Name of the data's source, for error texts.
    missing_is_null : bool, default False
        Whether a column or field that the batches lack is null; else it is an error.
    """

    def __init__(
        self,
        source: Schema,
        target: st.StructType,
        options: TypeOptions,
        label: str = "the batch",
        missing_is_null: bool = False,
    ) -> None:
        self.schema: Any = arrow_schema_of(target)
        self.label: str = label
        flat = Schema([_flat(field) for field in source], source.metadata, source.endianness)
        self._flat = None if flat.equals(source) else flat
        source = flat
        self._limit = _SizeLimit()
        rules = _Rules(options.nanoseconds, options.unsupported, options.extensions, self._limit, missing_is_null)
        names = [field.name for field in source]
        self._columns: list[tuple[int | None, Convert]] = []
        for field in target.fields:
            index = _find(field, names, label, rules)
            type_ = at.Null() if index is None else meant(source[index], rules).type
            self._columns.append((index, _checked(type_, field.dataType, rules, field.name, field.nullable)))
        storage = Schema([_storage_field(field) for field in source], source.metadata, source.endianness)
        self._storage = None if storage.equals(source, check_metadata=True) else storage

    def __call__(self, batch: Any) -> pa.RecordBatch:
        """Convert one whole batch of arrowipc or another library."""
        try:
            return self.convert(self.hand_over(batch))
        except _TooLongError as error:
            raise UnsupportedError(f"{self.label}: {error}") from None

    def hand_over(self, batch: Any) -> pa.RecordBatch:
        """Pass a batch to pyarrow without copying, in a form that `convert` and `split` understand."""
        if self._flat is not None:
            batch = RecordBatch.from_arrow(batch).cast(self._flat)
        return pa.record_batch(batch if self._storage is None else WithSchema(batch, self._storage))

    def split(self, batch: pa.RecordBatch, rows: int, bytes_: int = 1 << 26) -> Iterator[pa.RecordBatch]:
        """Convert a batch from `hand_over` into batches of at most ``rows`` rows and about ``bytes_`` bytes."""
        size = batch.get_total_buffer_size()
        if size > bytes_:
            rows = max(1, min(rows, batch.num_rows * bytes_ // size))
        for start in range(0, batch.num_rows, rows):
            yield from self._halve(batch.slice(start, rows), bytes_)

    def _halve(self, batch: pa.RecordBatch, bytes_: int) -> Iterator[pa.RecordBatch]:
        # Dictionary and run-end columns grow when they are decoded, possibly beyond Spark's 32-bit offsets.
        half = batch.num_rows // 2
        self._limit.bytes = min(bytes_, MAX_OFFSET) if half else MAX_OFFSET
        try:
            yield self.convert(batch)
        except _TooLongError as error:
            if not half:
                raise UnsupportedError(f"{self.label}: {error}") from None
            yield from self._halve(batch.slice(0, half), bytes_)
            yield from self._halve(batch.slice(half), bytes_)
        finally:
            self._limit.bytes = MAX_OFFSET

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch from `hand_over`, as one batch."""
        if not self._columns:
            return rows_without_columns(batch.num_rows)
        columns = batch.columns
        try:
            nulls = pa.nulls(batch.num_rows)
            arrays = [convert(nulls if index is None else columns[index]) for index, convert in self._columns]
        except (LimitError, UnsupportedError, UsageError) as error:
            raise type(error)(f"{self.label}: {error}") from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class _TooLongError(Exception):
    """A column of a batch does not fit 32-bit offsets, or its limit; half of its rows may fit."""


@dataclasses.dataclass(slots=True)
class _SizeLimit:
    """The most bytes of a text, binary or nested column after its dictionary or runs are decoded."""

    bytes: int = MAX_OFFSET


@dataclasses.dataclass(frozen=True, slots=True)
class _Rules(TypeOptions):
    """The options of one converter, and the limit of its columns."""

    limit: _SizeLimit = dataclasses.field(default_factory=_SizeLimit)
    missing_is_null: bool = False


class WithSchema:
    """A batch under another schema of the same physical layout, for pyarrow to import."""

    def __init__(self, batch: Any, schema: Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]


def _find(field: st.StructField, names: list[str], label: str, rules: _Rules) -> int | None:
    """Return the index of a column or field; None if it is missing, and that is allowed."""
    index = find_name(field.name, names, label, optional=rules.missing_is_null)
    if index is None and not field.nullable:
        raise UsageError(f"{label} has no column {field.name!r}, and the schema says that it has no nulls")
    return index


def _flat(field: Field) -> Field:
    """Return the field with nested run-end encodings flattened, because pyarrow refuses runs of runs."""
    type_ = changed(field.type, _flat)
    if isinstance(type_, at.RunEndEncoded) and isinstance(type_.values.type, at.RunEndEncoded):
        type_ = at.RunEndEncoded(type_.run_ends, type_.values.type.values)
    return Field(field.name, type_, field.nullable, field.metadata)


def _storage_field(field: Field) -> Field:
    # Without field metadata, pyarrow uses the storage type of extension types, which Spark can hold.
    return Field(field.name, _storage(field.type), field.nullable)


def _storage(type_: at.DataType) -> at.DataType:
    """Return the type with intervals as plain bytes, and without the field metadata that marks extension types."""
    match type_:
        case at.Interval():
            return _INTERVAL_STORAGE[type_.unit]
        case at.Time(unit="ns"):
            # Spark's TIME has this Arrow type, but fewer digits: as integers, the values cannot pass unchecked.
            return at.Int(64, True)
    return changed(type_, _storage_field)


def _checked(source: at.DataType, target: st.DataType, options: _Rules, path: str, nullable: bool) -> Convert:
    """Plan the conversion of a column or child; unless `nullable`, refuse nulls, which Spark would read as garbage."""
    convert = _converter(source, target, options, path)

    def check(array: Any) -> Any:
        result = convert(array)
        if result.null_count:
            raise UsageError(f"column {path!r} holds {result.null_count} nulls, and the schema says that it has none")
        return result

    return convert if nullable else check


def _converter(source: at.DataType, target: st.DataType, options: _Rules, path: str) -> Convert:
    """Plan the conversion of a column or child, without a check for nulls."""
    match source:
        case Meaning():
            if type(spark_type(source, options, path)) is type(target):
                return _MEANT[source.name](source.storage, target, options, path)
            return _converter(source.storage, target, options, path)  # the user's schema asks for the storage type
        case at.Dictionary():
            return _dictionary(_converter(source.value_type, target, options, path), path, options.limit)
        case at.RunEndEncoded():
            return _run_ends(_converter(source.values.type, target, options, path), path, options.limit)
    expected = arrow_type_of(target, path)
    match source, target:
        case at.Null(), _:
            return lambda array: pa.nulls(len(array), expected)
        case ((at.List() | at.LargeList() | at.ListView() | at.LargeListView() | at.FixedSizeList()), st.ArrayType()):
            type_, nullable = source.value_field.type, target.containsNull
            child = _checked(type_, target.elementType, options, f"{path}.element", nullable)
            convert = _list(source, child, expected)
        case at.Struct(), st.StructType():
            convert = _struct(source, target, options, path)
        case at.Map(), st.MapType():
            type_, nullable = source.item_field.type, target.valueContainsNull
            key = _checked(source.key_field.type, target.keyType, options, f"{path}.key", False)
            item = _checked(type_, target.valueType, options, f"{path}.value", nullable)
            convert = _map(source, key, item, expected)
        case at.Union(), st.StructType():
            convert = _union(source, target, options, path)
        case _:
            convert = _leaf(source, target, options, path)
    if isinstance(target, st.DecimalType):
        return lambda array: _with_digits(array if array.type == expected else convert(array), f"column {path!r}")
    # Always convert lists, structs and maps: their children may contain nulls, or decimals with too many digits.
    return convert if expected.num_fields else lambda array: array if array.type == expected else convert(array)


def _with_digits(array: Any, where: str) -> Any:
    """Return decimals after checking that none has more digits than the type; the format itself allows more."""
    for value in pc.min_max(array).as_py().values() if len(array) else ():
        if value is not None and value.copy_abs() >= Decimal(10) ** (array.type.precision - array.type.scale):
            raise UnsupportedError(f"{where} holds {value}, more than the digits of its type: {array.type}")
    return array


def _leaf(source: at.DataType, target: st.DataType, options: TypeOptions, path: str) -> Convert:
    """Plan the conversion of values without children: to their natural Spark type, then, checked, to the target."""
    expected = arrow_type_of(target, path)
    where = f"column {path!r} ({source})"
    if isinstance(source, at.Decimal) and isinstance(target, st.StringType):
        return lambda array: _cast(array, expected, where)
    if isinstance(source, at.Time | at.Timestamp | at.Duration) and source.unit == "ns":
        if isinstance(target, st.LongType):
            return lambda array: array.view(expected)
        options = options if options.nanoseconds != "long" else TypeOptions("error", options.unsupported)
    natural = spark_type(source, options, path)
    convert = _natural(source, natural, options, where)
    if natural == target or (isinstance(natural, st.StringType) and isinstance(target, st.StringType)):
        return convert  # texts of any collation are the same bytes
    if not _convertible(natural, target):
        raise UsageError(
            f"{where} is read as {natural.simpleString()}, and the schema asks for {target.simpleString()}; "
            f"ask for {natural.simpleString()} and cast in Spark"
        )
    return lambda array: _number(convert(array), expected, where)


def _convertible(natural: st.DataType, target: st.DataType) -> bool:
    """Whether values of one type can be converted to the other, with a check of each value."""
    match natural:
        case st.IntegralType():
            return isinstance(target, st.NumericType)
        case st.FloatType():
            return isinstance(target, st.DoubleType)
        case st.DateType():
            return isinstance(target, st.TimestampNTZType)
        case st.StringType() | st.BinaryType():
            return isinstance(target, st.StringType | st.BinaryType)
        case st.DecimalType():
            return isinstance(target, st.DecimalType | st.IntegralType)
    return False


def _natural(source: at.DataType, natural: st.DataType, options: TypeOptions, where: str) -> Convert:
    expected = arrow_type_of(natural, where)
    match source:
        case at.Interval() if source.unit in _INTERVAL_LAYOUT:
            layout = _INTERVAL_LAYOUT[source.unit]
            return lambda array: _unpack_interval(array, layout, expected)
        case at.Date(unit="ms"):
            # The format requires whole days; if a value contains a time of day, use the day in which it is.
            days = pa.int32()
            return lambda array: _cast(_floor_divide(array, MILLISECONDS_PER_DAY), days, where).view(expected)
        case at.Time() | at.Timestamp() | at.Duration() if source.unit == "ns":
            convert = _microseconds(expected, options.nanoseconds == "truncate", where)
            check = _time_of_day(expected, where) if pa.types.is_time(expected) else None
            return convert if check is None else lambda array: check(convert(array))
        case at.Timestamp(unit="us"):
            # Only the time zone changes, not the instants: no cast, which would look up the zone's name.
            return lambda array: array.view(expected)
        case at.Time() if pa.types.is_integer(expected):
            return lambda array: _cast(array, pa.time64("ns"), where).view(expected)
        case at.Time():
            return _time_of_day(expected, where)
    return lambda array: _cast(array, expected, where)


def _time_of_day(expected: pa.DataType, where: str) -> Convert:
    """Plan a conversion to times of day that refuses 24 hours and more, which the format allows, but Spark does not."""

    def convert(array: Any) -> Any:
        result = _cast(array, expected, where) if array.type != expected else array
        counts = result.view(pa.int64())
        bounds = pc.min_max(counts).as_py()
        if len(array) and bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < NANOSECONDS_PER_DAY:
            wrong = bounds["min"] if bounds["min"] < 0 else bounds["max"]
            raise UnsupportedError(
                f"{where} holds {wrong / 1e9:.6f} s, which is not a time of day: Spark's TIME goes from 0 to less than "
                "86,400 s; correct the value where it is written"
            )
        return result

    return convert


def _cast(array: Any, expected: pa.DataType, where: str) -> Any:
    try:
        return array.cast(expected)
    except pa.ArrowInvalid as error:
        if "too large" in str(error):
            raise _TooLongError(f"{where}: a value is longer than Spark's 2 GiB") from None
        raise UnsupportedError(f"{where} holds a value that {expected} cannot: {error}") from error


def _number(array: Any, expected: pa.DataType, where: str) -> Any:
    if pa.types.is_integer(array.type) and pa.types.is_decimal(expected):
        # pyarrow requires a decimal for the widest integer; the second cast checks the actual values.
        array = _cast(array, pa.decimal128(38, min(expected.scale, 19)), where)
    return _cast(array, expected, where)


def _floor_divide(array: Any, divisor: int) -> Any:
    """Return the 64-bit counts in ``array`` divided by ``divisor``, rounded down, as int64."""
    values = _plain(array.buffers()[1], np.int64, array)
    return pa.array(values // divisor, pa.int64(), mask=_mask(array, as_numpy=True))


def _plain(buffer: Any, dtype: Any, array: Any) -> np.ndarray[Any, Any]:
    """Return the fixed-width values of ``array`` in one of its buffers."""
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, len(array) + array.offset)[array.offset :]


def _microseconds(expected: pa.DataType, truncate: bool, where: str) -> Convert:
    def convert(array: Any) -> Any:
        whole = _floor_divide(array, NANOSECONDS_PER_MICROSECOND)
        back = pc.multiply(whole, NANOSECONDS_PER_MICROSECOND)
        counts = array.view(pa.int64())
        # Arrays with different null counts are never equal, and a file's null count may be wrong: compare values, too.
        wrong: Any = counts.filter(pc.not_equal(back, counts)) if not truncate and not back.equals(counts) else ()
        if len(wrong):
            raise UnsupportedError(
                f"{where} holds {wrong[0].as_py()} ns, "
                "which is not a whole number of microseconds, and Spark keeps no more; "
                'set the option nanoseconds="truncate" to drop the rest or nanoseconds="long" to get a bigint'
            )
        # Spark's TIME is passed in nanoseconds, its timestamps and intervals in microseconds.
        return (back if pa.types.is_time(expected) else whole).view(expected)

    return convert


def _unpack_interval(array: Any, layout: np.dtype[Any], expected: pa.DataType) -> Any:
    values = _plain(array.buffers()[1], layout, array)
    children = [pa.array(np.ascontiguousarray(values[name])) for name in layout.names or ()]
    return pa.StructArray.from_arrays(children, fields=list(expected), mask=_mask(array))


def _mask(array: Any, as_numpy: bool = False) -> Any:
    if not array.null_count:
        return None
    mask = array.is_null()
    return mask.to_numpy(zero_copy_only=False) if as_numpy else mask


def _dictionary(convert: Convert, path: str, limit: _SizeLimit) -> Convert:
    # The slices of a batch, and usually the batches of a file, share their dictionary. Keep the last one with its
    # result: as long as it is alive, no other dictionary can have its addresses.
    last: list[Any] = [None, None, None]

    def decode(array: Any) -> Any:
        values = array.dictionary
        flat = not values.type.num_fields and not pa.types.is_dictionary(values.type)
        key = flat and (len(values), values.offset, [each and each.address for each in values.buffers()])
        if not key or key != last[0]:
            converted = convert(values) if flat else _nested_dictionary(convert, values, path, limit)
            last[:] = key, values, converted
        return _take(last[2], array.indices, path, limit)

    return decode


def _nested_dictionary(convert: Convert, values: Any, path: str, limit: _SizeLimit) -> Any:
    """Convert nested values of a dictionary; limit their size, which does not depend on the number of rows."""
    usual, limit.bytes = limit.bytes, min(limit.bytes, EXPANSION_LEAST + EXPANSION * values.get_total_buffer_size())
    try:
        return convert(values)
    except _TooLongError:
        raise LimitError(
            f"column {path!r}: the dictionary's values share so many elements that they become more than "
            f"{limit.bytes:,} bytes for Spark, which has no dictionaries: {EXPANSION} times theirs and "
            f"{EXPANSION_LEAST:,}"
        ) from None
    finally:
        limit.bytes = usual


def value_sizes(array: Any) -> np.ndarray[Any, Any]:
    """Return about how many bytes each value takes: its own for texts, binaries and nests of them, else the average."""
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [value_sizes(array.field(number)) for number in range(kind.num_fields)]
        return np.asarray(np.sum(parts, axis=0) if parts else np.ones(len(array), np.int64))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        ends = np.concatenate([[0], np.cumsum(value_sizes(array.values))])
        return np.asarray(np.diff(ends[array.offsets.to_numpy()]) + 4)
    if isinstance(array, pa.StringArray | pa.BinaryArray | pa.LargeStringArray | pa.LargeBinaryArray):
        lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
        return np.asarray(lengths.astype(np.int64) + 4)
    return np.full(len(array), max(1, -(-array.nbytes // max(len(array), 1))))


def rows_without_columns(count: int) -> pa.RecordBatch:
    """Return a batch of rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


def _run_ends(convert: Convert, path: str, limit: _SizeLimit) -> Convert:
    def expand(array: Any) -> Any:
        # A slice has the values and run ends of the whole array: use its offset and length.
        rows = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(array.run_ends.to_numpy(), rows, side="right")
        return _take(convert(array.values), pa.array(runs), path, limit)

    return expand


def _take(values: Any, indices: Any, path: str, limit: _SizeLimit) -> Any:
    too_long = _TooLongError(f"column {path!r}: a value is longer than Spark's 2 GiB")
    texts = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
    # Check this here, because older versions of pyarrow wrap around instead of raising.
    if texts and values.get_total_buffer_size() * len(indices) > limit.bytes:
        lengths = pc.binary_length(values)
        longest = pc.max(lengths).as_py() or 0
        if longest * len(indices) > limit.bytes and (pc.sum(lengths.take(indices)).as_py() or 0) > limit.bytes:
            raise too_long
    if values.type.num_fields and values.get_total_buffer_size() * len(indices) > limit.bytes:
        chosen = pc.drop_null(indices).to_numpy()
        if int(value_sizes(values)[chosen].sum()) > limit.bytes:
            raise _TooLongError(f"column {path!r}: its values are more than Spark's 2 GiB")
    try:
        return values.take(indices)
    except pa.ArrowInvalid:
        raise too_long from None


def _list(source: ListType, child: Convert, expected: pa.DataType) -> Convert:
    def convert(array: Any) -> Any:
        offsets, values = _list_parts(source, array)
        if offsets[-1] > MAX_OFFSET:
            raise _TooLongError("a list column has more than 2**31 - 1 elements")
        return pa.ListArray.from_arrays(
            pa.array(offsets.astype(np.int32, copy=False)), child(values), type=expected, mask=_mask(array)
        )

    return convert


def _list_parts(source: at.DataType, array: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """Return offsets from 0 (``len(array) + 1`` of them) and the child values that they cover."""
    if isinstance(source, at.FixedSizeList):
        size = source.list_size
        offsets = np.arange(len(array) + 1, dtype=np.int64) * size
        return offsets, array.values.slice(array.offset * size, len(array) * size)
    if isinstance(source, at.ListView | at.LargeListView):
        sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        # List views may be in any order and overlap; flatten() copies them in order.
        return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]), array.flatten()
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    if not len(offsets):
        return np.zeros(1, np.int32), array.values.slice(0, 0)
    return offsets - offsets[0], array.values.slice(offsets[0], offsets[-1] - offsets[0])


def _map(source: at.Map, key: Convert, item: Convert, expected: pa.DataType) -> Convert:
    def convert(array: Any) -> Any:
        offsets, entries = _list_parts(source, array)
        keys, items = key(entries.field(0)), item(entries.field(1))
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=expected, mask=_mask(array))

    return convert


def _struct(source: at.Struct, target: st.StructType, options: _Rules, path: str) -> Convert:
    names = [field.name for field in source.fields]
    expected = arrow_type_of(target, path)
    plan = []
    for field in target.fields:
        index = _find(field, names, f"struct column {path!r}", options)
        type_ = at.Null() if index is None else source.fields[index].type
        child = _converter(type_, field.dataType, options, f"{path}.{field.name}")
        plan.append((index, child, field.nullable, f"{path}.{field.name}"))

    def convert(array: Any) -> Any:
        if not plan:
            return pa.array([{} if valid else None for valid in array.is_valid().to_pylist()], expected)
        children = []
        for index, child, nullable, name in plan:
            values = child(pa.nulls(len(array)) if index is None else array.field(index))
            if not nullable and pc.any(pc.and_(values.is_null(), array.is_valid())).as_py():
                raise UsageError(f"column {name!r} holds nulls, and the schema says that it has none")
            children.append(values)
        return pa.StructArray.from_arrays(children, fields=list(expected), mask=_mask(array))

    return convert


def _union(source: at.Union, target: st.StructType, options: _Rules, path: str) -> Convert:
    """Plan the conversion of a union to a struct with one nullable field per member, of which only one is set."""
    names = union_names(source)
    expected = arrow_type_of(target, path)
    plan = []
    for field in target.fields:
        if not field.nullable:
            raise UsageError(f"column '{path}.{field.name}' is a member of a union and can only be read as nullable")
        index = _find(field, names, f"union column {path!r}", options)
        type_ = at.Null() if index is None else source.fields[index].type
        plan.append((index, _converter(type_, field.dataType, options, f"{path}.{field.name}")))

    def convert(array: Any) -> Any:
        # Read the buffers: pyarrow's type_codes and offsets ignore that the array is a slice.
        buffers = array.buffers()
        codes = _plain(buffers[1], np.int8, array)
        rows = _plain(buffers[2], np.int32, array) if source.mode == "dense" else np.arange(len(array), dtype=np.int32)
        children = [
            child(pa.nulls(len(array)))
            if index is None
            else _take_converted(array.field(index), pa.array(rows, mask=codes != source.type_codes[index]), child)
            for index, child in plan
        ]
        return pa.StructArray.from_arrays(children, fields=list(expected))

    return convert


def _take_converted(values: Any, indices: Any, convert: Convert) -> Any:
    # Take before converting, so that values of no row are not checked; pyarrow cannot take views and run-ends.
    try:
        taken = values.take(indices)
    except pa.ArrowNotImplementedError:
        return convert(values).take(indices)
    if pa.types.is_union(values.type):  # unions have no nulls, but the structs that they become do
        return convert(taken).take(pa.array(np.arange(len(indices)), mask=_mask(indices, as_numpy=True)))
    return convert(taken)


# -- extension types -----------------------------------------------------------------------------------------

# The positions of the digits in the text of a UUID.
_DIGITS = [place for place in range(36) if place not in (8, 13, 18, 23)]


def _uuid(source: at.DataType, target: st.DataType, options: _Rules, path: str) -> Convert:
    def convert(array: Any) -> Any:
        if len(array) * 36 > min(options.limit.bytes, MAX_OFFSET):
            raise _TooLongError(f"column {path!r}: its UUIDs are more than Spark's 2 GiB of text")
        digits = _plain(array.buffers()[1], np.dtype("V16"), array).tobytes().hex().encode()
        text = np.full((len(array), 36), ord("-"), np.uint8)
        text[:, _DIGITS] = np.frombuffer(digits, np.uint8).reshape(len(array), 32)
        offsets = np.arange(len(array) + 1, dtype=np.int32) * 36
        found = pa.StringArray.from_buffers(len(array), pa.py_buffer(offsets), pa.py_buffer(text))
        return pc.if_else(array.is_valid(), found, None) if array.null_count else found

    return convert


def _instant(source: at.DataType, target: st.DataType, options: _Rules, path: str) -> Convert:
    convert = _converter(source.children[0].type, target, options, path)
    return lambda array: convert(array.flatten()[0])


def _variant(source: at.DataType, target: st.DataType, options: _Rules, path: str) -> Convert:
    expected = arrow_type_of(target, path)
    names = [field.name for field in source.children]
    plan = [(names.index(each.name), source.children[names.index(each.name)].type) for each in expected]
    converts = [(index, _converter(type_, st.BinaryType(), options, path)) for index, type_ in plan]

    def convert(array: Any) -> Any:
        parts = array.flatten()
        children = [convert(parts[index]) for index, convert in converts]
        mask = children[0].is_null() if children[0].null_count else None
        filled = [pc.fill_null(each, b"") if each.null_count else each for each in children]
        return pa.StructArray.from_arrays(filled, fields=list(expected), mask=mask)

    return convert


_MEANT: dict[str, Callable[[at.DataType, st.DataType, _Rules, str], Convert]] = {
    "arrow.bool8": lambda *_: lambda array: pc.not_equal(array, 0),
    "arrow.parquet.variant": _variant,
    "arrow.timestamp_with_offset": _instant,
    "arrow.uuid": _uuid,
}
