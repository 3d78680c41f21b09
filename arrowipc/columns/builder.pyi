"""Builders of columns; for compiled modules."""
