"""From the schema of a payload to that of the output; for compiled modules."""

from typing import final

from arrowipc.errors import UsageError

@final
class SchemaMapping: ...

@final
class Matching: ...

class IndicesFull(UsageError): ...

@final
class Made: ...

@final
class Merged: ...

@final
class Merger: ...
