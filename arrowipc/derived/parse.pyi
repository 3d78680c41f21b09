"""Numbers that text writes out; see ``derived/parse.pyx``."""

from arrowipc.columns.array import Array

def parsed(text: Array, floats: bool, signed: bool) -> tuple[bytes, int]: ...
