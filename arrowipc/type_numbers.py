"""Numbers of types: pyarrow's number of each, the bits of a value, and the digits that decimals hold."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, TypeAlias

    TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]

    class OfSome:
        """The attributes of types that have parameters: who reads one knows which type it is."""

        __slots__ = ()

        @property
        def precision(self) -> Any:
            """Digits of decimals; the width of floating-point numbers."""

        @property
        def scale(self) -> Any:
            """Digits of decimals behind the point."""

        @property
        def timezone(self) -> Any:
            """Of timestamps."""

        @property
        def tz(self) -> Any:
            """Of timestamps: the time zone."""

        @property
        def unit(self) -> Any:
            """Of dates, times, durations and intervals."""

        @property
        def value_type(self) -> Any:
            """Of lists and dictionaries."""
else:
    OfSome = object

#: The first words of printed types, in the order of pyarrow's numbers: the index of a word is the number.
_WORDS = """
    null bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 halffloat float double string binary fixed_size_binary
    date32 date64 timestamp time32 time64 month_interval day_time_interval decimal128 decimal256 list struct
    sparse_union dense_union dictionary map extension fixed_size_list duration large_string large_binary large_list
    month_day_nano_interval run_end_encoded string_view binary_view list_view large_list_view decimal32 decimal64
"""
NUMBERED = _WORDS.split()

#: The same word -> bits of a value, for the types that have no attribute for it.
WIDTHS = {
    "bool": 1,
    "halffloat": 16,
    **dict.fromkeys(("date32", "float", "month_interval"), 32),
    **dict.fromkeys(("date64", "day_time_interval", "double", "duration", "timestamp"), 64),
    "month_day_nano_interval": 128,
}

#: Bit width of a decimal -> the most digits it holds.
DECIMAL_DIGITS = {32: 9, 64: 18, 128: 38, 256: 76}

#: Unit of a time of day -> the only bit width that the format allows for it.
TIME_BITS: dict[TimeUnit, int] = {"s": 32, "ms": 32, "us": 64, "ns": 64}
