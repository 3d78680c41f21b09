"""Structured streaming: ``source`` offers new files as micro-batches, ``sink`` commits each batch once."""
