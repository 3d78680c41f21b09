"""Finds the batches in which no row can pass a filter, by their statistics; rows are never read.

A filter is a list of conditions, all of which have to hold. A condition is a tuple of a column, an operator and
a literal: ``("t", ">=", x)``. Operators are ``== != < <= > >=`` and ``in``, ``not in`` (a list of literals),
``starts_with``, ``is_null`` and ``is_not_null`` (no literal); ``=`` and ``is_valid`` are other names of two. A
condition may also be ``("or", a, b, ...)``, ``("and", a, b, ...)`` or ``("not", a)``, of conditions or of lists of
them; a list of lists is an "or" of "and", as pyarrow has it. A column is a name, or a dotted path to the member
of a struct.

A row may pass if it passes by the rules of any common library: nulls compare as in SQL, except that ``not in`` lets
them pass; NaN is above all numbers, or compares with nothing; literals of more or fewer digits than the column are
rounded up and down, or not at all. In any doubt a batch is kept.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from arrowipc import datatypes as at
from arrowipc.arguments import described
from arrowipc.errors import NotFoundError, UsageError
from arrowipc.filters.literals import NAN, WORDS, bounds_of, ranges_of, rounded_keys, stored_type

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from arrowipc.filters.literals import Ends
    from arrowipc.filters.statistics import ColumnStatistics
    from arrowipc.schemas import Schema

    #: Whether some rows may have a value, whether some may be null, keys below and above all values (None: not known).
    Facts: TypeAlias = tuple[bool, bool, Any, Any]
    Bounds: TypeAlias = Callable[[ColumnStatistics], tuple[Any, Any]]
    _Statistics: TypeAlias = Mapping[str, ColumnStatistics] | None
    #: Called with the statistics of a batch, and the columns that have one value in all of a file.
    Test: TypeAlias = Callable[[_Statistics, Mapping[str, Any]], bool]
    ColumnTest: TypeAlias = Callable[[bool, bool, Any, Any], bool]

#: Limits of a filter: depth of nested conditions, number of conditions, and of literals.
MOST_NESTED, MOST_CONDITIONS, MOST_LITERALS = 64, 10_000, 1_000_000
OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "==", "is_null": "is_not_null"}
OPPOSITE |= {"is_not_null": "is_null"}
OPERATORS = (*OPPOSITE, "in", "not in", "starts_with")
SAME = {"=": "==", "is_valid": "is_not_null"}


class Condition(NamedTuple):
    """A condition about one column."""

    column: str
    op: str
    #: Empty for "is_null" and "is_not_null"; else one value, which for "in" and "not in" is a list of values.
    literals: tuple[Any, ...]
    #: The opposite has to hold. For a null, neither holds.
    negated: bool


class Several(NamedTuple):
    """Conditions all of which ("and"), or one of which ("or"), have to hold."""

    word: Literal["and", "or"]
    parts: list[Condition | Several]


def parsed(filter: Any) -> Condition | Several:
    """Return a filter as a tree, in which only single conditions are negated; None lets all pass."""
    return _Parser().part([] if filter is None else filter, False, 0)


def columns_in(filter: Any) -> list[str]:
    """Return the names and paths of the columns that a filter is about, each once."""
    parts: list[Condition | Several] = [parsed(filter)]
    found: dict[str, None] = {}
    while parts:
        part = parts.pop()
        if isinstance(part, Condition):
            found[part.column] = None
        else:
            parts += part.parts
    return [*found]


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


def _facts(statistics: _Statistics, keys: Mapping[str, Any], path: str, kind: at.DataType, bounds: Bounds) -> Facts:
    """Return the facts that are known about the rows of a batch in one column."""
    if path in keys:
        value = keys[path]
        if value is None:
            return False, True, None, None
        try:
            ends = rounded_keys(kind, value)
        except (TypeError, ValueError, ArithmeticError):
            ends = None
        return (True, False, None, None) if ends is None else (True, False, ends[0][0], ends[1][1])
    found = None if statistics is None else statistics.get(path)
    if found is None:
        return True, True, None, None
    return found.null_count != found.rows, found.null_count != 0, *bounds(found)


class Pruner:
    """Decides by statistics whether a batch may have a row that passes a filter; None lets all pass.

    The schema is that of the file: bounds are in the units of its types. Keys of a whole file may be among its fields.
    `strict`: conditions about columns that are not there, or cannot be compared with the literal, are a UsageError.
    Otherwise they rule nothing out: the schemas of the files of a data set may differ.
    """

    def __init__(self, filter: Any, schema: Schema, *, strict: bool = True) -> None:
        self._fields = tuple(schema)
        self._strict = strict
        self._paths: dict[str, at.DataType | None] = {}
        self._test = self._compiled(parsed(filter))

    @property
    def columns(self) -> tuple[str, ...]:
        """Tuple of str: the columns that the filter is about, by dotted path."""
        return tuple(self._paths)

    def keeps(self, statistics: Mapping[str, ColumnStatistics] | None, keys: Mapping[str, Any] | None = None) -> bool:
        """Whether a batch with these statistics (None: not known) has to be read; False only if no row in it can pass.

        `keys` are columns that have this one value (None: null) in all rows of the file.
        """
        return self._test(statistics, keys or {})

    def _compiled(self, part: Condition | Several) -> Test:
        """Return a test that fails only if no row can pass."""
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
        column, op, negated = part.column, part.op, part.negated
        if column not in self._paths:
            self._paths[column] = self._type_of(column)
        kind = self._paths[column]
        if kind is None:
            return lambda statistics, keys: True
        bounds, flipped = bounds_of(kind), negated and op in OPPOSITE
        if flipped:
            op, negated = OPPOSITE[op], False
        test: ColumnTest
        if op in ("is_null", "is_not_null"):
            wanted = op == "is_null"
            return lambda statistics, keys: _facts(statistics, keys, column, kind, bounds)[wanted]
        listed = op in ("in", "not in")
        given = part.literals[0] if listed else part.literals
        ends = [self._ends(column, kind, op, each) for each in given if each is not None or not listed]
        if (op in ("!=", "not in")) != negated:
            test = _outside(kind, "starts_with" if op == "starts_with" else "==", ends, listed)
        else:
            test = _inside(kind, "==" if listed else op, ends, len(ends) < len(given), flipped)
        return lambda statistics, keys: test(*_facts(statistics, keys, column, kind, bounds))

    def _ends(self, column: str, kind: at.DataType, op: str, literal: Any) -> Ends | None:
        try:
            if op == "starts_with" and not isinstance(kind, WORDS):
                raise TypeError("starts_with is for text and binary columns")
            return rounded_keys(kind, literal)
        except (TypeError, ValueError, ArithmeticError) as error:
            if not self._strict:
                return None
            raise UsageError(
                f"filter: column {column!r} ({fields_at(self._fields, column)[0].type}) cannot be compared with "
                f"{repr(literal)[:100]} ({type(literal).__name__}): {error}"
            ) from None

    def _type_of(self, path: str) -> at.DataType | None:
        found = fields_at(self._fields, path)
        if len(found) == 1:
            return stored_type(found[0].type)
        if not self._strict:
            return None
        several = f"{len(found)} columns are" if found else "no column is"
        names = [field.name for field in self._fields]
        raise NotFoundError(
            f"filter: {several} called {path!r}; there are {', '.join(map(repr, names[:20]))}"
            f"{', ...' if len(names) > 20 else ''} (a member of a struct by its dotted path)"
        )


def _inside(kind: at.DataType, op: str, ends: list[Ends | None], null: bool, flipped: bool) -> ColumnTest:
    """Return a test: whether a value may be in one of some ranges, or null if nulls pass.

    `flipped`: the condition is the opposite of a comparison. By the rule that NaN compares with nothing, all NaN pass
    it, and all values pass it if the literal is NaN.
    """
    floats = isinstance(kind, at.FloatingPoint)
    known = [each for each in ends if each is not None and not (flipped and floats and each[0][0] == NAN)]
    if len(known) < len(ends):
        return lambda values, nulls, low, high: values or (null and nulls)
    ranges = sorted([found for least, most in known for found in ranges_of(kind, op, least, most)])
    starts, stops = [start for start, _ in ranges], list(accumulate([stop for _, stop in ranges], max))
    reaches = operator.lt if isinstance(kind, WORDS) else operator.le
    nothing = flipped and floats and op in ("<", "<=")

    def test(values: bool, nulls: bool, low: Any, high: Any) -> bool:
        end = len(starts) if high is None else bisect_right(starts, high)
        found = end > 0 and (low is None or stops[end - 1] is None or reaches(low, stops[end - 1]))
        return (values and (found or (nothing and high == NAN))) or (null and nulls)

    return test


def _outside(kind: at.DataType, op: str, ends: list[Ends | None], listed: bool) -> ColumnTest:
    """Return a test: whether a value may be outside of all ranges; a null may be, if the literals are a list."""
    # Only exact literals rule values out. For some libraries the two zeros are different values of a list.
    sure = [each for each in ends if each is not None and each[0] == each[1] and each[0][0] == each[0][1]]
    if listed and isinstance(kind, at.FloatingPoint):
        sure = [each for each in sure if each[0][0] != 0]
    ranges = {found for each in sure for found in ranges_of(kind, op, *each)}
    starts, stops = [start for start, _ in sorted(ranges)], [stop for _, stop in sorted(ranges)]
    reaches = operator.lt if isinstance(kind, WORDS) else operator.le

    def test(values: bool, nulls: bool, low: Any, high: Any) -> bool:
        end = 0 if low is None or high is None else bisect_right(starts, low)
        inside = end > 0 and (stops[end - 1] is None or reaches(high, stops[end - 1]))
        return (listed and nulls) or (values and not inside)

    return test


def fields_at(fields: Sequence[at.Field], path: str) -> list[at.Field]:
    """Return the fields that a path may mean."""
    return [field for _, field in places_at(fields, path)]


def columns_at(fields: Sequence[at.Field], paths: Iterable[str]) -> list[str]:
    """Return the names of the columns in which paths lead to something, each once."""
    return list(dict.fromkeys([fields[places_at(fields, path)[0][0][0]].name for path in paths]))


def places_at(fields: Sequence[at.Field], path: str) -> list[tuple[tuple[int, ...], at.Field]]:
    """Return such fields with their places: the number of the column, then that of the struct's member, and so on."""
    found: list[tuple[tuple[int, ...], at.Field]] = [
        ((i,), field) for i, field in enumerate(fields) if field.name == path
    ]
    for i, field in enumerate(fields):
        if isinstance(field.type, at.Struct) and path.startswith(field.name + "."):
            below = places_at(field.type.fields, path[len(field.name) + 1 :])
            found += [((i, *places), member) for places, member in below]
    return found
