"""The reader of Feather V1 files, the format that had this name before Arrow IPC files."""

from __future__ import annotations

from contextlib import nullcontext
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from arrowipc.decode.from_feather import batch_of
from arrowipc.limits import Limits
from arrowipc.options import ReadOptions, read_options, with_keywords
from arrowipc.reader import RecordBatchFileReader
from arrowipc.sources.source import FEATHER_V1, map_file
from arrowipc.writer import new_file

if TYPE_CHECKING:
    from typing import Any, Unpack

    from arrowipc.options import ReadKeywords
    from arrowipc.sources.source import Readable


class FeatherReader(RecordBatchFileReader):
    """Reads a Feather V1 file, which has one batch at most; made by `open` and `open_file`.

    Opening checks all columns and copies them to an Arrow IPC file in memory, or, if the Feather file has more than
    ``Limits.spool_bytes``, to a mapped temporary file. `blocks` gives positions in that copy.
    """

    __slots__ = ()

    @with_keywords(ReadOptions)
    def __init__(self, source: Readable, **keywords: Unpack[ReadKeywords]) -> None:
        self._make_once("decoder")
        options = read_options(keywords)
        self._begin(source, options, FEATHER_V1)
        with self:
            copy = self._copy(options.limits or Limits())
        super().__init__(copy, **keywords)
        self._remember(options, source)

    def _copy(self, limits: Limits) -> Any:
        size = self._size()
        batch = batch_of(self._bytes(0, size) if self.source is None else self.source.part(0, size), limits)
        data = bytearray()
        with TemporaryFile() if size > limits.spool_bytes else nullcontext(data) as target:
            with new_file(target) as writer:
                writer.write_batch(batch)
            return data or map_file(target)
