"""Compressed bodies in loops without Python; used by ``_payload`` through ``cimport``."""

from typing import final

@final
class Inflater: ...
