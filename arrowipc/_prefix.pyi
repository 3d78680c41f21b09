"""Whether one column begins with the values of another; for compiled modules."""
