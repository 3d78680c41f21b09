"""Plays the other side of an implementation of the protocol: `python -m arrowipc.dissociated.conformance --help`."""
