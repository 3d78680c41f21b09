"""Which rows pass a filter: the conditions of :mod:`arrowipc.filters.pruning`, evaluated exactly.

A null passes ``is_null`` and nothing else. Numbers compare by their exact values, floats in one order: NaN equals NaN
and is above all others, and the two zeros are equal.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from arrowipc import datatypes as at
from arrowipc.filters.pruning import NANOSECONDS, Condition, Pruner, Several, nanoseconds_of, parsed, places_at
from arrowipc.filters.ranges import combined, flipped, marked, members_marked, rows_marked

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.schemas import Schema

    #: Ends of ranges: integers, both included; or bytes, of which the second is not, and None is no end.
    Range: TypeAlias = tuple[Any, Any]
    Marks: TypeAlias = Any

__all__ = ["RowFilter"]

#: Beyond all integers of 256 bits.
FAR = 1 << 300
INT64 = -(1 << 63), (1 << 63) - 1
OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "==", "is_null": "is_not_null"}


class RowFilter:
    """The rows of batches that pass a filter.

    Parameters
    ----------
    filter : list, tuple or None
        Conditions, as in :mod:`arrowipc.filters.pruning`; None lets all pass.
    schema : Schema
        Of the batches.
    strict : bool, default True
        False: of a column that is not there, or cannot be compared with the literal, no row passes but by ``is_null``.

    Raises
    ------
    UsageError
        The filter is not of that form or too large, there is no such column, or its type does not compare so.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> from arrowipc.filters.row_filters import RowFilter
    >>> batch = ipc.RecordBatch.from_pydict({"x": [1, 2, None], "s": ["a", "ab", "b"]})
    >>> RowFilter([("x", ">", 1)], batch.schema).apply(batch).to_pydict()
    {'x': [2], 's': ['ab']}
    >>> RowFilter(("or", ("x", "is_null"), ("not", ("s", "starts_with", "a"))), batch.schema).apply(batch).num_rows
    1
    """

    def __init__(self, filter: Any, schema: Schema, *, strict: bool = True) -> None:
        self.pruner = Pruner(filter, schema, strict=strict)
        self._schema = schema
        self._test = self._compiled(parsed(filter))

    def rows(self, batch: RecordBatch) -> Any:
        """Return the numbers of the rows that pass, rising: a buffer of int64.

        Raises
        ------
        FormatError
            If values are broken; readers find that out earlier unless told ``validate="none"``.
        """
        return rows_marked(self._test(batch))

    def apply(self, batch: RecordBatch) -> RecordBatch:
        """Return the rows that pass; the batch itself if these are all."""
        rows = memoryview(self.rows(batch)).cast("q")
        return batch if len(rows) == len(batch) else batch.take(rows)

    def _compiled(self, part: Condition | Several) -> Callable[[RecordBatch], Marks]:
        if isinstance(part, Condition):
            return self._condition(part)
        tests, both = [self._compiled(each) for each in part.parts], part.word == "and"

        def test(batch: RecordBatch) -> Marks:
            if not tests:
                return marks_of_all(batch, both)
            marks = tests[0](batch)
            for each in tests[1:]:
                combined(marks, each(batch), both)
            return marks

        return test

    def _condition(self, part: Condition) -> Callable[[RecordBatch], Marks]:
        op, negated = part.op, part.negated
        if (negated and op in OPPOSITE) or op == "is_not_null":
            op, negated = OPPOSITE.get(op, "is_null") if negated else op, False
        found = places_at(tuple(self._schema), part.column)
        if len(found) != 1:
            return lambda batch: marks_of_all(batch, op == "is_null")
        places, field = found[0]
        if op in ("is_null", "is_not_null"):
            ranges, inverted = None, False
        else:
            try:
                ranges, inverted = ranges_of(stored_type(field.type), op, part.literals[0])
            except (TypeError, ValueError, ArithmeticError):
                return lambda batch: marks_of_all(batch, False)

        def test(batch: RecordBatch) -> Marks:
            parents, array = [], batch.column(places[0])
            for place in places[1:]:
                parents.append(array)
                array = array.children[place]
            marks = marked(array, ranges, inverted != negated)
            for parent in parents:
                members_marked(parent, marks)
            if op == "is_null":
                flipped(marks)
            return marks

        return test


def marks_of_all(batch: RecordBatch, passes: bool) -> Marks:
    """The marks of rows that pass whatever they hold, or do not."""
    from arrowipc._core import aligned_buffer

    marks = aligned_buffer(batch.num_rows)
    memoryview(marks)[:] = bytes([passes]) * batch.num_rows
    return marks


def stored_type(kind: at.DataType) -> at.DataType:
    """The type of the values behind dictionaries and runs."""
    while isinstance(kind, at.Dictionary | at.RunEndEncoded):
        kind = kind.value_type
    return kind


def ranges_of(kind: at.DataType, op: str, literal: Any) -> tuple[list[Range], bool]:
    """The ranges of a comparison, and whether it is true outside of them."""
    words = isinstance(kind, WORDS)
    if op in ("in", "not in"):
        found = [_range(kind, "==", each, words) for each in literal if each is not None]
        return sorted({each for some in found for each in some}), op == "not in"
    if op == "!=":
        return _range(kind, "==", literal, words), True
    return _range(kind, op, literal, words), False


WORDS = (at.Utf8, at.LargeUtf8, at.Utf8View, at.Binary, at.LargeBinary, at.BinaryView, at.FixedSizeBinary)


def _range(kind: at.DataType, op: str, literal: Any, words: bool) -> list[Range]:
    if words:
        return _range_of_words(op, literal.encode() if isinstance(literal, str) else bytes(literal))
    below, above = neighbours(kind, literal)
    low, high = {
        "==": (above, below),
        "<": (-FAR, above - 1),
        "<=": (-FAR, below),
        ">": (below + 1, FAR),
        ">=": (above, FAR),
    }[op]
    if not isinstance(kind, at.Decimal) or kind.bit_width <= 64:
        low, high = max(low, INT64[0]), min(high, INT64[1])
    return [(low, high)] if low <= high else []


def _range_of_words(op: str, word: bytes) -> list[Range]:
    after = word + b"\0"
    if op == "starts_with":
        trimmed = word.rstrip(b"\xff")
        return [(word, trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None)]
    low, high = {
        "==": (word, after),
        "<": (b"", word),
        "<=": (b"", after),
        ">": (after, None),
        ">=": (word, None),
    }[op]
    return [(low, high)] if high is None or low < high else []


def neighbours(kind: at.DataType, literal: Any) -> tuple[int, int]:
    """The largest key not above a literal and the smallest not below it, of those that `row_filter` compares."""
    literal = literal.item() if type(literal).__module__ == "numpy" and not isinstance(kind, TIMES) else literal
    if isinstance(kind, at.FloatingPoint):
        return float_keys(kind, literal)
    if isinstance(kind, TIMES):
        exact = Fraction(nanoseconds_of(kind, literal), NANOSECONDS[kind.unit])
    elif literal != literal or literal in (math.inf, -math.inf):
        # NaN is above all numbers.
        return (-FAR - 1, -FAR) if literal == -math.inf else (FAR, FAR + 1)
    else:
        exact = Fraction(literal) * (Fraction(10) ** kind.scale if isinstance(kind, at.Decimal) else 1)
    shift = 1 << 63 if kind == at.Int(64, False) else 0
    return math.floor(exact) - shift, math.ceil(exact) - shift


TIMES = (at.Date, at.Timestamp, at.Time, at.Duration)
CODES = {"half": "<eH", "single": "<fI", "double": "<dQ"}


def float_keys(kind: at.FloatingPoint, literal: Any) -> tuple[int, int]:
    """The same of floats: the integers that have their order."""
    code, word = CODES[kind.precision][:2], "<" + CODES[kind.precision][2]
    if literal != literal:
        return INT64[1], INT64[1]
    try:
        packed = struct.pack(code, literal)
    except OverflowError:
        packed = struct.pack(code, math.copysign(math.inf, literal))
    (nearest,), (bits,) = struct.unpack(code, packed), struct.unpack(word, packed)
    sign = 1 << (8 * len(packed) - 1)
    key = -(bits & (sign - 1)) if bits & sign else bits
    if math.isinf(nearest) or literal in (math.inf, -math.inf):
        exact = nearest == literal
        above = nearest > literal
    else:
        exact = Fraction(nearest) == Fraction(literal)
        above = Fraction(nearest) > Fraction(literal)
    if exact:
        return key, key
    return (key - 1, key) if above else (key, key + 1)
