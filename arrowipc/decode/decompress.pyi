"""Makes a located body readable; for compiled modules."""
