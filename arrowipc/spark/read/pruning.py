"""Which batches of a file no row of a query can come from, by the statistics in their metadata."""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import types as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from arrowipc import types as at
from arrowipc.columns.statistics import ColumnStatistics, batch_statistics
from arrowipc.errors import FormatError, UnsupportedError, UsageError
from arrowipc.schema import Field, Schema
from arrowipc.spark.read.partitions import ArrowIpcReader
from arrowipc.spark.types import TypeOptions, index_of, spark_type

if TYPE_CHECKING:
    from arrowipc.arguments import MetadataLike

__all__ = ["FilteringReader", "Pruner"]

MILLISECONDS_PER_DAY = 86_400_000
EPOCH = dt.datetime(1970, 1, 1)
EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)
# 256 bits have at most 78 digits.
EXACT = Context(prec=80)
#: Spark sorts NaN above all other numbers, and it equals itself.
NAN = (1, 0.0)

VALUE_FILTERS = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
OPPOSITE: dict[type[Filter], type[Filter]] = {
    GreaterThan: LessThanOrEqual,
    LessThanOrEqual: GreaterThan,
    LessThan: GreaterThanOrEqual,
    GreaterThanOrEqual: LessThan,
    IsNull: IsNotNull,
    IsNotNull: IsNull,
}


