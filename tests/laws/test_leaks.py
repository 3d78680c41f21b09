"""Leaks: however often it is done, whatever way it ends, memory stays flat and buffers go to their owners.

Each case prints its bytes per operation: what malloc, Python's allocator and Arrow's pool hold more than
before, over the number of times. A campaign (see `helpers.processes`) does some a million times.
"""

import contextlib
import ctypes
import gc
import io
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import arrow_columns, drive, forge, scenarios
from helpers.memory import counts, more_than, resident
from helpers.processes import FULL, rounds

import arrowipc as ipc
from arrowipc.limits import Limits

COUNT = rounds(600, 20_000)
MOST = 0.1
#: What lists and tables of the interpreter may grow by once; the least leak per operation is far above it.
SLACK = 4096

Operation = Callable[[], Any]


class Mallinfo(ctypes.Structure):
    """struct mallinfo2 of the GNU C library: what is mapped and what is in use are two of ten numbers."""

    _fields_ = [(name, ctypes.c_size_t) for name in (*"abcd", "hblkhd", *"fg", "uordblks", *"ij")]


def held() -> int:
    """Bytes in use: by malloc, Python's allocator (16 for each block, the least there is), Arrow's pool."""
    ipc.release_unused()
    gc.collect()
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Mallinfo
    found = libc.mallinfo2()
    return int(found.uordblks + found.hblkhd + 16 * sys.getallocatedblocks() + pa.total_allocated_bytes())


