"""Conversion of one Python value to the bytes of an element of fixed width; see ``values/scalars.pyx``."""
