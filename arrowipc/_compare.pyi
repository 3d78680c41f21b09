"""Equality of two columns, value by value; reached through ``equals`` of arrays, batches and tables."""
