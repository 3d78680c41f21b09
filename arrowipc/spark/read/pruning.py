"""Which batches of a file no row of a query can come from: filters of Spark as those of `columns.pruning`."""

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from os.path import dirname
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
from arrowipc.columns import pruning as columns
from arrowipc.dataset.partitioning import keys_of
from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.read.file_statistics import file_statistics
from arrowipc.read.files import FoundFile
from arrowipc.schema import Field, Schema
from arrowipc.spark.options import ReadOptions
from arrowipc.spark.read.columns import added_columns
from arrowipc.spark.read.folders import typed_key
from arrowipc.spark.read.partitions import ArrowIpcReader
from arrowipc.spark.read.planning import Slice
from arrowipc.spark.types import TypeOptions, arrow_schema_of, as_schema, index_of, spark_type

if TYPE_CHECKING:
    from arrowipc.columns.statistics import ColumnStatistics

__all__ = ["FilteringReader", "Pruner", "PruningReader"]

MILLISECONDS_PER_DAY = 86_400_000
EPOCH = dt.datetime(1970, 1, 1)
EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)

OPERATORS: dict[type[Filter], str] = {
    EqualTo: "==",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    IsNull: "is_null",
    IsNotNull: "is_not_null",
    StringStartsWith: "starts_with",
}


class PruningReader(ArrowIpcReader):
    """Reads only files and batches that rows of the option ``filter`` may be in."""

    def __init__(self, schema: st.StructType, options: ReadOptions) -> None:
        super().__init__(schema, options)
        self.pruner: Pruner | None = None
        if options.filter is not None:
            columns.Pruner(options.filter, as_schema(arrow_schema_of(schema)))  # says what is wrong with it
            self._prune([])

    def _prune(self, filters: list[Filter]) -> None:
        # In mode PERMISSIVE a damaged batch becomes a row of nulls, which its statistics do not cover.
        if self._options.mode != "permissive":
            added = added_columns(self._options)
            known = st.StructType([field for field in self._schema.fields if field.name not in added])
            self.pruner = Pruner(filters, known, self._options.types, self._options.filter)

    def _wanted_files(self, files: list[FoundFile]) -> list[FoundFile]:
        """The files that their keys do not rule out."""
        pruner = self.pruner
        if pruner is None:
            return files
        keeps = cache(lambda folder, below: pruner.keeps_folder(folder, keys_of(folder, f"{below}/")))
        return [file for file in files if keeps(dirname(file.path), dirname(file.below))]

    @property
    def _prunes(self) -> bool:
        return self.pruner is not None

    def _wanted(self, reader: Any, file: FoundFile | Slice, numbers: Sequence[int]) -> Iterable[int]:
        """The batches that the filters do not rule out; a damaged one is kept, and reported when it is read."""
        if self.pruner is None:
            return numbers
        keeps = self.pruner.bound(reader.schema, file.path, keys_of(file.path, file.below)).keeps
        found = file_statistics(reader, batches=numbers)
        return [number for number, known in zip(numbers, found, strict=True) if keeps(known)]


class FilteringReader(PruningReader):
    """Reads only files and batches that rows of the query may be in; made when the option ``pushFilters`` is true.

    Spark refuses every read through a class that has ``pushFilters``, unless its configuration
    ``spark.sql.python.filterPushdown.enabled`` is true: hence the option.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Remember the filters, and leave all of them to Spark: a file or batch is kept or left out as a whole."""
        self._prune(filters)
        return filters


