"""Files and batches larger than the memory of a worker: read, checked and released in windows."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from arrowipc._core import FileMap

if TYPE_CHECKING:
    from arrowipc.columns.array import RecordBatch
    from arrowipc.reader import Validate

__all__ = ["WINDOW", "Window", "windows"]

#: Bytes of a mapped file, or of a batch, that are touched at a time.
WINDOW = 32 << 20


class Window:
    """Lets go of a mapped file's pages, which count as memory of the process that touched them.

    Nothing is lost: whoever touches them again gets them from the file again.
    """

    def __init__(self, source: Any) -> None:
        owner = getattr(source, "obj", None)
        self._map = owner if isinstance(owner, FileMap) else None
        self._passed = 0

    @property
    def maps(self) -> bool:
        """Whether the source is a map whose pages can be released."""
        return self._map is not None

    def passed(self, batch: Any) -> None:
        """Note that one more batch went to Spark."""
        if self._map is None:
            return
        self._passed += batch.nbytes
        if self._passed >= WINDOW:
            self._map.release_pages()
            self._passed = 0


def windows(batch: "RecordBatch", size: int, level: "Validate") -> Iterator["RecordBatch"]:
    """The rows of an unchecked batch of `size` bytes, each window of them checked before it goes on."""
    rows = max(1, batch.num_rows * WINDOW // size)
    for start in range(0, batch.num_rows, rows):
        yield type(batch).from_arrow(batch.slice(start, rows), validate=level)
