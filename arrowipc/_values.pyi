"""Columns as Python values; everything here is reached through :class:`arrowipc.Array` and its kin."""
