"""Equality of two columns of the same type, value by value; what lies under a null counts for nothing."""

from typing import final

@final
class Comparison: ...
