"""Schemas of producers as plans, for compiled modules; see ``_foreign_schema.pyx``."""

from typing import final

@final
class Known: ...
