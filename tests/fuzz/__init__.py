"""Fuzzing: every way into the library gets mutants of valid inputs, in which known words change (``make fuzz``)."""