class FilteringReader(ArrowIpcReader):
    """Reads only batches that rows of the query may be in; made when the option ``pushFilters`` is true.

    Spark refuses every read through a class that has ``pushFilters``, unless its configuration
    ``spark.sql.python.filterPushdown.enabled`` is true: hence the option.
    """

    pruner: "Pruner | None" = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Remember the filters, and leave all of them to Spark: a batch is kept or left out as a whole."""
        # In mode PERMISSIVE a damaged batch becomes a row of nulls, which its statistics do not cover.
        if self._options.mode != "permissive":
            self.pruner = Pruner(filters, self._schema, self._options.types)
        return filters

    def _wanted(self, reader: Any, numbers: range) -> Iterable[int]:
        """The batches that the filters do not rule out; a damaged one is kept, and reported when it is read."""
        if self.pruner is None:
            return numbers
        reader._expect(numbers)
        return [number for number in numbers if self._keeps(reader, number)]

    def _keeps(self, reader: Any, number: int) -> bool:
        assert self.pruner is not None
        try:
            metadata = reader.get_batch_metadata(number)
        except FormatError:
            return True
        return self.pruner.keeps(metadata, reader.schema)


class Pruner:
    """Decides by statistics whether a batch may hold a row that passes all filters.

    Parameters
    ----------
    filters : sequence of pyspark.sql.datasource.Filter
        As Spark hands them to ``DataSourceReader.pushFilters``: a row has to pass all of them.
    schema : pyspark.sql.types.StructType
        The schema that Spark reads with.
    options : TypeOptions or mapping
        What becomes of values that Spark cannot hold.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.spark.read.pruning import Pruner
    >>> from arrowipc.types import field, int64
    >>> from pyspark.sql.datasource import GreaterThan
    >>> from pyspark.sql.types import StructType
    >>> sink = bytearray()
    >>> with ipc.new_file(sink, ipc.Schema([field("id", int64())]), statistics=True) as writer:
    ...     writer.write({"id": [1, 2, 3]})
    >>> pruner = Pruner([GreaterThan(("id",), 3)], StructType().add("id", "long"), {})
    >>> with ipc.open_file(sink) as reader:
    ...     pruner.keeps(reader.get_batch_metadata(0), reader.schema)
    False
    """

    def __init__(
        self, filters: Sequence[Filter], schema: st.StructType, options: TypeOptions | Mapping[str, Any]
    ) -> None:
        self._filters = list(filters)
        self._schema = schema
        self._options = TypeOptions.of(options)
        self._last: tuple[Schema, list[tuple[Filter, _Column]]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Pruner, (self._filters, self._schema, self._options)

    def keeps(self, custom_metadata: "MetadataLike", schema: Schema) -> bool:
        """Whether a batch with this metadata, in a file of this schema, has to be read.

        False only if no row of the batch can pass all filters; without statistics, and in any doubt, True.
        """
        found = batch_statistics(custom_metadata)
        if found is None:
            return True
        last = self._last  # files are planned side by side
        if last is None or last[0] is not schema:
            last = self._last = schema, list(self._bound(schema))
        for test, column in last[1]:
            statistics = found.get(column.path)
            if statistics is not None and not _possible(test, column.facts(statistics), column.literal):
                return False
        return True

    def _bound(self, schema: Schema) -> Iterator[tuple[Filter, "_Column"]]:
        """The filters about columns that the file has, each with what is to be known of its column."""
        for test in self._filters:
            name = _attribute(test)
            target = _spark_type(self._schema, name)
            field, path = _arrow_field(schema, name)
            if target is not None and field is not None:
                yield test, _Column(path, *_domain(field.type, target, self._options))


# -- columns -------------------------------------------------------------------------------------------------


class _Facts(NamedTuple):
    """What is known of the rows of a batch in one column."""

    values: bool  # some may hold a value
    nulls: bool  # some may be null
    low: Any  # a lower bound of the values that can be compared with literals; None: not known
    high: Any


class _Column(NamedTuple):
    path: str
    bounds: Callable[[ColumnStatistics], tuple[Any, Any]]
    literal: Callable[[Any], Any]  # of a filter, as something that can be compared; None: it cannot

    def facts(self, found: ColumnStatistics) -> _Facts:
        return _Facts(found.null_count != found.rows, found.null_count != 0, *self.bounds(found))


def _attribute(test: Any) -> tuple[str, ...]:
    while isinstance(test, Not):
        test = test.child
    return tuple(getattr(test, "attribute", ()))


def _spark_type(type_: st.DataType, name: tuple[str, ...]) -> st.DataType | None:
    for part in name:
        index = index_of(part, type_.names) if isinstance(type_, st.StructType) else None
        if index is None:
            return None
        type_ = type_.fields[index].dataType  # type: ignore[attr-defined]
    return type_


def _arrow_field(schema: Schema, name: tuple[str, ...]) -> tuple[Field | None, str]:
    """The field of a file that Spark means, and its dotted path."""
    fields: Sequence[Field] = list(schema)
    field, path = None, []
    for part in name:
        index = index_of(part, [each.name for each in fields])
        if index is None:
            return None, ""
        field = fields[index]
        path.append(field.name)
        fields = field.type.fields if isinstance(field.type, at.Struct) else ()
    return field, ".".join(path)


# -- what bounds and literals become -------------------------------------------------------------------------

Convert = Callable[[Any], Any]
Domain = tuple[Callable[[ColumnStatistics], tuple[Any, Any]], Convert]
#: Where nothing can be compared.
UNKNOWN: Domain = (lambda found: (None, None), lambda value: None)


def _domain(source: at.DataType, target: st.DataType, options: TypeOptions) -> Domain:
    """How the bounds of an Arrow column and the literals of a Spark type become comparable."""
    while isinstance(source, at.Dictionary | at.RunEndEncoded):
        source = source.value_type if isinstance(source, at.Dictionary) else source.values.type
    try:
        natural = spark_type(source, options, "")
    except (UnsupportedError, UsageError):
        return UNKNOWN
    # With another type, which the user's schema asks for, or another collation, values compare otherwise.
    if natural != target:
        return UNKNOWN
    if isinstance(source, at.FloatingPoint):
        return _float_bounds, _float
    found = _leaf(source, natural)
    if found is None:
        return UNKNOWN
    stored, convert, literal = found

    def bounds(found: ColumnStatistics) -> tuple[Any, Any]:
        low, high = [
            None if bound is None or type(bound) is not stored else convert(bound) for bound in (found.min, found.max)
        ]
        return low, high

    return bounds, literal


def _leaf(source: at.DataType, natural: st.DataType) -> tuple[type, Convert, Convert] | None:
    """The type of the stored bounds, what becomes of them in Spark (in the same order), and of literals."""
    match source, natural:
        case at.Bool(), _:
            return bool, bool, lambda value: value if type(value) is bool else None
        case at.Int(), _:
            return int, int, _number
        case at.Decimal(), st.DecimalType():
            return int, lambda value: Decimal(value).scaleb(-source.scale, EXACT), _number
        case ((at.Utf8() | at.LargeUtf8() | at.Utf8View()), _):
            return str, str.encode, _text
        case ((at.Binary() | at.LargeBinary() | at.BinaryView() | at.FixedSizeBinary()), _):
            return bytes, bytes, lambda value: bytes(value) if isinstance(value, bytes | bytearray) else None
        case at.Date(), _:
            per_day = 1 if source.unit == "day" else MILLISECONDS_PER_DAY
            return int, lambda value: value // per_day, _days
        case at.Timestamp(unit="ns"), st.LongType():
            return int, int, _number
        case at.Timestamp(), (st.TimestampType() | st.TimestampNTZType()):
            zoned = isinstance(natural, st.TimestampType)
            return int, _to_microseconds(source.unit), lambda value: _microseconds(value, zoned)
    return None


def _number(value: Any) -> Any:
    if type(value) is int or (isinstance(value, Decimal) and value.is_finite()):
        return value
    return None


def _float(value: Any) -> Any:
    if type(value) is not float:
        return None
    return NAN if value != value else (0, value)


def _float_bounds(found: ColumnStatistics) -> tuple[Any, Any]:
    low, high = found.min, found.max
    if type(low) is not float or type(high) is not float:
        return None, None
    return (0, low), ((0, high) if found.has_nan is False else NAN)


def _text(value: Any) -> Any:
    try:
        return value.encode() if type(value) is str else None
    except UnicodeEncodeError:
        return None


def _days(value: Any) -> Any:
    return (value - EPOCH.date()).days if type(value) is dt.date else None


def _to_microseconds(unit: str) -> Convert:
    if unit == "ns":
        return lambda value: value // 1000
    factor = {"s": 1_000_000, "ms": 1000, "us": 1}[unit]
    return lambda value: value * factor


def _microseconds(value: Any, zoned: bool) -> Any:
    if not isinstance(value, dt.datetime) or (value.tzinfo is not None) != zoned:
        return None
    return (value - (EPOCH_UTC if zoned else EPOCH)) // MICROSECOND


# -- filters -------------------------------------------------------------------------------------------------


def _possible(test: Filter, facts: _Facts, literal: Convert) -> bool:
    """Whether some row may pass: in SQL, what is compared with null is neither true nor false."""
    match test:
        case Not():
            return _may_fail(test.child, facts, literal)
        case IsNull():
            return facts.nulls
        case IsNotNull() | StringEndsWith() | StringContains():
            return facts.values
        case EqualNullSafe(value=None):
            return facts.nulls
        case In():
            return facts.values and any(
                value is not None and _compares(EqualTo, facts, literal(value)) for value in test.value
            )
        case StringStartsWith():
            return facts.values and _begins(facts, literal(test.value))
    if isinstance(test, VALUE_FILTERS) and test.value is not None:
        return facts.values and _compares(type(test), facts, literal(test.value))
    return True


def _may_fail(test: Filter, facts: _Facts, literal: Convert) -> bool:
    """Whether some row may fail a filter for certain: what ``Not`` of it lets pass."""
    match test:
        case Not():
            return _possible(test.child, facts, literal)
        case IsNull() | IsNotNull():
            return _possible(OPPOSITE[type(test)](test.attribute), facts, literal)  # type: ignore[call-arg]
        case EqualNullSafe(value=None):
            return facts.values
        case EqualNullSafe():
            return facts.nulls or (facts.values and not _all_are([literal(test.value)], facts))
        case EqualTo() if test.value is not None:
            return facts.values and not _all_are([literal(test.value)], facts)
        case In():
            return facts.values and not _all_are(map(literal, test.value), facts)
        case StringStartsWith():
            return facts.values and not _all_begin(facts, literal(test.value))
        case StringEndsWith() | StringContains():
            return facts.values
    if type(test) in OPPOSITE and test.value is not None:  # type: ignore[attr-defined]
        opposite = OPPOSITE[type(test)]
        return _possible(opposite(test.attribute, test.value), facts, literal)  # type: ignore[attr-defined, call-arg]
    return True


def _compares(kind: type[Filter], facts: _Facts, value: Any) -> bool:
    """Whether some value between the bounds stands so to a literal."""
    low, high = facts.low, facts.high
    if value is None:
        return True
    if kind is LessThan:
        return low is None or low < value
    if kind is LessThanOrEqual:
        return low is None or low <= value
    if kind is GreaterThan:
        return high is None or high > value
    if kind is GreaterThanOrEqual:
        return high is None or high >= value
    return (low is None or low <= value) and (high is None or high >= value)


def _all_are(values: Iterable[Any], facts: _Facts) -> bool:
    """Whether every value is one of some literals: there is only one value, and it is among them."""
    if facts.low is None or facts.low != facts.high:
        return False
    return any(value is not None and value == facts.low for value in values)


def _begins(facts: _Facts, prefix: Any) -> bool:
    """Whether a text between the bounds may begin so: such texts lie together, from the prefix on."""
    if not isinstance(prefix, bytes):
        return True
    low, high = facts.low, facts.high
    return (high is None or high >= prefix) and (low is None or low[: len(prefix)] <= prefix)


def _all_begin(facts: _Facts, prefix: Any) -> bool:
    if not isinstance(prefix, bytes) or facts.low is None or facts.high is None:
        return False
    return bool(facts.low.startswith(prefix) and facts.high.startswith(prefix))
