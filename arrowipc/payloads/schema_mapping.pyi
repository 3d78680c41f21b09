"""From the schema of a payload to that of the output; for compiled modules."""

from typing import final

@final
class SchemaMapping: ...

@final
class Matching: ...

@final
class Made: ...
