"""Values of intervals as named tuples. A module of their own, since importing `collections` for them takes 1.5 ms."""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class _DayTime(NamedTuple):
        days: int
        milliseconds: int

    class _MonthDayNano(NamedTuple):
        months: int
        days: int
        nanoseconds: int
else:
    # Without typing, whose import takes longer than the rest of this module.
    _DayTime = namedtuple("_DayTime", ("days", "milliseconds"))
    _MonthDayNano = namedtuple("_MonthDayNano", ("months", "days", "nanoseconds"))


class DayTime(_DayTime):
    """One value of ``interval_day_time()``: days and milliseconds, each with its own sign."""

    __slots__ = ()


class MonthDayNano(_MonthDayNano):
    """One value of ``month_day_nano_interval()``: months, days and nanoseconds, each with its own sign."""

    __slots__ = ()
