"""The number of the cell that each row comes from; used by ``_payload`` through ``cimport``."""
