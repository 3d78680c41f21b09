"""Equality of two columns of the same type, value by value; what lies under a null counts for nothing."""

from typing import final

__test__: dict[str, str]

@final
class Comparison: ...
