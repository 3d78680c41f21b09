"""Turns comparisons of a column with a literal into ranges of keys: integers, or bytes, that sort as its values do.

The key of a date, a time or a decimal is the stored integer; the key of text and binary is its bytes. Floats have one
order: NaN equals NaN and is above all others, and the two zeros are equal.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from arrowipc import datatypes as at

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from arrowipc.filters.statistics import ColumnStatistics

    #: The largest key that is not above a literal, and the smallest that is not below it.
    Keys: TypeAlias = tuple[Any, Any]
    #: Ends of ranges: integers, both included; or bytes, the second one not included, and None for no end.
    Range: TypeAlias = tuple[Any, Any]
    Ends: TypeAlias = tuple[Keys, Keys]

WORDS = (*at.TEXT, *at.BYTES)
TIMES = (at.Date, at.Timestamp, at.Time, at.Duration)
#: Beyond all integers of 256 bits, and beyond all numbers of a decimal that is compared.
FAR, HUGE = 1 << 300, 10**1100
#: The key of NaN.
NAN = (1 << 63) - 1
#: Decimals of larger scales are not compared: nobody uses such units.
MOST_SCALE = 1000
CODES = {"half": "<eH", "single": "<fI", "double": "<dQ"}
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1, "day": 86_400 * 10**9}
NUMPY_UNITS = {"W": 7 * NANOSECONDS["day"], "D": NANOSECONDS["day"], "h": 3600 * 10**9, "m": 60 * 10**9, **NANOSECONDS}
EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
_FINE = re.compile(r"([^.,]*[.,][0-9]{6})([0-9]+)(.*)", re.DOTALL)


def stored_type(kind: at.DataType) -> at.DataType:
    """Return the type of the values behind dictionaries and runs."""
    while isinstance(kind, at.Dictionary | at.RunEndEncoded):
        kind = kind.value_type
    return kind


def ranges_of(kind: at.DataType, op: str, least: Keys, most: Keys) -> list[Range]:
    """Return the keys for which ``==``, ``<``, ``<=``, ``>``, ``>=`` or ``starts_with`` is true: one range, or none.

    ``least`` and ``most`` are the keys of a literal, or of the two values between which it may be rounded.
    """
    if isinstance(kind, WORDS):
        return _range_of_words(op, least[0])
    if op == "starts_with":
        raise TypeError("starts_with is for text and binary columns")
    low, high = {
        "==": (least[1], most[0]),
        "<": (-FAR, most[1] - 1),
        "<=": (-FAR, most[0]),
        ">": (least[0] + 1, FAR),
        ">=": (least[1], FAR),
    }[op]
    return [(low, high)] if low <= high else []


def _range_of_words(op: str, word: bytes) -> list[Range]:
    after = word + b"\0"
    trimmed = word.rstrip(b"\xff")
    low, high = {
        "==": (word, after),
        "<": (b"", word),
        "<=": (b"", after),
        ">": (after, None),
        ">=": (word, None),
        "starts_with": (word, trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None),
    }[op]
    return [(low, high)] if high is None or low < high else []


def keys_of(kind: at.DataType, literal: Any) -> Keys:
    """Return the keys of a literal; raise TypeError, ValueError or ArithmeticError if it does not fit the type."""
    if isinstance(kind, TIMES):
        exact = Fraction(nanoseconds_of(kind, literal), NANOSECONDS[kind.unit])
        return math.floor(exact), math.ceil(exact)
    value = _plain(literal)
    if isinstance(kind, at.Decimal) and isinstance(value, float) and math.isfinite(value):
        value = Decimal(repr(value))  # 1.1 means 1.1, and not the nearest binary fraction
    if isinstance(kind, WORDS):
        text = isinstance(kind, at.TEXT)
        if type(value).__name__ == "UUID" and isinstance(kind, at.FixedSizeBinary):
            value = value.bytes
        if not isinstance(value, str if text else (bytes, bytearray, memoryview)):
            raise TypeError("expected text" if text else "expected bytes")
        key = value.encode() if isinstance(value, str) else bytes(value)
        return key, key
    if isinstance(kind, at.Bool):
        if not isinstance(value, bool):
            raise TypeError("expected True or False")
        return int(value), int(value)
    if not isinstance(kind, (at.Int, at.FloatingPoint, at.Decimal)):
        raise TypeError("values of this type have no order: only is_null and is_not_null are possible")
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise TypeError("expected a number")
    if isinstance(value, Decimal) and value.is_snan():
        raise ValueError("expected a number")
    return float_keys(kind, value) if isinstance(kind, at.FloatingPoint) else _integer_keys(kind, value)


def rounded_keys(kind: at.DataType, literal: Any) -> Ends | None:
    """Return the keys of the two values between which libraries round a literal; None: that could be any value."""
    if isinstance(kind, at.Decimal) and abs(kind.scale) > MOST_SCALE:
        return None
    below, above = keys = keys_of(kind, literal)
    value = _plain(literal)
    if isinstance(kind, TIMES):
        # Keys are in the unit of the column; libraries compare nanoseconds with Python's microseconds in either unit.
        slack = 999 if kind.unit == "ns" else 0
        return (below - slack, below - slack), (above + slack, above + slack)
    if isinstance(kind, at.FloatingPoint):
        forms = [keys, *[float_keys(kind, form) for form in _rounded(value)]]
        return min(forms), max(forms)
    if isinstance(kind, (at.Int, at.Decimal)):
        if value != value:
            return None
        decimal = isinstance(kind, at.Decimal)
        if isinstance(value, float) and math.isfinite(value) and (decimal or abs(value) >= 2**53):
            # Some libraries compare floating-point numbers, to which large integers and decimals are rounded.
            off = abs(Fraction(value)) / (10**12 if decimal else 2**52)
            return _integer_keys(kind, Fraction(value) - off), _integer_keys(kind, Fraction(value) + off)
        if decimal:
            return (below, below), (above, above)
    return keys, keys


def bounds_of(kind: at.DataType) -> Callable[[ColumnStatistics], Keys]:
    """Return a function for the keys of a column's bounds; None: not known, or of another kind than the column."""
    if isinstance(kind, at.FloatingPoint):
        return lambda found: _float_bounds(kind, found)
    stored: type = int
    if isinstance(kind, (at.Bool, *WORDS)):
        stored = bool if isinstance(kind, at.Bool) else str if isinstance(kind, at.TEXT) else bytes
    elif not isinstance(kind, (at.Int, at.Decimal, *TIMES)):
        return lambda found: (None, None)

    def bounds(found: ColumnStatistics) -> Keys:
        low: Any = found.min if type(found.min) is stored else None
        high: Any = found.max if type(found.max) is stored else None
        if stored is str:
            return None if low is None else low.encode(), None if high is None else high.encode()
        return low, high

    return bounds