class Bound(NamedTuple):
    """What decides about the batches of a file."""

    pruner: columns.Pruner
    #: Columns that have one value in the whole file, as those that it lacks.
    values: dict[str, Any]

    def keeps(self, statistics: "Mapping[str, ColumnStatistics] | None") -> bool:
        """Whether a batch of these statistics has to be read.

        False only if no row of the batch can pass all filters; without statistics, and in any doubt, True.
        """
        return self.pruner.keeps(statistics, self.values)


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
    filter : optional
        What a row has to pass besides, in the form of `open_dataset`.

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
    ...     pruner.bound(reader.schema).keeps(ipc.file_statistics(reader)[0])
    False
    """

    def __init__(
        self,
        filters: Sequence[Filter],
        schema: st.StructType,
        options: TypeOptions | Mapping[str, Any],
        filter: Any = None,
    ) -> None:
        self._filters = list(filters)
        self._schema = schema
        self._options = TypeOptions.of(options)
        self._filter = filter
        self._last: tuple[Schema | None, frozenset[str], columns.Pruner, dict[str, Any]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Pruner, (self._filters, self._schema, self._options, self._filter)

    def keeps_folder(self, path: str, keys: Mapping[str, str | None]) -> bool:
        """Whether the files of a folder of these keys have to be opened."""
        return not keys or self.bound(None, path, keys).keeps(None)

    def bound(self, schema: Schema | None, path: str = "", keys: Mapping[str, str | None] | None = None) -> Bound:
        """What decides about the batches of a file of a schema, None: not known yet, whose folders have these keys."""
        fields = [field for field in self._schema.fields if keys and index_of(field.name, [*keys]) is not None]
        values = {}
        for field in fields:
            value = typed_key(path, keys or {}, field)
            values[field.name] = None if value is None else value.as_py()
        last = self._last  # files are planned side by side
        if last is None or last[0] is not schema or last[1] != values.keys():
            domains: dict[str, columns.Domain] = {}
            missing: dict[str, Any] = {}

            def found(name: tuple[str, ...]) -> str | None:
                return self._path(name, schema, values.keys(), domains, missing)

            tests = [_translated(test, found(_attribute(test))) for test in self._filters]
            wanted = [test for test in tests if test is not None]
            if self._filter is not None:
                wanted.append(self._filter)

            def domain(text: str) -> columns.Domain | None:
                if text not in domains:
                    whole = index_of(text, self._schema.names) is not None
                    found((text,) if whole else tuple(text.split(".")))
                return domains.get(text)

            made = columns.Pruner(("and", *wanted), None, strict=False, domain=domain)
            last = self._last = schema, frozenset(values), made, missing
        return Bound(last[2], {**last[3], **values})

    def _path(
        self,
        name: tuple[str, ...],
        schema: Schema | None,
        keys: Collection[str],
        domains: dict[str, columns.Domain],
        missing: dict[str, Any],
    ) -> str | None:
        """The path of the column that a filter is about, whose domain is noted; None: there is none."""
        target = _spark_type(self._schema, name)
        if target is None:
            return None
        first = self._schema.names[index_of(name[0], self._schema.names) or 0]
        if first in keys:
            kind = as_schema(arrow_schema_of(st.StructType([st.StructField(first, target)])))[0].type
            domains[first] = _domain(kind, target, self._options)
            return first
        if schema is None:
            return None
        field, path = _arrow_field(schema, name)
        if field is None:
            if len(name) > 1 or any(each.lower() == first.lower() for each in schema.names):
                return None
            missing[first] = None
            domains[first] = UNKNOWN
            return first
        domains[path] = _domain(field.type, target, self._options)
        return path


# -- columns and filters -------------------------------------------------------------------------------------


def _translated(test: Any, path: str | None, negated: bool = False) -> Any:
    """A filter of Spark as one of ours, or its opposite; None: it rules nothing out.

    In SQL, what is compared with null is neither true nor false.
    """
    if path is None:
        return None
    match test:
        case Not():
            return _translated(test.child, path, not negated)
        case StringEndsWith() | StringContains():
            return path, "is_not_null"
        case EqualNullSafe():
            null = path, "is_null"
            if test.value is None:
                return ("not", null) if negated else null
            return ("or", null, (path, "!=", test.value)) if negated else (path, "==", test.value)
        case In():
            literals = [value for value in test.value if value is not None]
            if negated:  # "not in" would let nulls pass
                return [(path, "is_not_null"), *[(path, "!=", value) for value in literals]]
            return path, "in", literals
    op = OPERATORS.get(type(test))
    if op is None or getattr(test, "value", ...) is None:
        return None
    literals = [test.value] if hasattr(test, "value") else []
    if negated and op in columns.OPPOSITE:  # NaN has one place in Spark's order
        return path, columns.OPPOSITE[op], *literals
    return ("not", (path, op, *literals)) if negated else (path, op, *literals)


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
#: Where nothing can be compared.
UNKNOWN = columns.Domain(lambda found: (None, None), lambda value: None)


def _domain(source: at.DataType, target: st.DataType, options: TypeOptions) -> columns.Domain:
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
    match source, natural:
        case at.Date(), _:
            per_day = 1 if source.unit == "day" else MILLISECONDS_PER_DAY
            return columns.Domain(columns.bounds_of(int, lambda value: value // per_day), _exactly(_days))
        case at.Timestamp(), st.LongType():
            return columns.domain_of(at.Int(64, True))
        case at.Timestamp(), (st.TimestampType() | st.TimestampNTZType()):
            zoned = isinstance(natural, st.TimestampType)
            literal = _exactly(lambda value: _microseconds(value, zoned))
            return columns.Domain(columns.bounds_of(int, _to_microseconds(source.unit)), literal)
        case ((at.Time() | at.Duration()), _):
            return UNKNOWN
    return columns.domain_of(source)


def _exactly(literal: Convert) -> Callable[[Any], tuple[Any, Any] | None]:
    return lambda value: None if (key := literal(value)) is None else (key, key)


def _days(value: Any) -> Any:
    if isinstance(value, str):  # of the option ``filter``
        value = dt.date.fromisoformat(value)
    return (value - EPOCH.date()).days if type(value) is dt.date else None


def _to_microseconds(unit: str) -> Convert:
    if unit == "ns":
        return lambda value: value // 1000
    factor = {"s": 1_000_000, "ms": 1000, "us": 1}[unit]
    return lambda value: value * factor


def _microseconds(value: Any, zoned: bool) -> Any:
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if not isinstance(value, dt.datetime) or (value.tzinfo is not None) != zoned:
        return None
    return (value - (EPOCH_UTC if zoned else EPOCH)) // MICROSECOND
