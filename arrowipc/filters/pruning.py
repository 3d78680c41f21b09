"""Which batches no row that passes a filter can be in, by their statistics; rows are never looked at.

A filter is a list of conditions, all of which have to hold. A condition is a tuple of a column, an operator and
a literal: ``("t", ">=", x)``. Operators are ``== != < <= > >=`` and ``in``, ``not in`` (a list of literals),
``starts_with``, ``is_null`` and ``is_not_null`` (no literal); ``=`` and ``is_valid`` are other names of two. A
condition may also be ``("or", a, b, ...)``, ``("and", a, b, ...)`` or ``("not", a)``, of conditions or of lists of
them; a list of lists is an "or" of "and", as pyarrow has it. A column is a name, or a dotted path to the member
of a struct.

What may pass is what passes by the rules of anybody: nulls compare as in SQL, except that ``not in`` lets them
pass; NaN is above all numbers, or compares with nothing; literals of more or fewer digits than the column are
rounded up and down, or not at all. In any doubt a batch is kept.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from arrowipc import datatypes as at
from arrowipc.arguments import described
from arrowipc.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from arrowipc.columns.statistics import ColumnStatistics
    from arrowipc.schemas import Schema

    Keys: TypeAlias = tuple[Any, Any]
    Facts: TypeAlias = tuple[bool, bool, Any, Any]
    _Statistics: TypeAlias = Mapping[str, ColumnStatistics] | None
    #: Asked with the statistics of a batch, and the one value that columns have in a file.
    Test: TypeAlias = Callable[[_Statistics, Mapping[str, Any]], bool]
    #: Asked with what is known of a column: see `_facts`.
    ColumnTest: TypeAlias = Callable[[bool, bool, Any, Any], bool]

__all__ = ["OPERATORS", "Condition", "Pruner", "Several", "fields_at", "nanoseconds_of", "parsed", "places_at"]

#: Conditions within conditions, conditions, and literals of a filter: more is a mistake, or malice.
MOST_NESTED, MOST_CONDITIONS, MOST_LITERALS = 64, 10_000, 1_000_000
OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "==", "is_null": "is_not_null"}
OPPOSITE |= {"is_not_null": "is_null"}
OPERATORS = (*OPPOSITE, "in", "not in", "starts_with")
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
SAME = {"=": "==", "is_valid": "is_not_null"}
#: Decimals of other scales are not compared: nobody counts in such units.
MOST_SCALE = 1000
# 256 bits have at most 78 digits.
EXACT = Context(prec=80)
#: The key of NaN, above those of all numbers, which are (0, number).
NAN = (1, 0.0)

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1, "day": 86_400 * 10**9}
NUMPY_UNITS = {"W": 7 * NANOSECONDS["day"], "D": NANOSECONDS["day"], "h": 3600 * 10**9, "m": 60 * 10**9, **NANOSECONDS}
EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)


class Condition(NamedTuple):
    """One column and what is asked of it."""

    column: str
    op: str
    #: None for nulls, one value, or of "in" and "not in" a list of values.
    literals: tuple[Any, ...]
    #: The opposite has to hold. Of a null neither does.
    negated: bool


class Several(NamedTuple):
    """Conditions of which all have to hold, or some."""

    word: Literal["and", "or"]
    parts: list[Condition | Several]


def parsed(filter: Any) -> Condition | Several:
    """Return a filter as a tree, in which only single conditions are negated; None lets all pass.

    Raises
    ------
    UsageError
        It is not of the form that the module describes, or too large.
    """
    return _Parser().part([] if filter is None else filter, False, 0)


class _Parser:
    def __init__(self) -> None:
        self.conditions, self.literals = MOST_CONDITIONS, MOST_LITERALS

    def part(self, part: Any, negated: bool, depth: int) -> Condition | Several:
        if depth > MOST_NESTED:
            raise UsageError(f"filter: conditions are nested more than {MOST_NESTED} deep")
        self.spend(1, 0)
        if isinstance(part, list):
            word, parts = ("or" if part and all(isinstance(each, list) for each in part) else "and"), part
        elif not isinstance(part, tuple) or not part or not isinstance(part[0], str):
            raise UsageError(
                'filter: expected conditions such as ("t", ">=", x), ("x", "is_null") or ("or", a, b), found '
                f"{described(part)}" + (f" {str(part)[:100]}" if isinstance(part, tuple) else "")
            )
        elif part[0] in ("and", "or", "not") and all(isinstance(each, (tuple, list)) for each in part[1:]):
            word, parts = part[0], list(part[1:])
            if word == "not" and len(parts) != 1:
                raise UsageError(f'filter: ("not", a) has one condition, found {len(parts)}')
        else:
            return self.condition(part, negated)
        if word == "not":
            return self.part(parts[0], not negated, depth + 1)
        made = [self.part(each, negated, depth + 1) for each in parts]
        return made[0] if len(made) == 1 else Several("or" if (word == "or") != negated else "and", made)

    def spend(self, conditions: int, literals: int) -> None:
        self.conditions -= conditions
        self.literals -= literals
        if self.conditions < 0 or self.literals < 0:
            raise UsageError(
                f"filter: more than {MOST_CONDITIONS:,} conditions or {MOST_LITERALS:,} literals; let fewer decide "
                "what is read, and the rest about what was"
            )

    def condition(self, part: tuple[Any, ...], negated: bool) -> Condition:
        column, *others = part
        op = SAME.get(others[0], others[0]) if others and isinstance(others[0], str) else None
        if op not in OPERATORS:
            raise UsageError(
                f"filter: column {column!r}: expected one of the operators {', '.join(OPERATORS)}, found "
                f"{str(others[:1])[:100]}"
            )
        if len(part) != (2 if op in ("is_null", "is_not_null") else 3):
            count = "no" if "null" in op else "one"
            raise UsageError(f"filter: column {column!r}: {op} takes {count} literal, found {str(part[2:])[:100]}")
        literals = part[2:]
        if op in ("in", "not in"):
            (found,) = literals
            if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Iterable):
                raise UsageError(f"filter: column {column!r}: in and not in take a list, found {described(found)}")
            literals = (list(found),)
            self.spend(0, len(literals[0]))
        return Condition(column, op, literals, negated)


class Domain(NamedTuple):
    """How the bounds of a column and literals become keys, which compare."""

    #: The lower and the upper bound; None: not known.
    bounds: Callable[[ColumnStatistics], Keys]
    #: The keys between which a literal lies, for sure; None: not known. Raises ValueError or TypeError where a
    #: literal cannot be compared with the column.
    literal: Callable[[Any], Keys | None]


def _facts(statistics: _Statistics, keys: Mapping[str, Any], path: str, domain: Domain) -> Facts:
    """What is known of the rows of a batch in one column.

    Whether some may hold a value, whether some may be null, and keys below and above all values; None: not known.
    """
    if path in keys:
        value = keys[path]
        if value is None:
            return False, True, None, None
        try:
            low, high = domain.literal(value) or (None, None)
        except (TypeError, ValueError, ArithmeticError):
            low = high = None
        return True, False, low, high
    found = None if statistics is None else statistics.get(path)
    if found is None:
        return True, True, None, None
    nulls = found.null_count
    low, high = domain.bounds(found)
    return nulls != found.rows, nulls != 0, low, high


class Pruner:
    """Decides by statistics whether a batch may hold a row that passes a filter.

    Parameters
    ----------
    filter : list, tuple or None
        Conditions, as the module says; None lets all pass.
    schema : Schema
        Of the file: bounds are in the units of its types. Keys of a whole file may be among its fields.
    strict : bool, default True
        False: conditions about columns that are not there, or cannot be compared with the literal, rule nothing
        out. For the files of a data set, whose schemas may differ.

    Raises
    ------
    UsageError
        The filter is not of that form or too large, there is no such column, or its type does not compare so.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.filters.pruning import Pruner
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2, 3]})
    >>> known = ipc.compute_statistics(batch)
    >>> Pruner([("x", ">", 3)], batch.schema).keeps(known), Pruner([("x", "in", [3, 5])], batch.schema).keeps(known)
    (False, True)
    >>> Pruner([("or", ("x", "<", 0), ("x", "is_null"))], batch.schema).keeps_keys({"x": None})
    True
    """

    def __init__(self, filter: Any, schema: Schema, *, strict: bool = True) -> None:
        self._fields = tuple(schema)
        self._strict = strict
        self._paths: dict[str, Domain | None] = {}
        self._test = self._compiled(parsed(filter))

    @property
    def columns(self) -> tuple[str, ...]:
        """Tuple of str: the columns that the filter is about, by dotted path."""
        return tuple(self._paths)

    def keeps(self, statistics: Mapping[str, ColumnStatistics] | None, keys: Mapping[str, Any] | None = None) -> bool:
        """Whether a batch of these statistics has to be read; False only if no row of it can pass.

        `keys` are columns that have one value in the whole file, as for `keeps_keys`.
        """
        return self._test(statistics, keys or {})

    def keeps_keys(self, keys: Mapping[str, Any]) -> bool:
        """Whether a file has to be opened, in which these columns have this one value (None: null) in all rows."""
        return self._test(None, keys)

    def _compiled(self, part: Condition | Several) -> Test:
        """A test that fails only if no row can pass."""
        if isinstance(part, Condition):
            return self._condition(part)
        tests, some = [self._compiled(each) for each in part.parts], part.word == "or"

        def decided(statistics: _Statistics, keys: Mapping[str, Any]) -> bool:
            for test in tests:
                if test(statistics, keys) is some:
                    return some
            return not some

        return decided

    def _condition(self, part: Condition) -> Test:
        column = part.column
        if column not in self._paths:
            self._paths[column] = self._domain_of(column)
        domain = self._paths[column]
        if domain is None:
            return lambda statistics, keys: True
        test = self._tested(column, domain, part.op, part.literals, part.negated)
        return lambda statistics, keys: bool(test(*_facts(statistics, keys, column, domain)))

    def _tested(self, column: str, domain: Domain, op: str, literals: tuple[Any, ...], negated: bool) -> ColumnTest:
        flipped = negated and op in OPPOSITE
        if flipped:
            op = OPPOSITE[op]
        if op == "is_null":
            return lambda values, nulls, low, high: nulls
        if op == "is_not_null":
            return lambda values, nulls, low, high: values
        if op in ("in", "not in"):
            return _among(self._list(column, domain, *literals), (op == "in") == negated, "in")
        keys = self._keys(column, domain, literals[0])
        # By the rule that NaN compares with nothing, all values pass the opposite of a comparison with it.
        if keys is None or (flipped and keys[0] == NAN):
            return lambda values, nulls, low, high: values
        if op in ("==", "!="):
            return _among([keys], op == "!=", "==")
        if op == "starts_with":
            if not isinstance(keys[0], bytes):
                raise UsageError(f"filter: column {column!r}: starts_with is for text and binary columns")
            return _begins(keys[0], negated)
        compare = COMPARE[op]
        if op in ("<", "<="):
            most = keys[1]
            return lambda values, nulls, low, high: (
                values and (low is None or compare(low, most) or (flipped and high == NAN))
            )
        least = keys[0]
        return lambda values, nulls, low, high: values and (high is None or compare(high, least))

    def _list(self, column: str, domain: Domain, literals: Any) -> list[Keys | Literal["null"] | None]:
        return ["null" if each is None else self._keys(column, domain, each) for each in literals]

    # -- columns and literals --

    def _keys(self, column: str, domain: Domain, literal: Any) -> Keys | None:
        try:
            return domain.literal(literal)
        except (TypeError, ValueError, ArithmeticError) as error:
            if not self._strict:
                return None
            type_ = fields_at(self._fields, column)[0].type
            raise UsageError(
                f"filter: column {column!r} ({type_}) cannot be compared with {repr(literal)[:100]} "
                f"({type(literal).__name__}): {error}"
            ) from None

    def _domain_of(self, path: str) -> Domain | None:
        found = fields_at(self._fields, path)
        if len(found) == 1:
            return domain_of(found[0].type)
        if not self._strict:
            return None
        several = f"{len(found)} columns are" if found else "no column is"
        names = [field.name for field in self._fields]
        raise NotFoundError(
            f"filter: {several} called {path!r}; there are {', '.join(map(repr, names[:20]))}"
            f"{', ...' if len(names) > 20 else ''} (a member of a struct by its dotted path)"
        )


def _among(literals: list[Any], negated: bool, op: str) -> ColumnTest:
    """Whether a value may be one of some literals, or another one; nulls are not in a list without them."""
    known = sorted([keys for keys in literals if keys is not None and keys != "null"])
    if negated:
        # Some take the two zeros for different values of a list.
        single = {low for low, high in known if low == high and not (op == "in" and low == (0, 0))}
        return lambda values, nulls, low, high: (
            (op == "in" and nulls) or (values and (low is None or low != high or low not in single))
        )
    doubt, null = None in literals, "null" in literals
    lows, highs = [low for low, _ in known], list(accumulate([high for _, high in known], max))

    def test(values: bool, nulls: bool, low: Any, high: Any) -> bool:
        end = len(lows) if high is None else bisect_right(lows, high)
        found = doubt or (end > 0 and (low is None or highs[end - 1] >= low))
        return (values and found) or (null and nulls)

    return test


def _begins(prefix: bytes, negated: bool) -> ColumnTest:
    """Whether a text between the bounds may begin with the prefix: such texts are adjacent in sorted order."""

    def test(values: bool, nulls: bool, low: Any, high: Any) -> bool:
        if negated:
            known = low is not None and high is not None
            return values and not (known and low.startswith(prefix) and high.startswith(prefix))
        return values and (high is None or high >= prefix) and (low is None or low[: len(prefix)] <= prefix)

    return test


def fields_at(fields: Sequence[at.Field], path: str) -> list[at.Field]:
    """The fields that a path may mean."""
    return [field for _, field in places_at(fields, path)]


def places_at(fields: Sequence[at.Field], path: str) -> list[tuple[tuple[int, ...], at.Field]]:
    """The same, each with its number among the columns, then among the members of the struct, and so on."""
    found: list[tuple[tuple[int, ...], at.Field]] = [
        ((i,), field) for i, field in enumerate(fields) if field.name == path
    ]
    for i, field in enumerate(fields):
        if isinstance(field.type, at.Struct) and path.startswith(field.name + "."):
            below = places_at(field.type.fields, path[len(field.name) + 1 :])
            found += [((i, *places), member) for places, member in below]
    return found


def domain_of(type_: at.DataType) -> Domain:
    """How bounds and literals of a type compare."""
    while isinstance(type_, at.Dictionary | at.RunEndEncoded):
        type_ = type_.value_type
    match type_:
        case at.Bool():
            return Domain(bounds_of(bool), _bool)
        case at.Int():
            return Domain(bounds_of(int), _integer)
        case at.FloatingPoint():
            return Domain(float_bounds, _real)
        case at.Decimal():
            scale = type_.scale
            if abs(scale) > MOST_SCALE:
                return Domain(lambda found: (None, None), lambda value: None)
            return Domain(bounds_of(int, lambda value: Decimal(value).scaleb(-scale, EXACT)), _decimal(scale))
        case at.Utf8() | at.LargeUtf8() | at.Utf8View():
            return Domain(bounds_of(str, str.encode), _text)
        case at.Binary() | at.LargeBinary() | at.BinaryView() | at.FixedSizeBinary():
            return Domain(bounds_of(bytes), _bytes)
        case at.Date() | at.Timestamp() | at.Time() | at.Duration():
            unit = NANOSECONDS[type_.unit]
            return Domain(bounds_of(int, lambda value: value * unit), _moment(type_, unit))
    return Domain(lambda found: (None, None), _nothing)


def bounds_of(stored: type, convert: Callable[[Any], Any] | None = None) -> Callable[[ColumnStatistics], Keys]:
    """How bounds of one type of Python become keys; those of another type are not known."""

    def bounds(found: ColumnStatistics) -> Keys:
        low = found.min if type(found.min) is stored else None
        high = found.max if type(found.max) is stored else None
        if convert is None:
            return low, high
        return None if low is None else convert(low), None if high is None else convert(high)

    return bounds


def float_bounds(found: ColumnStatistics) -> Keys:
    """The keys of floating-point bounds: (0, number), or `NAN` where there may be one."""
    low, high = found.min, found.max
    if type(low) is not float or type(high) is not float:
        return None, None
    return (0, low), ((0, high) if found.has_nan is False else NAN)


def _plain(value: Any) -> Any:
    """NumPy's scalars as Python's."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def _number(value: Any) -> int | float | Decimal:
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise TypeError("expected a number")
    if isinstance(value, Decimal) and value.is_snan():
        raise ValueError("expected a number")
    return value


