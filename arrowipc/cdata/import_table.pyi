"""Tables of other libraries, taken column by column; see ``cdata/import_table.pyx``."""

from typing import Any, Literal, final

from arrowipc.cdata.import_array import BatchStream

@final
class ChunkOwner: ...

@final
class ColumnStream(BatchStream): ...

def columns_from(table: Any, validate: Literal["none", "full", "strict"] = "none") -> ColumnStream: ...
def batches_from(source: Any) -> BatchStream: ...
