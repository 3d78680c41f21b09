"""Columns as Python values, one list per column; contents are checked while they are read."""