def _bool(value: Any) -> Keys:
    value = _plain(value)
    if not isinstance(value, bool):
        raise TypeError("expected True or False")
    return value, value


def _integer(value: Any) -> Keys | None:
    value = _number(value)
    if value != value:
        return None
    # Others compare as floating-point numbers, which large integers are rounded to.
    slack = abs(value) * 2**-52 if isinstance(value, float) and 2**53 <= abs(value) < math.inf else 0
    return value - slack, value + slack


def _real(value: Any) -> Keys:
    """A literal, and its rounding to the column's type, in which some libraries compare."""
    value = _number(value)
    if value != value:
        return NAN, NAN
    forms = [value]
    for code in "dfe":
        try:
            forms += struct.unpack(code, struct.pack(code, value))
        except (OverflowError, struct.error):
            forms.append(math.inf if value > 0 else -math.inf)
    return (0, min(forms)), (0, max(forms))


def _decimal(scale: int) -> Callable[[Any], Keys | None]:
    step = Decimal(1).scaleb(-scale, EXACT)

    def literal(value: Any) -> Keys | None:
        value = _number(value)
        if value != value:
            return None
        if isinstance(value, float):
            value = Decimal(value)
            slack = EXACT.abs(EXACT.multiply(value, Decimal("1e-12"))) if value.is_finite() else Decimal(0)
            return EXACT.subtract(value, slack), EXACT.add(value, slack)
        if isinstance(value, int) or not value.is_finite() or value.adjusted() + max(scale, 0) > 75:
            return value, value
        return value.quantize(step, ROUND_FLOOR, EXACT), value.quantize(step, ROUND_CEILING, EXACT)

    return literal


