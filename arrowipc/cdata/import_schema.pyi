"""Schemas of producers as plans, for compiled modules; see ``cdata/import_schema.pyx``."""

from typing import final

@final
class Known: ...
