"""Everything here is for compiled modules."""
