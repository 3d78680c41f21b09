"""Appending: a file is copied up to the end of its last message, and a stream is continued in place."""

from __future__ import annotations

import errno
import os
import stat
import struct
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from arrowipc._core import Descriptor, Source
from arrowipc.decode.framing import Framer, checksum_of
from arrowipc.decode.message_index import find_message, find_schema
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.encode.atomic_file import IN_USE, KnownPath, NewFile, named, sync_directory
from arrowipc.encode.batch_writer import DescriptorSink
from arrowipc.errors import FormatError, TruncatedError, UnsupportedError, UsageError
from arrowipc.maps.file_maps import FileMap
from arrowipc.reader import Closing, RecordBatchFileReader
from arrowipc.sources.file_objects import read_at
from arrowipc.sources.locks import LONGEST_LOOK, lock, unlock
from arrowipc.sources.source import CONTINUATION, END
from arrowipc.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal, Self

    from arrowipc.arguments import KeyValueMetadata
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.schemas import Schema

#: The most zeros that may follow the end of a stream; a power failure can leave them.
MOST_ZEROS = 1 << 20
#: The layout of stored ``Block`` structs, see File.fbs.
BLOCK = struct.Struct("<qi4xq")


def _known(target: Any) -> KnownPath:
    """Return the path that a caller gave, after checking that a regular file or nothing is there."""
    if not isinstance(target, (str, os.PathLike)) or (isinstance(target, str) and "://" in target):
        found = "a URL" if isinstance(target, str) else type(target).__name__
        raise UsageError(
            "append: expected the path of a file: only there the old content can stay until the new "
            f"one is complete; found {found}"
        )
    known = KnownPath(target)
    mode = stat.S_IFREG if known.found is None else known.found.st_mode
    if not stat.S_ISREG(mode):
        known.close()
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(target))
        # Do not open it for reading: opening a pipe could wait for its other end.
        raise UsageError(f"append: {os.fsdecode(target)!r} is not a regular file")
    return known


@contextmanager
def _examining(name: str, close: Callable[[], None]) -> Iterator[None]:
    """Close the file after an error in a ``with`` block, and name the file in a `FormatError`."""
    try:
        yield
    except FormatError as error:
        close()
        error.args = (f"append to {name!r}: {error}",)
        raise
    except BaseException:
        close()
        raise


def _check_form(schema: Schema, end: int) -> None:
    """Refuse a file or a stream that our messages cannot follow: big-endian, or with an unaligned end."""
    if schema.endianness != "little":
        raise UnsupportedError("append: the file is big-endian and we write little-endian; write it again")
    if end % 8:
        raise UnsupportedError(f"append: the last message ends at byte {end}, not at a multiple of 8")