def stays_flat(name: str, operation: Operation, count: int, capsys: pytest.CaptureFixture[str] | None = None) -> None:
    """What is held is what was held before; tables that grow do so once, a leak is there all six times."""
    for _ in range(max(20, min(count // 10, 2000))):
        operation()
    alive, grown, pages = counts(), count * 1000, []
    # The first time fills holes that other tests left: pages are counted from then on.
    while len(pages) < (1 if count < 100_000 else 2) or (len(pages) < 6 and grown > MOST * count + SLACK):
        before = held()
        for _ in range(count):
            operation()
        grown = min(grown, held() - before)
        ctypes.CDLL(None).malloc_trim(0)
        pages.append(resident())
    more = (pages[-1] - pages[0]) // max(1, len(pages) - 1)
    with capsys.disabled() if capsys is not None and count > COUNT else contextlib.nullcontext():
        print(f"\n{name}: {grown / count:+.4f} bytes each of {count:,}; resident {more / count:+.4f}")
    assert not more_than(alive)
    assert grown <= MOST * count + SLACK
    assert count < 100_000 or more <= MOST * count + (1 << 20)


pytestmark = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs the GNU C library, 2.33")


@pytest.fixture(autouse=True, scope="module")
def what_was_there_is_left_alone() -> Iterator[None]:
    """A collection looks at what these tests make, not at every module that others have loaded."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


measured = pytest.mark.nosanitize  # AddressSanitizer's allocator has no mallinfo2, and keeps what is freed


def half_way(data: bytes) -> None:
    """Iterators abandoned, and a with block left by an exception."""
    iterator = iter(ipc.open_stream(data))
    next(iterator)
    pulled = iter(ipc.open_stream(io.BytesIO(data)))
    next(pulled)
    decoder = ipc.StreamDecoder()
    decoder.feed(data[: len(data) // 2])
    next(iter(decoder))
    decoder.get_buffer() if not decoder.next_event() and not decoder.bytes_needed else None
    with contextlib.suppress(KeyError), ipc.open_stream(data) as reader:
        next(reader)
        raise KeyError
    with contextlib.suppress(KeyError), ipc.new_stream(bytearray(), reader.schema) as writer:
        writer.write(ipc.open_stream(data))
        raise KeyError


#: Small ones, of which a campaign does a million, half of them at a time.
OFTEN = {
    *("big endian streams", "the push decoder", "dictionaries with deltas", "a stream copied"),
    *("payloads decoded", "payloads that fail are skipped", "payloads encoded by key", "imported column by column"),
    *("exported streams", "messages one by one", "capsules that nobody takes"),
}


@measured
@pytest.mark.campaign
@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_every_scenario_stays_flat(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    few = name in scenarios.POOLED | scenarios.FOREIGN - OFTEN or "written" in name or name == "pictures"
    count = 500_000 if FULL and name in OFTEN else COUNT // 10 if few else COUNT // 2
    stays_flat(name, scenarios.SCENARIOS[name](), count, capsys)


@measured
def test_what_is_abandoned_stays_flat() -> None:
    stays_flat("abandoned", partial(half_way, arrow_columns.stream(*[scenarios.numbers()] * 3)), COUNT)


def bad() -> dict[str, tuple[bytes, dict[str, Any]]]:
    """What is wrong -> the bytes of a stream and the options to read them with."""
    small = scenarios.numbers()
    good = arrow_columns.stream(small, small)
    packed = arrow_columns.stream(scenarios.large().slice(0, 1000), compression="lz4")
    text = forge.schema(forge.field("t", forge.Table("Utf8")))
    offsets = forge.batch(2, [(2, 0)], [b"", forge.i32(0, 9, 4), b"abcd"])
    metadata = bytearray(good)
    metadata[20:24] = b"\xff\xff\xff\x7f"
    frames = bytearray(packed)
    frames[len(packed) // 2] ^= 0xFF
    frames[len(packed) // 3] ^= 0xFF
    return {
        "truncated in the body": (good[:-70], {}),
        "truncated in the metadata": (good[:40], {}),
        "bad metadata": (bytes(metadata), {}),
        "bad body": (forge.stream(text, offsets), {}),
        "a limit": (good, {"limits": Limits(rows_per_batch=1)}),
        "bad frames": (bytes(frames), {}),
        "an unknown column": (good, {"columns": ["nobody"]}),
        "something else": (b"PAR1" + good, {}),
    }


def message_after_message(data: Any, **options: Any) -> None:
    """All messages, decoded as the events of a stream."""
    decoder = ipc.StreamDecoder(**options)
    for message in ipc.MessageReader(data):
        decoder.decode_next(message)


def as_payload(data: Any, **options: Any) -> None:
    decoded = ipc.decode_payloads([data], on_error="skip", **options)
    for _, error in decoded.failures:
        raise error


def exported(data: Any, **options: Any) -> None:
    pa.RecordBatchReader.from_stream(ipc.open_stream(data, **options)).read_all()


ENTRIES: dict[str, Callable[..., Any]] = {
    "open_stream": lambda data, **options: list(ipc.open_stream(data, **options)),
    "open_stream of an object": lambda data, **options: list(ipc.open_stream(io.BytesIO(data), **options)),
    "StreamDecoder": lambda data, **options: drive.pushed(memoryview(data), repeat(33), **options),
    "messages": message_after_message,
    "payload": as_payload,
    "export": exported,
}
#: What is refused -> an operation that takes the buffer, and what is in it.
REFUSED: dict[str, tuple[Callable[[bytearray], Any], bytes]] = {
    f"{case}, {entry}": (partial(read, **options), data)
    for case, (data, options) in bad().items()
    for entry, read in ENTRIES.items()
} | {
    "a file": (ipc.open_file, b"ARROW1\0\0" + bytes(40) + b"ARROW1"),
    "recover": (lambda data: list(ipc.recover(data)), b"nonsense" * 9),
    "a tensor": (ipc.read_tensor, ipc.Tensor.from_numpy(np.eye(3)).serialize()[:-9]),
    "a sparse tensor": (ipc.read_sparse_tensor, b"\xff" * 80),
    "a schema": (ipc.read_schema, b"\0\1\2\3" * 9),
    "a message": (ipc.read_message, b"\xff\xff\xff\xff\x08\0\0\0"),
    "a payload": (lambda data: ipc.decode_payloads([data]), b"nonsense" * 9),
    "a writer": (lambda data: ipc.new_stream(memoryview(data), scenarios.ours().schema), bytes(64)),
    "a capsule": (lambda _: ipc.RecordBatch.from_arrow(pa.array([1, 2])), b""),
    "values": (lambda _: ipc.RecordBatch.from_pydict({"a": ["x"]}, ipc.schema({"a": "int8"})), b""),
}
#: Errors of ours, and those that pyarrow makes of them.
ERRORS = (ipc.ArrowIpcError, pa.ArrowException, NotImplementedError)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_lets_go_of_the_buffer(name: str) -> None:
    """A bytearray cannot be resized while anybody holds its memory."""
    scenarios.ours()  # made once, and kept
    refuse, data = REFUSED[name]
    source, alive = bytearray(data), counts()
    with pytest.raises(ERRORS):
        refuse(source)
    gc.collect()
    assert counts() == alive
    source.append(0)  # BufferError, if it is still exported


@measured
@pytest.mark.parametrize("name", [name for name in REFUSED if not name.endswith("export")])
def test_refusals_stay_flat(name: str) -> None:
    refuse, data = REFUSED[name]

    def refused() -> None:
        with contextlib.suppress(*ERRORS):
            refuse(bytearray(data))

    stays_flat(name, refused, COUNT // 10)


@pytest.mark.parametrize("validate", ["none", "full"])
def test_the_collector_neither_walks_batches_nor_has_to_free_them(validate: Any) -> None:
    source = bytearray(scenarios.deltas())
    gc.collect()
    gc.disable()
    try:
        batches = list(ipc.open_stream(source, validate=validate))
        assert len(batches) > 1
        parts = [*batches, batches[0].slice(1)]
        assert not any(map(gc.is_tracked, parts))
        with pytest.raises(BufferError):
            source.append(0)
        del batches, parts
        source.append(0)
    finally:
        gc.enable()


def test_the_counters_and_the_buffer_see_what_is_held() -> None:
    """The control: a batch holds its source, and says so."""
    gc.collect()
    source, alive = bytearray(arrow_columns.stream(scenarios.numbers())), counts()
    batches = list(ipc.open_stream(source))
    assert more_than(alive) == {"sources": alive["sources"] + 1}
    with pytest.raises(BufferError):
        source.append(0)
    del batches
    source.append(0)
    assert counts() == alive


@measured
def test_a_leak_is_seen() -> None:
    """The control: 16 bytes per operation are too many."""
    kept: list[bytes] = []
    with pytest.raises(AssertionError):
        stays_flat("a leak", lambda: kept.append(bytes(1)), COUNT)
