"""The I/O of dense and sparse tensors: encapsulated tensor messages from any source, and into any sink.

In a sink, messages and the buffers of their bodies begin at multiples of 64 bytes, counted from the sink's
beginning: if a sink is at another position, zeros are written first, and readers skip them.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from arrowipc.decode.framing import Framer, Message
from arrowipc.encode.batch_writer import FixedSink
from arrowipc.encode.targets import open_sink
from arrowipc.errors import FormatError, TruncatedError, UsageError
from arrowipc.sources.file_objects import FileObjectError, position_of, read_up_to
from arrowipc.sources.source import open_source, pump
from arrowipc.tensors.message import leading_padding, stored_length, write_message
from arrowipc.tensors.strided_copy import Gathered

if TYPE_CHECKING:
    from arrowipc.limits import Limits


# -- reading -------------------------------------------------------------------------------------------------


def read_framed(source: Any, limits: Limits | None = None) -> Message:
    """Read the one message of a source, of kind "Tensor" or "SparseTensor"; a `Message` is returned as it is.

    Memory is not copied, a path is mapped. A file object or socket file is read from its position to the end of the
    message, whose body is then in memory aligned to 64 bytes.
    """
    if isinstance(source, Message):
        return source
    messages = read_framed_all(source, limits)
    try:
        return next(messages)
    except StopIteration:
        raise TruncatedError("no message: the input is empty or begins with an end-of-stream marker") from None
    finally:
        messages.close()


def read_framed_all(source: Any, limits: Limits | None = None) -> Generator[Message, None, None]:
    """Iterate over the tensor messages of a source, one after another, until it ends."""
    buffer, file, owned = open_source(source, True)
    opened = file if owned else None

    def rest(start: int) -> Any:
        return memoryview(buffer).cast("B")[start:] if start else buffer

    try:
        start = 0
        while file is not None or start < memoryview(buffer).nbytes:
            framer = Framer(limits)
            if file is None:
                start += leading_padding(rest(start))
                framer.feed(rest(start), True)
                message = framer.next_message()
                start += framer.bytes_consumed
            else:
                message = _next_in_file(framer, file)
            if message is None:
                return
            if message.kind not in ("Tensor", "SparseTensor"):
                raise FormatError(
                    f"expected a Tensor or SparseTensor message, found {message.kind}: read streams with "
                    "open_stream(), files with open_file()"
                )
            yield message
    finally:
        if opened is not None:
            opened.close()


def _next_in_file(framer: Framer, file: Any) -> Message | None:
    first = _skip_padding(file)
    if first:
        framer.feed(first)
    while (message := framer.next_message()) is None:
        if framer.at_end:
            return None
        pump(framer, file)
    return message


def _skip_padding(file: Any) -> bytes:
    """Skip zeros, four bytes at a time; return the bytes of the message that were read after them."""
    skipped = b""
    while len(skipped) < 64:
        word = read_up_to(file, 4)
        if len(word) < 4 or any(word):
            marker = word.lstrip(b"\0")
            # Leading zeros of the very first word are kept if it is not the start of a continuation marker: it may be
            # a size from before version 0.15.
            return marker if skipped or not marker.strip(b"\xff") else word
        skipped += word
    return skipped


# -- writing -------------------------------------------------------------------------------------------------


def write_framed(target: Any, head: bytes, buffers: Sequence[Any], *, durable: bool = True) -> int:
    """Write a head, which ends at a multiple of 64, and the buffers of a body, each at a multiple of 64 in the sink.

    A file gets its name when the message is complete. A bytearray is appended to; an mmap is written at its position,
    other memory at its beginning. Return the number of bytes written, including the zeros in front.
    """
    if type(target) is memoryview and target.c_contiguous and not target.readonly:
        return _write_to_memory(target, head, buffers)
    sink = open_sink(target, durable)
    position = _position_of(target)
    try:
        if zeros := stored_length(position) - position:
            head = bytes(zeros) + head
        if isinstance(sink, FixedSink):
            _check_room(buffer_size(target) - position, head, buffers)
        written = write_message(sink, head, buffers)
    except BaseException:
        sink.discard()
        if isinstance(target, bytearray) and len(target) > position:
            del target[position:]
        raise
    sink.commit()
    return written


def _write_to_memory(target: memoryview, head: bytes, buffers: Sequence[Any]) -> int:
    """Write to memory without `open_sink`, which would be slow for small tensors in shared memory."""
    _check_room(target.nbytes, head, buffers)
    sink = FixedSink(target)
    try:
        return write_message(sink, head, buffers)
    finally:
        sink.release()


def _position_of(target: Any) -> int:
    """Return the position of the next byte in a target; 0 if it is unknown, as for pipes and sockets."""
    if isinstance(target, bytearray):
        return len(target)
    if isinstance(target, (str, os.PathLike)) or not hasattr(target, "tell"):
        return 0
    try:
        return position_of(target)
    except FileObjectError:
        raise
    except (OSError, ValueError, TypeError):
        return 0


def buffer_size(buffer: Any) -> int:
    """Return the bytes of a buffer of a body: bytes-like, or `Gathered`."""
    if isinstance(buffer, (bytes, memoryview, Gathered)):
        return len(buffer) if isinstance(buffer, bytes) else buffer.nbytes
    with memoryview(buffer) as view:
        return view.nbytes


def _check_room(room: int, head: bytes, buffers: Sequence[Any]) -> None:
    """Refuse a message that does not fit, before anything is written."""
    size = len(head)
    for buffer in buffers:
        size += stored_length(buffer_size(buffer))
    if size > room:
        raise UsageError(
            f"the buffer is full: the tensor needs {size:,} bytes and {room:,} are left "
            "(get_tensor_size() tells what a tensor needs)"
        )
