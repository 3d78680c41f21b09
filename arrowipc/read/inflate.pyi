"""Compressed bodies in loops without Python; used by ``payloads.payload_decoder`` through ``cimport``."""

from typing import final

@final
class Inflater: ...