class ExistingFile(Closing):
    """A complete Arrow IPC file at a path, opened to be continued.

    It is opened once and read through that one descriptor. If another process replaces the file meanwhile, reading is
    not affected, and our new file does not replace theirs.
    """

    version: Literal["V4", "V5"]
    #: Whether its messages have checksums, so that new ones need them too.
    checksum: bool
    #: The end of the last message, where the next one may begin.
    end: int
    #: The last batch, with all dictionaries of the file as they are now, and the number of these dictionaries.
    last_batch: RecordBatch | None = None
    num_dictionaries: int = 0

    def __init__(self, path: KnownPath) -> None:
        self._path, self._copied = path, False
        self._name = os.fsdecode(path)
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - close() does
        with _examining(self._name, self.close):
            self._examine()

    def _examine(self) -> None:
        # "strict" refuses blocks that overlap. No values are read, and the schema keeps its byte order.
        reader = RecordBatchFileReader(self._file, validate="strict", ensure_native_endian=False, verify=None)
        decoder = reader.decoder
        if decoder.damage is not None:
            raise decoder.damage
        self.schema: Schema = reader.schema
        self.metadata: KeyValueMetadata = reader.metadata
        # This opens every message and compares it with its block, even if the footer states the numbers of rows.
        self._lengths = [decoder.described(i, *reader.batch_head(i))[1] for i in range(len(reader))]
        self._reader, batches = reader, reader.blocks
        # Without batches, drop the dictionaries: nothing uses them, and the first batch brings its own.
        count = decoder.num_dictionaries if batches else 0
        dictionaries = [decoder.block(i, dictionary=True) for i in range(count)]
        first = min([offset for offset, _, _ in batches + dictionaries], default=decoder.messages_end)
        beginning = bytearray(first + 8)  # old writers left the last byte of the Schema message in the next one
        read_at(self._file, 0, memoryview(beginning))
        at, start, message = find_schema(Source(beginning), first)
        # Between the Schema message and the first block, only an end-of-stream marker may be, and only without batches.
        if message is None and at != first and (batches or at != first - 8):
            raise FormatError(f"expected the Schema message at byte 8, or a message that the footer lists at byte {at}")
        self.version = message.version if message is not None else "V4" if decoder.version == "V4" else "V5"
        self.checksum = message is not None and checksum_of(message) is not None
        self.end = max([start] + [offset + head + body for offset, head, body in batches + dictionaries])
        _check_form(self.schema, self.end)
        self.batch_blocks: bytes = b"".join([BLOCK.pack(*block) for block in batches])
        self.dictionary_blocks: bytes = b"".join([BLOCK.pack(*block) for block in dictionaries])
        self.num_messages: int = 1 + len(batches) + len(dictionaries)
        if dictionaries:
            whole = RecordBatchFileReader(self._file)
            self.last_batch = whole.get_batch(-1)
            self.num_dictionaries = whole.stats.num_dictionary_batches - whole.stats.num_dictionary_deltas

    def add_statistics(self, statistics: Any) -> None:
        """Add the statistics of this file's batches to `statistics`, which the new footer will have."""
        from arrowipc.filters.statistics import entries_of
        from arrowipc.sources.file_statistics import file_statistics

        for found, length in zip(file_statistics(self._reader), self._lengths, strict=True):
            rows = max([each.rows for each in (found or {}).values()], default=None)
            statistics.add(rows, entries_of([(path, *each[1:]) for path, each in (found or {}).items()]), length)

    @classmethod
    def find(cls, target: Any) -> tuple[KnownPath, Self | None]:
        """Return the checked path, and the opened file; None if there is no file at `target`."""
        known = _known(target)
        try:
            return known, None if known.found is None else cls(known)
        except BaseException:
            known.close()
            raise

    def copy_to_new(self, durable: bool) -> DescriptorSink:
        """Copy everything up to `end` into a new file that will replace this one; return its sink."""
        opened = NewFile(self._path, durable)
        self._copied = True  # from now on `opened` closes the path
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
        """Copy up to `size` bytes from and to the current positions, by the kernel if it can; return how many."""
        source = self._file.fileno()
        if hasattr(os, "copy_file_range"):
            try:
                count = os.copy_file_range(source, target, size)
                if count:
                    return count
            except OSError:
                pass  # two file systems, or an old kernel
        data = os.read(source, min(size, 1 << 20))
        if not data:
            raise TruncatedError(f"append to {self._name!r}: the file became shorter while it was copied")
        done = 0
        while done < len(data):
            done += os.write(target, data[done:])
        return done

    def close(self) -> None:
        """Close the old file. A copy of it keeps the path open, to check it later."""
        self._file.close()
        if not self._copied:
            self._path.close()


