"""The file that a writer appends to: checked, and copied up to the end of its last message."""

from __future__ import annotations

import errno
import os
import stat
import struct
from typing import TYPE_CHECKING, Any

from arrowipc._core import Source
from arrowipc.errors import FormatError, TruncatedError, UnsupportedError, UsageError
from arrowipc.read.framing import checksum_of
from arrowipc.read.message_index import find_schema
from arrowipc.reader import RecordBatchFileReader
from arrowipc.sources.file_objects import read_at
from arrowipc.write.atomic_file import KnownPath, NewFile, named
from arrowipc.write.batch_writer import DescriptorSink

if TYPE_CHECKING:
    from typing import Literal, Self

    from arrowipc.arguments import KeyValueMetadata
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.schemas import Schema

__all__ = ["ExistingFile"]

#: How ``Block`` structs are stored, see File.fbs.
BLOCK = struct.Struct("<qi4xq")


class ExistingFile:
    """A complete Arrow IPC file at a path, opened to be continued.

    It is opened once and read through that one descriptor: whoever replaces the file meanwhile changes
    nothing, and keeps the new file from replacing theirs.

    Attributes
    ----------
    schema : Schema
    metadata : pairs of bytes
        Of the footer.
    version : {"V5", "V4"}
    checksum : bool
        Its messages have checksums, and new ones need them.
    end : int
        Where the next message may begin: after the last one.
    batch_blocks, dictionary_blocks : bytes
        ``Block`` structs of the footer.
    last_batch : RecordBatch or None
        A batch with all dictionaries of the file as they stand.

    Raises
    ------
    FormatError
        It is not a complete file, or its footer and its messages disagree.
    """

    version: Literal["V4", "V5"]
    last_batch: RecordBatch | None

    def __init__(self, path: KnownPath) -> None:
        self._path, self._copied = path, False
        self._name = os.fsdecode(path)
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - close() does
        try:
            if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                raise UsageError(f"append: {self._name!r} is not a regular file")
            self._examine()
        except FormatError as error:
            self.close()
            error.args = (f"append to {self._name!r}: {error}",)
            raise
        except BaseException:
            self.close()
            raise

    def _examine(self) -> None:
        # Strict: blocks that overlap are refused. No value is looked at; the byte order is shown as it is.
        reader = RecordBatchFileReader(self._file, validate="strict", ensure_native_endian=False, verify=None)
        decoder = reader.decoder
        if decoder.damage is not None:
            raise decoder.damage
        self.schema: Schema = reader.schema
        self.metadata: KeyValueMetadata = reader.metadata
        if self.schema.endianness != "little":
            raise UnsupportedError("append: the file is big-endian and we write little-endian; write it again")
        # Opens every message and compares it with its block, whatever the footer says of rows.
        self._lengths = [decoder.num_rows(i, *reader.batch_head(i)) for i in range(len(reader))]
        self._reader, batches = reader, reader.blocks
        # Dictionaries that no batch uses are left behind: the first batch brings its own.
        count = decoder.num_dictionaries if batches else 0
        dictionaries = [decoder.block(i, dictionary=True) for i in range(count)]
        first = min([offset for offset, _, _ in batches + dictionaries], default=decoder.messages_end)
        beginning = bytearray(first)
        read_at(self._file, 0, memoryview(beginning))
        at, start, message = find_schema(Source(beginning), first)
        # Without batches, only the end-of-stream marker may stand between.
        if message is None and at != first and (batches or at != first - 8):
            raise FormatError(f"expected the Schema message at byte 8, or a message that the footer lists at byte {at}")
        self.version = message.version if message is not None else "V4" if decoder.version == "V4" else "V5"
        self.checksum: bool = message is not None and checksum_of(message) is not None
        self.end: int = max([start] + [offset + head + body for offset, head, body in batches + dictionaries])
        if self.end % 8:
            raise UnsupportedError(f"append: the last message ends at byte {self.end}, not at a multiple of 8")
        self.batch_blocks: bytes = b"".join([BLOCK.pack(*block) for block in batches])
        self.dictionary_blocks: bytes = b"".join([BLOCK.pack(*block) for block in dictionaries])
        self.last_batch = RecordBatchFileReader(self._file).get_batch(-1) if dictionaries else None

    def tell(self, statistics: Any) -> None:
        """Add the statistics of this file's batches to those of the new footer."""
        from arrowipc.filters.statistics import entries_of
        from arrowipc.sources.file_statistics import file_statistics

        for found, length in zip(file_statistics(self._reader), self._lengths, strict=True):
            rows = max([each.rows for each in (found or {}).values()], default=None)
            statistics.add(rows, entries_of([(path, *each[1:]) for path, each in (found or {}).items()]), length)

    @classmethod
    def find(cls, target: Any) -> tuple[KnownPath, Self | None]:
        """Open the file at `target`; return its path and the opened file, None if there is none.

        Raises
        ------
        UsageError
            `target` is not the path of a regular file.
        """
        if not isinstance(target, (str, os.PathLike)) or (isinstance(target, str) and "://" in target):
            found = "a URL" if isinstance(target, str) else type(target).__name__
            raise UsageError(
                "append: expected the path of a file: only there the old content can stay until the new "
                f"one is complete; found {found}"
            )
        known = KnownPath(target)
        try:
            if known.found is None:
                return known, None
            if stat.S_ISDIR(known.found.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(target))
            if not stat.S_ISREG(known.found.st_mode):
                # Not opened for reading: that could wait for somebody at the other end of a pipe.
                raise UsageError(f"append: {os.fsdecode(target)!r} is not a regular file")
            return known, cls(known)
        except BaseException:
            known.close()
            raise

    def copied(self, durable: bool) -> DescriptorSink:
        """Copy everything up to `end` into a new file that will replace this one; return its sink."""
        opened = NewFile(self._path, durable)
        self._copied = True  # `opened` closes it now
        try:
            self._file.seek(0)
            done = 0
            with named(self._name):
                while done < self.end:
                    done += self._copy_some(opened.descriptor, self.end - done)
            sink = DescriptorSink(opened.descriptor, self._name, self.end)
        except BaseException:
            opened.discard()
            raise
        sink.behind = opened
        return sink

    def _copy_some(self, target: int, size: int) -> int:
        """Copy up to `size` bytes at the positions of both files, within the kernel where it can do that."""
        source = self._file.fileno()
        if hasattr(os, "copy_file_range"):
            try:
                count = os.copy_file_range(source, target, size)
                if count:
                    return count
            except OSError:
                pass  # across file systems, or an old kernel
        data = os.read(source, min(size, 1 << 20))
        if not data:
            raise TruncatedError(f"append to {self._name!r}: the file became shorter while it was copied")
        done = 0
        while done < len(data):
            done += os.write(target, data[done:])
        return done

    def close(self) -> None:
        """Close the old file; a copy that was made still knows it."""
        self._file.close()
        if not self._copied:
            self._path.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
