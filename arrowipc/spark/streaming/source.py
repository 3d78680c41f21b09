"""Reading a directory as a stream: which of its files were read is kept in the offset, bounded in size.

An offset says of every file whether it was read: it was if the file comes before a *floor*, in the order of
modification time and name, or if its digest is among those that the offset lists. The floor lies below the
newest `maxTrackedFiles` files that were read (and below all that are known and were not), so

* in a directory of fewer files there is no floor: files are found whenever they appear, however old they are
  by their time, which a rename keeps;
* in a larger one, a file that appears late is found as long as it is newer than the floor, and passed over
  otherwise.

The files of a micro-batch are those that its end says were read and its start says were not. So a batch that
Spark runs again after a restart has the same files, also when others have appeared since.

Files are taken oldest first. They must be complete when they get their name (rename them into the directory,
as arrowipc's writers do) and never change afterwards: a name that was read is not read again.
"""

import base64
import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.read.files import passes
from arrowipc.spark.options import ReadOptions, check_names, count
from arrowipc.spark.read.partitions import ArrowIpcReader
from arrowipc.spark.shipping import Shipped
from arrowipc.spark.write.storage import Entry, open_storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["ArrowIpcStreamReader", "Offset"]

# 12 characters each: an offset of 240 KB at most, of which Spark keeps the last hundred.
DEFAULT_TRACKED_FILES = 20_000
# 72 bits: among a million names, two share a digest with a chance of one in ten thousand million.
DIGEST_BYTES = 9
DIGEST_LENGTH = DIGEST_BYTES // 3 * 4


@dataclass(frozen=True)
class Offset:
    """Which files were read: those before `floor` and those whose digests are listed.

    Attributes
    ----------
    floor : (int, str)
        Modification time in microseconds, and name, of a file; ``(0, "")`` comes before all.
    digests : tuple of str
        Of files at or above the floor; those that are gone first, then by time and name.
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

    def unread(self, entries: list[Entry]) -> list[Entry]:
        """Those of the files that were not read, oldest first."""
        known = set(self.digests)
        found = [entry for entry in entries if key(entry) >= self.floor and digest(entry.name) not in known]
        return sorted(found, key=key)

    def after(self, taken: list[Entry], left: list[Entry], entries: list[Entry], most: int) -> "Offset":
        """The offset when some more files were read.

        Parameters
        ----------
        taken : list of Entry
            What is read now.
        left : list of Entry
            What is known and is not read now.
        entries : list of Entry
            All that is there.
        most : int
            How many digests to keep, from 1; more where that alone keeps the floor below what is left.
        """
        keys = {digest(entry.name): key(entry) for entry in entries}
        gone = [known for known in self.digests if known not in keys]
        there = [known for known in self.digests if known in keys] + [digest(entry.name) for entry in taken]
        there.sort(key=keys.__getitem__)
        drop = max(0, len(gone) + len(there) - most)
        # Files that are gone may come back, as when a file system was away; they are forgotten first.
        if drop <= len(gone):
            return Offset(self.floor, tuple(gone[drop:] + there))
        drop -= len(gone)
        floor = max(self.floor, min([keys[there[drop]], *map(key, left)]))
        drop = bisect_left([keys[known] for known in there], floor)
        return Offset(floor, tuple(there[drop:]))


def key(entry: Entry) -> tuple[int, str]:
    """The order of files: by time, then by name."""
    return max(0, entry.modified), entry.name


def digest(name: str) -> str:
    """A name in few characters."""
    found = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
    return base64.urlsafe_b64encode(found).decode("ascii")


class ArrowIpcStreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files that appear in a directory, at any depth, as a stream."""

    def __init__(self, schema: "StructType", options: Mapping[str, str]) -> None:
        check_names(options, "readStream")
        path = options.get("path")
        if not path:
            raise UsageError(
                'arrowipc needs a directory: spark.readStream.format("arrowipc").schema(...).load(directory)'
            )
        self._storage = open_storage(path, options)
        if self._storage.is_file():
            raise UsageError(f"{path}: expected a directory in which files appear, found a file")
        self._schema = schema
        checked = ReadOptions.of(options)
        # The files of a micro-batch are named one by one.
        self._options = replace(checked, paths=[], name_filter=None, base_path=self._storage.root)
        self._reader = ArrowIpcReader(schema, self._options)
        self._pattern = checked.name_filter
        self._max_files = count(options, "maxFilesPerTrigger")
        self._max_bytes = count(options, "maxBytesPerTrigger")
        self._tracked = count(options, "maxTrackedFiles") or DEFAULT_TRACKED_FILES
        self._until: frozenset[str] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Nothing was read."""
        return Offset().stored()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit that the options set for a micro-batch."""
        if self._max_files is not None:
            return ReadMaxFiles(self._max_files)
        return ReadAllAvailable() if self._max_bytes is None else ReadMaxBytes(self._max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on take no file that is not there yet."""
        self._until = frozenset(entry.name for entry in self._entries())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends: after the oldest unread files, as many as the limit allows."""
        offset = Offset.of(start)
        entries = self._entries()
        unread = offset.unread(entries)
        if self._until is not None:
            unread = [entry for entry in unread if entry.name in self._until]
        taken = self._admitted(unread, limit)
        if not taken:
            return start
        # Also those that come after AvailableNow: the next run takes them.
        read = {entry.name for entry in taken}
        left = [entry for entry in offset.unread(entries) if entry.name not in read]
        return offset.after(taken, left, entries, self._tracked).stored()

    def _admitted(self, unread: list[Entry], limit: ReadLimit) -> list[Entry]:
        """The first files that stay within the limits; one at least, or nothing would go on."""
        if isinstance(limit, ReadAllAvailable):
            return unread
        files, size = self._max_files, self._max_bytes
        if isinstance(limit, ReadMaxFiles):
            files = limit.max_files
        elif isinstance(limit, ReadMaxBytes):
            size = limit.max_bytes
        else:
            raise UnsupportedError(f"arrowipc limits a micro-batch by files or bytes, not by {limit}")
        taken: list[Entry] = []
        total = 0
        for entry in unread[:files]:
            total += entry.size
            if taken and size is not None and total > size:
                break
            taken.append(entry)
        return taken

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
        unread = before.unread(self._entries())
        still = {entry.name for entry in after.unread(unread)}
        names = [entry.name for entry in unread if entry.name not in still]
        missing = set(after.digests) - set(before.digests) - {digest(name) for name in names}
        if missing and not self._options.ignore_missing:
            raise UsageError(
                f"{self._storage.root}: {len(missing)} of the files of this micro-batch no longer exist; files must "
                "stay until the batch that reads them is committed. Put them back under their names, "
                "begin anew with another checkpoint, or pass over them with ignoreMissingFiles=true"
            )
        if not names:
            return []
        paths = [self._storage.path(name) for name in names]
        return ArrowIpcReader(self._schema, replace(self._options, paths=paths)).partitions()

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read one partition as batches that have exactly the schema."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: what was read is in the offset, and files stay where they are."""

    def _entries(self) -> list[Entry]:
        """All files that can be data.

        Raises
        ------
        UsageError
            The directory is not there: as if all files were gone, which would then be read again.
        """
        if not self._storage.exists():
            raise UsageError(f"{self._storage.root}: no such directory; make it before the stream begins")
        return [entry for entry in self._storage.files() if passes(entry.name, self._pattern)]
