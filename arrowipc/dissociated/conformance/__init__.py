"""Checks of implementations, by playing the other side: `python -m arrowipc.dissociated.conformance --help`."""
