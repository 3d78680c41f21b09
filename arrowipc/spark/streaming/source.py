"""Reading the files that appear in a directory as a stream.

An offset says which files were read, as Spark's own file source does it: by their names, of which those of the newest
are kept, and by the modification time of the oldest of these. Older files that appear late are passed over.
"""

import base64
import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.sources.files import FoundFile
from arrowipc.spark.read.reader import ArrowIpcReader
from arrowipc.spark.read.sources import ReadOptions
from arrowipc.spark.shipping import Shipped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["ArrowIpcStreamReader", "Offset"]

#: Names that an offset has, 12 characters each: 240 KB at most, of which Spark keeps the last hundred.
TRACKED = 20_000
# 72 bits: among a million names, two share a digest with a chance of one in ten thousand million.
DIGEST_BYTES = 9
DIGEST_LENGTH = DIGEST_BYTES // 3 * 4


@dataclass(frozen=True)
class Offset:
    """Which files were read: those before `floor` and those whose digests are listed.

    Attributes
    ----------
    floor : (int, str)
        Modification time in microseconds, and path, of a file; ``(0, "")`` comes before all.
    digests : tuple of str
        Of files at or above the floor; those that are gone first, then by time and path.
    """

    floor: tuple[int, str] = (0, "")
    digests: tuple[str, ...] = ()

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Offset":
        """Take an offset from the form in which Spark keeps it."""
        text = stored["read"]
        digests = tuple(text[at : at + DIGEST_LENGTH] for at in range(0, len(text), DIGEST_LENGTH))
        return cls((int(stored["floorTime"]), stored["floorName"]), digests)

    def stored(self) -> dict[str, Any]:
        """The form in which Spark keeps it: a dict of numbers and texts."""
        return {"floorTime": self.floor[0], "floorName": self.floor[1], "read": "".join(self.digests)}

    def unread(self, files: list[FoundFile]) -> list[FoundFile]:
        """Those of the files that were not read, oldest first."""
        known = set(self.digests)
        return sorted([each for each in files if key(each) >= self.floor and digest(each) not in known], key=key)

    def after(self, taken: list[FoundFile], files: list[FoundFile], most: int = TRACKED) -> "Offset":
        """The offset when some more of all the files were read; `most` digests are kept.

        There are more where that alone keeps the floor below what is left unread.
        """
        keys = {digest(each): key(each) for each in files}
        gone = [known for known in self.digests if known not in keys]
        there = sorted({*self.digests, *map(digest, taken)} & keys.keys(), key=keys.__getitem__)
        drop = max(0, len(gone) + len(there) - most)
        # Files that are gone may come back, as when a file system was away; they are forgotten first.
        if drop <= len(gone):
            return Offset(self.floor, tuple(gone[drop:] + there))
        left = Offset(self.floor, tuple(there)).unread(files)
        floor = max(self.floor, min([keys[there[drop - len(gone)]], *map(key, left)]))
        return Offset(floor, tuple(there[bisect_left([keys[each] for each in there], floor) :]))


def key(file: FoundFile) -> tuple[int, str]:
    """The order of files: by time, then by path."""
    return max(0, file.modified), file.path


def digest(file: FoundFile) -> str:
    """A path in few characters."""
    found = hashlib.blake2b(file.path.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
    return base64.urlsafe_b64encode(found).decode("ascii")


class ArrowIpcStreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files that appear in a directory as a stream."""

    def __init__(self, schema: "StructType", options: Mapping[str, str]) -> None:
        self._options = ReadOptions.of(options)
        self._reader = ArrowIpcReader(schema, self._options)
        self._most = self._options.given["maxFilesPerTrigger"]
        self._until: frozenset[str] | None = None
        self._options.files()  # what is wrong with the path is said before the query begins

    def initialOffset(self) -> dict[str, Any]:
        """Nothing was read."""
        return Offset().stored()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit that the options set for a micro-batch."""
        return ReadAllAvailable() if self._most is None else ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on take no file that is not there yet."""
        self._until = frozenset(file.path for file in self._options.files())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends: after the oldest unread files, as many as the limit allows."""
        if not isinstance(limit, ReadAllAvailable | ReadMaxFiles):
            raise UnsupportedError(f"arrowipc limits a micro-batch by files, not by {limit}")
        files, before = self._options.files(), Offset.of(start)
        unread = [file for file in before.unread(files) if self._until is None or file.path in self._until]
        taken = unread[: limit.max_files] if isinstance(limit, ReadMaxFiles) else unread
        return before.after(taken, files).stored() if taken else start

    def reportLatestOffset(self) -> None:
        """Nothing: the offset after all files depends on which were read."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan the tasks that read the files between two offsets.

        Raises
        ------
        UsageError
            A file that Spark was promised is gone.
        """
        before, after = Offset.of(start), Offset.of(end)
        unread = before.unread(self._options.files())
        still = set(after.unread(unread))
        files = [file for file in unread if file not in still]
        missing = set(after.digests) - set(before.digests) - set(map(digest, files))
        if missing and not self._options.given["ignoreMissingFiles"]:
            raise UsageError(
                f"{', '.join(self._options.given.paths)}: {len(missing)} of the files of this micro-batch no longer "
                "exist; files must stay until the batch that reads them is committed. Put them back under their names, "
                "start again with another checkpoint, or skip them with ignoreMissingFiles=true"
            )
        return self._reader.partitions_of(files)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read one partition as batches that have exactly the schema."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: what was read is in the offset, and files stay where they are."""
