"""Transports of the protocol: they bring its messages from one process to another."""
