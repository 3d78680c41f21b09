"""The dictionaries of payloads; used by ``payloads.payload_decoder`` through ``cimport``."""

from typing import final

@final
class Plain: ...

@final
class OutputDictionaries: ...

@final
class LoopDictionaries: ...
