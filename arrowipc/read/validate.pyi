"""Validation of a batch's values; used by the decoders through ``cimport`` alone."""
