"""Building of columns, with all their children, from Python lists; see ``values/nested.pyx``."""
