"""Drivers of the one protocol: how its messages get from one process to another."""
