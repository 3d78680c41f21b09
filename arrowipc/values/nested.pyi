"""Columns while they are made of Python lists, with all that is nested in them; see ``values/nested.pyx``."""
