"""Fuzzing: every way into the library, fed with bytes that know what they break (``make fuzz``)."""
