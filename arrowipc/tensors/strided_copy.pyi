"""Copies of values at strides; for compiled modules."""
