"""Writes FlatBuffers: strings, vectors, and tables that share their vtables."""

from typing import final

@final
class TableWriter: ...
