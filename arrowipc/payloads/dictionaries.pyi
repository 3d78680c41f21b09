"""The dictionaries of payloads; for compiled modules."""