class ExistingStream:
    """A stream at a path, continued in place and locked against other writers. The file is made if there is none.

    What follows its last whole message (an end marker, or a message that was not finished) is cut off just before the
    first byte is written. The attributes are those of `ExistingFile`, and ``legacy``, which is true for the framing
    from before Arrow 0.15. ``schema`` is None if the file is empty, and ``last_batch`` has no rows.
    """

    batch_blocks = dictionary_blocks = b""
    schema: Schema | None = None
    version: Literal["V4", "V5"] | None = None
    legacy: bool = False
    checksum: bool = False
    end: int = 0
    num_messages: int = 0
    last_batch: RecordBatch | None = None
    num_dictionaries: int = 0  # in a stream, dictionaries that are written again replace those that are there

    def __init__(self, target: Any, durable: bool) -> None:
        known = _known(target)
        known.close()
        self._name = os.fspath(known)
        self._durable = durable
        self._is_new = known.found is None
        self._is_cut = False
        self._file = self._locked()
        with _examining(self._name, self.discard):
            size = os.lseek(self._file.fileno(), 0, os.SEEK_END)
            if size:
                self._examine(Source(FileMap(self._file.fileno())))

    def _locked(self) -> Descriptor:
        with named(self._name):
            while True:
                file = Descriptor(self._name, os.O_RDWR | os.O_CREAT)
                if not lock(file.fileno(), LONGEST_LOOK):
                    file.close()
                    raise OSError(errno.EBUSY, IN_USE, self._name)
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(file.fileno()), os.stat(self._name)):
                        return file
                # The file was renamed or removed meanwhile, so the path leads to another file or to none: try again.

    def _examine(self, data: Source) -> None:
        framer, decoder = Framer(verify=None), StreamDecoder(ensure_native_endian=False)
        framer.feed(data.part(0, len(data)))
        while (message := framer.next_message()) is not None:
            if self.end == 0:
                self.checksum = checksum_of(message) is not None
            if self.end == 0 or message.kind != "RecordBatch":
                decoder.feed(message.serialize())  # a copy, because another process may cut the file short
                decoder.next_event()
            self.end, self.version = framer.bytes_consumed, message.version
            self.num_messages += 1
        self._check_rest(data, framer, decoder)
        if decoder.schema is not None:
            _check_form(decoder.schema, self.end)
            self.schema = decoder.schema
            self.legacy = data.bytes(0, 4) != CONTINUATION
            decoder.feed(Table(self.schema).combine().serialize())
            self.last_batch = decoder.next_batch()

    def _check_rest(self, data: Source, framer: Framer, decoder: StreamDecoder) -> None:
        """Raise a `FormatError` if there is more to cut off than an end marker or the beginning of one message."""
        at, stop, size = self.end, framer.bytes_consumed, len(data)
        if framer.at_end and (size - stop > MOST_ZEROS or data.bytes(stop, size - stop).strip(b"\0")):
            raise FormatError(f"other bytes follow the end of the stream at byte {at:,}: it cannot go on")
        if at == 0 and not CONTINUATION.startswith(data.bytes(0, min(size, 4))):
            raise FormatError("this is no Arrow IPC stream: no message begins at its first byte")
        while (found := find_message(data, at + 8)) is not None:
            at, end, message = found
            if size - end in (0, len(END)) and END.startswith(data.bytes(end, size - end)) and decoder.fits(message):
                raise FormatError(
                    f"the message at byte {self.end:,} claims more bytes than there are, and whole ones follow it: "
                    "arrowipc.recover(path, resync=True, into=path) keeps these"
                )

    def sink(self) -> DescriptorSink:
        """Return a sink that writes the next messages."""
        sink = DescriptorSink(self._file.fileno(), self._name, self.end, self._prepare_descriptor)
        sink.behind = self
        return sink

    def _prepare_descriptor(self) -> int:
        number = self._file.fileno()
        if self._check_name().st_size != os.lseek(number, 0, os.SEEK_CUR):
            raise OSError(errno.ESTALE, "somebody else wrote to the stream or cut it short", self._name)
        if not self._is_cut:
            os.ftruncate(number, self.end)
            os.lseek(number, self.end, os.SEEK_SET)
            self._is_cut = True
        return number

    def _check_name(self) -> os.stat_result:
        """Raise an OSError if the file has no name any more: nobody could find the rows. A renamed file is fine."""
        found = os.fstat(self._file.fileno())
        if found.st_nlink == 0:
            raise OSError(
                errno.ESTALE,
                "the stream was removed, or another file took its place, and what was written to it is lost: begin "
                "again with new_stream(path, append=True)",
                self._name,
            )
        return found

    def commit(self) -> None:
        """Close the file; with `durable`, wait first until it is on the disk."""
        with closing(self), named(self._name):
            if self._durable:
                os.fsync(self._file.fileno())
                with Descriptor(os.path.dirname(os.path.realpath(self._name)), os.O_RDONLY) as folder:
                    sync_directory(folder)
            self._check_name()

    def discard(self) -> None:
        """Close the file. What was written stays, without an end marker; an empty file that we made is removed."""
        if self._is_new and not self._is_cut:
            with suppress(OSError):
                found = os.stat(self._name)
                if found.st_size == 0 and os.path.samestat(found, os.fstat(self._file.fileno())):
                    os.unlink(os.path.realpath(self._name))
        self.close()

    def close(self) -> None:
        """Close the file and release its lock."""
        unlock(self._file.fileno())
        self._file.close()