def _float_bounds(kind: at.FloatingPoint, found: ColumnStatistics) -> Keys:
    if type(found.min) is not float or type(found.max) is not float:
        return None, None
    return float_keys(kind, found.min)[0], float_keys(kind, found.max)[1] if found.has_nan is False else NAN


def float_keys(kind: Any, value: Any) -> Keys:
    """Return the keys of a number among floats: integers that sort as floats do."""
    code, word = CODES[kind.precision][:2], "<" + CODES[kind.precision][2]
    if value != value:
        return NAN, NAN
    try:
        packed = struct.pack(code, value)
    except (OverflowError, struct.error):  # the second of integers
        packed = struct.pack(code, math.inf if value > 0 else -math.inf)
    (nearest,), (bits,) = struct.unpack(code, packed), struct.unpack(word, packed)
    sign = 1 << (8 * len(packed) - 1)
    key = -(bits & (sign - 1)) if bits & sign else bits
    if nearest == value:
        return key, key
    return (key - 1, key) if nearest > value else (key, key + 1)


def _rounded(value: Any) -> list[float]:
    """Return a number as double, single and half."""
    forms: list[float] = []
    for code in "dfe":
        try:
            forms += struct.unpack(code, struct.pack(code, value))
        except (OverflowError, struct.error):
            forms.append(math.inf if value > 0 else -math.inf)
    return forms


def _integer_keys(kind: Any, value: Any) -> Keys:
    if value != value or value >= HUGE:
        return FAR, FAR + 1  # NaN is above all numbers
    if value <= -HUGE:
        return -FAR - 1, -FAR
    if isinstance(value, Decimal) and value and value.adjusted() < -2 * MOST_SCALE:
        value = Decimal((value.is_signed(), (1,), -2 * MOST_SCALE))  # no value is nearer to zero than this
    if isinstance(kind, at.Decimal):
        if abs(kind.scale) > MOST_SCALE:
            raise ValueError(f"decimals of scale {kind.scale} are not compared")
        value = Fraction(value) * Fraction(10) ** kind.scale
    return math.floor(value), math.ceil(value)


def _plain(value: Any) -> Any:
    """Return NumPy's scalars as Python values, and others as they are."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def nanoseconds_of(type_: at.DataType, value: Any) -> int:
    """Return a literal of a date, time or duration type in nanoseconds; raise TypeError or ValueError for others."""
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
            found, more = read_text(dt.time, value) if isinstance(value, str) else (value, 0)
            if not isinstance(found, dt.time) or found.tzinfo is not None:
                raise TypeError("expected a time of day, without a zone")
            return (((found.hour * 60 + found.minute) * 60 + found.second) * 10**6 + found.microsecond) * 1000 + more
    found, more = read_text(dt.datetime, value) if isinstance(value, str) else (value, 0)
    if not isinstance(found, dt.date):
        raise TypeError("expected a date, a datetime or text such as 2024-01-31T12:00")
    if not isinstance(found, dt.datetime):
        found = dt.datetime(found.year, found.month, found.day)
    zoned = isinstance(type_, at.Timestamp) and type_.timezone is not None
    if (found.tzinfo is not None) != zoned:
        raise TypeError(f"the column has {'a' if zoned else 'no'} time zone, the literal {'none' if zoned else 'one'}")
    since = found - (EPOCH.replace(tzinfo=dt.UTC) if zoned else EPOCH)
    return int(since // MICROSECOND) * 1000 + int(getattr(found, "nanosecond", more))


def read_text(kind: Any, text: str) -> tuple[Any, int]:
    """Return the time of day or datetime in a text, and its nanoseconds, for which Python's classes have no place."""
    fine = _FINE.fullmatch(text)
    if fine is None:
        return kind.fromisoformat(text), 0
    if fine[2][3:].strip("0"):
        raise ValueError("expected at most nine digits of a second")
    return kind.fromisoformat(fine[1] + fine[3]), int(fine[2][:3].ljust(3, "0"))
