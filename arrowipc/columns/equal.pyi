"""Equality of two columns of the same type, value by value; values under nulls are not compared."""

from typing import final

@final
class Comparison: ...
