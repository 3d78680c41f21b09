"""Finds the rows that pass a filter: evaluates the conditions of :mod:`arrowipc.filters.pruning` exactly.

A null passes ``is_null`` and nothing else. Numbers compare by their exact values. Floats have one order: NaN equals NaN
and is above all others, and the two zeros are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arrowipc import datatypes as at
from arrowipc.columns.take import keep_marked, marked_rows
from arrowipc.errors import UsageError
from arrowipc.filters.literals import WORDS, keys_of, ranges_of, stored_type
from arrowipc.filters.pruning import OPPOSITE, Condition, Pruner, Several, parsed, places_at
from arrowipc.filters.ranges import Marker, combine_marks, invert_marks, marks_of_all, members_marked

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.filters.literals import Range
    from arrowipc.schemas import Schema

    Marks: TypeAlias = Any

INT64 = -(1 << 63), (1 << 63) - 1


class RowFilter:
    """Finds the rows of batches that pass a filter; None lets all pass.

    `strict`: a condition about a column that is not there, or cannot be compared with the literal, is a UsageError.
    Otherwise no row passes such a condition, except ``is_null``.
    """

    def __init__(self, filter: Any, schema: Schema, *, strict: bool = True) -> None:
        self.pruner: Pruner = Pruner(filter, schema, strict=strict)
        self._schema, self._strict = schema, strict
        self._test = self._compiled(parsed(filter))

    def rows(self, batch: RecordBatch) -> Any:
        """Return the rising numbers of the rows that pass: a buffer of int64; a FormatError if values are broken."""
        return marked_rows(self._test(batch), len(batch))

    def apply(self, batch: RecordBatch) -> RecordBatch:
        """Return the rows that pass; the batch itself if all do."""
        return keep_marked(batch, self._test(batch), True)

    def _compiled(self, part: Condition | Several) -> Callable[[RecordBatch], Marks]:
        if isinstance(part, Condition):
            return self._condition(part)
        tests, both = [self._compiled(each) for each in part.parts], part.word == "and"

        def test(batch: RecordBatch) -> Marks:
            if not tests:
                return marks_of_all(len(batch), both)
            marks = tests[0](batch)
            for each in tests[1:]:
                combine_marks(marks, each(batch), both)
            return marks

        return test

    def _condition(self, part: Condition) -> Callable[[RecordBatch], Marks]:
        op, negated = part.op, part.negated
        if negated and op in OPPOSITE:
            op, negated = OPPOSITE[op], False
        found = places_at(tuple(self._schema), part.column)
        if len(found) != 1:
            return lambda batch: marks_of_all(len(batch), op == "is_null")
        places, field = found[0]
        ranges = None  # all elements that are not null
        if op not in ("is_null", "is_not_null"):
            try:
                ranges = stored_ranges(stored_type(field.type), op, part.literals[0])
            except (TypeError, ValueError, ArithmeticError) as error:
                if self._strict:
                    raise UsageError(f"filter: column {part.column!r}: {error}") from None
                return lambda batch: marks_of_all(len(batch), False)
        marker = Marker(ranges, (op in ("!=", "not in")) != negated)

        def test(batch: RecordBatch) -> Marks:
            parents, array = [], batch.column(places[0])
            for place in places[1:]:
                parents.append(array)
                array = array.children[place]
            marks = marker.marks(array)
            for parent in parents:
                members_marked(parent, marks)
            if op == "is_null":
                invert_marks(marks)
            return marks

        return test


def stored_ranges(kind: at.DataType, op: str, literal: Any) -> list[Range]:
    """Return the ranges of a comparison for a `Marker`; for ``!=`` and ``not in``, those of the opposite."""
    literals = [each for each in literal if each is not None] if op in ("in", "not in") else [literal]
    op = op if op in ("<", "<=", ">", ">=", "starts_with") else "=="
    keys = [keys_of(kind, each) for each in literals]
    ranges = sorted({found for each in keys for found in ranges_of(kind, op, each, each)})
    if isinstance(kind, WORDS) or (isinstance(kind, at.Decimal) and kind.bit_width > 64):
        return ranges
    shift = INT64[0] if kind == at.Int(64, False) else 0
    within = [(max(low + shift, INT64[0]), min(high + shift, INT64[1])) for low, high in ranges]
    return [(low, high) for low, high in within if low <= high]
