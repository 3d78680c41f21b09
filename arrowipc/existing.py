"""The file that a writer appends to: checked, and copied up to the end of its last message."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

from arrowipc.errors import UnsupportedError, UsageError
from arrowipc.reader import MessageReader, RecordBatchFileReader

if TYPE_CHECKING:
    from typing import Literal, Self

    from arrowipc._array import RecordBatch
    from arrowipc.schema import Schema

__all__ = ["ExistingFile"]

#: How ``Block`` structs are stored, see File.fbs.
BLOCK = struct.Struct("<qi4xq")


class ExistingFile:
    """A complete Arrow IPC file at a path, opened to be continued.

    Attributes
    ----------
    schema : Schema
    metadata : pairs of bytes
        Of the footer.
    version : {"V5", "V4"}
    end : int
        Where the next message may begin: behind the last one.
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

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # Strict: blocks that overlap are refused. Values are not looked at.
        reader = RecordBatchFileReader(path, validate="strict")
        decoder = reader._decoder
        self._path = path
        self.schema: Schema = reader.schema
        self.metadata = reader.metadata
        reader.count_rows()  # opens every message and compares it with its block
        batches = reader.blocks
        dictionaries = [decoder.block(i, dictionary=True) for i in range(decoder.num_dictionaries)]
        if dictionaries and not batches:
            raise UnsupportedError("append: the file has dictionaries and no batch that uses them; write it again")
        with open(path, "rb") as file:
            file.seek(8)
            messages = MessageReader(file)
            self.version = messages.read_next_message().version
            start = 8 + messages.bytes_consumed
        self.end = max([start] + [offset + head + body for offset, head, body in batches + dictionaries])
        if self.end % 8:
            raise UnsupportedError(f"append: the last message ends at byte {self.end}, not at a multiple of 8")
        self.batch_blocks = b"".join([BLOCK.pack(*block) for block in batches])
        self.dictionary_blocks = b"".join([BLOCK.pack(*block) for block in dictionaries])
        self.last_batch = RecordBatchFileReader(path).get_batch(-1) if dictionaries else None

    @classmethod
    def find(cls, target: Any) -> Self | None:
        """Open the file at `target`; None when there is none.

        Raises
        ------
        UsageError
            `target` is not the path of a regular file.
        """
        if not isinstance(target, (str, os.PathLike)) or (isinstance(target, str) and "://" in target):
            raise UsageError(
                "append: expected the path of a file: only there the old content can stay until the new one is "
                f"complete; found {type(target).__name__}"
            )
        return cls(target) if os.path.exists(target) else None

    def copy_to(self, descriptor: int) -> None:
        """Copy everything up to `end` into a new file, and leave its position there."""
        with open(self._path, "rb", buffering=0) as file:
            done = 0
            while done < self.end:
                done += _copy_some(file.fileno(), descriptor, self.end - done)


def _copy_some(source: int, target: int, size: int) -> int:
    """Copy up to `size` bytes at the positions of both files, within the kernel where it can do that."""
    if hasattr(os, "copy_file_range"):
        try:
            count = os.copy_file_range(source, target, size)
            if count:
                return count
        except OSError:
            pass  # across file systems, or an old kernel
    data = os.read(source, min(size, 1 << 20))
    if not data:
        raise UsageError("append: the file became shorter while it was copied")
    done = 0
    while done < len(data):
        done += os.write(target, data[done:])
    return done
