"""The dictionaries of payloads without Python; used by ``_payload`` through ``cimport``."""

from typing import final

@final
class Recoder: ...
