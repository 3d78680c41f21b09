"""One Python value as the bytes of an element of fixed width; see ``values/scalars.pyx``."""
