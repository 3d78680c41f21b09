"""Distinct values, and dictionaries that have every value once.

``memo_table`` numbers distinct values, ``unifier`` makes one dictionary of many.

Imports ``inline``, the base, ``metadata``, ``columns``.
"""
