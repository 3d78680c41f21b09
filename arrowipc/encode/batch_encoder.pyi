"""Writes the metadata of batches, and lists the parts of their body; for compiled modules."""
