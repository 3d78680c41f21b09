"""The dictionaries of one writer; for compiled modules."""