def _text(value: Any) -> Keys:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return (key := value.encode()), key


def _bytes(value: Any) -> Keys:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("expected bytes")
    return (key := bytes(value)), key


def _nothing(value: Any) -> Keys:
    raise TypeError("values of this type have no order: only is_null and is_not_null are possible")


def _moment(type_: at.DataType, unit: int) -> Callable[[Any], Keys]:
    """Literals of dates, times and durations in nanoseconds, rounded down and up to the column's unit.

    Others compare nanoseconds with the microseconds of Python's literals in either unit.
    """

    def literal(value: Any) -> Keys:
        exact = nanoseconds_of(type_, value)
        if unit == 1:
            return exact - 999, exact + 999
        return exact // unit * unit, -(-exact // unit) * unit

    return literal


def nanoseconds_of(type_: at.DataType, value: Any) -> int:
    """A literal of a date, time or duration type, in nanoseconds; TypeError or ValueError if it is of another kind."""
    if type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") in "mM":
        unit = value.dtype.str.partition("[")[2].rstrip("]")
        if (value.dtype.kind == "m") != isinstance(type_, at.Duration) or isinstance(type_, at.Time) or value != value:
            raise TypeError("expected another kind of time")
        if isinstance(type_, at.Timestamp) and type_.timezone is not None:
            raise TypeError("the column has a time zone: give a datetime with one")
        if unit not in NUMPY_UNITS:
            raise ValueError(f"unit {unit!r} has no fixed length")
        return int(value.astype("int64")) * NUMPY_UNITS[unit]
    match type_:
        case at.Duration():
            if not isinstance(value, dt.timedelta):
                raise TypeError("expected a timedelta")
            return int(value // MICROSECOND) * 1000 + int(getattr(value, "nanoseconds", 0))
        case at.Time():
            found = dt.time.fromisoformat(value) if isinstance(value, str) else value
            if not isinstance(found, dt.time) or found.tzinfo is not None:
                raise TypeError("expected a time of day, without a zone")
            return (((found.hour * 60 + found.minute) * 60 + found.second) * 10**6 + found.microsecond) * 1000
    found = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(found, dt.date):
        raise TypeError("expected a date, a datetime or text such as 2024-01-31T12:00")
    if not isinstance(found, dt.datetime):
        found = dt.datetime(found.year, found.month, found.day)
    zoned = isinstance(type_, at.Timestamp) and type_.timezone is not None
    if (found.tzinfo is not None) != zoned:
        raise TypeError(f"the column has {'a' if zoned else 'no'} time zone, the literal {'none' if zoned else 'one'}")
    since = found - (EPOCH.replace(tzinfo=dt.UTC) if zoned else EPOCH)
    return int(since // MICROSECOND) * 1000 + int(getattr(found, "nanosecond", 0))
