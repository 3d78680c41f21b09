"""What follows from the first word of how a type prints: pyarrow's number of the type, and the bits of a value."""

from __future__ import annotations

#: The numbers that pyarrow gives the types: their places here, by the first word of how they print.
_WORDS = """
    null bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 halffloat float double string binary fixed_size_binary
    date32 date64 timestamp time32 time64 month_interval day_time_interval decimal128 decimal256 list struct
    sparse_union dense_union dictionary map extension fixed_size_list duration large_string large_binary large_list
    month_day_nano_interval run_end_encoded string_view binary_view list_view large_list_view decimal32 decimal64
"""
NUMBERED = _WORDS.split()

#: Bits of a value, by the same word, for types that do not say it themselves.
WIDTHS = {
    "bool": 1,
    "halffloat": 16,
    **dict.fromkeys(("date32", "float", "month_interval"), 32),
    **dict.fromkeys(("date64", "day_time_interval", "double", "duration", "timestamp"), 64),
    "month_day_nano_interval": 128,
}
