"""Tables of other libraries, taken column by column; see ``cdata/import_table.pyx``."""

from typing import Any

from arrowipc.cdata.import_array import BatchStream

def batches_from(source: Any) -> BatchStream: ...
