"""The dictionaries of payloads without Python; used by ``payloads.payload_decoder`` through ``cimport``."""

from typing import final

@final
class DictionaryUnifier: ...
