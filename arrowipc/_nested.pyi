"""Columns of nested types from lists of Python values; nothing here for Python."""
